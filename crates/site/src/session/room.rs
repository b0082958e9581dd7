//! Memory for the article at hand: the accounts it is charged to, and handling of an article for which there
//! is none.
//!
//! An article that must be given up is read to its end and discarded, so that its sender gets an answer.
//! Called by the session's loop. Rationale: decision 29.

use super::Session;
use super::budget::{MemoryAccount, MemoryCharge, NoArticleMemory};
use super::input::ArrivingArticle;
use super::pace::Round;
use super::rounds::{ArticleCommand, DiscardReason, ExpectedInput};
use access::counted;
use site_config::Config;
use std::net::IpAddr;
use std::time::Instant;
use tokio::time::timeout;
use tracing::debug;
use upstreams::NewsSource;

/// Limit on what the system may buffer of an unread post, in octets (it takes twice as much): enough for a
/// megabyte a second over a tenth of a second.
const UNREAD_POST_BYTES: usize = 128 << 10;
/// Bytes needed for the largest article beyond its own size: its command line and space to read into.
const LARGEST_EXTRA_BYTES: u64 = 64 << 10;

impl<S: NewsSource> Session<S> {
    /// Gets memory for more of the article at hand; if there is none, the rest of it is discarded.
    pub(super) async fn make_room(&mut self) {
        let waits = Instant::now();
        if !self.posts_large
            && matches!(self.expecting, ExpectedInput::Article { way: ArticleCommand::Post, .. })
        {
            self.posts_large = true;
            // If the system refuses, it may buffer more.
            let _as_before =
                self.out.transport().socket().map(|socket| socket.limit_unread(UNREAD_POST_BYTES));
        }
        let (config, budget) = (self.client.config(), &self.context.budget);
        let arriving = ArrivingArticle {
            charges: charges(
                config,
                (self.client.user().map(|user| &*user.name), self.client.address()),
                &self.expecting,
            ),
            since: self.pace.begun().unwrap_or(waits),
            bytes_max: usize::try_from(config.site.article_bytes_max).unwrap_or(usize::MAX / 2),
        };
        let made = timeout(config.limits.command_timeout, self.input.make_room(budget, arriving)).await;
        self.pace.paused(waits.elapsed());
        if let Err(why) = made.unwrap_or(Err(NoArticleMemory::WAITED)) {
            self.give_up_article(why);
        }
    }

    /// Discards the article at hand for lack of memory: the bytes received so far, and the rest as it comes.
    pub(super) fn give_up_article(&mut self, why: NoArticleMemory) {
        let buffer = self.input.take();
        let mut consumed = 0;
        if let ExpectedInput::Article { way, head, .. } = self.expecting {
            debug!(client = self.client.name(), bytes = buffer.len(), why = why.0, "article given up");
            consumed = self.skip_article(&buffer, way, 0, head, DiscardReason::NoRoom(why));
        }
        let round = Round { arrived: buffer.len(), consumed, completed: false };
        self.pace.heard(round, &self.expecting, Instant::now());
        self.input.put_back(buffer, consumed);
    }
}

/// Returns the accounts that the article at hand is charged to: articles relayed by peers separately from
/// posts, including those from a peer's address.
fn charges(
    config: &Config,
    client: (Option<&str>, IpAddr),
    expecting: &ExpectedInput,
) -> Box<[MemoryCharge]> {
    let limits = &config.limits;
    // Each account has enough for one of the largest articles.
    let least = config.site.article_bytes_max.saturating_add(LARGEST_EXTRA_BYTES);
    let charge = |account, bytes_max: u64| MemoryCharge {
        account,
        bytes_max: usize::try_from(bytes_max.max(least)).unwrap_or(usize::MAX),
    };
    if !matches!(expecting, ExpectedInput::Article { way: ArticleCommand::Post, .. }) {
        return [charge(MemoryAccount::Peers, limits.receive_bytes_from_peers_max)].into();
    }
    let own = match client {
        (Some(user), _) => charge(MemoryAccount::User(user.into()), limits.receive_bytes_per_user_max),
        (None, address) => {
            charge(MemoryAccount::Address(counted(address)), limits.receive_bytes_per_address_max)
        }
    };
    [own, charge(MemoryAccount::Posters, limits.receive_bytes_from_posters_max)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(user: Option<&str>, address: &str, way: ArticleCommand) -> Vec<(MemoryAccount, usize)> {
        let config = site_config::testing::with_trash(
            "[site]\narticle_bytes_max = \"1 MiB\"\n[limits]\nreceive_bytes_from_peers_max = \"64 MiB\"\n\
             receive_bytes_from_posters_max = \"32 MiB\"\nreceive_bytes_per_address_max = \"8 MiB\"\n\
             receive_bytes_per_user_max = \"1 KiB\"\n",
        );
        let expecting = ExpectedInput::Article { way, head: 0, resume_from: 0 };
        let charges = charges(&config, (user, address.parse().unwrap()), &expecting);
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
