//! Expiry: which kept articles are due, and letting go of them (CN-20 to CN-22, CN-27, CN-46).
//!
//! A fold: it looks at the entries of [`crate::kept`] and never reads an article. The explicit date is recorded at arrival, the
//! policy is applied when it is looked at, so that a change of policy takes effect at once. A number goes when the policy of
//! its group says so; the bytes go with the last number. The row is durable before anything goes. Called by the spool's expiry
//! thread in bounded steps, and by `newsreel expire`.

use crate::clock::unix_now;
use crate::commit::Writer;
use crate::config::{ExpireConfig, Keep};
use crate::error::{SpoolError, Trouble, TroubleKind};
use crate::groups::GroupId;
use crate::history::Found;
use crate::journal::Row;
use crate::kept::KeptEntry;
use crate::manager::Class;
use crate::method::Volume;
use crate::spool::Spool;
use crate::token::Token;
use netnews::wildmat::Wildmat;
use std::collections::HashMap;
use std::io;

/// Entries looked at while the writer is held.
const ENTRIES_PER_STEP: usize = 2000;
/// Articles let go of in one step: each may cost the removal of files.
const GONE_PER_STEP: usize = 256;

#[derive(Debug)]
struct Rule {
    class: Option<usize>,
    groups: Option<Wildmat>,
    keep: Keep,
}

/// The policy: the first rule for class and group decides; without one an article is kept forever.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
    known: HashMap<(Option<usize>, GroupId), Option<usize>>,
}

impl Policy {
    /// Compiles the rules; `class` gives the number of a class by name.
    pub fn new(config: &[ExpireConfig], class: impl Fn(&str) -> Option<usize>) -> Result<Self, SpoolError> {
        let mut rules = Vec::new();
        for c in config {
            let number = match &c.class {
                Some(name) => Some(class(name).ok_or_else(|| {
                    SpoolError::Unfit(format!("an expiry rule names the unknown class \"{name}\""))
                })?),
                None => None,
            };
            let wildmat = |text: &String| {
                Wildmat::parse(text.as_bytes())
                    .map_err(|e| SpoolError::Unfit(format!("expiry rule pattern \"{text}\": {e}")))
            };
            let groups = c.groups.as_ref().map(wildmat).transpose()?;
            rules.push(Rule { class: number, groups, keep: c.keep });
        }
        Ok(Self { rules, known: HashMap::new() })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Groups may have come or gone.
    pub fn forget_groups(&mut self) {
        self.known.clear();
    }

    /// When an article is due in a group, Unix seconds; `None`: never.
    fn due(&mut self, e: &KeptEntry, class: Option<usize>, group: GroupId, name: &str) -> Option<u64> {
        let rules = &self.rules;
        let rule = *self.known.entry((class, group)).or_insert_with(|| {
            rules.iter().position(|r| {
                r.class.is_none_or(|c| Some(c) == class)
                    && r.groups.as_ref().is_none_or(|w| w.matches(name.as_bytes()))
            })
        });
        match rules.get(rule?)?.keep {
            Keep::Forever => None,
            Keep::Secs { min, default, max } => {
                let arrived = u64::from(e.arrived);
                let expires = u64::from(e.expires);
                let wanted = if expires == 0 { arrived.saturating_add(default) } else { expires };
                Some(wanted.max(arrived.saturating_add(min)).min(arrived.saturating_add(max)))
            }
        }
    }
}

/// What expiry did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpireReport {
    /// Articles looked at.
    pub looked_at: u64,
    /// Articles that are gone, or would be.
    pub articles: u64,
    /// Numbers that are gone, or would be.
    pub numbers: u64,
    /// Stored bytes of those articles.
    pub bytes: u64,
    /// When the next article is due, Unix seconds.
    pub next_due: Option<u64>,
}

/// What is to become of an entry.
struct Verdict {
    due: Vec<(GroupId, u64)>,
    /// Some number lives on.
    stays: bool,
    next: Option<u64>,
}

impl Writer {
    /// What an entry of a volume comes to. A volume that keeps has the name of its class; the number of the class in the
    /// entry is that of the configuration when it came.
    fn judge(&mut self, volume: &dyn Volume, e: &KeptEntry, now: u64) -> Option<Verdict> {
        let shared = self.folds.shared.clone();
        let table = shared.groups.table();
        let own =
            |c: &Class| c.method == volume.method() && c.buffers.iter().any(|name| name == volume.name());
        let class = self.classes.iter().position(own);
        let mut verdict = Verdict { due: Vec::new(), stays: false, next: None };
        let mut lives = false;
        for (id, number) in &e.numbers {
            let Some(group) = table.get(*id).filter(|g| g.state().live.contains(*number)) else { continue };
            lives = true;
            match self.policy.due(e, class, *id, &group.name) {
                Some(due) if due <= now => verdict.due.push((*id, *number)),
                due => {
                    verdict.stays = true;
                    verdict.next = verdict.next.into_iter().chain(due).min();
                }
            }
        }
        if lives {
            return Some(verdict);
        }
        // No group names it any more: cancelled, or its groups are gone and nobody wants it.
        let is_here = |t: Token| t.volume == volume.id() && t.place == e.place;
        matches!(shared.history.lookup(&e.key), Found::At(t, _) if is_here(t)).then_some(verdict)
    }

