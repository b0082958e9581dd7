//! FUSE requests on a mount of a server's articles, answered from [`ArticleProvider`].
//!
//! An article's inode number is its sequence number, which is never reused. Every look-up of a name asks the
//! server, so that a name exists exactly as long as its article; the kernel caches only what never changes,
//! the content of an inode. An open file whose article was removed therefore returns its own bytes, as far as
//! the kernel or [`RecentTexts`] has them, or EIO, and never others. Only inodes that the kernel knows are in
//! memory, with their sizes, which are not known without reading the article; if they are more than
//! [`KNOWN_MAX`], the kernel is asked to forget the ones looked up first. No listing is in memory: an
//! article's position in one is its number.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, Request,
};
use lock_order::{Innermost, Ordered};

use super::articles::{ArticleLookup, ArticleProvider, DiskWait, ReadFailure, ShownArticle};
use super::group_tree::{GroupDirectory, GroupTree, NameTarget, SEQUENCES};
use crate::lower::rank;
use crate::workers::WorkerPool;

/// Offset from sequence numbers to inode numbers: 0 and 1 are no file's.
const FIRST_ARTICLE: u64 = 2;
/// Inode number in listings for an article whose own is not known without reading it.
const UNKNOWN_INODE: u64 = 0xffff_ffff;
/// First position in a listing that is an article's, by number.
const FIRST_NUMBER: u64 = 1 << 32;
/// Number of articles fetched for a piece of a listing, which has room for fewer.
const NUMBERS_AT_ONCE: usize = 512;
/// Time for which the kernel may assume that a directory exists.
const DIRECTORY_KEPT: Duration = Duration::from_secs(1);
/// Time for which the kernel may cache an article's attributes, which never change; its name is not cached.
const ATTRIBUTES_KEPT: Duration = Duration::from_secs(365 * 86_400);
/// Number of inodes that the kernel may know before it is asked to forget some.
const KNOWN_MAX: usize = 131_072;
/// Number of inodes that the kernel is asked to forget at once.
const FORGOTTEN_AT_ONCE: usize = 512;
/// Maximum number of articles kept after a look-up, since they are usually read next.
const RECENT_MAX: usize = 64;
/// Maximum size of these articles in bytes, in addition to the last one.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// FUSE server of a mount.
pub struct ArticleFiles<A: ArticleProvider> {
    shared: Arc<FilesShared<A>>,
    workers: WorkerPool,
    notifier: Arc<OnceLock<Notifier>>,
    /// True while the kernel is being asked to forget names.
    is_forgetting: Arc<AtomicBool>,
}

/// Guard that marks a running request to forget names, until dropped.
struct ForgetGuard(Arc<AtomicBool>);

impl Drop for ForgetGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

struct FilesShared<A: ArticleProvider> {
    articles: A,
    tree: GroupTree,
    known: Innermost<KnownInodes<A::Locator>>,
    recent: Innermost<RecentTexts>,
    listings: Innermost<HashMap<u64, Arc<Ordered<GroupListing, { rank::LISTING }>>>>,
    last_listing: AtomicU64,
    mounted: SystemTime,
    owner: (u32, u32),
}

/// Name of a group, and an article number in it.
type NumberedName = (Arc<str>, u64);

/// Articles that the kernel knows, by inode number, and by their names in groups.
struct KnownInodes<L> {
    articles: HashMap<u64, KnownInode<L>>,
    by_name: HashMap<NumberedName, u64>,
    /// Order in which the kernel is asked to forget them, each with the number of its turn; some have been
    /// forgotten already.
    turns: VecDeque<(u64, u64)>,
    last_turn: u64,
}

struct KnownInode<L> {
    locator: L,
    lookups: u64,
    facts: Arc<InodeFacts>,
    turn: u64,
    /// Directory and name under which it was found first.
    found: (u64, OsString),
}

/// Attributes of an article that never change, besides its content.
struct InodeFacts {
    bytes: u64,
    /// Time of arrival, in Unix seconds.
    arrived: u64,
    names: Vec<NumberedName>,
}

impl InodeFacts {
    fn of(bytes: usize, arrived: u64, names: Vec<NumberedName>) -> Self {
        Self { bytes: bytes as u64, arrived, names }
    }
}

