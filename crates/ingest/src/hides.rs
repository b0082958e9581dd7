//! Articles that a NoCeM notice hides before they arrive.
//!
//! Every article being filed is looked up here, under a gate ([`EarlyHides::filing`]), as late as possible:
//! either it is found here, or the thread that adds it under the closed gate ([`EarlyHides::closed`]) finds
//! the article in the spool. They are notes of the spool, which bounds their number and forgets them with the
//! Message-IDs of their time. Called by `committing` and by `operators::group_control`. Format:
//! `docs/formats/notes.md`.

use disk::LogLine;
use lock_order::{OrderedRead, OrderedRw, OrderedWrite};
use netnews::newsgroups;
use site_base::lock::rank;
use site_config::NamePattern;
use site_log::SiteLog;
use spool::{ArticleKey, Change, ChangeMaker as _, NOTE_VALUE_BYTES_MAX, NoteKind};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::warn;

/// Most issuers kept for the same article.
const ISSUERS_MAX: usize = 8;
/// Longest wildmat kept with an article.
const GROUPS_BYTES_MAX: usize = 1_024;
/// Name and longest length of the file that earlier versions kept them in.
const OLD_FILE: &str = "early-hides";
const OLD_FILE_BYTES_MAX: u64 = 256 << 20;
const KIND: NoteKind = NoteKind::EarlyHide;

/// Issuer that hides articles, with its reason and groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Hider {
    /// `nocem:ISSUER`.
    pub by: String,
    /// Reason for hiding, for operators.
    pub reason: String,
    /// Groups all of which an article's groups must match.
    pub groups: NamePattern,
}

impl Hider {
    /// Returns whether it hides an article in the groups of this Newsgroups header.
    pub fn hides(&self, names: &[u8]) -> bool {
        newsgroups::split(names).next().is_some()
            && newsgroups::split(names).all(|name| self.groups.matches(name))
    }

    /// Returns its line in an article's note.
    fn line(&self, since: i64) -> String {
        format!("{}\t{since}\t{}\t{}", self.by, self.groups.as_str(), self.reason)
    }

    /// Reads a line of a note, with its time in Unix seconds.
    fn of_line(line: &str) -> Option<(i64, Self)> {
        let mut fields = line.splitn(4, '\t');
        let (by, since) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        let groups = NamePattern::parse(fields.next()?).ok()?;
        Some((since, Self { by, reason: fields.next()?.to_owned(), groups }))
    }
}

/// The articles to be hidden on arrival.
#[derive(Debug)]
pub struct EarlyHides {
    log: Arc<SiteLog>,
    gate: OrderedRw<(), { rank::HIDES_GATE }>,
}

impl EarlyHides {
    /// Takes over the file of an earlier version in `data`; lines from before `oldest` (Unix seconds) no
    /// longer count.
    pub fn open(log: Arc<SiteLog>, data: &Path, oldest: i64) -> Self {
        let hides = Self { log, gate: OrderedRw::default() };
        let taken = hides.log.take_over(data.join(OLD_FILE), OLD_FILE_BYTES_MAX, |line| {
            match OldLine::of(line) {
                None => return Ok(false),
                Some(OldLine::Back(key, by)) => drop(hides.remove(&[key], by)?),
                Some(OldLine::Waits(key, since, hider)) if since >= oldest => {
                    hides.add(&[key], &hider, since)?;
                }
                Some(OldLine::Waits(..)) => {}
            }
            Ok(true)
        });
        if let Err(error) = taken {
            warn!(file = OLD_FILE, %error, "cannot read which articles are hidden when they come");
        }
        hides
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.log.spool().note_count(KIND)
    }

