//! Guarantees of the simulated disk, one by one.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::*;

const DIR: &str = "/d";

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Creates a disk with an empty durable file `a`.
fn disk_with_file() -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new();
    disk.create_dir(Path::new(DIR)).unwrap();
    let file = disk.open(&path("a"), OpenMode::CreateNew).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    (disk, file)
}

fn write(file: &Arc<dyn DiskFile>, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (one, two) = bytes.split_at(bytes.len() / 3);
    file.write_all_at(&[IoSlice::new(one), IoSlice::new(two)], offset)
}

fn content(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(&path(name), OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn reads_return_written_bytes_across_words_and_ends() {
    let (_, file) = disk_with_file();
    let bytes: Vec<u8> = (1..=200).collect();
    for offset in [0, 3, 8, 4093] {
        write(&file, &bytes, offset).unwrap();
        for skip in [0, 1, 7, 9] {
            let mut back = vec![0; 200 - skip];
            file.read_exact_at(&mut back, offset + skip as u64).unwrap();
            assert_eq!(back, bytes[skip..]);
        }
    }
    assert_eq!(file.len().unwrap(), 4293);
    let mut back = [9; 8];
    assert_eq!(file.read_at(&mut back, 4290).unwrap(), 3);
    assert_eq!(file.read_at(&mut back, 9999).unwrap(), 0);
    assert_eq!(file.read_exact_at(&mut back, 4290).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    file.set_len(10).unwrap();
    file.allocate(20).unwrap();
    let mut back = [9; 20];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!((&back[..10], &back[10..]), (&[1, 2, 3, 1, 2, 3, 4, 5, 1, 2][..], &[0; 10][..]));
    assert_eq!(file.set_len(1 << 40).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn mappings_and_calls_share_their_bytes() {
    let (_, file) = disk_with_file();
    assert!(file.map_words(0, 1).is_err());
    file.allocate(8192).unwrap();
    let map = file.map_words(4096, 512).unwrap();
    assert!(file.map_words(4096, 513).is_err() && file.map_words(8, 1).is_err());
    map.words()[1].store(u64::from_le_bytes(*b"mapped!!").to_le(), Ordering::Relaxed);
    let mut back = [0; 8];
    file.read_exact_at(&mut back, 4104).unwrap();
    assert_eq!(&back, b"mapped!!");
    write(&file, b"called!!", 4104).unwrap();
    assert_eq!(u64::from_le(map.words()[1].load(Ordering::Relaxed)), u64::from_le_bytes(*b"called!!"));
}

#[test]
fn steps_are_counted_and_fail_once_or_from_then_on() {
    let (disk, file) = disk_with_file();
    assert_eq!(disk.steps(), 2);
    write(&file, b"x", 0).unwrap();
    file.set_len(5).unwrap();
    file.allocate(6).unwrap();
    file.sync().unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    disk.remove(&path("b")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(disk.steps(), 9);
    disk.fail_at(10, SimDisk::ENOSPC, false);
    write(&file, b"x", 0).unwrap();
    assert_eq!(write(&file, b"y", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.sync().unwrap();
    disk.fail_at(13, SimDisk::EIO, true);
    file.sync().unwrap();
    for _ in 0..3 {
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(SimDisk::EIO));
    }
    disk.stop_failing();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 6);
}

#[test]
fn a_failing_write_leaves_a_prefix_and_a_failing_sync_syncs_nothing() {
    let mut lengths = HashSet::new();
    for extra in 0..40 {
        let (disk, file) = disk_with_file();
        (0..extra).for_each(|_| file.sync().unwrap());
        disk.fail_at(extra + 1, SimDisk::EIO, true);
        write(&file, b"abcdef", 0).unwrap_err();
        let bytes = content(&disk, "a");
        assert!(b"abcdef".starts_with(&bytes));
        lengths.insert(bytes.len());
        file.sync().unwrap_err();
        assert!(content(&disk.image_after(CrashKind::Lost, 0).unwrap(), "a").is_empty());
    }
    assert!(lengths.len() > 4, "{lengths:?}");
}

#[test]
fn after_a_crash_every_call_fails_and_the_image_stays() {
    let (disk, file) = disk_with_file();
    file.allocate(4096).unwrap();
    let map = file.map_words(0, 512).unwrap();
    map.words()[0].store(1, Ordering::Relaxed);
    disk.crash_at(disk.steps(), CrashKind::Kill, 0);
    assert!(!disk.crashed());
    file.sync().unwrap_err();
    assert!(disk.crashed());
    map.words()[0].store(2, Ordering::Relaxed);
    assert!(write(&file, b"x", 0).is_err() && file.len().is_err() && file.sync().is_err());
    assert!(file.read_at(&mut [0], 0).is_err() && file.map_words(0, 1).is_err() && file.set_len(0).is_err());
    assert!(disk.open(&path("a"), OpenMode::Create).is_err() && disk.list(Path::new(DIR)).is_err());
    assert!(disk.rename(&path("a"), &path("b")).is_err() && disk.remove(&path("a")).is_err());
    assert!(disk.sync_dir(Path::new(DIR)).is_err() && disk.lock(&path("l")).is_err());
    assert!(disk.create_dir(Path::new("/e")).is_err());
    for _ in 0..2 {
        let image = disk.image().unwrap();
        assert_eq!(content(&image, "a")[..8], 1_u64.to_ne_bytes());
        let again = image.open(&path("a"), OpenMode::Existing).unwrap();
        write(&again, b"changed!", 0).unwrap();
    }
}

#[test]
fn a_kill_keeps_written_bytes_and_the_boot_id() {
    let mut prefixes = HashSet::new();
    for seed in 0..40 {
        let (disk, file) = disk_with_file();
        write(&file, b"hello", 0).unwrap();
        disk.open(&path("new"), OpenMode::Create).unwrap();
        disk.crash_at(disk.steps(), CrashKind::Kill, seed);
        write(&file, b" world", 5).unwrap_err();
        let image = disk.image().unwrap();
        assert_eq!(image.boot_id(), disk.boot_id());
        assert_eq!(image.list(Path::new(DIR)).unwrap(), ["a", "new"]);
        let bytes = content(&image, "a");
        assert!(bytes.starts_with(b"hello") && b"hello world".starts_with(&bytes));
        prefixes.insert(bytes.len());
        // Unsynced data from before the kill is still unsynced.
        let later = image.image_after(CrashKind::Lost, 0).unwrap();
        assert_eq!(later.list(Path::new(DIR)).unwrap(), ["a"]);
        assert!(content(&later, "a").is_empty());
    }
    assert!(prefixes.len() > 4, "{prefixes:?}");
}

#[test]
fn changes_through_mappings_of_a_killed_process_are_synced_later() {
    let (disk, file) = disk_with_file();
    file.allocate(16 << 10).unwrap();
    file.sync().unwrap();
    file.map_words(8192, 512).unwrap().words()[3].store(7, Ordering::Relaxed);
    let image = disk.image_after(CrashKind::Kill, 0).unwrap();
    image.open(&path("a"), OpenMode::ReadOnly).unwrap().sync().unwrap();
    let bytes = content(&image.image_after(CrashKind::Lost, 0).unwrap(), "a");
    assert_eq!(bytes[8192 + 24..8192 + 32], 7u64.to_ne_bytes());
}

#[test]
fn lost_leaves_only_synced_data() {
    let (disk, file) = disk_with_file();
    file.allocate(8192).unwrap();
    let map = file.map_words(4096, 512).unwrap();
    map.words()[0].store(7, Ordering::Relaxed);
    write(&file, b"synced", 0).unwrap();
    file.sync().unwrap();
    let synced = content(&disk, "a");
    map.words()[0].store(8, Ordering::Relaxed);
    write(&file, b"later!", 0).unwrap();
    file.set_len(3).unwrap();
    disk.open(&path("b"), OpenMode::Create).unwrap().sync().unwrap();
    disk.rename(&path("a"), &path("c")).unwrap();
    let image = disk.image_after(CrashKind::Lost, 0).unwrap();
    assert_ne!(image.boot_id(), disk.boot_id());
    assert_eq!(image.list(Path::new(DIR)).unwrap(), ["a"]);
    assert_eq!(content(&image, "a"), synced);
    disk.sync_dir(Path::new(DIR)).unwrap();
    let image = disk.image_after(CrashKind::Lost, 0).unwrap();
    assert_eq!(image.list(Path::new(DIR)).unwrap(), ["b", "c"]);
    assert_eq!(content(&image, "c"), synced);
}

/// Returns images for many seeds.
fn power_cuts(disk: &SimDisk) -> impl Iterator<Item = SimDisk> {
    (0..300).map(|seed| disk.image_after(CrashKind::Power, seed).unwrap())
}

#[test]
fn a_power_cut_tears_writes_at_sectors_and_reorders_them() {
    let (disk, file) = disk_with_file();
    write(&file, &[b'0'; 1024], 0).unwrap();
    file.sync().unwrap();
    write(&file, &[b'1'; 1024], 0).unwrap();
    write(&file, &[b'2'; 100], 512).unwrap();
    let mut seen = HashSet::new();
    for image in power_cuts(&disk) {
        assert_ne!(image.boot_id(), disk.boot_id());
        let bytes = content(&image, "a");
        assert!(
            bytes[..512].windows(2).all(|w| w[0] == w[1]) && bytes[612..].windows(2).all(|w| w[0] == w[1])
        );
        seen.insert((bytes[0], bytes[512], bytes[612]));
        assert!(bytes[512..612].iter().all(|&b| b == bytes[512]));
        // The next boot finds the same as this one.
        assert_eq!(content(&image.image_after(CrashKind::Lost, 0).unwrap(), "a"), bytes);
    }
    let possible: HashSet<_> =
        b"01".iter().flat_map(|&a| [(a, b'0', b'0'), (a, b'1', b'1'), (a, b'2', b'1')]).collect();
    assert_eq!(seen, possible);
}

#[test]
fn a_power_cut_keeps_each_mapped_page_old_or_new() {
    let (disk, file) = disk_with_file();
    file.allocate(3 * 4096).unwrap();
    let map = file.map_words(0, 3 * 512).unwrap();
    file.sync().unwrap();
    for page in [0, 2] {
        map.words()[page * 512].store(1, Ordering::Relaxed);
        map.words()[page * 512 + 511].store(1, Ordering::Relaxed);
    }
    let mut seen = HashSet::new();
    for image in power_cuts(&disk) {
        let bytes = content(&image, "a");
        let word = |n: usize| u64::from_ne_bytes(bytes[n * 8..n * 8 + 8].try_into().unwrap());
        assert!(word(0) == word(511) && word(1024) == word(1535), "a page is torn");
        assert!(bytes[4096..8192].iter().all(|&b| b == 0));
        seen.insert((word(0), word(1024)));
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn after_a_power_cut_lengths_and_names_are_old_or_new() {
    let (disk, file) = disk_with_file();
    write(&file, b"abc", 0).unwrap();
    file.sync().unwrap();
    write(&file, b"def", 3).unwrap();
    let new = disk.open(&path("new"), OpenMode::Create).unwrap();
    write(&new, b"new", 0).unwrap();
    new.sync().unwrap();
    disk.rename(&path("new"), &path("named")).unwrap();
    let (mut lengths, mut lists) = (HashSet::new(), HashSet::new());
    for image in power_cuts(&disk) {
        let bytes = content(&image, "a");
        assert!(matches!(&bytes[..], b"abc" | b"abcdef" | b"abc\0\0\0"), "{bytes:?}");
        lengths.insert(bytes);
        let names = image.list(Path::new(DIR)).unwrap();
        names
            .iter()
            .filter(|name| name.starts_with('n'))
            .for_each(|name| assert_eq!(content(&image, name), b"new"));
        lists.insert(names.join(" "));
    }
    assert_eq!(lengths.len(), 3);
    assert_eq!(lists, HashSet::from(["a".into(), "a new".into(), "a named".into()]));
}

#[test]
fn the_same_seed_results_in_the_same_disk() {
    let (disk, file) = disk_with_file();
    write(&file, &vec![1; 100_000], 0).unwrap();
    let images =
        [1, 1, 2, 3, 4, 5].map(|seed| content(&disk.image_after(CrashKind::Power, seed).unwrap(), "a"));
    assert_eq!(images[0], images[1]);
    assert!(images[2..].iter().any(|image| *image != images[0]));
}

#[test]
fn names_and_locks_are_as_on_a_real_disk() {
    let (disk, file) = disk_with_file();
    assert_eq!(disk.open(&path("x"), OpenMode::Existing).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.open(&path("a"), OpenMode::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(disk.open(&path("no/a"), OpenMode::Create).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(
        disk.open(&path("a"), OpenMode::ReadOnly).unwrap().write_all_at(&[IoSlice::new(b"x")], 0).is_err()
    );
    assert!(disk.list(Path::new("/none")).unwrap().is_empty());
    assert!(disk.remove(&path("x")).is_err() && disk.rename(&path("x"), &path("y")).is_err());
    write(&file, b"one", 0).unwrap();
    let other = disk.open(&path("b"), OpenMode::Create).unwrap();
    disk.rename(&path("b"), &path("a")).unwrap();
    assert!(content(&disk, "a").is_empty());
    write(&other, b"two", 0).unwrap();
    disk.remove(&path("a")).unwrap();
    assert_eq!((file.len().unwrap(), other.len().unwrap()), (3, 3));
    let held = disk.lock(&path("lock")).unwrap();
    assert_eq!(disk.lock(&path("lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    assert!(disk.image().unwrap().lock(&path("lock")).is_ok());
    drop(held);
    assert!(disk.lock(&path("lock")).is_ok());
}
