//! Aligned columns for people.

/// Which side a column's texts stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// The rows under their heads, each column as wide as its widest text, two spaces between; no line ends in a space.
pub(super) fn table(heads: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let texts = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        texts
            .chain(heads.get(column).map(|(head, _)| *head))
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |texts: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = texts
            .zip(heads.iter().zip(&widths))
            .map(|(text, ((_, side), width))| match side {
                Side::Left => format!("{text:<width$}"),
                Side::Right => format!("{text:>width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut heads.iter().map(|(head, _)| *head))];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// A number with its thousands apart: `1,234,567`.
pub(super) fn grouped(n: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = vec![
            vec!["text0".into(), "7".into(), "x".into()],
            vec!["b".into(), "1,000".into(), String::new()],
        ];
        let shown = table(&[("buffer", Side::Left), ("size", Side::Right), ("", Side::Left)], &rows);
        assert_eq!(shown, "buffer   size\ntext0       7  x\nb       1,000");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
