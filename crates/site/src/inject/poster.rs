//! Who posts, and with what rights.
//!
//! Made by the session for each post; read by the rest of `inject`.

use site_config::Access;
use std::net::IpAddr;

/// Who posts.
#[derive(Debug, Clone, Copy)]
pub struct Poster<'a> {
    pub access: &'a Access,
    pub address: IpAddr,
    pub address_text: &'a str,
    /// As whom the poster has logged in.
    pub user: Option<&'a str>,
}

/// What an article may tell of who posted it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Author<'a> {
    pub address_text: &'a str,
    /// As whom the poster had logged in.
    pub user: Option<&'a str>,
}

impl<'a> Poster<'a> {
    /// What the article may tell of them.
    pub(super) fn author(&self) -> Author<'a> {
        Author { address_text: self.address_text, user: self.user }
    }
}

impl Poster<'_> {
    /// Whether control messages other than cancel are taken: who may post to `control` and to the group of
    /// their kind, and approve there.
    pub fn may_control(&self, group: &[u8]) -> bool {
        let right = |group| self.access.post.matches(group) && self.access.approve.matches(group);
        right(b"control") && right(group)
    }
}
