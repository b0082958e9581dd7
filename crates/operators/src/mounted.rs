//! The spool's articles as files of a mount (`newsreel mount --spool`).
//!
//! [`SpoolArticles`] answers [`usenetfs`] from the spool, without its writer's lock, with the rights of a
//! reader connected from a given address: the `[[access]]` section for that address determines the visible
//! groups, and follows reloads. Used by `control_socket`.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use disk::ReadMode;
use netnews::MessageId;
use netnews::article::xref_places;
use netnews::nntp::wire;
use spool::{ArticleBuf, ArticleKey, Lookup, ReadError, Token};
use tokio::runtime::Handle;
use usenetfs::{ArticleProvider, DiskWait, ReadFailure, ShownArticle};

use super::load::FeedRate;
use access::ClientEndpoint;
use site::Site;
use site::serve::ReaderView;
use site::session::ConnectedClient;
use site_base::lock::Leaf;
use upstreams::{ArticleBytes, ArticlePart, Fetched, LocalSpool, NewsSource, SourceLocator, is_bodiless};

/// Final line of the stored form.
const END: &[u8] = b".\r\n";
/// Memory that a thread keeps for reading, in bytes.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
/// Interval over which a busy feed is detected.
const FEED_LOOK: Duration = Duration::from_millis(200);
/// Delay of each answer while a feed is busy, which leaves the machine to the feed.
const PAUSE: Duration = Duration::from_millis(2);

thread_local! {
    /// Buffer kept from one read to the next.
    static ARTICLE: RefCell<ArticleBuf> = RefCell::default();
}

/// Format and audience of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpoolViewOptions {
    /// Address that the reader would connect from.
    pub reader: IpAddr,
    /// Whether lines end in CRLF instead of LF.
    pub crlf: bool,
}

/// Refusal of a mount: the reader at this address, as whom it would look, may not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no [[access]] section lets readers at {0} read; name another address with --reader")]
pub(crate) struct ReaderMayNotRead(IpAddr);

/// Articles of a running server.
pub(crate) struct SpoolArticles {
    site: Arc<Site>,
    /// Source of bodies that are not stored here.
    source: LocalSpool,
    looks: SpoolViewOptions,
    /// The reader's view, and the number of reloads at which it was computed.
    view: ArcSwap<(u64, ReaderView)>,
    feed: Leaf<FeedRate>,
    runtime: Handle,
}

impl SpoolArticles {
    /// Creates the view of the reader, or an error if the reader may not read. Needs the runtime's context.
    pub fn new(site: &Arc<Site>, looks: SpoolViewOptions) -> Result<Self, ReaderMayNotRead> {
        let client = client_of(site, looks.reader);
        if !client.may_read() {
            return Err(ReaderMayNotRead(looks.reader));
        }
        Ok(Self {
            source: LocalSpool::new(site.spool.clone()).under(&site.config),
            looks,
            view: ArcSwap::from_pointee((site.reloads(), client.view())),
            feed: Leaf::new(FeedRate::of_journal(FEED_LOOK, site.spool.ticket().position(), Instant::now())),
            site: site.clone(),
            runtime: Handle::current(),
        })
    }

    fn view(&self) -> Arc<(u64, ReaderView)> {
        let reloads = self.site.reloads();
        let view = self.view.load_full();
        if view.0 == reloads {
            return view;
        }
        let view = Arc::new((reloads, client_of(&self.site, self.looks.reader).view()));
        self.view.store(view.clone());
        view
    }

