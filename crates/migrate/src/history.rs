//! Lines of history files, as INN and C News write them: parsing and writing.
//!
//! INN: `[HASH]`, a tab, `arrived~expires~posted`, and a tab and a token if there is an article; before 2.0
//! with the Message-ID in place of the hash. C News: `<id>`, a tab, `arrived~expires~size` (without size in
//! older releases), and a tab and `group/number` words if there is an article. B News has a date and a time
//! of day in place of the times. One parser therefore serves for both, and for plain lists of Message-IDs.
//! Bytes in, values out. Called by `operators::history`. Sources: history(5) of INN, news(5) of C News.

use spool::{ArticleIdent, inn_hash};

use netnews::{MessageId, date};

/// A parsed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLine<'a> {
    /// Message-ID or its hash.
    pub id: ArticleIdent<'a>,
    /// Unix seconds; `None`: the line has no time.
    pub arrived: Option<u64>,
}

/// Parses a line; returns `None` if it is invalid.
pub fn parse(line: &[u8]) -> Option<HistoryLine<'_>> {
    let line = line.trim_ascii_end();
    let end = line.iter().position(|byte| matches!(byte, b'\t' | b' ')).unwrap_or(line.len());
    let (name, rest) = line.split_at_checked(end)?;
    let id = match name.first()? {
        b'[' => ArticleIdent::InnHash(unhex(name)?),
        b'<' => ArticleIdent::Id(MessageId::parse(name)?.as_bytes()),
        _ => return None,
    };
    let times = rest.trim_ascii_start();
    // A token may follow directly, as in the output of grephistory.
    if times.is_empty() || times.starts_with(b"@") {
        return Some(HistoryLine { id, arrived: None });
    }
    if let Some(arrived) = b_news_time(times) {
        return Some(HistoryLine { id, arrived: Some(arrived) });
    }
    let end = times.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(times.len());
    let (digits, after) = times.split_at_checked(end)?;
    let ends = after.first().is_none_or(|byte| matches!(byte, b'~' | b'\t' | b' '));
    let arrived = std::str::from_utf8(digits).ok()?.parse().ok().filter(|_| ends)?;
    Some(HistoryLine { id, arrived: Some(arrived) })
}

/// Parses the time of a line of B News, `04/16/93 12:34` before a tab.
fn b_news_time(times: &[u8]) -> Option<u64> {
    let field = times.split(|byte| *byte == b'\t').next()?;
    let is_date = field.iter().filter(|byte| **byte == b'/').count() == 2;
    is_date.then(|| date::parse(field)).flatten().and_then(|secs| u64::try_from(secs).ok())
}

fn unhex(name: &[u8]) -> Option<[u8; 16]> {
    let digits = name.strip_prefix(b"[")?.strip_suffix(b"]").filter(|digits| digits.len() == 32)?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

/// A line to be written for a Message-ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry<'a> {
    /// The Message-ID.
    pub message_id: &'a [u8],
    /// Unix seconds.
    pub arrived: u32,
    /// Expires header in Unix seconds; 0 if there is none, or it is unknown.
    pub expires: u32,
    /// Date header in Unix seconds, if known.
    pub posted: Option<i64>,
    /// Size in bytes, if known.
    pub bytes: Option<u64>,
    /// Value of its Xref header after the server's name; empty if the article is no longer stored.
    pub places: &'a [u8],
}

impl HistoryEntry<'_> {
    /// Appends the line in INN's format, without a token: another server's tokens have no meaning for INN.
    pub fn append_inn(&self, out: &mut String) {
        let hash = u128::from_be_bytes(inn_hash(self.message_id));
        let expires = time(i64::from(self.expires));
        let posted = time(self.posted.unwrap_or(0));
        out.push_str(&format!("[{hash:032X}]\t{}~{expires}~{posted}\n", self.arrived));
    }

    /// Appends the line in the format of C News.
    pub fn append_cnews(&self, out: &mut String) {
        let id = String::from_utf8_lossy(self.message_id);
        out.push_str(&format!("{id}\t{}~{}", self.arrived, time(i64::from(self.expires))));
        if let Some(bytes) = self.bytes {
            out.push_str(&format!("~{bytes}"));
        }
        if !self.places.is_empty() {
            let places = String::from_utf8_lossy(self.places).replace(':', "/");
            out.push('\t');
            out.push_str(places.trim());
        }
        out.push('\n');
    }
}

