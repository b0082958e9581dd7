//! Bodies of articles of which only the headers are here: fetched from other servers by Message-ID when a
//! reader requests one, and kept.
//!
//! One fetch serves all readers that request the same article in the meantime; if the first of them leaves,
//! the next one continues it. A fetched article must have the Message-ID and the headers that are here;
//! otherwise it is another article, and the next server is asked. It is kept in the spool as an article of
//! its own, without numbers, under a Message-ID derived from the original one and the site's secret. It
//! cannot be in a class of kept articles, and goes to one with buffers; without any, it is fetched each
//! time. Called by [`super::LocalSpool`].

use super::{Answer, SourceError};
use access::tls::RemoteServer;
use arc_swap::ArcSwap;
use disk::ReadMode;
use netnews::nntp::response::code;
use netnews::overview_row::OverviewFields;
use netnews::{Article, Known};
use nntp_io::{ClientLimits, NntpClient, Role};
use site_base::clock::unix_secs;
use site_base::lock::Leaf;
use site_config::{BodyServer, Config, LiveConfig};
use site_log::SiteLog;
use spool::{
    ArticleBuf, ArticleGroups, ArticleKey, ArticleKind, Change, ChangeMaker as _, ChangeOutcome, Criteria,
    Lookup, NewArticle, RowFacts, Spool, TaggedFields,
};
use std::collections::HashMap;
use std::fmt::{self, Debug, Display};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::block_in_place;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Most articles being fetched, or waiting for it, at once.
const FETCHES_MAX: usize = 256;
/// Time for which an unreachable server is not tried again.
const DOWN_TIME: Duration = Duration::from_secs(10);
/// Idle time after which a connection is not reused.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Times a body may be kept again after it was overwritten: each time needs an unused Message-ID.
const TIMES_MAX: u32 = 32;
/// Headers that an article and its fetched copy must have in common.
const SAME: [Known; 5] = [Known::From, Known::Subject, Known::Date, Known::Newsgroups, Known::References];
/// Bytes by which a body may be longer or shorter than announced: `Bytes` counts the headers of the server
/// that wrote it, some servers count line ends or stuffed dots differently, and our Path has one more name.
const SIZE_SLACK_BYTES: u64 = 1_024;
/// Additional slack, as a divisor of the size.
const SIZE_SLACK_PART: u64 = 32;
/// Bytes of a server's answer that are shown.
const ECHO_BYTES_MAX: usize = 200;
/// Final line of the stored form.
const END: &[u8] = b".\r\n";
/// Header at the beginning of a kept body, with its Message-ID.
const OWN_HEADER: &str = "X-Newsreel-Body: ";

/// Result of a fetch: an article in wire format, or `None` if no server has it; an error if that is
/// unknown.
type BodyResult = Result<Option<Arc<Vec<u8>>>, BodyFetchError>;

/// Reason why an article was not fetched from a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum BodyFetchError {
    /// No server is configured.
    #[error("no [[body_server]] is configured")]
    NoServer,
    /// The server did not answer in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// All connections to the server are in use.
    #[error("no connection to it was free in time")]
    Busy,
    /// The server was unreachable a moment ago.
    #[error("it could not be reached a moment ago")]
    Down,
    /// There is no connection to the server, or it broke.
    #[error("{0}")]
    Broken(Box<str>),
    /// The server no longer honours the login.
    #[error("{0}")]
    LoggedOut(Box<str>),
    /// The server's answer is not the article.
    #[error("it answers `{0}`")]
    Refused(Box<str>),
    /// The server sent something else than the article.
    #[error("it sends {0}")]
    Other(&'static str),
}

impl From<nntp_io::Error> for BodyFetchError {
    fn from(error: nntp_io::Error) -> Self {
        let why = error.to_string().into();
        match error {
            nntp_io::Error::LoggedOut(_) => Self::LoggedOut(why),
            _ => Self::Broken(why),
        }
    }
}

/// Fetches bodies.
#[derive(Debug)]
pub(super) struct BodyFetcher {
    spool: Arc<Spool>,
    /// What is fetched is kept on this machine alone.
    log: SiteLog,
    config: LiveConfig,
    servers: ArcSwap<BodyServers>,
    flights: Leaf<HashMap<ArticleKey, Arc<OnceCell<BodyResult>>>>,
}

