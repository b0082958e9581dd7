//! What a mount of a server's articles asks of whoever has them.
//!
//! Every answer is that of the moment at which it is asked for; nothing is remembered here. Implemented by
//! the server; [`ArticleFiles`](super::article_files) shows it as files.

use std::sync::Arc;

/// How an article is found.
#[derive(Debug)]
pub enum Place<'a, L> {
    /// By group and number.
    Number(&'a str, u64),
    /// By Message-ID, with its angle brackets.
    MessageId(&'a [u8]),
    /// Where it was found before.
    Again(&'a L),
}

impl<L> Clone for Place<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Place<'_, L> {}

/// Whether to wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Answer [`NotRead::WouldWait`] instead.
    No,
    /// Wait.
    Yes,
}

/// Why nothing can be said of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRead {
    /// The disk must be waited for.
    WouldWait,
    /// It cannot be read.
    Failed,
}

/// An article as it is shown.
#[derive(Debug, Clone)]
pub struct ShownArticle<L> {
    /// The number that no other article ever has; below 2^62.
    pub sequence: u64,
    /// The file's content.
    pub text: Vec<u8>,
    /// Groups and numbers in which it was filed, also those that are not to be seen.
    pub places: Vec<(Arc<str>, u64)>,
    /// When it arrived, Unix seconds.
    pub arrived: u64,
    /// Where it is.
    pub locator: L,
}

/// Groups and their articles, as far as they are to be seen through a mount.
pub trait Articles: Send + Sync + 'static {
    /// Finds an article that was found before.
    type Locator: Clone + Send + Sync;

    /// Called before each question about a file, by the one thread that hears them: waits where whoever has
    /// the articles has more urgent work.
    fn give_way(&self) {}

    /// The first group, in the order of the bytes of their names, from this name on.
    fn group_from(&self, name: &str) -> Option<Arc<str>>;

    /// When a group last changed, Unix seconds; `None` if there is none of this name.
    fn group_changed(&self, group: &str) -> Option<u64>;

    /// Appends numbers of a group from this one on, ascending, at most `max`.
    fn numbers(&self, group: &str, from: u64, max: usize, into: &mut Vec<u64>);

    /// Whether a group has an article with this number; it is the same one for ever. Without waiting.
    fn is_shown(&self, group: &str, number: u64) -> bool;

    /// Reads an article; `None` if it is not there, or no longer.
    fn article(
        &self,
        place: Place<'_, Self::Locator>,
        wait: Wait,
    ) -> Result<Option<ShownArticle<Self::Locator>>, NotRead>;
}
