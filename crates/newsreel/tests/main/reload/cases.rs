//! The changes that `load` makes, in order, and checks that each has taken effect.

use super::directory;
use super::load::{GUEST, OTHER, PEER, READER, Site};
use crate::waiting::wait_until;

/// A change of the configuration.
pub struct Case {
    pub name: &'static str,
    /// Returns the file after the change.
    pub edit: fn(&str) -> String,
    /// The server's objection; `None` if it accepts the change.
    pub refusal: Option<&'static str>,
    /// Checks that the change is in effect, or that nothing has changed.
    pub check: fn(&Site),
}

const fn case(name: &'static str, edit: fn(&str) -> String, check: fn(&Site)) -> Case {
    Case { name, edit, refusal: None, check }
}

const fn refused(
    name: &'static str,
    edit: fn(&str) -> String,
    reason: &'static str,
    check: fn(&Site),
) -> Case {
    Case { name, edit, refusal: Some(reason), check }
}

/// Returns the text with a line before a mark.
fn add(text: &str, mark: &str, lines: &str) -> String {
    assert!(text.contains(mark), "{mark}");
    text.replacen(mark, &format!("{lines}\n{mark}"), 1)
}

fn swap(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old}");
    text.replacen(old, new, 1)
}

/// Checks nothing further; that the server's configuration is the file's is always checked.
fn holds(_: &Site) {}

pub fn all() -> Vec<Case> {
    let site = [peers(), access(), users(), limits(), site(), operation()];
    let parts = site.into_iter().chain([posting(), listeners(), storage(), classes(), faults()]);
    parts.flatten().collect()
}

fn peers() -> Vec<Case> {
    vec![
        case(
            "a peer is added",
            |t| add(t, "# peers", "[[peer]]\nname = \"new.example\"\naddresses = [\"127.0.0.6\"]"),
            |s| assert!(s.ask(OTHER, "MODE STREAM").starts_with("203 ")),
        ),
        case(
            "a peer is renamed",
            |t| swap(t, "name = \"new.example\"", "name = \"renamed.example\""),
            |s| assert_eq!(s.status("/server/peers/2/name"), "renamed.example"),
        ),
        case(
            "a peer is removed, and its feed is told",
            |t| swap(t, "[[peer]]\nname = \"renamed.example\"\naddresses = [\"127.0.0.6\"]\n", ""),
            |s| assert!(s.at(OTHER).line().starts_with("502 ")),
        ),
        case(
            "a peer may send fewer groups",
            |t| add(t, "# peer\n", "accept = \"local.*\""),
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "439"),
        ),
        case(
            "a peer may send more groups",
            |t| swap(t, "accept = \"local.*\"", "accept = \"*\""),
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "239"),
        ),
        case(
            "a peer may send no local articles",
            |t| add(t, "# peer\n", "distributions = \"!local\""),
            |s| assert_eq!(s.feed("misc.test", "Distribution: local\r\n", "x").1, "439"),
        ),
        case(
            "a peer has one connection",
            |t| add(t, "# peer\n", "max_connections = 1"),
            |s| {
                wait_until("the peer is away", || s.status("/server/peers/1/connections") == 0);
                let _first = s.greeted(PEER);
                assert!(s.at(PEER).line().starts_with("400 Too many connections of this peer"));
            },
        ),
        case(
            "a peer has many connections",
            |t| swap(t, "max_connections = 1\n", "max_connections = 20\n"),
            |s| drop([s.greeted(PEER), s.greeted(PEER)]),
        ),
        case(
            "a peer may not stream",
            |t| add(t, "# peer\n", "streaming = false"),
            |s| assert!(!s.ask(PEER, "MODE STREAM").starts_with("203 ")),
        ),
        case(
            "a peer may stream",
            |t| swap(t, "streaming = false", "streaming = true"),
            |s| assert!(s.ask(PEER, "MODE STREAM").starts_with("203 ")),
        ),
    ]
}

