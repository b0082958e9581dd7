//! One connection to a peer: offers in a pipeline (RFC 4644), their answers in order.
//!
//! Requested articles are sent before new offers. Offers that a connection has taken and the peer has not
//! answered are returned when it ends, in any way ([`UnansweredOffers`]). An answer outside the protocol
//! concerns the article ([`nntp_io::JUDGEMENTS`]), which is set aside; one about another article than
//! expected ends the connection as well, as none of its answers can be trusted any more. A connection whose
//! login has lapsed is replaced at once, and counts as trouble only if it had no use before.

use crate::peer::feed::{FeedTrouble, PeerFeed};
use crate::peer::queue::TakenOffer;
use crate::peer::target::{self, OFFERS_MAX};
use crate::sending::headers_only;
use crate::sending::ihave;
use crate::shared::FeedContext;
use access::tls::RemoteServerError;
use nntp_io::{
    AnswerJudgement, ArticleRequest, Error, NntpAnswer, NntpClient, ODD_IN_A_ROW_MAX, ProtocolFault,
    WireArticle,
};
use site_base::clock::unix_ms;
use site_base::counters::add;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::info;

/// Initial number of unanswered offers; later, as many as the peer answers in a second.
const OFFERS_MIN: usize = 32;
/// Interval for measuring the rate of answers.
const PACE_INTERVAL: Duration = Duration::from_millis(250);
/// Idle time after which a connection beside another one is closed.
const SPARE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of answers handled before the position of the feed is noted.
const NOTE_ANSWERS: usize = 256;

/// Time for which a connection that is ahead lets the others catch up.
const STEP_ASIDE: Duration = Duration::from_millis(1);
/// Bytes a connection queues before others have their turn.
const TURN_BYTES: usize = 48 << 10;

/// End of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEnd {
    /// Reason, unless all was well.
    pub error: Option<String>,
    /// Whether the peer gave a proper answer to any command.
    pub progressed: bool,
}

/// Reason why a connection must end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionFault {
    #[error("{0}")]
    Connection(#[from] Error),
    /// The peer closes it.
    #[error("the peer closed the connection: {0}")]
    Closing(String),
    /// An answer after which it is unknown what the next one is about.
    #[error("unexpected answer: {0}")]
    Answer(String),
    /// Odd answers to several articles in a row; this is the last.
    #[error(
        "{odd_in_a_row_max} articles in a row had unexpected answers; the last: {0}",
        odd_in_a_row_max = ODD_IN_A_ROW_MAX
    )]
    Odd(String),
    /// The configuration names no address.
    #[error("there is no place to connect to")]
    NoAddress,
    /// The settings of the connection cannot be used.
    #[error("{0}")]
    Settings(RemoteServerError),
    /// An address that accepts connections has refused or broken this one.
    #[error("{host}:{port}: {error}")]
    At {
        /// Host of the address.
        host: String,
        /// Port of the address.
        port: u16,
        /// The error.
        error: Error,
    },
    /// The peer does not take headers without bodies; this is its answer to MODE HEADFEED.
    #[error("the peer takes no feed of headers: MODE HEADFEED is answered `{0}`")]
    NoHeadFeed(String),
}

/// Connects to a peer and sends until there is nothing to send, or the connection ends. With `is_only` it
/// stays open when there is nothing to send.
pub(crate) async fn converse(peer: Arc<PeerFeed>, shared: Arc<FeedContext>, is_only: bool) -> ConnectionEnd {
    let mut end = peer.end.subscribe();
    let connected = tokio::select! {
        connected = connect(&peer) => connected,
        _ = end.wait_for(|end| *end) => return ConnectionEnd::default(),
    };
    let mut client = match connected {
        Ok(client) => client,
        Err(fault) => return ConnectionEnd { error: Some(fault.to_string()), progressed: false },
    };
    if peer.send.headers_only
        && let Err(fault) = headers_only::announce(&mut client).await
    {
        return ConnectionEnd { error: Some(fault.to_string()), progressed: false };
    }
    peer.connections.fetch_add(1, Ordering::Relaxed);
    peer.attention.notify_one();
    let mut connection =
        FeedConnection { peer: &peer, shared: &shared, is_only, end, progressed: false, odd_in_a_row: 0 };
    let result = if peer.send.streaming && client.streaming() {
        stream(&mut connection, &mut client).await
    } else {
        ihave::run(&mut connection, &mut client).await
    };
    let progressed = connection.progressed;
    peer.connections.fetch_sub(1, Ordering::Relaxed);
    peer.note(&shared.hub.frontier);
    match result {
        Err(ConnectionStop::Fault(ConnectionFault::Connection(Error::LoggedOut(text)))) if progressed => {
            info!(peer = peer.name, "the login has lapsed, a new connection logs in: 480 {text}");
            ConnectionEnd { error: None, progressed }
        }
        Ok(()) => {
            // Answers already received count, even if the goodbye fails.
            let _goodbye = client.quit().await;
            ConnectionEnd { error: None, progressed }
        }
        Err(ConnectionStop::ClosedIdle) => ConnectionEnd { error: None, progressed },
        Err(ConnectionStop::Fault(fault)) => ConnectionEnd { error: Some(fault.to_string()), progressed },
    }
}

