//! A Date value cut into words, numbers and times.
//!
//! Comments in parentheses are skipped, nested ones too; a comment that never ends swallows the rest.
//! Everything between tokens that is neither letter, digit, sign, slash, point nor colon separates them.
//! Called by `parse`. Source: RFC 5322 section 3.2.2.

/// A piece of a Date value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DateToken<'a> {
    /// Letters.
    Word(&'a [u8]),
    /// Digits, up to nine.
    Number { value: u32, digits: u8 },
    /// `hh:mm` or `hh:mm:ss`, fractions dropped.
    Time { hour: u8, minute: u8, second: u8 },
    /// A sign and the digits and colon after it, directly after a word or space.
    Signed { negative: bool, digits: &'a [u8] },
    /// `-`, `/` or `.` between two tokens of a date.
    Joint(u8),
}

/// Iterator over the tokens; ends early at something that cannot be part of a date.
pub(super) struct DateTokens<'a> {
    rest: &'a [u8],
    /// True if the last token was a number not followed by space: a `-` now joins and is not a sign.
    joined: bool,
    /// True after a time: from here on `+` and `-` are signs of a zone.
    timed: bool,
}

impl<'a> DateTokens<'a> {
    pub(super) fn new(value: &'a [u8]) -> DateTokens<'a> {
        DateTokens { rest: value, joined: false, timed: false }
    }

    fn take(&mut self, keep: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| !keep(b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn skip_comment(&mut self) {
        let mut depth = 0u32;
        while let Some(&b) = self.rest.first() {
            self.skip();
            match b {
                b'\\' => self.skip(),
                b'(' => depth = depth.saturating_add(1),
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn number_or_time(&mut self) -> Option<DateToken<'a>> {
        let digits = self.take(|b| b.is_ascii_digit());
        if digits.len() > 9 {
            return None;
        }
        let value = u32::try_from(crate::decimal::parse_decimal(digits)?).ok()?;
        if self.rest.first() != Some(&b':') {
            return Some(DateToken::Number { value, digits: digits.len() as u8 });
        }
        let minute = self.after_colon()?;
        let second = if self.rest.first() == Some(&b':') { self.after_colon()? } else { 0 };
        if let [b'.' | b',', b'0'..=b'9', ..] = self.rest {
            self.skip();
            self.take(|b| b.is_ascii_digit());
        }
        self.timed = true;
        let hour = u8::try_from(value).ok().filter(|_| digits.len() <= 2)?;
        Some(DateToken::Time { hour, minute, second })
    }

    fn after_colon(&mut self) -> Option<u8> {
        self.skip();
        let digits = self.take(|b| b.is_ascii_digit());
        let value = crate::decimal::parse_decimal(digits)?;
        (digits.len() <= 2).then_some(value as u8)
    }
}

impl<'a> Iterator for DateTokens<'a> {
    type Item = Option<DateToken<'a>>;

    /// Returns the next token; `Some(None)` for something that cannot be part of a date.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let b = *self.rest.first()?;
            let joined = std::mem::replace(&mut self.joined, false);
            return Some(match b {
                b'0'..=b'9' => {
                    let token = self.number_or_time();
                    self.joined = !self.timed;
                    token
                }
                b'A'..=b'Z' | b'a'..=b'z' => {
                    let word = self.take(|b| b.is_ascii_alphabetic());
                    self.joined = !self.timed;
                    Some(DateToken::Word(word))
                }
                b'-' | b'/' | b'.' if joined => {
                    self.skip();
                    Some(DateToken::Joint(b))
                }
                b'+' | b'-' if self.timed => {
                    self.skip();
                    let digits = self.take(|b| b.is_ascii_digit() || b == b':');
                    (!digits.is_empty()).then_some(DateToken::Signed { negative: b == b'-', digits })
                }
                b'(' => {
                    self.skip_comment();
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' | b'.' | b'"' | b'\'' | b'-' => {
                    self.skip();
                    continue;
                }
                _ => None,
            });
        }
    }
}
