//! One fetching connection: commands of several chunks in one pipeline, with responses in order.
//!
//! For each chunk of numbers the Message-IDs are requested first (HDR or XHDR), so that articles that are
//! here already, or are being fetched in another chunk, are skipped; the others are requested by Message-ID,
//! which does not depend on the selected group. A server without both commands is asked for every number.
//! Chunks stay with their worker until they are handed over; after a broken connection the rest of them is
//! requested again. An article that the server refuses, or at which the connection ends repeatedly, is
//! reported to the filer and delays nothing; likewise a group. The table of responses is in
//! `docs/pulling.md`. Sources: RFC 3977 sections 6.2 and 8.5, RFC 2980 section 2.6.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hashbrown::HashSet;
use nntp_io::rate::Bandwidth;
use nntp_io::{ConnectOptions, Error, NntpClient, ProtocolFault, RetryAdvice};
use site_base::lock::Leaf;
use spool::{ArticleKey, Spool};
use tracing::debug;

use super::aside::{FetchRefusal, RemoteArticle};
use super::counts::PullCounters;
use super::plan::{
    ChunkContents, ChunkPiece, FilerClosed, HeaderCommand, NoChunk, PullChunk, PullPlan, SPAN_MAX,
};
use netnews::MessageId;
use netnews::decimal::parse_decimal;
use netnews::nntp::response::code;
use site_base::back_off::BackOff;
use site_base::counters::add;

/// Maximum number of chunks in progress on one connection.
pub(super) const CHUNKS_AT_ONCE: usize = 3;
/// Maximum number of outstanding articles on one connection.
const ARTICLES_AT_ONCE: usize = 200;
/// Pauses before a broken connection is opened again.
const RETRY: BackOff = BackOff::new(Duration::from_millis(500), Duration::from_secs(30));
/// Number of consecutive failed connections after which the run is given up.
const TRIES_MAX: u32 = 6;
/// Number of connections that end at one article or group before it is taken for the cause.
const BREAKS_MAX: u32 = 2;
/// Articles requested one by one after a connection broke, to find the one at which it ends; twice as many
/// after the next break.
const CAREFUL_FIRST: usize = 4;
/// Number of consecutive refusals after which the articles are not to blame.
const REFUSED_IN_A_ROW_MAX: u32 = 200;

/// State shared by all workers of a run.
pub(super) struct FetchState {
    pub target: ConnectOptions,
    pub plan: Arc<PullPlan>,
    pub spool: Arc<Spool>,
    pub counts: Arc<PullCounters>,
    pub bandwidth: Option<Bandwidth>,
    /// Size limit of articles.
    pub article_bytes_max: usize,
    /// Articles being fetched; an article in several groups is fetched once.
    pub on_the_way: Arc<Leaf<HashSet<ArticleKey>>>,
    /// Articles that earlier runs have set aside.
    pub asides: HashSet<RemoteArticle>,
    /// Articles refused since the last one received.
    pub refused_in_a_row: AtomicU32,
}

/// Reason why a connection ends.
enum FetchEnd {
    /// Everything is fetched, or the run has ended.
    Done,
    Broken(Error),
}

