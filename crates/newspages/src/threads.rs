//! Threads of articles by Jamie Zawinski's algorithm: by References, then by subject.
//!
//! Nothing here recurses, so that long chains are no danger; the caller bounds the number of rows. Articles
//! that are referred to but missing are left out where that changes nothing. Called by the web server.
//! Source: <https://www.jwz.org/doc/threading.html>; RFC 5256 section 2.1 for subjects.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use netnews::overview_row::{self, index};
use netnews::{date, decimal};

use crate::{content, header, work};

/// Maximum number of references of an article that are used, the last ones.
pub const REFERENCES_MAX: usize = 50;

/// An article's overview row, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadRow {
    /// Article number.
    pub number: u64,
    /// Subject.
    pub subject: String,
    /// From.
    pub from: String,
    /// Date, Unix seconds; `None` if it cannot be read.
    pub date: Option<i64>,
    /// Message-ID.
    pub message_id: String,
    /// References, the oldest first; if there are too many, the last [`REFERENCES_MAX`].
    pub references: Vec<String>,
    /// Lines of the body.
    pub lines: u64,
    /// Size of the article.
    pub bytes: u64,
}

/// Returns the size of these rows as text, in bytes.
pub fn bytes_of(rows: &[ThreadRow]) -> usize {
    let ids = |row: &ThreadRow| row.references.iter().map(|id| id.len() + 1).sum::<usize>();
    rows.iter().map(|row| row.subject.len() + row.from.len() + row.message_id.len() + ids(row) + 1).sum()
}

impl ThreadRow {
    /// Reads an overview row: `number TAB subject TAB from ...`.
    pub fn parse(row: &[u8]) -> Option<Self> {
        let field = |at| overview_row::field(row, at);
        let count = |at| field(at).and_then(decimal::parse_decimal).unwrap_or(0);
        let mut references = content::references(field(index::REFERENCES)?);
        references.drain(..references.len().saturating_sub(REFERENCES_MAX));
        references.shrink_to_fit();
        Some(Self {
            number: decimal::parse_decimal(field(index::NUMBER)?)?,
            subject: header::text(field(index::SUBJECT)?),
            from: header::text(field(index::FROM)?),
            date: date::parse(field(index::DATE)?),
            message_id: String::from_utf8_lossy(field(index::MESSAGE_ID)?).into_owned(),
            references,
            lines: count(index::LINES),
            bytes: count(index::BYTES),
        })
    }
}

/// An article in its thread, or the place of a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadNode {
    /// Index of its row; `None` for a missing article that others refer to.
    pub row: Option<usize>,
    /// Number of articles above it.
    pub depth: usize,
}

/// A thread: its articles in the order of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Articles from the root on, each before its answers.
    pub nodes: Vec<ThreadNode>,
    /// Date of its newest article, in Unix seconds; `None` if no date can be read.
    pub latest: Option<i64>,
}

