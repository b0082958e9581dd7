//! Questions to an upstream, and checks of the answers.
//!
//! Answers of an upstream are checked as far as possible: numbers lie in the requested range and ascend, an
//! overview row has its fields, an article is the requested one. Sources: RFC 3977 sections 6.1.1, 6.1.2,
//! 6.2.4, 7.4 and 8.3.

use super::bringing::is_about_an_article;
use super::line::{StatusLine, UpstreamConnection};
use super::pool::UpstreamQuestion;
use super::rows::command;
use super::together::Pipelined;
use super::trouble::{UpstreamError, shown};
use crate::HeaderValues;
use netnews::GroupMarks;
use netnews::MessageId;
use netnews::date::format_nntp;
use netnews::decimal::parse_decimal;
use netnews::nntp::command::ARTICLE_NUMBER_MAX;
use netnews::nntp::response::code;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

/// Most numbers in one answer, including those not requested.
const NUMBERS_MAX: usize = 2 << 20;
/// Most numbers that may have been added since the existing ones were determined.
const NUMBERS_SINCE_MAX: u64 = 1 << 20;
/// Most bytes of the values of a header in one answer.
const HEADERS_BYTES_MAX: usize = 32 << 20;
/// Most bytes of Message-IDs in one answer.
const IDS_BYTES_MAX: usize = 32 << 20;

/// GROUP: asks for the marks of a group, and whether a number still has the same article.
pub(super) struct AskMarks {
    pub group: Box<[u8]>,
    /// Numbers of the group, with their known Message-IDs.
    pub known: Vec<(u64, Vec<u8>)>,
}

/// Answer to [`AskMarks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarksAnswer {
    /// Marks; `None` if there is no such group.
    pub marks: Option<GroupMarks>,
    /// What the known numbers have now.
    pub numbers: NumbersAnswer,
}

impl MarksAnswer {
    /// Returns an answer that says nothing about numbers.
    pub fn of(marks: Option<GroupMarks>) -> Self {
        Self { marks, numbers: NumbersAnswer::Unknown }
    }
}

/// What the known numbers of a group have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumbersAnswer {
    /// One has the article that it had.
    Same,
    /// One has another article.
    Other,
    /// Nothing follows: none was asked for, or none is there any more.
    Unknown,
}

impl UpstreamQuestion for AskMarks {
    type Answer = MarksAnswer;

    const MAY_BREAK: bool = true;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<MarksAnswer, UpstreamError> {
        self.submit(line)?;
        self.take(line).await
    }
}

impl Pipelined for AskMarks {
    fn submit(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError> {
        // Sent even if the group is selected.
        line.forget_selected();
        line.select(&self.group)?;
        self.known.iter().try_for_each(|(number, _)| line.submit(command("STAT", *number)))
    }

    async fn take(&mut self, line: &mut UpstreamConnection) -> Result<MarksAnswer, UpstreamError> {
        let marks = line.selected(&self.group).await;
        if self.known.is_empty() {
            return Ok(MarksAnswer::of(marks?));
        }
        if let Err(trouble @ (UpstreamError::Stale | UpstreamError::Away(_) | UpstreamError::Wrong(_))) =
            marks
        {
            return Err(trouble);
        }
        let mut numbers = NumbersAnswer::Unknown;
        for (number, id) in &self.known {
            let status = line.answer().await?;
            // Nothing follows from a missing article, or an odd answer.
            match found(&status) {
                Ok((of, now)) if status.code == code::ARTICLE_EXISTS && of == *number => {
                    numbers = match now == *id && numbers != NumbersAnswer::Other {
                        true => NumbersAnswer::Same,
                        false => NumbersAnswer::Other,
                    };
                }
                _ => {}
            }
        }
        let answer = MarksAnswer::of(marks?);
        Ok(if answer.marks.is_some() { MarksAnswer { numbers, ..answer } } else { answer })
    }
}

/// LISTGROUP: asks for the numbers of a range that have articles.
pub(super) struct AskNumbers {
    pub group: Box<[u8]>,
    pub range: RangeInclusive<u64>,
}

impl UpstreamQuestion for AskNumbers {
    type Answer = Vec<u64>;

