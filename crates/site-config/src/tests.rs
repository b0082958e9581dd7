//! Tests with whole files: the resulting configurations, and the exact reports of faulty ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::table::{ConfigKey, ReloadEffect, keys};
use super::testing::with_trash;
use super::*;

const GOOD: &str = r#"
[site]
path_identity = "news.example.org"
organization = "Example"
control_group = "operators"
max_age_days = "none"
tls_listen = ["127.0.0.1:1563"]

[tls]
certificate = ["news.crt", "/etc/news/other.crt"]
key = ["news.key", "/etc/news/other.key"]
client_ca = "ca.crt"

[cluster]
member = "fe1"
credentials = "fe1.creds"
ca = "ca.pem"
certificate = "fe1.pem"
private_key = "fe1.key"

[[buffer]]
name = "text0"
path = "text0.cyc"
size = "2 GiB"

[[buffer]]
name = "big0"
path = "/dev/sdz"
size = "1 TB"
block = "4 KiB"

[[class]]
name = "text"
ring = "1900 MiB"
buffers = ["text0"]

[[class]]
name = "big"
buffers = ["big0"]
order = "sequential"
keep_at_least = "3 days"
overflow = "ram"
keep_target = "10 days"

[[class]]
name = "ram"
method = "memory"
size = "1 MiB"

[[class]]
name = "archive"
method = "appendonly"
path = "/news/archive"
file_size = "1 GiB"
files_max = 400
free_min = "5 %"

[[class]]
name = "files"
method = "bucketed"
path = "/news/files"
line_ends = "lf"

[[archive]]
name = "comp"
groups = "comp.*"
when = "arrival"
path = "/archive"
form = "mbox"
wait_max = "1 day"

[[expire]]
class = "archive"
groups = "alt.*"
moderated = true
keep = "30 days"
keep_min = "3 days"
keep_max = "365 days"
age = "thread"
articles_max = 5000
bytes_max = "200 MiB"

[[rule]]
class = "big"
groups = "*.binaries.*"
larger_than = "64 KiB"
smaller_than = "1 GiB"
crossposts_at_least = 2
from = "*@example.net*"
match = "any"
path = "*.example.com"
header = { name = "X-Trace", matches = "*a, *b" }
verdict = "binary"
origin = "peer up*"
expires_within = "3 days"
expires_beyond = "1 h"
expires_absent = false

[[rule]]
class = "text"

[[peer]]
name = "upstream"
addresses = ["192.0.2.0/24", "2001:db8::7"]
user = "feeder"

[peer.send]
to = "192.0.2.1:119"
template = "leaf"
size_min = "1 KiB"
crossposts_max = 20
hops_max = 10
hash = "1-3/10:4"
bind = "192.0.2.2"
tls_ca = "peer.crt"
user = "us"
password_file = "peer.password"
backlog_max_bytes = "1 GiB"

[[peer]]
name = "leaf.example.net"
[peer.send]
batch = "out/leaf"
after_batch = ["/usr/bin/uux", "-", "-r", "leaf!rnews"]

[[peer]]
name = "archive"
[peer.send]
file = "out/archive"

[[peer]]
name = "indexer"
[peer.send]
program = ["/usr/local/bin/indexer"]

[[send_template]]
name = "leaf"
size_max = "100 KiB"
backlog_max_days = 3

[[control]]
type = ["newgroup", "checkgroups"]
from = "admin@example.org"
groups = "local.*"
action = "do"
mail_to = "newsmaster@example.org"

[[filter]]
name = "clean"
program = ["/bin/cat"]
timeout = "1 s"

[auth]
plain_passwords_from = []

[[authenticator]]
program = ["/usr/lib/news/bin/auth/passwd/ckpasswd", "-f", "/etc/news/passwd"]

[[ldap]]
name = "people"
to = "ldap.example.org:636"
tls_ca = "ldap-ca.crt"
base = "dc=example,dc=org"
service_dn = "cn=news,dc=example,dc=org"
service_password_file = "ldap.password"
group_base = "ou=groups,dc=example,dc=org"
groups = ["cn=news,ou=groups,dc=example,dc=org -> staff", "operators"]

[[ldap]]
name = "here"
to = "127.0.0.1:389"
tls = "off"
user_dn = "uid=%s,dc=example,dc=net"

[[oidc]]
name = "campus"
label = "your campus account"
issuer = "https://login.example.org/realms/campus"
client_id = "news"
client_secret_file = "oidc.secret"
name_suffix = "@campus"
tls_ca = "provider-ca.crt"

[[access]]
from = "127.0.0.1"
post = "*"

[[access]]
from = "all"
listener = ["*:563", "192.0.2.1"]
users = "*,!guest"
user_groups = ["staff"]
tls = true
connections_per_address_max = 4
connections_per_user_max = 2
bytes_per_sec_max = "1 MiB"
posts_per_hour_max = 30

