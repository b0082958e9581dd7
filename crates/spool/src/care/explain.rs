//! Explanations of opaque things: tokens, Message-IDs, buffers.

use crate::index::fold::SharedIndexes;
use crate::read::Lookup;
use crate::reader::SpoolReader;
use disk::ReadMode;
use netnews::date;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_methods::cnfs::record::{self, RecordHeader};
use std::path::PathBuf;

/// Explanation of one article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Text form of the token: `buffer:offset:cycle` in hexadecimal (CNFS-10).
    pub token: String,
    /// Message-ID, if the record could be read.
    pub message_id: Option<String>,
    /// Whether the article can be read.
    pub alive: bool,
    /// Labels and values of all details, for operators.
    pub lines: Vec<(&'static str, String)>,
}

/// Tokens as people and other programs see them, and explanations of what is stored at them.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'s> {
    shared: &'s SharedIndexes,
    reader: SpoolReader<'s>,
}

impl<'s> Tokens<'s> {
    pub(crate) fn new(shared: &'s SharedIndexes, reader: SpoolReader<'s>) -> Self {
        Self { shared, reader }
    }

    /// Returns a token's text form (CNFS-10): buffer name, offset in its article area, cycle number.
    pub fn text(&self, token: &Token) -> String {
        self.shared.volumes.load().token_text(token)
    }

    /// Returns the file of a token's article, in classes with one file per article.
    pub fn file_of(&self, token: &Token) -> Option<PathBuf> {
        self.shared.volumes.load().get(token.volume)?.retained()?.file_of(token.place)
    }

    /// Reads a token's text form.
    pub fn parse(&self, text: &str) -> Option<Token> {
        let (name, place) = text.split_once(':')?;
        let volumes = self.shared.volumes.load();
        let volume = volumes.named(name)?;
        let place = volume.parse_place(place)?;
        Some(Token { method: volume.method(), class: 0, volume: volume.id(), place })
    }

    /// Explains what history knows about a Message-ID.
    pub fn explain_message_id(&self, message_id: &[u8]) -> (Lookup, Option<Explanation>) {
        let key = self.shared.hasher.key(message_id);
        let found = self.reader.lookup(&key);
        let explanation = match found {
            Lookup::Present(token) | Lookup::Hidden(token) => Some(self.explain(&token, Some(&key))),
            Lookup::Unknown | Lookup::Remembered | Lookup::Gone => None,
        };
        (found, explanation)
    }

    /// Explains what is stored at a token.
    pub fn explain(&self, token: &Token, expect: Option<&ArticleKey>) -> Explanation {
        let mut e =
            Explanation { token: self.text(token), message_id: None, alive: false, lines: Vec::new() };
        let volumes = self.shared.volumes.load();
        let Some(volume) = volumes.get(token.volume) else {
            e.lines.push(("volume", format!("number {} is not in the configuration", token.volume)));
            return e;
        };
        e.lines.push(("method", volume.method().name().into()));
        e.lines.push(("buffer", volume.name().into()));
        e.lines.push(("place", volume.explain_place(token.place)));
        let mut buf = Vec::new();
        match volume.fetch(token.place, ReadMode::Wait, &mut buf) {
            Ok(Some((header, live))) => {
                let whole = record::is_whole(&buf);
                let stored = header.record_bytes();
                let unpacked = self.explain_packed(header, buf, &mut e);
                let readable = unpacked.is_some();
                let (header, buf) = unpacked.unwrap_or((header, Vec::new()));
                let data = buf.get(record::HEADER_BYTES..).unwrap_or_default();
                let id = header.message_id(data);
                e.alive = volume.is_alive(token.place) && live && whole && readable;
                e.message_id = readable.then(|| String::from_utf8_lossy(id).into_owned());
                e.lines.push(("record", format!("{stored} bytes, sequence {}", header.sequence)));
                e.lines
                    .push(("checksum", if whole { "right" } else { "WRONG: the record is damaged" }.into()));
                e.lines.push(("cancelled", if live { "no" } else { "yes" }.into()));
                e.lines.push(("arrived", time_text(header.arrived)));
                let hidden = self.shared.hidden.get(&header.key);
                if let Some(hidden) = hidden.filter(|h| h.token.place == token.place) {
                    let why = if hidden.reason.is_empty() { "" } else { ": " };
                    let since = time_text(hidden.since);
                    e.lines.push(("hidden", format!("by {}, {since}{why}{}", hidden.by, hidden.reason)));
                }
                if expect.is_some_and(|key| *key != header.key) {
                    e.lines.push(("belongs to", "another Message-ID: history and buffer disagree".into()));
                }
                let line = data.split(|b| *b == b'\r').next().unwrap_or_default();
                e.lines.push(("xref", String::from_utf8_lossy(line).into_owned()));
            }
            Ok(None) => e.lines.push(("record", "none starts here (overwritten, or never written)".into())),
            Err(error) => e.lines.push(("record", format!("cannot be read: {error}"))),
        }
        e
    }

    /// Unpacks a compressed record; leaves others, and those that cannot be unpacked, unchanged.
    fn explain_packed(
        &self,
        header: RecordHeader,
        mut raw: Vec<u8>,
        e: &mut Explanation,
    ) -> Option<(RecordHeader, Vec<u8>)> {
        if !header.packed {
            return Some((header, raw));
        }
        let mut out = Vec::new();
        match self.shared.packing.unpack(&header, &mut raw, &mut out) {
            Ok(unpacked) => {
                let text = format!("with zstd, from {} bytes", unpacked.record_bytes());
                e.lines.push(("compressed", text));
                Some((unpacked, out))
            }
            Err(error) => {
                e.lines.push(("compressed", format!("with zstd, and {error}")));
                None
            }
        }
    }
}

/// Formats a time as a date and in Unix seconds.
fn time_text(unix_secs: u32) -> String {
    let mut text = Vec::new();
    date::format_rfc5322(i64::from(unix_secs), &mut text);
    format!("{} ({unix_secs})", String::from_utf8_lossy(&text))
}