fn access() -> Vec<Case> {
    vec![
        case(
            "readers see fewer groups",
            |t| {
                add(t, "# guest", "newnews = false")
                    .replace("read = \"*\"\nnewnews", "read = \"local.*\"\nnewnews")
            },
            |s| assert!(s.ask(GUEST, "GROUP misc.test").starts_with("411 ")),
        ),
        case(
            "NEWNEWS is allowed",
            |t| swap(t, "newnews = false", "newnews = true"),
            |s| assert!(s.ask(GUEST, "NEWNEWS * 20200101 000000").starts_with("230 ")),
        ),
        case(
            "readers see all groups",
            |t| swap(t, "read = \"local.*\"", "read = \"*\""),
            |s| assert!(s.ask(GUEST, "GROUP misc.test").starts_with("211 ")),
        ),
        case(
            "readers may post",
            |t| add(t, "# guest", "post = \"*\""),
            |s| assert!(s.post("misc.test", "x").starts_with("240 ")),
        ),
        case(
            "readers may post once an hour",
            |t| add(t, "# guest", "posts_per_hour_max = 1"),
            |s| {
                s.post("misc.test", "x");
                assert!(s.post("misc.test", "x").starts_with("440 Too many posts"));
            },
        ),
        case(
            "readers may post often",
            |t| swap(t, "posts_per_hour_max = 1", "posts_per_hour_max = 1000"),
            |s| assert!(s.post("misc.test", "x").starts_with("240 ")),
        ),
        case(
            "one connection for each address",
            |t| add(t, "# guest", "connections_per_address_max = 1"),
            |s| {
                let mut first = s.greeted_at_last(GUEST);
                wait_until("no second one is let in", || s.at(GUEST).line().starts_with("400 "));
                assert!(first.ask("DATE").starts_with("111 "));
            },
        ),
        case(
            "many connections for each address",
            |t| {
                swap(
                    t,
                    "connections_per_address_max = 1",
                    "connections_per_address_max = 900\nbytes_per_sec_max = 100000",
                )
            },
            |s| drop([s.greeted(GUEST), s.greeted(GUEST)]),
        ),
        case("readers manage the site", |t| add(t, "# guest", "manage = true"), holds),
        case(
            "another network may read",
            |t| add(t, "# access", "[[access]]\nfrom = \"127.0.0.6\"\nread = \"local.*\""),
            |s| assert!(s.ask(OTHER, "GROUP local.empty").starts_with("211 ")),
        ),
        case(
            "it may no longer",
            |t| swap(t, "[[access]]\nfrom = \"127.0.0.6\"\nread = \"local.*\"\n", ""),
            |s| assert!(s.at(OTHER).line().starts_with("502 ")),
        ),
    ]
}

