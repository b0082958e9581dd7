//! `newsreel why`: each step of the decision whether an article is sent to a peer, also for past articles.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::Sink;
use clap::Args;
use disk::ReadMode;
use feeds::SetAsideArticle;
use ingest::kind;
use ingest::routing::{PeerRoute, Router, RoutingDecision, RoutingFacts};
use netnews::Article;
use netnews::article::MalformedArticle;
use serde::{Deserialize, Serialize};
use site_base::units::counted;
use site_config::Config;
use spool::{
    ArticleBuf, ArticleKey, ArticleKind, JournalBatch, JournalEvent, Lookup, ReadError, Spool, TailStart,
};
use std::convert::Infallible;
use std::io;

/// Data about an article that the journal still has.
struct RecordedArticle {
    origin: String,
    /// Whether the article was to be sent to the peer.
    wanted: bool,
    wire_bytes: Option<u64>,
    /// Whether a filter keeps it from all peers.
    kept_here: bool,
}

/// Reason why it cannot be explained whether an article is sent to a peer.
#[derive(Debug, thiserror::Error)]
enum WhyError {
    /// No peer of this name is fed.
    #[error("there is no peer `{0}` with [peer.send]")]
    NoPeer(String),
    /// The article of this Message-ID is not here, for this reason.
    #[error("{0} {1}")]
    Absent(String, &'static str),
    /// The article cannot be read.
    #[error("{0}")]
    Spool(ReadError),
    /// The stored article is malformed.
    #[error("{0}")]
    Malformed(MalformedArticle),
    /// The journal cannot be read.
    #[error("{0}")]
    Journal(io::Error),
}

/// Explain why an article is sent to a peer, or is not
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Explain why an article is sent to a peer, or is not: each step of the decision with the present \
    configuration, and what was decided when the article arrived. For articles stored here, including those that \
    arrived before the peer was configured."
)]
#[command(after_long_help = "Example:\n  newsreel why '<1993Apr5.012345@example.org>' news.example.net")]
pub struct WhyOperation {
    /// The article's Message-ID, with its angle brackets
    pub message_id: String,
    /// The peer's name, as in [[peer]]
    pub peer: String,
}

impl Operation for WhyOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        if let Err(error) = explain(site.spool(), &site.config(), &self.message_id, &self.peer, sink) {
            sink(Reply::Error(error.to_string()));
            return false;
        }
        let feed = match site {
            OperatedSite::Running { server, .. } => server.feeds.status(&self.peer),
            OperatedSite::Stopped { .. } => None,
        };
        let articles = feed.map(|feed| feed.set_aside_articles).unwrap_or_default();
        if let Some(article) = articles.iter().find(|article| article.message_id == self.message_id) {
            sink(Reply::Text(format!("{:<14} {}", "answers", answers(article))));
        }
        true
    }
}

fn explain(
    spool: &Spool,
    config: &Config,
    message_id: &str,
    peer: &str,
    sink: &mut Sink<'_>,
) -> Result<(), WhyError> {
    if !config.peers.iter().any(|own| own.name == peer && own.send.is_some()) {
        return Err(WhyError::NoPeer(peer.to_owned()));
    }
    let key = spool.key(message_id.as_bytes());
    let absent = |state| WhyError::Absent(message_id.to_owned(), state);
    let token = match spool.lookup_fresh(&key) {
        Lookup::Present(token) => token,
        Lookup::Unknown => return Err(absent("is unknown here")),
        Lookup::Remembered => return Err(absent("was rejected or cancelled")),
        Lookup::Hidden(_) => return Err(absent("is hidden, and sent to nobody")),
        Lookup::Gone => return Err(absent("has been overwritten")),
    };
    let mut buf = ArticleBuf::default();
    if !spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).map_err(WhyError::Spool)? {
        return Err(absent("cannot be read any more"));
    }
    let stored = buf.article();
    let stored = stored.strip_suffix(b".\r\n").unwrap_or(stored);
    let article = Article::parse(stored).map_err(WhyError::Malformed)?;
    let number = spool.known_site(peer);
    let recorded = recorded(spool, key, number).map_err(WhyError::Journal)?;
    let origin = recorded.as_ref().map_or("", |recorded| recorded.origin.as_str());
    let wire_bytes = recorded.as_ref().and_then(|recorded| recorded.wire_bytes);
    let facts =
        RoutingFacts::of(&article, kind(&article), origin, wire_bytes.unwrap_or_else(|| sent(stored)));
    // The peers' numbers do not affect the decision.
    let numbers = |name: &str| {
        let at = config.peers.iter().position(|own| own.name == name).unwrap_or_default();
        Ok::<_, Infallible>(at as u32)
    };
    let Ok(routes) = PeerRoute::all(config, numbers);
    let table = spool.group_table();
    let router = Router::new(table.clone());
    router.replace(&config.site, routes, table.clone());
    let routes = router.routes(&table);
    let mut say = |what: &str, text: &str| sink(Reply::Text(format!("{what:<14} {text}")));
    for step in routes.explain(&facts, peer).unwrap_or_default() {
        say(step.what, &format!("{:<4} {}", if step.passed { "yes" } else { "NO" }, step.text));
    }
    let mut decision = RoutingDecision::default();
    routes.decide(&facts, &mut decision);
    let kept_here = recorded.as_ref().is_some_and(|recorded| recorded.kept_here);
    if kept_here {
        say("filter", "NO   a filter lets it go to no peer");
    }
    let is_wanted = !kept_here && routes.number_of(peer).is_some_and(|number| decision.has(number));
    say("now", if is_wanted { "it would be sent" } else { "it would not be sent" });
    say(
        "when it came",
        match (recorded, number) {
            (None, _) => "not known: the journal no longer has its row",
            (Some(_), None) => "the peer was not sent anything",
            (Some(RecordedArticle { wanted: true, .. }), _) => "it was to be sent",
            (Some(_), _) => "it was not to be sent, or the peer was not known yet",
        },
    );
    Ok(())
}

/// Describes unexpected responses to an article, and their consequence.
fn answers(article: &SetAsideArticle) -> String {
    let consequence = if article.given_up { "given up" } else { "set aside, and offered again later" };
    let SetAsideArticle { answer, answers, .. } = article;
    format!("{consequence}: unexpected answer, {}, the last `{answer}`", counted(*answers, "time"))
}

/// Returns how many bytes of a stored article are sent, which excludes its Xref line.
fn sent(stored: &[u8]) -> u64 {
    let xref = stored.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
    stored.len().saturating_sub(xref) as u64
}

/// Returns what the journal has about an article, as far back as it is kept.
fn recorded(spool: &Spool, key: ArticleKey, number: Option<u32>) -> io::Result<Option<RecordedArticle>> {
    let mut tail = spool.journal().tail("why", TailStart::Oldest)?;
    let mut batch = JournalBatch::default();
    loop {
        tail.next(&mut batch)?;
        if batch.is_empty() {
            return Ok(None);
        }
        for (_, event) in batch.events() {
            let JournalEvent::Article(row) = event else { continue };
            if row.key == key {
                let origin = row.tagged.origin().unwrap_or_default();
                return Ok(Some(RecordedArticle {
                    origin: String::from_utf8_lossy(origin).into_owned(),
                    wanted: number.is_some_and(|number| row.tagged.is_wanted_by(number)),
                    wire_bytes: row.tagged.wire_bytes(),
                    kept_here: row.tagged.kind().is_some_and(|kind| kind.has(ArticleKind::LOCAL)),
                }));
            }
        }
    }
}
