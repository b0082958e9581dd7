//! Tests with two members that apply the same notes, each with a disk of its own.

use super::*;
use access::users::{self, User, UserRecord};
use disk::SimDisk;
use site_log::SiteLog;
use spool::{Change, ChangeOutcome, NoteKind, SpoolConfig};

/// A note: its key and its value.
type KeyAndValue = (Arc<[u8]>, Arc<[u8]>);

const DATA: &str = "/s";

struct Member {
    disk: SimDisk,
    log: SiteLog,
    files: SharedFiles,
}

impl Member {
    fn new(key: &SimDisk) -> Self {
        let disk = SimDisk::new();
        disk.create_dir(Path::new(DATA)).unwrap();
        let config = SpoolConfig::new(Path::new(DATA));
        let (spool, _) = Spool::open(Arc::new(disk.clone()), config, &()).unwrap();
        let key = ClusterKey::read(key, Path::new("/key")).unwrap().unwrap();
        let files = SharedFiles::under(key, Arc::new(disk.clone()), Path::new(DATA)).unwrap();
        Self { disk, log: SiteLog::new(Arc::new(spool)), files }
    }

    /// Looks; returns the notes that this member has then.
    fn look(&mut self) -> Vec<KeyAndValue> {
        self.files.look(self.log.spool(), Some(&self.log)).unwrap();
        let notes = self.log.spool().notes(NoteKind::SharedFile);
        notes.into_iter().map(|(key, note)| (key, note.value)).collect()
    }

    /// Applies notes, as the log would.
    fn apply(&self, notes: &[KeyAndValue]) {
        let own = self.log.spool().notes(NoteKind::SharedFile);
        let gone = own.iter().filter(|(key, _)| notes.iter().all(|(other, _)| other != key));
        let change = |key, value| Change::Note { kind: NoteKind::SharedFile, key, value, since: 1 };
        let mut changes: Vec<Change<'_>> = gone.map(|(key, _)| change(key, None)).collect();
        changes.extend(notes.iter().map(|(key, value)| change(key, Some(value))));
        let mut outcomes: Vec<ChangeOutcome> = Vec::new();
        self.log.commit(&changes, &mut outcomes).unwrap();
    }

    fn add(&self, name: &str) {
        let user = User::new(name, Vec::<&str>::new());
        let record = UserRecord { user, changed: 1, credentials: None, mail: None };
        users::edit(&self.disk, Path::new(DATA), |table| {
            table.put(record);
            Ok::<_, ()>(())
        })
        .unwrap();
    }

    fn users(&self) -> Vec<String> {
        let table = users::load(&self.disk, Path::new(DATA)).unwrap();
        let mut names: Vec<String> =
            table.iter().flat_map(|table| table.iter().map(|record| record.user.name.to_string())).collect();
        names.sort();
        names
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = Path::new(DATA).join(name);
        self.disk.create_dir(path.parent().unwrap()).unwrap();
        durable_replace(&self.disk, &path, &[content], FileAccess::Owner).unwrap();
    }

    fn content(&self, name: &str) -> Option<Vec<u8>> {
        read_small(&self.disk, &Path::new(DATA).join(name), 1 << 30).unwrap()
    }
}

fn key() -> SimDisk {
    let disk = SimDisk::new();
    assert!(ClusterKey::create(&disk, Path::new("/key")).unwrap());
    disk
}

#[test]
fn users_that_two_members_add_at_a_time_are_on_both_and_a_removed_one_on_neither() {
    let key = key();
    let (mut first, mut second) = (Member::new(&key), Member::new(&key));
    first.add("fred");
    second.apply(&first.look());
    second.look();
    assert_eq!(second.users(), ["fred"]);
    // At a time: both have their own before either sees that of the other.
    first.add("wilma");
    second.add("barney");
    let of_first = first.look();
    let mut both = second.look();
    both.extend(of_first);
    for _ in 0..2 {
        for member in [&mut first, &mut second] {
            member.apply(&both);
            both = member.look();
        }
    }
    assert_eq!(first.users(), ["barney", "fred", "wilma"]);
    assert_eq!(second.users(), first.users());
    users::edit(&first.disk, Path::new(DATA), |table| Ok::<_, ()>(table.remove("fred"))).unwrap();
    second.apply(&first.look());
    second.look();
    assert_eq!(second.users(), ["barney", "wilma"]);
    // A file of users that is lost comes back, and removes no one.
    second.disk.remove(&Path::new(DATA).join("users")).unwrap();
    let notes = second.look();
    assert_eq!(second.users(), ["barney", "wilma"]);
    first.apply(&notes);
    first.look();
    assert_eq!(first.users(), ["barney", "wilma"]);
}

#[test]
fn files_of_any_length_are_alike_everywhere_and_nothing_of_them_is_seen_in_the_log() {
    let key = key();
    let (mut first, mut second) = (Member::new(&key), Member::new(&key));
    let long: Vec<u8> = (0..100_000u32).flat_map(|n| n.to_le_bytes()).collect();
    first.write("moderation/held/one.post", &long);
    first.write("keyring/ABCD.untrusted", b"not shared: no key");
    first.write("posting-secret", b"a secret of posting");
    let notes = first.look();
    assert!(notes.len() > 20, "{}", notes.len());
    for (key, value) in &notes {
        assert!(value.len() <= spool::NOTE_VALUE_BYTES_MAX && key.len() == 18);
        for secret in [b"secret".as_slice(), b"one.post", &long[..64]] {
            assert!(!value.windows(secret.len()).any(|part| part == secret));
        }
    }
    second.apply(&notes);
    assert!(second.files.take(second.log.spool()).unwrap().is_of_moderation);
    assert_eq!(second.content("moderation/held/one.post").unwrap(), long);
    assert_eq!(second.content("posting-secret").unwrap(), b"a secret of posting");
    // A shorter content takes the place of the longer one, pieces and all.
    second.write("moderation/held/one.post", b"short");
    let shorter = second.look();
    assert!(shorter.len() < notes.len());
    first.apply(&shorter);
    first.look();
    assert_eq!(first.content("moderation/held/one.post").unwrap(), b"short");
    // What is decided at one member waits at none.
    first.disk.remove(&Path::new(DATA).join("moderation/held/one.post")).unwrap();
    second.apply(&first.look());
    second.look();
    assert_eq!(second.content("moderation/held/one.post"), None);
}

#[test]
fn a_member_with_another_key_takes_nothing_and_one_that_joins_takes_what_there_is() {
    let (ours, theirs) = (key(), key());
    let (mut first, mut second, mut third) = (Member::new(&ours), Member::new(&theirs), Member::new(&ours));
    first.write("posting-secret", b"the secret of the cluster");
    let notes = first.look();
    second.apply(&notes);
    assert_eq!(second.files.sealed.refresh(second.log.spool()), 1);
    second.files.take(second.log.spool()).unwrap();
    assert_eq!(second.content("posting-secret"), None);
    // A secret that it has made for itself is replaced.
    third.write("posting-secret", b"its own");
    third.apply(&notes);
    third.look();
    assert_eq!(third.content("posting-secret").unwrap(), b"the secret of the cluster");
    // What was alike is known after a start.
    let alike = read_alike(&third.content(ALIKE_FILE_NAME).unwrap()).unwrap();
    assert_eq!(alike, third.files.alike);
    assert_eq!(alike.len(), 1);
}
