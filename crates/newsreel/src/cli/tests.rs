//! Tests of the command line from the outside: arguments, the files they make, and messages.

use std::path::Path;

use clap::{CommandFactory, Parser};

use super::args::{Cli, CliCommand, InitOptions};
use super::locate::SiteLocation;
use super::{check, group, init, reach};
use operators::groups::GroupListOperation;
use operators::reply::{GroupListRow, Reply};

fn options(words: &[&str]) -> InitOptions {
    let typed = ["newsreel", "init"].iter().chain(words);
    match Cli::try_parse_from(typed).unwrap().command {
        CliCommand::Init(options) => options,
        other => panic!("{other:?}"),
    }
}

fn refused(words: &[&str]) -> String {
    Cli::try_parse_from(std::iter::once(&"newsreel").chain(words)).unwrap_err().to_string()
}

fn at(dir: &Path) -> SiteLocation {
    SiteLocation { config: None, dir: Some(dir.to_owned()) }
}

fn groups_of(dir: &Path) -> Vec<GroupListRow> {
    let config = at(dir).load().unwrap();
    let mut rows = Vec::new();
    let ok = reach::ask(&config, GroupListOperation { wildmat: None }, &mut |reply| {
        if let Reply::Group(row) = reply {
            rows.push(row);
        }
    });
    assert!(ok.unwrap());
    rows
}

