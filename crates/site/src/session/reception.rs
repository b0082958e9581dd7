//! Reception of what the client sends: the receive buffer, the kind of input that is expected, and the time
//! that it may take.
//!
//! An article for which there is no memory must be given up: it is read to its end and discarded, so that its
//! sender gets an answer. Called by the session's loop. Rationale: decision 29.

use super::ConnectedClient;
use super::budget::{MemoryAccount, MemoryCharge, NoArticleMemory, ReceiveBudget};
use super::expecting::{DiscardReason, ExpectedInput};
use super::input::{ArrivingArticle, Input, InputEvent, Interrupts};
use super::pace::{Round, SessionTimers};
use crate::site::SessionSignal;
use access::counted;
use nntp_io::{ServerOutput, Transport};
use site_config::Config;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::debug;

/// Time for which a silent session keeps its compressor with its window.
const COMPRESSOR_KEPT: Duration = Duration::from_secs(2);
/// Time in which a client takes the answers of a round while its session holds memory for an article.
const ANSWERS_TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Limit on what the system may buffer of an unread post, in octets (it takes twice as much): enough for a
/// megabyte a second over a tenth of a second.
const UNREAD_POST_BYTES: usize = 128 << 10;
/// Bytes needed for the largest article beyond its own size: its command line and space to read into.
const LARGEST_EXTRA_BYTES: u64 = 64 << 10;

/// Input of a session.
pub(super) struct Reception {
    input: Input,
    timers: SessionTimers,
    expecting: ExpectedInput,
    /// The client has posted an article that needed more memory than the small buffer.
    posts_large: bool,
}

impl Reception {
    pub fn new(client: &ConnectedClient) -> Self {
        let timers = SessionTimers::new(&client.config().limits, Instant::now());
        let mut reception =
            Self { input: Input::new(), timers, expecting: ExpectedInput::Command, posts_large: false };
        reception.adapt(client);
        reception
    }

    /// Adapts to the client and its configuration: only from a peer it is worthwhile to read ahead.
    pub fn adapt(&mut self, client: &ConnectedClient) {
        self.timers.set_limits(&client.config().limits);
        self.input.read_ahead(client.may_feed());
    }

    /// Returns the time when the wait for more input ends.
    pub fn deadline(&self) -> Instant {
        self.timers.deadline(&self.expecting)
    }

    /// Returns true if a command or an article has begun.
    pub fn has_begun(&self) -> bool {
        self.timers.begun().is_some()
    }

    /// Returns true if an article is under way.
    pub fn is_in_article(&self) -> bool {
        self.expecting.is_article()
    }

    /// Makes all waits from now on end soon.
    pub fn hurry(&mut self, until: Instant) {
        self.timers.hurry(until);
    }

    /// Returns true if all bytes that have arrived are consumed.
    pub fn is_empty(&self) -> bool {
        self.input.len() == 0
    }

    /// Waits for more input; the compressor is dropped if nothing comes for a while.
    pub async fn wait(
        &mut self,
        out: &mut ServerOutput,
        budget: &ReceiveBudget,
        interrupts: &mut Interrupts<impl Future<Output = SessionSignal>>,
    ) -> io::Result<InputEvent> {
        let mut until = self.timers.until(&self.expecting);
        if out.transport().has_compressor() {
            let deadline = until.deadline;
            until.deadline = deadline.min(Instant::now() + COMPRESSOR_KEPT);
            let event = self.input.fill(out, budget, interrupts, until).await?;
            if !matches!(event, InputEvent::Late) || until.deadline >= deadline {
                return Ok(event);
            }
            out.transport().drop_compressor();
            until.deadline = deadline;
        }
        self.input.fill(out, budget, interrupts, until).await
    }

    /// Returns the time that a client has to take the answers of the next round, if that is limited: it does
    /// not read them as slowly as it likes with memory that other senders may wait for.
    pub fn answers_within(&self) -> Option<Duration> {
        self.input.has_article_memory().then_some(ANSWERS_TAKEN_WITHIN)
    }

    /// Takes the buffer for a round, with the kind of input that is expected, which the round changes.
    pub fn begin_round(&mut self) -> (Vec<u8>, &mut ExpectedInput) {
        (self.input.take(), &mut self.expecting)
    }

    /// Takes the buffer back after its first `consumed` bytes were handled.
    pub fn put_back(&mut self, buffer: Vec<u8>, consumed: usize) {
        self.input.put_back(buffer, consumed);
    }

    /// Records a finished round whose answers are sent.
    pub fn end_round(&mut self, round: Round) {
        self.timers.heard(round, &self.expecting, Instant::now());
    }

