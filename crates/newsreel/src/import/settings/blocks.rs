//! The files that consist of `key: value` and of blocks in braces: incoming.conf, innfeed.conf, readers.conf,
//! storage.conf.
//!
//! Text in, statements out; what makes no sense is a fault with its line, and reading goes on in the next
//! one. Sources: incoming.conf(5), innfeed.conf(5), readers.conf(5), storage.conf(5).

use super::text::{Place, Why};

/// Deepest nesting of blocks; INN's own limit for included files is 10.
const DEPTH_MAX: usize = 16;

/// `key: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub place: Place,
    pub key: String,
    pub value: String,
}

/// `word name { ... }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub place: Place,
    /// The line of the closing brace.
    pub end: Place,
    pub word: String,
    pub name: String,
    pub pairs: Vec<Pair>,
    pub blocks: Vec<Block>,
}

impl Block {
    fn new(place: Place, word: &str, name: &str) -> Self {
        let (word, name) = (word.to_owned(), name.to_owned());
        Self { place, end: place, word, name, pairs: Vec::new(), blocks: Vec::new() }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Pair> {
        self.pairs.iter().rev().find(|pair| pair.key == key)
    }
}

/// A file: what stands outside any block is in one without a name.
#[derive(Debug)]
pub(super) struct Parsed {
    pub root: Block,
    pub faults: Vec<(Place, String)>,
}

/// Reads a file.
pub(super) fn parse(file: &'static str, text: &str) -> Parsed {
    let mut reader = Reader { open: vec![Block::new(Place::at(file, 1), "", "")], faults: Vec::new() };
    let mut last = Place::at(file, 1);
    for (at, line) in text.lines().enumerate() {
        last = Place::at(file, u32::try_from(at + 1).unwrap_or(u32::MAX));
        reader.line(last, line);
    }
    while reader.open.len() > 1 {
        let name = reader.open.last().map(|block| block.name.clone()).unwrap_or_default();
        reader.faults.push((last, format!("the block `{name}` is not closed")));
        reader.close(last);
    }
    let root = reader.open.pop().unwrap_or_else(|| Block::new(last, "", ""));
    Parsed { root, faults: reader.faults }
}

struct Reader {
    /// The blocks that are open, the innermost last; never empty.
    open: Vec<Block>,
    faults: Vec<(Place, String)>,
}

impl Reader {
    fn line(&mut self, place: Place, line: &str) {
        let mut rest = line.trim();
        while !rest.is_empty() && !rest.starts_with('#') {
            rest = match self.statement(place, rest) {
                Ok(after) => after.trim_start(),
                Err(why) => {
                    self.faults.push((place, why.into()));
                    return;
                }
            };
        }
    }

    /// Takes one statement off the line.
    fn statement<'a>(&mut self, place: Place, rest: &'a str) -> Result<&'a str, Why> {
        if let Some(after) = rest.strip_prefix('}') {
            if self.open.len() < 2 {
                return Err("a brace is closed that was not opened".into());
            }
            self.close(place);
            return Ok(after);
        }
        let end = rest.find(|c: char| c.is_whitespace() || "{}#".contains(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some((key, begun)) = word.split_once(':').filter(|(key, _)| !key.is_empty()) {
            let after = &rest[rest.len() - after.len() - begun.len()..];
            let (value, after) = value(after.trim_start())?;
            self.pair(Pair { place, key: key.to_owned(), value });
            return Ok(after);
        }
        // innfeed.conf allows a blank before the colon.
        if let Some(after) = after.trim_start().strip_prefix(':').filter(|_| !word.is_empty()) {
            let (value, after) = value(after.trim_start())?;
            self.pair(Pair { place, key: word.to_owned(), value });
            return Ok(after);
        }
        let (name, after) = name(after.trim_start())?;
        let after = after.trim_start();
        let Some(after) = after.strip_prefix('{').filter(|_| !word.is_empty()) else {
            return Err("neither `key: value` nor the beginning of a block".into());
        };
        if self.open.len() > DEPTH_MAX {
            return Err(format!("blocks are nested more than {DEPTH_MAX} deep").into());
        }
        self.open.push(Block::new(place, word, &name));
        Ok(after)
    }

    fn pair(&mut self, pair: Pair) {
        if let Some(block) = self.open.last_mut() {
            block.pairs.push(pair);
        }
    }

    fn close(&mut self, place: Place) {
        if let Some(mut block) = self.open.pop() {
            block.end = place;
            if let Some(outer) = self.open.last_mut() {
                outer.blocks.push(block);
            }
        }
    }
}

/// The value of a key, and what follows it.
fn value(text: &str) -> Result<(String, &str), Why> {
    if let Some(inner) = text.strip_prefix('"') {
        return in_quotes(inner);
    }
    let mut before = ' ';
    let end = text.char_indices().find(|(_, c)| {
        let ends = *c == '}' || (*c == '#' && before.is_whitespace());
        before = *c;
        ends
    });
    let (value, after) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    Ok((value.trim_end().replace("\\#", "#"), after))
}

/// The name of a block, perhaps none.
fn name(text: &str) -> Result<(String, &str), Why> {
    if let Some(inner) = text.strip_prefix('"') {
        return in_quotes(inner);
    }
    let end = text.find(|c: char| c.is_whitespace() || "{}#".contains(c)).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    Ok((name.to_owned(), after))
}

/// A text up to the closing quote.
fn in_quotes(text: &str) -> Result<(String, &str), Why> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    Err("a quote is not closed in its line".into())
}

/// A block of a kind with the keys that hold in it: its own, then those of the blocks around it.
#[derive(Debug)]
pub(super) struct Scoped {
    pub name: String,
    pub place: Place,
    pub end: Place,
    pub own: Vec<Pair>,
    /// Nearest first.
    pub inherited: Vec<Pair>,
}

impl Scoped {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Pair> {
        self.own.iter().rev().chain(&self.inherited).find(|pair| pair.key == key)
    }
}

/// All blocks that begin with `word`, also those in blocks that begin with `group`; and the lines on which
/// such groups begin and end.
pub(super) fn scoped(root: &Block, word: &str, group: &str) -> (Vec<Scoped>, Vec<Place>) {
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    gather(root, &root.pairs, word, group, &mut found, &mut lines);
    (found, lines)
}

/// Recursion is as deep as [`DEPTH_MAX`].
fn gather(
    block: &Block,
    inherited: &[Pair],
    word: &str,
    group: &str,
    found: &mut Vec<Scoped>,
    lines: &mut Vec<Place>,
) {
    for inner in &block.blocks {
        if inner.word == word {
            let (own, inherited) = (inner.pairs.clone(), inherited.to_vec());
            let (name, place, end) = (inner.name.clone(), inner.place, inner.end);
            found.push(Scoped { name, place, end, own, inherited });
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
    fn faults_name_their_line_and_reading_goes_on() {
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
