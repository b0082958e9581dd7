//! Overview rows in threads: each article is in one thread once, in work that is linear in the rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newspages::threads::{ThreadRow, bytes_of, threads};
use newspages::work::{StopFlag, allowance, limited};

fuzz_target!(|text: &[u8]| {
    let rows: Vec<ThreadRow> = text.split_inclusive(|b| *b == b'\n').filter_map(ThreadRow::parse).collect();
    let found = limited(allowance(bytes_of(&rows)), &StopFlag::default(), || threads(&rows));
    let found = found.expect("threads take work that is linear in their rows");
    let mut shown: Vec<usize> = found.iter().flat_map(|thread| thread.rows()).collect();
    shown.sort_unstable();
    assert!(shown.into_iter().eq(0..rows.len()));
});
