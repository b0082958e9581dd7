//! GROUP and LISTGROUP.
//!
//! Counts and marks are exact: an article leaves them the moment its bytes are overwritten. Source: RFC 3977
//! sections 6.1.1 and 6.1.2.

use super::{CommandRefusal, NewsReader, SelectedGroup, cut_off, failed};
use netnews::GroupMarks;
use netnews::decimal::append_decimal;
use netnews::nntp::command::{ARTICLE_NUMBER_MAX, NumberRange};
use netnews::nntp::response::code;
use nntp_io::ServerOutput;
use std::io;
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource};

/// Maximum number of article numbers requested at once.
const NUMBERS_AT_ONCE: usize = 8192;

impl<S: NewsSource> NewsReader<S> {
    pub(super) async fn group(&mut self, name: &[u8], out: &mut ServerOutput) -> io::Result<()> {
        match self.select(name).await {
            Ok(marks) => append_group(marks, name, out.text()),
            Err(refusal) => refusal.append(out.text()),
        }
        Ok(())
    }

    /// Selects a group, or returns the refusal and leaves the previous one selected. Returns the marks as
    /// shown.
    async fn select(&mut self, name: &[u8]) -> Result<GroupMarks, CommandRefusal> {
        let shown = self.view.shows(name);
        if !shown && !self.view.shows_after_login(name) {
            return Err(code::NO_SUCH_GROUP.into());
        }
        let found = self.source.group(name, self.view.base()).await.map_err(failed)?;
        let (group, marks) = found.ok_or(code::NO_SUCH_GROUP)?;
        if !shown {
            return Err(code::AUTHENTICATION_REQUIRED.into());
        }
        self.counters.iter().for_each(|counters| counters.select(name));
        Ok(self.selects(group, marks))
    }

    /// Selects a group, at the first article shown of it. Returns the marks as shown.
    fn selects(&mut self, group: S::Group, marks: GroupMarks) -> GroupMarks {
        let window = self.view.window(marks.high);
        let marks = window.shown_marks(marks);
        let current = (marks.count > 0).then(|| window.number(marks.low));
        self.selected = Some(SelectedGroup { group, window, current });
        marks
    }

    pub(super) async fn list_group(
        &mut self,
        name: Option<&[u8]>,
        range: Option<NumberRange>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let start = out.text().len();
        let result = match name {
            Some(name) => self.select(name).await.map(|marks| append_group(marks, name, out.text())),
            None => self.reselect(out).await,
        };
        match result {
            Ok(()) => {
                self.send_numbers(range.unwrap_or(NumberRange { low: 0, high: None }), start, out).await
            }
            Err(refusal) => {
                refusal.append(out.text());
                Ok(())
            }
        }
    }

    /// Handles LISTGROUP without a name: the current article becomes the first one again.
    async fn reselect(&mut self, out: &mut ServerOutput) -> Result<(), CommandRefusal> {
        let group = self.selected()?.group.clone();
        let groups =
            self.source.groups(GroupList::Counts, GroupSelection::One(&group), self.view.base()).await;
        let mut groups = groups.map_err(failed)?;
        let info = groups.next(&|_| true).await.map_err(failed)?.ok_or(code::NO_GROUP_SELECTED)?;
        let marks = self.selects(group, info.marks);
        append_group(marks, info.name, out.text());
        Ok(())
    }

    /// Sends the numbers of the selected group; the answer begins at `start`.
    async fn send_numbers(&self, range: NumberRange, start: usize, out: &mut ServerOutput) -> io::Result<()> {
        let Some(selected) = &self.selected else { return Ok(()) };
        let (group, window) = (&selected.group, selected.window);
        let range = window.range(range);
        let mut numbers = Vec::new();
        let mut from = range.low;
        while from <= range.last() {
            numbers.clear();
            let read = self.source.numbers(group, from..=range.last(), NUMBERS_AT_ONCE, &mut numbers).await;
            match read {
                Err(error) if from == range.low => {
                    out.text().truncate(start);
                    failed(error).append(out.text());
                    return Ok(());
                }
                read => read.map_err(cut_off)?,
            }
            let text = out.text();
            for number in &numbers {
                append_decimal(window.shown(*number), text);
                text.extend_from_slice(b"\r\n");
            }
            out.relieve().await?;
            match numbers.last() {
                Some(last) if numbers.len() == NUMBERS_AT_ONCE && *last < ARTICLE_NUMBER_MAX => {
                    from = last + 1
                }
                _ => break,
            }
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }
}

/// Appends `211 count low high name`.
fn append_group(marks: GroupMarks, name: &[u8], out: &mut Vec<u8>) {
    append_decimal(u64::from(code::GROUP_SELECTED), out);
    for number in [marks.count, marks.low, marks.high] {
        out.push(b' ');
        append_decimal(number, out);
    }
    out.push(b' ');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\r\n");
}
