//! What a word is, for articles and for queries alike.
//!
//! A word is a run of letters and digits of any script, in lower case. Scripts that put no spaces between
//! words have one word for each character, so that a query for several of them is one for a phrase. Called
//! by `query` and `index`.

use std::ops::Range;

/// Longest word that is indexed, in bytes; longer runs of letters are code, not words.
pub const WORD_BYTES_MAX: usize = 64;

/// The next word at or after `from`, as it stands there; of any length.
pub fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = text.get(from..)?;
    let (at, first) = rest.char_indices().find(|(_, c)| c.is_alphanumeric())?;
    let start = from + at;
    if stands_alone(first) {
        return Some(start..start + first.len_utf8());
    }
    let word = text.get(start..)?;
    let end = word.char_indices().find(|(_, c)| !c.is_alphanumeric() || stands_alone(*c));
    Some(start..end.map_or(text.len(), |(end, _)| start + end))
}

/// Appends a word in lower case.
pub fn lower(word: &str, out: &mut String) {
    match word.is_ascii() {
        true => out.extend(word.bytes().map(|b| char::from(b.to_ascii_lowercase()))),
        false => out.extend(word.chars().flat_map(char::to_lowercase)),
    }
}

/// The words of a text in lower case, in order.
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

/// Whether a character is a word of its own: ideographs and kana.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(words("Re: foo_bar-2 (\u{c4}rger!) x"), ["re", "foo", "bar", "2", "\u{e4}rger", "x"]);
        assert_eq!(words("\u{65e5}\u{672c}go"), ["\u{65e5}", "\u{672c}", "go"]);
        assert_eq!(words("go\u{65e5}"), ["go", "\u{65e5}"]);
        assert_eq!(words(" .-\u{a0}"), Vec::<String>::new());
        assert_eq!(words("STRASSE \u{130}"), ["strasse", "i\u{307}"]);
    }
}
