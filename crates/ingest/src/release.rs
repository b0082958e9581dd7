//! Release, by the operator, of articles that a filter refused, hid or set aside.
//!
//! Called by `operators::filter`. States after a crash: `docs/formats/aside.md`.

use super::aside::{self, AsideOriginal};
use super::reviews::{FilterAction, FilterReview};
use super::{BatchOutcome, Filer};
use netnews::MessageId;
use spool::{ArticleKey, ChangeMaker as _, Lookup, ReadError, SpoolTrouble};

/// Output of `filter review` for an article that can be released at once, and for one that must arrive
/// again.
const NOW: &str = "now";
const WHEN_IT_COMES: &str = "when it comes";

/// Reason why an article is not released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// No action of a filter on it is known.
    #[error("no filter is known to have refused or hidden it")]
    Unknown,
    /// The filter only ran in shadow mode and let it in.
    #[error("it was let in: {0} would only have refused it")]
    Shadow(String),
    /// The article was withdrawn while it was set aside, or after its release.
    #[error("it has been withdrawn")]
    Withdrawn,
    /// The article stays set aside, for this reason.
    #[error("it is not filed, and stays set aside: {0}")]
    NotFiled(String),
    /// Hidden by another than the filter.
    #[error("it is hidden by {0}; newsreel unhide shows it")]
    HiddenBy(String),
    /// The article is no longer in the spool.
    #[error("it is not here any more")]
    Gone,
    /// The article that was set aside cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(ReadError),
    /// The release cannot be recorded.
    #[error("{0}")]
    Io(std::io::Error),
    /// The spool takes no changes.
    #[error("{0}")]
    Trouble(SpoolTrouble),
}

/// Returns how an article can be released; empty if it cannot.
pub fn way(filer: &Filer, review: &FilterReview) -> &'static str {
    let spool = &filer.spool;
    let key = spool.key(review.message_id.as_bytes());
    let is_remembered = || spool.lookup(&key) == Lookup::Remembered;
    match review.finding {
        FilterAction::Hidden
            if spool.hidden_article(&key).is_some_and(|hidden| hidden.by == review.filter) =>
        {
            NOW
        }
        FilterAction::Aside if is_remembered() => match aside::lookup(spool, review.message_id.as_bytes()) {
            Lookup::Present(_) => NOW,
            Lookup::Remembered => "",
            _ => WHEN_IT_COMES,
        },
        FilterAction::Refused if is_remembered() => WHEN_IT_COMES,
        _ => "",
    }
}

/// Context of releases.
pub struct ReleaseContext<'a> {
    /// Files the released articles.
    pub filer: &'a Filer,
    /// All findings of filters.
    pub all: Vec<FilterReview>,
}

/// Result of a release, or why it failed.
pub(crate) type ReleaseResult = Result<&'static str, ReleaseError>;