/// Servers of a configuration.
#[derive(Debug)]
struct BodyServers {
    config: Arc<Config>,
    all: Vec<BodyServerPool>,
}

#[derive(Debug)]
struct BodyServerPool {
    section: BodyServer,
    connections: Semaphore,
    /// Unused connections.
    idle: Leaf<Vec<IdleClient>>,
    /// Time before which the server is not tried.
    down_until: Leaf<Option<Instant>>,
}

/// An unused connection, and since when.
struct IdleClient(NntpClient, Instant);

impl Debug for IdleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Idle").field(&self.1).finish()
    }
}

impl BodyServers {
    fn of(config: Arc<Config>) -> Self {
        let server = |section: &BodyServer| BodyServerPool {
            section: section.clone(),
            connections: Semaphore::new(section.connections),
            idle: Leaf::default(),
            down_until: Leaf::default(),
        };
        Self { all: config.body_servers.iter().map(server).collect(), config }
    }
}

/// A reader waiting for a fetch; the last one to leave ends it.
struct BodyWaiter<'a> {
    bodies: &'a BodyFetcher,
    key: ArticleKey,
    flight: Arc<OnceCell<BodyResult>>,
}

impl Drop for BodyWaiter<'_> {
    fn drop(&mut self) {
        let mut flights = self.bodies.flights.lock();
        let is_own = flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight));
        // One reference is in the table, one here.
        if is_own && (self.flight.initialized() || Arc::strong_count(&self.flight) == 2) {
            flights.remove(&self.key);
        }
    }
}

impl BodyFetcher {
    pub fn new(spool: Arc<Spool>, config: LiveConfig) -> Self {
        let servers = ArcSwap::from_pointee(BodyServers::of(config.current()));
        let log = SiteLog::new(spool.clone());
        Self { spool, log, config, servers, flights: Leaf::default() }
    }

    /// Returns the whole article of which `stored`, in wire format with the final `.` line, has only the
    /// headers; `None` if no server has it.
    ///
    /// # Errors
    /// [`SourceError::Unavailable`] if that cannot be known now.
    pub async fn whole(&self, stored: &[u8]) -> Answer<Option<Vec<u8>>> {
        let unavailable =
            |why: &dyn Display| SourceError::Unavailable(format!("a body cannot be had: {why}"));
        let here = Article::parse(stored.strip_suffix(END).unwrap_or(stored));
        let here = here.map_err(|_| unavailable(&"the headers here are damaged"))?;
        let id = here.message_id().ok_or_else(|| unavailable(&"the headers here are damaged"))?;
        if let Some(kept) = block_in_place(|| self.kept(id.as_bytes())) {
            return Ok(joined(&here, &kept));
        }
        let key = self.spool.key(id.as_bytes());
        let waiting = {
            let mut flights = self.flights.lock();
            if flights.len() >= FETCHES_MAX && !flights.contains_key(&key) {
                return Err(unavailable(&"too many are being fetched"));
            }
            BodyWaiter { bodies: self, key, flight: flights.entry(key).or_default().clone() }
        };
        let fetched = waiting.flight.get_or_init(|| self.fetch(&here, id.as_bytes())).await;
        match fetched {
            Ok(Some(wire)) => Ok(joined(&here, wire)),
            Ok(None) => Ok(None),
            Err(why) => Err(unavailable(why)),
        }
    }

    fn servers(&self) -> Arc<BodyServers> {
        let servers = self.servers.load_full();
        if self.config.is_current(&servers.config) {
            return servers;
        }
        let servers = Arc::new(BodyServers::of(self.config.current()));
        self.servers.store(servers.clone());
        servers
    }

    /// Asks the servers in order.
    async fn fetch(&self, here: &Article<'_>, id: &[u8]) -> BodyResult {
        let servers = self.servers();
        let mut why = servers.all.is_empty().then_some(BodyFetchError::NoServer);
        let bytes_max = servers.config.site.article_bytes_max;
        for server in &servers.all {
            let name = &server.section.name;
            let asked = server.ask(id, bytes_max).await;
            let is_same = |wire: Vec<u8>| is_same(here, &wire).map(|()| wire);
            match asked.and_then(|found| found.map(is_same).transpose()) {
                Ok(Some(wire)) => {
                    block_in_place(|| self.keep(id, &wire));
                    return Ok(Some(Arc::new(wire)));
                }
                Ok(None) => debug!(server = name, "has no body"),
                Err(error) => {
                    warn!(server = name, id = %String::from_utf8_lossy(id), %error, "body not fetched");
                    why = Some(error);
                }
            }
        }
        why.map_or(Ok(None), Err)
    }

