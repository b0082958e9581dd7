//! Missing files, and disks without room: reported before anything is made, and nothing is left behind.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, RealDisk, SimDisk};
use spool::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn refused(disk: &SimDisk, config: &SpoolConfig) -> String {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Spool::open(disk, config.clone(), &()).unwrap_err().to_string()
}

/// Whether there is such a file.
fn has(disk: &dyn Disk, path: &str) -> bool {
    disk.open(Path::new(path), OpenMode::ReadOnly).is_ok()
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
    assert!(text.contains("buffer \"a\" 600 KiB") && text.contains("but 1.00 MiB free"), "{text}");
    for path in ["/s/a.cyc", "/s/b.cyc", "/s/secret"] {
        assert!(!has(&disk, path), "{path}");
    }
    disk.set_free_bytes(1 << 30);
    used(&disk, &config);
    // Existing files need no more room.
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
    // Without a checkpoint, the journal names it.
    for name in disk.list(Path::new("/s/index")).unwrap() {
        disk.remove(&PathBuf::from("/s/index").join(name)).unwrap();
    }
    let text = refused(&disk, &config);
    assert!(text.contains("buffer \"b\" is missing"), "{text}");
    // As it says, a rebuild goes on without it; not by itself, and without a new file in its place.
    let text = rebuild(shared.clone(), config.clone(), &()).unwrap_err().to_string();
    assert!(text.contains("`newsreel rebuild --without b` to go on without its articles"), "{text}");
    config.buffers.pop();
    config.classes[0].buffers.pop();
    rebuild_without(shared.clone(), config.clone(), &["b".into()], &(), &mut || Ok(())).unwrap();
    assert!(!has(&disk, "/s/b.cyc"));
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
    assert_eq!(spool.buffers().list().unwrap().len(), 2);
    // Also while serving.
    let add = BufferConfig { name: "d".into(), path: "/disk3/d.cyc".into(), ..config.buffers[0].clone() };
    let text = spool.buffers().add(&add, "all", &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("there is no /disk3"), "{text}");
    let text =
        spool.buffers().move_to("c", Path::new("/disk3/c.cyc"), &(), &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("there is no /disk3"), "{text}");
    disk.set_free_bytes(100_000);
    let add = BufferConfig { path: "/disk2/d.cyc".into(), ..add };
    let text = spool.buffers().add(&add, "all", &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("195 KiB needed") && text.contains("97.7 KiB free"), "{text}");
    let text = spool.buffers().grow("c", 400_000, &mut || Ok(())).unwrap_err().to_string();
    assert!(text.contains("195 KiB needed"), "{text}");
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
            other.open(Path::new(keep), OpenMode::Create).unwrap();
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
    // A file where the directory should be cannot be listed by any user.
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

/// Returns the problems that an inspection finds, which must be those of an opening; it changes nothing.
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
    // Another process has it, rightly or not.
    let (_spool, _) = open(&shared, &good);
    assert!(inspect(&shared, &good, true).problems.is_empty());
    assert!(found(&disk, &good).iter().any(|text| text.contains("is in use")), "{:?}", found(&disk, &good));
}

