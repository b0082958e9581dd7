//! Spools that older versions wrote are opened, upgraded and read whole (`docs/formats/growing.md`).

use crate::news::*;
use crate::unpack::{Fixture, Packed};
use disk::{CrashKind, Disk, OpenMode, ReadMode, SimDisk};
use md5::{Digest, Md5};
use spool::*;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The spool of `fixtures/make.py`, as its configuration describes it, and a group of today beside it.
fn old_config() -> SpoolConfig {
    let mut config = config("/site/data", &[("a", 64 << 10), ("b", 64 << 10), ("z", 64 << 10)]);
    config.path_identity = "old.example".into();
    config.durability = Durability::Process;
    config.history = HistoryShape::USUAL;
    config.journal_file_bytes = 64 << 20;
    config.article_bytes_max = 1 << 20;
    config.overview_cold_secs = 0;
    config.buffers[2].block_bytes = 128;
    let class = |name: &str, method| ClassConfig { name: name.into(), method, ..ClassConfig::default() };
    let tree = |name: &str, method| {
        let path = format!("/site/data/{name}").into();
        ClassConfig { tree: TreeConfig { path, ..TreeConfig::default() }, ..class(name, method) }
    };
    let cyclic = |name: &str, buffers: &[&str]| ClassConfig {
        buffers: buffers.iter().map(|b| (*b).to_owned()).collect(),
        ..class(name, MethodKind::Cnfs)
    };
    config.classes = vec![
        cyclic("wrapped", &["a", "b"]),
        ClassConfig {
            compress: Some(CompressConfig { level: 9, samples: CompressConfig::SAMPLES_USUAL }),
            ..cyclic("packed", &["z"])
        },
        ClassConfig { name: "files".into(), ..tree("tree", MethodKind::Tradspool) },
        tree("records", MethodKind::AppendOnly),
    ];
    let rule = |groups: Option<&str>, class: &str| RuleConfig {
        class: class.into(),
        groups: groups.map(str::to_owned),
        ..RuleConfig::default()
    };
    config.rules = vec![
        rule(Some("old.packed"), "packed"),
        rule(Some("old.files"), "files"),
        rule(Some("old.records"), "records"),
        rule(Some("test.*"), "records"),
        rule(None, "wrapped"),
    ];
    config
}

/// A file without its zeros.
struct Sparse {
    path: PathBuf,
    link: Option<PathBuf>,
    len: u64,
    /// Where there is anything but zeros.
    chunks: Vec<(u64, Vec<u8>)>,
}

/// Zeros at the end of the journal's last file, which are only reserved, are left out: the crash tests read
/// it often.
fn sparse(files: &[Packed]) -> Vec<Sparse> {
    const CHUNK_BYTES: usize = 4096;
    let sparse = |Packed { path, bytes, link }: &Packed| {
        let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        let len = if path.ends_with(".journal") { used } else { bytes.len() };
        let chunks = bytes[..used].chunks(CHUNK_BYTES).zip((0..).step_by(CHUNK_BYTES));
        let chunks = chunks.filter(|(chunk, _)| **chunk != [0; CHUNK_BYTES]);
        let chunks = chunks.map(|(chunk, at)| (at, chunk.to_vec())).collect();
        let site = |path: &String| Path::new("/site").join(path);
        Sparse { path: site(path), link: link.as_ref().map(site), len: len as u64, chunks }
    };
    files.iter().map(sparse).collect()
}

/// A disk with the fixture's files, all of them durable.
fn disk_with(files: &[Sparse]) -> SimDisk {
    let sim = SimDisk::new();
    for Sparse { path, link, len, chunks } in files {
        sim.create_dir(path.parent().unwrap()).unwrap();
        if let Some(link) = link {
            sim.link(link, path).unwrap();
            continue;
        }
        let file = sim.open(path, OpenMode::CreateNew).unwrap();
        file.set_len(*len).unwrap();
        for (at, chunk) in chunks {
            file.write_all_at(&[IoSlice::new(chunk)], *at).unwrap();
        }
        file.sync().unwrap();
    }
    sim.sync_tree(Path::new("/site")).unwrap();
    sim
}

