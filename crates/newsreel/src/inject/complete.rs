//! From a proto-article to an article: the headers that the injecting agent adds.
//!
//! Existing headers keep their bytes and order, but for Path, which gets our name; new ones go before the blank line.
//! The body is not touched. Called by `inject`. Source: RFC 5537 section 3.5 steps 5 to 11, RFC 5536 section 3.2.8
//! (Injection-Info).

use crate::config::Config;
use netnews::path::{self, Diagnostic};
use netnews::{Article, Known, date};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The tail entry of a Path that had none.
const TAIL: &[u8] = b"not-for-mail";

/// What is added to a proto-article.
#[derive(Debug)]
pub(super) struct Additions {
    /// `identity!.POSTED.address!`
    path_prefix: Vec<u8>,
    /// Whole header lines.
    headers: Vec<u8>,
    /// The Message-ID, if it had none.
    message_id: Option<String>,
}

impl Additions {
    pub fn for_article(article: &Article<'_>, config: &Config, address: &str, now: i64) -> Self {
        let identity = &config.site.path_identity;
        let missing = |known| article.count(known) == 0;
        let mut path_prefix = Vec::new();
        path::prefix(identity.as_bytes(), Diagnostic::Posted(address.as_bytes()), &mut path_prefix);
        let mut headers = Vec::new();
        if missing(Known::Path) {
            let path = [&path_prefix, TAIL].concat();
            append_header(&mut headers, Known::Path, &path);
        }
        let message_id = missing(Known::MessageId).then(|| fresh_message_id(identity));
        if let Some(id) = &message_id {
            append_header(&mut headers, Known::MessageId, id.as_bytes());
        }
        let mut today = Vec::new();
        date::format_rfc5322(now, &mut today);
        if missing(Known::Date) {
            append_header(&mut headers, Known::Date, &today);
        }
        // An article that had both may be injected elsewhere too, and must be the same everywhere.
        let perhaps_injected_twice = !missing(Known::MessageId) && !missing(Known::Date);
        if missing(Known::InjectionDate) && !perhaps_injected_twice {
            append_header(&mut headers, Known::InjectionDate, &today);
        }
        let info = format!("{identity}; posting-host=\"{address}\"");
        append_header(&mut headers, Known::InjectionInfo, info.as_bytes());
        if let Some(organization) =
            config.site.organization.as_deref().filter(|_| missing(Known::Organization))
        {
            append_header(&mut headers, Known::Organization, organization.as_bytes());
        }
        Self { path_prefix, headers, message_id }
    }

    /// The complete article.
    pub fn applied_to(&self, article: &Article<'_>) -> Vec<u8> {
        let wire = article.wire();
        let blank_line = article.head().len();
        let mut complete = Vec::with_capacity(wire.len() + self.headers.len() + self.path_prefix.len());
        let path_at = article.header_lines(Known::Path).map(|lines| {
            let value = article.header(Known::Path).unwrap_or_default();
            lines.end.saturating_sub(value.len() + b"\r\n".len())
        });
        match path_at {
            Some(at) => {
                complete.extend_from_slice(wire.get(..at).unwrap_or_default());
                complete.extend_from_slice(&self.path_prefix);
                complete.extend_from_slice(wire.get(at..blank_line).unwrap_or_default());
            }
            None => complete.extend_from_slice(wire.get(..blank_line).unwrap_or_default()),
        }
        complete.extend_from_slice(&self.headers);
        complete.extend_from_slice(wire.get(blank_line..).unwrap_or_default());
        complete
    }

    /// The Message-ID the article has now.
    pub fn message_id(&self, article: &Article<'_>) -> String {
        let own = || article.message_id().map(|id| id.as_str().to_owned()).unwrap_or_default();
        self.message_id.clone().unwrap_or_else(own)
    }
}

fn append_header(headers: &mut Vec<u8>, known: Known, value: &[u8]) {
    headers.extend_from_slice(known.name().as_bytes());
    headers.extend_from_slice(b": ");
    headers.extend_from_slice(value);
    headers.extend_from_slice(b"\r\n");
}

/// `<time.count.random@identity>`: the time and count make it unique here, the random part after a clock set back.
fn fresh_message_id(identity: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let random = RandomState::new().hash_one(nanos) as u32;
    format!("<{nanos:x}.{count:x}.{random:08x}@{identity}>")
}

#[cfg(test)]
mod tests;
