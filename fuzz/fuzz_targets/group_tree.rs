//! Groups as directories of a mount: lines are names of groups, the first one a name that is looked up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::newsgroups::valid_name;
use usenetfs::fuzzing::walked;

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|b| *b == b'\n');
    let name = lines.next().unwrap_or_default();
    let mut groups: Vec<&str> =
        lines.filter(|line| valid_name(line)).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let (found, hits) = walked(&groups, name);
    groups.sort_unstable();
    groups.dedup();
    assert_eq!(found, groups, "every group is reached, and nothing else");
    for hit in hits {
        let is_within = |group: &&str| {
            group.strip_prefix(hit.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        assert!(groups.iter().any(is_within), "a directory of no group");
    }
});
