//! Sending articles to a server on an operator's request: by streaming, or by IHAVE if the server does not
//! stream.
//!
//! One connection with a window of offers; after it breaks, unanswered articles are offered again, so an
//! article may be offered twice but none is left out. Deferred articles are offered again at the end, as are
//! those with responses that the protocol does not have, or on which connections end: an article that the
//! server cannot answer for does not delay the others. Used by `newsreel send` and, for the articles of a
//! group, by the control socket. Sources: RFC 4644, RFC 3977 section 6.3.2.

pub mod progress;
mod source;

pub use source::{ArticleSource, OutgoingArticle, of_batch, of_group};

use site_base::back_off::BackOff;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use nntp_io::{
    AnswerJudgement, ArticleRequest, ClientLimits, ConnectOptions, Error, NntpAnswer, NntpClient,
    ODD_ANSWERS_MAX, ODD_IN_A_ROW_MAX, ProtocolFault, RetryAdvice, Role,
};
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;
use tokio::time::sleep;

use access::tls::RemoteServer;

/// Maximum of articles that are offered or sent and not answered yet, and of their bytes.
const WINDOW_ARTICLES_MAX: usize = 100;
const WINDOW_BYTES_MAX: usize = 8 << 20;
/// Maximum of deferred articles that are offered again, and of their bytes; others are only counted.
const LATER_ARTICLES_MAX: usize = 1_000;
const LATER_BYTES_MAX: usize = 32 << 20;
/// Pauses before they are offered again.
const LATER_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Pauses before a broken connection is opened again.
const RETRY: BackOff = BackOff::new(Duration::from_millis(500), Duration::from_secs(30));
/// Number of consecutive failed connections after which sending is given up.
const TRIES_MAX: u32 = 5;
/// Time limit for each answer, and number of consecutive connections without one, after which the server is
/// given up; `newsreel help send` documents both.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const SILENCES_MAX: u32 = 2;

/// Counts of the articles by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Articles offered.
    pub offered: u64,
    /// Articles accepted by the server.
    pub accepted: u64,
    /// Bytes of the accepted articles.
    pub bytes: u64,
    /// Articles that the server has already.
    pub refused: u64,
    /// Articles rejected by the server.
    pub rejected: u64,
    /// Articles that the server wants later.
    pub later: u64,
    /// Articles given up, because their offer or transfer was not answered according to the protocol.
    #[serde(default)]
    pub given_up: u64,
    /// Pieces of the batch that are no articles.
    pub damaged: u64,
}

/// Reason why sending ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The command, or a file that it names, is wrong.
    #[error("{0}")]
    Config(String),
    /// The server failed, or the connection to it.
    #[error("{0}")]
    Server(#[from] Error),
    /// The articles cannot be read.
    #[error("cannot read the articles: {0}")]
    Source(io::Error),
    /// The server stops, or the client no longer waits for the end.
    #[error("sending was stopped")]
    Stopped,
}

impl SendError {
    /// Returns whether the same command can succeed later.
    fn is_temporary(&self) -> bool {
        match self {
            Self::Config(_) | Self::Source(_) => false,
            Self::Server(error) => error.retry() == RetryAdvice::Later,
            Self::Stopped => true,
        }
    }
}

/// Sends all articles of `source`. `told` is called for each rejected article, and for unexpected responses.
pub(crate) async fn transmit(
    dial: &RemoteServer,
    source: &mut dyn ArticleSource,
    counts: &mut SendCounts,
    told: &mut (dyn FnMut(&str, &str) + Send),
) -> Result<(), SendError> {
    transmit_within(ANSWER_TIMEOUT, dial, source, counts, told).await
}

async fn transmit_within(
    answer_timeout: Duration,
    dial: &RemoteServer,
    source: &mut dyn ArticleSource,
    counts: &mut SendCounts,
    told: &mut (dyn FnMut(&str, &str) + Send),
) -> Result<(), SendError> {
    let limits = ClientLimits { answer_timeout, greeting_timeout: answer_timeout, ..ClientLimits::default() };
    let target = block_in_place(|| dial.target(Role::Transit, limits))
        .map_err(|error| SendError::Config(error.to_string()))?;
    let (fresh, later) = (VecDeque::new(), DeferredArticles::default());
    let mut sending = Transmission {
        source,
        counts,
        told,
        fresh,
        is_end: false,
        later,
        answered: 0,
        rights: BTreeSet::new(),
    };
    sending.all(&target).await?;
    for pause in LATER_PAUSES {
        if sending.later.articles.is_empty() {
            break;
        }
        sleep(pause).await;
        sending.again();
        sending.all(&target).await?;
    }
    Ok(())
}

