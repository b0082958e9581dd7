//! LDAP: a filter on the first line, a name on the second, and after them an answer of a directory. No name
//! changes what a filter tests or which entry is meant, an answer is exactly one message, and names of groups
//! are compared without regard to case.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::ldap;

/// Depth and tag of each element, of those with elements in them as of others; `None` if the octets are not
/// whole elements.
fn shape(octets: &[u8]) -> Option<Vec<(usize, u8)>> {
    let (mut found, mut left) = (Vec::new(), vec![octets]);
    while let Some(rest) = left.pop() {
        let Some((&tag, after)) = rest.split_first() else { continue };
        let (&first, after) = after.split_first()?;
        let (length, after) = match first {
            0..0x80 => (usize::from(first), after),
            _ => {
                let (octets, after) = after.split_at_checked(usize::from(first & 0x7f))?;
                (octets.iter().fold(0, |length, octet| (length << 8) | usize::from(*octet)), after)
            }
        };
        let (content, after) = after.split_at_checked(length)?;
        found.push((left.len(), tag));
        left.push(after);
        if tag & 0x20 != 0 {
            left.push(content);
        }
    }
    Some(found)
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |&b| b == b'\n');
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (filter, name) = (text(), text());
    if let Some(octets) = ldap::filter_octets(&filter, &name, &filter) {
        let other = ldap::filter_octets(&filter, "fred", "uid=fred").expect("a filter is one for every name");
        assert_eq!(shape(&octets).expect("it is no BER"), shape(&other).expect("it is no BER"));
    }
    assert_eq!(ldap::dn_parts(&ldap::user_dn(&name)), Some(vec![1, 1]));
    for text in [&filter, &name] {
        assert!(ldap::is_same_group(text, text));
        assert!(ldap::is_same_group(text, &text.to_ascii_uppercase()));
    }
    assert_eq!(ldap::is_same_group(&filter, &name), ldap::is_same_group(&name, &filter));
    let answer = parts.next().unwrap_or_default();
    if ldap::answer_number(answer).is_some() {
        assert_eq!(ldap::message_length(answer), Some(answer.len()));
        for end in (0..answer.len()).take(300) {
            assert_eq!(ldap::answer_number(&answer[..end]), None);
        }
    }
});