fn users() -> Vec<Case> {
    vec![
        case(
            "users of a program may read",
            |t| {
                let program = "[[authenticator]]\nprogram = [\"/bin/echo\", \"User:bob\"]\n";
                add(
                    t,
                    "# access",
                    &format!("{program}[[access]]\nfrom = \"127.0.0.6\"\nusers = \"*\"\nread = \"*\""),
                )
            },
            |s| assert!(s.login(OTHER, "bob").1.starts_with("281 ")),
        ),
        case(
            "passwords only under TLS",
            |t| add(t, "# auth", "plain_passwords_from = []"),
            |s| assert!(s.greeted(OTHER).ask("AUTHINFO USER bob").starts_with("483 ")),
        ),
        case(
            "passwords in the clear from here",
            |t| {
                swap(
                    t,
                    "plain_passwords_from = []",
                    "plain_passwords_from = [\"127.0.0.0/8\"]\nmechanisms = [\"user\"]",
                )
            },
            |s| {
                assert!(s.login(OTHER, "bob").1.starts_with("281 "));
                assert!(!s.lines(OTHER, "CAPABILITIES").contains("SASL"));
            },
        ),
        case(
            "the program accepts nobody",
            |t| swap(t, "program = [\"/bin/echo\", \"User:bob\"]", "program = [\"/bin/false\"]"),
            |s| assert!(s.login(OTHER, "bob").1.starts_with("481 ")),
        ),
        case(
            "nobody can log in",
            |t| swap(t, "[[authenticator]]\nprogram = [\"/bin/false\"]\n", ""),
            |s| assert!(s.at(OTHER).line().starts_with("502 ")),
        ),
        case(
            "users of a directory may read",
            |t| {
                let (section, to) = ("[[ldap]]\nname = \"people\"\ntls = \"off\"", *directory::ADDRESS);
                add(t, "# access", &format!("{section}\nto = \"{to}\"\nuser_dn = \"uid=%s,ou=people\""))
            },
            |s| {
                assert!(s.login(OTHER, "bob").1.starts_with("281 "));
                assert!(s.login(OTHER, "eve").1.starts_with("481 "));
            },
        ),
        case(
            "users are elsewhere in the directory",
            |t| swap(t, "uid=%s,ou=people", "uid=%s,ou=others"),
            |s| assert!(s.login(OTHER, "bob").1.starts_with("481 ")),
        ),
        case(
            "users are where they were",
            |t| swap(t, "uid=%s,ou=others", "uid=%s,ou=people"),
            |s| assert!(s.login(OTHER, "bob").1.starts_with("281 ")),
        ),
        case(
            "a directory that is not there",
            |t| swap(t, &format!("to = \"{}\"", *directory::ADDRESS), "to = \"127.0.0.1:1\""),
            |s| assert!(s.login(OTHER, "bob").1.starts_with("403 ")),
        ),
        case(
            "the directory is removed",
            |t| {
                let at = t.find("[[ldap]]").unwrap();
                let end = t[at..].find("# access").unwrap() + at;
                format!("{}{}", &t[..at], &t[end..])
            },
            |s| assert!(s.at(OTHER).line().starts_with("502 ")),
        ),
    ]
}

fn limits() -> Vec<Case> {
    vec![
        case(
            "fewer connections for each address than there are",
            |t| add(t, "# limits", "connections_per_address_max = 10"),
            |s| assert!(s.at(READER).line().starts_with("400 Too many connections from your address")),
        ),
        case(
            "fewer connections in all than there are",
            |t| swap(t, "connections_per_address_max = 10", "connections_max = 20"),
            |s| assert!(s.at(READER).line().starts_with("400 Too many connections (at most 20)")),
        ),
        case(
            "enough connections, other times",
            |t| {
                swap(
                    t,
                    "connections_max = 20",
                    "idle_timeout = \"20 min\"\ncommand_timeout = \"2 min\"\nwrite_timeout = \"3 min\"",
                )
            },
            |s| assert!(s.ask(READER, "DATE").starts_with("111 ")),
        ),
    ]
}

fn site() -> Vec<Case> {
    vec![
        case(
            "another path identity",
            |t| swap(t, "\"site.example\"", "\"other.example\""),
            |s| {
                assert!(s.at(GUEST).line().contains(" other.example "));
                let (id, _) = s.feed("misc.test", "", "x");
                let head = s.lines(GUEST, &format!("HEAD {id}"));
                assert!(
                    head.contains("Path: other.example!") && head.contains("Xref: other.example "),
                    "{head}"
                );
            },
        ),
        case(
            "old articles are rejected",
            |t| swap(t, "max_age_days = \"none\"", "max_age_days = 3"),
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "439"),
        ),
        case(
            "articles of any age are taken",
            |t| swap(t, "max_age_days = 3", "max_age_days = \"none\""),
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "239"),
        ),
        case(
            "articles must be short",
            |t| swap(t, "\"128 KiB\"", "\"2 KiB\""),
            |s| assert_eq!(s.feed("misc.test", "", &"line\r\n".repeat(500)).1, "439"),
        ),
        case(
            "articles may be longer than before",
            |t| swap(t, "article_bytes_max = \"2 KiB\"", "article_bytes_max = \"2 MiB\""),
            |s| assert_eq!(s.feed("misc.test", "", &"a line of text\r\n".repeat(90_000)).1, "239"),
        ),
        case(
            "unknown groups go to junk",
            |t| add(t, "# site", "unknown_groups = \"junk\""),
            |s| assert_eq!(s.feed("no.such.group", "", "x").1, "239"),
        ),
        case(
            "no local articles at all",
            |t| add(t, "# site", "distributions = \"!here\""),
            |s| assert_eq!(s.feed("misc.test", "Distribution: here\r\n", "x").1, "439"),
        ),
    ]
}

