//! Files of tradspool, bucketed, hashed and timehash: what is written is read back, and not with any bit
//! flipped.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spool::fuzzing::{record, tree_file, tree_files_of};

fuzz_target!(|input: &[u8]| {
    // As it is: mostly no file of ours.
    if let Some(forms) = tree_file(input) {
        assert!(forms.iter().any(|form| form == input), "another file of the same article");
    }
    let Some((at, article)) = input.split_first_chunk::<2>() else { return };
    let forms = tree_files_of(&record(article)).expect("a record has its files");
    for form in &forms {
        assert_eq!(tree_file(form).as_ref(), Some(&forms));
        let mut flipped = form.clone();
        let bit = usize::from(u16::from_le_bytes(*at)) % (form.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(tree_file(&flipped), None, "bit {bit}");
    }
});
