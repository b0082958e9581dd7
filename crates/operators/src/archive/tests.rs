//! Archives of a spool in memory: crashes at every step, full and missing disks, overwritten articles.

use super::arrivals::ArrivalCopier;
use super::operation::{ArchiveCommand, execute};
use super::overwriting::OverwriteCopier;
use super::*;
use crate::reply::Reply;
use disk::{CrashKind, SimDisk};
use ingest::{Filer, ImportedArticle};
use site_config as config;
use spool::{ChangeMaker as _, ExpireReport, Lookup, NewGroup};
use std::path::Path;

const CONFIG: &str = r#"
[site]
path_identity = "site.example"
listen = ["127.0.0.1:0"]
data = "/sim"
durability = "always"
max_age_days = "none"

[[buffer]]
name = "text0"
path = "text0.cyc"
size = "1 MiB"

[[class]]
name = "text"
buffers = ["text0"]

[[class]]
name = "files"
method = "tradspool"

[[rule]]
class = "files"
groups = "kept.*"

[[rule]]
class = "text"

[[expire]]
keep = "1 day"
"#;

const DAY_SECS: u64 = 86_400;
const ROOT: &str = "/arch";
/// Number of articles in a scenario.
const ARTICLES: usize = 5;

/// A site with one archive.
struct Archived {
    disk: SimDisk,
    spool: Arc<Spool>,
    filer: Filer,
    archives: Arc<Archives>,
}

