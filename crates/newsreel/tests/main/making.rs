//! Creation of sites: atomic, repeatable, and found by later commands.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::clients::{installed, skipped};

/// Runs `newsreel` with a working directory.
fn newsreel(cwd: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).current_dir(cwd).env_remove("NEWSREEL_CONFIG").output().unwrap()
}

fn init(dir: &Path, options: &[&str]) -> Output {
    newsreel(Path::new("/"), &[&["init", "--dir", dir.to_str().unwrap()], options].concat())
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn succeeds(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    told(&output)
}

/// Returns the files of a directory that determine a site, with their contents.
fn texts(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = ["newsreel.toml", "posting-secret", "secret", "self-signed.crt", "lists/motd"];
    names.into_iter().filter_map(|name| Some((name.to_owned(), fs::read(dir.join(name)).ok()?))).collect()
}

#[test]
fn init_with_too_large_buffers_leaves_nothing() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("site");
    let output = init(&dir, &["--buffer", "900 TiB"]);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1800 TiB") || text.contains("1.76 PiB"), "{text}");
    assert!(text.contains(" needed (buffer \"text0\" 900 TiB") && text.contains(" free on "), "{text}");
    assert!(!dir.exists());
    succeeds(init(&dir, &["--buffer", "1 MiB"]));
}

/// Uses a disk of 160 MB, mounted for this command alone.
#[test]
fn failed_init_leaves_nothing_on_a_small_disk() {
    if !installed(&[("unshare", "util-linux"), ("mount", "mount")]) {
        return;
    }
    let home = TempDir::new().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=160m tmpfs {dir} && cd {dir} || exit 77\n\
         {newsreel} init --dir site --buffer '100 MiB' && exit 1\n\
         ls -A; {newsreel} init --dir site --buffer '1 MiB' && {newsreel} status --dir site",
        dir = home.path().display(),
        newsreel = env!("CARGO_BIN_EXE_newsreel"),
    );
    let output = Command::new("unshare").args(["-Urm", "sh", "-c", &script]).output().unwrap();
    if output.status.code() == Some(77) {
        skipped(&format!("(no file system can be mounted: {})", told(&output).trim()), false);
        return;
    }
    let text = succeeds(output);
    assert!(text.contains("the disk is too small: 304 MiB needed"), "{text}");
    assert!(text.contains("but 160 MiB free"), "{text}");
    assert!(text.starts_with("created site/newsreel.toml"), "something was left behind: {text}");
}

#[test]
fn failed_init_is_undone_and_can_be_repeated() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("site");
    fs::create_dir(&dir).unwrap();
    // A file is in the way of the lists, which is not known beforehand.
    fs::write(dir.join("lists"), "precious").unwrap();
    let output = init(&dir, &["--buffer", "1 MiB", "--tls-listen", "127.0.0.1:0"]);
    assert!(!output.status.success());
    assert!(told(&output).contains("lists"), "{output:?}");
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lists"]);
    assert_eq!(fs::read_to_string(dir.join("lists")).unwrap(), "precious");
    fs::remove_file(dir.join("lists")).unwrap();
    succeeds(init(&dir, &["--buffer", "1 MiB", "--tls-listen", "127.0.0.1:0"]));
}

#[test]
fn repeated_init_changes_nothing() {
    let home = TempDir::new().unwrap();
    let dir = home.path();
    let options = ["--buffer", "1 MiB", "--tls-listen", "127.0.0.1:0"];
    succeeds(init(dir, &options));
    let before = texts(dir);
    assert_eq!(before.len(), 5, "{:?}", before.keys());
    let text = succeeds(init(dir, &options));
    assert!(text.contains("is there already and stays as it is"), "{text}");
    assert!(!text.contains("not applied"), "{text}");
    assert!(texts(dir) == before);
    // A group removed by the operator does not come back by itself.
    succeeds(newsreel(dir, &["group", "remove", "local.test"]));
    // Options that differ from the existing site are reported.
    let text =
        succeeds(init(dir, &["--listen", "127.0.0.1:9", "--buffer", "2 MiB", "--reader", "192.0.2.1"]));
    for option in ["--listen 127.0.0.1:9: ", "--buffer 2 MiB, 2 MiB: ", "--reader 192.0.2.1: "] {
        assert!(text.contains(&format!("not applied: {option}")), "{option}: {text}");
    }
    assert!(texts(dir) == before);
    assert!(!succeeds(newsreel(dir, &["group", "list"])).contains("local.test"));
}

