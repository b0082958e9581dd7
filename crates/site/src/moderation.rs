//! Posts for moderators: a queue of mails on disk and sending them, or posts that are held here (`held`).
//! Mails that the server writes itself (`composed`) go the same way.
//!
//! A post is on disk before its poster gets 240; it leaves the queue when the mail server has taken it, so a
//! crash at worst sends it twice, with the same Message-ID, and never loses it. Mail that cannot be sent is
//! tried again at growing intervals, and finally put aside. `submit` is called by `inject`, `run` is a task
//! of `server`. Sources: RFC 5537 section 3.5.1, `docs/formats/moderation.md`.

mod composed;
mod held;
mod mailer;
mod queue;
mod sendmail;
mod smtp;
mod unsent;

use crate::message_ids;
pub use composed::OwnMail;
use disk::Disk;
use hashbrown::HashMap;
pub use held::{HeldPost, is_whole as is_held_whole};
use held::{HeldPosts, HoldOutcome};
use mailer::Mailer;
use netnews::injection::{is_address, moderation as form};
use netnews::{Article, date};
pub use queue::{MailKind, is_whole as is_mail_whole};
use queue::{MailQueue, QueuedMail};
use site_base::back_off::BackOff;
use site_base::clock::unix_now;
use site_base::counters::{add, read};
use site_base::file_name::FileName;
use site_config::{Config, LiveConfig, MailForm, WAIT_HERE};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;
use tracing::{error, info, warn};
use unsent::MailError;

/// Interval at which the queue is checked when nothing is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(600);

/// Interval of questions whether another member of the cluster sends the mails.
const LEAD_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a post was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no moderator, or the group's name makes no valid mail address.
    NoAddress,
    /// A post with this Message-ID is waiting already.
    Known,
    /// The queue is full.
    Full,
    /// Writing failed.
    Io,
}

/// The queue and its sender.
#[derive(Debug)]
pub struct ModerationQueue {
    config: LiveConfig,
    queue: MailQueue,
    held: HeldPosts,
    fresh: Notify,
    /// Mails sent since the start.
    pub sent: AtomicU64,
}

/// The reason why no mail can be sent to the moderator of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoModerator {
    /// The configuration has no moderator for it.
    Unnamed,
    /// The address made from the group's name is invalid.
    NoAddress(String),
}

/// Destination of posts to a moderated group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmissionTarget {
    /// This mail address.
    Mail(String),
    /// Held here.
    Here,
}

/// Returns the destination of posts to a moderated group.
pub fn submission(config: &Config, group: &str) -> Result<SubmissionTarget, NoModerator> {
    let named = config.moderators.iter().find(|moderator| moderator.groups.matches(group.as_bytes()));
    let template = named.map(|moderator| &moderator.address).or(config.moderation.default_address.as_ref());
    let template = template.ok_or(NoModerator::Unnamed)?;
    if template == WAIT_HERE {
        return Ok(SubmissionTarget::Here);
    }
    let to = form::address(template, group);
    if is_usable(&to) { Ok(SubmissionTarget::Mail(to)) } else { Err(NoModerator::NoAddress(to)) }
}

/// Returns advice about moderated groups in `moderated` that have no moderator; `None` if all have one.
pub fn advice<'a>(config: &Config, moderated: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut without = moderated.filter(|group| submission(config, group) == Err(NoModerator::Unnamed));
    let first = without.next()?;
    let what = match without.count() {
        0 => format!("the moderated group {first} has"),
        others => format!("{} moderated groups, such as {first}, have", others + 1),
    };
    Some(format!(
        "{what} no moderator, so posts are refused; name one in a [[moderator]], or for the groups of Usenet set \
         default_address = \"%s@moderators.isc.org\" in [moderation]"
    ))
}

fn is_usable(to: &str) -> bool {
    // An address that begins like an option must not become an argument of a program.
    is_address(to.as_bytes()) && !to.starts_with('-')
}

/// Time of the next try.
#[derive(Debug, Clone, Copy)]
struct MailRetry {
    tries: u32,
    at: Instant,
}

impl ModerationQueue {
    /// Opens the queue of mails and the held posts.
    pub fn open(config: &LiveConfig, disk: &Arc<dyn Disk>) -> io::Result<Arc<Self>> {
        let queue = MailQueue::open(disk.clone(), &config.load().site.data)?;
        let held = HeldPosts::open(disk.clone(), &config.load().site.data)?;
        let (fresh, sent) = (Notify::new(), AtomicU64::new(0));
        Ok(Arc::new(Self { queue, held, fresh, config: config.clone(), sent }))
    }

