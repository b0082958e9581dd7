//! The query language, used on the web and on the command line.
//!
//! A query is words that an article must have, with `"several words"` for a phrase, `-word` for words that it
//! must not have, `subject:`, `from:`, `group:`, `after:`, `before:` and `thread:` to restrict the search,
//! and `order:` for the order of its results. Anything else with a colon is read as words. Invariant: a
//! parsed query is bounded in size, whatever the input. Called by the web reader and the control socket;
//! described in `docs/search.md`.

use netnews::{MessageId, Wildmat};

use crate::words::{WORD_BYTES_MAX, words};

/// Maximum length of a query, in bytes.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// Maximum number of words of a query.
const WORDS_MAX: usize = 32;
/// Maximum number of patterns of groups.
const GROUPS_MAX: usize = 8;

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Phrases that must all occur.
    pub with: Vec<Phrase>,
    /// Phrases that must not occur.
    pub without: Vec<Phrase>,
    /// Wildmats of which one must match a group of the article; if empty, any group will do.
    pub groups: Vec<String>,
    /// Earliest time of writing, in Unix seconds.
    pub from: Option<i64>,
    /// Time before which it was written, in Unix seconds.
    pub to: Option<i64>,
    /// Thread of the article: the Message-ID of any of its articles.
    pub thread: Option<String>,
    /// Order of the results.
    pub order: ResultOrder,
}

/// Order of the results of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResultOrder {
    /// By date, the newest first.
    #[default]
    Newest,
    /// By date, the oldest first.
    Oldest,
}

/// Consecutive words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Part of the article that must have them.
    pub place: SearchField,
    /// Words in lower case; at least one.
    pub words: Vec<String>,
}

/// Part of an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchField {
    /// Anywhere in the article.
    Anywhere,
    /// Subject.
    Subject,
    /// From.
    From,
}

/// Reason why a query cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is empty.
    #[error("nothing to look for: type some words")]
    Empty,
    /// The query has only excluded words.
    #[error("only words to leave out: add one to look for")]
    OnlyWithout,
    /// The query is longer than [`QUERY_BYTES_MAX`].
    #[error("a query has at most {query_bytes_max} bytes", query_bytes_max = QUERY_BYTES_MAX)]
    TooLong,
    /// The query has too many words.
    #[error("a query has at most {words_max} words", words_max = WORDS_MAX)]
    TooManyWords,
    /// The query has too many patterns of groups.
    #[error("a query has group: at most {groups_max} times", groups_max = GROUPS_MAX)]
    TooManyGroups,
    /// The word is longer than any indexed word.
    #[error(
        "{0}: words of more than {word_bytes_max} bytes are not indexed",
        word_bytes_max = WORD_BYTES_MAX
    )]
    LongWord(String),
    /// The wildmat is invalid.
    #[error("group:{0}: not a pattern such as comp.lang.*")]
    BadGroup(String),
    /// The date is invalid.
    #[error("{0}: not a date such as 2026-01-31, 2026-01 or 2026")]
    BadDate(String),
    /// The Message-ID is invalid.
    #[error("thread:{0}: not a Message-ID such as <1234@example.org>")]
    BadThread(String),
    /// No such order of results.
    #[error("order:{0}: it can be order:newest or order:oldest")]
    BadOrder(String),
}

