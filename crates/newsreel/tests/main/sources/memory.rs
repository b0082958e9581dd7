//! News in memory, as a source independent of the spool's types: it copies the contents of a server's spool
//! before it answers.
//!
//! The source is as slow as a source may be: it answers after other tasks have run, a few overview rows at a
//! time, and an article's body comes in pieces. With a [`Gate`] every piece after the first waits until the
//! test lets it through.

use disk::ReadMode;
use netnews::GroupMarks;
use netnews::overview_row::{OverviewFields, append_fields, append_row};
use netnews::{Article, MessageId, article};
use parking_lot::Mutex;
use spool::{ArticleBuf, Spool};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use upstreams::{
    Answer, ArticleBytes, ArticlePart, CountingBase, Fetched, GroupInfo, GroupList, GroupSelection,
    GroupStream, More, NeighbourSide, NewsSource, Remainder, SourceError, SourceLocator, Wanted,
};

/// Rows available at once.
const ROWS_AT_ONCE: usize = 2;
/// Groups available at once.
pub const GROUPS_AT_ONCE: usize = 3;
/// Octets of an article that come at once.
const PIECE_BYTES: usize = 16 << 10;
/// Time that may pass between a change of a group and its record, in seconds.
const CHANGE_SLACK_SECS: u64 = 2;

/// Controls what a test lets through.
#[derive(Debug)]
pub struct Gate {
    /// Permits for further pieces.
    pub pieces: Semaphore,
    /// Set if nothing is available.
    pub closed: AtomicBool,
}

impl Default for Gate {
    fn default() -> Self {
        Self { pieces: Semaphore::new(0), closed: AtomicBool::new(false) }
    }
}

impl Gate {
    fn ask(&self) -> Answer<()> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err(SourceError::Unavailable("the test says so".into())),
            false => Ok(()),
        }
    }

    async fn pass(gate: Option<&Self>) -> Answer<()> {
        let Some(gate) = gate else {
            yield_now().await;
            return Ok(());
        };
        gate.pieces.acquire().await.unwrap().forget();
        gate.ask()
    }
}

/// An article and its time of arrival.
#[derive(Debug)]
struct Stored {
    id: Vec<u8>,
    wire: Vec<u8>,
    arrived: u64,
}

/// A group with its articles by number.
#[derive(Debug, Default)]
struct Group {
    /// Distinguishes a group from an older one of its name.
    made: u32,
    high: u64,
    flag: String,
    description: String,
    created: u64,
    creator: String,
    changed: u64,
    articles: BTreeMap<u64, Arc<Stored>>,
}

impl Group {
    fn marks(&self, base: CountingBase) -> GroupMarks {
        let above = self.articles.range(base(self.high) + 1..);
        let low = above.clone().next().map_or(self.high + 1, |(number, _)| *number);
        GroupMarks { low, high: self.high, count: above.count() as u64 }
    }
}

#[derive(Debug, Default)]
struct News {
    groups: BTreeMap<Vec<u8>, Group>,
    by_id: HashMap<Vec<u8>, Arc<Stored>>,
}

/// A group that a reader has selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    name: Vec<u8>,
    made: u32,
}

/// News in memory.
#[derive(Clone)]
pub struct Memory {
    news: Arc<Mutex<News>>,
    spool: Arc<Spool>,
    /// Returns whether a group is here.
    has: fn(&[u8]) -> bool,
    gate: Option<Arc<Gate>>,
}

impl Memory {
    /// Returns a source with the groups of `spool` for which `has` returns true.
    pub fn of(spool: &Arc<Spool>, has: fn(&[u8]) -> bool) -> Self {
        Self { news: Arc::default(), spool: spool.clone(), has, gate: None }
    }

