//! `[posting]`, `[cancel]`, `[moderation]` and `[[moderator]]`: handling of posts from readers.

use std::time::Duration;

use super::NamePattern;
use super::control::SectionFault;
use super::kinds::*;

section! {
    /// Requirements for articles posted here, what they reveal about their posters, and how fast one may
    /// post.
    [posting] Posting, PostingDraft {
        /// What an article reveals about the address it was posted from, in Injection-Info and Path: the
        /// address itself; a hash of it, which shows that articles come from the same address; or nothing.
        posting_host: PosterDisclosure = word(), default "shown", example "hashed";
        /// The same for the user name of a poster who has logged in, in Injection-Info.
        posting_account: PosterDisclosure = word(), default "hidden", example "hashed";
        /// Whether Injection-Info has logging-data: a word that also appears in the log line of the post, so
        /// that a complaint can be traced to the poster even if address and user are hidden.
        logging_data: bool = Switch, default true, example false;
        /// Where to complain about articles posted here: mail-complaints-to in Injection-Info.
        complaints_to: Option<String> = Maybe(Text), example "abuse@example.org";
        /// The most newsgroups that a post may name.
        groups_max: usize = 1..=250, default 50, example 10;
        /// The most newsgroups that Followup-To of a post may name.
        followup_groups_max: usize = 1..=250, default 50, example 3;
        /// The longest line in the body of a post, in bytes. RFC 5536 section 2.2 asks for 998.
        line_bytes_max: usize = 78..=1_048_576, default 998, example 4096;
        /// The longest post; by default site.article_bytes_max.
        article_bytes_max: Option<u64> = Maybe(Size::ANY), example "64 KiB";
        /// Whether to refuse a post of more than 40 lines of which more than half are quoted (begin with ">",
        /// "|" or ":").
        check_quoted: bool = Switch, default false, example true;
        /// How many posts of one user (or, without a login, one address; IPv6: one /64 network) may
        /// follow each other faster than backoff_fast. After that the poster must wait: backoff_first, and
        /// twice as long after each further post, up to backoff_longest. A post sent too early is refused
        /// with 441 and the remaining wait in seconds.
        backoff_trigger: u32 = 1..=1_000_000, default 1000, example 20;
        /// Posts that follow each other within this time count for backoff_trigger.
        backoff_fast: Duration = Span, default "1 s", example "10 s";
        /// After a pause of this long, beyond any required wait, counting starts again.
        backoff_slow: Duration = Span, default "1 min", example "5 min";
        /// The first wait.
        backoff_first: Duration = Span, default "1 s", example "5 s";
        /// The longest wait.
        backoff_longest: Duration = Span, default "10 min", example "1 h";
        /// The most posts that may wait for an [[upstream]] that is away, those included that one has refused
        /// and newsreel cache posts lists; further ones are refused.
        upstream_queue_max: usize = 1..=1_000_000, default 1000, example 100;
    }
}

section! {
    /// Which cancel messages and Supersedes headers withdraw articles (RFC 5537 sections 5.3 and 5.4) where
    /// no [[control]] section decides, and the locks of articles posted here (RFC 8315).
    [cancel] Cancel, CancelDraft {
        /// Which cancel messages and Supersedes headers withdraw an article: "verified": those whose
        /// Cancel-Key opens the article's Cancel-Lock (RFC 8315); "all", which lets anybody withdraw
        /// anything; "none". All of them are filed and stored as articles in any case.
        honor: WithdrawalPolicy = word(), default "verified", example "none";
        /// With "verified": whether anybody may withdraw an article without Cancel-Lock.
        unlocked: bool = Switch, default false, example true;
        /// Whether articles posted here get a Cancel-Lock: one that newsreel cancel-key opens and, if the
        /// poster has logged in, one that cancels and Supersedes by the same user open automatically.
        lock: bool = Switch, default true, example false;
    }
}

