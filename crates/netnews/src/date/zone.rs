//! Time zones by name and by offset.
//!
//! An unknown name counts as UTC, as RFC 5322 section 4.3 says ("-0000"): a Date is for sorting and for age limits, and a
//! few hours matter less there than having no date. Called by `parse`. Sources: RFC 5322 section 4.3, RFC 822, INN's and
//! tzdata's abbreviations where they have one usual meaning.

const MINUTES_PER_HOUR: i64 = 60;

/// The furthest offset from UTC taken: 24 hours.
const OFFSET_MINUTES_MAX: i64 = 24 * MINUTES_PER_HOUR;

/// Name and offset in minutes east of UTC.
const NAMES: &[(&[u8], i64)] = &[
    (b"UT", 0),
    (b"UTC", 0),
    (b"GMT", 0),
    (b"WET", 0),
    (b"BST", 60),
    (b"WEST", 60),
    (b"MET", 60),
    (b"MEZ", 60),
    (b"CET", 60),
    (b"SWT", 60),
    (b"MEST", 120),
    (b"MESZ", 120),
    (b"METDST", 120),
    (b"CEST", 120),
    (b"EET", 120),
    (b"SAST", 120),
    (b"EEST", 180),
    (b"MSK", 180),
    (b"MSD", 240),
    (b"IST", 330),
    (b"HKT", 480),
    (b"SGT", 480),
    (b"WST", 480),
    (b"AWST", 480),
    (b"JST", 540),
    (b"KST", 540),
    (b"ACST", 570),
    (b"AEST", 600),
    (b"EAST", 600),
    (b"AEDT", 660),
    (b"NZST", 720),
    (b"NZT", 720),
    (b"NZDT", 780),
    (b"NST", -210),
    (b"NDT", -150),
    (b"AST", -240),
    (b"ADT", -180),
    (b"EST", -300),
    (b"EDT", -240),
    (b"CST", -360),
    (b"CDT", -300),
    (b"MST", -420),
    (b"MDT", -360),
    (b"PST", -480),
    (b"PDT", -420),
    (b"YST", -540),
    (b"YDT", -480),
    (b"AKST", -540),
    (b"AKDT", -480),
    (b"HST", -600),
];

/// Seconds east of UTC of a zone's name; `None` if the name is not known. Military letters but Z count as unknown, for
/// RFC 822 had their signs wrong.
pub(super) fn named(name: &[u8]) -> Option<i64> {
    if name.eq_ignore_ascii_case(b"Z") {
        return Some(0);
    }
    NAMES.iter().find(|(text, _)| text.eq_ignore_ascii_case(name)).map(|(_, minutes)| minutes * 60)
}

/// Seconds east of UTC of the digits after a sign: `h`, `hh`, `hmm`, `hhmm` or `hh:mm`.
pub(super) fn offset(negative: bool, digits: &[u8]) -> Option<i64> {
    let value = |text: &[u8]| crate::decimal::parse_decimal(text).and_then(|n| i64::try_from(n).ok());
    let (hours, minutes) = match (digits.iter().position(|&b| b == b':'), digits.len()) {
        (Some(colon), 4..=5) => (value(digits.get(..colon)?)?, value(digits.get(colon + 1..)?)?),
        (None, 1..=2) => (value(digits)?, 0),
        (None, 3..=4) => {
            let number = value(digits)?;
            (number / 100, number % 100)
        }
        _ => return None,
    };
    let total = hours * MINUTES_PER_HOUR + minutes;
    let seconds = total * 60;
    (minutes < MINUTES_PER_HOUR && total <= OFFSET_MINUTES_MAX).then_some(if negative {
        -seconds
    } else {
        seconds
    })
}
