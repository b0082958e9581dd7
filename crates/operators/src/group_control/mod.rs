//! Carries out newgroup, rmgroup and checkgroups messages, and NoCeM notices, while the server runs.
//!
//! Messages are read from the journal with a durable cursor, apart from filing: those not carried out before
//! a crash are carried out after it. So that a flood of them costs the feeds next to nothing, groups are
//! changed many at a time (`changes`), and the work, including the time in which it holds the spool's writer,
//! is limited to a small share of the time while a feed comes in ([`crate::load`]); only rows of the journal
//! that may be control messages are read. In a cluster one member carries out those of all. Sources: RFC 5537
//! section 5.2, INN's `controlchan`.

mod changes;
mod done;
mod message;
mod not;
mod notice;
mod notices_done;

pub(super) use notices_done::is_whole as is_notice_whole;

use crate::load::{FeedRate, TimeShare, WorkPace};
use crate::trailing::{SharedJournalWork, WorkTurn, job_time};
use changes::PendingChanges;
use disk::ReadMode;
use done::ControlHistory;
use ingest::control::{Keyring, SignatureProof};
use ingest::is_from_journal;
use message::{ControlContext, GroupControlMessage};
use netnews::{Article, Known};
use notice::NoticeContext;
use notices_done::NoticesDone;
use rustix::time::{ClockId, clock_gettime};
use site::Site;
use site::moderation::ModerationQueue;
use site_base::clock::unix_now;
use site_config::Config;
use site_log::SiteLog;
use spool::{ArticleBuf, ArticleRow, Cursor, JournalBatch, JournalEvent, JournalMark, TailStart};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{error, warn};

/// Name of the cursor.
const CURSOR: &str = "control";
/// Interval at which the cursor is moved over rows without control messages.
const SKIP_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of checks whether a feed comes in, while there is work to do.
const FEED_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which a member of a cluster looks for messages that others have filed, and whether it carries
/// them out.
const SHARED_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a disk error.
const ERROR_PAUSE: Duration = Duration::from_secs(10);

/// Carries out control messages.
pub struct ControlMessages {
    site: Arc<Site>,
    mail: Arc<ModerationQueue>,
    reader: ControlReader,
}

/// Takes the file in which earlier versions kept which messages were carried out into the log, as
/// [`ControlMessages::open`] does.
pub(super) fn take_over_old_file(config: &Config, log: &Arc<SiteLog>) -> io::Result<()> {
    ControlHistory::open(log.clone(), &config.site.data).map(drop)
}

impl ControlMessages {
    /// Opens the cursor on messages from now on, and on those not carried out before. Blocks.
    pub fn open(site: &Arc<Site>, mail: &Arc<ModerationQueue>) -> io::Result<Self> {
        Ok(Self { reader: ControlReader::open(site)?, site: site.clone(), mail: mail.clone() })
    }

