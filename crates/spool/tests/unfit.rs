//! Buffers that cannot be used, each with an answer that says what to do; and block devices as buffers.

use crate::news::*;
use disk::{Disk, OpenMode, RealDisk, SimDisk};
use spool::*;
use std::io::{IoSlice, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn disk() -> Arc<dyn Disk> {
    Arc::new(SimDisk::new())
}

fn write(disk: &Arc<dyn Disk>, path: &str, at: u64, bytes: &[u8]) {
    let file = disk.open(Path::new(path), OpenMode::Create).unwrap();
    file.write_all_at(&[IoSlice::new(bytes)], at).unwrap();
}

fn error(disk: &Arc<dyn Disk>, config: &SpoolConfig) -> String {
    Spool::open(disk.clone(), config.clone(), &()).unwrap_err().to_string()
}

/// A spool that was used and closed.
fn used(disk: &Arc<dyn Disk>, config: &SpoolConfig) {
    let (spool, _) = open(disk, config);
    add_groups(&spool, 2);
    commit(&spool, &(0..20).map(|n| News::new(n, 2, 900)).collect::<Vec<_>>()).unwrap();
    spool.close().unwrap();
}

#[test]
fn size_is_discovered_where_it_is_left_out() {
    let disk = disk();
    let mut config = config("/s", &[("a", 0)]);
    assert!(
        error(&disk, &config).contains("has no size, and there is no file /s/a.cyc"),
        "{}",
        error(&disk, &config)
    );
    disk.open(Path::new("/s/a.cyc"), OpenMode::Create).unwrap().allocate(300_000).unwrap();
    used(&disk, &config);
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.buffers().list().unwrap()[0].config.size_bytes, 300_000);
    assert_eq!(agree(&spool).len(), spool.meter().status().unwrap().articles as usize + crossposts(&spool));
    spool.close().unwrap();
    drop(spool);
    // A later configuration may have the same size or a larger one.
    for size in [300_000, 0, 400_000, 0] {
        config.buffers[0].size_bytes = size;
        let (spool, _) = open(&disk, &config);
        assert!(spool.verifier().verify(&()).findings.is_empty());
        spool.close().unwrap();
    }
    // Also without headers.
    write(&disk, "/s/a.cyc", 0, &[b'n'; 8192]);
    assert!(error(&disk, &config).contains("left alone"));
}

fn crossposts(spool: &Spool) -> usize {
    let numbers: u64 = spool.groups().iter().map(|g| g.marks().count).sum();
    (numbers - spool.meter().status().unwrap().articles) as usize
}

#[test]
fn a_buffer_of_something_else_is_named_for_what_it_is() {
    let disk = disk();
    let config = config("/s", &[("a", 200_000)]);
    disk.create_dir(Path::new("/s")).unwrap();
    for (at, magic, told) in [
        (0, &b"CBuf4"[..], "INN cyclic buffer (CNFSv4)"),
        (1080, b"\x53\xef", "ext4 file system"),
        (510, b"\x55\xaa", "name a partition, not the disk"),
        (0, b"dear diary", "something that is not a newsreel buffer"),
    ] {
        disk.remove(Path::new("/s/a.cyc")).ok();
        write(&disk, "/s/a.cyc", at, magic);
        let text = error(&disk, &config);
        assert!(text.contains(told) && text.contains("left alone"), "{text}");
        let mut back = vec![0; magic.len()];
        disk.open(Path::new("/s/a.cyc"), OpenMode::ReadOnly).unwrap().read_exact_at(&mut back, at).unwrap();
        assert_eq!(back, magic);
    }
}

