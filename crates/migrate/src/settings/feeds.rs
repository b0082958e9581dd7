//! Outgoing feeds: newsfeeds, with innfeed.conf, nntpsend.ctl and passwd.nntp for the destinations.
//!
//! innfeed, nntpsend and innxmit are part of newsreel: their destinations become `to`. Feeds to other
//! programs and files are kept as such. Called by `peers`. Sources: newsfeeds(5), innfeed.conf(5),
//! nntpsend.ctl(5), passwd.nntp(5).

use std::collections::BTreeSet;

use toml_edit::Value;

use super::blocks::{self, ScopedBlock};
use super::flags;
use super::inn_conf::InnConf;
use super::keys::is_among;
use super::newsfeeds::{self, Newsfeeds, NewsfeedsEntry};
use super::patterns::{Patterns, bracketed};
use super::peers::{ConvertedPeer, PasswordFiles, of_names};
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{ConfLine, SourcePosition, is_true, lines, quoted};
use site_base::units::span_text;
use site_config::Distributions;

/// Texts of the files.
pub(super) struct OutgoingTexts<'a> {
    pub newsfeeds: &'a str,
    pub innfeed: &'a str,
    pub nntpsend: &'a str,
    pub passwords: &'a str,
}

/// Information on destinations.
struct Destinations<'a> {
    conf: &'a InnConf,
    innfeed: Vec<ScopedBlock>,
    innfeed_pairs: Vec<blocks::ConfPair>,
    nntpsend: Vec<ConfLine>,
    passwords: Vec<ConfLine>,
    /// Entries of newsfeeds that start innfeed.
    funnels: Vec<String>,
    /// Lines of nntpsend.ctl and passwd.nntp used by an entry.
    used: BTreeSet<(&'static str, u32)>,
}

/// Reads the files and adds their content to the peers.
pub(super) fn read(
    files: &OutgoingTexts<'_>,
    conf: &InnConf,
    peers: &mut Vec<ConvertedPeer>,
    secrets: &mut PasswordFiles,
    sheet: &mut ConfigDraft,
) {
    let parsed = newsfeeds::parse(files.newsfeeds);
    sheet.saw(parsed.variables.iter().copied());
    let innfeed = blocks::parse("innfeed.conf", files.innfeed);
    for (place, why) in parsed.faults.iter().chain(&innfeed.faults) {
        sheet.remark(*place, why);
    }
    let (of_innfeed, group_lines) = blocks::scoped(&innfeed.root, "peer", "group");
    sheet.saw(group_lines);
    let is_innfeed =
        |entry: &&NewsfeedsEntry| "cx".contains(entry.kind()) && entry.parameter.contains("innfeed");
    let mut ways = Destinations {
        conf,
        innfeed: of_innfeed,
        innfeed_pairs: innfeed.root.pairs,
        nntpsend: lines("nntpsend.ctl", files.nntpsend),
        passwords: lines("passwd.nntp", files.passwords),
        funnels: parsed.entries.iter().filter(is_innfeed).map(|entry| entry.site.clone()).collect(),
        used: BTreeSet::new(),
    };
    me(&parsed, sheet);
    for entry in &parsed.entries {
        one(entry, &parsed, &mut ways, peers, secrets, sheet);
    }
    ways.leftovers(sheet);
}

/// Converts the entry ME: settings of the site, except its patterns, with which each feed begins.
fn me(parsed: &Newsfeeds, sheet: &mut ConfigDraft) {
    let Some(me) = &parsed.me else { return };
    sheet.saw([me.place]);
    if !me.distributions.is_empty() {
        match Distributions::parse(&me.distributions) {
            Ok(_) => sheet.single("site").key("distributions", me.distributions.as_str(), me.place),
            Err(why) => sheet.remark(me.place, format!("the distributions of ME: {why}")),
        }
    }
    if !me.exclusions.is_empty() {
        let names = me.exclusions.join(", ");
        sheet.remark(
            me.place,
            format!(
                "exclusions of ME ({}) have no equivalent: articles that passed there are accepted",
                quoted(&names)
            ),
        );
    }
}

