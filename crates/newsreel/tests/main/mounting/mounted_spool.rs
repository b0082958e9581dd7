//! `newsreel mount --spool`: the running server's articles as files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::{files, possible, unmount};
use crate::client::{Client, article};
use crate::operated::{Operated, Serving, complaints};
use crate::purging::feed;
use crate::waiting::wait_until;

/// A mount of a site's articles by the program, removed on drop.
struct SpoolMount {
    child: Child,
    point: PathBuf,
}

impl SpoolMount {
    fn start(site: &Operated, options: &[&str]) -> Self {
        Self::start_at(site, "news", options)
    }

    fn start_at(site: &Operated, name: &str, options: &[&str]) -> Self {
        let point = site.home().join(name);
        fs::create_dir_all(&point).unwrap();
        let before = fs::metadata(&point).unwrap().dev();
        let arguments = [&["mount", "--spool", point.to_str().unwrap()], options].concat();
        let mut mount = Self { child: site.command(&arguments).spawn().unwrap(), point };
        wait_until("it mounts", || {
            let ended = mount.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", mount.said());
            fs::metadata(&mount.point).unwrap().dev() != before
        });
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Returns its standard error, once it has ended.
    fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    fn is_mounted(&self) -> bool {
        fs::read_to_string("/proc/mounts").unwrap().contains(self.point.to_str().unwrap())
    }
}

impl Drop for SpoolMount {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
            let _ended = self.child.wait();
        }
        if self.is_mounted() {
            let _gone = Command::new("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status();
        }
    }
}

pub(super) fn site(groups: &[&str]) -> Operated {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    site.edit(|text| {
        text + "\n[[peer]]\nname = \"x.example\"\naddresses = [\"127.0.0.1\"]\naccept = \"*\"\n"
    });
    for group in groups {
        site.done(&["group", "add", group]);
    }
    site
}

/// Returns ARTICLE's response as a file: lines end in LF, without dot-stuffing.
fn asked(client: &mut Client, which: &str) -> Vec<u8> {
    let answer = client.ask(&format!("ARTICLE {which}"));
    assert!(answer.starts_with("220"), "{answer}");
    let lines = client.block().into_iter().map(|line| {
        let line = line.trim_end_matches(['\r', '\n']);
        line.strip_prefix('.').unwrap_or(line).to_owned() + "\n"
    });
    lines.collect::<String>().into()
}

pub(super) fn take(client: &mut Client, id: &str, groups: &str, body: &str) {
    client.send(format!("TAKETHIS {id}\r\n{}", article(id, groups, body)));
    assert_eq!(client.line().trim_end(), format!("239 {id}"));
}