section! {
    /// How posts to moderated groups reach their moderators: by mail, from a queue on disk.
    [moderation] Moderation, ModerationDraft {
        /// The mail server for posts to moderators (SMTP without encryption or login, so it should be on this
        /// machine or network). Without it the program in sendmail is run.
        smtp: Option<String> = Maybe(HostPort), example "127.0.0.1:25", of machine;
        /// The program that mails posts to moderators, and its arguments, separated by spaces; %s is the
        /// recipient. It reads the mail from standard input.
        sendmail: String = Text, default "/usr/sbin/sendmail -oi -oem -- %s", example "/usr/bin/msmtp %s",
            of machine;
        /// The sender of mails to moderators, to whom undeliverable mail returns; by default news@ and
        /// site.path_identity.
        sender: Option<String> = Maybe(Text), example "newsmaster@example.org";
        /// How a post is mailed: "plain": as a mail with the post's headers, which moderators' software
        /// expects; "encapsulated": whole, in a mail of type application/news-transmission (RFC 5537 section
        /// 3.5.1).
        form: MailForm = word(), default "plain", example "encapsulated";
        /// The moderator of groups that no [[moderator]] section names; %s is the group's name with dashes
        /// for dots. Without it, posts to such groups are refused: no post leaves this site for an address
        /// that no operator chose. INN's default is "%s@moderators.isc.org", which forwards to the moderators
        /// of Usenet groups.
        default_address: Option<String> = Maybe(MailTemplate), example "%s@moderators.isc.org";
        /// Posts that may wait to be mailed. Beyond that, posts to moderated groups are refused.
        queue_max: usize = 1..=1_000_000, default 1000, example 100;
        /// A mail that cannot be sent is retried after this time, then after twice as long, and so on, give
        /// or take a quarter.
        retry_first: Duration = Span, default "1 min", example "5 min";
        /// The longest time between two attempts.
        retry_longest: Duration = Span, default "2 h", example "30 min";
        /// A mail that could not be sent for this long, or that the mail server rejects permanently, is
        /// moved to moderation/failed below site.data, and the log says so. One with a link to an account
        /// is removed instead, and after a day at the latest, when the link does not work any more.
        give_up_after: Duration = Span, default "5 days", example "2 days";
    }
}

section! {
    /// The moderator of some groups; the first section that names the group decides. newsreel import
    /// inn-config converts INN's moderators file to these sections.
    [[moderator]] Moderator, ModeratorDraft {
        /// The groups.
        groups: NamePattern = Wildmat, example "local.*,!local.announce";
        /// The mail address of their moderator; %s is the group's name with dashes for dots, %% a percent
        /// sign. "queue": posts wait here until a moderator approves or rejects them with newsreel
        /// moderation; at most moderation.queue_max.
        address: String = SubmissionAddress, example "%s@lists.example.org";
        /// With address = "queue": the program that signs what is approved, by its absolute path, and its
        /// arguments. It reads what is to be signed and writes a detached OpenPGP signature, armored, which
        /// becomes the header X-PGP-Sig. Without it articles are not signed.
        sign: Option<Vec<String>> = Maybe(Program),
            example ["/usr/bin/gpg", "--homedir", "/etc/newsreel/gpg", "--batch", "--armor", "--detach-sign"];
    }
}

impl ModeratorDraft {
    pub(super) fn wrong(&self) -> Option<SectionFault<'_>> {
        if !matches!(self.sign.value, Some(Some(_))) || self.address.value.as_deref() == Some(WAIT_HERE) {
            return None;
        }
        let message = "nothing is approved here for a moderator who is mailed".into();
        let advice = "write address = \"queue\", or leave out sign";
        Some(SectionFault { at: &self.sign.span, label: "signs nothing", message, advice })
    }
}

words! {
    /// The form in which an article reveals its poster.
    pub enum PosterDisclosure {
        /// The name or address itself.
        Shown = "shown",
        /// A hash.
        Hashed = "hashed",
        /// Nothing.
        Hidden = "hidden",
    }
}

words! {
    /// The withdrawals that are obeyed.
    pub enum WithdrawalPolicy {
        /// Withdrawals with a key that opens the article's lock.
        Verified = "verified",
        /// All.
        All = "all",
        /// None.
        None = "none",
    }
}

words! {
    /// Form of mails to moderators (RFC 5537 section 3.5.1).
    pub enum MailForm {
        /// The post converted to a mail.
        Plain = "plain",
        /// The post inside a mail.
        Encapsulated = "encapsulated",
    }
}
