//! Form of an article that is a file of its own: the article itself, as C News and INN store it, with a
//! header of ours after the Xref header that has the content of a record's header (`docs/formats/tree.md`).
//!
//! The wire form is the article as sent; the LF form has plain line ends, no dot-stuffing and no final dot.
//! An article that the LF form could not restore byte by byte is stored in wire form; the first line end
//! shows which form it is.

use crate::cnfs::record::{self, END, HEADER_BYTES, RecordHeader};
use spool_base::key::ArticleKey;

/// Name of the header with the record's fields.
const NAME: &[u8] = b"X-Newsreel-Record: ";
const VERSION: &str = "1";

/// Returns the file of a record; the place in the record is ignored.
pub(super) fn to_file(record: &[u8], lines_end_in_lf: bool) -> Option<Vec<u8>> {
    let (header, _) = RecordHeader::parse(record)?;
    let data = record.get(HEADER_BYTES..header.record_bytes())?;
    let (xref, rest) = data.split_at_checked(memchr::memchr(b'\n', data)? + 1)?;
    let line = line_of(&header, checksum(&header, data));
    let mut file = Vec::with_capacity(data.len() + line.len() + 2);
    if lines_end_in_lf {
        let mut plain = Vec::with_capacity(data.len());
        put_plain(xref, &mut plain);
        plain.extend_from_slice(&line);
        plain.push(b'\n');
        let start = plain.len();
        put_plain(rest.strip_suffix(END)?, &mut plain);
        let mut back = Vec::with_capacity(rest.len());
        put_wire(plain.get(start..)?, &mut back);
        if back == rest {
            return Some(plain);
        }
    }
    file.extend_from_slice(xref);
    file.extend_from_slice(&line);
    file.extend_from_slice(b"\r\n");
    file.extend_from_slice(rest);
    Some(file)
}

/// Writes the record of a file into `record`; `None` if the file is none of ours or is damaged so that this
/// shows before the checksum.
pub(super) fn from_file(file: &[u8], record: &mut Vec<u8>) -> Option<RecordHeader> {
    let first_end = memchr::memchr(b'\n', file)?;
    let (xref, rest) = file.split_at_checked(first_end + 1)?;
    let is_wire = xref.ends_with(b"\r\n");
    let (line, rest) = rest.split_at_checked(memchr::memchr(b'\n', rest)? + 1)?;
    let (mut header, crc) = parse_line(line)?;
    record.clear();
    record.resize(HEADER_BYTES, 0);
    if is_wire {
        record.extend_from_slice(xref);
        record.extend_from_slice(rest);
    } else {
        record.extend_from_slice(xref.strip_suffix(b"\n")?);
        record.extend_from_slice(b"\r\n");
        put_wire(rest, record);
    }
    header.data_bytes = u32::try_from(record.len() - HEADER_BYTES).ok()?;
    let mut head = Vec::with_capacity(HEADER_BYTES);
    header.put(&mut head);
    head.get_mut(..4)?.copy_from_slice(record::MAGIC_LIVE);
    head.get_mut(4..8)?.copy_from_slice(&crc.to_le_bytes());
    record.get_mut(..HEADER_BYTES)?.copy_from_slice(&head);
    RecordHeader::parse(record).map(|(header, _)| header)
}

/// Reports whether bytes, however few, can be the beginning of a file of ours.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.iter().zip(b"Xref: ").all(|(a, b)| a == b)
}

/// Reports whether a file that is no article of ours may be the beginning of one, as a crash leaves it:
/// empty, zeros, or cut off before our header.
pub(super) fn is_beginning(file: &[u8]) -> bool {
    let lines = file.iter().filter(|b| **b == b'\n').count();
    file.first().is_none_or(|b| *b == 0) || begins(file) && (lines < 2 || glance(file).is_some())
}

/// Reads header and Xref line (without its end) from a file's first bytes, for a walk through many files.
pub(super) fn glance(file: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let first_end = memchr::memchr(b'\n', file)?;
    let (xref, rest) = file.split_at_checked(first_end + 1)?;
    let line = rest.get(..=memchr::memchr(b'\n', rest)?)?;
    Some((parse_line(line)?.0, xref.trim_ascii_end()))
}

/// Returns the checksum of the record at place 0: a rebuild may assign another place to the file.
fn checksum(header: &RecordHeader, data: &[u8]) -> u32 {
    let mut head = Vec::with_capacity(HEADER_BYTES);
    RecordHeader { place: 0, ..*header }.put(&mut head);
    disk::crc::crc32c_of_two(head.get(8..).unwrap_or_default(), data)
}

