//! GROUP and LISTGROUP.
//!
//! Counts and marks are exact: an article leaves them in the moment its bytes are overwritten. Source: RFC 3977 sections
//! 6.1.1 and 6.1.2.

use super::source::NewsSource;
use super::window::Window;
use super::{Reader, Selected, failed};
use netnews::decimal::append_decimal;
use netnews::nntp::command::{ARTICLE_NUMBER_MAX, Range};
use netnews::nntp::response::{append_standard, code};
use nntp_io::Output;
use spool::{GroupId, Marks};
use std::io;

/// Numbers that are asked for at once.
const NUMBERS_AT_ONCE: usize = 8192;

impl<S: NewsSource> Reader<S> {
    pub(super) async fn group(&mut self, name: &[u8], out: &mut Output) -> io::Result<()> {
        match self.select(name).await {
            Ok((_, marks)) => append_group(marks, name, out.text()),
            Err(code) => append_standard(out.text(), code),
        }
        Ok(())
    }

    /// Selects a group, or gives the code that says why not; then the old one stays selected.
    async fn select(&mut self, name: &[u8]) -> Result<(GroupId, Marks), u16> {
        let shown = self.view.shows(name);
        if !shown && !self.view.shows_after_login(name) {
            return Err(code::NO_SUCH_GROUP);
        }
        let found = self.source.group(name).await.map_err(|error| failed(&error))?;
        let (group, marks) = found.ok_or(code::NO_SUCH_GROUP)?;
        if !shown {
            return Err(code::AUTHENTICATION_REQUIRED);
        }
        if self.view.is_narrow() {
            let found = self.source.named(group).await.map_err(|error| failed(&error))?;
            let (named, _) = found.ok_or(code::NO_SUCH_GROUP)?;
            let (window, marks) = self.view.window_of(&named);
            return Ok((group, self.selects(group, window, marks)));
        }
        Ok((group, self.selects(group, Window::ALL, marks)))
    }

    /// A group is selected, at the first article that is shown of it. Gives its marks as they are shown.
    fn selects(&mut self, group: GroupId, window: Window, marks: Marks) -> Marks {
        let current = (marks.count > 0).then(|| window.number(marks.low));
        self.selected = Some(Selected { group, window, current });
        marks
    }

    pub(super) async fn list_group(
        &mut self,
        name: Option<&[u8]>,
        range: Option<Range>,
        out: &mut Output,
    ) -> io::Result<()> {
        let result = match name {
            Some(name) => self.select(name).await.map(|(group, marks)| {
                append_group(marks, name, out.text());
                group
            }),
            None => self.reselect(out).await,
        };
        match result {
            Ok(group) => {
                let range = range.unwrap_or(Range { low: 0, high: None });
                self.send_numbers(group, range, out).await
            }
            Err(code) => {
                append_standard(out.text(), code);
                Ok(())
            }
        }
    }

    /// LISTGROUP without a name: the current article becomes the first one again.
    async fn reselect(&mut self, out: &mut Output) -> Result<GroupId, u16> {
        let selected = self.selected.ok_or(code::NO_GROUP_SELECTED)?;
        let found = self.source.named(selected.group).await.map_err(|error| failed(&error))?;
        let (group, _) = found.ok_or(code::NO_GROUP_SELECTED)?;
        let (window, marks) = self.view.window_of(&group);
        let marks = self.selects(selected.group, window, marks);
        append_group(marks, group.name.as_bytes(), out.text());
        Ok(selected.group)
    }

    async fn send_numbers(&self, group: GroupId, range: Range, out: &mut Output) -> io::Result<()> {
        let window = self.window();
        let range = window.range(range);
        let mut numbers = Vec::new();
        let mut from = range.low;
        while from <= range.last() {
            numbers.clear();
            let read = self.source.numbers(group, from..=range.last(), NUMBERS_AT_ONCE, &mut numbers).await;
            if let Err(error) = read {
                failed(&error);
                return Err(io::ErrorKind::Other.into());
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
fn append_group(marks: Marks, name: &[u8], out: &mut Vec<u8>) {
    append_decimal(u64::from(code::GROUP_SELECTED), out);
    for number in [marks.count, marks.low, marks.high] {
        out.push(b' ');
        append_decimal(number, out);
    }
    out.push(b' ');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\r\n");
}
