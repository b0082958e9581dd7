//! Converts leafnode's config: each server becomes a `[[pull]]`, expiry becomes `[[expire]]`.
//!
//! Called by `settings`. Source: leafnode(8) of leafnode 1.11 and 1.12, config.example.

use std::time::Duration;

use netnews::newsgroups;
use toml_edit::Value;

use super::keys::{self, MappedKey, row};
use super::patterns::{bracketed, peer_name};
use super::peers::PasswordFiles;
use super::sheet::{ConfigDraft, DraftSection, origins};
use super::text::{ConfLine, NotConverted, SourcePosition, is_true, lines, quoted};
use crate::conf::unquoted;
use site_base::units::{size_text, span_text};

/// A key and its value.
struct LeafnodeSetting {
    place: SourcePosition,
    key: String,
    /// Text between the key and `=`, as in `groupexpire GROUP = DAYS`.
    about: String,
    value: String,
}

/// Reads a line. A value is plain text, which ends before a `#` and the white space around it, or a quoted
/// string; what follows such a string is ignored.
fn setting(line: &ConfLine) -> Option<LeafnodeSetting> {
    let (left, value) = line.text.split_once('=').filter(|(left, _)| !left.contains('#'))?;
    let (key, about) = left.trim().split_once(char::is_whitespace).unwrap_or((left.trim(), ""));
    let value = match value.trim_start().strip_prefix('"') {
        Some(inner) => unquoted(inner)?,
        None => value.split('#').next().unwrap_or_default().trim().to_owned(),
    };
    let key = match key.to_ascii_lowercase().as_str() {
        "supplement" => "server".to_owned(),
        "fqdn" => "hostname".to_owned(),
        key => key.to_owned(),
    };
    let about = about.trim().to_owned();
    (!key.is_empty() && !value.is_empty()).then_some(LeafnodeSetting { place: line.place, key, about, value })
}

/// Converts config.
pub(super) fn convert(text: &str, local_groups: &str, secrets: &mut PasswordFiles, sheet: &mut ConfigDraft) {
    let mut settings = Vec::new();
    for line in lines("config", text) {
        match setting(&line) {
            Some(setting) => settings.push(setting),
            None => sheet.remark(line.place, format!("`{}`: not `key = value`", hidden(&line.text))),
        }
    }
    let is_open = settings.iter().any(|setting| setting.key == "allowstrangers" && is_on(&setting.value));
    access(is_open, sheet);
    storage(sheet);
    let servers = settings.iter().position(|setting| setting.key == "server").unwrap_or(settings.len());
    expiry(&settings, sheet);
    for setting in &settings {
        if let Err(why) = site(setting, sheet) {
            let line = format!("`{} = {}`", quoted(&setting.key), quoted(&setting.value));
            sheet.unsaid(setting.place, line, format!("no equivalent: {why}"));
        }
    }
    let rest = settings.get(servers..).unwrap_or_default();
    let starts: Vec<usize> =
        rest.iter().enumerate().filter(|(_, own)| own.key == "server").map(|(at, _)| at).collect();
    let mut servers: Vec<(String, &[LeafnodeSetting])> = Vec::new();
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(rest.len());
        let own = rest.get(*start..end).unwrap_or_default();
        servers.push((name_of(own, &servers), own));
    }
    for (name, own) in &servers {
        server(name, own, secrets, sheet);
    }
    let takes_posts =
        |own: &[LeafnodeSetting]| !own.iter().any(|own| own.key == "nopost" && is_on(&own.value));
    if let Some((name, own)) = servers.iter().find(|(_, own)| takes_posts(own)) {
        posts(name, own, local_groups, secrets, sheet);
    }
}

