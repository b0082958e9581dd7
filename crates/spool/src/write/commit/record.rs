//! Construction of an article's record, row and numbers in memory: nothing is stored here.

use super::naming::FilingArticle;
use super::place::{PlannedPlace, article_bytes, planned};
use super::{CommitScratch, PreparedEntry, SpoolWriter, WriteRun, part, trouble};
use crate::index::change::NewArticle;
use crate::index::fold::PublishContext;
use crate::index::promise::JournalState;
use netnews::newsgroups;
use netnews::overview_row::{OverviewFields, append_fields, append_headers};
use spool_base::error::SpoolTrouble;
use spool_base::limits::{GROUPS_MAX, NUMBER_MAX};
use spool_base::own_bug;
use spool_base::token::Token;
use spool_base::xref::XREF_NAME;
use spool_journal::{ArticleRow, JournalRow, put_numbers};
use spool_methods::Volume;
use spool_methods::cnfs::record::{self, RecordHeader};
use spool_methods::packing::PackedArticle;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Typical length of a group's entry in Xref without its name: a blank, a colon and a number.
const PLACE_BYTES_USUAL: usize = 8;

impl SpoolWriter {
    /// Assigns numbers and the final place to the article of a change, and builds its record and row;
    /// `packed` is the article compressed for its class.
    pub(super) fn put_article(
        &mut self,
        f: &FilingArticle<'_>,
        at: usize,
        packed: Option<&PackedArticle>,
        context: &PublishContext<'_>,
        place: PlannedPlace,
        s: &mut CommitScratch,
    ) -> Result<Token, SpoolTrouble> {
        let volume = &**planned(context.volumes, place.volume)?;
        let arrived = u32::try_from(f.new.arrived).unwrap_or(u32::MAX);
        let expires = f.new.expires.map_or(0, |e| u32::try_from(e).unwrap_or(u32::MAX));
        let numbers = self.give_numbers(f, volume, s)?;
        let token = self.settle(f, place.token, volume, arrived, &numbers, s)?;
        let place = PlannedPlace { token, ..place };
        let texts = self.put_texts(f, context, &numbers, s)?;
        let bytes = self.put_record(f, packed, place, arrived, expires, s)?;
        let stored_bytes = volume.padded(bytes.len());
        self.plan_run(volume, place, bytes, s)?;
        let [xref, fields] = texts;
        let hidden = self.hidden_entry(f, token, arrived, part(&s.numbers, &numbers)?);
        let row_numbers = s.put_row_numbers(&numbers)?;
        let (key, sequence) = (f.key, self.folds.next_sequence);
        let p = PreparedEntry {
            at,
            key,
            token: Some(token),
            arrived,
            expires,
            stored_bytes,
            sequence,
            numbers,
            row_numbers,
            xref,
            fields,
            hidden,
        };
        self.journal.push(&JournalRow::Article(p.row(f.new, place.token, s)?));
        self.folds.next_sequence += 1;
        s.keys.insert(key.0);
        if let Some(second) = f.new.tagged.stands_for() {
            s.keys.insert(second.0);
        }
        s.prepared.push(p);
        Ok(place.token)
    }

    /// Builds an article's Xref value and its overview fields.
    fn put_texts(
        &self,
        f: &FilingArticle<'_>,
        context: &PublishContext<'_>,
        numbers: &Range<usize>,
        s: &mut CommitScratch,
    ) -> Result<[Range<usize>; 2], SpoolTrouble> {
        self.folds.put_xref(context.groups, part(&s.numbers, numbers)?, &mut s.xref);
        let start = s.text.len();
        s.text.extend_from_slice(&s.xref);
        let end = s.text.len();
        let bytes = f.new.fields.bytes + s.xref_line_bytes() as u64;
        append_fields(&OverviewFields { bytes, ..f.new.fields }, &mut s.text);
        self.put_further_headers(f, s);
        if f.groups.is_empty() {
            self.count_unnumbered(f, s.xref.len() + s.text.len() - end);
        }
        Ok([start..end, end..s.text.len()])
    }

