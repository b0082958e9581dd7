//! The words that stand for the configuration's enumerations, in one place for reading and writing.

use super::{
    Compression, Durability, GroupMatch, LineEnds, LogFormat, LogLevel, Method, Numbers, Order, PeerTls,
    UnknownGroups,
};
use crate::config::units;

/// An enumeration each of whose values is a word in the file.
pub trait Word: Copy + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];

    /// The value of a word.
    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
    }

    /// The word of this value.
    fn word(self) -> &'static str
    where
        Self: PartialEq,
    {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

impl Word for UnknownGroups {
    const WORDS: &'static [(&'static str, Self)] = &[("reject", Self::Reject), ("junk", Self::Junk)];
}

impl Word for Method {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("cnfs", Self::Cnfs),
        ("memory", Self::Memory),
        ("trash", Self::Trash),
        ("appendonly", Self::AppendOnly),
        ("tradspool", Self::Tradspool),
        ("bucketed", Self::Bucketed),
        ("hashed", Self::Hashed),
        ("timehash", Self::Timehash),
    ];
}

impl Word for LineEnds {
    const WORDS: &'static [(&'static str, Self)] = &[("crlf", Self::Crlf), ("lf", Self::Lf)];
}

impl Word for GroupMatch {
    const WORDS: &'static [(&'static str, Self)] = &[("first", Self::First), ("any", Self::Any)];
}

impl Word for Order {
    const WORDS: &'static [(&'static str, Self)] =
        &[("interleave", Self::Interleave), ("sequential", Self::Sequential)];
}

impl Word for Compression {
    const WORDS: &'static [(&'static str, Self)] = &[("none", Self::None), ("zstd", Self::Zstd)];
}

impl Word for PeerTls {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("require", Self::Require)];
}

impl Word for Numbers {
    const WORDS: &'static [(&'static str, Self)] = &[("all", Self::All), ("31-bit", Self::Bits31)];
}

impl Word for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("plain", Self::Plain), ("json", Self::Json)];
}

impl Durability {
    /// Reads `process`, `interval(TIME)` or `always`.
    pub fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "process" => return Ok(Self::Process),
            "always" => return Ok(Self::Always),
            _ => {}
        }
        let time = text
            .strip_prefix("interval(")
            .and_then(|rest| rest.strip_suffix(')'))
            .ok_or_else(|| format!("`{text}` is not a durability"))?;
        match units::parse_span(time)? {
            span if span.is_zero() => {
                Err("an interval must be longer than 0; \"always\" loses nothing".into())
            }
            span => Ok(Self::Interval(span)),
        }
    }

    /// As it is written in the file.
    pub fn text(self) -> String {
        match self {
            Self::Process => "process".into(),
            Self::Interval(span) => format!("interval({})", units::span_text(span)),
            Self::Always => "always".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::keys::{KEYS, Kind};

    #[test]
    fn the_table_of_keys_offers_exactly_these_words() {
        let words = |name: &str| -> Vec<&str> {
            match KEYS.iter().find(|key| key.name == name).map(|key| key.kind) {
                Some(Kind::Choice(words)) => words.to_vec(),
                other => panic!("{name}: {other:?}"),
            }
        };
        fn own<W: Word>() -> Vec<&'static str> {
            W::WORDS.iter().map(|(word, _)| *word).collect()
        }
        assert_eq!(words("unknown_groups"), own::<UnknownGroups>());
        assert_eq!(words("method"), own::<Method>());
        assert_eq!(words("order"), own::<Order>());
        assert_eq!(words("compress"), own::<Compression>());
        assert_eq!(words("numbers"), own::<Numbers>());
        assert_eq!(words("log_level"), own::<LogLevel>());
        assert_eq!(words("log_format"), own::<LogFormat>());
    }

    #[test]
    fn durability_reads_back_as_it_was_written() {
        for durability in
            [Durability::Process, Durability::Always, Durability::Interval(Duration::from_millis(100))]
        {
            assert_eq!(Durability::from_text(&durability.text()), Ok(durability));
        }
        assert_eq!(Durability::from_text("sometimes").unwrap_err(), "`sometimes` is not a durability");
        assert_eq!(
            Durability::from_text("interval(5)").unwrap_err(),
            "`5` lacks a unit; use ms, s, min, h or days"
        );
        assert!(Durability::from_text("interval(0s)").is_err());
    }
}
