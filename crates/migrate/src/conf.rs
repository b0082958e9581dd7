//! INN's configuration and group files, as far as an import needs them: inn.conf, cycbuff.conf, active,
//! newsgroups, active.times, history.
//!
//! Text in, values out; invalid lines are skipped. Called by `import::site`. Sources: inn.conf(5),
//! cycbuff.conf(5), active(5), newsgroups(5), active.times(5), history(5).

use netnews::newsgroups;
use std::collections::{BTreeMap, HashMap};

/// A group of the other server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherGroup {
    /// High water mark.
    pub high: u64,
    /// Low water mark: articles below it have expired; 0 if unknown.
    pub low: u64,
    /// Flag, as in the active file.
    pub flag: String,
    /// One-line description; empty if there is none.
    pub description: String,
    /// Creation time in Unix seconds; 0 if unknown.
    pub created: u64,
    /// Creator; empty if unknown.
    pub creator: String,
}

/// Returns the value of a key of inn.conf, without quotes; the first if there are several.
pub fn inn_conf(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| inn_conf_value(value.trim())).flatten().filter(|value| !value.is_empty())
    })
}

/// Returns a value of inn.conf without its quotes and the comment after it; `None` if its quote is not
/// closed.
pub fn inn_conf_value(value: &str) -> Option<String> {
    let Some(inner) = value.strip_prefix('"') else {
        return Some(without_comment(value).to_owned());
    };
    unquoted(inner)
}

/// Returns a text without the comment after it, which begins with `#` after white space.
pub fn without_comment(text: &str) -> &str {
    let starts =
        |at: &usize| text.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t']));
    let end = text.match_indices('#').map(|(at, _)| at).find(starts).unwrap_or(text.len());
    text.get(..end).unwrap_or_default().trim()
}

/// Returns the text up to the closing quote, in which a backslash takes the meaning of the character after
/// it; `None` if there is no such quote.
pub fn unquoted(inner: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = inner.chars();
    loop {
        match chars.next()? {
            '"' => return Some(plain),
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
}

/// Returns the buffers of a cycbuff.conf as (name, path), in order.
pub fn cycbuffs(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\r\n", "\n").replace("\\\n", "");
    let buffer = |line: &str| {
        let mut fields = line.trim().split(':');
        (fields.next()? == "cycbuff").then_some(())?;
        Some((fields.next()?.trim().to_owned(), fields.next()?.trim().to_owned()))
    };
    joined.lines().filter_map(buffer).collect()
}

/// Returns whether a storage.conf names the method cnfs.
pub fn uses_cnfs(text: &str) -> bool {
    let plain = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words: Vec<&str> = plain.flat_map(str::split_ascii_whitespace).collect();
    words.windows(2).any(|pair| {
        pair.first() == Some(&"method")
            && pair.last().is_some_and(|word| word.trim_end_matches('{') == "cnfs")
    })
}

/// Returns the groups of an active file, and the invalid lines with their numbers.
pub fn active(text: &str) -> (BTreeMap<String, OtherGroup>, Vec<(usize, &str)>) {
    let group = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (name, high) = (words.next()?, words.next()?.parse().ok()?);
        let low = words.next()?.parse().ok()?;
        let flag = words.next()?.to_owned();
        Some((name.to_owned(), OtherGroup { high, low, flag, ..OtherGroup::default() }))
    };
    let (mut groups, mut odd) = (BTreeMap::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match group(line) {
            Some((name, group)) => drop(groups.insert(name, group)),
            None => odd.push((at + 1, line)),
        }
    }
    (groups, odd)
}

/// Returns the groups of leafnode's groupinfo that have been fetched, or for which `is_used` returns true: it
/// may have articles, or be read. A line of leafnode 2 has the name, the flag, the last and the first number,
/// the time of creation and the description, separated by tabs; leafnode 1 uses blanks, and has no flag.
///
/// All others merely exist on its servers. Their numbers are those of an empty group, `0 1`, or `1 1` after
/// a look at leafnode's placeholder. As control.* and junk take no posts, their flag is `n`.
pub fn groupinfo(text: &str, is_used: impl Fn(&str) -> bool) -> BTreeMap<String, OtherGroup> {
    let group = |line: &str| {
        let line = line.trim_end_matches('\r');
        let has_flag = line.contains('\t');
        let mut fields = if has_flag { line.splitn(6, '\t') } else { line.splitn(5, ' ') };
        let name = fields.next()?;
        let flag = if has_flag { fields.next()? } else { "y" };
        let flag = if newsgroups::is_local_name(name.as_bytes()) { "n" } else { flag };
        let last = fields.next()?.parse::<u64>().ok()?;
        let first = fields.next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0);
        let created = fields.next().and_then(|age| age.parse().ok()).unwrap_or(0);
        let description = fields.next().map(str::trim).filter(|text| *text != "-x-" && *text != "-");
        (!name.is_empty() && (last.max(first) > 1 || is_used(name))).then(|| {
            let group = OtherGroup {
                high: last,
                // Its files show what has expired.
                low: 0,
                flag: flag.to_owned(),
                description: description.unwrap_or_default().to_owned(),
                created,
                creator: String::new(),
            };
            (name.to_owned(), group)
        })
    };
    text.lines().filter_map(group).collect()
}

