//! `newsreel mount`, `manage` and `unmanage`, as they are typed, and a real INN on a mount.
//!
//! Needs root and /dev/fuse; where they are missing a test says so and is skipped.

mod mounted_spool;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::{Client, article};
use crate::clients::skipped;
use crate::transcripts::inn::Inn;

fn possible() -> bool {
    match () {
        () if !rustix::process::geteuid().is_root() => skipped("needs root", false),
        () if !Path::new("/dev/fuse").exists() => skipped("needs /dev/fuse", false),
        () => true,
    }
}

fn newsreel(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_newsreel")).args(arguments).output().unwrap()
}

/// What a command that must succeed prints.
fn done(arguments: &[&str]) -> String {
    let output = newsreel(arguments);
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// A mount by the program; gone at the end.
struct Mount {
    child: Child,
    point: PathBuf,
}

impl Mount {
    fn start(lower: &Path, point: &Path) -> Self {
        let device = || fs::metadata(point).unwrap().dev();
        let before = device();
        let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
        command.arg("mount").arg(lower).arg(point).stderr(Stdio::null());
        let mount = Self { child: command.spawn().unwrap(), point: point.to_owned() };
        let began = Instant::now();
        while device() == before {
            assert!(began.elapsed() < Duration::from_secs(30), "it does not mount");
            std::thread::sleep(Duration::from_millis(10));
        }
        mount
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    fn ended(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.terminate();
            let _ended = self.child.wait();
        }
        let _gone = Command::new("umount")
            .arg("-l")
            .arg("-t")
            .arg("fuse")
            .arg(&self.point)
            .stderr(Stdio::null())
            .status();
    }
}

#[test]
fn a_tree_is_mounted_and_a_directory_managed_and_unmanaged_by_commands() {
    if !possible() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(path("lower/group")).unwrap();
    fs::create_dir(path("mnt")).unwrap();
    for n in 1..=120 {
        fs::write(path(&format!("lower/group/{n}")), "x").unwrap();
    }
    let mut mount = Mount::start(Path::new(&path("lower")), Path::new(&path("mnt")));
    let planned = done(&["manage", "--dry-run", &path("mnt/group")]);
    assert!(planned.contains("120 entries would be moved into 13 directories"), "{planned}");
    let managed = done(&["manage", &path("mnt/group")]);
    assert!(managed.contains("group is managed: "), "{managed}");
    assert!(Path::new(&path("lower/group/012/120")).exists() && Path::new(&path("mnt/group/120")).exists());
    let suggested = done(&["manage", "--suggest", &path("lower"), "--at-least", "2", "--json"]);
    assert!(suggested.contains("\"managed\": 1"), "{suggested}");
    done(&["unmanage", &path("mnt/group")]);
    assert!(Path::new(&path("lower/group/120")).exists());
    let refused = newsreel(&["manage", &path("lower/none")]);
    assert_eq!(refused.status.code(), Some(1));
    let refused = newsreel(&["mount", &path("lower"), &path("mnt"), "--scheme", "654"]);
    assert_eq!(refused.status.code(), Some(2));
    // A signal ends it, also with a file open.
    let open = fs::File::open(path("mnt/group/1")).unwrap();
    mount.terminate();
    let began = Instant::now();
    while Path::new(&path("mnt/group")).exists() {
        assert!(began.elapsed() < Duration::from_secs(10), "still mounted");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(open);
    assert!(mount.ended());
    // So does somebody who unmounts it.
    let mut again = Mount::start(Path::new(&path("lower")), Path::new(&path("mnt")));
    assert!(Command::new("umount").arg(path("mnt")).status().unwrap().success());
    assert!(again.ended());
}

/// Every file of a spool, by its path.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn inn_on_a_mount_has_the_same_spool_as_on_a_plain_directory() {
    if !possible() {
        return;
    }
    let (Some(plain), Some(mounted)) = (Inn::found(), Inn::found()) else { return };
    plain.start_empty();
    mounted.start_empty();
    let articles = mounted.site().join("spool/articles");
    let mount = Mount::start(&articles, &articles);
    let feed = |numbers: std::ops::Range<usize>| {
        for inn in [&plain, &mounted] {
            let mut client = Client::greeted(inn.peer_address());
            for n in numbers.clone() {
                let groups = if n % 5 == 0 { "misc.test,local.closed" } else { "misc.test" };
                let id = format!("<{n}@mount.example>");
                client.send(format!("TAKETHIS {id}\r\n{}", article(&id, groups, "..body")));
                assert_eq!(client.line().trim_end(), format!("239 {id}"));
            }
        }
    };
    let equal = || {
        let (theirs, ours) = (files(&plain.site().join("spool/articles")), files(&articles));
        assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
        assert!(theirs == ours, "the same names and other contents");
        theirs.len()
    };
    feed(0..50);
    assert_eq!(equal(), 60);
    // While INN runs; what it has then and later is the same.
    for group in ["misc/test", "local/closed"] {
        done(&["manage", articles.join(group).to_str().unwrap()]);
    }
    assert_eq!(equal(), 60);
    feed(50..300);
    assert_eq!(equal(), 360);
    for inn in [&plain, &mounted] {
        for n in (0..300).step_by(7) {
            inn.tool(&["ctlinnd", "-s", "cancel", &format!("<{n}@mount.example>")], b"");
        }
        inn.tool(&["ctlinnd", "-s", "renumber", ""], b"");
        let mut reader = Client::greeted(inn.reader_address());
        assert!(reader.ask("GROUP misc.test").starts_with("211 "));
        assert!(reader.ask("STAT 150").starts_with("223 "), "an article");
    }
    equal();
    done(&["unmanage", articles.join("misc/test").to_str().unwrap()]);
    equal();
    drop(mount);
    assert!(
        articles.join("misc/test/150").exists() && articles.join("local/closed/000").exists(),
        "as it is stored"
    );
}
