//! Headers added to a post: Message-ID, Injection-Info, locks and keys, by configuration and poster.
//!
//! Called by `inject`. Sources: RFC 5536 section 3.2.8, RFC 8315 sections 3 and 4.

use super::poster::Author;
use super::secret::Secret;
use crate::message_ids::{self, nanos, next_count};
use access::cancel_lock::{key_element, lock_element};
use netnews::injection::{self, InjectionStamp};
use netnews::{Article, control};
use site_config::{Config, PosterDisclosure};

/// The texts of a [`InjectionStamp`].
#[derive(Debug)]
pub(super) struct InjectionMarks {
    /// The Message-ID that the article has or gets.
    pub message_id: String,
    /// The word that connects the article with the log; empty if the article has none.
    pub logging_data: String,
    /// Our identities in Path.
    path_names: String,
    posted_from: String,
    info: Vec<u8>,
    cancel_lock: String,
    cancel_key: String,
}

impl InjectionMarks {
    pub fn of(article: &Article<'_>, poster: Author<'_>, config: &Config, secret: &Secret) -> Self {
        let identity = &config.site.path_identity;
        let posting = &config.posting;
        let revealed = |reveal, text: &str| match reveal {
            PosterDisclosure::Shown => text.to_owned(),
            PosterDisclosure::Hashed => secret.hashed(text),
            PosterDisclosure::Hidden => String::new(),
        };
        let count = next_count();
        let own = article.message_id().map(|id| id.as_str().to_owned());
        let message_id = own.unwrap_or_else(|| message_ids::fresh(identity, count));
        let logging_data =
            if posting.logging_data { format!("{:x}.{count:x}", nanos() / 1_000_000) } else { String::new() };
        let posted_from = revealed(posting.posting_host, poster.address_text);
        let account = poster.user.map_or_else(String::new, |user| revealed(posting.posting_account, user));
        let mut info = Vec::new();
        let parameters = [
            ("posting-host", posted_from.as_str()),
            ("posting-account", &account),
            ("logging-data", &logging_data),
            ("mail-complaints-to", posting.complaints_to.as_deref().unwrap_or_default()),
        ];
        injection::append_info(identity, &parameters, &mut info);
        let cancel_lock = if config.cancel.lock { lock(poster, secret, &message_id) } else { String::new() };
        let cancel_key = key(article, poster, secret);
        let path_names = config.site.path_names();
        Self { message_id, logging_data, path_names, posted_from, info, cancel_lock, cancel_key }
    }

    /// Returns the stamp for `netnews::injection`.
    pub fn stamp<'a>(&'a self, config: &'a Config, now: i64, to_moderator: bool) -> InjectionStamp<'a> {
        InjectionStamp {
            identity: &self.path_names,
            posted_from: &self.posted_from,
            now,
            message_id: &self.message_id,
            organization: config.site.organization.as_deref().unwrap_or_default(),
            info: &self.info,
            cancel_lock: &self.cancel_lock,
            cancel_key: &self.cancel_key,
            to_moderator,
        }
    }
}

/// Returns the elements of Cancel-Lock: the user's, if there is one, and the operator's.
fn lock(poster: Author<'_>, secret: &Secret, message_id: &str) -> String {
    let operator = lock_element(&secret.operator_key(message_id));
    match poster.user {
        Some(user) => format!("{} {operator}", lock_element(&secret.user_key(user, message_id))),
        None => operator,
    }
}

/// Returns the user's key for the article that this one withdraws; it opens only articles that the same user
/// has posted here.
fn key(article: &Article<'_>, poster: Author<'_>, secret: &Secret) -> String {
    let withdrawal = control::withdrawal(article).ok().flatten();
    match (poster.user, withdrawal) {
        (Some(user), Some(withdrawal)) => key_element(&secret.user_key(user, withdrawal.target().as_str())),
        _ => String::new(),
    }
}