    /// Carries out messages until the server stops.
    pub async fn carry_out(mut self) {
        let stopping = self.site.stopping();
        let work = async {
            loop {
                let Err(error) = self.reader.follow(&self.site, &self.mail).await else { continue };
                error!(%error, "control messages are not carried out now");
                sleep(ERROR_PAUSE).await;
                // Continue at the last position that is done.
                if let Err(error) = block_in_place(|| self.reader.rewind()) {
                    error!(%error, "cannot go back to the control messages that were not carried out");
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stopping => {}
        }
    }
}

struct ControlReader {
    cursor: Cursor,
    /// Position up to which everything is done.
    mark: JournalMark,
    done: ControlHistory,
    /// Changes that were read but not made.
    changes: PendingChanges,
    notices_done: NoticesDone,
    keyring: Keyring,
    pace: WorkPace,
    feed: FeedRate,
    work: SharedJournalWork,
    /// Number of control messages filed since the start that have been read.
    read: u64,
    buf: ArticleBuf,
}

impl ControlReader {
    fn open(site: &Site) -> io::Result<Self> {
        let cursor = site.spool.journal().cursor(CURSOR, TailStart::Now)?;
        let done = ControlHistory::open(site.filer.log().clone(), &site.config.load().site.data)?;
        let notices_done = NoticesDone::open(site.spool.disk().clone(), &site.config.load().site.data)?;
        let keyring = Keyring::of(site.spool.disk().clone(), &site.config.load().site.data);
        let (now, mark) = (Instant::now(), cursor.mark());
        let feed = FeedRate::of_journal(FEED_INTERVAL, site.spool.ticket().position(), now);
        let (pace, changes, buf) = (WorkPace::new(now), PendingChanges::default(), ArticleBuf::default());
        let work = SharedJournalWork::of(CURSOR.into());
        Ok(Self { mark, cursor, done, changes, notices_done, keyring, pace, feed, work, read: 0, buf })
    }

    /// Follows the journal; returns only on an error.
    async fn follow(&mut self, site: &Site, mail: &ModerationQueue) -> io::Result<()> {
        let mut fresh = true;
        while site.spool.shared_log().is_some() {
            self.take_turn(site, mail).await?;
            sleep(SHARED_INTERVAL).await;
        }
        loop {
            if fresh {
                self.catch_up(site, mail).await?;
            } else {
                block_in_place(|| self.skip(site))?;
            }
            fresh = tokio::select! {
                () = site.filer.controls.fresh.notified() => true,
                () = sleep(SKIP_INTERVAL) => false,
            };
        }
    }

    /// As a member of a cluster, carries out what all members have filed, or moves to where another member
    /// has come that does so.
    async fn take_turn(&mut self, site: &Site, mail: &ModerationQueue) -> io::Result<()> {
        match block_in_place(|| self.work.turn(&site.spool))? {
            WorkTurn::Work => {
                let begun = job_time(&site.spool);
                self.catch_up(site, mail).await?;
                self.work.settle(begun);
            }
            WorkTurn::Wait(Some(done)) if done.position > self.mark.position => {
                self.cursor.seek(done);
                self.mark = done;
                block_in_place(|| self.cursor.save_at(done))?;
            }
            WorkTurn::Wait(_) => {}
        }
        Ok(())
    }

    /// Returns to the first message that is not done.
    fn rewind(&mut self) -> io::Result<()> {
        self.changes.clear();
        self.cursor.seek(self.mark);
        self.cursor.save_at(self.mark)
    }

    /// Moves over rows without control messages, without reading them.
    fn skip(&mut self, site: &Site) -> io::Result<()> {
        let end = site.spool.journal().mark(TailStart::Now)?;
        if site.filer.controls.begun() == self.read && self.mark.position < end.position {
            self.cursor.seek(end);
            self.cursor.save_at(end)?;
            self.mark = end;
        }
        Ok(())
    }

    /// Returns the share of the time that the work may take now.
    fn share(&mut self, site: &Site) -> TimeShare {
        match self.feed.is_busy(site.spool.ticket().position(), Instant::now()) {
            true => TimeShare::BESIDE_A_FEED,
            false => TimeShare::ALONE,
        }
    }

    /// Waits until the next work is allowed.
    async fn rest(&mut self, site: &Site) {
        loop {
            let share = self.share(site);
            let rest = self.pace.rest(Instant::now(), share);
            if rest.is_zero() {
                return;
            }
            // The feed may end meanwhile.
            sleep(rest.min(FEED_INTERVAL)).await;
        }
    }

    /// Accounts for work done, and for the time in which the spool's writer was held.
    fn worked(&mut self, work: Duration, site: &Site) {
        let work = work + self.changes.took();
        let share = self.share(site);
        self.pace.worked(work, share);
    }

    /// Reads up to the last control message filed, and carries out those found. Articles of a feed after it
    /// are not read.
    async fn catch_up(&mut self, site: &Site, mail: &ModerationQueue) -> io::Result<()> {
        let filed = site.filer.controls.done();
        let end = block_in_place(|| site.spool.journal().mark(TailStart::Now))?.position;
        self.read_to(end, site, mail).await?;
        self.read = filed;
        Ok(())
    }

    /// Reads at least up to this position of the journal.
    async fn read_to(&mut self, end: u64, site: &Site, mail: &ModerationQueue) -> io::Result<()> {
        let mut batch = JournalBatch::default();
        loop {
            let (read, work) = timed(|| self.cursor.next(&mut batch));
            read?;
            self.worked(work, site);
            for (position, event) in batch.events() {
                let JournalEvent::Article(row) = event else { continue };
                if is_control(&row) {
                    self.rest(site).await;
                    let (carried, work) = timed(|| self.carry_out(site, mail, &row));
                    self.worked(work, site);
                    carried?;
                    if self.changes.is_empty() {
                        // At most this message is repeated after a crash.
                        self.mark = JournalMark { position, sequence: Some(row.sequence) };
                        self.cursor.note(self.mark)?;
                    }
                }
            }
            // Pending changes must be read again after a crash.
            if self.changes.is_empty() && !batch.is_empty() {
                block_in_place(|| self.cursor.save())?;
                self.mark = self.cursor.mark();
            }
            if batch.is_empty() || self.cursor.mark().position >= end {
                return self.make_changes(site, mail);
            }
        }
    }

    /// Makes the pending changes, after which everything read is done.
    fn make_changes(&mut self, site: &Site, mail: &ModerationQueue) -> io::Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let (made, work) = timed(|| self.changes.make(site.filer.log(), &self.done, mail, unix_now()));
        self.worked(work, site);
        made?;
        block_in_place(|| self.cursor.save())?;
        self.mark = self.cursor.mark();
        Ok(())
    }

    fn carry_out(&mut self, site: &Site, mail: &ModerationQueue, row: &ArticleRow<'_>) -> io::Result<()> {
        let (spool, log) = (&site.spool, &**site.filer.log());
        let id = String::from_utf8_lossy(row.message_id).into_owned();
        match spool.read(&row.token, Some(&row.key), ReadMode::Wait, &mut self.buf) {
            Ok(true) => {}
            // Cancelled or overwritten meanwhile.
            Ok(false) => return Ok(()),
            Err(error) => {
                warn!(id, %error, "cannot read a control message");
                return Ok(());
            }
        }
        let wire = self.buf.article();
        let Ok(article) = Article::parse(wire.strip_suffix(b".\r\n").unwrap_or(wire)) else { return Ok(()) };
        let config = site.config.current();
        let (done, changes) = (&self.done, &mut self.changes);
        let mut on = ControlContext { spool, log, mail, done, changes, now: unix_now() };
        if article.count(Known::Control) == 0 {
            // A notice must not be repeated, so earlier changes are made first.
            on.make_changes()?;
            let (hides, keyring, now) = (&site.filer.hides, &self.keyring, unix_now());
            let notices = NoticeContext { spool, log, hides, keyring, config: &config, now };
            return notices.carry_out(&article, &id, &mut self.notices_done);
        }
        let proof = SignatureProof::of(&article, &self.keyring);
        let Some(message) = GroupControlMessage::of(&article, &proof, &id, &config) else { return Ok(()) };
        message.carry_out(&mut on)
    }
}

/// Returns whether a row may be a control message; rows written by recovery do not record that.
fn is_control(row: &ArticleRow<'_>) -> bool {
    row.tagged.kind().is_none_or(is_from_journal)
}

/// Runs work that may wait for the disk; returns its result and the CPU time it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let spent = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
    };
    block_in_place(|| {
        let begun = spent();
        let result = work();
        (result, spent().saturating_sub(begun))
    })
}

#[cfg(test)]
mod tests;
