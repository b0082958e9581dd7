//! Time zones by name and by offset.
//!
//! An unknown name counts as UTC, as RFC 5322 section 4.3 says ("-0000"): a Date is for sorting and for age
//! limits, and a few hours matter less there than having no date. Called by `parse`. Sources: RFC 5322
//! section 4.3, RFC 822, INN's and tzdata's abbreviations where they have one usual meaning.

const MINUTES_PER_HOUR: i64 = 60;

/// The largest offset from UTC that is accepted: 24 hours.
const OFFSET_MINUTES_MAX: i64 = 24 * MINUTES_PER_HOUR;

/// Longest name in the table, in octets.
const NAME_BYTES_MAX: usize = 8;

/// Packs a name into one number, ignoring case, so that finding it is a series of comparisons; 0 if it is too
/// long.
const fn packed(name: &[u8]) -> u64 {
    if name.len() > NAME_BYTES_MAX {
        return 0;
    }
    let (mut number, mut rest) = (0, name);
    while let [first, others @ ..] = rest {
        number = number << 8 | first.to_ascii_uppercase() as u64;
        rest = others;
    }
    number
}

/// Name and offset in minutes east of UTC.
const NAMES: &[(u64, i64)] = &[
    (packed(b"Z"), 0),
    (packed(b"UT"), 0),
    (packed(b"UTC"), 0),
    (packed(b"GMT"), 0),
    (packed(b"WET"), 0),
    (packed(b"BST"), 60),
    (packed(b"WEST"), 60),
    (packed(b"MET"), 60),
    (packed(b"MEZ"), 60),
    (packed(b"CET"), 60),
    (packed(b"SWT"), 60),
    (packed(b"MEST"), 120),
    (packed(b"MESZ"), 120),
    (packed(b"METDST"), 120),
    (packed(b"CEST"), 120),
    (packed(b"EET"), 120),
    (packed(b"SAST"), 120),
    (packed(b"EEST"), 180),
    (packed(b"MSK"), 180),
    (packed(b"MSD"), 240),
    (packed(b"IST"), 330),
    (packed(b"HKT"), 480),
    (packed(b"SGT"), 480),
    (packed(b"WST"), 480),
    (packed(b"AWST"), 480),
    (packed(b"JST"), 540),
    (packed(b"KST"), 540),
    (packed(b"ACST"), 570),
    (packed(b"AEST"), 600),
    (packed(b"EAST"), 600),
    (packed(b"AEDT"), 660),
    (packed(b"NZST"), 720),
    (packed(b"NZT"), 720),
    (packed(b"NZDT"), 780),
    (packed(b"NST"), -210),
    (packed(b"NDT"), -150),
    (packed(b"AST"), -240),
    (packed(b"ADT"), -180),
    (packed(b"EST"), -300),
    (packed(b"EDT"), -240),
    (packed(b"CST"), -360),
    (packed(b"CDT"), -300),
    (packed(b"MST"), -420),
    (packed(b"MDT"), -360),
    (packed(b"PST"), -480),
    (packed(b"PDT"), -420),
    (packed(b"YST"), -540),
    (packed(b"YDT"), -480),
    (packed(b"AKST"), -540),
    (packed(b"AKDT"), -480),
    (packed(b"HST"), -600),
];

/// Returns the seconds east of UTC of a zone's name; `None` if the name is not known. Military letters other
/// than Z count as unknown, since RFC 822 had their signs wrong.
pub(super) fn named(name: &[u8]) -> Option<i64> {
    let name = packed(name);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, minutes)| minutes * 60)
}

/// Returns the seconds east of UTC of the digits after a sign: `h`, `hh`, `hmm`, `hhmm` or `hh:mm`.
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
