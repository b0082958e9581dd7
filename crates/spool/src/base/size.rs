//! Sizes as text.

/// Units of size, from the largest.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Formats a size in its largest unit, such as `1.50 GiB`.
pub(crate) fn size_text(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_the_largest_unit() {
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536), "1.50 KiB");
        assert_eq!(size_text(5 << 40), "5.00 TiB");
    }
}
