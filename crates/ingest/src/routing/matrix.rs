//! Groups x peers as bits: for each group the peers whose `groups` match it, and those whose `groups_never`
//! do.
//!
//! A column is computed by runs over the sorted names ([`netnews::wildmat::Wildmat::select`]), and columns
//! become rows 64 x 64 bits at a time. A group that is not carried here has no row: one is computed when it
//! is first seen, and kept in a bounded table.

use super::facts::{PeerRoute, RoutingFacts, RoutingStep};
use hashbrown::HashMap;
use site_base::lock::Leaf;
use site_config::FeedCondition;
use spool::{GroupFlag, GroupTable};

/// Rows kept for groups that are not carried here.
const UNKNOWN_MAX: usize = 4_096;

/// Two rows of bits for each group.
#[derive(Debug)]
pub(super) struct RoutingMatrix {
    words: usize,
    /// By group number: the words of the peers that take it, then those of the peers that exclude it.
    rows: Vec<u64>,
    unknown: Leaf<UncarriedRows>,
}

/// Prefix of groups for one peer: articles in `to.NAME` are for the peer of that name alone (RFC 1036
/// section 3.2).
const TO: &[u8] = b"to.";

/// Rows of groups that are not carried here, by name.
type UncarriedRows = HashMap<Box<[u8]>, Box<[u64]>>;

impl RoutingMatrix {
    pub fn new(table: &GroupTable, routes: &[PeerRoute], words: usize) -> Self {
        let unknown = Leaf::default();
        if words == 0 {
            return Self { words, rows: Vec::new(), unknown };
        }
        let groups = table.sorted();
        let names: Vec<&[u8]> = groups.iter().map(|group| group.name.as_bytes()).collect();
        let highest = groups.iter().map(|group| group.id.0 as usize + 1).max().unwrap_or(0);
        let mut rows = vec![0; highest * 2 * words];
        let mut moderated = vec![0; names.len().div_ceil(64)];
        if routes.iter().any(|route| status(route).is_some()) {
            let is_moderated = |at: &usize| groups.get(*at).is_some_and(|g| g.flag() == GroupFlag::Moderated);
            (0..names.len()).filter(is_moderated).for_each(|at| set(&mut moderated, at));
        }
        let blocks = moderated.len();
        for word in 0..words {
            // 64 columns for each kind of row, one after the other.
            let mut columns = vec![0; 2 * 64 * blocks];
            for route in routes.iter().filter(|route| route.number as usize / 64 == word) {
                let column = route.number as usize % 64;
                let at = |kind: usize| (kind * 64 + column) * blocks..(kind * 64 + column + 1) * blocks;
                if let Some(takes) = columns.get_mut(at(0)) {
                    route.send.groups.select(&names, takes);
                    if let Some(only_moderated) = status(route) {
                        let keep = |m: &u64| if only_moderated { *m } else { !*m };
                        takes.iter_mut().zip(&moderated).for_each(|(takes, m)| *takes &= keep(m));
                    }
                }
                if let Some(never) = columns.get_mut(at(1)) {
                    route.send.groups_never.select(&names, never);
                }
            }
            for (kind, columns) in columns.chunks_exact((64 * blocks).max(1)).enumerate() {
                for block in 0..blocks {
                    let mut square = [0; 64];
                    let column = columns.iter().skip(block).step_by(blocks);
                    square.iter_mut().zip(column).for_each(|(square, column)| *square = *column);
                    transpose(&mut square);
                    for (group, bits) in groups.iter().skip(block * 64).zip(square) {
                        let at = (group.id.0 as usize * 2 + kind) * words + word;
                        if let Some(row) = rows.get_mut(at) {
                            *row = bits;
                        }
                    }
                }
            }
        }
        Self { words, rows, unknown }
    }

