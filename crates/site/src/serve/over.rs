//! OVER and XOVER.
//!
//! A source returns rows in the form in which they are sent; the rows of a huge group are sent piece by
//! piece, each after the client has taken the previous one. Source: RFC 3977 section 8.3, RFC 2980 section
//! 2.8.

use super::{ArticleSelection, CommandRefusal, NewsReader, cut_off, failed, none_selected, spare};
use netnews::article::content_of;
use netnews::nntp::command::{NumberRange, RangeSelector};
use netnews::nntp::response::{append_standard, code};
use netnews::overview_row::{OverviewFields, append_fields, append_headers, append_row, arrange};
use netnews::{Article, Known, MessageId};
use nntp_io::ServerOutput;
use std::io;
use upstreams::{ArticleBytes, ArticlePart, Fetched, NewsSource, SourceLocator};

/// Bytes of rows requested at once.
const ROWS_BYTES_AT_ONCE: usize = 128 << 10;

impl<S: NewsSource> NewsReader<S> {
    /// Answers OVER or XOVER; `empty` is the code for a range with no article in it, in which they differ.
    pub(super) async fn over(
        &mut self,
        select: RangeSelector<'_>,
        empty: u16,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let result = match self.span(select) {
            Ok(ArticleSelection::Numbers(group, range)) => {
                return self.send_rows(&group, range, none_selected(select, empty), out).await;
            }
            Ok(ArticleSelection::One(id)) => self.append_row_of(id, out).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = result {
            refusal.append(out.text());
        }
        Ok(())
    }

    /// Sends the rows of a range; `none` is the answer if it has no article.
    async fn send_rows(
        &self,
        group: &S::Group,
        range: NumberRange,
        none: CommandRefusal,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let start = out.text().len();
        append_standard(out.text(), code::OVERVIEW_FOLLOWS);
        let mut next = (!range.is_empty()).then_some(range.low);
        let mut any = false;
        while let Some(from) = next {
            let before = out.text().len();
            match self.rows(group, from..=range.last(), ROWS_BYTES_AT_ONCE, out.text()).await {
                Ok(more) => next = more,
                Err(error) if !any => {
                    out.text().truncate(start);
                    failed(error).append(out.text());
                    return Ok(());
                }
                Err(error) => return Err(cut_off(error)),
            }
            let added = out.text().len() - before;
            any |= added > 0;
            if next.is_some() && (1..ROWS_BYTES_AT_ONCE).contains(&added) {
                // The source must wait for more rows.
                out.flush().await?;
            } else if any {
                out.pause().await?;
            }
        }
        if !any {
            out.text().truncate(start);
            none.append(out.text());
            return Ok(());
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }

    /// Appends the row of an article found by Message-ID, made from the article; its number is 0 (RFC 3977
    /// section 8.3.2).
    async fn append_row_of(&self, id: MessageId<'_>, out: &mut ServerOutput) -> Result<(), CommandRefusal> {
        let mut article = spare::take();
        let result = match self.whole(id, ArticlePart::Counted, &mut article).await {
            Ok(()) => {
                let stored = article.article();
                let parsed = Article::parse(stored.strip_suffix(b".\r\n").unwrap_or(stored));
                match (parsed, self.shown_head(article.head()).await) {
                    (Ok(parsed), Ok(head)) => {
                        let xref = content_of(&head, b"Xref").unwrap_or_default();
                        append_standard(out.text(), code::OVERVIEW_FOLLOWS);
                        append_row_from(&parsed, xref, self.view.overview_headers(), out.text());
                        out.text().extend_from_slice(b".\r\n");
                        Ok(())
                    }
                    (Err(_), _) => Err(code::INTERNAL_FAULT.into()),
                    (_, Err(refusal)) => Err(refusal),
                }
            }
            Err(refusal) => Err(refusal),
        };
        spare::give(article);
        result
    }

    /// Reads this part of an article, if the reader may see it, and waits until it is complete.
    pub(super) async fn whole(
        &self,
        id: MessageId<'_>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Result<(), CommandRefusal> {
        let rest =
            match self.source.article(SourceLocator::MessageId(id), part, into).await.map_err(failed)? {
                Fetched::Missing => return Err(code::NO_SUCH_ARTICLE.into()),
                Fetched::Whole => None,
                Fetched::Begun(rest) => Some(rest),
            };
        if !self.view.shows_article(into.head()) {
            return Err(code::NO_SUCH_ARTICLE.into());
        }
        match rest {
            Some(rest) if part != ArticlePart::Head => into.complete(rest).await.map_err(failed),
            _ => Ok(()),
        }
    }
}

fn append_row_from(article: &Article<'_>, xref: &[u8], headers: &[String], out: &mut Vec<u8>) {
    let id = article.header(Known::MessageId).unwrap_or_default().trim_ascii();
    let (mut fields, mut row) = (Vec::new(), Vec::new());
    append_fields(&OverviewFields::of(article, id), &mut fields);
    append_headers(article.head(), headers, &mut fields);
    append_row(0, &fields, xref, &mut row);
    arrange(&row, headers, out);
}
