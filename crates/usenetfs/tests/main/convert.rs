//! Directories made managed and flat again: offline, in use, and killed at every step.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use netnews::bucket::BucketScheme;
use rustix::fs::{Mode, OFlags, RawDir};
use tempfile::TempDir;
use usenetfs::{ConversionReport, ConvertError, DirectoryForm, MountSettings, convert};

use crate::site::{Site, Stop, possible, sorted};

/// Variable that names the directory for the other process to convert.
const DIR: &str = "USENETFS_TEST_CONVERT";

fn to(dir: &Path, form: DirectoryForm) -> Result<ConversionReport, ConvertError> {
    convert(dir, form, BucketScheme::Tens, false, &mut |_, _| {})
}

/// A group's directory with names of every kind, those of buckets among them.
fn fill(dir: &Path) {
    let names = (95..400).chain([1, 9, 999, 1000, 123_456]).map(|n: u32| n.to_string());
    for name in names.chain(["000", "034", "0987", "aaa", "index", ".overview"].map(str::to_owned)) {
        fs::write(dir.join(&name), &name).unwrap();
    }
    for sub in ["2600", "sub"] {
        fs::create_dir(dir.join(sub)).unwrap();
        fs::write(dir.join(sub).join("1"), sub).unwrap();
    }
}

/// Returns the names in it, with the contents of the files.
fn seen(dir: &Path) -> BTreeMap<String, String> {
    let text = |name: &String| {
        fs::read_to_string(dir.join(name)).unwrap_or_else(|_| {
            fs::read_to_string(dir.join(name).join("1")).unwrap_or_else(|error| panic!("{name}: {error}"))
        })
    };
    sorted(dir).into_iter().map(|name| (name.clone(), text(&name))).collect()
}

#[test]
fn a_directory_is_converted_both_ways_and_looks_the_same() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.lower("g")).unwrap();
    fill(&site.lower("g"));
    let before = seen(&site.lower("g"));
    let planned =
        convert(&site.lower("g"), DirectoryForm::Managed, BucketScheme::Tens, true, &mut |_, _| {}).unwrap();
    assert_eq!(seen(&site.lower("g")), before, "a dry run changes nothing");
    let mut last = 0;
    let mut progress = |done, total| {
        assert!(done >= last && done <= total && total == planned.moved);
        last = done;
    };
    let done =
        convert(&site.lower("g"), DirectoryForm::Managed, BucketScheme::Tens, false, &mut progress).unwrap();
    assert_eq!(done, planned, "each entry is counted once");
    assert_eq!(seen(&site.upper("g")), before);
    assert!(site.lower("g/000/000").exists() && site.lower("g/003/034").exists());
    assert!(site.lower("g/aaa/2600/1").exists() && site.lower("g/aaa/aaa").exists());
    assert_eq!(to(&site.lower("g"), DirectoryForm::Managed).unwrap().moved, 0, "done already");
    // Back again, by its path on the mount.
    assert_eq!(to(&site.upper("g"), DirectoryForm::Flat).unwrap().moved, planned.moved);
    assert_eq!(seen(&site.lower("g")), before);
    assert_eq!(seen(&site.upper("g")), before);
}

#[test]
fn a_tree_that_is_mounted_over_itself_is_converted_through_the_mount() {
    if !possible() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let group = dir.path().join("a/b");
    fs::create_dir_all(&group).unwrap();
    fill(&group);
    let before = seen(&group);
    let mounted = usenetfs::mount(dir.path(), dir.path(), &MountSettings::default()).unwrap();
    to(&group, DirectoryForm::Managed).unwrap();
    assert_eq!(seen(&group), before);
    drop(mounted);
    assert!(group.join("345").is_dir() && group.join("034/345").exists(), "as it is stored");
    to(&group, DirectoryForm::Flat).unwrap();
    assert_eq!(seen(&group), before);
}