/// Converts an entry.
fn one(
    entry: &NewsfeedsEntry,
    all: &Newsfeeds,
    ways: &mut Destinations<'_>,
    peers: &mut Vec<ConvertedPeer>,
    secrets: &mut PasswordFiles,
    sheet: &mut ConfigDraft,
) {
    let not_needed = match entry.kind() {
        'c' | 'x' if entry.parameter.contains("innfeed") => Some("feeds are part of the server"),
        'c' if entry.parameter.contains("controlchan") => Some("[[control]] is carried out by the server"),
        'l' => Some("the log and newsreel status tell what was fed"),
        _ => None,
    };
    if let Some(why) = not_needed {
        return sheet.remark(entry.place, format!("`{}` is not needed: {why}", quoted(&entry.site)));
    }
    if entry.parameter.contains("nocem") {
        return sheet.remark(
            entry.place,
            format!(
                "`{}` is not needed: a [[control]] section with type = \"nocem\" says whose NoCeM notices are obeyed",
                quoted(&entry.site)
            ),
        );
    }
    let is_target = |other: &NewsfeedsEntry| other.kind() == 'm' && other.parameter == entry.site;
    if all.entries.iter().any(is_target) {
        let why =
            "has no equivalent: each site has a feed of its own, see the sections of those that feed into it";
        return sheet.remark(entry.place, format!("the funnel `{}` {why}", quoted(&entry.site)));
    }
    let target = match entry.kind() {
        'm' => all.entries.iter().find(|other| other.site == entry.parameter),
        _ => None,
    };
    let mut names = vec![entry.site.as_str()];
    names.extend(entry.exclusions.iter().map(String::as_str));
    let host = ways.host(entry);
    names.extend(host.as_deref());
    let peer = of_names(peers, &names, entry.place);
    peer.is_fed = true;
    let name = peer.name.clone();
    let section = &mut peer.section;
    section.saw([entry.place]);
    way(entry, target, ways, section, secrets, &name);
    wants(entry, all.me.as_ref(), section, &name);
    if peer.networks.is_empty() && !section.has("user") {
        section.say("INN's incoming.conf does not name it: it is fed and may send nothing.");
    }
}

/// Writes which articles the peer gets.
fn wants(entry: &NewsfeedsEntry, me: Option<&NewsfeedsEntry>, section: &mut DraftSection, name: &str) {
    let own = if entry.patterns.is_empty() { "*" } else { entry.patterns.as_str() };
    let prefix = me.map(|me| me.patterns.as_str()).filter(|patterns| !patterns.is_empty());
    let whole = prefix.map_or_else(|| own.to_owned(), |prefix| format!("{prefix},{own}"));
    // ME's own list begins with the default of every feed, unless it starts with another pattern.
    let whole =
        if whole.starts_with('!') && entry.patterns.is_empty() { format!("*,{whole}") } else { whole };
    match Patterns::parse(&whole) {
        Ok(patterns) => {
            section.key("send.groups", patterns.groups, entry.place);
            if !patterns.never.is_empty() {
                section.key("send.groups_never", patterns.never, entry.place);
            }
            let is_moot = own.split(',').any(|pattern| pattern == "*" || pattern == "!*");
            if let Some(me) = me.filter(|_| prefix.is_some() && !is_moot) {
                section.say(format!("{}: the patterns of ME stand before those of the entry.", me.place));
            }
        }
        Err(why) => section.disable(why),
    }
    if !entry.distributions.is_empty() {
        match Distributions::parse(&entry.distributions) {
            Ok(_) => section.key("send.distributions", entry.distributions.as_str(), entry.place),
            Err(why) => section.disable(why.to_string()),
        }
    }
    let by_site = entry.flag('A').is_none_or(|checks| !checks.contains('p'));
    let mut never: Vec<&str> = entry.exclusions.iter().map(String::as_str).collect();
    if by_site && !entry.site.ends_with('!') {
        never.insert(0, &entry.site);
    }
    never.retain(|identity| *identity != name && site_config::is_path_identity(identity));
    if !never.is_empty() {
        section.key("send.path_never", Value::from_iter(never), entry.place);
    }
    flags::convert(entry, section);
}

