//! The Xref header (RFC 5536 3.2.14), which every stored article begins with: group names and numbers.

/// Beginning of the header line.
pub const XREF_NAME: &[u8] = b"Xref: ";

/// Returns the pairs of the Xref line that a stored article begins with.
pub fn pairs_of_line(head: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let line = head.split(|b| *b == b'\r').next().and_then(|l| l.strip_prefix(XREF_NAME)).unwrap_or_default();
    pairs_of(line)
}

/// Returns the pairs in the value of an Xref header.
pub fn pairs_of(value: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let pair = |p: &'_ [u8]| {
        let colon = memchr::memrchr(b':', p)?;
        Some((p.get(..colon)?.len(), netnews::decimal::parse_decimal(p.get(colon + 1..)?)?))
    };
    value.split(|b| *b == b' ').skip(1).filter_map(move |p| {
        let (len, number) = pair(p)?;
        Some((p.get(..len)?, number))
    })
}
