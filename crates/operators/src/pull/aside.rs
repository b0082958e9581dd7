//! Articles that a server lists but refuses to send: set aside, so that the others are fetched, and requested
//! again on later runs, at growing intervals, until they are given up.
//!
//! Stored with the marks of the server (`state`), one line for each. Used by `worker`, `state` and
//! `pull::run`. Format: `docs/formats/pull.md`.

use netnews::printable::stripped;
use site_base::back_off::BackOff;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longest text of a response that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 200;
/// Longest first pause before an article is requested again, in seconds; each later one is twice as long.
const PAUSE_FIRST_SECS_MAX: u64 = 300;
/// Longest pause, in seconds.
const PAUSE_SECS_MAX: u64 = 24 * 3600;
/// Placeholder for an unknown group or Message-ID.
const NONE: &str = "-";

/// An article of the server, as far as it is known: requested by its Message-ID, or by its number if that is
/// not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RemoteArticle {
    /// Group; empty if not known.
    pub group: Arc<str>,
    /// Number in the group; 0 if not known.
    pub number: u64,
    /// Message-ID; empty if not known.
    pub id: Box<str>,
}

impl RemoteArticle {
    /// Returns an article that is known by its Message-ID alone.
    pub fn of_id(id: Box<str>) -> Self {
        Self { group: "".into(), number: 0, id }
    }

    /// Its Message-ID, or its group and number where that is not known.
    pub fn shortest(&self) -> String {
        if self.id.is_empty() { self.to_string() } else { self.id.to_string() }
    }
}

/// Formats `comp.lang.c 17 <1@x>`, as far as it is known.
impl fmt::Display for RemoteArticle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            f.write_str(&self.group)?;
        }
        if self.number > 0 {
            write!(f, " {}", self.number)?;
        }
        let space = if self.group.is_empty() || self.id.is_empty() { "" } else { " " };
        write!(f, "{space}{}", self.id)
    }
}

/// Response of the server to a request for an article or group that it refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchRefusal {
    /// Response code; 0 if the connection ended.
    pub code: u16,
    /// Text, in one line without unprintable characters.
    pub text: Box<str>,
}

impl FetchRefusal {
    /// Creates a refusal from a response.
    pub fn answer(code: u16, text: &[u8]) -> Self {
        Self { code, text: line(&String::from_utf8_lossy(text)) }
    }

    /// The server has sent it, and it cannot be filed now, for this reason.
    pub fn unfiled(reason: &str) -> Self {
        Self { code: 0, text: line(reason) }
    }

    /// Creates a refusal for an article or group at which the connection ends repeatedly.
    pub fn hang_up(error: &nntp_io::Error) -> Self {
        match error {
            nntp_io::Error::Refused { code, text, .. } => Self { code: *code, text: text.clone() },
            error => Self { code: 0, text: line(&format!("the connection ends there: {error}")) },
        }
    }
}

impl fmt::Display for FetchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => f.write_str(&self.text),
            code => write!(f, "{code} {}", self.text),
        }
    }
}

fn line(text: &str) -> Box<str> {
    let text = stripped(text);
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default().trim().into()
}

/// State of an article that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AsideArticle {
    /// Number of runs in which it was refused.
    pub tries: u32,
    /// Times of the first and the last refusal, in Unix seconds.
    pub first: u64,
    pub last: u64,
    pub refusal: FetchRefusal,
}

impl AsideArticle {
    /// Returns whether the article is to be requested again now, if it is given up after `give_up_secs`.
    pub fn is_due(&self, now: u64, give_up_secs: u64) -> bool {
        let first = (give_up_secs / 100).min(PAUSE_FIRST_SECS_MAX);
        let pauses = BackOff::new(Duration::from_secs(first), Duration::from_secs(PAUSE_SECS_MAX));
        let pause = pauses.exact(self.tries).as_secs();
        // Also due after the clock was set back.
        now >= self.last.saturating_add(pause) || now < self.last
    }

    /// Returns whether the article was refused for this many seconds.
    pub fn is_given_up(&self, give_up_secs: u64) -> bool {
        self.last.saturating_sub(self.first) >= give_up_secs
    }

    /// Returns the line among the marks, without the first word.
    pub fn to_line(&self, article: &RemoteArticle) -> String {
        let Self { tries, first, last, refusal: FetchRefusal { code, text } } = self;
        let word = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
        let (group, id) = (word(&article.group), word(&article.id));
        format!("{tries} {first} {last} {code} {} {group} {id} {text}", article.number)
    }

    /// Parses the output of [`to_line`](Self::to_line).
    pub fn of_line(text: &str) -> Option<(RemoteArticle, Self)> {
        let mut words = text.splitn(8, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (tries, first, last, code, number) = (number()?, number()?, number()?, number()?, number()?);
        let mut word = || words.next().map(|word| if word == NONE { "" } else { word });
        let (group, id) = (word()?, word()?);
        let text = words.next()?;
        let refusal = FetchRefusal { code: u16::try_from(code).ok()?, text: text.into() };
        let article = RemoteArticle { group: group.into(), number, id: id.into() };
        let is_known = !article.id.is_empty() || article.number > 0 && !article.group.is_empty();
        let aside = Self { tries: u32::try_from(tries).ok()?, first, last, refusal };
        is_known.then_some((article, aside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aside(tries: u32, first: u64, last: u64) -> AsideArticle {
        AsideArticle { tries, first, last, refusal: FetchRefusal::answer(451, b"not\x07 for you") }
    }

    #[test]
    fn line_is_read_back() {
        let by_number = RemoteArticle { group: "a.b".into(), number: 7, id: "".into() };
        let whole = RemoteArticle { id: "<1@x>".into(), ..by_number.clone() };
        for article in [by_number, whole.clone(), RemoteArticle::of_id("<1@x>".into())] {
            for refusal in [FetchRefusal::answer(451, b"not for you"), FetchRefusal::answer(503, b"")] {
                let aside = AsideArticle { refusal, ..aside(3, 5, 9) };
                assert_eq!(AsideArticle::of_line(&aside.to_line(&article)), Some((article.clone(), aside)));
            }
        }
        assert_eq!(aside(1, 5, 5).to_line(&whole), "1 5 5 451 7 a.b <1@x> not for you");
        for text in ["", "1 2 3", "1 2 3 451 0 a.b - text", "1 2 3 70000 7 a.b - text", "x 2 3 451 7 a.b - t"]
        {
            assert_eq!(AsideArticle::of_line(text), None, "{text}");
        }
        assert_eq!(whole.to_string(), "a.b 7 <1@x>");
        assert_eq!(RemoteArticle::of_id("<1@x>".into()).to_string(), "<1@x>");
    }

    #[test]
    fn pauses_grow_until_the_article_is_given_up() {
        const GIVE_UP: u64 = 3 * 24 * 3600;
        let at = |tries| aside(tries, 0, 1_000_000);
        for (tries, pause) in [(1, 300), (2, 600), (4, 2400), (30, PAUSE_SECS_MAX)] {
            assert!(!at(tries).is_due(1_000_000 + pause - 1, GIVE_UP), "{tries}");
            assert!(at(tries).is_due(1_000_000 + pause, GIVE_UP), "{tries}");
        }
        assert!(at(1).is_due(5, GIVE_UP), "the clock was set back");
        assert!(!aside(9, 0, GIVE_UP - 1).is_given_up(GIVE_UP) && aside(9, 0, GIVE_UP).is_given_up(GIVE_UP));
        assert!(aside(1, 7, 7).is_given_up(0), "at once");
    }
}
