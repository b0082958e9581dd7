//! `[posting]`, `[cancel]`, `[moderation]` and `[[moderator]]`: values, drafts, reading and writing.
//!
//! Called by `read`, `draft` and `write`; the keys stand in `keys/posting.rs`.

use super::draft::At;
use super::read::{Entry, Reader};
use super::words::Word;
use super::write::{Lines, optional, quoted, size, span};
use super::{Groups, values};
use std::time::Duration;

/// `[posting]`: what is asked of posts, and what they tell of their posters.
#[derive(Debug, Clone, PartialEq)]
pub struct Posting {
    /// What an article tells of the poster's address.
    pub posting_host: Reveal,
    /// What an article tells of the poster's user name.
    pub posting_account: Reveal,
    /// Whether it has a word that leads to the log.
    pub logging_data: bool,
    /// Where to complain.
    pub complaints_to: Option<String>,
    /// Groups in Newsgroups.
    pub groups_max: usize,
    /// Groups in Followup-To.
    pub followup_groups_max: usize,
    /// Longest line of a body, in bytes.
    pub line_bytes_max: usize,
    /// Longest post, in bytes; `None`: the site's limit.
    pub article_bytes_max: Option<u64>,
    /// Whether posts that mostly quote are refused.
    pub check_quoted: bool,
    /// How fast one may post.
    pub backoff: Backoff,
}

/// How fast one user or address may post (`posting.backoff_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Fast posts before there is anything to wait.
    pub trigger: u32,
    /// What is fast.
    pub fast: Duration,
    /// What is slow enough to begin anew.
    pub slow: Duration,
    /// The first time to wait.
    pub first: Duration,
    /// The longest time to wait.
    pub longest: Duration,
}

/// What an article tells of its poster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reveal {
    /// The thing itself.
    Shown,
    /// A hash of it.
    Hashed,
    /// Nothing.
    Hidden,
}

/// `[cancel]`: which withdrawals are obeyed.
#[derive(Debug, Clone, PartialEq)]
pub struct Cancel {
    /// Which ones.
    pub honor: Honor,
    /// With `Honor::Verified`: whether articles without a lock may be withdrawn by anybody.
    pub unlocked: bool,
    /// Whether articles posted here get locks.
    pub lock: bool,
}

/// Which withdrawals are obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Honor {
    /// Those whose key opens the article's lock.
    Verified,
    /// All.
    All,
    /// None.
    None,
}

/// `[moderation]`: how posts reach moderators.
#[derive(Debug, Clone, PartialEq)]
pub struct Moderation {
    /// `HOST:PORT` of a mail server; `None`: the program is run.
    pub smtp: Option<String>,
    /// Program and arguments between spaces.
    pub sendmail: String,
    /// Envelope sender; `None`: `news@` our path identity.
    pub sender: Option<String>,
    /// Form of the mails.
    pub form: MailForm,
    /// Template for groups without a `[[moderator]]`; `None`: they have no moderator.
    pub default_address: Option<String>,
    /// Mails that may wait.
    pub queue_max: usize,
    /// Time to the second try.
    pub retry_first: Duration,
    /// Longest time between two tries.
    pub retry_longest: Duration,
    /// When a mail is put aside.
    pub give_up_after: Duration,
}

/// Form of mails to moderators (RFC 5537 section 3.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailForm {
    /// The post as a mail.
    Plain,
    /// The post within a mail.
    Encapsulated,
}

/// `[[moderator]]`: who moderates some groups; the first match decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Moderator {
    /// The groups.
    pub groups: Groups,
    /// Template of the address.
    pub address: String,
}

impl Word for Reveal {
    const WORDS: &'static [(&'static str, Self)] =
        &[("shown", Self::Shown), ("hashed", Self::Hashed), ("hidden", Self::Hidden)];
}

impl Word for Honor {
    const WORDS: &'static [(&'static str, Self)] =
        &[("verified", Self::Verified), ("all", Self::All), ("none", Self::None)];
}

impl Word for MailForm {
    const WORDS: &'static [(&'static str, Self)] =
        &[("plain", Self::Plain), ("encapsulated", Self::Encapsulated)];
}

