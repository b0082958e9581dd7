//! Parser for files that consist of `key: value` and of blocks in braces: incoming.conf, innfeed.conf,
//! readers.conf, storage.conf.
//!
//! As in INN, words are separated by blanks, a line end counts as a blank, and a value is one word or a
//! quoted text: the rest of its line is the next key. Text in, statements out; an error is recorded with
//! its line, the block around it is marked, and parsing continues with the next word. Sources:
//! incoming.conf(5), innfeed.conf(5), readers.conf(5), storage.conf(5).

use super::text::{NotConverted, SourcePosition, quoted};

/// Deepest nesting of blocks; INN's own limit for included files is 10.
const DEPTH_MAX: usize = 16;
/// Longest quoted text, in bytes; INN's longest line has 8,191.
const QUOTED_BYTES_MAX: usize = 64 << 10;
/// Keys that may be repeated in a block.
const REPEATED: [&str; 4] = ["auth", "res", "perl_auth", "python_auth"];
/// Directives replaced by the text of the named file in INN.
const INCLUDES: [&str; 2] = ["include", "$INCLUDE"];
/// Message without the words themselves, which may be part of a password.
const NEITHER: &str = "neither `key: value` nor the beginning of a block";

/// `key: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfPair {
    pub place: SourcePosition,
    pub key: String,
    pub value: String,
}

/// `word name { ... }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfBlock {
    pub place: SourcePosition,
    /// Line of the closing brace.
    pub end: SourcePosition,
    pub word: String,
    pub name: String,
    pub pairs: Vec<ConfPair>,
    pub blocks: Vec<ConfBlock>,
    /// Whether something in it, but not in an inner block, was not understood.
    pub is_damaged: bool,
}

impl ConfBlock {
    fn new(place: SourcePosition, word: &str, name: &str) -> Self {
        let (word, name) = (word.to_owned(), name.to_owned());
        Self { place, end: place, word, name, pairs: Vec::new(), blocks: Vec::new(), is_damaged: false }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&ConfPair> {
        self.pairs.iter().find(|pair| pair.key == key)
    }
}

/// A file: statements outside any block are in a root block without a name.
#[derive(Debug)]
pub(super) struct BlockFile {
    pub root: ConfBlock,
    pub faults: Vec<(SourcePosition, String)>,
    /// Lines that include other files.
    pub includes: Vec<SourcePosition>,
}

/// Parses a file.
pub(super) fn parse(file: &'static str, text: &str) -> BlockFile {
    let mut words = BlockLexer { file, rest: text, line: 1, faults: Vec::new() };
    let mut reader = BlockParser {
        open: vec![ConfBlock::new(SourcePosition::at(file, 1), "", "")],
        faults: Vec::new(),
        includes: Vec::new(),
    };
    loop {
        let word = words.next();
        let is_end = word.is_none();
        if let Some(word) = word
            && let (place, Err(why)) = (word.place, reader.statement(word, &mut words))
        {
            reader.fault(place, why.into());
        }
        for (place, why) in std::mem::take(&mut words.faults) {
            reader.fault(place, why);
        }
        if is_end {
            break;
        }
    }
    let last = SourcePosition::at(file, words.line);
    while reader.open.len() > 1 {
        let name = reader.open.last().map(|block| block.name.clone()).unwrap_or_default();
        reader.fault(last, format!("the block `{name}` is not closed"));
        reader.close(last);
    }
    let root = reader.open.pop().unwrap_or_else(|| ConfBlock::new(last, "", ""));
    BlockFile { root, faults: reader.faults, includes: reader.includes }
}

/// A word of a file.
#[derive(Debug)]
struct BlockToken {
    place: SourcePosition,
    text: String,
    is_quoted: bool,
}

impl BlockToken {
    /// Returns whether it is this brace or colon, or another word with a special meaning.
    fn is(&self, text: &str) -> bool {
        !self.is_quoted && self.text == text
    }
}

/// Words of a file, without comments.
struct BlockLexer<'a> {
    file: &'static str,
    rest: &'a str,
    /// Line on which `rest` begins.
    line: u32,
    faults: Vec<(SourcePosition, String)>,
}

