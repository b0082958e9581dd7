//! Converts Diablo's dnewsfeeds and dnntpspool.ctl: a `[[peer]]` for each label, as far as they map.
//!
//! Called by `settings`. Source: diablo-files(5) of Diablo 4 and 5.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toml_edit::Value;

use super::keys::{self, MappedKey, row};
use super::patterns::{HostList, Patterns, ResolveHost, bracketed, peer_name};
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{ConfLine, NotConverted, SourcePosition, lines, quoted};
use crate::conf::without_comment;
use site_base::units::{size_text, span_text};
use site_config::{ArticleType, ConfigWord, HashSplit, is_path_identity};

/// Deepest nesting of groupref.
const DEPTH_MAX: usize = 10;
/// Most lines of one label, with its groupdefs expanded.
const LINES_MAX: usize = 10_000;
/// Labels that are not sites.
const NOT_SITES: [&str; 6] = ["GLOBAL", "DEFAULT", "ME", "ISPAM", "ESPAM", "IFILTER"];

/// A label, or a groupdef.
#[derive(Debug, Default)]
struct DiabloBlock {
    name: String,
    lines: Vec<ConfLine>,
}

/// Converts the files.
pub(super) fn convert(newsfeeds: &str, spool: &str, resolve: ResolveHost<'_>, sheet: &mut ConfigDraft) {
    let mut labels: Vec<DiabloBlock> = Vec::new();
    let mut defs: BTreeMap<String, DiabloBlock> = BTreeMap::new();
    let mut open: Option<(bool, DiabloBlock)> = None;
    for line in lines("dnewsfeeds", newsfeeds) {
        let (word, rest) = words(&line.text);
        match (word, open.take()) {
            ("label" | "groupdef", None) => {
                sheet.saw([line.place]);
                open = Some((word == "label", DiabloBlock { name: rest.to_owned(), lines: vec![line] }));
            }
            ("end", Some((is_label, block))) => {
                sheet.saw([line.place]);
                match is_label {
                    true => labels.push(block),
                    false => {
                        let before = defs.insert(block.name.clone(), block);
                        for line in before.iter().flat_map(|def| &def.lines) {
                            let line_text = quoted(&line.text);
                            let why = "is not carried over: a later groupdef has this name";
                            sheet.remark(line.place, format!("`{line_text}` {why}"));
                        }
                    }
                }
            }
            (_, Some((is_label, mut block))) => {
                block.lines.push(line);
                open = Some((is_label, block));
            }
            (_, None) => sheet.remark(line.place, format!("`{}` stands in no label", quoted(&line.text))),
        }
    }
    if let Some((_, block)) = open {
        for line in block.lines {
            sheet.remark(line.place, format!("`{}`: its block has no end", quoted(&line.text)));
        }
    }
    let hosts = lines("dnntpspool.ctl", spool);
    let mut names = BTreeSet::new();
    for label in &labels {
        if NOT_SITES.contains(&label.name.as_str()) {
            for line in &label.lines {
                let why = "no equivalent: the label is no site";
                sheet.unsaid(line.place, format!("`{}`", quoted(&line.text)), why);
            }
            continue;
        }
        let mut name = peer_name(&label.name);
        while !names.insert(name.clone()) {
            name.push_str("-2");
        }
        let section = peer(label, &name, &defs, &hosts, resolve);
        sheet.push(section);
    }
    let all = || labels.iter().chain(defs.values()).flat_map(|block| &block.lines);
    for def in defs.values() {
        sheet.saw(def.lines.iter().map(|line| line.place));
        let is_used = all().any(|line| words(&line.text) == ("groupref", def.name.as_str()));
        for line in def.lines.iter().filter(|_| !is_used) {
            let why = "is not carried over: no label refers to this groupdef";
            sheet.remark(line.place, format!("`{}` {why}", quoted(&line.text)));
        }
    }
    for line in hosts.iter().filter(|line| !labels.iter().any(|label| label.name == words(&line.text).0)) {
        sheet.remark(line.place, format!("`{}`: dnewsfeeds has no such label", quoted(&line.text)));
    }
}

