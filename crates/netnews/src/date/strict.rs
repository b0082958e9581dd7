//! Check for the form of dates that RFC 5322 prescribes, so that every server can read them.
//!
//! Called by `date::is_standard`, for injected articles. Comments and folds may stand between the words; the
//! obsolete forms that every server must accept are allowed (two digits of a year, zones by name). Sources:
//! RFC 5322 sections 3.3 and 4.3, RFC 5536 section 3.1.1.

use super::parse::{MONTHS, WEEKDAYS, three};

/// Zones by name: `obs-zone` without the military letters.
const ZONES: &[&[u8]] =
    &[b"UT", b"GMT", b"EST", b"EDT", b"CST", b"CDT", b"MST", b"MDT", b"PST", b"PDT", b"Z"];
/// Maximum nesting of comments.
const COMMENT_DEPTH_MAX: usize = 16;

/// Returns whether `value` is a `date-time`.
pub(super) fn is_date_time(value: &[u8]) -> bool {
    read(&mut DateReader { rest: value }).is_some()
}

/// Parses `[weekday ","] day month year time zone`.
fn read(reader: &mut DateReader<'_>) -> Option<()> {
    reader.blank()?;
    if reader.rest.first().is_some_and(u8::is_ascii_alphabetic) {
        let weekday = reader.while_of(u8::is_ascii_alphabetic);
        is_one_of(&WEEKDAYS, weekday)?;
        reader.blank()?;
        reader.octet(b',')?;
        reader.blank()?;
    }
    reader.digits(1..=2)?;
    reader.blank()?;
    is_one_of(&MONTHS, reader.while_of(u8::is_ascii_alphabetic))?;
    reader.blank()?;
    reader.digits(2..=4)?;
    reader.blank()?;
    reader.digits(2..=2)?;
    reader.octet(b':')?;
    reader.digits(2..=2)?;
    if reader.rest.first() == Some(&b':') {
        reader.octet(b':')?;
        reader.digits(2..=2)?;
    }
    reader.blank()?;
    match reader.rest.first()? {
        b'+' | b'-' => {
            reader.rest = reader.rest.get(1..)?;
            reader.digits(4..=4)?;
        }
        _ => {
            let zone = reader.while_of(u8::is_ascii_alphabetic);
            ZONES.iter().any(|known| known.eq_ignore_ascii_case(zone)).then_some(())?;
        }
    }
    reader.blank()?;
    reader.rest.is_empty().then_some(())
}

fn is_one_of(names: &[u32], word: &[u8]) -> Option<()> {
    let [a, b, c] = word else { return None };
    names.contains(&three([*a, *b, *c])).then_some(())
}

/// Rest of a value that is not read yet.
struct DateReader<'a> {
    rest: &'a [u8],
}

impl<'a> DateReader<'a> {
    fn while_of(&mut self, is_wanted: impl Fn(&u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|b| !is_wanted(b)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest;
        found
    }

    fn octet(&mut self, wanted: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[wanted])?;
        Some(())
    }

    fn digits(&mut self, count: std::ops::RangeInclusive<usize>) -> Option<()> {
        let found = self.while_of(u8::is_ascii_digit).len();
        count.contains(&found).then_some(())
    }

    /// Skips white space, folds and comments; returns `None` if a comment does not end.
    fn blank(&mut self) -> Option<()> {
        let mut depth = 0;
        while let Some((first, after)) = self.rest.split_first() {
            match first {
                b'\\' if depth > 0 => {
                    self.rest = after.get(1..)?;
                    continue;
                }
                b'(' if depth < COMMENT_DEPTH_MAX => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ if depth > 0 => {}
                _ => break,
            }
            self.rest = after;
        }
        (depth == 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_every_server_reads_are_standard() {
        for value in [
            "Fri, 16 Apr 1993 12:00:00 +0000",
            "16 Apr 1993 12:00 -0330",
            "fri ,\r\n 6  Apr\t93 12:00:00 GMT",
            "Fri, 16 Apr 1993 12:00:00 +0200 (MEST (so \\) called))",
            "(c) 16 Apr 1993 12:00:00 edt",
            " 1 Jan 2030 00:00:00 UT ",
        ] {
            assert!(is_date_time(value.as_bytes()), "{value:?}");
        }
        for value in [
            "",
            "2026-11-26T12:00:00Z",
            "2026-11-26",
            "Thu Nov 26 12:00:00 2026",
            "26 Nov 2026",
            "Thu, 26 Nov 2026 12:00:00",
            "Thursday, 26 Nov 2026 12:00:00 +0000",
            "Thu 26 Nov 2026 12:00:00 +0000",
            "26 November 2026 12:00:00 +0000",
            "26-Nov-2026 12:00:00 +0000",
            "26 Nov 2026 1:00:00 +0000",
            "26 Nov 2026 12:00:00 +000",
            "26 Nov 2026 12:00:00 CEST",
            "26 Nov 2026 12:00:00 +0000 x",
            "26 Nov 2026 12:00:00 +0000 (x",
            "11/26/2026 12:00:00 +0000",
        ] {
            assert!(!is_date_time(value.as_bytes()), "{value:?}");
        }
    }
}
