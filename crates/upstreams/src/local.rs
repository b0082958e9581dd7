//! The local spool as a source of news.
//!
//! Data in memory is read at once; data that requires waiting for the disk is read without delaying the
//! other sessions of this thread. Articles are read into the buffers they are sent from.

use super::bodies::BodyFetcher;
use super::{
    Answer, ArticleBytes, ArticleLayout, ArticlePart, CountingBase, Fetched, ForeseenRequest, GroupInfo,
    GroupList, GroupSelection, GroupStream, IdStanding, NeighbourSide, NewsSource, SourceError,
    SourceLocator, Wanted, has_changed,
};
use disk::ReadMode;
use netnews::GroupMarks;
use netnews::{Article, MessageId};
use nntp_io::TimeSlice;
use site_config::LiveConfig;
use spool::{ArticleBuf, ArticleKey, Group, GroupFlag, GroupId, Lookup, ReadError, Spool};
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::block_in_place;

/// Final line of the stored form.
const END: &[u8] = b".\r\n";

/// Groups examined before others may go first.
const GROUPS_AT_ONCE: usize = 64;

/// The local spool. Each client has a clone of its own.
#[derive(Debug, Clone)]
pub struct LocalSpool {
    spool: Arc<Spool>,
    /// Fetcher for bodies that are not here.
    bodies: Option<Arc<BodyFetcher>>,
    waits: WaitsForDisk,
}

/// Whether what this client reads was last found on the disk only, so that looking ahead is worth its time.
#[derive(Debug, Default)]
struct WaitsForDisk(AtomicBool);

impl Clone for WaitsForDisk {
    /// Nothing is known of another client.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl WaitsForDisk {
    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, waits: bool) {
        self.0.store(waits, Ordering::Relaxed);
    }
}

/// A list of groups of the spool.
#[derive(Debug)]
pub struct LocalGroups {
    list: GroupList,
    base: CountingBase,
    groups: Arc<[Arc<Group>]>,
    next: usize,
    slice: TimeSlice,
    /// Texts borrowed by a group's info.
    description: String,
    alias: String,
}

impl From<ReadError> for SourceError {
    fn from(error: ReadError) -> Self {
        Self::Fault(Box::new(error))
    }
}

impl LocalSpool {
    /// Returns the source for the articles of this spool.
    pub fn new(spool: Arc<Spool>) -> Self {
        Self { spool, bodies: None, waits: WaitsForDisk::default() }
    }

    /// Reads from memory if possible, otherwise waits for the disk.
    fn read<T>(&self, mut read: impl FnMut(ReadMode) -> Result<T, ReadError>) -> Answer<T> {
        let done = match read(ReadMode::CacheOnly) {
            Err(ReadError::WouldBlock) => {
                self.waits.set(true);
                block_in_place(|| read(ReadMode::Wait))
            }
            other => other,
        };
        done.map_err(SourceError::from)
    }

    /// Has the disk begin to read an article, if that needs no waiting. Returns whether it is not in memory;
    /// `None` if its place is not known without waiting.
    fn begin_read(&self, place: SourceLocator<'_, GroupId>, patience: ReadMode) -> Option<bool> {
        let token = match place {
            SourceLocator::Number(group, number) => match self.spool.token_of(*group, number, patience) {
                Err(ReadError::WouldBlock) => return None,
                // An error comes up again when the article is read.
                token => token.ok().flatten(),
            },
            SourceLocator::MessageId(id) => match self.spool.lookup(&self.spool.key(id.as_bytes())) {
                Lookup::Present(token) => Some(token),
                _ => None,
            },
        };
        Some(token.is_some_and(|token| self.spool.begin_read(&token)))
    }

    /// Replaces headers in `into` by the whole article.
    async fn with_body(&self, into: &mut ArticleBytes) -> Answer<Fetched<Infallible>> {
        let Some(bodies) = &self.bodies else {
            return Err(SourceError::Unavailable("the body of an article is not here".to_owned()));
        };
        let Some(wire) = bodies.whole(into.article()).await? else { return Ok(Fetched::Missing) };
        let id = into.message_id().to_vec();
        into.set(&id, &wire);
        Ok(Fetched::Whole)
    }

    /// Waits until readers here see what readers of other members of the cluster may have seen.
    fn freshen(&self) {
        if self.spool.shared_log().is_some() {
            block_in_place(|| self.spool.freshen());
        }
    }

    /// Does so if a number is above all that are known here: another member may have given it a moment ago.
    fn freshen_above(&self, group: GroupId, number: u64) {
        if self.spool.shared_log().is_some()
            && self.spool.group(group).is_some_and(|group| number > group.marks().high)
        {
            self.freshen();
        }
    }