impl BlockLexer<'_> {
    fn next(&mut self) -> Option<BlockToken> {
        loop {
            let blank = self.rest.trim_start();
            self.take(self.rest.len() - blank.len());
            match self.rest.chars().next()? {
                '#' => self.take(self.rest.find('\n').unwrap_or(self.rest.len())),
                '"' => match in_quotes(&self.rest[1..]) {
                    Some((text, length)) => {
                        let first = self.line;
                        self.take(length + 2);
                        let place = SourcePosition { file: self.file, line: first, last: self.line };
                        return Some(BlockToken { place, text, is_quoted: true });
                    }
                    None => {
                        self.faults
                            .push((SourcePosition::at(self.file, self.line), "a quote is not closed".into()));
                        self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
                    }
                },
                _ => return Some(self.plain()),
            }
        }
    }

    /// Reads a word up to the next blank or comment; a brace may directly follow a name.
    fn plain(&mut self) -> BlockToken {
        let mut before = ' ';
        let end = self.rest.char_indices().find(|(_, c)| {
            let ends = c.is_whitespace() || (*c == '#' && before != '\\') || (before == ':' && *c == '"');
            before = *c;
            ends
        });
        let mut end = end.map_or(self.rest.len(), |(at, _)| at);
        let word = self.rest.get(..end).unwrap_or_default();
        if word.len() > 1 && word.ends_with('{') {
            end -= 1;
        }
        let text = self.rest.get(..end).unwrap_or_default().replace("\\#", "#").replace("\\\"", "\"");
        let place = SourcePosition::at(self.file, self.line);
        self.take(end);
        BlockToken { place, text, is_quoted: false }
    }

    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        let ends = taken.bytes().filter(|b| *b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX));
        self.rest = rest;
    }

    /// Reads the value of a key that stands in line `line`.
    fn value(&mut self, line: u32) -> Result<BlockToken, NotConverted> {
        let (rest, own_line) = (self.rest, self.line);
        let missing = || NotConverted::from("a key without a value");
        let word = self.next().ok_or_else(missing)?;
        let is_key = |word: &BlockToken| word.text.ends_with(':') && word.place.line > line;
        if word.is("}") || (!word.is_quoted && is_key(&word)) {
            (self.rest, self.line) = (rest, own_line);
            return Err(missing());
        }
        Ok(word)
    }
}

struct BlockParser {
    /// Open blocks, innermost last; never empty.
    open: Vec<ConfBlock>,
    faults: Vec<(SourcePosition, String)>,
    includes: Vec<SourcePosition>,
}

impl BlockParser {
    /// Reads a statement that begins with `word`.
    fn statement(&mut self, word: BlockToken, words: &mut BlockLexer<'_>) -> Result<(), NotConverted> {
        let place = word.place;
        if word.is("}") {
            if self.open.len() < 2 {
                return Err("a brace is closed that was not opened".into());
            }
            self.close(place);
            return Ok(());
        }
        if word.is_quoted || word.is("{") {
            return Err(NEITHER.into());
        }
        if INCLUDES.iter().any(|own| word.is(own)) {
            let name = words.next().map(|word| word.text).unwrap_or_default();
            self.includes.push(place);
            let text = format!("the included file `{}` is not read: put its text here", quoted(&name));
            return Err(text.into());
        }
        if let Some((key, begun)) = word.text.split_once(':').filter(|(key, _)| !key.is_empty()) {
            let (value, last) = match begun.is_empty() {
                true => words.value(place.line).map(|value| (value.text, value.place.last))?,
                false => (begun.to_owned(), place.last),
            };
            return self.pair(ConfPair {
                place: SourcePosition { last, ..place },
                key: key.to_owned(),
                value,
            });
        }
        self.block_or_pair(&word, words)
    }