/// Converts the server to which leafnode posts: the first one to which posting is allowed. Local groups
/// stay here.
fn posts(
    name: &str,
    settings: &[LeafnodeSetting],
    local_groups: &str,
    secrets: &mut PasswordFiles,
    sheet: &mut ConfigDraft,
) {
    let Some((first, rest)) = settings.split_first() else { return };
    let get = |key: &str| rest.iter().find(|setting| setting.key == key);
    let mut upstream = DraftSection::new("upstream");
    upstream.about("What is posted here goes to this server, as with leafnode.");
    upstream.key("name", peer_name(&first.value), first.place);
    upstream.noted("host", address(&first.value, get("port")), "");
    upstream.noted("groups", "", "nothing is read from it: [[pull]] fetches");
    let (mut groups, mut places) = (vec!["*".to_owned()], Vec::new());
    for line in lines("local.groups", local_groups) {
        let name = line.text.split_ascii_whitespace().next().unwrap_or_default();
        if !newsgroups::valid_name(name.as_bytes()) {
            upstream.remark(line.place, format!("`{}`: not the name of a group", quoted(&line.text)));
            continue;
        }
        places.push(line.place);
        groups.push(format!("!{name}"));
    }
    sheet.saw(places.iter().copied());
    let note = format!(
        "all but those of {}",
        if places.is_empty() { "local.groups".into() } else { origins(&places) }
    );
    upstream.noted("post_carried", groups.join(","), note);
    login(&mut upstream, name, get, secrets);
    sheet.push(upstream);
    let others = "leafnode tries the next server if the first refuses a post; here the poster is told.";
    sheet.single("posting").say(others);
}

/// Returns a host with its port.
fn address(host: &str, port: Option<&LeafnodeSetting>) -> String {
    format!("{}:{}", bracketed(host), port.map_or("119", |setting| setting.value.as_str()))
}

/// Writes the login of a server, if there is one.
fn login<'a>(
    section: &mut DraftSection,
    host: &str,
    get: impl Fn(&str) -> Option<&'a LeafnodeSetting>,
    secrets: &mut PasswordFiles,
) {
    if let (Some(user), Some(password)) = (get("username"), get("password")) {
        section.key("user", user.value.as_str(), user.place);
        section.key("password_file", secrets.add(host, "password", &password.value), password.place);
        section.say("Without tls the password is sent to this machine only: see tls.");
    }
}

/// Returns a line for display, without a password that it may contain.
fn hidden(text: &str) -> String {
    if text.contains("password") { "a line with a password".into() } else { quoted(text) }
}

fn is_on(value: &str) -> bool {
    is_true(value) || value == "1" || value == "42"
}

fn access(is_open: bool, sheet: &mut ConfigDraft) {
    let listen = if is_open { "0.0.0.0:119" } else { "127.0.0.1:119" };
    sheet.single("site").noted("listen", Value::from_iter([listen]), "leafnode's port");
    let mut access = DraftSection::new("access");
    match is_open {
        true => access.noted("from", "all", "allowstrangers"),
        false => {
            access.noted("from", Value::from_iter(["127.0.0.0/8", "::1"]), "add the networks of your readers")
        }
    }
    access.noted("read", "*", "");
    access.noted("post", "*", "");
    sheet.push(access);
}

fn storage(sheet: &mut ConfigDraft) {
    let mut class = DraftSection::new("class");
    class.noted("name", "articles", "");
    class.noted("method", "appendonly", "");
    sheet.push(class);
    let mut rule = DraftSection::new("rule");
    rule.noted("class", "articles", "");
    sheet.push(rule);
}

/// Converts `groupexpire GROUP = DAYS`, then `expire = DAYS`.
fn expiry(settings: &[LeafnodeSetting], sheet: &mut ConfigDraft) {
    let of = |key: &'static str| settings.iter().filter(move |setting| setting.key == key);
    for setting in of("groupexpire").chain(of("expire")) {
        let days = setting.value.parse::<u64>().ok().filter(|days| (1..=36_500).contains(days));
        let span = days.map(|days| span_text(Duration::from_secs(days * 86_400)));
        // texpire skips such a group.
        let is_archive = setting.key == "groupexpire" && setting.value == "-1";
        let Some(keep) = span.or(is_archive.then(|| "never".to_owned())) else {
            let text =
                format!("`{} = {}`: not a number of days", quoted(&setting.key), quoted(&setting.value));
            sheet.remark(setting.place, text);
            continue;
        };
        let mut section = DraftSection::new("expire");
        if setting.key == "groupexpire" {
            section.key("groups", setting.about.as_str(), setting.place);
        }
        section.key("keep", keep, setting.place);
        section.say("leafnode keeps a thread as long as somebody reads it; here articles go by age.");
        sheet.push(section);
    }
}

