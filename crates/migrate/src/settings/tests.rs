//! Whole configurations: everything is converted or reported, and damage never causes a panic.

use std::path::Path;

use super::*;
use site_config as config;
use site_config::{Config, RetentionTime};

/// A site with settings in each file.
pub(super) const SITE: &[(&str, &str)] = &[
    (
        "inn.conf",
        "pathhost: news.example.org\norganization: \"Example News\"\npathalias: old.example.org\n\
         artcutoff: 14\nmaxartsize: 500000\nport: 1190\nbindaddress: 192.0.2.1\nwanttrash: true\n\
         docancels: auth\nhiscachesize: 256\nextraoverviewadvertised: [\n  Keywords\n]\nclienttimeout: 900\n\
         mta: \"/usr/sbin/sendmail -oi -oem %s\"\nbackofftrigger: 10000\nnosuchkey: 1\nmaxconnections: 50\n\
         allownewnews: false\npgpverify: true\naddinjectionpostinghost: false\n",
    ),
    (
        "storage.conf",
        "method cnfs {\n    newsgroups: alt.binaries.*,!alt.binaries.text\n    class: 1\n    options: BIG\n}\n\
         method timehash {\n    newsgroups: *\n    class: 2\n    size: 50000,0\n    expires: 10d\n}\n\
         method tradspool { newsgroups: local.*\n class: 3\n}\nmethod timecaf {\n newsgroups: *\n class: 4\n}\n\
         method trash {\n newsgroups: *\n class: 5\n}\n",
    ),
    (
        "cycbuff.conf",
        "cycbuffupdate:25\nrefreshinterval:30\ncycbuff:ONE:/export/one:512000\ncycbuff:TWO:/dev/sdb:512000\n\
         cycbuff:OLD:/export/old:100\nmetacycbuff:BIG:ONE,TWO:SEQUENTIAL\n",
    ),
    (
        "expire.ctl",
        "/remember/:20\n*:A:1:10:never\ncomp.*:M:2:30:365\nlocal.*:A:never:never:never\nfaq.*:AX:0:never:90\n",
    ),
    (
        "incoming.conf",
        "streaming: true # by default\nmax-connections: 8\npeer ME {\n  hostname: \"localhost, 127.0.0.1\"\n}\n\
         peer up.example {\n  hostname: news.up.example\n  patterns: \"*,!local.*,@warez.*\"\n  password: secret\n}\n\
         group slow {\n  max-connections: 1\n  peer leaf {\n    hostname: 198.51.100.9\n    streaming: false\n\
         hold-time: 3\n  }\n}\npeer gone { hostname: no.such.example }\n",
    ),
    (
        "newsfeeds",
        "$CONTROL=control,control.*\nME:*,!$CONTROL,!junk,!local.*/!local::\n\
         up.example/news.up.example:*,@alt.warez\\\n  :Tm,<100000,G20,Ac,Nm,Q1/2_4,C9:innfeed!\n\
         innfeed!:!*:Tc,Wnm*:/usr/lib/news/bin/innfeed\ncontrolchan!:!*,control:Tc,Wnsm:/usr/lib/news/bin/controlchan\n\
         leaf:comp.*/world:Tf,Wnm:\narchive!:*:Tf,Wbmg:/var/spool/archive.list\n\
         watcher!:*:Tc,Wbnm:exec awk '{ print }' >> /tmp/big\ngate!:!*:W*,Tp:/bin/mail %s\nlog!:*:Tl:\n",
    ),
    (
        "innfeed.conf",
        "max-connections: 5\nlog-file: innfeed.log\npeer up.example {\n  ip-name: news.up.example\n\
         port-number: 433\n  response-timeout: 60\n  no-check-high: 97.5\n  no-check-low: x\n}\npeer stranger {\n}\n",
    ),
    ("nntpsend.ctl", "leaf:leaf.example.net::-t 60\n"),
    ("passwd.nntp", "leaf.example.net:us:pass word:authinfo\nother.example:a:b\n"),
    (
        "readers.conf",
        "auth all {\n  auth: \"ckpasswd -f /etc/news/users\"\n  default-domain: example.org\n}\n\
         auth lab {\n  hosts: \"10.1.*, !10.1.2.3, *.lab.example\"\n  default: \"<LAB>\"\n}\n\
         auth near {\n  hosts: \"localhost, stdin\"\n  default: \"<NEAR>\"\n  res: ident\n}\n\
         access users {\n  users: \"*@example.org\"\n  newsgroups: \"*,!local.admin.*\"\n}\n\
         access admin {\n  users: \"joe@*,jane@*\"\n  newsgroups: *\n  access: RPAN\n  perlfilter: false\n}\n\
         access lab {\n  users: \"<LAB>\"\n  read: *\n  max_rate: 10000\n}\n\
         access near {\n  users: \"<NEAR>\"\n  newsgroups: *\n  addcanlockuser: none\n}\n\
         access nobody {\n users: \"<NOBODY>\"\n newsgroups: *\n}\n",
    ),
    ("moderators", "# c\nlocal.announce:announce@example.org\n*:%s@moderators.isc.org\nbad\n"),
    (
        "control.ctl",
        "/maxdocheckgroups/:*:*:15\nall:*:*:drop\nnewgroup:*:*:mail\nrmgroup:*:*:mail\nnewgroup:admin@x.example:x.*:doit\n\
         checkgroups:*:de.*:verify-de.admin.news.announce\nsendsys:*:*:log=sendsys\ncancel:*:*:doit\n",
    ),
];