impl<L> Default for KnownInodes<L> {
    fn default() -> Self {
        Self { articles: HashMap::new(), by_name: HashMap::new(), turns: VecDeque::new(), last_turn: 0 }
    }
}

impl<L: Clone> KnownInodes<L> {
    /// Counts a look-up.
    fn looked_up(&mut self, inode: u64, locator: L, facts: Arc<InodeFacts>, found: (u64, &OsStr)) {
        let known = self.articles.entry(inode).or_insert_with(|| {
            self.by_name.extend(facts.names.iter().map(|name| (name.clone(), inode)));
            self.last_turn += 1;
            self.turns.push_back((self.last_turn, inode));
            KnownInode {
                locator: locator.clone(),
                lookups: 0,
                facts,
                turn: self.last_turn,
                found: (found.0, found.1.to_owned()),
            }
        });
        known.locator = locator;
        known.lookups += 1;
    }

    /// Returns the articles to be forgotten next, if there are more than `max` and a margin: they come last
    /// in the new order.
    fn too_many(&mut self, max: usize) -> Vec<u64> {
        let articles = &self.articles;
        let is_due =
            |(turn, inode): &(u64, u64)| articles.get(inode).is_some_and(|known| known.turn == *turn);
        if self.turns.len() > 2 * articles.len().max(max) {
            self.turns.retain(is_due);
        }
        if articles.len() < max + FORGOTTEN_AT_ONCE {
            return Vec::new();
        }
        let mut due = Vec::new();
        while due.len() < FORGOTTEN_AT_ONCE
            && let Some(next) = self.turns.pop_front()
        {
            due.extend(Some(next).filter(is_due));
        }
        self.turns.extend(&due);
        due.into_iter().map(|(_, inode)| inode).collect()
    }

    /// Subtracts look-ups.
    fn forget(&mut self, inode: u64, lookups: u64) {
        let Some(known) = self.articles.get_mut(&inode) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0
            && let Some(known) = self.articles.remove(&inode)
        {
            for name in &known.facts.names {
                self.by_name.remove(name);
            }
        }
    }
}

/// Recently looked up articles, the latest last.
#[derive(Default)]
struct RecentTexts {
    articles: VecDeque<(u64, Arc<Vec<u8>>)>,
    bytes: usize,
}

/// A directory that is being listed, with its subdirectories as of the beginning. Its articles are requested
/// piece by piece.
struct GroupListing {
    directory: GroupDirectory,
    inner: Vec<(String, GroupDirectory)>,
}

/// Reason why a request was not answered: it would wait for the disk, or an error.
enum LookupFailure {
    WouldWait,
    With(Errno),
}

type LookupResult<T> = Result<T, LookupFailure>;

impl From<Errno> for LookupFailure {
    fn from(error: Errno) -> Self {
        Self::With(error)
    }
}

impl From<ReadFailure> for LookupFailure {
    fn from(error: ReadFailure) -> Self {
        match error {
            ReadFailure::WouldWait => Self::WouldWait,
            ReadFailure::Failed => Self::With(Errno::EIO),
        }
    }
}

impl RecentTexts {
    fn get(&self, inode: u64) -> Option<Arc<Vec<u8>>> {
        self.articles.iter().rev().find(|(of, _)| *of == inode).map(|(_, text)| text.clone())
    }

    fn put(&mut self, inode: u64, text: Arc<Vec<u8>>) {
        if self.get(inode).is_some() {
            return;
        }
        self.bytes += text.len();
        self.articles.push_back((inode, text));
        while self.articles.len() > RECENT_MAX || self.bytes > RECENT_BYTES_MAX && self.articles.len() > 1 {
            self.bytes -= self.articles.pop_front().map_or(0, |(_, text)| text.len());
        }
    }
}

impl<A: ArticleProvider> ArticleFiles<A> {
    /// Creates a server that shows these articles as files of this user and group.
    pub fn new(articles: A, owner: (u32, u32)) -> io::Result<Self> {
        let shared = FilesShared {
            articles,
            tree: GroupTree::default(),
            known: Innermost::default(),
            recent: Innermost::default(),
            listings: Innermost::default(),
            last_listing: AtomicU64::new(0),
            mounted: SystemTime::now(),
            owner,
        };
        let (notifier, is_forgetting) = (Arc::default(), Arc::default());
        Ok(Self { shared: Arc::new(shared), workers: WorkerPool::start()?, notifier, is_forgetting })
    }

