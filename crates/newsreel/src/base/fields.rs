//! The form of files that hold one post or mail that waits: a first line that says what it is, lines of a
//! name and its value, an empty line, and then the post. Called by `moderation` and `source`. Formats:
//! `docs/formats/moderation.md`, `docs/formats/posts.md`.

/// The values of these names, which come in this order, and what follows the empty line; `None` if it is not
/// such a file.
pub(crate) fn read<'b, const N: usize>(
    bytes: &'b [u8],
    first_line: &str,
    names: [&str; N],
) -> Option<([String; N], &'b [u8])> {
    let end = memchr::memmem::find(bytes, b"\n\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = head.lines();
    if lines.next()? != first_line {
        return None;
    }
    let mut values = [const { String::new() }; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.to_owned();
    }
    Some((values, bytes.get(end + 2..)?))
}