pub(super) fn resolve(name: &str) -> Vec<std::net::IpAddr> {
    match name {
        "news.up.example" => vec!["198.51.100.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
        _ => Vec::new(),
    }
}

fn site() -> OldConfiguration {
    let files = SITE.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    OldConfiguration { dir: "/etc/news".into(), files, ..OldConfiguration::default() }
}

fn converted(old: &OldConfiguration) -> (ConvertedConfiguration, Config) {
    let mut new = from_inn(old, &resolve);
    assert_eq!(new.refused, None, "{}", new.text);
    let config = config::parse(&new.text, Path::new("newsreel.toml"));
    let config = config.unwrap_or_else(|error| panic!("{}", error.report(false)));
    // Undoes the wrapping of comments.
    new.text = new.text.replace("\n#   ", " ");
    (new, config)
}

/// Returns the lines named in the new configuration for a file.
pub(super) fn named(text: &str, file: &str) -> std::collections::BTreeSet<u32> {
    let mut lines = std::collections::BTreeSet::new();
    for (at, _) in text.match_indices(&format!("{file} ")) {
        let rest = &text[at + file.len() + 1..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && !"-, ".contains(c)).unwrap_or(rest.len());
        for range in rest[..end].split([',', ' ']).filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                lines.extend(first..=last);
            }
        }
    }
    lines
}

#[test]
fn a_whole_site_becomes_a_configuration() {
    let (new, config) = converted(&site());
    let text = &new.text;
    let site = &config.site;
    assert_eq!(site.path_identity, "news.example.org");
    assert_eq!(site.path_also, ["old.example.org"]);
    assert_eq!(site.overview_headers, ["Keywords"]);
    assert_eq!((site.max_age_days, site.remember_days), (Some(14), 20));
    assert_eq!(
        (site.article_bytes_max, site.listen.as_slice()),
        (500_000, &["192.0.2.1:1190".to_owned()][..])
    );
    assert_eq!(site.distributions.as_str(), "!local");
    assert!(config.cancel.unlocked, "{text}");
    let classes: Vec<&str> = config.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(classes, ["BIG", "timehash-2", "tradspool-3", "timecaf-4"]);
    let buffers: Vec<_> = config.buffers.iter().map(|buffer| (buffer.name.as_str(), buffer.size)).collect();
    assert_eq!(buffers, [("ONE", Some(512_000 << 10)), ("TWO", Some(512_000 << 10))]);
    assert!(config.buffers.iter().all(|buffer| !buffer.path.starts_with("/")), "INN's are not written over");
    assert_eq!(config.rules[0].groups.as_ref().unwrap().as_str(), "alt.binaries.*,!alt.binaries.text");
    assert_eq!(config.rules[1].larger_than, Some(49_999));
    assert!(text.contains("storage.conf 19: `method trash` is never reached"), "{text}");
    assert!(text.contains("inn.conf 17: `nosuchkey: 1`: INN 2.7 has no such key"), "{text}");
    assert!(text.contains("inn.conf 10: `hiscachesize: 256`: not needed, history"), "{text}");
}

