//! File operations of POSIX on a lower directory and through the mount: both answer the same.
//!
//! Each case is done in a plain directory of the lower file system, in an unmanaged and in a managed
//! directory of the mount, with and without kernel passthrough, and gives lines of text; they must be the
//! same everywhere. The areas are those of pjdfstest.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom as From, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use usenetfs::MountSettings;

use crate::site::{Site, sorted};

/// A stranger's user and group.
pub const NOBODY: u32 = 65_534;

/// The lines of a case.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    /// Adds the result of an operation; of an error, its number.
    fn put<T: Debug, E: Into<std::io::Error>>(&mut self, what: &str, result: Result<T, E>) {
        let result = result.map_err(|error| error.into().raw_os_error());
        self.0.push(format!("{what}: {result:?}"));
    }

    fn meta(&mut self, what: &str, path: &Path) {
        let meta = fs::symlink_metadata(path);
        let line = meta.map(|m| {
            // How long a directory is, is the lower file system's affair.
            let size = if m.is_dir() { 0 } else { m.len() };
            (m.file_type().is_dir(), m.mode(), m.nlink(), m.uid(), m.gid(), size, m.rdev())
        });
        self.put(what, line);
    }
}

/// As a stranger, in a thread of its own.
pub fn as_nobody<T: Send>(groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    std::thread::scope(|scope| {
        let stranger = scope.spawn(move || {
            rustix::thread::set_thread_groups(&groups).unwrap();
            let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        stranger.join().unwrap()
    })
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<File> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644)).map(File::from)
}

/// A name that is an article's and one that is not.
const NAMES: [&str; 2] = ["123456", "name"];

fn opening(dir: &Path, lines: &mut Lines) {
    for name in NAMES {
        let file = dir.join(name);
        let rw = OFlags::RDWR;
        lines.put("missing", open(&file, rw).map(drop));
        lines.put("new", open(&file, rw | OFlags::CREATE | OFlags::EXCL).map(drop));
        lines.put("again", open(&file, rw | OFlags::CREATE | OFlags::EXCL).map(drop));
        lines.put("there", open(&file, rw | OFlags::CREATE).map(drop));
        fs::write(&file, "some text").unwrap();
        lines.put("truncated", open(&file, rw | OFlags::TRUNC).map(drop));
        lines.meta("empty", &file);
        lines.put("as a directory", open(&file, OFlags::RDONLY | OFlags::DIRECTORY).map(drop));
        lines.put("below a file", open(&file.join("x"), rw | OFlags::CREATE).map(drop));
        lines.put("write to a reader", open(&file, OFlags::RDONLY).unwrap().write(b"x"));
        lines.put("read of a writer", open(&file, OFlags::WRONLY).unwrap().read(&mut [0; 3]));
        let append = OFlags::WRONLY | OFlags::APPEND;
        let (mut one, mut two) = (open(&file, append).unwrap(), open(&file, append).unwrap());
        for n in 0..10 {
            lines.put("append", if n % 2 == 0 { one.write(b"one,") } else { two.write(b"two,") });
        }
        lines.put("appended", fs::read_to_string(&file));
        lines.put("synced", one.sync_all().and_then(|()| two.sync_data()));
        symlink("nowhere", dir.join("dangling")).unwrap();
        lines.put("no follow", open(&dir.join("dangling"), OFlags::RDONLY | OFlags::NOFOLLOW).map(drop));
        lines.put("dangling", open(&dir.join("dangling"), OFlags::RDONLY).map(drop));
        lines
            .put("excl on a link", open(&dir.join("dangling"), rw | OFlags::CREATE | OFlags::EXCL).map(drop));
        fs::remove_file(dir.join("dangling")).unwrap();
    }
    let long = "x".repeat(255);
    lines.put("255 bytes", File::create_new(dir.join(&long)).map(drop));
    lines.put("256 bytes", File::create_new(dir.join(format!("{long}x"))).map(drop));
    lines.put("255 digits", File::create_new(dir.join("7".repeat(255))).map(drop));
    lines.put("a directory for writing", open(dir, OFlags::RDWR).map(drop));
    lines.put("create a directory's name", open(&dir.join("."), OFlags::RDWR | OFlags::CREATE).map(drop));
    lines.put("odd bytes", File::create_new(dir.join(OsStr::new("a b\n\\\u{fc}*"))).map(drop));
    lines.0.push(format!("{:?}", sorted(dir)));
}

