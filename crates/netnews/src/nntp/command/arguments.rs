//! The arguments of a command line, taken off one by one.
//!
//! Space and TAB separate, any number of them, and they do not count at the end of the line. Called by `parse` and
//! `list`. Source: RFC 3977 section 3.1.

/// Takes the first word off `text`: (word, rest). The word is empty if there is none.
pub(super) fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(text.len());
    text.split_at(end)
}

/// What is left of a command line after its verb. The optional forms give `None` where `None` means "wrong" and
/// `Some(None)` where it means "not given", so that callers can use `?`.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Arguments<'a> {
        Arguments(rest)
    }

    /// The next argument; `None` at the end.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let (word, rest) = cut(self.0);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Everything left, trimmed; `None` if that is nothing.
    pub(super) fn rest(self) -> Option<&'a [u8]> {
        let rest = self.0.trim_ascii();
        (!rest.is_empty()).then_some(rest)
    }

    /// `value` if there is no further argument.
    pub(super) fn end<T>(mut self, value: T) -> Option<T> {
        self.next().is_none().then_some(value)
    }

    /// The one argument there must be.
    pub(super) fn only(mut self) -> Option<&'a [u8]> {
        let word = self.next()?;
        self.end(word)
    }

    /// The one argument there may be.
    pub(super) fn optional(mut self) -> Option<Option<&'a [u8]>> {
        let word = self.next();
        self.end(word)
    }
}
