//! `[[access]]`: values, draft, reading, writing, and which section is never reached.
//!
//! Called by `read`, `draft`, `write` and `checks`; the keys stand in `keys/auth.rs`. Which section decides for a client
//! is found by the `access` module.

use super::draft::At;
use super::read::{Entry, Reader};
use super::words::Word;
use super::write::{Lines, list, optional, quoted, size};
use super::{Cidr, Groups, LocalAddress, values};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// `[[access]]`: what clients that meet all conditions may do, and how much.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// Condition: where they connect from.
    pub from: Vec<Cidr>,
    /// Condition: where they have connected to; empty: anywhere.
    pub listener: Vec<LocalAddress>,
    /// Condition: the name of the user they are; `None`: any user or none.
    pub users: Option<Groups>,
    /// Condition: a group that the user is in; empty: no condition.
    pub user_groups: Vec<String>,
    /// Condition: whether the connection is under TLS.
    pub tls: Option<bool>,
    /// Groups they may read; all others do not exist for them.
    pub read: Groups,
    /// Groups they may post to (within `read`); empty wildmat: no posting.
    pub post: Groups,
    /// Moderated groups they may post to with an Approved header.
    pub approve: Groups,
    /// Groups they may post to although posting is closed there.
    pub local: Groups,
    /// Whether they may use NEWNEWS.
    pub newnews: bool,
    /// Whether clients that have not logged in are asked to where that would show them a group.
    pub login_for_hidden: bool,
    /// Which article numbers they can read.
    pub numbers: Numbers,
    /// Connections of one address at once.
    pub connections_per_address_max: Option<usize>,
    /// Connections of one user at once.
    pub connections_per_user_max: Option<usize>,
    /// Bytes per second to one user, or address.
    pub bytes_per_sec_max: Option<u64>,
    /// Articles per hour from one user, or address.
    pub posts_per_hour_max: Option<u64>,
}

/// Which article numbers clients can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// All.
    All,
    /// Up to 2,147,483,647: they hold them in 31 bits and a sign.
    Bits31,
}

impl Access {
    /// Whether only users who have logged in can meet the conditions.
    pub fn names_users(&self) -> bool {
        self.users.is_some() || !self.user_groups.is_empty()
    }

    /// Stands for the section's conditions: the same in every configuration that has a section with these.
    pub fn identity(&self) -> u64 {
        let Self { from, listener, users, user_groups, tls, .. } = self;
        let mut hasher = DefaultHasher::new();
        (from, listener, users.as_ref().map(Groups::as_str), user_groups, tls).hash(&mut hasher);
        hasher.finish()
    }
}

#[derive(Debug)]
pub(super) struct AccessDraft {
    pub(super) head: Range<usize>,
    pub(super) from: At<Vec<Cidr>>,
    pub(super) listener: At<Vec<LocalAddress>>,
    pub(super) users: At<Option<Groups>>,
    pub(super) user_groups: At<Vec<String>>,
    pub(super) tls: At<Option<bool>>,
    read: At<Groups>,
    post: At<Groups>,
    approve: At<Groups>,
    local: At<Groups>,
    newnews: At<bool>,
    login_for_hidden: At<bool>,
    numbers: At<Numbers>,
    connections_per_address_max: At<Option<u64>>,
    pub(super) connections_per_user_max: At<Option<u64>>,
    bytes_per_sec_max: At<Option<u64>>,
    posts_per_hour_max: At<Option<u64>>,
}

impl Reader {
    pub(super) fn access(&mut self, entry: &Entry<'_>) -> AccessDraft {
        AccessDraft {
            head: entry.head.clone(),
            from: self.get(entry, "from", values::networks),
            listener: self.get(entry, "listener", values::locals),
            users: self.opt(entry, "users", values::wildmat),
            user_groups: self.get(entry, "user_groups", values::names),
            tls: self.opt(entry, "tls", values::switch),
            read: self.get(entry, "read", values::wildmat),
            post: self.get(entry, "post", values::wildmat),
            approve: self.get(entry, "approve", values::wildmat),
            local: self.get(entry, "local", values::wildmat),
            newnews: self.get(entry, "newnews", values::switch),
            login_for_hidden: self.get(entry, "login_for_hidden", values::switch),
            numbers: self.get(entry, "numbers", values::choice),
            connections_per_address_max: self.opt(entry, "connections_per_address_max", values::integer),
            connections_per_user_max: self.opt(entry, "connections_per_user_max", values::integer),
            bytes_per_sec_max: self.opt(entry, "bytes_per_sec_max", values::size),
            posts_per_hour_max: self.opt(entry, "posts_per_hour_max", values::integer),
        }
    }
}

