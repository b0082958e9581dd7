//! Buffers read apart from their server, while it writes and when it does not: never a torn or wrong article
//! (CNFS-06).

use crate::news::*;
use disk::{Disk, RealDisk};
use spool::*;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const GROUPS: u64 = 3;

/// A directory that goes with its test.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("newsreel-apart-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn news(n: u64) -> News {
    News::new(n, GROUPS, 1500)
}

fn batch(from: u64, count: u64) -> Vec<News> {
    (from..from + count).map(news).collect()
}

fn site(home: &Home) -> (Arc<dyn Disk>, SpoolConfig, Spool) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = config(home.path().to_str().unwrap(), &[("a", 90_000), ("b", 90_000)]);
    config.durability = Durability::Process;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    (disk, config, spool)
}

fn buffers(disk: &Arc<dyn Disk>, config: &SpoolConfig) -> Vec<BufferApart> {
    let dictionaries = config.dir.join("dictionaries");
    config.buffers.iter().map(|b| BufferApart::open(disk, &b.path, Some(&dictionaries)).unwrap()).collect()
}

/// Which article the bytes of a record are, if they are all of it.
fn number_of(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap();
    let (xref, article) = text.split_once("\r\n").unwrap();
    assert!(xref.starts_with("Xref: news.test.example test.g"), "{xref}");
    let (_, number) = article.split_once("Subject: number ").unwrap();
    let n = number.split_once("\r\n").unwrap().0.parse().unwrap();
    assert_eq!(article.strip_suffix(".\r\n").unwrap().as_bytes(), news(n).wire, "article {n} is another");
    n
}

/// Reads all that is listed; whatever is read is right. Returns the articles read, the number of missing
/// ones, and the damaged ones.
fn read_all(buffer: &BufferApart, hidden: &HashSet<ArticleKey>) -> (BTreeSet<u64>, u64, Vec<String>) {
    let (records, _, unlisted) = buffer.list(hidden).unwrap();
    let (mut read, mut gone, mut damaged, mut out) = (BTreeSet::new(), 0, Vec::new(), Vec::new());
    damaged.resize(unlisted as usize, "a bit without a record".to_owned());
    for record in &records {
        match buffer.read(record, &mut out).unwrap() {
            FetchedRecord::Whole => assert!(read.insert(number_of(&out))),
            FetchedRecord::Gone => gone += 1,
            FetchedRecord::Damaged(what) => damaged.push(what),
        }
        assert!(out.is_empty() || read.contains(&number_of(&out)));
    }
    (read, gone, damaged)
}

fn living(spool: &Spool, below: u64) -> BTreeSet<u64> {
    (0..below).filter(|n| fetch(spool, &news(*n).id).is_some()).collect()
}

fn read_both(buffers: &[BufferApart], hidden: &HashSet<ArticleKey>) -> BTreeSet<u64> {
    let all = buffers.iter().flat_map(|buffer| {
        let (read, gone, damaged) = read_all(buffer, hidden);
        assert_eq!((gone, damaged), (0, Vec::new()));
        read
    });
    all.collect()
}

#[test]
fn what_lives_is_read_and_nothing_else() {
    let home = Home::new();
    let (disk, config, spool) = site(&home);
    let mut n = 0;
    for _ in 0..30 {
        commit(&spool, &batch(n, 12)).unwrap();
        n += 12;
    }
    // Overwritten, cancelled, hidden; the server is running.
    let there: Vec<u64> = living(&spool, n).into_iter().collect();
    assert!(there.len() > 60 && there.len() < 200, "{}", there.len());
    assert_eq!(spool.cancel(news(there[5]).id.as_bytes()), Ok(true));
    let id = news(there[9]).id;
    spool.hide_all(&[id.as_bytes()], "operator", "why").unwrap();
    let apart = buffers(&disk, &config);
    assert_eq!(apart.iter().map(BufferApart::name).collect::<Vec<_>>(), ["a", "b"]);
    let known = SpoolApart::read(&disk, &config.dir).unwrap();
    assert_eq!(known.hidden, HashSet::from([spool.key(id.as_bytes())]));
    assert_eq!(known.volumes, [(MethodKind::Cnfs, "a".into()), (MethodKind::Cnfs, "b".into())]);
    let groups: Vec<_> = known.groups.iter().map(|g| (g.name.as_str(), g.high)).collect();
    let highs: Vec<_> = spool.groups().iter().map(|g| (g.name.to_string(), g.marks().high)).collect();
    assert_eq!(groups, highs.iter().map(|(name, high)| (name.as_str(), *high)).collect::<Vec<_>>());
    let mut expected = living(&spool, n);
    assert!(!expected.contains(&there[5]));
    // The spool shows hidden articles to no reader.
    expected.remove(&there[9]);
    assert_eq!(read_both(&apart, &known.hidden), expected);
    // Buffers alone say nothing of what is hidden.
    expected.insert(there[9]);
    assert_eq!(read_both(&apart, &HashSet::new()), expected);

    // An article that is overwritten after it was listed is missing, neither damaged nor another one.
    let listed: Vec<_> = apart.iter().map(|buffer| buffer.list(&HashSet::new()).unwrap().0).collect();
    for _ in 0..30 {
        commit(&spool, &batch(n, 12)).unwrap();
        n += 12;
    }
    let mut out = Vec::new();
    for (buffer, records) in apart.iter().zip(&listed) {
        for record in records {
            assert_eq!(buffer.read(record, &mut out).unwrap(), FetchedRecord::Gone);
            assert!(out.is_empty());
        }
    }
    // A buffer that grows is listed as it is then.
    spool.buffers().grow("a", 200_000, &mut || Ok(())).unwrap();
    commit(&spool, &batch(n, 60)).unwrap();
    n += 60;
    let expected = living(&spool, n);
    assert_eq!(read_both(&apart, &HashSet::new()), expected);
    spool.close().unwrap();
    drop(spool);
    assert_eq!(read_both(&buffers(&disk, &config), &HashSet::new()), expected);
}

