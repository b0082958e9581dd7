//! Modes of the files that commands make: readable by the site's owner and group, regardless of the umask.

use crate::client::article;
use crate::operated::Operated;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

/// Files for their owner alone: they contain a secret, passwords or a key, or accept commands to the server.
const PRIVATE: &[&str] = &[
    "control",
    "newsreel.tree",
    "newsreel.tree.copy",
    "posting-secret",
    "secret",
    "self-signed.key",
    "text0.cyc",
    "text1.cyc",
    "users",
    "users.lock",
];

/// Classes with a file for each article and with files of records, and two groups of users.
const CLASSES: &str = r#"
[[class]]
name = "tree"
method = "tradspool"

[[class]]
name = "files"
method = "appendonly"

[[rule]]
class = "tree"
groups = "local.test"

[[rule]]
class = "files"
groups = "local.general"

[[rule]]"#;

/// Collects the modes of everything in a directory, by path. Files that a server removes meanwhile are
/// skipped.
fn modes(dir: &Path, found: &mut BTreeMap<String, (bool, u32)>) {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        entries => entries.unwrap(),
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let meta = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            meta => meta.unwrap(),
        };
        let (kind, mode) = (meta.file_type(), meta.permissions().mode() & 0o7777);
        assert!(kind.is_dir() || kind.is_file() || kind.is_socket(), "{path:?}");
        found.insert(path.to_str().unwrap().to_owned(), (kind.is_dir(), mode));
        if kind.is_dir() {
            modes(&path, found);
        }
    }
}

fn check(umask: &'static str) {
    let site = Operated::with_umask(umask);
    site.edit(|text| {
        text.replacen("\n[[rule]]", CLASSES, 1).replacen("max_age_days = 10", "max_age_days = \"none\"", 1)
    });
    assert!(site.run_with(&["user", "add", "fred"], b"flintstone\n").status.success());
    let batch: String = (0..400)
        .map(|n| {
            let group = ["local.test", "local.general", "local.test,local.general"][n % 3];
            let text = article(&format!("<{n}@x.example>"), group, "b").replace("\r\n", "\n");
            let text = text.strip_suffix(".\n").unwrap();
            format!("#! rnews {}\n{text}", text.len())
        })
        .collect();
    assert!(site.run_with(&["rnews"], batch.as_bytes()).status.success());
    site.done(&["group", "add", "local.more"]);
    let mut found = BTreeMap::new();
    {
        let serving = site.serve();
        let mut client = serving.client();
        assert!(client.ask("POST").starts_with("340 "));
        client.send("From: a@x.example\r\nNewsgroups: local.test\r\nSubject: s\r\n\r\nb\r\n.\r\n");
        assert!(client.line().starts_with("240 "));
        site.done(&["status"]);
        modes(&site.dir(), &mut found);
    }
    site.done(&["verify"]);
    site.done(&["rebuild"]);
    modes(&site.dir(), &mut found);
    let own = fs::metadata(site.dir()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(own, 0o750, "the site's directory");
    let expected = |path: &str, is_dir: bool| match path.rsplit('/').next().unwrap() {
        _ if is_dir => 0o750,
        name if PRIVATE.contains(&name) => 0o600,
        _ => 0o640,
    };
    for (path, (is_dir, mode)) in &found {
        assert_eq!(
            format!("{mode:o}"),
            format!("{:o}", expected(path, *is_dir)),
            "{path} under umask {umask}"
        );
    }
    let has = |part: &str| found.keys().any(|path| path.contains(part));
    for part in
        ["/journal/", "/index/overview/", "/index/checkpoint", "/tree/", "/files/", "/control", "/users"]
    {
        assert!(has(part), "{part} in {:#?}", found.keys());
    }
}

#[test]
fn files_are_for_owner_and_group_under_a_lax_umask() {
    check("000");
}

#[test]
fn files_are_for_owner_and_group_under_a_strict_umask() {
    check("077");
}