    const MAY_BREAK: bool = true;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<Vec<u64>, UpstreamError> {
        if line.lacking.ranges.load(Relaxed) {
            return self.ask_by("", line).await;
        }
        let range = format!(" {}-{}", self.range.start(), self.range.end());
        match self.ask_by(&range, line).await {
            // Old servers refuse the range in one way or another.
            Err(UpstreamError::Refused(..)) => {
                let answer = self.ask_by("", line).await?;
                line.lacking.ranges.store(true, Relaxed);
                Ok(answer)
            }
            answer => answer,
        }
    }
}

impl AskNumbers {
    async fn ask_by(&self, range: &str, line: &mut UpstreamConnection) -> Result<Vec<u64>, UpstreamError> {
        // LISTGROUP selects the group, unless it is refused.
        if !line.has_selected(&self.group) {
            line.forget_selected();
        }
        let status = line.request([b"LISTGROUP ", &*self.group, range.as_bytes()].concat()).await?;
        if !status.has_block {
            return Err(status.refused());
        }
        let (mut numbers, mut count, mut next) = (Vec::new(), 0, 0);
        // Old servers list the whole group, and some articles that were added since.
        let last = self.range.end().saturating_add(NUMBERS_SINCE_MAX).min(ARTICLE_NUMBER_MAX);
        while let Some(text) = line.block_line().await? {
            count += 1;
            let number = parse_decimal(text.trim_ascii()).filter(|n| (next..=last).contains(n));
            let Some(number) = number.filter(|_| count <= NUMBERS_MAX) else {
                let (text, group) = (shown(text), shown(&self.group));
                return Err(UpstreamError::Wrong(format!("`{text}` as number {count} of {group}")));
            };
            next = number + 1;
            if self.range.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }
}

/// HDR: asks for a header of the articles of a range; `None` if there is no such group or header.
pub(super) struct AskHeader {
    pub group: Box<[u8]>,
    pub range: RangeInclusive<u64>,
    pub name: Box<[u8]>,
}

impl UpstreamQuestion for AskHeader {
    type Answer = Option<HeaderValues>;

    const MAY_BREAK: bool = true;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<Self::Answer, UpstreamError> {
        if line.lacking.hdr.load(Relaxed) {
            return self.ask_by("XHDR", line).await.or_else(is_none_if_unknown);
        }
        match self.ask_by("HDR", line).await {
            Err(UpstreamError::Refused(code::UNKNOWN_COMMAND, _)) => {
                let answer = self.ask_by("XHDR", line).await.or_else(is_none_if_unknown)?;
                line.lacking.hdr.store(answer.is_some(), Relaxed);
                Ok(answer)
            }
            answer => answer,
        }
    }
}

/// Returns no header if the server does not know the command.
fn is_none_if_unknown<T>(trouble: UpstreamError) -> Result<Option<T>, UpstreamError> {
    if matches!(trouble, UpstreamError::Refused(code::UNKNOWN_COMMAND, _)) { Ok(None) } else { Err(trouble) }
}

impl AskHeader {
    async fn ask_by(
        &self,
        verb: &str,
        line: &mut UpstreamConnection,
    ) -> Result<Option<HeaderValues>, UpstreamError> {
        let selecting = line.select(&self.group)?;
        let range = format!(" {}-{}", self.range.start(), self.range.end());
        line.submit([verb.as_bytes(), b" ", &self.name, range.as_bytes()].concat())?;
        let is_there = !selecting || line.selected(&self.group).await?.is_some();
        let status = line.answer().await?;
        match status.code {
            _ if !is_there => return Ok(None),
            code::HDR_FOLLOWS | code::HEAD_FOLLOWS => {}
            code::NO_CURRENT_ARTICLE | code::NO_SUCH_NUMBER | code::NO_SUCH_ARTICLE => {
                return Ok(Some(Vec::new()));
            }
            501..=599 => return Ok(None),
            _ => return Err(status.refused()),
        }
        let (mut values, mut bytes, mut next) = (Vec::new(), 0, *self.range.start());
        while let Some(text) = line.block_line().await? {
            let at = memchr::memchr(b' ', text).unwrap_or(text.len());
            let (number, value) = text.split_at_checked(at).unwrap_or_default();
            let value = value.get(1..).unwrap_or_default();
            let number = parse_decimal(number).filter(|n| (next..=*self.range.end()).contains(n));
            bytes += text.len();
            let Some(number) = number.filter(|_| bytes <= HEADERS_BYTES_MAX) else {
                return Err(UpstreamError::Wrong(format!("`{}` in a header of articles", shown(text))));
            };
            next = number + 1;
            let is_none = value.is_empty() || value == b"(none)";
            values.push((number, (!is_none).then(|| value.into())));
        }
        Ok(Some(values))
    }
}

/// STAT: asks whether there is an article with this Message-ID.
pub(super) struct AskExists(pub Box<[u8]>);

/// Answer of a server about a Message-ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdStatus {
    Present,
    Missing,
    /// The server refuses to show it, with a code other than for a missing article.
    Refused,
}

impl UpstreamQuestion for AskExists {
    type Answer = IdStatus;

