//! The tree's files as text, and Rust code without its strings and comments.

use std::fs;
use std::io;
use std::path::Path;

/// Directories that hold no source of ours.
const SKIPPED: &[&str] = &[".git", "target", "run", "corpus", "artifacts", "bench-results"];
/// Files that are looked at, by the end of their names.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".sh", ".service", ".txt", "Makefile", ".ci/run"];

/// A file.
#[derive(Debug)]
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// For Rust: the text with strings, characters and comments blanked, line for line; else empty.
    pub code: String,
}

/// All files of the tree.
#[derive(Debug, Default)]
pub struct Tree {
    /// In order of path.
    pub files: Vec<File>,
}

impl File {
    /// A file with this text.
    pub fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { code_of(text) } else { String::new() };
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

impl Tree {
    /// Reads everything below `root`.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn walk(&mut self, root: &Path, below: &str) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.walk(root, &path)?;
                }
            } else if ENDINGS.iter().any(|ending| path.ends_with(ending)) {
                self.files.push(File::new(&path, &String::from_utf8_lossy(&fs::read(entry.path())?)));
            }
        }
        Ok(())
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

/// A function in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
    /// Lines from its name to its closing brace.
    pub lines: usize,
    /// Its body, blanked as [`File::code`].
    pub body: String,
    /// Whether `#[test]` (or `#[tokio::test]`) stands before it.
    pub is_test: bool,
}

/// The functions of blanked code, nested ones too.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code.get(..at).unwrap_or_default();
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = code.get(at..).unwrap_or_default();
        let name: String = rest.chars().skip(3).take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(body) = body_of(rest).filter(|_| !name.is_empty()) else { continue };
        let attributes = before.rsplit(['}', ';']).next().unwrap_or_default();
        found.push(Function {
            name,
            line: before.matches('\n').count() + 1,
            lines: body.matches('\n').count() + 1,
            is_test: attributes.contains("test]") && !attributes.contains("mod "),
            body: body.to_owned(),
        });
    }
    found
}

/// From the start to the brace that closes the first open one; `None` for a declaration without body.
pub fn body_of(code: &str) -> Option<&str> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b';' if depth == 0 && !code.get(..at)?.contains('[') => return None,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return code.get(..=at);
                }
            }
            _ => {}
        }
    }
    None
}

/// `text` with strings, characters and comments replaced by spaces; newlines stay.
fn code_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(c) = rest.chars().next() {
        let blank = blank_length(rest, after_word);
        let (taken, left) = rest.split_at(blank.max(c.len_utf8()));
        if blank == 0 {
            out.push(c);
        } else {
            out.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        after_word = blank == 0 && (c.is_alphanumeric() || c == '_');
        rest = left;
    }
    out
}

/// How many bytes from here are a comment, a string or a character; 0 if none begins here.
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

/// Bytes up to and with the closing quote, escapes passed over.
fn quoted_length(inner: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
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
        let code = code_of(
            "#[test]\nfn first() {\n  if x { y }\n}\nfn second(a: [u8; 4]);\nfn third() { fn inner() {} }\n",
        );
        let all = functions(&code);
        let shown: Vec<_> = all.iter().map(|f| (f.name.as_str(), f.line, f.lines, f.is_test)).collect();
        assert!(shown.contains(&("first", 2, 3, true)), "{shown:?}");
        assert!(shown.contains(&("third", 6, 1, false)), "{shown:?}");
        assert!(shown.contains(&("inner", 6, 1, false)), "{shown:?}");
    }
}