fn operation() -> Vec<Case> {
    vec![
        case(
            "lists are elsewhere",
            |t| add(t, "# site", "lists = \"nowhere\""),
            |s| assert!(s.ask(GUEST, "LIST MOTD").starts_with("503 ")),
        ),
        case(
            "an acknowledgement means on disk",
            |t| swap(t, "durability = \"process\"", "durability = \"always\""),
            |s| {
                assert_eq!(s.status("/spool/durability"), "always");
                assert_eq!(s.feed("misc.test", "", "x").1, "239");
            },
        ),
        case(
            "an acknowledgement means soon on disk",
            |t| swap(t, "durability = \"always\"", "durability = \"interval(50ms)\""),
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "239"),
        ),
        case(
            "other times to remember and to keep",
            |t| {
                add(
                    t,
                    "# site",
                    "remember_days = 30\njournal_keep_bytes = \"1 MiB\"\ncompress_overview_after = \"1 h\"\n\
                     hot_memory = \"16 MiB\"",
                )
            },
            holds,
        ),
        case(
            "overview keeps further headers",
            |t| add(t, "# site", "overview_headers = [\"Keywords\"]"),
            |s| assert!(s.lines(GUEST, "LIST OVERVIEW.FMT").ends_with("Xref:full\nKeywords:full")),
        ),
        case(
            "and no longer",
            |t| swap(t, "overview_headers = [\"Keywords\"]\n", ""),
            |s| assert!(s.lines(GUEST, "LIST OVERVIEW.FMT").ends_with("Xref:full")),
        ),
        case("another log", |t| add(t, "# site", "log_level = \"warn\"\nlog_format = \"json\""), holds),
    ]
}

fn posting() -> Vec<Case> {
    vec![
        case(
            "posts go to one group",
            |t| add(t, "# posting", "groups_max = 1"),
            |s| assert!(s.post("misc.test,local.empty", "x").starts_with("441 ")),
        ),
        case(
            "posts go to many groups",
            |t| swap(t, "groups_max = 1", "groups_max = 5"),
            |s| assert!(s.post("misc.test,local.empty", "x").starts_with("240 ")),
        ),
        case(
            "posts must be short",
            |t| add(t, "# posting", "article_bytes_max = \"1 KiB\""),
            |s| assert!(s.post("misc.test", &"line\r\n".repeat(400)).starts_with("441 ")),
        ),
        case(
            "posts tell the organization",
            |t| add(t, "# site", "organization = \"Example Org\""),
            |s| {
                let answer = s.post("misc.test", "x");
                let id = answer.split(' ').next_back().unwrap();
                assert!(
                    s.lines(GUEST, &format!("HEAD {id}")).contains("Organization: Example Org"),
                    "{answer}"
                );
            },
        ),
        case("cancels are obeyed", |t| add(t, "# cancel", "honor = \"all\""), |s| assert!(cancelled(s))),
        case(
            "cancels are not obeyed",
            |t| swap(t, "honor = \"all\"", "honor = \"none\""),
            |s| assert!(!cancelled(s)),
        ),
        case(
            "a group has a moderator",
            |t| {
                add(
                    t,
                    "# peers",
                    "[[moderator]]\ngroups = \"local.moderated\"\naddress = \"mod@site.example\"",
                )
            },
            |s| assert!(s.lines(GUEST, "LIST MODERATORS").contains("local.moderated:mod@site.example")),
        ),
    ]
}