#[test]
fn never_means_what_inn_means() {
    let (_, config) = converted(&site());
    let days = |n: u64| RetentionTime::For(std::time::Duration::from_secs(n * 86_400));
    let rules: Vec<_> = config
        .expire
        .iter()
        .map(|rule| {
            let groups = rule.groups.as_ref().map(config::NamePattern::as_str);
            (groups, rule.moderated, rule.keep, rule.keep_min, rule.keep_max)
        })
        .collect();
    assert_eq!(
        rules,
        [
            // Only an Expires header ends it, within 90 days.
            (Some("faq.*"), None, Some(RetentionTime::Never), None, Some(days(90))),
            (Some("local.*"), None, None, None, None),
            (Some("comp.*"), Some(true), Some(days(30)), Some(days(2)), Some(days(365))),
            (None, None, Some(days(10)), Some(days(1)), Some(RetentionTime::Never)),
        ]
    );
    let leaves_all: Vec<bool> = config.expire.iter().map(|rule| rule.from_all_groups).collect();
    assert_eq!(leaves_all, [true, false, false, false], "flag X");
}

#[test]
fn peers_and_feeds_meet() {
    let (new, config) = converted(&site());
    let peer = |name: &str| config.peers.iter().find(|peer| peer.name == name).unwrap();
    let up = peer("up.example");
    assert_eq!(
        up.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["198.51.100.7", "2001:db8::7"]
    );
    assert_eq!(
        (up.accept.as_str(), up.user.as_deref(), up.max_connections),
        ("*,!local.*,!warez.*", Some("up.example"), 8)
    );
    let send = up.send.as_ref().unwrap();
    assert_eq!(send.to, ["news.up.example:433"]);
    assert_eq!(send.groups.as_str(), "*,!alt.warez");
    assert_eq!(send.groups_never.as_str(), "alt.warez");
    assert_eq!((send.size_max, send.crossposts_max, send.connections), (Some(100_000), Some(20), 5));
    assert_eq!(send.hash.map(|hash| hash.to_string()).as_deref(), Some("1/2:4"));
    assert_eq!(send.path_never, ["news.up.example"]);
    let leaf = peer("leaf");
    assert_eq!((leaf.max_connections, leaf.streaming), (1, false));
    let send = leaf.send.as_ref().unwrap();
    assert_eq!(
        (send.to.as_slice(), send.link().user.as_deref()),
        (&["leaf.example.net:119".to_owned()][..], Some("us"))
    );
    assert_eq!(new.secrets["passwords/leaf.example.net.password"], "pass word\n");
    assert_eq!(new.secrets["passwords/up.example.incoming"], "secret\n");
    let archive = peer("archive").send.as_ref().unwrap();
    assert_eq!(archive.file.as_deref(), Some(Path::new("/var/spool/archive.list")));
    assert_eq!(peer("watcher").send.as_ref().unwrap().program.as_ref().unwrap()[..2], ["/bin/sh", "-c"]);
    let names: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
    assert_eq!(names, ["ME", "up.example", "leaf", "archive", "watcher"]);
    let text = &new.text;
    for part in [
        "# Not carried over, since there is no address to know the peer by:\n# [[peer]]\n# name = \"gone\"",
        "newsfeeds 3-4: flag C9: has no equivalent",
        "flag W: its item g has no equivalent",
        "no_check_high = 98",
        "innfeed.conf 8: `no-check-low` is not a percentage",
        "innfeed.conf 10: newsfeeds feeds no site `stranger` by innfeed",
        "passwd.nntp 2: ",
        "`controlchan!` is not needed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn readers_become_one_list_and_the_first_match_decides() {
    let (new, config) = converted(&site());
    let sections: Vec<_> = config
        .access
        .iter()
        .map(|access| {
            let from: Vec<String> = access.from.iter().map(ToString::to_string).collect();
            let users = access.users.as_ref().map(|users| users.as_str().to_owned());
            (from.join(" "), users, access.read.as_str().to_owned(), access.post.as_str().to_owned())
        })
        .collect();
    let text = |text: &str| text.to_owned();
    let all = text("0.0.0.0/0 ::/0");
    assert_eq!(
        sections,
        [
            (all.clone(), Some(text("joe,jane")), text("*"), text("*")),
            (all, Some(text("*")), text("*,!local.admin.*"), text("*,!local.admin.*")),
            (text("127.0.0.1 ::1"), None, text("*"), text("*")),
            (text("10.1.2.3"), None, text(""), text("")),
            (text("10.1.0.0/16"), None, text("*"), text("")),
        ],
        "{}",
        new.text
    );
    assert_eq!(config.access[0].approve.as_str(), "*");
    assert_eq!(
        config.access.iter().map(|access| access.newnews).collect::<Vec<_>>(),
        [true, false, false, true, false]
    );
    assert_eq!(config.access[4].bytes_per_sec_max, Some(10_000));
    assert_eq!(
        config.authenticators[0].program,
        ["/usr/lib/news/bin/auth/passwd/ckpasswd", "-f", "/etc/news/users"]
    );
    assert!(new.text.contains("access nobody: no client of any auth group comes to it"), "{}", new.text);
}

#[test]
fn every_line_is_named_in_the_output() {
    let old = site();
    let (new, _) = converted(&old);
    for (file, text) in SITE {
        let named = named(&new.text, file);
        let blank = |line: &str| line.trim_matches(['}', ' ', '{']).is_empty() || line.starts_with('#');
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !blank(line)) {
            let is_quiet = [
                // Defaults, ours included, and lines that only open a block.
                "group slow {",
                "peer ",
                "streaming: true",
                "  default",
                "xbatch",
                "    class:",
                " class:",
                "  auth:",
                "    options:",
                "$CONTROL",
                "access ",
                "auth ",
                "method ",
                "  users:",
                " users:",
                " newsgroups: *",
                "    newsgroups: *",
                "  hosts:",
                "  ]",
                "]",
                "  Keywords",
                "allownewnews",
                "groupbaseexpiry",
                "  newsgroups:",
                "  access:",
                "hold-time",
                "  password:",
                "  res:",
                "port-number: 433",
                "pgpverify",
            ];
            let told =
                named.contains(&(at as u32 + 1)) || is_quiet.iter().any(|quiet| line.starts_with(quiet));
            assert!(told, "{file} {}: {line}\n{}", at + 1, new.text);
        }
    }
    assert!(!new.text.contains("not understood"), "{}", new.text);
}

