//! Places in a configuration file, for faults found after the file was read.
//!
//! Called by `reload`, so that changes refused by a running server are shown like any other fault, with line
//! and caret.

use super::faults::ConfigFault;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A section, or a key of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLocation {
    /// The section's name.
    pub section: &'static str,
    /// Index among the sections of that name, from 0.
    pub index: usize,
    /// The key; `None` for the section as a whole.
    pub key: Option<&'static str>,
}

impl ConfigLocation {
    /// Returns the span in the text: the key's value, else its section's head, else the end of the text.
    pub fn span(&self, text: &str) -> Range<usize> {
        let end = text.trim_end().len();
        self.find(text).unwrap_or(end..end)
    }

    fn find(&self, text: &str) -> Option<Range<usize>> {
        let document = DeTable::parse(text).ok()?;
        let section = document.get_ref().get(self.section)?;
        let section: &Spanned<DeValue<'_>> = match section.get_ref() {
            DeValue::Array(all) => all.get(self.index)?,
            _ => section,
        };
        let step = |of: &'_ Spanned<DeValue<'_>>, word: &str| {
            of.get_ref().as_table().and_then(|table| table.get(word)).map(Spanned::span)
        };
        let value = self.key.and_then(|key| match key.split_once('.') {
            Some((part, word)) => step(section.get_ref().as_table()?.get(part)?, word),
            None => step(section, key),
        });
        Some(value.unwrap_or_else(|| section.span()))
    }

    /// Returns a fault at this place.
    pub fn fault(&self, text: &str, message: String, label: &str, advice: Option<String>) -> ConfigFault {
        ConfigFault { message, span: self.span(text), label: label.into(), advice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_its_section_or_the_end() {
        let text = "[site]\ndata = \"x\"\n[[buffer]]\nname = \"a\"\n[[buffer]]\nname = \"b\"\n\n";
        let at = |section, index, key| {
            let span = ConfigLocation { section, index, key }.span(text);
            (&text[span.clone()], span.start)
        };
        assert_eq!(at("site", 0, Some("data")).0, "\"x\"");
        assert_eq!(at("buffer", 1, Some("name")).0, "\"b\"");
        assert_eq!(at("buffer", 1, Some("path")).1, text.rfind("[[buffer]]").unwrap());
        assert_eq!(at("peer", 0, None).1, text.trim_end().len());
    }
}
