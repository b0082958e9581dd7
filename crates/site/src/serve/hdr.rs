//! HDR, XHDR, XPAT and XROVER: one header field of many articles.
//!
//! Fields in the overview are taken from there; any other header field is read from each article, as is an
//! additional overview field where a row is older than its configuration. Sources: RFC 3977 section 8.5, RFC
//! 2980 sections 2.6, 2.9 and 2.11.

use super::ReaderView;
use super::renumber::ShownNews;
use super::selection::RangeProgress;
use super::spare::SpareArticle;
use netnews::article::content_of;
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::nntp::command::{ARTICLE_NUMBER_MAX, NumberRange, words};
use netnews::nntp::response::code;
use netnews::overview_row::{append_value, field, further, index};
use netnews::{Article, MessageId, Wildmat};
use nntp_io::TimeSlice;
use upstreams::{Answer, ArticlePart, Fetched, HeaderLines, NewsSource, SourceLocator};

/// Bytes of overview rows read at once.
const ROWS_BYTES_AT_ONCE: usize = 64 << 10;
/// Articles read for one header field before output is sent.
const ARTICLES_AT_ONCE: usize = 64;
/// Bytes of a value that are compared with a pattern, as the cost of matching grows with both.
const COMPARED_BYTES_MAX: usize = 16 << 10;

/// The requesting command; they differ in codes and in what stands for a missing header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HdrVariant {
    Hdr,
    Xhdr,
    Xpat,
    Xrover,
}

/// The place from which a header's value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderSource<'a> {
    /// This field of the overview row.
    Overview(usize),
    /// The overview row if it has the field, else the article.
    Further(&'a [u8]),
    /// The article.
    Article(&'a [u8]),
}

/// A request for a header field.
pub(super) struct HeaderRequest<'a> {
    form: HdrVariant,
    column: HeaderSource<'a>,
    filter: Option<Wildmat>,
}

impl<'a> HeaderSource<'a> {
    /// Returns the column of a header; `None` for an unknown metadata item. `further` are the additional
    /// headers in rows.
    pub fn of(name: &'a [u8], form: HdrVariant, further: &[String]) -> Option<Self> {
        const FROM_OVERVIEW: &[(&[u8], usize)] = &[
            (b"Subject", index::SUBJECT),
            (b"From", index::FROM),
            (b"Date", index::DATE),
            (b"Message-ID", index::MESSAGE_ID),
            (b"References", index::REFERENCES),
            (b":bytes", index::BYTES),
            (b":lines", index::LINES),
            (b"Xref", index::XREF),
        ];
        // Former name in overviews; there is no such header field.
        const COUNTED: &[(&[u8], usize)] = &[(b"Bytes", index::BYTES)];
        let counted = if form == HdrVariant::Hdr { &[] } else { COUNTED };
        let known = FROM_OVERVIEW.iter().chain(counted).find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some((_, index)) => Some(Self::Overview(*index)),
            None if name.starts_with(b":") => None,
            None if further.iter().any(|kept| kept.as_bytes().eq_ignore_ascii_case(name)) => {
                Some(Self::Further(name))
            }
            None => Some(Self::Article(name)),
        }
    }

    /// Returns true if overview rows have it.
    pub fn is_in_rows(self) -> bool {
        matches!(self, Self::Overview(_) | Self::Further(_))
    }

    /// Returns the value in an overview row.
    fn in_row(self, row: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Overview(index::XREF) => {
                field(row, index::XREF).and_then(|text| text.strip_prefix(b"Xref: "))
            }
            Self::Overview(index) => field(row, index).filter(|value| !value.is_empty()),
            Self::Further(_) | Self::Article(_) => None,
        }
    }
}

impl<'a> HeaderRequest<'a> {
    /// Returns the request of HDR, XHDR or XROVER; `None` for an unknown metadata item.
    pub fn of(form: HdrVariant, name: &'a [u8], view: &ReaderView) -> Option<Self> {
        Some(Self { form, column: HeaderSource::of(name, form, view.overview_headers())?, filter: None })
    }

