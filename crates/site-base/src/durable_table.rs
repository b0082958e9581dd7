//! A bounded table that survives a restart: its entries are lines of one file below `site.data`.
//!
//! Every change appends a line; when more than half of the lines are obsolete, the file is replaced as a
//! whole. The oldest entry is removed when there are too many. Used for whatever is remembered of many
//! articles or messages: early cancels and hides, control messages and notices.

use disk::{AppendLog, Disk, FileAccess, LogLine};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Spare lines of the file, and spare keys in the order, on top of twice those in use before it is rewritten.
const LINES_SPARE: usize = 1_024;

/// An entry of the table.
pub trait TableEntry: Sized {
    /// Key by which entries are found.
    type Key: Clone + Eq + Hash;
    /// Name of the file below `site.data`.
    const FILE_NAME: &'static str;
    /// Maximum length of the file.
    const FILE_BYTES_MAX: u64;
    /// Maximum number of entries.
    const ENTRIES_MAX: usize;

    /// Appends the lines of this entry.
    fn lines(&self, key: &Self::Key, lines: &mut Vec<String>);
}

/// A bounded table backed by a file.
#[derive(Debug)]
pub struct DurableTable<E: TableEntry> {
    /// Entries, each with the turn in which it was inserted.
    entries: HashMap<E::Key, (u64, E)>,
    /// Turns and keys in order of insertion, including removed and replaced entries.
    order: VecDeque<(u64, E::Key)>,
    turn: u64,
    /// An additional line that is always the first one of a replaced file.
    pub head: Option<String>,
    /// `None` if the file cannot be read.
    log: Option<AppendLog>,
    lines: usize,
    /// Lines of the file when it was last replaced, as an entry may have several.
    lines_replaced: usize,
    /// The file lacks some lines.
    is_incomplete: bool,
}

impl<E: TableEntry> DurableTable<E> {
    /// Creates a table without a file, to which nothing can be appended.
    pub fn unread() -> Self {
        let (entries, order) = Default::default();
        Self {
            entries,
            order,
            turn: 0,
            head: None,
            log: None,
            lines: 0,
            lines_replaced: 0,
            is_incomplete: false,
        }
    }

