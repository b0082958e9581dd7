//! Figures of a server: structs whose fields say what they mean, how they count, and what they are called.
//!
//! [`figures!`](crate::figures!) declares such a struct, and each field is one row: its comment is the help,
//! a word before its name says of which type it is, and after `=>` stand the columns in which people see it.
//! The JSON of `newsreel status`, the metrics and the page `docs/figures.md` are made from these rows, and
//! from the columns the tables of `newsreel status`, of `newsreel top` and of the operator's page. Units are
//! in the names (`sent_bytes`, `lag_secs`).

use crate::units::{about_size, about_span, grouped};

/// A struct declared by [`figures!`](crate::figures!), alone, optional or in a list.
pub trait FigureTable {
    /// The rows, in the order of the fields.
    const FIGURES: &'static [Figure];
}

impl<T: FigureTable> FigureTable for Option<T> {
    const FIGURES: &'static [Figure] = T::FIGURES;
}

impl<T: FigureTable> FigureTable for Vec<T> {
    const FIGURES: &'static [Figure] = T::FIGURES;
}

/// A row: a field of a struct of figures.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Name of the field, also in JSON.
    pub name: &'static str,
    /// Type.
    pub of: FigureType,
    /// The field's comment, unchanged.
    pub comment: &'static str,
}

/// The type of a figure.
#[derive(Debug, Clone, Copy)]
pub enum FigureType {
    /// Grows from 0 since the start of the server.
    Counter,
    /// A number or a boolean.
    Gauge,
    /// A text that seldom changes: a label of the object's information.
    Text,
    /// Name of an element of a list, which distinguishes it from the others.
    Name,
    /// A description of a problem, or nothing. The metric is whether there is one; contains its help.
    Trouble(&'static str),
    /// No metric: a text with unlimited values, or a list of texts.
    Hidden,
    /// A struct of figures, which may be absent.
    Part(&'static [Figure]),
    /// A list of structs of figures. Contains the label of a metric that names the element.
    List(&'static str, &'static [Figure]),
}

/// A place where a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigurePlace {
    /// The table of `newsreel status` about such objects, or the only one.
    Status,
    /// The table of `newsreel status` about what has been sent.
    Sent,
    /// The table of `newsreel status` about odd answers.
    Odd,
    /// The table of `newsreel top`.
    Top,
    /// The table of the operator's page.
    Page,
    /// The line of `newsreel status` that begins with this word.
    Line(&'static str),
}

/// A figure as people see it: a column of a table, or a part of a line.
#[derive(Debug)]
pub struct FigureColumn<T> {
    /// Head of the column; in a line, the words after the figure.
    pub head: &'static str,
    /// Content.
    pub cell: FigureCell<T>,
    /// Where it is shown.
    pub places: &'static [FigurePlace],
}

/// The content of a column, from an object and the time in Unix seconds.
#[derive(Debug)]
pub enum FigureCell<T> {
    /// Words, aligned left.
    Words(fn(&T, u64) -> String),
    /// Words about a problem.
    Trouble(fn(&T, u64) -> String),
    /// A number with its unit, aligned right.
    Number(fn(&T, u64) -> String),
    /// A counter whose growth per second is shown.
    Growth(fn(&T) -> u64),
}

/// A struct declared by [`figures!`](crate::figures!).
pub trait ShownFigures: Sized + 'static {
    /// The columns, in the order of the fields.
    const COLUMNS: &'static [FigureColumn<Self>];

    /// Returns the name of an object in a list; empty if such objects have none.
    fn row_name(&self) -> &str;

    /// Returns the columns that are shown in a place.
    fn columns(place: FigurePlace) -> impl Iterator<Item = &'static FigureColumn<Self>> {
        Self::COLUMNS.iter().filter(move |column| column.places.contains(&place))
    }