/// Writes how articles leave.
fn way(
    entry: &NewsfeedsEntry,
    target: Option<&NewsfeedsEntry>,
    ways: &mut Destinations<'_>,
    section: &mut DraftSection,
    secrets: &mut PasswordFiles,
    name: &str,
) {
    let out = || format!("out/{name}");
    match (entry.kind(), target) {
        ('m', _) if ways.funnels.contains(&entry.parameter) => ways.by_innfeed(entry, section, secrets),
        ('m', Some(target)) if "cx".contains(target.kind()) => {
            program(target, section);
            section.remark(
                target.place,
                "INN runs one program for all that feed into it; here each has its own",
            );
        }
        ('m', Some(target)) if target.kind() == 'f' => {
            section.key("send.file", out(), entry.place);
            section
                .remark(target.place, "INN writes one file for all that feed into it; here each has its own");
        }
        ('m', _) => {
            section.key("send.file", out(), entry.place);
            section.disable(format!("its funnel `{}` has no equivalent", quoted(&entry.parameter)));
        }
        ('c' | 'x', _) => program(entry, section),
        ('p', _) => {
            section.key("send.file", out(), entry.place);
            section.disable(
                "INN starts a program for each article (Tp), and newsreel one that reads lines: write it \
                 as send.program",
            );
        }
        _ if ways.by_nntpsend(entry, section, secrets) => {}
        _ => {
            let is_own = entry.parameter.starts_with('/');
            let file = if is_own { entry.parameter.clone() } else { out() };
            section.key("send.file", file, entry.place);
        }
    }
}

/// Writes a program that reads lines.
fn program(entry: &NewsfeedsEntry, section: &mut DraftSection) {
    let command = entry.parameter.trim();
    let special = |c: char| "|&;<>()$`\"'*?[]#~\\".contains(c);
    let words: Vec<String> = match command.contains(special) {
        true => vec!["/bin/sh".into(), "-c".into(), command.to_owned()],
        false => command.trim_start_matches("exec ").split_whitespace().map(str::to_owned).collect(),
    };
    section.key("send.program", Value::from_iter(words), entry.place);
    if entry.kind() == 'x' {
        section.remark(entry.place, "an exploder's command lines (`!flush`, ...) are not sent");
    }
}

