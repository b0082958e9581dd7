//! Sizes and times as people write them: `"2 GiB"`, `"1 MB"`, `"100ms"`, `"14 days"`. Both parsed and
//! printed.
//!
//! `KiB` and its like are powers of 1024, `kB` and its like powers of 1000, `K`, `M`, `G` alone powers of
//! 1024. Whole numbers only. Used for the configuration, command-line options and the tables of `newsreel
//! status`.

use std::time::Duration;

pub use disk::about_size;
use spool::Durability;

const HUNDRED_YEARS_SECS: u64 = 100 * 365 * 86_400;

/// Seconds of a day.
pub const DAY_SECS: u64 = 86_400;

/// Reason why a text is not the size, the time or the durability that was expected; each holds what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a unit, where a size is expected.
    #[error("`{0}` is not a size")]
    NotASize(String),
    /// Not a unit of size.
    #[error("`{0}` is not a unit of size; use KiB, MiB, GiB, TiB (or kB, MB, GB, TB)")]
    UnknownSizeUnit(String),
    /// A size of 2^62 bytes or more.
    #[error("`{0}` is too large")]
    SizeTooLarge(String),
    /// Not a number with a unit, where a time is expected.
    #[error("`{0}` is not a time")]
    NotATime(String),
    /// A time without a unit.
    #[error("`{0}` lacks a unit; use ms, s, min, h or days")]
    NoTimeUnit(String),
    /// Not a unit of time.
    #[error("`{0}` is not a unit of time; use ms, s, min, h or days")]
    UnknownTimeUnit(String),
    /// A time of 2^53 milliseconds or more.
    #[error("`{0}` is too long")]
    TimeTooLong(String),
    /// None of the three durabilities.
    #[error("`{0}` is not a durability")]
    NotADurability(String),
    /// The durability `interval` with a time of 0.
    #[error("an interval must be longer than 0; \"always\" loses nothing")]
    EmptyInterval,
}

fn size_unit(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        "t" | "tib" => 1 << 40,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

fn time_unit_ms(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" | "sec" => 1_000,
        "min" => 60_000,
        "h" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return None,
    })
}

/// Parses a size in bytes.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = split(text).ok_or_else(|| QuantityError::NotASize(text.to_owned()))?;
    let factor = size_unit(unit).ok_or_else(|| QuantityError::UnknownSizeUnit(unit.to_owned()))?;
    number
        .checked_mul(factor)
        .filter(|bytes| *bytes < 1 << 62)
        .ok_or_else(|| QuantityError::SizeTooLarge(text.to_owned()))
}

/// Parses a time.
pub fn parse_span(text: &str) -> Result<Duration, QuantityError> {
    let (number, unit) = split(text).ok_or_else(|| QuantityError::NotATime(text.to_owned()))?;
    if unit.is_empty() {
        return Err(QuantityError::NoTimeUnit(text.to_owned()));
    }
    let factor_ms = time_unit_ms(unit).ok_or_else(|| QuantityError::UnknownTimeUnit(unit.to_owned()))?;
    number
        .checked_mul(factor_ms)
        .filter(|ms| *ms < 1 << 53)
        .map(Duration::from_millis)
        .ok_or_else(|| QuantityError::TimeTooLong(text.to_owned()))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim()))
}

