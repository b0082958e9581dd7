//! Pending group changes of newgroup and rmgroup messages, made many in one commit.
//!
//! A change is recorded in [`ControlHistory`] once it is made; until then the reader's position stays before
//! its message, so after a crash it is repeated, which changes nothing. No two pending changes are of one
//! group.

use super::done::ControlHistory;
use super::not::NotCarriedOut;
use site::moderation::{MailKind, ModerationQueue, OwnMail};
use site_base::units::counted;
use site_log::SiteLog;
use spool::{ChangeMaker as _, GroupUpdate};
use std::io;
use std::mem::take;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// Maximum number of changes made together.
const TOGETHER_MAX: usize = 512;
/// Maximum size of the pending mails in bytes, except for the last one.
const MAILS_BYTES_MAX: usize = 4 << 20;
/// Maximum number of changes that are logged individually.
const LINES_MAX: usize = 16;

/// A change that a message asks for.
pub(super) struct PendingChange {
    /// Name of the group.
    pub name: String,
    /// Date of the message.
    pub date: i64,
    /// The update; `None` if the group is as requested already.
    pub update: Option<GroupUpdate>,
    /// Text for the log once the change is made.
    pub text: String,
    /// Command, sender and Message-ID, for the log.
    pub what: String,
    pub from: String,
    pub id: String,
    /// Mail to send once the change is made.
    pub mail: Option<NewsmasterMail>,
}

/// A mail to the newsmaster.
pub(super) struct NewsmasterMail {
    pub to: String,
    pub subject: String,
    pub text: Vec<u8>,
}

impl NewsmasterMail {
    /// Queues the mail about the message with this Message-ID.
    pub fn send(&self, mail: &ModerationQueue, id: &str, now: i64) {
        let (to, subject, text) = (self.to.as_str(), self.subject.as_str(), self.text.as_slice());
        let own = OwnMail { kind: MailKind::Notice, to, subject, text, about: Some(id) };
        if let Err(why) = mail.notify(&own, now) {
            warn!(id, to = self.to, ?why, "a control message cannot be mailed");
        }
    }
}

/// Pending changes.
#[derive(Default)]
pub(super) struct PendingChanges {
    waiting: Vec<PendingChange>,
    mails_bytes: usize,
    /// Time spent making changes since [`took`](Self::took) was last called.
    took: Duration,
}

impl PendingChanges {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether no more changes may be added.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= TOGETHER_MAX || self.mails_bytes >= MAILS_BYTES_MAX
    }

    /// Returns whether one of the changes is of this group.
    pub fn has_group(&self, name: &str) -> bool {
        self.waiting.iter().any(|change| change.name == name)
    }

    pub fn add(&mut self, change: PendingChange) {
        self.mails_bytes += change.mail.as_ref().map_or(0, |mail| mail.text.len());
        self.waiting.push(change);
    }

    /// Drops the pending changes; their messages will be read again.
    pub fn clear(&mut self) {
        (self.waiting, self.mails_bytes) = Default::default();
    }

    /// Returns the time spent making changes since the last call, in which the writer of the spool was held.
    pub fn took(&mut self) -> Duration {
        take(&mut self.took)
    }

    /// Makes the pending changes in one commit, or one by one if the spool refuses one of them. After an
    /// error they must be read again.
    pub fn make(
        &mut self,
        log: &SiteLog,
        done: &ControlHistory,
        mail: &ModerationQueue,
        now: i64,
    ) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.mails_bytes = 0;
        let changes = take(&mut self.waiting);
        let begun = Instant::now();
        let refused = update(log, &changes);
        self.took += begun.elapsed();
        match refused {
            Ok(()) => return made(&changes, done, mail, now),
            Err(NotCarriedOut::Now(error)) => return Err(error),
            Err(NotCarriedOut::Carried(_)) => {}
        }
        for change in &changes {
            let alone = std::slice::from_ref(change);
            match update(log, alone) {
                Ok(()) => made(alone, done, mail, now)?,
                Err(NotCarriedOut::Now(error)) => return Err(error),
                Err(NotCarriedOut::Carried(reason)) => {
                    let PendingChange { what, from, id, .. } = change;
                    info!(what, from, id, "control message not carried out: {reason}");
                }
            }
        }
        self.took += begun.elapsed();
        Ok(())
    }
}

fn update(log: &SiteLog, changes: &[PendingChange]) -> Result<(), NotCarriedOut> {
    let updates: Vec<GroupUpdate> = changes.iter().filter_map(|change| change.update.clone()).collect();
    if !updates.is_empty() {
        log.update_groups(updates)?;
    }
    Ok(())
}

/// Records the changes made, and logs them.
fn made(
    changes: &[PendingChange],
    done: &ControlHistory,
    mail: &ModerationQueue,
    now: i64,
) -> io::Result<()> {
    done.add_groups(changes.iter().map(|change| (&*change.name, change.date)))?;
    let is_flood = changes.len() > LINES_MAX;
    for PendingChange { what, from, id, text, .. } in changes {
        match is_flood {
            true => debug!(what, from, id, "control message carried out: {text}"),
            false => info!(what, from, id, "control message carried out: {text}"),
        }
    }
    if let (true, Some(first), Some(last)) = (is_flood, changes.first(), changes.last()) {
        let count = |of: fn(&GroupUpdate) -> bool| {
            changes.iter().filter(|change| change.update.as_ref().is_some_and(of)).count()
        };
        let created = count(|update| matches!(update, GroupUpdate::Add(_)));
        let changed = count(|update| matches!(update, GroupUpdate::Change(..)));
        let removed = count(|update| matches!(update, GroupUpdate::Remove(_)));
        let (first, last) = (&first.what, &last.what);
        info!(
            first,
            last,
            "{} carried out: {} created, {changed} changed, {removed} removed",
            counted(changes.len() as u64, "control message"),
            counted(created as u64, "group")
        );
    }
    for PendingChange { mail: letter, id, .. } in changes {
        if let Some(letter) = letter {
            letter.send(mail, id, now);
        }
    }
    Ok(())
}
