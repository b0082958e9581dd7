//! Adds the articles that are older than the index: group by group, number by number.
//!
//! An article in several groups is added with the first of them. Called by `keeping` between two batches of
//! the journal, one step at a time.

use super::keeping::IndexUpdater;
use super::progress::FillPosition;
use disk::ReadMode;
use netnews::article::xref_places;
use netnews::decimal::parse_decimal;
use newssearch::index::IndexError;
use spool::{Group, Token};
use std::sync::Arc;
use tracing::debug;

/// Numbers examined in a step.
const STEP_NUMBERS: usize = 200;

impl IndexUpdater<'_> {
    /// Examines the next numbers; returns false if there are none left.
    pub(super) fn fill(&mut self) -> Result<bool, IndexError> {
        let Some(place) = self.progress.fill.take() else { return Ok(false) };
        let groups = self.site.spool.groups();
        let at = groups.partition_point(|group| *group.name < *place.group);
        let Some(group) = groups.get(at) else { return Ok(false) };
        let from = if *group.name == *place.group { place.number } else { 0 };
        let mut numbers = Vec::new();
        if self.config.groups.matches(group.name.as_bytes()) {
            self.site.spool.numbers(group.id, from..=u64::MAX, STEP_NUMBERS, &mut numbers);
        }
        for number in &numbers {
            self.fill_one(group, *number)?;
        }
        self.progress.fill = Some(match numbers.last() {
            Some(last) => FillPosition { group: group.name.to_string(), number: last + 1 },
            // A name that sorts between this one and the next.
            None => FillPosition { group: format!("{}\0", group.name), number: 0 },
        });
        Ok(true)
    }

    fn fill_one(&mut self, group: &Arc<Group>, number: u64) -> Result<(), IndexError> {
        let spool = &self.site.spool;
        let token = spool.token_of(group.id, number, ReadMode::Wait);
        let read = token.and_then(|token| match token {
            Some(token) => {
                Ok(spool.read_stored(&token, None, ReadMode::Wait, &mut self.buf)?.then_some(token))
            }
            None => Ok(None),
        });
        let token: Token = match read {
            Ok(Some(token)) => token,
            Ok(None) => return Ok(()),
            Err(error) => {
                debug!(group = &*group.name, number, %error, "not indexed, as it cannot be read");
                return Ok(());
            }
        };
        let is_first = {
            let mut places = xref_places(self.buf.head());
            let carried = |(name, _): &(&[u8], &[u8])| {
                spool.group_id(name).is_some() && self.config.groups.matches(name)
            };
            let first = places.find(carried);
            first.is_some_and(|(name, own)| {
                name == group.name.as_bytes() && parse_decimal(own) == Some(number)
            })
        };
        if is_first && self.buf.sequence() < self.progress.begun {
            let key = spool.key(self.buf.message_id());
            self.add(&token, &key, self.is_again)?;
        }
        Ok(())
    }
}
