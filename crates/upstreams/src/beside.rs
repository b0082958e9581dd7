//! Two sources side by side: some groups are in one, all others in the other.
//!
//! A Message-ID is looked up in the first source, then in the second. If all groups are in the first, the
//! second one costs nothing: it is not asked, and its futures are boxed.

use super::listed::OwnedGroupInfo;
use super::{
    Answer, ArticleBytes, ArticlePart, CountingBase, Fetched, ForeseenRequest, GroupInfo, GroupList,
    GroupSelection, GroupStream, HeaderLines, IdStanding, LocalSpool, More, NeighbourSide, NewsSource,
    Remainder, SourceError, SourceLocator, Upstreams, Wanted, newsgroups_of,
};
use netnews::GroupMarks;
use netnews::MessageId;
use site_config::{LiveConfig, PassedList};
use spool::Spool;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A value of one of two sources.
#[derive(Debug, Clone, PartialEq)]
pub enum Either<A, B> {
    /// Value of the first source.
    First(A),
    /// Value of the second source.
    Second(B),
}

/// Decides which groups are in the first of two sources.
pub trait GroupSplit: Clone + Send + Sync + 'static {
    /// Returns whether this group is in the first source.
    fn in_first(&self, name: &[u8]) -> bool;

    /// Returns whether all groups, and all articles, are in the first source.
    fn only_first(&self) -> bool {
        false
    }
}

impl GroupSplit for fn(&[u8]) -> bool {
    fn in_first(&self, name: &[u8]) -> bool {
        self(name)
    }
}

/// The local spool's groups, and those of upstreams beside them.
#[derive(Debug, Clone)]
pub struct LocalFirst {
    /// The spool.
    pub spool: Arc<Spool>,
    /// The upstreams.
    pub upstreams: Upstreams,
}

impl GroupSplit for LocalFirst {
    fn in_first(&self, name: &[u8]) -> bool {
        self.only_first() || self.spool.group_id(name).is_some()
    }

    fn only_first(&self) -> bool {
        self.upstreams.is_empty()
    }
}

/// Two sources side by side.
#[derive(Debug, Clone)]
pub struct SideBySide<A, B, S> {
    /// The first one.
    pub first: A,
    /// The second one.
    pub second: B,
    /// Decides which groups are in the first source.
    pub split: S,
}

impl SideBySide<LocalSpool, Upstreams, LocalFirst> {
    /// Returns the sources for a site's readers: its spool, and beside it its upstreams.
    pub fn of_site(spool: &Arc<Spool>, upstreams: &Upstreams) -> Self {
        let split = LocalFirst { spool: spool.clone(), upstreams: upstreams.clone() };
        Self { first: LocalSpool::new(spool.clone()), second: upstreams.clone(), split }
    }
}

impl<A: Remainder, B: Remainder> Remainder for Either<A, B> {
    async fn next(&mut self) -> Answer<Option<More<'_>>> {
        match self {
            Self::First(rest) => rest.next().await,
            Self::Second(rest) => Box::pin(rest.next()).await,
        }
    }
}

/// One of two lists, with its next group; groups of the other source are left out.
struct MergeInput<G> {
    groups: Option<G>,
    next: Option<OwnedGroupInfo>,
}

impl<G: GroupStream> MergeInput<G> {
    fn new(groups: Option<G>) -> Self {
        Self { groups, next: None }
    }

    async fn advance(&mut self, wanted: Wanted<'_>) -> Answer<()> {
        if self.next.is_none()
            && let Some(groups) = &mut self.groups
        {
            match groups.next(wanted).await? {
                Some(info) => self.next = Some(OwnedGroupInfo::of(&info)),
                None => self.groups = None,
            }
        }
        Ok(())
    }

    fn name(&self) -> Option<&[u8]> {
        self.next.as_ref().map(|next| &next.name[..])
    }
}

