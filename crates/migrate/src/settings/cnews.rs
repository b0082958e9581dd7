//! Configuration of C News: sys, batchparms, explist, controlperm, mailpaths, and the small files whoami,
//! mailname and organization.
//!
//! C News has no list of hosts that may read or send: readers open the files, and batches arrive by rnews.
//! The converted site receives by `newsreel rnews`, sends batches, and lets this machine read. Called by
//! `settings`. Sources: newssys(5), newsbatch(8), expire(8), controlperm(5) of the Cleanup Release.

use toml_edit::Value;

use super::expire;
use super::patterns::peer_name;
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{ConfLine, NotConverted, SourcePosition, continued, lines, pieces, quoted};
use site_base::units::size_text;
use site_config::{Distributions, NamePattern};

/// Converts the files; `text` returns a file by its name.
pub(super) fn convert<'a>(text: impl Fn(&str) -> &'a str, sheet: &mut ConfigDraft) {
    site(&text, sheet);
    storage(sheet);
    explist(text("explist"), sheet);
    sys(text("sys"), text("batchparms"), text("whoami").trim(), sheet);
    mailpaths(text("mailpaths"), sheet);
    let own = lines("whoami", text("whoami"));
    let mail_to = format!("usenet@{}", own.first().map_or("localhost", |line| line.text.as_str()));
    controlperm(text("controlperm"), &mail_to, sheet);
    let mut access = DraftSection::new("access");
    access
        .about("Readers of C News open the files. Here programs on this machine may read and post by NNTP.");
    access.noted("from", Value::from_iter(["127.0.0.0/8", "::1"]), "");
    access.noted("read", "*", "");
    access.noted("post", "*", "");
    sheet.push(access);
}

fn site<'a>(text: impl Fn(&str) -> &'a str, sheet: &mut ConfigDraft) {
    let first = |file| lines(file, text(file)).into_iter().next();
    let site = sheet.single("site");
    if let Some(line) = first("whoami") {
        site.key("path_identity", line.text.as_str(), line.place);
    }
    if let Some(line) = first("organization") {
        site.key("organization", line.text.as_str(), line.place);
    }
    site.noted("max_age_days", "none", "relaynews by itself refuses none for its age");
    site.noted("unknown_groups", "junk", "as relaynews");
    if let Some(line) = first("mailname") {
        sheet.unsaid(
            line.place,
            format!("`{}`", quoted(&line.text)),
            "not needed, names are made from path_identity",
        );
    }
}

/// Writes the storage of C News, which has only one method.
fn storage(sheet: &mut ConfigDraft) {
    let mut class = DraftSection::new("class");
    class.about("As C News stores: a file an article, links for crossposts, lines that end in LF.");
    class.noted("name", "articles", "");
    class.noted("method", "tradspool", "");
    class.noted("line_ends", "lf", "");
    sheet.push(class);
    let mut rule = DraftSection::new("rule");
    rule.noted("class", "articles", "");
    sheet.push(rule);
}

/// Converts a list of patterns of C News to a wildmat: in C News the longest pattern that matches decides,
/// and of two of equal length the excluding one; in a wildmat the last. Patterns match all groups below
/// them.
fn wildmat(list: &str) -> Result<String, NotConverted> {
    let mut all: Vec<(usize, bool, String)> = Vec::new();
    for piece in pieces(list) {
        let (pattern, excludes) = piece.strip_prefix('!').map_or((piece, false), |rest| (rest, true));
        let words: Vec<&str> = pattern.split('.').collect();
        let alls = words.iter().filter(|word| **word == "all").count();
        let own =
            words.iter().map(|word| if *word == "all" { "*" } else { word }).collect::<Vec<_>>().join(".");
        NamePattern::parse(&own).map_err(|error| format!("`{}` is no pattern: {error}", quoted(piece)))?;
        let sign = if excludes { "!" } else { "" };
        let both =
            if own.ends_with('*') { format!("{sign}{own}") } else { format!("{sign}{own},{sign}{own}.*") };
        // `all` counts as slightly less than a word.
        all.push((words.len() * 1000 - alls, excludes, both));
    }
    all.sort_by_key(|(length, excludes, _)| (*length, *excludes));
    let begins = all.iter().position(|(_, excludes, _)| !excludes).unwrap_or(all.len());
    let own: Vec<String> = all.into_iter().skip(begins).map(|(_, _, text)| text).collect();
    Ok(own.join(","))
}