fn expected(files: &[Packed]) -> String {
    let packed = files.iter().find(|f| f.path == "expected").unwrap();
    String::from_utf8(packed.bytes.clone()).unwrap()
}

/// Every group and article is as the old version served it.
fn read_whole(spool: &Spool, expected: &str, what: &str) {
    let named = agree(spool);
    let (mut articles, mut buf) = (0, ArticleBuf::default());
    for line in expected.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["group", name, high, flag] => {
                let group = spool.group(spool.group_id(name.as_bytes()).unwrap()).unwrap();
                assert!(group.marks().high >= high.parse().unwrap(), "{what}: {name}");
                assert_eq!(group.flag().to_string(), flag, "{what}: {name}");
            }
            ["article", name, number, id, digest] => {
                let (group, number) = (spool.group_id(name.as_bytes()).unwrap(), number.parse().unwrap());
                let token = spool.token_of(group, number, ReadMode::Wait).unwrap();
                let token = token.unwrap_or_else(|| panic!("{what}: {name}:{number} {id} is gone"));
                let key = spool.key(id.as_bytes());
                assert!(spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap(), "{what}: {id}");
                let mut row = Vec::new();
                spool.over(group, number..=number, 1, ReadMode::Wait, &mut row).unwrap();
                let row = row.strip_suffix(b"\r\n").unwrap();
                let text = buf.article().strip_suffix(b".\r\n").unwrap();
                let md5 = Md5::new().chain_update(row).chain_update(text).finalize();
                let hex: String = md5.iter().map(|b| format!("{b:02x}")).collect();
                assert!(hex.starts_with(digest), "{what}: {name}:{number} {id}");
                articles += 1;
            }
            _ => panic!("{line}"),
        }
    }
    let old = named.iter().filter(|(group, ..)| !group.starts_with("test.")).count();
    assert_eq!(old, articles, "{what}: articles in all");
    assert!(articles > 200);
    // Known though its article was overwritten, and known without an article.
    assert!(spool.is_known(&spool.key(b"<3000@origin.example>")), "{what}");
}

/// The high marks are those before the upgrade, also of groups without articles; returns them.
fn assert_marks(spool: &Spool, expected: &str, promised: u64, what: &str) -> Vec<u64> {
    let fields = expected.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mark = |fields: Vec<&str>| {
        let high = spool.group(spool.group_id(fields[1].as_bytes()).unwrap()).unwrap().marks().high;
        let before: u64 = fields[2].parse().unwrap();
        assert!((before..=before + promised).contains(&high), "{what}: {} {high}", fields[1]);
        high
    };
    fields.filter(|fields| fields[0] == "group").map(mark).collect()
}

fn magic(disk: &dyn Disk, path: &str) -> [u8; 8] {
    let mut magic = [0; 8];
    disk.open(Path::new(path), OpenMode::ReadOnly).unwrap().read_exact_at(&mut magic, 0).unwrap();
    magic
}

/// Opens the spool, files an article of today, and closes.
fn upgrade(disk: Arc<dyn Disk>, config: &SpoolConfig) -> TestResult {
    let (spool, _) = Spool::open(disk, config.clone(), &())?;
    let group = NewGroup { name: "test.g0".into(), created: NOW, ..NewGroup::default() };
    spool.add_groups(&[group])?;
    commit(&spool, &[News::new(1, 1, 700)])?;
    spool.site("peer.example")?;
    Ok(spool.close()?)
}

