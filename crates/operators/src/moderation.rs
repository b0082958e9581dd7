//! `newsreel moderation`: posts that wait for a moderator.

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::{HeldRow, Reply};
use clap::{Args, Subcommand};
use netnews::nntp::wire;
use netnews::{Article, Known, MalformedArticle};
use serde::{Deserialize, Serialize};
use site::inject::PostRefusal;
use site::moderation::{HeldPost, MailKind, ModerationQueue, OwnMail, SubmitError};
use site_base::clock::unix_now;
use site_config::LiveConfig;
use std::{fmt, io};
use tokio::runtime::Handle;

/// Files a post as approved by an address; returns false if it was filed before, or the reason for a refusal.
type Approve<'a> = dyn Fn(&HeldPost, &str) -> Result<bool, PostRefusal> + 'a;

/// Reason why a post stays held.
enum ModerationError {
    /// No post has this Message-ID.
    NotHere,
    /// Another command decides about the post.
    Claimed,
    /// The name is not a mail address, which Approved needs.
    NoAddress(String),
    /// No server runs that could file the post.
    NoServer,
    NotFiled(PostRefusal),
    Malformed(MalformedArticle),
    NotMailed(SubmitError),
    /// The post was handled, but cannot be removed.
    Stays(io::Error),
}

impl fmt::Display for ModerationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere => f.write_str("no post of this Message-ID waits here"),
            Self::Claimed => f.write_str("another command is deciding about it"),
            Self::NoAddress(by) => write!(f, "`{by}` is not a mail address: name one with --by"),
            Self::NoServer => f.write_str("only a running server files posts: start it"),
            Self::NotFiled(refusal) => write!(f, "it is not filed, and waits on: {refusal}"),
            Self::Malformed(error) => write!(f, "it is damaged: {error}"),
            Self::NotMailed(SubmitError::Full) => f.write_str("too many mails wait already; it waits on"),
            Self::NotMailed(_) => f.write_str("the mail to its poster cannot be queued; it waits on"),
            Self::Stays(error) => write!(f, "it is done, but cannot be removed: {error}"),
        }
    }
}

/// Action on posts that wait for a moderator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModerationCommand {
    /// List the posts that wait, the oldest first
    List {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Show a post that waits
    Show {
        /// Its Message-ID, with its angle brackets
        message_id: String,
    },
    /// Approve posts: they get an Approved header and are filed; needs a running server
    Approve {
        /// Message-IDs, with their angle brackets
        #[arg(required = true, value_name = "MESSAGE-ID")]
        message_ids: Vec<String>,
        /// The mail address in Approved; by default moderation.sender
        #[arg(long, value_name = "ADDRESS")]
        by: Option<String>,
    },
    /// Reject a post: it is deleted, and its poster is mailed why, if there is an address
    Reject {
        /// Its Message-ID, with its angle brackets
        message_id: String,
        /// Why, for the poster
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

/// List, show, approve or reject posts that wait here for a moderator
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "List, show, approve or reject posts to the moderated groups whose [[moderator]] has address = \
    \"queue\"."
)]
#[command(after_long_help = "Examples:\n  newsreel moderation list\n  \
    newsreel moderation approve '<1993Apr5.012345@example.org>'\n  \
    newsreel moderation reject --reason \"Please post to misc.forsale\" '<1993Apr5.012345@example.org>'")]
pub struct ModerationOperation {
    #[command(subcommand)]
    /// Action on a post.
    pub command: ModerationCommand,
}

impl Operation for ModerationOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let OperatedSite::Running { server, .. } = site else {
            let queue = ModerationQueue::open(&LiveConfig::new(site.config()), site.spool().disk());
            return match queue {
                Ok(queue) => execute(&queue, None, &self.command, sink),
                Err(error) => {
                    sink(Reply::Error(error.to_string()));
                    false
                }
            };
        };
        let injector = &server.context.injector;
        let approve = |post: &_, by: &_| Handle::current().block_on(injector.approve(&server.site, post, by));
        execute(injector.moderation(), Some(&approve), &self.command, sink)
    }
}

/// Carries out a command; without `approve` nothing can be filed.
fn execute(
    moderation: &ModerationQueue,
    approve: Option<&Approve<'_>>,
    command: &ModerationCommand,
    sink: &mut Sink<'_>,
) -> bool {
    match command {
        ModerationCommand::List { .. } => {
            moderation.held().all().iter().for_each(|post| sink(Reply::Held(row(post))));
            true
        }
        ModerationCommand::Show { message_id } => each(&[message_id], sink, |id| shown(moderation, id)),
        ModerationCommand::Approve { message_ids, by } => {
            let by = by.clone().unwrap_or_else(|| moderation.sender());
            let ids: Vec<&String> = message_ids.iter().collect();
            each(&ids, sink, |id| approved(moderation, approve, id, &by).map(|text| format!("{id} {text}")))
        }
        ModerationCommand::Reject { message_id, reason } => each(&[message_id], sink, |id| {
            rejected(moderation, id, reason).map(|text| format!("{id} {text}"))
        }),
    }
}