/// Returns a connection to the first address of the peer that accepts one.
async fn connect(peer: &PeerFeed) -> Result<NntpClient, ConnectionFault> {
    let mut fault = ConnectionFault::NoAddress;
    for target in target::all(&peer.send).map_err(ConnectionFault::Settings)? {
        match NntpClient::connect(&target).await {
            Ok(client) => {
                info!(peer = peer.name, to = format!("{}:{}", target.host, target.port), "connected");
                return Ok(client);
            }
            // These two errors include the address.
            Err(failed @ (Error::Connect { .. } | Error::Lookup { .. })) => fault = failed.into(),
            Err(error) => fault = ConnectionFault::At { host: target.host, port: target.port, error },
        }
    }
    Err(fault)
}

/// State shared by the two ways of offering.
pub(crate) struct FeedConnection<'a> {
    pub peer: &'a Arc<PeerFeed>,
    pub shared: &'a Arc<FeedContext>,
    is_only: bool,
    end: watch::Receiver<bool>,
    pub progressed: bool,
    /// Odd answers since the last proper one.
    odd_in_a_row: usize,
}

/// Reason why a connection can no longer be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionStop {
    /// The peer closed it while no command was unanswered, which is no fault.
    #[error("closed while idle")]
    ClosedIdle,
    /// It has failed.
    #[error("{0}")]
    Fault(#[from] ConnectionFault),
}

impl From<Error> for ConnectionStop {
    fn from(error: Error) -> Self {
        Self::Fault(error.into())
    }
}

impl FeedConnection<'_> {
    /// Waits, with no command unanswered, until there may be something to send. Returns false if the
    /// connection is to be closed.
    pub async fn idle(&mut self, client: &mut NntpClient) -> Result<bool, ConnectionStop> {
        let mut woken = pin!(self.peer.offers.notified());
        woken.as_mut().enable();
        if self.peer.is_halted() {
            return Ok(false);
        }
        let spare =
            async { if self.is_only { std::future::pending().await } else { sleep(SPARE_TIMEOUT).await } };
        tokio::select! {
            biased;
            () = self.peer.is_due() => Ok(true),
            () = woken => Ok(!self.peer.is_halted()),
            error = client.closed() => match error {
                Error::Ended | Error::Broken(_) => Err(ConnectionStop::ClosedIdle),
                error => Err(error.into()),
            },
            () = spare => Ok(false),
            _ = self.end.changed() => Ok(false),
        }
    }

    /// Returns the article of an offer as sent; settles the offer if there is none.
    pub fn article(&self, taken: &TakenOffer) -> Option<Arc<WireArticle>> {
        let article = self.shared.article(self.peer, &taken.offer);
        if article.is_none() {
            self.peer.settle(taken.ticket);
        }
        article.map(|whole| match self.peer.send.headers_only {
            true => headers_only::of(&whole).map_or(whole, Arc::new),
            false => whole,
        })
    }

    /// Records how the peer judged an article, which is set aside if the answer, shown as `text`, was an
    /// odd one.
    pub fn judged(
        &mut self,
        taken: &TakenOffer,
        judgement: AnswerJudgement,
        text: &str,
    ) -> Result<(), ConnectionStop> {
        match judgement {
            AnswerJudgement::Closing => return Err(ConnectionFault::Closing(text.to_owned()).into()),
            AnswerJudgement::Odd | AnswerJudgement::Unentitled | AnswerJudgement::OutOfStep => {
                self.odd_in_a_row += 1;
                self.peer.set_aside(taken, judgement == AnswerJudgement::Unentitled, text);
            }
            _ => {
                (self.odd_in_a_row, self.progressed) = (0, true);
                self.peer.answered_properly(taken);
                self.peer.works(FeedTrouble::Peer);
            }
        }
        if judgement == AnswerJudgement::OutOfStep {
            let about = String::from_utf8_lossy(&taken.offer.message_id);
            return Err(ConnectionFault::Answer(format!("`{text}` about {about}")).into());
        }
        if self.odd_in_a_row < ODD_IN_A_ROW_MAX {
            Ok(())
        } else {
            Err(ConnectionFault::Odd(text.to_owned()).into())
        }
    }

    /// Settles the offer of an article.
    pub fn settle(&self, taken: &TakenOffer, judgement: AnswerJudgement) {
        match judgement {
            AnswerJudgement::Accepted => add(&self.peer.counts.accepted, 1),
            AnswerJudgement::Rejected => add(&self.peer.counts.rejected, 1),
            _ => {}
        }
        self.peer.settle(taken.ticket);
    }

    /// Records the peer's answer to an offer: whether it wants the article.
    pub fn offered(&mut self, wanted: bool) {
        let counts = &self.peer.counts;
        add(&counts.offered, 1);
        add(if wanted { &counts.wanted } else { &counts.refused }, 1);
        self.peer.no_check.lock().record(wanted);
    }
}