/// Numbers that the older version lost in a power cut may have been shown, so they are not assigned again.
#[test]
fn the_first_article_after_an_upgrade_has_a_number_that_was_never_promised() {
    for fixture in Fixture::ALL {
        let config = old_config();
        let sim = disk_with(&sparse(&fixture.files()));
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        for _ in 0..2 {
            let (spool, _) = open(&disk, &config);
            spool.close().unwrap();
        }
        let (spool, _) = open(&disk, &config);
        let id = spool.group_id(b"control").unwrap();
        let high = || spool.group(id).unwrap().marks().high;
        // Without a promise in the journal, it is the first article that skips what any version has promised.
        let (before, first) = if fixture.promised == 0 { (0, 513) } else { (64, 65) };
        assert_eq!(high(), before, "{}", fixture.version);
        let news = News { groups: vec!["control".into()], ..News::new(1, 1, 700) };
        commit(&spool, &[news]).unwrap();
        assert_eq!(high(), first, "{}", fixture.version);
    }
}

#[test]
fn a_spool_of_each_older_version_is_opened_upgraded_and_read_whole() {
    for fixture in Fixture::ALL {
        opened_upgraded_and_read_whole(&fixture);
    }
}

fn opened_upgraded_and_read_whole(fixture: &Fixture) {
    let (files, config) = (fixture.files(), old_config());
    let (expected, files) = (expected(&files), sparse(&files));
    let sim = disk_with(&files);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let checkpoint: &[u8; 8] = if fixture.version == "b571c6a" { b"NCheckp1" } else { b"NCheckp2" };
    assert_eq!(&magic(&sim, "/site/data/index/checkpoint"), checkpoint);
    let what = |when: &str| format!("{} {when}", fixture.version);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed && recovery.rebuilt.is_none() && recovery.lost.is_none(), "{recovery}");
    assert_eq!(recovery.torn, 0, "{recovery}");
    read_whole(&spool, &expected, &what("opened"));
    let marks = assert_marks(&spool, &expected, fixture.promised, &what("opened"));
    assert_eq!(spool.verifier().verify(&()).findings, []);
    drop(spool);
    upgrade(disk.clone(), &config).unwrap();
    assert_eq!(&magic(&sim, "/site/data/index/checkpoint"), b"NCheckp2");
    let (spool, recovery) = open(&disk, &config);
    assert!(!recovery.crashed, "{recovery}");
    read_whole(&spool, &expected, &what("upgraded"));
    assert_eq!(assert_marks(&spool, &expected, fixture.promised, &what("upgraded")), marks);
    assert!(fetch(&spool, &News::new(1, 1, 700).id).is_some());
    assert_eq!(spool.site("peer.example").unwrap(), 0);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    drop(spool);
    let report = rebuild(disk.clone(), config.clone(), &()).unwrap();
    assert!(report.articles > 200);
    let (spool, _) = open(&disk, &config);
    read_whole(&spool, &expected, &what("rebuilt"));
}

/// An upgrade is no step of its own: whatever it is stopped at, the next start has the whole spool.
#[test]
fn a_crash_at_every_step_of_the_upgrade_loses_nothing() {
    for fixture in Fixture::ALL {
        crashes_lose_nothing(&fixture);
    }
}

fn crashes_lose_nothing(fixture: &Fixture) {
    let (files, config) = (fixture.files(), old_config());
    let (expected, files) = (expected(&files), sparse(&files));
    let whole = disk_with(&files);
    let before = whole.steps();
    upgrade(Arc::new(whole.clone()), &config).unwrap();
    let steps = whole.steps() - before;
    assert!(steps > 50);
    for (step, kind) in (0..steps)
        .step_by(steps as usize / 8)
        .flat_map(|step| [(step, CrashKind::Kill), (step, CrashKind::Power)])
    {
        let sim = disk_with(&files);
        sim.crash_at(sim.steps() + step, kind, step * 7919);
        let _ = upgrade(Arc::new(sim.clone()), &config);
        let (spool, recovery) = open(&(Arc::new(sim.image().unwrap()) as Arc<dyn Disk>), &config);
        let what = format!("{}: {kind:?} at step {step}: {recovery}", fixture.version);
        read_whole(&spool, &expected, &what);
        // A power cut after the upgrade is one of this version.
        if kind == CrashKind::Kill {
            assert_marks(&spool, &expected, fixture.promised, &what);
        }
    }
}
