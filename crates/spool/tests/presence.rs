//! Files that are not there, and disks without room: told before anything is made, and nothing left behind.

use crate::news::*;
use spool::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn refused(disk: &SimDisk, config: &SpoolConfig) -> String {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Spool::open(disk, config.clone(), &()).unwrap_err().to_string()
}

/// Whether there is such a file.
fn has(disk: &dyn Disk, path: &str) -> bool {
    disk.open(Path::new(path), Open::ReadOnly).is_ok()
}

/// A spool that was used and closed.
fn used(disk: &SimDisk, config: &SpoolConfig) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (spool, _) = open(&disk, config);
    add_groups(&spool, 2);
    commit(&spool, &(0..20).map(|n| News::new(n, 2, 900)).collect::<Vec<_>>()).unwrap();
    spool.close().unwrap();
}

#[test]
fn a_buffer_larger_than_its_disk_is_refused_before_anything_is_made() {
    let disk = SimDisk::new();
    disk.set_free_bytes(1 << 20);
    let config = config("/s", &[("a", 600 << 10), ("b", 600 << 10)]);
    let text = refused(&disk, &config);
    assert!(text.contains("the disk is too small: 1.") && text.contains(" MiB needed"), "{text}");
    assert!(text.contains("buffer \"a\" 600.00 KiB") && text.contains("but 1.00 MiB free"), "{text}");
    for path in ["/s/a.cyc", "/s/b.cyc", "/s/secret"] {
        assert!(!has(&disk, path), "{path}");
    }
    disk.set_free_bytes(1 << 30);
    used(&disk, &config);
    // What is there already needs no more room.
    disk.set_free_bytes(0);
    used(&disk, &config);
}