impl From<Error> for FetchEnd {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

impl From<FilerClosed> for FetchEnd {
    fn from(_: FilerClosed) -> Self {
        Self::Done
    }
}

/// A chunk being fetched.
struct OpenChunk {
    chunk: PullChunk,
    /// Numbers or Message-IDs that are not handed over yet.
    rest: ChunkRemainder,
    /// Outstanding responses, once their number is known.
    left: Option<usize>,
}

impl OpenChunk {
    /// Returns whether it has more numbers left than are ever asked for one by one.
    fn is_wide(&self) -> bool {
        let ChunkRemainder::Numbers(rest) = &self.rest else { return false };
        rest.end().saturating_sub(*rest.start()) >= SPAN_MAX
    }
}

enum ChunkRemainder {
    Numbers(RangeInclusive<u64>),
    /// Index of the first article that is not handed over.
    Articles(usize),
}

/// Request that a response belongs to, with the sequence number of its chunk on this connection.
#[derive(Clone)]
enum PendingRequest {
    Group,
    Headers(u64, HeaderCommand),
    Article(u64, RemoteArticle),
}

/// Request at which a connection has ended.
#[derive(Clone, PartialEq, Eq)]
enum BreakSuspect {
    Article(u64, RemoteArticle),
    Group(u64),
}

/// One worker, which reconnects when its connection breaks.
pub(super) struct PullWorker {
    fetching: Arc<FetchState>,
    open: VecDeque<OpenChunk>,
    /// Sequence number of the first open chunk.
    first: u64,
    /// Request at which the last connections ended, and how many did.
    suspect: Option<(BreakSuspect, u32)>,
    /// Articles that the next connection requests one by one.
    careful: usize,
}

/// State of one connection.
struct Pipeline {
    client: NntpClient,
    asked: VecDeque<PendingRequest>,
    /// Articles not yet requested.
    wishes: VecDeque<(u64, RemoteArticle)>,
    /// Group that is selected once all commands are answered.
    selected: Option<Arc<str>>,
    /// Refusal of the group to which the next responses would belong.
    refused: Option<FetchRefusal>,
    /// Number of articles in the group to which the next responses belong, as the server estimates it.
    count: Option<u64>,
    articles: usize,
    /// Articles still to be requested one by one.
    careful: usize,
    /// Articles that were answered.
    answered: usize,
}

impl PullWorker {
    pub fn new(fetching: Arc<FetchState>) -> Self {
        Self { fetching, open: VecDeque::new(), first: 0, suspect: None, careful: 0 }
    }