    /// Returns this source with a gate for its pieces.
    pub fn gated(self, gate: &Arc<Gate>) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }

    /// Copies new articles from the spool and drops those that have left it.
    pub fn refresh(&self) {
        let mut news = self.news.lock();
        let News { groups, by_id } = &mut *news;
        let table = self.spool.groups();
        let here: Vec<_> = table.iter().filter(|group| (self.has)(group.name.as_bytes())).collect();
        groups.retain(|name, group| {
            here.iter().any(|other| other.name.as_bytes() == &name[..] && other.id.0 == group.made)
        });
        for group in here {
            let own = groups.entry(group.name.as_bytes().to_vec()).or_default();
            own.made = group.id.0;
            own.flag = group.flag().to_string();
            own.description = group.description();
            (own.created, own.changed) = (group.created, group.changed());
            own.creator = group.creator.to_string();
            let mut numbers = Vec::new();
            self.spool.numbers(group.id, 1..=u64::MAX, usize::MAX, &mut numbers);
            own.high = group.marks().high;
            own.articles.retain(|number, _| numbers.contains(number));
            for number in numbers {
                if !own.articles.contains_key(&number)
                    && let Some(stored) = self.read(group.id, number)
                {
                    own.articles.insert(number, by_id.entry(stored.id.clone()).or_insert(stored).clone());
                }
            }
        }
        by_id.retain(|id, _| matches!(self.spool.lookup(&self.spool.key(id)), spool::Lookup::Present(_)));
    }

    fn read(&self, group: spool::GroupId, number: u64) -> Option<Arc<Stored>> {
        let token = self.spool.token_of(group, number, ReadMode::Wait).unwrap()?;
        let mut article = ArticleBuf::default();
        self.spool.read(&token, None, ReadMode::Wait, &mut article).unwrap().then(|| {
            let (id, wire) = (article.message_id().to_vec(), article.article().to_vec());
            Arc::new(Stored { id, wire, arrived: article.arrived() })
        })
    }

    /// Returns what is there now, after other tasks have run.
    async fn look<T>(&self, look: impl FnOnce(&News) -> T) -> Answer<T> {
        yield_now().await;
        self.gate.as_ref().map_or(Ok(()), |gate| gate.ask())?;
        self.refresh();
        Ok(look(&self.news.lock()))
    }

    async fn in_group<T>(&self, group: &Selected, look: impl FnOnce(&Group) -> T) -> Answer<Option<T>> {
        self.look(|news| news.groups.get(&group.name).filter(|own| own.made == group.made).map(look)).await
    }
}

/// An article that is arriving.
pub struct Arriving {
    stored: Arc<Stored>,
    at: usize,
    gate: Option<Arc<Gate>>,
}

impl Remainder for Arriving {
    async fn next(&mut self) -> Answer<Option<More<'_>>> {
        let rest = &self.stored.wire[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        Gate::pass(self.gate.as_deref()).await?;
        let piece = &rest[..rest.len().min(PIECE_BYTES)];
        self.at += piece.len();
        Ok(Some([piece, b"", b""]))
    }
}

/// A group at the time when a list was requested.
struct Listed {
    name: Vec<u8>,
    marks: GroupMarks,
    flag: String,
    description: String,
    created: u64,
    creator: String,
}

/// A list of groups.
pub struct Groups {
    groups: Vec<Listed>,
    next: usize,
    shown: usize,
    gate: Option<Arc<Gate>>,
}

impl GroupStream for Groups {
    async fn next<'s>(&'s mut self, wanted: Wanted<'_>) -> Answer<Option<GroupInfo<'s>>> {
        while let Some(group) = self.groups.get(self.next) {
            self.next += 1;
            if !wanted(&group.name) {
                continue;
            }
            if self.shown >= GROUPS_AT_ONCE {
                Gate::pass(self.gate.as_deref()).await?;
            }
            self.shown += 1;
            return Ok(Some(GroupInfo {
                name: &group.name,
                marks: group.marks,
                flag: group.flag.as_bytes(),
                created: group.created,
                creator: group.creator.as_bytes(),
                description: group.description.as_bytes(),
            }));
        }
        Ok(None)
    }
}

impl NewsSource for Memory {
    type Group = Selected;
    type Groups = Groups;
    type Rest = Arriving;

    async fn group(&self, name: &[u8], base: CountingBase) -> Answer<Option<(Selected, GroupMarks)>> {
        self.look(|news| {
            let group = news.groups.get(name)?;
            Some((Selected { name: name.to_vec(), made: group.made }, group.marks(base)))
        })
        .await
    }

