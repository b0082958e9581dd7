//! `newsreel hide` and `newsreel unhide`: articles that stay stored but are not shown (`docs/hiding.md`).

use clap::Args;
use netnews::MessageId;
use serde::{Deserialize, Serialize};
use site_log::SiteLog;
use spool::{ArticleKey, ChangeMaker as _, HiddenArticle, HideOutcome, Lookup, Spool};

use super::operation::{OperatedSite, Operation};
use super::reply::{HiddenRow, Reply};
use super::sink::Sink;
use super::start;

/// Issuer recorded for articles hidden by the operator.
pub(crate) const OPERATOR: &str = "operator";

/// Selection of hidden articles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct HiddenFilter {
    /// Only those hidden by this one: operator, or nocem:NAME
    #[arg(long, value_name = "NAME")]
    pub issuer: Option<String>,
    /// Only those hidden since a date such as 2026-01-31, or in a time span such as 2h
    #[arg(long, value_name = "TIME", value_parser = start::since)]
    pub since: Option<u64>,
}

/// Hide articles from everyone, or list what is hidden
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Hide articles by Message-ID, whether the server runs or not: they stay stored, and nobody is shown \
    them or sent them. `newsreel unhide` shows them again under the same numbers, until they are overwritten or \
    expire. With --list: list what is hidden, by the operator or by NoCeM notices.\n\n\
    Exit code 1 if an article is not here."
)]
#[command(
    after_long_help = "Examples:\n  newsreel hide --reason \"complaint 4711\" '<1993Apr5.012345@example.org>'\n  \
    newsreel hide --list --since 2d"
)]
pub struct HideOperation {
    /// Message-IDs, with their angle brackets
    #[arg(required_unless_present = "list", value_name = "MESSAGE-ID")]
    pub message_ids: Vec<String>,
    /// Why, for `newsreel hide --list`
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// List what is hidden
    #[arg(long, conflicts_with_all = ["message_ids", "reason", "dry_run"])]
    pub list: bool,
    /// Selection for the list.
    #[command(flatten)]
    pub by: HiddenFilter,
    /// Print JSON
    #[arg(long, requires = "list")]
    #[serde(skip)]
    pub json: bool,
}

impl Operation for HideOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        if self.list {
            return list(site.spool(), &self.by, sink);
        }
        hide(&site.log(), &self.message_ids, self.reason.as_deref().unwrap_or_default(), self.dry_run, sink)
    }
}

/// Show hidden articles again
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Show hidden articles again, under the numbers that they had: those named, or all that an issuer has \
    hidden or that were hidden since a time. An article that was overwritten, cancelled or has expired meanwhile does \
    not come back.\n\nExit code 1 if an article that is named is not hidden."
)]
#[command(after_long_help = "Examples:\n  newsreel unhide '<1993Apr5.012345@example.org>'\n  \
    newsreel unhide --issuer nocem:spambot --since 2026-01-31")]
pub struct UnhideOperation {
    /// Message-IDs, with their angle brackets
    #[arg(
        value_name = "MESSAGE-ID",
        required_unless_present_any = ["issuer", "since"],
        conflicts_with_all = ["issuer", "since"]
    )]
    pub message_ids: Vec<String>,
    /// Selection, without Message-IDs.
    #[command(flatten)]
    pub by: HiddenFilter,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
}

impl Operation for UnhideOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        unhide(&site.log(), &self.message_ids, &self.by, self.dry_run, sink)
    }
}

/// Hides articles; returns true if every argument was a Message-ID and is hidden.
fn hide(log: &SiteLog, ids: &[String], reason: &str, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let (good, mut ok) = message_ids(ids, sink);
    if dry_run {
        for id in good {
            sink(Reply::Text(format!("{id} {}", would(log.spool(), id))));
        }
        return ok;
    }
    let bytes: Vec<&[u8]> = good.iter().map(|id| id.as_bytes()).collect();
    match log.hide_all(&bytes, OPERATOR, reason) {
        Ok(outcomes) => {
            for (id, outcome) in good.iter().zip(outcomes) {
                ok &= outcome != HideOutcome::NotHere;
                sink(Reply::Text(format!(
                    "{id} {}",
                    match outcome {
                        HideOutcome::Hidden => "hidden",
                        HideOutcome::Already => "is hidden already",
                        HideOutcome::NotHere => "is not here",
                    }
                )));
            }
            ok
        }
        Err(trouble) => failed(&trouble, sink),
    }
}