/// All four sections as they are being read.
#[derive(Debug)]
pub(super) struct PostingDraft {
    posting_host: At<Reveal>,
    posting_account: At<Reveal>,
    logging_data: At<bool>,
    complaints_to: At<Option<String>>,
    groups_max: At<u64>,
    followup_groups_max: At<u64>,
    line_bytes_max: At<u64>,
    article_bytes_max: At<Option<u64>>,
    check_quoted: At<bool>,
    backoff_trigger: At<u64>,
    backoff_fast: At<Duration>,
    backoff_slow: At<Duration>,
    backoff_first: At<Duration>,
    backoff_longest: At<Duration>,
}

#[derive(Debug)]
pub(super) struct CancelDraft {
    honor: At<Honor>,
    unlocked: At<bool>,
    lock: At<bool>,
}

#[derive(Debug)]
pub(super) struct ModerationDraft {
    smtp: At<Option<String>>,
    sendmail: At<String>,
    sender: At<Option<String>>,
    form: At<MailForm>,
    default_address: At<Option<String>>,
    queue_max: At<u64>,
    retry_first: At<Duration>,
    retry_longest: At<Duration>,
    give_up_after: At<Duration>,
}

#[derive(Debug)]
pub(super) struct ModeratorDraft {
    groups: At<Groups>,
    address: At<String>,
}

impl Reader {
    pub(super) fn posting(&mut self, entry: &Entry<'_>) -> PostingDraft {
        PostingDraft {
            posting_host: self.get(entry, "posting_host", values::choice),
            posting_account: self.get(entry, "posting_account", values::choice),
            logging_data: self.get(entry, "logging_data", values::switch),
            complaints_to: self.opt(entry, "complaints_to", values::text),
            groups_max: self.get(entry, "groups_max", values::integer),
            followup_groups_max: self.get(entry, "followup_groups_max", values::integer),
            line_bytes_max: self.get(entry, "line_bytes_max", values::integer),
            article_bytes_max: self.opt(entry, "article_bytes_max", values::size),
            check_quoted: self.get(entry, "check_quoted", values::switch),
            backoff_trigger: self.get(entry, "backoff_trigger", values::integer),
            backoff_fast: self.get(entry, "backoff_fast", values::span),
            backoff_slow: self.get(entry, "backoff_slow", values::span),
            backoff_first: self.get(entry, "backoff_first", values::span),
            backoff_longest: self.get(entry, "backoff_longest", values::span),
        }
    }

    pub(super) fn cancel(&mut self, entry: &Entry<'_>) -> CancelDraft {
        CancelDraft {
            honor: self.get(entry, "honor", values::choice),
            unlocked: self.get(entry, "unlocked", values::switch),
            lock: self.get(entry, "lock", values::switch),
        }
    }

    pub(super) fn moderation(&mut self, entry: &Entry<'_>) -> ModerationDraft {
        ModerationDraft {
            smtp: self.opt(entry, "smtp", values::host_port),
            sendmail: self.get(entry, "sendmail", values::text),
            sender: self.opt(entry, "sender", values::text),
            form: self.get(entry, "form", values::choice),
            default_address: self.opt(entry, "default_address", values::moderator_address),
            queue_max: self.get(entry, "queue_max", values::integer),
            retry_first: self.get(entry, "retry_first", values::span),
            retry_longest: self.get(entry, "retry_longest", values::span),
            give_up_after: self.get(entry, "give_up_after", values::span),
        }
    }

    pub(super) fn moderator(&mut self, entry: &Entry<'_>) -> ModeratorDraft {
        ModeratorDraft {
            groups: self.get(entry, "groups", values::wildmat),
            address: self.get(entry, "address", values::moderator_address),
        }
    }
}

impl PostingDraft {
    pub(super) fn finish(self) -> Option<Posting> {
        let count = |value: u64| usize::try_from(value).ok();
        Some(Posting {
            posting_host: self.posting_host.value?,
            posting_account: self.posting_account.value?,
            logging_data: self.logging_data.value?,
            complaints_to: self.complaints_to.value?,
            groups_max: count(self.groups_max.value?)?,
            followup_groups_max: count(self.followup_groups_max.value?)?,
            line_bytes_max: count(self.line_bytes_max.value?)?,
            article_bytes_max: self.article_bytes_max.value?,
            check_quoted: self.check_quoted.value?,
            backoff: Backoff {
                trigger: u32::try_from(self.backoff_trigger.value?).ok()?,
                fast: self.backoff_fast.value?,
                slow: self.backoff_slow.value?,
                first: self.backoff_first.value?,
                longest: self.backoff_longest.value?,
            },
        })
    }
}

