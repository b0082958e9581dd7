//! Sizes as text, for messages.

/// Returns this size in three digits: `1.46 GiB`, `512 B`.
pub fn about_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 999.5 || unit == "TiB" {
            let decimals = match value {
                _ if unit == "B" => 0,
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    unreachable!("the last unit always answers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_the_unit_that_leaves_them_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "0.98 KiB"),
            (1_536, "1.50 KiB"),
            (20 << 20, "20.0 MiB"),
            (150 << 30, "150 GiB"),
            (5 << 40, "5.00 TiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(about_size(bytes), text);
        }
    }
}
