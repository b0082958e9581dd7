//! Many at once, compared with a model.
//!
//! Each thread has names of its own in directories that all share, managed and unmanaged, does what chance
//! says and knows what must come of it. Meanwhile others list the directories: what is there all the time
//! must be listed once. At the end every directory has exactly what the models say, and below the mount
//! every file is in its bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use netnews::bucket::BucketScheme;
use usenetfs::MountSettings;

use crate::site::{Random, Site, Stop, listed, manage};

const DIRS: [&str; 4] = ["managed", "plain", "managed/sub", "plain/managed"];
const NAMES: u64 = 60;
/// Files that stay where they are, and what their names begin with.
const STAY: u64 = 400;
const STAYS: &str = "90000";

/// Files of one thread: ids by name, and contents by id; all names of a file share its id.
#[derive(Default)]
struct Model {
    names: BTreeMap<(usize, String), u64>,
    texts: BTreeMap<u64, Vec<u8>>,
    made: u64,
}

struct Worker<'a> {
    site: &'a Site,
    random: Random,
    thread: u64,
    model: Model,
}

impl Worker<'_> {
    /// A place of this thread: most names are articles'.
    fn place(&mut self) -> (usize, String) {
        let dir = self.random.below(DIRS.len() as u64) as usize;
        let n = self.random.below(NAMES);
        let number = 1_000 + n * 997 + self.thread * 1_000_000;
        let name = match n % 6 {
            0 => format!("name-{number}"),
            1 => format!("0{number}"),
            _ => number.to_string(),
        };
        (dir, name)
    }

    fn path(&self, place: &(usize, String)) -> PathBuf {
        self.site.upper(DIRS[place.0]).join(&place.1)
    }

    fn step(&mut self) {
        let place = self.place();
        let path = self.path(&place);
        let here = self.model.names.get(&place).copied();
        match self.random.below(10) {
            0..=2 => {
                let text = vec![b'a' + self.thread as u8; self.random.below(5000) as usize];
                match File::create_new(&path) {
                    Ok(mut file) => {
                        assert_eq!(here, None, "{path:?}");
                        file.write_all(&text).unwrap();
                        self.model.made += 1;
                        let id = self.model.made;
                        self.model.names.insert(place, id);
                        self.model.texts.insert(id, text);
                    }
                    Err(error) => {
                        assert_eq!(
                            (error.kind(), here.is_some()),
                            (ErrorKind::AlreadyExists, true),
                            "{path:?}: {error}"
                        );
                    }
                }
            }
            3 => match fs::remove_file(&path) {
                Ok(()) => assert!(self.model.names.remove(&place).is_some(), "{path:?}"),
                Err(error) => assert_eq!((error.kind(), here), (ErrorKind::NotFound, None), "{path:?}"),
            },
            4 => {
                let to = self.place();
                match fs::hard_link(&path, self.path(&to)) {
                    Ok(()) => {
                        let id = here.unwrap();
                        assert!(self.model.names.insert(to, id).is_none());
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => assert_eq!(here, None),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                        assert!(self.model.names.contains_key(&to));
                    }
                }
            }
            5 | 6 => {
                let to = self.place();
                match fs::rename(&path, self.path(&to)) {
                    Ok(()) => {
                        let id = here.unwrap();
                        if self.model.names.get(&to) != Some(&id) {
                            self.model.names.remove(&place);
                            self.model.names.insert(to, id);
                        }
                    }
                    Err(error) => assert_eq!((error.kind(), here), (ErrorKind::NotFound, None)),
                }
            }
            7 => {
                if let Ok(mut file) = File::options().append(true).open(&path) {
                    file.write_all(b"more").unwrap();
                    self.model.texts.get_mut(&here.unwrap()).unwrap().extend_from_slice(b"more");
                } else {
                    assert_eq!(here, None, "{path:?}");
                }
            }
            _ => match fs::read(&path) {
                Ok(text) => {
                    assert!(self.model.texts[&here.unwrap()] == text, "{path:?}");
                    let links = self.model.names.values().filter(|id| Some(**id) == here).count();
                    assert_eq!(fs::metadata(&path).unwrap().nlink(), links as u64, "{path:?}");
                }
                Err(error) => assert_eq!((error.kind(), here), (ErrorKind::NotFound, None), "{path:?}"),
            },
        }
    }
}

fn check_listing(site: &Site) {
    for dir in DIRS {
        let names = listed(&site.upper(dir));
        let stay = names.iter().filter(|name| name.starts_with(STAYS));
        let distinct: BTreeSet<_> = stay.clone().collect();
        assert_eq!((stay.count(), distinct.len() as u64), (STAY as usize, STAY), "{dir}");
    }
}

fn stress(operations: u64, seed: u64, options: &MountSettings) {
    let Some(site) = Site::with(options) else { return };
    for dir in DIRS {
        fs::create_dir(site.upper(dir)).unwrap();
        if dir.ends_with("managed") {
            manage(&site.upper(dir));
        }
        for n in 0..STAY {
            File::create(site.upper(dir).join((9_000_000_000 + n * 37).to_string())).unwrap();
        }
    }
    let threads = 4;
    let stop = AtomicBool::new(false);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let stopping = Stop(&stop);
        let lister = scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                check_listing(&site);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let site = &site;
                scope.spawn(move || {
                    let random = Random(seed ^ (thread + 1) << 40);
                    let mut worker = Worker { site, random, thread, model: Model::default() };
                    for _ in 0..operations / threads {
                        worker.step();
                    }
                    worker.model
                })
            })
            .collect();
        let models = workers.into_iter().map(|worker| worker.join());
        let models: Vec<_> = models.collect();
        drop(stopping);
        lister.join().unwrap();
        models.into_iter().map(Result::unwrap).collect()
    });
    for (at, dir) in DIRS.iter().enumerate() {
        let here = |model: &Model| {
            let names = model.names.keys().filter(|(dir, _)| *dir == at);
            names.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let expected: BTreeSet<String> = models.iter().flat_map(here).collect();
        let is_worked = |name: &String| !name.starts_with(STAYS) && name != "sub" && name != "managed";
        let found: BTreeSet<String> = listed(&site.upper(dir)).into_iter().filter(is_worked).collect();
        assert_eq!(found, expected, "seed {seed}, {dir}");
        for name in &expected {
            let bucket = options.scheme.bucket(name.as_bytes());
            let lower = if *dir == "managed/sub" { "managed/aaa/sub" } else { dir };
            let below = if dir.ends_with("managed") {
                site.lower(lower).join(bucket.as_str()).join(name)
            } else {
                site.lower(lower).join(name)
            };
            assert!(below.exists(), "seed {seed}, {below:?}");
        }
    }
}

#[test]
fn many_at_once_are_like_the_model() {
    stress(2_000, 1, &MountSettings::default());
    stress(
        1_000,
        2,
        &MountSettings { passthrough: false, scheme: BucketScheme::Pairs, ..MountSettings::default() },
    );
}

#[test]
#[ignore = "long: make soak"]
fn two_hundred_thousand_operations_are_like_the_model() {
    for (seed, scheme) in (10..).zip(BucketScheme::ALL) {
        stress(50_000, seed, &MountSettings { scheme, ..MountSettings::default() });
    }
}
