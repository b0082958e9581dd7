//! Passes of expiry over an open spool, and what one would do (CN-20 to CN-22).

use crate::base::clock::unix_now;
use crate::base::error::Trouble;
use crate::spool::Spool;
use crate::write::expire::{ExpireReport, unreadable};

impl Spool {
    /// Expires the kept articles that are due, or reports which would be expired.
    pub fn expire(&self, dry_run: bool) -> Result<ExpireReport, Trouble> {
        self.expire_as_of(unix_now(), dry_run)
    }

    /// As [`Spool::expire`], as if it were `now` (Unix seconds).
    pub fn expire_as_of(&self, now: u64, dry_run: bool) -> Result<ExpireReport, Trouble> {
        let mut report = ExpireReport::default();
        let volumes = self.shared.volumes.load().all().len();
        for index in 0..volumes {
            if dry_run {
                self.would_expire(index, now, &mut report)?;
                continue;
            }
            {
                let mut writer = self.writer.lock();
                writer.policy.forget_groups();
                if writer.policy.is_empty() {
                    return Ok(report);
                }
                let Some(list) = writer.folds.kept.get_mut(index).and_then(Option::as_mut) else { continue };
                list.begin_pass();
            }
            while self.writer.lock().expire_step(index, now, &mut report)? {}
        }
        if !dry_run {
            self.writer.lock().end_freeing();
        }
        Ok(report)
    }

    fn would_expire(&self, index: usize, now: u64, report: &mut ExpireReport) -> Result<(), Trouble> {
        let mut writer = self.writer.lock();
        let Some(volume) = self.shared.volumes.load().all().get(index).cloned() else { return Ok(()) };
        let Some(list) = writer.folds.kept.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        let mut entries = Vec::new();
        list.each(&mut |e| entries.push(e.clone())).map_err(|e| unreadable(&e))?;
        writer.policy.forget_groups();
        for e in &entries {
            let Some(verdict) = writer.judge(&*volume, e, now) else { continue };
            report.looked_at += 1;
            report.next_due = report.next_due.into_iter().chain(verdict.next).min();
            report.numbers += verdict.due.len() as u64;
            if !verdict.stays {
                report.articles += 1;
                report.bytes += e.stored_bytes;
            }
        }
        Ok(())
    }
}