impl ReleaseContext<'_> {
    /// Releases an article according to its last finding.
    pub fn release(&self, id: MessageId<'_>) -> ReleaseResult {
        let key = self.filer.spool.key(id.as_bytes());
        let is_own = |review: &&FilterReview| review.message_id.as_bytes() == id.as_bytes();
        let last = self.all.iter().rev().filter(is_own).find(|review| review.finding != FilterAction::Shadow);
        if let Some(aside) =
            aside::find(&self.filer.spool, id.as_bytes()).map_err(ReleaseError::Unreadable)?
        {
            return self.aside(&aside, id, &key, last);
        }
        let shadow = || self.all.iter().find(is_own).map(|review| review.filter.clone());
        let review = last.ok_or_else(|| shadow().map_or(ReleaseError::Unknown, ReleaseError::Shadow))?;
        match review.finding {
            FilterAction::Refused | FilterAction::Aside => self.refused(&key, review),
            FilterAction::Hidden | FilterAction::Shadow => self.hidden(&key, &review.filter),
        }
    }

    /// Lets an article in when it arrives again.
    fn refused(&self, key: &ArticleKey, review: &FilterReview) -> ReleaseResult {
        match self.filer.spool.lookup(key) {
            Lookup::Remembered => {}
            Lookup::Unknown => return Ok("is let in when it comes"),
            Lookup::Present(_) | Lookup::Hidden(_) | Lookup::Gone => return Ok("has come meanwhile"),
        }
        let was_set_aside = review.finding == FilterAction::Aside;
        if was_set_aside
            && aside::lookup(&self.filer.spool, review.message_id.as_bytes()) == Lookup::Remembered
        {
            return Err(ReleaseError::Withdrawn);
        }
        // The release is recorded before the article can arrive.
        self.filer.reviews().release(*key, &review.filter).map_err(ReleaseError::Io)?;
        match self.forget(key, arrived(review))? {
            true if was_set_aside => Ok("is not here any more, and is let in when it comes again"),
            true => Ok("is let in when it comes again"),
            false => Err(ReleaseError::Gone),
        }
    }

    fn forget(&self, key: &ArticleKey, arrived: u32) -> Result<bool, ReleaseError> {
        self.filer.log.forget(key, arrived).map_err(ReleaseError::Trouble)
    }

    /// Files an article that was set aside. The copy set aside is removed only once the article is durable
    /// in its groups, so a crash leaves it in at least one of both places, and releasing it again finishes
    /// the removal.
    fn aside(
        &self,
        aside: &AsideOriginal,
        id: MessageId<'_>,
        key: &ArticleKey,
        last: Option<&FilterReview>,
    ) -> ReleaseResult {
        let text = match self.filer.spool.lookup(key) {
            Lookup::Present(_) | Lookup::Hidden(_) | Lookup::Gone => "has come meanwhile",
            Lookup::Unknown | Lookup::Remembered => {
                if let Some(review) = last {
                    self.filer.reviews().release(*key, &review.filter).map_err(ReleaseError::Io)?;
                }
                let fate = self.filer.file_released(aside, || self.forget_aside(aside, id, key))?;
                match fate.outcome {
                    BatchOutcome::Accepted => "is filed",
                    BatchOutcome::Duplicate => "has come meanwhile",
                    _ => return Err(ReleaseError::NotFiled(fate.reason)),
                }
            }
        };
        self.filer.spool.sync().map_err(ReleaseError::Trouble)?;
        // The copy that was set aside is not needed any more.
        let copy = aside::own_id(&self.filer.spool, id.as_bytes()).1;
        self.filer.log.cancel_all(&[copy]).map_err(ReleaseError::Trouble)?;
        Ok(text)
    }

    /// Removes from history an article that was remembered when it was set aside, then or on a later
    /// arrival; not one that was withdrawn, whose record may still be in a buffer.
    fn forget_aside(
        &self,
        aside: &AsideOriginal,
        id: MessageId<'_>,
        key: &ArticleKey,
    ) -> Result<(), ReleaseError> {
        if self.filer.spool.lookup(key) != Lookup::Remembered {
            return Ok(());
        }
        let own = self.all.iter().filter(|review| review.message_id.as_bytes() == id.as_bytes());
        for at in std::iter::once(aside.arrived).chain(own.map(arrived)) {
            if self.forget(key, at)? {
                return Ok(());
            }
        }
        // Another command may have been faster.
        match self.filer.spool.lookup(key) {
            Lookup::Remembered => Err(ReleaseError::Withdrawn),
            _ => Ok(()),
        }
    }

    /// Shows a hidden article again.
    fn hidden(&self, key: &ArticleKey, filter: &str) -> ReleaseResult {
        match self.filer.spool.hidden_article(key) {
            Some(hidden) if hidden.by == filter => {}
            Some(hidden) => return Err(ReleaseError::HiddenBy(hidden.by.clone())),
            None if matches!(self.filer.spool.lookup(key), Lookup::Present(_)) => return Ok("is not hidden"),
            None => return Err(ReleaseError::Gone),
        }
        self.filer.reviews().release(*key, filter).map_err(ReleaseError::Io)?;
        self.filer.log.unhide_all(&[*key]).map_err(ReleaseError::Trouble)?;
        Ok("is shown")
    }
}

fn arrived(review: &FilterReview) -> u32 {
    u32::try_from(review.at).unwrap_or_default()
}
