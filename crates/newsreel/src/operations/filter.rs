//! `newsreel filter`: what filters found in articles, and what the operator makes of it (`docs/filters.md`).

use std::fmt;

use netnews::MessageId;
use spool::{Key, Lookup, Spool, Trouble};

use super::Sink;
use super::request::{FilterCommand, Reply, ReviewRow};
use super::withdraw::not_an_id;
use crate::ingest::reviews::{Finding, Review, Reviews};

pub(super) fn execute(spool: &Spool, command: &FilterCommand, sink: &mut Sink<'_>) -> bool {
    let reviews = Reviews::of(spool.disk().clone(), &spool.config().dir);
    let all = match reviews.all() {
        Ok(all) => all,
        Err(error) => {
            sink(Reply::Error(format!("cannot read what filters found: {error}")));
            return false;
        }
    };
    match command {
        FilterCommand::Review { filter, since, .. } => {
            let is_asked = |review: &&Review| {
                filter.as_ref().is_none_or(|filter| review.filter == *filter)
                    && since.is_none_or(|since| at(review) >= since)
            };
            all.iter().filter(is_asked).for_each(|review| sink(Reply::Review(row(review))));
            true
        }
        FilterCommand::Release { message_ids } => {
            let mut ok = true;
            for id in message_ids {
                match release(spool, &reviews, &all, id) {
                    Ok(text) => sink(Reply::Text(format!("{id} {text}"))),
                    Err(error) => {
                        ok = false;
                        sink(Reply::Error(format!("{id}: {error}")));
                    }
                }
            }
            ok
        }
    }
}

fn at(review: &Review) -> u64 {
    u64::try_from(review.at).unwrap_or_default()
}

fn row(review: &Review) -> ReviewRow {
    ReviewRow {
        at: at(review),
        filter: review.filter.clone(),
        finding: review.finding.word().to_owned(),
        filed: review.finding.is_filed(),
        message_id: review.message_id.clone(),
        groups: review.groups.clone(),
        subject: review.subject.clone(),
        reason: review.reason.clone(),
    }
}

/// Why an article is not released.
enum NotReleased {
    NotAnId(String),
    /// Nothing that a filter did about it is known.
    Unknown,
    /// Where it stays.
    Aside(String),
    /// Who hides it, if not the filter.
    HiddenBy(String),
    Gone,
    Io(std::io::Error),
    Trouble(Trouble),
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnId(text) => f.write_str(text),
            Self::Unknown => f.write_str("no filter is known to have refused or hidden it"),
            Self::Aside(place) => write!(f, "it was set aside {place}, and stays there"),
            Self::HiddenBy(by) => write!(f, "it is hidden by {by}; newsreel unhide shows it"),
            Self::Gone => f.write_str("it is not here any more"),
            Self::Io(error) => error.fmt(f),
            Self::Trouble(trouble) => trouble.fmt(f),
        }
    }
}

/// Releases an article by what was found in it last.
fn release(
    spool: &Spool,
    reviews: &Reviews,
    all: &[Review],
    text: &str,
) -> Result<&'static str, NotReleased> {
    let id = MessageId::parse(text.as_bytes()).ok_or_else(|| NotReleased::NotAnId(not_an_id(text)))?;
    let key = spool.key(id.as_bytes());
    let last = all.iter().rev().find(|review| review.message_id == text && review.finding != Finding::Shadow);
    let review = last.ok_or(NotReleased::Unknown)?;
    match review.finding {
        Finding::Aside => Err(NotReleased::Aside(review.reason.clone())),
        Finding::Refused => refused(spool, reviews, &key, review),
        Finding::Hidden | Finding::Shadow => hidden(spool, reviews, &key, &review.filter),
    }
}

/// Lets an article in when it comes again.
fn refused(
    spool: &Spool,
    reviews: &Reviews,
    key: &Key,
    review: &Review,
) -> Result<&'static str, NotReleased> {
    match spool.lookup(key) {
        Lookup::Remembered => {}
        Lookup::Unknown => return Ok("is let in when it comes"),
        Lookup::Present(_) | Lookup::Hidden(_) | Lookup::Gone => return Ok("has come meanwhile"),
    }
    // Before it can come.
    reviews.release(*key, &review.filter).map_err(NotReleased::Io)?;
    let arrived = u32::try_from(review.at).unwrap_or_default();
    match spool.forget(key, arrived).map_err(NotReleased::Trouble)? {
        true => Ok("is let in when it comes again"),
        false => Err(NotReleased::Gone),
    }
}

/// Shows an article again.
fn hidden(spool: &Spool, reviews: &Reviews, key: &Key, filter: &str) -> Result<&'static str, NotReleased> {
    match spool.hidden_article(key) {
        Some(hidden) if hidden.by == filter => {}
        Some(hidden) => return Err(NotReleased::HiddenBy(hidden.by.clone())),
        None if matches!(spool.lookup(key), Lookup::Present(_)) => return Ok("is not hidden"),
        None => return Err(NotReleased::Gone),
    }
    reviews.release(*key, filter).map_err(NotReleased::Io)?;
    spool.unhide_all(&[*key]).map_err(NotReleased::Trouble)?;
    Ok("is shown")
}