/// Deferred articles.
#[derive(Default)]
struct DeferredArticles {
    articles: Vec<OutgoingArticle>,
    bytes: usize,
}

struct Transmission<'a> {
    source: &'a mut dyn ArticleSource,
    counts: &'a mut SendCounts,
    told: &'a mut (dyn FnMut(&str, &str) + Send),
    /// Articles to be offered before others of the source.
    fresh: VecDeque<OutgoingArticle>,
    is_end: bool,
    later: DeferredArticles,
    /// Number of proper responses so far.
    answered: u64,
    /// Responses about our rights, by code; each is reported with its first article.
    rights: BTreeSet<u16>,
}

/// Articles of a connection about which the final response has not come.
#[derive(Default)]
struct OpenArticles {
    /// Offers and articles that wait for their responses, in order.
    asked: VecDeque<(OutgoingArticle, ArticleRequest)>,
    /// Articles that the server wants, and that wait for room in the client's queue.
    wanted: VecDeque<OutgoingArticle>,
}

impl OpenArticles {
    fn len(&self) -> usize {
        self.asked.len() + self.wanted.len()
    }

    fn bytes(&self) -> usize {
        let asked = self.asked.iter().map(|(outgoing, _)| outgoing);
        asked.chain(&self.wanted).map(|outgoing| outgoing.wire.len()).sum()
    }

    /// Submits as many of the wanted articles as there is room for.
    fn send_wanted(&mut self, client: &mut NntpClient) -> Result<(), Error> {
        while client.has_room()
            && let Some(outgoing) = self.wanted.pop_front()
        {
            let sent = client.submit_takethis(outgoing.id.as_bytes(), outgoing.wire.as_slice());
            // The response comes after those of the outstanding offers.
            self.asked.push_back((outgoing, ArticleRequest::Takethis));
            sent?;
        }
        Ok(())
    }
}