impl Destinations<'_> {
    /// Returns the host of an entry, if one is known other than its name.
    fn host(&self, entry: &NewsfeedsEntry) -> Option<String> {
        let of_innfeed = self.innfeed.iter().find(|peer| peer.name == entry.site);
        let name = of_innfeed.and_then(|peer| peer.get("ip-name")).map(|pair| pair.value.clone());
        name.or_else(|| self.nntpsend_line(&entry.site).map(|(_, host, _)| host))
    }

    fn nntpsend_line(&self, site: &str) -> Option<(ConfLine, String, String)> {
        self.nntpsend.iter().find_map(|line| {
            let text = line.text.split('#').next().unwrap_or_default();
            let fields: Vec<&str> = text.splitn(4, ':').map(str::trim).collect();
            let host = fields.get(1).filter(|host| !host.is_empty()).unwrap_or(&site);
            (fields.first() == Some(&site)).then(|| {
                let rest = fields.get(2..).unwrap_or_default().join(":");
                (line.clone(), (*host).to_owned(), rest)
            })
        })
    }

    fn by_nntpsend(
        &mut self,
        entry: &NewsfeedsEntry,
        section: &mut DraftSection,
        secrets: &mut PasswordFiles,
    ) -> bool {
        let Some((line, host, rest)) = self.nntpsend_line(&entry.site) else { return false };
        self.used.insert((line.place.file, line.place.line));
        section.key("send.to", format!("{}:119", bracketed(&host)), line.place);
        section.noted("send.connections", 1, "as innxmit");
        if !rest.trim_matches(':').trim().is_empty() {
            section.remark(
                line.place,
                format!("`{}` has no equivalent: sizes of queues and flags of innxmit", quoted(&rest)),
            );
        }
        self.password(&host, section, secrets);
        self.bind(section);
        true
    }

    fn by_innfeed(
        &mut self,
        entry: &NewsfeedsEntry,
        section: &mut DraftSection,
        secrets: &mut PasswordFiles,
    ) {
        let empty = ScopedBlock {
            name: entry.site.clone(),
            place: entry.place,
            end: entry.place,
            own: Vec::new(),
            inherited: self.innfeed_pairs.clone(),
        };
        let known = self.innfeed.iter().position(|peer| peer.name == entry.site);
        let peer = known.map_or(empty, |at| self.innfeed.remove(at));
        section.saw([peer.place, peer.end]);
        let value = |key: &str| peer.get(key).map(|pair| pair.value.as_str());
        let host = value("ip-name").unwrap_or(&peer.name).to_owned();
        let port = value("port-number").unwrap_or("119");
        let from = peer.get("ip-name").map_or(peer.place, |pair| pair.place);
        section.key("send.to", format!("{}:{port}", bracketed(&host)), from);
        let mut keys: Vec<&str> = Vec::new();
        for pair in peer.own.iter().rev().chain(&peer.inherited) {
            match keys.contains(&pair.key.as_str()) {
                true => section.saw([pair.place]),
                false => innfeed_key(pair, &peer, section, secrets),
            }
            keys.push(&pair.key);
        }
        if peer.get("max-connections").is_none() {
            section.noted("send.connections", 2, "innfeed's default");
        }
        self.password(&host, section, secrets);
        self.bind(section);
    }

    /// Writes the login of passwd.nntp for a host.
    fn password(&mut self, host: &str, section: &mut DraftSection, secrets: &mut PasswordFiles) {
        let is_for =
            |line: &ConfLine| line.text.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(host));
        let Some(line) = self.passwords.iter().find(|line| is_for(line)).cloned() else { return };
        let fields: Vec<&str> = line.text.split(':').collect();
        section.saw([line.place]);
        self.used.insert((line.place.file, line.place.line));
        if let [_, user, password, ..] = fields.as_slice()
            && !user.is_empty()
            && !password.is_empty()
        {
            PeerLogin { host, user, password }.write(section, secrets, line.place);
        } else {
            section.remark(line.place, "a login needs a name and a password");
        }
    }

    /// Writes inn.conf's sourceaddress.
    fn bind(&self, section: &mut DraftSection) {
        let own = self.conf.get("sourceaddress").filter(|setting| setting.value != "all");
        if let Some(setting) = own.filter(|_| !section.has("send.bind")) {
            section.key("send.bind", setting.value.as_str(), setting.place);
        }
    }

    /// Reports settings not used by any entry of newsfeeds.
    fn leftovers(&self, sheet: &mut ConfigDraft) {
        for line in
            self.nntpsend.iter().filter(|line| !self.used.contains(&(line.place.file, line.place.line)))
        {
            sheet.remark(
                line.place,
                format!("`{}`: newsfeeds feeds no such site by a file", quoted(&line.text)),
            );
        }
        for line in
            self.passwords.iter().filter(|line| !self.used.contains(&(line.place.file, line.place.line)))
        {
            let host = line.text.split(':').next().unwrap_or_default();
            sheet.remark(line.place, format!("the login at {} is for no host that is fed", quoted(host)));
        }
        for peer in &self.innfeed {
            let lines = peer.own.iter().map(|pair| pair.place).chain([peer.end]);
            sheet.saw(lines);
            sheet.remark(peer.place, format!("newsfeeds feeds no site `{}` by innfeed", quoted(&peer.name)));
        }
        for pair in &self.innfeed_pairs {
            if !is_among(PER_PEER, &pair.key) {
                let line = format!("`{}: {}`", quoted(&pair.key), quoted(&pair.value));
                sheet.unsaid(pair.place, line, "not needed, there is no innfeed to be set up");
            } else if self.funnels.is_empty() {
                sheet.remark(pair.place, format!("`{}` is about no peer", quoted(&pair.key)));
            }
        }
    }
}