    async fn groups(
        &self,
        list: GroupList,
        which: GroupSelection<'_, Selected>,
        base: CountingBase,
    ) -> Answer<Groups> {
        let asked = |name: &[u8], group: &Group| match which {
            GroupSelection::All | GroupSelection::Like(_) => true,
            GroupSelection::Named(named) => name == named,
            GroupSelection::One(selected) => name == selected.name && group.made == selected.made,
        };
        let listed = |group: &Group| match list {
            GroupList::Changed { since } => group.changed + CHANGE_SLACK_SECS >= since,
            GroupList::New { since } => group.created >= since,
            _ => true,
        };
        let row = |name: &Vec<u8>, group: &Group| Listed {
            name: name.clone(),
            marks: group.marks(base),
            flag: group.flag.clone(),
            description: group.description.clone(),
            created: group.created,
            creator: group.creator.clone(),
        };
        let groups = self.look(|news| {
            let groups = news.groups.iter().filter(|(name, group)| asked(name, group) && listed(group));
            groups.map(|(name, group)| row(name, group)).collect()
        });
        Ok(Groups { groups: groups.await?, next: 0, shown: 0, gate: self.gate.clone() })
    }

    async fn article(
        &self,
        place: SourceLocator<'_, Selected>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<Arriving>> {
        let stored = match place {
            SourceLocator::Number(group, number) => {
                self.in_group(group, |group| group.articles.get(&number).cloned()).await?.flatten()
            }
            SourceLocator::MessageId(id) => self.look(|news| news.by_id.get(id.as_bytes()).cloned()).await?,
        };
        let Some(stored) = stored else { return Ok(Fetched::Missing) };
        let head = memchr::memmem::find(&stored.wire, b"\r\n\r\n").unwrap() + 4;
        let at = if part == ArticlePart::Head { head } else { stored.wire.len().min(head + PIECE_BYTES) };
        into.set(&stored.id, &stored.wire[..at]);
        if part == ArticlePart::Head || at == stored.wire.len() {
            return Ok(Fetched::Whole);
        }
        Ok(Fetched::Begun(Arriving { stored, at, gate: self.gate.clone() }))
    }

    async fn has(&self, id: MessageId<'_>) -> Answer<bool> {
        self.look(|news| news.by_id.contains_key(id.as_bytes())).await
    }

    async fn numbers(
        &self,
        group: &Selected,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> Answer<()> {
        let all =
            |group: &Group| into.extend(group.articles.range(range).map(|(number, _)| *number).take(max));
        self.in_group(group, all).await.map(|_| ())
    }

    async fn neighbour(&self, group: &Selected, number: u64, side: NeighbourSide) -> Answer<Option<u64>> {
        let found = self.in_group(group, |group| match side {
            NeighbourSide::Previous => group.articles.range(..number).next_back().map(|(number, _)| *number),
            NeighbourSide::Next => group.articles.range(number + 1..).next().map(|(number, _)| *number),
        });
        Ok(found.await?.flatten())
    }

    async fn over(
        &self,
        group: &Selected,
        range: RangeInclusive<u64>,
        _: usize,
        into: &mut Vec<u8>,
    ) -> Answer<Option<u64>> {
        if range.is_empty() {
            return Ok(None);
        }
        let rows = self.in_group(group, |group| {
            let mut articles = group.articles.range(range);
            for (number, stored) in articles.by_ref().take(ROWS_AT_ONCE) {
                let parsed = Article::parse(stored.wire.strip_suffix(b".\r\n").unwrap()).unwrap();
                let mut fields = Vec::new();
                append_fields(&OverviewFields::of(&parsed, &stored.id), &mut fields);
                append_row(
                    *number,
                    &fields,
                    article::content_of(&stored.wire, b"Xref").unwrap_or_default(),
                    into,
                );
            }
            articles.next().map(|(number, _)| *number)
        });
        Ok(rows.await?.flatten())
    }

    async fn arrived_since(&self, name: &[u8], since: u64, into: &mut Vec<u8>) -> Answer<()> {
        self.look(|news| {
            let articles = news.groups.get(name).into_iter().flat_map(|group| group.articles.values());
            for stored in articles.filter(|stored| stored.arrived >= since) {
                into.extend_from_slice(&stored.id);
                into.extend_from_slice(b"\r\n");
            }
        })
        .await
    }
}
