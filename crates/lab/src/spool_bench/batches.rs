//! The four batches of the CNFS paper (its figure 8, CNFS-N1), made of real articles.
//!
//! Each has exactly the paper's number of articles and of groups, and its size to within a few bytes an
//! article. Headers and bodies are the corpus's; Message-ID, Path, Newsgroups and Date are fresh. The same
//! seed results in the same batches except for the Date.

use crate::rng::Rng;
use disk::clock::unix_now;
use netnews::article::Headers;
use netnews::nntp::wire::dot_stuff;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// Articles, groups and KB of the batches.
pub const PAPER: [(usize, usize, usize); 4] =
    [(5301, 2961, 13_537), (5318, 2962, 12_193), (5826, 2895, 15_485), (5407, 2616, 15_571)];
/// The paper's articles are all smaller.
const ARTICLE_BYTES_MAX: usize = 32 << 10;
/// One in this many articles is in more than one group.
const CROSSPOST_EVERY: u64 = 8;
/// Headers that a clone does not copy: they name the original, or make servers treat it differently.
const DROPPED: [&str; 19] = [
    "Message-ID",
    "Path",
    "Newsgroups",
    "Date",
    "Xref",
    "Control",
    "Supersedes",
    "Expires",
    "Distribution",
    "Approved",
    "Followup-To",
    "Article-I.D.",
    "Lines",
    "Also-Control",
    "Sender",
    "Relay-Version",
    "Posting-Version",
    "Date-Received",
    "Bytes",
];
/// Appended to the names of real groups to have enough of them.
const WORDS: [&str; 12] = [
    "misc",
    "announce",
    "moderated",
    "help",
    "source",
    "talk",
    "market",
    "history",
    "europe",
    "admin",
    "test-lab",
    "d",
];

/// A batch, ready to be sent.
#[derive(Debug, Default)]
pub struct Batch {
    /// `TAKETHIS` commands with their articles, consecutively.
    pub wire: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<usize>,
    /// Bytes of the articles alone.
    pub article_bytes: u64,
}

/// Four of them.
#[derive(Debug)]
pub struct Batches {
    /// How many groups they need.
    pub groups: usize,
    pub batches: Vec<Batch>,
}

impl Batches {
    /// Articles of all of them.
    pub fn articles(&self) -> usize {
        self.batches.iter().map(Batch::articles).sum()
    }
}

impl Batch {
    /// How many articles it has.
    pub fn articles(&self) -> usize {
        self.ends.len()
    }
}

/// A real article: headers that are kept, and the rest from the blank line on, in wire format.
#[derive(Debug)]
struct Original {
    head: Vec<u8>,
    body: Vec<u8>,
}

/// What batches are made of.
#[derive(Debug)]
pub struct Maker {
    originals: Vec<Original>,
    pub groups: Vec<String>,
    date: String,
    seed: u64,
    share: usize,
}

impl Maker {
    /// Reads the articles below `corpus`; each batch is to be `1/share` of the paper's.
    pub fn new(corpus: &Path, seed: u64, share: usize) -> io::Result<Self> {
        let (mut originals, mut names) = (Vec::new(), BTreeSet::new());
        read(corpus, &mut originals, &mut names)?;
        if originals.len() < 100 {
            return Err(io::Error::other(format!(
                "{} articles below {}: too few",
                originals.len(),
                corpus.display()
            )));
        }
        let most = PAPER.iter().map(|(_, groups, _)| groups / share).max().unwrap_or(0);
        let groups = group_names(names, most, seed);
        let mut date = Vec::new();
        netnews::date::format_rfc5322(unix_now() - 3600, &mut date);
        let date = String::from_utf8_lossy(&date).into_owned();
        Ok(Self { originals, groups, date, seed, share })
    }

    /// The four batches; in each round they are of other articles, in the same groups.
    pub fn batches(&self, round: u64) -> Batches {
        let batch = |(n, (articles, unique, kb)): (usize, &(usize, usize, usize))| {
            let plan = Plan {
                articles: articles / self.share,
                unique: unique / self.share,
                bytes: (kb << 10) / self.share,
            };
            let number = n as u64 + 1 + round * PAPER.len() as u64;
            let mut rng = Rng::new(self.seed, number);
            plan.batch(&mut rng, number as usize - 1, &self.originals, &self.groups, &self.date)
        };
        Batches { groups: self.groups.len(), batches: PAPER.iter().enumerate().map(batch).collect() }
    }
}