#[test]
fn incomplete_site_is_completed() {
    let home = TempDir::new().unwrap();
    let dir = home.path();
    succeeds(init(dir, &["--buffer", "1 MiB", "--tls-listen", "127.0.0.1:0"]));
    let configuration = fs::read(dir.join("newsreel.toml")).unwrap();
    // The configuration, which is written last, is missing.
    fs::remove_file(dir.join("newsreel.toml")).unwrap();
    fs::remove_file(dir.join("posting-secret")).unwrap();
    succeeds(init(dir, &["--buffer", "1 MiB", "--tls-listen", "127.0.0.1:0"]));
    assert!(texts(dir).len() == 5 && fs::read(dir.join("newsreel.toml")).unwrap() == configuration);
    // Only a configuration exists.
    let other = home.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("newsreel.toml"), &configuration).unwrap();
    succeeds(init(&other, &[]));
    assert_eq!(texts(&other).len(), 5);
    assert!(succeeds(newsreel(&other, &["group", "list"])).contains("local.test"));
    assert!(fs::read(other.join("newsreel.toml")).unwrap() == configuration);
}

#[test]
fn commands_find_the_site_and_name_it_if_ambiguous() {
    let home = TempDir::new().unwrap();
    let text = told(&newsreel(home.path(), &["group", "list"]));
    assert!(
        text.contains("no site found in . or newsreel-data, run, /etc/newsreel, /var/lib/newsreel"),
        "{text}"
    );
    succeeds(init(&home.path().join("run"), &["--buffer", "1 MiB"]));
    let text = succeeds(newsreel(home.path(), &["group", "list"]));
    assert!(text.contains("local.general") && !text.contains("choose"), "{text}");
    succeeds(init(&home.path().join("newsreel-data"), &["--buffer", "1 MiB"]));
    let text = succeeds(newsreel(home.path(), &["group", "list"]));
    let hint = "using newsreel-data/newsreel.toml, though there is also run/newsreel.toml; choose with --dir \
        or --config";
    assert!(text.contains(hint), "{text}");
}

#[test]
fn name_without_domain_causes_a_warning() {
    let home = TempDir::new().unwrap();
    let advice = "the path identity `news` has no domain";
    let dir = home.path().join("short");
    assert!(succeeds(init(&dir, &["--buffer", "1 MiB", "--path-identity", "news"])).contains(advice));
    assert!(told(&newsreel(&dir, &["check"])).contains(advice));
    let dir = home.path().join("long");
    let text = succeeds(init(&dir, &["--buffer", "1 MiB", "--path-identity", "news.example.org"]));
    assert!(!text.contains("domain"), "{text}");
    assert!(!told(&newsreel(&dir, &["check"])).contains("domain"));
}

/// Serves a site with `up` until its addresses are shown; returns its output.
fn up(dir: &Path, options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.arg("up").arg("--dir").arg(dir).args(options).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut said = String::new();
    let read = BufReader::new(server.stdout.take().unwrap()).read_line(&mut said);
    server.kill().unwrap();
    server.wait().unwrap();
    read.unwrap();
    said
}

#[test]
fn up_listens_as_configured_and_saves_it() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("site");
    let said = up(&dir, &["--listen", "127.0.0.2:0"]);
    assert!(said.contains(" on 127.0.0.2:"), "{said}");
    let file = dir.join("newsreel.toml");
    let made = fs::read_to_string(&file).unwrap();
    assert!(made.contains("\nlisten = [\"127.0.0.2:0\"]\ntls_listen = [\"127.0.0.1:0\"]\n"), "{made}");
    assert!(made.contains("\n[web]\nlisten = [\"127.0.0.1:0\"]\n"), "{made}");
    // On an existing site only the address is changed.
    let said = up(&dir, &["--listen", "127.0.0.3:0"]);
    assert!(said.contains(" on 127.0.0.3:"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), made.replace("127.0.0.2:0", "127.0.0.3:0"));
    assert!(up(&dir, &[]).contains(" on 127.0.0.3:"));
}

/// Nothing is made or changed for an address that cannot be had.
#[test]
fn up_on_a_port_that_is_taken_leaves_nothing() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("site");
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = socket.local_addr().unwrap().to_string();
    let site = dir.to_str().unwrap();
    for option in ["--listen", "--tls-listen", "--web-listen"] {
        for command in [&["up"][..], &["cache", "up", "--upstream", "news.example.org"]] {
            let free = if option == "--listen" { "--web-listen" } else { "--listen" };
            let options = ["--dir", site, option, &taken, free, "127.0.0.1:0"];
            let output = newsreel(home.path(), &[command, &options].concat());
            let text = told(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains(&format!("cannot listen on {taken}: ")), "{text}");
            assert!(text.contains(&format!("another address can be set with {option}")), "{text}");
            assert!(!dir.exists(), "{text}");
        }
    }
    succeeds(init(&dir, &["--buffer", "1 MiB", "--listen", "127.0.0.1:0"]));
    let before = texts(&dir);
    let output = newsreel(home.path(), &["up", "--dir", site, "--listen", &taken]);
    assert!(!output.status.success() && texts(&dir) == before, "{}", told(&output));
}