fn would(spool: &Spool, id: MessageId<'_>) -> &'static str {
    match spool.lookup_fresh(&spool.key(id.as_bytes())) {
        Lookup::Present(_) => "would be hidden",
        Lookup::Hidden(_) => "is hidden already",
        Lookup::Unknown | Lookup::Remembered | Lookup::Gone => "is not here",
    }
}

/// Shows hidden articles again: those named, or all of an issuer or since a time. Returns true if each one
/// named was hidden.
fn unhide(log: &SiteLog, ids: &[String], by: &HiddenFilter, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let spool = log.spool();
    let (good, ok) = message_ids(ids, sink);
    let all = match ids.is_empty() {
        true => chosen(spool, by).map(|hidden| (hidden.message_id.clone(), hidden.key)).collect(),
        false => good.iter().map(|id| (id.to_string(), spool.key(id.as_bytes()))).collect::<Vec<_>>(),
    };
    let keys: Vec<ArticleKey> = all.iter().map(|(_, key)| *key).collect();
    let shown = match dry_run {
        true => keys.iter().map(|key| spool.hidden_article(key).is_some()).collect(),
        false => match log.unhide_all(&keys) {
            Ok(shown) => shown,
            Err(trouble) => return failed(&trouble, sink),
        },
    };
    for ((id, key), was_hidden) in all.iter().zip(&shown) {
        let text = match (was_hidden, spool.lookup(key)) {
            (true, _) if dry_run => "would be shown again",
            (true, _) => "is shown again",
            (false, Lookup::Gone) => "is not here any more: it was overwritten or expired",
            (false, Lookup::Remembered) => "is not here any more: it was cancelled, expired or rejected",
            (false, Lookup::Unknown) => "is not here",
            (false, _) => "is not hidden",
        };
        sink(Reply::Text(format!("{id} {text}")));
    }
    ok && shown.iter().all(|was_hidden| *was_hidden)
}

/// Lists hidden articles.
fn list(spool: &Spool, by: &HiddenFilter, sink: &mut Sink<'_>) -> bool {
    chosen(spool, by).for_each(|hidden| {
        sink(Reply::Hidden(HiddenRow {
            message_id: hidden.message_id.clone(),
            by: hidden.by.clone(),
            since: hidden.since.into(),
            reason: hidden.reason.clone(),
        }));
    });
    true
}

fn chosen(spool: &Spool, by: &HiddenFilter) -> impl Iterator<Item = std::sync::Arc<HiddenArticle>> {
    let HiddenFilter { issuer, since } = by.clone();
    spool.hidden().into_iter().filter(move |hidden| {
        issuer.as_ref().is_none_or(|issuer| hidden.by == *issuer)
            && since.is_none_or(|since| u64::from(hidden.since) >= since)
    })
}

/// Returns the valid Message-IDs, and whether all are valid.
fn message_ids<'t>(texts: &'t [String], sink: &mut Sink<'_>) -> (Vec<MessageId<'t>>, bool) {
    let mut good = Vec::with_capacity(texts.len());
    for text in texts {
        match MessageId::parse(text.as_bytes()) {
            Some(id) => good.push(id),
            None => sink(Reply::Error(super::withdraw::not_an_id(text))),
        }
    }
    let ok = good.len() == texts.len();
    (good, ok)
}

fn failed(trouble: &spool::SpoolTrouble, sink: &mut Sink<'_>) -> bool {
    sink(Reply::Error(trouble.to_string()));
    false
}
