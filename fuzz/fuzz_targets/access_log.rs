//! Logs that the simulator reads: reading ends, and a trace is consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newscache::simulate::Trace;

fuzz_target!(|input: &[u8]| {
    let trace = Trace::read(input, |_| ()).expect("memory can be read");
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    for request in &trace.requests {
        let article = trace.articles[request.article as usize];
        assert!((article.group as usize) < trace.groups && article.bytes > 0);
    }
});
