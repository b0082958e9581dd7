//! Killed in the middle: a name is at one place or the other.
//!
//! The mount is in a process of its own, which kills itself at a place that `USENETFS_KILL_AT` names.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;
use usenetfs::MountSettings;

use crate::site::{manage, possible, sorted};

/// Variable that names the directories for the other process to mount.
const DIRS: &str = "USENETFS_TEST_DIRS";

/// Variable with the most descriptors that it may have.
const DESCRIPTORS: &str = "USENETFS_TEST_DESCRIPTORS";

/// Not a test by itself: the process that mounts.
#[test]
#[ignore = "is started by other tests"]
fn mounts_until_it_is_killed() {
    let Some(dirs) = std::env::var_os(DIRS).map(PathBuf::from) else { return };
    if let Some(most) = std::env::var(DESCRIPTORS).ok().and_then(|text| text.parse().ok()) {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(Resource::Nofile, limit).unwrap();
    }
    let mounted = usenetfs::mount(&dirs.join("lower"), &dirs.join("mnt"), &MountSettings::default()).unwrap();
    fs::write(dirs.join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(600));
    drop(mounted);
}

/// A mount in another process, unmounted when dropped.
struct Other {
    child: Child,
    point: PathBuf,
}

impl Other {
    fn start(dirs: &Path, kill_at: &str) -> Self {
        Self::start_with(dirs, &[("USENETFS_KILL_AT", kill_at)])
    }

    fn start_with(dirs: &Path, environment: &[(&str, &str)]) -> Self {
        let _first = fs::remove_file(dirs.join("ready"));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::mounts_until_it_is_killed", "--ignored"])
            .env(DIRS, dirs)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let other = Self { child, point: dirs.join("mnt") };
        let began = Instant::now();
        while !dirs.join("ready").exists() {
            assert!(began.elapsed() < Duration::from_secs(120), "it does not mount");
            std::thread::sleep(Duration::from_millis(5));
        }
        other
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _dead = self.child.kill();
        let _waited = self.child.wait();
        let _gone = unmount(&self.point, UnmountFlags::DETACH);
    }
}

