//! The groups that a reader may see; all others do not exist for it.
//!
//! Called by all of `serve`. Source: the `read` key of `[[access]]`.

use super::window::NumberWindow;
use crate::moderation;
use netnews::article::xref_places;
use site_config::{Access, Config, Moderator, NamePattern, NumberWidth, WAIT_HERE};
use std::path::Path;
use std::sync::Arc;
use upstreams::{CountingBase, newsgroups_of};

/// A reader's right to see groups.
#[derive(Debug, Clone)]
pub struct ReaderView {
    config: Arc<Config>,
    /// Number of the `[[access]]` section; `None`: no groups are visible.
    access: Option<usize>,
    everything: bool,
    narrow: bool,
    /// Numbers of the sections that may apply after logging in, if the reader is to be asked to log in.
    login: Arc<[usize]>,
}

impl ReaderView {
    /// Creates the view that the `[[access]]` section with this number allows; `login` are the sections that
    /// may apply after logging in, if groups that they show are to be answered with a request to log in.
    pub fn new(config: Arc<Config>, access: Option<usize>, login: Arc<[usize]>) -> Self {
        let section = access.and_then(|i| config.access.get(i));
        let everything = section.is_some_and(|access| access.read.as_str() == "*");
        let narrow = section.is_some_and(|access| access.numbers == NumberWidth::Bits31);
        Self { config, access, everything, narrow, login }
    }

    /// Returns true if all groups are visible.
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// Returns true if the reader supports no article numbers above 2,147,483,647.
    pub fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Returns the function that computes the number above which articles of a group count for the reader.
    pub(super) fn base(&self) -> CountingBase {
        if self.narrow { NumberWindow::narrow_base } else { |_| 0 }
    }

    /// Returns the window of a group with this high mark.
    pub(super) fn window(&self, high: u64) -> NumberWindow {
        if self.narrow { NumberWindow::narrow(high) } else { NumberWindow::ALL }
    }

    /// Returns true if the reader may see `group`.
    pub fn shows(&self, group: &[u8]) -> bool {
        self.everything || self.groups().is_some_and(|groups| groups.matches(group))
    }

    /// Returns true if the reader has to log in to see `group`.
    pub fn shows_after_login(&self, group: &[u8]) -> bool {
        let sections = self.login.iter().filter_map(|number| self.config.access.get(*number));
        sections.into_iter().any(|access| access.read.matches(group))
    }

    /// Returns true if the reader may see an article with these header lines: one of the groups in its Xref.
    /// If that names none, as on a site without numbers and from servers that send no Xref (RFC 5536 section
    /// 3.2.14), one of those in its Newsgroups.
    pub fn shows_article(&self, head: &[u8]) -> bool {
        if self.everything {
            return true;
        }
        let mut places = xref_places(head).peekable();
        if places.peek().is_some() {
            return places.any(|(group, _)| self.shows(group));
        }
        newsgroups_of(head).any(|group| self.shows(group))
    }

    /// Returns the same view, or one of all articles if `everything`.
    pub fn widened(self, everything: bool) -> Self {
        Self { everything: self.everything || everything, ..self }
    }

    /// Returns the directory of the texts for LIST.
    pub fn lists_dir(&self) -> &Path {
        &self.config.site.lists
    }

    /// Returns the additional headers in overview rows.
    pub fn overview_headers(&self) -> &[String] {
        &self.config.site.overview_headers
    }

    /// Returns groups and the submission addresses of their moderators; the first match counts, the default
    /// comes last. For posts that wait here the address is the site's own.
    pub fn moderators(&self) -> impl Iterator<Item = (&str, String)> {
        let address = |moderator: &Moderator| match moderator.address.as_str() {
            WAIT_HERE => moderation::sender(&self.config).replace('%', "%%"),
            address => address.to_owned(),
        };
        let named = self.config.moderators.iter();
        let named = named.map(move |moderator| (moderator.groups.as_str(), address(moderator)));
        named.chain(self.config.moderation.default_address.clone().map(|address| ("*", address)))
    }

    /// Returns the flag of a group as the reader sees it: `n` means that posting is not allowed, so it
    /// becomes `y` if this reader may post all the same (RFC 3977 section 7.6.3).
    pub fn flag<'a>(&self, group: &[u8], flag: &'a [u8]) -> &'a [u8] {
        let section = self.access.and_then(|access| self.config.access.get(access));
        let may = |access: &Access| access.local.matches(group) && access.post.matches(group);
        if flag == b"n" && section.is_some_and(may) { b"y" } else { flag }
    }

    /// Returns true if the reader sees the real flags of all groups.
    pub fn has_plain_flags(&self) -> bool {
        let section = self.access.and_then(|access| self.config.access.get(access));
        section.is_none_or(|access| access.local.is_empty())
    }

    fn groups(&self) -> Option<&NamePattern> {
        self.config.access.get(self.access?).map(|access| &access.read)
    }
}
