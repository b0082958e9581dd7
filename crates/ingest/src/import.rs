//! Articles from another server's spool: groups, numbers and arrival come with the article, and
//! its Path is kept.
//!
//! Age, distribution and moderation are not judged again: the other server took the article. Rejected
//! articles are not remembered, so a second import may take them. Called by the control socket and by
//! `newsreel import` on a site whose server is not running. The rule for numbers is the spool's
//! (`NewArticle::numbers`).

use super::checks;
use super::drafts::{BatchDrafts, EntryDraft};
use super::judging::{ArticleJudge, FilingRules};
use super::{DeferralReason, Disposition, Origin, Reject, carried, choose};
use netnews::Article;
use serde::{Deserialize, Serialize};
use spool::{GroupId, GroupTable};

/// An article of another server.
#[derive(Debug, Clone, Copy)]
pub struct ImportedArticle<'a> {
    /// Wire format without the final `.` line.
    pub wire: &'a [u8],
    /// Unix seconds of its arrival at that server; 0: now.
    pub arrived: u32,
    /// `group:number` words, as in Xref; number 0 requests a new one. Groups not carried here are skipped.
    /// If none is carried, the Newsgroups header decides.
    pub places: &'a [u8],
}

/// Result for an article of another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportResult {
    /// Kind of result.
    pub outcome: ImportOutcome,
    /// Token under which it is stored, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Reason in words, if it was rejected or is to be tried later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether the article alone is to be tried later: others may be taken now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_alone: bool,
}

impl ImportResult {
    /// Returns the result for an article that is to be tried later, with all others.
    pub(super) fn later(reason: String) -> Self {
        Self { outcome: ImportOutcome::TryLater, token: None, reason, is_alone: false }
    }

    /// Returns the result of a disposition; `trouble` is the reason of those that are to be tried later.
    pub(super) fn of(disposition: &Disposition, trouble: &str) -> Self {
        let token = match disposition {
            Disposition::Accepted(token) => token.map(|token| token.to_hex()),
            _ => None,
        };
        let (outcome, reason) = match disposition {
            Disposition::Accepted(_) => (ImportOutcome::Filed, String::new()),
            Disposition::Rejected(Reject::Duplicate) => (ImportOutcome::Duplicate, String::new()),
            Disposition::Rejected(Reject::NumberTaken) => (ImportOutcome::NumberTaken, String::new()),
            Disposition::Rejected(reject) => (ImportOutcome::Rejected, reject.to_string()),
            Disposition::TryLater | Disposition::Deferred(_) => (ImportOutcome::TryLater, trouble.to_owned()),
        };
        let is_alone = *disposition == Disposition::Deferred(DeferralReason::ClassFull);
        Self { outcome, token, reason, is_alone }
    }

    /// Whether the spool takes nothing now.
    pub fn is_trouble(&self) -> bool {
        self.outcome == ImportOutcome::TryLater && !self.is_alone
    }
}

/// Possible outcomes for an article of another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportOutcome {
    /// Stored.
    Filed,
    /// The Message-ID is known.
    Duplicate,
    /// A number of the article is not above all that its group has assigned; it may be imported again with
    /// a new number.
    NumberTaken,
    /// Not taken.
    Rejected,
    /// Not taken because of local trouble.
    TryLater,
}

/// Judges a batch, in order, and makes drafts of the articles that are taken; appends a disposition for each
/// article, which is `TryLater` until those are committed.
pub(super) fn adopt_all<'a>(
    judge: &ArticleJudge,
    origin: &'a Origin,
    batch: &[ImportedArticle<'a>],
    now: i64,
    drafts: &mut BatchDrafts<'a>,
    dispositions: &mut Vec<Disposition>,
) {
    let (table, rules) = (judge.spool().group_table(), judge.rules.load());
    // Arrivals ascend in the journal: history is expired from its front.
    let mut not_before = u64::from(judge.spool().last_arrival());
    for imported in batch {
        drafts.at = dispositions.len();
        let arrived = arrival(imported, not_before, now);
        let adopted = adopt(judge, &rules, origin, imported, arrived, &table, drafts);
        if adopted.is_ok() {
            not_before = arrived;
        }
        dispositions.push(adopted.map_or_else(Disposition::Rejected, |()| Disposition::TryLater));
    }
}

/// Makes a draft of an article that counts as arrived at this time, in Unix seconds.
fn adopt<'a>(
    judge: &ArticleJudge,
    rules: &FilingRules,
    origin: &'a Origin,
    imported: &ImportedArticle<'a>,
    arrived: u64,
    table: &GroupTable,
    drafts: &mut BatchDrafts<'a>,
) -> Result<(), Reject> {
    let article = Article::parse(imported.wire)?;
    article.required()?;
    checks::framing(&article, origin)?;
    let (id, key) = judge.identify(&article, None)?;
    if imported.wire.len() as u64 > rules.policy.article_bytes_max {
        return Err(Reject::TooLarge { bytes_max: rules.policy.article_bytes_max });
    }
    let start = drafts.groups.len();
    let site = &rules.config.site;
    if site.numbers {
        places(table, imported.places, start, drafts);
    } else {
        choose::unnumbered(site.unknown_groups, origin, &article, || drafts.is_carried(&article))?;
    }
    if site.numbers && drafts.groups.len() == start {
        let chosen = choose::groups(table, site.unknown_groups, origin, &article, &mut drafts.groups);
        if chosen.is_err() || drafts.groups.len() == start {
            drafts.groups.truncate(start);
            return Err(chosen.err().unwrap_or(Reject::UnknownGroups));
        }
    }
    drafts.numbers.resize(drafts.groups.len(), 0);
    drafts.push(EntryDraft::of(&article, id, key, origin, start..drafts.groups.len()).arrived(Some(arrived)));
    Ok(())
}

/// Returns when an article counts as arrived, in Unix seconds: not before `not_before`, and not in the future
/// unless that is.
fn arrival(imported: &ImportedArticle<'_>, not_before: u64, now: i64) -> u64 {
    let now = u64::try_from(now).unwrap_or_default();
    let arrived = if imported.arrived == 0 { now } else { u64::from(imported.arrived) };
    arrived.max(not_before).min(now.max(not_before))
}

/// Appends the groups of `places` that are carried here, each once, with their numbers.
fn places(table: &GroupTable, places: &[u8], start: usize, drafts: &mut BatchDrafts<'_>) {
    for word in places.split(|byte| *byte == b' ').take(choose::GROUPS_PER_ARTICLE_MAX) {
        let Some(colon) = memchr::memrchr(b':', word) else { continue };
        let (name, number) = word.split_at(colon);
        let Some((id, _)) = carried(table, name) else { continue };
        let chosen: &[GroupId] = drafts.groups.get(start..).unwrap_or_default();
        let digits = number.get(1..).and_then(|digits| std::str::from_utf8(digits).ok());
        let (Some(number), false) = (digits.and_then(|d| d.parse().ok()), chosen.contains(&id)) else {
            continue;
        };
        // An alias files in another group, to which these numbers do not apply.
        let own = table.id(name) == Some(id);
        drafts.groups.push(id);
        drafts.numbers.push(if own { number } else { 0 });
    }
}