impl CancelDraft {
    pub(super) fn finish(self) -> Option<Cancel> {
        Some(Cancel { honor: self.honor.value?, unlocked: self.unlocked.value?, lock: self.lock.value? })
    }
}

impl ModerationDraft {
    pub(super) fn finish(self) -> Option<Moderation> {
        Some(Moderation {
            smtp: self.smtp.value?,
            sendmail: self.sendmail.value?,
            sender: self.sender.value?,
            form: self.form.value?,
            default_address: self.default_address.value?,
            queue_max: usize::try_from(self.queue_max.value?).ok()?,
            retry_first: self.retry_first.value?,
            retry_longest: self.retry_longest.value?,
            give_up_after: self.give_up_after.value?,
        })
    }
}

impl ModeratorDraft {
    pub(super) fn finish(self) -> Option<Moderator> {
        Some(Moderator { groups: self.groups.value?, address: self.address.value? })
    }
}

pub(super) fn posting_lines(posting: &Posting) -> Lines {
    let Posting {
        posting_host,
        posting_account,
        logging_data,
        complaints_to,
        groups_max,
        followup_groups_max,
        line_bytes_max,
        article_bytes_max,
        check_quoted,
        backoff: Backoff { trigger, fast, slow, first, longest },
    } = posting;
    let mut lines = vec![
        ("posting_host", quoted(posting_host.word())),
        ("posting_account", quoted(posting_account.word())),
        ("logging_data", logging_data.to_string()),
    ];
    optional(&mut lines, "complaints_to", complaints_to.as_deref(), quoted);
    lines.extend([
        ("groups_max", groups_max.to_string()),
        ("followup_groups_max", followup_groups_max.to_string()),
        ("line_bytes_max", line_bytes_max.to_string()),
    ]);
    optional(&mut lines, "article_bytes_max", *article_bytes_max, size);
    lines.extend([
        ("check_quoted", check_quoted.to_string()),
        ("backoff_trigger", trigger.to_string()),
        ("backoff_fast", span(*fast)),
        ("backoff_slow", span(*slow)),
        ("backoff_first", span(*first)),
        ("backoff_longest", span(*longest)),
    ]);
    lines
}

pub(super) fn cancel_lines(cancel: &Cancel) -> Lines {
    let Cancel { honor, unlocked, lock } = cancel;
    vec![("honor", quoted(honor.word())), ("unlocked", unlocked.to_string()), ("lock", lock.to_string())]
}

pub(super) fn moderation_lines(moderation: &Moderation) -> Lines {
    let Moderation {
        smtp,
        sendmail,
        sender,
        form,
        default_address,
        queue_max,
        retry_first,
        retry_longest,
        give_up_after,
    } = moderation;
    let mut lines = Vec::new();
    optional(&mut lines, "smtp", smtp.as_deref(), quoted);
    lines.push(("sendmail", quoted(sendmail)));
    optional(&mut lines, "sender", sender.as_deref(), quoted);
    lines.extend([("form", quoted(form.word()))]);
    optional(&mut lines, "default_address", default_address.as_deref(), quoted);
    lines.extend([
        ("queue_max", queue_max.to_string()),
        ("retry_first", span(*retry_first)),
        ("retry_longest", span(*retry_longest)),
        ("give_up_after", span(*give_up_after)),
    ]);
    lines
}

pub(super) fn moderator_lines(moderator: &Moderator) -> Lines {
    let Moderator { groups, address } = moderator;
    vec![("groups", quoted(groups.as_str())), ("address", quoted(address))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{KEYS, Kind};

    fn own<W: Word>() -> Vec<&'static str> {
        W::WORDS.iter().map(|(word, _)| *word).collect()
    }

    #[test]
    fn the_table_of_keys_offers_exactly_these_words() {
        for (name, words) in [
            ("posting_host", own::<Reveal>()),
            ("posting_account", own::<Reveal>()),
            ("honor", own::<Honor>()),
            ("form", own::<MailForm>()),
        ] {
            match KEYS.iter().find(|key| key.name == name).map(|key| key.kind) {
                Some(Kind::Choice(offered)) => assert_eq!(offered, words, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
