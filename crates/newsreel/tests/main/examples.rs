//! The pages for operators are accurate: the configurations in `docs/examples` pass `newsreel check`, and
//! `docs/from-inn.md` names only existing keys and commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn newsreel<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.env_remove("NEWSREEL_CONFIG").args(arguments).output().unwrap()
}

/// Returns the command's output, standard error included.
fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the names of the examples.
fn names() -> Vec<String> {
    let files = fs::read_dir(docs().join("examples")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".toml")).collect()
}

/// Installs the example `name` as the configuration of a new site in `dir`, with sizes, ports and paths for a
/// test, and everything else as written.
fn install(name: &str, dir: &Path) -> PathBuf {
    let site = dir.join("site");
    let init = ["init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--buffer", "64 KiB"];
    let made = newsreel(init.into_iter().chain(["--dir", site.to_str().unwrap()]));
    assert!(made.status.success(), "{}", printed(&made));
    for file in ["newsreel.toml", "text0.cyc", "text1.cyc"] {
        fs::remove_file(site.join(file)).unwrap();
    }
    for part in ["journal", "index"] {
        fs::remove_dir_all(site.join(part)).unwrap();
    }
    let mut text = fs::read_to_string(docs().join("examples").join(name)).unwrap();
    for (from, to) in [
        ("\"0.0.0.0:119\", \"[::]:119\"", "\"127.0.0.1:0\""),
        ("\"0.0.0.0:563\", \"[::]:563\"", "\"127.0.0.1:0\""),
        ("/etc/letsencrypt/live/news.example.org/fullchain.pem", "self-signed.crt"),
        ("/etc/letsencrypt/live/news.example.org/privkey.pem", "self-signed.key"),
        ("peers-ca.crt", "self-signed.crt"),
        ("\"news.crt\"", "\"self-signed.crt\""),
        ("\"news.key\"", "\"self-signed.key\""),
        ("/srv/news0/", ""),
        ("/srv/news1/", ""),
        (" GiB\"", "00 KiB\""),
    ] {
        text = text.replace(from, to);
    }
    let file = site.join("newsreel.toml");
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn every_example_passes_check() {
    let names = names();
    assert!(names.len() >= 2, "{names:?}");
    for name in names {
        let dir = TempDir::new().unwrap();
        let file = install(&name, dir.path());
        let checked = newsreel(["check", "--config", file.to_str().unwrap()]);
        let text = printed(&checked);
        assert!(checked.status.success() && text.contains("no errors"), "{name}: {text}");
    }
}

#[test]
fn every_example_is_linked() {
    let pages =
        ["examples/README.md", "config.md"].map(|page| fs::read_to_string(docs().join(page)).unwrap());
    for name in names() {
        assert!(pages[0].contains(&format!("({name})")), "{name}");
        assert!(pages[1].contains(&format!("(examples/{name})")), "{name}");
    }
}

/// The examples' comments about rights agree with `check --access`.
#[test]
fn rights_agree_with_the_examples() {
    let decides = |file: &str, who: &str, expected: &[&str]| {
        let file = docs().join("examples").join(file);
        let question = ["check", "--config", file.to_str().unwrap(), "--access"];
        let text = printed(&newsreel(question.into_iter().chain(who.split_whitespace())));
        for expected in expected {
            assert!(text.contains(expected), "{who}: {expected}: {text}");
        }
    };
    decides("private.toml", "203.0.113.9", &["reads     local.announce,local.faq\n", "posts to  nothing\n"]);
    decides("private.toml", "203.0.113.9 --user fred --tls", &["reads     *,!local.staff.*\n"]);
    decides("relay.toml", "192.0.2.77", &["reads     *,!control,!control.*,!junk\n"]);
}

/// Returns the text between backquotes in the last cell of each row of the tables.
fn our_words(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| INN |"));
    let mut words = BTreeSet::new();
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        words.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    words
}

#[test]
fn page_for_inn_operators_names_only_existing_keys_and_commands() {
    let (mut keys, mut commands) = (0, 0);
    for word in our_words(&fs::read_to_string(docs().join("from-inn.md")).unwrap()) {
        let name = word.split(" = ").next().unwrap();
        let is_key = name.starts_with('[') || name.split('.').count() == 2;
        if let Some(command) = name.strip_prefix("newsreel ") {
            let parts =
                command.split(' ').filter(|part| part.bytes().all(|b| b == b'-' || b.is_ascii_lowercase()));
            let help = newsreel(parts.chain(["--help"]));
            assert!(help.status.success(), "{word}: {}", printed(&help));
            commands += 1;
        } else if is_key && name.bytes().all(|b| b.is_ascii_lowercase() || b"._[]".contains(&b)) {
            let explained = newsreel(["explain-config", name]);
            assert!(explained.status.success(), "{word}: {}", printed(&explained));
            keys += 1;
        }
    }
    assert!(keys >= 60 && commands >= 20, "{keys} keys, {commands} commands");
}
