//! Explanations of when and why an article expires.

use super::survey::{Survey, VolumeList, lives};
use crate::index::kept::KeptEntry;
use crate::index::weights::GroupWeight;
use crate::read::Lookup;
use crate::reader::SpoolReader;
use crate::write::expire::{ExpiryJudge, unreadable};
use crate::write::policy::ExpiryPolicy;
use crate::write::threads::ThreadArrivals;
use disk::ReadMode;
use disk::clock::unix_secs;
use spool_base::config::{BufferOrder, NEVER, Retention};
use spool_base::error::SpoolTrouble;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_methods::{Cyclic, Volume, VolumeKind, rates};

const DAY_SECS: u64 = 86_400;
/// Minimum time span from which a rate is estimated, in seconds.
const RATE_SECS_MIN: u64 = 3_600;

/// Expiry of a stored article.
#[derive(Debug, Clone, PartialEq)]
pub struct ArticleExpiry {
    /// Buffer or class that stores it.
    pub volume: String,
    /// Name of its storage method.
    pub method: &'static str,
    /// Time of arrival, in Unix seconds.
    pub arrived: u64,
    /// Expires date, in Unix seconds; 0: none.
    pub expires: u64,
    /// Way in which it expires.
    pub fate: ExpiryFate,
}

/// Way in which an article expires.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpiryFate {
    /// The article is overwritten when the write position reaches it.
    Overwritten {
        /// Offset of the article in the buffer.
        offset: u64,
        /// Offset of the write position.
        head: u64,
        /// Space for records in the buffer, in bytes.
        area: u64,
        /// Bytes to be written until then.
        bytes_left: u64,
        /// Seconds that this takes at the rate of the last day, if the rate is known.
        secs_left: Option<u64>,
    },
    /// The article stays until the rules end it.
    Kept {
        /// Living numbers; the article is removed with the last of them.
        numbers: Vec<NumberExpiry>,
        /// Arrival of the newest article of its thread, Unix seconds; absent: no rule asks for it.
        thread_newest: Option<u64>,
        /// Time from which it may be given up if there is too little space on its file system, Unix seconds;
        /// absent: never.
        given_up_from: Option<u64>,
        /// Bytes free there, and the minimum that its class leaves free; absent: no minimum.
        room: Option<(u64, u64)>,
    },
    /// The class retains the article, but it is missing from the list of retained articles: it never expires.
    Unlisted,
}

/// Expiry of an article in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberExpiry {
    /// Name of the group.
    pub group: String,
    /// Number of the article there.
    pub number: u64,
    /// Index of the deciding `[[expire]]` section, from 0; absent: none.
    pub rule: Option<usize>,
    /// Time when it is due, Unix seconds; absent: never.
    pub due: Option<u64>,
    /// Number and stored bytes of the articles with higher numbers about which the same section decides.
    pub newer: (u64, u64),
    /// Whether these and the article itself exceed the cap of the section.
    pub is_capped: bool,
}

/// Explains expiry.
pub(super) struct ExpiryExplainer<'s> {
    pub survey: Survey<'s>,
}