/// Both lists merged, in the order of names.
pub struct MergedGroups<A, B, S> {
    first: MergeInput<A>,
    second: MergeInput<B>,
    split: S,
    last: OwnedGroupInfo,
}

impl<A: GroupStream, B: GroupStream, S: GroupSplit> GroupStream for MergedGroups<A, B, S> {
    async fn next<'s>(&'s mut self, wanted: Wanted<'_>) -> Answer<Option<GroupInfo<'s>>> {
        if self.second.groups.is_none() && self.second.next.is_none() && self.first.next.is_none() {
            let Some(groups) = &mut self.first.groups else { return Ok(None) };
            if self.split.only_first() {
                return groups.next(wanted).await;
            }
            return groups.next(&|name| self.split.in_first(name) && wanted(name)).await;
        }
        let split = &self.split;
        self.first.advance(&|name| split.in_first(name) && wanted(name)).await?;
        Box::pin(self.second.advance(&|name| !split.in_first(name) && wanted(name))).await?;
        let next = match (self.first.name(), self.second.name()) {
            (Some(first), Some(second)) if second < first => &mut self.second.next,
            (Some(_), _) => &mut self.first.next,
            (None, _) => &mut self.second.next,
        };
        let Some(next) = next.take() else { return Ok(None) };
        self.last = next;
        Ok(Some(self.last.info()))
    }
}

impl<A: NewsSource, B: NewsSource, S: GroupSplit> NewsSource for SideBySide<A, B, S> {
    type Group = Either<A::Group, B::Group>;
    type Groups = MergedGroups<A::Groups, B::Groups, S>;
    type Rest = Either<A::Rest, B::Rest>;

    fn under(self, config: &LiveConfig) -> Self {
        let Self { first, second, split } = self;
        Self { first: first.under(config), second: second.under(config), split }
    }

    fn of_client(self, client: &str) -> Self {
        let Self { first, second, split } = self;
        Self { first: first.of_client(client), second: second.of_client(client), split }
    }

    async fn group(&self, name: &[u8], base: CountingBase) -> Answer<Option<(Self::Group, GroupMarks)>> {
        Ok(if self.split.in_first(name) {
            self.first.group(name, base).await?.map(|(group, marks)| (Either::First(group), marks))
        } else {
            let found = Box::pin(self.second.group(name, base)).await?;
            found.map(|(group, marks)| (Either::Second(group), marks))
        })
    }

    async fn groups(
        &self,
        list: GroupList,
        which: GroupSelection<'_, Self::Group>,
        base: CountingBase,
    ) -> Answer<Self::Groups> {
        let (first, second) = match which {
            GroupSelection::All => (Some(GroupSelection::All), Some(GroupSelection::All)),
            GroupSelection::Like(wildmat) => {
                (Some(GroupSelection::Like(wildmat)), Some(GroupSelection::Like(wildmat)))
            }
            GroupSelection::Named(name) if self.split.in_first(name) => {
                (Some(GroupSelection::Named(name)), None)
            }
            GroupSelection::Named(name) => (None, Some(GroupSelection::Named(name))),
            GroupSelection::One(Either::First(group)) => (Some(GroupSelection::One(group)), None),
            GroupSelection::One(Either::Second(group)) => (None, Some(GroupSelection::One(group))),
        };
        let second = match second.filter(|_| !self.split.only_first()) {
            Some(which) => Some(Box::pin(self.second.groups(list, which, base)).await?),
            None => None,
        };
        let first = match first {
            Some(which) => Some(self.first.groups(list, which, base).await?),
            None => None,
        };
        let (first, second) = (MergeInput::new(first), MergeInput::new(second));
        Ok(MergedGroups { first, second, split: self.split.clone(), last: OwnedGroupInfo::default() })
    }

    async fn active_text(&self) -> Answer<Option<Arc<Vec<u8>>>> {
        if self.split.only_first() { self.first.active_text().await } else { Ok(None) }
    }