    /// Opens the table in `data`; `read` is called with each line of the file, and returns whether it
    /// understands the line.
    pub fn open(
        disk: Arc<dyn Disk>,
        data: &Path,
        mut read: impl FnMut(&mut Self, LogLine<'_>) -> bool,
    ) -> io::Result<Self> {
        let mut table = Self::unread();
        let path = data.join(E::FILE_NAME);
        let log = AppendLog::open(disk, path, FileAccess::Group, E::FILE_BYTES_MAX, |line| {
            table.lines += 1;
            read(&mut table, line)
        })?;
        table.log = Some(log);
        Ok(table)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry with this key.
    pub fn get(&self, key: &E::Key) -> Option<&E> {
        self.entries.get(key).map(|(_, entry)| entry)
    }

    /// Returns an entry that may be changed; its position in the order stays the same.
    pub fn get_mut(&mut self, key: &E::Key) -> Option<&mut E> {
        self.entries.get_mut(key).map(|(_, entry)| entry)
    }

    /// Returns all entries, in no order.
    pub fn values(&self) -> impl Iterator<Item = &E> {
        self.entries.values().map(|(_, entry)| entry)
    }

    /// Inserts the newest entry, replacing one with the same key; returns the oldest entry if it had to be
    /// removed because there were too many.
    pub fn insert(&mut self, key: E::Key, entry: E) -> Option<E> {
        self.turn += 1;
        self.order.push_back((self.turn, key.clone()));
        self.entries.insert(key, (self.turn, entry));
        let went = if self.entries.len() > E::ENTRIES_MAX { self.remove_first() } else { None };
        self.shorten_order();
        went
    }

    /// Removes an entry and returns it.
    pub fn remove(&mut self, key: &E::Key) -> Option<E> {
        let removed = self.entries.remove(key)?;
        self.shorten_order();
        Some(removed.1)
    }

    /// Keeps the entries for which `stays` returns true.
    pub fn retain(&mut self, mut stays: impl FnMut(&E::Key, &E) -> bool) {
        self.entries.retain(|key, (_, entry)| stays(key, entry));
        self.shorten_order();
    }

    fn remove_first(&mut self) -> Option<E> {
        loop {
            let (turn, key) = self.order.pop_front()?;
            if self.entries.get(&key).is_some_and(|(of, _)| *of == turn) {
                return self.entries.remove(&key).map(|(_, entry)| entry);
            }
        }
    }

    fn shorten_order(&mut self) {
        if self.order.len() > 2 * self.entries.len() + LINES_SPARE {
            let entries = &self.entries;
            self.order.retain(|(turn, key)| entries.get(key).is_some_and(|(of, _)| of == turn));
        }
    }

    /// Appends a line about a change; it is durable after the next [`DurableTable::sync`].
    pub fn append(&mut self, line: &str) -> io::Result<()> {
        self.lines += 1;
        let unread = || io::Error::other(format!("{} could not be read", E::FILE_NAME));
        let appended = self.log.as_mut().ok_or_else(unread).and_then(|log| log.append(line));
        self.is_incomplete |= appended.is_err();
        appended
    }

    /// Replaces the file, durably, if most of its lines are obsolete.
    pub fn tidy_up(&mut self) -> io::Result<()> {
        let of_use = self.entries.len().max(self.lines_replaced);
        if self.lines <= 2 * of_use + LINES_SPARE { Ok(()) } else { self.replace_file() }
    }

    /// Replaces the file by the contents of the table, durably.
    pub fn replace_file(&mut self) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let mut lines: Vec<String> = self.head.iter().cloned().collect();
        for (turn, key) in &self.order {
            if let Some((_, entry)) = self.entries.get(key).filter(|(of, _)| of == turn) {
                entry.lines(key, &mut lines);
            }
        }
        // Also if this fails: the next try is made after as many new lines.
        (self.lines, self.lines_replaced) = (lines.len(), lines.len());
        log.replace(lines.iter().map(String::as_str))?;
        self.is_incomplete = false;
        Ok(())
    }

    /// Makes appended lines durable; returns false if the file still lacks some.
    pub fn sync(&mut self) -> io::Result<bool> {
        self.log.as_mut().map_or(Ok(()), AppendLog::sync)?;
        Ok(!self.is_incomplete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    #[derive(Debug, PartialEq)]
    struct Number(u64);

    impl TableEntry for Number {
        type Key = u64;
        const FILE_NAME: &'static str = "numbers";
        const FILE_BYTES_MAX: u64 = 1 << 20;
        const ENTRIES_MAX: usize = 2_000;

        fn lines(&self, key: &u64, lines: &mut Vec<String>) {
            lines.push(format!("{key} {}", self.0));
        }
    }

    type Numbers = DurableTable<Number>;

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn open(sim: &SimDisk) -> io::Result<Numbers> {
        Numbers::open(Arc::new(sim.clone()), Path::new("/d"), |table, line| {
            let LogLine::Whole(text) = line else { return false };
            match text.split_once(' ') {
                Some((key, "gone")) => drop(table.remove(&key.parse().unwrap())),
                Some((key, n)) => drop(table.insert(key.parse().unwrap(), Number(n.parse().unwrap()))),
                None => table.head = Some(text.to_owned()),
            }
            true
        })
    }

    fn add(table: &mut Numbers, key: u64, n: u64) -> io::Result<()> {
        table.insert(key, Number(n));
        table.append(&format!("{key} {n}"))?;
        table.tidy_up()
    }

    #[test]
    fn table_and_file_are_bounded_and_the_oldest_entries_are_removed() {
        let sim = disk();
        let mut table = open(&sim).unwrap();
        table.head = Some("head".into());
        for n in 0..10_000 {
            add(&mut table, n, n).unwrap();
            // Inserted again in every round, so it stays.
            add(&mut table, 7, n).unwrap();
        }
        for table in [table, open(&sim).unwrap()] {
            assert_eq!((table.len(), table.head.as_deref()), (Number::ENTRIES_MAX, Some("head")));
            assert_eq!(
                (table.get(&7), table.get(&8), table.get(&9_999)),
                (Some(&Number(9_999)), None, Some(&Number(9_999)))
            );
            assert!(table.lines <= 2 * Number::ENTRIES_MAX + LINES_SPARE + 1, "{}", table.lines);
            assert!(table.order.len() <= 2 * Number::ENTRIES_MAX + LINES_SPARE, "{}", table.order.len());
        }
    }

    #[derive(Debug)]
    struct Many;

    impl TableEntry for Many {
        type Key = u64;
        const FILE_NAME: &'static str = "many";
        const FILE_BYTES_MAX: u64 = 1 << 20;
        const ENTRIES_MAX: usize = 2_000;

        fn lines(&self, key: &u64, lines: &mut Vec<String>) {
            lines.extend((0..8).map(|n| format!("{key} {n}")));
        }
    }

    #[test]
    fn entries_of_many_lines_are_not_written_again_at_each_change() {
        let sim = disk();
        let mut table =
            DurableTable::<Many>::open(Arc::new(sim.clone()), Path::new("/d"), |_, _| true).unwrap();
        let mut replaced = 0;
        for n in 0..1_000 {
            table.insert(n, Many);
            for line in 0..8 {
                table.append(&format!("{n} {line}")).unwrap();
            }
            let lines = table.lines;
            table.tidy_up().unwrap();
            replaced += usize::from(table.lines_replaced == table.lines && table.lines_replaced <= lines);
        }
        assert!((1..10).contains(&replaced), "{replaced}");
        assert!(table.lines <= 2 * 8_000 + LINES_SPARE);
    }

    #[test]
    fn removed_entries_stay_removed_after_a_restart() {
        let sim = disk();
        let mut table = open(&sim).unwrap();
        (1..=5).for_each(|n| add(&mut table, n, n).unwrap());
        assert_eq!((table.remove(&2), table.remove(&2)), (Some(Number(2)), None));
        table.append("2 gone").unwrap();
        add(&mut table, 1, 10).unwrap();
        table.retain(|_, entry| entry.0 >= 5);
        assert_eq!(table.values().map(|entry| entry.0).sum::<u64>(), 15, "5, and 1, which came again");
        table.replace_file().unwrap();
        let mut table = open(&sim).unwrap();
        assert_eq!((table.len(), table.get(&1)), (2, Some(&Number(10))));
        table.retain(|key, _| *key == 5);
        assert_eq!((table.len(), table.lines), (1, 2));
        assert!(Numbers::unread().append("x").is_err());
    }

    #[test]
    fn a_crash_at_any_step_loses_nothing_that_was_synced() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                sim.crash_at(step, kind, step * 7919);
                let mut synced = 0;
                if let Ok(mut table) = open(&sim) {
                    for n in 1..=4 {
                        if n == 3 {
                            table.lines += 10 * LINES_SPARE;
                        }
                        let added = add(&mut table, n, n);
                        if added.is_ok() && table.sync().is_ok_and(|whole| whole) && !sim.crashed() {
                            synced = n;
                        }
                    }
                }
                let image = sim.image().unwrap();
                let mut after = open(&image).unwrap();
                assert!((1..=synced).all(|n| after.get(&n).is_some()), "{kind:?} at step {step}: {synced}");
                add(&mut after, 9, 9).unwrap();
                assert!(open(&image).unwrap().get(&9).is_some(), "{kind:?} at step {step}");
                if !sim.crashed() {
                    assert!(step > 6, "nothing was tried");
                    break;
                }
            }
        }
    }
}