impl ExpiryExplainer<'_> {
    /// Explains when the article with a Message-ID expires, and why; for an article that is not stored,
    /// returns its state.
    pub fn explain(&self, message_id: &[u8]) -> Result<Result<ArticleExpiry, Lookup>, SpoolTrouble> {
        let Survey { shared, writer } = self.survey;
        let (key, reader) = (shared.hasher.key(message_id), SpoolReader::new(shared, writer));
        let token = match reader.lookup(&key) {
            Lookup::Present(token) | Lookup::Hidden(token) => token,
            other => return Ok(Err(other)),
        };
        let volumes = shared.volumes.load();
        let Some(volume) = volumes.get(token.volume) else { return Ok(Err(Lookup::Gone)) };
        let (name, method) = (volume.name().to_owned(), volume.method().name());
        let mut expiry =
            ArticleExpiry { volume: name, method, arrived: 0, expires: 0, fate: ExpiryFate::Unlisted };
        match volume.kind() {
            VolumeKind::Cyclic(cyclic) => {
                let mut record = Vec::new();
                if let Ok(Some((header, _))) = volume.fetch(token.place, ReadMode::Wait, &mut record) {
                    (expiry.arrived, expiry.expires) = (header.arrived.into(), header.expires.into());
                }
                expiry.fate = self.overwritten(cyclic, &token);
            }
            VolumeKind::Retained(_) => {
                let lists = self.survey.lists();
                if let Some(e) = find(&lists, volume, key, token.place)? {
                    (expiry.arrived, expiry.expires) = (e.arrived.into(), e.expires.into());
                    expiry.fate = self.kept(&lists, volume, &e)?;
                }
            }
        }
        Ok(Ok(expiry))
    }

    fn overwritten(&self, volume: &dyn Cyclic, token: &Token) -> ExpiryFate {
        let now = unix_secs();
        let bytes_left = token.place.saturating_sub(volume.tail());
        let age = rates::oldest(volume).map_or(0, |(_, arrived)| now.saturating_sub(arrived.into()));
        let written = rates::written_since(volume, now.saturating_sub(DAY_SECS));
        let current = self.survey.shared.current.load();
        // A buffer that is filled sequentially with others is written to only in its turn.
        let is_alone = current.classes.iter().all(|class| {
            let has = class.buffers.iter().any(|name| name == volume.name());
            !has || class.order == BufferOrder::Interleave || class.buffers.len() == 1
        });
        let is_known = age >= RATE_SECS_MIN && written > 0 && is_alone;
        let secs = u128::from(bytes_left) * u128::from(age.min(DAY_SECS)) / u128::from(written.max(1));
        ExpiryFate::Overwritten {
            offset: volume.offset(token.place).unwrap_or_default(),
            head: volume.offset(volume.head()).unwrap_or_default(),
            area: volume.area(),
            bytes_left,
            secs_left: is_known.then(|| u64::try_from(secs).unwrap_or(u64::MAX)),
        }
    }

    fn kept(
        &self,
        lists: &[VolumeList],
        volume: &dyn Volume,
        e: &KeptEntry,
    ) -> Result<ExpiryFate, SpoolTrouble> {
        let mut judge = ExpiryJudge::new(self.survey.writer.lock().policy.clone(), unix_secs());
        let table = self.survey.shared.groups.snapshot();
        let mut own: Vec<(GroupId, u64, Option<usize>, GroupWeight)> = Vec::new();
        for (id, number) in &e.numbers {
            let Some(group) = table.get(*id).filter(|g| g.state().live.contains(*number)) else { continue };
            own.push((*id, *number, judge.rule(volume, group), GroupWeight::default()));
        }
        let (mut newest, mut threads) = (e.arrived, ThreadArrivals::new(0));
        for list in lists {
            let mut look = |other: &KeptEntry| {
                if other.thread == e.thread && lives(&table, other) {
                    newest = newest.max(other.arrived);
                }
                for (id, number) in &other.numbers {
                    let is_newer =
                        |at: &&mut (GroupId, u64, Option<usize>, GroupWeight)| at.0 == *id && at.1 < *number;
                    let (Some(at), Some(group)) = (own.iter_mut().find(is_newer), table.get(*id)) else {
                        continue;
                    };
                    if judge.rule(&*list.volume, group) == at.2 && group.state().live.contains(*number) {
                        at.3 = at.3.and(GroupWeight { articles: 1, bytes: other.stored_bytes });
                    }
                }
            };
            list.entries.each(&mut look).map_err(|e| unreadable(&e))?;
        }
        threads.add(e.thread, newest);
        judge.threads = Some(threads);
        let by_thread = own.iter().any(|at| at.2.is_some_and(|rule| judge.policy.by_thread(rule)));
        let (mut numbers, mut given_up_from) = (Vec::new(), Some(u64::from(e.arrived)));
        for (id, number, rule, newer) in own {
            let Some(group) = table.get(id) else { continue };
            let Some(term) = judge.term(volume, group, number, e) else { continue };
            let with = newer.and(GroupWeight { articles: 1, bytes: e.stored_bytes });
            let is_capped = rule.is_some_and(|rule| !judge.policy.cap(rule).holds(with));
            let min = match term.keep {
                Retention::Secs { min, .. } if min != NEVER => Some(u64::from(e.arrived).saturating_add(min)),
                _ => None,
            };
            given_up_from = given_up_from.zip(min).map(|(one, other)| one.max(other));
            let group = group.name.to_string();
            let newer = (newer.articles, newer.bytes);
            numbers.push(NumberExpiry { group, number, rule, due: term.due, newer, is_capped });
        }
        leave_together(&mut numbers, &judge.policy);
        let room = self.survey.room(volume).map(|room| (room.free, room.free_min));
        let thread_newest = by_thread.then_some(newest.into());
        Ok(ExpiryFate::Kept { numbers, thread_newest, given_up_from, room })
    }
}

/// Combines the dates of numbers: an article that leaves one group by a rule with `from_all_groups` leaves
/// all.
fn leave_together(numbers: &mut [NumberExpiry], policy: &ExpiryPolicy) {
    let of_all = |number: &&NumberExpiry| number.rule.is_some_and(|rule| policy.leaves_all_groups(rule));
    let ends = |number: &NumberExpiry| if number.is_capped { Some(0) } else { number.due };
    let first = numbers.iter().filter(of_all).filter(|number| ends(number).is_some()).min_by_key(|n| ends(n));
    let Some(first) = first.cloned() else { return };
    for number in numbers.iter_mut().filter(|number| ends(number).is_none_or(|due| Some(due) > ends(&first)))
    {
        (number.rule, number.due, number.is_capped) = (first.rule, first.due, first.is_capped);
    }
}

/// Returns the entry of the article at a place of a volume.
fn find(
    lists: &[VolumeList],
    volume: &dyn Volume,
    key: ArticleKey,
    place: u64,
) -> Result<Option<KeptEntry>, SpoolTrouble> {
    let mut found = None;
    for list in lists.iter().filter(|list| list.volume.id() == volume.id()) {
        let mut look = |e: &KeptEntry| {
            if e.key == key && e.place == place {
                found = Some(e.clone());
            }
        };
        list.entries.each(&mut look).map_err(|e| unreadable(&e))?;
    }
    Ok(found)
}