/// Returns whether an article can be cancelled.
fn cancelled(s: &Site) -> bool {
    let (id, _) = s.feed("misc.test", "", "x");
    assert_eq!(s.feed("misc.test", &format!("Control: cancel {id}\r\n"), "x").1, "239");
    s.ask(GUEST, &format!("STAT {id}")).starts_with("430 ")
}

fn listeners() -> Vec<Case> {
    vec![
        case(
            "a second address to listen on",
            |t| swap(t, "listen = [\"127.0.0.1:0\"]", "listen = [\"127.0.0.1:0\", \"127.0.0.7:0\"]"),
            |s| {
                let address = s.status("/server/listen/1").as_str().unwrap().parse().unwrap();
                crate::client::Client::connect(address);
            },
        ),
        case(
            "one address again",
            |t| swap(t, ", \"127.0.0.7:0\"]", "]"),
            |s| assert_eq!(s.status("/server/listen").as_array().unwrap().len(), 1),
        ),
    ]
}

fn storage() -> Vec<Case> {
    vec![
        case(
            "a rule sends a group elsewhere",
            |t| add(t, "# rules", "[[rule]]\nclass = \"kept\"\ngroups = \"local.empty\""),
            |s| {
                s.feed("local.empty", "", "x");
                assert!(s.status("/spool/classes/1/oldest_arrival").is_u64());
            },
        ),
        case(
            "a buffer is added to a class",
            |t| {
                let buffer = "[[buffer]]\nname = \"text1\"\npath = \"text1.cyc\"\nsize = \"1 MiB\"";
                swap(&add(t, "# buffers", buffer), "[\"text0\"]", "[\"text0\", \"text1\"]")
            },
            |s| assert_eq!(s.status("/spool/buffers/1/name"), "text1"),
        ),
        case(
            "a buffer grows",
            |t| swap(t, "size = \"16 MiB\"", "size = \"20 MiB\""),
            |s| assert!(s.status("/spool/buffers/0/size_bytes").as_u64().unwrap() > 19 << 20),
        ),
        case(
            "a buffer is retired",
            |t| swap(t, "size = \"1 MiB\"", "size = \"1 MiB\"\nretired = true"),
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "239"),
        ),
        case("buffers are filled one by one", |t| add(t, "# text", "order = \"sequential\""), holds),
        case(
            "a class gets a ring",
            |t| add(t, "# text", "ring = \"64 KiB\""),
            |s| {
                let (id, code) = s.feed("misc.test", "", "x");
                assert_eq!((code.as_str(), &s.ask(GUEST, &format!("STAT {id}"))[..3]), ("239", "223"));
                for filler in 0..8 {
                    s.feed(
                        "misc.test",
                        "",
                        &format!("{filler} {}\r\n", "0123456789abcdef".repeat(40)).repeat(16),
                    );
                }
                assert_eq!(&s.ask(GUEST, &format!("STAT {id}"))[..3], "430");
            },
        ),
        case("the ring is removed", |t| swap(t, "ring = \"64 KiB\"\n", ""), holds),
        case(
            "articles are compressed",
            |t| add(t, "# text", "compress = \"zstd\""),
            |s| {
                let (id, _) = s.feed("misc.test", "", &"the same again\r\n".repeat(100));
                assert!(s.lines(GUEST, &format!("BODY {id}")).ends_with("the same again\n"));
            },
        ),
    ]
}