#[test]
fn what_could_not_be_told_from_buckets_is_refused() {
    let Some(site) = Site::new() else { return };
    fs::create_dir_all(site.lower("g/345")).unwrap();
    assert!(
        matches!(to(&site.lower("g"), DirectoryForm::Managed), Err(ConvertError::Names(names)) if names == ["345"])
    );
    fs::rename(site.lower("g/345"), site.lower("g/aaa")).unwrap();
    assert!(matches!(to(&site.lower("g"), DirectoryForm::Managed), Err(ConvertError::Names(_))));
    assert_eq!(sorted(&site.lower("g")), ["aaa"], "as it was");
    site.make_managed("m");
    fs::create_dir(site.upper("m/345")).unwrap();
    assert!(matches!(to(&site.lower("m"), DirectoryForm::Flat), Err(ConvertError::Names(_))));
    fs::remove_dir(site.upper("m/345")).unwrap();
    fs::write(site.upper("m/123456"), "").unwrap();
    // A copy without attributes.
    rustix::fs::removexattr(site.lower(""), "user.usenetfs.scheme").unwrap();
    let other = |form| convert(&site.lower("m"), form, BucketScheme::Pairs, false, &mut |_, _| {});
    assert!(matches!(other(DirectoryForm::Flat), Err(ConvertError::OtherScheme(..))));
    assert!(matches!(other(DirectoryForm::Managed), Err(ConvertError::OtherScheme(..))));
    assert!(site.lower("m/345/123456").exists());
    // A name that occurs twice, after a write below the mount.
    fs::write(site.lower("m/123456"), "other").unwrap();
    assert!(matches!(to(&site.lower("m"), DirectoryForm::Managed), Err(ConvertError::Twice(_))));
    fs::remove_file(site.lower("m/123456")).unwrap();
    to(&site.lower("m"), DirectoryForm::Managed).unwrap();
    assert_eq!(sorted(&site.upper("m")), ["123456"]);
}

/// Not a test by itself: the process that converts.
#[test]
#[ignore = "is started by other tests"]
fn converts_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let form = if std::env::var_os("USENETFS_TEST_FLAT").is_some() {
        DirectoryForm::Flat
    } else {
        DirectoryForm::Managed
    };
    assert!(to(&dir, form).is_ok());
}

/// Converts in another process, which kills itself at a step; whether it got there.
fn killed_at(dir: &Path, form: DirectoryForm, step: u64) -> bool {
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "convert::converts_until_it_is_killed", "--ignored"]).env(DIR, dir);
    other.env("USENETFS_KILL_AT", format!("convert:{step}")).stdout(Stdio::null()).stderr(Stdio::null());
    if form == DirectoryForm::Flat {
        other.env("USENETFS_TEST_FLAT", "1");
    }
    let status = other.status().unwrap();
    assert!(status.success() || status.signal() == Some(9), "{form:?} {step}: {status}");
    !status.success()
}

fn killed_every(step_by: usize) {
    let Some(site) =
        Site::with(&MountSettings { keep: std::time::Duration::ZERO, ..MountSettings::default() })
    else {
        return;
    };
    let dir = site.lower("g");
    fs::create_dir(&dir).unwrap();
    fill(&dir);
    let before = seen(&dir);
    for step in (1..).step_by(step_by) {
        let was_killed = killed_at(&dir, DirectoryForm::Managed, step);
        assert_eq!(seen(&site.upper("g")), before, "to managed, step {step}");
        to(&dir, if step % 2 == 0 { DirectoryForm::Flat } else { DirectoryForm::Managed }).unwrap();
        assert_eq!(seen(&site.upper("g")), before, "after step {step}");
        to(&dir, DirectoryForm::Managed).unwrap();
        let was_killed_too = killed_at(&dir, DirectoryForm::Flat, step);
        assert_eq!(seen(&site.upper("g")), before, "to flat, step {step}");
        to(&dir, if step % 3 == 0 { DirectoryForm::Managed } else { DirectoryForm::Flat }).unwrap();
        assert_eq!(seen(&site.upper("g")), before);
        to(&dir, DirectoryForm::Flat).unwrap();
        assert_eq!(seen(&dir), before, "flat again after step {step}");
        if !was_killed && !was_killed_too {
            return;
        }
    }
}