    /// Returns the number of mails that are to be sent.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Looks again at what waits: another member of the cluster has changed it. Blocks.
    pub fn look(&self) {
        self.queue.count_again();
        self.held.count_again();
        self.fresh.notify_one();
    }

    /// Returns the number of mails put aside since the start because they could not be sent.
    pub fn failed(&self) -> u64 {
        read(&self.queue.put_aside)
    }

    /// Returns the posts that are held here.
    pub fn held(&self) -> &HeldPosts {
        &self.held
    }

    /// Returns the sender address of the site's mails.
    pub fn sender(&self) -> String {
        sender(&self.config.load())
    }

    /// Queues a proto-article, which has Message-ID and Date, for the moderator of a group. When this returns
    /// it survives a power failure. Blocks.
    pub fn submit(&self, article: &Article<'_>, post: HeldPost) -> Result<(), SubmitError> {
        let config = self.config.current();
        let (group, now) = (post.group.as_str(), post.queued);
        let to = match submission(&config, group) {
            Ok(SubmissionTarget::Mail(to)) => to,
            Ok(SubmissionTarget::Here) => return self.hold(&post, config.moderation.queue_max),
            Err(NoModerator::Unnamed) => return Err(SubmitError::NoAddress),
            Err(NoModerator::NoAddress(address)) => {
                warn!(group, address, "no usable address of a moderator; see [[moderator]]");
                return Err(SubmitError::NoAddress);
            }
        };
        let from = sender(&config);
        let text = match config.moderation.form {
            MailForm::Plain => form::plain(article, &to),
            MailForm::Encapsulated => {
                let mut today = Vec::new();
                date::format_rfc5322(now, &mut today);
                let message_id = fresh_message_id(&config);
                let (date, message_id) = (today.as_slice(), message_id.as_str());
                let envelope = form::Envelope { to: &to, from: &from, date, message_id, group };
                form::encapsulated(article, &envelope)
            }
        };
        let mail = QueuedMail { to, from, queued: now, text };
        match self.queue.put(MailKind::Post, &mail, config.moderation.queue_max) {
            Ok(true) => {
                self.fresh.notify_one();
                Ok(())
            }
            Ok(false) => {
                warn!(waiting = self.queue.len(), "no more posts for moderators can be queued");
                Err(SubmitError::Full)
            }
            Err(error) => {
                error!(%error, "cannot queue a post for a moderator");
                Err(SubmitError::Io)
            }
        }
    }

    fn hold(&self, post: &HeldPost, max: usize) -> Result<(), SubmitError> {
        match self.held.put(post, max) {
            Ok(HoldOutcome::Waits) => Ok(()),
            Ok(HoldOutcome::Known) => Err(SubmitError::Known),
            Ok(HoldOutcome::Full) => {
                warn!(max, "no more posts can wait for newsreel moderation");
                Err(SubmitError::Full)
            }
            Err(error) => {
                error!(%error, "cannot keep a post for a moderator");
                Err(SubmitError::Io)
            }
        }
    }

    /// Returns whether a mail of our own could be queued now, without anything known of it. Blocks.
    pub fn has_room(&self) -> bool {
        let found = self.queue.has_room(self.own_mails_max());
        found.inspect_err(|error| error!(%error, "mails cannot be queued")).unwrap_or(false)
    }

    /// Returns the number of waiting mails below which mails of our own are queued: half of the queue, which
    /// leaves room for posts.
    fn own_mails_max(&self) -> usize {
        self.config.current().moderation.queue_max / 2
    }

    /// Queues a mail of our own. Blocks.
    pub fn notify(&self, own: &OwnMail<'_>, now: i64) -> Result<(), SubmitError> {
        let config = self.config.current();
        let from = sender(&config);
        let text = own.composed(&from, &fresh_message_id(&config), now);
        let mail = QueuedMail { to: own.to.to_owned(), from, queued: now, text };
        match self.queue.put(own.kind, &mail, self.own_mails_max()) {
            Ok(true) => {
                self.fresh.notify_one();
                Ok(())
            }
            Ok(false) => Err(SubmitError::Full),
            Err(error) => {
                error!(%error, "cannot queue a mail");
                Err(SubmitError::Io)
            }
        }
    }