#[test]
fn on_the_real_disk_too() {
    let dir = std::env::temp_dir().join(format!("newsreel-presence-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let free = disk.file_system(&dir).unwrap().free_bytes;
    // Each fits, both do not.
    let config = config(dir.to_str().unwrap(), &[("a", free / 2), ("b", free)]);
    let text = Spool::open(disk.clone(), config, &()).unwrap_err().to_string();
    assert!(text.contains("the disk is too small"), "{text}");
    assert!(!dir.join("a.cyc").exists() && !dir.join("b.cyc").exists());
    // An ancestor's room is that of what does not exist yet.
    assert_eq!(disk.file_system(&dir.join("x/y")).unwrap().id, disk.file_system(&dir).unwrap().id);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn wherever_making_a_spool_fails_no_buffer_stays_and_it_can_be_made_again() {
    let config = config("/s", &[("a", 200_000), ("b", 200_000)]);
    let mut steps = 0;
    loop {
        let disk = SimDisk::new();
        disk.fail_at(disk.steps() + steps, SimDisk::ENOSPC, false);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let opened = Spool::open(shared, config.clone(), &());
        disk.stop_failing();
        let made = has(&disk, "/s/a.cyc") || has(&disk, "/s/b.cyc");
        match opened {
            Ok(_) => break,
            // Once the journal names the buffers they must stay; the checkpoint comes after it.
            Err(error) => assert!(!made || error.to_string().contains("checkpoint"), "{steps}: {error}"),
        }
        used(&disk, &config);
        steps += 1;
    }
    assert!(steps > 10, "{steps}");
}

#[test]
fn a_buffer_that_was_there_is_missed() {
    let disk = SimDisk::new();
    let mut config = config("/s", &[("a", 200_000), ("b", 200_000)]);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    // Nothing was ever stored.
    let (spool, _) = open(&shared, &config);
    spool.close().unwrap();
    drop(spool);
    disk.remove(Path::new("/s/b.cyc")).unwrap();
    let text = refused(&disk, &config);
    assert!(text.contains("buffer \"b\" is missing: there is no file /s/b.cyc; mount its disk"), "{text}");
    assert!(!has(&disk, "/s/b.cyc"));
    // The same without checkpoint, by the journal.
    for name in disk.list(Path::new("/s/index")).unwrap() {
        disk.remove(&PathBuf::from("/s/index").join(name)).unwrap();
    }
    let text = refused(&disk, &config);
    assert!(text.contains("buffer \"b\" is missing"), "{text}");
    // As it says, a rebuild goes on without it.
    rebuild(shared.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&shared, &config);
    spool.close().unwrap();
    drop(spool);
    // A new buffer is made, but no directory for it: that would be the one its disk is mounted on.
    config.buffers.push(BufferConfig {
        name: "c".into(),
        path: "/disk2/c.cyc".into(),
        ..config.buffers[0].clone()
    });
    config.classes[0].buffers.push("c".into());
    let text = refused(&disk, &config);
    assert!(text.contains("buffer \"c\" has no directory: there is no /disk2; mount its disk"), "{text}");
    assert!(!disk.has_dir(Path::new("/disk2")).unwrap());
    let rebuilt = rebuild(shared.clone(), config.clone(), &()).unwrap_err().to_string();
    assert!(rebuilt.contains("there is no /disk2"), "{rebuilt}");
    disk.create_dir(Path::new("/disk2")).unwrap();
    let (spool, _) = open(&shared, &config);
    assert_eq!(spool.buffers().unwrap().len(), 3);
    // Also while serving.
    let add = BufferConfig { name: "d".into(), path: "/disk3/d.cyc".into(), ..config.buffers[0].clone() };
    let text = spool.add_buffer(&add, "all", &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("there is no /disk3"), "{text}");
    let text =
        spool.move_buffer("c", Path::new("/disk3/c.cyc"), &(), &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("there is no /disk3"), "{text}");
    disk.set_free_bytes(100_000);
    let add = BufferConfig { path: "/disk2/d.cyc".into(), ..add };
    let text = spool.add_buffer(&add, "all", &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("195.31 KiB needed") && text.contains("97.66 KiB free"), "{text}");
    let text = spool.grow_buffer("c", 400_000, &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("195.31 KiB needed"), "{text}");
    spool.close().unwrap();
}

/// The mount point of a disk that is not mounted has nothing of a spool; what is left of one is enough.
#[test]
fn a_spool_exists_as_soon_as_anything_of_it_does() {
    let disk = SimDisk::new();
    let config = config("/s", &[("a", 200_000)]);
    let is_there = |disk: &SimDisk| exists(disk, &config.dir).unwrap();
    disk.create_dir(Path::new("/s/lists")).unwrap();
    assert!(!is_there(&disk));
    used(&disk, &config);
    assert!(is_there(&disk));
    for keep in ["/s/secret", "/s/journal", "/s/index"] {
        let other = SimDisk::new();
        other.create_dir(Path::new("/s/lists")).unwrap();
        assert!(!is_there(&other));
        if keep == "/s/secret" {
            other.open(Path::new(keep), Open::Create).unwrap();
        } else {
            other.create_dir(Path::new(keep)).unwrap();
        }
        assert!(is_there(&other), "{keep}");
    }
}

/// Whatever cannot be read, the rest is looked at.
#[test]
fn looking_goes_on_after_what_cannot_be_read() {
    let dir = std::env::temp_dir().join(format!("newsreel-inspect-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let good = config(dir.to_str().unwrap(), &[("a", 200_000), ("b", 200_000)]);
    let (spool, _) = open(&disk, &good);
    spool.close().unwrap();
    drop(spool);
    // A file where the directory should be cannot be listed, whoever asks.
    std::fs::remove_dir_all(dir.join("journal")).unwrap();
    std::fs::write(dir.join("journal"), "").unwrap();
    std::fs::remove_file(dir.join("secret")).unwrap();
    std::fs::create_dir(dir.join("secret")).unwrap();
    let mut config = good.clone();
    config.buffers[0].size_bytes = 100_000;
    config.buffers[1].path = dir.join("none/b.cyc");
    let problems: Vec<String> =
        inspect(&disk, &config, false).problems.iter().map(ToString::to_string).collect();
    for part in ["/journal", "cannot be made smaller", "no directory", "/secret"] {
        assert!(problems.iter().any(|text| text.contains(part)), "{part}: {problems:?}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// What looking at a spool finds, with what opening it says; looking changes nothing.
fn found(disk: &SimDisk, config: &SpoolConfig) -> Vec<String> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let steps = disk.steps();
    let seen = inspect(&shared, config, false);
    assert_eq!(disk.steps(), steps, "it wrote");
    seen.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn looking_finds_what_opening_refuses() {
    let disk = SimDisk::new();
    let good = config("/s", &[("a", 200_000), ("b", 200_000)]);
    assert_eq!(found(&disk, &good), Vec::<String>::new());
    assert!(!has(&disk, "/s/a.cyc"));
    used(&disk, &good);
    assert_eq!(found(&disk, &good), Vec::<String>::new());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let seen = inspect(&shared, &good, false);
    assert!(!seen.new && seen.groups.len() == 2, "{seen:?}");

    let changed = |change: &dyn Fn(&mut SpoolConfig)| {
        let mut config = good.clone();
        change(&mut config);
        config
    };
    let cases = [
        ("cannot be made smaller", changed(&|c| c.buffers[0].size_bytes = 100_000)),
        ("was made with blocks of", changed(&|c| c.buffers[0].block_bytes = 4096)),
        (
            "is buffer \"a\", not \"x\"",
            changed(&|c| {
                c.buffers[0].name = "x".into();
                c.classes[0].buffers[0] = "x".into();
            }),
        ),
        (
            "no directory: there is no /none",
            changed(&|c| {
                c.buffers.push(BufferConfig {
                    name: "c".into(),
                    path: "/none/c".into(),
                    ..c.buffers[0].clone()
                });
            }),
        ),
        ("is missing: there is no file /s/gone", changed(&|c| c.buffers[0].path = "/s/gone".into())),
        ("the disk is too small", changed(&|c| c.buffers[0].size_bytes = 1 << 40)),
        (
            "is not in the configuration",
            changed(&|c| {
                c.buffers.pop();
                c.classes[0].buffers.pop();
            }),
        ),
    ];
    for (told, config) in cases {
        let looked = found(&disk, &config);
        assert!(looked.iter().any(|text| text.contains(told)), "{told}: {looked:?}");
        let refused = refused(&disk, &config);
        assert!(looked.contains(&refused), "{refused}: {looked:?}");
    }
    // Two names of one file.
    disk.link(Path::new("/s/a.cyc"), Path::new("/s/a2.cyc")).unwrap();
    let twins = changed(&|c| c.buffers[1].path = "/s/a2.cyc".into());
    let looked = found(&disk, &twins);
    assert!(looked.iter().any(|text| text.contains("\"a\" and \"b\" are the same file")), "{looked:?}");
    // Somebody has it, rightly or not.
    let (_spool, _) = open(&shared, &good);
    assert!(inspect(&shared, &good, true).problems.is_empty());
    assert!(found(&disk, &good).iter().any(|text| text.contains("is in use")), "{:?}", found(&disk, &good));
}