    /// Reads an article by its token, and converts it to a file.
    fn read(
        &self,
        token: Token,
        key: Option<&ArticleKey>,
        wait: DiskWait,
        is_shown: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<ShownArticle<(Token, ArticleKey)>>, ReadFailure> {
        let spool = &self.site.spool;
        ARTICLE.with_borrow_mut(|buf| {
            if !spool.read(&token, key, patience(wait), buf).map_err(not_read)? || !is_shown(buf.head()) {
                return Ok(None);
            }
            let own_key = spool.key(buf.message_id());
            let text = match is_bodiless(buf.article(), buf.body()) {
                true if wait == DiskWait::No => return Err(ReadFailure::WouldWait),
                true => match self.with_body(buf.message_id())? {
                    Some(text) => text,
                    None => return Ok(None),
                },
                false => self.file_of(buf.shown()),
            };
            let article = ShownArticle {
                sequence: buf.sequence(),
                text,
                places: places(buf.head()),
                arrived: buf.arrived(),
                locator: (token, own_key),
            };
            buf.shrink_to(BUFFER_KEPT_BYTES);
            Ok(Some(article))
        })
    }

    /// Returns an article of which only the headers are stored, with the body from another server.
    fn with_body(&self, id: &[u8]) -> Result<Option<Vec<u8>>, ReadFailure> {
        let id = MessageId::parse(id).ok_or(ReadFailure::Failed)?;
        let mut bytes = ArticleBytes::default();
        let fetched = self.source.article(SourceLocator::MessageId(id), ArticlePart::Article, &mut bytes);
        match self.runtime.block_on(fetched) {
            Ok(Fetched::Missing) => Ok(None),
            Ok(Fetched::Whole) => Ok(Some(self.file_of(bytes.article()))),
            Err(_) => Err(ReadFailure::Failed),
        }
    }

    /// Converts the text that ARTICLE sends to a file.
    fn file_of(&self, article: &[u8]) -> Vec<u8> {
        let wire = article.strip_suffix(END).unwrap_or(article);
        let mut text = Vec::new();
        if self.looks.crlf {
            wire::unstuff(wire, &mut text)
        } else {
            wire::to_text(wire, &mut text)
        }
        text
    }
}

/// Returns the groups and numbers of an article.
fn places(head: &[u8]) -> Vec<(Arc<str>, u64)> {
    let places = xref_places(head).filter_map(|(group, number)| {
        let (group, number) = (std::str::from_utf8(group).ok()?, std::str::from_utf8(number).ok()?);
        Some((Arc::from(group), number.parse().ok()?))
    });
    places.collect()
}

fn client_of(site: &Site, reader: IpAddr) -> ConnectedClient {
    ConnectedClient::at(
        &site.config.current(),
        &site.gate,
        ClientEndpoint { address: reader, port: 0, local: None },
    )
}

fn patience(wait: DiskWait) -> ReadMode {
    match wait {
        DiskWait::No => ReadMode::CacheOnly,
        DiskWait::Yes => ReadMode::Wait,
    }
}

fn not_read(error: ReadError) -> ReadFailure {
    match error {
        ReadError::WouldBlock => ReadFailure::WouldWait,
        _ => ReadFailure::Failed,
    }
}

/// Returns the delay of an answer, with the journal at this position.
fn pause(feed: &mut FeedRate, position: u64, now: Instant) -> Duration {
    if feed.is_busy(position, now) { PAUSE } else { Duration::ZERO }
}

impl ArticleProvider for SpoolArticles {
    type Locator = (Token, ArticleKey);

    fn give_way(&self) {
        let position = self.site.spool.ticket().position();
        let pause = pause(&mut self.feed.lock(), position, Instant::now());
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }

    fn group_from(&self, name: &str) -> Option<Arc<str>> {
        let (groups, view) = (self.site.spool.groups(), self.view());
        let first = groups.partition_point(|group| *group.name < *name);
        let mut rest = groups.get(first..).unwrap_or_default().iter();
        rest.find(|group| view.1.shows(group.name.as_bytes())).map(|group| Arc::from(&*group.name))
    }

    fn group_changed(&self, group: &str) -> Option<u64> {
        let id = self.site.spool.group_id(group.as_bytes())?;
        let changed = self.site.spool.group(id)?.changed();
        self.view().1.shows(group.as_bytes()).then_some(changed)
    }

    fn numbers(&self, group: &str, from: u64, max: usize, into: &mut Vec<u64>) {
        if let Some(id) = self.site.spool.group_id(group.as_bytes())
            && self.view().1.shows(group.as_bytes())
        {
            self.site.spool.numbers(id, from..=u64::MAX, max, into);
        }
    }

    fn is_shown(&self, group: &str, number: u64) -> bool {
        let id = self.site.spool.group_id(group.as_bytes());
        id.is_some_and(|id| self.view().1.shows(group.as_bytes()) && self.site.spool.exists(id, number))
    }

    fn article(
        &self,
        place: usenetfs::ArticleLookup<'_, (Token, ArticleKey)>,
        wait: DiskWait,
    ) -> Result<Option<ShownArticle<(Token, ArticleKey)>>, ReadFailure> {
        let spool = &self.site.spool;
        match place {
            usenetfs::ArticleLookup::Number(group, number) => {
                let id = spool.group_id(group.as_bytes()).filter(|_| self.view().1.shows(group.as_bytes()));
                let Some(id) = id else { return Ok(None) };
                let token = spool.token_of(id, number, patience(wait)).map_err(not_read)?;
                let Some(token) = token else { return Ok(None) };
                self.read(token, None, wait, |_| true)
            }
            usenetfs::ArticleLookup::MessageId(id) => {
                let key = spool.key(id);
                let Lookup::Present(token) = spool.lookup(&key) else { return Ok(None) };
                self.read(token, Some(&key), wait, |head| self.view().1.shows_article(head))
            }
            usenetfs::ArticleLookup::Again((token, key)) => self.read(*token, Some(key), wait, |_| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_delayed_while_a_feed_is_busy() {
        let start = Instant::now();
        let mut feed = FeedRate::of_journal(FEED_LOOK, 0, start);
        assert_eq!(pause(&mut feed, 10 << 10, start), Duration::ZERO, "not known yet");
        assert_eq!(pause(&mut feed, 10 << 20, start + FEED_LOOK), PAUSE);
        assert_eq!(pause(&mut feed, 10 << 20, start + 2 * FEED_LOOK), Duration::ZERO);
    }
}