    /// Returns the request of XPAT; `None` if its arguments are invalid.
    pub fn matching(name: &'a [u8], patterns: &[u8], view: &ReaderView) -> Option<Self> {
        // Several words form one pattern with single spaces (RFC 2980 section 2.9).
        let pattern = words(patterns).collect::<Vec<_>>().join(&b' ');
        let request = Self::of(HdrVariant::Xpat, name, view)?;
        Some(Self { filter: Some(Wildmat::parse_one(&pattern).ok()?), ..request })
    }

    /// Returns the code of its answer.
    pub fn follows(&self) -> u16 {
        match self.form {
            HdrVariant::Hdr => code::HDR_FOLLOWS,
            HdrVariant::Xhdr | HdrVariant::Xpat => code::HEAD_FOLLOWS,
            HdrVariant::Xrover => code::OVERVIEW_FOLLOWS,
        }
    }

    /// Returns the code for a range with no article in it. XPAT has none: it returns an empty list (RFC 2980
    /// section 2.9).
    pub fn empty(&self) -> Option<u16> {
        match self.form {
            HdrVariant::Hdr => Some(code::NO_SUCH_NUMBER),
            HdrVariant::Xhdr | HdrVariant::Xrover => Some(code::NO_CURRENT_ARTICLE),
            HdrVariant::Xpat => None,
        }
    }

    /// Returns the part of an article that must be read.
    pub fn part(&self) -> ArticlePart {
        match self.column {
            HeaderSource::Overview(index::BYTES | index::LINES) => ArticlePart::Counted,
            _ => ArticlePart::Head,
        }
    }

    /// Appends `label value`, if it passes the filter.
    fn append(&self, label: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(label);
        out.push(b' ');
        let value_at = out.len();
        match value {
            Some(value) => append_value(value, out),
            None if matches!(self.form, HdrVariant::Hdr | HdrVariant::Xrover) => {}
            None => out.extend_from_slice(b"(none)"),
        }
        let shown = out.get(value_at..).unwrap_or_default();
        let shown = shown.get(..COMPARED_BYTES_MAX).unwrap_or(shown);
        if self.filter.as_ref().is_some_and(|filter| value.is_none() || !filter.matches(shown)) {
            out.truncate(start);
        } else {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends the values of the first articles of a range.
    pub async fn append_some<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        group: &S::Group,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        match self.column {
            HeaderSource::Overview(_) => self.step_by_overview(shown, group, range, out).await,
            HeaderSource::Further(name) => self.step_by_either(shown, name, group, range, out).await,
            HeaderSource::Article(name) => self.step_by_articles(shown, name, group, range, out).await,
        }
    }

    async fn step_by_overview<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        group: &S::Group,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        let mut rows = Vec::new();
        let next = shown.rows(group, range.low..=range.last(), ROWS_BYTES_AT_ONCE, &mut rows).await?;
        let mut slice = TimeSlice::default();
        for row in rows.split_inclusive(|&b| b == b'\n') {
            if self.filter.is_some() {
                slice.pause().await;
            }
            self.append(field(row, index::NUMBER).unwrap_or_default(), self.column.in_row(row), out);
        }
        let is_short = (1..ROWS_BYTES_AT_ONCE).contains(&rows.len());
        Ok(RangeProgress { any: !rows.is_empty(), next, is_short })
    }