#[test]
fn killed_at_some_steps_nothing_is_lost() {
    killed_every(97);
}

#[test]
#[ignore = "long: make soak"]
fn killed_at_every_step_nothing_is_lost() {
    killed_every(1);
}

#[test]
fn a_directory_in_use_is_converted_and_nobody_notices() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.upper("g")).unwrap();
    for n in 50..1500 {
        fs::write(site.upper("g").join(n.to_string()), n.to_string()).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (site, stop) = (&site, &stop);
            scope.spawn(move || {
                for n in (2000 + thread..).step_by(2).take_while(|_| !stop.load(Ordering::Acquire)) {
                    let path = site.upper("g").join(n.to_string());
                    fs::File::create_new(&path).unwrap();
                    let old = 50 + n * 7 % 1450;
                    let text = fs::read_to_string(site.upper("g").join(old.to_string()));
                    assert_eq!(text.unwrap(), old.to_string(), "an old article");
                    let next = site.upper("g").join((n + 1_000_000).to_string());
                    fs::rename(&path, &next).unwrap();
                    fs::hard_link(&next, &path).unwrap();
                    fs::remove_file(&path).unwrap();
                    fs::remove_file(&next).unwrap();
                }
            });
        }
        let lister = scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                let old =
                    sorted(&site.upper("g")).into_iter().filter(|name| name.parse::<u64>().unwrap() < 1500);
                assert_eq!(old.count(), 1450, "each is listed once");
            }
        });
        let stopping = Stop(&stop);
        for _ in 0..2 {
            to(&site.upper("g"), DirectoryForm::Managed).unwrap();
            assert!(site.lower("g/003/34").exists() || site.lower("g/005/50").exists());
            to(&site.upper("g"), DirectoryForm::Flat).unwrap();
            assert!(site.lower("g/50").exists());
        }
        drop(stopping);
        lister.join().unwrap();
    });
    assert_eq!(sorted(&site.lower("g")).len(), 1450);
}

#[test]
fn a_listing_that_has_begun_is_whole_though_everything_moves() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.upper("g")).unwrap();
    for n in 0..3000 {
        fs::write(site.upper("g").join(n.to_string()), "").unwrap();
    }
    for form in [DirectoryForm::Managed, DirectoryForm::Flat] {
        let mut listing = fs::read_dir(site.upper("g")).unwrap();
        let mut names: Vec<_> = listing.by_ref().take(10).map(|entry| entry.unwrap().file_name()).collect();
        let mut last = (0, 0);
        let mut progress = |done, total| {
            assert!(done >= last.0 && done <= total, "{done} of {total} after {last:?}");
            last = (done, total);
        };
        assert!(
            convert(&site.upper("g"), form, BucketScheme::Tens, false, &mut progress).unwrap().moved >= 3000
        );
        names.extend(listing.map(|entry| entry.unwrap().file_name()));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3000, "{form:?}");
    }
}