    async fn article(
        &self,
        place: SourceLocator<'_, Self::Group>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<Self::Rest>> {
        let (first, second) = match place {
            SourceLocator::Number(Either::First(group), number) => {
                (Some(SourceLocator::Number(group, number)), None)
            }
            SourceLocator::Number(Either::Second(group), number) => {
                (None, Some(SourceLocator::Number(group, number)))
            }
            SourceLocator::MessageId(id) => {
                (Some(SourceLocator::MessageId(id)), Some(SourceLocator::MessageId(id)))
            }
        };
        if let Some(place) = first {
            match self.first.article(place, part, into).await? {
                Fetched::Missing => {}
                Fetched::Whole => return Ok(Fetched::Whole),
                Fetched::Begun(rest) => return Ok(Fetched::Begun(Either::First(rest))),
            }
        }
        let Some(place) = second.filter(|_| !self.split.only_first()) else { return Ok(Fetched::Missing) };
        let standing = match place {
            SourceLocator::MessageId(id) => self.first.standing(id),
            SourceLocator::Number(..) => IdStanding::Free,
        };
        if standing == IdStanding::Hidden {
            return Ok(Fetched::Missing);
        }
        let fetched = match self.second.article_at_hand(place, part, into) {
            Some(fetched) => fetched,
            None => match Box::pin(self.second.article(place, part, into)).await {
                Err(SourceError::Unavailable(_)) if standing == IdStanding::Refused => Fetched::Missing,
                fetched => fetched?,
            },
        };
        let is_here = |head| newsgroups_of(head).any(|name| self.split.in_first(name));
        Ok(match fetched {
            // An article cancelled in a group of the first source is cancelled in all sources.
            _ if standing == IdStanding::Refused && is_here(into.head()) => Fetched::Missing,
            Fetched::Missing => Fetched::Missing,
            Fetched::Whole => Fetched::Whole,
            Fetched::Begun(rest) => Fetched::Begun(Either::Second(rest)),
        })
    }

    fn arrived(&self, id: MessageId<'_>) -> Option<i64> {
        self.first.arrived(id).or_else(|| self.second.arrived(id))
    }

    fn looks_ahead(&self) -> bool {
        self.first.looks_ahead() || !self.split.only_first() && self.second.looks_ahead()
    }

    async fn look_ahead(&self, foreseen: &[ForeseenRequest<'_, Self::Group>]) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for one in foreseen {
            match one {
                ForeseenRequest::Group(name) if self.split.in_first(name) => {
                    first.push(ForeseenRequest::Group(name))
                }
                ForeseenRequest::Group(name) => second.push(ForeseenRequest::Group(name)),
                ForeseenRequest::Article(SourceLocator::Number(Either::First(group), number), part) => {
                    first.push(ForeseenRequest::Article(SourceLocator::Number(group, *number), *part));
                }
                ForeseenRequest::Article(SourceLocator::Number(Either::Second(group), number), part) => {
                    second.push(ForeseenRequest::Article(SourceLocator::Number(group, *number), *part));
                }
                ForeseenRequest::Rows(Either::First(group), range) => {
                    first.push(ForeseenRequest::Rows(group, range.clone()));
                }
                ForeseenRequest::Rows(Either::Second(group), range) => {
                    second.push(ForeseenRequest::Rows(group, range.clone()));
                }
                ForeseenRequest::Neighbours(Either::First(group), from, side, count) => {
                    first.push(ForeseenRequest::Neighbours(group, *from, *side, *count));
                }
                ForeseenRequest::Neighbours(Either::Second(group), from, side, count) => {
                    second.push(ForeseenRequest::Neighbours(group, *from, *side, *count));
                }
                // The second source is not asked for articles that the first one has.
                ForeseenRequest::Article(SourceLocator::MessageId(id), part) => {
                    match self.first.has(*id).await {
                        Ok(false) => {
                            second.push(ForeseenRequest::Article(SourceLocator::MessageId(*id), *part))
                        }
                        _ => first.push(ForeseenRequest::Article(SourceLocator::MessageId(*id), *part)),
                    }
                }
                ForeseenRequest::Existence(id) => match self.first.has(*id).await {
                    Ok(false) => second.push(ForeseenRequest::Existence(*id)),
                    _ => first.push(ForeseenRequest::Existence(*id)),
                },
            }
        }
        self.first.look_ahead(&first).await;
        if !self.split.only_first() {
            Box::pin(self.second.look_ahead(&second)).await;
        }
    }

