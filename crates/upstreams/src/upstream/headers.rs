//! HDR of headers that are not in overview rows: requested in one question, kept, and shown when the answer
//! is complete, so that no reader gets half of it.
//!
//! Known values are not requested again. For few articles, and while the upstream is away, the headers are
//! read from cached articles, if all are cached. Source: RFC 3977 section 8.5.

use super::group::NumberedGroup;
use super::kept_headers::HeaderKey;
use super::questions::AskHeader;
use super::trouble::UpstreamError;
use crate::{Answer, HeaderLines, HeaderValues};
use netnews::article::content_of;
use std::ops::RangeInclusive;

/// Most articles in one question.
const NUMBERS_MAX: usize = 20_000;
/// Longest header name for which a server is asked.
const NAME_BYTES_MAX: usize = 200;
/// Most articles looked for in the cache first.
const FEW: usize = 64;

impl NumberedGroup {
    /// Returns a header of the articles of a range; see [`crate::NewsSource::header`].
    pub async fn header(&self, range: RangeInclusive<u64>, name: &[u8]) -> Answer<Option<HeaderLines>> {
        if name.len() > NAME_BYTES_MAX {
            return Ok(None);
        }
        let made = self.renumberings.count();
        let Some((range, marks)) = self.within(range).await? else { return Ok(Some(HeaderLines::default())) };
        let known = self.know_numbers(&range, marks).await;
        let mut numbers = Vec::new();
        if !self.shelf.numbers(range.clone(), NUMBERS_MAX, &mut numbers) {
            known?;
            self.shelf.all_kept(range)?;
        }
        let next = numbers.get(NUMBERS_MAX - 1).map(|last| last + 1);
        let which = HeaderKey { group: &self.name, made, name };
        let (mut values, unknown) = self.headers.find(which, &numbers);
        if !unknown.is_empty() {
            let Some(new) = self.brought(which, &unknown, marks.low).await? else { return Ok(None) };
            // The question may have included some of the others.
            values.retain(|(number, _)| new.binary_search_by_key(number, |(number, _)| *number).is_err());
            values.extend(new);
            values.sort_unstable_by_key(|(number, _)| *number);
        }
        Ok(Some(HeaderLines { values, next }))
    }

    /// Fetches a header of these articles; returns `None` if the upstream does not provide it.
    async fn brought(&self, which: HeaderKey<'_>, numbers: &[u64], low: u64) -> Answer<Option<HeaderValues>> {
        if numbers.len() <= FEW
            && let Some(values) = self.cached_header(numbers, which.name)
        {
            return Ok(Some(values));
        }
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return Ok(None) };
        let question = AskHeader { group: self.name.clone(), range: first..=last, name: which.name.into() };
        match self.pool.ask_apart(question).await {
            Ok(Some(values)) => {
                let is_current = || self.renumberings.count() == which.made;
                self.headers.put(which, low, &values, is_current);
                Ok(Some(values))
            }
            Ok(None) => Ok(None),
            Err(UpstreamError::Away(text)) => {
                let values = self.cached_header(numbers, which.name);
                values.map(Some).ok_or_else(|| UpstreamError::Away(text).into())
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Reads a header from cached articles; returns `None` if one of them is missing.
    fn cached_header(&self, numbers: &[u64], name: &[u8]) -> Option<HeaderValues> {
        let mut article = Vec::new();
        let value = |number: &u64| {
            article.clear();
            self.shelf.head_of(*number, &mut article)?;
            let end = memchr::memmem::find(&article, b"\r\n\r\n").map_or(article.len(), |end| end + 2);
            let head = article.get(..end).unwrap_or_default();
            Some((*number, content_of(head, name).map(Into::into)))
        };
        numbers.iter().map(value).collect()
    }
}
