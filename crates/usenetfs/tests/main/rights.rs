//! A mounted tree under programs that restore modes, access control lists and full disks.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use tempfile::TempDir;
use usenetfs::MountSettings;

use crate::posix::{NOBODY, as_nobody};
use crate::site::{Site, manage, possible, skipped, sorted};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_change_of_mode_keeps_a_directory_with_entries_managed_or_flat() {
    let Some(site) = Site::new() else { return };
    site.make_managed("managed");
    fs::create_dir(site.upper("flat")).unwrap();
    for dir in ["managed", "flat"] {
        fs::write(site.upper(dir).join("123456"), dir).unwrap();
    }
    // As rsync and tar do with what they copy.
    set_mode(&site.upper("managed"), 0o750);
    set_mode(&site.upper("flat"), 0o4750);
    assert_eq!((mode(&site.upper("managed")), mode(&site.upper("flat"))), (0o4750, 0o750));
    assert!(site.lower("managed/345/123456").exists() && site.lower("flat/123456").exists());
    for dir in ["managed", "flat"] {
        assert_eq!(sorted(&site.upper(dir)), ["123456"]);
        // Without entries nothing can be lost.
        fs::remove_file(site.upper(dir).join("123456")).unwrap();
    }
    set_mode(&site.upper("managed"), 0o755);
    manage(&site.upper("flat"));
    assert_eq!((mode(&site.upper("managed")), mode(&site.upper("flat"))), (0o755, 0o4755));
}

#[test]
fn rsync_and_tar_leave_a_managed_directory_managed() {
    let Some(site) = Site::new() else { return };
    site.make_managed("group");
    fs::write(site.upper("group/123456"), "here").unwrap();
    let source = TempDir::new().unwrap();
    fs::create_dir(source.path().join("group")).unwrap();
    fs::write(source.path().join("group/654321"), "copied").unwrap();
    let tar =
        format!("tar -C {} -cf - group | tar -C {} -xf -", source.path().display(), site.upper("").display());
    assert!(Command::new("sh").args(["-c", &tar]).status().unwrap().success());
    let copied =
        Command::new("rsync").arg("-a").arg(source.path().join("group")).arg(site.upper("")).status();
    match copied {
        Ok(copied) => assert!(copied.success()),
        Err(_) => skipped("the part with rsync"),
    }
    assert_eq!(sorted(&site.upper("group")), ["123456", "654321"]);
    assert!(site.lower("group/345/123456").exists() && site.lower("group/432/654321").exists());
}

#[test]
fn a_umask_counts_where_no_list_is_inherited() {
    let Some(site) = Site::new() else { return };
    site.make_managed("plain");
    site.make_managed("inheriting");
    let list = access_list(6);
    let set = rustix::fs::setxattr(
        site.upper("inheriting"),
        "system.posix_acl_default",
        &list,
        XattrFlags::empty(),
    );
    if set == Err(Errno::OPNOTSUPP) {
        return skipped("needs access control lists");
    }
    let make = |dir: &str| {
        let script = "umask 077; touch 123456 name; mkdir sub";
        let made = Command::new("sh").args(["-c", script]).current_dir(site.upper(dir)).status().unwrap();
        assert!(made.success());
        ["123456", "name", "sub"].map(|name| mode(&site.upper(dir).join(name)))
    };
    assert_eq!(make("plain"), [0o600, 0o600, 0o700]);
    assert_eq!(make("inheriting"), [0o664, 0o664, 0o674]);
}

/// The value of an attribute `system.posix_acl_*` by which user 65534 may do `rights`, and everybody else
/// what mode 0644 says (linux/posix_acl_xattr.h).
fn access_list(rights: u16) -> Vec<u8> {
    const ANYBODY: u32 = u32::MAX;
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let entries = [
        entry(0x01, 6, ANYBODY),
        entry(0x02, rights, NOBODY),
        entry(0x04, 4, ANYBODY),
        entry(0x10, 7, ANYBODY),
        entry(0x20, 4, ANYBODY),
    ];
    [2u32.to_le_bytes().to_vec(), entries.concat()].concat()
}