fn read(dir: &Path, originals: &mut Vec<Original>, names: &mut BTreeSet<String>) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            read(&entry.path(), originals, names)?;
            continue;
        }
        let mut wire = Vec::new();
        dot_stuff(&fs::read(entry.path())?, &mut wire);
        let Ok(article) = netnews::Article::parse(&wire) else { continue };
        let mut head = Vec::new();
        for (name, value) in Headers::of(article.head()) {
            let text = String::from_utf8_lossy(name);
            if text == "Newsgroups" {
                let groups = value
                    .split(|b| *b == b',')
                    .filter_map(|name| std::str::from_utf8(name.trim_ascii()).ok());
                names.extend(
                    groups.filter(|name| netnews::newsgroups::valid_name(name.as_bytes())).map(str::to_owned),
                );
            }
            if value.trim_ascii().is_empty()
                || DROPPED.iter().any(|dropped| text.eq_ignore_ascii_case(dropped))
            {
                continue;
            }
            head.extend_from_slice(name);
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        let body = [b"\r\n", article.body()].concat();
        originals.push(Original { head, body });
    }
    Ok(())
}

/// Real names first, then longer ones derived from them.
fn group_names(real: BTreeSet<String>, count: usize, seed: u64) -> Vec<String> {
    let mut names: Vec<String> = real.into_iter().collect();
    let mut known: BTreeSet<String> = names.iter().cloned().collect();
    let mut rng = Rng::new(seed, 0);
    while names.len() < count {
        let base = names.get(rng.below(names.len() as u64) as usize).cloned().unwrap_or_default();
        let word = WORDS.get(rng.below(WORDS.len() as u64) as usize).copied().unwrap_or_default();
        let name = format!("{base}.{word}");
        // The paper's deepest paths have 10 parts.
        if name.split('.').count() <= 8 && known.insert(name.clone()) {
            names.push(name);
        }
    }
    for at in (1..names.len()).rev() {
        names.swap(at, rng.below(at as u64 + 1) as usize);
    }
    names.truncate(count);
    names
}

struct Plan {
    articles: usize,
    unique: usize,
    bytes: usize,
}