/// Converts explist, in which the first matching line decides, as here.
fn explist(text: &str, sheet: &mut ConfigDraft) {
    let mut bounds = ("0".to_owned(), "never".to_owned());
    let mut archives = ArchiveSections::default();
    for line in lines("explist", text) {
        let fields: Vec<&str> = line.text.split_ascii_whitespace().collect();
        let (place, whole) = (line.place, format!("`{}`", quoted(&line.text)));
        let &[groups, kind, times, archive] = fields.as_slice() else {
            sheet.remark(place, format!("{whole}: not four fields"));
            continue;
        };
        match groups {
            "/bounds/" => {
                let parts: Vec<&str> = times.split('-').collect();
                if let [least, .., most] = parts.as_slice() {
                    bounds = ((*least).to_owned(), (*most).to_owned());
                }
                sheet.remark(
                    place,
                    format!("{whole}: bounds of the lines after it, in keep_min and keep_max"),
                );
            }
            "/expired/" => {
                let days = times.split('-').nth(1).unwrap_or(times);
                expire::remember_days(Some((place, days.to_owned())), None, sheet);
            }
            _ => match period(groups, kind, times, &bounds, place) {
                Ok(section) => {
                    archives.line(groups, kind, archive, place);
                    sheet.push(section);
                }
                Err(why) => sheet.remark(place, format!("{whole} is not carried over: {why}")),
            },
        }
    }
    archives.sections.into_iter().for_each(|section| sheet.push(section));
}

/// Fourth fields of explist: directories to which articles are archived before they are deleted.
#[derive(Default)]
struct ArchiveSections {
    /// Patterns of earlier lines, last first; an article belongs to the first matching line.
    before: Vec<String>,
    sections: Vec<DraftSection>,
}

impl ArchiveSections {
    fn line(&mut self, groups: &str, kind: &str, archive: &str, place: SourcePosition) {
        let Ok(own) = wildmat(groups) else { return };
        if archive != "-" {
            self.sections.push(self.section(&own, kind, archive, place));
        }
        // A line for moderated groups alone leaves the others to later lines.
        if kind == "x" {
            self.before.insert(0, own);
        }
    }

    fn section(&self, own: &str, kind: &str, archive: &str, place: SourcePosition) -> DraftSection {
        let mut section = DraftSection::new("archive");
        section.noted("name", format!("archive-{}", self.sections.len() + 1), "");
        let before = self.before.iter().flat_map(|list| pieces(list));
        let (spared, earlier) = before.partition::<Vec<_>, _>(|piece| piece.starts_with('!'));
        let earlier = earlier.into_iter().map(|piece| format!("!{piece}"));
        let groups: Vec<String> = pieces(own).map(str::to_owned).chain(earlier).collect();
        section.key("groups", groups.join(","), place);
        section.noted("when", "expiry", "");
        let path = archive.strip_prefix('=').unwrap_or(archive);
        if path.starts_with('/') {
            section.key("path", path, place);
        } else {
            section.disable("the directory is the one that expire -a names: say it in path");
            section.noted("path", "/archive", "");
        }
        if archive.starts_with('=') {
            section.remark(place, "`=`: here, too, every group gets a directory of its own below it");
        }
        for pattern in spared {
            let why = "that a line before this one excludes may belong here, and are left out";
            section.remark(place, format!("groups `{}` {why}", quoted(pattern.trim_start_matches('!'))));
        }
        if kind != "x" {
            section.remark(
                place,
                format!("`{kind}` has no equivalent: the groups are archived whatever they are"),
            );
        }
        section
    }
}

fn period(
    groups: &str,
    kind: &str,
    times: &str,
    bounds: &(String, String),
    place: SourcePosition,
) -> Result<DraftSection, NotConverted> {
    let mut section = DraftSection::new("expire");
    let groups = wildmat(groups)?;
    if groups != "*" {
        section.key("groups", groups, place);
    }
    match kind {
        "x" => {}
        "m" | "u" => section.key("moderated", kind == "m", place),
        _ => return Err("neither m, u nor x".into()),
    }
    let parts: Vec<&str> = times.split('-').collect();
    let (own_least, time, own_most) = match *parts.as_slice() {
        [time] => (None, time, None),
        [time, most] => (None, time, Some(most)),
        [least, time, most] => (Some(least), time, Some(most)),
        _ => return Err("not one to three times".into()),
    };
    // Bounds of a /bounds/ line extend to the given time.
    let length = |text: &str| expire::days(text).map(|days| days.unwrap_or(std::time::Duration::MAX));
    let own = length(time)?;
    let least = own_least.unwrap_or(if length(&bounds.0)? > own { time } else { &bounds.0 });
    let most = own_most.unwrap_or(if length(&bounds.1)? < own { time } else { &bounds.1 });
    expire::keep(&mut section, place, [least, time, most])?;
    Ok(section)
}

