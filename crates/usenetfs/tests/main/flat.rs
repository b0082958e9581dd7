//! Managed directories look flat: names, listings, links, renames, the bit.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime};

use netnews::bucket::BucketScheme;
use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom};
use usenetfs::{DirectoryForm, MountSettings};

use crate::site::{Site, listed, manage, sorted};

fn exists(path: &std::path::Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[test]
fn names_are_in_their_buckets_below_and_flat_above() {
    let Some(site) = Site::new() else { return };
    site.make_managed("cancel");
    let long = "1234567890123456789012345";
    for name in ["123456", "987", "0987", long, "5", "foo", "aaa", "345", ".overview"] {
        fs::write(site.upper("cancel").join(name), name).unwrap();
    }
    fs::create_dir(site.upper("cancel/2600")).unwrap();
    fs::create_dir(site.upper("cancel/sub")).unwrap();
    for below in [
        "345/123456",
        "098/987",
        "098/0987",
        "234/1234567890123456789012345",
        "000/5",
        "aaa/foo",
        "aaa/aaa",
        "034/345",
        "aaa/.overview",
        "aaa/2600",
        "aaa/sub",
    ] {
        assert!(exists(&site.lower("cancel").join(below)), "{below}");
    }
    let mut all = vec!["123456", "987", "0987", long, "5", "foo", "aaa", "345", ".overview", "2600", "sub"];
    all.sort_unstable();
    assert_eq!(sorted(&site.upper("cancel")), all);
    // No bucket is there, by whatever name.
    for bucket in ["098", "000", "234", "034", "cancel"] {
        assert!(!exists(&site.upper("cancel").join(bucket)), "{bucket}");
    }
    assert_eq!(fs::read_to_string(site.upper("cancel/345")).unwrap(), "345");
    let modes =
        ["", "aaa", "345"].map(|dir| fs::metadata(site.lower("cancel").join(dir)).unwrap().mode() & 0o7777);
    assert_eq!(modes, [0o4755, 0o755, 0o755], "the bit is on the managed directory alone");
    assert_eq!(fs::metadata(site.upper("cancel")).unwrap().nlink(), 4, "two, and its two subdirectories");
    // The parent of what is in a bucket is the managed directory, and its parent the one above.
    fs::write(site.upper("cancel/sub/7"), "x").unwrap();
    assert!(exists(&site.upper("cancel/sub/../123456")) && exists(&site.upper("cancel/../cancel/sub/7")));
    let ls = Command::new("ls").args(["-ai1"]).arg(site.upper("cancel/sub")).output().unwrap();
    let parent = fs::metadata(site.upper("cancel")).unwrap().ino();
    assert!(String::from_utf8(ls.stdout).unwrap().contains(&format!("{parent} ..")), "of the flat parent");
}

#[test]
fn a_listing_is_in_order_and_restarts_at_each_entry() {
    let Some(site) = Site::new() else { return };
    site.make_managed("g");
    let numbers: Vec<u32> = (1..=3000).map(|n| n * 7 % 20_011).collect();
    for n in &numbers {
        File::create(site.upper("g").join(n.to_string())).unwrap();
    }
    fs::write(site.upper("g/index"), "").unwrap();
    let names = listed(&site.upper("g"));
    assert_eq!(names.len(), 3001);
    assert_eq!(names[0], "index", "aaa comes first");
    let buckets: Vec<u32> = names[1..].iter().map(|n| n.parse::<u32>().unwrap() / 10 % 1000).collect();
    assert!(buckets.is_sorted());
    // With positions, and others at work.
    let dir = rustix::fs::open(site.upper("g"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let read_from = |position: u64, count: usize| {
        rustix::fs::seek(&dir, SeekFrom::Start(position)).unwrap();
        let mut buffer = vec![std::mem::MaybeUninit::uninit(); 4096];
        let mut raw = RawDir::new(&dir, &mut buffer);
        let mut found = Vec::new();
        while found.len() < count
            && let Some(entry) = raw.next()
        {
            let entry = entry.unwrap();
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.next_entry_cookie()));
        }
        found
    };
    let whole = read_from(0, usize::MAX);
    assert_eq!(whole.len(), 3003);
    assert_eq!([&whole[0].0, &whole[1].0], [".", ".."]);
    assert_eq!(whole.iter().map(|(_, position)| *position).collect::<BTreeSet<_>>().len(), 3003);
    for at in (0..whole.len() - 5).step_by(211) {
        assert_eq!(read_from(whole[at].1, 4), whole[at + 1..at + 5], "after {at}");
    }
    for n in numbers.iter().step_by(3) {
        fs::remove_file(site.upper("g").join(n.to_string())).unwrap();
        fs::write(site.upper("g").join((n + 100_000).to_string()), "").unwrap();
    }
    let stay: BTreeSet<String> =
        numbers.iter().enumerate().filter(|(at, _)| at % 3 != 0).map(|(_, n)| n.to_string()).collect();
    let rest = read_from(whole[1000].1, usize::MAX);
    let later: Vec<_> =
        whole[1001..].iter().map(|(name, _)| name).filter(|name| stay.contains(*name)).collect();
    let found: Vec<_> = rest.iter().map(|(name, _)| name).filter(|name| stay.contains(*name)).collect();
    assert_eq!(found, later, "what stayed is listed once, in order");
}

#[test]
fn links_and_renames_go_over_every_border() {
    let Some(site) = Site::new() else { return };
    site.make_managed("a");
    site.make_managed("b");
    fs::create_dir(site.upper("plain")).unwrap();
    fs::write(site.upper("a/100"), "text").unwrap();
    for to in ["a/20000", "b/1", "plain/1", "b/foo"] {
        fs::hard_link(site.upper("a/100"), site.upper(to)).unwrap();
    }
    let meta = fs::metadata(site.upper("a/100")).unwrap();
    assert_eq!(meta.nlink(), 5);
    assert_eq!(fs::metadata(site.upper("plain/1")).unwrap().ino(), meta.ino());
    assert_eq!(fs::metadata(site.lower("b/000/1")).unwrap().ino(), meta.ino(), "the lower file's own number");
    for (from, to) in
        [("plain/1", "a/77777"), ("a/77777", "b/bar"), ("b/bar", "plain/9"), ("a/100", "a/20000")]
    {
        fs::rename(site.upper(from), site.upper(to)).unwrap();
        assert!(from == "a/100" || !exists(&site.upper(from)), "{from}");
        assert_eq!(fs::read_to_string(site.upper(to)).unwrap(), "text");
    }
    assert!(exists(&site.upper("a/100")), "two names of one file both stay");
    // Directories, managed ones too, and onto an empty managed one.
    site.make_managed("a/sub");
    fs::write(site.upper("a/sub/5"), "five").unwrap();
    site.make_managed("plain/empty");
    fs::write(site.upper("plain/empty/1"), "").unwrap();
    assert!(fs::rename(site.upper("a/sub"), site.upper("plain/empty")).is_err());
    fs::remove_file(site.upper("plain/empty/1")).unwrap();
    fs::rename(site.upper("a/sub"), site.upper("plain/empty")).unwrap();
    assert_eq!(fs::read_to_string(site.upper("plain/empty/5")).unwrap(), "five");
    assert_eq!(fs::read_to_string(site.lower("plain/empty/000/5")).unwrap(), "five");
    fs::rename(site.upper("plain/empty"), site.upper("b/2600")).unwrap();
    assert_eq!(fs::read_to_string(site.upper("b/2600/5")).unwrap(), "five");
    assert!(exists(&site.lower("b/aaa/2600")));
    assert!(File::create_new(site.upper("b/2600")).is_err(), "the name is taken");
    assert!(fs::create_dir(site.upper("b/1")).is_err());
    // Empty again: buckets do not count.
    assert!(fs::remove_dir(site.upper("b")).is_err());
    fs::remove_file(site.upper("b/2600/5")).unwrap();
    fs::remove_dir(site.upper("b/2600")).unwrap();
    for name in sorted(&site.upper("b")) {
        fs::remove_file(site.upper("b").join(name)).unwrap();
    }
    fs::remove_dir(site.upper("b")).unwrap();
    assert!(!exists(&site.lower("b")));
}

#[test]
fn chmod_manages_an_empty_directory_and_its_times_show_its_changes() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.upper("g")).unwrap();
    manage(&site.upper("g"));
    fs::write(site.upper("g/1234"), "bucket").unwrap();
    assert_eq!(fs::read_to_string(site.lower("g/123/1234")).unwrap(), "bucket");
    // Below the mount, as the paper's administrator did it: nothing is moved.
    fs::set_permissions(site.lower("g"), fs::Permissions::from_mode(0o755)).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(fs::read_to_string(site.upper("g/123/1234")).unwrap(), "bucket");
    manage(&site.lower("g"));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(fs::read_to_string(site.upper("g/1234")).unwrap(), "bucket");
    let old = SystemTime::now() - Duration::from_secs(1000);
    let set_old = || File::open(site.upper("g")).unwrap().set_modified(old).unwrap();
    let is_new =
        || fs::metadata(site.upper("g")).unwrap().modified().unwrap() > old + Duration::from_secs(900);
    set_old();
    assert!(!is_new());
    fs::write(site.upper("g/1"), "").unwrap();
    assert!(is_new());
    set_old();
    fs::remove_file(site.upper("g/1")).unwrap();
    assert!(is_new());
}