#[test]
fn articles_are_files_while_visible() {
    if !possible() {
        return;
    }
    let began = SystemTime::now();
    let site = site(&["a.one", "a.one.two", "a.2600"]);
    feed(
        &site,
        &[("<1@x.example>", "a.one"), ("<2@x.example>", "a.one,a.one.two"), ("<3@x.example>", "a.2600")],
    );
    let serving = site.serve();
    let mount = SpoolMount::start(&site, &[]);
    let mut client = serving.client();
    take(&mut client, "<4/b%2F@x.example>", "a.one", "..a dot\r\n...\r\n\r\nend");
    let seen = files(&mount.point);
    let names: Vec<_> = seen.keys().map(|path| path.to_str().unwrap()).collect();
    let groups = ["a/2600./1", "a/one/1", "a/one/2", "a/one/3", "a/one/two/1"];
    assert_eq!(names, groups, "also what has just arrived; message.id lists nothing");
    for (group, number) in [("a.2600", 1), ("a.one", 1), ("a.one", 2), ("a.one", 3), ("a.one.two", 1)] {
        client.ask(&format!("GROUP {group}"));
        let path = group.replace("a.2600", "a.2600-").replace('.', "/").replace('-', ".");
        let path = format!("{path}/{number}");
        assert_eq!(seen[Path::new(&path)], asked(&mut client, &number.to_string()), "{path}");
        assert_eq!(fs::metadata(mount.path(&path)).unwrap().len(), seen[Path::new(&path)].len() as u64);
    }
    // The directory is a mail folder to mutt and MH.
    assert_eq!(fs::read(mount.path("a/one/.mh_sequences")).unwrap(), b"");
    let by_id = mount.path("message.id/4%2Fb%252F@x.example");
    assert_eq!(fs::read(&by_id).unwrap(), asked(&mut client, "<4/b%2F@x.example>"));
    // A crosspost is one file with two names.
    let of = |name: &str| fs::metadata(mount.path(name)).unwrap();
    let (first, second, alone) = (of("a/one/2"), of("a/one/two/1"), of("a/one/1"));
    assert_eq!((first.ino(), first.nlink(), second.nlink()), (second.ino(), 2, 2));
    assert_eq!((alone.nlink(), alone.mode() & 0o7777), (1, 0o444));
    assert_ne!(alone.ino(), first.ino());
    assert_eq!(of("message.id/2@x.example").ino(), first.ino());
    let arrived = first.modified().unwrap();
    // In whole seconds.
    assert!(arrived + Duration::from_secs(1) > began, "it has just arrived: {arrived:?}");
    for name in ["a/one/01", "a/one/4", "a/none", "a/2600", "message.id/none@x.example", "message.id/x"] {
        assert_eq!(fs::metadata(mount.path(name)).unwrap_err().kind(), ErrorKind::NotFound, "{name}");
    }
    let refused = fs::write(mount.path("a/one/9"), "x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    // Standard programs work on it.
    let tool = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(&mount.point).output().unwrap();
        assert!(output.status.success(), "{program}: {}", complaints(&output));
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(tool("grep", &["-rl", "^Message-ID: <2@", "."]), 2);
    assert_eq!(tool("find", &["a", "-type", "f", "-links", "2", "-size", "-2"]), 2);
    assert_eq!(tool("sh", &["-c", "tar -cf - . | tar -tvf - | grep -c link.to | grep -x 1"]), 1);
    drop(mount);
    let mount = SpoolMount::start(&site, &["--crlf"]);
    let wire = fs::read(mount.path("a/one/3")).unwrap();
    assert!(wire.ends_with(b"\r\n\r\n.a dot\r\n..\r\n\r\nend\r\n"), "{}", String::from_utf8_lossy(&wire));
}

#[test]
fn withdrawn_articles_vanish_at_once() {
    if !possible() {
        return;
    }
    let site = site(&["a.one", "a.two"]);
    let ids = ["<1@x.example>", "<2@x.example>", "<3@x.example>"];
    feed(&site, &ids.map(|id| (id, "a.one,a.two")));
    let serving = site.serve();
    let mount = SpoolMount::start(&site, &[]);
    let is_there = |number: u32, id: &str| {
        let names =
            [format!("a/one/{number}"), format!("a/two/{number}"), format!("message.id/{id}@x.example")];
        let there = names.map(|name| fs::read(mount.path(&name)).is_ok());
        assert!(there.iter().all(|one| *one == there[0]), "{number}: {there:?}");
        let listed = fs::read_dir(mount.path("a/one")).unwrap();
        assert_eq!(
            listed.filter(|entry| entry.as_ref().unwrap().file_name() == number.to_string().as_str()).count()
                == 1,
            there[0]
        );
        there[0]
    };
    assert!(is_there(1, "1") && is_there(2, "2") && is_there(3, "3"));
    let open = File::open(mount.path("a/one/2")).unwrap();
    let before = fs::read(mount.path("a/one/2")).unwrap();
    site.done(&["cancel", ids[1]]);
    assert!(!is_there(2, "2"));
    let mut after = Vec::new();
    // An open file has its own bytes or an error.
    match (&open).read_to_end(&mut after) {
        Ok(_) => assert_eq!(after, before),
        Err(error) => assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error())),
    }
    site.done(&["hide", ids[0]]);
    assert!(!is_there(1, "1"));
    site.done(&["unhide", ids[0]]);
    assert!(is_there(1, "1"));
    site.done(&["group", "remove", "a.two"]);
    wait_until("a removed group disappears", || !mount.path("a/two").exists());
    assert_eq!(fs::metadata(mount.path("a/one/3")).unwrap().nlink(), 1);
    drop(serving);
}