    /// Sends queued mails until `stopping` resolves, while `leads` returns true; a mail interrupted by that
    /// is sent again later.
    pub async fn run(self: Arc<Self>, leads: impl Fn() -> bool, stopping: impl Future<Output = ()>) {
        let work = async {
            let mut retries = HashMap::new();
            let mut down = None;
            loop {
                let pause = match leads() {
                    true => self.pass(&mut retries, &mut down).await,
                    false => LEAD_INTERVAL,
                };
                tokio::select! {
                    () = self.fresh.notified() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stopping => {}
        }
    }

    /// Tries all mails that are due; returns the time until the next. `down` is the time until which the mail
    /// server is not tried.
    async fn pass(
        &self,
        retries: &mut HashMap<FileName, MailRetry>,
        down: &mut Option<MailRetry>,
    ) -> Duration {
        tokio::task::block_in_place(|| self.queue.remove_expired(SystemTime::now()));
        let now = Instant::now();
        if let Some(down) = down.filter(|down| down.at > now) {
            return down.at - now;
        }
        let names = tokio::task::block_in_place(|| self.queue.names());
        retries.retain(|name, _| names.contains(name));
        for name in names {
            if retries.get(&name).is_some_and(|retry| retry.at > Instant::now()) {
                continue;
            }
            let Some(mail) = tokio::task::block_in_place(|| self.queue.read(&name)) else { continue };
            let mailer = {
                let config = self.config.load();
                Mailer::of(&config.moderation, &config.site.path_identity)
            };
            let kind = MailKind::of(&name);
            let to = logged_recipient(kind, &mail);
            let shown = |text: String| if to.is_some() { text } else { text.replace(&mail.to, "ADDRESS") };
            match mailer.send(&mail).await {
                Ok(()) => {
                    *down = None;
                    add(&self.sent, 1);
                    info!(to, mail = %name, "{kind}: mailed");
                    tokio::task::block_in_place(|| self.queue.remove(&name));
                }
                Err(MailError::Down(text)) => {
                    let retry = self.again(*down);
                    warn!(%text, seconds = (retry.at - Instant::now()).as_secs(), "mails cannot be sent");
                    *down = Some(retry);
                    self.give_up_old(&name, &mail);
                    break;
                }
                Err(MailError::Later(text)) => {
                    *down = None;
                    let text = shown(text);
                    warn!(to, mail = %name, %text, "{kind}: the mail is not taken yet");
                    let retry = self.again(retries.get(&name).copied());
                    retries.insert(name.clone(), retry);
                    self.give_up_old(&name, &mail);
                }
                Err(MailError::Never(text)) => {
                    *down = None;
                    let (text, kept) =
                        (shown(text), tokio::task::block_in_place(|| self.queue.give_up(&name)));
                    match kind {
                        // Anyone may give an address that does not exist.
                        MailKind::Account => {
                            warn!(mail = %name, %text, "{kind}: the mail is refused, and {kept}")
                        }
                        _ => error!(to, mail = %name, %text, "{kind}: the mail is refused; it is {kept}"),
                    }
                }
            }
        }
        let next = retries.values().map(|retry| retry.at).chain(down.map(|down| down.at)).min();
        next.map_or(LOOK_INTERVAL, |at| at.saturating_duration_since(Instant::now()).min(LOOK_INTERVAL))
    }

    fn again(&self, before: Option<MailRetry>) -> MailRetry {
        let config = self.config.load();
        let moderation = &config.moderation;
        let tries = before.map_or(0, |retry| retry.tries).saturating_add(1);
        let pause = BackOff::new(moderation.retry_first, moderation.retry_longest).pause(tries);
        MailRetry { tries, at: Instant::now() + pause }
    }

    fn give_up_old(&self, name: &FileName, mail: &QueuedMail) {
        let age = u64::try_from(unix_now() - mail.queued).unwrap_or_default();
        if Duration::from_secs(age) >= self.config.load().moderation.give_up_after {
            let (kind, kept) = (MailKind::of(name), tokio::task::block_in_place(|| self.queue.give_up(name)));
            error!(to = logged_recipient(kind, mail), mail = %name, "{kind}: the mail could not be sent; it is {kept}");
        }
    }
}

/// Returns the recipient of a mail for the log. Of the owner of an account a hash of the address is kept, and
/// the log keeps no more (`docs/decisions/0138-addresses-are-kept-as-hashes.md`).
fn logged_recipient(kind: MailKind, mail: &QueuedMail) -> Option<&str> {
    (kind != MailKind::Account).then_some(mail.to.as_str())
}

fn fresh_message_id(config: &Config) -> String {
    message_ids::fresh(&config.site.path_identity, message_ids::next_count())
}

/// Returns the envelope sender of mails.
pub(crate) fn sender(config: &Config) -> String {
    let configured = config.moderation.sender.clone();
    configured.unwrap_or_else(|| format!("news@{}", config.site.path_identity))
}
