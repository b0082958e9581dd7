//! `newsreel post`: an article of the operator, which takes the road of a reader's post.

use super::operation::{OperatedSite, Operation, replied};
use super::reply::Reply;
use super::sink::Sink;
use netnews::nntp::wire::dot_stuff;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

/// Posts an article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostOperation {
    /// The proto-article, with LF or CRLF, as injecting agents take it.
    pub article: String,
}

impl Operation for PostOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let mut wire = Vec::new();
        dot_stuff(self.article.as_bytes(), &mut wire);
        let posted = server.context.injector.post_of_operator(&server.site, &wire);
        replied(Handle::current().block_on(posted).map(Reply::Text), sink)
    }
}