    async fn has(&self, id: MessageId<'_>) -> Answer<bool> {
        if self.first.has(id).await? {
            return Ok(true);
        }
        if self.split.only_first() {
            return Ok(false);
        }
        match self.first.standing(id) {
            IdStanding::Free => Box::pin(self.second.has(id)).await,
            IdStanding::Hidden => Ok(false),
            IdStanding::Refused => {
                let mut head = ArticleBytes::default();
                let fetched =
                    Box::pin(self.article(SourceLocator::MessageId(id), ArticlePart::Head, &mut head))
                        .await?;
                Ok(!matches!(fetched, Fetched::Missing))
            }
        }
    }

    async fn numbers(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> Answer<()> {
        match group {
            Either::First(group) => self.first.numbers(group, range, max, into).await,
            Either::Second(group) => Box::pin(self.second.numbers(group, range, max, into)).await,
        }
    }

    async fn neighbour(&self, group: &Self::Group, number: u64, side: NeighbourSide) -> Answer<Option<u64>> {
        match group {
            Either::First(group) => self.first.neighbour(group, number, side).await,
            Either::Second(group) => Box::pin(self.second.neighbour(group, number, side)).await,
        }
    }

    async fn over(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> Answer<Option<u64>> {
        match group {
            Either::First(group) => self.first.over(group, range, limit_bytes, into).await,
            Either::Second(group) => Box::pin(self.second.over(group, range, limit_bytes, into)).await,
        }
    }

    fn rows_have_headers(&self) -> bool {
        self.first.rows_have_headers() || self.second.rows_have_headers()
    }

    async fn shows(&self, group: &Self::Group, number: u64) -> Answer<bool> {
        match group {
            Either::First(group) => self.first.shows(group, number).await,
            Either::Second(group) => Box::pin(self.second.shows(group, number)).await,
        }
    }

    async fn header(
        &self,
        group: &Self::Group,
        range: RangeInclusive<u64>,
        name: &[u8],
    ) -> Answer<Option<HeaderLines>> {
        match group {
            Either::First(group) => self.first.header(group, range, name).await,
            Either::Second(group) => Box::pin(self.second.header(group, range, name)).await,
        }
    }

    async fn pass_on(&self, command: &[u8], selected: Option<&Self::Group>) -> Answer<Option<Vec<u8>>> {
        let (first, second) = match selected {
            Some(Either::First(group)) => (Some(group), None),
            Some(Either::Second(group)) => (None, Some(group)),
            None => (None, None),
        };
        match self.first.pass_on(command, first).await? {
            None if !self.split.only_first() => Box::pin(self.second.pass_on(command, second)).await,
            answer => Ok(answer),
        }
    }

    async fn list_text(&self, list: PassedList) -> Answer<Option<Vec<u8>>> {
        match self.first.list_text(list).await? {
            None if !self.split.only_first() => Box::pin(self.second.list_text(list)).await,
            text => Ok(text),
        }
    }

    fn passes_list(&self, list: PassedList) -> bool {
        self.first.passes_list(list) || !self.split.only_first() && self.second.passes_list(list)
    }

    async fn arrived_since(&self, name: &[u8], since: u64, into: &mut Vec<u8>) -> Answer<()> {
        if self.split.in_first(name) {
            self.first.arrived_since(name, since, into).await
        } else {
            Box::pin(self.second.arrived_since(name, since, into)).await
        }
    }
}