fn linking(dir: &Path, lines: &mut Lines) {
    for (from, to) in [("1", "20000"), ("20000", "name"), ("name", "other")] {
        if from == "1" {
            fs::write(dir.join("1"), "x").unwrap();
        }
        lines.put("link", fs::hard_link(dir.join(from), dir.join(to)));
        lines.put("again", fs::hard_link(dir.join(from), dir.join(to)));
        lines.meta(to, &dir.join(to));
    }
    fs::create_dir(dir.join("d")).unwrap();
    lines.put("of a directory", fs::hard_link(dir.join("d"), dir.join("d2")));
    lines.put("onto a directory", fs::hard_link(dir.join("1"), dir.join("d")));
    lines.put("of nothing", fs::hard_link(dir.join("none"), dir.join("none2")));
    lines.put("into nothing", fs::hard_link(dir.join("1"), dir.join("none/1")));
    symlink("1", dir.join("soft")).unwrap();
    lines.put("of a link", fs::hard_link(dir.join("soft"), dir.join("5")));
    lines.meta("link to a link", &dir.join("5"));
    lines.put("its target", fs::read_link(dir.join("5")));
    let file = File::open(dir.join("1")).unwrap();
    for name in ["1", "20000", "name", "other"] {
        lines.put("unlink", fs::remove_file(dir.join(name)));
        lines.put("links left", file.metadata().map(|meta| meta.nlink()));
    }
    lines.put("unlink nothing", fs::remove_file(dir.join("1")));
    lines.put("unlink a directory", rustix::fs::unlink(dir.join("d")));
    lines.put("unlink below a link", rustix::fs::unlink(dir.join("soft/x")));
}