/// Keys of the site that become one of ours.
const KEYS: &[MappedKey] = &[
    row("hostname", "site", "path_identity", keys::text),
    row("maxage", "site", "max_age_days", |value| {
        Ok(match number(value)? {
            // Without a limit.
            0 => "none".into(),
            days => (days.min(36_000) as i64).into(),
        })
    }),
    row("maxbytes", "site", "article_bytes_max", |value| {
        Ok(size_text(number(value)?.clamp(1 << 10, 1 << 30)).into())
    }),
    row("timeout_client", "limits", "idle_timeout", |value| {
        Ok(span_text(Duration::from_secs(number(value)?.clamp(1, 86_400))).into())
    }),
    row("newsadmin", "posting", "complaints_to", keys::text),
];

/// Keys converted by `access`, `expiry`, `posts` and `server`.
const ELSEWHERE: &str = "allowstrangers expire groupexpire server username password port initialfetch feedtype noread \
                         nopost timeout nodesc noxover updateactive noactive post_anygroup only_groups_pcre \
                         only_groups_match_all";

/// Keys without an equivalent, with reasons.
const UNMAPPED: &[(&str, &str)] = &[
    ("clamp_maxage", "max_age_days does not depend on [[expire]]"),
    ("minlines maxlines", "see [[filter]]; article_bytes_max limits octets"),
    ("delaybody delaybody_in_situ", "see [[upstream]], which fetches what is read"),
    ("timeout_fetchnews timeout_lock", "nothing waits for a lock"),
    (
        "create_all_links",
        "articles are stored once, and are in all their groups; all groups that are carried here are fetched, so \
         remove those that nobody reads: newsreel group remove",
    ),
    ("debugmode linebuffer", "see [log]"),
    ("maxfetch", "a pull misses nothing that is new"),
    ("maxcrosspost", "see spam.crossposts"),
    ("filterfile article_despite_filter", "see [[filter]] and [spam]"),
    ("timeout_short timeout_long timeout_active", "groups are fetched, read or not"),
];

fn number(value: &str) -> Result<u64, NotConverted> {
    value.parse().map_err(|_| NotConverted::from("not a number"))
}

/// Converts keys of the site; those of servers are left to `server`.
fn site(setting: &LeafnodeSetting, sheet: &mut ConfigDraft) -> Result<(), NotConverted> {
    let (key, value, place) = (setting.key.as_str(), setting.value.as_str(), setting.place);
    if key == "allowstrangers" {
        sheet.saw([place]);
    }
    if keys::is_among(ELSEWHERE, key) {
        return Ok(());
    }
    let Some(row) = keys::find(KEYS, key) else {
        return Err(keys::words(UNMAPPED, key).unwrap_or("newsreel does not know it").into());
    };
    sheet.single(row.section).key(row.ours, (row.value)(value)?, place);
    match number(value) {
        Ok(days @ 1..) if key == "maxage" => {
            super::expire::remember_days(None, Some(days.min(36_000)), sheet);
        }
        _ => {}
    }
    Ok(())
}

/// Returns the name of a server: its host, with the port if one of the servers before has that name.
fn name_of(settings: &[LeafnodeSetting], before: &[(String, &[LeafnodeSetting])]) -> String {
    let host = settings.first().map_or("", |first| first.value.as_str());
    let port = settings.iter().find(|setting| setting.key == "port");
    let name = peer_name(host);
    match port.filter(|_| before.iter().any(|(other, _)| *other == name)) {
        Some(port) => peer_name(&format!("{host}-{}", port.value)),
        None => name,
    }
}