/// A disk that was away: its buffer is given up by name only, and its file is recognized when it comes back.
#[test]
fn a_buffer_that_was_given_up_is_recognized_and_its_articles_can_be_had_back() {
    let disk = SimDisk::new();
    let both = config("/s", &[("a", 200_000), ("b", 200_000)]);
    let mut alone = both.clone();
    alone.buffers.pop();
    alone.classes[0].buffers.pop();
    used(&disk, &both);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let ids: Vec<String> = (0..20).map(|n| News::new(n, 2, 900).id).collect();
    let living = |config: &SpoolConfig| {
        let (spool, _) = open(&shared, config);
        let living = ids.iter().filter(|id| fetch(&spool, id).is_some()).count() as u64;
        spool.close().unwrap();
        living
    };
    disk.link(Path::new("/s/b.cyc"), Path::new("/away")).unwrap();
    disk.remove(Path::new("/s/b.cyc")).unwrap();

    // A buffer's articles are given up only if it is named, not because it is out of the configuration.
    let text = rebuild(shared.clone(), alone.clone(), &()).unwrap_err().to_string();
    assert!(text.contains("`newsreel rebuild --without b` to go on without its articles"), "{text}");
    let report = rebuild_without(shared.clone(), alone.clone(), &["b".into()], &(), &mut || Ok(())).unwrap();
    let given_up = report.given_up;
    assert!(
        given_up.is_exact && given_up.articles > 0 && report.articles + given_up.articles == 20,
        "{report:?}"
    );
    assert_eq!(living(&alone), report.articles);
    assert!(!has(&disk, "/s/b.cyc"));

    // The file comes back: looking and opening say so, and a rebuild reads it.
    disk.link(Path::new("/away"), Path::new("/s/b.cyc")).unwrap();
    let told = refused(&disk, &both);
    assert!(told.contains("/s/b.cyc holds articles of buffer \"b\" that are in no index"), "{told}");
    assert_eq!(found(&disk, &both), [told]);
    rebuild(shared.clone(), both.clone(), &()).unwrap();
    assert_eq!(living(&both), 20);
}

