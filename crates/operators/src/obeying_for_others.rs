//! Withdrawals of articles that a member of a cluster has filed, and that it did not live to carry out.
//!
//! Each member carries out those of its own articles. Once one is silent, another carries out all withdrawals
//! since some minutes before; obeying an article twice changes nothing. The member itself does so, too, when
//! it comes back.

use crate::trailing::TrailingMarks;
use site::Site;
use spool::{Cursor, OtherMember, Spool, TailStart};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{info, warn};

/// The job of carrying out what others have left.
const JOB: &str = "effects";
/// Interval of looks at the others.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Silence after which a member is taken to be away: it reports every 5 seconds.
const SILENT_MAX: Duration = Duration::from_secs(15);
/// Time by which withdrawals may be behind the articles that ask for them, and by which a member that is away
/// is noticed late.
const BEHIND_SECS_MAX: u64 = 660;

/// Carries out what members that are away have left, until the server stops; returns at once if it is no
/// member of a cluster.
pub async fn obey_for_others(site: Arc<Site>) {
    if site.spool.shared_log().is_none() {
        return;
    }
    let mut stopping = std::pin::pin!(site.stopping());
    let mut work = None;
    loop {
        let looked = block_in_place(|| match &mut work {
            None => OthersWithdrawals::open(&site.spool).map(|opened| work = Some(opened)),
            Some(work) => work.look(&site),
        });
        if let Err(error) = looked {
            warn!(%error, "cannot look for withdrawals of members that are away");
        }
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// Withdrawals of other members.
struct OthersWithdrawals {
    /// Stays behind the journal's end, so that what may have to be carried out is kept.
    cursor: Cursor,
    /// Positions by the time since `begun`: nothing here is compared with other machines, and a clock may
    /// jump.
    marks: TrailingMarks,
    begun: Instant,
    /// Numbers of members that are away, for which everything is carried out.
    away: BTreeSet<u16>,
}

impl OthersWithdrawals {
    fn open(spool: &Spool) -> io::Result<Self> {
        let cursor = spool.journal().cursor(JOB, TailStart::Now)?;
        Ok(Self { cursor, marks: TrailingMarks::default(), begun: Instant::now(), away: BTreeSet::new() })
    }

    /// Carries out what members have left that are away since the last look.
    fn look(&mut self, site: &Site) -> io::Result<()> {
        let Some(log) = site.spool.shared_log() else { return Ok(()) };
        let now = self.begun.elapsed().as_secs();
        self.marks.note(now, || site.spool.journal().mark(TailStart::Now))?;
        if let Some(mark) = self.marks.before(now.saturating_sub(BEHIND_SECS_MAX)) {
            self.cursor.save_at(mark)?;
        }
        let others = log.others();
        let is_away = |other: &OtherMember| other.silent >= SILENT_MAX;
        self.away.retain(|number| others.iter().any(|other| other.number == *number && is_away(other)));
        if !site.spool.leads(JOB) {
            return Ok(());
        }
        for other in others.iter().filter(|other| is_away(other)) {
            if self.away.insert(other.number) {
                self.cursor.seek(self.cursor.saved());
                let articles = site.filer.obey_from(&mut self.cursor)?;
                info!(member = other.name, articles, "withdrawals of a member that is away obeyed");
            }
        }
        Ok(())
    }
}