impl Plan {
    fn batch(
        &self,
        rng: &mut Rng,
        number: usize,
        originals: &[Original],
        groups: &[String],
        date: &str,
    ) -> Batch {
        let mut newsgroups = self.newsgroups(rng, groups);
        for at in (1..newsgroups.len()).rev() {
            newsgroups.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let heads: Vec<(String, String)> = newsgroups
            .iter()
            .enumerate()
            .map(|(n, newsgroups)| {
                let id = format!("<{number}.{n}.{:x}@spool.lab.example>", rng.next());
                let head = format!(
                    "Path: feeder.lab.example!not-for-mail\r\nNewsgroups: {newsgroups}\r\nMessage-ID: \
                        {id}\r\nDate: {date}\r\n"
                );
                (id, head)
            })
            .collect();
        let chosen = self.choose(rng, originals, &heads);
        let mut batch = Batch::default();
        for ((id, head), original) in heads.iter().zip(chosen) {
            let Some(original) = originals.get(original) else { continue };
            batch.wire.extend_from_slice(format!("TAKETHIS {id}\r\n{head}").as_bytes());
            batch.wire.extend_from_slice(&original.head);
            batch.wire.extend_from_slice(&original.body);
            batch.wire.extend_from_slice(b".\r\n");
            batch.ends.push(batch.wire.len());
            batch.article_bytes += bytes(head, original) as u64;
        }
        batch
    }

    /// A Newsgroups value for each article: every group is the first of at least one, popular ones of many.
    fn newsgroups(&self, rng: &mut Rng, groups: &[String]) -> Vec<String> {
        let groups = groups.get(..self.unique).unwrap_or(groups);
        let popular = |rng: &mut Rng| {
            // About as often as 1 / rank.
            let at = (groups.len() as f64).powf(rng.below(1 << 20) as f64 / f64::from(1 << 20)) as usize;
            at.min(groups.len()) - 1
        };
        let mut all = Vec::with_capacity(self.articles);
        for n in 0..self.articles {
            let mut names = vec![if n < groups.len() { n } else { popular(rng) }];
            if rng.below(CROSSPOST_EVERY) == 0 {
                for _ in 0..rng.between(1, 3) {
                    let other = popular(rng);
                    if !names.contains(&other) {
                        names.push(other);
                    }
                }
            }
            let names: Vec<&str> =
                names.iter().filter_map(|at| groups.get(*at)).map(String::as_str).collect();
            all.push(names.join(","));
        }
        all
    }

    /// An original for each article so that all together have the size: changed one by one until it fits.
    fn choose(&self, rng: &mut Rng, originals: &[Original], heads: &[(String, String)]) -> Vec<usize> {
        let size = |n: usize, original: usize| match (heads.get(n), originals.get(original)) {
            (Some((_, head)), Some(original)) => bytes(head, original),
            _ => 0,
        };
        let any = |rng: &mut Rng, n: usize| loop {
            let original = rng.below(originals.len() as u64) as usize;
            if size(n, original) < ARTICLE_BYTES_MAX {
                return original;
            }
        };
        let mut chosen: Vec<usize> = (0..heads.len()).map(|n| any(rng, n)).collect();
        let mut total: usize = chosen.iter().enumerate().map(|(n, original)| size(n, *original)).sum();
        for _ in 0..heads.len() * 20 {
            let n = rng.below(heads.len() as u64) as usize;
            let (other, Some(place)) = (any(rng, n), chosen.get_mut(n)) else { break };
            let changed = total - size(n, *place) + size(n, other);
            if changed.abs_diff(self.bytes) < total.abs_diff(self.bytes) {
                (*place, total) = (other, changed);
            }
        }
        chosen
    }
}

fn bytes(head: &str, original: &Original) -> usize {
    head.len() + original.head.len() + original.body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_the_papers_numbers() {
        let dir = std::env::temp_dir().join(format!("lab-batches-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for n in 0..200_usize {
            let body = "a line of text\n".repeat(n * 3);
            let head = format!(
                "From: a@b\nSubject: s{n}\nNewsgroups: alt.g{n},misc.x\nLines: 7\nPath: z\nMessage-ID: \
                    <{n}@z>\nDate: x\n"
            );
            fs::write(dir.join(n.to_string()), format!("{head}\n{body}")).unwrap();
        }
        let [made, again] = [0, 1].map(|_| Maker::new(&dir, 1, 10).unwrap());
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(made.groups, again.groups);
        let [batches, later, again] = [made.batches(0), made.batches(1), again.batches(0)].map(|b| b.batches);
        assert!(batches.iter().zip(&later).all(|(one, other)| one.wire != other.wire));
        for ((batch, again), (articles, unique, kb)) in batches.iter().zip(&again).zip(PAPER) {
            assert_eq!((batch.ends.len(), batch.ends.len()), (articles / 10, again.ends.len()));
            let target = (kb << 10) as u64 / 10;
            assert!(batch.article_bytes.abs_diff(target) < target / 100, "{} {target}", batch.article_bytes);
            let mut groups = BTreeSet::new();
            let mut start = 0;
            for end in &batch.ends {
                let command = &batch.wire[start..*end];
                let article = command.split_at(command.iter().position(|b| *b == b'\n').unwrap() + 1).1;
                let article = netnews::Article::parse(article.strip_suffix(b".\r\n").unwrap()).unwrap();
                article.required().unwrap();
                assert!(article.wire().len() < ARTICLE_BYTES_MAX);
                let names = article.header(netnews::Known::Newsgroups).unwrap();
                groups.extend(names.split(|b| *b == b',').map(<[u8]>::to_vec));
                start = *end;
            }
            assert_eq!(groups.len(), unique / 10);
        }
    }
}