/// Returns the first word of a line and the text after it, without a comment.
fn words(text: &str) -> (&str, &str) {
    let text = without_comment(text);
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// Appends the lines of a block with its groupdefs expanded; `budget` limits how many are examined.
fn whole<'a>(
    block: &'a DiabloBlock,
    defs: &'a BTreeMap<String, DiabloBlock>,
    depth: usize,
    budget: &mut usize,
    all: &mut Vec<&'a ConfLine>,
) {
    for line in block.lines.iter().skip(1) {
        let Some(left) = budget.checked_sub(1) else { return };
        *budget = left;
        let (word, rest) = words(&line.text);
        match defs.get(rest).filter(|_| word == "groupref" && depth < DEPTH_MAX) {
            Some(def) => whole(def, defs, depth + 1, budget, all),
            None => all.push(line),
        }
    }
}

/// Values collected from several lines.
#[derive(Default)]
struct PeerLists {
    groups: Vec<String>,
    never: Vec<String>,
    distributions: Vec<String>,
    aliases: Vec<String>,
    types: Vec<&'static str>,
    types_never: Vec<&'static str>,
}

fn peer(
    label: &DiabloBlock,
    name: &str,
    defs: &BTreeMap<String, DiabloBlock>,
    hosts: &[ConfLine],
    resolve: ResolveHost<'_>,
) -> DraftSection {
    let mut section = DraftSection::new("peer");
    let place = label.lines.first().map_or(SourcePosition::at("dnewsfeeds", 1), |line| line.place);
    section.key("name", name, place);
    section.saw(label.lines.iter().map(|line| line.place));
    let mut all = Vec::new();
    let mut budget = LINES_MAX;
    whole(label, defs, 0, &mut budget, &mut all);
    if budget == 0 {
        section.disable(format!("with its groupdefs it has more than {LINES_MAX} lines"));
    }
    let mut lists = PeerLists::default();
    for line in all {
        let (word, rest) = words(&line.text);
        if let Err(why) = key(word, rest, line.place, &mut lists, &mut section, resolve) {
            section.remark(line.place, format!("`{}`: {why}", quoted(&line.text)));
        }
    }
    lists.write(place, &mut section);
    let mut of_spool = hosts.iter().filter(|line| words(&line.text).0 == label.name);
    if let Some(line) = of_spool.next() {
        let (host, options) = words(words(&line.text).1);
        section.key("send.to", format!("{}:119", bracketed(host)), line.place);
        if !options.is_empty() {
            section.remark(line.place, format!("`{}` has no equivalent", quoted(options)));
        }
    }
    for line in of_spool {
        let why = "is not carried over: an earlier line of this label decides";
        section.remark(line.place, format!("`{}` {why}", quoted(&line.text)));
    }
    if !section.has("send.to") {
        section.key("send.to", format!("{name}:119"), place);
        section.disable("neither it nor dnntpspool.ctl says which host it is");
    }
    section
}

/// Keys of a label that become one of ours.
const KEYS: &[MappedKey] = &[
    row("host", "peer", "send.to", |host| Ok(format!("{}:119", bracketed(host)).into())),
    row("hostname", "peer", "send.to", |host| Ok(format!("{}:119", bracketed(host)).into())),
    row("maxcross", "peer", "send.crossposts_max", |value| Ok(count(value)?.max(1).into())),
    row("maxpath", "peer", "send.hops_max", |value| Ok(count(value)?.into())),
    row("maxsize", "peer", "send.size_max", |value| Ok(size_text(number(value)?).into())),
    row("minsize", "peer", "send.size_min", |value| Ok(size_text(number(value)?).into())),
    row("maxconnect", "peer", "max_connections", |value| Ok(count(value)?.max(1).into())),
    row("maxparallel", "peer", "send.connections", |value| Ok(count(value)?.clamp(1, 100).into())),
    row("startdelay", "peer", "send.delay", |value| {
        Ok(span_text(Duration::from_secs(number(value)?.min(86_400))).into())
    }),
    row("stream", "peer", "send.streaming", |value| Ok(is_on(value).into())),
    row("headfeed", "peer", "send.headers_only", |value| Ok(is_on(value).into())),
    row("bindaddress", "peer", "send.bind", keys::text),
    row("hashfeed", "peer", "send.hash", |value| {
        let text = value.replace('_', ":");
        HashSplit::parse(&text).map_err(|error| error.to_string())?;
        Ok(text.into())
    }),
];

fn number(value: &str) -> Result<u64, NotConverted> {
    value.parse().map_err(|_| NotConverted::from("not a number"))
}