fn renaming(dir: &Path, lines: &mut Lines) {
    let rename = |from: &str, to: &str| fs::rename(dir.join(from), dir.join(to));
    let with = |from: &str, to: &str, flags| {
        rustix::fs::renameat_with(CWD, dir.join(from), CWD, dir.join(to), flags)
    };
    for (n, (from, to)) in [("1", "20000"), ("20000", "x"), ("x", "y"), ("y", "3")].iter().enumerate() {
        if n == 0 {
            fs::write(dir.join(from), "text").unwrap();
        }
        lines.put("rename", rename(from, to));
        lines.put("text", fs::read_to_string(dir.join(to)));
        lines.meta("old", &dir.join(from));
    }
    fs::write(dir.join("target"), "target").unwrap();
    lines.put("onto", rename("3", "target"));
    lines.meta("target", &dir.join("target"));
    for name in ["d", "12", "d/e"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    lines.put("directory onto a file", rename("d", "target"));
    lines.put("file onto a directory", rename("target", "d"));
    lines.put("into itself", rename("d", "d/e/f"));
    lines.put("onto its parent", rename("d/e", "d"));
    lines.put("onto a full one", rename("12", "d"));
    lines.put("onto an empty one", rename("d", "12"));
    lines.meta("moved", &dir.join("12/e"));
    lines.put("nothing", rename("none", "x"));
    lines.put("nothing below", rename("none/1", "x"));
    lines.put("to nothing", rename("target", "none/1"));
    lines.put("to a dot", rename("12", "."));
    lines.put("to itself", rename("target", "target"));
    fs::hard_link(dir.join("target"), dir.join("8")).unwrap();
    lines.put("same file", rename("target", "8"));
    lines.meta("both stay", &dir.join("target"));
    fs::write(dir.join("other"), "other").unwrap();
    lines.put("no replace", with("other", "8", RenameFlags::NOREPLACE));
    lines.put("no replace, free", with("other", "100", RenameFlags::NOREPLACE));
    lines.put("exchange", with("100", "8", RenameFlags::EXCHANGE));
    lines.put("exchanged", fs::read_to_string(dir.join("8")));
    lines.put("exchange with nothing", with("100", "none", RenameFlags::EXCHANGE));
    lines.put("exchange with a directory", with("8", "12", RenameFlags::EXCHANGE));
    lines.meta("a directory now", &dir.join("8"));
    lines.put("its entry", fs::metadata(dir.join("8/e")).map(|meta| meta.is_dir()));
    lines.0.push(format!("{:?}", sorted(dir)));
}

fn directories(dir: &Path, lines: &mut Lines) {
    for name in ["name", "2600", "345", "aaa", "000"] {
        let path = dir.join(name);
        lines.put("mkdir", fs::create_dir(&path));
        lines.put("again", fs::create_dir(&path));
        lines.meta(name, &path);
        lines.put("file of this name", File::create_new(&path).map(drop));
        fs::write(path.join("1"), "x").unwrap();
        fs::create_dir(path.join("2")).unwrap();
        lines.meta("with a subdirectory", &path);
        lines.put("rmdir of a full one", fs::remove_dir(&path));
        lines.put("rmdir of a file", fs::remove_dir(path.join("1")));
        fs::remove_file(path.join("1")).unwrap();
        lines.put("rmdir", fs::remove_dir(path.join("2")).and_then(|()| fs::remove_dir(&path)));
        lines.put("again", fs::remove_dir(&path));
        lines.put("then a file", fs::write(&path, "x"));
        lines.put("no directory", fs::create_dir(&path));
    }
    lines.put("below nothing", fs::create_dir(dir.join("none/x")));
    lines.put("below a file", fs::create_dir(dir.join("name/x")));
    lines.put("rmdir of a dot", fs::remove_dir(dir.join("name/.")));
    fs::create_dir(dir.join("sgid")).unwrap();
    chown(dir.join("sgid"), None, Some(7)).unwrap();
    fs::set_permissions(dir.join("sgid"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(dir.join("sgid/sub")).unwrap();
    fs::write(dir.join("sgid/77"), "").unwrap();
    lines.meta("directory of its parent's group", &dir.join("sgid/sub"));
    lines.meta("file of its parent's group", &dir.join("sgid/77"));
    lines.0.push(format!("{:?}", sorted(dir)));
}

fn kinds(dir: &Path, lines: &mut Lines) {
    let target = "t".repeat(4000);
    for (name, to) in [("1", "relative/target"), ("name", target.as_str()), ("x", "")] {
        lines.put("symlink", symlink(to, dir.join(name)));
        lines.put("readlink", fs::read_link(dir.join(name)));
        lines.meta("link", &dir.join(name));
    }
    lines.put("symlink onto", symlink("a", dir.join("1")));
    lines.put("readlink of a directory", fs::read_link(dir));
    symlink("12", dir.join("loop")).unwrap();
    symlink("loop", dir.join("12")).unwrap();
    lines.put("a loop", File::open(dir.join("12")).map(drop));
    let mode = Mode::from_raw_mode(0o640);
    for (name, kind, device) in [
        ("100", FileType::Fifo, 0),
        ("200", FileType::Socket, 0),
        ("pipe", FileType::Fifo, 0),
        ("300", FileType::CharacterDevice, rustix::fs::makedev(259, 70_000)),
        ("400", FileType::BlockDevice, rustix::fs::makedev(8, 1)),
        ("500", FileType::RegularFile, 0),
    ] {
        lines.put("mknod", rustix::fs::mknodat(CWD, dir.join(name), kind, mode, device));
        lines.put("again", rustix::fs::mknodat(CWD, dir.join(name), kind, mode, device));
        lines.meta(name, &dir.join(name));
        lines.put("rename", fs::rename(dir.join(name), dir.join(format!("{name}0"))));
    }
    lines.put("kind", fs::symlink_metadata(dir.join("1000")).map(|meta| meta.file_type().is_fifo()));
    lines.put("chown of a link", std::os::unix::fs::lchown(dir.join("1"), Some(3), Some(4)));
    lines.meta("its own", &dir.join("1"));
}

fn modes(dir: &Path, lines: &mut Lines) {
    for name in NAMES {
        let file = dir.join(name);
        fs::write(&file, "x").unwrap();
        for mode in [0o600, 0o4755, 0o2755, 0o6711, 0o1644, 0o000, 0o777] {
            lines.put("chmod", fs::set_permissions(&file, fs::Permissions::from_mode(mode)));
            lines.meta("mode", &file);
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
        lines.put("chown", chown(&file, Some(NOBODY), Some(5)));
        lines.meta("its bits are cleared", &file);
        for mode in [0o4777, 0o6777, 0o2767] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            lines.put(
                "write by a stranger",
                as_nobody(&[], || {
                    File::options().append(true).open(&file).and_then(|mut file| file.write(b"y"))
                }),
            );
            lines.meta("bits after it", &file);
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
        lines.put(
            "truncate by a stranger",
            as_nobody(&[], || File::options().write(true).open(&file).and_then(|file| file.set_len(0))),
        );
        lines.meta("bits after that", &file);
    }
    lines.put("chmod of nothing", fs::set_permissions(dir.join("none"), fs::Permissions::from_mode(0o644)));
}

fn rights(dir: &Path, lines: &mut Lines) {
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for name in ["77", "x"] {
        fs::write(dir.join(name), "secret").unwrap();
        allow(&dir.join(name), 0o600);
    }
    fs::create_dir(dir.join("sticky")).unwrap();
    fs::create_dir(dir.join("open")).unwrap();
    fs::create_dir(dir.join("group")).unwrap();
    allow(&dir.join("sticky"), 0o1777);
    allow(&dir.join("open"), 0o777);
    chown(dir.join("group"), None, Some(42)).unwrap();
    allow(&dir.join("group"), 0o770);
    fs::write(dir.join("sticky/1"), "").unwrap();
    as_nobody(&[42], || {
        lines.put("read", fs::read(dir.join("77")));
        lines.put("write", fs::write(dir.join("x"), ""));
        lines.put("create", File::create_new(dir.join("5")).map(drop));
        lines.put("unlink", fs::remove_file(dir.join("77")));
        lines.put("rename", fs::rename(dir.join("77"), dir.join("78")));
        lines.put("link", fs::hard_link(dir.join("77"), dir.join("open/1")));
        lines.put("chmod", fs::set_permissions(dir.join("x"), fs::Permissions::from_mode(0o777)));
        lines.put("chown", chown(dir.join("x"), Some(NOBODY), None));
        lines.put("sticky", fs::remove_file(dir.join("sticky/1")));
        lines.put("own in sticky", fs::write(dir.join("sticky/2"), "mine"));
        lines.meta("own", &dir.join("sticky/2"));
        lines.put("own renamed", fs::rename(dir.join("sticky/2"), dir.join("open/22222")));
        lines.put("own removed", fs::remove_file(dir.join("open/22222")));
        lines.put("mkdir", fs::create_dir(dir.join("open/d")));
        lines.meta("its owner", &dir.join("open/d"));
        lines.put("as member of a group", fs::write(dir.join("group/1"), "x"));
        lines.meta("its group", &dir.join("group/1"));
        lines.put("give away", chown(dir.join("group/1"), Some(0), None));
        lines.put("to own group", chown(dir.join("group/1"), None, Some(42)));
        lines.put("to a strange group", chown(dir.join("group/1"), None, Some(43)));
        lines.put("touch", File::open(dir.join("group/1")).and_then(|file| file.set_modified(UNIX_EPOCH)));
    });
}

fn sizes(dir: &Path, lines: &mut Lines) {
    for name in NAMES {
        let path = dir.join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        for size in [4, 100, 0, 1 << 32, 10_000] {
            lines.put("ftruncate", file.set_len(size));
            lines.meta("size", &path);
        }
        lines.put("truncate of a reader", File::open(&path).unwrap().set_len(1));
        lines.put("zeros", file.read_at(&mut [1; 20], 5).map(|read| read as u64));
        // Sparse: data at both ends of a hole.
        file.set_len(0).unwrap();
        file.write_all_at(b"begin", 0).unwrap();
        file.write_all_at(b"end", 1 << 30).unwrap();
        lines.put("hole", rustix::fs::seek(&file, SeekFrom::Hole(0)));
        lines.put("data", rustix::fs::seek(&file, SeekFrom::Data(4096)).map(|at| at == 1 << 30));
        lines.put("data after the end", rustix::fs::seek(&file, SeekFrom::Data(1 << 31)));
        lines.0.push(format!("sparse: {}", file.metadata().unwrap().blocks() < 100));
        lines.put("punch", {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, how, 0, 4096)
        });
        let mut text = [1; 8];
        lines.put("punched", file.read_exact_at(&mut text, 0).map(|()| text));
        lines.put("allocate", rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, (1 << 30) + 9));
        lines.meta("allocated", &path);
        let copy = File::create_new(dir.join(format!("{name}1"))).unwrap();
        let (mut from, mut to) = (1 << 30, 5);
        lines.put("copy", rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 3));
        lines.put("copied", fs::read(dir.join(format!("{name}1"))));
        lines.put("seek", (&file).seek(From::End(-3)));
        lines.put("beyond", file.read_at(&mut text, 1 << 40));
        let big = vec![b'x'; 3 << 20];
        lines.put("much", file.write_all_at(&big, 100));
        let mut back = vec![0; 3 << 20];
        file.read_exact_at(&mut back, 100).unwrap();
        lines.0.push(format!("the same: {}", back == big));
        fs::remove_file(&path).unwrap();
    }
}

fn times(dir: &Path, lines: &mut Lines) {
    let stamps = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.atime(), meta.atime_nsec(), meta.mtime(), meta.mtime_nsec())
    };
    let (now, omit) = (rustix::fs::UTIME_NOW, rustix::fs::UTIME_OMIT);
    fs::create_dir(dir.join("d")).unwrap();
    symlink("d", dir.join("9")).unwrap();
    fs::write(dir.join("123"), "").unwrap();
    for name in ["123", "d", "9"] {
        let path = dir.join(name);
        for (access, change) in [
            ((5, 6), (7, 8)),
            ((1, omit), (1 << 32, 999_999_999)),
            ((-5, 500), (0, omit)),
            ((-1, 0), (-2, 1)),
        ] {
            let stamp = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
            let both = Timestamps { last_access: stamp(access), last_modification: stamp(change) };
            let set = rustix::fs::utimensat(CWD, &path, &both, AtFlags::SYMLINK_NOFOLLOW);
            lines.put("utimensat", set.map(|()| stamps(&path)));
        }
        let both = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: now },
            last_modification: Timespec { tv_sec: 0, tv_nsec: now },
        };
        lines.put("now", rustix::fs::utimensat(CWD, &path, &both, AtFlags::SYMLINK_NOFOLLOW));
        let fresh = fs::symlink_metadata(&path).unwrap().modified().unwrap();
        lines.0.push(format!("fresh: {}", fresh.elapsed().unwrap_or_default() < Duration::from_secs(60)));
    }
    // Operations that change the times.
    let file = dir.join("123");
    let old = || File::options().write(true).open(&file).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let changed = || fs::metadata(&file).unwrap().mtime() != 0;
    old();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    lines.0.push(format!("by chmod: {}", changed()));
    fs::rename(&file, dir.join("124")).and_then(|()| fs::rename(dir.join("124"), &file)).unwrap();
    lines.0.push(format!("by rename: {}", changed()));
    File::options().append(true).open(&file).unwrap().write_all(b"x").unwrap();
    lines.0.push(format!("by write: {}", changed()));
    old();
    File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    lines.0.push(format!("by truncate: {}", changed()));
    let before = fs::metadata(&file).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    fs::hard_link(&file, dir.join("500")).unwrap();
    let after = fs::metadata(&file).unwrap();
    let later = (after.ctime(), after.ctime_nsec()) > (before.ctime(), before.ctime_nsec());
    lines.0.push(format!("ctime by link: {later}, {}", after.nlink()));
}

