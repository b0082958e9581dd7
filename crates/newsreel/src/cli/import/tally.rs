//! Result of an import.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::super::screen::complain;
use spool::{MethodKind, Token};

use super::copies::Copies;
use super::room::ClassRoom;
use super::taken::{RemovedArticles, TakenArticles};
use ingest::{ImportOutcome, ImportResult};
use site_base::units::{about_size, counted, grouped};

/// Maximum number of examples reported for each reason.
const EXAMPLES_MAX: u64 = 3;

/// Counts of one import; printed by `--json` as it is.
#[derive(Default, Serialize)]
pub(super) struct ImportTally {
    pub dry_run: bool,
    /// Articles filed, and those of them with a new number in some group.
    pub imported: u64,
    pub renumbered: u64,
    /// Filed articles that are still there at the end, and those displaced by later ones; estimates in a dry
    /// run.
    pub still_there: u64,
    pub displaced: u64,
    /// Estimated size of the articles that were here before and were displaced.
    pub older_displaced_bytes: u64,
    /// Room that the classes need and have.
    pub room: Vec<ClassRoom>,
    #[serde(skip)]
    pub filed: Vec<Token>,
    pub duplicates: u64,
    pub damaged: u64,
    /// Directory of copies of damaged articles; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<PathBuf>,
    /// Articles not imported, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Skipped articles that were excluded on purpose.
    #[serde(skip)]
    pub left_out: u64,
    /// Copies of articles that were refused as they were filed.
    pub copies: Copies,
    /// Record of the articles filed.
    #[serde(skip)]
    pub taken: TakenArticles,
    /// Articles of earlier imports that the other server has removed since.
    #[serde(skip_serializing_if = "RemovedArticles::is_empty")]
    pub removed_there: RemovedArticles,
    /// Files, or lines of them, that were skipped; each is named before anything is read.
    pub passed_over: u64,
    pub groups_added: u64,
    /// Groups with articles that keep the other server's numbers, and those that do not.
    pub groups_kept: u64,
    pub groups_renumbered: u64,
    /// Articles without a number from the other server, as far as its files show.
    pub unnumbered: u64,
    /// Message-IDs that the other server remembers without an article.
    pub remembered_there: u64,
    pub seconds: f64,
}

impl ImportTally {
    pub fn skip(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.skipped.entry(reason.to_owned()).or_default() += count;
        }
    }

    /// Counts articles that were excluded on purpose.
    pub fn leave_out(&mut self, reason: &str, count: u64) {
        self.skip(reason, count);
        self.left_out += count;
    }

    /// Counts the result of an article in wire format, which was `renumbered` if it has new numbers; returns
    /// true if it must be filed again with new numbers.
    pub fn count(
        &mut self,
        result: &ImportResult,
        renumbered: bool,
        wire: &[u8],
        name: &dyn Fn() -> String,
    ) -> bool {
        match result.outcome {
            ImportOutcome::Filed => {
                self.imported += 1;
                let token = result.token.as_deref().and_then(Token::from_hex);
                // A class that keeps nothing is not asked for the article later.
                self.filed.extend(token.filter(|token| token.method != MethodKind::Trash));
                self.renumbered += u64::from(renumbered);
            }
            ImportOutcome::Duplicate => self.duplicates += 1,
            ImportOutcome::NumberTaken => return true,
            ImportOutcome::Rejected | ImportOutcome::TryLater => {
                self.skip(&result.reason, 1);
                let is_refused = result.outcome == ImportOutcome::Rejected;
                let kept = if is_refused { self.copies.keep_wire(wire) } else { String::new() };
                if self.skipped.get(&result.reason).is_some_and(|count| *count <= EXAMPLES_MAX) {
                    complain(format_args!("{}: skipped: {}{kept}", name(), result.reason));
                }
            }
        }
        false
    }

    /// Returns whether something that should have been imported was not, or is no longer there.
    pub fn lacks_some(&self) -> bool {
        let skipped = self.skipped.values().sum::<u64>() - self.left_out;
        self.displaced + self.older_displaced_bytes + self.damaged + self.passed_over + skipped > 0
    }

    /// Returns the summary, for people.
    pub fn lines(&self, took: Duration) -> Vec<String> {
        let seconds = took.as_secs_f64().max(0.001);
        let verb = if self.dry_run { "would import" } else { "imported" };
        let rate = if self.dry_run {
            String::new()
        } else {
            format!(" in {seconds:.1} s, {} a second", grouped((self.imported as f64 / seconds) as u64))
        };
        let mut lines = vec![format!("{verb} {}{rate}", articles(self.imported))];
        if self.displaced > 0 {
            let (there, gone) = (grouped(self.still_there), grouped(self.displaced));
            lines.push(match self.dry_run {
                true => format!(
                    "of these about {there} would still be there at the end, and {gone} \
                    displaced by later ones"
                ),
                false => format!("{there} of them are still stored; {gone} were displaced by later ones"),
            });
        }
        if self.older_displaced_bytes > 0 {
            let verb = if self.dry_run { "would be" } else { "were" };
            let bytes = about_size(self.older_displaced_bytes);
            lines.push(format!("about {bytes} of articles that were here before {verb} displaced"));
        }
        if self.groups_kept + self.groups_renumbered > 0 {
            lines.push(format!(
                "numbers: kept in {}, new in {}; {} with a new number",
                groups(self.groups_kept),
                groups(self.groups_renumbered),
                articles(self.renumbered)
            ));
        }
        if self.unnumbered > 0 {
            lines.push(format!(
                "without a number there: {}, with neither Xref nor a file named by its number",
                articles(self.unnumbered)
            ));
        }
        if self.groups_added > 0 {
            let verb = if self.dry_run { "would add" } else { "added" };
            lines.push(format!("{verb} {}", groups(self.groups_added)));
        }
        lines.push(format!("duplicates: {}", grouped(self.duplicates)));
        let copies = self.quarantine.as_ref();
        let copies = copies.map(|dir| format!(" (copies in {})", dir.display())).unwrap_or_default();
        lines.push(format!("damaged: {}{copies}", grouped(self.damaged)));
        let skipped: u64 = self.skipped.values().sum();
        let copies = match &self.copies.dir {
            Some(dir) => format!(" ({} in {})", self.copies.counted(), dir.display()),
            None => String::new(),
        };
        lines.push(format!("skipped: {}{copies}", grouped(skipped)));
        lines.extend(self.skipped.iter().map(|(reason, count)| format!("  {:>9} {reason}", grouped(*count))));
        lines.extend(self.removed_there.lines());
        if self.remembered_there > 0 {
            lines.push(format!(
                "not taken over: {} Message-IDs that the other server remembers without an article, of which it has only hashes",
                grouped(self.remembered_there)
            ));
        }
        lines
    }
}

fn articles(count: u64) -> String {
    counted(count, "article")
}

fn groups(count: u64) -> String {
    counted(count, "group")
}