    const MAY_BREAK: bool = true;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<IdStatus, UpstreamError> {
        self.submit(line)?;
        self.take(line).await
    }
}

impl Pipelined for AskExists {
    fn submit(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError> {
        line.submit([b"STAT ", &*self.0].concat())
    }

    async fn take(&mut self, line: &mut UpstreamConnection) -> Result<IdStatus, UpstreamError> {
        let status = line.answer().await?;
        match status.code {
            code::ARTICLE_EXISTS => Ok(IdStatus::Present),
            code::NO_SUCH_ARTICLE => Ok(IdStatus::Missing),
            other if is_about_an_article(other) => Ok(IdStatus::Refused),
            _ => Err(status.refused()),
        }
    }
}

/// NEWNEWS: asks for the Message-IDs of articles that arrived in a group since then, each with CRLF.
pub(super) struct AskArrived {
    pub group: Box<[u8]>,
    /// Unix seconds.
    pub since: u64,
}

impl UpstreamQuestion for AskArrived {
    type Answer = Vec<u8>;

    const MAY_BREAK: bool = true;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<Vec<u8>, UpstreamError> {
        let digits = format_nntp(i64::try_from(self.since).unwrap_or_default());
        let (day, time) = digits.as_ref().split_at_checked(8).unwrap_or_default();
        let status =
            line.request([b"NEWNEWS ", &*self.group, b" ", day, b" ", time, b" GMT"].concat()).await?;
        if !status.has_block {
            return Err(status.refused());
        }
        let (mut ids, mut bytes) = (Vec::new(), 0);
        while let Some(text) = line.block_line().await? {
            bytes += text.len();
            if bytes > IDS_BYTES_MAX {
                return Err(UpstreamError::Wrong(format!("`{}` in the answer to NEWNEWS", shown(text))));
            }
            // An article without a valid Message-ID costs no other one.
            let Some(id) = MessageId::parse(text.trim_ascii()) else { continue };
            ids.extend_from_slice(id.as_bytes());
            ids.extend_from_slice(b"\r\n");
        }
        Ok(ids)
    }
}

/// Parses the status line of an article: returns its number and Message-ID.
pub(super) fn found(status: &StatusLine) -> Result<(u64, Vec<u8>), UpstreamError> {
    let wrong = || UpstreamError::Wrong(format!("`{} {}` of an article", status.code, shown(&status.text)));
    let mut words = status.text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let number = words.next().and_then(parse_decimal).ok_or_else(wrong)?;
    let id = words.next().and_then(MessageId::parse).ok_or_else(wrong)?;
    Ok((number, id.as_bytes().to_vec()))
}