/// The kernel asks again for what did not fit into the caller's buffer, from an earlier position than where
/// the last answer ended.
#[test]
fn listing_with_a_small_buffer_is_whole_though_everything_moves() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.upper("g")).unwrap();
    for n in 0..3000 {
        fs::write(site.upper("g").join(n.to_string()), "").unwrap();
    }
    for form in [DirectoryForm::Managed, DirectoryForm::Flat] {
        let dir =
            rustix::fs::open(site.upper("g"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut buffer = [MaybeUninit::uninit(); 128];
        let mut raw = RawDir::new(&dir, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = raw.next() {
            names.push(entry.unwrap().file_name().to_owned());
            if names.len() == 12 {
                assert!(to(&site.upper("g"), form).unwrap().moved >= 3000);
            }
        }
        assert_eq!(names.len(), 3002, "{form:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3002, "{form:?}");
    }
}

#[test]
fn what_the_mount_cannot_convert_it_tells() {
    let Some(site) = Site::new() else { return };
    site.make_managed("m");
    fs::write(site.upper("m/123456"), "").unwrap();
    fs::write(site.lower("m/123456"), "other").unwrap();
    let twice = to(&site.upper("m"), DirectoryForm::Managed);
    assert!(matches!(&twice, Err(ConvertError::Twice(names)) if names == &["123456"]), "{twice:?}");
    fs::remove_file(site.lower("m/123456")).unwrap();
    assert_eq!(to(&site.upper("m"), DirectoryForm::Flat).unwrap().moved, 1);
    assert_eq!(sorted(&site.lower("m")), ["123456"]);
    fs::create_dir(site.upper("m/345")).unwrap();
    assert!(
        matches!(to(&site.upper("m"), DirectoryForm::Managed), Err(ConvertError::Names(names)) if names == ["345"])
    );
    let asked = |value: &[u8]| {
        let name = "user.usenetfs.conversion";
        rustix::fs::setxattr(site.upper("m"), name, value, rustix::fs::XattrFlags::empty())
    };
    assert_eq!(asked(b"round"), Err(rustix::io::Errno::INVAL));
    assert_eq!(asked(b"managed"), Err(rustix::io::Errno::INVAL), "what has the name of a bucket");
}

#[test]
fn large_directories_are_suggested() {
    let Some(site) = Site::new() else { return };
    for (dir, files) in [("big", 300), ("small", 20), ("big/larger", 400)] {
        fs::create_dir(site.upper(dir)).unwrap();
        for n in 0..files {
            fs::write(site.upper(dir).join(n.to_string()), "").unwrap();
        }
    }
    site.make_managed("done");
    let found = usenetfs::suggest(&site.lower(""), BucketScheme::Tens, 100, &mut |_| {}).unwrap();
    let of = |at: usize| (found.candidates[at].path.to_str().unwrap(), found.candidates[at].files);
    assert_eq!((of(0), of(1), found.candidates.len()), (("big/larger", 400), ("big", 300), 2));
    assert_eq!((found.candidates[0].buckets, found.files, found.managed), (40, 720, 1));
}

#[test]
fn copies_that_lost_the_mark_or_got_that_of_another_directory_are_mended() {
    let Some(site) = Site::new() else { return };
    let set_mode = |dir: &Path, mode| fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    for form in [DirectoryForm::Managed, DirectoryForm::Flat] {
        let name = form.name();
        fs::create_dir(site.lower(name)).unwrap();
        fill(&site.lower(name));
        let expected = seen(&site.lower(name));
        // Flat contents under the mark.
        set_mode(&site.lower(name), 0o4755);
        assert_ne!(sorted(&site.upper(name)).len(), expected.len());
        to(&site.upper(name), form).unwrap();
        assert_eq!(seen(&site.upper(name)), expected, "{name}");
        // Buckets without the mark.
        to(&site.lower(name), DirectoryForm::Managed).unwrap();
        set_mode(&site.lower(name), 0o755);
        to(&site.lower(name), form).unwrap();
        let is_managed = fs::metadata(site.lower(name)).unwrap().permissions().mode() & 0o4000 != 0;
        assert_eq!(
            (seen(&site.upper(name)), is_managed),
            (expected, form == DirectoryForm::Managed),
            "{name}"
        );
        fs::remove_dir_all(site.lower(name)).unwrap();
    }
}

#[test]
fn subgroups_with_the_names_of_buckets_are_not_taken_for_a_copy() {
    let Some(site) = Site::new() else { return };
    for number in ["000", "001"] {
        fs::create_dir_all(site.lower("g").join(number)).unwrap();
        fs::write(site.lower("g").join(number).join("1"), number).unwrap();
    }
    assert!(
        matches!(to(&site.lower("g"), DirectoryForm::Managed), Err(ConvertError::Names(names)) if names.len() == 2)
    );
    assert_eq!(to(&site.lower("g"), DirectoryForm::Flat).unwrap().moved, 0);
}