    /// Gets memory for more of the article at hand, if it needs any; if there is none, the rest of it is
    /// discarded.
    pub async fn make_room(
        &mut self,
        client: &ConnectedClient,
        budget: &ReceiveBudget,
        out: &mut ServerOutput,
    ) {
        if !self.input.is_full() {
            return;
        }
        let (waits, config, is_post) = (Instant::now(), client.config(), self.expecting.is_post());
        if is_post && !self.posts_large {
            self.posts_large = true;
            // If the system refuses, it may buffer more.
            let _as_before = out.transport().socket().map(|socket| socket.limit_unread(UNREAD_POST_BYTES));
        }
        let user = client.user().map(|user| &*user.name);
        let arriving = ArrivingArticle {
            charges: charges(config, user, client.address(), is_post),
            since: self.timers.begun().unwrap_or(waits),
            bytes_max: usize::try_from(config.site.article_bytes_max).unwrap_or(usize::MAX / 2),
        };
        let made = timeout(config.limits.command_timeout, self.input.make_room(budget, arriving)).await;
        self.timers.paused(waits.elapsed());
        if let Err(why) = made.unwrap_or(Err(NoArticleMemory::WAITED)) {
            self.give_up_article(why, client);
        }
    }

    /// Discards the article at hand for lack of memory: the bytes received so far, and the rest as it comes.
    pub fn give_up_article(&mut self, why: NoArticleMemory, client: &ConnectedClient) {
        let buffer = self.input.take();
        debug!(client = client.name(), bytes = buffer.len(), why = why.0, "article given up");
        let consumed = self.expecting.discard_article(&buffer, 0, DiscardReason::NoRoom(why));
        self.end_round(Round { arrived: buffer.len(), consumed, completed: false });
        self.input.put_back(buffer, consumed);
    }

    /// Reads and discards input until the end of the stream.
    pub async fn drain(&mut self, transport: &mut Transport) -> io::Result<()> {
        self.input.drain(transport).await
    }
}

/// Returns the accounts that the article at hand is charged to: articles relayed by peers separately from
/// posts, including those from a peer's address.
fn charges(config: &Config, user: Option<&str>, address: IpAddr, is_post: bool) -> Box<[MemoryCharge]> {
    let limits = &config.limits;
    // Each account has enough for one of the largest articles.
    let least = config.site.article_bytes_max.saturating_add(LARGEST_EXTRA_BYTES);
    let charge = |account, bytes_max: u64| MemoryCharge {
        account,
        bytes_max: usize::try_from(bytes_max.max(least)).unwrap_or(usize::MAX),
    };
    if !is_post {
        return [charge(MemoryAccount::Peers, limits.receive_bytes_from_peers_max)].into();
    }
    let own = match user {
        Some(user) => charge(MemoryAccount::User(user.into()), limits.receive_bytes_per_user_max),
        None => charge(MemoryAccount::Address(counted(address)), limits.receive_bytes_per_address_max),
    };
    [own, charge(MemoryAccount::Posters, limits.receive_bytes_from_posters_max)].into()
}

#[cfg(test)]
mod tests {
    use super::super::expecting::ArticleCommand;
    use super::*;

    fn charged(user: Option<&str>, address: &str, way: ArticleCommand) -> Vec<(MemoryAccount, usize)> {
        let config = site_config::testing::with_trash(
            "[site]\narticle_bytes_max = \"1 MiB\"\n[limits]\nreceive_bytes_from_peers_max = \"64 MiB\"\n\
             receive_bytes_from_posters_max = \"32 MiB\"\nreceive_bytes_per_address_max = \"8 MiB\"\n\
             receive_bytes_per_user_max = \"1 KiB\"\n",
        );
        let expecting = ExpectedInput::Article { way, head: 0, resume_from: 0 };
        let charges = charges(&config, user, address.parse().unwrap(), expecting.is_post());
        charges.iter().map(|charge| (charge.account.clone(), charge.bytes_max)).collect()
    }

    #[test]
    fn peers_users_and_addresses_have_accounts_of_their_own() {
        let address = |text: &str| MemoryAccount::Address(text.parse().unwrap());
        let posters = (MemoryAccount::Posters, 32 << 20);
        for way in [ArticleCommand::Ihave, ArticleCommand::Takethis] {
            assert_eq!(charged(None, "192.0.2.1", way), [(MemoryAccount::Peers, 64 << 20)]);
        }
        let one = charged(None, "192.0.2.1", ArticleCommand::Post);
        assert_eq!(one, [(address("192.0.2.1"), 8 << 20), posters.clone()]);
        // A customer with IPv6 has a whole /64.
        let of_network = [(address("2001:db8:1:2::"), 8 << 20), posters.clone()];
        for host in ["2001:db8:1:2::7", "2001:db8:1:2:ffff:ffff:ffff:ffff"] {
            assert_eq!(charged(None, host, ArticleCommand::Post), of_network);
        }
        assert_ne!(charged(None, "2001:db8:1:3::7", ArticleCommand::Post), of_network);
        // Users count by name, from any address: many may come through one proxy.
        let largest = (1 << 20) + LARGEST_EXTRA_BYTES as usize;
        for host in ["127.0.0.1", "192.0.2.1"] {
            let fred = charged(Some("fred"), host, ArticleCommand::Post);
            assert_eq!(fred, [(MemoryAccount::User("fred".into()), largest), posters.clone()]);
        }
    }
}