#[test]
fn foreign_cut_off_small_and_doubly_used_buffers() {
    let disk = disk();
    let mine = config("/s", &[("a", 200_000)]);
    used(&disk, &mine);
    // Another site's.
    let mut other = config("/other", &[("a", 200_000)]);
    used(&disk, &other);
    other.buffers[0].path = "/s/a.cyc".into();
    let text = error(&disk, &other);
    assert!(text.contains("the secret in /other/secret") && text.contains("another spool"), "{text}");
    // Used by two at once, under whatever name.
    {
        let (_spool, _) = open(&disk, &mine);
        let text = error(&disk, &other);
        assert!(text.contains("/s/a.cyc is in use") && text.contains("belongs to one alone"), "{text}");
    }
    let mut twice = config("/twice", &[("a", 200_000), ("b", 200_000)]);
    twice.buffers[1].path = twice.buffers[0].path.clone();
    assert!(error(&disk, &twice).contains("is in use"), "{}", error(&disk, &twice));
    // Too small to hold anything.
    let small = config("/small", &[("a", 12_000)]);
    assert!(
        error(&disk, &small).contains("too small: 12000 bytes; give it 64 KiB"),
        "{}",
        error(&disk, &small)
    );
    assert!(disk.open(Path::new("/small/a.cyc"), OpenMode::ReadOnly).is_err(), "nothing is left of it");
    // Cut off, as by a copy that was interrupted.
    disk.open(Path::new("/s/a.cyc"), OpenMode::Existing).unwrap().set_len(100_000).unwrap();
    let text = error(&disk, &mine);
    assert!(text.contains("has 100000 bytes, but was made with 200000"), "{text}");
}

/// A file of `bytes` as a block device, detached when dropped.
struct Loop {
    device: PathBuf,
    _dir: PathBuf,
}

impl Loop {
    fn new(bytes: u64) -> Option<Self> {
        let dir = std::env::temp_dir().join(format!("newsreel-loop-{}", std::process::id()));
        std::fs::create_dir_all(&dir).ok()?;
        let file = dir.join("disk");
        std::fs::File::create(&file).ok()?.set_len(bytes).ok()?;
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
        let device = PathBuf::from(String::from_utf8(made.stdout).ok()?.trim());
        let usable = made.status.success() && std::fs::File::open(&device).is_ok();
        usable.then_some(Self { device, _dir: dir })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
        let _ = std::fs::remove_dir_all(&self._dir);
    }
}

#[test]
fn a_block_device_is_a_buffer() {
    let Some(device) = Loop::new(3 << 20) else {
        // `eprintln` would be captured with the output of a test that passes.
        #[allow(clippy::explicit_write)]
        writeln!(
            std::io::stderr(),
            "SKIPPED: unfit::a_block_device_is_a_buffer (no loop device can be made here: losetup, as root)"
        )
        .unwrap();
        return;
    };
    let dir = device._dir.join("spool");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = config(dir.to_str().unwrap(), &[("a", 4 << 20)]);
    config.buffers[0].path = device.device.clone();
    let text = error(&disk, &config);
    assert!(text.contains("the device has 3145728 bytes, fewer than 4194304"), "{text}");
    config.buffers[0].size_bytes = 2 << 20;
    {
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 2);
        for part in 0..60u64 {
            let news: Vec<News> = (part * 25..part * 25 + 25).map(|n| News::new(n, 2, 2500)).collect();
            commit(&spool, &news).unwrap();
        }
        let mut other = config.clone();
        other.dir = device._dir.join("other");
        assert!(error(&disk, &other).contains("is in use"), "{}", error(&disk, &other));
        agree(&spool);
        // To the device's end, while serving.
        spool.buffers().grow("a", 3 << 20, &mut || Ok(())).unwrap();
        commit(&spool, &[News::new(9999, 2, 900)]).unwrap();
        assert!(spool.verifier().verify(&()).findings.is_empty());
        spool.close().unwrap();
    }
    // The size is that of the buffer, which is the device's now.
    config.buffers[0].size_bytes = 0;
    let (spool, recovery) = open(&disk, &config);
    assert!(!recovery.crashed, "{recovery}");
    assert_eq!(spool.buffers().list().unwrap()[0].config.size_bytes, 3 << 20);
    assert!(fetch(&spool, &News::new(9999, 2, 900).id).is_some());
    agree(&spool);
}
