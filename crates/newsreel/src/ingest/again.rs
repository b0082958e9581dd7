//! Withdrawals that a crash left undone: the process may have died after a cancel was filed and before it was
//! obeyed, and peers do not send it a second time.
//!
//! Called once, by `server`, before anything else is filed. What the rows replayed at this start withdraw is
//! withdrawn again; doing so twice changes nothing.

use super::Filer;
use super::withdraw::withdrawing;
use netnews::Article;
use spool::{ArticleBuf, ArticleKind, ArticleRow, Batch, Event, Patience, Start};
use std::io;

/// Articles before the rows that were replayed that are looked at too: a checkpoint may have been taken
/// between filing and obeying.
const ARTICLES_BEFORE: u64 = 4_096;
/// Where imported articles come from: their cancels are not obeyed.
const IMPORT: &[u8] = b"import";

impl Filer {
    /// Obeys what was filed shortly before a crash. Returns how many articles that withdraw others it has
    /// looked at. Blocks.
    pub(crate) fn obey_again(&self) -> io::Result<usize> {
        let rows = self.spool.rows_replayed();
        let end = self.spool.journal_mark(Start::Now)?.sequence.unwrap_or_default();
        let mut obeyed = 0;
        if rows == 0 {
            return Ok(obeyed);
        }
        let from = end.saturating_sub(rows + ARTICLES_BEFORE);
        let mut tail = self.spool.tail("withdrawals", Start::Oldest)?;
        let mut batch = Batch::default();
        loop {
            tail.next(&mut batch)?;
            if batch.is_empty() {
                return Ok(obeyed);
            }
            for (_, event) in batch.events() {
                if let Event::Article(row) = event
                    && row.sequence >= from
                {
                    obeyed += usize::from(self.obey_row(&row));
                }
            }
        }
    }

    /// Obeys an article, if it withdraws one and is still here.
    fn obey_row(&self, row: &ArticleRow<'_>) -> bool {
        let withdraws = row
            .tagged
            .kind()
            .is_none_or(|kind| kind.has(ArticleKind::CANCEL) || kind.has(ArticleKind::SUPERSEDES));
        if !withdraws || row.tagged.origin() == Some(IMPORT) {
            return false;
        }
        let mut buf = ArticleBuf::default();
        // What cannot be read has been overwritten or withdrawn itself.
        let Ok(true) = self.spool.read(&row.token, Some(&row.key), Patience::Wait, &mut buf) else {
            return false;
        };
        let stored = buf.article();
        let Ok(article) = Article::parse(stored.strip_suffix(b".\r\n").unwrap_or(stored)) else {
            return false;
        };
        let Some(withdrawing) = withdrawing(&article, 0) else { return false };
        let _nobody_asks = self.withdrawals.obey(&self.spool, None, &withdrawing);
        true
    }
}