    /// Reads `word name {`, `word {`, or innfeed's `key : value`.
    fn block_or_pair(&mut self, word: &BlockToken, words: &mut BlockLexer<'_>) -> Result<(), NotConverted> {
        let place = word.place;
        let (rest, line) = (words.rest, words.line);
        let Some(mut name) = words.next() else { return Err(NEITHER.into()) };
        if name.is(":") {
            let value = words.value(place.line)?;
            let place = SourcePosition { last: value.place.last, ..place };
            return self.pair(ConfPair { place, key: word.text.clone(), value: value.text });
        }
        let is_open = match name.is("{") {
            true => {
                name.text.clear();
                true
            }
            false => !name.is("}") && words.next().is_some_and(|brace| brace.is("{")),
        };
        if !is_open {
            (words.rest, words.line) = (rest, line);
            return Err(NEITHER.into());
        }
        if self.open.len() > DEPTH_MAX {
            return Err(format!("blocks are nested more than {DEPTH_MAX} deep").into());
        }
        self.open.push(ConfBlock::new(place, &word.text, &name.text));
        Ok(())
    }

    fn pair(&mut self, pair: ConfPair) -> Result<(), NotConverted> {
        let Some(block) = self.open.last_mut() else { return Ok(()) };
        if block.get(&pair.key).is_some() && !REPEATED.contains(&pair.key.as_str()) {
            return Err(format!("`{}` is there already; the first one counts", quoted(&pair.key)).into());
        }
        block.pairs.push(pair);
        Ok(())
    }

    /// Records a fault, once per line.
    fn fault(&mut self, place: SourcePosition, why: String) {
        if let Some(block) = self.open.last_mut() {
            block.is_damaged = true;
        }
        if self.faults.last().is_none_or(|(last, _)| last.line != place.line) {
            self.faults.push((place, why));
        }
    }

    fn close(&mut self, place: SourcePosition) {
        if let Some(mut block) = self.open.pop() {
            block.end = place;
            if let Some(outer) = self.open.last_mut() {
                outer.blocks.push(block);
            }
        }
    }
}

/// Returns a text up to the closing quote, and its length in the file.
fn in_quotes(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices().take_while(|(at, _)| *at < QUOTED_BYTES_MAX);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, at)),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    None
}

/// A block of a kind with the keys that apply in it: its own, then those of the blocks around it.
#[derive(Debug)]
pub(super) struct ScopedBlock {
    pub name: String,
    pub place: SourcePosition,
    pub end: SourcePosition,
    pub own: Vec<ConfPair>,
    /// Keys of the blocks around it, nearest first.
    pub inherited: Vec<ConfPair>,
}

impl ScopedBlock {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&ConfPair> {
        self.own.iter().chain(&self.inherited).find(|pair| pair.key == key)
    }
}

/// Returns all blocks that begin with `word`, including those inside blocks that begin with `group`, and
/// the lines on which such groups begin and end.
pub(super) fn scoped(root: &ConfBlock, word: &str, group: &str) -> (Vec<ScopedBlock>, Vec<SourcePosition>) {
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    gather(root, &root.pairs, word, group, &mut found, &mut lines);
    (found, lines)
}