    /// Appends the additional overview headers, as they are stored.
    fn put_further_headers(&self, f: &FilingArticle<'_>, s: &mut CommitScratch) {
        let names = &self.folds.overview_headers;
        if names.is_empty() || f.groups.is_empty() {
            return;
        }
        s.head.clear();
        for piece in f.new.pieces {
            let rest = f.new.header_bytes.saturating_sub(s.head.len());
            s.head.extend_from_slice(piece.get(..rest).unwrap_or(piece));
        }
        append_headers(&s.head, names, &mut s.text);
    }

    /// Counts the savings of an article without numbers; `bytes` is the length of its overview fields and our
    /// name.
    fn count_unnumbered(&self, f: &FilingArticle<'_>, bytes: usize) {
        let (mut rows, mut places_bytes) = (0, 0);
        for name in newsgroups::split(f.new.criteria.newsgroups).take(GROUPS_MAX) {
            (rows, places_bytes) = (rows + 1, places_bytes + name.len() + PLACE_BYTES_USUAL);
        }
        let saved = &self.folds.shared.unnumbered;
        saved.articles.fetch_add(1, Ordering::Relaxed);
        saved.rows.fetch_add(rows, Ordering::Relaxed);
        saved.row_bytes.fetch_add(rows * (bytes + places_bytes) as u64, Ordering::Relaxed);
    }

    /// Builds the record in its volume's stage, without padding; returns its range. Its Xref value is in
    /// `s.xref`.
    fn put_record(
        &self,
        f: &FilingArticle<'_>,
        packed: Option<&PackedArticle>,
        place: PlannedPlace,
        arrived: u32,
        expires: u32,
        s: &mut CommitScratch,
    ) -> Result<Range<usize>, SpoolTrouble> {
        let PlannedPlace { token, volume: index } = place;
        let line_bytes = s.xref_line_bytes();
        let data_bytes =
            packed.map_or_else(|| article_bytes(f) as usize + record::END.len(), |p| p.data_bytes());
        let header = RecordHeader {
            data_bytes: (line_bytes + data_bytes) as u32,
            header_bytes: (line_bytes + f.new.header_bytes) as u32,
            place: token.place,
            sequence: self.folds.next_sequence,
            key: f.key,
            arrived,
            expires,
            message_id_at: (line_bytes + f.new.message_id_at) as u32,
            message_id_bytes: f.new.message_id.len() as u16,
            class: token.class,
            packed: packed.is_some(),
        };
        let stage = s.stage.get_mut(index).ok_or_else(|| own_bug!("volume {index} has no stage"))?;
        let start = stage.len();
        header.put(stage);
        if let Some(packed) = packed {
            packed.put_prefix(stage);
        }
        [XREF_NAME, &s.xref, b"\r\n"].iter().for_each(|part| stage.extend_from_slice(part));
        match packed {
            Some(packed) => packed.put_frame(stage),
            None => {
                f.new.pieces.iter().for_each(|p| stage.extend_from_slice(p));
                stage.extend_from_slice(record::END);
            }
        }
        let end = stage.len();
        record::seal(stage.get_mut(start..).ok_or_else(|| own_bug!("no record was made"))?);
        Ok(start..end)
    }

    /// Plans the write of a record, which is the last in its volume's stage.
    fn plan_run(
        &mut self,
        volume: &dyn Volume,
        place: PlannedPlace,
        bytes: Range<usize>,
        s: &mut CommitScratch,
    ) -> Result<(), SpoolTrouble> {
        let PlannedPlace { token, volume: index } = place;
        let padded = volume.padded(bytes.len());
        let head = volume.end_of(token.place, padded);
        let stage = s.stage.get_mut(index).ok_or_else(|| own_bug!("volume {index} has no stage"))?;
        let bytes = bytes.start..bytes.start + padded as usize;
        stage.resize(bytes.end, 0);
        match s.runs.iter_mut().rev().find(|r| r.volume == index) {
            // The end of the area ends a run, even if the record before filled it to the last byte.
            Some(run) if run.end == token.place && volume.joins(token.place) => {
                (run.bytes.end, run.end) = (bytes.end, head);
            }
            _ => s.runs.push(WriteRun { volume: index, place: token.place, end: head, bytes }),
        }
        s.plan_head(index, head)?;
        s.bytes += padded;
        let class = self.classes.get_mut(usize::from(token.class));
        let class = class.ok_or_else(|| own_bug!("class {} is not there", token.class))?;
        class.stored(volume, head, padded);
        Ok(())
    }