    /// Handles the rows up to the first without the field, or the articles up to the first row with it.
    async fn step_by_either<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        name: &[u8],
        group: &S::Group,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        let mut rows = Vec::new();
        let after =
            shown.news.source.over(group, range.low..=range.last(), ROWS_BYTES_AT_ONCE, &mut rows).await?;
        let (mut any, mut unknown, mut label) = (false, None, Vec::new());
        for row in rows.split_inclusive(|&b| b == b'\n') {
            let number = field(row, index::NUMBER).and_then(parse_decimal).unwrap_or_default();
            match further(row, name) {
                Some(_) if unknown.is_some() => break,
                Some(value) => {
                    label.clear();
                    append_decimal(shown.number(number), &mut label);
                    self.append(&label, Some(value).filter(|value| !value.is_empty()), out);
                    any = true;
                }
                None if any => return Ok(RangeProgress { any, next: Some(number), is_short: false }),
                None => unknown = Some(number),
            }
        }
        let Some(last) = unknown else { return Ok(RangeProgress { any, next: after, is_short: false }) };
        let older = NumberRange { low: range.low, high: Some(last) };
        let step = Box::pin(self.step_by_articles(shown, name, group, older, out)).await?;
        let beyond = (last < range.last()).then(|| last + 1);
        Ok(RangeProgress {
            any: step.any,
            next: step.next.filter(|next| *next <= last).or(beyond),
            is_short: false,
        })
    }

    async fn step_by_articles<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        name: &[u8],
        group: &S::Group,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        if let Some(lines) = shown.news.source.header(group, range.low..=range.last(), name).await? {
            return Ok(self.append_lines(shown, &lines, out).await);
        }
        let mut numbers = Vec::new();
        shown.news.source.numbers(group, range.low..=range.last(), ARTICLES_AT_ONCE, &mut numbers).await?;
        let mut article = SpareArticle::take();
        let (mut any, mut label, mut slice) = (false, Vec::new(), TimeSlice::default());
        for number in &numbers {
            slice.pause().await;
            let place = SourceLocator::Number(group, *number);
            if !matches!(
                shown.news.source.article(place, ArticlePart::Head, &mut article).await?,
                Fetched::Missing
            ) {
                any = true;
                label.clear();
                append_decimal(shown.number(*number), &mut label);
                self.append(&label, content_of(article.head(), name), out);
            }
        }
        let last =
            numbers.last().filter(|last| numbers.len() == ARTICLES_AT_ONCE && **last < ARTICLE_NUMBER_MAX);
        Ok(RangeProgress { any, next: last.map(|last| last + 1), is_short: false })
    }

    async fn append_lines<S: NewsSource>(
        &self,
        shown: &ShownNews<'_, S>,
        lines: &HeaderLines,
        out: &mut Vec<u8>,
    ) -> RangeProgress {
        let (mut label, mut slice) = (Vec::new(), TimeSlice::default());
        for (number, value) in &lines.values {
            slice.pause().await;
            label.clear();
            append_decimal(shown.number(*number), &mut label);
            self.append(&label, value.as_deref(), out);
        }
        RangeProgress { any: !lines.values.is_empty(), next: lines.next, is_short: false }
    }

    /// Appends the value of the article with this Message-ID.
    pub fn append_one(&self, id: MessageId<'_>, head: &[u8], stored: &[u8], out: &mut Vec<u8>) {
        let (name, counted) = match self.column {
            HeaderSource::Further(name) | HeaderSource::Article(name) => (name, None),
            HeaderSource::Overview(at) => (overview_name(at), counted(stored, at)),
        };
        let value = counted.as_deref().or_else(|| content_of(head, name));
        // RFC 3977 shows 0 for an article found by Message-ID, RFC 2980 the Message-ID.
        let label = if self.form == HdrVariant::Hdr { b"0" } else { id.as_bytes() };
        self.append(label, value, out);
    }
}

fn overview_name(at: usize) -> &'static [u8] {
    match at {
        index::SUBJECT => b"Subject",
        index::FROM => b"From",
        index::DATE => b"Date",
        index::MESSAGE_ID => b"Message-ID",
        index::REFERENCES => b"References",
        _ => b"Xref",
    }
}

/// Returns `:bytes` or `:lines` of an article, if that is requested.
fn counted(stored: &[u8], at: usize) -> Option<Vec<u8>> {
    if !matches!(at, index::BYTES | index::LINES) {
        return None;
    }
    let article = Article::parse(stored.strip_suffix(b".\r\n").unwrap_or(stored)).ok()?;
    let mut text = Vec::new();
    append_decimal(if at == index::BYTES { article.bytes() } else { article.lines() }, &mut text);
    Some(text)
}