    /// Fetches until nothing is left, first on the given connection, if any.
    ///
    /// # Errors
    /// Returns the connection error if chunks are left that only this worker has.
    pub async fn run(mut self, mut client: Option<NntpClient>) -> Result<(), Error> {
        let mut failures = 0;
        loop {
            let connected = match client.take() {
                Some(client) => Ok(client),
                None => NntpClient::connect(&self.fetching.target).await,
            };
            let error = match connected {
                Ok(client) => {
                    let before = self.fetching.counts.fetched();
                    match self.fetch(client).await {
                        FetchEnd::Done => return Ok(()),
                        FetchEnd::Broken(error) => {
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
            if error.retry() == RetryAdvice::Never || failures >= error.tries_max(TRIES_MAX) {
                // Other workers fetch chunks that this one has not begun.
                return if self.open.is_empty() { Ok(()) } else { Err(error) };
            }
            if !matches!(error, Error::LoggedOut(_)) {
                self.convict(&error).await;
            }
            tokio::time::sleep(RETRY.pause(failures)).await;
        }
    }

    /// Fetches on one connection until it ends.
    async fn fetch(&mut self, client: NntpClient) -> FetchEnd {
        let mut pipeline = Pipeline::new(client, self.careful);
        let end = self.converse(&mut pipeline).await;
        if let Err(end) = end {
            // An expired login is not the fault of the last request.
            if !matches!(end, FetchEnd::Broken(Error::LoggedOut(_))) {
                let is_silent = matches!(end, FetchEnd::Broken(Error::TimedOut(_)));
                self.note_break(&pipeline, is_silent);
            }
            // Unanswered articles are requested again, and no longer count as being fetched.
            for asked in &pipeline.asked {
                if let PendingRequest::Article(_, article) = asked {
                    self.fetching.forget(article);
                }
            }
            pipeline.wishes.iter().for_each(|(_, article)| self.fetching.forget(article));
            return end;
        }
        // All commands were answered.
        let _gone = pipeline.client.quit().await;
        FetchEnd::Done
    }

    async fn converse(&mut self, pipeline: &mut Pipeline) -> Result<(), FetchEnd> {
        for at in 0..self.open.len() {
            self.begin(pipeline, at)?;
        }
        loop {
            while self.open.len() < CHUNKS_AT_ONCE {
                let chunk = match self.fetching.plan.try_next() {
                    Ok(chunk) => chunk,
                    Err(NoChunk::Wait) if self.open.is_empty() => match self.fetching.plan.next().await {
                        Some(chunk) => chunk,
                        None => return Ok(()),
                    },
                    Err(NoChunk::Never) if self.open.is_empty() => return Ok(()),
                    Err(_) => break,
                };
                let rest = match &chunk.part {
                    ChunkContents::Numbers { numbers, .. } => ChunkRemainder::Numbers(numbers.clone()),
                    ChunkContents::Articles { .. } => ChunkRemainder::Articles(0),
                };
                self.open.push_back(OpenChunk { chunk, rest, left: None });
                self.begin(pipeline, self.open.len() - 1)?;
            }
            pipeline.ask()?;
            self.answer(pipeline).await?;
            self.hand_over_ends().await?;
        }
    }

    /// Requests the rest of a chunk.
    fn begin(&mut self, pipeline: &mut Pipeline, at: usize) -> Result<(), FetchEnd> {
        let sequence = self.first + at as u64;
        let Some(open) = self.open.get_mut(at) else { return Ok(()) };
        open.left = None;
        let headers = match self.fetching.plan.headers() {
            // Too many numbers to ask for each; a server that answered about as many has one of the commands.
            HeaderCommand::None if open.is_wide() => HeaderCommand::Hdr,
            headers => headers,
        };
        let articles: Vec<RemoteArticle> = match (&open.chunk.part, &open.rest) {
            (ChunkContents::Numbers { name, .. }, ChunkRemainder::Numbers(rest)) if !rest.is_empty() => {
                match headers.command() {
                    Some(command) => {
                        pipeline.select(name)?;
                        let (first, last) = (rest.start(), rest.end());
                        pipeline.client.submit(format!("{command} Message-ID {first}-{last}"))?;
                        pipeline.asked.push_back(PendingRequest::Headers(sequence, headers));
                        return Ok(());
                    }
                    None => {
                        let of = |number| RemoteArticle { group: name.clone(), number, id: "".into() };
                        rest.clone().map(of).collect()
                    }
                }
            }
            (ChunkContents::Articles { articles, .. }, ChunkRemainder::Articles(from)) => {
                articles.iter().skip(*from).cloned().collect()
            }
            _ => Vec::new(),
        };
        let again = matches!(open.chunk.part, ChunkContents::Articles { again: true, .. });
        let articles = self.fetching.unknown(articles, again);
        open.left = Some(articles.len());
        pipeline.wishes.extend(articles.into_iter().map(|article| (sequence, article)));
        Ok(())
    }

    /// Handles the next response.
    async fn answer(&mut self, pipeline: &mut Pipeline) -> Result<(), FetchEnd> {
        // The request stays in the queue until it is done.
        let Some(asked) = pipeline.asked.front().cloned() else { return Ok(()) };
        let answer = pipeline.client.answer().await?;
        let (code, has_block) = (answer.code, answer.has_block);
        let refusal = FetchRefusal::answer(code, answer.text());
        match asked {
            PendingRequest::Group if code == code::GROUP_SELECTED => {
                let count = answer.text().split(|byte| *byte == b' ').next().and_then(parse_decimal);
                (pipeline.refused, pipeline.count) = (None, count);
            }
            PendingRequest::Group if is_refusal(code) => pipeline.refused = Some(refusal),
            PendingRequest::Headers(sequence, headers) => {
                if let Some(refusal) = pipeline.refused.clone() {
                    // Lines that follow are of the previous group.
                    while has_block && pipeline.client.block_line().await?.is_some() {}
                    self.skip(pipeline, sequence, refusal).await?;
                } else if is_unknown(code) && !self.is_wide(sequence) {
                    self.fetching.plan.has_no(headers);
                    self.begin_again(pipeline, sequence)?;
                } else if has_block || is_absent(code) {
                    self.headers(pipeline, sequence, has_block).await?;
                } else if is_refusal(code) {
                    self.skip(pipeline, sequence, refusal).await?;
                } else {
                    return Err(refused(code, &refusal.text).into());
                }
            }
            PendingRequest::Article(sequence, article) => {
                let is_elsewhere = article.id.is_empty() && pipeline.refused.is_some();
                let is_about = is_about(&refusal.text, &article);
                match code {
                    code::ARTICLE_FOLLOWS if is_elsewhere => {
                        while pipeline.client.chunk().await?.is_some() {}
                    }
                    code::ARTICLE_FOLLOWS if !is_about => {
                        // Later answers may belong to other requests as well.
                        return Err(Error::Protocol(ProtocolFault::OddAnswer(refusal.text)).into());
                    }
                    code::ARTICLE_FOLLOWS => self.article(pipeline, sequence, &article).await?,
                    _ if is_elsewhere && is_refusal(code) => {}
                    _ if is_absent(code) => {
                        add(&self.fetching.counts.missing, 1);
                        self.fetching.forget(&article);
                        self.dealt_with(sequence, &article);
                    }
                    _ if is_refusal(code) => self.set_aside(sequence, article, refusal).await?,
                    _ => return Err(refused(code, &refusal.text).into()),
                }
                pipeline.articles -= 1;
                pipeline.answered += 1;
                pipeline.careful = pipeline.careful.saturating_sub(1);
                if let Some(refusal) = pipeline.refused.clone().filter(|_| is_elsewhere) {
                    self.skip(pipeline, sequence, refusal).await?;
                }
            }
            PendingRequest::Group => return Err(refused(code, &refusal.text).into()),
        }
        pipeline.asked.pop_front();
        Ok(())
    }

    /// Sets aside an article that the server does not send.
    async fn set_aside(
        &mut self,
        sequence: u64,
        article: RemoteArticle,
        refusal: FetchRefusal,
    ) -> Result<(), FetchEnd> {
        let in_a_row = self.fetching.refused_in_a_row.fetch_add(1, Ordering::Relaxed);
        if in_a_row >= REFUSED_IN_A_ROW_MAX {
            return Err(refused(refusal.code, &refusal.text).into());
        }
        self.fetching.forget(&article);
        self.dealt_with(sequence, &article);
        if let Some(open) = self.place(sequence).and_then(|at| self.open.get(at)) {
            open.chunk.report(ChunkPiece::Aside(article, refusal)).await?;
        }
        Ok(())
    }

    /// Leaves out the rest of a chunk, because the server does not let us read its group.
    async fn skip(
        &mut self,
        pipeline: &mut Pipeline,
        sequence: u64,
        refusal: FetchRefusal,
    ) -> Result<(), FetchEnd> {
        pipeline.wishes.retain(|(of, article)| *of != sequence || !article.id.is_empty());
        self.leave_group(sequence, refusal, pipeline.waiting_for(sequence)).await
    }

    /// Leaves out the rest of a chunk with `left` articles outstanding.
    async fn leave_group(
        &mut self,
        sequence: u64,
        refusal: FetchRefusal,
        left: usize,
    ) -> Result<(), FetchEnd> {
        let at = self.place(sequence);
        let Some(open) = at.and_then(|at| self.open.get_mut(at)) else { return Ok(()) };
        open.left = Some(left);
        if let ChunkContents::Numbers { group, .. } = &open.chunk.part {
            self.fetching.plan.leave_group(*group);
        }
        if let ChunkRemainder::Numbers(rest) = &mut open.rest
            && !rest.is_empty()
        {
            // No number of the chunk is requested again.
            *rest = rest.end().saturating_add(1)..=*rest.end();
            open.chunk.report(ChunkPiece::NoGroup(refusal)).await?;
        }
        Ok(())
    }

    /// Notes at what a connection ended, or where the server fell silent (`is_silent`).
    fn note_break(&mut self, pipeline: &Pipeline, is_silent: bool) {
        let suspect = match pipeline.asked.front() {
            // A connection may end at any of several that are on their way; silence is the next answer's.
            Some(PendingRequest::Article(sequence, article)) if is_silent || pipeline.articles == 1 => {
                Some(BreakSuspect::Article(*sequence, article.clone()))
            }
            Some(PendingRequest::Article(..)) | None => None,
            Some(PendingRequest::Headers(sequence, _)) => Some(BreakSuspect::Group(*sequence)),
            Some(PendingRequest::Group) => pipeline.asked.iter().find_map(|asked| match asked {
                PendingRequest::Headers(sequence, _) => Some(BreakSuspect::Group(*sequence)),
                PendingRequest::Article(sequence, article) if article.id.is_empty() => {
                    Some(BreakSuspect::Group(*sequence))
                }
                _ => None,
            }),
        };
        let before = self.suspect.take();
        self.suspect = suspect.map(|suspect| {
            let same = before.filter(|(before, _)| *before == suspect);
            (suspect, same.map_or(1, |(_, breaks)| breaks + 1))
        });
        if pipeline.articles > 0 {
            // A connection that has worked for long starts over.
            let before = if pipeline.answered > 8 * self.careful { 0 } else { self.careful };
            self.careful = (before * 2).clamp(CAREFUL_FIRST, ARTICLES_AT_ONCE);
        }
    }

    /// Leaves out the request at which too many connections have ended. The filer's end is noticed elsewhere.
    async fn convict(&mut self, error: &Error) {
        let refusal = FetchRefusal::hang_up(error);
        let _over = match self.suspect.take() {
            Some((BreakSuspect::Article(sequence, article), BREAKS_MAX..)) => {
                self.set_aside(sequence, article, refusal).await
            }
            Some((BreakSuspect::Group(sequence), BREAKS_MAX..)) => {
                self.leave_group(sequence, refusal, 0).await
            }
            suspect => {
                self.suspect = suspect;
                Ok(())
            }
        };
    }

    /// Requests a chunk again by another command.
    fn begin_again(&mut self, pipeline: &mut Pipeline, sequence: u64) -> Result<(), FetchEnd> {
        self.place(sequence).map_or(Ok(()), |at| self.begin(pipeline, at))
    }

    fn is_wide(&self, sequence: u64) -> bool {
        self.place(sequence).and_then(|at| self.open.get(at)).is_some_and(OpenChunk::is_wide)
    }

    /// Returns the index of an open chunk.
    fn place(&self, sequence: u64) -> Option<usize> {
        sequence.checked_sub(self.first).and_then(|at| usize::try_from(at).ok())
    }

    /// Reads the Message-IDs of a chunk, and queues the articles that are not here.
    async fn headers(
        &mut self,
        pipeline: &mut Pipeline,
        sequence: u64,
        has_block: bool,
    ) -> Result<(), FetchEnd> {
        let at = self.place(sequence);
        let open = at.and_then(|at| self.open.get_mut(at));
        let Some(OpenChunk { chunk, rest: ChunkRemainder::Numbers(numbers), left }) = open else {
            return Ok(());
        };
        let ChunkContents::Numbers { group, name, .. } = &chunk.part else { return Ok(()) };
        let span = numbers.end() - numbers.start() + 1;
        let (mut articles, mut rows) = (Vec::new(), 0);
        while has_block && let Some(line) = pipeline.client.block_line().await? {
            rows += 1;
            if rows > span {
                return Err(Error::Protocol(ProtocolFault::BlockTooLong(span)).into());
            }
            match article_of(line, name).filter(|article| numbers.contains(&article.number)) {
                Some(article) => articles.push(article),
                None => add(&self.fetching.counts.odd_lines, 1),
            }
        }
        // Finished articles are recognized by their numbers.
        articles.sort_by_key(|article| article.number);
        articles.dedup_by_key(|article| article.number);
        self.fetching.plan.found(*group, span, articles.len() as u64, pipeline.count);
        let articles = self.fetching.unknown(articles, false);
        *left = Some(articles.len());
        pipeline.wishes.extend(articles.into_iter().map(|article| (sequence, article)));
        Ok(())
    }

    /// Receives an article.
    async fn article(
        &mut self,
        pipeline: &mut Pipeline,
        sequence: u64,
        article: &RemoteArticle,
    ) -> Result<(), FetchEnd> {
        let (mut wire, mut bytes) = (Vec::new(), 0);
        while let Some(piece) = pipeline.client.chunk().await? {
            bytes += piece.len();
            if bytes <= self.fetching.article_bytes_max {
                wire.extend_from_slice(piece);
            }
        }
        self.fetching.counts.count_fetched(bytes);
        self.fetching.refused_in_a_row.store(0, Ordering::Relaxed);
        if let Some(bandwidth) = &self.fetching.bandwidth {
            bandwidth.sent(bytes);
            bandwidth.allowance(1).await;
        }
        if bytes > self.fetching.article_bytes_max {
            self.fetching.counts.reject("larger than site.article_bytes_max", article);
            self.fetching.forget(article);
        } else {
            if let Some(open) = self.place(sequence).and_then(|at| self.open.get(at)) {
                open.chunk.hand_over(article.clone(), wire).await?;
            }
        }
        self.dealt_with(sequence, article);
        Ok(())
    }

    /// Records that an article of a chunk is handed over, or will not come.
    fn dealt_with(&mut self, sequence: u64, article: &RemoteArticle) {
        let at = self.place(sequence);
        let Some(open) = at.and_then(|at| self.open.get_mut(at)) else { return };
        open.left = open.left.map(|left| left.saturating_sub(1));
        match (&mut open.rest, &open.chunk.part) {
            (ChunkRemainder::Numbers(rest), _) if rest.contains(&article.number) => {
                *rest = article.number.saturating_add(1)..=*rest.end();
            }
            (ChunkRemainder::Articles(from), ChunkContents::Articles { articles, .. }) => {
                *from = articles.iter().position(|known| known == article).map_or(*from, |at| at + 1);
            }
            _ => {}
        }
    }

    /// Ends the chunks that are complete, in order.
    async fn hand_over_ends(&mut self) -> Result<(), FetchEnd> {
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
    fn new(client: NntpClient, careful: usize) -> Self {
        let (asked, wishes) = (VecDeque::new(), VecDeque::new());
        Self {
            client,
            asked,
            wishes,
            selected: None,
            refused: None,
            count: None,
            articles: 0,
            careful,
            answered: 0,
        }
    }

    /// Returns the number of articles of a chunk that are or will be requested by Message-ID, independently
    /// of the group.
    fn waiting_for(&self, sequence: u64) -> usize {
        let asked = self.asked.iter().skip(1).filter(|asked| match asked {
            PendingRequest::Article(of, article) => *of == sequence && !article.id.is_empty(),
            PendingRequest::Group | PendingRequest::Headers(..) => false,
        });
        asked.count() + self.wishes.iter().filter(|(of, _)| *of == sequence).count()
    }

    /// Selects a group, unless it is selected.
    fn select(&mut self, group: &Arc<str>) -> Result<(), Error> {
        if self.selected.as_ref() != Some(group) {
            self.client.submit(format!("GROUP {group}"))?;
            self.asked.push_back(PendingRequest::Group);
            self.selected = Some(group.clone());
        }
        Ok(())
    }

    /// Requests as many articles as allowed once half of the outstanding ones have arrived, to send many
    /// commands in few writes.
    fn ask(&mut self) -> Result<(), Error> {
        let at_once = if self.careful > 0 { 1 } else { ARTICLES_AT_ONCE };
        if self.articles > at_once / 2 {
            return Ok(());
        }
        while self.articles < at_once && self.client.has_room() {
            let Some((sequence, article)) = self.wishes.pop_front() else { break };
            if article.id.is_empty() {
                self.select(&article.group)?;
                self.client.submit(format!("ARTICLE {}", article.number))?;
            } else {
                self.client.submit(format!("ARTICLE {}", article.id))?;
            }
            self.asked.push_back(PendingRequest::Article(sequence, article));
            self.articles += 1;
        }
        Ok(())
    }
}

impl FetchState {
    /// Returns the articles that are not here and not being fetched, as far as their Message-IDs are known;
    /// leaves out those set aside, unless they are due (`again`).
    fn unknown(&self, mut articles: Vec<RemoteArticle>, again: bool) -> Vec<RemoteArticle> {
        articles.retain(|article| again || !self.asides.contains(article));
        let texts: Vec<&[u8]> = articles.iter().map(|article| article.id.as_bytes()).collect();
        let keys: Vec<ArticleKey> = texts.iter().map(|id| self.spool.key(id)).collect();
        let known = self.spool.are_known(&keys, &texts);
        let mut on_the_way = self.on_the_way.lock();
        let mut unknown = Vec::new();
        for (article, (key, known)) in articles.into_iter().zip(keys.into_iter().zip(known)) {
            if article.id.is_empty() || !known && on_the_way.insert(key) {
                unknown.push(article);
            } else {
                add(&self.counts.known, 1);
            }
        }
        unknown
    }

    /// An article is not on its way any more.
    pub(super) fn forget(&self, article: &RemoteArticle) {
        if !article.id.is_empty() {
            self.on_the_way.lock().remove(&self.spool.key(article.id.as_bytes()));
        }
    }
}

/// Reports whether the status line of an article can be about the requested one: a number or a Message-ID in
/// it is that of the request (RFC 3977 section 6.2.1); some servers leave them out.
fn is_about(text: &str, article: &RemoteArticle) -> bool {
    let mut words = text.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse::<u64>().ok());
    let id = words.next().filter(|word| word.starts_with('<') && word.ends_with('>'));
    match (number, id) {
        (Some(_), Some(id)) if !article.id.is_empty() => *id == *article.id,
        (Some(number), _) if article.id.is_empty() => number == article.number || number == 0,
        _ => true,
    }
}

/// Parses a line of HDR or XHDR about a group; the article has only a number if no Message-ID follows. `None`
/// if the line has no number.
fn article_of(line: &[u8], group: &Arc<str>) -> Option<RemoteArticle> {
    let text = std::str::from_utf8(line.split(|b| *b == b' ').next()?).ok()?;
    let id = line.get(text.len()..)?.trim_ascii();
    let id = MessageId::parse(id).and_then(|id| std::str::from_utf8(id.as_bytes()).ok()).unwrap_or_default();
    Some(RemoteArticle { group: group.clone(), number: text.parse().ok()?, id: id.into() })
}

/// Returns whether the server does not have the command.
fn is_unknown(code: u16) -> bool {
    matches!(code, code::UNKNOWN_COMMAND | code::SYNTAX_ERROR | code::NOT_PERMITTED | code::NOT_SUPPORTED)
}

/// Returns whether nothing matches the request.
fn is_absent(code: u16) -> bool {
    matches!(code, code::NO_CURRENT_ARTICLE | code::NO_SUCH_NUMBER | code::NO_SUCH_ARTICLE)
}

/// Returns whether a response refuses the request but keeps the connection: 400 ends it, and codes that
/// refuse nothing belong to something else.
fn is_refusal(code: u16) -> bool {
    (401..600).contains(&code)
}

/// Returns the error for a refusal after which the connection is useless.
pub(super) fn refused(code: u16, text: &str) -> Error {
    Error::Refused { step: nntp_io::SetupStep::Command, code, text: text.into() }
}
