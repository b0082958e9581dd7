//! Small text files whose last line is a hash of the others: damage is noticed.

use ring::digest::{SHA256, digest};

/// Octets of the SHA-256 hash that are written, in hexadecimal.
const SUM_BYTES: usize = 8;

/// The lines, each with its line end, and the hash after them.
pub(super) fn with_sum(mut lines: String) -> String {
    let sum = sum(&lines);
    lines.push_str(&format!("sum {sum}\n"));
    lines
}

/// The lines without the hash; `None` if it is another one, or there is none.
pub(super) fn without_sum(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let at = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (lines, last) = text.split_at(at);
    (last.trim_end().strip_prefix("sum ")? == sum(lines)).then_some(lines)
}

fn sum(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(SUM_BYTES).map(|octet| format!("{octet:02x}")).collect()
}