/// Keys of innfeed.conf that have an equivalent.
const PER_PEER: &str = "ip-name port-number max-connections streaming response-timeout initial-reconnect-time \
                        max-reconnect-time username password bindaddress bindaddress6 drop-deferred no-check-high \
                        no-check-low";

fn innfeed_key(
    pair: &blocks::ConfPair,
    peer: &ScopedBlock,
    section: &mut DraftSection,
    secrets: &mut PasswordFiles,
) {
    let seconds = || pair.value.parse::<u64>().ok().filter(|secs| (1..=86_400).contains(secs));
    let span = |secs: u64| span_text(std::time::Duration::from_secs(secs));
    let place = pair.place;
    match (pair.key.as_str(), seconds()) {
        ("ip-name" | "port-number" | "password", _) => section.saw([place]),
        ("max-connections", _) => match pair.value.parse::<i64>() {
            Ok(count) => section.key("send.connections", if count > 0 { count.min(100) } else { 100 }, place),
            Err(_) => section.remark(place, "`max-connections` is not a number"),
        },
        ("streaming", _) if is_true(&pair.value) => section.saw([place]),
        ("streaming", _) => section.key("send.streaming", false, place),
        ("no-check-high" | "no-check-low", _) => match percent(&pair.value) {
            Some(percent) if pair.key == "no-check-high" => section.key("send.no_check_high", percent, place),
            Some(percent) => section.key("send.no_check_low", percent, place),
            None => section.remark(place, format!("`{}` is not a percentage", quoted(&pair.key))),
        },
        ("response-timeout", Some(secs)) => section.key("send.answer_timeout", span(secs), place),
        ("initial-reconnect-time", Some(secs)) => section.key("send.retry_first", span(secs), place),
        ("max-reconnect-time", Some(secs)) => section.key("send.retry_longest", span(secs), place),
        ("username", _) => {
            if let Some(password) = peer.get("password") {
                let (host, user, password) = (&peer.name, &pair.value, &password.value);
                PeerLogin { host, user, password }.write(section, secrets, place);
            } else {
                section.remark(place, "`username` without `password`");
            }
        }
        ("bindaddress" | "bindaddress6", _) if ["none", "all", "any"].contains(&pair.value.as_str()) => {
            section.remark(place, format!("`{}: {}` has no equivalent", pair.key, quoted(&pair.value)));
        }
        ("bindaddress", _) => section.key("send.bind", pair.value.as_str(), place),
        // Other keys of the process are reported once, in `leftovers`.
        (key, _) if peer.own.iter().any(|own| own.key == key) => {
            section.remark(place, format!("`{}: {}` has no equivalent", quoted(key), quoted(&pair.value)));
        }
        _ => {}
    }
}

/// Parses a percentage. INN allows a fraction, which is rounded.
fn percent(value: &str) -> Option<i64> {
    value
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent.round() as i64)
}

/// Login at a peer.
struct PeerLogin<'a> {
    host: &'a str,
    user: &'a str,
    password: &'a str,
}

impl PeerLogin<'_> {
    /// Writes the login, with its password in a file.
    fn write(&self, section: &mut DraftSection, secrets: &mut PasswordFiles, place: SourcePosition) {
        section.key("send.user", self.user, place);
        section.noted("send.password_file", secrets.add(self.host, "password", self.password), "");
        section.say("Without tls the password is sent to this machine only: see send.tls.");
    }
}