/// Returns a time, or the text both servers write for none.
fn time(secs: i64) -> String {
    if secs > 0 { secs.to_string() } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ArticleIdent<'_> {
        ArticleIdent::Id(text.as_bytes())
    }

    #[test]
    fn lines_of_inn_and_c_news_are_parsed() {
        let hash = ArticleIdent::InnHash(0xC906_AEE6_4C14_17F1_BBD1_FC07_9EDA_7985_u128.to_be_bytes());
        let line = |id, arrived| Some(HistoryLine { id, arrived });
        for (text, expected) in [
            // INN 2, with and without an article.
            (
                "[C906AEE64C1417F1BBD1FC079EDA7985]\t1795237138~-~1795204377\t@0300423100000000@",
                line(hash, Some(1_795_237_138)),
            ),
            ("[c906aee64c1417f1bbd1fc079eda7985]\t1795237138~-~-", line(hash, Some(1_795_237_138))),
            // INN 1, C News.
            ("<1@x.y>\t1795237138~1795300000~5\tcomp.lang.c/7", line(id("<1@x.y>"), Some(1_795_237_138))),
            ("<1@x.y>\t1795237138~-~2345\tcomp.lang.c/7 a.b/8\r", line(id("<1@x.y>"), Some(1_795_237_138))),
            ("<1@x.y>\t1795237138", line(id("<1@x.y>"), Some(1_795_237_138))),
            // B News.
            ("<1@x.y>\t04/16/93 12:00\tnet.x/7", line(id("<1@x.y>"), Some(734_961_600))),
            ("<1@x.y>\t04/16/93 12:00\tcancelled", line(id("<1@x.y>"), Some(734_961_600))),
            // Lists of Message-IDs, and output of grephistory.
            ("<1@x.y>", line(id("<1@x.y>"), None)),
            ("<1@x.y> @0300423100000000@", line(id("<1@x.y>"), None)),
            // Invalid lines.
            ("", None),
            ("1@x.y\t5", None),
            ("<1 x.y>\t5", None),
            ("[C906AEE64C1417F1BBD1FC079EDA798]\t5~-~-", None),
            ("[+906AEE64C1417F1BBD1FC079EDA7985]\t5~-~-", None),
            ("<1@x.y>\tyesterday~-", None),
            ("<1@x.y>\t99999999999999999999999~-", None),
            ("<1@x.y>\t17952x~-", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn written_lines_are_read_back() {
        let seen = HistoryEntry {
            message_id: b"<1@X.Y>",
            arrived: 1_795_237_138,
            expires: 0,
            posted: Some(1_795_000_000),
            bytes: Some(2_345),
            places: b" comp.lang.c:7 a.b:8",
        };
        let (mut inn, mut cnews) = (String::new(), String::new());
        seen.append_inn(&mut inn);
        seen.append_cnews(&mut cnews);
        assert_eq!(cnews, "<1@X.Y>\t1795237138~-~2345\tcomp.lang.c/7 a.b/8\n");
        assert!(inn.ends_with("]\t1795237138~-~1795000000\n"), "{inn}");
        let hash = ArticleIdent::InnHash(inn_hash(b"<1@x.y>"));
        assert_eq!(parse(inn.as_bytes()), Some(HistoryLine { id: hash, arrived: Some(1_795_237_138) }));
        let line = HistoryLine { id: ArticleIdent::Id(b"<1@X.Y>"), arrived: Some(1_795_237_138) };
        assert_eq!(parse(cnews.as_bytes()), Some(line));
        let gone = HistoryEntry { places: b"", expires: 5, posted: None, bytes: None, ..seen };
        cnews.clear();
        gone.append_cnews(&mut cnews);
        assert_eq!(cnews, "<1@X.Y>\t1795237138~5\n");
    }
}