/// An older file in the place of the one in use is not taken for it.
#[test]
fn an_older_file_of_the_same_name_is_recognized() {
    let disk = SimDisk::new();
    let both = config("/s", &[("a", 200_000), ("b", 200_000)]);
    let mut alone = both.clone();
    alone.buffers.pop();
    alone.classes[0].buffers.pop();
    used(&disk, &both);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.link(Path::new("/s/b.cyc"), Path::new("/away")).unwrap();
    disk.remove(Path::new("/s/b.cyc")).unwrap();
    rebuild_without(shared.clone(), alone, &["b".into()], &(), &mut || Ok(())).unwrap();
    // A new one of that name, and then the old one over it.
    let (spool, _) = open(&shared, &both);
    commit(&spool, &(20..40).map(|n| News::new(n, 2, 900)).collect::<Vec<_>>()).unwrap();
    spool.close().unwrap();
    drop(spool);
    disk.remove(Path::new("/s/b.cyc")).unwrap();
    disk.link(Path::new("/away"), Path::new("/s/b.cyc")).unwrap();
    let told = refused(&disk, &both);
    assert!(told.contains("/s/b.cyc is an older file of buffer \"b\", not the one that is in use"), "{told}");
    assert_eq!(found(&disk, &both), std::slice::from_ref(&told));
    // A rebuild reads it only if it may give up the other one.
    assert_eq!(rebuild(shared.clone(), both.clone(), &()).unwrap_err().to_string(), told);
    rebuild_without(shared.clone(), both.clone(), &["b".into()], &(), &mut || Ok(())).unwrap();
    let (spool, _) = open(&shared, &both);
    for n in 0..20 {
        assert!(fetch(&spool, &News::new(n, 2, 900).id).is_some(), "{n}");
    }
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

/// A copy of the file in use is not taken for it if articles were written to it since.
#[test]
fn an_older_copy_of_a_buffer_is_recognized() {
    let disk = SimDisk::new();
    let config = config("/s", &[("a", 200_000), ("b", 200_000)]);
    used(&disk, &config);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let file = || shared.open(Path::new("/s/b.cyc"), OpenMode::Existing).unwrap();
    let mut copy = vec![0; usize::try_from(file().len().unwrap()).unwrap()];
    file().read_at(&mut copy, 0).unwrap();
    let put_back = |bytes: &[u8]| file().write_all_at(&[std::io::IoSlice::new(bytes)], 0).unwrap();
    // A copy that lacks nothing is as good as the file.
    put_back(&copy);
    let (spool, _) = open(&shared, &config);
    commit(&spool, &(20..40).map(|n| News::new(n, 2, 900)).collect::<Vec<_>>()).unwrap();
    spool.close().unwrap();
    drop(spool);
    let mut newest = copy.clone();
    file().read_at(&mut newest, 0).unwrap();
    put_back(&copy);
    let told = refused(&disk, &config);
    assert!(told.contains("/s/b.cyc is a copy of buffer \"b\" from before, and lacks what was"), "{told}");
    assert_eq!(found(&disk, &config), std::slice::from_ref(&told));
    // As it says: either the newest one, or a rebuild from what there is.
    put_back(&newest);
    let (spool, _) = open(&shared, &config);
    assert!((0..40).all(|n| fetch(&spool, &News::new(n, 2, 900).id).is_some()));
    spool.close().unwrap();
    drop(spool);
    put_back(&copy);
    assert_eq!(refused(&disk, &config), told);
    rebuild(shared.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&shared, &config);
    let left = (0..40).filter(|n| fetch(&spool, &News::new(*n, 2, 900).id).is_some()).count();
    assert!((20..40).contains(&left), "{left}");
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

/// Two buffers, and the same without the second.
fn two_and_one() -> (SpoolConfig, SpoolConfig) {
    let both = config("/s", &[("a", 40_000), ("b", 40_000)]);
    let mut alone = both.clone();
    alone.buffers.pop();
    alone.classes[0].buffers.pop();
    (both, alone)
}

/// Rebuilds without what is named; how often the configuration was changed for it goes to `changed`.
fn without(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    names: &[&str],
    changed: &mut u32,
) -> Result<RebuildReport, SpoolError> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut commit = || {
        *changed += 1;
        Ok(())
    };
    rebuild_without(disk.clone(), config.clone(), &names, &(), &mut commit)
}

/// The count is that of the articles that lived: neither overwritten nor cancelled.
#[test]
fn articles_given_up_are_counted_exactly() {
    let disk = SimDisk::new();
    let (both, alone) = two_and_one();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (spool, _) = open(&shared, &both);
    add_groups(&spool, 2);
    let all: Vec<News> = (0..200).map(|n| News::new(n, 2, 900)).collect();
    all.chunks(10).for_each(|part| drop(commit(&spool, part).unwrap()));
    let living = |spool: &Spool| all.iter().filter(|news| fetch(spool, &news.id).is_some()).count() as u64;
    assert!(living(&spool) < 150, "the buffers have wrapped");
    for news in all.iter().skip(180) {
        spool.cancel(news.id.as_bytes()).unwrap();
    }
    let before = living(&spool);
    spool.close().unwrap();
    drop(spool);
    disk.remove(Path::new("/s/b.cyc")).unwrap();
    let report = without(&shared, &alone, &["b"], &mut 0).unwrap();
    let (spool, _) = open(&shared, &alone);
    assert_eq!(living(&spool), report.articles);
    let given_up = report.given_up;
    assert!(given_up.is_exact && given_up.articles == before - report.articles && before > 0, "{report:?}");
    // They stay known: what came again would be a second copy once the disk is back.
    let is_known = |news: &News| spool.is_known(&spool.key(news.id.as_bytes()));
    assert!(all.iter().all(is_known));
}

/// Articles after the last checkpoint are counted, too, and the count does not claim to be exact.
#[test]
fn articles_after_the_checkpoint_are_given_up_and_counted() {
    let disk = SimDisk::new();
    let (both, alone) = two_and_one();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (spool, _) = open(&shared, &both);
    add_groups(&spool, 2);
    commit(&spool, &(0..20).map(|n| News::new(n, 2, 900)).collect::<Vec<_>>()).unwrap();
    let left = disk.image_after(CrashKind::Kill, 1).unwrap();
    drop(spool);
    left.remove(Path::new("/s/b.cyc")).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(left);
    let mut changed = 0;
    let text = without(&shared, &alone, &[], &mut changed).unwrap_err().to_string();
    assert!(text.contains("buffer \"b\" holds articles but is not in the configuration"), "{text}");
    let report = without(&shared, &alone, &["b"], &mut changed).unwrap();
    assert!(report.given_up.articles > 0 && !report.given_up.is_exact, "{report:?}");
    assert_eq!(report.articles + report.given_up.articles, 20);
}

/// Nothing is given up by mistake: names of what is there, or of nothing, change nothing.
#[test]
fn only_what_is_missing_can_be_left_out() {
    let disk = SimDisk::new();
    let (both, alone) = two_and_one();
    used(&disk, &both);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut changed = 0;
    let text = without(&shared, &both, &["b"], &mut changed).unwrap_err().to_string();
    assert!(text.contains("buffer \"b\" is not missing: /s/b.cyc is its file"), "{text}");
    let text = without(&shared, &both, &["c"], &mut changed).unwrap_err().to_string();
    assert!(text.contains("no index knows of a buffer \"c\""), "{text}");
    disk.remove(Path::new("/s/b.cyc")).unwrap();
    let text = without(&shared, &alone, &["b", "c"], &mut changed).unwrap_err().to_string();
    assert!(text.contains("no index knows of a buffer \"c\""), "{text}");
    assert_eq!((changed, has(&disk, "/s/index/checkpoint")), (0, true));
    // Nor without its own name if the indexes are lost and only the journal knows it.
    for name in disk.list(Path::new("/s/index")).unwrap() {
        disk.remove(&PathBuf::from("/s/index").join(name)).unwrap();
    }
    let text = without(&shared, &alone, &[], &mut changed).unwrap_err().to_string();
    assert!(text.contains("`newsreel rebuild --without b`"), "{text}");
    without(&shared, &alone, &["b"], &mut changed).unwrap();
    assert_eq!(changed, 1);
}

/// The directory of a class that keeps its articles is missed like a buffer's file.
#[test]
fn a_class_whose_directory_is_missing_is_given_up_by_name() {
    let disk = SimDisk::new();
    let mut config = config("/s", &[]);
    let class = &mut config.classes[0];
    (class.name, class.method, class.buffers) = ("tree".into(), MethodKind::Tradspool, Vec::new());
    class.tree = TreeConfig { path: "/disk/tree".into(), ..TreeConfig::default() };
    config.rules[0].class = "tree".into();
    disk.create_dir(Path::new("/disk/tree")).unwrap();
    used(&disk, &config);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    // The disk of the class goes away, and the mount point is left.
    let headers = ["newsreel.tree", "newsreel.tree.copy"];
    let swap = |from: &str, to: &str| {
        disk.create_dir(Path::new(to)).unwrap();
        for name in headers {
            disk.rename(&Path::new(from).join(name), &Path::new(to).join(name)).unwrap();
        }
    };
    swap("/disk/tree", "/away");
    let told = refused(&disk, &config);
    assert!(told.contains("there is no /disk/tree/newsreel.tree; mount its disk"), "{told}");
    assert_eq!(rebuild(shared.clone(), config.clone(), &()).unwrap_err().to_string(), told);
    assert!(!has(&disk, "/disk/tree/newsreel.tree"));
    config.classes[0].tree.path = "/disk/new".into();
    let report = without(&shared, &config, &["tree"], &mut 0).unwrap();
    let exact = GivenUp { articles: 20, is_exact: true };
    assert_eq!((report.articles, report.given_up), (0, exact));
    // The new directory is the one in use now.
    config.classes[0].tree.path = "/disk/tree".into();
    swap("/away", "/disk/tree");
    let told = refused(&disk, &config);
    assert!(told.contains("/disk/tree is an older directory of class \"tree\""), "{told}");
    assert_eq!(found(&disk, &config), std::slice::from_ref(&told));
    let report = without(&shared, &config, &["tree"], &mut 0).unwrap();
    assert_eq!((report.articles, report.given_up.articles), (20, 0));
}

/// A spool that cannot be opened shows what can be seen.
#[test]
fn a_glance_needs_no_buffer() {
    let disk = SimDisk::new();
    let (both, _) = two_and_one();
    used(&disk, &both);
    disk.remove(Path::new("/s/b.cyc")).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    assert_eq!(away(&*shared, &both).unwrap(), ["b"]);
    let seen = glance(&shared, &both).unwrap();
    assert_eq!((seen.articles, seen.groups), (20, 2));
    let figures = seen.buffers.iter().map(|b| (b.config.name.as_str(), b.is_away, b.cycle, b.used_bytes > 0));
    assert_eq!(figures.collect::<Vec<_>>(), [("a", false, 1, true), ("b", true, 0, false)]);
    assert!(!has(&disk, "/s/b.cyc"));
}
