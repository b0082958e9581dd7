//! `newsreel filter`: review of the articles that filters matched (`docs/filters.md`).

use netnews::MessageId;

use super::Sink;
use super::request::{FilterCommand, Reply, ReviewRow};
use super::withdraw::not_an_id;
use ingest::Filer;
use ingest::release::{ReleaseContext, way};
use ingest::reviews::FilterReview;

/// Carries out a command on the spool that `filer` files in.
pub fn execute(filer: &Filer, command: &FilterCommand, sink: &mut Sink<'_>) -> bool {
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