impl Query {
    /// Parses a query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(QueryError::TooLong);
        }
        let mut query = Self::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (item, after) = QueryItem::next(rest);
            query.add(&item)?;
            rest = after.trim_start();
        }
        let all = || query.with.iter().chain(&query.without).flat_map(|phrase| &phrase.words);
        if all().count() > WORDS_MAX {
            return Err(QueryError::TooManyWords);
        }
        if query.groups.len() > GROUPS_MAX {
            return Err(QueryError::TooManyGroups);
        }
        if let Some(long) = all().find(|word| word.len() > WORD_BYTES_MAX) {
            return Err(QueryError::LongWord(long.clone()));
        }
        let ordered = |query: Self, order| Self { order, ..query };
        if query == ordered(Self::default(), query.order) {
            return Err(QueryError::Empty);
        }
        let without = Self { without: query.without.clone(), ..Self::default() };
        if query == ordered(without, query.order) {
            return Err(QueryError::OnlyWithout);
        }
        Ok(query)
    }

    fn add(&mut self, item: &QueryItem<'_>) -> Result<(), QueryError> {
        let (place, text) = match (item.field, item.is_negated) {
            ("subject", _) => (SearchField::Subject, item.text),
            ("from", _) => (SearchField::From, item.text),
            ("group", false) => {
                Wildmat::parse(item.text.as_bytes())
                    .map_err(|_| QueryError::BadGroup(item.text.to_owned()))?;
                self.groups.push(item.text.to_owned());
                return Ok(());
            }
            // All of several must hold.
            ("after", false) => {
                self.from = self.from.max(Some(beginning(item.text)?));
                return Ok(());
            }
            ("before", false) => {
                let end = beginning(item.text)?;
                self.to = Some(self.to.map_or(end, |to| to.min(end)));
                return Ok(());
            }
            ("order", false) => {
                self.order = match item.text.to_ascii_lowercase().as_str() {
                    "newest" => ResultOrder::Newest,
                    "oldest" => ResultOrder::Oldest,
                    _ => return Err(QueryError::BadOrder(item.text.to_owned())),
                };
                return Ok(());
            }
            ("thread", false) => {
                let bare = item.text.trim_start_matches('<').trim_end_matches('>');
                let id = format!("<{bare}>");
                let id = MessageId::parse(id.as_bytes()).map(|id| id.as_str().to_owned());
                self.thread = Some(id.ok_or_else(|| QueryError::BadThread(item.text.to_owned()))?);
                return Ok(());
            }
            _ => (SearchField::Anywhere, item.whole),
        };
        let words = words(text);
        if !words.is_empty() {
            let phrases = if item.is_negated { &mut self.without } else { &mut self.with };
            phrases.push(Phrase { place, words });
        }
        Ok(())
    }

    /// Returns the text of a query with one more item, which restricts it. A group replaces other groups,
    /// because an article need be in one of several only.
    pub fn narrowed(text: &str, item: &str) -> String {
        let is_group = |item: &QueryItem<'_>| item.field == "group" && !item.is_negated;
        let replaces = is_group(&QueryItem::next(item).0);
        let (mut narrowed, mut rest) = (String::new(), text.trim());
        while !rest.is_empty() {
            let (known, after) = QueryItem::next(rest);
            if !(replaces && is_group(&known)) {
                narrowed.push_str(rest.strip_suffix(after).unwrap_or(rest).trim_end());
                narrowed.push_str(if known.is_open { "\" " } else { " " });
            }
            rest = after.trim_start();
        }
        narrowed + item
    }

    /// Returns a hint about the query: a word that looks like a field, is none, and is therefore searched
    /// for.
    pub fn hint(text: &str) -> Option<String> {
        let names = text.split_whitespace().filter_map(|item| item.trim_start_matches('-').split_once(':'));
        let is_field = |name: &str| FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name));
        let is_plain = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic());
        let (name, _) = names.into_iter().find(|(name, value)| {
            is_plain(name) && !is_field(name) && !value.is_empty() && !value.starts_with("//")
        })?;
        let all = FIELDS.map(|field| format!("{field}:")).join(" ");
        Some(format!("{name}: is no field, so its words are searched for. Fields are {all}"))
    }

    /// Returns whether the query is for articles in a group of this name.
    pub fn is_for_group(&self, name: &[u8]) -> bool {
        let matches = |text: &String| Wildmat::parse(text.as_bytes()).is_ok_and(|own| own.matches(name));
        self.groups.is_empty() || self.groups.iter().any(matches)
    }
}

/// A piece of a query: `-field:"text"`, of which all but the text may be absent.
struct QueryItem<'a> {
    is_negated: bool,
    /// One of [`FIELDS`]; empty if none.
    field: &'a str,
    /// Text after the field.
    text: &'a str,
    /// Text including the field.
    whole: &'a str,
    /// True if the text begins with a quote and has no other.
    is_open: bool,
}

const FIELDS: [&str; 7] = ["subject", "from", "group", "after", "before", "thread", "order"];

