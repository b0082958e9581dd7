//! What is to be filed, in which order and under which numbers.
//!
//! One look at the head of each article. Called by `cli::import`.

use std::collections::HashMap;
use std::io;

use md5::{Digest, Md5};
use spool::Progress;

use super::head;
use super::order::Numbered;
use super::site::Inn;
use super::source::Item;
use crate::config::Groups;

/// The articles of an import. An article's number is its index in `Found::items`.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Names of the groups that Xref headers speak of, by the number in `numbered`.
    pub groups: Vec<String>,
    pub numbered: Numbered,
    /// Those that are wanted and have numbers, in the order in which they were numbered.
    pub order: Vec<u32>,
    /// Those that are wanted and have none.
    pub unnumbered: Vec<u32>,
    /// Those in no wanted group.
    pub unwanted: u64,
}

impl Plan {
    /// Looks at all articles of `inn`; those in no group of `wanted` are left out.
    pub fn make(inn: &Inn, wanted: Option<&Groups>, progress: &dyn Progress) -> io::Result<Self> {
        let mut plan = Self::default();
        let mut ids: HashMap<Vec<u8>, Option<u32>> = HashMap::new();
        let mut begun = Vec::new();
        let mut left_out = vec![false; inn.found.items.len()];
        progress.start("looking through the articles", inn.found.items.len() as u64);
        for ((at, item), left_out) in inn.found.items.iter().enumerate().zip(&mut left_out) {
            // What cannot be read is told when it is to be filed.
            if inn.found.read_head(item, &mut begun).is_err() {
                begun.clear();
            }
            let head = head::read(&begun);
            for (name, number) in &head.places {
                if let Some(group) = plan.group(name, wanted, &mut ids) {
                    plan.numbered.pairs.push((group, *number));
                }
            }
            plan.numbered.push(arrival(inn, item, head.message_id));
            *left_out = !head.places.is_empty() && plan.numbered.of(at as u32).is_empty();
            plan.unwanted += u64::from(*left_out);
            progress.step(at as u64);
        }
        progress.finish();
        let order = plan.numbered.order().into_iter();
        let wanted = order.filter(|article| left_out.get(*article as usize) == Some(&false));
        (plan.order, plan.unnumbered) = wanted.partition(|article| !plan.numbered.of(*article).is_empty());
        Ok(plan)
    }

    fn group(
        &mut self,
        name: &[u8],
        wanted: Option<&Groups>,
        ids: &mut HashMap<Vec<u8>, Option<u32>>,
    ) -> Option<u32> {
        if let Some(id) = ids.get(name) {
            return *id;
        }
        let text =
            std::str::from_utf8(name).ok().filter(|_| wanted.is_none_or(|wanted| wanted.matches(name)));
        let id = text.map(|text| {
            self.groups.push(text.to_owned());
            self.groups.len() as u32 - 1
        });
        ids.insert(name.to_vec(), id);
        id
    }

    /// An article's places as a frame of the control socket has them; numbers of groups that `keep` says no to are 0.
    pub fn places(&self, article: u32, keep: impl Fn(u32) -> bool, out: &mut Vec<u8>) {
        for (group, number) in self.numbered.of(article) {
            let Some(name) = self.groups.get(*group as usize) else { continue };
            out.extend_from_slice(name.as_bytes());
            let number = if keep(*group) { *number } else { 0 };
            out.extend_from_slice(format!(":{number} ").as_bytes());
        }
    }
}

/// When an article arrived: by history if that was read, else by its own file.
fn arrival(inn: &Inn, item: &Item, message_id: &[u8]) -> u32 {
    if inn.arrivals.by_hash.is_empty() {
        return item.arrived;
    }
    inn.arrivals.by_hash.get(&inn_hash(message_id)).copied().unwrap_or(item.arrived)
}

/// INN's hash of a Message-ID: MD5 of it with the right-hand side in lower case.
fn inn_hash(message_id: &[u8]) -> [u8; 16] {
    let mut id = message_id.to_vec();
    let right = memchr::memrchr(b'@', &id).unwrap_or(id.len());
    id.get_mut(right..).unwrap_or_default().make_ascii_lowercase();
    Md5::digest(&id).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_inns_history() {
        // From a line that INN 2.7 wrote.
        let hash = inn_hash(b"<ff9f5ff97237f5b3.5.0@load.example.invalid>");
        assert_eq!(hash, 0xC906_AEE6_4C14_17F1_BBD1_FC07_9EDA_7985_u128.to_be_bytes());
        assert_eq!(inn_hash(b"<A@B.C>"), inn_hash(b"<A@b.c>"));
        assert_ne!(inn_hash(b"<A@B.C>"), inn_hash(b"<a@B.C>"));
    }
}
