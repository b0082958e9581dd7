//! Who posts, and with what rights.
//!
//! Made by the session for each post; read by the rest of `inject`.

use crate::config::Access;
use std::net::IpAddr;

/// Who posts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Poster<'a> {
    pub access: &'a Access,
    pub address: IpAddr,
    pub address_text: &'a str,
    /// As whom the poster has logged in.
    pub user: Option<&'a str>,
}

impl Poster<'_> {
    /// Whether an Approved header of this poster counts in `group`.
    pub fn may_approve(&self, group: &[u8]) -> bool {
        self.access.approve.matches(group)
    }

    /// Whether it counts anywhere.
    pub fn may_approve_anything(&self) -> bool {
        !self.access.approve.is_empty()
    }

    /// Whether control messages other than cancel are taken: who may post to `control` and to the group of their kind, and
    /// approve there.
    pub fn may_control(&self, group: &[u8]) -> bool {
        let right = |group| self.access.post.matches(group) && self.access.approve.matches(group);
        right(b"control") && right(group)
    }

    /// Whether this poster may post where posting is closed.
    pub fn may_post_closed(&self, group: &[u8]) -> bool {
        self.access.local.matches(group)
    }
}
