//! `newsreel filter`: review of the articles that filters matched (`docs/filters.md`).

use clap::{Args, Subcommand};
use netnews::MessageId;

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::{Reply, ReviewRow};
use super::start::since;
use super::withdraw::not_an_id;
use ingest::Filer;
use ingest::release::{ReleaseContext, way};
use ingest::reviews::FilterReview;
use serde::{Deserialize, Serialize};

/// Action on the findings of filters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FilterCommand {
    /// List what filters found, the oldest first; the newest 16 MiB of it are kept
    Review {
        /// Only what this filter found: spam, or the name of a [[filter]]
        #[arg(long, value_name = "NAME")]
        filter: Option<String>,
        /// Only what was found since a date such as 2026-01-31, or in a time span such as 2h
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<u64>,
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Show articles hidden by a filter again, file those set aside, and accept those refused when they come
    /// again; the filter does not judge them any more
    Release {
        /// Message-IDs, with their angle brackets
        #[arg(required = true, value_name = "MESSAGE-ID")]
        message_ids: Vec<String>,
    },
}

/// See what filters found in articles, and correct their mistakes
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "See what filters refused, hid or set aside, or would have refused (mode \"shadow\" of [spam]), and \
    correct their mistakes, whether the server runs or not."
)]
#[command(after_long_help = "Examples:\n  newsreel filter review --since 2h\n  \
    newsreel filter review --filter spam --json\n  newsreel filter release '<1993Apr5.012345@example.org>'")]
pub struct FilterOperation {
    #[command(subcommand)]
    /// Action on filtered articles.
    pub command: FilterCommand,
}

impl Operation for FilterOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        match site.filer() {
            Ok(filer) => execute(&filer, &self.command, sink),
            Err(error) => {
                sink(Reply::Error(error.to_string()));
                false
            }
        }
    }
}

/// Carries out a command on the spool that `filer` files in.
fn execute(filer: &Filer, command: &FilterCommand, sink: &mut Sink<'_>) -> bool {
    let all = match filer.reviews().all() {
        Ok(all) => all,
        Err(error) => {
            sink(Reply::Error(format!("cannot read what filters found: {error}")));
            return false;
        }
    };
    match command {
        FilterCommand::Review { filter, since, .. } => {
            let is_asked = |review: &&FilterReview| {
                filter.as_ref().is_none_or(|filter| review.filter == *filter)
                    && since.is_none_or(|since| at(review) >= since)
            };
            all.iter().filter(is_asked).for_each(|review| sink(Reply::Review(row(filer, review))));
            true
        }
        FilterCommand::Release { message_ids } => {
            let mut ok = true;
            let releasing = ReleaseContext { filer, all };
            for id in message_ids {
                let parsed = MessageId::parse(id.as_bytes()).ok_or_else(|| not_an_id(id));
                match parsed.and_then(|id| releasing.release(id).map_err(|error| error.to_string())) {
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

fn at(review: &FilterReview) -> u64 {
    u64::try_from(review.at).unwrap_or_default()
}

fn row(filer: &Filer, review: &FilterReview) -> ReviewRow {
    ReviewRow {
        release: way(filer, review).to_owned(),
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