#[test]
fn beside_a_server_that_writes_every_article_is_whole() {
    let home = Home::new();
    let (disk, config, spool) = site(&home);
    commit(&spool, &batch(0, 100)).unwrap();
    let (ended, apart) = (AtomicBool::new(false), buffers(&disk, &config));
    std::thread::scope(|scope| {
        let _stop = AtEnd(|| ended.store(true, Ordering::Relaxed));
        scope.spawn(|| {
            let mut n = 100;
            while !ended.load(Ordering::Relaxed) {
                let filed = batch(n, 7);
                commit(&spool, &filed).unwrap();
                spool.cancel(filed[3].id.as_bytes()).unwrap();
                n += 7;
            }
        });
        let mut read = BTreeSet::new();
        for _ in 0..40 {
            for buffer in &apart {
                let (found, _, damaged) = read_all(buffer, &HashSet::new());
                assert_eq!(damaged, Vec::<String>::new());
                read.extend(found);
            }
            SpoolApart::read(&disk, &config.dir).unwrap();
        }
        assert!(read.len() > 40, "{}", read.len());
    });
}

#[test]
fn compressed_articles_need_their_dictionary() {
    let home = Home::new();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = config(home.path().to_str().unwrap(), &[("a", 200_000), ("b", 200_000)]);
    config.classes[0].compress = Some(CompressConfig { level: 3, samples: 100 });
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    commit(&spool, &batch(0, 100)).unwrap();
    wait_until("no dictionary", || !spool.meter().dictionaries().is_empty());
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, &config);
    commit(&spool, &batch(100, 20)).unwrap();
    let expected = living(&spool, 120);
    assert!((100..120).all(|n| expected.contains(&n)));
    assert_eq!(read_both(&buffers(&disk, &config), &HashSet::new()), expected);
    let mut damaged = Vec::new();
    for buffer in &config.buffers {
        let apart = BufferApart::open(&disk, &buffer.path, None).unwrap();
        damaged.extend(read_all(&apart, &HashSet::new()).2);
    }
    assert_eq!(damaged.len(), 20, "{damaged:?}");
    assert!(damaged.iter().all(|what| what.contains("dictionary")), "{damaged:?}");
    // One copy of it is enough, and the other is not written again: nothing is changed there.
    let dir = config.dir.join("dictionaries");
    let copy: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    std::fs::write(&copy[0], b"damaged").unwrap();
    assert_eq!(read_both(&buffers(&disk, &config), &HashSet::new()), expected);
    assert_eq!(std::fs::read(&copy[0]).unwrap(), b"damaged");
}

#[test]
fn whatever_is_damaged_no_wrong_article_is_read() {
    let home = Home::new();
    let (disk, config, spool) = site(&home);
    for n in 0..30 {
        commit(&spool, &batch(n * 12, 12)).unwrap();
    }
    spool.close().unwrap();
    let whole = std::fs::read(&config.buffers[0].path).unwrap();
    let path = home.path().join("copy");
    let mut mix = 7_u64;
    let mut random = |n: usize| {
        mix = mix.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (mix >> 33) as usize % n
    };
    let (mut found, mut refused) = (0, 0);
    for round in 0..150 {
        let mut bytes = whole.clone();
        for _ in 0..=random(20) {
            let at = random(if round % 3 == 0 { 12_288 } else { bytes.len() });
            bytes[at] = [0, 0xff, bytes[at] ^ 1 << random(8)][random(3)];
        }
        if round % 5 == 0 {
            // A record where another one was.
            let (from, to) = (random(bytes.len() / 512) * 512, random(bytes.len() / 512) * 512);
            let len = 2048.min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + len, to);
        }
        std::fs::write(&path, &bytes).unwrap();
        match BufferApart::open(&disk, &path, None) {
            Ok(buffer) => found += read_all(&buffer, &HashSet::new()).0.len(),
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(found > 1000 && refused < 100, "{found} {refused}");
    let refusal = |path: &Path| BufferApart::open(&disk, path, None).unwrap_err().to_string();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(refusal(&path).contains("is cut off: it has 45000 bytes"), "{}", refusal(&path));
    std::fs::write(&path, b"").unwrap();
    assert!(refusal(&path).contains("it is empty"), "{}", refusal(&path));
    std::fs::write(&path, b"CBuf4").unwrap();
    assert!(refusal(&path).contains("an INN cyclic buffer"), "{}", refusal(&path));
}