/// Returns exactly this size, in the largest binary unit that divides it: `"4 MiB"`, `"1000000"`.
pub fn size_text(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Returns exactly this time, to the millisecond, in the largest unit that divides it: `"10 min"`, `"100ms"`.
pub fn span_text(span: Duration) -> String {
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    for (unit, factor_ms) in [(" days", 86_400_000), (" h", 3_600_000), (" min", 60_000), (" s", 1_000)] {
        if ms != 0 && ms % factor_ms == 0 {
            return format!("{}{unit}", ms / factor_ms);
        }
    }
    format!("{ms}ms")
}

/// Parses `process`, `interval(TIME)` or `always`.
pub fn parse_durability(text: &str) -> Result<Durability, QuantityError> {
    let time = match text {
        "process" => return Ok(Durability::Process),
        "always" => return Ok(Durability::Always),
        _ => text.strip_prefix("interval(").and_then(|rest| rest.strip_suffix(')')),
    };
    match parse_span(time.ok_or_else(|| QuantityError::NotADurability(text.to_owned()))?)? {
        Duration::ZERO => Err(QuantityError::EmptyInterval),
        span => Ok(Durability::Interval(span)),
    }
}

/// Returns a durability as written in the configuration file.
pub fn durability_text(durability: Durability) -> String {
    match durability {
        Durability::Process => "process".into(),
        Durability::Interval(span) => format!("interval({})", span_text(span)),
        Durability::Always => "always".into(),
    }
}

/// Returns the day of a time in Unix seconds, UTC: `2026-11-23`.
pub fn day_text(secs: i64) -> String {
    minute_text(secs).split(' ').next().unwrap_or_default().to_owned()
}

/// Returns a time in Unix seconds to the minute, UTC: `2026-11-23 07:05`.
pub fn minute_text(secs: i64) -> String {
    let digits = netnews::date::format_nntp(secs);
    let [y1, y2, y3, y4, m1, m2, d1, d2, h1, h2, n1, n2, ..] = digits.map(char::from);
    format!("{y1}{y2}{y3}{y4}-{m1}{m2}-{d1}{d2} {h1}{h2}:{n1}{n2}")
}

/// Returns a number with thousands separators: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a count with its noun: `1 group`, `1,234 groups`.
pub fn counted(n: u64, one: &str) -> String {
    let (stem, end) = match one.strip_suffix('y') {
        _ if n == 1 => (one, ""),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => (stem, "ies"),
        _ if one.ends_with("ch") => (one, "es"),
        _ => (one, "s"),
    };
    format!("{} {stem}{end}", grouped(n))
}

/// Returns this time rounded to its two largest units: `3 d 4 h`, `12 min 5 s`; from 100 days on in days,
/// `1,234 d`; from a hundred years on `over 100 years`, as no one plans with such figures.
pub fn about_span(secs: u64) -> String {
    match secs {
        HUNDRED_YEARS_SECS.. => return "over 100 years".into(),
        8_640_000.. => return format!("{} d", grouped((secs + 43_200) / 86_400)),
        _ => {}
    }
    let smallest = match secs {
        86_400.. => 3_600,
        3_600.. => 60,
        _ => 1,
    };
    let secs = (secs + smallest / 2) / smallest * smallest;
    let parts = [(secs / 86_400, "d"), (secs / 3_600 % 24, "h"), (secs / 60 % 60, "min"), (secs % 60, "s")];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let shown: Vec<String> = parts
        .iter()
        .skip(first)
        .take(2)
        .filter(|(n, unit)| *n > 0 || first == 3 && *unit == "s")
        .map(|(n, unit)| format!("{n} {unit}"))
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("512", 512),
            ("0", 0),
            ("1 KiB", 1024),
            ("64k", 65_536),
            ("1 MB", 1_000_000),
            ("4 MiB", 4 << 20),
            ("4mib", 4 << 20),
            ("2 GiB", 2 << 30),
            ("3 TB", 3_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        assert_eq!(parse_size("lots").unwrap_err().to_string(), "`lots` is not a size");
        assert_eq!(parse_size("-1").unwrap_err().to_string(), "`-1` is not a size");
        assert_eq!(
            parse_size("1.5 GiB").unwrap_err().to_string(),
            "`.5 GiB` is not a unit of size; use KiB, MiB, GiB, TiB (or kB, MB, GB, TB)"
        );
        assert_eq!(parse_size("9999999999 TiB").unwrap_err().to_string(), "`9999999999 TiB` is too large");
    }

    #[test]
    fn times_are_read() {
        for (text, ms) in [
            ("100ms", 100),
            ("90 s", 90_000),
            ("10 min", 600_000),
            ("2h", 7_200_000),
            ("14 days", 1_209_600_000),
        ] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_span("90").unwrap_err().to_string(), "`90` lacks a unit; use ms, s, min, h or days");
        assert_eq!(
            parse_span("5 fortnights").unwrap_err().to_string(),
            "`fortnights` is not a unit of time; use ms, s, min, h or days"
        );
    }

    #[test]
    fn printed_values_parse_back_to_the_same() {
        for bytes in [0, 1, 512, 1000, 1 << 20, 3 << 30, (1 << 40) + 1] {
            assert_eq!(parse_size(&size_text(bytes)), Ok(bytes));
        }
        for ms in [0, 1, 1_500, 60_000, 5_400_000, 86_400_000] {
            assert_eq!(parse_span(&span_text(Duration::from_millis(ms))), Ok(Duration::from_millis(ms)));
        }
        assert_eq!(size_text(4 << 20), "4 MiB");
        assert_eq!(span_text(Duration::from_secs(5_400)), "90 min");
    }

    #[test]
    fn tables_show_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1 << 20, "1.00 MiB"),
            (1_567_000_000, "1.46 GiB"),
            (150 << 30, "150 GiB"),
        ] {
            assert_eq!(about_size(bytes), text);
        }
        for (secs, text) in [
            (0, "0 s"),
            (65, "1 min 5 s"),
            (3_599, "59 min 59 s"),
            (3_600, "1 h"),
            (86_399, "1 d"),
            (86_400 * 3 + 4 * 3_600 + 59, "3 d 4 h"),
            (8_639_998, "100 d"),
            (86_400 * 12_285, "12,285 d"),
            (u64::MAX, "over 100 years"),
        ] {
            assert_eq!(about_span(secs), text);
        }
        assert_eq!(
            [0, 1, 1_234].map(|n| counted(n, "group")),
            ["0 groups", "1 group", "1,234 groups"].map(str::to_owned)
        );
    }

    #[test]
    fn days_and_minutes_are_in_utc() {
        for (secs, day, minute) in [
            (-1, "1969-12-31", "1969-12-31 23:59"),
            (0, "1970-01-01", "1970-01-01 00:00"),
            (1_728_047_105, "2024-10-04", "2024-10-04 13:05"),
        ] {
            assert_eq!((day_text(secs).as_str(), minute_text(secs).as_str()), (day, minute));
        }
    }

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn durability_reads_back_as_it_was_written() {
        for durability in
            [Durability::Process, Durability::Always, Durability::Interval(Duration::from_millis(100))]
        {
            assert_eq!(parse_durability(&durability_text(durability)), Ok(durability));
        }
        assert_eq!(parse_durability("sometimes").unwrap_err().to_string(), "`sometimes` is not a durability");
        assert_eq!(
            parse_durability("interval(5)").unwrap_err().to_string(),
            "`5` lacks a unit; use ms, s, min, h or days"
        );
        assert!(parse_durability("interval(0s)").is_err());
    }
}