fn xattrs(dir: &Path, lines: &mut Lines) {
    fs::create_dir(dir.join("d")).unwrap();
    fs::write(dir.join("12"), "").unwrap();
    for name in ["12", "d"] {
        let path = dir.join(name);
        let get = |name: &str| {
            let mut value = [0; 64];
            rustix::fs::getxattr(&path, name, &mut value).map(|len| value[..len].to_vec())
        };
        lines.put("none", get("user.a"));
        lines.put("set", rustix::fs::setxattr(&path, "user.a", b"value", XattrFlags::empty()));
        lines.put("get", get("user.a"));
        lines.put("size", rustix::fs::getxattr_query(&path, "user.a"));
        lines.put("too small", rustix::fs::getxattr(&path, "user.a", &mut [0; 2]));
        lines.put("create again", rustix::fs::setxattr(&path, "user.a", b"x", XattrFlags::CREATE));
        lines.put("replace nothing", rustix::fs::setxattr(&path, "user.b", b"x", XattrFlags::REPLACE));
        lines.put("empty", rustix::fs::setxattr(&path, "user.c", b"", XattrFlags::CREATE));
        lines.put("trusted", rustix::fs::setxattr(&path, "trusted.t", b"t", XattrFlags::empty()));
        let mut list = vec![0; 1000];
        let len = rustix::fs::listxattr(&path, &mut list[..]).unwrap();
        let mut names: Vec<_> = list[..len].split(|b| *b == 0).map(<[u8]>::to_vec).collect();
        names.sort();
        lines.put("list", Ok::<_, Errno>(names));
        lines.put("remove", rustix::fs::removexattr(&path, "user.a"));
        lines.put("again", rustix::fs::removexattr(&path, "user.a"));
        lines.put("unknown", rustix::fs::setxattr(&path, "strange.a", b"", XattrFlags::empty()));
    }
}

