//! The injecting agent (RFC 5537 section 3.5): takes proto-articles from readers who post.
//!
//! Judge the proto-article, complete it, hand it to `ingest` like any other article. A refusal says what is wrong, since
//! only the injecting agent can tell the poster. Called by `session`; never by `relay` or `serve`.

mod complete;
mod proto;

use crate::config::Access;
use crate::ingest::{Disposition, Incoming, Origin};
use crate::site::{Site, unix_now};
use complete::Additions;
use netnews::Article;
use netnews::nntp::response::{append_standard, code};
use proto::Objection;
use std::fmt::Display;
use std::io::Write;
use tracing::info;

/// Files a proto-article that came by POST from `address`, and appends the answer.
pub(crate) async fn post(
    site: &Site,
    access: Option<&Access>,
    address: &str,
    wire: &[u8],
    out: &mut Vec<u8>,
) {
    match inject(site, access, address, wire).await {
        Ok(id) => {
            info!(%address, %id, "posted");
            out.extend_from_slice(b"240 Article received OK ");
            out.extend_from_slice(id.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Err(objection) => append_failure(out, &objection),
    }
}

/// The proto-article was larger than may be.
pub(crate) fn post_too_large(out: &mut Vec<u8>) {
    append_failure(out, &Objection::TooLarge);
}

/// Whether somebody with this access may post at all.
pub(crate) fn may_post(access: Option<&Access>) -> bool {
    access.is_some_and(|access| !access.post.is_empty())
}

/// Answers POST before the article comes: true if it may come.
pub(crate) fn offer(access: Option<&Access>, out: &mut Vec<u8>) -> bool {
    let may = may_post(access);
    append_standard(out, if may { code::SEND_POST } else { code::POSTING_NOT_PERMITTED });
    may
}

async fn inject(
    site: &Site,
    access: Option<&Access>,
    address: &str,
    wire: &[u8],
) -> Result<String, Objection> {
    let access = access.ok_or(Objection::NotPermitted)?;
    let now = unix_now();
    let article = Article::parse(wire)?;
    proto::check(&article, &site.config, now)?;
    proto::check_groups(&article, access, &site.spool)?;
    let additions = Additions::for_article(&article, &site.config, address, now);
    let complete = additions.applied_to(&article);
    let incoming = Incoming { wire: &complete, claimed_id: None };
    let mut dispositions = Vec::new();
    let receipt = site.filer.ingest(&Origin::injected(address), &[incoming], &mut dispositions);
    if let Some(ticket) = receipt.ticket {
        site.durable(ticket).await.map_err(|_| Objection::Trouble)?;
    }
    match dispositions.first() {
        Some(Disposition::Accepted(_)) => Ok(additions.message_id(&article)),
        Some(Disposition::Rejected(reject)) => Err(Objection::Rejected(*reject)),
        Some(Disposition::TryLater) | None => Err(Objection::Trouble),
    }
}

/// Appends `441 reason`.
fn append_failure(out: &mut Vec<u8>, reason: &impl Display) {
    // Writing to a vector does not fail.
    let _infallible = write!(out, "441 {reason}\r\n");
}