/// Adds the descriptions of a newsgroups file.
pub fn descriptions(text: &str, groups: &mut BTreeMap<String, OtherGroup>) {
    for (name, description) in text.lines().filter_map(|line| line.split_once(['\t', ' '])) {
        if let Some(group) = groups.get_mut(name) {
            group.description = description.trim().to_owned();
        }
    }
}

/// Adds times and creators of an active.times file.
pub fn times(text: &str, groups: &mut BTreeMap<String, OtherGroup>) {
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(name), Some(Ok(created))) = (words.next(), words.next().map(str::parse)) else { continue };
        if let Some(group) = groups.get_mut(name) {
            group.created = created;
            group.creator = words.next().unwrap_or_default().trim().to_owned();
        }
    }
}

/// Contents of a history file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HistoryArrivals {
    /// Arrivals in Unix seconds, by INN's hash of the Message-ID.
    pub by_hash: HashMap<[u8; 16], u32>,
    /// Number of lines without a token: Message-IDs that are only remembered.
    pub remembered: u64,
}

/// Reads a line of history into `arrivals`: `[HASH]`, a tab, `arrived~expires~posted`, and a tab and the
/// token if there is an article.
pub fn history_line(line: &[u8], arrivals: &mut HistoryArrivals) {
    let mut fields = line.split(|byte| *byte == b'\t');
    let (Some(hash), Some(times)) = (fields.next(), fields.next()) else { return };
    if fields.next().is_none_or(|token| !token.starts_with(b"@")) {
        arrivals.remembered += 1;
        return;
    }
    let arrived = times.split(|byte| *byte == b'~').next().unwrap_or_default();
    let arrived = std::str::from_utf8(arrived).ok().and_then(|text| text.parse().ok());
    if let (Some(hash), Some(arrived)) = (unhex(hash), arrived) {
        arrivals.by_hash.insert(hash, arrived);
    }
}

