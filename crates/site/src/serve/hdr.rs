//! HDR, XHDR, XPAT and XROVER: one header field of many articles.
//!
//! Fields in the overview are taken from there; any other header field is read from each article, as is an
//! additional overview field where a row is older than its configuration. Sources: RFC 3977 section 8.5, RFC
//! 2980 sections 2.6, 2.9 and 2.11.

use super::{ArticleSelection, CommandRefusal, NewsReader, cut_off, failed, none_selected, spare};
use netnews::article::content_of;
use netnews::decimal::{append_decimal, parse_decimal};
use netnews::nntp::command::{ARTICLE_NUMBER_MAX, NumberRange, RangeSelector, words};
use netnews::nntp::response::{append, append_standard, code};
use netnews::overview_row::{append_value, field, further, index};
use netnews::{Article, MessageId, Wildmat};
use nntp_io::{ServerOutput, TimeSlice};
use std::io;
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
enum HeaderSource<'a> {
    /// This field of the overview row.
    Overview(usize),
    /// The overview row if it has the field, else the article.
    Further(&'a [u8]),
    /// The article.
    Article(&'a [u8]),
}

/// A request for a header field.
struct HeaderRequest<'a> {
    form: HdrVariant,
    column: HeaderSource<'a>,
    filter: Option<Wildmat>,
}

impl HdrVariant {
    fn follows(self) -> u16 {
        match self {
            Self::Hdr => code::HDR_FOLLOWS,
            Self::Xhdr | Self::Xpat => code::HEAD_FOLLOWS,
            Self::Xrover => code::OVERVIEW_FOLLOWS,
        }
    }

    /// Returns the code for a range with no article in it.
    fn empty(self) -> u16 {
        if self == Self::Hdr { code::NO_SUCH_NUMBER } else { code::NO_CURRENT_ARTICLE }
    }
}

