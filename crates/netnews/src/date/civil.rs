//! The proleptic Gregorian calendar, as days since 1 January 1970.
//!
//! The two conversions are inverse to each other for every day of the years -9999 to 9999. Called by the
//! other files of `date`. Source: Howard Hinnant's "chrono-compatible low-level date algorithms".

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CivilDate {
    pub(super) year: i64,
    pub(super) month: u8,
    pub(super) day: u8,
}

/// Returns the days since 1 January 1970.
pub(super) fn days(date: CivilDate) -> i64 {
    let month = i64::from(date.month);
    let year = if month <= 2 { date.year - 1 } else { date.year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(date.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the day that is `days` after 1 January 1970.
pub(super) fn civil(days: i64) -> CivilDate {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = ((month_from_march + 2) % 12 + 1) as u8;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    CivilDate { year, month, day }
}

/// Returns the number of days of a month.
pub(super) fn month_days(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_many_years() {
        let mut day_number = days(CivilDate { year: 1600, month: 1, day: 1 });
        for year in 1600..2500 {
            for month in 1..=12 {
                for day in 1..=month_days(year, month) {
                    let date = CivilDate { year, month, day };
                    assert_eq!(days(date), day_number);
                    assert_eq!(civil(day_number), date);
                    day_number += 1;
                }
            }
        }
        assert_eq!(days(CivilDate { year: 1970, month: 1, day: 1 }), 0);
        assert_eq!(days(CivilDate { year: 2000, month: 3, day: 1 }), 11_017);
    }
}
