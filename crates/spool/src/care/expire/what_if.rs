//! Preview of what another policy would remove, now and later; nothing is changed, and the writer is not
//! held.

use super::survey::{StepCounter, Survey, VolumeList};
use crate::index::kept::KeptEntry;
use crate::write::expire::{ExpireReport, ExpiryJudge, ExpiryJudgement, unreadable};
use crate::write::policy::ExpiryPolicy;
use disk::Progress;
use disk::clock::unix_secs;
use spool_base::config::SpoolConfig;
use spool_base::error::{SpoolError, SpoolTrouble, TroubleKind};
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

impl WhatIf {
    /// Computes what the policy of a configuration would remove; see [`super::Expiry::what_if`].
    pub(super) fn of(
        survey: &Survey<'_>,
        config: &SpoolConfig,
        secs: u64,
        progress: &dyn Progress,
    ) -> Result<Self, SpoolTrouble> {
        let unfit = |e: SpoolError| SpoolTrouble::new(TroubleKind::Io, e.to_string());
        let policy = Arc::new(ExpiryPolicy::new(config).map_err(unfit)?);
        let now = unix_secs();
        let mut judges = [
            ExpiryJudge::new(policy.clone(), now),
            ExpiryJudge::new(policy.clone(), now.saturating_add(secs)),
        ];
        let cuts = survey.cuts(&mut ExpiryJudge::new(policy.clone(), now), progress)?;
        for judge in &mut judges {
            judge.cuts.clone_from(&cuts);
            if policy.has_threads() {
                judge.threads = Some(survey.threads(progress)?);
            }
        }
        let mut report = Self { rows: vec![WhatIfRow::default(); policy.len() + 1] };
        let lists = survey.lists();
        let entries = lists.iter().map(|list| list.entries.entries).sum();
        let mut steps = StepCounter::begin(progress, "judging articles", entries);
        for list in &lists {
            let mut count = |e: &KeptEntry| {
                steps.step();
                report.count(survey, list, e, &mut judges);
            };
            list.entries.each(&mut count).map_err(|e| unreadable(&e))?;
        }
        Ok(report)
    }

    fn count(
        &mut self,
        survey: &Survey<'_>,
        list: &VolumeList,
        e: &KeptEntry,
        judges: &mut [ExpiryJudge; 2],
    ) {
        let (rows, table) = (&mut self.rows, survey.shared.groups.table());
        for (at, judge) in judges.iter_mut().enumerate() {
            let ExpiryJudgement::Lives(verdict) = judge.judge(survey.shared, &table, &*list.volume, e) else {
                return;
            };
            let row = verdict.rule.unwrap_or(rows.len().saturating_sub(1));
            let Some(row) = rows.get_mut(row) else { return };
            if at == 0 { &mut row.now } else { &mut row.later }.count(e, &verdict);
        }
    }
}
