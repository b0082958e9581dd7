//! `newsreel ctl pause` and `newsreel ctl go`.

use tracing::warn;

use super::request::Reply;
use super::sink::Sink;
use ingest::PAUSE_REASON_BYTES_MAX;
use site::Site;
use site_base::clock::unix_now;
use site_base::units::about_span;

/// Pauses the acceptance of articles; returns false if the reason cannot be sent in a response.
pub(crate) fn begin(site: &Site, reason: &str, sink: &mut Sink<'_>) -> bool {
    let reason = reason.trim();
    if reason.len() > PAUSE_REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        sink(Reply::Error(format!("a reason is one line of at most {PAUSE_REASON_BYTES_MAX} bytes")));
        return false;
    }
    site.filer.pause(reason.to_owned());
    warn!(reason, "paused: no articles are accepted");
    // Articles accepted before are durable when the command returns.
    let settled = site.spool.settle();
    sink(match &settled {
        Ok(()) => Reply::Text("paused: no articles are accepted until newsreel ctl go".into()),
        Err(trouble) => Reply::Error(format!("paused, but what was accepted is not durable: {trouble}")),
    });
    settled.is_ok()
}

/// Resumes the acceptance of articles.
pub(crate) fn end(site: &Site, sink: &mut Sink<'_>) -> bool {
    let text = match site.filer.go() {
        Some(paused) => {
            let secs = u64::try_from(unix_now()).unwrap_or_default().saturating_sub(paused.since);
            warn!("articles are accepted again");
            site.waiting.fresh.notify_one();
            format!("articles are accepted again, after {}", about_span(secs))
        }
        None => "the server was not paused".into(),
    };
    sink(Reply::Text(text));
    true
}