[[access]]
from = "all"
read = "*,!internal.*"

[posting]
complaints_to = "abuse@example.org"
article_bytes_max = "64 KiB"

[moderation]
smtp = "127.0.0.1:25"
sender = "news@example.org"
default_address = "%s@moderators.example.org"

[[moderator]]
groups = "local.*"
address = "%s@example.org"

[[moderator]]
groups = "announce.*"
address = "queue"
sign = ["/usr/bin/gpg", "--armor", "--detach-sign"]

[[body_server]]
name = "spool1"
from = "spool1.example.net:563"
bind = "192.0.2.1"
tls = "implicit"
tls_ca = "spool1-ca.crt"
user = "fred"
password_file = "spool1.password"

[[pull]]
name = "upstream"
from = "news.example.net:563"
groups = "comp.*"
first_max = 1000
bytes_per_sec_max = "1 MiB"
bind = "192.0.2.1"
tls = "implicit"
tls_ca = "upstream-ca.crt"
user = "fred"
password_file = "upstream.password"

[[upstream]]
name = "isp"
host = "news.example.net:119"
groups = "*,!local.*"
group_age = "0 s"
post = "*,!comp.announce"

[[upstream]]
name = "filler"
host = "fill.example.net:563"
fill = true
priority = 2
owner = "wholesale"
bind = "192.0.2.1"
tls = "implicit"
tls_ca = "filler-ca.crt"
user = "fred"
password_file = "filler.password"

[cache]
log = "accesses"
refuse = [{ name = "Subject", matches = "*money*" }]

[prefetch]
groups = "comp.lang.*"
bytes_per_sec_max = "5 KiB"
hours = "22-6"

[web]
about = "News of a society."
pages_per_minute = 600
sign_up_group = "web"
"#;

fn read(text: &str) -> Result<Config, ConfigError> {
    parse(text, Path::new("etc/newsreel.toml"))
}

/// Returns the message, line number, text under the caret and advice of each fault.
fn faults(text: &str) -> Vec<(String, usize, String, String)> {
    let error = read(text).expect_err("the file is faulty");
    let told = |fault: &ConfigFault| {
        let line = 1 + text[..fault.span.start].matches('\n').count();
        let caret = text[fault.span.clone()].to_owned();
        (fault.message.clone(), line, caret, fault.advice.clone().unwrap_or_default())
    };
    error.faults().iter().map(told).collect()
}

