//! HDR of headers that overview rows do not have: asked for in one question, kept, and shown when all of the
//! answer has come, so that no reader is cut off in its middle.
//!
//! What was answered before is not asked for again. Of few articles, and while the upstream is away, the
//! headers are read from the articles that the cache has, if it has all of them. Source: RFC 3977 section
//! 8.5.

use super::group::Group;
use super::kept_headers::Which;
use super::questions::AskHeader;
use super::trouble::Trouble;
use crate::{Answer, HeaderLines, HeaderValues};
use netnews::article::content_of;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

/// Articles that are asked about at once.
const NUMBERS_MAX: usize = 20_000;
/// No header has a longer name: a server is not asked for it.
const NAME_BYTES_MAX: usize = 200;
/// Up to so many are looked for in the cache first.
const FEW: usize = 64;

impl Group {
    /// A header of the articles of a range; see [`crate::NewsSource::header`].
    pub async fn header(&self, range: RangeInclusive<u64>, name: &[u8]) -> Answer<Option<HeaderLines>> {
        if name.len() > NAME_BYTES_MAX {
            return Ok(None);
        }
        let made = self.made.load(Ordering::SeqCst);
        let Some((range, marks)) = self.within(range).await? else { return Ok(Some(HeaderLines::default())) };
        let known = self.know_numbers(&range, marks).await;
        let mut numbers = Vec::new();
        if !self.shelf.numbers(range, NUMBERS_MAX, &mut numbers) {
            known?;
        }
        let next = numbers.get(NUMBERS_MAX - 1).map(|last| last + 1);
        let which = Which { group: &self.name, made, name };
        let (mut values, unknown) = self.headers.find(which, &numbers);
        if !unknown.is_empty() {
            let Some(new) = self.brought(which, &unknown, marks.low).await? else { return Ok(None) };
            // The question may have been about some of the others, too.
            values.retain(|(number, _)| new.binary_search_by_key(number, |(number, _)| *number).is_err());
            values.extend(new);
            values.sort_unstable_by_key(|(number, _)| *number);
        }
        Ok(Some(HeaderLines { values, next }))
    }

    /// A header of these articles, of which it is not kept; `None`: the upstream does not say it.
    async fn brought(&self, which: Which<'_>, numbers: &[u64], low: u64) -> Answer<Option<HeaderValues>> {
        if numbers.len() <= FEW
            && let Some(values) = self.cached_header(numbers, which.name)
        {
            return Ok(Some(values));
        }
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return Ok(None) };
        let question = AskHeader { group: self.name.clone(), range: first..=last, name: which.name.into() };
        match self.pool.ask_apart(question).await {
            Ok(Some(values)) => {
                let is_current = || self.made.load(Ordering::SeqCst) == which.made;
                self.headers.put(which, low, &values, is_current);
                Ok(Some(values))
            }
            Ok(None) => Ok(None),
            Err(Trouble::Away(text)) => {
                let values = self.cached_header(numbers, which.name);
                values.map(Some).ok_or_else(|| Trouble::Away(text).into())
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// The same from articles that the cache has; `None`: it lacks one of them.
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