/// Converts a server and the keys after it.
fn server(name: &str, settings: &[LeafnodeSetting], secrets: &mut PasswordFiles, sheet: &mut ConfigDraft) {
    let Some((first, rest)) = settings.split_first() else { return };
    let host = first.value.as_str();
    let get = |key: &str| rest.iter().find(|setting| setting.key == key);
    let mut pull = DraftSection::new("pull");
    pull.key("name", name, first.place);
    pull.noted(
        "from",
        address(host, get("port")),
        get("port").map_or(String::new(), |port| port.place.to_string()),
    );
    pull.noted("groups", "*", "those that are carried here: newsreel group add");
    login(&mut pull, name, get, secrets);
    for (key, other) in [("username", "password"), ("password", "username")] {
        if let (Some(setting), None) = (get(key), get(other)) {
            pull.remark(setting.place, format!("`{key}` without `{other}`: nobody is logged in"));
        }
    }
    if let Some(setting) = get("initialfetch") {
        match setting.value.parse::<i64>() {
            Ok(count) => pull.key("first_max", count.max(0), setting.place),
            Err(_) => pull.remark(setting.place, "`initialfetch` is not a number"),
        }
    }
    if let Some(setting) = get("noread").filter(|setting| is_on(&setting.value)) {
        pull.saw([setting.place]);
        pull.disable(format!("nothing is read from it ({})", setting.place));
    }
    if let Some(setting) = get("only_groups_pcre") {
        let text = format!("`{}` is a regular expression: write pull.groups", quoted(&setting.value));
        pull.remark(setting.place, text);
    }
    let known = ["port", "username", "password", "initialfetch", "noread", "only_groups_pcre"];
    let unsaid = [
        "feedtype",
        "nopost",
        "timeout",
        "nodesc",
        "noxover",
        "updateactive",
        "noactive",
        "post_anygroup",
        "only_groups_match_all",
    ];
    for (at, setting) in rest.iter().enumerate() {
        let is_repeated = rest.iter().take(at).any(|before| before.key == setting.key);
        if is_repeated && known.contains(&setting.key.as_str()) {
            let why = "is not carried over: an earlier line of this server decides";
            pull.remark(setting.place, format!("`{}` {why}", quoted(&setting.key)));
        } else if known.contains(&setting.key.as_str()) {
            pull.saw([setting.place]);
        } else if unsaid.contains(&setting.key.as_str()) {
            pull.remark(setting.place, format!("`{}` has no equivalent", quoted(&setting.key)));
        }
    }
    sheet.push(pull);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key known to leafnode 1.12, in the form of the config.example of its package.
    const SAMPLE: &str = r"## A comment, and a key that is not set:
# supplement = other.example
expire = 20

## The server, and keys of it.
server = news.example.org
initialfetch = 100
# username = nobody
username = us
password = hush

debugmode = 3
allowstrangers = 0
linebuffer = 1

server = broken.example.org
nodesc = 1
port = 9119

server = slow.example.org
timeout = 60
noactive = 1
noxover = 1

server = lurk-only.example.com
nopost = 1
only_groups_pcre = corel\.
only_groups_match_all = 1

server = post-only.example.com
noread = 1
post_anygroup = 1

groupexpire comp.os.linux.* = 5
groupexpire any.local.newsgroup = 100
groupexpire my.archived.group = -1
maxfetch = 2000
delaybody = 0
delaybody_in_situ = 0
maxcrosspost = 5
maxage = 0
clamp_maxage = 0
maxlines = 100
minlines = 2
maxbytes = 50000
timeout_short = 1
timeout_long = 6
timeout_active = 365
timeout_client = 900
timeout_fetchnews = 300
timeout_lock = 900
create_all_links = 1
filterfile = /etc/news/leafnode/filters
article_despite_filter = 1
hostname = myhost.example.org
newsadmin = postmaster@another.example.org
";

    #[test]
    fn every_key_of_the_packages_sample_is_converted_or_has_a_reason() {
        let mut sheet = ConfigDraft::default();
        convert(SAMPLE, "", &mut PasswordFiles::default(), &mut sheet);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        assert!(!text.contains("does not know it") && !text.contains("hush"), "{text}");
        let named = super::super::tests::named(&text, "config");
        for (at, line) in SAMPLE.lines().enumerate() {
            let is_set = !line.is_empty() && !line.starts_with('#');
            // Also the default here.
            let is_quiet = line == "allowstrangers = 0";
            assert!(!is_set || is_quiet || named.contains(&(at as u32 + 1)), "{line}: {text}");
        }
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        let from: Vec<&str> = config.pulls.iter().map(|pull| pull.from.as_str()).collect();
        assert_eq!(
            from,
            [
                "news.example.org:119",
                "broken.example.org:9119",
                "slow.example.org:119",
                "lurk-only.example.com:119"
            ]
        );
        let kept: Vec<_> = config.expire.iter().map(|rule| rule.keep).collect();
        let days = |n: u64| Some(site_config::RetentionTime::For(Duration::from_secs(n * 86_400)));
        assert_eq!(kept, [days(5), days(100), Some(site_config::RetentionTime::Never), days(20)]);
        assert_eq!((config.site.max_age_days, config.limits.idle_timeout.as_secs()), (None, 900));
    }

    /// Expected values are those of leafnode 1.12, as its fetchnews -vvv shows them.
    #[test]
    fn values_are_quoted_or_plain_and_a_port_belongs_to_the_server_above() {
        let mut sheet = ConfigDraft::default();
        let mut secrets = PasswordFiles::default();
        let text = "fqdn = \"leaf.example.org\"\nserver\t=\tnews1.example.net#first\nusername = us \t # me\n\
                    password = secret\t# c\nserver = \"news2.example.net\" junk # = two\nport = \"8119\"# c\n\
                    username = us\npassword = \"a#b \\\"c\\\\\"\nsupplement = 2001:db8::119\nport=9119\n\
                    server = \"open.example\n# server = off.example\nserver # = off.example\n";
        convert(text, "", &mut secrets, &mut sheet);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        assert_eq!(config.site.path_identity, "leaf.example.org");
        let from: Vec<&str> = config.pulls.iter().map(|pull| pull.from.as_str()).collect();
        assert_eq!(from, ["news1.example.net:119", "news2.example.net:8119", "[2001:db8::119]:9119"]);
        let passwords: Vec<&str> = secrets.files.values().map(String::as_str).collect();
        assert_eq!(passwords, ["secret\n", "a#b \"c\\\n"]);
        for line in ["config 11: `server = \"open.example`: not", "config 13: `server # = off.example`: not"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn ids_are_remembered_for_longer_than_maxage() {
        let mut sheet = ConfigDraft::default();
        convert(
            "server = a.example\nnopost = 1\nmaxage = 365\n",
            "",
            &mut PasswordFiles::default(),
            &mut sheet,
        );
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        assert_eq!((config.site.max_age_days, config.site.remember_days), (Some(365), 366));
        assert!(config.upstreams.is_empty(), "{text}");
    }

    #[test]
    fn servers_of_one_host_have_names_and_passwords_of_their_own() {
        let (mut sheet, mut secrets) = (ConfigDraft::default(), PasswordFiles::default());
        let text = "server = localhost\nport = 11191\nusername = a\npassword = first\nnopost = 1\n\
                    server = localhost\nport = 11192\nusername = b\npassword = second\n";
        convert(text, "", &mut secrets, &mut sheet);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        let pulls: Vec<_> =
            config.pulls.iter().map(|pull| (pull.name.as_str(), pull.from.as_str())).collect();
        assert_eq!(pulls, [("localhost", "localhost:11191"), ("localhost-11192", "localhost:11192")]);
        assert_eq!(secrets.files["passwords/localhost.password"], "first\n");
        assert_eq!(secrets.files["passwords/localhost-11192.password"], "second\n");
        let [upstream] = config.upstreams.as_slice() else { panic!("{text}") };
        assert_eq!(upstream.host, "localhost:11192");
        assert!(text.contains("password_file = \"passwords/localhost-11192.password\""), "{text}");
    }

    #[test]
    fn servers_become_pulls() {
        let mut sheet = ConfigDraft::default();
        let mut secrets = PasswordFiles::default();
        let text = "hostname = leaf.example.org\nserver = news.example.net\nusername = us\npassword = hush\n\
                    port = 1119\ninitialfetch = 100\nserver = other.example\nnoread = 1\nexpire = 20\n\
                    groupexpire local.* = 90\nmaxfetch = 5\nstrange = 1\nnonsense\nmaxbytes = 100000\n";
        convert(text, "my.group\ty\tOurs\n", &mut secrets, &mut sheet);
        let (text, refused) = sheet.settle("");
        assert_eq!(refused, None, "{text}");
        let config = site_config::parse(&text, std::path::Path::new("x")).unwrap();
        let [upstream] = config.upstreams.as_slice() else { panic!("{text}") };
        assert_eq!((upstream.host.as_str(), upstream.groups.as_str()), ("news.example.net:1119", ""));
        assert_eq!(upstream.post_carried.as_str(), "*,!my.group");
        let [pull] = config.pulls.as_slice() else { panic!("{text}") };
        assert_eq!((pull.from.as_str(), pull.first_max), ("news.example.net:1119", Some(100)));
        assert_eq!(secrets.files["passwords/news.example.net.password"], "hush\n");
        let days = |n: u64| Some(site_config::RetentionTime::For(Duration::from_secs(n * 86_400)));
        let kept: Vec<_> = config.expire.iter().map(|rule| rule.keep).collect();
        assert_eq!((kept, config.site.article_bytes_max), (vec![days(90), days(20)], 100_000));
        for part in [
            "config 11: `maxfetch = 5`: no equivalent",
            "config 13: `nonsense`: not",
            "config 12: `strange = 1`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("hush"), "{text}");
    }
}
