//! Definition of words, for articles and queries alike.
//!
//! A word is a run of letters and digits of any script, in lower case, with the marks on them. Letters and
//! their marks are composed where there is one character for them (NFC), as some systems write them apart. In
//! scripts without spaces between words each character is a word, so that a query for several of them is one
//! for a phrase. Called by `query` and `index`.

use std::ops::Range;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Maximum length of an indexed word, in bytes; longer runs of letters are code, not words.
pub const WORD_BYTES_MAX: usize = 64;

/// Returns the range of the next word at or after `from`, of any length.
pub fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let run = |from: usize, is_in: fn(&u8) -> bool| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().position(|b| !is_in(b)).unwrap_or(rest.len())
    };
    // Most text is ASCII, which needs no look-up in the tables of all scripts.
    let start = run(from, |b| b.is_ascii() && !b.is_ascii_alphanumeric());
    let end = run(start, u8::is_ascii_alphanumeric);
    match bytes.get(end) {
        Some(b) if !b.is_ascii() => next_of_any_script(text, start),
        _ => (start < end).then_some(start..end),
    }
}

fn next_of_any_script(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = text.get(from..)?;
    let (at, first) = rest.char_indices().find(|(_, c)| c.is_alphanumeric())?;
    let start = from + at;
    let word = text.get(start..)?;
    let is_in = |c: char| match stands_alone(first) {
        true => is_combining_mark(c),
        false => is_combining_mark(c) || c.is_alphanumeric() && !stands_alone(c),
    };
    let end = word.char_indices().skip(1).find(|(_, c)| !is_in(*c));
    Some(start..end.map_or(text.len(), |(end, _)| start + end))
}

/// Appends a word in lower case.
pub fn lower(word: &str, out: &mut String) {
    let start = out.len();
    match word.is_ascii() {
        true => {
            out.push_str(word);
            out.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
        }
        false => out.extend(word.nfc().flat_map(char::to_lowercase)),
    }
}

/// Calls `take` with each word of a text in lower case, in order; with `None` for one that is too long.
#[inline]
pub fn each_word(text: &str, mut take: impl FnMut(Option<&[u8]>)) {
    let bytes = text.as_bytes();
    let (mut word, mut len, mut other) = ([0; WORD_BYTES_MAX], 0, String::new());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let letter = LOWER.get(usize::from(*byte)).copied().unwrap_or(0);
        if letter > 0 {
            // An overlong word is still counted.
            if let Some(to) = word.get_mut(len) {
                *to = letter;
            }
            len += 1;
            at += 1;
            continue;
        }
        if !byte.is_ascii() {
            // Finds the word at this position, or the next one.
            let Some(range) = next_of_any_script(text, at - len) else { break };
            other.clear();
            lower(text.get(range.clone()).unwrap_or_default(), &mut other);
            take(Some(other.as_bytes()).filter(|word| word.len() <= WORD_BYTES_MAX));
            (at, len) = (range.end, 0);
            continue;
        }
        if len > 0 {
            take(word.get(..len));
        }
        (at, len) = (at + 1, 0);
    }
    if len > 0 {
        take(word.get(..len));
    }
}

/// ASCII letters in lower case and digits; 0 for everything else.
const LOWER: [u8; 256] = {
    let (mut table, mut at) = ([0; 256], 0u8);
    while at < 128 {
        if at.is_ascii_alphanumeric() {
            table[at as usize] = at.to_ascii_lowercase();
        }
        at += 1;
    }
    table
};

/// Returns the words of a text in lower case, in order.
pub fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(range) = next_word(text, from) {
        from = range.end;
        let mut word = String::new();
        lower(text.get(range).unwrap_or_default(), &mut word);
        all.push(word);
    }
    all
}

/// Returns whether a character is a word of its own: ideographs and kana.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(words("Re: foo_bar-2 (\u{c4}rger!) x"), ["re", "foo", "bar", "2", "\u{e4}rger", "x"]);
        assert_eq!(words("\u{65e5}\u{672c}go"), ["\u{65e5}", "\u{672c}", "go"]);
        assert_eq!(words("go\u{65e5}"), ["go", "\u{65e5}"]);
        assert_eq!(words(" .-\u{a0}"), Vec::<String>::new());
        assert_eq!(words("STRASSE \u{130}"), ["strasse", "i\u{307}"]);
    }

    #[test]
    fn letters_and_marks_are_composed() {
        assert_eq!(words("Cafe\u{301}s, Zu\u{308}rich"), ["caf\u{e9}s", "z\u{fc}rich"]);
        assert_eq!(words("\u{304b}\u{3099}\u{304b}"), ["\u{304c}", "\u{304b}"]);
        assert_eq!(words("\u{1112}\u{1161}\u{11ab}"), ["\u{d55c}"]);
        assert_eq!(words("\u{301} x\u{301}"), ["x\u{301}"]);
    }

    proptest! {
        #[test]
        fn ascii_follows_the_rules_of_all_scripts(text in "[aZ0 .\u{e4}\u{a0}\u{65e5}\u{301}]{0,40}") {
            let (mut from, mut slow) = (0, 0);
            while let Some(range) = next_word(&text, from) {
                prop_assert_eq!(next_of_any_script(&text, slow), Some(range.clone()));
                (from, slow) = (range.end, range.end);
            }
            prop_assert_eq!(next_of_any_script(&text, slow), None);
        }

        #[test]
        fn each_word_is_one_of_the_words(text in "[aZ0 .\u{e4}\u{a0}\u{65e5}\u{130}\u{301}]{0,40}", long in 60usize..70) {
            let text = format!("{text} {} {text}", "x".repeat(long));
            let expected: Vec<Option<Vec<u8>>> = words(&text)
                .into_iter()
                .map(|word| Some(word.into_bytes()).filter(|word| word.len() <= WORD_BYTES_MAX))
                .collect();
            let mut found = Vec::new();
            each_word(&text, |word| found.push(word.map(<[u8]>::to_vec)));
            prop_assert_eq!(found, expected);
        }
    }
}
