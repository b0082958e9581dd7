//! Mounts by an unprivileged user, through `fusermount3`.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::mounted_spool::{site, take};
use super::possible;
use crate::clients::skipped;
use crate::operated::{Operated, complaints};
use crate::waiting::wait_until;

/// The user who mounts, unused otherwise, and a group of this user.
const USER: u32 = 65_534;
const GROUP: u32 = 65_533;

/// Opens /dev/fuse to all, as on most machines, and lets users allow others, within a view of the file
/// system.
const OPEN_TO_ALL: &str = "mknod \"$1/fuse\" c 10 229 && chmod 666 \"$1/fuse\" && \
    mount --bind \"$1/fuse\" /dev/fuse && echo user_allow_other >\"$1/fuse.conf\" && \
    touch -a /etc/fuse.conf && mount --bind \"$1/fuse.conf\" /etc/fuse.conf && echo ready && exec cat";

/// A view of the file system in which users mount; ends on drop, with its mounts.
struct View {
    holder: Child,
    _stdin: ChildStdin,
}

impl View {
    /// Creates a view; prints a message and returns `None` if that is not possible. `dir` is a directory for
    /// its own files.
    fn new(dir: &Path) -> Option<Self> {
        if !possible() {
            return None;
        }
        if Command::new("fusermount3").arg("--version").output().is_err() {
            skipped("(install fuse3)", false);
            return None;
        }
        fs::create_dir(dir).unwrap();
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", OPEN_TO_ALL, "sh"]).arg(dir);
        unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = unshare.spawn().unwrap();
        let stdin = holder.stdin.take().unwrap();
        let mut ready = [0; 6];
        let is_ready = holder.stdout.as_mut().unwrap().read_exact(&mut ready).is_ok();
        let view = Self { holder, _stdin: stdin };
        if !is_ready || !view.by(USER, GROUP, &[env!("CARGO_BIN_EXE_newsreel"), "--version"]).status.success()
        {
            skipped("(users can open neither a /dev/fuse of their own nor this newsreel)", false);
            return None;
        }
        Some(view)
    }

    /// Returns a command in the view.
    fn command(&self, user: u32, group: u32, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).args(["--", "setpriv"]);
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
        command.args(["--clear-groups", "--"]).args(words);
        command.env_remove("NEWSREEL_CONFIG").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn by(&self, user: u32, group: u32, words: &[&str]) -> Output {
        self.command(user, group, words).output().unwrap()
    }

