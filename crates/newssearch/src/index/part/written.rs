//! Writing of articles as a part of the index: a segment, in tantivy's terms.
//!
//! Words are sorted by term: into buckets of some neighbouring terms each, then within each bucket, which
//! fits into the processor's caches. Within a term they are already in the order of articles and positions.
//! Called by `part`.

use tantivy::directory::TerminatingWrite;
use tantivy::fastfield::FastFieldsWriter;
use tantivy::fieldnorm::FieldNormsSerializer;
use tantivy::index::{Segment, SegmentComponent};
use tantivy::postings::{FieldSerializer, InvertedIndexSerializer};
use tantivy::schema::{Field, FieldType};
use tantivy::store::StoreWriter;
use tantivy::tokenizer::TokenizerManager;
use tantivy::{TantivyDocument, TantivyError};

use super::{BEGIN, GAP, PendingPart};

/// Bits of a word's position in a field; words beyond are not indexed.
const POSITION_BITS: u32 = 24;
/// Bits of the article's number in a part.
const ARTICLE_BITS: u32 = 26;
/// log2 of the number of buckets that are filled at the same time.
const BUCKETS_BITS: u32 = 10;
/// Number of an article that is not written.
const NOT_WRITTEN: u32 = u32::MAX;

/// Words sorted by term.
struct SortedWords {
    /// Term numbers, in order.
    terms: Vec<u32>,
    /// End of each term's words, in that order.
    ends: Vec<usize>,
    /// Article and position of each word, below the bits by which it was sorted.
    words: Vec<u64>,
}

impl PendingPart {
    /// Writes the articles, if there are any, and returns their keys, in order.
    pub fn write(&self, segment: &Segment) -> Result<Vec<u64>, TantivyError> {
        let mut written = 0;
        let numbers: Vec<u32> = self
            .articles
            .iter()
            .map(|article| match article.is_gone {
                true => NOT_WRITTEN,
                false => {
                    written += 1;
                    written - 1
                }
            })
            .collect();
        if written == 0 {
            return Ok(Vec::new());
        }
        // No field has norms, which only ranking needs.
        FieldNormsSerializer::from_write(segment.open_write(SegmentComponent::FieldNorms)?)?.close()?;
        self.write_lists(segment, &self.lists(&numbers))?;
        self.write_columns(segment)?;
        Ok(self.articles.iter().filter(|article| !article.is_gone).map(|article| article.key).collect())
    }

    /// Calls `take` with the words of all articles in order, as ranks of terms.
    fn each_place(&self, numbers: &[u32], ranks: &[u32], mut take: impl FnMut(u32, u32, u32)) {
        let mut start = 0;
        for (article, number) in self.articles.iter().zip(numbers) {
            let log = self.log.get(start..article.log_end).unwrap_or_default();
            start = article.log_end;
            if *number == NOT_WRITTEN {
                continue;
            }
            let mut position = 0u32;
            for term in log {
                match *term {
                    BEGIN => position = 0,
                    GAP => position = position.saturating_add(1),
                    term if position < 1 << POSITION_BITS => {
                        if let Some(rank) = ranks.get(term as usize) {
                            take(*rank, *number, position);
                        }
                        position += 1;
                    }
                    _ => {}
                }
            }
        }
    }

    fn lists(&self, numbers: &[u32]) -> SortedWords {
        let terms = self.terms.sorted();
        let mut ranks = vec![0; terms.len()];
        for (rank, term) in terms.iter().enumerate() {
            if let Some(own) = ranks.get_mut(*term as usize) {
                *own = rank as u32;
            }
        }
        let mut nexts = vec![0usize; terms.len()];
        self.each_place(numbers, &ranks, |rank, _, _| {
            if let Some(count) = nexts.get_mut(rank as usize) {
                *count += 1;
            }
        });
        let mut total = 0;
        for next in &mut nexts {
            (*next, total) = (total, total + *next);
        }
        let bits = usize::BITS - terms.len().leading_zeros();
        let shift = bits.saturating_sub(BUCKETS_BITS);
        let mut words = vec![0u64; total];
        let mut buckets: Vec<usize> = nexts.iter().step_by(1 << shift).copied().collect();
        self.each_place(numbers, &ranks, |rank, article, position| {
            let bucket = buckets.get_mut((rank >> shift) as usize);
            let in_bucket = u64::from(rank) & ((1 << shift) - 1);
            let place = u64::from(article) << POSITION_BITS | u64::from(position);
            if let Some(at) = bucket {
                if let Some(word) = words.get_mut(*at) {
                    *word = in_bucket << (POSITION_BITS + ARTICLE_BITS) | place;
                }
                *at += 1;
            }
        });
        if shift > 0 {
            let mut copy = Vec::new();
            let mut start = 0;
            for (bucket, end) in buckets.iter().enumerate() {
                copy.clear();
                copy.extend_from_slice(words.get(start..*end).unwrap_or_default());
                start = *end;
                for word in &copy {
                    let rank = (bucket << shift) + (word >> (POSITION_BITS + ARTICLE_BITS)) as usize;
                    let Some(at) = nexts.get_mut(rank) else { continue };
                    if let Some(to) = words.get_mut(*at) {
                        *to = *word;
                    }
                    *at += 1;
                }
            }
        } else {
            nexts = buckets;
        }
        SortedWords { terms, ends: nexts, words }
    }

