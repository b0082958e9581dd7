//! Two sources side by side: some groups are in the one, all others in the other.

use netnews::MessageId;
use newsreel::source::{
    Answer, ArticleBytes, Base, Fetched, GroupInfo, GroupList, GroupStream, Marks, NewsSource, Part, Place,
    Remainder, Side, Wanted, Which,
};
use std::ops::RangeInclusive;

/// One of two.
#[derive(Debug, Clone, PartialEq)]
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Two sources.
#[derive(Clone)]
pub struct Beside<A, B> {
    pub first: A,
    pub second: B,
    /// Which groups are in the first.
    pub in_first: fn(&[u8]) -> bool,
}

impl<A: Remainder, B: Remainder> Remainder for Either<A, B> {
    async fn next(&mut self, into: &mut Vec<u8>) -> Answer<bool> {
        match self {
            Self::First(rest) => rest.next(into).await,
            Self::Second(rest) => rest.next(into).await,
        }
    }
}

/// A group's info that is waiting for its turn.
#[derive(Default)]
struct Owned {
    name: Vec<u8>,
    marks: Marks,
    flag: Vec<u8>,
    created: u64,
    creator: Vec<u8>,
    description: Vec<u8>,
}

impl Owned {
    fn of(info: GroupInfo<'_>) -> Self {
        Self {
            name: info.name.to_vec(),
            marks: info.marks,
            flag: info.flag.to_vec(),
            created: info.created,
            creator: info.creator.to_vec(),
            description: info.description.to_vec(),
        }
    }

    fn info(&self) -> GroupInfo<'_> {
        GroupInfo {
            name: &self.name,
            marks: self.marks,
            flag: &self.flag,
            created: self.created,
            creator: &self.creator,
            description: &self.description,
        }
    }
}

/// One of two lists, and its next group; the groups of the other source are left out.
struct Half<G> {
    groups: Option<G>,
    next: Option<Owned>,
}

impl<G: GroupStream> Half<G> {
    async fn advance(&mut self, wanted: Wanted<'_>) -> Answer<()> {
        if self.next.is_none()
            && let Some(groups) = &mut self.groups
        {
            match groups.next(wanted).await? {
                Some(info) => self.next = Some(Owned::of(info)),
                None => self.groups = None,
            }
        }
        Ok(())
    }
}

/// Both lists as one, in the order of names.
pub struct Merged<A, B> {
    first: Half<A>,
    second: Half<B>,
    in_first: fn(&[u8]) -> bool,
    last: Owned,
}

impl<A: GroupStream, B: GroupStream> GroupStream for Merged<A, B> {
    async fn next<'s>(&'s mut self, wanted: Wanted<'_>) -> Answer<Option<GroupInfo<'s>>> {
        let in_first = self.in_first;
        self.first.advance(&|name| in_first(name) && wanted(name)).await?;
        self.second.advance(&|name| !in_first(name) && wanted(name)).await?;
        let name = |next: &Option<Owned>| next.as_ref().map(|next| next.name.clone());
        let next = match (name(&self.first.next), name(&self.second.next)) {
            (Some(first), Some(second)) if second < first => &mut self.second.next,
            (Some(_), _) => &mut self.first.next,
            (None, _) => &mut self.second.next,
        };
        let Some(next) = next.take() else { return Ok(None) };
        self.last = next;
        Ok(Some(self.last.info()))
    }
}

impl<A: NewsSource, B: NewsSource> NewsSource for Beside<A, B> {
    type Group = Either<A::Group, B::Group>;
    type Groups = Merged<A::Groups, B::Groups>;
    type Rest = Either<A::Rest, B::Rest>;

    async fn group(&self, name: &[u8], base: Base) -> Answer<Option<(Self::Group, Marks)>> {
        Ok(if (self.in_first)(name) {
            self.first.group(name, base).await?.map(|(group, marks)| (Either::First(group), marks))
        } else {
            self.second.group(name, base).await?.map(|(group, marks)| (Either::Second(group), marks))
        })
    }

    async fn groups(
        &self,
        list: GroupList,
        which: Which<'_, Self::Group>,
        base: Base,
    ) -> Answer<Self::Groups> {
        let (first, second) = match which {
            Which::All => (Some(Which::All), Some(Which::All)),
            Which::Like(wildmat) => (Some(Which::Like(wildmat)), Some(Which::Like(wildmat))),
            Which::Named(name) if (self.in_first)(name) => (Some(Which::Named(name)), None),
            Which::Named(name) => (None, Some(Which::Named(name))),
            Which::One(Either::First(group)) => (Some(Which::One(group)), None),
            Which::One(Either::Second(group)) => (None, Some(Which::One(group))),
        };
        let first = match first {
            Some(which) => Some(self.first.groups(list, which, base).await?),
            None => None,
        };
        let second = match second {
            Some(which) => Some(self.second.groups(list, which, base).await?),
            None => None,
        };
        Ok(Merged {
            first: Half { groups: first, next: None },
            second: Half { groups: second, next: None },
            in_first: self.in_first,
            last: Owned::default(),
        })
    }

    async fn article(
        &self,
        place: Place<'_, Self::Group>,
        part: Part,
        into: &mut ArticleBytes,
    ) -> Answer<Fetched<Self::Rest>> {
        let (first, second) = match place {
            Place::Number(Either::First(group), number) => (Some(Place::Number(group, number)), None),
            Place::Number(Either::Second(group), number) => (None, Some(Place::Number(group, number))),
            Place::MessageId(id) => (Some(Place::MessageId(id)), Some(Place::MessageId(id))),
        };
        if let Some(place) = first {
            match self.first.article(place, part, into).await? {
                Fetched::Missing => {}
                Fetched::Whole => return Ok(Fetched::Whole),
                Fetched::Begun(rest) => return Ok(Fetched::Begun(Either::First(rest))),
            }
        }
        let Some(place) = second else { return Ok(Fetched::Missing) };
        Ok(match self.second.article(place, part, into).await? {
            Fetched::Missing => Fetched::Missing,
            Fetched::Whole => Fetched::Whole,
            Fetched::Begun(rest) => Fetched::Begun(Either::Second(rest)),
        })
    }

    async fn has(&self, id: MessageId<'_>) -> Answer<bool> {
        Ok(self.first.has(id).await? || self.second.has(id).await?)
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
            Either::Second(group) => self.second.numbers(group, range, max, into).await,
        }
    }

    async fn neighbour(&self, group: &Self::Group, number: u64, side: Side) -> Answer<Option<u64>> {
        match group {
            Either::First(group) => self.first.neighbour(group, number, side).await,
            Either::Second(group) => self.second.neighbour(group, number, side).await,
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
            Either::Second(group) => self.second.over(group, range, limit_bytes, into).await,
        }
    }

    async fn arrived_since(&self, name: &[u8], since: u64, into: &mut Vec<u8>) -> Answer<()> {
        if (self.in_first)(name) {
            self.first.arrived_since(name, since, into).await
        } else {
            self.second.arrived_since(name, since, into).await
        }
    }
}