#[test]
fn every_scheme_works_and_the_root_can_be_managed() {
    for scheme in BucketScheme::ALL {
        let Some(mut site) = Site::with(&MountSettings { scheme, ..MountSettings::default() }) else {
            return;
        };
        manage(&site.upper(""));
        for n in (1..500).chain([123_456]) {
            fs::write(site.upper(&n.to_string()), n.to_string()).unwrap();
        }
        fs::write(site.upper("name"), "").unwrap();
        assert!(exists(&site.lower(&format!("{scheme}/123456"))));
        assert_eq!(listed(&site.upper("")).len(), 501);
        site.unmount();
        site.mount(&MountSettings {
            scheme,
            passthrough: false,
            keep: Duration::ZERO,
            ..MountSettings::default()
        });
        for n in 1..500 {
            assert_eq!(fs::read_to_string(site.upper(&n.to_string())).unwrap(), n.to_string());
            fs::remove_file(site.upper(&n.to_string())).unwrap();
        }
        assert_eq!(sorted(&site.upper("")), ["123456", "name"]);
    }
}

#[test]
fn a_tree_is_refused_with_another_scheme() {
    let pairs = MountSettings { scheme: BucketScheme::Pairs, ..MountSettings::default() };
    let Some(mut site) = Site::with(&MountSettings { read_only: true, ..MountSettings::default() }) else {
        return;
    };
    site.unmount();
    // Nothing was noted of a tree that could not be changed.
    site.mount(&pairs);
    site.make_managed("g");
    fs::write(site.upper("g/123456"), "").unwrap();
    site.unmount();
    let refused = usenetfs::mount(&site.lower(""), &site.upper(""), &MountSettings::default());
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("use --scheme 34/56"), "{refused}");
    let convert =
        |scheme| usenetfs::convert(&site.lower("g"), DirectoryForm::Flat, scheme, false, &mut |_, _| {});
    assert!(convert(BucketScheme::Tens).unwrap_err().to_string().contains("use --scheme 34/56"));
    convert(BucketScheme::Pairs).unwrap();
    assert!(exists(&site.lower("g/123456")));
}