impl AccessDraft {
    /// Whether everyone who meets the conditions of `later` meets these too; faulty values cover nothing.
    pub(super) fn covers(&self, later: &Self) -> bool {
        let from = match (&self.from.value, &later.from.value) {
            (Some(own), Some(later)) => later.iter().all(|net| own.iter().any(|own| own.covers(net))),
            _ => false,
        };
        let listener = match (&self.listener.value, &later.listener.value) {
            (Some(own), _) if own.is_empty() => true,
            (Some(own), Some(later)) if !later.is_empty() => {
                later.iter().all(|at| own.iter().any(|own| own.covers(at)))
            }
            _ => false,
        };
        let users = match (&self.users.value, &later.users.value) {
            (Some(None), _) => true,
            (Some(Some(own)), Some(Some(later))) => own.as_str() == "*" || own == later,
            (Some(Some(own)), Some(None)) => {
                own.as_str() == "*"
                    && later.user_groups.value.as_ref().is_some_and(|groups| !groups.is_empty())
            }
            _ => false,
        };
        let groups = match (&self.user_groups.value, &later.user_groups.value) {
            (Some(own), _) if own.is_empty() => true,
            (Some(own), Some(later)) => !later.is_empty() && later.iter().all(|group| own.contains(group)),
            _ => false,
        };
        let tls = match (self.tls.value, later.tls.value) {
            (Some(None), _) => true,
            (Some(own), Some(later)) => own == later,
            _ => false,
        };
        from && listener && users && groups && tls
    }

    pub(super) fn finish(self) -> Option<Access> {
        let count = |value: Option<u64>| value.map(usize::try_from).transpose().ok();
        Some(Access {
            from: self.from.value?,
            listener: self.listener.value?,
            users: self.users.value?,
            user_groups: self.user_groups.value?,
            tls: self.tls.value?,
            read: self.read.value?,
            post: self.post.value?,
            approve: self.approve.value?,
            local: self.local.value?,
            newnews: self.newnews.value?,
            login_for_hidden: self.login_for_hidden.value?,
            numbers: self.numbers.value?,
            connections_per_address_max: count(self.connections_per_address_max.value?)?,
            connections_per_user_max: count(self.connections_per_user_max.value?)?,
            bytes_per_sec_max: self.bytes_per_sec_max.value?,
            posts_per_hour_max: self.posts_per_hour_max.value?,
        })
    }
}

pub(super) fn access_lines(access: &Access) -> Lines {
    let Access {
        from,
        listener,
        users,
        user_groups,
        tls,
        read,
        post,
        approve,
        local,
        newnews,
        login_for_hidden,
        numbers,
        connections_per_address_max,
        connections_per_user_max,
        bytes_per_sec_max,
        posts_per_hour_max,
    } = access;
    let mut lines = vec![
        ("from", list(from.iter().map(Cidr::to_string))),
        ("listener", list(listener.iter().map(LocalAddress::to_string))),
    ];
    optional(&mut lines, "users", users.as_ref().map(Groups::as_str), quoted);
    lines.push(("user_groups", list(user_groups)));
    optional(&mut lines, "tls", *tls, |tls| tls.to_string());
    lines.extend([
        ("read", quoted(read.as_str())),
        ("post", quoted(post.as_str())),
        ("approve", quoted(approve.as_str())),
        ("local", quoted(local.as_str())),
        ("newnews", newnews.to_string()),
        ("login_for_hidden", login_for_hidden.to_string()),
        ("numbers", quoted(numbers.word())),
    ]);
    optional(&mut lines, "connections_per_address_max", *connections_per_address_max, |n| n.to_string());
    optional(&mut lines, "connections_per_user_max", *connections_per_user_max, |n| n.to_string());
    optional(&mut lines, "bytes_per_sec_max", *bytes_per_sec_max, size);
    optional(&mut lines, "posts_per_hour_max", *posts_per_hour_max, |n| n.to_string());
    lines
}