impl Archived {
    /// Opens the site on this disk, with an archive of these keys; `None` if the disk crashes first.
    fn open(disk: &SimDisk, keys: &str) -> Option<Self> {
        let text = format!("{CONFIG}\n[[archive]]\nname = \"a\"\npath = \"{ROOT}\"\n{keys}\n");
        let config =
            config::parse(&text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
        let spool = match Spool::open(Arc::new(disk.clone()), config.spool_config(), &()) {
            Ok((spool, _)) => spool,
            Err(error) => {
                assert!(disk.crashed(), "{error}");
                return None;
            }
        };
        let archives = Arc::new(Archives::of(&config, spool.disk()));
        spool.expiry().set_archivist(Some(archives.clone()));
        let (disk, spool) = (disk.clone(), Arc::new(spool));
        let filer = Filer::new(Arc::new(config), spool.clone());
        Some(Self { disk, spool, filer, archives })
    }

    /// Creates a new site with groups, and the directory of the archive.
    fn new(keys: &str) -> Self {
        let disk = SimDisk::new();
        disk.create_dir(Path::new(ROOT)).unwrap();
        let site = Self::open(&disk, keys).unwrap();
        let group = |name: &str| NewGroup { name: name.into(), ..NewGroup::default() };
        let groups = ["misc.test", "misc.7", "misc.other", "kept.test", "kept.other"].map(group);
        site.spool().add_groups(&groups).unwrap();
        site
    }

    fn spool(&self) -> &Spool {
        &self.spool
    }

    fn section(&self) -> Arc<ArchiveSection> {
        self.archives.sections()[0].clone()
    }

    fn file(&self, numbers: std::ops::Range<usize>, groups: &str, body: &str) {
        for n in numbers {
            let wire = wire(n, groups, body);
            let imported = ImportedArticle { wire: wire.as_bytes(), places: b"", arrived: 0 };
            // A sync that met a full disk may say so a moment after there is room again.
            let begun = std::time::Instant::now();
            while !self.is_here(n) && begun.elapsed() < std::time::Duration::from_secs(5) {
                self.filer.import(&[imported]);
            }
        }
        self.spool.settle().unwrap();
    }

    fn expire(&self) -> ExpireReport {
        let now = u64::try_from(site_base::clock::unix_now()).unwrap();
        self.spool().expiry().expire(now + 2 * DAY_SECS, false).unwrap_or_default()
    }

    fn is_here(&self, n: usize) -> bool {
        matches!(self.spool().lookup(&self.spool().key(id(n).as_bytes())), Lookup::Present(_))
    }

    fn status(&self) -> ArchiveStatus {
        self.archives.status(self.spool()).remove(0)
    }
}

fn id(n: usize) -> String {
    format!("<{n}@x.example>")
}

fn wire(n: usize, groups: &str, body: &str) -> String {
    format!(
        "Path: x.example!y\r\nFrom: a@b\r\nNewsgroups: {groups}\r\nSubject: s\r\n\
         Date: 15 Apr 1993 12:00:00 GMT\r\nMessage-ID: {}\r\n\r\nbody of {n}{body}\r\n",
        id(n)
    )
}

fn content(disk: &SimDisk, path: &str) -> Option<String> {
    let bytes = disk::read_small(disk, Path::new(path), 1 << 30).unwrap();
    bytes.map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Returns the articles of a tree, a maildir or an mbox, with duplicates, and the files that hold them.
fn copies(disk: &SimDisk, form: &str) -> (Vec<usize>, Vec<String>) {
    let mut texts = Vec::new();
    match form {
        "mbox" => {
            let all = content(disk, "/arch/a.mbox").unwrap_or_default();
            texts.extend(
                all.split("From newsreel-archive ").skip(1).map(|mail| ("a.mbox".to_owned(), mail.into())),
            );
            assert_eq!(all.is_empty(), texts.is_empty(), "{all}");
        }
        _ => {
            let dirs: &[&str] = match form {
                "maildir" => &["new"],
                _ => &["misc/test", "misc/7.", "kept/test"],
            };
            for dir in dirs {
                for name in disk.list(&Path::new(ROOT).join(dir)).unwrap() {
                    let text = content(disk, &format!("{ROOT}/{dir}/{name}")).unwrap();
                    texts.push((format!("{dir}/{name}"), text));
                }
            }
        }
    }
    let of = |text: &String| {
        let n =
            text.split("Message-ID: <").nth(1).and_then(|rest| rest.split('@').next()).unwrap_or_default();
        let n: usize = n.parse().unwrap_or_else(|_| panic!("{text:?} is not whole"));
        assert!(text.contains(&format!("\nbody of {n}")) && text.ends_with('\n'), "{text:?} is not whole");
        n
    };
    let mut numbers: Vec<usize> = texts.iter().map(|(_, text)| of(text)).collect();
    numbers.sort_unstable();
    (numbers, texts.into_iter().map(|(name, _)| name).collect())
}

/// Copies all articles that have arrived.
fn catch_up(site: &Archived) -> std::io::Result<()> {
    let section = site.section();
    let mut arrivals = ArrivalCopier::open(site.spool(), &section)?;
    while arrivals.step(site.spool(), &section)? {}
    Ok(())
}

#[test]
fn a_tree_has_each_article_under_all_its_numbers() {
    let site = Archived::new("when = \"arrival\"\ngroups = \"misc.*,!misc.other\"");
    catch_up(&site).unwrap();
    site.file(0..1, "misc.test,misc.7,misc.other", ". is long\r\n..\r\n.. dots");
    site.file(1..2, "misc.other", "");
    site.file(2..3, "misc.test", "");
    site.spool().hide_all(&[id(2).as_bytes()], "operator", "").unwrap();
    site.file(3..4, "misc.test", "");
    catch_up(&site).unwrap();
    let (numbers, names) = copies(&site.disk, "tree");
    assert_eq!(
        (numbers, names),
        (vec![0, 0, 3], ["misc/test/1", "misc/test/3", "misc/7./1"].map(str::to_owned).into())
    );
    let text = content(&site.disk, "/arch/misc/test/1").unwrap();
    assert!(
        text.ends_with("body of 0. is long\n.\n. dots\n") && text.starts_with("Xref: site.example "),
        "{text}"
    );
    assert_eq!((site.status().archived, site.status().missed), (2, 0));
}

/// Returns each kind of crash in turn.
fn kind_of(step: u64) -> CrashKind {
    [CrashKind::Kill, CrashKind::Power, CrashKind::Lost][(step % 3) as usize]
}

#[test]
fn copy_interrupted_at_any_step_is_completed_exactly_once() {
    for form in ["tree", "mbox", "maildir"] {
        let text = format!("{CONFIG}\n[[archive]]\nname = \"a\"\npath = \"{ROOT}\"\nform = \"{form}\"\n");
        let config =
            config::parse(&text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
        let copy = |n: usize| ArchiveCopy {
            key: ArticleKey(n as u128),
            arrived: 1_000,
            numbers: vec![("misc.test".to_owned(), n as u64 + 1)],
            text: wire(n, "misc.test", "\n>From nobody").replace("\r\n", "\n").into_bytes(),
        };
        let all: Vec<ArchiveCopy> = (0..ARTICLES).map(copy).collect();
        let put = |disk: &SimDisk, copies: &[&[ArchiveCopy]]| {
            let archives = Archives::of(&config, &(Arc::new(disk.clone()) as Arc<dyn Disk>));
            let section = archives.sections().remove(0);
            copies.iter().try_for_each(|copies| section.put(copies))
        };
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 1.. {
                let disk = SimDisk::new();
                disk.create_dir(Path::new("/sim")).unwrap();
                disk.create_dir(Path::new(ROOT)).unwrap();
                disk.crash_at(disk.steps() + step, kind, step * 7919);
                let done = put(&disk, &[&all[..2], &all[2..]]);
                let crashed = disk.crashed();
                assert!(crashed || done.is_ok(), "{done:?}");
                let image = disk.image().unwrap();
                put(&image, &[&all[..]]).unwrap();
                let expected: Vec<usize> = (0..ARTICLES).collect();
                assert_eq!(copies(&image, form).0, expected, "{form}, {kind:?} at step {step}");
                if !crashed {
                    assert!(step > 30, "nothing was tried");
                    break;
                }
            }
        }
    }
}

#[test]
fn arriving_articles_are_copied_once_despite_a_crash_at_any_step() {
    for form in ["tree", "mbox"] {
        let keys = format!("when = \"arrival\"\ngroups = \"misc.*\"\nform = \"{form}\"");
        for step in (1..).step_by(8) {
            let site = Archived::new(&keys);
            catch_up(&site).unwrap();
            site.file(0..ARTICLES, "misc.test", "");
            let kind = kind_of(step);
            site.disk.crash_at(site.disk.steps() + step, kind, step * 7919);
            let copied = catch_up(&site);
            let crashed = site.disk.crashed();
            assert!(crashed || copied.is_ok(), "{copied:?}");
            let image = site.disk.image().unwrap();
            drop(site);
            let site = Archived::open(&image, &keys).unwrap();
            catch_up(&site).unwrap();
            let all: Vec<usize> = (0..ARTICLES).collect();
            assert_eq!(copies(&image, form).0, all, "{form}, {kind:?} at step {step}");
            if !crashed {
                assert!(step > 20, "nothing was tried");
                break;
            }
        }
    }
}

#[test]
fn expiring_articles_are_copied_first_despite_a_crash_at_any_step() {
    for form in ["tree", "mbox"] {
        let keys = format!("groups = \"kept.*\"\nform = \"{form}\"");
        for step in (1..).step_by(10) {
            let site = Archived::new(&keys);
            site.file(0..ARTICLES, "kept.test", "");
            let kind = kind_of(step);
            site.disk.crash_at(site.disk.steps() + step, kind, step * 7919);
            site.expire();
            let crashed = site.disk.crashed();
            let image = site.disk.image().unwrap();
            drop(site);
            let site = Archived::open(&image, &keys).unwrap();
            site.expire();
            let all: Vec<usize> = (0..ARTICLES).collect();
            assert_eq!(copies(&image, form).0, all, "{form}, {kind:?} at step {step}");
            assert!((0..ARTICLES).all(|n| !site.is_here(n)), "{form}, {kind:?} at step {step}");
            if !crashed {
                assert!(step > 20, "nothing was tried");
                break;
            }
        }
    }
}

#[test]
fn full_or_missing_disk_delays_only_articles_that_are_due() {
    let site = Archived::new("groups = \"kept.*\"");
    site.file(0..2, "kept.test", "");
    site.file(2..3, "kept.other,misc.test", "");
    site.disk.fill_at(site.disk.steps() + 1);
    assert_eq!(site.expire().articles, 0);
    assert!(!site.status().problem.is_empty() && site.is_here(0));
    site.disk.free();
    assert_eq!(site.expire().articles, 3);
    assert_eq!((site.status().problem, site.status().archived), (String::new(), 3));
    assert_eq!(copies(&site.disk, "tree").0, [0, 1]);

    // The mount point of a disk that is away is no archive.
    site.disk.remove(Path::new("/arch/.newsreel-archive")).unwrap();
    site.file(3..5, "kept.test", "");
    let report = site.expire();
    assert_eq!((report.articles, report.held, site.is_here(3)), (0, 2, true));
    assert!(site.status().problem.contains("mount its disk"), "{}", site.status().problem);
    let status = site.status();
    assert!(status.held == 2 && status.gives_up_secs > Some(0) && site.archives.are_awaited(), "{status:?}");

    // Another directory is another archive.
    let (disk, other) = (site.disk.image_after(CrashKind::Kill, 1).unwrap(), "/other");
    drop(site);
    disk.create_dir(Path::new(other)).unwrap();
    let text = format!("{CONFIG}\n[[archive]]\nname = \"a\"\npath = \"{other}\"\n");
    let config = config::parse(&text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let archives = Archives::of(&config, &(Arc::new(disk.clone()) as Arc<dyn Disk>));
    let (key, numbers) = (ArticleKey(9), vec![("kept.test".to_owned(), 9)]);
    archives.sections()[0].put(&[ArchiveCopy { key, arrived: 0, numbers, text: b"x\n".to_vec() }]).unwrap();
    assert_eq!(content(&disk, "/other/kept/test/9").as_deref(), Some("x\n"));
}

#[test]
fn articles_due_are_removed_and_listed_after_wait_max() {
    let site = Archived::new("groups = \"kept.*\"\nwait_max = \"1 h\"");
    site.file(0..1, "kept.test", "");
    site.expire();
    site.disk.remove(Path::new("/arch/.newsreel-archive")).unwrap();
    site.file(1..3, "kept.test", "");
    assert_eq!(site.expire().articles, 0, "it fails only from now on");
    site.archives.sections()[0].has_failed_for(std::time::Duration::from_secs(3600));
    assert_eq!(site.status().gives_up_secs, Some(0));
    assert_eq!(site.expire().articles, 2);
    assert_eq!((site.status().missed, site.status().archived), (2, 1));
    assert!(site.status().held == 0 && !site.archives.are_awaited(), "nothing is held back any more");
    let mut lines = Vec::new();
    let sink = &mut |reply| lines.extend(if let Reply::Text(line) = reply { Some(line) } else { None });
    assert!(execute(&site.archives, site.spool(), &ArchiveCommand::Missed, sink));
    let told: Vec<&str> =
        lines.iter().filter_map(|line| line.split_once(' ').map(|(_, rest)| rest)).collect();
    assert_eq!(
        told,
        ["a kept.test:2 its archive could not be written", "a kept.test:3 its archive could not be written"]
    );
    let again = Archived::open(&site.disk.image_after(CrashKind::Power, 1).unwrap(), "").unwrap();
    assert_eq!(again.status().missed, 2, "durable");
}

#[test]
fn overwritten_articles_were_copied_or_are_listed() {
    let site = Archived::new("groups = \"misc.*\"");
    let (section, spool) = (site.section(), site.spool());
    let body = format!("\r\n{}", "0123456789abcdef".repeat(700));
    let mut overwriting = OverwriteCopier::default();
    let mut copy = |site: &Archived| -> std::io::Result<()> {
        while overwriting.step(site.spool(), &section)? {}
        Ok(())
    };
    let is_copied = |n: usize| copies(&site.disk, "tree").0.contains(&n);
    copy(&site).unwrap();
    site.file(0..20, "misc.test", &body);
    copy(&site).unwrap();
    assert_eq!(site.status().archived, 0, "nothing is near");
    for part in 2..20 {
        site.file(part * 10..part * 10 + 10, "misc.test", &body);
        copy(&site).unwrap();
    }
    let gone = |from: usize, to: usize| (from..to).filter(|n| !site.is_here(*n)).collect::<Vec<_>>();
    let overwritten = gone(0, 200);
    assert!((80..170).contains(&overwritten.len()), "{}", overwritten.len());
    assert!(overwritten.iter().all(|n| is_copied(*n)));
    let ahead = site.status().archived as usize - overwritten.len();
    assert!((1..30).contains(&ahead), "{ahead} are copied and not overwritten");
    assert_eq!(site.status().missed, 0);

    // Writing to the buffer continues while the archive is away.
    site.disk.remove(Path::new("/arch/.newsreel-archive")).unwrap();
    site.file(200..260, "misc.test", &body);
    copy(&site).unwrap_err();
    let status = site.status();
    assert!(status.missed > 0 && status.problem.contains("mount its disk"), "{status:?}");
    site.file(260..300, "misc.test", &body);
    disk::durable_create(&site.disk, Path::new("/arch/.newsreel-archive"), &[b""], disk::FileAccess::Group)
        .unwrap();
    copy(&site).unwrap();
    let lost = gone(0, 300).into_iter().filter(|n| !is_copied(*n)).count() as u64;
    assert_eq!(site.status().missed, lost, "each article that is gone was copied or is counted");
    assert_eq!(site.archives.log.lines().unwrap().len() as u64, lost);
    assert!(
        spool.cyclic_articles().volumes().iter().any(|volume| section.place(volume.id).unwrap().is_some())
    );
}