    /// Returns whether no article is to be hidden on arrival.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens the gate for a lookup; held until the articles are filed.
    pub fn filing(&self) -> OrderedRead<'_, (), { rank::HIDES_GATE }> {
        self.gate.read()
    }

    /// Closes the gate: nothing is being filed while the guard is held.
    pub fn closed(&self) -> OrderedWrite<'_, (), { rank::HIDES_GATE }> {
        self.gate.write()
    }

    /// Returns the issuer that hides the article with this key, in the groups of this Newsgroups header.
    pub fn hider(&self, key: ArticleKey, names: &[u8]) -> Option<Hider> {
        let lines = self.lines(key)?;
        lines.lines().filter_map(Hider::of_line).map(|(_, hider)| hider).find(|hider| hider.hides(names))
    }

    /// Returns the lines of an article's note.
    fn lines(&self, key: ArticleKey) -> Option<String> {
        let note = self.log.spool().note_of(KIND, &name(key))?;
        String::from_utf8(note.value.to_vec()).ok()
    }

    /// Adds articles to be hidden on arrival; durable with the next [`EarlyHides::sync`]. An issuer that is
    /// known for an article, or one too many, is left out.
    pub fn add(&self, keys: &[ArticleKey], hider: &Hider, since: i64) -> io::Result<()> {
        if hider.groups.as_str().len() > GROUPS_BYTES_MAX {
            return Err(io::Error::other("the groups of a [[control]] section are too long to be kept"));
        }
        let line = hider.line(since);
        self.change(keys, since, |lines| {
            let is_known = lines.lines().any(|line| issuer(line) == hider.by);
            if is_known || lines.lines().count() >= ISSUERS_MAX {
                return None;
            }
            let gap = if lines.is_empty() { "" } else { "\n" };
            Some(format!("{lines}{gap}{line}")).filter(|lines| lines.len() <= NOTE_VALUE_BYTES_MAX)
        })
        .map(drop)
    }

    /// Removes articles that `by` no longer hides; returns how many it would have hidden.
    pub fn remove(&self, keys: &[ArticleKey], by: &str) -> io::Result<usize> {
        self.change(keys, 0, |lines| {
            lines.lines().any(|line| issuer(line) == by).then(|| {
                let others: Vec<&str> = lines.lines().filter(|line| issuer(line) != by).collect();
                others.join("\n")
            })
        })
    }

    /// Replaces the lines of articles by what `change` returns; a note without lines is removed. Returns how
    /// many were changed.
    fn change(
        &self,
        keys: &[ArticleKey],
        since: i64,
        change: impl Fn(&str) -> Option<String>,
    ) -> io::Result<usize> {
        let mut changed = Vec::new();
        for key in keys {
            let known = self.lines(*key).unwrap_or_default();
            changed.extend(change(&known).map(|lines| (name(*key), lines)));
        }
        let since = u64::try_from(since).unwrap_or_default();
        let changes: Vec<Change<'_>> = changed
            .iter()
            .map(|(key, lines)| {
                let value = Some(lines.as_bytes()).filter(|lines| !lines.is_empty());
                Change::Note { kind: KIND, key, value, since }
            })
            .collect();
        if !changes.is_empty() {
            self.log.commit(&changes, &mut Vec::new()).map_err(io::Error::other)?;
        }
        Ok(changed.len())
    }

    /// Makes additions and removals durable.
    pub fn sync(&self) -> io::Result<()> {
        self.log.spool().sync().map_err(io::Error::other)
    }
}

/// Returns the key of an article's note.
fn name(key: ArticleKey) -> [u8; 16] {
    key.0.to_le_bytes()
}

/// Returns the issuer of a line.
fn issuer(line: &str) -> &str {
    line.split('\t').next().unwrap_or_default()
}

/// A line of the file of earlier versions.
enum OldLine<'a> {
    Waits(ArticleKey, i64, Hider),
    /// Retraction of an issuer's entry for an article.
    Back(ArticleKey, &'a str),
}

impl<'a> OldLine<'a> {
    fn of(line: LogLine<'a>) -> Option<Self> {
        let line = line.text()?;
        let (key, rest) = line.split_once('\t')?;
        let key = ArticleKey(u128::from_str_radix(key, 16).ok()?);
        if !rest.contains('\t') {
            return Some(Self::Back(key, rest));
        }
        let (since, hider) = Hider::of_line(rest)?;
        Some(Self::Waits(key, since, hider))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk as _, FileAccess, SimDisk};
    use spool::{Spool, SpoolConfig};

    const NOW: i64 = 1_780_000_000;