/// A line of batchparms.
struct BatchParams<'a> {
    line: &'a ConfLine,
    bytes: Option<u64>,
    pipeline: Vec<&'a str>,
    has_queue: bool,
    is_off: bool,
}

impl<'a> BatchParams<'a> {
    fn of(line: &'a ConfLine) -> Option<(&'a str, Self)> {
        let mut rest = line.text.as_str();
        let mut field = || {
            let end = rest.find(char::is_whitespace)?;
            let (own, after) = rest.split_at(end);
            rest = after.trim_start();
            Some(own)
        };
        let (site, class) = (field()?, field()?);
        // Older lines have no class, and have builder, muncher and sender in columns.
        let is_old = class.starts_with(|c: char| c.is_ascii_digit());
        let (class, size, queue) = if is_old { ("", class, field()?) } else { (class, field()?, field()?) };
        let bytes = size.split('-').next().and_then(|size| size.parse().ok());
        let pipeline = match is_old && !rest.contains('|') {
            true => rest.split_ascii_whitespace().collect(),
            false => rest.split('|').map(str::trim).collect(),
        };
        Some((site, Self { line, bytes, pipeline, has_queue: queue != "-", is_off: class.contains('!') }))
    }
}

/// Returns why a line of batchparms has no effect beside the others and sys; `None` if it has one.
fn why_unused(line: &ConfLine, parms: &[ConfLine], sys: &str) -> Option<&'static str> {
    let Some((site, _)) = BatchParams::of(line) else { return Some("not five fields") };
    let of_site = |own: &ConfLine| split(own.text.split(':').next().unwrap_or_default().trim()).0 == site;
    if site != "/default/" && !continued("sys", sys).iter().any(of_site) {
        return Some("sys has no such site");
    }
    let mut before = parms.iter().take_while(|before| before.place != line.place).filter_map(BatchParams::of);
    before.any(|(before, _)| before == site).then_some("an earlier line of this site decides")
}

/// Converts sys and batchparms: peers to which batches are sent.
fn sys(text: &str, batchparms: &str, own_name: &str, sheet: &mut ConfigDraft) {
    let parms = lines("batchparms", batchparms);
    for line in &parms {
        match why_unused(line, &parms, text) {
            None => sheet.saw([line.place]),
            Some(why) => sheet.remark(line.place, format!("`{}`: {why}", quoted(&line.text))),
        }
    }
    let all: Vec<(&str, BatchParams<'_>)> = parms.iter().filter_map(BatchParams::of).collect();
    let mut names = std::collections::BTreeSet::new();
    for line in continued("sys", text) {
        let mut fields = line.text.splitn(4, ':').map(str::trim);
        let (site, exclusions) = split(fields.next().unwrap_or_default());
        let (groups, distributions) = split(fields.next().unwrap_or_default());
        let (flags, command) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        if site == "ME" || site == own_name {
            own_line(groups, distributions, exclusions, line.place, sheet);
            continue;
        }
        let mut section = DraftSection::new("peer");
        let mut name = peer_name(site);
        while !names.insert(name.clone()) {
            name.push_str("-2");
        }
        section.key("name", name.as_str(), line.place);
        match wildmat(if groups.is_empty() { "all" } else { groups }) {
            Ok(groups) => section.key("send.groups", groups, line.place),
            Err(why) => section.disable(why),
        }
        if !distributions.is_empty() {
            let list: Vec<String> = pieces(distributions).map(|word| word.replace("all", "*")).collect();
            section.key("send.distributions", list.join(","), line.place);
        }
        let mut never: Vec<&str> = pieces(exclusions).collect();
        never.extend((name != site).then_some(site));
        never.retain(|identity| site_config::is_path_identity(identity));
        if !never.is_empty() {
            section.key("send.path_never", Value::from_iter(never), line.place);
        }
        sys_flags(flags, line.place, &mut section);
        let own = || all.iter().find(|(own, _)| *own == site);
        let batching =
            own().or_else(|| all.iter().find(|(own, _)| *own == "/default/")).map(|(_, batching)| batching);
        way(site, &name, flags, command, batching, line.place, &mut section);
        sheet.push(section);
    }
}

/// Converts the line ME: groups and distributions that this site takes.
fn own_line(
    groups: &str,
    distributions: &str,
    exclusions: &str,
    place: SourcePosition,
    sheet: &mut ConfigDraft,
) {
    sheet.saw([place]);
    if !groups.is_empty() {
        match wildmat(groups) {
            Ok(groups) if groups == "*" => {}
            Ok(groups) => sheet.single("batches").key("accept", groups, place),
            Err(why) => sheet.remark(place, why),
        }
    }
    let list: Vec<String> = pieces(distributions).map(|word| word.replace("all", "*")).collect();
    if !list.is_empty() && list != ["*"] {
        let list = list.join(",");
        match Distributions::parse(&list) {
            Ok(_) => sheet.single("site").key("distributions", list, place),
            Err(why) => sheet.remark(place, format!("the distributions of ME: {why}")),
        }
    }
    if !exclusions.is_empty() {
        let text = "exclusions of ME have no equivalent: articles that passed there are accepted";
        sheet.remark(place, format!("`{}`: {text}", quoted(exclusions)));
    }
}

fn split(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, ""))
}

