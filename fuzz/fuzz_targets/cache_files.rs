//! Files of the cache: whatever is in them, reading them ends, and what is read of a group's file is what its
//! records say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newscache::fuzzing::{group_file, group_place, numbers_file, record, uses_file, wanted_file};

fuzz_target!(|input: &[u8]| {
    group_place(input);
    numbers_file(input);
    uses_file(input);
    assert!(wanted_file(input));
    let (articles, end) = group_file(input);
    assert!(end <= input.len() && articles <= input.len());
    // The same after whole records: these are found, whatever follows.
    let file = [record(input), record(b"second"), input.to_vec()].concat();
    let (articles, end) = group_file(&file);
    assert!(articles >= 1 && end >= record(input).len() + record(b"second").len());
    let mut flipped = record(input);
    let bit = input.iter().fold(0, |sum: usize, b| sum.wrapping_mul(7).wrapping_add(usize::from(*b)))
        % (8 * (40 + input.len()));
    flipped[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(group_file(&flipped), (0, 0), "bit {bit}");
});
