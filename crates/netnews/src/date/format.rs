//! Dates in the forms that newsreel writes.
//!
//! Always UTC. Years outside 0 to 9999 are clamped to that range. Called by inject (Date, Injection-Date) and
//! sessions (DATE). Sources: RFC 5322 section 3.3, RFC 3977 section 7.1.2.

use super::civil::{CivilDate, civil};

const SECONDS_PER_DAY: i64 = 86_400;
const YEAR_0_SECONDS: i64 = -62_167_219_200;
const YEAR_9999_END_SECONDS: i64 = 253_402_300_799;

struct UtcTime {
    days: i64,
    date: CivilDate,
    hour: u8,
    minute: u8,
    second: u8,
}

fn moment(secs: i64) -> UtcTime {
    let secs = secs.clamp(YEAR_0_SECONDS, YEAR_9999_END_SECONDS);
    let days = secs.div_euclid(SECONDS_PER_DAY);
    let of_day = secs.rem_euclid(SECONDS_PER_DAY);
    UtcTime {
        days,
        date: civil(days),
        hour: (of_day / 3600) as u8,
        minute: (of_day / 60 % 60) as u8,
        second: (of_day % 60) as u8,
    }
}

fn two(n: u8) -> [u8; 2] {
    [b'0' + n / 10 % 10, b'0' + n % 10]
}

fn four(year: i64) -> [u8; 4] {
    let [a, b] = two((year / 100 % 100) as u8);
    let [c, d] = two((year % 100) as u8);
    [a, b, c, d]
}

/// Appends `Fri, 21 Nov 2026 01:24:41 +0000`.
pub fn format_rfc5322(secs: i64, out: &mut Vec<u8>) {
    const WEEKDAYS: [&[u8; 5]; 7] = [b"Thu, ", b"Fri, ", b"Sat, ", b"Sun, ", b"Mon, ", b"Tue, ", b"Wed, "];
    const MONTHS: [&[u8; 5]; 12] = [
        b" Jan ", b" Feb ", b" Mar ", b" Apr ", b" May ", b" Jun ", b" Jul ", b" Aug ", b" Sep ", b" Oct ",
        b" Nov ", b" Dec ",
    ];
    let now = moment(secs);
    let weekday = WEEKDAYS.get(now.days.rem_euclid(7) as usize);
    let month = MONTHS.get(usize::from(now.date.month).wrapping_sub(1));
    out.extend_from_slice(weekday.map_or(&[], |text| text.as_slice()));
    crate::decimal::append_decimal(u64::from(now.date.day), out);
    out.extend_from_slice(month.map_or(&[], |text| text.as_slice()));
    out.extend_from_slice(&four(now.date.year));
    out.push(b' ');
    out.extend_from_slice(&two(now.hour));
    out.push(b':');
    out.extend_from_slice(&two(now.minute));
    out.push(b':');
    out.extend_from_slice(&two(now.second));
    out.extend_from_slice(b" +0000");
}

/// Returns the answer to DATE: `yyyymmddhhmmss`, UTC.
pub fn format_nntp(secs: i64) -> [u8; 14] {
    let now = moment(secs);
    let [y1, y2, y3, y4] = four(now.date.year);
    let [m1, m2] = two(now.date.month);
    let [d1, d2] = two(now.date.day);
    let [h1, h2] = two(now.hour);
    let [n1, n2] = two(now.minute);
    let [s1, s2] = two(now.second);
    [y1, y2, y3, y4, m1, m2, d1, d2, h1, h2, n1, n2, s1, s2]
}

/// Reads the date and time of NEWGROUPS and NEWNEWS: `yyyymmdd` or `yymmdd`, and `hhmmss`, UTC. A two-digit
/// year is in the century of `now`, unless that is later than the year of `now`: then in the century before
/// (RFC 3977 section 7.3.2).
pub fn parse_nntp(date: &[u8], time: &[u8], now: i64) -> Option<i64> {
    let pair = |text: &[u8], at: usize| match text.get(at..at + 2)? {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some((a - b'0') * 10 + (b - b'0')),
        _ => None,
    };
    if time.len() != 6 {
        return None;
    }
    let (year, rest) = match date.len() {
        8 => (i64::from(pair(date, 0)?) * 100 + i64::from(pair(date, 2)?), date.get(4..)?),
        6 => {
            let this = moment(now).date.year;
            let year = this - this % 100 + i64::from(pair(date, 0)?);
            (if year > this { year - 100 } else { year }, date.get(2..)?)
        }
        _ => return None,
    };
    let (month, day) = (pair(rest, 0)?, pair(rest, 2)?);
    let (hour, minute, second) = (pair(time, 0)?, pair(time, 2)?, pair(time, 4)?);
    let valid = (1..=12).contains(&month)
        && (1..=super::civil::month_days(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    valid.then(|| super::civil::days(CivilDate { year, month, day }) * SECONDS_PER_DAY + of_day)
}
