//! Batches like the one of the C News paper: 171 articles, 297,054 bytes, 104 cross-postings.

use crate::articles::group_name;
use crate::rng::Rng;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Articles of the paper's batch.
pub const ARTICLES: u64 = 171;
/// Its bytes, the lines before the articles among them.
const BYTES: u64 = 297_054;
/// Its articles that are in a second group.
const CROSSPOSTS: u64 = 104;
/// How many groups there are.
pub const GROUPS: u64 = 8;
/// When the paper's authors began to measure: too old for every server.
const LONG_AGO: &str = "Fri, 6 Dec 1985 23:46:00 GMT";
const LINE_BYTES: u64 = 72;

/// Which articles a batch has.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// In their Message-IDs.
    pub name: &'static str,
    /// So many times the articles of the paper's batch.
    pub times: u64,
    /// They are of 1985.
    pub is_old: bool,
}

impl Batch {
    /// Writes it as rnews reads it.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        let mut date = Vec::new();
        netnews::date::format_rfc5322(disk::clock::unix_now(), &mut date);
        let now = String::from_utf8_lossy(&date).into_owned();
        let date = if self.is_old { LONG_AGO } else { &now };
        let (sizes, mut text) = (sizes(), String::with_capacity(BYTES as usize));
        for time in 0..self.times {
            text.clear();
            for (number, bytes) in sizes.iter().enumerate() {
                self.put(time * ARTICLES + number as u64, *bytes, date, &mut text);
            }
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// An article that takes this many bytes of the batch.
    fn put(self, index: u64, bytes: u64, date: &str, out: &mut String) {
        let number = index % ARTICLES;
        let group = index % GROUPS;
        let mut groups = group_name(group);
        if (number + 1) * CROSSPOSTS / ARTICLES > number * CROSSPOSTS / ARTICLES {
            let _ = write!(groups, ",{}", group_name((group + 1) % GROUPS));
        }
        let head = format!(
            "Path: feeder.lab.example!not-for-mail\nFrom: Lab <lab@lab.example>\nNewsgroups: {groups}\n\
             Subject: number {index} of {name}\nDate: {date}\nMessage-ID: <{index}.{name}@lab.example>\n\n",
            name = self.name,
        );
        let line = format!("#! rnews {}\n", bytes - ("#! rnews 1000\n".len() as u64));
        let body = bytes - line.len() as u64 - head.len() as u64;
        *out += &line;
        *out += &head;
        for at in 1..=body {
            out.push(if at == body || at % LINE_BYTES == 0 { '\n' } else { letter(index, at) });
        }
    }
}

fn letter(index: u64, at: u64) -> char {
    if at.is_multiple_of(6) { ' ' } else { char::from(b'a' + ((index * 7 + at * 11) % 26) as u8) }
}

/// The bytes of each article; all together have [`BYTES`].
fn sizes() -> Vec<u64> {
    let mut rng = Rng::new(1985, 0);
    let weights: Vec<u64> = (0..ARTICLES).map(|_| rng.between(60, 140)).collect();
    let sum: u64 = weights.iter().sum();
    let mut sizes: Vec<u64> = weights.iter().map(|weight| BYTES * weight / sum).collect();
    let rest = BYTES - sizes.iter().sum::<u64>();
    if let Some(last) = sizes.last_mut() {
        *last += rest;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(batch: Batch) -> String {
        let mut text = Vec::new();
        batch.write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_batch_is_the_papers() {
        let batch = Batch { name: "new", times: 1, is_old: false };
        let text = whole(batch);
        assert_eq!(text.len() as u64, BYTES);
        let mut rest = text.as_str();
        let (mut articles, mut crossposts) = (0, 0);
        while let Some((line, after)) = rest.split_once('\n') {
            let bytes: usize = line.strip_prefix("#! rnews ").unwrap().parse().unwrap();
            let (article, next) = after.split_at(bytes);
            let wire = article.replace('\n', "\r\n").into_bytes();
            let article = netnews::Article::parse(&wire).unwrap();
            article.required().unwrap();
            crossposts += u64::from(article.header(netnews::Known::Newsgroups).unwrap().contains(&b','));
            (articles, rest) = (articles + 1, next);
        }
        assert_eq!((articles, crossposts, rest), (ARTICLES, CROSSPOSTS, ""));
        let hundred = whole(Batch { times: 100, is_old: true, ..batch });
        assert_eq!(hundred.len() as u64, 100 * BYTES);
        assert_eq!(hundred.matches("1985 23:46").count(), 17_100);
    }
}
