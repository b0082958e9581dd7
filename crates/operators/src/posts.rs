//! `newsreel cache posts`: posts that wait for upstreams, or that upstreams refused.

use super::Sink;
use super::moderation::text_of;
use super::operation::{OperatedSite, Operation};
use super::reply::{PostRow, Reply};
use clap::Subcommand;
use netnews::{Article, Known};
use serde::{Deserialize, Serialize};
use std::io;
use upstreams::{QueuedPostStatus, UpstreamPosts};

/// Reason why nothing was done about a post.
#[derive(Debug, thiserror::Error)]
enum PostActionError {
    /// The queue cannot be written.
    #[error("{0}")]
    Queue(#[from] io::Error),
    /// The post is being sent at this moment.
    #[error("it is being sent; try again")]
    BeingSent,
}

/// Action on posts that wait for upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PostsCommand {
    /// List the posts that wait for an upstream, or that one has refused, the oldest first
    List {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Show a post
    Show {
        /// Its Message-ID, with its angle brackets
        message_id: String,
    },
    /// Send a post again now, also if it was refused
    Retry {
        /// Its Message-ID, with its angle brackets
        message_id: String,
        /// Only to this upstream
        #[arg(long, value_name = "NAME")]
        upstream: Option<String>,
    },
    /// Delete a post: it is not sent
    Drop {
        /// Its Message-ID, with its angle brackets
        message_id: String,
        /// Only for this upstream
        #[arg(long, value_name = "NAME")]
        upstream: Option<String>,
    },
}

/// Manage posts that wait for upstreams; typed as `cache posts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostsOperation {
    /// Action on a post.
    pub command: PostsCommand,
}

impl Operation for PostsOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        match site {
            OperatedSite::Running { server, .. } => {
                execute(server.upstreams.delivery().posts(), &self.command, sink)
            }
            OperatedSite::Stopped { spool, config } => {
                let posts = UpstreamPosts::open(spool.disk().clone(), &config.site.data);
                execute(&posts, &self.command, sink)
            }
        }
    }
}

/// Carries out a command; returns whether it succeeded.
fn execute(posts: &UpstreamPosts, command: &PostsCommand, sink: &mut Sink<'_>) -> bool {
    match command {
        PostsCommand::List { .. } => {
            posts.all().iter().for_each(|waiting| sink(Reply::Post(row(waiting))));
            true
        }
        PostsCommand::Show { message_id } => {
            each(posts, message_id, None, sink, |waiting| Ok(shown(waiting)))
        }
        PostsCommand::Retry { message_id, upstream } => {
            each(posts, message_id, upstream.as_deref(), sink, |waiting| {
                posts.retry(&waiting.post)?;
                Ok(format!("{} is sent to {} again", waiting.post.message_id, waiting.post.upstream))
            })
        }
        PostsCommand::Drop { message_id, upstream } => {
            each(posts, message_id, upstream.as_deref(), sink, |waiting| {
                match posts.drop_post(&waiting.post)? {
                    true => {
                        Ok(format!("{} is not sent to {}", waiting.post.message_id, waiting.post.upstream))
                    }
                    false => Err(PostActionError::BeingSent),
                }
            })
        }
    }
}

/// Carries out an action on each post of a Message-ID, or only on that for the named upstream.
fn each(
    posts: &UpstreamPosts,
    message_id: &str,
    upstream: Option<&str>,
    sink: &mut Sink<'_>,
    done: impl Fn(&QueuedPostStatus) -> Result<String, PostActionError>,
) -> bool {
    let waiting = posts.of(message_id, upstream);
    if waiting.is_empty() {
        sink(Reply::Error(format!("{message_id}: no post of this Message-ID waits for an upstream")));
        return false;
    }
    let mut ok = true;
    for waiting in &waiting {
        match done(waiting) {
            Ok(text) => sink(Reply::Text(text)),
            Err(error) => {
                ok = false;
                sink(Reply::Error(format!("{message_id}: {}: {error}", waiting.post.upstream)));
            }
        }
    }
    ok
}

fn shown(waiting: &QueuedPostStatus) -> String {
    let post = &waiting.post;
    let user = if post.user.is_empty() { String::new() } else { format!(", as {}", post.user) };
    let problem = if waiting.problem.is_empty() { String::new() } else { format!("\n{}", waiting.problem) };
    format!("for {}, from {}{user}{problem}\n\n{}", post.upstream, post.address, text_of(&post.wire))
}

fn row(waiting: &QueuedPostStatus) -> PostRow {
    let post = &waiting.post;
    let article = Article::parse(&post.wire);
    let header = |known| {
        let value = article.as_ref().ok().and_then(|article| article.header(known)).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    PostRow {
        message_id: post.message_id.clone(),
        upstream: post.upstream.clone(),
        queued: post.queued / 1_000_000_000,
        is_refused: !post.refused.is_empty(),
        tries: waiting.tries,
        problem: waiting.problem.clone(),
        address: post.address.clone(),
        user: post.user.clone(),
        from: header(Known::From),
        groups: header(Known::Newsgroups),
        subject: header(Known::Subject),
    }
}
