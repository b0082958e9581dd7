//! `newsreel verify` of the small state files in `site.data`; the consequences of damage are described in
//! each file's page of `docs/formats`.
//!
//! A table with one row for each kind of file. Only reads. A damaged file that was set aside is reported
//! until it is removed. The files of the journal's readers belong to the spool.

use super::{archive, audit, days, group_control, pull, shared_files};
use access::users;
use disk::{Disk, LogLine, checked_lines, is_set_aside, read_small};
use site::{inject, moderation};
use site_base::units::counted;
use std::io;
use std::path::{Path, PathBuf};
use upstreams as source;

/// Maximum number of bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 2 << 30;

/// How a file is checked.
enum StateFileCheck {
    /// As a whole, by name and contents.
    Whole(fn(&str, &[u8]) -> bool),
    /// Line by line.
    Lines(fn(LogLine<'_>) -> bool),
}

/// A kind of file.
struct StateFileKind {
    /// Directory below `site.data`; empty for `site.data` itself.
    dir: &'static str,
    /// Returns whether a file name in that directory is of this kind.
    is_one: fn(&str) -> bool,
    check: StateFileCheck,
    /// Consequence of damage.
    costs: &'static str,
}

const KINDS: &[StateFileKind] = &[
    StateFileKind {
        dir: "",
        is_one: |name| name == "users",
        check: StateFileCheck::Whole(|_, bytes| users::is_whole(bytes)),
        costs: "the users known so far stay; after a start nobody can log in by password",
    },
    StateFileKind {
        dir: "",
        is_one: |name| name == users::SIGN_UPS_FILE_NAME,
        check: StateFileCheck::Whole(|_, bytes| users::is_sign_ups_whole(bytes)),
        costs: "no account can be asked for or confirmed until it is removed or put back",
    },
    StateFileKind {
        dir: "",
        is_one: |name| name == "posting-secret",
        check: StateFileCheck::Whole(|_, bytes| inject::is_secret_whole(bytes)),
        costs: "posts are refused until it is put back",
    },
    StateFileKind {
        dir: "",
        is_one: |name| name == "notices-done",
        check: StateFileCheck::Lines(group_control::is_notice_whole),
        costs: "notices of these lines may be carried out again",
    },
    StateFileKind {
        dir: "",
        is_one: |name| matches!(name, "filter-log" | "filter-log.old"),
        check: StateFileCheck::Lines(ingest::is_review_whole),
        costs: "these findings are not listed",
    },
    StateFileKind {
        dir: "",
        is_one: |name| matches!(name, "audit-log" | "audit-log.old"),
        check: StateFileCheck::Lines(audit::is_whole),
        costs: "these actions of operators are not listed",
    },
    StateFileKind {
        dir: "",
        is_one: |name| name == "filter-released",
        check: StateFileCheck::Lines(ingest::is_release_whole),
        costs: "the filter judges these articles again",
    },
    StateFileKind {
        dir: "",
        is_one: |name| name == shared_files::ALIKE_FILE_NAME,
        check: StateFileCheck::Whole(|_, bytes| shared_files::is_alike_whole(bytes)),
        costs: "files that were changed here while the server was stopped become those of the other members",
    },
    StateFileKind {
        dir: "archive",
        is_one: |name| name == "missed",
        check: StateFileCheck::Lines(|line| line.text().is_some()),
        costs: "these articles without a copy are not listed",
    },
    StateFileKind {
        dir: "archive",
        is_one: |name| name.ends_with(".state"),
        check: StateFileCheck::Whole(|_, bytes| archive::is_state_whole(bytes)),
        costs: "what is not known to be in the archive is copied again; an mbox may get articles twice",
    },
    StateFileKind {
        dir: "pull",
        is_one: |name| name.ends_with(".marks"),
        check: StateFileCheck::Whole(|_, bytes| pull::is_marks_file_whole(bytes)),
        costs: "what was fetched from this server is looked at again, and what is here is not fetched",
    },
    StateFileKind {
        dir: "days",
        is_one: |name| name.len() == "2026-01-31".len() && !name.contains(|c: char| c.is_alphabetic()),
        check: StateFileCheck::Whole(|_, bytes| days::is_record_whole(bytes)),
        costs: "what was counted on that day is lost",
    },
    StateFileKind {
        dir: "posts",
        is_one: |name| name.ends_with(".post"),
        check: StateFileCheck::Whole(|_, bytes| source::is_post_whole(bytes)),
        costs: "this post does not go to its upstream",
    },
    StateFileKind {
        dir: "moderation",
        is_one: |name| name.ends_with(".mail"),
        check: StateFileCheck::Whole(|_, bytes| moderation::is_mail_whole(bytes)),
        costs: "this mail is not sent, and is moved to moderation/failed",
    },
    StateFileKind {
        dir: "moderation/held",
        is_one: |name| name.ends_with(".post"),
        check: StateFileCheck::Whole(|_, bytes| moderation::is_held_whole(bytes)),
        costs: "this post does not wait for a moderator any more",
    },
    StateFileKind {
        dir: "keyring",
        is_one: ingest::is_key_file,
        check: StateFileCheck::Whole(ingest::is_key_whole),
        costs: "what this key has signed is not obeyed until it is imported and trusted again",
    },
];

/// Damage to a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StateDamage {
    pub file: PathBuf,
    pub what: String,
}

/// Returns the damage to the small files of the site in `data`.
pub(super) fn damaged(disk: &dyn Disk, data: &Path) -> Vec<StateDamage> {
    let mut damaged = Vec::new();
    let mut dirs: Vec<&str> = KINDS.iter().map(|kind| kind.dir).collect();
    dirs.dedup();
    for dir in dirs {
        let dir_path = data.join(dir);
        let names = match disk.list(&dir_path) {
            Ok(names) => names,
            Err(error) => {
                damaged.push(StateDamage { file: dir_path, what: format!("cannot be read: {error}") });
                continue;
            }
        };
        for name in names {
            let file = dir_path.join(&name);
            let what = match KINDS.iter().find(|kind| kind.dir == dir && (kind.is_one)(&name)) {
                Some(kind) => kind.damage(disk, &file, &name),
                None if is_set_aside(&name) => {
                    Some("was damaged and set aside; remove it when nothing of it is needed".to_owned())
                }
                None => None,
            };
            damaged.extend(what.map(|what| StateDamage { file, what }));
        }
    }
    damaged
}

impl StateFileKind {
    fn damage(&self, disk: &dyn Disk, file: &Path, name: &str) -> Option<String> {
        let bytes = match read_small(disk, file, FILE_BYTES_MAX) {
            Ok(bytes) => bytes?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(format!("cannot be read ({error}): {}", self.costs)),
        };
        match self.check {
            StateFileCheck::Whole(is_whole) if is_whole(name, &bytes) => None,
            StateFileCheck::Whole(_) => Some(format!("is damaged: {}", self.costs)),
            StateFileCheck::Lines(is_whole) => {
                let damaged = checked_lines(&bytes).filter(|line| !is_whole(*line)).count();
                (damaged > 0)
                    .then(|| format!("has {}: {}", counted(damaged as u64, "damaged line"), self.costs))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{FileAccess, SimDisk, durable_replace};
    use site_base::{fields, summed};

    const DATA: &str = "/data";

    /// Returns a file of these lines.
    fn lines(texts: [&str; 2]) -> String {
        let sim = std::sync::Arc::new(SimDisk::new());
        sim.create_dir(Path::new("/l")).unwrap();
        let path = PathBuf::from("/l/lines");
        let mut log =
            disk::AppendLog::open(sim.clone(), path.clone(), FileAccess::Group, 4_096, |_| true).unwrap();
        texts.iter().try_for_each(|text| log.append(text)).and_then(|()| log.sync()).unwrap();
        String::from_utf8(read_small(&*sim, &path, 4_096).unwrap().unwrap()).unwrap()
    }

    /// Returns a valid small file of each kind: its path below `site.data`, and its contents.
    fn samples() -> Vec<(&'static str, Vec<u8>)> {
        let key = "0".repeat(31) + "7";
        let digest = "ab".repeat(32);
        let waits = |kind: &str, fields: &[(&str, &str)]| {
            let (head, sum) = fields::around(kind, fields, b"Subject: x\r\n\r\nbody\r\n");
            format!("{head}Subject: x\r\n\r\nbody\r\n{sum}")
        };
        let summed = |text: &str| summed::with_sum(text.to_owned());
        let two = |one: &str, other: &str| lines([one, other]);
        let post =
            [("id", "<1@x>"), ("to", "isp"), ("from", "::1"), ("user", ""), ("queued", "5"), ("refused", "")];
        let held = [("id", "<1@x>"), ("group", "a.b"), ("from", "::1"), ("user", "fred"), ("queued", "5")];
        let mail = [("to", "mod@x"), ("from", "news@x"), ("queued", "5")];
        let action = "5\tweb\tcarol\t::1\tdone\tgo\tnews";
        let review = "5\trefused\tspam\t<1@x>\ta.b\tmoney\tfast";
        [
            ("users", summed(&format!("newsreel-users 2 {}\nfred\tstaff\t5\t-\t-\n", "07".repeat(16)))),
            ("sign-ups", summed("newsreel-sign-ups 1\n")),
            ("shared-files", summed(&format!("{digest} posting-secret\n{digest} users/fred\n"))),
            ("notices-done", two(&format!("{digest} 5 6 7 KEY"), "forgotten 8")),
            ("filter-log", two(review, review)),
            ("audit-log", two(action, action)),
            ("filter-released", two(&format!("{key} spam"), &format!("{key} ham"))),
            ("archive/missed", two("5 all a.b:7 overwritten", "6 all a.b:8 overwritten")),
            ("archive/all.state", summed("newsreel archive 1\narchived 5\nmissed 0\nplace 3 99\n")),
            ("pull/news.example_119.marks", summed("newsreel pull 1\ngroup 7 a.b\nnewnews 5 *\n")),
            ("days/2026-01-31", summed("newsreel day 1\n{\"next\":7,\"accepted\":7}\n")),
            ("posts/00.post", waits("newsreel post", &post)),
            ("moderation/1-0.mail", waits("newsreel moderation", &mail)),
            ("moderation/held/00.post", waits("newsreel held", &held)),
        ]
        .map(|(file, text)| (file, text.into_bytes()))
        .into()
    }

    fn found(bytes: Option<(&str, &[u8])>) -> Vec<StateDamage> {
        let sim = SimDisk::new();
        KINDS.iter().for_each(|kind| sim.create_dir(&Path::new(DATA).join(kind.dir)).unwrap());
        if let Some((file, bytes)) = bytes {
            durable_replace(&sim, &Path::new(DATA).join(file), &[bytes], FileAccess::Group).unwrap();
        }
        damaged(&sim, Path::new(DATA))
    }

    #[test]
    fn each_damaged_byte_of_each_small_file_is_found() {
        assert_eq!(found(None), []);
        let mut kinds = 0;
        for (file, whole) in samples() {
            let kind = KINDS.iter().find(|kind| {
                let path = Path::new(file);
                let dir = path.parent().unwrap() == Path::new(kind.dir);
                dir && (kind.is_one)(path.file_name().unwrap().to_str().unwrap())
            });
            let lines = matches!(kind.unwrap().check, StateFileCheck::Lines(_));
            kinds += 1;
            assert_eq!(found(Some((file, &whole))), [], "{file}");
            let is_found = |bytes: &[u8]| match &*found(Some((file, bytes))) {
                [one] => one.file == Path::new(DATA).join(file) && one.what.ends_with(kind.unwrap().costs),
                _ => false,
            };
            let head_bytes = whole.iter().position(|b| *b == b'\n').map_or(0, |end| end + 1);
            for at in 0..whole.len() {
                for bit in [0, 1, 7] {
                    let mut flipped = whole.clone();
                    flipped[at] ^= 1 << bit;
                    assert!(is_found(&flipped), "{file}: bit {bit} of byte {at}");
                }
                // A file of lines that ends within its head may be one that has just been begun.
                assert!(is_found(&whole[..at]) != (lines && at < head_bytes), "{file}: cut at {at}");
            }
            assert!(is_found(&vec![0; whole.len()]), "{file}: zeros");
        }
        // The other kinds have their own tests: `inject::secret::tests`, `ingest::control::keyring::tests`.
        assert_eq!(kinds + 2, KINDS.len());
    }

    #[test]
    fn files_set_aside_are_reported_until_removed() {
        for file in ["users.damaged", "posts/00.post.damaged-2", "moderation/held/00.post.damaged"] {
            let found = found(Some((file, b"whatever")));
            assert_eq!(found.len(), 1, "{file}");
            assert!(found[0].what.contains("set aside"), "{file}: {}", found[0].what);
        }
    }
}