fn locks(dir: &Path, lines: &mut Lines) {
    fs::write(dir.join("12"), "0123456789").unwrap();
    let (one, two) = (File::open(dir.join("12")).unwrap(), File::open(dir.join("12")).unwrap());
    let try_lock = |file: &File, how| rustix::fs::flock(file, how);
    lines.put("lock", try_lock(&one, FlockOperation::NonBlockingLockExclusive));
    lines.put("held", try_lock(&two, FlockOperation::NonBlockingLockShared));
    lines.put("unlock", try_lock(&one, FlockOperation::Unlock));
    lines.put("shared", try_lock(&one, FlockOperation::NonBlockingLockShared));
    lines.put("both", try_lock(&two, FlockOperation::NonBlockingLockShared));
    drop(one);
    lines.put("alone", try_lock(&two, FlockOperation::NonBlockingLockExclusive));
}

type Case = fn(&Path, &mut Lines);

const CASES: [(&str, Case); 11] = [
    ("opening", opening),
    ("linking", linking),
    ("renaming", renaming),
    ("directories", directories),
    ("kinds", kinds),
    ("modes", modes),
    ("rights", rights),
    ("sizes", sizes),
    ("times", times),
    ("xattrs", xattrs),
    ("locks", locks),
];

#[test]
fn everything_is_as_on_the_lower_directory() {
    for passthrough in [true, false] {
        let Some(site) = Site::with(&MountSettings { passthrough, ..MountSettings::default() }) else {
            return;
        };
        for (name, case) in CASES {
            let outcome = |dir: &Path| {
                let mut lines = Lines::default();
                case(dir, &mut lines);
                lines.0
            };
            let [direct, plain, managed] = ["direct", "plain", "managed"].map(|dir| format!("{name}-{dir}"));
            fs::create_dir(site.lower(&direct)).unwrap();
            fs::set_permissions(site.lower(&direct), fs::Permissions::from_mode(0o755)).unwrap();
            let expected = outcome(&site.lower(&direct));
            for dir in [plain, managed] {
                fs::create_dir(site.upper(&dir)).unwrap();
                let mode = if dir.ends_with("managed") { 0o4755 } else { 0o755 };
                fs::set_permissions(site.upper(&dir), fs::Permissions::from_mode(mode)).unwrap();
                let found = outcome(&site.upper(&dir));
                for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    assert_eq!(found, expected, "{dir}, passthrough {passthrough}, line {at}");
                }
                assert_eq!(found.len(), expected.len());
            }
        }
    }
}