fn names(rows: &[GroupListRow]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn every_option_and_help_text_is_well_formed() {
    Cli::command().debug_assert();
    let mut undocumented: Vec<String> = Vec::new();
    for command in Cli::command().get_subcommands() {
        if command.get_about().is_none() {
            undocumented.push(command.get_name().to_owned());
        }
        let bare = command.get_arguments().filter(|arg| arg.get_help().is_none());
        undocumented.extend(bare.map(|arg| format!("{} {}", command.get_name(), arg.get_id())));
    }
    assert_eq!(undocumented, Vec::<String>::new());
}

/// Returns all texts of a command's help and man page, and those of the commands below it.
fn help_texts(command: &clap::Command) -> Vec<String> {
    let own = [command.get_about(), command.get_long_about()];
    let around = [
        command.get_before_help(),
        command.get_before_long_help(),
        command.get_after_help(),
        command.get_after_long_help(),
    ];
    let mut texts: Vec<String> = own.into_iter().chain(around).flatten().map(ToString::to_string).collect();
    for arg in command.get_arguments() {
        let help = [arg.get_help(), arg.get_long_help()];
        texts.extend(help.into_iter().flatten().map(ToString::to_string));
        let values = arg.get_possible_values();
        texts.extend(values.iter().filter_map(|value| value.get_help()).map(ToString::to_string));
    }
    texts.extend(command.get_subcommands().flat_map(help_texts));
    texts
}

#[test]
fn no_help_text_has_marks_of_the_source() {
    let texts = help_texts(&Cli::command());
    assert!(texts.len() > 300, "{} texts", texts.len());
    let is_marked = |text: &&String| text.contains('\\') || text.contains("[`") || text.contains("](");
    assert_eq!(texts.iter().filter(is_marked).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn new_site_is_checked_and_shown_without_errors() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("site");
    let active = home.path().join("active");
    std::fs::write(&active, "comp.lang.c 0000012345 0000000100 y\nnews.announce 7 8 m\n").unwrap();
    init::init(&options(&[
        "--dir",
        dir.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "127.0.0.2:0",
        "--groups",
        active.to_str().unwrap(),
        "--buffer",
        "1 MiB",
        "--peer",
        "192.0.2.0/24",
        "--peer",
        "127.0.0.1",
        "--reader",
        "127.0.0.1",
        "--max-age",
        "none",
        "--durability",
        "process",
        "--path-identity",
        "news.example.org",
    ]))
    .unwrap();
    check::check(&at(&dir), &check::AccessQuestion::default()).unwrap();
    check::show(None, &at(&dir)).unwrap();
    let config = at(&dir).load().unwrap();
    assert_eq!(config.site.listen, ["127.0.0.1:0", "127.0.0.2:0"]);
    assert_eq!((config.site.max_age_days, config.site.path_identity.as_str()), (None, "news.example.org"));
    assert_eq!(config.site.durability, site_config::Durability::Process);
    assert_eq!(
        config.buffers.iter().filter_map(|buffer| buffer.size).collect::<Vec<_>>(),
        [1 << 20, 1 << 20]
    );
    assert_eq!(config.peers.len(), 2);
    let addresses: Vec<_> = config.peers.iter().flat_map(|peer| &peer.addresses).collect();
    assert!(addresses.iter().any(|cidr| cidr.contains("192.0.2.9".parse().unwrap())));
    assert!(!config.access[0].from.iter().any(|cidr| cidr.contains("192.0.2.9".parse().unwrap())));
    let rows = groups_of(&dir);
    assert_eq!(names(&rows), ["comp.lang.c", "control", "control.cancel", "junk", "news.announce"]);
    assert_eq!((rows[0].high, rows[0].count, rows[4].flag.as_str()), (12_345, 0, "m"));
}

#[test]
fn init_never_overwrites_a_site() {
    let home = tempfile::tempdir().unwrap();
    let words = ["--dir", home.path().to_str().unwrap(), "--buffer", "64KiB"];
    init::init(&options(&words)).unwrap();
    let before = std::fs::read(home.path().join("newsreel.toml")).unwrap();
    // A second run, with other options, changes nothing that exists.
    init::init(&options(&words)).unwrap();
    init::init(&options(&[&words[..], &["--listen", "127.0.0.1:9"]].concat())).unwrap();
    assert_eq!(std::fs::read(home.path().join("newsreel.toml")).unwrap(), before);
    let config = at(home.path()).load().unwrap();
    assert_eq!((config.site.max_age_days, config.site.remember_days), (Some(10), 11));
    assert!(config.peers.is_empty());
    assert!(names(&groups_of(home.path())).contains(&"local.test"));
}

#[test]
fn groups_are_exported_and_imported_again() {
    let home = tempfile::tempdir().unwrap();
    init::init(&options(&["--dir", home.path().to_str().unwrap(), "--buffer", "64KiB"])).unwrap();
    let file = home.path().join("list");
    std::fs::write(&file, "misc.test y Tests\nmisc.old =misc.test\n").unwrap();
    let typed = ["newsreel", "group", "import", file.to_str().unwrap()];
    let CliCommand::Group { command, .. } = Cli::try_parse_from(typed).unwrap().command else { panic!() };
    group::run(command, &at(home.path())).unwrap();
    let rows = groups_of(home.path());
    let found = |name: &str| rows.iter().find(|row| row.name == name).map(super::groups_file::list_text);
    assert_eq!(found("misc.test").unwrap(), "misc.test y Tests");
    assert_eq!(found("misc.old").unwrap(), "misc.old =misc.test");
}

#[test]
fn faulty_groups_file_creates_no_site() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("groups");
    std::fs::write(&file, "local.test y\nbad..name y\n").unwrap();
    let dir = home.path().join("site");
    let words = ["--dir", dir.to_str().unwrap(), "--groups", file.to_str().unwrap()];
    let failure = init::init(&options(&words)).unwrap_err();
    assert_eq!(failure.code(), 2);
    assert!(failure.to_string().ends_with("line 2: `bad..name` is not a valid group name"), "{failure}");
    assert!(!dir.exists());
}

#[test]
fn invalid_arguments_are_refused_with_a_reason() {
    for (words, reason) in [
        (&["init", "--dir", "d", "--buffer", "big"][..], "`big` is not a size"),
        (&["init", "--dir", "d", "--listen", "119"], "`119` lacks a port; write HOST:PORT"),
        (&["init", "--dir", "d", "--peer", "example.org"], "`example.org` is not an IP address or a network"),
        (&["init", "--dir", "d", "--max-age", "0"], "not a number of days from 1 to 36500"),
        (&["init", "--dir", "d", "--durability", "some"], "`some` is not a durability"),
        (&["group", "set", "local.test"], "--flag"),
        (&["status", "--dir", "d", "--config", "f"], "cannot be used with"),
    ] {
        let told = refused(words);
        assert!(told.contains(reason), "{words:?}: {told}");
    }
}

#[test]
fn unknown_key_is_answered_with_a_similar_one() {
    let failure = check::explain("site.lisen").unwrap_err();
    assert_eq!(failure.to_string(), "newsreel: there is no key `site.lisen`; did you mean `site.listen`?");
    assert_eq!(failure.code(), 2);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("newsreel.toml");
    let spool = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
    std::fs::write(&file, format!("[site]\npath_identity = \"a.example\"\n{spool}")).unwrap();
    let at = SiteLocation { config: Some(file), dir: None };
    assert!(check::show(Some("max_age_days"), &at).is_ok(), "of one section alone");
    let failure = check::show(Some("listen"), &at).unwrap_err().to_string();
    assert!(failure.contains("`listen` is in several sections; one of site.listen, "), "{failure}");
}