/// A site of C News.
pub(super) const CNEWS: &[(&str, &str)] = &[
    ("whoami", "sirius\n"),
    ("mailname", "sirius.example.org\n"),
    ("organization", "Example Society\n"),
    (
        "explist",
        "/expired/ x 14 -\n/bounds/ x 0-1-90 -\nlocal.announce x never -\nlocal x 30 -\nsci,alt u 4 -\n\
         comp.binaries x 7-7 /archive\ncomp x 9 =/old/comp\nbiz m 9 @\nbad line\nall x 7 -\n",
    ),
    (
        "sys",
        "# c\nME:comp,local/all::\ngladstone:comp.protocols,!comp.protocols.x/all:f:\n\
         donald/donald.duck:comp,to.donald/all,!ut:Lfm:\nzaphod:all:n:/var/news/out.nntp/zaphod\n\
         huey:news.config/all::uux - -r -gd huey!rnews\ndaisy:soc.women/all::mail daisy@duck\n\
         louie:to.louie/all:I:\n",
    ),
    (
        "batchparms",
        "/default/ u 500000 20 batcher | compcun | viauux\ndonald u! 100000-300000 - batcher | gzip -9 | viamail\n",
    ),
    (
        "mailpaths",
        "internet %s@example.org\nbackbone %s@moderators.example\nlocal.announce ann@example.org\n",
    ),
    ("controlperm", "local any nr yv\ncomp tale@example.net n y\nall any nr nq\n"),
];

