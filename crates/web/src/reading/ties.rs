//! The numbers of the articles of a thread: found by what ties them, without the rows of all articles around.
//!
//! For groups that are stored here [`ThreadTies`] keeps the ties of articles in memory, in blocks of numbers,
//! from the first page of a thread near them on. Each page compares the blocks around its article with the
//! numbers that live, and reads the rows of those that are new or shown again; what has been removed costs
//! nothing but its place, as its row will not be found. Numbers and groups are never used twice, and a row
//! never changes. Called by `threads`.

use super::{Group, NewsPages, failed};
use crate::generations::Generations;
use axum::response::Response;
use newspages::ties::{BLOCK_NUMBERS, TieBlock, TieHasher, tied};
use site_base::lock::Leaf;
use spool::GroupId;
use std::ops::RangeInclusive;
use std::sync::Arc;
use upstreams::{Either, NewsSource};

/// Bytes of ties that are kept: those of some 200,000 articles.
const TIES_BYTES_MAX: usize = 16 << 20;

/// A group and the place of a block in it.
type BlockKey = (GroupId, u64);

/// What ties the articles of groups into threads, as far as pages needed it.
#[derive(Debug, Default)]
pub(crate) struct ThreadTies {
    hasher: Arc<TieHasher>,
    blocks: Leaf<Generations<BlockKey, Arc<TieBlock>>>,
}

impl ThreadTies {
    fn get(&self, key: BlockKey) -> Option<Arc<TieBlock>> {
        self.blocks.lock().get(&key).cloned()
    }

    fn put(&self, key: BlockKey, block: Arc<TieBlock>) {
        let bytes = block.bytes();
        self.blocks.lock().put(key, block, bytes, TIES_BYTES_MAX);
    }
}

impl NewsPages<'_> {
    /// Returns the numbers in a range of the articles that may be in the thread of one of them, ascending;
    /// `None` if that is not known without the rows of the whole range.
    pub(super) async fn tied_numbers(
        &self,
        group: &Group,
        range: RangeInclusive<u64>,
        number: u64,
    ) -> Result<Option<Vec<u64>>, Response> {
        let Either::First(id) = group else { return Ok(None) };
        let mut living = Vec::new();
        let source = &self.news.source;
        source.numbers(group, range.clone(), usize::MAX, &mut living).await.map_err(failed)?;
        let mut blocks = Vec::new();
        for living in living.chunk_by(|a, b| a / BLOCK_NUMBERS == b / BLOCK_NUMBERS) {
            let Some(first) = living.first() else { continue };
            let key = (*id, first / BLOCK_NUMBERS);
            let known = self.shared.ties.get(key).unwrap_or_else(|| Arc::new(TieBlock::around(*first)));
            let mut new = living.iter().filter(|number| !known.has(**number));
            let block = match (new.next(), new.next_back()) {
                (None, _) => known,
                (Some(from), to) => {
                    let block = self.with_ties(group, known, *from..=*to.unwrap_or(from)).await?;
                    self.shared.ties.put(key, block.clone());
                    block
                }
            };
            blocks.push(block);
        }
        self.render(0, move || tied(&blocks, &range, number)).await
    }

    /// Returns a block with the ties of the articles in a range.
    async fn with_ties(
        &self,
        group: &Group,
        mut block: Arc<TieBlock>,
        range: RangeInclusive<u64>,
    ) -> Result<Arc<TieBlock>, Response> {
        let (mut from, to) = range.into_inner();
        loop {
            let (rows, next) = self.first_rows(group, from..=to).await?;
            let hasher = self.shared.ties.hasher.clone();
            block = self.render(rows.bytes(), move || Arc::new(block.with(&hasher, &rows.all()))).await?;
            match next {
                Some(next) => from = next,
                None => return Ok(block),
            }
        }
    }
}
