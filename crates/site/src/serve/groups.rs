//! GROUP and LISTGROUP.
//!
//! Counts and marks are exact: an article leaves them the moment its bytes are overwritten. Source: RFC 3977
//! sections 6.1.1 and 6.1.2.

use super::news::VisibleNews;
use super::refusal::{Answered, cut_off, failed};
use super::selection::{SelectedGroup, Selection};
use netnews::GroupMarks;
use netnews::decimal::append_decimal;
use netnews::nntp::command::{ARTICLE_NUMBER_MAX, NumberRange};
use netnews::nntp::response::code;
use nntp_io::ServerOutput;
use site_base::counters::ServerCounters;
use upstreams::{GroupList, GroupSelection, GroupStream, NewsSource};

/// Maximum number of article numbers requested at once.
const NUMBERS_AT_ONCE: usize = 8192;

/// Commands that select a group.
pub(super) struct GroupCommands<'r, S: NewsSource> {
    pub news: &'r VisibleNews<S>,
    pub selection: &'r mut Selection<S::Group>,
    /// Counters for selections of groups.
    pub counters: Option<&'r ServerCounters>,
}

impl<S: NewsSource> GroupCommands<'_, S> {
    pub async fn group(&mut self, name: &[u8], out: &mut ServerOutput) -> Answered {
        append_group(self.select(name).await?, name, out.text());
        Ok(())
    }

    /// Selects a group, or returns the refusal and leaves the previous one selected. Returns the marks as
    /// shown.
    async fn select(&mut self, name: &[u8]) -> Answered<GroupMarks> {
        let shown = self.news.view.shows(name);
        if !shown && !self.news.view.shows_after_login(name) {
            return Err(code::NO_SUCH_GROUP.into());
        }
        let found = self.news.group(name).await.map_err(failed)?;
        let (group, marks) = found.ok_or(code::NO_SUCH_GROUP)?;
        if !shown {
            return Err(code::AUTHENTICATION_REQUIRED.into());
        }
        self.counters.iter().for_each(|counters| counters.select(name));
        Ok(self.selects(group, marks))
    }

    /// Selects a group, at the first article shown of it. Returns the marks as shown.
    fn selects(&mut self, group: S::Group, marks: GroupMarks) -> GroupMarks {
        let window = self.news.view.window(marks.high);
        let marks = window.shown_marks(marks);
        let current = (marks.count > 0).then(|| window.number(marks.low));
        self.selection.select(SelectedGroup { group, window, current });
        marks
    }

    pub async fn list_group(
        &mut self,
        name: Option<&[u8]>,
        range: Option<NumberRange>,
        out: &mut ServerOutput,
    ) -> Answered {
        let before = self.selection.get().cloned();
        match name {
            Some(name) => append_group(self.select(name).await?, name, out.text()),
            None => self.reselect(out).await?,
        }
        let sent = self.send_numbers(range.unwrap_or(NumberRange { low: 0, high: None }), out).await;
        if sent.is_err() {
            self.selection.restore(before);
        }
        sent
    }

    /// Handles LISTGROUP without a name: the current article becomes the first one again.
    async fn reselect(&mut self, out: &mut ServerOutput) -> Answered {
        let group = self.selection.selected()?.group.clone();
        let groups = self.news.groups(GroupList::Counts, GroupSelection::One(&group)).await;
        let mut groups = groups.map_err(failed)?;
        let info = groups.next(&|_| true).await.map_err(failed)?.ok_or(code::NO_GROUP_SELECTED)?;
        let marks = self.selects(group, info.marks);
        append_group(marks, info.name, out.text());
        Ok(())
    }

    /// Sends the numbers of the selected group.
    async fn send_numbers(&self, range: NumberRange, out: &mut ServerOutput) -> Answered {
        let Some(selected) = self.selection.get() else { return Ok(()) };
        let (group, window) = (&selected.group, selected.window);
        let range = window.range(range);
        let mut numbers = Vec::new();
        let mut from = range.low;
        while from <= range.last() {
            numbers.clear();
            let read =
                self.news.source.numbers(group, from..=range.last(), NUMBERS_AT_ONCE, &mut numbers).await;
            match read {
                Err(error) if from == range.low || !out.is_begun() => return Err(failed(error).into()),
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
