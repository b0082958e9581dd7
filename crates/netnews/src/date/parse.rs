//! Conversion of tokens to seconds.
//!
//! The tokens are accepted in any order: a month's name, a number with four digits for the year, and so on. A
//! contradiction, or an impossible value, makes the whole value unparsable; an unknown word is a time zone
//! after the time and a weekday before it. Called by `date::parse`. Source: RFC 5322 sections 3.3 and 4.3,
//! and practice on Usenet.

use super::civil::{CivilDate, days, month_days};
use super::tokens::{DateToken, DateTokens};
use super::zone;

/// The longest value that is read.
const DATE_BYTES_MAX: usize = 256;

#[derive(Default)]
struct DateParts {
    year: Option<i64>,
    month: Option<u8>,
    day: Option<u8>,
    time: Option<(u8, u8, u8)>,
    zone: Option<i64>,
    /// Numbers that are not part of a time, in order, each with its number of digits.
    numbers: [Option<(u32, u8)>; 3],
    /// Separator between them, unless it is a space.
    joint: Option<u8>,
}

pub(super) fn seconds(value: &[u8]) -> Option<i64> {
    standard(value).or_else(|| any_form(value))
}

/// Reads a value in the current form of RFC 5322, as nearly all have; the weekday is optional.
fn standard(value: &[u8]) -> Option<i64> {
    let value = match value {
        [a, b, c, b',', b' ', rest @ ..] => WEEKDAYS.contains(&three([*a, *b, *c])).then_some(rest)?,
        _ => value,
    };
    let (day, rest) = match value {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', b' ', rest @ ..] => (two(*tens, *ones)?, rest),
        [ones @ b'0'..=b'9', b' ', rest @ ..] => (ones - b'0', rest),
        _ => return None,
    };
    let [m1, m2, m3, b' ', y1, y2, y3, y4, b' ', h1, h2, b':', n1, n2, b':', s1, s2, b' ', zone @ ..] = rest
    else {
        return None;
    };
    let name = three([*m1, *m2, *m3]);
    let month = MONTHS.iter().position(|month| *month == name)? as u8 + 1;
    let year = i64::from(two(*y1, *y2)?) * 100 + i64::from(two(*y3, *y4)?);
    let time = Some((two(*h1, *h2)?, two(*n1, *n2)?, two(*s1, *s2)?));
    let zone = match zone {
        [b'+', digits @ ..] if digits.len() == 4 => zone::offset(false, digits)?,
        [b'-', digits @ ..] if digits.len() == 4 => zone::offset(true, digits)?,
        b"GMT" => 0,
        _ => return None,
    };
    let (year, month, day, zone) = (Some(year), Some(month), Some(day), Some(zone));
    DateParts { year, month, day, time, zone, ..DateParts::default() }.seconds()
}

fn two(tens: u8, ones: u8) -> Option<u8> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| (tens - b'0') * 10 + (ones - b'0'))
}

fn any_form(value: &[u8]) -> Option<i64> {
    if value.len() > DATE_BYTES_MAX {
        return None;
    }
    let mut parts = DateParts::default();
    for token in DateTokens::new(value) {
        match token? {
            DateToken::Word(word) => parts.word(word)?,
            DateToken::Number { value, digits } => parts.number(value, digits)?,
            DateToken::Time { hour, minute, second } => set(&mut parts.time, (hour, minute, second))?,
            DateToken::Signed { negative, digits } => parts.signed(negative, digits)?,
            DateToken::Joint(joint) => parts.joint = Some(joint),
        }
    }
    parts.settle()?;
    parts.seconds()
}

fn set<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.is_none().then(|| *slot = Some(value))
}