/// Offers not answered by the peer; returned to the window if dropped.
struct UnansweredOffers<'a> {
    peer: &'a PeerFeed,
    flying: VecDeque<UnansweredCommand>,
    /// Number of them offered by CHECK.
    checks: usize,
    /// Requested articles, to be sent.
    wanted: VecDeque<TakenOffer>,
    /// Whether the login has lapsed, so that no article is to blame for the end.
    is_logged_out: bool,
}

/// A command that waits for its answer.
struct UnansweredCommand {
    taken: TakenOffer,
    step: SentCommand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentCommand {
    Check,
    /// TAKETHIS after CHECK.
    Asked,
    /// TAKETHIS alone.
    Unasked,
}

impl Drop for UnansweredOffers<'_> {
    fn drop(&mut self) {
        let mut window = self.peer.window.lock();
        let queue = &mut window.queue;
        // The next offer to be answered, or the first article sent, may be the reason why the peer closed
        // the connection.
        let (mut is_next, mut is_first_sent) = (!self.is_logged_out, !self.is_logged_out);
        for UnansweredCommand { taken, step } in self.flying.drain(..) {
            let is_sent = step != SentCommand::Check && std::mem::take(&mut is_first_sent);
            if std::mem::take(&mut is_next) || is_sent {
                queue.give_back_suspect(taken.ticket, unix_ms(), |tries| self.peer.pause_ms(tries));
            } else {
                queue.give_back(taken.ticket);
            }
        }
        self.wanted.drain(..).for_each(|taken| queue.give_back(taken.ticket));
    }
}

/// Offers articles by CHECK and TAKETHIS.
async fn stream(connection: &mut FeedConnection<'_>, client: &mut NntpClient) -> Result<(), ConnectionStop> {
    let peer = connection.peer.clone();
    let (flying, wanted) = (VecDeque::new(), VecDeque::new());
    let mut held = UnansweredOffers { peer: &peer, flying, checks: 0, wanted, is_logged_out: false };
    let mut pace = AnswerPace::new(Instant::now());
    let shared = connection.shared.clone();
    let mut place = shared.in_step.place();
    loop {
        connection.shared.rest();
        let mut woken = pin!(peer.offers.notified());
        woken.as_mut().enable();
        let mut submitted = submit(connection, client, &mut held, pace.window)?;
        while submitted == SubmitOutcome::Enough {
            // Other peers go first: their articles must not wait long for those of one peer.
            connection.shared.rest();
            let position = held.flying.back().map_or(0, |flying| flying.taken.offer.mark.position);
            match place.is_ahead(position, shared.articles.older_half()) {
                true => sleep(STEP_ASIDE).await,
                false => tokio::task::yield_now().await,
            }
            submitted = submit(connection, client, &mut held, pace.window)?;
        }
        place.waits();
        let has_room = submitted == SubmitOutcome::All;
        if held.flying.is_empty() {
            if !connection.idle(client).await? {
                return Ok(());
            }
            pace.begin(Instant::now());
            continue;
        }
        tokio::select! {
            biased;
            answered = client.answer() => {
                handle_answer(connection, &mut held, answered)?;
                let mut answers = 1;
                // Answers that have arrived with it.
                while answers < NOTE_ANSWERS && client.has_answer() {
                    let answered = client.answer().await;
                    handle_answer(connection, &mut held, answered)?;
                    answers += 1;
                }
                pace.answered(answers, Instant::now());
                peer.note(&connection.shared.hub.frontier);
            }
            () = woken, if has_room => {}
            () = peer.is_due(), if has_room => {}
        }
    }
}