    /// Looks up an article by its key; an unknown one is looked up again once this member has what the log of
    /// the cluster has.
    fn lookup(&self, key: &ArticleKey) -> Lookup {
        match self.spool.lookup(key) {
            Lookup::Unknown if self.spool.shared_log().is_some() => {
                block_in_place(|| self.spool.lookup_fresh(key))
            }
            found => found,
        }
    }

    fn token(&self, place: SourceLocator<'_, GroupId>) -> Answer<Option<(spool::Token, Option<ArticleKey>)>> {
        Ok(match place {
            SourceLocator::Number(group, number) => {
                self.freshen_above(*group, number);
                let token = self.read(|patience| self.spool.token_of(*group, number, patience))?;
                token.map(|token| (token, None))
            }
            SourceLocator::MessageId(id) => {
                let key = self.spool.key(id.as_bytes());
                match self.lookup(&key) {
                    Lookup::Present(token) => Some((token, Some(key))),
                    _ => None,
                }
            }
        })
    }
}

/// Returns whether only the headers of an article are here; `body` is the end of it.
pub fn is_bodiless(article: &[u8], body: &[u8]) -> bool {
    body == END
        && article
            .strip_suffix(END)
            .is_some_and(|wire| Article::parse(wire).is_ok_and(|article| article.bodiless().is_some()))
}

impl NewsSource for LocalSpool {
    type Group = GroupId;
    type Groups = LocalGroups;
    type Rest = Infallible;

    fn under(self, config: &LiveConfig) -> Self {
        let bodies = BodyFetcher::new(self.spool.clone(), config.clone());
        Self { bodies: Some(Arc::new(bodies)), ..self }
    }

    async fn group(&self, name: &[u8], base: CountingBase) -> Answer<Option<(GroupId, GroupMarks)>> {
        self.freshen();
        let id = self.spool.group_id(name);
        Ok(id.and_then(|id| self.spool.marks_above(id, base).map(|marks| (id, marks))))
    }

    async fn groups(
        &self,
        list: GroupList,
        which: GroupSelection<'_, GroupId>,
        base: CountingBase,
    ) -> Answer<LocalGroups> {
        self.freshen();
        let one = |id: Option<GroupId>| id.and_then(|id| self.spool.group(id)).into_iter().collect();
        let groups = match which {
            GroupSelection::All | GroupSelection::Like(_) => self.spool.groups(),
            GroupSelection::Named(name) => one(self.spool.group_id(name)),
            GroupSelection::One(id) => one(Some(*id)),
        };
        let (next, slice) = (0, TimeSlice::default());
        Ok(LocalGroups { list, base, groups, next, slice, description: String::new(), alias: String::new() })
    }

    async fn active_text(&self) -> Answer<Option<Arc<Vec<u8>>>> {
        self.freshen();
        Ok(Some(self.spool.list_active()))
    }

    async fn article(
        &self,
        place: SourceLocator<'_, GroupId>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<Infallible>> {
        let Some((token, expect)) = self.token(place)? else { return Ok(Fetched::Missing) };
        let (bytes, raw) = into.take();
        let mut article = ArticleBuf::from_buffers(bytes, raw);
        let found = self.read(|patience| self.spool.read(&token, expect.as_ref(), patience, &mut article));
        let (article_at, body_at, message_id) = article.layout();
        let (bytes, scratch) = article.into_buffers();
        into.put(bytes, scratch, ArticleLayout { article_at, body_at, message_id });
        if !found? {
            return Ok(Fetched::Missing);
        }
        match matches!(part, ArticlePart::Article | ArticlePart::Body)
            && is_bodiless(into.article(), into.body())
        {
            // Boxed: the state of fetching would make every session larger.
            true => Box::pin(self.with_body(into)).await,
            false => Ok(Fetched::Whole),
        }
    }

    fn looks_ahead(&self) -> bool {
        self.waits.get()
    }

