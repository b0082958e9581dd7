//! The form of files that hold one waiting post or mail: a first line with the kind of file, lines with a
//! name and a value, an empty line, the post, and a hash of all that ([`summed`](super::summed)). Called by
//! `moderation` and `source`. Formats: `docs/formats/moderation.md`, `docs/formats/posts.md`.

use super::summed::{sum_line, without_sum};

/// Version of the form without a hash, which earlier versions wrote.
const UNSUMMED: &str = "1";
/// Version of the form.
const SUMMED: &str = "2";

/// Returns the bytes before and after `rest` in a file of this kind with these names and values.
pub fn around(kind: &str, fields: &[(&str, &str)], rest: &[u8]) -> (String, String) {
    let mut head = format!("{kind} {SUMMED}\n");
    fields.iter().for_each(|(name, value)| head.push_str(&format!("{name} {value}\n")));
    head.push('\n');
    let sum = sum_line(&[head.as_bytes(), rest]);
    (head, sum)
}

/// Returns the values of these names, which come in this order, and the bytes after the empty line; `None` if
/// the file is damaged or of another kind.
pub fn read<'b, const N: usize>(
    bytes: &'b [u8],
    kind: &str,
    names: [&str; N],
) -> Option<([String; N], &'b [u8])> {
    let first = bytes.get(..memchr::memchr(b'\n', bytes)?)?;
    let version = std::str::from_utf8(first).ok()?.strip_prefix(kind)?.strip_prefix(' ')?;
    let bytes = match version {
        UNSUMMED => bytes,
        SUMMED => without_sum(bytes)?,
        _ => return None,
    };
    let end = memchr::memmem::find(bytes, b"\n\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = head.lines().skip(1);
    let mut values = [const { String::new() }; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.to_owned();
    }
    Some((values, bytes.get(end + 2..)?))
}