pub(super) const MONTHS: [u32; 12] =
    letters([b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"]);

pub(super) const WEEKDAYS: [u32; 7] = letters([b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun"]);

/// Packs three letters into one number, ignoring case.
pub(super) const fn three([a, b, c]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, a.to_ascii_lowercase(), b.to_ascii_lowercase(), c.to_ascii_lowercase()])
}

const fn letters<const N: usize>(names: [&[u8; 3]; N]) -> [u32; N] {
    let mut numbers = [0; N];
    let mut i = 0;
    while i < N {
        numbers[i] = three(*names[i]);
        i += 1;
    }
    numbers
}

/// Returns the index of the name in `names` that the word begins with, ignoring case.
fn named(names: &[u32], word: &[u8]) -> Option<usize> {
    let first = three(*word.first_chunk()?);
    names.iter().position(|name| *name == first)
}

impl DateParts {
    fn word(&mut self, word: &[u8]) -> Option<()> {
        // Nearly every date has a month and a weekday, and no zone has such a name.
        if word.len() == 3
            && let Some(known) = self.month_or_weekday(word)
        {
            return known;
        }
        if let Some(seconds) = zone::named(word) {
            // "GMT+2" and "EST5EDT": the first name counts, an offset after it is added by `signed`.
            self.zone = self.zone.or(Some(seconds));
            return Some(());
        }
        if let Some(known) = self.month_or_weekday(word) {
            return known;
        }
        match (word, self.time) {
            (b"T" | b"t", None) => Some(()),
            (b"AM" | b"am" | b"PM" | b"pm", Some((hour @ 1..=12, minute, second))) => {
                let noon = if word.eq_ignore_ascii_case(b"PM") { 12 } else { 0 };
                self.time = Some((hour % 12 + noon, minute, second));
                Some(())
            }
            (b"DST" | b"dst", Some(_)) => {
                self.zone = self.zone.map(|seconds| seconds + 3600);
                Some(())
            }
            (b"st" | b"nd" | b"rd" | b"th", None) if self.numbers[0].is_some() => Some(()),
            (_, Some(_)) => {
                self.zone = self.zone.or(Some(0));
                Some(())
            }
            // A weekday in another language, at the start.
            (_, None) => (self.month.is_none() && self.numbers[0].is_none()).then_some(()),
        }
    }

    /// Returns `None` if the word is neither; otherwise whether it may stand here.
    fn month_or_weekday(&mut self, word: &[u8]) -> Option<Option<()>> {
        if let Some(month) = named(&MONTHS, word) {
            return Some(set(&mut self.month, month as u8 + 1));
        }
        named(&WEEKDAYS, word).map(|_| Some(()))
    }

    fn number(&mut self, value: u32, digits: u8) -> Option<()> {
        // After a time only the year of ctime's form can follow, or the 5 of EST5EDT.
        if self.time.is_some() && self.zone.is_some() && digits <= 1 {
            return Some(());
        }
        let slot = self.numbers.iter_mut().find(|slot| slot.is_none())?;
        *slot = Some((value, digits));
        Some(())
    }

    fn signed(&mut self, negative: bool, digits: &[u8]) -> Option<()> {
        let seconds = zone::offset(negative, digits)?;
        // A number after UTC or GMT is an offset from it; after another zone's name it only repeats the
        // offset.
        if self.zone.is_none_or(|zone| zone == 0) {
            self.zone = Some(seconds);
        }
        Some(())
    }

    /// Decides which of the numbers are the year, the month and the day.
    fn settle(&mut self) -> Option<()> {
        let [first, second, third] = self.numbers;
        let (day, month, year) = match (self.month, first?, second, third) {
            // 16 Apr 1993, Apr 16 1993, 16-Apr-93; 1993 Apr 16
            (Some(month), (a, digits), Some(b), None) if digits < 3 => ((a, digits), month, b),
            (Some(month), a, Some(b), None) => (b, month, a),
            // 1993-04-16, 1993/04/16
            (None, a @ (_, 4), Some((month, _)), Some(day)) => (day, u8::try_from(month).ok()?, a),
            // 16.4.1993
            (None, day, Some((month, _)), Some(year)) if self.joint == Some(b'.') => {
                (day, u8::try_from(month).ok()?, year)
            }
            // 4/16/93, as written in the United States
            (None, (month, _), Some(day), Some(year)) if self.joint == Some(b'/') => {
                (day, u8::try_from(month).ok()?, year)
            }
            _ => return None,
        };
        self.day = Some(u8::try_from(day.0).ok().filter(|_| day.1 <= 2)?);
        self.month = Some(month);
        self.year = Some(full_year(year.0, year.1)?);
        Some(())
    }

    fn seconds(&self) -> Option<i64> {
        let (year, month, day) = (self.year?, self.month?, self.day?);
        if !(1..=12).contains(&month) || day == 0 || day > month_days(year, month) {
            return None;
        }
        let (hour, minute, second) = self.time.unwrap_or((0, 0, 0));
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Some(days(CivilDate { year, month, day }) * 86_400 + of_day - self.zone.unwrap_or(0))
    }
}

/// Returns the year by RFC 5322 section 4.3: two digits are 2000 to 2049 or 1950 to 1999, three are counted
/// from 1900.
fn full_year(value: u32, digits: u8) -> Option<i64> {
    let value = i64::from(value);
    match digits {
        1 | 2 if value < 50 => Some(2000 + value),
        2 | 3 => Some(1900 + value),
        4 => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_standard_form_is_read_without_its_weekday_too() {
        let noon = Some(734_961_600);
        for value in
            ["Fri, 16 Apr 1993 12:00:00 +0000", "16 Apr 1993 14:00:00 +0200", "Fri, 16 Apr 1993 12:00:00 GMT"]
        {
            assert_eq!(standard(value.as_bytes()), noon, "{value}");
        }
        for value in
            ["Fri, 16 Apr 93 12:00:00 GMT", "Fri, 16 Apr 1993 12:00 GMT", "Fri, 16 Apr 1993 12:00:00 EST", ""]
        {
            assert_eq!(standard(value.as_bytes()), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn standard_form_agrees_with_any_form(
            weekday in prop_oneof![Just(""), Just("Fri, "), Just("mon, "), Just("Xyz, "), Just("Fri,  ")],
            day in prop_oneof![9 => 0..33u8, 1 => Just(99)], two_digits in any::<bool>(),
            month in prop_oneof![9 => Just("Apr"), 1 => Just("FEB"), 1 => Just("sep"), 1 => Just("Foo")],
            year in 0..10_000u16, hour in 0..26u8, minute in 0..62u8, second in 0..62u8,
            zone in prop_oneof![
                4 => "[+-][0-9]{4}", 2 => Just("GMT".to_owned()), 1 => "[+-][0-9]{0,5}", 1 => "[A-Z+ ]{0,4}",
            ],
        ) {
            let day = if two_digits { format!("{day:02}") } else { day.to_string() };
            let value = format!("{weekday}{day} {month} {year:04} {hour:02}:{minute:02}:{second:02} {zone}");
            if let Some(seconds) = standard(value.as_bytes()) {
                prop_assert_eq!(any_form(value.as_bytes()), Some(seconds), "{}", value);
            }
        }
    }

    #[test]
    fn no_zone_has_the_name_of_a_month_or_weekday() {
        for name in MONTHS.iter().chain(&WEEKDAYS) {
            assert_eq!(zone::named(&name.to_be_bytes()[1..]), None);
        }
    }
}