impl Thread {
    /// Returns the row that names the thread: the first one that is present.
    pub fn first<'a>(&self, rows: &'a [ThreadRow]) -> Option<&'a ThreadRow> {
        self.rows().find_map(|at| rows.get(at))
    }

    /// Returns the title, that of the first article.
    pub fn title<'a>(&self, rows: &'a [ThreadRow]) -> &'a str {
        self.first(rows).map_or("", |row| row.subject.as_str())
    }

    /// Returns the indexes of the nodes nearest to the article of a row, itself first: the articles above it
    /// as half of `max`, from the next one up, then those before and after it in the order of reading.
    pub fn nearest(&self, row: usize, max: usize) -> Vec<usize> {
        let own = self.nodes.iter().position(|node| node.row == Some(row)).unwrap_or(0);
        let depth = |at: usize| self.nodes.get(at).map_or(0, |node| node.depth);
        let mut nearest = vec![own];
        let mut is_taken = vec![false; self.nodes.len()];
        let mut lowest = depth(own);
        for at in (0..own).rev() {
            if nearest.len() > max / 2 || lowest == 0 {
                break;
            }
            if depth(at) < lowest {
                lowest = depth(at);
                nearest.push(at);
            }
        }
        nearest.iter().for_each(|at| is_taken.iter_mut().skip(*at).take(1).for_each(|taken| *taken = true));
        for distance in 1..self.nodes.len() {
            let around = [own.checked_add(distance), own.checked_sub(distance)];
            nearest.extend(around.into_iter().flatten().filter(|at| is_taken.get(*at) == Some(&false)));
            if nearest.len() >= max {
                break;
            }
        }
        work::take(self.nodes.len());
        nearest.truncate(max);
        nearest
    }

    /// Returns the thread with only these nodes, and the number of articles left out.
    pub fn only(&self, mut nodes: Vec<usize>) -> (Self, usize) {
        nodes.sort_unstable();
        let nodes = nodes.into_iter().filter_map(|at| self.nodes.get(at).copied()).collect();
        let kept = Self { nodes, latest: self.latest };
        let left_out = self.rows().count() - kept.rows().count();
        (kept, left_out)
    }

    /// Returns the indexes of the rows.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().filter_map(|node| node.row)
    }
}

/// Returns the subject without `Re:` and the like, and whether there was any.
pub fn base_subject(subject: &str) -> (&str, bool) {
    let mut rest = subject.trim();
    let mut is_reply = false;
    loop {
        let Some((word, after)) = rest.split_once(':') else { return (rest, is_reply) };
        // Forms such as `Re[2]:` and `Re^2:`.
        let word = word.split(['[', '^', '(']).next().unwrap_or_default().trim_end();
        if !["re", "aw", "antw", "sv", "fwd", "fw"].iter().any(|known| word.eq_ignore_ascii_case(known)) {
            return (rest, is_reply);
        }
        (rest, is_reply) = (after.trim_start(), true);
    }
}

/// Containers, by number; the first ones are those of the rows.
struct ThreadForest<'a> {
    rows: &'a [ThreadRow],
    parent: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// Tree of each container (union-find): following the links from each leads to the tree's representative.
    tree: Vec<usize>,
    /// Earliest date of an article in the container or below.
    first: Vec<i64>,
}

/// Returns the threads of these rows, the one with the newest article first.
pub fn threads(rows: &[ThreadRow]) -> Vec<Thread> {
    let mut forest = ThreadForest::linked(rows);
    let roots = forest.pruned();
    let roots = forest.joined_by_subject(roots);
    let mut threads: Vec<Thread> = roots.into_iter().map(|root| forest.thread(root)).collect();
    threads.retain(|thread| !thread.nodes.is_empty());
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.latest));
    threads
}