#[test]
fn a_kill_in_a_rename_or_link_leaves_either_name() {
    if !possible() {
        return;
    }
    let over = [("managed/123456", "plain/1"), ("plain/1", "managed/77777"), ("managed/1", "managed/20000")];
    for (point, is_done) in [("rename", false), ("renamed", true), ("link", false), ("linked", true)] {
        for (from, to) in over {
            let dir = TempDir::new().unwrap();
            for name in ["lower", "mnt", "lower/managed", "lower/plain"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            manage(&dir.path().join("lower/managed"));
            let mut other = Other::start(dir.path(), &format!("{point}:1"));
            let (from, to) = (other.point.join(from), other.point.join(to));
            fs::write(&from, "text").unwrap();
            let is_link = point.starts_with("link");
            let failed = if is_link { fs::hard_link(&from, &to) } else { fs::rename(&from, &to) };
            assert!(failed.is_err(), "its server was killed");
            assert_eq!(other.child.wait().unwrap().signal(), Some(9));
            drop(other);
            // A new mount takes the dead one's place.
            let mut mounted = usenetfs::mount(
                &dir.path().join("lower"),
                &dir.path().join("mnt"),
                &MountSettings::default(),
            )
            .unwrap();
            let there = [&from, &to].map(|path| fs::read_to_string(path).is_ok_and(|text| text == "text"));
            let expected = [is_link || !is_done, is_done];
            assert_eq!(there, expected, "{point}, {from:?} to {to:?}");
            let left = if is_done { &to } else { &from };
            assert_eq!(fs::metadata(left).unwrap().nlink(), if is_link && is_done { 2 } else { 1 });
            mounted.detach().unwrap();
        }
    }
}

type Change = fn(&Path) -> std::io::Result<()>;

/// Changes of one name each, in a managed directory with articles 1 and 20000 and an empty managed directory
/// `group` that has had articles.
const CHANGES: &[(&str, Change)] = &[
    ("123456", |dir| fs::File::create_new(dir.join("123456")).map(drop)),
    ("sub", |dir| fs::create_dir(dir.join("sub"))),
    ("777777", |dir| std::os::unix::fs::symlink("1", dir.join("777777"))),
    ("20000", |dir| fs::remove_file(dir.join("20000"))),
    ("group", |dir| fs::remove_dir(dir.join("group"))),
];

#[test]
fn a_kill_at_any_step_of_a_change_leaves_the_name_or_not() {
    if !possible() {
        return;
    }
    for (name, change) in CHANGES {
        let (mut step, mut was_there) = (1, 0);
        loop {
            let dir = TempDir::new().unwrap();
            for name in ["lower", "mnt", "lower/managed"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            manage(&dir.path().join("lower/managed"));
            let (lower, point) = (dir.path().join("lower"), dir.path().join("mnt"));
            let managed = point.join("managed");
            let mut mounted = usenetfs::mount(&lower, &point, &MountSettings::default()).unwrap();
            fs::create_dir(managed.join("group")).unwrap();
            manage(&managed.join("group"));
            for name in ["1", "20000", "group/30", "group/4000"] {
                fs::write(managed.join(name), name).unwrap();
            }
            for name in ["group/30", "group/4000"] {
                fs::remove_file(managed.join(name)).unwrap();
            }
            let all: BTreeSet<String> = ["1", "20000", "group", *name].map(str::to_owned).into();
            mounted.detach().unwrap();
            let mut other = Other::start(dir.path(), &format!("step:{step}"));
            let is_done = change(&managed).is_ok();
            if !is_done {
                assert_eq!(other.child.wait().unwrap().signal(), Some(9), "{name} {step}");
            }
            drop(other);
            let mut mounted = usenetfs::mount(&lower, &point, &MountSettings::default()).unwrap();
            let names: BTreeSet<String> = sorted(&managed).into_iter().collect();
            let without: BTreeSet<String> = all.iter().filter(|known| *known != name).cloned().collect();
            assert!(names == all || names == without, "{name} {step}: {names:?}");
            was_there += u32::from(names == all);
            for left in &names {
                assert!(fs::symlink_metadata(managed.join(left)).is_ok(), "{name} {step}: {left}");
            }
            // A change that was not made can be made, and one that was made stays.
            let is_new = ["123456", "sub", "777777"].contains(name);
            assert_eq!(change(&managed).is_ok(), (names == without) == is_new, "{name} {step}");
            mounted.detach().unwrap();
            if is_done {
                break;
            }
            step += 1;
        }
        assert!(step > 2 && was_there > 0 && was_there < step, "{name}: {step} steps, {was_there} with it");
    }
}

#[test]
fn a_dead_mount_is_replaced_by_the_next() {
    if !possible() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("lower")).unwrap();
    fs::create_dir(dir.path().join("mnt")).unwrap();
    let mut other = Other::start(dir.path(), "");
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    assert!(fs::metadata(&other.point).is_err(), "nobody answers there");
    let mounted =
        usenetfs::mount(&dir.path().join("lower"), &other.point, &MountSettings::default()).unwrap();
    fs::write(other.point.join("1"), "x").unwrap();
    drop(mounted);
    assert!(!other.point.join("1").exists(), "unmounted");
    assert!(dir.path().join("lower/1").exists());
}

#[test]
fn thousands_of_directories_need_no_more_descriptors_than_there_are() {
    if !possible() {
        return;
    }
    const MOST: &str = "256";
    let dirs = TempDir::new().unwrap();
    ["lower", "mnt"].iter().for_each(|name| fs::create_dir(dirs.path().join(name)).unwrap());
    let _mount = Other::start_with(dirs.path(), &[(DESCRIPTORS, MOST)]);
    let upper = dirs.path().join("mnt");
    let dir = |n: u32| upper.join(format!("hierarchy.{}/group.{n}", n / 100));
    for n in 0..2000 {
        fs::create_dir_all(dir(n)).unwrap();
        manage(&dir(n));
        fs::write(dir(n).join("1"), n.to_string()).unwrap();
    }
    for n in (0..2000).rev() {
        assert_eq!(fs::read_to_string(dir(n).join("1")).unwrap(), n.to_string());
    }
}