/// Limit on unanswered commands: about as many as the peer answers in a second. A higher limit would put
/// all waiting articles on the first connection of a slow peer.
#[derive(Debug)]
struct AnswerPace {
    window: usize,
    since: Instant,
    answers: usize,
}

impl AnswerPace {
    fn new(now: Instant) -> Self {
        Self { window: OFFERS_MIN, since: now, answers: 0 }
    }

    /// Restarts the measurement.
    fn begin(&mut self, now: Instant) {
        (self.since, self.answers) = (now, 0);
    }

    fn answered(&mut self, answers: usize, now: Instant) {
        self.answers += answers;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= PACE_INTERVAL {
            let per_second = self.answers as u128 * 1_000 / elapsed.as_millis().max(1);
            let per_second = usize::try_from(per_second).unwrap_or(OFFERS_MAX);
            self.window = per_second.clamp(OFFERS_MIN, OFFERS_MAX);
            self.begin(now);
        }
    }
}

/// Result of queueing commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubmitOutcome {
    /// There is nothing more to send now.
    All,
    /// The limit of unanswered commands is reached.
    Full,
    /// There is more, but others should have their turn.
    Enough,
}

/// Queues articles and offers.
fn submit(
    connection: &FeedConnection<'_>,
    client: &mut NntpClient,
    held: &mut UnansweredOffers<'_>,
    window: usize,
) -> Result<SubmitOutcome, ConnectionStop> {
    let queued_bytes = client.connection().queued_bytes();
    while client.has_room() && held.flying.len() < window {
        if client.connection().queued_bytes() > queued_bytes + TURN_BYTES {
            return Ok(SubmitOutcome::Enough);
        }
        if let Some(taken) = held.wanted.pop_front() {
            send(connection, client, held, taken, SentCommand::Asked)?;
            continue;
        }
        let (is_unasked, is_decided) = {
            let no_check = connection.peer.no_check.lock();
            (no_check.is_on(), no_check.is_decided())
        };
        // Articles that the peer requests in its next answers arrived before those that could be sent
        // unasked now; and no more CHECKs are sent than are needed to decide whether to send unasked.
        if is_unasked && held.checks > 0 || !is_decided && held.checks >= OFFERS_MIN {
            return Ok(SubmitOutcome::Full);
        }
        let Some(taken) = connection.peer.take(&connection.shared.hub.frontier) else {
            return Ok(SubmitOutcome::All);
        };
        if is_unasked {
            send(connection, client, held, taken, SentCommand::Unasked)?;
            continue;
        }
        let id = taken.offer.message_id.clone();
        held.flying.push_back(UnansweredCommand { taken, step: SentCommand::Check });
        held.checks += 1;
        client.submit_check(&id)?;
    }
    Ok(SubmitOutcome::Full)
}

/// Queues an article.
fn send(
    connection: &FeedConnection<'_>,
    client: &mut NntpClient,
    held: &mut UnansweredOffers<'_>,
    taken: TakenOffer,
    step: SentCommand,
) -> Result<(), ConnectionStop> {
    let Some(wire) = connection.article(&taken) else { return Ok(()) };
    match client.submit_takethis_of(&taken.offer.message_id, &wire) {
        Ok(()) => {
            add(&connection.peer.counts.sent_bytes, wire.bytes().len());
            held.flying.push_back(UnansweredCommand { taken, step });
            Ok(())
        }
        Err(Error::Request(why)) => {
            connection.peer.miss(&taken.offer.message_id, why);
            connection.peer.settle(taken.ticket);
            Ok(())
        }
        Err(error) => {
            held.flying.push_back(UnansweredCommand { taken, step });
            Err(error.into())
        }
    }
}