fn only_fault(text: &str) -> (String, String, String) {
    let mut all = faults(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    let (message, _, caret, advice) = all.remove(0);
    (message, caret, advice)
}

fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

#[test]
fn a_good_file_becomes_a_configuration() {
    let config = read(GOOD).unwrap();
    assert_eq!(config.site.path_identity, "news.example.org");
    assert_eq!(config.site.listen, ["127.0.0.1:1119"]);
    assert_eq!(config.site.data, PathBuf::from("etc"));
    assert_eq!(config.site.durability, Durability::Interval(Duration::from_millis(100)));
    assert_eq!(config.site.max_age_days, None);
    assert_eq!(config.site.article_bytes_max, 4 << 20);
    assert_eq!(config.limits.connections_max, 20_000);
    assert_eq!(config.buffers[0].path, PathBuf::from("etc/text0.cyc"));
    assert_eq!(config.buffers[1].path, PathBuf::from("/dev/sdz"));
    assert_eq!((config.buffers[0].block, config.buffers[1].block), (64, 4096));
    assert_eq!(config.rules[0].larger_than, Some(65_536));
    assert_eq!(config.rules[1].groups, None);
    assert!(config.peers[0].streaming);
    assert_eq!(config.peers[0].user.as_deref(), Some("feeder"));
    assert!(config.access[0].post.matches(b"local.test"));
    assert_eq!(config.access[1].posts_per_hour_max, Some(30));
    assert!(config.access[2].post.is_empty() && config.access[2].newnews);
}

#[test]
fn sections_that_are_never_reached_are_reported() {
    let reached = |first: &str, later: &str| {
        let text = with("[[access]]\nfrom = \"127.0.0.1\"\npost = \"*\"\n", "");
        let (head, _) = text.split_once("[[access]]").unwrap();
        read(&format!("{head}[[access]]\n{first}\n[[access]]\n{later}\n")).is_ok()
    };
    for (first, later, good) in [
        ("from = \"all\"", "from = \"192.0.2.0/24\"", false),
        ("from = \"all\"", "from = \"all\"\nusers = \"*\"", false),
        ("from = \"all\"\nusers = \"*\"", "from = \"all\"", true),
        ("from = \"all\"\nusers = \"*\"", "from = \"::1\"\nusers = \"fred\"", false),
        ("from = \"all\"\nusers = \"*\"", "from = \"::1\"\nuser_groups = [\"a\"]", false),
        ("from = \"all\"\nusers = \"f*\"", "from = \"all\"\nusers = \"fred\"", true),
        ("from = \"all\"\nuser_groups = [\"a\", \"b\"]", "from = \"all\"\nuser_groups = [\"b\"]", false),
        ("from = \"all\"\nuser_groups = [\"a\"]", "from = \"all\"\nuser_groups = [\"a\", \"b\"]", true),
        ("from = \"all\"\ntls = true", "from = \"all\"", true),
        ("from = \"all\"\ntls = true", "from = \"all\"\ntls = true", false),
        ("from = \"all\"\nlistener = [\"*:563\"]", "from = \"all\"", true),
        ("from = \"all\"\nlistener = [\"*:563\"]", "from = \"all\"\nlistener = [\"192.0.2.1:563\"]", false),
        ("from = \"192.0.2.0/24\"", "from = [\"192.0.2.0/25\", \"198.51.100.1\"]", true),
        ("from = [\"192.0.2.0/24\", \"::/0\"]", "from = [\"192.0.2.1\", \"2001:db8::/32\"]", false),
    ] {
        assert_eq!(reached(first, later), good, "{first}\n{later}");
    }
}

#[test]
fn faults_of_access_and_auth_are_reported_with_advice() {
    let first = "from = \"127.0.0.1\"\npost = \"*\"";
    let covered = faults(&with(first, "from = \"all\""));
    assert_eq!(covered.len(), 2, "{covered:#?}");
    let (message, _, caret, advice) = &covered[0];
    assert!(
        message.starts_with("this section is never reached: the conditions of the first [[access]]"),
        "{message}"
    );
    assert!(caret.starts_with("[[access]]") && advice.contains("more conditions"), "{caret} {advice}");
    for (from, to, told) in [
        (first, "from = \"127.0.0.1\"\nconnections_per_user_max = 3", "cannot count by user"),
        (
            "program = [\"/usr/lib/news/bin/auth/passwd/ckpasswd\"",
            "program = [\"ckpasswd\"",
            "not an absolute path",
        ),
        ("listener = [\"*:563\"", "listener = [\"news:563\"", "`news:563` is not an IP address"),
        ("plain_passwords_from = []", "mechanisms = [\"cram-md5\"]", "must be a list of \"user\", \"plain\""),
        ("plain_passwords_from = []", "lockout_first = \"1 h\"", "lockout_first is longer than"),
        ("class = \"archive\"\ngroups", "class = \"ram\"\ngroups", "no class `ram` that keeps"),
        ("keep = \"30 days\"\n", "", "a bound without keep"),
        ("keep_min = \"3 days\"", "keep_min = \"2000 days\"", "keep_min is longer"),
        ("keep_min = \"3 days\"", "keep_min = \"never\"", "keep_min is longer"),
        ("keep = \"30 days\"\nkeep_min = \"3 days\"\nkeep_max = \"365 days\"\n", "", "an age without keep"),
        ("keep = \"30 days\"", "keep = \"forever\"", "`forever` is not a time"),
        ("free_min = \"5 %\"", "free_min = \"100 %\"", "write it as in \"5 %\""),
        ("name = \"big\"\n", "name = \"big\"\nfree_min = \"1 GiB\"\n", "only a class that keeps"),
        ("name = \"files\"", "name = \"big0\"", "has the name of a buffer"),
        ("user_groups = [\"staff\"]", "user_groups = [\"st aff\"]", "`st aff` is not 1 to 15 letters"),
        ("posts_per_hour_max = 30", "posts_per_hour = 30", "has no key `posts_per_hour`"),
        ("password_file = \"upstream.password\"\n", "", "has only one of user and password_file"),
        (
            "action = \"do\"\nmail_to = \"newsmaster@example.org\"",
            "signed_by = \"x\"\naction = \"refuse\"",
            "before its signature",
        ),
        ("mail_to = \"newsmaster@example.org\"", "mail_to = \"-x@example.org\"", "is not a mail address"),
        ("action = \"do\"\nmail_to", "action = \"log\"\nmail_to", "nothing is mailed"),
        ("action = \"do\"\nmail_to = \"newsmaster@example.org\"", "action = \"mail\"", "has no mail_to"),
        ("\"checkgroups\"]", "\"sendme\"]", "\"sendme\" cannot be carried out"),
        ("timeout = \"1 s\"", "timeout = \"2 s\"", "filter.timeout must lie between 10 ms and 1 s"),
        ("timeout = \"1 s\"", "judges = []", "this [[filter]] judges nothing"),
        ("%s@example.org\"", "%s@example.org\"\nsign = [\"/bin/gpg\"]", "nothing is approved here"),
        (
            "\"checkgroups\"]\nfrom = \"admin@example.org\"\ngroups = \"local.*\"\naction = \"do\"",
            "\"cancel\"]\naction = \"mail\"",
            "cancels and Supersedes are not mailed",
        ),
        (
            "bind = \"192.0.2.1\"\ntls = \"implicit\"\ntls_ca = \"upstream",
            "bind = \"here\"\ntls = \"implicit\"\ntls_ca = \"upstream",
            "`here` is not an IP address",
        ),
        ("password_file = \"filler.password\"\n", "", "has only one of user and password_file"),
        ("groups = \"*,!local.*\"\ngroup_age", "fill = true\ngroup_age", "no upstream numbers a group"),
    ] {
        let (message, _, advice) = only_fault(&with(from, to));
        assert!(message.contains(told) && !advice.is_empty(), "{message} ({advice})");
    }
}

#[test]
fn output_of_show_reads_back_the_same() {
    let config = read(GOOD).unwrap();
    let again = parse(&config.to_toml(), &config.file).unwrap();
    assert_eq!(again.to_toml(), config.to_toml());
    assert_eq!(again.rules, config.rules);
    assert_eq!(again.classes, config.classes);
    assert_eq!(again.access, config.access);
}

#[test]
fn the_table_of_keys_and_the_structs_name_the_same_keys() {
    let config = read(GOOD).unwrap();
    let written: BTreeSet<String> = config
        .sections()
        .into_iter()
        .flat_map(|(section, lines)| lines.into_iter().map(move |(name, _)| format!("{section}.{name}")))
        .collect();
    let table: BTreeSet<String> = keys().map(ConfigKey::path).collect();
    assert_eq!(written, table);
}

#[test]
fn every_default_of_the_table_takes_effect() {
    let shown = with_trash("").to_toml();
    let is_of = |key: &&ConfigKey| {
        ["site", "limits"].contains(&key.section) && !["data", "lists"].contains(&key.name)
    };
    for key in keys().filter(is_of) {
        match (&key.default, key.absent) {
            (Some(value), _) => {
                assert!(shown.contains(&format!("\n{} = {value}\n", key.name)), "{}", key.path())
            }
            (None, "none") => assert!(!shown.contains(&format!("\n{} = ", key.name)), "{}", key.path()),
            (None, _) => assert!(shown.contains(&host_name()), "{}", key.path()),
        }
    }
}

#[test]
fn the_manual_names_the_limits_of_headers() {
    let text = manual::explain("site.article_bytes_max").unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bytes = netnews::article::HEADER_BYTES_MAX >> 10;
    let lines = site_base::units::grouped(netnews::article::HEADER_LINES_MAX);
    assert!(text.contains(&format!("headers may have {bytes} KiB together")), "{text}");
    assert!(text.contains(&format!("{lines} lines")), "{text}");
}

#[test]
fn every_key_has_an_example_that_sets_it_and_a_manual() {
    for key in keys() {
        assert!(key.example.starts_with(&format!("{} = ", key.word())), "{}", key.path());
        assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}", key.path());
    }
    let section = table::section("rule").unwrap();
    assert!(section.repeated && section.doc.ends_with('.') && section.brackets() == "[[rule]]");
    assert_eq!(table::key("rule", "match").unwrap().takes, "\"first\" or \"any\"");
    assert!(table::key("rule", "group_match").is_none());
}