    fn open(sim: &SimDisk, oldest: i64) -> EarlyHides {
        let config = SpoolConfig::new(Path::new("/d"));
        let (spool, _) = Spool::open(Arc::new(sim.clone()), config, &()).unwrap();
        EarlyHides::open(Arc::new(SiteLog::new(Arc::new(spool))), Path::new("/d"), oldest)
    }

    fn hider(by: &str, groups: &str) -> Hider {
        Hider { by: by.into(), reason: "spam, 7".into(), groups: NamePattern::parse(groups).unwrap() }
    }

    fn by(hides: &EarlyHides, key: u128, names: &str) -> Option<String> {
        hides.hider(ArticleKey(key), names.as_bytes()).map(|hider| hider.by)
    }

    #[test]
    fn an_article_is_hidden_where_all_its_groups_match_also_after_a_restart() {
        let sim = SimDisk::new();
        let hides = open(&sim, 0);
        assert_eq!(by(&hides, 1, "comp.a"), None);
        hides.add(&[ArticleKey(1), ArticleKey(2)], &hider("nocem:a b", "comp.*,!comp.x"), NOW).unwrap();
        hides.add(&[ArticleKey(1)], &hider("nocem:c", "de.*"), NOW + 5).unwrap();
        hides.add(&[ArticleKey(3)], &hider("nocem:c", "*"), NOW).unwrap();
        let check = |hides: &EarlyHides| {
            assert_eq!(by(hides, 1, "comp.a,comp.b").unwrap(), "nocem:a b");
            assert_eq!(by(hides, 1, "de.a").unwrap(), "nocem:c");
            for names in ["comp.a,de.a", "comp.a,comp.x", "", "alt.a"] {
                assert_eq!(by(hides, 1, names), None, "a crosspost is hidden where it may be, or nowhere");
            }
            assert_eq!((hides.len(), by(hides, 9, "comp.a")), (3, None));
        };
        check(&hides);
        drop(hides);
        let hides = open(&sim, 0);
        check(&hides);
        assert_eq!(hides.remove(&[ArticleKey(1), ArticleKey(2), ArticleKey(9)], "nocem:a b").unwrap(), 2);
        drop(hides);
        let hides = open(&sim, 0);
        assert_eq!((by(&hides, 1, "comp.a"), by(&hides, 2, "comp.a"), hides.len()), (None, None, 2));
        assert_eq!(by(&hides, 1, "de.a").unwrap(), "nocem:c");
    }

    #[test]
    fn issuers_and_groups_of_an_article_are_bounded() {
        let hides = open(&SimDisk::new(), 0);
        for n in 0..20 {
            hides.add(&[ArticleKey(77)], &hider(&format!("nocem:{n}"), "*"), NOW).unwrap();
        }
        assert_eq!(hides.lines(ArticleKey(77)).unwrap().lines().count(), ISSUERS_MAX);
        assert!(hides.add(&[ArticleKey(1)], &hider("nocem:a", &("x,".repeat(1_000) + "y")), NOW).is_err());
    }

    #[test]
    fn the_file_of_an_earlier_version_is_taken_over_once() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let line = |text: &str| format!("{:08x} {text}\n", disk::crc::crc32c(text.as_bytes()));
        let text = [
            line(&format!("{:032x}\tnocem:a\t{NOW}\tcomp.*\tspam", 1)),
            line(&format!("{:032x}\tnocem:b\t{NOW}\t*\tspam, notice <x@y>", 1)),
            line(&format!("{:032x}\tnocem:a", 1)),
            line(&format!("{:032x}\tnocem:a\t{}\t*\told", 2, NOW - 1)),
        ];
        let path = Path::new("/d").join(OLD_FILE);
        disk::durable_replace(&sim, &path, &[text.concat().as_bytes()], FileAccess::Group).unwrap();
        for _ in 0..2 {
            let hides = open(&sim, NOW);
            assert_eq!((by(&hides, 1, "comp.a").unwrap(), hides.len()), ("nocem:b".into(), 1));
            let names = sim.list(Path::new("/d")).unwrap();
            assert!(!names.iter().any(|name| name.starts_with(OLD_FILE)), "{names:?}");
        }
    }
}