fn classes() -> Vec<Case> {
    vec![
        case(
            "a class in memory comes first",
            |t| {
                let class = "[[class]]\nname = \"brief\"\nmethod = \"memory\"\nsize = \"1 MiB\"";
                let rule = "[[rule]]\nclass = \"brief\"\ngroups = \"local.refused\"";
                let t =
                    swap(t, "[[class]]\nname = \"text\"", &format!("{class}\n[[class]]\nname = \"text\""));
                add(&t, "# rules", rule)
            },
            |s| {
                let (id, code) = s.feed("local.empty", "", "x");
                assert_eq!((code.as_str(), &s.ask(GUEST, &format!("STAT {id}"))[..3]), ("239", "223"));
            },
        ),
        case(
            "it is gone again",
            |t| {
                let t = swap(t, "[[class]]\nname = \"brief\"\nmethod = \"memory\"\nsize = \"1 MiB\"\n", "");
                swap(&t, "[[rule]]\nclass = \"brief\"\ngroups = \"local.refused\"\n", "")
            },
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "239"),
        ),
        case(
            "articles of a group are due",
            |t| add(t, "# expire", "[[expire]]\nclass = \"kept\"\nkeep = \"1 ms\""),
            |s| wait_until("they went", || s.status("/spool/classes/1/oldest_arrival").is_null()),
        ),
        case(
            "articles stay for a while",
            |t| add(t, "# text", "keep_at_least = \"1 s\"\nkeep_target = \"1 day\""),
            holds,
        ),
    ]
}

fn faults() -> Vec<Case> {
    vec![
        refused("a key that is none", |t| add(t, "# site", "lisen = []"), "did you mean `listen`?", holds),
        refused("no TOML", |t| format!("{t}\n[["), "not TOML", holds),
        refused(
            "a class that is none",
            |t| swap(t, "[[rule]]\nclass = \"kept\"", "[[rule]]\nclass = \"keppt\""),
            "there is no class `keppt`",
            holds,
        ),
        refused(
            "another spool, and a limit",
            |t| swap(t, "# limits", "connections_max = 1\n# limits").replace("data = \"", "data = \"/tmp"),
            "stop the server, move the directory",
            |s| assert!(s.ask(GUEST, "DATE").starts_with("111 ")),
        ),
        refused(
            "a moved buffer",
            |t| swap(t, "\"text1.cyc\"", "\"moved.cyc\""),
            "newsreel buffer move",
            holds,
        ),
        refused("a smaller buffer", |t| swap(t, "\"20 MiB\"", "\"8 MiB\""), "cannot shrink", holds),
        refused(
            "another block",
            |t| swap(t, "\"20 MiB\"", "\"20 MiB\"\nblock = \"512\""),
            "fixed when",
            holds,
        ),
        refused(
            "a class of another method",
            |t| swap(t, "method = \"tradspool\"", "method = \"hashed\""),
            "[[class]] kept method",
            holds,
        ),
        refused(
            "a buffer with articles is left out",
            |t| {
                let t =
                    swap(t, "[[buffer]]\nname = \"text0\"\npath = \"text0.cyc\"\nsize = \"20 MiB\"\n", "");
                swap(&t, "[\"text0\", \"text1\"]", "[\"text1\"]").replace("\nretired = true", "")
            },
            "holds articles and cannot just be left out",
            |s| assert_eq!(s.feed("misc.test", "", "x").1, "239"),
        ),
        refused(
            "an address that is another machine's",
            |t| swap(t, "[\"127.0.0.1:0\"]", "[\"127.0.0.1:0\", \"192.0.2.1:119\"]"),
            "cannot listen on 192.0.2.1:119",
            |s| assert_eq!(s.status("/server/listen").as_array().unwrap().len(), 1),
        ),
        refused(
            "certificates that are not there",
            |t| swap(t, "[limits]", "[tls]\ncertificate = \"none.crt\"\nkey = \"none.key\"\n[limits]"),
            "none.crt",
            |s| assert!(!s.lines(GUEST, "CAPABILITIES").contains("STARTTLS")),
        ),
    ]
}