    /// Returns the figures of a place, each with its words: `13 accepted, 14 rejected`.
    fn sentence(&self, place: FigurePlace, now: u64) -> String {
        let shown = Self::columns(place).map(|column| (column.head, column.text(self, now)));
        let shown = shown.filter(|(_, text)| !text.is_empty());
        let shown = shown.map(|(head, text)| format!("{text} {head}").trim_end().to_owned());
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Returns all columns of the tables of `newsreel status` that have content, with it.
    fn details(&self, now: u64) -> Vec<(&'static FigureColumn<Self>, String)> {
        let tables = [FigurePlace::Status, FigurePlace::Sent, FigurePlace::Odd];
        let columns = tables.into_iter().flat_map(Self::columns);
        columns.map(|column| (column, column.text(self, now))).filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Returns the lines that show figures, each with its first word; those without content are left out.
    fn lines(&self, now: u64) -> Vec<(&'static str, String)> {
        let mut words: Vec<&'static str> = Vec::new();
        for place in Self::COLUMNS.iter().flat_map(|column| column.places) {
            match place {
                FigurePlace::Line(word) if !words.contains(word) => words.push(word),
                _ => {}
            }
        }
        let line = |word| (word, self.sentence(FigurePlace::Line(word), now));
        words.into_iter().map(line).filter(|(_, text)| !text.is_empty()).collect()
    }
}

impl<T> FigureColumn<T> {
    /// Returns whether the content is a number.
    pub fn is_number(&self) -> bool {
        matches!(self.cell, FigureCell::Number(_) | FigureCell::Growth(_))
    }

    /// Returns whether the content is about a problem.
    pub fn is_trouble(&self) -> bool {
        matches!(self.cell, FigureCell::Trouble(_))
    }

    /// Returns the text for an object; that of a growth is empty, as it takes two objects.
    pub fn text(&self, of: &T, now: u64) -> String {
        match self.cell {
            FigureCell::Words(cell) | FigureCell::Trouble(cell) | FigureCell::Number(cell) => cell(of, now),
            FigureCell::Growth(_) => String::new(),
        }
    }
}

/// Returns a count; nothing if it is absent.
pub fn count(value: impl Into<Option<u64>>) -> String {
    value.into().map_or_else(String::new, grouped)
}

/// Returns a size; nothing if it is absent.
pub fn size(bytes: impl Into<Option<u64>>) -> String {
    bytes.into().map_or_else(String::new, about_size)
}

/// Returns a span of time; nothing if it is absent.
pub fn span(secs: impl Into<Option<u64>>) -> String {
    secs.into().map_or_else(String::new, about_span)
}

/// Returns the time since an arrival in Unix seconds, or `none`.
pub fn age(at: impl Into<Option<u64>>, now: u64) -> String {
    at.into().map_or_else(|| "none".to_owned(), |at| about_span(now.saturating_sub(at)))
}

impl Figure {
    /// Returns the meaning of the field, in one line, without a full stop.
    pub fn meaning(&self) -> String {
        self.comment.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
    }

    /// Returns the help of the metric.
    pub fn help(&self) -> String {
        if let FigureType::Trouble(help) = self.of { help.to_owned() } else { self.meaning() }
    }
}

/// Declares a struct of figures. Before the name of a field stands its type: `counter`, `gauge`, `text`,
/// `name`, `trouble("help of the metric")`, `hidden`, `part`, or `list("label")`; see [`FigureType`].
///
/// After the type of a field and `=>` stand the columns that show it, without commas between them, each as
/// `unit("head", places)`; see [`FigurePlace`]. The units: `count`, `some` (a count, nothing if it is 0),
/// `size`, `rate` (bytes per second), `span`, `delay` (a span, nothing if it is 0), `age` (of a time),
/// `growth` (of a counter per second), `text`,
/// `counted("noun", "words after it", places)` in a line; and `words("head" = function, places)`,
/// `trouble("head" = function, places)` and `number("head" = function, places)` for what is computed from the
/// object and the time. After a
/// part stands `part("word")` for a line with its figures of [`Status`](FigurePlace::Status).
///
/// [`FigureType`]: crate::figures::FigureType
/// [`FigurePlace`]: crate::figures::FigurePlace
#[macro_export]
macro_rules! figures {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde $serde:tt])?
                $of:ident $(($argument:literal))? $field:ident: $Type:ty
                    $(=> $($unit:ident($($shown:tt)+))+)?,
            )+
        }
    ) => {
        #[derive(Debug, Clone, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        $(#[$meta])*
        pub struct $Name {
            $(
                $(#[doc = $doc])+
                $(#[serde $serde])?
                pub $field: $Type,
            )+
        }

        impl $crate::figures::FigureTable for $Name {
            const FIGURES: &'static [$crate::figures::Figure] = &[
                $($crate::figures::Figure {
                    name: stringify!($field),
                    of: $crate::figure_type!($of $(($argument))?, $Type),
                    comment: concat!($($doc),+),
                },)+
            ];
        }

        impl $crate::figures::ShownFigures for $Name {
            const COLUMNS: &'static [$crate::figures::FigureColumn<Self>] =
                &[$($($($crate::figure_column!($field, $unit, $($shown)+),)+)?)+];

            fn row_name(&self) -> &str {
                let names = [$($crate::figure_name!(self, $of, $field)),+];
                names.into_iter().flatten().next().unwrap_or_default()
            }
        }
    };
}