    /// Returns the Message-IDs under which a body may be kept.
    fn ids(&self, id: &[u8]) -> impl Iterator<Item = String> {
        let key = self.spool.key(&[b"body of ", id].concat());
        (0..TIMES_MAX).map(move |n| format!("<{:032x}.{n}@body.invalid>", key.0))
    }

    /// Returns the kept article; waits for the disk.
    fn kept(&self, id: &[u8]) -> Option<Vec<u8>> {
        for own in self.ids(id) {
            let key = self.spool.key(own.as_bytes());
            match self.spool.lookup(&key) {
                Lookup::Present(token) => {
                    let mut buf = ArticleBuf::default();
                    let is_read = self.spool.read(&token, Some(&key), ReadMode::Wait, &mut buf);
                    if !matches!(is_read, Ok(true)) {
                        return None;
                    }
                    let (start, _, _) = buf.layout();
                    let (bytes, _) = buf.into_buffers();
                    let wire = bytes.get(start + OWN_HEADER.len() + own.len() + 2..)?;
                    return wire.strip_suffix(END).map(<[u8]>::to_vec);
                }
                Lookup::Gone => {}
                _ => return None,
            }
        }
        None
    }

    /// Keeps an article; waits for the disk. Without room for it, it is fetched again next time.
    fn keep(&self, id: &[u8], wire: &[u8]) {
        let Ok(article) = Article::parse(wire) else { return };
        let Some(own) = self.ids(id).find(|own| !self.spool.is_known(&self.spool.key(own.as_bytes()))) else {
            return;
        };
        let line = format!("{OWN_HEADER}{own}\r\n");
        let xref = article.header_lines(Known::Xref).unwrap_or(0..0);
        let part = |range: Range<usize>| wire.get(range).unwrap_or_default();
        let pieces = [line.as_bytes(), part(0..xref.start), part(xref.end..wire.len())];
        let value = |known| article.header(known).unwrap_or_default();
        let mut tagged = Vec::new();
        let wire_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        // The copy goes to no peer, including peers added later.
        RowFacts { wire_bytes, kind: ArticleKind::LOCAL, ..RowFacts::default() }.put(&mut tagged);
        let filing = NewArticle {
            key: None,
            message_id: own.as_bytes(),
            pieces: &pieces,
            header_bytes: line.len() + article.body_offset() - xref.len(),
            message_id_at: OWN_HEADER.len(),
            groups: ArticleGroups::None,
            numbers: &[],
            fields: OverviewFields { bytes: wire_bytes, ..OverviewFields::of(&article, own.as_bytes()) },
            arrived: unix_secs(),
            expires: None,
            criteria: Criteria {
                from: value(Known::From),
                path: value(Known::Path),
                head: article.head(),
                verdict: None,
                origin: "body",
                newsgroups: value(Known::Newsgroups),
            },
            tagged: TaggedFields::new(&tagged).unwrap_or_default(),
        };
        match self.log.commit_one(Change::Article(filing)) {
            Ok(ChangeOutcome::Filed(_)) => {}
            Ok(outcome) => debug!(?outcome, "a body cannot be kept"),
            Err(trouble) => debug!(%trouble, "a body cannot be kept"),
        }
    }
}

impl BodyServerPool {
    /// Asks for an article; returns `None` if the server has none.
    async fn ask(&self, id: &[u8], bytes_max: u64) -> Result<Option<Vec<u8>>, BodyFetchError> {
        if self.down_until.lock().is_some_and(|until| until > Instant::now()) {
            return Err(BodyFetchError::Down);
        }
        // A server whose connections are all in use is not down.
        let permit = timeout(self.section.timeout, self.connections.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(BodyFetchError::Busy) };
        let asked = timeout(self.section.timeout, self.ask_connected(id, bytes_max)).await;
        asked.unwrap_or_else(|_| Err(self.is_down(BodyFetchError::TimedOut)))
    }