    fn write_lists(&self, segment: &Segment, lists: &SortedWords) -> Result<(), TantivyError> {
        let schema = segment.schema();
        let mut serializer = InvertedIndexSerializer::open(segment)?;
        let mut rank = 0;
        while let Some(term) = lists.terms.get(rank) {
            let field = self.terms.get(*term).0;
            let of_field = |rank: &usize| {
                let term = lists.terms.get(*rank);
                term.is_some_and(|term| self.terms.get(*term).0 == field)
            };
            let end = (rank..lists.terms.len()).find(|rank| !of_field(rank)).unwrap_or(lists.terms.len());
            let bounds = |rank: usize| {
                let start = rank.checked_sub(1).and_then(|before| lists.ends.get(before)).copied();
                start.unwrap_or(0)..lists.ends.get(rank).copied().unwrap_or(0)
            };
            let count = bounds(end - 1).end - bounds(rank).start;
            if count > 0 {
                let own = Field::from_field_id(u32::from(field));
                let has_positions = matches!(
                    schema.get_field_entry(own).field_type(),
                    FieldType::Str(options)
                        if options.get_indexing_options().is_some_and(|own| own.index_option().has_positions())
                );
                let mut of_field = serializer.new_field(own, count as u64, None)?;
                let mut deltas = Vec::new();
                for (rank, term) in lists.terms.iter().enumerate().take(end).skip(rank) {
                    let words = lists.words.get(bounds(rank)).unwrap_or_default();
                    if !words.is_empty() {
                        let deltas = has_positions.then_some(&mut deltas);
                        write_list(&mut of_field, self.terms.get(*term).1, words, deltas)?;
                    }
                }
                of_field.close()?;
            }
            rank = end;
        }
        serializer.close()?;
        Ok(())
    }

    /// Writes the fields that are not looked up by terms.
    fn write_columns(&self, segment: &Segment) -> Result<(), TantivyError> {
        let (schema, settings) = (segment.schema(), segment.index().settings());
        let mut columns =
            FastFieldsWriter::from_schema_and_tokenizer_manager(&schema, TokenizerManager::default())?;
        let mut stored = StoreWriter::new(
            segment.open_write(SegmentComponent::Store)?,
            settings.docstore_compression,
            settings.docstore_blocksize,
            false,
        )?;
        for article in self.articles.iter().filter(|article| !article.is_gone) {
            let mut document = TantivyDocument::new();
            document.add_text(self.fields.message_id, &article.message_id);
            document.add_i64(self.fields.date, article.date);
            document.add_u64(self.fields.place, article.place);
            columns.add_document(&document)?;
            stored.store(&document, &schema)?;
        }
        stored.close()?;
        let mut file = segment.open_write(SegmentComponent::FastFields)?;
        columns.serialize(&mut file, None)?;
        file.terminate()?;
        Ok(())
    }
}

/// Writes a term and its words; `deltas` are their positions.
fn write_list(
    serializer: &mut FieldSerializer<'_>,
    term: &[u8],
    words: &[u64],
    mut deltas: Option<&mut Vec<u32>>,
) -> Result<(), TantivyError> {
    let article = |word: u64| (word >> POSITION_BITS) as u32 & ((1 << ARTICLE_BITS) - 1);
    // The number of articles is for ranking alone.
    serializer.new_term(term, 0, deltas.is_some())?;
    for words in words.chunk_by(|word, next| article(*word) == article(*next)) {
        let number = words.first().map_or(0, |word| article(*word));
        let Some(deltas) = &mut deltas else {
            serializer.write_doc(number, 0, &[]);
            continue;
        };
        deltas.clear();
        let mut before = 0;
        for word in words {
            let position = *word as u32 & ((1 << POSITION_BITS) - 1);
            deltas.push(position - before);
            before = position;
        }
        serializer.write_doc(number, deltas.len() as u32, deltas);
    }
    serializer.close_term()?;
    Ok(())
}