    /// One bounded step of a pass over a volume; false when the pass is over.
    fn expire_step(&mut self, index: usize, now: u64, report: &mut ExpireReport) -> Result<bool, Trouble> {
        self.accepting()?;
        let shared = self.folds.shared.clone();
        let volumes = shared.volumes.load();
        let Some(volume) = volumes.all().get(index).cloned() else { return Ok(false) };
        let (mut rows, mut going) = (Vec::new(), Vec::new());
        let mut more = true;
        for _ in 0..ENTRIES_PER_STEP {
            let Some(list) = self.folds.kept.get_mut(index).and_then(Option::as_mut) else {
                return Ok(false);
            };
            let Some(e) = list.take().map_err(|e| unreadable(&e))? else {
                more = false;
                break;
            };
            report.looked_at += 1;
            let Some(verdict) = self.judge(&*volume, &e, now) else { continue };
            report.next_due = report.next_due.into_iter().chain(verdict.next).min();
            if verdict.stays {
                let pushed = self.folds.kept.get_mut(index).and_then(Option::as_mut).map(|l| l.push(&e));
                pushed.unwrap_or(Ok(())).map_err(|e| unreadable(&e))?;
                if verdict.due.is_empty() {
                    continue;
                }
            }
            report.numbers += verdict.due.len() as u64;
            if !verdict.stays {
                report.articles += 1;
                report.bytes += e.stored_bytes;
            }
            let numbers = if verdict.stays { verdict.due } else { e.numbers.clone() };
            let token =
                Token { method: volume.method(), class: e.class, volume: volume.id(), place: e.place };
            rows.push((e.key, token, !verdict.stays, numbers));
            if !verdict.stays {
                going.push(e);
            }
            if rows.len() >= GONE_PER_STEP {
                break;
            }
        }
        if rows.is_empty() {
            return Ok(more);
        }
        for (key, token, gone, numbers) in &rows {
            let (key, token, gone) = (*key, *token, *gone);
            self.journal.push(&Row::Expire { key, token, gone, numbers: numbers.clone() });
        }
        if let Err(trouble) = self.write_now() {
            self.journal.discard();
            let list = self.folds.kept.get_mut(index).and_then(Option::as_mut);
            list.map_or(Ok(()), |list| going.iter().try_for_each(|e| list.push(e)))
                .map_err(|e| unreadable(&e))?;
            return Err(trouble);
        }
        for (key, token, gone, numbers) in &rows {
            self.folds.expire(*key, *token, *gone, numbers);
        }
        volume.sweep().map_err(|e| self.sync.stop(unreadable(&e)))?;
        Ok(more)
    }
}

fn unreadable(e: &io::Error) -> Trouble {
    Trouble { kind: TroubleKind::Io, text: format!("cannot expire articles: {e}") }
}

impl Spool {
    /// Lets go of the kept articles that are due, or says what would go.
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
                list.begin_pass().map_err(|e| unreadable(&e))?;
            }
            while self.writer.lock().expire_step(index, now, &mut report)? {}
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
            report.looked_at += 1;
            let Some(verdict) = writer.judge(&*volume, e, now) else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn entry(expires: u32) -> KeptEntry {
        let (place, key, class, arrived, stored_bytes, numbers) = (0, Key(0), 0, 1000, 0, Vec::new());
        KeptEntry { place, key, class, arrived, expires, stored_bytes, numbers }
    }

    /// CN-46: min-default-max, first match wins.
    #[test]
    fn an_explicit_date_is_honoured_within_bounds() {
        let keep = Keep::Secs { min: 10, default: 70, max: 300 };
        let rule = |groups: &str, class: Option<&str>, keep| ExpireConfig {
            groups: Some(groups.into()),
            class: class.map(str::to_owned),
            keep,
        };
        let config =
            [rule("local.*", None, Keep::Forever), rule("a.*", Some("x"), keep), rule("a.b", None, keep)];
        let mut p = Policy::new(&config, |name| (name == "x").then_some(1)).unwrap();
        let mut due = |class, expires, id, name| p.due(&entry(expires), Some(class), GroupId(id), name);
        assert_eq!(due(0, 5, 0, "local.x"), None);
        assert_eq!(due(1, 0, 1, "a.c"), Some(1070));
        assert_eq!(due(1, 1200, 1, "a.c"), Some(1200));
        assert_eq!(due(1, 1001, 1, "a.c"), Some(1010));
        assert_eq!(due(1, 9999, 1, "a.c"), Some(1300));
        assert_eq!(due(0, 0, 1, "a.c"), None);
        assert_eq!(due(0, 0, 2, "a.b"), Some(1070));
        assert!(Policy::new(&[rule("a", Some("none"), keep)], |_| None).is_err());
    }
}