    /// Returns the output of a command that must succeed.
    fn done(&self, user: u32, words: &[&str]) -> String {
        let output = self.by(user, GROUP, words);
        assert!(output.status.success(), "{words:?}: {}", complaints(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn is_mounted(&self, point: &str) -> bool {
        self.done(0, &["cat", "/proc/self/mounts"]).contains(&format!(" {point} fuse "))
    }

    /// Runs a command of newsreel until it has mounted.
    fn mount(&self, point: &str, words: &[&str]) -> Child {
        let words = [&[env!("CARGO_BIN_EXE_newsreel"), "mount"], words].concat();
        let mut child = self.command(USER, GROUP, &words).spawn().unwrap();
        let mut ended = None;
        wait_until("it mounts, or ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some() || self.is_mounted(point)
        });
        if let Some(ended) = ended {
            panic!("{ended}: {}", complaints(&child.wait_with_output().unwrap()));
        }
        child
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ended = self.holder.kill();
        let _ended = self.holder.wait();
    }
}

/// Creates a directory that belongs to the user.
fn own_dir(path: PathBuf) -> String {
    fs::create_dir_all(&path).unwrap();
    chown(&path, Some(USER), Some(GROUP)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn ended(mut child: Child) -> bool {
    child.wait().unwrap().success()
}

/// Creates a site whose control socket and configuration the group may open.
fn open_site() -> Operated {
    let site = site(&["a.one"]);
    site.edit(|text| text.replacen("[site]\n", &format!("[site]\ncontrol_group = \"{GROUP}\"\n"), 1));
    for path in [site.home().to_owned(), site.dir()] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(site.dir().join("newsreel.toml"), Permissions::from_mode(0o644)).unwrap();
    site
}

#[test]
fn group_member_mounts_the_spool_without_further_rights() {
    let site = open_site();
    let Some(view) = View::new(&site.home().join("view")) else { return };
    let serving = site.serve();
    take(&mut serving.client(), "<1@x.example>", "a.one", "..body");
    let (dir, point) = (site.dir().to_str().unwrap().to_owned(), own_dir(site.home().join("news, mine")));
    let spool = ["--spool", &point, "--dir", &dir];
    let path = format!("{point}/a/one/1");
    // As /proc/self/mounts shows it.
    let point_shown = point.replace(' ', "\\040");
    let mount = view.mount(&point_shown, &spool);
    assert!(view.done(USER, &["cat", &path]).ends_with("\n\n.body\n"));
    assert!(!view.by(0, 0, &["cat", &path]).status.success(), "root was not allowed");
    // Members may not change anything.
    let newsreel = env!("CARGO_BIN_EXE_newsreel");
    let refused = view.by(USER, GROUP, &[newsreel, "cancel", "<1@x.example>", "--dir", &dir]);
    assert!(!refused.status.success());
    assert!(complaints(&refused).contains("only the server's user"), "{}", complaints(&refused));
    view.done(USER, &[newsreel, "status", "--dir", &dir]);
    assert!(view.done(USER, &["cat", &path]).contains("<1@x.example>"));
    let stranger = view.by(USER, GROUP - 1, &[newsreel, "status", "--dir", &dir]);
    assert!(!stranger.status.success());
    // The user, and a signal, end the mount.
    view.done(USER, &["fusermount3", "-u", "--", &point]);
    assert!(ended(mount));
    let mount = view.mount(&point_shown, &[&spool[..], &["--allow-others"]].concat());
    assert!(view.done(0, &["cat", &path]).contains("<1@x.example>"));
    kill_process(Pid::from_child(&mount), Signal::TERM).unwrap();
    assert!(ended(mount) && !view.is_mounted(&point_shown));
    // A killed command leaves a working mount; a killed server a dead one, which the next one clears.
    let mut mount = view.mount(&point_shown, &spool);
    mount.kill().unwrap();
    assert!(!ended(mount));
    assert!(view.done(USER, &["cat", &path]).contains("<1@x.example>"));
    drop(serving);
    assert!(!view.by(USER, GROUP, &["cat", &path]).status.success());
    let serving = site.serve();
    let words = [&[newsreel, "mount"], &spool[..]].concat();
    let mount = view.command(USER, GROUP, &words).spawn().unwrap();
    wait_until("it mounts where a dead mount is", || view.by(USER, GROUP, &["cat", &path]).status.success());
    serving.stop();
    assert!(!ended(mount) && !view.is_mounted(&point_shown));
}

#[test]
fn user_mounts_an_own_tree() {
    let dir = tempfile::TempDir::new().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let Some(view) = View::new(&dir.path().join("view")) else { return };
    let (lower, point) = (own_dir(dir.path().join("lower")), own_dir(dir.path().join("mnt")));
    let mount = view.mount(&point, &[&lower, &point]);
    let newsreel = env!("CARGO_BIN_EXE_newsreel");
    view.done(USER, &["sh", "-c", "mkdir $0/g && for n in 1 12 123; do echo $n >$0/g/$n; done", &point]);
    view.done(USER, &[newsreel, "manage", &format!("{point}/g")]);
    view.done(USER, &["sh", "-c", "ln $0/g/12 $0/g/1234 && mv $0/g/1 $0/g/name && rm $0/g/123", &point]);
    assert_eq!(view.done(USER, &["ls", &format!("{point}/g")]), "12\n1234\nname\n");
    for stored in ["001/12", "123/1234", "aaa/name"] {
        assert!(Path::new(&lower).join("g").join(stored).exists(), "{stored}");
    }
    assert!(!view.by(0, 0, &["ls", &point]).status.success(), "root was not allowed");
    kill_process(Pid::from_child(&mount), Signal::TERM).unwrap();
    assert!(ended(mount) && !view.is_mounted(&point));
    // Mounting on a directory of another user is refused.
    fs::create_dir(dir.path().join("roots")).unwrap();
    let roots = dir.path().join("roots").to_str().unwrap().to_owned();
    let refused = view.by(USER, GROUP, &[newsreel, "mount", &lower, &roots]);
    assert!(!refused.status.success() && complaints(&refused).contains("cannot mount"));
}
