//! The sender of OVER, HDR and their older forms: a line for each article of a range, or for one article
//! found by Message-ID.
//!
//! The lines of a huge group are sent piece by piece, each after the client has taken the previous one. As
//! long as there is no line, a refusal may still replace the answer. Sources: RFC 3977 sections 8.3 and 8.5.

use super::hdr::HeaderRequest;
use super::over;
use super::refusal::{Answered, cut_off, failed, none_selected};
use super::renumber::ShownNews;
use super::selection::{ArticleSelection, RangeProgress};
use super::spare::SpareArticle;
use netnews::nntp::command::{NumberRange, RangeSelector};
use netnews::nntp::response::{append_standard, code};
use netnews::{Article, MessageId};
use nntp_io::ServerOutput;
use upstreams::{Answer, ArticlePart, NewsSource};

/// The content of the lines.
pub(super) enum RangeQuery<'q> {
    /// Overview rows; the code is for a range with no article in it, in which OVER and XOVER differ.
    Overview { empty: u16 },
    /// A header field.
    Header(HeaderRequest<'q>),
}

impl RangeQuery<'_> {
    /// Answers the command for the articles that it selects.
    pub async fn answer<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        select: RangeSelector<'_>,
        out: &mut ServerOutput,
    ) -> Answered {
        append_standard(out.text(), self.follows());
        match shown.selection.span(select)? {
            ArticleSelection::Numbers(group, range) => {
                let any = self.send_range(shown, &group, range, out).await?;
                if let Some(empty) = self.empty().filter(|_| !any) {
                    return Err(none_selected(select, empty).into());
                }
            }
            ArticleSelection::One(id) => self.append_one(shown, id, out.text()).await?,
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }

    fn follows(&self) -> u16 {
        match self {
            Self::Overview { .. } => code::OVERVIEW_FOLLOWS,
            Self::Header(request) => request.follows(),
        }
    }

    /// Returns the code for a range with no article in it; `None`: the answer is empty then.
    fn empty(&self) -> Option<u16> {
        match self {
            Self::Overview { empty } => Some(*empty),
            Self::Header(request) => request.empty(),
        }
    }

    /// Sends the lines of a range; returns true if it has articles.
    async fn send_range<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        group: &S::Group,
        range: NumberRange,
        out: &mut ServerOutput,
    ) -> Answered<bool> {
        let mut next = (!range.is_empty()).then_some(range.low);
        let mut any = false;
        while let Some(low) = next {
            let step = match self.append_some(shown, group, NumberRange { low, ..range }, out.text()).await {
                Ok(step) => step,
                Err(error) if !any || !out.is_begun() => return Err(failed(error).into()),
                Err(error) => return Err(cut_off(error).into()),
            };
            any |= step.any;
            next = step.next;
            if step.is_short && next.is_some() {
                out.flush().await?;
            } else if any {
                out.pause().await?;
            } else {
                out.search_on().await?;
            }
        }
        Ok(any)
    }

    /// Appends the lines of the first articles of a range.
    async fn append_some<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        group: &S::Group,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        match self {
            Self::Overview { .. } => over::append_rows(shown, group, range, out).await,
            Self::Header(request) => request.append_some(shown, group, range, out).await,
        }
    }

    /// Appends the line of the article with this Message-ID.
    async fn append_one<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        id: MessageId<'_>,
        out: &mut Vec<u8>,
    ) -> Answered {
        let mut article = SpareArticle::take();
        let part = match self {
            Self::Overview { .. } => ArticlePart::Counted,
            Self::Header(request) => request.part(),
        };
        shown.news.whole(id, part, &mut article).await?;
        let (head, stored) = (shown.head(article.head()).await?, article.article());
        match self {
            Self::Overview { .. } => {
                let parsed = Article::parse(stored.strip_suffix(b".\r\n").unwrap_or(stored));
                let parsed = parsed.map_err(|_| code::INTERNAL_FAULT)?;
                over::append_row_from(&parsed, &head, shown.news.view.overview_headers(), out);
            }
            Self::Header(request) => request.append_one(id, &head, stored, out),
        }
        Ok(())
    }
}
