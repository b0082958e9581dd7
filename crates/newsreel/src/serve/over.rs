//! OVER and XOVER.
//!
//! Rows lie in the spool as they are sent; a huge group goes out piece by piece, each waiting until the client has
//! taken the one before. Source: RFC 3977 section 8.3, RFC 2980 section 2.8.

use super::source::{NewsSource, Place};
use super::{Reader, Span, failed, none_selected, spare};
use netnews::article::content_of;
use netnews::nntp::command::{Range, Select};
use netnews::nntp::response::{append, append_standard, code};
use netnews::overview_row::{Fields, append_fields, append_row};
use netnews::{Article, Known, MessageId};
use nntp_io::Output;
use spool::GroupId;
use std::io;

/// Bytes of rows that are asked for at once.
const ROWS_BYTES_AT_ONCE: usize = 128 << 10;

impl<S: NewsSource> Reader<S> {
    /// `empty` is the code for a range with no article in it: OVER's and XOVER's differ.
    pub(super) async fn over(&mut self, select: Select<'_>, empty: u16, out: &mut Output) -> io::Result<()> {
        let result = match self.span(select) {
            Ok(Span::Numbers(group, range)) => {
                return self.send_rows(group, range, none_selected(select, empty), out).await;
            }
            Ok(Span::One(id)) => self.append_row_of(id, out).await,
            Err(code) => Err(code),
        };
        if let Err(code) = result {
            append_standard(out.text(), code);
        }
        Ok(())
    }

    /// `none` is the answer to a range with no article in it.
    async fn send_rows(
        &self,
        group: GroupId,
        range: Range,
        none: (u16, &str),
        out: &mut Output,
    ) -> io::Result<()> {
        let start = out.text().len();
        append_standard(out.text(), code::OVERVIEW_FOLLOWS);
        let rows_start = out.text().len();
        let mut next = (!range.is_empty()).then_some(range.low);
        let mut first = true;
        while let Some(from) = next {
            match self.rows(group, from..=range.last(), ROWS_BYTES_AT_ONCE, out.text()).await {
                Ok(more) => next = more,
                Err(error) if first => {
                    out.text().truncate(start);
                    append_standard(out.text(), failed(&error));
                    return Ok(());
                }
                Err(error) => {
                    // Rows are on their way: only a broken connection tells the client that some are missing.
                    failed(&error);
                    return Err(io::ErrorKind::Other.into());
                }
            }
            if first && next.is_none() && out.text().len() == rows_start {
                out.text().truncate(start);
                append(out.text(), none.0, none.1);
                return Ok(());
            }
            first = false;
            out.relieve().await?;
        }
        if first {
            out.text().truncate(start);
            append(out.text(), none.0, none.1);
            return Ok(());
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }

    /// The row of an article found by Message-ID has number 0 (RFC 3977 section 8.3.2) and is made from the article.
    async fn append_row_of(&self, id: MessageId<'_>, out: &mut Output) -> Result<(), u16> {
        let mut article = spare::take();
        let found = self.source.article(Place::MessageId(id), &mut article).await;
        let result = match found {
            Ok(true) if self.view.shows_article(article.head()) => {
                let stored = article.article();
                let parsed = Article::parse(stored.strip_suffix(b".\r\n").unwrap_or(stored));
                match (parsed, self.shown_head(article.head()).await) {
                    (Ok(parsed), Ok(head)) => {
                        let xref = content_of(&head, b"Xref").unwrap_or_default();
                        append_standard(out.text(), code::OVERVIEW_FOLLOWS);
                        append_row_from(&parsed, xref, out.text());
                        out.text().extend_from_slice(b".\r\n");
                        Ok(())
                    }
                    _ => Err(code::INTERNAL_FAULT),
                }
            }
            Ok(_) => Err(code::NO_SUCH_ARTICLE),
            Err(error) => Err(failed(&error)),
        };
        spare::give(article);
        result
    }
}

fn append_row_from(article: &Article<'_>, xref: &[u8], out: &mut Vec<u8>) {
    let id = article.header(Known::MessageId).unwrap_or_default().trim_ascii();
    let mut fields = Vec::new();
    append_fields(&Fields::of(article, id), &mut fields);
    append_row(0, &fields, xref, out);
}
