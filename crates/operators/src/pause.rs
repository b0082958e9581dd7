//! `newsreel ctl pause` and `newsreel ctl go`.

use tracing::warn;

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::Sink;
use ingest::PAUSE_REASON_BYTES_MAX;
use serde::{Deserialize, Serialize};
use site::Site;
use site_base::clock::unix_secs;
use site_base::units::about_span;

/// Accept no articles from now on; answered by [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseOperation {
    /// Reason sent to clients that should try later; may be empty.
    pub reason: String,
}

impl Operation for PauseOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        site.server(sink).is_some_and(|server| begin(&server.site, &self.reason, sink))
    }
}

/// Accept articles again; answered by [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoOperation {}

impl Operation for GoOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        end(&server.site, sink);
        true
    }
}

/// Pauses the acceptance of articles; returns false if the reason cannot be sent in a response.
fn begin(site: &Site, reason: &str, sink: &mut Sink<'_>) -> bool {
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
fn end(site: &Site, sink: &mut Sink<'_>) {
    let text = match site.filer.go() {
        Some(paused) => {
            let secs = unix_secs().saturating_sub(paused.since);
            warn!("articles are accepted again");
            site.waiting.fresh.notify_one();
            format!("articles are accepted again, after {}", about_span(secs))
        }
        None => "the server was not paused".into(),
    };
    sink(Reply::Text(text));
}