    /// Adds the peers that take a group, and those that exclude it.
    pub fn merge(
        &self,
        table: &GroupTable,
        routes: &[PeerRoute],
        name: &[u8],
        takes: &mut [u64],
        never: &mut [u64],
    ) {
        let mut merge = |row: &[u64]| {
            let (own_takes, own_never) = row.split_at_checked(self.words).unwrap_or_default();
            takes.iter_mut().zip(own_takes).for_each(|(all, own)| *all |= own);
            never.iter_mut().zip(own_never).for_each(|(all, own)| *all |= own);
        };
        if let Some(id) = table.id(name).filter(|_| !name.starts_with(TO)) {
            let at = id.0 as usize * 2 * self.words;
            return merge(self.rows.get(at..at + 2 * self.words).unwrap_or_default());
        }
        let mut unknown = self.unknown.lock();
        if let Some(row) = unknown.get(name) {
            return merge(row);
        }
        let mut row = vec![0; 2 * self.words];
        let (takes, never) = row.split_at_mut(self.words);
        for route in routes {
            if matches(route, name, false) {
                set(takes, route.number as usize);
            }
            if route.send.groups_never.matches(name) {
                set(never, route.number as usize);
            }
        }
        if unknown.len() >= UNKNOWN_MAX {
            unknown.clear();
        }
        merge(&row);
        unknown.insert(name.into(), row.into());
    }

    /// Returns the steps on groups.
    pub fn explain(
        &self,
        table: &GroupTable,
        route: &PeerRoute,
        facts: &RoutingFacts<'_>,
    ) -> [RoutingStep; 2] {
        let is_moderated = |name: &[u8]| {
            table
                .id(name)
                .and_then(|id| table.get(id))
                .is_some_and(|group| group.flag() == GroupFlag::Moderated)
        };
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let send = &route.send;
        let only = match status(route) {
            None => "",
            Some(true) => ", moderated groups only",
            Some(false) => ", no moderated groups",
        };
        let wanted = facts.groups().find(|name| matches(route, name, is_moderated(name)));
        let groups = RoutingStep {
            what: "groups",
            passed: wanted.is_some(),
            text: match wanted {
                Some(name) => format!("{} matches \"{}\"{only}", text(name), send.groups.as_str()),
                None => {
                    let names: Vec<String> = facts.groups().map(text).collect();
                    format!("none of {} matches \"{}\"{only}", names.join(", "), send.groups.as_str())
                }
            },
        };
        let kept_away = facts.groups().find(|name| send.groups_never.matches(name));
        let never = RoutingStep {
            what: "groups_never",
            passed: kept_away.is_none(),
            text: match kept_away {
                Some(name) => format!("{} matches \"{}\"", text(name), send.groups_never.as_str()),
                None if send.groups_never.is_empty() => "no group is left out".to_owned(),
                None => format!("no group matches \"{}\"", send.groups_never.as_str()),
            },
        };
        [groups, never]
    }
}

/// Returns whether only moderated groups count, or only unmoderated ones.
fn status(route: &PeerRoute) -> Option<bool> {
    let only = &route.send.only;
    match (only.contains(&FeedCondition::Moderated), only.contains(&FeedCondition::Unmoderated)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

fn matches(route: &PeerRoute, name: &[u8], is_moderated: bool) -> bool {
    if let Some(peer) = name.strip_prefix(TO) {
        return peer.eq_ignore_ascii_case(route.name.as_bytes());
    }
    status(route).is_none_or(|only| only == is_moderated) && route.send.groups.matches(name)
}

/// Sets a bit.
pub(super) fn set(words: &mut [u64], bit: usize) {
    if let Some(word) = words.get_mut(bit / 64) {
        *word |= 1 << (bit % 64);
    }
}

/// Transposes a matrix of 64 x 64 bits (Hacker's Delight, section 7-3), bit 0 being the first column.
fn transpose(square: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask = 0x0000_0000_ffff_ffff_u64;
    while width != 0 {
        let mut row = 0;
        while row < 64 {
            let swap = ((square[row] >> width) ^ square[row + width]) & mask;
            square[row] ^= swap << width;
            square[row + width] ^= swap;
            row = (row + width + 1) & !width;
        }
        width >>= 1;
        mask ^= mask << width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let bit = |row: usize, column: usize| (row * 7 + column * column) % 5 < 2;
        let mut square = [0; 64];
        for (row, bits) in square.iter_mut().enumerate() {
            (0..64).filter(|column| bit(row, *column)).for_each(|column| *bits |= 1 << column);
        }
        transpose(&mut square);
        for (column, bits) in square.iter().enumerate() {
            (0..64).for_each(|row| assert_eq!(bits >> row & 1 == 1, bit(row, column), "{row} {column}"));
        }
    }
}