impl Transmission<'_> {
    /// Sends until nothing is left, over as many connections as needed.
    async fn all(&mut self, target: &ConnectOptions) -> Result<(), SendError> {
        let mut failures = 0;
        loop {
            let before = self.answered;
            let error = match NntpClient::connect(target).await {
                Ok(client) => {
                    let mut open = OpenArticles::default();
                    let ended = self.converse(client, &mut open).await;
                    // An expired login is not the fault of an article.
                    let is_logged_out = matches!(ended, Err(SendError::Server(Error::LoggedOut(_))));
                    if ended.is_err()
                        && !is_logged_out
                        && let Some((next, _)) = open.asked.front_mut()
                    {
                        // The article may be the cause.
                        next.failures += 1;
                    }
                    let asked = open.asked.into_iter().map(|(outgoing, _)| outgoing);
                    // The article that may be the cause stays the first.
                    for outgoing in asked.chain(open.wanted).rev() {
                        self.fresh.push_front(outgoing);
                    }
                    match ended {
                        Ok(()) => return Ok(()),
                        Err(SendError::Server(error)) => error,
                        Err(other) => return Err(other),
                    }
                }
                Err(error) => error,
            };
            failures = if self.answered == before { failures + 1 } else { 1 };
            let tries_max = if matches!(error, Error::TimedOut(_)) { SILENCES_MAX } else { TRIES_MAX };
            if error.retry() == RetryAdvice::Never || failures >= error.tries_max(tries_max) {
                return Err(error.into());
            }
            if let Some(next) = self.fresh.pop_front_if(|next| next.failures >= ODD_ANSWERS_MAX) {
                self.set_aside(next, &error.to_string());
            }
            sleep(RETRY.pause(failures)).await;
        }
    }

    async fn converse(&mut self, mut client: NntpClient, open: &mut OpenArticles) -> Result<(), SendError> {
        let mut odd_in_a_row = 0;
        loop {
            open.send_wanted(&mut client)?;
            self.offer(&mut client, open)?;
            if open.asked.is_empty() {
                if client.has_room() {
                    // Everything was answered.
                    let _gone = client.quit().await;
                    return Ok(());
                }
                // An article was answered before all of it was sent.
                client.flush().await?;
                continue;
            }
            let judged = judged(client.answer().await, open);
            let (judgement, text) = judged?;
            let Some((outgoing, request)) = open.asked.pop_front() else { continue };
            match judgement {
                AnswerJudgement::Wanted if request == ArticleRequest::Check => {
                    open.wanted.push_back(outgoing);
                }
                AnswerJudgement::Wanted => {
                    let sent = client.submit_article(outgoing.wire.as_slice());
                    open.asked.push_front((outgoing, ArticleRequest::Transfer));
                    sent?;
                }
                AnswerJudgement::Odd | AnswerJudgement::Unentitled | AnswerJudgement::OutOfStep => {
                    odd_in_a_row += 1;
                    if judgement == AnswerJudgement::Unentitled {
                        self.report_rights(&outgoing.id, &text);
                    }
                    let failures = outgoing.failures + u8::from(judgement != AnswerJudgement::Unentitled);
                    self.set_aside(OutgoingArticle { failures, ..outgoing }, &text);
                    if judgement == AnswerJudgement::OutOfStep || odd_in_a_row >= ODD_IN_A_ROW_MAX {
                        return Err(Error::Protocol(ProtocolFault::OddAnswer(text.into())).into());
                    }
                    continue;
                }
                judgement => self.conclude(outgoing, judgement, &text),
            }
            (odd_in_a_row, self.answered) = (0, self.answered + 1);
        }
    }

    /// Offers as many articles as allowed.
    fn offer(&mut self, client: &mut NntpClient, open: &mut OpenArticles) -> Result<(), SendError> {
        let (window, verb, request) = match client.streaming() {
            true => (WINDOW_ARTICLES_MAX, "CHECK", ArticleRequest::Check),
            false => (1, "IHAVE", ArticleRequest::Ihave),
        };
        let mut bytes = open.bytes();
        while open.len() < window && bytes < WINDOW_BYTES_MAX && client.has_room() {
            let Some(next) = self.next()? else { break };
            bytes += next.wire.len();
            let submitted = client.submit(format!("{verb} {}", next.id));
            open.asked.push_back((next, request));
            submitted?;
        }
        Ok(())
    }

    /// Returns the next article to offer.
    fn next(&mut self) -> Result<Option<OutgoingArticle>, SendError> {
        if let Some(fresh) = self.fresh.pop_front() {
            return Ok(Some(fresh));
        }
        if self.is_end {
            return Ok(None);
        }
        let next = block_in_place(|| self.source.next()).map_err(SendError::Source)?;
        self.counts.damaged = self.source.damaged();
        self.is_end = next.is_none();
        self.counts.offered += u64::from(next.is_some());
        Ok(next)
    }

    /// Handles the final response about an article.
    fn conclude(&mut self, outgoing: OutgoingArticle, judgement: AnswerJudgement, line: &str) {
        match judgement {
            AnswerJudgement::Accepted => {
                self.counts.accepted += 1;
                self.counts.bytes += outgoing.wire.len() as u64;
            }
            AnswerJudgement::Refused => self.counts.refused += 1,
            AnswerJudgement::Later => self.later(outgoing),
            _ => {
                self.counts.rejected += 1;
                (self.told)(&outgoing.id, &format!("rejected: {line}"));
            }
        }
    }

    /// Handles an article with an unexpected response, or on which a connection has ended: it is offered
    /// again later, until that has happened too often.
    fn set_aside(&mut self, outgoing: OutgoingArticle, line: &str) {
        if outgoing.failures < ODD_ANSWERS_MAX {
            return self.later(outgoing);
        }
        self.counts.given_up += 1;
        let times = outgoing.failures;
        (self.told)(&outgoing.id, &format!("given up after {times} unexpected answers: {line}"));
    }

    /// Reports an answer that we have no right to send an article, once for each code.
    fn report_rights(&mut self, id: &str, line: &str) {
        let code = line.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(0);
        if self.rights.insert(code) {
            (self.told)(id, &format!("wanted later, like others answered so: {line}"));
        }
    }

    fn later(&mut self, outgoing: OutgoingArticle) {
        self.counts.later += 1;
        let bytes = self.later.bytes + outgoing.wire.len();
        if self.later.articles.len() < LATER_ARTICLES_MAX && bytes <= LATER_BYTES_MAX {
            self.later.bytes = bytes;
            self.later.articles.push(outgoing);
        }
    }

    /// Offers the deferred articles again.
    fn again(&mut self) {
        let DeferredArticles { articles, .. } = std::mem::take(&mut self.later);
        self.counts.later -= articles.len() as u64;
        self.fresh.extend(articles);
    }
}