    /// Returns the cell for the notifier of the kernel.
    pub fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        self.notifier.clone()
    }

    /// Asks the kernel to forget names of files that were looked up long ago, if there are too many.
    fn forget_oldest(&self) {
        if self.is_forgetting.load(Ordering::Acquire) {
            return;
        }
        let inodes = self.shared.known.lock().too_many(KNOWN_MAX);
        if inodes.is_empty() {
            return;
        }
        // Only the thread that reads the kernel's requests gets here.
        self.is_forgetting.store(true, Ordering::Release);
        let forgetting = ForgetGuard(self.is_forgetting.clone());
        let (shared, notifier) = (self.shared.clone(), self.notifier.clone());
        self.workers.notify(move || {
            let _until_done = forgetting;
            let Some(notifier) = notifier.get() else { return };
            for (directory, name) in inodes.into_iter().flat_map(|inode| shared.names_of(inode)) {
                // The kernel may have forgotten the name already.
                let _gone = notifier.inval_entry(INodeNo(directory), &name);
            }
        });
    }

    /// Answers at once if that needs no waiting for the disk, otherwise by a worker.
    fn answer<T, R: Send + 'static>(
        &self,
        reply: R,
        work: impl Fn(&FilesShared<A>, DiskWait) -> LookupResult<T> + Send + 'static,
        send: impl FnOnce(Result<T, Errno>, R) + Send + 'static,
    ) {
        self.shared.articles.give_way();
        match work(&self.shared, DiskWait::No) {
            Ok(done) => send(Ok(done), reply),
            Err(LookupFailure::With(error)) => send(Err(error), reply),
            Err(LookupFailure::WouldWait) => {
                let shared = self.shared.clone();
                self.workers.run(move || {
                    let done = work(&shared, DiskWait::Yes).map_err(|failed| match failed {
                        LookupFailure::With(error) => error,
                        LookupFailure::WouldWait => Errno::EIO,
                    });
                    send(done, reply);
                });
            }
        }
    }
}