#[test]
fn a_site_of_c_news_becomes_a_configuration() {
    let files = CNEWS.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    let mut new =
        from_cnews(&OldConfiguration { dir: "/etc/news".into(), files, ..OldConfiguration::default() });
    new.text = new.text.replace("\n#   ", " ");
    assert_eq!(new.refused, None, "{}", new.text);
    let config = config::parse(&new.text, Path::new("newsreel.toml")).unwrap();
    assert_eq!((config.site.path_identity.as_str(), config.site.remember_days), ("sirius", 14));
    let days = |n: u64| Some(RetentionTime::For(std::time::Duration::from_secs(n * 86_400)));
    let rules: Vec<_> = config
        .expire
        .iter()
        .map(|rule| {
            (rule.groups.as_ref().map(config::NamePattern::as_str), rule.moderated, rule.keep, rule.keep_max)
        })
        .collect();
    let never = Some(RetentionTime::Never);
    assert_eq!(
        rules,
        [
            (Some("local.announce,local.announce.*"), None, never, never),
            (Some("local,local.*"), None, days(30), days(90)),
            (Some("sci,sci.*,alt,alt.*"), Some(false), days(4), days(90)),
            (Some("comp.binaries,comp.binaries.*"), None, days(7), days(7)),
            (Some("comp,comp.*"), None, days(9), days(90)),
            (Some("biz,biz.*"), Some(true), days(9), days(90)),
            (None, None, days(7), days(90)),
        ],
        "{}",
        new.text
    );
    let archives: Vec<_> =
        config.archives.iter().map(|archive| (archive.groups.as_str(), archive.path.to_str())).collect();
    let comp =
        "comp,comp.*,!comp.binaries,!comp.binaries.*,!local,!local.*,!local.announce,!local.announce.*";
    let binaries = "comp.binaries,comp.binaries.*,!local,!local.*,!local.announce,!local.announce.*";
    assert_eq!(archives, [(binaries, Some("/archive")), (comp, Some("/old/comp"))], "{}", new.text);
    let send =
        |name: &str| config.peers.iter().find(|peer| peer.name == name).unwrap().send.as_ref().unwrap();
    let gladstone = send("gladstone");
    assert_eq!(
        gladstone.groups.as_str(),
        "comp.protocols,comp.protocols.*,!comp.protocols.x,!comp.protocols.x.*"
    );
    assert_eq!((gladstone.batch_bytes, gladstone.hops_max), (500_000, None));
    assert_eq!(gladstone.after_batch.as_ref().unwrap()[4], "gladstone!rnews");
    let donald = send("donald");
    assert_eq!(
        (donald.distributions.as_str(), donald.hops_max, donald.batch_bytes),
        ("*,!ut", Some(0), 100_000)
    );
    assert_eq!(donald.path_never, ["donald.duck"]);
    assert_eq!(send("zaphod").file.as_deref(), Some(Path::new("/var/news/out.nntp/zaphod")));
    assert!(send("louie").ihave && send("huey").after_batch.is_some());
    assert!(config.peers.iter().all(|peer| peer.name != "daisy"), "{}", new.text);
    let controls: Vec<_> = config.controls.iter().map(|control| control.action).collect();
    assert_eq!(controls, [config::ControlAction::Do, config::ControlAction::Do, config::ControlAction::Log]);
    assert_eq!(config.moderation.default_address.as_deref(), Some("%s@moderators.example"));
    for part in [
        "explist 9: `bad line`: not four fields",
        "local,local.*\"  # sys 2",
        "batchparms 2: `viamail` of the pipeline",
    ] {
        assert!(new.text.contains(part), "{part}: {}", new.text);
    }
    // Damage affects only the damaged part.
    for (name, text) in CNEWS {
        for at in (0..text.len()).step_by(3) {
            let mut files: std::collections::BTreeMap<_, _> =
                CNEWS.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
            files.insert(name, text[..at].to_owned() + "!:\"" + &text[at..]);
            let new = from_cnews(&OldConfiguration { files, ..OldConfiguration::default() });
            assert_eq!(new.refused, None, "{name} {at}: {}", new.text);
        }
    }
}