impl<'a> HeaderSource<'a> {
    /// Returns the column of a header; `None` for an unknown metadata item. `further` are the additional
    /// headers in rows.
    fn of(name: &'a [u8], form: HdrVariant, further: &[String]) -> Option<Self> {
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

impl HeaderRequest<'_> {
    /// Returns the part of an article that must be read.
    fn part(&self) -> ArticlePart {
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
}

impl<S: NewsSource> NewsReader<S> {
    /// Whether overview rows have what is asked for.
    pub(super) fn rows_have(&self, name: &[u8], form: HdrVariant) -> bool {
        matches!(
            HeaderSource::of(name, form, self.view.overview_headers()),
            Some(HeaderSource::Overview(_) | HeaderSource::Further(_))
        )
    }

    pub(super) async fn hdr(
        &mut self,
        form: HdrVariant,
        name: &[u8],
        select: RangeSelector<'_>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let Some(column) = HeaderSource::of(name, form, self.view.overview_headers()) else {
            append(out.text(), code::NOT_SUPPORTED, "No such metadata item");
            return Ok(());
        };
        self.send_headers(&HeaderRequest { form, column, filter: None }, select, out).await
    }

    pub(super) async fn xpat(
        &mut self,
        name: &[u8],
        select: RangeSelector<'_>,
        patterns: &[u8],
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        // Several words form one pattern with single spaces (RFC 2980 section 2.9).
        let pattern = words(patterns).collect::<Vec<_>>().join(&b' ');
        let column = HeaderSource::of(name, HdrVariant::Xpat, self.view.overview_headers());
        let (Some(column), Ok(filter)) = (column, Wildmat::parse_one(&pattern)) else {
            append_standard(out.text(), code::SYNTAX_ERROR);
            return Ok(());
        };
        self.send_headers(
            &HeaderRequest { form: HdrVariant::Xpat, column, filter: Some(filter) },
            select,
            out,
        )
        .await
    }

    async fn send_headers(
        &self,
        request: &HeaderRequest<'_>,
        select: RangeSelector<'_>,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let result = match self.span(select) {
            Ok(ArticleSelection::One(id)) => self.append_header_of(request, id, out).await,
            Ok(ArticleSelection::Numbers(group, range)) => {
                let none = none_selected(select, request.form.empty());
                return self.send_range(request, &group, range, none, out).await;
            }
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = result {
            refusal.append(out.text());
        }
        Ok(())
    }

    async fn send_range(
        &self,
        request: &HeaderRequest<'_>,
        group: &S::Group,
        range: NumberRange,
        none: CommandRefusal,
        out: &mut ServerOutput,
    ) -> io::Result<()> {
        let start = out.text().len();
        append_standard(out.text(), request.form.follows());
        let mut next = (!range.is_empty()).then_some(range.low);
        let (mut any, mut first) = (false, true);
        while let Some(from) = next {
            let text = out.text();
            let step = match request.column {
                HeaderSource::Overview(_) => self.step_by_overview(request, group, from, range, text).await,
                HeaderSource::Further(name) => {
                    self.step_by_either(request, name, group, from, range, text).await
                }
                HeaderSource::Article(name) => {
                    self.step_by_articles(request, name, group, from, range, text).await
                }
            };
            match step {
                Ok(step) => {
                    any |= step.any;
                    next = step.next;
                }
                Err(error) if first => {
                    out.text().truncate(start);
                    failed(error).append(out.text());
                    return Ok(());
                }
                Err(error) => return Err(cut_off(error)),
            }
            if any || next.is_some() {
                // Not earlier: a refusal may still replace the first line.
                first = false;
                out.pause().await?;
            }
        }
        // XPAT has no code for a range without articles: it returns an empty list (RFC 2980 section 2.9).
        if first && request.form != HdrVariant::Xpat {
            out.text().truncate(start);
            none.append(out.text());
            return Ok(());
        }
        out.text().extend_from_slice(b".\r\n");
        Ok(())
    }

    async fn step_by_overview(
        &self,
        request: &HeaderRequest<'_>,
        group: &S::Group,
        from: u64,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        let mut rows = Vec::new();
        let next = self.rows(group, from..=range.last(), ROWS_BYTES_AT_ONCE, &mut rows).await?;
        let mut slice = TimeSlice::default();
        for row in rows.split_inclusive(|&b| b == b'\n') {
            if request.filter.is_some() {
                slice.pause().await;
            }
            request.append(field(row, index::NUMBER).unwrap_or_default(), request.column.in_row(row), out);
        }
        Ok(RangeProgress { any: !rows.is_empty(), next })
    }

    /// Handles the rows up to the first without the field, or the articles up to the first row with it.
    async fn step_by_either(
        &self,
        request: &HeaderRequest<'_>,
        name: &[u8],
        group: &S::Group,
        from: u64,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        let mut rows = Vec::new();
        let after = self.source.over(group, from..=range.last(), ROWS_BYTES_AT_ONCE, &mut rows).await?;
        let (mut any, mut unknown, mut label) = (false, None, Vec::new());
        for row in rows.split_inclusive(|&b| b == b'\n') {
            let number = field(row, index::NUMBER).and_then(parse_decimal).unwrap_or_default();
            match further(row, name) {
                Some(_) if unknown.is_some() => break,
                Some(value) => {
                    label.clear();
                    append_decimal(self.window().shown(number), &mut label);
                    request.append(&label, Some(value).filter(|value| !value.is_empty()), out);
                    any = true;
                }
                None if any => return Ok(RangeProgress { any, next: Some(number) }),
                None => unknown = Some(number),
            }
        }
        let Some(last) = unknown else { return Ok(RangeProgress { any, next: after }) };
        let older = NumberRange { low: from, high: Some(last) };
        let step = Box::pin(self.step_by_articles(request, name, group, from, older, out)).await?;
        let beyond = (last < range.last()).then(|| last + 1);
        Ok(RangeProgress { any: step.any, next: step.next.filter(|next| *next <= last).or(beyond) })
    }

    async fn step_by_articles(
        &self,
        request: &HeaderRequest<'_>,
        name: &[u8],
        group: &S::Group,
        from: u64,
        range: NumberRange,
        out: &mut Vec<u8>,
    ) -> Answer<RangeProgress> {
        if let Some(lines) = self.source.header(group, from..=range.last(), name).await? {
            return Ok(self.append_lines(request, &lines, out).await);
        }
        let mut numbers = Vec::new();
        self.source.numbers(group, from..=range.last(), ARTICLES_AT_ONCE, &mut numbers).await?;
        let mut article = spare::take();
        let (mut any, mut label, mut slice) = (false, Vec::new(), TimeSlice::default());
        for number in &numbers {
            slice.pause().await;
            let place = SourceLocator::Number(group, *number);
            if !matches!(self.source.article(place, ArticlePart::Head, &mut article).await?, Fetched::Missing)
            {
                any = true;
                label.clear();
                append_decimal(self.window().shown(*number), &mut label);
                request.append(&label, content_of(article.head(), name), out);
            }
        }
        spare::give(article);
        let last =
            numbers.last().filter(|last| numbers.len() == ARTICLES_AT_ONCE && **last < ARTICLE_NUMBER_MAX);
        Ok(RangeProgress { any, next: last.map(|last| last + 1) })
    }

    async fn append_lines(
        &self,
        request: &HeaderRequest<'_>,
        lines: &HeaderLines,
        out: &mut Vec<u8>,
    ) -> RangeProgress {
        let (mut label, mut slice) = (Vec::new(), TimeSlice::default());
        for (number, value) in &lines.values {
            slice.pause().await;
            label.clear();
            append_decimal(self.window().shown(*number), &mut label);
            request.append(&label, value.as_deref(), out);
        }
        RangeProgress { any: !lines.values.is_empty(), next: lines.next }
    }

    async fn append_header_of(
        &self,
        request: &HeaderRequest<'_>,
        id: MessageId<'_>,
        out: &mut ServerOutput,
    ) -> Result<(), CommandRefusal> {
        let mut article = spare::take();
        let result = match self.whole(id, request.part(), &mut article).await {
            Ok(()) => {
                let head = self.shown_head(article.head()).await;
                head.map(|head| append_header_from(request, id, &head, article.article(), out.text()))
            }
            Err(refusal) => Err(refusal),
        };
        spare::give(article);
        result
    }
}

/// Appends the answer with one header field of the article with this Message-ID.
fn append_header_from(
    request: &HeaderRequest<'_>,
    id: MessageId<'_>,
    head: &[u8],
    stored: &[u8],
    out: &mut Vec<u8>,
) {
    let (name, counted) = match request.column {
        HeaderSource::Further(name) | HeaderSource::Article(name) => (name, None),
        HeaderSource::Overview(at) => (overview_name(at), counted(stored, at)),
    };
    let value = counted.as_deref().or_else(|| content_of(head, name));
    append_standard(out, request.form.follows());
    // RFC 3977 shows 0 for an article found by Message-ID, RFC 2980 the Message-ID.
    let label = if request.form == HdrVariant::Hdr { b"0" } else { id.as_bytes() };
    request.append(label, value, out);
    out.extend_from_slice(b".\r\n");
}

/// Progress in a range.
struct RangeProgress {
    /// An article was found.
    any: bool,
    /// Number at which to continue.
    next: Option<u64>,
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