/// Of a group that does not exist nothing else is said.
#[test]
fn a_group_that_is_not_there_is_not_changed() {
    let home = TempDir::new().unwrap();
    succeeds(init(home.path(), &["--buffer", "1 MiB", "--listen", "127.0.0.1:0"]));
    let output = newsreel(home.path(), &["group", "set", "no.such", "--flag", "m"]);
    assert_eq!((output.status.code(), &*told(&output)), (Some(1), "newsreel: no.such: no such group\n"));
    assert!(
        told(&newsreel(home.path(), &["group", "set", "local.test", "--flag", "m"])).contains("moderator")
    );
}

#[test]
fn new_site_has_lists_for_newsreaders() {
    let home = TempDir::new().unwrap();
    succeeds(init(home.path(), &["--buffer", "1 MiB", "--listen", "127.0.0.1:0"]));
    let (server, address) = crate::buffers::Served::start(home.path());
    let mut client = crate::client::Client::greeted(address);
    assert!(client.ask("LIST SUBSCRIPTIONS").starts_with("215 "));
    let groups = client.block();
    assert!(groups.contains(&"local.general".to_owned()) && groups.contains(&"local.test".to_owned()));
    assert!(!groups.contains(&"junk".to_owned()), "{groups:?}");
    assert!(client.ask("LIST MOTD").starts_with("215 "));
    assert!(client.block()[0].starts_with("Welcome to "));
    server.stop();
}

#[test]
fn simultaneous_inits_do_not_spoil_a_site() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("site");
    // One of them fails: its buffers are larger than any disk.
    let options = |size: &'static str| ["init", "--buffer", size, "--dir"];
    for sizes in [["1 MiB", "1 MiB", "1 MiB"], ["900 TiB", "1 MiB", "900 TiB"]] {
        let start = |size| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
            command
                .args(options(size))
                .arg(&dir)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let outputs = sizes.map(start).map(|child| child.wait_with_output().unwrap());
        for (size, output) in sizes.iter().zip(outputs) {
            assert!(output.status.success() || *size != "1 MiB", "{output:?}");
        }
        assert!(succeeds(newsreel(&dir, &["group", "list"])).contains("local.test"));
        assert!(told(&newsreel(&dir, &["check"])).contains("newsreel.toml: no errors"));
        fs::remove_dir_all(&dir).unwrap();
    }
}

/// The disk of the spool is not mounted: nothing may be created in its mount point.
#[test]
fn only_init_creates_a_missing_spool() {
    let home = TempDir::new().unwrap();
    let dir = home.path();
    succeeds(init(dir, &["--buffer", "1 MiB", "--listen", "127.0.0.1:0"]));
    let file = dir.join("newsreel.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("[site]\n", "[site]\ndata = \"disk\"\n", 1)).unwrap();
    fs::create_dir(dir.join("disk")).unwrap();
    let is_empty = || fs::read_dir(dir.join("disk")).unwrap().next().is_none();
    let expected =
        format!("there is no spool in {}/disk: mount its disk; or, if the site is new, make", dir.display());
    let batch = dir.join("batch");
    fs::write(&batch, "").unwrap();
    for command in [
        &["serve"][..],
        &["up"],
        &["status"],
        &["group", "add", "misc.test"],
        &["verify"],
        &["check"],
        &["rnews", batch.to_str().unwrap()],
    ] {
        let output = newsreel(dir, &[command, &["--dir", dir.to_str().unwrap()]].concat());
        let text = told(&output);
        assert!(!output.status.success() && text.contains(&expected), "{command:?}: {text}");
        assert!(text.contains(&format!("newsreel init --dir {}`", dir.display())), "{command:?}: {text}");
        assert!(is_empty(), "{command:?} made something");
    }
    // As the message advises.
    succeeds(init(dir, &[]));
    assert!(!is_empty());
    assert!(succeeds(newsreel(dir, &["group", "list"])).contains("local.test"));
    assert!(told(&newsreel(dir, &["check"])).contains("no errors"));
    let (server, _) = crate::buffers::Served::start(dir);
    server.stop();
    // The remains of a spool count as one.
    fs::remove_dir_all(dir.join("disk/index")).unwrap();
    fs::remove_dir_all(dir.join("disk/journal")).unwrap();
    assert!(succeeds(newsreel(dir, &["group", "list"])).contains("local.test"));
}
