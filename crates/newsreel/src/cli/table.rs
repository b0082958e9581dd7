//! Aligned columns for people.

use site_base::figures::{FigurePlace, ShownFigures};

/// Rows below the heads of their columns, each column as wide as its widest text, separated by two spaces.
pub(super) struct Columns<'a, T> {
    rows: &'a [T],
    /// The heads and then the rows, with the columns added so far.
    lines: Vec<String>,
}

impl<'a, T> Columns<'a, T> {
    /// Creates a table without columns.
    pub(super) fn of(rows: &'a [T]) -> Self {
        Self { rows, lines: vec![String::new(); rows.len() + 1] }
    }

    /// Adds a column of texts, aligned left.
    pub(super) fn left(self, head: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(head, cell, |text, width| format!("{text:<width$}  "))
    }

    /// Adds a column of numbers, aligned right.
    pub(super) fn right(self, head: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(head, cell, |text, width| format!("{text:>width$}  "))
    }

    /// Adds the columns of figures that are shown in a place; rows without figures have empty cells.
    pub(super) fn figures<F: ShownFigures>(
        self,
        place: FigurePlace,
        now: u64,
        of: impl Fn(&T) -> Option<&F>,
    ) -> Self {
        F::columns(place).fold(self, |table, column| {
            let text = |row: &T| of(row).map_or_else(String::new, |figures| column.text(figures, now));
            if column.is_number() { table.right(column.head, text) } else { table.left(column.head, text) }
        })
    }

    fn column(
        mut self,
        head: &str,
        cell: impl Fn(&T) -> String,
        padded: impl Fn(&str, usize) -> String,
    ) -> Self {
        let cells: Vec<String> = std::iter::once(head.to_owned()).chain(self.rows.iter().map(cell)).collect();
        let width = cells.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        self.lines.iter_mut().zip(cells).for_each(|(line, text)| line.push_str(&padded(&text, width)));
        self
    }

    /// Returns all lines; none ends in a space.
    pub(super) fn text(self) -> String {
        self.lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
    }

    /// Like [`text`](Self::text), but empty if there are no rows.
    pub(super) fn text_if_any(self) -> String {
        self.text_or("")
    }

    /// Like [`text`](Self::text), but `none` if there are no rows.
    pub(super) fn text_or(self, none: &str) -> String {
        if self.rows.is_empty() { none.to_owned() } else { self.text() }
    }
}

/// Returns the table of `newsreel status` about some objects, which begins with their names; empty if there
/// are none.
pub(super) fn status_table<F: ShownFigures>(head: &str, rows: &[F], now: u64) -> String {
    Columns::of(rows)
        .left(head, |row| row.row_name().to_owned())
        .figures(FigurePlace::Status, now, |row| Some(row))
        .text_if_any()
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_base::units::grouped;

    #[test]
    fn columns_are_aligned() {
        let rows = [("text0", 7, "x"), ("b", 1_000, "")];
        let columns = Columns::of(&rows).left("buffer", |row| row.0.to_owned());
        let columns = columns.right("size", |row| grouped(row.1)).left("", |row| row.2.to_owned());
        let shown = columns.text();
        assert_eq!(shown, "buffer   size\ntext0       7  x\nb       1,000");
    }
}
