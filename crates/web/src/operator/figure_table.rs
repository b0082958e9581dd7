//! Tables of figures, with the columns that the figures' own table has for the page.

use maud::{Markup, html};
use site_base::figures::{FigurePlace, ShownFigures};

/// A row of a table.
pub(super) struct FigureRow<'a, F> {
    /// Name of the object.
    pub head: Markup,
    pub figures: &'a F,
    /// Cells after those of the figures.
    pub further: Markup,
}

impl<'a, F: ShownFigures> FigureRow<'a, F> {
    /// Returns the row of an object with a name and no further cells.
    pub fn of(figures: &'a F) -> Self {
        Self { head: html! { (figures.row_name()) }, figures, further: html! {} }
    }
}

/// Renders a table with a row for each object; `further` are the titles of the last columns.
pub(super) fn figure_table<'a, F: ShownFigures>(
    head: &str,
    further: &[&str],
    rows: impl Iterator<Item = FigureRow<'a, F>>,
    now: u64,
) -> Markup {
    let columns = || F::columns(FigurePlace::Page);
    html! {
        div.card.table { table {
            thead { tr {
                th scope="col" { (head) }
                @for column in columns() { th.n[column.is_number()] scope="col" { (column.head) } }
                @for title in further { th scope="col" { (title) } }
            } }
            tbody { @for row in rows { tr {
                th scope="row" { (row.head) }
                @for column in columns() {
                    td.n[column.is_number()] data-label=(column.head) { (column.text(row.figures, now)) }
                }
                (row.further)
            } } }
        } }
    }
}

/// Renders a section with a table of objects by name; nothing if there are none.
pub(super) fn figure_section<F: ShownFigures>(
    title: &str,
    id: &str,
    head: &str,
    objects: &[F],
    now: u64,
) -> Markup {
    html! {
        @if !objects.is_empty() {
            section aria-labelledby=(id) {
                h2 id=(id) { (title) }
                (figure_table(head, &[], objects.iter().map(FigureRow::of), now))
            }
        }
    }
}

/// Renders all figures of an object as a list.
pub(super) fn figure_list<F: ShownFigures>(of: &F, now: u64) -> Markup {
    html! {
        dl { @for (column, text) in of.details(now) {
            dt { (column.head) } dd.problem[column.is_trouble()] { (text) }
        } }
    }
}
