//! Articles that are not written yet: the words of each as term numbers, in the order of the text.
//!
//! tantivy would keep a list for each term and append to one for each word, each somewhere else in memory.
//! Here a word costs one lookup and one number appended; lists are made by sorting when all is written
//! (`written`). Invariant: `log` has the articles' terms up to `log_end` of the last one. Called by
//! `workers`.

mod written;

use std::collections::HashMap;

use netnews::date::of_article;
use tantivy::schema::Field;

use super::IndexFields;
use super::terms::{TERMS_MAX, TermTable};
use super::workers::QueuedArticle;
use crate::text::IndexedText;
use crate::words::each_word;

/// Log entry: beginning of a field, which restarts the positions.
const BEGIN: u32 = u32::MAX;
/// Log entry: a word that is not indexed.
const GAP: u32 = u32::MAX - 1;
/// Memory of a word until it is written: itself, and an entry of a list.
const WORD_BYTES: usize = 4 + 8;
/// Memory of an article, in addition to its Message-ID and its words.
const ARTICLE_BYTES: usize = 160;
/// Maximum number of places of a word in one field of an article. The cost of a search for a phrase grows
/// with the places of its words, and an article may consist of one word.
const WORD_PLACES_MAX: usize = 1_000;

/// An article that is not written yet.
#[derive(Debug)]
struct UnwrittenArticle {
    key: u64,
    message_id: String,
    date: i64,
    place: u64,
    /// True if it was removed and must not be written.
    is_gone: bool,
    /// End of its terms in the log.
    log_end: usize,
}

/// Articles that are not written yet.
#[derive(Debug)]
pub struct PendingPart {
    fields: IndexFields,
    terms: TermTable,
    log: Vec<u32>,
    articles: Vec<UnwrittenArticle>,
    /// Index of each article, by its key.
    places: HashMap<u64, usize>,
    message_id_bytes: usize,
    bytes_max: usize,
}

impl PendingPart {
    /// Creates an empty part, which is full when it uses this much memory.
    pub fn new(fields: IndexFields, bytes_max: usize) -> Self {
        Self {
            fields,
            terms: TermTable::default(),
            // Only the used part takes real memory.
            log: Vec::with_capacity(bytes_max / WORD_BYTES),
            articles: Vec::new(),
            places: HashMap::new(),
            message_id_bytes: 0,
            bytes_max,
        }
    }

    /// Returns whether the part must be written before another article is added.
    pub fn is_full(&self) -> bool {
        let articles = self.articles.len() * ARTICLE_BYTES + self.message_id_bytes;
        let bytes = self.log.len() * WORD_BYTES + self.terms.size() + articles;
        bytes >= self.bytes_max || self.terms.count() >= TERMS_MAX / 2
    }

    /// Adds an article.
    pub fn add(&mut self, article: QueuedArticle) {
        let fields = self.fields;
        let text = IndexedText::of(&article.wire, article.text_bytes_max);
        self.number(fields.key, article.key);
        self.number(fields.volume, u64::from(article.volume));
        self.begin();
        for group in &article.groups {
            self.term(fields.group, group.as_bytes());
        }
        self.begin();
        for key in &article.thread {
            self.term(fields.thread, &key.to_be_bytes());
        }
        for (field, text) in [(fields.subject, &text.subject), (fields.from, &text.from)] {
            self.words(field, text);
        }
        self.words(fields.text, &text.all);
        self.places.insert(article.key, self.articles.len());
        self.message_id_bytes += article.message_id.len();
        self.articles.push(UnwrittenArticle {
            key: article.key,
            message_id: article.message_id,
            date: of_article(text.date, Some(article.arrived), article.arrived).unwrap_or(article.arrived),
            place: article.place,
            is_gone: false,
            log_end: self.log.len(),
        });
    }

    /// Removes an article if it is in this part.
    pub fn remove(&mut self, key: u64) {
        let at = self.places.remove(&key);
        if let Some(article) = at.and_then(|at| self.articles.get_mut(at)) {
            article.is_gone = true;
        }
    }

    /// Removes all articles.
    pub fn clear(&mut self) {
        self.terms.clear();
        self.log.clear();
        self.articles.clear();
        self.places.clear();
        self.message_id_bytes = 0;
    }

    fn begin(&mut self) {
        self.log.push(BEGIN);
    }

    fn number(&mut self, field: Field, number: u64) {
        self.begin();
        self.term(field, &number.to_be_bytes());
    }

    #[inline]
    fn term(&mut self, field: Field, term: &[u8]) {
        let number = self.terms.number(field.field_id() as u8, term);
        self.log.push(number);
    }

    fn words(&mut self, field: Field, text: &str) {
        self.begin();
        let start = self.log.len();
        each_word(text, |word| match word {
            Some(word) => self.term(field, word),
            None => self.log.push(GAP),
        });
        let words = self.log.get_mut(start..).unwrap_or_default();
        if words.len() > WORD_PLACES_MAX {
            leave_out_repetitions(words);
        }
    }
}

/// Leaves out the places of words that have too many.
fn leave_out_repetitions(words: &mut [u32]) {
    let mut places: HashMap<u32, usize> = HashMap::new();
    for word in words.iter_mut().filter(|word| **word != GAP) {
        let places = places.entry(*word).or_default();
        *places += 1;
        if *places > WORD_PLACES_MAX {
            *word = GAP;
        }
    }
}
