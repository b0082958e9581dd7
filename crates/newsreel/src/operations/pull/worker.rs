//! One connection that fetches: commands of several chunks in one pipeline, their answers in order.
//!
//! Of each chunk of numbers the Message-IDs are asked for first (HDR or XHDR), so that articles that are here
//! already, or are on their way in another chunk, are not fetched; the others are asked for by Message-ID,
//! which does not depend on the group that is selected by then. A server that has neither is asked for every
//! number. Chunks stay with their worker until they are handed over; after a broken connection what is left
//! of them is asked for again. Sources: RFC 3977 sections 6.2 and 8.5, RFC 2980 section 2.6.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::base::lock::Leaf;
use hashbrown::HashSet;
use nntp_io::rate::Bandwidth;
use nntp_io::{Client, Error, Fault, Retry, Target};
use spool::{Key, Spool};
use tracing::debug;

use super::counts::Counts;
use super::plan::{Chunk, Headers, Later, Over, Part, Plan};
use crate::base::counters::add;
use netnews::MessageId;
use netnews::nntp::response::code;

/// Chunks of one connection at once.
pub(super) const CHUNKS_AT_ONCE: usize = 3;
/// Articles that are asked for and have not come yet, per connection.
const ARTICLES_AT_ONCE: usize = 200;
/// The first pause before a broken connection is made again, doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// The longest one.
const RETRY_LONGEST: Duration = Duration::from_secs(30);
/// Connections that fail one after the other, after which the run is given up.
const TRIES_MAX: u32 = 6;

/// What all workers of a run share.
pub(super) struct Fetching {
    pub target: Target,
    pub plan: Arc<Plan>,
    pub spool: Arc<Spool>,
    pub counts: Arc<Counts>,
    pub bandwidth: Option<Bandwidth>,
    /// Larger articles are not kept.
    pub article_bytes_max: usize,
    /// Articles that are being fetched; an article in several groups is fetched once.
    pub on_the_way: Arc<Leaf<HashSet<Key>>>,
}

