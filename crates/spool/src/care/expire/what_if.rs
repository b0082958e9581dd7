//! Preview of what another policy would remove, now and later; nothing is changed, and the writer is not
//! held.

use super::StepCounter;
use super::survey::VolumeList;
use crate::base::config::SpoolConfig;
use crate::base::error::{SpoolError, SpoolTrouble, TroubleKind};
use crate::index::kept::KeptEntry;
use crate::spool::Spool;
use crate::write::expire::{ExpireReport, ExpiryJudge, ExpiryJudgement, unreadable};
use crate::write::policy::ExpiryPolicy;
use disk::Progress;
use disk::clock::unix_now;
use std::sync::Arc;

/// Articles that a policy would remove from the current ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhatIf {
    /// Results by `[[expire]]` section, in order; last, for the articles that no section decides about.
    pub rows: Vec<WhatIfRow>,
}

/// Result for the articles that a section keeps longest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WhatIfRow {
    /// Removals now.
    pub now: ExpireReport,
    /// Removals until the later time, including those now.
    pub later: ExpireReport,
}

impl Spool {
    /// Computes what the policy of a configuration would remove now, and by `secs` later, if nothing arrived
    /// until then. Articles given up for space are not predicted.
    pub fn what_if(
        &self,
        config: &SpoolConfig,
        secs: u64,
        progress: &dyn Progress,
    ) -> Result<WhatIf, SpoolTrouble> {
        let unfit = |e: SpoolError| SpoolTrouble::new(TroubleKind::Io, e.to_string());
        let policy = Arc::new(ExpiryPolicy::new(config).map_err(unfit)?);
        let now = unix_now();
        let mut judges = [
            ExpiryJudge::new(policy.clone(), now),
            ExpiryJudge::new(policy.clone(), now.saturating_add(secs)),
        ];
        let cuts = self.cuts(&mut ExpiryJudge::new(policy.clone(), now), progress)?;
        for judge in &mut judges {
            judge.cuts.clone_from(&cuts);
            if policy.has_threads() {
                judge.threads = Some(self.threads(progress)?);
            }
        }
        let mut report = WhatIf { rows: vec![WhatIfRow::default(); policy.len() + 1] };
        let lists = self.lists();
        let entries = lists.iter().map(|list| list.entries.entries).sum();
        let mut steps = StepCounter::begin(progress, "judging articles", entries);
        for list in &lists {
            let mut count = |e: &KeptEntry| {
                steps.step();
                self.count_what_if(list, e, &mut judges, &mut report.rows);
            };
            list.entries.each(&mut count).map_err(|e| unreadable(&e))?;
        }
        Ok(report)
    }

    fn count_what_if(
        &self,
        list: &VolumeList,
        e: &KeptEntry,
        judges: &mut [ExpiryJudge; 2],
        rows: &mut [WhatIfRow],
    ) {
        let table = self.shared.groups.table();
        for (at, judge) in judges.iter_mut().enumerate() {
            let ExpiryJudgement::Lives(verdict) = judge.judge(&self.shared, &table, &*list.volume, e) else {
                return;
            };
            let row = verdict.rule.unwrap_or(rows.len().saturating_sub(1));
            let Some(row) = rows.get_mut(row) else { return };
            if at == 0 { &mut row.now } else { &mut row.later }.count(e, &verdict);
        }
    }
}
