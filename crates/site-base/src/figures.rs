//! Figures of a server: structs whose fields say what they mean, how they count, and what they are called.
//!
//! [`figures!`](crate::figures!) declares such a struct, and each field is one row: its comment is the help,
//! and a word before its name says of which type it is. The JSON of `newsreel status`, the metrics and the
//! page `docs/figures.md` are made from these rows. Units are in the names (`sent_bytes`, `lag_secs`).

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
/// [`FigureType`]: crate::figures::FigureType
#[macro_export]
macro_rules! figures {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde $serde:tt])?
                $of:ident $(($argument:literal))? $field:ident: $Type:ty,
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