#[test]
fn open_files_live_on_without_names_and_after_renames() {
    for passthrough in [true, false] {
        let Some(site) = Site::with(&MountSettings { passthrough, ..MountSettings::default() }) else {
            return;
        };
        site.make_managed("g");
        let mut file =
            File::options().read(true).write(true).create_new(true).open(site.upper("g/1")).unwrap();
        assert_eq!(site.mounted().passes_through(), passthrough, "as this kernel can");
        file.write_all(b"one").unwrap();
        fs::remove_file(site.upper("g/1")).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        fs::write(site.upper("g/1"), "two").unwrap();
        file.write_all(b" more").unwrap();
        file.sync_all().unwrap();
        let mut text = vec![0; 8];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(text, b"one more");
        file.set_len(3).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().mode() & 0o777), (3, 0o600));
        let mut other = File::open(site.upper("g/1")).unwrap();
        fs::rename(site.upper("g/1"), site.upper("g/99999")).unwrap();
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        assert_eq!(text, "two");
        // A working directory that is removed.
        fs::create_dir(site.upper("g/dir")).unwrap();
        let dir = rustix::fs::openat(CWD, site.upper("g/dir"), OFlags::PATH, Mode::empty()).unwrap();
        fs::remove_dir(site.upper("g/dir")).unwrap();
        assert_eq!(rustix::fs::fstat(&dir).unwrap().st_nlink, 0);
        // Held open while the mount goes.
        drop(site);
        assert_eq!(file.metadata().unwrap().len(), 3);
    }
}

#[test]
fn memory_maps_and_programs_work() {
    let Some(site) = Site::new() else { return };
    site.make_managed("g");
    fs::copy("/bin/true", site.upper("g/1")).unwrap();
    assert!(Command::new(site.upper("g/1")).status().unwrap().success());
    let python = "import mmap,sys\nf=open(sys.argv[1],'w+b')\nf.truncate(8192)\nm=mmap.mmap(f.fileno(),8192)\n\
        m[4096:4101]=b'hello'\nm.flush()\nm.close()\nassert open(sys.argv[1],'rb').read()[4096:4101]==b'hello'\n";
    if !std::path::Path::new("/usr/bin/python3").exists() {
        assert!(std::env::var_os("CI").is_none(), "python3 is missing");
        return;
    }
    assert!(Command::new("python3").args(["-c", python]).arg(site.upper("g/2")).status().unwrap().success());
    assert_eq!(&fs::read(site.lower("g/000/2")).unwrap()[4096..4101], b"hello");
}

/// Names are read from the lower directory before they are shown. A removed file's inode may belong to
/// another file by then, which the kernel must not take for the removed one. Shows a fault only where the
/// lower file system uses numbers of inodes again.
#[test]
fn file_removed_while_it_is_listed_spoils_no_other() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.upper("g")).unwrap();
    fs::create_dir(site.upper("h")).unwrap();
    for n in 0..1000 {
        File::create(site.upper("g").join(n.to_string())).unwrap();
    }
    let dir = rustix::fs::open(site.upper("g"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut raw = RawDir::new(&dir, &mut buffer);
    let mut names: Vec<String> = Vec::new();
    let mut held = Vec::new();
    while let Some(entry) = raw.next() {
        names.push(entry.unwrap().file_name().to_string_lossy().into_owned());
        if names.len() == 5 {
            for n in (0..1000).filter(|n| !names.contains(&n.to_string())) {
                fs::remove_file(site.upper("g").join(n.to_string())).unwrap();
            }
            held.extend((0..1000).map(|n| File::create_new(site.upper("h").join(n.to_string())).unwrap()));
        }
    }
    assert_eq!(held.len(), 1000);
    for mut file in held {
        assert_eq!(file.metadata().unwrap().nlink(), 1);
        file.write_all(b"text").unwrap();
    }
}
