//! Repair of damaged pages, which are rewritten in place with entries read from the volume.

use super::page::PAGE_BYTES;
use super::{Resident, Residents, ResidentsPosition};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

impl Residents {
    /// Reports whether a page is among the unreadable pages at the read position, which are then skipped, as
    /// by [`Residents::recover`]. A checkpoint must be durable before they are repaired, since the last one
    /// may name a place in the middle of them.
    pub fn skip_damaged_front(
        &mut self,
        page: u64,
        read: impl FnOnce(Option<u64>, Option<u64>) -> VecDeque<Resident>,
    ) -> io::Result<bool> {
        if !self.recovered.is_empty() {
            return Ok(self.recovered_run().contains(&page));
        }
        if page < self.at.page
            || self.pages.check(page).is_ok()
            || self.damaged_run(page).start > self.at.page
        {
            return Ok(false);
        }
        self.front = None;
        self.recover(read).map(|()| true)
    }

    /// Rewrites a damaged page, and the unreadable ones around it, with the articles that lie in the volume
    /// between those of the pages before and after them (`read`, as in [`Residents::recover`]).
    pub fn mend(
        &mut self,
        page: u64,
        read: impl FnOnce(Option<u64>, Option<u64>) -> VecDeque<Resident>,
    ) -> io::Result<()> {
        if !self.recovered.is_empty() && self.recovered_run().contains(&page) {
            let run = self.recovered_run();
            self.pages.rewrite(run.clone(), &self.recovered)?;
            self.recovered.clear();
            (self.at, self.skip_to) =
                (ResidentsPosition { page: run.start, ..ResidentsPosition::default() }, 0);
            self.front = None;
            return Ok(());
        }
        if page < self.at.page || self.pages.check(page).is_ok() {
            return Ok(());
        }
        let run = self.damaged_run(page);
        let before = run.start.checked_sub(PAGE_BYTES).and_then(|page| self.places_in(page));
        let after = self.places_in(run.end);
        let entries = read(before.map(|(_, last)| last + 1), after.map(|(first, _)| first));
        self.pages.rewrite(run, &entries)
    }

    /// Returns the pages whose entries were recovered.
    fn recovered_run(&self) -> Range<u64> {
        self.recovered_page..self.at.page
    }

    /// Returns the run of unreadable pages around a page.
    fn damaged_run(&mut self, page: u64) -> Range<u64> {
        let (mut start, mut end) = (page, page);
        while end < self.pages.open_at() && self.places_in(end).is_none() {
            end += PAGE_BYTES;
        }
        while start > self.at.page && self.places_in(start - PAGE_BYTES).is_none() {
            start -= PAGE_BYTES;
        }
        start..end
    }

    /// Returns the places of a page's first and last article.
    fn places_in(&mut self, page: u64) -> Option<(u64, u64)> {
        // Read from the disk, not from memory: the disk may be damaged.
        if self.pages.check(page).is_err() {
            return None;
        }
        let entries = self.pages.entries(page).ok()?;
        let (mut at, mut spare, mut places) = (ResidentsPosition::default(), Vec::new(), None);
        while at.offset < entries.len() {
            let resident = at.coder.get(entries, &mut at.offset, &mut spare)?;
            let first = places.map_or(resident.place, |(first, _)| first);
            places = Some((first, resident.place));
            spare = resident.numbers;
        }
        places
    }
}
