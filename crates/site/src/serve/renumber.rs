//! Articles as they are shown. Sessions that show numbers less a base see them in the Xref of an article's
//! header, in overview rows and in HDR; additional headers in overview rows are sent as LIST OVERVIEW.FMT
//! announces.
//!
//! Each location of an Xref has the window of its group: that of the selection for the selected group, the
//! current one for other groups. A location outside of its group's window is left out. Other sessions do not
//! come here.

use super::news::VisibleNews;
use super::refusal::{Answered, failed};
use super::selection::Selection;
use super::window::NumberWindow;
use netnews::article::Headers;
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::overview_row::{arrange, field, index};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use upstreams::{Answer, NewsSource};

/// Articles of the news as one session shows them.
#[derive(Debug)]
pub(super) struct ShownNews<'r, S: NewsSource> {
    pub news: &'r VisibleNews<S>,
    pub selection: &'r Selection<S::Group>,
}

impl<S: NewsSource> ShownNews<'_, S> {
    /// Returns a number of the selected group as shown.
    pub fn number(&self, number: u64) -> u64 {
        self.selection.window().shown(number)
    }

    /// Appends overview rows of the selected group, as shown, until `limit_bytes` are exceeded; `Some(n)`:
    /// continue at `n`.
    pub async fn rows(
        &self,
        group: &S::Group,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> Answer<Option<u64>> {
        let arranges = self.news.source.rows_have_headers();
        if !self.news.view.is_narrow() && !arranges {
            return self.news.source.over(group, range, limit_bytes, into).await;
        }
        // Boxed, here and below: the state of renumbering would make every session larger.
        Box::pin(async {
            let (mut stored, mut row) = (Vec::new(), Vec::new());
            let next = self.news.source.over(group, range, limit_bytes, &mut stored).await?;
            for stored in stored.split_inclusive(|&b| b == b'\n') {
                let arranged = match arranges {
                    true => {
                        row.clear();
                        arrange(stored, self.news.view.overview_headers(), &mut row);
                        &row[..]
                    }
                    false => stored,
                };
                match self.news.view.is_narrow() {
                    true => self.append_renumbered_row(arranged, into).await?,
                    false => into.extend_from_slice(arranged),
                }
            }
            Ok(next)
        })
        .await
    }

    async fn append_renumbered_row(&self, row: &[u8], out: &mut Vec<u8>) -> Answer<()> {
        let number = field(row, index::NUMBER).unwrap_or_default();
        append_decimal(self.number(parse_decimal(number).unwrap_or_default()), out);
        let rest = row.get(number.len()..).unwrap_or_default();
        let Some(value) = field(row, index::XREF).and_then(|text| text.strip_prefix(b"Xref: ")) else {
            out.extend_from_slice(rest);
            return Ok(());
        };
        let at = value.as_ptr().addr().saturating_sub(rest.as_ptr().addr());
        let before = rest.get(..at.saturating_sub(b"\tXref: ".len())).unwrap_or_default();
        let after = rest.get(at + value.len()..).unwrap_or_default();
        out.extend_from_slice(before);
        let value = self.renumbered(value).await?;
        if !value.is_empty() {
            out.extend_from_slice(b"\tXref: ");
            out.extend_from_slice(&value);
        } else if after.starts_with(b"\t") {
            out.push(b'\t');
        }
        out.extend_from_slice(after);
        Ok(())
    }

    /// Returns the value of an Xref as shown; empty if no location is shown.
    async fn renumbered(&self, value: &[u8]) -> Answer<Vec<u8>> {
        let mut out = Vec::with_capacity(value.len());
        let mut any = false;
        for (at, word) in value.split_inclusive(|b| b.is_ascii_whitespace()).enumerate() {
            let word = word.trim_ascii();
            if at == 0 {
                out.extend_from_slice(word);
            } else if let Some((name, number)) = location(word)
                && let Some(shown) = self.shown_in(name, number).await?
            {
                any = true;
                out.push(b' ');
                out.extend_from_slice(name);
                out.push(b':');
                append_decimal(shown, &mut out);
            }
        }
        if !any {
            out.clear();
        }
        Ok(out)
    }

    /// Returns the number as shown in the group of this name; `None` if it is not shown.
    async fn shown_in(&self, name: &[u8], number: u64) -> Answer<Option<u64>> {
        let window = match self.news.group(name).await? {
            Some((group, marks)) => match self.selection.get() {
                Some(selected) if selected.group == group => selected.window,
                _ => NumberWindow::narrow(marks.high),
            },
            None => NumberWindow::narrow(0),
        };
        Ok(window.shows(number).then(|| window.shown(number)))
    }

    /// Returns the header lines of an article as shown; borrowed if unchanged.
    pub async fn head<'h>(&self, head: &'h [u8]) -> Answered<Cow<'h, [u8]>> {
        if !self.news.view.is_narrow() {
            return Ok(Cow::Borrowed(head));
        }
        let Some((before, value, after)) = around_xref(head) else { return Ok(Cow::Borrowed(head)) };
        let shown = Box::pin(self.renumbered(value)).await.map_err(failed)?;
        Ok(if shown == value {
            Cow::Borrowed(head)
        } else if shown.is_empty() {
            let line = memchr::memrchr(b'\n', before).map_or(0, |lf| lf + 1);
            let after = after.strip_prefix(b"\r\n").unwrap_or(after);
            Cow::Owned([before.get(..line).unwrap_or_default(), after].concat())
        } else {
            Cow::Owned([before, &shown, after].concat())
        })
    }
}

/// Splits a location into group and number.
fn location(word: &[u8]) -> Option<(&[u8], u64)> {
    let colon = memchr::memrchr(b':', word)?;
    Some((word.get(..colon)?, parse_decimal(word.get(colon + 1..)?)?))
}

/// Splits these header lines into the bytes before the value of Xref, the value, and the bytes after it.
fn around_xref(head: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (_, value) = Headers::of(head).find(|(name, _)| name.eq_ignore_ascii_case(b"Xref"))?;
    let start = value.as_ptr().addr().checked_sub(head.as_ptr().addr())?;
    let (before, rest) = head.split_at_checked(start)?;
    let (value, after) = rest.split_at_checked(value.len())?;
    Some((before, value, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_xref_is_found_at_any_position() {
        for head in [
            "Xref: h a:1 b:2\r\nPath: x\r\n",
            "Path: x\r\nxref:h a:1 b:2\r\n",
            "A: b\r\nXREF:  h\r\n a:1\r\n",
        ] {
            let (before, value, after) = around_xref(head.as_bytes()).unwrap();
            assert_eq!([before, value, after].concat(), head.as_bytes());
            assert!(value.starts_with(b"h") && value.trim_ascii().len() == value.len(), "{head}");
            assert!(after.starts_with(b"\r\n"));
        }
        assert!(around_xref(b"Path: x\r\n").is_none());
        assert_eq!(location(b"a.b:22"), Some((&b"a.b"[..], 22)));
        assert_eq!(location(b"a.b:"), None);
        assert_eq!(location(b"a.b"), None);
    }
}
