//! ARTICLE, HEAD, BODY, STAT, NEXT, LAST, XPATH.
//!
//! A source returns articles in the form in which they are sent, so an answer is a status line and its bytes,
//! in one write; only the Xref is replaced for a session with other numbers. An article that is still
//! arriving is sent as it arrives. Sources: RFC 3977 sections 6.1.3, 6.1.4 and 6.2, RFC 2980 section 2.15
//! (XPATH).

use super::{CommandRefusal, NewsReader, cut_off, failed, missing, spare};
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

impl<S: NewsSource> NewsReader<S> {
    pub(super) async fn article(
        &mut self,
        which: ArticleSelector<'_>,
        part: ArticlePart,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let mut article = spare::take();
        let fetched = match self.fetch(which, part, &mut article).await {
            Ok((number, rest)) if part != ArticlePart::Body => {
                self.shown_head(article.head()).await.map(|head| (number, rest, head))
            }
            other => other.map(|(number, rest)| (number, rest, Cow::Borrowed(article.head()))),
        };
        let result = match fetched {
            Ok((number, rest, head)) => {
                let code = match part {
                    ArticlePart::Head => code::HEAD_FOLLOWS,
                    ArticlePart::Body => code::BODY_FOLLOWS,
                    ArticlePart::Article | ArticlePart::Counted => code::ARTICLE_FOLLOWS,
                };
                append_found(code, number, article.message_id(), out.text());
                let tail = if part == ArticlePart::Head { END } else { &[] };
                let sent = match head {
                    Cow::Borrowed(_) => out.send(article.part(part), tail).await,
                    Cow::Owned(head) => {
                        out.text().extend_from_slice(&head);
                        let rest = article.part(part).get(article.head().len()..).unwrap_or_default();
                        out.send(rest, tail).await
                    }
                };
                match (sent, rest) {
                    (Ok(()), Some(rest)) if part != ArticlePart::Head => {
                        // The buffer is returned first, as the client may be slow.
                        spare::give(std::mem::take(&mut article));
                        return send_rest(rest, out).await;
                    }
                    (sent, _) => sent,
                }
            }
            Err(refusal) => {
                refusal.append(out.text());
                Ok(())
            }
        };
        spare::give(article);
        result
    }

    /// Reads an article and makes it the current one if it was requested by number. Returns the number to
    /// show and the rest of the article that is still to come, or the refusal.
    async fn fetch(
        &mut self,
        which: ArticleSelector<'_>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Result<(u64, Option<S::Rest>), CommandRefusal> {
        let place = self.place(which)?;
        let rest = match self.source.article(place, part, into).await.map_err(failed)? {
            Fetched::Missing => return Err(missing(which)),
            Fetched::Whole => None,
            Fetched::Begun(rest) => Some(rest),
        };
        match place {
            SourceLocator::Number(_, number) => {
                self.step_to(number);
                Ok((self.window().shown(number), rest))
            }
            SourceLocator::MessageId(_) if self.view.shows_article(into.head()) => Ok((0, rest)),
            SourceLocator::MessageId(_) => Err(missing(which)),
        }
    }

    pub(super) async fn stat(
        &mut self,
        which: ArticleSelector<'_>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let start = out.text().len();
        if let Err(refusal) = self.find(which, out).await {
            out.text().truncate(start);
            refusal.append(out.text());
        }
        Ok(())
    }

    async fn find(
        &mut self,
        which: ArticleSelector<'_>,
        out: &mut ServerOutput,
    ) -> Result<(), CommandRefusal> {
        if let ArticleSelector::MessageId(id) = which {
            if !self.exists(id).await? {
                return Err(missing(which));
            }
            append_found(code::ARTICLE_EXISTS, 0, id.as_bytes(), out.text());
        } else if let SourceLocator::Number(group, number) = self.place(which)? {
            if !self.append_stat(group, number, out).await? {
                return Err(missing(which));
            }
            self.step_to(number);
        }
        Ok(())
    }

    /// Returns true if the article exists and the reader may see it.
    async fn exists(&self, id: MessageId<'_>) -> Result<bool, CommandRefusal> {
        if self.view.is_everything() {
            return self.source.has(id).await.map_err(failed);
        }
        let mut article = spare::take();
        let fetched = self
            .source
            .article(SourceLocator::MessageId(id), ArticlePart::Head, &mut article)
            .await
            .map_err(failed);
        let exists = fetched
            .map(|fetched| !matches!(fetched, Fetched::Missing) && self.view.shows_article(article.head()));
        spare::give(article);
        exists
    }

    /// Appends `223 number message-id`; returns false if there is no such article.
    async fn append_stat(
        &self,
        group: &S::Group,
        number: u64,
        out: &mut ServerOutput,
    ) -> Result<bool, CommandRefusal> {
        let mut row = Vec::new();
        self.source.over(group, number..=number, usize::MAX, &mut row).await.map_err(failed)?;
        let Some(id) = overview_row::field(&row, index::MESSAGE_ID) else { return Ok(false) };
        if !self.source.shows(group, number).await.map_err(failed)? {
            return Ok(false);
        }
        append_found(code::ARTICLE_EXISTS, self.window().shown(number), id, out.text());
        Ok(true)
    }

    pub(super) async fn next(&mut self, out: &mut ServerOutput) -> io::Result<()> {
        self.step(NeighbourSide::Next, code::NO_NEXT_ARTICLE, out).await
    }

    pub(super) async fn last(&mut self, out: &mut ServerOutput) -> io::Result<()> {
        self.step(NeighbourSide::Previous, code::NO_PREVIOUS_ARTICLE, out).await
    }

    async fn step(&mut self, side: NeighbourSide, none: u16, out: &mut ServerOutput) -> io::Result<()> {
        if let Err(refusal) = self.find_neighbour(side, none, out).await {
            refusal.append(out.text());
        }
        Ok(())
    }

    async fn find_neighbour(
        &mut self,
        side: NeighbourSide,
        none: u16,
        out: &mut ServerOutput,
    ) -> Result<(), CommandRefusal> {
        let (group, mut at) = self.current()?;
        loop {
            let neighbour = self.source.neighbour(group, at, side).await.map_err(failed)?;
            at = neighbour.filter(|number| self.window().shows(*number)).ok_or(none)?;
            // An article that has just been overwritten is skipped.
            if self.append_stat(group, at, out).await? {
                self.step_to(at);
                return Ok(());
            }
        }
    }

    pub(super) async fn xpath(&mut self, id: MessageId<'_>, out: &mut ServerOutput) -> io::Result<()> {
        let mut article = spare::take();
        let head = match self.fetch(ArticleSelector::MessageId(id), ArticlePart::Head, &mut article).await {
            Ok(_) => self.shown_head(article.head()).await,
            Err(refusal) => Err(refusal),
        };
        match head {
            Ok(head) => {
                let text = out.text();
                text.extend_from_slice(b"223");
                for (group, number) in xref_places(&head).filter(|(group, _)| self.view.shows(group)) {
                    text.push(b' ');
                    text.extend(group.iter().map(|&b| if b == b'.' { b'/' } else { b }));
                    text.push(b'/');
                    text.extend_from_slice(number);
                }
                text.extend_from_slice(b"\r\n");
            }
            Err(refusal) => refusal.append(out.text()),
        }
        spare::give(article);
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