/// Sets a flag on drop, even after a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns a body that identifies its article, and is long enough to be read in pieces.
fn body_of(n: usize) -> String {
    format!("{n} lorem ipsum dolor sit amet\r\n").repeat(20 + n * 7 % 400)
}

#[test]
fn files_match_their_articles_during_arrivals_wraps_and_cancels() {
    if !possible() {
        return;
    }
    let site = site(&["a.one", "a.two"]);
    let serving = site.serve();
    let mount = SpoolMount::start(&site, &[]);
    let over = AtomicBool::new(false);
    let (checked, gone) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _at_the_end = Stop(&over);
            let mut client = serving.client();
            for n in 0..1500 {
                let groups = if n % 3 == 0 { "a.one,a.two" } else { "a.one" };
                take(&mut client, &format!("<{n}@x.example>"), groups, &body_of(n));
                if n % 11 == 0 {
                    // Each cancel is a process, so only few are made.
                    if n % 330 == 0 {
                        site.run(&["cancel", &format!("<{n}@x.example>")]);
                    }
                    // An article that was just acknowledged is visible.
                    assert!(mount.path(&format!("message.id/{n}@x.example")).exists() || n % 330 == 0);
                }
            }
        });
        let (mut checked, mut gone) = (BTreeMap::new(), 0);
        // Once more when all articles have arrived: by then there are hundreds, however slow this was.
        let mut is_last = false;
        while !is_last {
            is_last = over.load(Ordering::Relaxed);
            for group in ["one", "two"] {
                for entry in fs::read_dir(mount.path("a").join(group)).unwrap() {
                    match read_whole(&entry.unwrap().path()) {
                        Some((inode, n)) => assert_eq!(*checked.entry(inode).or_insert(n), n, "one article"),
                        None => gone += 1,
                    }
                }
            }
        }
        (checked.len(), gone)
    });
    assert!(checked > 100, "{checked} checked, {gone} gone");
    // The oldest were overwritten.
    assert!(!mount.path("message.id/1@x.example").exists() && !mount.path("a/one/2").exists());
    let left = files(&mount.point);
    let mut client = serving.client();
    let low = client.ask("GROUP a.one");
    let count: usize = low.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(left.keys().filter(|path| path.starts_with("a/one")).count(), count);
    for (path, bytes) in left.iter().filter(|(path, _)| path.starts_with("a/one")).step_by(10) {
        assert_eq!(*bytes, asked(&mut client, path.file_name().unwrap().to_str().unwrap()), "{path:?}");
    }
}

/// Reads a file that may vanish meanwhile, in two pieces; returns its inode number and article.
fn read_whole(path: &Path) -> Option<(u64, usize)> {
    let mut file = File::open(path).ok()?;
    let stat = file.metadata().ok()?;
    let mut text = vec![0; 700];
    file.read_exact(&mut text).ok()?;
    file.read_to_end(&mut text).ok()?;
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.len() as u64, stat.len(), "{path:?}");
    let (head, body) = text.split_once("\n\n").unwrap();
    let id = head.lines().find_map(|line| line.strip_prefix("Message-ID: <")).unwrap();
    let n: usize = id.split('@').next().unwrap().parse().unwrap();
    assert_eq!(body, body_of(n).replace("\r\n", "\n") + "\n", "{path:?}");
    Some((stat.ino(), n))
}

