//! ARTICLE, HEAD, BODY, STAT, NEXT, LAST, XPATH.
//!
//! Articles are stored as they are sent, so an answer is a status line and bytes from the spool, in one write; only the
//! Xref of a session with other numbers is put in anew. Source:
//! RFC 3977 sections 6.1.3, 6.1.4 and 6.2, RFC 2980 section 2.15 (XPATH).

use super::source::{NewsSource, Place, Side};
use super::{Reader, failed, located, missing, spare};
use netnews::MessageId;
use netnews::article::xref_places;
use netnews::decimal::append_decimal;
use netnews::nntp::command::Which;
use netnews::nntp::response::{append_standard, code};
use netnews::overview_row::{self, index};
use nntp_io::Output;
use spool::{ArticleBuf, GroupId, Part};
use std::borrow::Cow;
use std::io;

/// Bytes of a final line that ends a multi-line block.
const END: &[u8] = b".\r\n";

impl<S: NewsSource> Reader<S> {
    pub(super) async fn article(&mut self, which: Which<'_>, part: Part, out: &mut Output) -> io::Result<()> {
        let mut article = spare::take();
        let fetched = match self.fetch(which, &mut article).await {
            Ok(number) if part != Part::Body => {
                self.shown_head(article.head()).await.map(|head| (number, head))
            }
            other => other.map(|number| (number, Cow::Borrowed(article.head()))),
        };
        let result = match fetched {
            Ok((number, head)) => {
                let code = match part {
                    Part::Head => code::HEAD_FOLLOWS,
                    Part::Body => code::BODY_FOLLOWS,
                    Part::Article | Part::Stat => code::ARTICLE_FOLLOWS,
                };
                append_found(code, number, article.message_id(), out.text());
                let tail = if part == Part::Head { END } else { &[] };
                match head {
                    Cow::Borrowed(_) => out.send(article.part(part), tail).await,
                    Cow::Owned(head) => {
                        out.text().extend_from_slice(&head);
                        let rest = article.part(part).get(article.head().len()..).unwrap_or_default();
                        out.send(rest, tail).await
                    }
                }
            }
            Err(code) => {
                append_standard(out.text(), code);
                Ok(())
            }
        };
        spare::give(article);
        result
    }

    /// Reads an article and makes it the current one if it was asked for by number. Gives the number to show, or the code
    /// that says why not.
    async fn fetch(&mut self, which: Which<'_>, into: &mut ArticleBuf) -> Result<u64, u16> {
        let place = located(self, which)?;
        match self.source.article(place, into).await {
            Ok(true) => {}
            Ok(false) => return Err(missing(which)),
            Err(error) => return Err(failed(&error)),
        }
        match place {
            Place::Number(_, number) => {
                self.step_to(number);
                Ok(self.window().shown(number))
            }
            Place::MessageId(_) if self.view.shows_article(into.head()) => Ok(0),
            Place::MessageId(_) => Err(missing(which)),
        }
    }

    pub(super) async fn stat(&mut self, which: Which<'_>, out: &mut Output) -> io::Result<()> {
        let start = out.text().len();
        if let Err(code) = self.find(which, out).await {
            out.text().truncate(start);
            append_standard(out.text(), code);
        }
        Ok(())
    }

    async fn find(&mut self, which: Which<'_>, out: &mut Output) -> Result<(), u16> {
        match located(self, which)? {
            Place::Number(group, number) => {
                if !self.append_stat(group, number, out).await? {
                    return Err(missing(which));
                }
                self.step_to(number);
            }
            Place::MessageId(id) if self.view.is_everything() => {
                if !self.source.has(id).await.map_err(|error| failed(&error))? {
                    return Err(missing(which));
                }
                append_found(code::ARTICLE_EXISTS, 0, id.as_bytes(), out.text());
            }
            Place::MessageId(id) => {
                let mut article = spare::take();
                let fetched = self.fetch(which, &mut article).await;
                spare::give(article);
                append_found(code::ARTICLE_EXISTS, fetched?, id.as_bytes(), out.text());
            }
        }
        Ok(())
    }

    /// Appends `223 number message-id`; false if there is no such article.
    async fn append_stat(&self, group: GroupId, number: u64, out: &mut Output) -> Result<bool, u16> {
        let mut row = Vec::new();
        let read = self.source.over(group, number..=number, usize::MAX, &mut row).await;
        read.map_err(|error| failed(&error))?;
        let Some(id) = overview_row::field(&row, index::MESSAGE_ID) else { return Ok(false) };
        append_found(code::ARTICLE_EXISTS, self.window().shown(number), id, out.text());
        Ok(true)
    }

    pub(super) async fn next(&mut self, out: &mut Output) -> io::Result<()> {
        self.step(Side::Next, code::NO_NEXT_ARTICLE, out).await
    }

    pub(super) async fn last(&mut self, out: &mut Output) -> io::Result<()> {
        self.step(Side::Previous, code::NO_PREVIOUS_ARTICLE, out).await
    }

    async fn step(&mut self, side: Side, none: u16, out: &mut Output) -> io::Result<()> {
        if let Err(code) = self.find_neighbour(side, none, out).await {
            append_standard(out.text(), code);
        }
        Ok(())
    }

    async fn find_neighbour(&mut self, side: Side, none: u16, out: &mut Output) -> Result<(), u16> {
        let (group, mut at) = self.current()?;
        loop {
            let neighbour = self.source.neighbour(group, at, side).await;
            let neighbour = neighbour.map_err(|error| failed(&error))?;
            at = neighbour.filter(|number| self.window().shows(*number)).ok_or(none)?;
            // One that is overwritten at this very moment is passed over.
            if self.append_stat(group, at, out).await? {
                self.step_to(at);
                return Ok(());
            }
        }
    }

    pub(super) async fn xpath(&mut self, id: MessageId<'_>, out: &mut Output) -> io::Result<()> {
        let mut article = spare::take();
        let head = match self.fetch(Which::MessageId(id), &mut article).await {
            Ok(_) => self.shown_head(article.head()).await,
            Err(code) => Err(code),
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
            Err(code) => append_standard(out.text(), code),
        }
        spare::give(article);
        Ok(())
    }
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
