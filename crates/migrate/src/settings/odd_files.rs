//! Odd and damaged files of other servers: each leads to a configuration that is taken, and no line of them
//! is dropped silently.

use super::tests::{CNEWS, SITE, named, resolve};
use super::*;

/// Files of Diablo, with all keys that are carried over.
const DIABLO: &[(&str, &str)] = &[
    (
        "dnewsfeeds",
        "# feeds\nlabel GLOBAL\n maxsize 5\nend\ngroupdef text\n addgroup *\n delgroup *.binaries.*\nend\n\
         label peer1\n alias news.peer1.example\n inhost 192.0.2.7\n groupref text\n delgroupany local.*\n\
         maxsize 100000\n maxcross 10\n hashfeed 1-3/10\n arttypes !binary\n maxparallel 3\n headfeed\n\
         deldist local\n startdelay 5\n noclue 3\nend\n",
    ),
    ("dnntpspool.ctl", "peer1 feed.peer1.example t60\n"),
];

/// Files of leafnode.
const LEAFNODE: &[(&str, &str)] = &[
    (
        "config",
        "# servers\nhostname = news.example.org\nexpire = 20\ngroupexpire comp.* = 5\nmaxbytes = 100000\n\
         server = news.isp.example\nport = 8119\nusername = us\npassword = hush\ninitialfetch = 100\n\
         nodesc = 1\nserver = other.example\ntimeout = 30\nnosuchkey = 1\n",
    ),
    ("local.groups", "local.test\ty\tOurs\nlocal.talk\ty\tOurs too\n"),
];

type Files = std::collections::BTreeMap<&'static str, String>;

/// Returns variants of a file as edited by hand or damaged.
fn odd(text: &str) -> Vec<String> {
    let twice = text.lines().map(|line| format!("{line}\n{line}\n")).collect();
    let first_words =
        text.lines().map(|line| line.split([' ', '=']).next().unwrap_or_default().to_owned() + "\n");
    let mut all = vec![
        text.replace('\n', "\r\n"),
        text.replace(' ', "\t"),
        text.replace('\n', "\n# a comment\n\n   \n"),
        text.replace('\n', " # a comment\n"),
        text.replace('e', "\u{fffd}"),
        text.to_uppercase(),
        twice,
        first_words.collect(),
        format!("{text}{text}"),
        format!("{text}no such key\nnosuchkey = 3\n= 5\n:::::\n"),
    ];
    all.extend((0..text.len()).map(|at| text[..at].to_owned()));
    all
}

/// Neither panics nor is refused, whatever the files say; returns the result, its comments in one line each.
fn taken(server: &str, files: &Files) -> String {
    let old =
        OldConfiguration { dir: "/etc/news".into(), files: files.clone(), ..OldConfiguration::default() };
    let new = match server {
        "INN" => from_inn(&old, &resolve),
        "C News" => from_cnews(&old),
        "leafnode" => from_leafnode(&old),
        _ => from_diablo(&old, &resolve),
    };
    assert_eq!(new.refused, None, "{server}: {files:?}\n{}", new.text);
    new.text.replace("\n#   ", " ")
}

#[test]
fn odd_files_of_any_server_become_a_configuration() {
    for (server, own) in [("INN", SITE), ("C News", CNEWS), ("leafnode", LEAFNODE), ("Diablo", DIABLO)] {
        let whole: Files = own.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        for (name, text) in own {
            let step = if server == "INN" { 61 } else { 7 };
            let (whole_lines, cut) =
                odd(text).into_iter().enumerate().partition::<Vec<_>, _>(|(at, _)| *at < 10);
            for (_, text) in whole_lines.into_iter().chain(cut.into_iter().step_by(step)) {
                taken(server, &Files::from_iter(whole.clone().into_iter().chain([(*name, text)])));
            }
        }
    }
}

#[test]
fn no_line_of_odd_files_of_diablo_and_leafnode_is_dropped_silently() {
    // Lines reported together with others, those that open and end a block, and those that need no report.
    const QUIET: [&str; 13] = [
        "addgroup", "delgroup", "deldist", "alias", "arttypes", "stream", "headfeed", "groupref", "label",
        "groupdef", "end", "server", "local.",
    ];
    for (server, own) in [("leafnode", LEAFNODE), ("Diablo", DIABLO)] {
        let whole: Files = own.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        for (name, text) in own {
            for odd in odd(text) {
                let said =
                    taken(server, &Files::from_iter(whole.clone().into_iter().chain([(*name, odd.clone())])));
                let named = named(&said, name);
                for (at, line) in odd.lines().enumerate() {
                    let is_quiet = QUIET.iter().any(|quiet| line.trim().to_lowercase().starts_with(quiet));
                    let is_blank = line.trim().is_empty() || line.trim().starts_with('#');
                    // One of several equal lines is enough.
                    let same = odd.lines().enumerate().filter(|(_, other)| other.trim() == line.trim());
                    let is_named = same.map(|(at, _)| at as u32 + 1).any(|at| named.contains(&at));
                    assert!(is_named || is_quiet || is_blank, "{name} {}: {line}\n{odd}\n{said}", at + 1);
                }
            }
        }
    }
}

#[test]
fn the_line_of_a_key_that_a_later_line_changes_is_named() {
    let feeds = "label p\n hostname a.example\n maxsize 1\n maxsize 2\nend\ngroupdef no\n addgroup a\nend\n";
    let said = taken("Diablo", &Files::from([("dnewsfeeds", feeds.to_owned())]));
    assert!(said.contains("dnewsfeeds 3: `size_max = "), "{said}");
    assert!(said.contains("no label refers to this groupdef"), "{said}");
    let config = "server = a.example\nport = 1\nport = 2\nusername = x\n";
    let said = taken("leafnode", &Files::from([("config", config.to_owned())]));
    assert!(said.contains("config 3: `port` is not carried over"), "{said}");
    assert!(said.contains("config 4: `username` without `password`"), "{said}");
}
