//! A range of hours of each day, as in `prefetch.hours`.

use std::fmt;
use std::str::FromStr;

/// A range of hours of each day: from `from` on, before `to`; over midnight if `to` is the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// 0 to 23.
    pub from: u8,
    /// 1 to 24.
    pub to: u8,
}

/// A text that is not a range of hours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` are not hours; write them as in \"1-6\" or \"22-7\"")]
pub struct HoursError(String);

impl FromStr for Hours {
    type Err = HoursError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || HoursError(text.to_owned());
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let hour = |text: &str| text.trim().parse::<u8>().map_err(|_| wrong());
        let (from, to) = (hour(from)?, hour(to)?);
        if from > 23 || !(1..=24).contains(&to) || from == to {
            return Err(wrong());
        }
        Ok(Self { from, to })
    }
}

impl Hours {
    /// Returns true if the range includes this time (Unix seconds).
    pub fn has(self, at: u64) -> bool {
        let hour = (at / 3600 % 24) as u8;
        if self.from < self.to {
            (self.from..self.to).contains(&hour)
        } else {
            hour >= self.from || hour < self.to
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_pass_midnight() {
        let has = |text: &str| -> Vec<u64> {
            let hours = text.parse::<Hours>().unwrap();
            assert_eq!(hours.to_string(), text);
            (0..24).filter(|hour| hours.has(86_400 * 9 + hour * 3600 + 59)).collect()
        };
        assert_eq!(has("1-4"), [1, 2, 3]);
        assert_eq!(has("22-2"), [0, 1, 22, 23]);
        assert_eq!(has("0-24").len(), 24);
        for bad in ["", "1", "1-25", "24-3", "5-5", "a-b", "1-0", "-1-3"] {
            assert!(bad.parse::<Hours>().is_err(), "{bad}");
        }
    }
}
