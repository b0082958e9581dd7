//! The files of the tree as text, and Rust code without its strings and comments.
//!
//! Everything that several rules need of a file is found once, when the file is read: its blanked code, its
//! words, its functions and where its inline tests begin. Called by `main`; used by every rule.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

/// Directories that hold no source of ours.
const SKIPPED: &[&str] = &[".git", "target", "run", "corpus", "artifacts", "bench-results"];
/// Files that are read, by the end of their names.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".sh", ".service", ".txt", "Makefile", ".ci/run"];
/// Beginning of tests that stand in the file that they test, always at its end.
const INLINE_TESTS: (&str, &str) = ("\n#[cfg(test)]\n", "mod tests {");

/// Words whose places rules ask for.
const INDEXED: &[&str] = &[
    "Result", "SeqCst", "b", "const", "crate", "enum", "fn", "get", "let_pass", "mod", "sleep", "struct",
    "super", "trait", "use",
];
/// Length of the longest of them.
const INDEXED_BYTES_MAX: usize = 8;

/// A file of the tree.
#[derive(Debug)]
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// For Rust: the text with every byte of a string, a character or a comment as a space, so that places in
    /// `text` and in `code` are equal; for other files empty.
    pub code: String,
    /// The functions of the code, nested ones too.
    pub functions: Vec<Function>,
    /// Place and length in bytes of each word (identifier, keyword or number) of the code.
    words: Vec<(usize, usize)>,
    /// Places of each of the words in [`INDEXED`].
    places: Vec<Vec<usize>>,
    /// Place at which each line begins.
    line_starts: Vec<usize>,
    /// Place at which the inline tests begin; the end of the text if there are none.
    tests_start: usize,
}

/// All files of the tree.
#[derive(Debug, Default)]
pub struct Tree {
    /// In order of path.
    pub files: Vec<File>,
    /// Paths of the files that are not read, such as pictures.
    others: Vec<String>,
}

impl File {
    /// A file with this path and text.
    pub fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { code_of(text) } else { String::new() };
        let words = words_of(&code);
        let mut file = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            places: places_of(&code, &words),
            words,
            code,
            functions: Vec::new(),
            line_starts: line_starts(text),
            tests_start: text.len(),
        };
        let (before, tests) = INLINE_TESTS;
        let is_start = |at: &usize| text[*at..].starts_with(tests) && text[..*at].ends_with(before);
        let tests_start = file.places("mod").find(is_start).map(|at| at + 1 - before.len());
        file.tests_start = tests_start.unwrap_or(text.len());
        file.functions = functions(&file);
        file
    }

    /// Whether the file is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file is source of a crate that ships (any but `lab`), and not a file of tests or
    /// benchmarks.
    pub fn is_production(&self) -> bool {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let is_apart = |part: &str| part.starts_with("tests") || part.starts_with("benches");
        self.is_rust()
            && name != "tests.rs"
            && folder.starts_with("crates/")
            && !format!("{folder}/").starts_with("crates/lab/")
            && !folder.split('/').any(is_apart)
    }

    /// The text before the inline tests.
    pub fn production_text(&self) -> &str {
        self.text.get(..self.tests_start).unwrap_or_default()
    }

    /// Whether this place is in the inline tests.
    pub fn is_in_tests(&self, at: usize) -> bool {
        at >= self.tests_start
    }

    /// Number, from 1, of the line that has this place.
    pub fn line_at(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The code of the line with this number, from 1.
    pub fn code_line(&self, line: usize) -> &str {
        let start = line.checked_sub(1).and_then(|at| self.line_starts.get(at));
        let end = self.line_starts.get(line).map_or(self.code.len(), |end| end - 1);
        start.and_then(|start| self.code.get(*start..end)).unwrap_or_default()
    }

    /// The text of the line with this number, from 1.
    pub fn text_line(&self, line: usize) -> &str {
        let start = line.checked_sub(1).and_then(|at| self.line_starts.get(at));
        let end = self.line_starts.get(line).map_or(self.text.len(), |end| end - 1);
        start.and_then(|start| self.text.get(*start..end)).unwrap_or_default()
    }

    /// The words of the code between two places.
    pub fn words_in(&self, from: usize, to: usize) -> impl Iterator<Item = &str> {
        let (from, to) = (self.first_word(from), self.first_word(to));
        let words = self.words.get(from..to).unwrap_or_default();
        words.iter().map(|(at, len)| self.code.get(*at..at + len).unwrap_or_default())
    }

    /// Places of one of the words in [`INDEXED`].
    pub fn places(&self, word: &str) -> impl Iterator<Item = usize> {
        let index = INDEXED.iter().position(|indexed| *indexed == word);
        index.and_then(|index| self.places.get(index)).into_iter().flatten().copied()
    }

    /// Number of the first word at this place or after it.
    fn first_word(&self, at: usize) -> usize {
        self.words.partition_point(|(start, _)| *start < at)
    }
}