fn sys_flags(flags: &str, place: SourcePosition, section: &mut DraftSection) {
    let mut only = Vec::new();
    for (at, flag) in flags.char_indices() {
        match flag {
            'm' => only.push("moderated"),
            'u' => only.push("unmoderated"),
            'L' => {
                let digits: String = flags.chars().skip(at + 1).take_while(char::is_ascii_digit).collect();
                section.key("send.hops_max", digits.parse::<i64>().unwrap_or(0).min(1_000_000), place);
            }
            'f' | 'F' | 'I' | 'n' | '0'..='9' => {}
            other => section.remark(place, format!("flag {} has no equivalent", quoted(&other.to_string()))),
        }
    }
    if !only.is_empty() {
        section.key("send.only", Value::from_iter(only), place);
    }
}

/// Writes how articles leave.
fn way(
    site: &str,
    name: &str,
    flags: &str,
    command: &str,
    batching: Option<&BatchParams<'_>>,
    place: SourcePosition,
    section: &mut DraftSection,
) {
    let out = format!("out/{name}");
    if flags.contains('n') {
        section.key("send.file", if command.starts_with('/') { command } else { &out }, place);
        section.noted("send.lines", Value::from_iter(["path", "message-id"]), "the flag n");
        return;
    }
    section.key("send.batch", out, place);
    if flags.contains('I') {
        section.key("send.ihave", true, place);
        section.remark(place, "with ihave the peer must be called by its path identity: see docs/feeding.md");
    }
    if flags.contains(['f', 'F', 'I']) {
        let Some(batching) = batching else {
            return section.say("batchparms has no line for it: somebody takes the batches away.");
        };
        return batched(site, batching, section);
    }
    // Without such a flag the command is run for each article.
    let command = if command.is_empty() { format!("uux - -z -r {site}!rnews") } else { command.to_owned() };
    if !command.contains("rnews") {
        section.disable("newsreel hands batches to programs, and this one wants an article each time");
    }
    let words = Value::from_iter(["/bin/sh", "-c", command.as_str()]);
    section.key("send.after_batch", words, place);
    section.noted("send.batch_age", "1 s", "articles go one by one, or few at a time");
}

fn batched(site: &str, batching: &BatchParams<'_>, section: &mut DraftSection) {
    let place = batching.line.place;
    if batching.is_off {
        section.remark(place, "batching is switched off by `!` there");
    }
    if let Some(bytes) = batching.bytes {
        section.key("send.batch_bytes", size_text(bytes.clamp(1 << 10, 256 << 20)), place);
    }
    for step in &batching.pipeline {
        let mut words = step.split_ascii_whitespace();
        match words.next().unwrap_or_default() {
            "batcher" | "cat" | "" => {}
            "compcun" => section.key("send.batch_compress", "compress", place),
            "gzip" => section.key("send.batch_compress", "gzip", place),
            "viauux" => {
                let uux = [
                    "/usr/bin/uux".to_owned(),
                    "-".into(),
                    "-r".into(),
                    "-z".into(),
                    format!("{site}!rnews"),
                ];
                section.key("send.after_batch", Value::from_iter(uux), place);
            }
            _ => section.remark(
                place,
                format!("`{}` of the pipeline has no equivalent: write it as after_batch", quoted(step)),
            ),
        }
    }
    if batching.has_queue {
        section.remark(place, "how much may wait: see waiting_bytes_max and waiting_files_max");
    }
}