impl<'a> ThreadForest<'a> {
    /// Steps 1 and 2: creates a container for each Message-ID, linked by References.
    fn linked(rows: &'a [ThreadRow]) -> Self {
        let mut ids: HashMap<&str, usize> = HashMap::with_capacity(rows.len());
        // An article that occurs twice is in the thread twice; answers belong to the first one.
        rows.iter().enumerate().for_each(|(at, row)| {
            ids.entry(&row.message_id).or_insert(at);
        });
        let mut containers = rows.len();
        let chains: Vec<Vec<usize>> = rows
            .iter()
            .map(|row| {
                let skipped = row.references.len().saturating_sub(REFERENCES_MAX);
                let last = row.references.iter().skip(skipped).take_while(|id| work::take(id.len()));
                let mut container = |id: &'a String| {
                    *ids.entry(id).or_insert_with(|| {
                        containers += 1;
                        containers - 1
                    })
                };
                last.map(&mut container).collect()
            })
            .collect();
        let mut forest = Self {
            rows,
            parent: vec![None; containers],
            children: vec![Vec::new(); containers],
            tree: (0..containers).collect(),
            first: vec![i64::MAX; containers],
        };
        // An article's statement about its own parent takes precedence.
        for (at, chain) in chains.iter().enumerate() {
            chain.last().into_iter().for_each(|above| forest.link(*above, at));
        }
        // After that, the first statement about the order of others is used.
        for (above, below) in chains.iter().flat_map(|chain| chain.iter().zip(chain.iter().skip(1))) {
            if forest.parent_of(*below).is_none() {
                forest.link(*above, *below);
            }
        }
        forest
    }

    fn parent_of(&self, at: usize) -> Option<usize> {
        self.parent.get(at).copied().flatten()
    }

    fn children_of(&self, at: usize) -> &[usize] {
        self.children.get(at).map_or(&[], Vec::as_slice)
    }

    /// Returns the representative of this container's tree; shortens the links that lead to it.
    fn tree_of(&mut self, at: usize) -> usize {
        let mut at = at;
        while let Some(next) = self.tree.get(at).copied().filter(|next| *next != at) {
            work::take(1);
            let after = self.tree.get(next).copied().unwrap_or(next);
            if let Some(way) = self.tree.get_mut(at) {
                *way = after;
            }
            at = next;
        }
        at
    }

    /// Puts `below`, which has no parent, under `above`, unless that would make a cycle.
    fn link(&mut self, above: usize, below: usize) {
        let (tree, own) = (self.tree_of(above), self.tree_of(below));
        if tree == own {
            return;
        }
        if let (Some(parent), Some(children), Some(way)) =
            (self.parent.get_mut(below), self.children.get_mut(above), self.tree.get_mut(own))
        {
            *parent = Some(above);
            *way = tree;
            children.push(below);
        }
    }

    /// Steps 3 and 4: removes containers without an article, unless they hold several threads together.
    fn pruned(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.parent.len()).filter(|at| self.parent_of(*at).is_none()).collect();
        let mut next = 0;
        while let Some(at) = order.get(next).copied().filter(|_| work::take(1)) {
            order.extend_from_slice(self.children_of(at));
            next += 1;
        }
        let mut kept: Vec<Vec<usize>> = vec![Vec::new(); self.parent.len()];
        let mut roots = Vec::new();
        // From the leaves up, so that the subtree of each container is finished before it.
        for at in order.into_iter().rev() {
            let below = kept.get_mut(at).map(std::mem::take).unwrap_or_default();
            let first = below.iter().filter_map(|child| self.first.get(*child).copied()).min();
            let own = self.rows.get(at).map_or(i64::MAX, |row| row.date.unwrap_or(0));
            if let Some(slot) = self.first.get_mut(at) {
                *slot = first.unwrap_or(i64::MAX).min(own);
            }
            let parent = self.parent_of(at);
            let goes = at >= self.rows.len() && (parent.is_some() || below.len() < 2);
            let (stays, rises) = if goes { (Vec::new(), below) } else { (below, vec![at]) };
            if let Some(slot) = self.children.get_mut(at) {
                *slot = stays;
            }
            match parent.and_then(|parent| kept.get_mut(parent)) {
                None => roots.extend(rises),
                Some(siblings) => appended(siblings, rises),
            }
        }
        roots.sort_by_key(|root| (self.first.get(*root).copied(), *root));
        roots
    }

    /// Step 5: joins a thread with the thread whose subject is the same without `Re:`.
    fn joined_by_subject(&mut self, roots: Vec<usize>) -> Vec<usize> {
        let rows = self.rows;
        let subject = |forest: &Self, root: usize| {
            let at = Some(root)
                .filter(|at| *at < rows.len())
                .or_else(|| forest.children_of(root).first().copied())?;
            rows.get(at).map(|row| base_subject(&row.subject))
        };
        let mut by_subject: HashMap<&str, usize> = HashMap::new();
        for root in &roots {
            let Some((base, is_reply)) = subject(self, *root).filter(|(base, _)| !base.is_empty()) else {
                continue;
            };
            match by_subject.entry(base) {
                Entry::Vacant(vacant) => {
                    vacant.insert(*root);
                }
                Entry::Occupied(mut found) => {
                    // A thread that does not begin with a reply is the better root.
                    if !is_reply && subject(self, *found.get()).is_some_and(|(_, is_reply)| is_reply) {
                        found.insert(*root);
                    }
                }
            }
        }
        let mut kept = Vec::new();
        for root in roots {
            let found = subject(self, root);
            let beginning = found.and_then(|(base, _)| by_subject.get(base).copied());
            match (beginning, found) {
                (Some(beginning), Some((_, true))) if beginning != root => self.link(beginning, root),
                _ => kept.push(root),
            }
        }
        kept
    }

    fn thread(&self, root: usize) -> Thread {
        let mut thread = Thread { nodes: Vec::new(), latest: None };
        let mut stack = vec![(root, 0)];
        while let Some((at, depth)) = stack.pop() {
            let row = (at < self.rows.len()).then_some(at);
            thread.nodes.push(ThreadNode { row, depth });
            thread.latest = thread.latest.max(self.rows.get(at).and_then(|row| row.date));
            let mut children = self.children_of(at).to_vec();
            work::take(children.len() + 1);
            children.sort_by_key(|child| std::cmp::Reverse((self.first.get(*child).copied(), *child)));
            stack.extend(children.into_iter().map(|child| (child, depth + 1)));
        }
        let has_articles = thread.nodes.iter().any(|node| node.row.is_some());
        thread.nodes.retain(|_| has_articles);
        thread
    }
}