impl Tree {
    /// Reads every file below `root`.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut all = Vec::new();
        walk(root, "", &mut all)?;
        let is_read = |path: &String| ENDINGS.iter().any(|ending| path.ends_with(ending));
        let (paths, others): (Vec<String>, Vec<String>) = all.into_iter().partition(is_read);
        // Files of one crate differ less in length than crates do, so each thread takes every n-th file.
        let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
        let read_part = |part: usize| -> io::Result<Vec<File>> {
            let read =
                |path: &String| Ok(File::new(path, &String::from_utf8_lossy(&fs::read(root.join(path))?)));
            paths.iter().skip(part).step_by(threads).map(read).collect()
        };
        let parts: io::Result<Vec<Vec<File>>> = thread::scope(|scope| {
            let read_part = &read_part;
            let running: Vec<_> = (0..threads).map(|part| scope.spawn(move || read_part(part))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, io::Result<Vec<File>>>| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that reads files panicked")))
            };
            running.into_iter().map(join).collect()
        });
        Ok(Self { others, ..Self::of(parts?.into_iter().flatten().collect()) })
    }

    /// A tree of these files.
    pub fn of(mut files: Vec<File>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files, others: Vec::new() }
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The Rust files whose code ships, in order of path.
    pub fn production(&self) -> impl Iterator<Item = &File> {
        self.rust().filter(|file| file.is_production())
    }

    /// Whether there is a file with this path, or a folder.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        let read = self.files.iter().map(|file| file.path.as_str());
        read.chain(self.others.iter().map(String::as_str)).any(|it| it == path || it.starts_with(&folder))
    }

    /// The file with this path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Adds the paths of all files below `folder`.
fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(root, &path, paths)?;
            }
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// A function in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of the name, from 1.
    pub line: usize,
    /// Lines from the name to the closing brace.
    pub lines: usize,
    /// Places of `fn`, of the brace that opens the body, and after the one that closes it.
    pub start: usize,
    pub body: usize,
    pub end: usize,
    /// Whether `#[test]` (or `#[tokio::test]`) precedes it.
    pub is_test: bool,
}

impl Function {
    /// The code from `fn` to the opening brace.
    pub fn signature<'a>(&self, file: &'a File) -> &'a str {
        file.code.get(self.start..self.body).unwrap_or_default()
    }

    /// The words of the body.
    pub fn words<'a>(&self, file: &'a File) -> impl Iterator<Item = &'a str> {
        file.words_in(self.body, self.end)
    }
}

/// The functions of a file, nested ones too.
fn functions(file: &File) -> Vec<Function> {
    let mut found = Vec::new();
    let code = file.code.as_str();
    for start in file.places("fn") {
        let name = file.words.get(file.first_word(start) + 1);
        let name = name.filter(|(at, _)| *at == start + 3).and_then(|(at, len)| code.get(*at..at + len));
        let rest = code.get(start..).unwrap_or_default();
        let (Some(name), Some(body)) = (name, body_of(rest)) else { continue };
        let before = code.as_bytes().get(..start).unwrap_or_default();
        let item = before.iter().rposition(|b| matches!(b, b'}' | b';')).map_or(0, |at| at + 1);
        let attributes = code.get(item..start).unwrap_or_default();
        let end = start + body.len();
        found.push(Function {
            name: name.to_owned(),
            line: file.line_at(start),
            lines: file.line_at(end) + 1 - file.line_at(start),
            is_test: attributes.contains("test]") && !attributes.contains("mod "),
            body: start + body.find('{').unwrap_or_default(),
            start,
            end,
        });
    }
    found
}

/// From the start to the brace that closes the first open one; `None` for a declaration without body.
pub fn body_of(code: &str) -> Option<&str> {
    let bytes = code.as_bytes();
    let mut depth = 0usize;
    let mut has_array = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'[' => has_array = true,
            b';' if depth == 0 && !has_array => return None,
            b'{' => depth += 1,
            b'}' if depth == 0 => return None,
            b'}' if depth == 1 => return code.get(..=at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The code from the bracket that it begins with to the one that closes it; `None` if there is no such pair.
pub fn bracketed(code: &str) -> Option<&str> {
    let (open, close) = match code.as_bytes().first()? {
        b'(' => (b'(', b')'),
        b'<' => (b'<', b'>'),
        _ => return None,
    };
    let mut depth = 0usize;
    let mut before = b' ';
    for (at, byte) in code.bytes().enumerate() {
        if byte == open {
            depth += 1;
        } else if byte == close && !matches!((before, byte), (b'-' | b'=', b'>')) {
            depth -= 1;
            if depth == 0 {
                return code.get(..=at);
            }
        }
        before = byte;
    }
    None
}

/// Whether each byte may be part of a word; those of letters beyond ASCII may.
const IS_WORD: [bool; 256] = {
    let mut is_word = [false; 256];
    let mut byte = 0;
    while byte < is_word.len() {
        is_word[byte] = byte >= 0x80 || byte == b'_' as usize || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    is_word
};

// The loops over all bytes of the tree index arrays, which makes them several times as fast as iterators in a
// build that is not optimised.

/// Places and lengths of the words of a text.
pub fn words_of(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && IS_WORD[bytes[at] as usize] {
            at += 1;
        }
        if start < at {
            found.push((start, at - start));
        } else {
            at += 1;
        }
    }
    found
}

/// Places of the words in [`INDEXED`], in the order of that table.
fn places_of(code: &str, words: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let bytes = code.as_bytes();
    let mut is_start = [false; 256];
    for word in INDEXED {
        is_start[word.as_bytes()[0] as usize] = true;
    }
    let mut places = vec![Vec::new(); INDEXED.len()];
    for &(at, len) in words {
        if len <= INDEXED_BYTES_MAX && is_start[bytes[at] as usize] {
            let word = &bytes[at..at + len];
            if let Some(index) = INDEXED.iter().position(|indexed| indexed.as_bytes() == word) {
                places[index].push(at);
            }
        }
    }
    places
}

/// Place at which each line begins.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            starts.push(at + 1);
        }
        at += 1;
    }
    starts
}

