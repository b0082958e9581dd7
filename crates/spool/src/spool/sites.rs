//! Sites: names of peers, with the numbers that stand for them in the rows of articles.

use super::Spool;
use crate::base::error::{SpoolTrouble, TroubleKind};
use crate::index::change::{Change, ChangeOutcome};
use crate::index::fold::SITES_MAX;
use crate::journal::JournalRow;

/// Maximum length of a site's name, in bytes.
const SITE_NAME_BYTES_MAX: usize = 255;

impl Spool {
    /// Returns the number that stands for a site in [`crate::RowFacts::sites`], if it has one; it never
    /// stands for another site.
    pub fn known_site(&self, name: &str) -> Option<u32> {
        let writer = self.writer.lock();
        writer.folds.sites.iter().position(|site| site == name).map(|number| number as u32)
    }

    /// Returns the names of all sites, by their numbers.
    pub fn site_names(&self) -> Vec<String> {
        self.writer.lock().folds.sites.clone()
    }

    /// Assigns the next numbers to sites that have none, durably.
    pub(super) fn name_sites(
        &self,
        time: u64,
        run: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<(), SpoolTrouble> {
        let mut writer = self.writer_at(time);
        for change in run {
            let Change::Site { name } = change else { continue };
            let is_known = writer.folds.sites.iter().any(|site| site == name);
            let number = writer.folds.sites.len();
            let refused =
                |text: &str| SpoolTrouble::new(TroubleKind::Refused, format!("site \"{name}\": {text}"));
            if !is_known && number >= SITES_MAX {
                return Err(refused("there are as many sites already as can have a number"));
            }
            if name.is_empty() || name.len() > SITE_NAME_BYTES_MAX {
                return Err(refused("its name is empty or too long"));
            }
            if !is_known {
                let number = number as u32;
                writer.commit_now(&JournalRow::Site { number, name: (*name).to_owned() })?;
                writer.folds.site(number, name);
            }
            outcomes.push(ChangeOutcome::Changed(usize::from(!is_known)));
        }
        Ok(())
    }
}