fn unhex(field: &[u8]) -> Option<[u8; 16]> {
    let digits = field.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 32 && digits.is_ascii())?;
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_read_as_inn_writes_it() {
        let text = "# comment\npathhost: news.example.org\npathdb:   \"/var/lib/news\"\nempty:\n";
        assert_eq!(inn_conf(text, "pathdb").as_deref(), Some("/var/lib/news"));
        assert_eq!(inn_conf(text, "pathhost").as_deref(), Some("news.example.org"));
        assert_eq!(inn_conf("a: \"x\\\"y\" # c\na: z\n", "a").as_deref(), Some("x\"y"));
        assert_eq!(inn_conf("a: /x\t# c\n", "a").as_deref(), Some("/x"));
        assert_eq!((inn_conf(text, "empty"), inn_conf(text, "path")), (None, None));
        assert!(uses_cnfs("#x\nmethod cnfs {\n") && !uses_cnfs("# method cnfs {\nmethod tradspool {\n"));
        let text = "cycbuffupdate:25\n#cycbuff:NO:/x:1\ncycbuff:ONE:/export/one:512000\ncycbuff:TWO:/export/\\\ntwo:1\n\
                    metacycbuff:BIG:ONE,TWO:INTERLEAVE\ncycbuff:bad\n";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(cycbuffs(text), [pair("ONE", "/export/one"), pair("TWO", "/export/two")]);
    }

    #[test]
    fn groupinfo_has_marks_flags_and_descriptions() {
        let text = "comp.lang.c\ty\t40\t5\t1700000000\tThe C language\nnever.fetched\ty\t0\t1\t0\tx\n\
                    read.now\tm\t0\t1\t0\t-x-\nbad line\n";
        let groups = groupinfo(text, |name| name == "read.now");
        assert_eq!(groups.keys().collect::<Vec<_>>(), ["comp.lang.c", "read.now"]);
        let group = &groups["comp.lang.c"];
        assert_eq!(
            (group.high, group.created, group.description.as_str()),
            (40, 1_700_000_000, "The C language")
        );
        let blanks = groupinfo("misc.test 4 2 1700000000 Trying things out\nno.numbers x y\n", |_| false);
        let group = &blanks["misc.test"];
        assert_eq!((blanks.len(), group.high, group.flag.as_str()), (1, 4, "y"));
        assert_eq!((group.created, group.description.as_str()), (1_700_000_000, "Trying things out"));
        assert_eq!((groups["read.now"].flag.as_str(), groups["read.now"].description.as_str()), ("m", ""));
    }

    /// leafnode 1.12 writes `0 1` for a group of its server, and `1 1` once a reader has looked at it.
    #[test]
    fn groups_that_leafnode_never_fetched_are_left_out() {
        let text = "sci.space 1 1 1795727847 -x-\nsci.misc 0 1 1795727847 Misc\nsci.one 1 1 1795727847 -x-\n\
                    all.expired 7 8 1 -x-\none.expired 1 2 1 -x-\ncontrol.newgroup 9 2 1 -x-\n\
                    control.rmgroup\ty\t9\t2\t1\t-x-\n";
        let groups = groupinfo(text, |name| name == "sci.one");
        let flags: Vec<_> = groups.iter().map(|(name, group)| (name.as_str(), group.flag.as_str())).collect();
        assert_eq!(
            flags,
            [
                ("all.expired", "y"),
                ("control.newgroup", "n"),
                ("control.rmgroup", "n"),
                ("one.expired", "y"),
                ("sci.one", "y")
            ]
        );
    }

    #[test]
    fn groups_get_flag_marks_description_and_birth() {
        let (mut groups, odd) = active("a.b 0000000012 0000000003 m\nbad line\nc 5 x y\nd.e 7 8 =a.b\n");
        assert_eq!(odd, [(2, "bad line"), (3, "c 5 x y")]);
        descriptions("a.b\t\tAbout b. (Moderated)\nno.such\tx\n", &mut groups);
        times("a.b 1000000000 usenet@example.org\nd.e never x\n", &mut groups);
        assert_eq!(groups.keys().collect::<Vec<_>>(), ["a.b", "d.e"]);
        let group = OtherGroup {
            high: 12,
            low: 3,
            flag: "m".into(),
            description: "About b. (Moderated)".into(),
            created: 1_000_000_000,
            creator: "usenet@example.org".into(),
        };
        assert_eq!(groups["a.b"], group);
        assert_eq!((groups["d.e"].high, groups["d.e"].flag.as_str()), (7, "=a.b"));
    }

    #[test]
    fn history_has_arrivals_and_counts_remembered_ids() {
        let mut arrivals = HistoryArrivals::default();
        for line in [
            &b"[C906AEE64C1417F1BBD1FC079EDA7985]\t1795237138~-~1795204377\t@030042310000000000000000000400000001@"[..],
            b"[251ACF74571EFF4BECF2F5EBCD3991AF]\t1795237138~-~1795195789",
            b"[bad]\t1~-~1\t@03@",
            b"",
            b"[C906AEE64C1417F1BBD1FC079EDA798\xff]\t1~-~1\t@03@",
        ] {
            history_line(line, &mut arrivals);
        }
        assert_eq!((arrivals.by_hash.len(), arrivals.remembered), (1, 1));
        assert_eq!(
            arrivals.by_hash[&0xC906_AEE6_4C14_17F1_BBD1_FC07_9EDA_7985_u128.to_be_bytes()],
            1_795_237_138
        );
    }
}