    /// Reports whether the numbers that an article brings may be assigned.
    pub(super) fn are_free(&self, f: &FilingArticle<'_>) -> bool {
        f.groups.iter().zip(f.numbers).all(|(group, number)| {
            let assigned = self.folds.numbers.get(group.0 as usize).map_or(0, |n| n.assigned);
            *number == 0 || (*number > assigned && *number <= NUMBER_MAX)
        })
    }

    /// Assigns numbers, skipping any whose name in a tree belongs to a file that no index knows.
    fn give_numbers(
        &mut self,
        f: &FilingArticle<'_>,
        volume: &dyn Volume,
        s: &mut CommitScratch,
    ) -> Result<Range<usize>, SpoolTrouble> {
        let start = s.numbers.len();
        let set = self.journal.sync_set();
        let journal =
            JournalState { synced: set.synced(), syncs: set.syncs(), end: self.journal.pushed_end() };
        for (at, group) in f.groups.iter().enumerate() {
            let Some(numbers) = self.folds.numbers.get_mut(group.0 as usize) else {
                return Err(own_bug!("group {} was never made", group.0));
            };
            if let Some(number) = f.numbers.get(at).filter(|number| **number > 0) {
                numbers.assigned = number - 1;
            }
            let mut given = numbers.next(journal);
            let free = volume.retained().map_or(Ok(given.number), |volume| {
                let free = volume.free_number(*group, given.number, f.key, at == 0);
                free.map_err(|e| trouble("look at a name in", &e))
            })?;
            if free > given.number {
                self.folds.shared.passed_over.fetch_add(free - given.number, Ordering::Relaxed);
                s.promises.extend(given.promise.map(|upto| (*group, upto)));
                s.sync_first |= given.sync_first;
                numbers.assigned = free - 1;
                given = numbers.next(journal);
            }
            s.promises.extend(given.promise.map(|upto| (*group, upto)));
            s.sync_first |= given.sync_first;
            s.numbers.push((*group, given.number));
        }
        Ok(start..s.numbers.len())
    }
}

impl PreparedEntry {
    /// Returns the row of the article.
    #[inline]
    pub(super) fn row<'r>(
        &self,
        new: &NewArticle<'r>,
        token: Token,
        s: &'r CommitScratch,
    ) -> Result<ArticleRow<'r>, SpoolTrouble> {
        Ok(ArticleRow {
            sequence: self.sequence,
            key: self.key,
            token,
            stored_bytes: self.stored_bytes,
            arrived: self.arrived,
            expires: self.expires,
            message_id: new.message_id,
            fields: part(&s.text, &self.fields)?,
            numbers: part(&s.row_numbers, &self.row_numbers)?,
            tagged: new.tagged,
        })
    }
}

impl CommitScratch {
    /// Appends numbers as article rows have them; returns their range.
    #[inline]
    fn put_row_numbers(&mut self, numbers: &Range<usize>) -> Result<Range<usize>, SpoolTrouble> {
        let start = self.row_numbers.len();
        put_numbers(part(&self.numbers, numbers)?, &mut self.row_numbers);
        Ok(start..self.row_numbers.len())
    }

    /// Returns the length of the Xref line whose value is being prepared.
    fn xref_line_bytes(&self) -> usize {
        XREF_NAME.len() + self.xref.len() + 2
    }
}
