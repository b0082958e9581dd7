//! Capabilities that a server advertises.
//!
//! Source: RFC 3977 sections 3.3 and 5.2.

/// Capabilities of a server, as last listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    lines: Vec<Box<str>>,
}

impl Capabilities {
    /// Adds the capability of one line.
    pub(super) fn push(&mut self, line: &[u8]) {
        self.lines.push(String::from_utf8_lossy(line).into());
    }

    /// Returns whether nothing is listed: the server does not know CAPABILITIES.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns whether `label` is listed. Labels are compared without regard to case.
    pub fn has(&self, label: &str) -> bool {
        self.line(label).is_some()
    }

    /// Returns whether `label` is listed with `argument`.
    pub fn has_argument(&self, label: &str, argument: &str) -> bool {
        self.arguments(label).any(|found| found.eq_ignore_ascii_case(argument))
    }

    /// Returns the arguments of `label`; none if it is not listed.
    pub fn arguments(&self, label: &str) -> impl Iterator<Item = &str> {
        self.line(label).into_iter().flat_map(|line| line.split_ascii_whitespace().skip(1))
    }

    fn line(&self, label: &str) -> Option<&str> {
        let is_it = |line: &&str| {
            line.split_ascii_whitespace().next().is_some_and(|found| found.eq_ignore_ascii_case(label))
        };
        self.lines.iter().map(AsRef::as_ref).find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_arguments() {
        let mut capabilities = Capabilities::default();
        assert!(capabilities.is_empty());
        for line in ["VERSION 2", "SASL PLAIN\tSCRAM-SHA-256", "READER", "\u{fffd}"] {
            capabilities.push(line.as_bytes());
        }
        assert!(capabilities.has("reader") && !capabilities.has("READ") && !capabilities.has("2"));
        assert!(
            capabilities.has_argument("SASL", "scram-sha-256") && !capabilities.has_argument("SASL", "SASL")
        );
        assert_eq!(capabilities.arguments("STARTTLS").count(), 0);
    }
}