/// The [`FigureColumn`](crate::figures::FigureColumn) that stands after a field in
/// [`figures!`](crate::figures!).
#[doc(hidden)]
#[macro_export]
macro_rules! figure_column {
    ($field:ident, words, $head:literal = $cell:expr, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Words($cell), $($place)+)
    };
    ($field:ident, trouble, $head:literal = $cell:expr, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Trouble($cell), $($place)+)
    };
    ($field:ident, number, $head:literal = $cell:expr, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Number($cell), $($place)+)
    };
    ($field:ident, text, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Words(|of, _| of.$field.clone()), $($place)+)
    };
    ($field:ident, part, $word:literal) => {
        $crate::figure_column!(@ "",
            Words(|of, now| {
                $crate::figures::ShownFigures::sentence(&of.$field, $crate::figures::FigurePlace::Status, now)
            }),
            Line($word))
    };
    ($field:ident, counted, $noun:literal, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Words(|of, _| $crate::units::counted(of.$field, $noun)), $($place)+)
    };
    ($field:ident, growth, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Growth(|of| of.$field), $($place)+)
    };
    ($field:ident, age, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Number(|of, now| $crate::figures::age(of.$field, now)), $($place)+)
    };
    ($field:ident, some, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head,
            Number(|of, _| $crate::figures::count((of.$field > 0).then_some(of.$field))), $($place)+)
    };
    ($field:ident, delay, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head,
            Number(|of, _| $crate::figures::span((of.$field > 0).then_some(of.$field))), $($place)+)
    };
    ($field:ident, rate, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head,
            Number(|of, _| format!("{}/s", $crate::figures::size(of.$field as u64))), $($place)+)
    };
    // count, size, span: functions of the module.
    ($field:ident, $unit:ident, $head:literal, $($place:tt)+) => {
        $crate::figure_column!(@ $head, Number(|of, _| $crate::figures::$unit(of.$field)), $($place)+)
    };
    (@ $head:literal, $Cell:ident($cell:expr), $($place:ident $(($word:literal))?),+) => {
        $crate::figures::FigureColumn {
            head: $head,
            cell: $crate::figures::FigureCell::$Cell($cell),
            places: &[$($crate::figures::FigurePlace::$place $(($word))?),+],
        }
    };
}

/// The content of a field, if it is a name.
#[doc(hidden)]
#[macro_export]
macro_rules! figure_name {
    ($object:expr, name, $field:ident) => {
        Some($object.$field.as_str())
    };
    ($object:expr, $of:ident, $field:ident) => {
        None::<&str>
    };
}

/// The [`FigureType`](crate::figures::FigureType) that a word in [`figures!`](crate::figures!) stands for.
#[doc(hidden)]
#[macro_export]
macro_rules! figure_type {
    (counter, $Type:ty) => {
        $crate::figures::FigureType::Counter
    };
    (gauge, $Type:ty) => {
        $crate::figures::FigureType::Gauge
    };
    (text, $Type:ty) => {
        $crate::figures::FigureType::Text
    };
    (name, $Type:ty) => {
        $crate::figures::FigureType::Name
    };
    (hidden, $Type:ty) => {
        $crate::figures::FigureType::Hidden
    };
    (trouble($help:literal), $Type:ty) => {
        $crate::figures::FigureType::Trouble($help)
    };
    (part, $Type:ty) => {
        $crate::figures::FigureType::Part(<$Type as $crate::figures::FigureTable>::FIGURES)
    };
    (list($label:literal), $Type:ty) => {
        $crate::figures::FigureType::List($label, <$Type as $crate::figures::FigureTable>::FIGURES)
    };
}
