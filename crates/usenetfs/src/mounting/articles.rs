//! Interface of a mount to the server whose articles it shows.
//!
//! Every answer reflects the current state; nothing is cached here. Implemented by the server;
//! [`ArticleFiles`](super::article_files) shows the articles as files.

use std::sync::Arc;

/// Way to find an article.
#[derive(Debug)]
pub enum ArticleLookup<'a, L> {
    /// By group and number.
    Number(&'a str, u64),
    /// By Message-ID, with its angle brackets.
    MessageId(&'a [u8]),
    /// By the locator of an earlier look-up.
    Again(&'a L),
}

impl<L> Clone for ArticleLookup<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for ArticleLookup<'_, L> {}

/// Permission to wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskWait {
    /// Answer [`ReadFailure::WouldWait`] instead.
    No,
    /// Wait.
    Yes,
}

/// Reason why an article could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// The disk must be waited for.
    WouldWait,
    /// The article cannot be read.
    Failed,
}

/// An article for display.
#[derive(Debug, Clone)]
pub struct ShownArticle<L> {
    /// Unique number that is never reused; below 2^62.
    pub sequence: u64,
    /// Content of the file.
    pub text: Vec<u8>,
    /// Groups and numbers in which it was filed, including hidden ones.
    pub places: Vec<(Arc<str>, u64)>,
    /// Time of arrival, in Unix seconds.
    pub arrived: u64,
    /// Locator of the article.
    pub locator: L,
}

/// Groups and their articles, as far as a mount may show them.
pub trait ArticleProvider: Send + Sync + 'static {
    /// Identifies an article that was found before.
    type Locator: Clone + Send + Sync;

    /// Waits while the server has more urgent work. Called before each question about a file, by the one
    /// thread that reads the kernel's requests.
    fn give_way(&self) {}

    /// Returns the first group, in the byte order of their names, from this name on.
    fn group_from(&self, name: &str) -> Option<Arc<str>>;

    /// Returns the time at which a group last changed, in Unix seconds; `None` if there is no such group.
    fn group_changed(&self, group: &str) -> Option<u64>;

    /// Appends up to `max` article numbers of a group from this one on, ascending.
    fn numbers(&self, group: &str, from: u64, max: usize, into: &mut Vec<u64>);

    /// Returns whether a group has an article with this number, which is never reused. Does not wait.
    fn is_shown(&self, group: &str, number: u64) -> bool;

    /// Reads an article; `None` if it does not exist, or no longer.
    fn article(
        &self,
        place: ArticleLookup<'_, Self::Locator>,
        wait: DiskWait,
    ) -> Result<Option<ShownArticle<Self::Locator>>, ReadFailure>;
}
