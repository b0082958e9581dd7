//! Wildmats against the definition of RFC 3977 section 4, tried out with all splits remembered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::Wildmat;

/// `reach[j]`: the pattern so far matches the first j characters.
fn naive(pattern: &str, text: &[char]) -> bool {
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    for p in pattern.chars() {
        let mut next = vec![false; text.len() + 1];
        for j in 0..=text.len() {
            next[j] = match p {
                '*' => reach[j] || (j > 0 && next[j - 1]),
                _ => j > 0 && reach[j - 1] && (p == '?' || p == text[j - 1]),
            };
        }
        reach = next;
    }
    reach[text.len()]
}

fn naive_list(wildmat: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut decided = false;
    for pattern in wildmat.split(',') {
        let (negated, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
        if naive(pattern, &text) {
            decided = !negated;
        }
    }
    decided
}

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |&b| b == b'\n');
    let (pattern, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let lenient = Wildmat::parse_lenient(pattern).map(|wildmat| wildmat.matches(text));
    let Ok(strict) = Wildmat::parse(pattern) else {
        return;
    };
    assert_eq!(lenient, Ok(strict.matches(text)));
    let pattern = std::str::from_utf8(pattern).expect("strict wildmats are UTF-8");
    if let Ok(text) = std::str::from_utf8(text)
        && pattern.len() * text.len() < 100_000
    {
        assert_eq!(strict.matches(text.as_bytes()), naive_list(pattern, text), "{pattern:?} {text:?}");
    }
});