fn each(
    ids: &[&String],
    sink: &mut Sink<'_>,
    mut done: impl FnMut(&str) -> Result<String, ModerationError>,
) -> bool {
    let mut ok = true;
    for id in ids {
        match done(id) {
            Ok(text) => sink(Reply::Text(text)),
            Err(error) => {
                ok = false;
                sink(Reply::Error(format!("{id}: {error}")));
            }
        }
    }
    ok
}

fn post(moderation: &ModerationQueue, id: &str) -> Result<HeldPost, ModerationError> {
    moderation.held().get(id).ok_or(ModerationError::NotHere)
}

fn shown(moderation: &ModerationQueue, id: &str) -> Result<String, ModerationError> {
    let post = post(moderation, id)?;
    let user = if post.user.is_empty() { String::new() } else { format!(", as {}", post.user) };
    Ok(format!("for {}, from {}{user}\n\n{}", post.group, post.address, text_of(&post.wire)))
}

fn approved(
    moderation: &ModerationQueue,
    approve: Option<&Approve<'_>>,
    id: &str,
    by: &str,
) -> Result<String, ModerationError> {
    if !netnews::injection::is_address(by.as_bytes()) {
        return Err(ModerationError::NoAddress(by.to_owned()));
    }
    let _claim = moderation.held().claim(id).ok_or(ModerationError::Claimed)?;
    let post = post(moderation, id)?;
    let Some(approve) = approve else { return Err(ModerationError::NoServer) };
    let text = match approve(&post, by) {
        Ok(true) => format!("is filed, approved by {by}"),
        Ok(false) => "was filed before".to_owned(),
        Err(refusal) => return Err(ModerationError::NotFiled(refusal)),
    };
    removed(moderation, id)?;
    Ok(text)
}

fn rejected(moderation: &ModerationQueue, id: &str, reason: &str) -> Result<String, ModerationError> {
    let _claim = moderation.held().claim(id).ok_or(ModerationError::Claimed)?;
    let post = post(moderation, id)?;
    let article = Article::parse(&post.wire).map_err(ModerationError::Malformed)?;
    let values = [Known::ReplyTo, Known::From].map(|known| article.header(known));
    let address = values.into_iter().flatten().find_map(address_in);
    if let Some(to) = &address {
        let subject = format!("Your post to {} was not approved", post.group);
        let text = format!(
            "Your post {id}\nto the moderated group {} was not approved.\n\n{reason}\n\nThis was your post:\n\n{}",
            post.group,
            text_of(&post.wire)
        );
        let (subject, text, about) = (subject.as_str(), text.as_bytes(), Some(id));
        let own = OwnMail { kind: MailKind::Notice, to, subject, text, about };
        moderation.notify(&own, unix_now()).map_err(ModerationError::NotMailed)?;
    }
    removed(moderation, id)?;
    Ok(match address {
        Some(to) => format!("is rejected; {to} is mailed why"),
        None => "is rejected; its poster gave no mail address, and is not told".to_owned(),
    })
}

fn removed(moderation: &ModerationQueue, id: &str) -> Result<(), ModerationError> {
    moderation.held().remove(id).map_err(ModerationError::Stays)
}

/// Converts a post from wire format to text.
pub(super) fn text_of(post: &[u8]) -> String {
    let mut text = Vec::new();
    wire::to_text(post, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the first address in a list of mailboxes that can receive mail.
fn address_in(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?;
    let ends = |c: char| c.is_ascii_whitespace() || "<>,;()\"".contains(c);
    let words = value.split(ends).filter(|word| word.contains('@'));
    let can_be_mailed = |word: &&str| {
        let domain = word.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        let is_real = domain != "invalid" && !domain.ends_with(".invalid");
        is_real && netnews::injection::is_address(word.as_bytes()) && !word.starts_with('-')
    };
    words.into_iter().find(can_be_mailed).map(str::to_owned)
}

fn row(post: &HeldPost) -> HeldRow {
    let article = Article::parse(&post.wire);
    let header = |known| {
        let value = article.as_ref().ok().and_then(|article| article.header(known)).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    HeldRow {
        message_id: post.message_id.clone(),
        group: post.group.clone(),
        queued: u64::try_from(post.queued).unwrap_or_default(),
        address: post.address.clone(),
        user: post.user.clone(),
        from: header(Known::From),
        subject: header(Known::Subject),
    }
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn mail_goes_to_the_first_valid_address() {
        for (value, address) in [
            ("a@x.example", Some("a@x.example")),
            ("Fred \"me\" <a@x.example>, b@x.example", Some("a@x.example")),
            ("a@x.example (Fred @ home)", Some("a@x.example")),
            ("nobody@x.invalid, b@x.example", Some("b@x.example")),
            ("-oQ@x.example", None),
            ("nobody@invalid", None),
            ("Fred", None),
        ] {
            assert_eq!(address_in(value.as_bytes()).as_deref(), address, "{value}");
        }
    }
}
