//! The arguments of a command line, taken off one by one.
//!
//! Arguments are separated by any number of spaces and TABs, which are ignored at the end of the line. Called
//! by `parse` and `list`. Source: RFC 3977 section 3.1.

/// Returns whether `b` is a separator. CR is none: a line that contains one does not belong to this protocol.
fn separates(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// Takes the first word off `text`: (word, rest). The word is empty if there is none.
pub(super) fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    let start = text.iter().position(|&b| !separates(b)).unwrap_or(text.len());
    let text = text.get(start..).unwrap_or_default();
    let end = text.iter().position(|&b| separates(b)).unwrap_or(text.len());
    text.split_at(end)
}

/// Rest of a command line after its verb. The optional forms return `None` for "wrong" and `Some(None)` for
/// "not given", so that callers can use `?`.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Arguments<'a> {
        Arguments(rest)
    }

    /// Returns the next argument; `None` at the end.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let (word, rest) = cut(self.0);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Returns everything left, trimmed; `None` if that is nothing.
    pub(super) fn rest(self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|&b| !separates(b))?;
        let end = self.0.iter().rposition(|&b| !separates(b))? + 1;
        self.0.get(start..end)
    }

    /// Returns `value` if there is no further argument.
    pub(super) fn end<T>(mut self, value: T) -> Option<T> {
        self.next().is_none().then_some(value)
    }

    /// Returns the only argument, which must be present.
    pub(super) fn only(mut self) -> Option<&'a [u8]> {
        let word = self.next()?;
        self.end(word)
    }

    /// Returns the only argument, which may be absent.
    pub(super) fn optional(mut self) -> Option<Option<&'a [u8]>> {
        let word = self.next();
        self.end(word)
    }
}
