//! `[[upstream]]`: servers whose groups are shown beside the local ones.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;
use super::{LinkTls, NamePattern, PassedCommand, PassedList};

section! {
    /// A news server whose groups readers here see as if they were this server's. Groups that are carried
    /// here are this server's own; any other group is that of the upstream whose `groups` match it with the
    /// longest pattern, and has the article numbers that it has there. A file with such sections and without
    /// [[buffer]], [[class]] and [[rule]] is that of a cache alone: what is filed here goes to one buffer of
    /// 16 MiB, and without [[access]] sections this machine may read and post.
    [[upstream]] Upstream, UpstreamDraft with link {
        /// A name for logs and newsreel status.
        name: String = Text, example "isp";
        /// Where to connect.
        host: String = HostPort, example "news.example.net:563";
        /// The groups that are read from this server. Where several upstreams have a group, the one decides
        /// whose longest pattern that matches is longest, and of equals the first.
        groups: NamePattern = Wildmat, default "*", example "comp.*,!comp.binaries.*";
        /// Whether this server only fills in: it numbers no group, and is asked by Message-ID for articles of
        /// `groups` that the server which numbers the group does not have.
        fill: bool = Switch, default false, example true;
        /// The order in which servers are asked for an article that the first one lacks: the smaller comes
        /// first, and of equals the one that answers sooner.
        priority: u32 = 0..=1_000, default 0, example 10;
        /// Whose server it is. What one server of an owner does not have is not asked for at the owner's
        /// other servers. By default each server has an owner of its own.
        owner: Option<String> = Maybe(Text), example "usenet wholesale";
        /// The most connections to it at once.
        connections: usize = 1..=100, default 4, example 10;
        /// How old the list of its groups may be that readers are shown. "0 s" asks for it each time.
        active_age: Duration = Span, default "10 min", example "1 h";
        /// How old the marks of a group may be that readers are shown. "0 s" asks each time that a group is
        /// selected, so that readers see what they would see there.
        group_age: Duration = Span, default "30 s", example "5 min";
        /// How long connecting may take, TLS included.
        connect_timeout: Duration = Timeout, default "10 s", example "30 s";
        /// How long an answer may take to begin, and how long nothing may come of one that has begun.
        answer_timeout: Duration = Timeout, default "30 s", example "1 min";
        /// The groups whose posts it takes; by default those that it numbers. Posts to a group that the
        /// server which numbers it does not take go to the one whose post names it with the longest pattern.
        post: Option<NamePattern> = Maybe(Wildmat), example "*,!comp.announce";
        /// The groups carried here whose posts it takes as well, as where a [[pull]] fetches them from it: a
        /// post is filed here and sent there, and one to a moderated group only sent there. Where several
        /// upstreams match, the longest pattern decides, and of equals the first. With groups = "" this
        /// server takes posts and is never read.
        post_carried: NamePattern = Wildmat, default "", example "*,!local.*";
        /// Commands that this server does not know, and that are passed on to it for who may read: the word,
        /// and the code of the answer after which lines follow up to a `.`, if there is one.
        pass_commands: Vec<PassedCommand> = ListOf(CommandToPass), default [], example ["XMOTD 217", "XVERSION"];
        /// Lists that are asked of it where this server has none of its own: DISTRIB.PATS, DISTRIBUTIONS,
        /// MODERATORS, MOTD, SUBSCRIPTIONS.
        pass_lists: Vec<PassedList> = ListOf(ListToPass), default [], example ["SUBSCRIPTIONS", "MOTD"];
        /// Whether it is not to be connected to: what is known of its groups is shown, nothing is asked, and
        /// posts wait.
        offline: bool = Switch, default false, example true;
    }
}

impl Upstream {
    /// Returns true if it only takes posts.
    pub fn is_unread(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the owner of the server.
    pub fn owner(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }
}