/// Why a connection ends.
enum End {
    /// All is fetched, or the run has ended.
    Done,
    Broken(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Over> for End {
    fn from(_: Over) -> Self {
        Self::Done
    }
}

/// A chunk that is being fetched.
struct Open {
    chunk: Chunk,
    /// What of its numbers or Message-IDs is not handed over yet.
    rest: Rest,
    /// Answers that are still to come, once they are known.
    left: Option<usize>,
}

enum Rest {
    Numbers(RangeInclusive<u64>),
    /// From this one on.
    Ids(usize),
}

/// What an answer belongs to; of the chunk with this place in the sequence of this connection.
#[derive(Clone)]
enum Asked {
    Group,
    Headers(u64, Headers),
    Article(u64, Wish),
}

/// How an article is asked for.
#[derive(Clone)]
enum Wish {
    /// By its number in a group.
    Number(Arc<str>, u64),
    /// By its Message-ID; with its number, if it has one there.
    Id(Box<str>, Option<u64>),
}

/// One connection, over all the times it is made.
pub(super) struct Worker {
    fetching: Arc<Fetching>,
    open: VecDeque<Open>,
    /// The place of the first open chunk in the sequence.
    first: u64,
}

/// The state of one connection.
struct Pipeline {
    client: Client,
    asked: VecDeque<Asked>,
    /// Not yet asked for.
    wishes: VecDeque<(u64, Wish)>,
    /// The group that is selected once all commands are answered.
    selected: Option<Arc<str>>,
    articles: usize,
}

impl Worker {
    pub fn new(fetching: Arc<Fetching>) -> Self {
        Self { fetching, open: VecDeque::new(), first: 0 }
    }

    /// Fetches until nothing is left, first on this connection if there is one.
    ///
    /// # Errors
    /// What keeps the connection from being made, if chunks are left that only this worker has.
    pub async fn run(mut self, mut client: Option<Client>) -> Result<(), Error> {
        let mut failures = 0;
        loop {
            let connected = match client.take() {
                Some(client) => Ok(client),
                None => Client::connect(&self.fetching.target).await,
            };
            let error = match connected {
                Ok(client) => {
                    let before = self.fetching.counts.fetched();
                    match self.fetch(client).await {
                        End::Done => return Ok(()),
                        End::Broken(error) => {
                            if self.fetching.counts.fetched() > before {
                                failures = 0;
                            }
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            failures += 1;
            debug!(%error, failures, "connection for a pull failed");
            if error.retry() == Retry::Never || failures >= TRIES_MAX {
                // Others fetch what this one has not begun.
                return if self.open.is_empty() { Ok(()) } else { Err(error) };
            }
            let pause = RETRY_FIRST.saturating_mul(1 << (failures - 1).min(10)).min(RETRY_LONGEST);
            tokio::time::sleep(pause).await;
        }
    }

    /// Fetches on one connection, to its end.
    async fn fetch(&mut self, client: Client) -> End {
        let mut pipeline =
            Pipeline { client, asked: VecDeque::new(), wishes: VecDeque::new(), selected: None, articles: 0 };
        let end = self.converse(&mut pipeline).await;
        if let Err(end) = end {
            // What did not come is asked for again, and is on its way no longer.
            for asked in &pipeline.asked {
                if let Asked::Article(_, wish) = asked {
                    self.fetching.forget(wish);
                }
            }
            pipeline.wishes.iter().for_each(|(_, wish)| self.fetching.forget(wish));
            return end;
        }
        // It was all answered.
        let _gone = pipeline.client.quit().await;
        End::Done
    }

    async fn converse(&mut self, pipeline: &mut Pipeline) -> Result<(), End> {
        for at in 0..self.open.len() {
            self.begin(pipeline, at)?;
        }
        loop {
            while self.open.len() < CHUNKS_AT_ONCE {
                let chunk = match self.fetching.plan.try_next() {
                    Ok(chunk) => chunk,
                    Err(Later::Wait) if self.open.is_empty() => match self.fetching.plan.next().await {
                        Some(chunk) => chunk,
                        None => return Ok(()),
                    },
                    Err(Later::Never) if self.open.is_empty() => return Ok(()),
                    Err(_) => break,
                };
                let rest = match &chunk.part {
                    Part::Numbers { numbers, .. } => Rest::Numbers(numbers.clone()),
                    Part::Ids(_) => Rest::Ids(0),
                };
                self.open.push_back(Open { chunk, rest, left: None });
                self.begin(pipeline, self.open.len() - 1)?;
            }
            pipeline.ask()?;
            self.answer(pipeline).await?;
            self.hand_over_ends().await?;
        }
    }

    /// Asks for what there is of a chunk.
    fn begin(&mut self, pipeline: &mut Pipeline, at: usize) -> Result<(), End> {
        let sequence = self.first + at as u64;
        let headers = self.fetching.plan.headers();
        let Some(open) = self.open.get_mut(at) else { return Ok(()) };
        open.left = None;
        match (&open.chunk.part, &open.rest) {
            (Part::Numbers { name, .. }, Rest::Numbers(rest)) => match headers.command() {
                Some(command) => {
                    pipeline.select(name)?;
                    pipeline.client.submit(format!(
                        "{command} Message-ID {}-{}",
                        rest.start(),
                        rest.end()
                    ))?;
                    pipeline.asked.push_back(Asked::Headers(sequence, headers));
                }
                None => {
                    let wishes = rest.clone().map(|number| (sequence, Wish::Number(name.clone(), number)));
                    let before = pipeline.wishes.len();
                    pipeline.wishes.extend(wishes);
                    open.left = Some(pipeline.wishes.len() - before);
                }
            },
            (Part::Ids(ids), Rest::Ids(from)) => {
                let rest = ids.iter().skip(*from).map(|id| (id.clone(), None)).collect();
                let wishes = self.fetching.unknown(rest, &self.fetching.counts);
                open.left = Some(wishes.len());
                pipeline.wishes.extend(wishes.into_iter().map(|wish| (sequence, wish)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the next answer.
    async fn answer(&mut self, pipeline: &mut Pipeline) -> Result<(), End> {
        // It stays there until it is dealt with.
        let Some(asked) = pipeline.asked.front().cloned() else { return Ok(()) };
        let answer = pipeline.client.answer().await?;
        let (code, has_block) = (answer.code, answer.has_block);
        match asked {
            Asked::Group if code == code::GROUP_SELECTED => {}
            Asked::Headers(sequence, headers) if is_unknown(code) => {
                self.fetching.plan.has_no(headers);
                self.begin_again(pipeline, sequence)?;
            }
            Asked::Headers(sequence, _) if has_block || is_absent(code) => {
                self.headers(pipeline, sequence, has_block).await?;
            }
            Asked::Article(sequence, wish) if code == code::ARTICLE_FOLLOWS => {
                self.article(pipeline, sequence, &wish).await?;
                pipeline.articles -= 1;
            }
            Asked::Article(sequence, wish) if is_absent(code) => {
                add(&self.fetching.counts.missing, 1);
                self.fetching.forget(&wish);
                self.dealt_with(sequence, &wish);
                pipeline.articles -= 1;
            }
            _ => return Err(refused(code, answer.text()).into()),
        }
        pipeline.asked.pop_front();
        Ok(())
    }

    /// Asks for a chunk in another way.
    fn begin_again(&mut self, pipeline: &mut Pipeline, sequence: u64) -> Result<(), End> {
        self.place(sequence).map_or(Ok(()), |at| self.begin(pipeline, at))
    }

    /// Where an open chunk is.
    fn place(&self, sequence: u64) -> Option<usize> {
        sequence.checked_sub(self.first).and_then(|at| usize::try_from(at).ok())
    }

    /// The Message-IDs of a chunk: those of articles that are not here are asked for.
    async fn headers(&mut self, pipeline: &mut Pipeline, sequence: u64, has_block: bool) -> Result<(), End> {
        let at = self.place(sequence);
        let open = at.and_then(|at| self.open.get_mut(at));
        let Some(Open { chunk, rest: Rest::Numbers(numbers), left }) = open else { return Ok(()) };
        let span = numbers.end() - numbers.start() + 1;
        let mut ids = Vec::new();
        while has_block && let Some(line) = pipeline.client.block_line().await? {
            if ids.len() as u64 >= span {
                return Err(Error::Protocol(Fault::BlockTooLong(span)).into());
            }
            ids.extend(id_of(line).filter(|(_, number)| number.is_some_and(|n| numbers.contains(&n))));
        }
        if let Part::Numbers { group, .. } = &chunk.part {
            self.fetching.plan.found(*group, span, ids.len() as u64);
        }
        let wishes = self.fetching.unknown(ids, &self.fetching.counts);
        *left = Some(wishes.len());
        pipeline.wishes.extend(wishes.into_iter().map(|wish| (sequence, wish)));
        Ok(())
    }

    /// An article, which follows.
    async fn article(&mut self, pipeline: &mut Pipeline, sequence: u64, wish: &Wish) -> Result<(), End> {
        let (mut wire, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = pipeline.client.chunk().await? {
            bytes += piece.len();
            if bytes <= self.fetching.article_bytes_max {
                wire.extend_from_slice(piece);
            }
        }
        self.fetching.counts.count_fetched(bytes);
        if let Some(bandwidth) = &self.fetching.bandwidth {
            bandwidth.sent(bytes);
            bandwidth.allowance(1).await;
        }
        if bytes > self.fetching.article_bytes_max {
            add(&self.fetching.counts.rejected, 1);
            self.fetching.forget(wish);
        } else {
            if let Some(open) = self.place(sequence).and_then(|at| self.open.get(at)) {
                open.chunk.hand_over(wire).await?;
            }
        }
        self.dealt_with(sequence, wish);
        Ok(())
    }

    /// An article of a chunk is handed over, or will not come.
    fn dealt_with(&mut self, sequence: u64, wish: &Wish) {
        let at = self.place(sequence);
        let Some(open) = at.and_then(|at| self.open.get_mut(at)) else { return };
        open.left = open.left.map(|left| left.saturating_sub(1));
        match (&mut open.rest, wish, &open.chunk.part) {
            (Rest::Numbers(rest), Wish::Number(_, number) | Wish::Id(_, Some(number)), _) => {
                *rest = number.saturating_add(1)..=*rest.end();
            }
            (Rest::Ids(from), Wish::Id(id, None), Part::Ids(ids)) => {
                *from = ids.iter().position(|known| known == id).map_or(*from, |at| at + 1);
            }
            _ => {}
        }
    }

    /// Lets go of the chunks that are whole, in order.
    async fn hand_over_ends(&mut self) -> Result<(), End> {
        while self.open.front().is_some_and(|open| open.left == Some(0)) {
            self.first += 1;
            if let Some(open) = self.open.pop_front() {
                open.chunk.end().await?;
            }
        }
        Ok(())
    }
}

impl Pipeline {
    /// Selects a group, unless it is.
    fn select(&mut self, group: &Arc<str>) -> Result<(), Error> {
        if self.selected.as_ref() != Some(group) {
            self.client.submit(format!("GROUP {group}"))?;
            self.asked.push_back(Asked::Group);
            self.selected = Some(group.clone());
        }
        Ok(())
    }

    /// Asks for as many articles as may be on their way, once half of them have come: many commands in a few
    /// writes.
    fn ask(&mut self) -> Result<(), Error> {
        if self.articles > ARTICLES_AT_ONCE / 2 {
            return Ok(());
        }
        while self.articles < ARTICLES_AT_ONCE && self.client.has_room() {
            let Some((sequence, wish)) = self.wishes.pop_front() else { break };
            match &wish {
                Wish::Number(group, number) => {
                    self.select(group)?;
                    self.client.submit(format!("ARTICLE {number}"))?;
                }
                Wish::Id(id, _) => self.client.submit(format!("ARTICLE {id}"))?,
            }
            self.asked.push_back(Asked::Article(sequence, wish));
            self.articles += 1;
        }
        Ok(())
    }
}

impl Fetching {
    /// Of these articles those that are not here and not on their way.
    fn unknown(&self, ids: Vec<(Box<str>, Option<u64>)>, counts: &Counts) -> Vec<Wish> {
        let texts: Vec<&[u8]> = ids.iter().map(|(id, _)| id.as_bytes()).collect();
        let keys: Vec<Key> = texts.iter().map(|id| self.spool.key(id)).collect();
        let known = self.spool.are_known(&keys, &texts);
        let mut on_the_way = self.on_the_way.lock();
        let mut wishes = Vec::new();
        for ((id, number), (key, known)) in ids.into_iter().zip(keys.into_iter().zip(known)) {
            if !known && on_the_way.insert(key) {
                wishes.push(Wish::Id(id, number));
            } else {
                add(&counts.known, 1);
            }
        }
        wishes
    }

    /// An article will not come.
    fn forget(&self, wish: &Wish) {
        if let Wish::Id(id, _) = wish {
            self.on_the_way.lock().remove(&self.spool.key(id.as_bytes()));
        }
    }
}

/// Number and Message-ID of a line of XHDR; `None` for what cannot be asked for.
fn id_of(line: &[u8]) -> Option<(Box<str>, Option<u64>)> {
    let line = std::str::from_utf8(line).ok()?;
    let (number, id) = line.split_once(' ')?;
    let id = id.trim();
    MessageId::parse(id.as_bytes())?;
    Some((id.into(), Some(number.parse().ok()?)))
}

/// Whether the server does not have the command.
fn is_unknown(code: u16) -> bool {
    matches!(code, code::UNKNOWN_COMMAND | code::SYNTAX_ERROR | code::NOT_PERMITTED | code::NOT_SUPPORTED)
}

/// Whether there is nothing of what was asked for.
fn is_absent(code: u16) -> bool {
    matches!(code, code::NO_CURRENT_ARTICLE | code::NO_SUCH_NUMBER | code::NO_SUCH_ARTICLE)
}

/// A refusal after which the connection is of no more use.
pub(super) fn refused(code: u16, text: &[u8]) -> Error {
    let text =
        String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).take(200).collect::<String>();
    Error::Refused { step: nntp_io::Step::Command, code, text: text.into() }
}