/// Converts mailpaths: patterns and their moderators' addresses.
fn mailpaths(text: &str, sheet: &mut ConfigDraft) {
    for line in lines("mailpaths", text) {
        let mut fields = line.text.split_ascii_whitespace();
        let (name, address) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        if name == "internet" || !address.contains('@') {
            sheet.unsaid(
                line.place,
                format!("`{}`", quoted(&line.text)),
                "not needed, mail is sent as [moderation] says",
            );
        } else if name == "backbone" {
            sheet.single("moderation").key("default_address", address, line.place);
        } else {
            let mut section = DraftSection::new("moderator");
            match wildmat(name) {
                Ok(groups) => section.key("groups", groups, line.place),
                Err(why) => sheet.remark(line.place, why),
            }
            section.noted("address", address, "");
            sheet.push(section);
        }
    }
}

/// Converts controlperm, in which the first matching line decides, as here.
fn controlperm(text: &str, mail_to: &str, sheet: &mut ConfigDraft) {
    for line in lines("controlperm", text) {
        let fields: Vec<&str> = line.text.split_ascii_whitespace().collect();
        let &[groups, from, codes, flags] = fields.as_slice() else {
            sheet.remark(line.place, format!("`{}`: not four fields", quoted(&line.text)));
            continue;
        };
        let mut section = DraftSection::new("control");
        let kinds = [('n', "newgroup"), ('r', "rmgroup")];
        let kinds = kinds.iter().filter(|(letter, _)| codes.contains(*letter)).map(|(_, kind)| *kind);
        section.key("type", Value::from_iter(kinds.clone()), line.place);
        if kinds.count() == 0 {
            section.disable("it is about neither newgroup nor rmgroup");
        }
        if from != "any" {
            section.noted("from", from.to_ascii_lowercase(), "");
        }
        match wildmat(groups) {
            Ok(groups) if groups == "*" => {}
            Ok(groups) => section.noted("groups", groups, ""),
            Err(why) => section.disable(why),
        }
        let is_quiet = flags.contains('q');
        let action = match (flags.contains('y'), is_quiet) {
            (true, _) => "do",
            (false, true) => "log",
            (false, false) => "mail",
        };
        section.noted("action", action, "");
        if !is_quiet {
            section.noted("mail_to", mail_to, "");
        }
        sheet.push(section);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pattern_comes_last() {
        for (list, own) in [
            ("all", "*"),
            ("comp,comp.sys.sun,!comp.sys", "comp,comp.*,!comp.sys,!comp.sys.*,comp.sys.sun,comp.sys.sun.*"),
            ("!to,all", "*,!to,!to.*"),
            ("a,!a", "a,a.*,!a,!a.*"),
            ("comp.all", "comp.*"),
        ] {
            assert_eq!(wildmat(list).unwrap(), own, "{list}");
        }
        assert!(wildmat("a[b").is_err());
    }

    #[test]
    fn bounds_extend_to_the_given_time() {
        let days = |times: &str| {
            let bounds = ("0".to_owned(), "90".to_owned());
            let section = period("all", "x", times, &bounds, SourcePosition::at("explist", 1)).unwrap();
            let mut sheet = ConfigDraft::default();
            storage(&mut sheet);
            sheet.push(section);
            let (text, refused) = sheet.settle("");
            assert_eq!(refused, None, "{text}");
            let keys = text.lines().filter(|line| line.starts_with("keep"));
            keys.map(|line| line.split("  #").next().unwrap().trim_end().to_owned())
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(days("7"), "keep = \"7 days\"; keep_max = \"90 days\"");
        assert_eq!(days("7-8"), "keep = \"7 days\"; keep_max = \"8 days\"");
        assert_eq!(days("2-3-4"), "keep = \"3 days\"; keep_min = \"2 days\"; keep_max = \"4 days\"");
        assert_eq!(days("never"), "keep = \"never\"; keep_max = \"never\"");
        assert_eq!(days("100"), "keep = \"100 days\"; keep_max = \"100 days\"");
    }
}
