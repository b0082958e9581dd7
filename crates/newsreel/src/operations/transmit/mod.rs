//! Sending articles to a server at an operator's wish: by streaming, or by IHAVE where the server does not
//! stream.
//!
//! One connection with a window of offers; after a broken one, what was not answered is offered again, so
//! that an article may be offered twice and none is left out. Articles that the server wants later are
//! offered again at the end. Called by `newsreel send` and, for the articles of a group, by the control
//! socket. Sources: RFC 4644, RFC 3977 section 6.3.2.

pub(crate) mod progress;
mod source;

pub(crate) use source::{Outgoing, Source, of_batch, of_group};

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use netnews::nntp::response::code;
use nntp_io::{Client, Error, Fault, Limits, Retry, Role, Target, Verdict};
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::tls::Dial;

/// Articles that are offered or sent and not answered yet, and their bytes.
const WINDOW_ARTICLES_MAX: usize = 100;
const WINDOW_BYTES_MAX: usize = 8 << 20;
/// Articles that the server wants later which are offered again, and their bytes; others are only counted.
const LATER_ARTICLES_MAX: usize = 1_000;
const LATER_BYTES_MAX: usize = 32 << 20;
/// The pauses before they are offered again.
const LATER_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// The first pause before a broken connection is made again, doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Connections that fail one after the other, after which it is given up.
const TRIES_MAX: u32 = 5;

/// What became of the articles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Articles that were offered.
    pub offered: u64,
    /// Articles that the server took.
    pub accepted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Articles that the server did not want, as it has them.
    pub refused: u64,
    /// Articles that the server did not take.
    pub rejected: u64,
    /// Articles that the server wants later.
    pub later: u64,
    /// Pieces of the batch that are no articles.
    pub damaged: u64,
}

/// Why sending ended early.
#[derive(Debug)]
pub(crate) enum SendError {
    /// What was typed, or a file that it names.
    Config(String),
    /// The server, or the way to it.
    Server(Error),
    /// The articles cannot be read.
    Source(io::Error),
    /// The server stops, or nobody waits for the end any more.
    Stopped,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(text) => f.write_str(text),
            Self::Server(error) => error.fmt(f),
            Self::Stopped => f.write_str("sending was stopped"),
            Self::Source(error) => write!(f, "cannot read the articles: {error}"),
        }
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

/// Sends all articles of `source`. `told` hears of each article that is rejected.
pub(crate) async fn transmit(
    dial: &Dial,
    source: &mut dyn Source,
    counts: &mut SendCounts,
    told: &mut (dyn FnMut(&str, &str) + Send),
) -> Result<(), SendError> {
    let target =
        block_in_place(|| dial.target(Role::Transit, Limits::default())).map_err(SendError::Config)?;
    let mut sending =
        Sending { source, counts, told, fresh: VecDeque::new(), is_end: false, later: Later::default() };
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

/// Articles that the server wants later.
#[derive(Default)]
struct Later {
    articles: Vec<Outgoing>,
    bytes: usize,
}

struct Sending<'a> {
    source: &'a mut dyn Source,
    counts: &'a mut SendCounts,
    told: &'a mut (dyn FnMut(&str, &str) + Send),
    /// To be offered before others of the source.
    fresh: VecDeque<Outgoing>,
    is_end: bool,
    later: Later,
}

/// What the next answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// CHECK or IHAVE.
    Offer,
    /// The article.
    Article,
}

impl Sending<'_> {
    /// Sends until nothing is left, over as many connections as it takes.
    async fn all(&mut self, target: &Target) -> Result<(), SendError> {
        let mut failures = 0;
        loop {
            let before = *self.counts;
            let error = match Client::connect(target).await {
                Ok(client) => {
                    // Offers and articles that wait for their answers, in order.
                    let mut open = VecDeque::new();
                    let ended = self.converse(client, &mut open).await;
                    for (outgoing, _) in open.into_iter().rev() {
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
            failures = if *self.counts == before { failures + 1 } else { 1 };
            if error.retry() == Retry::Never || failures >= TRIES_MAX {
                return Err(error.into());
            }
            sleep(RETRY_FIRST.saturating_mul(1 << (failures - 1).min(10))).await;
        }
    }

    async fn converse(
        &mut self,
        mut client: Client,
        open: &mut VecDeque<(Outgoing, Step)>,
    ) -> Result<(), SendError> {
        let streaming = client.streaming();
        let window = if streaming { WINDOW_ARTICLES_MAX } else { 1 };
        loop {
            let mut bytes: usize = open.iter().map(|(outgoing, _)| outgoing.wire.len()).sum();
            while open.len() < window && bytes < WINDOW_BYTES_MAX && client.has_room() {
                let Some(next) = self.next()? else { break };
                bytes += next.wire.len();
                let verb = if streaming { "CHECK" } else { "IHAVE" };
                client.submit(format!("{verb} {}", next.id))?;
                open.push_back((next, Step::Offer));
            }
            let Some((outgoing, step)) = open.front() else {
                // All was answered.
                let _gone = client.quit().await;
                return Ok(());
            };
            let answer = client.answer().await?;
            let Some(verdict) = answer.verdict().filter(|_| answer.code != code::UNAVAILABLE) else {
                let error = if answer.code == code::UNAVAILABLE {
                    Error::Ended
                } else {
                    Error::Protocol(Fault::UnexpectedCode(answer.code))
                };
                return Err(error.into());
            };
            // A server that answers about another article has lost its place, and so have we.
            if streaming && answer.first_word() != outgoing.id.as_bytes() {
                return Err(Error::Protocol(Fault::UnexpectedCode(answer.code)).into());
            }
            let text = String::from_utf8_lossy(answer.line()).into_owned();
            let wants = verdict == Verdict::Wanted && *step == Step::Offer;
            let Some((outgoing, step)) = open.pop_front() else { continue };
            if wants && streaming {
                // Its answer comes after those of the offers that are on their way.
                let sent = client.submit_takethis(outgoing.id.as_bytes(), outgoing.wire.as_slice());
                open.push_back((outgoing, Step::Article));
                sent?;
            } else if wants {
                let sent = client.submit_article(outgoing.wire.as_slice());
                open.push_front((outgoing, Step::Article));
                sent?;
            } else {
                self.answered(outgoing, step, verdict, &text);
            }
        }
    }

    /// The next article to offer.
    fn next(&mut self) -> Result<Option<Outgoing>, SendError> {
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

    fn answered(&mut self, outgoing: Outgoing, step: Step, verdict: Verdict, line: &str) {
        match verdict {
            Verdict::Accepted => {
                self.counts.accepted += 1;
                self.counts.bytes += outgoing.wire.len() as u64;
            }
            Verdict::Never if step == Step::Offer => self.counts.refused += 1,
            Verdict::Never => {
                self.counts.rejected += 1;
                (self.told)(&outgoing.id, line);
            }
            Verdict::Later | Verdict::Wanted => {
                self.counts.later += 1;
                let bytes = self.later.bytes + outgoing.wire.len();
                if self.later.articles.len() < LATER_ARTICLES_MAX && bytes <= LATER_BYTES_MAX {
                    self.later.bytes = bytes;
                    self.later.articles.push(outgoing);
                }
            }
        }
    }

    /// What the server wants later is offered again.
    fn again(&mut self) {
        let Later { articles, .. } = std::mem::take(&mut self.later);
        self.counts.later -= articles.len() as u64;
        self.fresh.extend(articles);
    }
}