fn count(value: &str) -> Result<i64, NotConverted> {
    Ok(number(value)?.min(1_000_000) as i64)
}

fn is_on(value: &str) -> bool {
    !["0", "no", "off", "false"].contains(&value)
}

fn key(
    word: &str,
    value: &str,
    place: SourcePosition,
    lists: &mut PeerLists,
    section: &mut DraftSection,
    resolve: ResolveHost<'_>,
) -> Result<(), NotConverted> {
    if value.is_empty() && !matches!(word, "headfeed" | "stream") {
        return Err("nothing stands after it".into());
    }
    match word {
        "addgroup" => lists.groups.push(value.to_owned()),
        "delgroup" => lists.groups.push(format!("!{value}")),
        "delgroupany" | "refusegroup" => lists.never.push(value.to_owned()),
        "adddist" => lists.distributions.push(value.to_owned()),
        "deldist" => lists.distributions.push(format!("!{value}")),
        "alias" if is_path_identity(value) => lists.aliases.push(value.to_owned()),
        "alias" => return Err("path_never has no patterns".into()),
        "arttypes" => return lists.types(value),
        "inhost" => {
            let hosts = HostList::parse(value, resolve);
            section.key("addresses", Value::from_iter(hosts.networks), place);
            hosts.looked_up.iter().chain(&hosts.unknown).for_each(|text| section.remark(place, text));
        }
        _ => {
            let row = keys::find(KEYS, word).ok_or("no equivalent")?;
            section.key(row.ours, (row.value)(value)?, place);
        }
    }
    Ok(())
}

impl PeerLists {
    /// Reads `arttypes TYPE ... !TYPE`.
    fn types(&mut self, value: &str) -> Result<(), NotConverted> {
        for piece in value.split([',', ' ', '\t']).filter(|piece| !piece.is_empty()) {
            let (own, list) = match piece.strip_prefix('!') {
                Some(own) => (own, &mut self.types_never),
                None => (piece, &mut self.types),
            };
            let own = if own == "default" || own == "none" { "plain" } else { own };
            match ArticleType::WORDS.iter().find(|(word, _)| *word == own) {
                Some((word, _)) => list.push(word),
                None if own == "all" => list.clear(),
                None => return Err(format!("there is no type `{}`", quoted(own)).into()),
            }
        }
        Ok(())
    }

