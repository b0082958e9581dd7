//! The place in an article that matches a query, with the matching words marked.
//!
//! Called by the web server for each article that it shows as found. The text is plain; the caller escapes
//! it.

use std::ops::Range;

use newspages::content::{ArticleContent, TextBlock};
use newspages::view::SnippetPiece;

use crate::query::{Query, SearchField};
use crate::words::{lower, next_word};

/// Length of a snippet, about, in bytes.
const SNIPPET_BYTES: usize = 200;
/// Bytes of it before the first match, about.
const LEAD_BYTES: usize = 60;
/// Maximum number of pieces.
const PIECES_MAX: usize = 40;
/// Maximum number of bytes of text that are searched.
const SEARCHED_BYTES_MAX: usize = 128 << 10;

/// Returns the first line with a word of the query, and its surroundings; the beginning of the text if there
/// is none, as when the match is in a header.
pub fn snippet(query: &Query, content: &ArticleContent) -> Vec<SnippetPiece> {
    let wanted = wanted(query);
    let mut searched_bytes = 0;
    let mut first = None;
    for line in lines(content).filter(|line| !line.trim().is_empty()) {
        searched_bytes += line.len();
        if searched_bytes > SEARCHED_BYTES_MAX {
            break;
        }
        first = first.or(Some(line));
        if let Some(at) = first_match(&wanted, line) {
            return marked(&wanted, line, at);
        }
    }
    first.map(|line| marked(&wanted, line, 0)).unwrap_or_default()
}

/// Returns the words of the query that may be in the text.
fn wanted(query: &Query) -> Vec<&str> {
    let phrases = query.with.iter().filter(|phrase| phrase.place != SearchField::From);
    phrases.flat_map(|phrase| &phrase.words).map(String::as_str).collect()
}

/// Returns the lines of the text: the author's own, then those quoted.
fn lines(content: &ArticleContent) -> impl Iterator<Item = &str> {
    let own = content.blocks.iter().filter_map(|block| match block {
        TextBlock::Text(lines) => Some(lines.iter().map(String::as_str)),
        _ => None,
    });
    let quoted = content.blocks.iter().filter_map(|block| match block {
        TextBlock::Quote(lines) => Some(lines.iter().map(|line| line.text.as_str())),
        _ => None,
    });
    own.flatten().chain(quoted.flatten())
}

/// Returns a part of a text, whose bounds lie between characters.
fn part(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

fn is_wanted(wanted: &[&str], word: &str) -> bool {
    let mut lowered = String::with_capacity(word.len());
    lower(word, &mut lowered);
    wanted.contains(&lowered.as_str())
}

/// Returns the position of the first word of the query in a line.
fn first_match(wanted: &[&str], line: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(range) = next_word(line, from) {
        if is_wanted(wanted, part(line, range.clone())) {
            return Some(range.start);
        }
        from = range.end;
    }
    None
}

/// Returns the part of a line around a position, with the words of the query marked.
fn marked(wanted: &[&str], line: &str, at: usize) -> Vec<SnippetPiece> {
    let mut begin = line.floor_char_boundary(at.saturating_sub(LEAD_BYTES));
    if begin > 0 {
        // Not within a word.
        let blank = line.get(begin..at).and_then(|lead| lead.find(char::is_whitespace));
        begin = blank.map_or(at, |blank| begin + blank);
    }
    let mut end = line.floor_char_boundary((begin + SNIPPET_BYTES).min(line.len()));
    if end < line.len() {
        let blank = line.get(begin..end).and_then(|part| part.rfind(char::is_whitespace));
        end = blank.filter(|blank| *blank > 0).map_or(end, |blank| begin + blank);
    }
    let mut all = pieces(wanted, part(line, begin..end).trim());
    if begin > 0 {
        all.insert(0, SnippetPiece { text: "\u{2026} ".to_owned(), is_match: false });
    }
    if end < line.len() {
        all.push(SnippetPiece { text: " \u{2026}".to_owned(), is_match: false });
    }
    all
}

fn pieces(wanted: &[&str], text: &str) -> Vec<SnippetPiece> {
    let mut all = Vec::new();
    let (mut from, mut start) = (0, 0);
    let piece = |text: &str, is_match| SnippetPiece { text: text.to_owned(), is_match };
    while all.len() < PIECES_MAX
        && let Some(range) = next_word(text, from)
    {
        from = range.end;
        let word = part(text, range.clone());
        if is_wanted(wanted, word) {
            if start < range.start {
                all.push(piece(part(text, start..range.start), false));
            }
            all.push(piece(word, true));
            start = range.end;
        }
    }
    if start < text.len() {
        all.push(piece(part(text, start..text.len()), false));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use newspages::content::SHOWN_BYTES;

    fn drawn(query: &str, body: &str) -> String {
        let wire = format!("Subject: x\r\n\r\n{}", body.replace('\n', "\r\n"));
        let content = ArticleContent::of(wire.as_bytes(), SHOWN_BYTES);
        let piece = |piece: SnippetPiece| match piece.is_match {
            true => format!("[{}]", piece.text),
            false => piece.text,
        };
        snippet(&Query::parse(query).unwrap(), &content).into_iter().map(piece).collect()
    }

    #[test]
    fn matches_are_marked_in_the_first_line_that_has_one() {
        assert_eq!(drawn("cat", "Hello,\nthe Cat and the cats.\n> a cat\n"), "the [Cat] and the cats.");
        assert_eq!(drawn("\"black cat\"", "a black, black cat\n"), "a [black], [black] [cat]");
        assert_eq!(drawn("dog -cat", "> a dog\nno cat\n"), "a [dog]", "quoted lines come last");
        assert_eq!(drawn("from:jane", "Hello, Jane\nx\n"), "Hello, Jane", "the beginning");
        assert_eq!(drawn("\u{732b}", "\u{9ed2}\u{732b}\n"), "\u{9ed2}[\u{732b}]");
        assert_eq!(drawn("cat", ""), "");
    }

    #[test]
    fn snippets_are_short() {
        let long = format!("{}needle {}", "word ".repeat(100), "after ".repeat(100));
        let shown = drawn("needle", &long);
        assert!(shown.starts_with("\u{2026} word") && shown.ends_with("after \u{2026}"), "{shown}");
        assert!(shown.contains("[needle]") && shown.len() < SNIPPET_BYTES + 20, "{shown}");
        let solid = format!("{}\u{e9}x", "\u{e9}".repeat(5_000));
        assert!(drawn("x", &solid).len() < 2 * SNIPPET_BYTES);
        assert!(drawn("a", &"a ".repeat(5_000)).matches('[').count() <= PIECES_MAX);
    }
}
