//! Our rule of words, as tantivy asks for it.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use crate::words::{WORD_BYTES_MAX, lower, next_word};

/// Divides text as [`crate::words`] says; words that are too long leave a gap.
#[derive(Debug, Clone, Default)]
pub struct Words {
    token: Token,
}

/// The words of a text.
#[derive(Debug)]
pub struct WordsOf<'a> {
    text: &'a str,
    from: usize,
    token: &'a mut Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordsOf<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordsOf<'a> {
        self.token.reset();
        WordsOf { text, from: 0, token: &mut self.token }
    }
}

impl TokenStream for WordsOf<'_> {
    fn advance(&mut self) -> bool {
        while let Some(range) = next_word(self.text, self.from) {
            self.from = range.end;
            self.token.position = self.token.position.wrapping_add(1);
            (self.token.offset_from, self.token.offset_to) = (range.start, range.end);
            self.token.text.clear();
            lower(self.text.get(range).unwrap_or_default(), &mut self.token.text);
            if self.token.text.len() <= WORD_BYTES_MAX {
                return true;
            }
        }
        false
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
