//! An article on its way into the index, as tantivy asks for it.
//!
//! The text is handed over, not copied. What waits for tantivy's threads is bounded in bytes by [`Waiting`]:
//! their queue is bounded in articles alone, however long these are. Called by `index`.

use std::sync::Arc;
use std::time::Duration;

use lock_order::Innermost;
use parking_lot::Condvar;
use tantivy::schema::document::{ReferenceValue, ReferenceValueLeaf, Value};
use tantivy::schema::{Document, Field};

use super::{Fields, Indexed};
use crate::text::Text;

/// Text that may wait.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// How long to wait for room: threads that have failed make none.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);

/// Text that waits to be indexed.
#[derive(Debug, Default)]
pub struct Waiting {
    bytes: Innermost<usize>,
    less: Condvar,
}

impl Waiting {
    /// Waits for room, and takes it.
    fn claim(self: &Arc<Self>, bytes: usize) -> Claim {
        let mut waiting = self.bytes.lock();
        let is_too_much = |waiting: &mut usize| *waiting > 0 && *waiting + bytes > WAITING_BYTES_MAX;
        waiting.wait_while_for(&self.less, is_too_much, ROOM_WAIT_MAX);
        *waiting += bytes;
        Claim { waiting: self.clone(), bytes }
    }
}

/// Text that waits, as long as this lives.
#[derive(Debug)]
struct Claim {
    waiting: Arc<Waiting>,
    bytes: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        *self.waiting.bytes.lock() -= self.bytes;
        self.waiting.less.notify_one();
    }
}

/// An article to be indexed.
#[derive(Debug)]
pub struct Entry {
    fields: Fields,
    key: u64,
    message_id: String,
    date: i64,
    volume: u64,
    place: u64,
    groups: Vec<String>,
    thread: Vec<u64>,
    text: Text,
    _claim: Claim,
}

impl Entry {
    /// Of an article, when there is room for its text.
    pub fn new(article: Indexed<'_>, fields: Fields, waiting: &Arc<Waiting>) -> Self {
        Self {
            fields,
            key: article.key,
            message_id: article.message_id.to_owned(),
            date: article.date,
            volume: u64::from(article.volume),
            place: article.place,
            groups: article.groups.iter().map(|group| (*group).to_owned()).collect(),
            thread: article.thread.to_vec(),
            _claim: waiting.claim(article.text.all.len()),
            text: article.text,
        }
    }
}

impl Document for Entry {
    type Value<'a> = Content<'a>;
    type FieldsValuesIter<'a> = std::vec::IntoIter<(Field, Content<'a>)>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        let fields = &self.fields;
        let mut all = vec![
            (fields.key, Content::Unsigned(self.key)),
            (fields.message_id, Content::Text(&self.message_id)),
            (fields.date, Content::Signed(self.date)),
            (fields.volume, Content::Unsigned(self.volume)),
            (fields.place, Content::Unsigned(self.place)),
        ];
        all.extend(self.groups.iter().map(|group| (fields.group, Content::Text(group))));
        all.extend(self.thread.iter().map(|key| (fields.thread, Content::Unsigned(*key))));
        let text = &self.text;
        all.extend(
            [(fields.subject, &text.subject), (fields.from, &text.from), (fields.text, &text.all)]
                .map(|(field, text)| (field, Content::Text(text))),
        );
        all.into_iter()
    }
}

/// The content of a field.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Text.
    Text(&'a str),
    /// A number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
}

impl<'a> Value<'a> for Content<'a> {
    type ArrayIter = std::iter::Empty<Self>;
    type ObjectIter = std::iter::Empty<(&'a str, Self)>;

    fn as_value(&self) -> ReferenceValue<'a, Self> {
        ReferenceValue::Leaf(match *self {
            Self::Text(text) => ReferenceValueLeaf::Str(text),
            Self::Unsigned(number) => ReferenceValueLeaf::U64(number),
            Self::Signed(number) => ReferenceValueLeaf::I64(number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_waits_within_a_bound() {
        let waiting = Arc::<Waiting>::default();
        let large = waiting.claim(2 * WAITING_BYTES_MAX);
        let (told, heard) = std::sync::mpsc::channel();
        let other = waiting.clone();
        let thread = std::thread::spawn(move || {
            let claim = other.claim(1);
            told.send(*other.bytes.lock()).unwrap();
            drop(claim);
        });
        drop(large);
        assert_eq!(heard.recv().unwrap(), 1, "it waited for the other");
        thread.join().unwrap();
        assert_eq!(*waiting.bytes.lock(), 0);
    }
}