    fn write(self, place: SourcePosition, section: &mut DraftSection) {
        match (Patterns::parse(&self.groups.join(",")), Patterns::parse(&self.never.join(","))) {
            (Ok(groups), Ok(never)) => {
                section.noted("send.groups", groups.groups, "addgroup and delgroup; the last one decides");
                if !never.groups.is_empty() {
                    section.noted("send.groups_never", never.groups, "");
                }
            }
            (Err(why), _) | (_, Err(why)) => section.disable(why),
        }
        for (key, list) in [("send.distributions", &self.distributions), ("send.path_never", &self.aliases)] {
            match key {
                _ if list.is_empty() => {}
                "send.distributions" => section.key(key, list.join(","), place),
                _ => section.key(key, Value::from_iter(list), place),
            }
        }
        for (key, list) in [("send.types", self.types), ("send.types_never", self.types_never)] {
            if !list.is_empty() {
                section.key(key, Value::from_iter(list), place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::storage;

    /// A file in the form of Diablo's sample: TABs, indented comments, labels of filters and of the site
    /// itself, an upstream, a peer for text alone and one for headers.
    #[test]
    fn a_file_like_the_sample_is_converted() {
        let feeds = "#\n# A feeder\n#\nlabel\tGLOBAL\n    #\n    # nobody here\n    #\n    # alias\t*.bad.example\nend\n\n\
                     label ISPAM\n    addgroup\t*\n    arttypes\tbinary\nend\n\nlabel ESPAM\n    addgroup\t*\n\
                     \x20   arttypes\t!binary\nend\n\nlabel IFILTER\n    addgroup\t*\n    delgroup\t*binaries*\n\
                     \x20   arttypes\tbinary\nend\n\ngroupdef\ttextgroups\n    addgroup\t*\n    delgroup\t*.binaries.*\n\
                     end\n\nlabel\tupstream\n    inhost\t\t192.0.2.1\n    hostname\tnews.upstream.example\n\
                     \x20   alias\t\tupstream.example\n    maxconnect\t10\n    groupref\ttextgroups\nend\n\n\
                     label\treaders\n    alias\t\treader.example\n    hostname\treader.example\n    headfeed\tyes\n\
                     \x20   addgroup\t*\n    maxsize\t1000000\n    arttypes\tall\nend\n";
        let mut sheet = ConfigDraft::default();
        storage::convert(None, &storage::Cycbuffs::default(), true, &mut sheet);
        convert(feeds, "", &|_| Vec::new(), &mut sheet);
        sheet.complete(&BTreeMap::from([("dnewsfeeds", feeds.to_owned())]), &["dnewsfeeds"]);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        let [upstream, readers] = config.peers.as_slice() else { panic!("{text}") };
        let (up, down) = (upstream.send.as_ref().unwrap(), readers.send.as_ref().unwrap());
        assert_eq!(up.to, ["news.upstream.example:119"]);
        assert_eq!((up.groups.as_str(), upstream.max_connections), ("*,!*.binaries.*", 10));
        assert_eq!(
            (up.path_never.as_slice(), up.headers_only),
            (&["upstream.example".to_owned()][..], false)
        );
        assert!(down.headers_only && down.types.is_empty() && down.size_max == Some(1_000_000));
        assert!(!text.contains("not understood"), "{text}");
    }

    #[test]
    fn comments_after_values_are_left_out_and_ipv6_hosts_are_bracketed() {
        let mut sheet = ConfigDraft::default();
        storage::convert(None, &storage::Cycbuffs::default(), true, &mut sheet);
        let feeds = "label one # ours\n hostname 2001:db8::119\t# by cable #2\n addgroup * # all\nend\t# one\n\
                     label two\n addgroup *\nend\n";
        convert(feeds, "two 2001:db8::2\n", &|_| Vec::new(), &mut sheet);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        let all: Vec<_> =
            config.peers.iter().map(|peer| (peer.name.as_str(), peer.send.as_ref().unwrap())).collect();
        let [("one", one), ("two", two)] = all.as_slice() else { panic!("{text}") };
        assert_eq!((one.to.as_slice(), one.groups.as_str()), (&["[2001:db8::119]:119".to_owned()][..], "*"));
        assert_eq!(two.to, ["[2001:db8::2]:119"]);
    }

    #[test]
    fn labels_become_peers() {
        let mut sheet = ConfigDraft::default();
        storage::convert(None, &storage::Cycbuffs::default(), true, &mut sheet);
        let feeds = "groupdef text\n  addgroup *\n  delgroup *.binaries.*\n  groupref text\nend\n\
                     label peer1\n alias news.peer1.example\n alias *.x\n inhost 192.0.2.7\n groupref text\n\
                     delgroupany local.*\n maxsize 100000\n maxcross 10\n hashfeed 1-3/10\n arttypes !binary\n\
                     maxparallel 3\n headfeed\n deldist local\n noclue 3\nend\n\
                     label GLOBAL\n maxsize 5\nend\nlabel lost\n addgroup a.*\nend\nstray\nlabel open\n addgroup b\n";
        convert(feeds, "peer1 feed.peer1.example t60\nnobody x\n", &|_| Vec::new(), &mut sheet);
        sheet
            .complete(&BTreeMap::from([("dnewsfeeds", feeds.to_owned())]), &["dnewsfeeds", "dnntpspool.ctl"]);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        let [peer] = config.peers.as_slice() else { panic!("{text}") };
        let send = peer.send.as_ref().unwrap();
        assert_eq!(
            (peer.name.as_str(), send.to.as_slice()),
            ("peer1", &["feed.peer1.example:119".to_owned()][..])
        );
        assert_eq!((send.groups.as_str(), send.groups_never.as_str()), ("*,!*.binaries.*", "local.*"));
        assert_eq!((send.size_max, send.crossposts_max, send.connections), (Some(100_000), Some(10), 3));
        assert_eq!(send.path_never, ["news.peer1.example"]);
        assert!(send.headers_only && send.distributions.as_str() == "!local" && send.types_never.len() == 1);
        for part in [
            "# name = \"lost\"",
            "`noclue 3`: no equivalent",
            "`stray` stands in no label",
            "no end",
            "no such label",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("not understood"), "{text}");
    }
}