/// Acts on the answer to the oldest unanswered command. The command stays unanswered if the connection has to
/// end, as the peer did not answer or is closing it.
fn handle_answer(
    connection: &mut FeedConnection<'_>,
    held: &mut UnansweredOffers<'_>,
    answered: Result<NntpAnswer<'_>, Error>,
) -> Result<(), ConnectionStop> {
    let Some(UnansweredCommand { taken, step }) = held.flying.pop_front() else {
        let code = answered?.code;
        return Err(Error::Protocol(ProtocolFault::UnexpectedCode(code)).into());
    };
    held.checks -= usize::from(step == SentCommand::Check);
    held.is_logged_out = matches!(answered, Err(Error::LoggedOut(_)));
    let request = if step == SentCommand::Check { ArticleRequest::Check } else { ArticleRequest::Takethis };
    let judged = judgement_of(answered, request, &taken);
    if !matches!(judged, Ok((judgement, _)) if judgement != AnswerJudgement::Closing) {
        held.flying.push_front(UnansweredCommand { taken: taken.clone(), step });
    }
    let (judgement, text) = judged?;
    connection.judged(&taken, judgement, &text)?;
    if step != SentCommand::Asked
        && matches!(
            judgement,
            AnswerJudgement::Wanted
                | AnswerJudgement::Refused
                | AnswerJudgement::Accepted
                | AnswerJudgement::Rejected
        )
    {
        connection.offered(matches!(judgement, AnswerJudgement::Wanted | AnswerJudgement::Accepted));
    }
    match judgement {
        AnswerJudgement::Wanted => held.wanted.push_back(taken),
        AnswerJudgement::Later => connection.peer.defer(taken.ticket),
        AnswerJudgement::Refused | AnswerJudgement::Accepted | AnswerJudgement::Rejected => {
            connection.settle(&taken, judgement)
        }
        AnswerJudgement::Odd
        | AnswerJudgement::Unentitled
        | AnswerJudgement::OutOfStep
        | AnswerJudgement::Closing => {}
    }
    Ok(())
}

/// Returns how an answer judges the article, and its text for display. Returns an error if the connection
/// failed.
pub(crate) fn judgement_of(
    answered: Result<NntpAnswer<'_>, Error>,
    request: ArticleRequest,
    taken: &TakenOffer,
) -> Result<(AnswerJudgement, String), ConnectionStop> {
    match answered {
        Ok(answer) => {
            let text = answer.line().get(..200).unwrap_or(answer.line());
            let judgement = answer.judged(request, &taken.offer.message_id);
            Ok((judgement, String::from_utf8_lossy(text).into_owned()))
        }
        Err(error) if error.is_odd_answer() => Ok((AnswerJudgement::OutOfStep, error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// A single offer; returned to the window if dropped before it is settled.
pub(crate) struct UnansweredOffer<'a> {
    pub peer: &'a PeerFeed,
    pub taken: Option<TakenOffer>,
    /// Whether its answer is awaited.
    pub is_asked: bool,
}

impl Drop for UnansweredOffer<'_> {
    fn drop(&mut self) {
        let Some(taken) = self.taken.take() else { return };
        let mut window = self.peer.window.lock();
        if self.is_asked {
            let pause = |tries| self.peer.pause_ms(tries);
            window.queue.give_back_suspect(taken.ticket, unix_ms(), pause);
        } else {
            window.queue.give_back(taken.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unanswered_commands_are_limited_to_the_answers_of_a_second() {
        let begun = Instant::now();
        let mut pace = AnswerPace::new(begun);
        pace.answered(100, begun + PACE_INTERVAL / 2);
        assert_eq!(pace.window, OFFERS_MIN, "too soon to say");
        pace.answered(25, begun + PACE_INTERVAL);
        assert_eq!(pace.window, 500);
        pace.answered(1, begun + PACE_INTERVAL * 2);
        assert_eq!(pace.window, OFFERS_MIN);
        pace.begin(begun + PACE_INTERVAL * 40);
        pace.answered(10_000, begun + PACE_INTERVAL * 41);
        assert_eq!(pace.window, OFFERS_MAX);
    }
}
