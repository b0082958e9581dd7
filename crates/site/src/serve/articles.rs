//! ARTICLE, HEAD, BODY, STAT, NEXT, LAST, XPATH.
//!
//! A source returns articles in the form in which they are sent, so an answer is a status line and its bytes,
//! in one write; only the Xref is replaced for a session with other numbers. An article that is still
//! arriving is sent as it arrives. Sources: RFC 3977 sections 6.1.3, 6.1.4 and 6.2, RFC 2980 section 2.15
//! (XPATH).

use super::news::VisibleNews;
use super::refusal::{Answered, cut_off, failed, missing};
use super::renumber::ShownNews;
use super::selection::Selection;
use super::spare::SpareArticle;
use netnews::MessageId;
use netnews::article::xref_places;
use netnews::decimal::append_decimal;
use netnews::nntp::command::ArticleSelector;
use netnews::nntp::response::code;
use netnews::overview_row::{self, index};
use nntp_io::ServerOutput;
use std::borrow::Cow;
use std::io;
use upstreams::{ArticleBytes, ArticlePart, Fetched, NeighbourSide, NewsSource, Remainder, SourceLocator};

/// The line that ends a multi-line block.
const END: &[u8] = b".\r\n";

/// Commands on single articles.
pub(super) struct ArticleCommands<'r, S: NewsSource> {
    pub news: &'r VisibleNews<S>,
    pub selection: &'r mut Selection<S::Group>,
}

impl<S: NewsSource> ArticleCommands<'_, S> {
    /// Returns the header lines of an article as shown; borrowed if unchanged.
    async fn shown_head<'h>(&self, head: &'h [u8]) -> Answered<Cow<'h, [u8]>> {
        ShownNews { news: self.news, selection: self.selection }.head(head).await
    }

    pub async fn article(
        &mut self,
        which: ArticleSelector<'_>,
        part: ArticlePart,
        out: &mut ServerOutput,
    ) -> Answered {
        let mut article = SpareArticle::take();
        let (number, rest) = self.fetch(which, part, &mut article).await?;
        let head = match part {
            ArticlePart::Body => Cow::Borrowed(article.head()),
            _ => self.shown_head(article.head()).await?,
        };
        let code = match part {
            ArticlePart::Head => code::HEAD_FOLLOWS,
            ArticlePart::Body => code::BODY_FOLLOWS,
            ArticlePart::Article | ArticlePart::Counted => code::ARTICLE_FOLLOWS,
        };
        append_found(code, number, article.message_id(), out.text());
        let tail = if part == ArticlePart::Head { END } else { &[] };
        match head {
            Cow::Borrowed(_) => out.send(article.part(part), tail).await?,
            Cow::Owned(head) => {
                out.text().extend_from_slice(&head);
                let rest = article.part(part).get(article.head().len()..).unwrap_or_default();
                out.send(rest, tail).await?;
            }
        }
        match rest {
            Some(rest) if part != ArticlePart::Head => {
                // The buffer is returned first, as the client may be slow.
                drop(article);
                Ok(send_rest(rest, out).await?)
            }
            _ => Ok(()),
        }
    }

    /// Reads an article and makes it the current one if it was requested by number. Returns the number to
    /// show and the rest of the article that is still to come, or the refusal.
    async fn fetch(
        &mut self,
        which: ArticleSelector<'_>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Answered<(u64, Option<S::Rest>)> {
        let place = self.selection.place(which)?;
        let rest = match self.news.source.article(place, part, into).await.map_err(failed)? {
            Fetched::Missing => return Err(missing(which).into()),
            Fetched::Whole => None,
            Fetched::Begun(rest) => Some(rest),
        };
        match place {
            SourceLocator::Number(_, number) => {
                self.selection.step_to(number);
                Ok((self.selection.window().shown(number), rest))
            }
            SourceLocator::MessageId(_) if self.news.view.shows_article(into.head()) => Ok((0, rest)),
            SourceLocator::MessageId(_) => Err(missing(which).into()),
        }
    }

    pub async fn stat(&mut self, which: ArticleSelector<'_>, out: &mut ServerOutput) -> Answered {
        if let ArticleSelector::MessageId(id) = which {
            if !self.news.exists(id).await.map_err(failed)? {
                return Err(missing(which).into());
            }
            append_found(code::ARTICLE_EXISTS, 0, id.as_bytes(), out.text());
        } else if let SourceLocator::Number(group, number) = self.selection.place(which)? {
            if !self.append_stat(group, number, out).await? {
                return Err(missing(which).into());
            }
            self.selection.step_to(number);
        }
        Ok(())
    }

    /// Appends `223 number message-id`; returns false if there is no such article.
    async fn append_stat(&self, group: &S::Group, number: u64, out: &mut ServerOutput) -> Answered<bool> {
        let mut row = Vec::new();
        self.news.source.over(group, number..=number, usize::MAX, &mut row).await.map_err(failed)?;
        let Some(id) = overview_row::field(&row, index::MESSAGE_ID) else { return Ok(false) };
        if !self.news.source.shows(group, number).await.map_err(failed)? {
            return Ok(false);
        }
        append_found(code::ARTICLE_EXISTS, self.selection.window().shown(number), id, out.text());
        Ok(true)
    }

    pub async fn next(&mut self, out: &mut ServerOutput) -> Answered {
        self.step(NeighbourSide::Next, code::NO_NEXT_ARTICLE, out).await
    }

    pub async fn last(&mut self, out: &mut ServerOutput) -> Answered {
        self.step(NeighbourSide::Previous, code::NO_PREVIOUS_ARTICLE, out).await
    }

    async fn step(&mut self, side: NeighbourSide, none: u16, out: &mut ServerOutput) -> Answered {
        let (group, mut at) = self.selection.current()?;
        loop {
            let neighbour = self.news.source.neighbour(group, at, side).await.map_err(failed)?;
            at = neighbour.filter(|number| self.selection.window().shows(*number)).ok_or(none)?;
            // An article that has just been overwritten is skipped.
            if self.append_stat(group, at, out).await? {
                self.selection.step_to(at);
                return Ok(());
            }
        }
    }

    pub async fn xpath(&mut self, id: MessageId<'_>, out: &mut ServerOutput) -> Answered {
        let mut article = SpareArticle::take();
        self.fetch(ArticleSelector::MessageId(id), ArticlePart::Head, &mut article).await?;
        let head = self.shown_head(article.head()).await?;
        let text = out.text();
        text.extend_from_slice(b"223");
        for (group, number) in xref_places(&head).filter(|(group, _)| self.news.view.shows(group)) {
            text.push(b' ');
            text.extend(group.iter().map(|&b| if b == b'.' { b'/' } else { b }));
            text.push(b'/');
            text.extend_from_slice(number);
        }
        text.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Sends the rest of an article as it arrives.
async fn send_rest(mut rest: impl Remainder, out: &mut ServerOutput) -> io::Result<()> {
    out.flush().await?;
    while let Some(parts) = rest.next().await.map_err(cut_off)? {
        out.send_all(parts).await?;
    }
    Ok(())
}

/// Appends `code number message-id`.
fn append_found(code: u16, number: u64, id: &[u8], out: &mut Vec<u8>) {
    append_decimal(u64::from(code), out);
    out.push(b' ');
    append_decimal(number, out);
    out.push(b' ');
    out.extend_from_slice(id);
    out.extend_from_slice(b"\r\n");
}