impl<'a> QueryItem<'a> {
    /// Returns the first item, and the rest of the text.
    fn next(text: &'a str) -> (Self, &'a str) {
        let positive = text.strip_prefix('-').filter(|rest| !rest.starts_with(char::is_whitespace));
        let body = positive.unwrap_or(text);
        let known = |field: &&str| {
            let head = body.get(..field.len()).is_some_and(|head| head.eq_ignore_ascii_case(field));
            head && body.get(field.len()..).is_some_and(|rest| rest.starts_with(':'))
        };
        let field = FIELDS.into_iter().find(known).unwrap_or_default();
        let value = if field.is_empty() { body } else { body.get(field.len() + 1..).unwrap_or_default() };
        let quoted = value.strip_prefix('"');
        let is_open = quoted.is_some_and(|quoted| !quoted.contains('"'));
        let (inner, after) = match quoted {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        let item = Self { is_negated: positive.is_some(), field, text: inner, whole: inner, is_open };
        (item, after)
    }
}

/// Returns the beginning of a day, month or year, in Unix seconds.
fn beginning(text: &str) -> Result<i64, QueryError> {
    let bad = || QueryError::BadDate(text.to_owned());
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next(), parts.next().unwrap_or("1"), parts.next().unwrap_or("1"));
    let digits = format!("{:0>4}{month:0>2}{day:0>2}", year.unwrap_or_default());
    let is_plain = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_plain || parts.next().is_some() || digits.as_str() < "1970" {
        return Err(bad());
    }
    netnews::date::parse_nntp(digits.as_bytes(), b"000000", 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phrase(place: SearchField, words: &[&str]) -> Phrase {
        Phrase { place, words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    #[test]
    fn words_phrases_and_fields() {
        let query = Query::parse(
            "cat \"black Cat\" -dog subject:\"re hello\" From:jane group:comp.* -subject:spam foo-bar x:y",
        );
        let query = query.unwrap();
        assert_eq!(
            query.with,
            [
                phrase(SearchField::Anywhere, &["cat"]),
                phrase(SearchField::Anywhere, &["black", "cat"]),
                phrase(SearchField::Subject, &["re", "hello"]),
                phrase(SearchField::From, &["jane"]),
                phrase(SearchField::Anywhere, &["foo", "bar"]),
                phrase(SearchField::Anywhere, &["x", "y"]),
            ]
        );
        assert_eq!(
            query.without,
            [phrase(SearchField::Anywhere, &["dog"]), phrase(SearchField::Subject, &["spam"])]
        );
        assert!(query.is_for_group(b"comp.lang.c") && !query.is_for_group(b"alt.test"));
    }

    #[test]
    fn dates_and_threads() {
        let query = Query::parse("after:1970-01-02 before:2000 thread:a@b").unwrap();
        assert_eq!((query.from, query.to), (Some(86_400), Some(946_684_800)));
        assert_eq!(query.thread.as_deref(), Some("<a@b>"));
        assert_eq!(Query::parse("thread:<a@b>").unwrap().thread.as_deref(), Some("<a@b>"));
        assert_eq!(Query::parse("before:2024-03").unwrap().to, Some(1_709_251_200));
        assert_eq!(Query::parse("cat ORDER:Oldest").unwrap().order, ResultOrder::Oldest);
        assert_eq!(Query::parse("cat").unwrap().order, ResultOrder::Newest);
    }

    #[test]
    fn several_dates_must_all_hold() {
        let query = Query::parse("after:2001 before:2002-03 after:2000 before:2003").unwrap();
        let same = Query::parse("after:2001 before:2002-03").unwrap();
        assert_eq!((query.from, query.to), (same.from, same.to));
    }

    #[test]
    fn narrowed_query_keeps_all_but_other_groups() {
        for (text, item, expected) in [
            (
                "cat group:a.* -group:b  \"black cat\" Group:\"c\"",
                "group:a.b",
                "cat -group:b \"black cat\" group:a.b",
            ),
            ("cat after:2001 ", "after:2002 before:2003", "cat after:2001 after:2002 before:2003"),
            ("cat \"black dog", "from:\"jane\"", "cat \"black dog\" from:\"jane\""),
            ("group:a", "group:b", "group:b"),
            ("subject:\"", "group:b", "subject:\"\" group:b"),
        ] {
            assert_eq!(Query::narrowed(text, item), expected);
        }
    }

    #[test]
    fn invalid_queries_are_reported() {
        let long = "x".repeat(65);
        for (text, error) in [
            ("", QueryError::Empty),
            (" - \"\" ", QueryError::Empty),
            ("-dog", QueryError::OnlyWithout),
            ("after:yesterday", QueryError::BadDate("yesterday".into())),
            ("after:2026-13", QueryError::BadDate("2026-13".into())),
            ("after:2026-1-1-1", QueryError::BadDate("2026-1-1-1".into())),
            ("before:+2026", QueryError::BadDate("+2026".into())),
            ("thread:\"a b\"", QueryError::BadThread("a b".into())),
            ("cat order:best", QueryError::BadOrder("best".into())),
            ("order:oldest", QueryError::Empty),
            ("-dog order:oldest", QueryError::OnlyWithout),
            ("group:", QueryError::BadGroup(String::new())),
            (&long, QueryError::LongWord(long.clone())),
            (&"a ".repeat(33), QueryError::TooManyWords),
            (&"group:a ".repeat(9), QueryError::TooManyGroups),
            (&"a".repeat(1_001), QueryError::TooLong),
        ] {
            assert_eq!(Query::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_pointed_out() {
        assert!(Query::hint("cat form:jane").unwrap().starts_with("form: is no field"));
        for text in ["cat from:jane", "http://a.example", "10:30", "a: b", ":", "-subject:x"] {
            assert_eq!(Query::hint(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsed_queries_are_bounded(text in "\\PC{0,300}") {
            if let Ok(query) = Query::parse(&text) {
                let words: Vec<_> = query.with.iter().chain(&query.without).flat_map(|p| &p.words).collect();
                prop_assert!(words.len() <= WORDS_MAX);
                prop_assert!(words.iter().all(|word| !word.is_empty() && word.len() <= WORD_BYTES_MAX));
            }
        }
    }
}
