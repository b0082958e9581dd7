//! Withdrawals that a crash left undone: the process may have died after a cancel was filed and before it was
//! obeyed, and peers do not send it a second time.
//!
//! Called once, by `server`, before anything else is filed. All rows from the place up to which everything
//! was carried out (`follow_ups`) are looked at; obeying an article twice changes nothing.

use super::Filer;
use super::withdraw::{Obey, Task, kept, target};
use disk::Patience;
use netnews::Article;
use spool::{ArticleBuf, ArticleKind, ArticleRow, Batch, Event, Key, Start};
use std::io;

/// Name of the cursor.
const CURSOR: &str = "withdrawals";
/// Where imported articles come from: their cancels are not obeyed.
const IMPORT: &[u8] = b"import";

impl Filer {
    /// Obeys what was filed and not obeyed before a crash; from now on the place up to which all is carried
    /// out is kept. Returns how many articles were looked at that withdraw others, or came while they were
    /// withdrawn. Blocks.
    pub fn obey_again(&self) -> io::Result<usize> {
        let mut cursor = self.spool.cursor(CURSOR, Start::Now)?;
        let hold = self.follow_ups.hold_from(cursor.mark());
        let mut looked_at = 0;
        let mut batch = Batch::default();
        loop {
            cursor.next(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for (_, event) in batch.events() {
                let Event::Article(row) = event else { continue };
                let task = self.task_of(&row);
                looked_at += task.iter().count();
                hold.queue(task.into_iter());
            }
        }
        while self.follow_ups.carry_out() {}
        drop(hold);
        self.follow_ups.keep_position(cursor);
        Ok(looked_at)
    }

    /// What is to be carried out of an article, with what it withdraws, if it is still here.
    fn task_of(&self, row: &ArticleRow<'_>) -> Option<(Task, Option<Key>)> {
        if row.tagged.origin() == Some(IMPORT) {
            return None;
        }
        if self.follow_ups.withdrawals.is_awaited(row.key) {
            return Some((Task::Late(row.key), None));
        }
        let withdraws =
            |kind: ArticleKind| kind.has(ArticleKind::CANCEL) || kind.has(ArticleKind::SUPERSEDES);
        // Rows that recovery wrote do not say.
        if !row.tagged.kind().is_none_or(withdraws) {
            return None;
        }
        let mut buf = ArticleBuf::default();
        // What cannot be read has been overwritten or withdrawn itself.
        let Ok(true) = self.spool.read(&row.token, Some(&row.key), Patience::Wait, &mut buf) else {
            return None;
        };
        let stored = buf.article();
        let wire = stored.strip_suffix(b".\r\n").unwrap_or(stored);
        let article = Article::parse(wire).ok()?;
        let target = target(&article)?;
        let target = self.spool.key(target.as_bytes());
        // Who posted it is no longer known.
        Some((Task::Obey(Obey::of(kept(&article), None)), Some(target)))
    }
}
