//! Selection among many sorted names: each pattern that begins with plain text examines only the names with
//! that beginning, so that thousands of names cost little more than the patterns.

use super::pattern::{Pattern, PatternElement};
use super::{Wildmat, WildmatPart};
use std::ops::Range;

impl Wildmat {
    /// Sets a bit of `chosen` for each of `names` that matches, and clears the others; `names` are sorted by
    /// their octets. Bit `n % 64` of word `n / 64` represents name `n`.
    pub fn select(&self, names: &[&[u8]], chosen: &mut [u64]) {
        chosen.fill(0);
        for WildmatPart { is_negated, pattern, .. } in &self.patterns {
            let begins = begin(pattern);
            let range = starting_with(names, &begins);
            if matches!(pattern, Pattern::Prefix(_)) {
                fill(chosen, range, !is_negated);
                continue;
            }
            for at in range {
                if names.get(at).is_some_and(|name| pattern.matches(name)) {
                    fill(chosen, at..at + 1, !is_negated);
                }
            }
        }
    }
}

/// Returns the plain text that every match begins with.
fn begin(pattern: &Pattern) -> Vec<u8> {
    match pattern {
        Pattern::Exact(text) | Pattern::Prefix(text) => text.to_vec(),
        Pattern::Suffix(_) | Pattern::Infix(_) => Vec::new(),
        Pattern::Elements(elements) => {
            let octet = |element: &PatternElement| {
                if let PatternElement::Octet(b) = element { Some(*b) } else { None }
            };
            elements.iter().map_while(octet).collect()
        }
    }
}

fn starting_with(names: &[&[u8]], begin: &[u8]) -> Range<usize> {
    let start = names.partition_point(|name| *name < begin);
    let rest = names.get(start..).unwrap_or_default();
    start..start + rest.partition_point(|name| name.starts_with(begin))
}

/// Sets or clears a range of bits.
fn fill(bits: &mut [u64], range: Range<usize>, value: bool) {
    let Range { mut start, end } = range;
    while start < end {
        let (word, from) = (start / 64, start % 64);
        let to = (end - word * 64).min(64);
        let mask = (u64::MAX << from) & (u64::MAX >> (64 - to));
        if let Some(bits) = bits.get_mut(word) {
            *bits = if value { *bits | mask } else { *bits & !mask };
        }
        start = word * 64 + to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn selected_names_are_those_that_match_one_by_one(
            mut names in proptest::collection::vec("[ab.]{0,6}", 0..300),
            patterns in proptest::collection::vec("!?[ab.*?]{1,4}", 1..5),
        ) {
            names.sort_unstable();
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let Ok(wildmat) = Wildmat::parse(patterns.join(",").as_bytes()) else { return Ok(()) };
            let mut chosen = vec![u64::MAX; names.len().div_ceil(64)];
            wildmat.select(&names, &mut chosen);
            for (at, name) in names.iter().enumerate() {
                let bit = chosen[at / 64] >> (at % 64) & 1 == 1;
                prop_assert_eq!(bit, wildmat.matches(name), "{:?}", name);
            }
        }
    }
}