/// Recursion is bounded by [`DEPTH_MAX`].
fn gather(
    block: &ConfBlock,
    inherited: &[ConfPair],
    word: &str,
    group: &str,
    found: &mut Vec<ScopedBlock>,
    lines: &mut Vec<SourcePosition>,
) {
    for inner in &block.blocks {
        if inner.word == word {
            let (own, inherited) = (inner.pairs.clone(), inherited.to_vec());
            let (name, place, end) = (inner.name.clone(), inner.place, inner.end);
            found.push(ScopedBlock { name, place, end, own, inherited });
        } else if inner.word == group {
            lines.extend([inner.place, inner.end]);
            let nearer = [inner.pairs.as_slice(), inherited].concat();
            gather(inner, &nearer, word, group, found, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_nest_and_inherit() {
        let text = "# c\nstreaming: true   # yes\nmax-connections: 5\n\npeer a {\n  hostname: \"h, 1.2.3.4\"\n}\n\
                    group fast {\n max-connections : 15\n peer \"b\" { max-connections: 20 }\n  peer c {\n}\n}\n";
        let parsed = parse("incoming.conf", text);
        assert_eq!(parsed.faults, []);
        let (peers, lines) = scoped(&parsed.root, "peer", "group");
        let max: Vec<_> = peers
            .iter()
            .map(|peer| {
                (peer.name.as_str(), peer.get("max-connections").unwrap().value.as_str(), peer.place.line)
            })
            .collect();
        assert_eq!(max, [("a", "5", 5), ("b", "20", 10), ("c", "15", 11)]);
        assert_eq!(peers[0].get("hostname").unwrap().value, "h, 1.2.3.4");
        assert_eq!(peers[1].get("streaming").unwrap().value, "true");
        assert_eq!(lines.iter().map(|place| place.line).collect::<Vec<_>>(), [8, 13]);
    }

    #[test]
    fn a_value_ends_at_a_blank_and_the_next_key_follows() {
        let parsed = parse(
            "innfeed.conf",
            "peer a { ip-name: 192.0.2.7 port-number: 433 }\r\npeer b{ ip-name:\r\n\t192.0.2.8 # c\n}\n\
             peer c { comment: \"a \\\"b\\\" # c\nd\" email: x\\#y#z\n}\n",
        );
        assert_eq!(parsed.faults, []);
        type NamedBlock<'t> = (&'t str, u32, Vec<(&'t str, &'t str)>);
        let all: Vec<NamedBlock<'_>> = parsed
            .root
            .blocks
            .iter()
            .map(|block| {
                let pairs = block.pairs.iter().map(|pair| (pair.key.as_str(), pair.value.as_str()));
                (block.name.as_str(), block.end.line, pairs.collect())
            })
            .collect();
        assert_eq!(
            all,
            [
                ("a", 1, vec![("ip-name", "192.0.2.7"), ("port-number", "433")]),
                ("b", 4, vec![("ip-name", "192.0.2.8")]),
                ("c", 7, vec![("comment", "a \"b\" # c\nd"), ("email", "x#y")]),
            ]
        );
    }

    #[test]
    fn a_block_with_something_not_understood_is_marked() {
        let parsed = parse(
            "readers.conf",
            "access a {\n read: *, !secret.*\n}\naccess b {\n read:\n post: *\n post: x\n}\naccess c { read: * }\n\
             include more\n",
        );
        let marked: Vec<bool> = parsed.root.blocks.iter().map(|block| block.is_damaged).collect();
        assert_eq!(marked, [true, true, false]);
        let lines: Vec<u32> = parsed.faults.iter().map(|(place, _)| place.line).collect();
        assert_eq!(lines, [2, 5, 7, 10], "{:?}", parsed.faults);
        assert_eq!(parsed.root.blocks[1].get("post").unwrap().value, "*");
        assert_eq!(parsed.includes.len(), 1);
    }

    #[test]
    fn faults_name_their_line_and_parsing_continues() {
        let parsed =
            parse("readers.conf", "nonsense here\nauth \"x\" {\n hosts: \"a\n default: y\n}\n}\nauth z {");
        let lines: Vec<u32> = parsed.faults.iter().map(|(place, _)| place.line).collect();
        assert_eq!(lines, [1, 3, 6, 7], "{:?}", parsed.faults);
        assert_eq!(parsed.root.blocks.len(), 2);
        assert_eq!(parsed.root.blocks[0].get("default").unwrap().value, "y");
        let deep = "a b {\n".repeat(100);
        assert!(!parse("readers.conf", &deep).faults.is_empty());
    }
}
