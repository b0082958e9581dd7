//! Parser for newsfeeds: variables, the entry ME, and one entry per site.
//!
//! Text in, values out. Called by `feeds`. Source: newsfeeds(5).

use std::collections::BTreeMap;

use super::text::{NotConverted, SourcePosition, continued, pieces, quoted};

const FILE: &str = "newsfeeds";
/// Longest entry after expanding variables, in bytes, as they could grow without bound.
const ENTRY_BYTES_MAX: usize = 256 << 10;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewsfeedsEntry {
    pub place: SourcePosition,
    pub site: String,
    pub exclusions: Vec<String>,
    pub patterns: String,
    pub distributions: String,
    pub flags: Vec<String>,
    pub parameter: String,
}

impl NewsfeedsEntry {
    /// Returns the value of a flag that may be given once; the last one counts.
    pub fn flag(&self, letter: char) -> Option<&str> {
        self.flags.iter().rev().find_map(|flag| flag.strip_prefix(letter))
    }

    /// Returns the letter after `T`; `f` is the default.
    pub fn kind(&self) -> char {
        self.flag('T').and_then(|kind| kind.chars().next()).unwrap_or('f')
    }
}

/// Parsed file.
#[derive(Debug, Default)]
pub(super) struct Newsfeeds {
    pub me: Option<NewsfeedsEntry>,
    pub entries: Vec<NewsfeedsEntry>,
    /// Lines that set variables.
    pub variables: Vec<SourcePosition>,
    pub faults: Vec<(SourcePosition, String)>,
}

/// Parses the file.
pub(super) fn parse(text: &str) -> Newsfeeds {
    let mut found = Newsfeeds::default();
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    for line in continued(FILE, text) {
        let place = line.place;
        if let Some((name, value)) = line.text.strip_prefix('$').and_then(|rest| rest.split_once('=')) {
            variables.insert(name.trim().to_owned(), value.trim().to_owned());
            found.variables.push(place);
            continue;
        }
        let entry = with_variables(&line.text, &variables).and_then(|text| entry(place, &text));
        match entry {
            Ok(entry) if entry.site == "ME" => {
                if let Some(first) = found.me.replace(entry) {
                    found
                        .faults
                        .push((first.place, "there is another entry ME after it, which counts".into()));
                }
            }
            Ok(entry) => found.entries.push(entry),
            Err(why) => found.faults.push((place, why.into())),
        }
    }
    found
}

/// Expands variables; a `!` or `@` before one is put before each pattern of its value.
fn with_variables(text: &str, variables: &BTreeMap<String, String>) -> Result<String, NotConverted> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        whole.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        match variables.get(name) {
            // A dollar sign of a program's own.
            None => {
                whole.push('$');
                whole.push_str(name);
            }
            Some(value) => match whole.chars().last().filter(|sign| "!@".contains(*sign)) {
                Some(sign) => whole.push_str(&value.replace(',', &format!(",{sign}"))),
                None => whole.push_str(value),
            },
        }
        if whole.len() > ENTRY_BYTES_MAX {
            return Err("the entry is too long once its variables are put in".into());
        }
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

fn entry(place: SourcePosition, text: &str) -> Result<NewsfeedsEntry, NotConverted> {
    let mut fields = text.splitn(4, ':').map(str::trim);
    let names = fields.next().unwrap_or_default();
    let (Some(groups), Some(flags)) = (fields.next(), fields.next()) else {
        return Err(format!("`{}`: an entry has four fields", quoted(text)).into());
    };
    let (site, exclusions) = names.split_once('/').unwrap_or((names, ""));
    let (patterns, distributions) = groups.split_once('/').unwrap_or((groups, ""));
    if site.trim().is_empty() {
        return Err("an entry without a name".into());
    }
    let list = |text: &str| pieces(text).map(str::to_owned).collect::<Vec<_>>();
    Ok(NewsfeedsEntry {
        place,
        site: site.trim().to_owned(),
        exclusions: list(exclusions),
        patterns: patterns.trim().to_owned(),
        distributions: distributions.trim().to_owned(),
        flags: list(flags),
        parameter: fields.next().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_variables_are_parsed() {
        let found = parse(
            "# c\n$LOCAL=local.*,example.*\n$CONTROL=control,control.*\nME:*,!$CONTROL/!local::\n\
             news.example.net/n.example,m.example\\\n   :*,@$LOCAL,!$CONTROL\\\n   :Tm,<100000,Ap:innfeed!\n\
             watcher!:*:Tc,Wbnm:exec awk '{ print $1 }' >> /x:y\nshort:x\n",
        );
        let me = found.me.unwrap();
        assert_eq!((me.patterns.as_str(), me.distributions.as_str()), ("*,!control,!control.*", "!local"));
        let [feed, watcher] = found.entries.as_slice() else { panic!("{:?}", found.entries) };
        assert_eq!(feed.patterns, "*,@local.*,@example.*,!control,!control.*");
        assert_eq!((feed.place.line, feed.place.last), (5, 7));
        assert_eq!(feed.exclusions, ["n.example", "m.example"]);
        assert_eq!((feed.kind(), feed.flag('<'), feed.parameter.as_str()), ('m', Some("100000"), "innfeed!"));
        assert_eq!(watcher.parameter, "exec awk '{ print $1 }' >> /x:y");
        assert_eq!((watcher.kind(), watcher.flag('W')), ('c', Some("bnm")));
        assert_eq!(found.faults.len(), 1);
        assert_eq!((found.faults[0].0.line, found.variables.len()), (9, 2));
    }

    #[test]
    fn variables_that_grow_are_refused() {
        let mut text = "$A=".to_owned() + &"x".repeat(1000) + "\n";
        text.push_str(&format!("site:{}:Tf:\n", "$A,".repeat(1000)));
        let found = parse(&text);
        assert!(found.entries.is_empty() && found.faults.len() == 1);
    }
}
