//! The keys of `[posting]`, `[cancel]`, `[moderation]` and `[[moderator]]`: what becomes of what readers post.

use super::{Absent, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key {
        section: "posting",
        name: "posting_host",
        kind: Kind::Choice(&["shown", "hashed", "hidden"]),
        absent: Absent::Value("\"shown\""),
        doc: "What an article tells of the address it was posted from, in Injection-Info and in Path: the address itself; a \
              hash of it, by which articles from one address can be told to belong together; or nothing.",
        example: "posting_host = \"hashed\"",
    },
    Key {
        section: "posting",
        name: "posting_account",
        kind: Kind::Choice(&["shown", "hashed", "hidden"]),
        absent: Absent::Value("\"hidden\""),
        doc: "The same for the user as whom the poster has logged in, in Injection-Info.",
        example: "posting_account = \"hashed\"",
    },
    Key {
        section: "posting",
        name: "logging_data",
        kind: Kind::Switch,
        absent: Absent::Value("true"),
        doc: "Whether Injection-Info has logging-data: a word that also stands in the log line of the post, so that a \
              complaint leads to the poster even if address and user are hidden.",
        example: "logging_data = false",
    },
    Key {
        section: "posting",
        name: "complaints_to",
        kind: Kind::Text,
        absent: Absent::Nothing,
        doc: "Where to complain about articles posted here: mail-complaints-to in Injection-Info.",
        example: "complaints_to = \"abuse@example.org\"",
    },
    Key {
        section: "posting",
        name: "groups_max",
        kind: Kind::Integer { min: 1, max: 250 },
        absent: Absent::Value("50"),
        doc: "The most newsgroups that a post may name.",
        example: "groups_max = 10",
    },
    Key {
        section: "posting",
        name: "followup_groups_max",
        kind: Kind::Integer { min: 1, max: 250 },
        absent: Absent::Value("50"),
        doc: "The most newsgroups that Followup-To of a post may name.",
        example: "followup_groups_max = 3",
    },
    Key {
        section: "posting",
        name: "line_bytes_max",
        kind: Kind::Integer { min: 78, max: 1_048_576 },
        absent: Absent::Value("998"),
        doc: "The longest line in the body of a post, in bytes. RFC 5536 section 2.2 asks for 998.",
        example: "line_bytes_max = 4096",
    },
    Key {
        section: "posting",
        name: "article_bytes_max",
        kind: Kind::Size,
        absent: Absent::Nothing,
        doc: "The longest post; without it that of the site, site.article_bytes_max, holds.",
        example: "article_bytes_max = \"64 KiB\"",
    },
    Key {
        section: "posting",
        name: "check_quoted",
        kind: Kind::Switch,
        absent: Absent::Value("false"),
        doc: "Whether a post of more than 40 lines, more than half of which are quoted (begin with \">\", \"|\" or \":\"), is \
              refused.",
        example: "check_quoted = true",
    },
    Key {
        section: "posting",
        name: "backoff_trigger",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("1000"),
        doc: "How many posts of one user (or, not logged in, one address; of IPv6 one /64 network) may follow each other \
              faster than backoff_fast. After that the poster must wait: backoff_first, and twice as long after each \
              further post, up to backoff_longest. Who posts too early is answered 441 with the seconds left.",
        example: "backoff_trigger = 20",
    },
    Key {
        section: "posting",
        name: "backoff_fast",
        kind: Kind::Span,
        absent: Absent::Value("\"1 s\""),
        doc: "Posts that follow each other within this time count for backoff_trigger.",
        example: "backoff_fast = \"10 s\"",
    },
    Key {
        section: "posting",
        name: "backoff_slow",
        kind: Kind::Span,
        absent: Absent::Value("\"1 min\""),
        doc: "Who has not posted for so long, after what had to be waited, begins to count anew.",
        example: "backoff_slow = \"5 min\"",
    },
    Key {
        section: "posting",
        name: "backoff_first",
        kind: Kind::Span,
        absent: Absent::Value("\"1 s\""),
        doc: "The first time to wait.",
        example: "backoff_first = \"5 s\"",
    },
    Key {
        section: "posting",
        name: "backoff_longest",
        kind: Kind::Span,
        absent: Absent::Value("\"10 min\""),
        doc: "The longest time to wait.",
        example: "backoff_longest = \"1 h\"",
    },
    Key {
        section: "cancel",
        name: "honor",
        kind: Kind::Choice(&["verified", "all", "none"]),
        absent: Absent::Value("\"verified\""),
        doc: "Which cancel messages and Supersedes headers withdraw an article: \"verified\", those whose Cancel-Key opens \
              the article's Cancel-Lock (RFC 8315); \"all\" of them, which lets anybody withdraw anything; \"none\". All are \
              filed and stored as articles in any case.",
        example: "honor = \"none\"",
    },
    Key {
        section: "cancel",
        name: "unlocked",
        kind: Kind::Switch,
        absent: Absent::Value("false"),
        doc: "With \"verified\": whether an article without Cancel-Lock may be withdrawn by anybody.",
        example: "unlocked = true",
    },
    Key {
        section: "cancel",
        name: "lock",
        kind: Kind::Switch,
        absent: Absent::Value("true"),
        doc: "Whether articles posted here get a Cancel-Lock: one that newsreel cancel-key opens and, if the poster has \
              logged in, one that the same user's cancels and Supersedes open by themselves.",
        example: "lock = false",
    },
    Key {
        section: "moderation",
        name: "smtp",
        kind: Kind::HostPort,
        absent: Absent::Nothing,
        doc: "The mail server that takes posts for moderators (SMTP without encryption or login, so best on this machine or \
              network). Without it the program in sendmail is run.",
        example: "smtp = \"127.0.0.1:25\"",
    },
    Key {
        section: "moderation",
        name: "sendmail",
        kind: Kind::Text,
        absent: Absent::Value("\"/usr/sbin/sendmail -oi -oem -- %s\""),
        doc: "The program that mails posts to moderators, and its arguments, between spaces; %s is the recipient. It gets \
              the mail on standard input.",
        example: "sendmail = \"/usr/bin/msmtp %s\"",
    },
    Key {
        section: "moderation",
        name: "sender",
        kind: Kind::Text,
        absent: Absent::Nothing,
        doc: "The sender of mails to moderators, to whom what cannot be delivered goes back; without it news@ and \
              site.path_identity.",
        example: "sender = \"newsmaster@example.org\"",
    },
    Key {
        section: "moderation",
        name: "form",
        kind: Kind::Choice(&["plain", "encapsulated"]),
        absent: Absent::Value("\"plain\""),
        doc: "How a post is mailed: \"plain\", as a mail with the post's headers, which moderators' software expects; \
              \"encapsulated\", whole in a mail of type application/news-transmission (RFC 5537 section 3.5.1).",
        example: "form = \"encapsulated\"",
    },
    Key {
        section: "moderation",
        name: "default_address",
        kind: Kind::ModeratorAddress,
        absent: Absent::Nothing,
        doc: "The moderator of groups that no [[moderator]] names; %s is the group's name with dashes for dots. Without \
              it, posts to such groups are refused: no post leaves this site for an address that nobody chose. INN has \
              \"%s@moderators.isc.org\" as installed, which forwards for the moderated groups of Usenet.",
        example: "default_address = \"%s@moderators.isc.org\"",
    },
    Key {
        section: "moderation",
        name: "queue_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("1000"),
        doc: "Posts that may wait to be mailed. When there are so many, posts to moderated groups are refused.",
        example: "queue_max = 100",
    },
    Key {
        section: "moderation",
        name: "retry_first",
        kind: Kind::Span,
        absent: Absent::Value("\"1 min\""),
        doc: "When a mail cannot be sent, it is tried again after so long, then after twice as long, and so on.",
        example: "retry_first = \"5 min\"",
    },
    Key {
        section: "moderation",
        name: "retry_longest",
        kind: Kind::Span,
        absent: Absent::Value("\"2 h\""),
        doc: "The longest time between two tries.",
        example: "retry_longest = \"30 min\"",
    },
    Key {
        section: "moderation",
        name: "give_up_after",
        kind: Kind::Span,
        absent: Absent::Value("\"5 days\""),
        doc: "A mail that could not be sent for so long, or that the mail server refuses for good, is put aside in \
              moderation/failed below site.data, and the log says so.",
        example: "give_up_after = \"2 days\"",
    },
    Key {
        section: "moderator",
        name: "groups",
        kind: Kind::Wildmat,
        absent: Absent::Refused,
        doc: "The groups.",
        example: "groups = \"local.*,!local.announce\"",
    },
    Key {
        section: "moderator",
        name: "address",
        kind: Kind::ModeratorAddress,
        absent: Absent::Refused,
        doc: "The mail address of their moderator; %s is the group's name with dashes for dots, %% a percent sign.",
        example: "address = \"%s@lists.example.org\"",
    },
];