#[test]
fn an_empty_site_becomes_a_configuration() {
    let (new, config) = converted(&OldConfiguration::default());
    assert_eq!(config.classes[0].name, "articles", "{}", new.text);
    assert!(config.access.is_empty() && config.peers.is_empty());
    assert_eq!(config.site.listen, ["0.0.0.0:119", "[::]:119"]);
}

/// Files are cut, doubled, and overwritten with special characters.
#[test]
fn damage_to_files_of_inn_never_causes_a_panic() {
    const SPECIAL: &[&str] = &[
        "{",
        "}",
        "\"",
        ":",
        "#",
        "\\\n",
        "\n",
        "@",
        "!",
        "*",
        ",",
        "/",
        "$",
        "never",
        "-1",
        "99999999999999999999",
        "0",
        "[",
        "]",
        "\u{0}",
        "\u{1b}[31m",
        "\u{fc}",
        "peer x {",
        "group g {",
        "auth a {",
        "|",
        "%s",
        "..",
        " ",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for round in 0..200 {
        let mut old = site();
        for _ in 0..=round % 6 {
            let name = SITE[next(SITE.len())].0;
            let text = old.files.get_mut(name).unwrap();
            let mut at = next(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            match next(4) {
                0 => text.truncate(at),
                1 => text.insert_str(at, SPECIAL[next(SPECIAL.len())]),
                2 => {
                    let tail = text.split_off(at);
                    *text = tail + text;
                }
                _ => drop(text.drain(at..).next()),
            }
        }
        let new = from_inn(&old, &resolve);
        assert_eq!(new.refused, None, "{:?}\n{}", old.files, new.text);
    }
}

/// Returns an INN with these files.
fn inn(files: &[(&'static str, &str)]) -> OldConfiguration {
    let files = files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    OldConfiguration { dir: "/etc/news".into(), files, ..OldConfiguration::default() }
}

#[test]
fn groups_of_readers_conf_in_one_line_gain_no_rights() {
    let readers = "auth all { hosts: * default: <ALL> }\r\n\
                   access all { users: <ALL> newsgroups: *,!private.* access: RP max_rate: 10000 }\r\n";
    let (new, config) = converted(&inn(&[("inn.conf", "pathhost: a.example\n"), ("readers.conf", readers)]));
    let [access] = config.access.as_slice() else { panic!("{}", new.text) };
    assert_eq!((access.read.as_str(), access.post.as_str()), ("*,!private.*", "*,!private.*"));
    assert_eq!(
        (access.approve.as_str(), access.newnews, access.bytes_per_sec_max),
        ("", false, Some(10_000))
    );
}

#[test]
fn unclear_parts_of_readers_conf_give_no_rights() {
    let all = "auth all {\n hosts: *\n default: <ALL>\n}\n";
    for (auth, access, why) in [
        (all, "access a {\n users: <ALL>\n newsgroups: *, !private.*\n}\n", "not been understood whole"),
        (all, "access a {\n users: <ALL>\n newsgroups: *\n}\ninclude more.conf\n", "includes files"),
        (
            "auth all {\n hosts: \"*, !*.bad.example\"\n default: <ALL>\n}\n",
            "access a {\n users: <ALL>\n newsgroups: *\n}\n",
            "cannot be said as an address",
        ),
        (
            "auth all {\n hosts: *\n default: <ALL>\n perl_access: \"x.pl\"\n}\n",
            "access a {\n users: <ALL>\n newsgroups: *\n}\n",
            "decided about these clients",
        ),
        // INN gives lower-case letters no meaning.
        (all, "access a {\n users: <ALL>\n newsgroups: *\n access: rpa\n}\n", ""),
    ] {
        let readers = [auth, access].concat();
        let (new, config) =
            converted(&inn(&[("inn.conf", "pathhost: a.example\n"), ("readers.conf", readers.as_str())]));
        assert!(!config.access.is_empty() && new.text.contains(why), "{}", new.text);
        for access in &config.access {
            let rights = [&access.read, &access.post, &access.approve].map(|groups| groups.as_str());
            assert_eq!(rights, ["", "", ""], "{}", new.text);
        }
    }
}

#[test]
fn access_groups_of_auth_groups_that_are_not_converted_are_named() {
    let access = "access members {\n users: <ALL>\n read: members.*\n post: members.talk\n}\n";
    for hosts in ["\"*, !nowhere.invalid\"", "nowhere.invalid", "\"192.0.2.0/24, !nowhere.invalid\""] {
        for auth in ["default: <ALL>", "auth: ckpasswd", "auth: ckpasswd\n default: <ALL>"] {
            let readers = format!("auth site {{\n hosts: {hosts}\n {auth}\n}}\n{access}");
            let (new, _) =
                converted(&inn(&[("inn.conf", "pathhost: a.example\n"), ("readers.conf", readers.as_str())]));
            assert!(new.text.contains("access members"), "{hosts} {auth}: {}", new.text);
            // What no client comes to is named as a whole.
            let is_by_line = hosts.contains('!') && auth.contains("default");
            for pattern in ["members.*", "members.talk"].into_iter().filter(|_| is_by_line) {
                assert!(new.text.contains(pattern), "{hosts} {auth} {pattern}: {}", new.text);
            }
        }
    }
}

#[test]
fn groups_of_readers_conf_inherit_from_the_blocks_around_them() {
    let readers = "group g {\n default: <G>\n access: R\n auth a {\n hosts: 192.0.2.0/24\n }\n\
                   access a {\n users: <G>\n newsgroups: g.*\n }\n}\n";
    let (new, config) = converted(&inn(&[("inn.conf", "pathhost: a.example\n"), ("readers.conf", readers)]));
    let [access] = config.access.as_slice() else { panic!("{}", new.text) };
    assert_eq!((access.read.as_str(), access.post.as_str()), ("g.*", ""));
}

#[test]
fn groups_that_a_login_would_show_are_answered_by_asking_for_one() {
    let readers = "auth all {\n auth: ckpasswd\n default: <ALL>\n}\naccess users {\n users: *\n newsgroups: *\n}\n\
                   access others {\n users: <ALL>\n newsgroups: *,!private.*\n}\n";
    let (new, config) = converted(&inn(&[("inn.conf", "pathhost: a.example\n"), ("readers.conf", readers)]));
    let asks: Vec<bool> = config.access.iter().map(|access| access.login_for_hidden).collect();
    assert_eq!(asks, [false, true], "{}", new.text);
}

#[test]
fn a_trial_has_a_name_of_its_own_and_sends_nothing() {
    let mut old = site();
    old.is_trial = true;
    let (new, config) = converted(&old);
    assert_eq!(config.site.path_identity, "trial.news.example.org");
    assert!(config.site.path_also.is_empty(), "{}", new.text);
    assert_eq!(config.site.listen, ["192.0.2.1:1119", "[::]:1119"]);
    let [inn] = config.peers.as_slice() else { panic!("{}", new.text) };
    let addresses: Vec<String> = inn.addresses.iter().map(ToString::to_string).collect();
    assert_eq!((addresses.join(" "), inn.send.is_none()), ("127.0.0.1 ::1 192.0.2.1".into(), true));
    assert!(config.controls.is_empty() && new.text.contains("while this is tried"), "{}", new.text);
    assert!(!converted(&site()).1.moderators.is_empty() && config.moderators.is_empty(), "{}", new.text);
    assert_eq!(config.access, converted(&site()).1.access);
}

#[test]
fn an_expires_without_a_least_time_takes_articles_without_that_header() {
    let storage = "method tradspool { class: 1 newsgroups: a.* expires: 0d,30d }\nmethod timehash {\n class: 2\n \
                   newsgroups: *\n}\n";
    let (new, config) = converted(&inn(&[("inn.conf", "pathhost: a.example\n"), ("storage.conf", storage)]));
    let day = std::time::Duration::from_secs(86_400);
    let rules: Vec<_> = config
        .rules
        .iter()
        .map(|rule| {
            let groups = rule.groups.as_ref().map(config::NamePattern::as_str);
            (rule.class.as_str(), groups, rule.expires_within, rule.expires_absent)
        })
        .collect();
    assert_eq!(
        rules,
        [
            ("tradspool-1", Some("a.*"), Some(30 * day), None),
            ("tradspool-1", Some("a.*"), None, Some(true)),
            ("timehash-2", None, None, None),
        ],
        "{}",
        new.text
    );
}

#[test]
fn peers_that_share_an_address_stay_apart() {
    let (new, config) = converted(&inn(&[
        ("inn.conf", "pathhost: a.example\n"),
        ("incoming.conf", "peer relay {\n hostname: 192.0.2.7\n}\n"),
        (
            "newsfeeds",
            "ME:*::\ninnfeed!:!*:Tc,Wnm*:/usr/lib/news/bin/innfeed\none:a.*:Tm:innfeed!\ntwo:b.*:Tm:innfeed!\n",
        ),
        (
            "innfeed.conf",
            "peer one { ip-name: 192.0.2.7 port-number: 433 }\npeer two { ip-name: 192.0.2.7 }\n",
        ),
    ]));
    let peers: Vec<_> = config
        .peers
        .iter()
        .map(|peer| (peer.name.as_str(), peer.send.as_ref().map(|send| send.to.concat())))
        .collect();
    assert_eq!(
        peers,
        [("relay", None), ("one", Some("192.0.2.7:433".into())), ("two", Some("192.0.2.7:119".into()))],
        "{}",
        new.text
    );
}

#[test]
fn the_line_me_and_older_columns_of_batchparms_are_converted() {
    let files = [
        ("whoami", "sirius\n"),
        ("sys", "ME:comp,!comp.binaries/world,all,!local::\nhuey:comp/all:f:\n"),
        ("batchparms", "/default/ 100000 20 batcher compcun viauux\n"),
    ];
    let new = from_cnews(&inn(&files));
    let config =
        config::parse(&new.text, Path::new("x")).unwrap_or_else(|error| panic!("{}", error.report(false)));
    assert_eq!(config.batches.accept.as_str(), "comp,comp.*,!comp.binaries,!comp.binaries.*");
    assert_eq!(config.site.distributions.as_str(), "world,*,!local");
    let send = config.peers[0].send.as_ref().unwrap();
    assert_eq!(send.batch_bytes, 100_000, "{}", new.text);
    assert!(
        new.text.contains("batch_compress = \"compress\"") && new.text.contains("huey!rnews"),
        "{}",
        new.text
    );
}