impl<A: ArticleProvider> FilesShared<A> {
    fn attributes(&self, inode: u64, kind: FileType, time: SystemTime) -> FileAttr {
        FileAttr {
            ino: INodeNo(inode),
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: if kind == FileType::Directory { 0o555 } else { 0o444 },
            // The number of links of a directory is not counted.
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn directory_attributes(&self, directory: &GroupDirectory) -> FileAttr {
        let changed = match directory {
            GroupDirectory::Group(name) => self.articles.group_changed(name),
            GroupDirectory::Root | GroupDirectory::ById => None,
        };
        let time = changed.map_or(self.mounted, |at| UNIX_EPOCH + Duration::from_secs(at));
        self.attributes(self.tree.number(directory), FileType::Directory, time)
    }

    fn sequences_attributes(&self) -> FileAttr {
        self.attributes(SEQUENCES, FileType::RegularFile, self.mounted)
    }

    fn article_attributes(&self, inode: u64, facts: &InodeFacts) -> FileAttr {
        let time = UNIX_EPOCH + Duration::from_secs(facts.arrived);
        let is_there = |(group, number): &&NumberedName| self.articles.is_shown(group, *number);
        let names = facts.names.iter().filter(is_there).count();
        FileAttr {
            size: facts.bytes,
            blocks: facts.bytes.div_ceil(512),
            // An article that is in no group was found by its Message-ID.
            nlink: u32::try_from(names).unwrap_or(u32::MAX).max(1),
            ..self.attributes(inode, FileType::RegularFile, time)
        }
    }

    /// Returns the names by which the kernel may know an article, each with its directory.
    fn names_of(&self, inode: u64) -> Vec<(u64, OsString)> {
        let known =
            self.known.lock().articles.get(&inode).map(|known| (known.found.clone(), known.facts.clone()));
        let Some((found, facts)) = known else { return Vec::new() };
        let in_groups = facts.names.iter().map(|(group, number)| {
            (self.tree.number(&GroupDirectory::Group(group.clone())), OsString::from(number.to_string()))
        });
        in_groups.filter(|name| *name != found).chain([found.clone()]).collect()
    }

    /// Looks up a name of an article that the kernel knows; `None` if it must be read. The server is asked
    /// whether the name still exists; its article cannot have changed.
    fn look_up_known(&self, group: &Arc<str>, number: u64) -> Option<LookupResult<FileAttr>> {
        let (inode, facts) = {
            let known = self.known.lock();
            let inode = *known.by_name.get(&(group.clone(), number))?;
            (inode, known.articles.get(&inode)?.facts.clone())
        };
        if !self.articles.is_shown(group, number) {
            return Some(Err(Errno::ENOENT.into()));
        }
        let attributes = self.article_attributes(inode, &facts);
        // The kernel may have forgotten it meanwhile.
        self.known.lock().articles.get_mut(&inode)?.lookups += 1;
        Some(Ok(attributes))
    }

    /// Looks a name up; returns its attributes, and the time for which the name may be cached.
    fn look_up(&self, parent: u64, name: &OsStr, wait: DiskWait) -> LookupResult<(FileAttr, Duration)> {
        let directory = self.tree.directory(parent).ok_or(Errno::ENOTDIR)?;
        let place = match directory.named(name.as_bytes()).ok_or(Errno::ENOENT)? {
            NameTarget::Directory(directory) if directory.exists(&self.articles) => {
                return Ok((self.directory_attributes(&directory), DIRECTORY_KEPT));
            }
            NameTarget::Sequences(group) if self.articles.group_changed(&group).is_some() => {
                return Ok((self.sequences_attributes(), DIRECTORY_KEPT));
            }
            NameTarget::Directory(_) | NameTarget::Sequences(_) => return Err(Errno::ENOENT.into()),
            NameTarget::Number(group, number) => match self.look_up_known(&group, number) {
                Some(known) => return known.map(|attributes| (attributes, Duration::ZERO)),
                None => self.articles.article(ArticleLookup::Number(&group, number), wait)?,
            },
            NameTarget::MessageId(id) => self.articles.article(ArticleLookup::MessageId(&id), wait)?,
        };
        let article = place.ok_or(Errno::ENOENT)?;
        let inode = article.sequence + FIRST_ARTICLE;
        let facts = Arc::new(InodeFacts::of(article.text.len(), article.arrived, article.places));
        let attributes = self.article_attributes(inode, &facts);
        self.known.lock().looked_up(inode, article.locator, facts, (parent, name));
        self.recent.lock().put(inode, Arc::new(article.text));
        Ok((attributes, Duration::ZERO))
    }

    /// Returns an article that the kernel knows, if it still exists.
    fn again(&self, inode: u64, wait: DiskWait) -> LookupResult<Option<ShownArticle<A::Locator>>> {
        let locator = self.known.lock().articles.get(&inode).map(|known| known.locator.clone());
        let locator = locator.ok_or(Errno::ESTALE)?;
        let article = self.articles.article(ArticleLookup::Again(&locator), wait)?;
        Ok(article.filter(|article| article.sequence + FIRST_ARTICLE == inode))
    }

    fn stat(&self, inode: u64, wait: DiskWait) -> LookupResult<(FileAttr, Duration)> {
        match self.tree.directory(inode) {
            Some(directory) if directory.exists(&self.articles) => {
                Ok((self.directory_attributes(&directory), DIRECTORY_KEPT))
            }
            Some(_) => Err(Errno::ENOENT.into()),
            None if inode == SEQUENCES => Ok((self.sequences_attributes(), DIRECTORY_KEPT)),
            None => {
                let article = self.again(inode, wait)?.ok_or(Errno::ESTALE)?;
                let facts = InodeFacts::of(article.text.len(), article.arrived, article.places);
                Ok((self.article_attributes(inode, &facts), ATTRIBUTES_KEPT))
            }
        }
    }

    fn text(&self, inode: u64, wait: DiskWait) -> LookupResult<Arc<Vec<u8>>> {
        if inode == SEQUENCES {
            return Ok(Arc::default());
        }
        if let Some(text) = self.recent.lock().get(inode) {
            return Ok(text);
        }
        let article = self.again(inode, wait)?.ok_or(Errno::EIO)?;
        let text = Arc::new(article.text);
        self.recent.lock().put(inode, text.clone());
        Ok(text)
    }

    fn open_listing(&self, inode: u64) -> Result<FileHandle, Errno> {
        let directory = self.tree.directory(inode).ok_or(Errno::ENOTDIR)?;
        let handle = self.last_listing.fetch_add(1, Ordering::Relaxed);
        let listing = GroupListing { directory, inner: Vec::new() };
        self.listings.lock().insert(handle, Arc::new(Ordered::new(listing)));
        Ok(FileHandle(handle))
    }

    /// Passes entries from a position on to `add`, each with the position after it, until that reports that
    /// there is no more room.
    fn list(
        &self,
        handle: FileHandle,
        position: u64,
        mut add: impl FnMut(u64, u64, FileType, &str) -> bool,
    ) -> Result<(), Errno> {
        let listing = self.listings.lock().get(&handle.0).cloned().ok_or(Errno::EBADF)?;
        let mut listing = listing.lock();
        if position == 0 {
            listing.inner = listing.directory.directories(&self.articles);
        }
        let directory = &listing.directory;
        let dots = [(".", directory.clone()), ("..", directory.parent())];
        let inner = listing.inner.iter().map(|(name, directory)| (name.as_str(), directory.clone()));
        if position < FIRST_NUMBER {
            let from = usize::try_from(position).map_err(|_| Errno::EINVAL)?;
            for (at, (name, directory)) in dots.into_iter().chain(inner).enumerate().skip(from) {
                let number = self.tree.number(&directory);
                if add(number, at as u64 + 1, FileType::Directory, name) {
                    return Ok(());
                }
            }
        }
        let GroupDirectory::Group(group) = directory else { return Ok(()) };
        let mut numbers = Vec::new();
        let mut from = (position.max(FIRST_NUMBER) - FIRST_NUMBER).saturating_add(1);
        loop {
            numbers.clear();
            self.articles.numbers(group, from, NUMBERS_AT_ONCE, &mut numbers);
            let Some(last) = numbers.last() else { return Ok(()) };
            from = last.saturating_add(1);
            for number in &numbers {
                let next = FIRST_NUMBER.saturating_add(*number);
                if add(UNKNOWN_INODE, next, FileType::RegularFile, &number.to_string()) {
                    return Ok(());
                }
            }
        }
    }
}

impl<A: ArticleProvider> Filesystem for ArticleFiles<A> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_NO_OPEN_SUPPORT] {
            // Capabilities that the kernel lacks are replaced by its own ways.
            let _without = config.add_capabilities(capability);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.forget_oldest();
        let name = name.to_owned();
        self.answer(
            reply,
            move |shared, wait| shared.look_up(parent.0, &name, wait),
            |found, reply| match found {
                Ok((attributes, kept)) => {
                    let whole = if kept.is_zero() { ATTRIBUTES_KEPT } else { kept };
                    reply.entry_with_ttls(&whole, &kept, &attributes, Generation(0));
                }
                Err(error) => reply.error(error),
            },
        );
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.shared.known.lock().forget(inode.0, lookups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer(
            reply,
            move |shared, wait| shared.stat(inode.0, wait),
            |found, reply| match found {
                Ok((attributes, kept)) => reply.attr(&kept, &attributes),
                Err(error) => reply.error(error),
            },
        );
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Opening needs no action; the kernel does not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.answer(
            reply,
            move |shared, wait| shared.text(inode.0, wait),
            move |text, reply| match text {
                Ok(text) => {
                    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                    let to = from.saturating_add(size as usize).min(text.len());
                    reply.data(text.get(from..to).unwrap_or_default());
                }
                Err(error) => reply.error(error),
            },
        );
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.shared.open_listing(inode.0) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let add = |inode, next, kind, name: &str| reply.add(INodeNo(inode), next, kind, name);
        match self.shared.list(handle, offset, add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.shared.listings.lock().remove(&handle.0);
        reply.ok();
    }
}

#[cfg(test)]
#[path = "article_files_tests.rs"]
mod tests;