/// Returns the meaning of a response for its article, and its text.
fn judged(
    answered: Result<NntpAnswer<'_>, Error>,
    open: &OpenArticles,
) -> Result<(AnswerJudgement, String), SendError> {
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) if error.is_odd_answer() => return Ok((AnswerJudgement::OutOfStep, error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let Some((outgoing, request)) = open.asked.front() else {
        return Err(Error::Protocol(ProtocolFault::UnexpectedCode(answer.code)).into());
    };
    match answer.judged(*request, outgoing.id.as_bytes()) {
        AnswerJudgement::Closing => Err(Error::Ended.into()),
        judgement => Ok((judgement, String::from_utf8_lossy(answer.line()).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::batches::BatchReader;
    use site_config::{Link, LinkTls};
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    impl ArticleSource for VecDeque<OutgoingArticle> {
        fn next(&mut self) -> io::Result<Option<OutgoingArticle>> {
            Ok(self.pop_front())
        }

        fn damaged(&self) -> u64 {
            0
        }
    }

    /// Returns the way to a server that is listening.
    fn dial(listener: &TcpListener) -> RemoteServer {
        let link = Link {
            bind: None,
            tls: LinkTls::Off,
            tls_verify: true,
            tls_ca: None,
            user: None,
            password_file: None,
            mechanisms: Vec::new(),
            compress: false,
        };
        RemoteServer { to: listener.local_addr().unwrap().to_string(), link }
    }

    /// Accepts articles as a server that answers CHECKs only when it has read `checks` of them.
    fn accept(stream: TcpStream, checks: usize) -> io::Result<()> {
        let mut out = stream.try_clone()?;
        let mut lines = BufReader::new(stream).lines();
        write!(out, "200 hello\r\n")?;
        let mut wanted = Vec::new();
        while let Some(line) = lines.next() {
            let line = line?;
            match line.split_once(' ').unwrap_or((&line, "")) {
                ("MODE", _) => write!(out, "203 streaming\r\n")?,
                ("CHECK", id) => {
                    wanted.push(format!("238 {id}\r\n"));
                    if wanted.len() == checks {
                        out.write_all(wanted.concat().as_bytes())?;
                    }
                }
                ("TAKETHIS", id) => {
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| line != ".")) {}
                    write!(out, "239 {id}\r\n")?;
                }
                ("QUIT", _) => return write!(out, "205 bye\r\n"),
                _ => write!(out, "500 what?\r\n")?,
            }
        }
        Ok(())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn articles_that_are_wanted_together_wait_for_room_in_the_queue() {
        const ARTICLES: usize = 60;
        let article = |n: usize| OutgoingArticle {
            id: format!("<{n}@x.example>").into(),
            wire: [&b"Subject: large\r\n\r\n"[..], &b"0123456789\r\n".repeat(10_000)].concat(),
            failures: 0,
        };
        let mut source: VecDeque<_> = (0..ARTICLES).map(article).collect();
        let bytes: usize = source.iter().map(|outgoing| outgoing.wire.len()).sum();
        assert!(ClientLimits::default().queued_bytes_max < bytes && bytes < WINDOW_BYTES_MAX);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dial = dial(&listener);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _broken = accept(stream, ARTICLES);
            }
        });
        let (mut counts, mut complaints) = (SendCounts::default(), Vec::new());
        let mut told = |id: &str, why: &str| complaints.push(format!("{id}: {why}"));
        transmit(&dial, &mut source, &mut counts, &mut told).await.unwrap();
        assert_eq!((counts.accepted, counts.given_up), (ARTICLES as u64, 0), "{complaints:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_silent_server_is_given_up_after_two_connections() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let dial = dial(&silent);
        let mut source = of_batch(BatchReader::new(Box::new(io::empty()), 1_000));
        let (mut counts, mut told) = (SendCounts::default(), |_: &str, _: &str| {});
        let timeout = Duration::from_millis(50);
        let sent = transmit_within(timeout, &dial, &mut source, &mut counts, &mut told).await;
        assert!(matches!(sent, Err(SendError::Server(Error::TimedOut(_)))), "{sent:?}");
        silent.set_nonblocking(true).unwrap();
        assert_eq!(silent.incoming().take_while(Result::is_ok).count(), SILENCES_MAX as usize);
    }
}
