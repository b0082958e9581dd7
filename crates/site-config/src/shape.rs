//! Forms of values in TOML, which `kinds` names and `schema` describes.

/// The form of a key's value in TOML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueShape {
    /// A text.
    Text,
    /// One of these words.
    Word(Vec<&'static str>),
    /// A whole number, with its bounds.
    Number(i64, i64),
    /// True or false.
    Switch,
    /// A list of such values.
    List(Box<ValueShape>),
    /// A value of one of these forms.
    OneOf(Vec<ValueShape>),
    /// A table of these texts, all of which are required.
    Table(Vec<&'static str>),
}

impl ValueShape {
    /// A whole number that is not negative.
    pub(super) const COUNT: Self = Self::Number(0, i64::MAX);

    /// Returns the form of a list of values of this form.
    pub(super) fn listed(self) -> Self {
        Self::List(Box::new(self))
    }
}