#[test]
fn mount_shows_what_the_given_reader_may_read() {
    if !possible() {
        return;
    }
    let site = site(&["a.one", "b.one"]);
    feed(&site, &[("<1@x.example>", "a.one,b.one"), ("<2@x.example>", "b.one")]);
    site.edit(|text| text + "\n[[access]]\nfrom = [\"192.0.2.0/24\"]\nread = \"a.*\"\n");
    let serving = site.serve();
    let mount = SpoolMount::start(&site, &["--reader", "192.0.2.7"]);
    let names = |mount: &SpoolMount| files(&mount.point).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&mount), [Path::new("a/one/1")]);
    assert_eq!(fs::metadata(mount.path("a/one/1")).unwrap().nlink(), 1);
    assert!(!mount.path("b/one/1").exists() && !mount.path("message.id/2@x.example").exists());
    assert!(mount.path("message.id/1@x.example").exists());
    site.edit(|text| text.replace("\nread = \"a.*\"\n", "\nread = \"b.*\"\n"));
    site.done(&["ctl", "reload"]);
    assert!(mount.path("message.id/2@x.example").exists());
    assert_eq!(names(&mount), [Path::new("b/one/1"), Path::new("b/one/2")]);
    drop(mount);
    let refused = site.run(&["mount", "--spool", site.home().to_str().unwrap(), "--reader", "198.51.100.1"]);
    assert!(!refused.status.success());
    assert!(complaints(&refused).contains("no [[access]] section lets readers at 198.51.100.1 read"));
    drop(serving);
    let refused = site.run(&["mount", "--spool", site.home().to_str().unwrap()]);
    assert!(complaints(&refused).contains("no server runs"), "{}", complaints(&refused));
}

#[test]
fn mount_ends_on_signal_unmount_and_server_end() {
    if !possible() {
        return;
    }
    let site = site(&["a.one"]);
    feed(&site, &[("<1@x.example>", "a.one")]);
    let serving = site.serve();
    let ended = |mount: &mut SpoolMount| (mount.child.wait().unwrap().success(), mount.is_mounted());
    let mut mount = SpoolMount::start(&site, &["--only-owner"]);
    kill_process(Pid::from_child(&mount.child), Signal::TERM).unwrap();
    assert_eq!(ended(&mut mount), (true, false));
    let mut mount = SpoolMount::start(&site, &[]);
    unmount(&mount.point);
    assert_eq!(ended(&mut mount), (true, false));
    // A killed command leaves a working mount, which the next one can replace.
    let mut mount = SpoolMount::start(&site, &[]);
    kill_process(Pid::from_child(&mount.child), Signal::KILL).unwrap();
    assert_eq!(ended(&mut mount), (false, true));
    assert!(mount.path("a/one/1").exists());
    unmount(&mount.point);
    // If the server is killed as well, the mount is dead.
    let mut mount = SpoolMount::start(&site, &[]);
    kill_process(Pid::from_child(&mount.child), Signal::KILL).unwrap();
    assert_eq!(ended(&mut mount), (false, true));
    drop(serving);
    assert!(fs::metadata(mount.path("a")).is_err());
    let serving: Serving = site.serve();
    let mut mount = clear_and_start(&site);
    assert!(mount.path("a/one/1").exists());
    serving.stop();
    assert_eq!(ended(&mut mount), (false, false));
    assert!(mount.said().contains("the server has stopped; unmounted"));
}

/// More than the requests that the control socket answers at once.
const MANY_MOUNTS: usize = 20;

#[test]
fn mounts_hold_no_connections_to_the_control_socket() {
    if !possible() {
        return;
    }
    let site = site(&["a.one"]);
    feed(&site, &[("<1@x.example>", "a.one")]);
    let serving = site.serve();
    let mut mounts: Vec<_> =
        (0..MANY_MOUNTS).map(|n| SpoolMount::start_at(&site, &format!("news{n}"), &[])).collect();
    site.done(&["status"]);
    assert!(mounts.iter().all(|mount| mount.path("a/one/1").exists()));
    // The system lists the socket once, and once more for each connection. One asks now and then.
    let socket = site.dir().join("control");
    let listed = || fs::read_to_string("/proc/net/unix").unwrap();
    wait_until("the mounts close their connections", || {
        listed().lines().filter(|line| line.ends_with(socket.to_str().unwrap())).count() <= 1
    });
    for mount in &mounts {
        unmount(&mount.point);
    }
    for mount in &mut mounts {
        assert!(mount.child.wait().unwrap().success());
    }
    drop(serving);
}

/// Mounts over a dead mount.
fn clear_and_start(site: &Operated) -> SpoolMount {
    let point = site.home().join("news");
    let mount = SpoolMount {
        child: site.command(&["mount", "--spool", point.to_str().unwrap()]).spawn().unwrap(),
        point,
    };
    wait_until("it mounts", || mount.path("a").exists());
    mount
}