fn line_of(h: &RecordHeader, crc: u32) -> Vec<u8> {
    let mut line = NAME.to_vec();
    let RecordHeader { header_bytes, sequence, key, arrived, expires, .. } = h;
    let (at, len, class) = (h.message_id_at, h.message_id_bytes, h.class);
    line.extend_from_slice(
        format!(
            "{VERSION} {sequence:x} {:032x} {arrived:x} {expires:x} {class:x} {header_bytes:x} {at:x} \
                {len:x} {crc:08x}",
            key.0
        )
        .as_bytes(),
    );
    line
}

fn parse_line(line: &[u8]) -> Option<(RecordHeader, u32)> {
    let text = line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n"))?;
    let mut fields = std::str::from_utf8(text.strip_prefix(NAME)?).ok()?.split(' ');
    if fields.next()? != VERSION {
        return None;
    }
    let mut hex = || u128::from_str_radix(fields.next()?, 16).ok();
    let small = |n: u128| u32::try_from(n).ok();
    let sequence = u64::try_from(hex()?).ok()?;
    let key = ArticleKey(hex()?);
    let (arrived, expires) = (small(hex()?)?, small(hex()?)?);
    let class = u8::try_from(hex()?).ok()?;
    let (header_bytes, message_id_at) = (small(hex()?)?, small(hex()?)?);
    let message_id_bytes = u16::try_from(hex()?).ok()?;
    let crc = small(hex()?)?;
    let header = RecordHeader {
        data_bytes: 0,
        header_bytes,
        place: 0,
        sequence,
        key,
        arrived,
        expires,
        message_id_at,
        message_id_bytes,
        class,
        packed: false,
    };
    // The line must be exactly as written: numbers have several spellings, and a flipped bit would go
    // unnoticed.
    (line_of(&header, crc) == text).then_some((header, crc))
}

/// Converts lines in wire format, without the final dot, to lines that end in LF.
fn put_plain(wire: &[u8], out: &mut Vec<u8>) {
    for line in wire.split_inclusive(|b| *b == b'\n') {
        let line = if line.starts_with(b"..") { line.get(1..).unwrap_or_default() } else { line };
        match line.strip_suffix(b"\r\n") {
            Some(text) => {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
}

/// Converts lines that end in LF to wire format, with the final dot.
fn put_wire(plain: &[u8], out: &mut Vec<u8>) {
    for line in plain.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        match line.strip_suffix(b"\n") {
            Some(text) => {
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(line),
        }
    }
    out.extend_from_slice(END);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u8]) -> Vec<u8> {
        let mut data = b"Xref: h a.b:7\r\nMessage-ID: <1@x>\r\n\r\n".to_vec();
        let header_bytes = data.len() as u32;
        data.extend_from_slice(body);
        data.extend_from_slice(END);
        let header = RecordHeader {
            data_bytes: data.len() as u32,
            header_bytes,
            place: 0,
            sequence: 77,
            key: ArticleKey(1 << 100),
            arrived: 5,
            expires: 6,
            message_id_at: 27,
            message_id_bytes: 5,
            class: 3,
            packed: false,
        };
        let mut record = Vec::new();
        header.put(&mut record);
        record.extend_from_slice(&data);
        record::seal(&mut record);
        record
    }

    #[test]
    fn the_record_can_be_restored_from_both_forms() {
        let bodies: [&[u8]; 5] =
            [b"plain\r\n", b"..dots\r\n...\r\n", b"", b"bare \n and \r here\r\n", b"\r\n\r\n\xff\0\r\n"];
        for body in bodies {
            let whole = record(body);
            for lf in [false, true] {
                let file = to_file(&whole, lf).unwrap();
                let mut back = Vec::new();
                from_file(&file, &mut back).unwrap();
                assert!(record::is_whole(&back), "{body:?} {lf}");
                assert_eq!(back, whole);
                let bare = body.starts_with(b"bare");
                assert_eq!(file.contains(&b'\r'), !lf || bare);
                for at in 0..file.len() {
                    let mut flipped = file.clone();
                    flipped[at] ^= 1 << (at % 8);
                    let read = from_file(&flipped, &mut back);
                    assert!(read.is_none() || !record::is_whole(&back), "{at}");
                }
            }
        }
        for lf in [false, true] {
            let file = to_file(&record(b"x\r\n"), lf).unwrap();
            let (header, xref) = glance(&file).unwrap();
            assert_eq!((header.sequence, xref), (77, &b"Xref: h a.b:7"[..]));
        }
        let plain = String::from_utf8(to_file(&record(b"..x\r\n"), true).unwrap()).unwrap();
        assert!(plain.ends_with("\n\n.x\n"), "{plain}");
    }
}