/// `text` with strings, characters and comments replaced by spaces; newlines stay.
fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    let mut after_word = false;
    while at < bytes.len() {
        let byte = bytes[at];
        let may_begin = match byte {
            b'/' | b'"' | b'\'' => true,
            b'b' | b'c' => !after_word && bytes.get(at + 1) == Some(&b'r'),
            b'r' => !after_word && matches!(bytes.get(at + 1), Some(b'"' | b'#')),
            _ => false,
        };
        let blank = if may_begin { blank_length(&text[at..], after_word) } else { 0 };
        if blank == 0 {
            after_word = IS_WORD[byte as usize];
            at += 1;
        } else {
            out[at..at + blank].fill(b' ');
            for (newline, _) in text[at..at + blank].match_indices('\n') {
                out[at + newline] = b'\n';
            }
            after_word = false;
            at += blank;
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Number of bytes from here that are a comment, a string or a character; 0 if none begins here.
fn blank_length(rest: &str, after_word: bool) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if !after_word {
        let raw = rest.trim_start_matches(['b', 'c']);
        let prefix = rest.len() - raw.len();
        if let Some(hashes) = raw.strip_prefix('r') {
            let count = hashes.len() - hashes.trim_start_matches('#').len();
            if hashes.get(count..).is_some_and(|quoted| quoted.starts_with('"')) {
                let close = format!("\"{}", "#".repeat(count));
                let start = prefix + 1 + count + 1;
                let inner = rest.get(start..).unwrap_or_default();
                return inner.find(&close).map_or(rest.len(), |end| start + end + close.len());
            }
        }
    }
    if rest.starts_with('"') {
        return 1 + quoted_length(rest.get(1..).unwrap_or_default(), '"');
    }
    match rest.strip_prefix('\'') {
        Some(inner) if inner.starts_with('\\') => 1 + quoted_length(inner, '\''),
        Some(inner) if inner.chars().nth(1) == Some('\'') => {
            2 + inner.chars().next().map_or(0, char::len_utf8)
        }
        _ => 0,
    }
}

/// Number of bytes up to the closing quote and with it, escapes passed over.
fn quoted_length(inner: &str, quote: char) -> usize {
    let bytes = inner.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 1;
        } else if bytes[at] == quote as u8 {
            return at + 1;
        }
        at += 1;
    }
    inner.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_blanked() {
        let text = "let a = \"{ // }\"; // {\nlet b = '{'; let c = b\"\\\"{\"; let d = r#\"{\"#; fn \
            f<'a>(x: &'a str) {}";
        let code = code_of(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.matches('{').count(), 1, "{code}");
        assert!(code.contains("fn f<'a>(x: &'a str) {}"), "{code}");
    }

    #[test]
    fn functions_are_found_with_their_length() {
        let text = "#[test]\nfn first() {\n  if x { y }\n}\nfn second(a: [u8; 4]);\n\
                    fn third() { fn inner() {} }\n";
        let all = File::new("crates/x/src/a.rs", text).functions;
        let shown: Vec<_> = all.iter().map(|f| (f.name.as_str(), f.line, f.lines, f.is_test)).collect();
        assert!(shown.contains(&("first", 2, 3, true)), "{shown:?}");
        assert!(shown.contains(&("third", 6, 1, false)), "{shown:?}");
        assert!(shown.contains(&("inner", 6, 1, false)), "{shown:?}");
    }

    #[test]
    fn brackets_are_matched_over_arrows() {
        assert_eq!(bracketed("<Box<dyn Fn() -> u8>, String> {"), Some("<Box<dyn Fn() -> u8>, String>"));
        assert_eq!(bracketed("(a, (b)) c)"), Some("(a, (b))"));
        assert_eq!((bracketed("(a"), bracketed("a")), (None, None));
    }

    #[test]
    fn tests_and_the_lab_are_not_production() {
        let file = File::new("crates/spool/src/a.rs", "//! A.\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(file.production_text(), "//! A.\nfn a() {}\n");
        assert!(file.is_production());
        for path in
            ["crates/lab/src/a.rs", "crates/spool/tests/a.rs", "crates/spool/src/a/tests.rs", "fuzz/a.rs"]
        {
            assert!(!File::new(path, "").is_production(), "{path}");
        }
    }
}