    /// Has the disk begin to read all that pipelined commands ask for: it reads several places in little more
    /// time than one, and most of them are in memory at their turn. If all are there now, the next commands
    /// are not looked at until one waits again.
    async fn look_ahead(&self, foreseen: &[ForeseenRequest<'_, GroupId>]) {
        if !self.waits.get() || foreseen.is_empty() {
            return;
        }
        let (mut waits, mut unknown) = (false, Vec::new());
        for request in foreseen {
            match request {
                ForeseenRequest::Article(place, _) => match self.begin_read(*place, ReadMode::CacheOnly) {
                    Some(begun) => waits |= begun,
                    None => unknown.push(*place),
                },
                ForeseenRequest::Rows(group, range) => {
                    self.spool.begin_rows(**group, range.clone());
                    waits = true;
                }
                ForeseenRequest::Group(_)
                | ForeseenRequest::Existence(_)
                | ForeseenRequest::Neighbours(..) => {}
            }
        }
        if !unknown.is_empty() {
            waits = true;
            // The rows that have the places are being read by now.
            block_in_place(|| {
                for place in unknown {
                    self.begin_read(place, ReadMode::Wait);
                }
            });
        }
        self.waits.set(waits);
    }

    fn standing(&self, id: MessageId<'_>) -> IdStanding {
        match self.spool.lookup(&self.spool.key(id.as_bytes())) {
            Lookup::Hidden(_) => IdStanding::Hidden,
            Lookup::Remembered => IdStanding::Refused,
            Lookup::Unknown | Lookup::Gone | Lookup::Present(_) => IdStanding::Free,
        }
    }

    fn arrived(&self, id: MessageId<'_>) -> Option<i64> {
        let (arrived, is_here) = self.spool.seen(&self.spool.key(id.as_bytes()))?;
        (is_here && arrived > 0).then_some(i64::from(arrived))
    }

    async fn has(&self, id: MessageId<'_>) -> Answer<bool> {
        Ok(matches!(self.lookup(&self.spool.key(id.as_bytes())), Lookup::Present(_)))
    }

    async fn numbers(
        &self,
        group: &GroupId,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> Answer<()> {
        self.freshen_above(*group, *range.start());
        self.spool.numbers(*group, range, max, into);
        Ok(())
    }

    async fn neighbour(&self, group: &GroupId, number: u64, side: NeighbourSide) -> Answer<Option<u64>> {
        Ok(match side {
            NeighbourSide::Previous => self.spool.previous_number(*group, number),
            NeighbourSide::Next => self.spool.next_number(*group, number),
        })
    }

    async fn over(
        &self,
        group: &GroupId,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> Answer<Option<u64>> {
        self.freshen_above(*group, *range.start());
        self.read(|patience| self.spool.over(*group, range.clone(), limit_bytes, patience, into))
    }

    fn rows_have_headers(&self) -> bool {
        self.spool.rows_have_headers()
    }

    async fn arrived_since(&self, name: &[u8], since: u64, into: &mut Vec<u8>) -> Answer<()> {
        let Some(group) = self.spool.group_id(name) else { return Ok(()) };
        let mut visit = |id: &[u8]| {
            into.extend_from_slice(id);
            into.extend_from_slice(b"\r\n");
        };
        block_in_place(|| self.spool.arrived_since(group, since, &mut visit)).map_err(SourceError::from)
    }
}

impl GroupStream for LocalGroups {
    async fn next<'s>(&'s mut self, wanted: Wanted<'_>) -> Answer<Option<GroupInfo<'s>>> {
        let listed = |group: &Group| match self.list {
            GroupList::Changed { since } => has_changed(group.changed(), since),
            GroupList::New { since } => group.created >= since,
            _ => true,
        };
        let group = loop {
            let rest = self.groups.get(self.next..).unwrap_or_default();
            let some = rest.get(..GROUPS_AT_ONCE).unwrap_or(rest);
            if some.is_empty() {
                return Ok(None);
            }
            match some.iter().position(|group| wanted(group.name.as_bytes()) && listed(group)) {
                Some(found) => {
                    self.next += found + 1;
                    break rest.get(found);
                }
                None => self.next += some.len(),
            }
            self.slice.pause().await;
        };
        let Some(group) = group else { return Ok(None) };
        let named = GroupInfo { name: group.name.as_bytes(), ..GroupInfo::default() };
        Ok(Some(match self.list {
            GroupList::Names => named,
            GroupList::Descriptions => {
                self.description = group.description();
                GroupInfo { description: self.description.as_bytes(), ..named }
            }
            GroupList::Times => {
                GroupInfo { created: group.created, creator: group.creator.as_bytes(), ..named }
            }
            GroupList::Active | GroupList::Changed { .. } | GroupList::New { .. } | GroupList::Counts => {
                let flag: &[u8] = match group.flag() {
                    GroupFlag::Open => b"y",
                    flag => {
                        self.alias = flag.to_string();
                        self.alias.as_bytes()
                    }
                };
                GroupInfo { marks: group.marks_above(self.base), flag, ..named }
            }
        }))
    }
}