    /// Asks on an idle connection or a new one; a permit is held.
    async fn ask_connected(&self, id: &[u8], bytes_max: u64) -> Result<Option<Vec<u8>>, BodyFetchError> {
        if let Some(client) = self.idle().await {
            match self.ask_on(client, id, bytes_max).await {
                // A new connection logs in.
                Err(BodyFetchError::LoggedOut(_)) => {}
                asked => return asked,
            }
        }
        let client = self.connect(bytes_max).await.map_err(|error| self.is_down(error))?;
        match self.ask_on(client, id, bytes_max).await {
            Err(error @ BodyFetchError::LoggedOut(_)) => Err(self.is_down(error)),
            asked => asked,
        }
    }

    async fn ask_on(
        &self,
        mut client: NntpClient,
        id: &[u8],
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, BodyFetchError> {
        let answer = client.request([b"ARTICLE ", id].concat()).await?;
        let found = match answer.code {
            code::ARTICLE_FOLLOWS => {
                let (mut wire, max) = (Vec::new(), usize::try_from(bytes_max).unwrap_or(usize::MAX));
                client.read_block(&mut wire, max).await?;
                Some(wire)
            }
            code::NO_SUCH_ARTICLE => None,
            _ => {
                let line = answer.line().get(..ECHO_BYTES_MAX).unwrap_or(answer.line());
                return Err(BodyFetchError::Refused(String::from_utf8_lossy(line).into()));
            }
        };
        self.idle.lock().push(IdleClient(client, Instant::now()));
        Ok(found)
    }

    /// Returns an idle connection that still works.
    async fn idle(&self) -> Option<NntpClient> {
        loop {
            let IdleClient(mut client, since) = self.idle.lock().pop()?;
            if since.elapsed() < IDLE_TIME && client.is_reusable().await {
                return Some(client);
            }
        }
    }

    async fn connect(&self, bytes_max: u64) -> Result<NntpClient, BodyFetchError> {
        let BodyServer { from, timeout, .. } = &self.section;
        let limits = ClientLimits {
            connect_timeout: *timeout,
            greeting_timeout: *timeout,
            answer_timeout: *timeout,
            idle_timeout: *timeout,
            block_bytes_max: bytes_max,
            ..ClientLimits::default()
        };
        let dial = RemoteServer { to: from.clone(), link: self.section.link() };
        let target = block_in_place(|| dial.target(Role::Reader, limits));
        let target = target.map_err(|error| BodyFetchError::Broken(error.to_string().into()))?;
        Ok(NntpClient::connect(&target).await?)
    }

    /// Records that the server is unreachable.
    fn is_down(&self, error: BodyFetchError) -> BodyFetchError {
        *self.down_until.lock() = Some(Instant::now() + DOWN_TIME);
        error
    }
}

/// Returns whether a body has the size announced by the headers here, allowing for different ways of
/// counting.
fn is_of_size(here: &Article<'_>, body_bytes: u64) -> bool {
    let Some(announced) = here.bodiless() else { return true };
    let expected = announced.body_bytes;
    body_bytes.abs_diff(expected) <= SIZE_SLACK_BYTES + expected / SIZE_SLACK_PART
}

/// Checks that a fetched article is the one whose headers are here.
fn is_same(here: &Article<'_>, wire: &[u8]) -> Result<(), BodyFetchError> {
    let article = Article::parse(wire).map_err(|_| BodyFetchError::Other("no article"))?;
    let value =
        |article: &Article<'_>, known| article.header(known).unwrap_or_default().trim_ascii().to_vec();
    let is_same = |known: &Known| value(&article, *known) == value(here, *known);
    if article.message_id() != here.message_id() || !SAME.iter().all(is_same) {
        return Err(BodyFetchError::Other("another article"));
    }
    if article.body().is_empty() {
        return Err(BodyFetchError::Other("an article without a body"));
    }
    match is_of_size(here, article.body().len() as u64) {
        true => Ok(()),
        false => Err(BodyFetchError::Other("a body of another size")),
    }
}

/// Returns a fetched article as one of ours, with the final `.` line and with the Xref and the Path that
/// are here.
fn joined(here: &Article<'_>, wire: &[u8]) -> Option<Vec<u8>> {
    let article = Article::parse(wire).ok()?;
    let lines = |of: &Article<'_>, known| of.header_lines(known).unwrap_or(0..0);
    let ours = |known| here.wire().get(lines(here, known)).unwrap_or_default();
    let mut cuts =
        [(lines(&article, Known::Xref), &b""[..]), (lines(&article, Known::Path), ours(Known::Path))];
    cuts.sort_unstable_by_key(|(range, _)| range.start);
    let mut out = ours(Known::Xref).to_vec();
    let mut at = 0;
    for (range, instead) in cuts {
        out.extend_from_slice(wire.get(at..range.start)?);
        out.extend_from_slice(instead);
        at = range.end.max(at);
    }
    out.extend_from_slice(wire.get(at..)?);
    out.extend_from_slice(END);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(head: &str, body: &str) -> Vec<u8> {
        format!("{head}\n\n{body}").replace('\n', "\r\n").into_bytes()
    }

    #[tokio::test]
    async fn a_server_whose_connections_are_in_use_is_not_down() {
        let text = "[site]\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\n\
            class = \"c\"\n[[body_server]]\nname = \"b\"\nfrom = \"127.0.0.1:1\"\nconnections = 1\n";
        let config = site_config::parse(text, std::path::Path::new("/sim/newsreel.toml"));
        let mut config = config.map_err(|error| error.to_string()).unwrap();
        config.body_servers[0].timeout = Duration::from_millis(10);
        let servers = BodyServers::of(Arc::new(config));
        let server = &servers.all[0];
        let _in_use = server.connections.acquire().await.unwrap();
        assert_eq!(server.ask(b"<1@x>", 1_000).await, Err(BodyFetchError::Busy));
        assert!(server.down_until.lock().is_none());
    }

    #[test]
    fn another_article_is_distinguished_by_its_headers() {
        let head = "Path: a!b\nFrom: a@b\nSubject: x\nDate: now\nNewsgroups: g\nMessage-ID: <1@x>";
        let here = wire(&format!("Xref: us g:7\n{head}\nBytes: 300\nLines: 1"), "");
        let here = Article::parse(&here).unwrap();
        let same = |head: &str, body| is_same(&here, &wire(head, body));
        assert_eq!(same(&head.replace("a!b", "c!d!e"), "body\n"), Ok(()));
        assert_eq!(same(head, ""), Err(BodyFetchError::Other("an article without a body")));
        for other in [head.replace("<1@x>", "<2@x>"), head.replace("Subject: x", "Subject: y")] {
            assert_eq!(same(&other, "body\n"), Err(BodyFetchError::Other("another article")), "{other}");
        }
        assert_eq!(is_same(&here, b"nothing"), Err(BodyFetchError::Other("no article")));
    }

    #[test]
    fn a_body_of_another_size_is_rejected() {
        let head = "Path: a!b\nFrom: a@b\nSubject: x\nDate: now\nNewsgroups: g\nMessage-ID: <1@x>";
        let whole = wire(head, &"a line\n".repeat(5_000));
        let here = wire(&format!("{head}\nBytes: {}\nLines: 5000", whole.len()), "");
        let here = Article::parse(&here).unwrap();
        assert_eq!(is_same(&here, &whole), Ok(()));
        // Other headers of its server, and line ends of one octet, do not change the size; a truncation
        // does.
        assert_eq!(is_same(&here, &wire(&format!("X-Trace: y\n{head}"), &"a line\n".repeat(4_900))), Ok(()));
        for lines in [1, 2_500, 4_500, 5_500, 50_000] {
            let cut = wire(head, &"a line\n".repeat(lines));
            assert_eq!(is_same(&here, &cut), Err(BodyFetchError::Other("a body of another size")), "{lines}");
        }
    }

    #[test]
    fn a_fetched_article_gets_our_path_and_xref() {
        let here = wire("Xref: us g:7\nPath: us!a!b\nMessage-ID: <1@x>\nBytes: 300\nLines: 1", "");
        let here = Article::parse(&here).unwrap();
        for (head, whole) in [
            ("Path: c!d\nMessage-ID: <1@x>", "Xref: us g:7\nPath: us!a!b\nMessage-ID: <1@x>"),
            ("Xref: c g:1\nMessage-ID: <1@x>\nPath: c", "Xref: us g:7\nMessage-ID: <1@x>\nPath: us!a!b"),
            (
                "Path: c\nXref: c g:1\nX: y\nMessage-ID: <1@x>",
                "Xref: us g:7\nPath: us!a!b\nX: y\nMessage-ID: <1@x>",
            ),
        ] {
            let joined = joined(&here, &wire(head, "body\n")).unwrap();
            assert_eq!(
                String::from_utf8(joined).unwrap(),
                String::from_utf8(wire(whole, "body\n.\n")).unwrap()
            );
        }
    }
}