/// Joins two lists whose order does not matter, at the cost of the shorter one.
fn appended(into: &mut Vec<usize>, mut more: Vec<usize>) {
    if into.len() < more.len() {
        std::mem::swap(into, &mut more);
    }
    work::take(more.len());
    into.append(&mut more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(number: u64, id: &str, references: &str, subject: &str) -> ThreadRow {
        ThreadRow {
            number,
            subject: subject.to_owned(),
            date: Some(number as i64),
            message_id: format!("<{id}@x>"),
            references: references.split_whitespace().map(|id| format!("<{id}@x>")).collect(),
            ..ThreadRow::default()
        }
    }

    /// Draws each thread as `depth:number` words; `-` where an article is missing.
    fn drawn(rows: &[ThreadRow]) -> Vec<String> {
        let node = |node: &ThreadNode| {
            let number = node.row.map_or("-".to_owned(), |at| rows[at].number.to_string());
            format!("{}:{number}", node.depth)
        };
        threads(rows).iter().map(|t| t.nodes.iter().map(node).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn answers_are_below_the_articles_they_answer() {
        let rows = [
            row(1, "a", "", "x"),
            row(2, "b", "a", "Re: x"),
            row(3, "c", "a b", "Re: x"),
            row(4, "d", "a", "Re: x"),
            row(5, "e", "", "y"),
        ];
        assert_eq!(drawn(&rows), ["0:5", "0:1 1:2 2:3 1:4"]);
    }

    #[test]
    fn missing_articles_hold_threads_together() {
        // Articles <a> and <b> are missing.
        assert_eq!(drawn(&[row(1, "c", "a b", "x"), row(2, "d", "a b", "z")]), ["0:- 1:1 1:2"]);
        assert_eq!(drawn(&[row(1, "c", "a b", "x")]), ["0:1"]);
        // Missing articles in the middle are removed.
        assert_eq!(drawn(&[row(1, "a", "", "x"), row(2, "c", "a b", "x")]), ["0:1 1:2"]);
    }

    #[test]
    fn nearest_nodes_are_the_article_its_ancestors_and_its_neighbours() {
        // Article 0 has 50 answers, and the 25th of them has two.
        let mut rows = vec![row(0, "0", "", "x")];
        rows.extend((1..=50).map(|n| row(n, &n.to_string(), "0", "Re: x")));
        rows.extend([row(51, "51", "0 25", "Re: x"), row(52, "52", "0 25 51", "Re: x")]);
        let thread = threads(&rows).remove(0);
        let numbers = |max: usize| {
            let (kept, left_out) = thread.only(thread.nearest(52, max));
            (kept.rows().map(|at| rows[at].number).collect::<Vec<_>>(), left_out)
        };
        assert_eq!(numbers(1), (vec![52], 52));
        assert_eq!(numbers(3), (vec![51, 52, 26], 50));
        assert_eq!(numbers(8), (vec![0, 24, 25, 51, 52, 26, 27, 28], 45));
        assert_eq!(numbers(53).1, 0);
        assert_eq!(numbers(usize::MAX).0.len(), 53);
    }

    #[test]
    fn subjects_join_threads_that_references_do_not() {
        assert_eq!(drawn(&[row(1, "a", "", "x"), row(2, "b", "", "Re: x")]), ["0:1 1:2"]);
        assert_eq!(drawn(&[row(1, "a", "", "Re: x"), row(2, "b", "", "x")]), ["0:2 1:1"]);
        // Two that are not answers are two threads.
        assert_eq!(drawn(&[row(1, "a", "", "x"), row(2, "b", "", "x")]).len(), 2);
        assert_eq!(drawn(&[row(1, "a", "", ""), row(2, "b", "", "Re: ")]).len(), 2);
    }

    #[test]
    fn cycles_and_contradictions_terminate() {
        let rows =
            [row(1, "a", "b", "x"), row(2, "b", "a", "y"), row(3, "c", "c", "z"), row(4, "a", "a", "x")];
        let mut numbers: Vec<usize> = threads(&rows).iter().flat_map(Thread::rows).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn long_chains_do_not_overflow_the_stack() {
        let mut rows = vec![row(0, "0", "", "x")];
        rows.extend((1..3_000).map(|n| row(n, &n.to_string(), &(n - 1).to_string(), "Re: x")));
        let threads = threads(&rows);
        assert_eq!((threads.len(), threads[0].nodes.len(), threads[0].nodes[2_999].depth), (1, 3_000, 2_999));
    }

    #[test]
    fn subjects_are_reduced() {
        for (subject, base, is_reply) in [
            ("Re: AW: Fwd: x", "x", true),
            ("re[2]: x", "x", true),
            ("Re^3: x", "x", true),
            ("Regarding: x", "Regarding: x", false),
            ("x", "x", false),
            ("Re:", "", true),
        ] {
            assert_eq!(base_subject(subject), (base, is_reply), "{subject}");
        }
    }

    #[test]
    fn a_row_is_read() {
        let row = ThreadRow::parse(
            b"7\t=?utf-8?Q?=C3=BC?=\tJ <j@x>\tThu, 1 Jan 1970 00:00:09 +0000\t<b@x>\t<a@x>\t99\t3\r\n",
        )
        .unwrap();
        assert_eq!((row.number, row.subject.as_str(), row.date, row.lines), (7, "\u{fc}", Some(9), 3));
        assert_eq!(row.references, ["<a@x>"]);
        assert_eq!(ThreadRow::parse(b"x\ty"), None);
    }

    proptest! {
        #[test]
        fn every_article_is_in_one_thread_once(
            spec in prop::collection::vec((0..12_u8, prop::collection::vec(0..12_u8, 0..5), 0..4_u8), 0..40)
        ) {
            let rows: Vec<ThreadRow> = spec.iter().enumerate().map(|(n, (id, references, subject))| {
                let references: Vec<String> = references.iter().map(u8::to_string).collect();
                row(n as u64, &id.to_string(), &references.join(" "), ["x", "Re: x", "y", "Re: y"][usize::from(*subject)])
            }).collect();
            let threads = threads(&rows);
            let mut seen: Vec<usize> = threads.iter().flat_map(Thread::rows).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..rows.len()).collect::<Vec<_>>());
            for thread in &threads {
                prop_assert!(thread.nodes.windows(2).all(|pair| pair[1].depth <= pair[0].depth + 1 && pair[1].depth > 0));
            }
        }
    }
}
