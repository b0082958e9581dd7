//! The poster of an article and its rights.
//!
//! Created by the session for each post; read by the rest of `inject`.

use site_config::Access;
use std::net::IpAddr;

/// A client that posts.
#[derive(Debug, Clone, Copy)]
pub struct Poster<'a> {
    pub access: &'a Access,
    pub address: IpAddr,
    pub address_text: &'a str,
    /// The user it has logged in as.
    pub user: Option<&'a str>,
}

/// The poster's properties that may be recorded in the article.
#[derive(Debug, Clone, Copy)]
pub(super) struct Author<'a> {
    pub address_text: &'a str,
    /// The user it had logged in as.
    pub user: Option<&'a str>,
}

impl<'a> Poster<'a> {
    /// Returns the properties that the article may record.
    pub(super) fn author(&self) -> Author<'a> {
        Author { address_text: self.address_text, user: self.user }
    }
}

impl Poster<'_> {
    /// Returns true if control messages other than cancel are accepted: the poster may post to `control` and
    /// to the group of their kind, and approve there.
    pub fn may_control(&self, group: &[u8]) -> bool {
        let right = |group| self.access.post.matches(group) && self.access.approve.matches(group);
        right(b"control") && right(group)
    }
}