/// The manual in the documentation comments is not counted.
#[test]
fn a_key_costs_few_lines_of_code() {
    const LINES_PER_KEY_MAX: usize = 20;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let lines: usize = files.filter(|file| !file.ends_with("tests.rs")).map(|file| code_lines(&file)).sum();
    assert!(lines <= LINES_PER_KEY_MAX * keys().count(), "{lines} lines for {} keys", keys().count());
}

/// Returns the number of lines that are neither blank nor comments, up to the tests.
fn code_lines(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn changes_that_need_a_restart_are_held_back() {
    let config = |size: &str| {
        with_trash(&format!("[[class]]\nname = \"m\"\nmethod = \"memory\"\nsize = \"{size}\"\n"))
    };
    let (old, new) = (config("1 MiB"), config("2 MiB"));
    let held = held_back(&old, new.clone());
    let waiting = differences(&held, &new);
    assert_eq!(waiting.len(), 1);
    let effect = |d: &Difference| table::key(d.place.section, d.place.key.unwrap()).unwrap().effect;
    assert!(waiting.iter().all(|difference| effect(difference) == ReloadEffect::Restart));
}

#[test]
fn every_example_of_the_table_is_accepted() {
    for key in keys() {
        let own = table::section(key.section).unwrap().brackets();
        // A part follows the section that it belongs to.
        let part = key.name.rsplit_once('.').map(|(part, _)| format!("[{}.{part}]\n", key.section));
        let head = format!("{own}\n{}{}\n", part.unwrap_or_default(), key.example);
        let Err(error) = read(&head) else { continue };
        let about = |fault: &&ConfigFault| {
            fault.message.contains(&key.path()) || fault.message.contains("has no key")
        };
        let refused = error.faults().iter().find(about);
        assert!(refused.is_none(), "{}: {refused:?}", key.path());
    }
}

#[test]
fn the_report_shows_line_caret_and_advice_of_every_fault() {
    let text = "[site]\nlisen = [\"127.0.0.1:1119\"]\n\n[[buffer]]\nname = \"b\"\npath = \"b\"\nsize = \"2 Gib/s\"\n\n\
                [[class]]\nname = \"text\"\nbuffers = [\"b\"]\n\n[[rule]]\nclass = \"txt\"\n";
    let report = read(text).unwrap_err().report(false);
    let expected = "  × [site] has no key `lisen`
   ╭─[etc/newsreel.toml:2:1]
 1 │ [site]
 2 │ lisen = [\"127.0.0.1:1119\"]
   · ──┬──
   ·   ╰── unknown key
 3 │ 
   ╰────
  help: did you mean `listen`?

  × buffer.size: `Gib/s` is not a unit of size; use KiB, MiB, GiB, TiB (or kB, MB, GB, TB)
   ╭─[etc/newsreel.toml:7:8]
 6 │ path = \"b\"
 7 │ size = \"2 Gib/s\"
   ·        ────┬────
   ·            ╰── this value
 8 │ 
   ╰────
  help: for example: size = \"20 GiB\"

  × there is no class `txt`
    ╭─[etc/newsreel.toml:14:9]
 13 │ [[rule]]
 14 │ class = \"txt\"
    ·         ──┬──
    ·           ╰── named here
    ╰────
  help: did you mean `text`?

etc/newsreel.toml: 3 errors
";
    assert_eq!(report, expected, "{report}");
}

#[test]
fn faults_between_sections_are_found() {
    for (text, message, caret, advice) in [
        (
            with("buffers = [\"text0\"]", "buffers = [\"text1\"]"),
            "there is no buffer `text1`",
            "[\"text1\"]",
            "did you mean `text0`?",
        ),
        (
            with("buffers = [\"big0\"]", "buffers = [\"text0\"]"),
            "buffer `text0` belongs to class `text` already",
            "[\"text0\"]",
            "a buffer belongs to one class",
        ),
        (
            with("path = \"/dev/sdz\"", "path = \"./text0.cyc\""),
            "two sections [[buffer]] have the path `./text0.cyc`",
            "\"./text0.cyc\"",
            "give each [[buffer]] a path of its own",
        ),
        (
            with("[[rule]]\nclass = \"text\"\n", ""),
            "an article that meets no rule would have no class",
            "[[rule]]",
            "end with a [[rule]] that has only a class",
        ),
        (
            with("[[peer]]", "[[rule]]\nclass = \"ram\"\n\n[[peer]]"),
            "this rule is never reached: the one before it matches every article",
            "[[rule]]",
            "move the rule without conditions to the end",
        ),
        (
            with("name = \"upstream\"\n", ""),
            "[[peer]] lacks `name`",
            "[[peer]]",
            "add it, for example: name = \"news.example.net\"",
        ),
        (
            with("buffers = [\"text0\"]\n", ""),
            "a class of method \"cnfs\" needs buffers",
            "[[class]]",
            "for example: buffers = [\"text0\"]",
        ),
        (
            with("max_age_days = \"none\"", "max_age_days = 20"),
            "articles of 20 days are taken, but Message-IDs are remembered for 11 days",
            "[site]",
            "make remember_days larger than max_age_days, or an expired article is accepted again",
        ),
        (
            with("block = \"4 KiB\"", "block = 1000"),
            "a block must be a power of two from 64 to 16384 bytes",
            "1000",
            "the default, \"64\", suits text",
        ),
    ] {
        assert_eq!(only_fault(&text), (message.into(), caret.into(), advice.into()));
    }
}

#[test]
fn logins_from_outside_are_safe_and_unambiguous() {
    for (text, message, caret) in [
        (
            with("base = \"dc=example,dc=org\"\n", ""),
            "an [[ldap]] finds a user's entry by user_dn or below base, one of the two",
            "[[ldap]]",
        ),
        (
            with("user_dn = \"uid=%s,", "user_dn = \"uid=fred,"),
            "user_dn would be the same entry for every name",
            "\"uid=fred,dc=example,dc=net\"",
        ),
        (
            with("service_password_file = \"ldap.password\"\n", ""),
            "service_dn and service_password_file belong together",
            "[[ldap]]",
        ),
        (
            with("\"127.0.0.1:389\"", "\"ldap.example.net:389\""),
            "passwords would be sent to another machine in the clear",
            "\"off\"",
        ),
        (
            with("name = \"here\"", "name = \"people\""),
            "two sections [[ldap]] have the name `people`",
            "\"people\"",
        ),
        (
            with("[[authenticator]]", "[[authenticator]]\ngroups = [\"cn=news,dc=example\"]"),
            "authenticator.groups: `cn=news,dc=example` is not the name of a group of users; write \"NAME ELSEWHERE \
             -> GROUP\", or a group's name that is the same in both places",
            "\"cn=news,dc=example\"",
        ),
    ] {
        let (found, at, _) = only_fault(&text);
        assert_eq!((found.as_str(), at.as_str()), (message, caret));
    }
    // Visitors who make accounts must not take the names of users elsewhere.
    let open = with("sign_up_group = \"web\"", "sign_up_group = \"web\"\nsign_up = \"mail\"");
    assert_eq!(faults(&open).len(), 2, "[[authenticator]] and [[ldap]]; the suffix keeps [[oidc]] apart");
    assert_eq!(faults(&open.replace("name_suffix = \"@campus\"\n", "")).len(), 3);
    let config = read(GOOD).unwrap();
    let groups: Vec<&str> = config.outside_groups().collect();
    assert_eq!(groups, ["staff", "operators"]);
    let files: Vec<&Path> = config.password_files().collect();
    assert!(files.contains(&Path::new("etc/ldap.password")) && files.contains(&Path::new("etc/oidc.secret")));
}

#[test]
fn faults_of_values_name_the_key_and_its_kind() {
    for (from, to, message, caret) in [
        (
            "organization = \"Example\"",
            "organization = 7",
            "site.organization must be a text, not a whole number",
            "7",
        ),
        (
            "order = \"sequential\"",
            "order = \"sequentially\"",
            "class.order must be \"interleave\" or \"sequential\", not \"sequentially\"",
            "\"sequentially\"",
        ),
        (
            "from = \"127.0.0.1\"",
            "from = [\"127.0.0.1\", \"localhost\"]",
            "access.from: `localhost` is not an IP address or a network",
            "\"localhost\"",
        ),
        (
            "expires_within = \"3 days\"",
            "expires_within = 3",
            "rule.expires_within: `3` lacks a unit; write a text such as \"3 s\"",
            "3",
        ),
        (
            "crossposts_at_least = 2",
            "crossposts_at_least = 0",
            "rule.crossposts_at_least: the number must lie between 1 and 10000",
            "0",
        ),
        (
            "path_identity = \"news.example.org\"",
            "path_identity = \"news example\"",
            "site.path_identity: `news example` is not a path identity: letters, digits, `.`, `-`, `_`, no spaces",
            "\"news example\"",
        ),
    ] {
        let (told, at, _) = only_fault(&with(from, to));
        assert_eq!((told.as_str(), at.as_str()), (message, caret));
    }
    let (message, caret, advice) = only_fault(&with("[[peer]]\n", "[[peer]]\ndistributions = \"usa, na\"\n"));
    assert_eq!(message, "peer.distributions: ` na` is not a distribution");
    assert_eq!((caret.as_str(), advice.as_str()), ("\"usa, na\"", "for example: distributions = \"usa,na\""));
    let (message, caret, _) = only_fault(&with("groups = \"*.binaries.*\"", "groups = \"a,,b\""));
    assert!(message.starts_with("rule.groups: `a,,b` is not a wildmat: "), "{message}");
    assert_eq!(caret, "\"a,,b\"");
}

#[test]
fn misplaced_keys_are_reported_with_their_section() {
    assert_eq!(
        only_fault(&format!("listen = [\"127.0.0.1:1119\"]\n{GOOD}")),
        (
            "`listen` is outside any section".into(),
            "listen".into(),
            "`listen` belongs into [site] or [web]".into()
        )
    );
    assert_eq!(
        only_fault(&with("[[peer]]\n", "[[peer]]\nidle_timeout = \"1 h\"\n")),
        (
            "[[peer]] has no key `idle_timeout`".into(),
            "idle_timeout".into(),
            "`idle_timeout` belongs into [limits]".into()
        )
    );
    assert_eq!(
        only_fault(&with("[[authenticator]]", "[authenticator]")),
        (
            "the section `authenticator` is not written so".into(),
            "[authenticator]".into(),
            "write [[authenticator]] on a line of its own".into()
        )
    );
    assert_eq!(
        only_fault(&GOOD.replace("[[peer]]", "[[peers]]").replace("[peer.send]", "[peers.send]")),
        ("there is no section `peers`".into(), "peers".into(), "did you mean [[peer]]?".into())
    );
}

#[test]
fn header_conditions_and_overflows_are_checked() {
    let header = "header = { name = \"X-Trace\", matches = \"*a, *b\" }";
    let two = "header = [{ name = \"A\", matches = \"*\" }, { name = \"B\", matches = \"b c\" }]";
    let rules = read(&with(header, two)).unwrap().rules;
    assert_eq!(rules[0].header.as_ref().unwrap()[1], HeaderMatch { name: "B".into(), matches: "b c".into() });
    for (to, message) in [
        ("header = \"A\"", "rule.header must be a header condition, or a list of them, not a text"),
        ("header = { name = \"A\" }", "rule.header: it lacks `matches`"),
        ("header = { name = \"A b\", matches = \"*\" }", "rule.header: `A b` is not a header's name"),
        (
            "header = { name = \"A\", matches = \"*\", is = 1 }",
            "rule.header: `is` is neither `name` nor `matches`",
        ),
    ] {
        assert_eq!(only_fault(&with(header, to)).0, message);
    }
    for (from, to, message) in [
        ("overflow = \"ram\"", "overflow = \"rum\"", "there is no class `rum`"),
        ("overflow = \"ram\"", "overflow = \"big\"", "the overflow of class `big` leads back to itself"),
        ("keep_at_least = \"3 days\"\n", "", "overflow without keep_at_least: nothing would ever go there"),
    ] {
        assert_eq!(only_fault(&with(from, to)).0, message);
    }
}

#[test]
fn a_ring_needs_buffers_with_room_for_it_and_depends_on_nothing_else() {
    let ring = |class: &str, size: &str| {
        let without = with("ring = \"1900 MiB\"\n", "");
        let name = format!("name = \"{class}\"\n");
        without.replacen(&format!("[[class]]\n{name}"), &format!("[[class]]\n{name}ring = \"{size}\"\n"), 1)
    };
    assert_eq!(read(GOOD).unwrap().classes[0].ring, Some(1900 << 20));
    for (class, size, message) in [
        ("text", "2 GiB", "the buffers of class `text` have room for a ring of 1.99 GiB and not of 2.00 GiB"),
        ("big", "1 GiB", "with keep_at_least, or as an overflow, a class is given what depends on buffers"),
        ("archive", "1 GiB", "only a class of method \"cnfs\" has a ring"),
    ] {
        assert_eq!(only_fault(&ring(class, size)).0, message);
    }
}

#[test]
fn without_numbers_no_class_keeps_articles_by_group() {
    let all = faults(&GOOD.replacen("[site]\n", "[site]\nnumbers = false\n", 1));
    let shown: Vec<&str> = all.iter().map(|fault| fault.2.as_str()).collect();
    assert_eq!(shown, ["\"appendonly\"", "\"bucketed\"", "\"comp\""], "{all:?}");
    let is_said = |message: &str| message.contains("keeps articles until they are due in their groups");
    assert!(all.iter().take(2).all(|fault| is_said(&fault.0) && fault.3.contains("cnfs")), "{all:?}");
    assert!(all[2].0.starts_with("an [[archive]] copies articles by their groups and numbers"), "{all:?}");
}

#[test]
fn broken_toml_is_reported_with_its_line() {
    let all = faults(&with("size = \"1 TB\"", "size = 1 TB"));
    assert_eq!(all[0].1, 29, "{all:?}");
    assert!(all[0].0.starts_with("not TOML: "), "{all:?}");
    let all = faults(&with("block = \"4 KiB\"", "size = \"2 TB\""));
    assert_eq!((all[0].0.as_str(), all[0].1), ("not TOML: duplicate key", 30));
    // An unclosed bracket would otherwise cause a fault on each line after it.
    let all = faults(&with("size = \"1 TB\"", "size = [\"1 TB\""));
    assert_eq!(all.len(), 1, "{all:?}");
}

#[test]
fn an_empty_file_is_reported_with_advice() {
    let (message, _, advice) = only_fault("");
    assert_eq!(message, "there is no rule, so no article would have a class");
    assert!(advice.contains("newsreel init"), "{advice}");
}

#[test]
fn three_lines_make_a_cache() {
    let config = read("[[upstream]]\nname = \"isp\"\nhost = \"news.example.net:119\"\n").unwrap();
    assert_eq!((config.buffers.len(), config.classes.len(), config.rules.len()), (1, 1, 1));
    let [access] = config.access.as_slice() else { panic!("{:?}", config.access) };
    assert!(access.from.iter().all(|from| ["127.0.0.0/8", "::1"].contains(&from.to_string().as_str())));
    // What the file says of articles counts alone.
    let with_access =
        "[[upstream]]\nname = \"isp\"\nhost = \"news.example.net:119\"\n[[access]]\nfrom = \"all\"\n";
    assert_eq!(read(with_access).unwrap().access[0].from, Cidr::ALL);
    let (message, ..) = only_fault(
        "[[upstream]]\nname = \"isp\"\nhost = \"news.example.net:119\"\n[[buffer]]\nname = \"b\"\npath = \"b\"\n",
    );
    assert_eq!(message, "there is no rule, so no article would have a class");
}

#[test]
fn a_part_of_the_configuration_is_shown() {
    let config = read(GOOD).unwrap();
    assert_eq!(config.part_of("site.durability").unwrap(), "interval(100ms)\n");
    assert_eq!(config.part_of("buffer.name").unwrap(), "text0\nbig0\n");
    assert!(config.part_of("[site]").unwrap().starts_with("[site]\npath_identity = "));
    assert_eq!(config.part_of("site.durabilty"), None);
}

#[test]
fn a_missing_file_is_reported_by_name() {
    let error = load(Path::new("/nonexistent/newsreel.toml")).unwrap_err();
    assert!(error.report(false).starts_with("cannot read /nonexistent/newsreel.toml: "), "{error}");
}

#[test]
fn the_page_in_docs_is_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let text = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(text == manual::markdown(), "docs/config.md is stale: run `make docs`");
}

#[test]
fn members_of_a_cluster_have_nothing_that_another_could_do_otherwise() {
    let cluster = "[cluster]\nservers = [\"e1:4222\"]\nsite = \"example\"\nmember = \"fe1\"\n";
    let spool = "[[buffer]]\nname = \"a\"\npath = \"a.cyc\"\nsize = \"1 GiB\"\n\
                 [[class]]\nname = \"text\"\nring = \"900 MiB\"\nbuffers = [\"a\"]\n[[rule]]\nclass = \"text\"\n";
    let parsed = |text: &str| parse(text, Path::new("/etc/newsreel.toml"));
    let config = parsed(&format!("{cluster}{spool}")).unwrap();
    assert!(config.cluster.is_used());
    assert_eq!(config.cluster.reads, ClusterReads::Fresh);
    assert!(!parsed(spool).unwrap().cluster.is_used());
    let refused = |text: String, words: &str| {
        let error = parsed(&text).unwrap_err();
        assert!(
            error.faults().iter().any(|fault| fault.message.contains(words)),
            "{words}: {:?}",
            error.faults()
        );
    };
    refused(format!("{}{spool}", cluster.replace("member = \"fe1\"\n", "")), "has no name");
    refused(format!("{}{spool}", cluster.replace("fe1", "f e")), "no name in a cluster");
    refused(format!("{cluster}private_key = \"a.key\"\n{spool}"), "belong together");
    refused(format!("{cluster}[site]\nnumbers = false\n{spool}"), "number articles");
    let error = parsed(&format!("{cluster}{}", spool.replace("ring = \"900 MiB\"\n", ""))).unwrap_err();
    let [fault] = error.faults() else { panic!("{:?}", error.faults()) };
    assert!(fault.message.contains("class `text` has no ring"), "{fault:?}");
    assert!(fault.advice.as_ref().unwrap().ends_with("ring = \"1013 MiB\""), "{fault:?}");
    refused(format!("{cluster}{}", spool.replace("900 MiB", "1 GiB")), "have room for a ring of");
    let memory =
        spool.replace("ring = \"900 MiB\"\nbuffers = [\"a\"]", "method = \"memory\"\nsize = \"1 MiB\"");
    refused(format!("{cluster}{memory}"), "cyclic buffers, or keep them in large files");
    let kept = spool.replace("ring = \"900 MiB\"\nbuffers = [\"a\"]", "method = \"appendonly\"");
    let expire = "[[expire]]\nkeep = \"9 days\"\n";
    assert!(parsed(&format!("{cluster}{kept}{expire}")).is_ok());
    let room = kept.replace("[[rule]]", "free_min = \"5 %\"\n[[rule]]");
    refused(format!("{cluster}{room}"), "depend on one member's disk");
    let full = kept.replace("[[rule]]", "files_max = 9\n[[rule]]");
    refused(format!("{cluster}{full}"), "cannot refuse");
    assert!(parsed(&format!("{full}{expire}")).is_ok());
    refused(
        format!("{cluster}{kept}[[archive]]\nname = \"a\"\npath = \"/a\"\n"),
        "without asking an archive",
    );
    let kept = spool.replace("[[rule]]", "keep_at_least = \"1 day\"\n[[rule]]");
    refused(format!("{cluster}{kept}"), "cannot refuse");
    refused(format!("{cluster}{spool}[[body_server]]\nname = \"b\"\nfrom = \"b:119\"\n"), "do not fetch");
}

#[test]
fn a_switch_that_is_yes_is_answered_with_the_two_words_for_it() {
    let fault = read("[search]\nenabled = yes\n").unwrap_err().report(false);
    assert!(fault.contains("a switch is true or false"), "{fault}");
}