#[test]
fn an_access_control_list_decides_as_on_the_lower_directory() {
    let Some(site) = Site::new() else { return };
    site.make_managed("group");
    let (file, inheriting) = (site.upper("group/123456"), site.upper("group"));
    let set = |path: &Path, name: &str, rights| {
        rustix::fs::setxattr(path, name, &access_list(rights), XattrFlags::empty())
    };
    fs::write(&file, "text").unwrap();
    if set(&file, "system.posix_acl_access", 0) == Err(Errno::OPNOTSUPP) {
        return skipped("needs access control lists");
    }
    let read = |path: &Path| as_nobody(&[], || fs::read(path).map_err(|error| error.kind()));
    assert_eq!(read(&file), Err(std::io::ErrorKind::PermissionDenied));
    set(&file, "system.posix_acl_access", 4).unwrap();
    assert_eq!(read(&file).as_deref(), Ok(&b"text"[..]));
    // Entries inherit the list of the directory that they are in, wherever they are stored.
    set(&inheriting, "system.posix_acl_default", 0).unwrap();
    for name in ["123457", "999999", "other"] {
        fs::write(inheriting.join(name), "text").unwrap();
        set_mode(&inheriting.join(name), 0o644);
        assert_eq!(read(&inheriting.join(name)), Err(std::io::ErrorKind::PermissionDenied), "{name}");
    }
}

#[test]
fn bits_that_were_set_after_a_stranger_opened_the_file_end_with_a_write() {
    for passthrough in [true, false] {
        let Some(site) = Site::with(&MountSettings { passthrough, ..MountSettings::default() }) else {
            return;
        };
        let file = site.upper("program");
        fs::write(&file, "x").unwrap();
        set_mode(&file, 0o666);
        let mut opened = as_nobody(&[], || File::options().append(true).open(&file).unwrap());
        set_mode(&file, 0o6777);
        as_nobody(&[], || opened.write_all(b"z").unwrap());
        assert_eq!(mode(&file), 0o777, "passthrough: {passthrough}");
    }
}

/// An image that is mounted there until this is dropped.
struct LoopMount<'a>(&'a Path);

impl Drop for LoopMount<'_> {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn blocks_that_are_reserved_for_root_stay_reserved() {
    if !possible() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (image, lower, upper) = (dir.path().join("image"), dir.path().join("lower"), dir.path().join("mnt"));
    set_mode(dir.path(), 0o755);
    [&lower, &upper].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let formatted = run("mkfs.ext4", &["-q".as_ref(), "-m".as_ref(), "30".as_ref(), image.as_ref()]);
    if !formatted || !run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), lower.as_ref()]) {
        return skipped("needs mkfs.ext4 and loop devices");
    }
    let _image = LoopMount(&lower);
    for passthrough in [true, false] {
        let mounted =
            usenetfs::mount(&lower, &upper, &MountSettings { passthrough, ..MountSettings::default() })
                .unwrap();
        let file = upper.join("filling");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o666);
        let ended = as_nobody(&[], || {
            let mut file = File::options().append(true).open(&file).unwrap();
            loop {
                if let Err(error) = file.write_all(&[1; 64 << 10]).and_then(|()| file.sync_all()) {
                    return error.raw_os_error();
                }
            }
        });
        assert_eq!(ended, Some(Errno::NOSPC.raw_os_error()));
        let left = rustix::fs::statvfs(&lower).unwrap();
        assert!(
            left.f_bfree * 5 > left.f_blocks,
            "passthrough: {passthrough}, {} of {}",
            left.f_bfree,
            left.f_blocks
        );
        fs::remove_file(&file).unwrap();
        drop(mounted);
    }
}

#[test]
fn a_second_mount_at_the_same_point_is_refused() {
    let Some(site) = Site::new() else { return };
    let error = usenetfs::mount(&site.lower(""), &site.upper(""), &MountSettings::default()).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("is mounted there already"), "{error}");
}
