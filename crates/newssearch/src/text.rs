//! The text of an article, for the index.
//!
//! All decoded header fields except those that servers add on the way (Path, Xref); then the text of the body
//! as the pages show it: charsets and transfer encodings decoded, HTML as text, with quotations and
//! signatures, and the names of files but not their contents. Called by `newsreel` for indexing.

use netnews::article::{Headers, encoded};
use newspages::content::{ArticleContent, TextBlock};
use newspages::header;

/// Header fields that are not indexed: every word of them is in thousands of articles, or in one.
const LEFT_OUT: [&[u8]; 2] = [b"Path", b"Xref"];

/// Text of an article.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexedText {
    /// Subject.
    pub subject: String,
    /// From.
    pub from: String,
    /// All header fields and the body, including the two above.
    pub all: String,
    /// Date of the article, in Unix seconds.
    pub date: Option<i64>,
    /// True if there is more text than was requested.
    pub is_cut: bool,
}

impl IndexedText {
    /// Extracts the text of an article (wire format, without the final `.` line); at most about `bytes_max`
    /// of its body.
    pub fn of(article: &[u8], bytes_max: usize) -> Self {
        let content = ArticleContent::of(article, bytes_max);
        let mut all = String::with_capacity(article.len().min(bytes_max));
        let head = netnews::Article::parse(article).map(|parsed| parsed.head()).unwrap_or_default();
        for (name, value) in Headers::of(head) {
            if !LEFT_OUT.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                line(&header::text(value), &mut all);
            }
        }
        for block in &content.blocks {
            match block {
                TextBlock::Text(lines) | TextBlock::Signature(lines) | TextBlock::Armour(lines) => {
                    let mut data = DataLines::default();
                    lines.iter().filter(|text| !data.has(text)).for_each(|text| line(text, &mut all));
                }
                TextBlock::Quote(lines) => {
                    let mut data = DataLines::default();
                    let texts = lines.iter().map(|quoted| &quoted.text);
                    texts.filter(|text| !data.has(text)).for_each(|text| line(text, &mut all));
                }
                TextBlock::Message(fields) => fields.iter().for_each(|text| line(text, &mut all)),
                TextBlock::File(at) => {
                    if let Some(file) = content.files.get(*at) {
                        line(&file.name, &mut all);
                    }
                }
                TextBlock::FromHtml => {}
            }
        }
        let is_cut = content.is_cut || content.is_incomplete;
        Self { subject: content.head.subject, from: content.head.from, all, date: content.head.date, is_cut }
    }
}

/// Tells lines of data from text, in parts of files whose beginning was posted elsewhere.
#[derive(Default)]
struct DataLines {
    /// The line before was uuencoded data.
    uuencoded: bool,
    /// The lines are yEnc until its end.
    yenc: bool,
}

impl DataLines {
    /// Whether the next line is data.
    fn has(&mut self, text: &str) -> bool {
        let text = text.as_bytes();
        self.uuencoded = encoded::is_uu_data(text, self.uuencoded);
        let is_yenc = self.yenc || encoded::is_yenc_mark(text);
        self.yenc = is_yenc && !encoded::is_yenc_end(text);
        self.uuencoded || is_yenc
    }
}

fn line(text: &str, all: &mut String) {
    all.push_str(text);
    all.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_visible_body_and_all_headers() {
        let article = "Path: a!b\nFrom: =?utf-8?Q?J=C3=BCrgen?= <j@x.de>\nSubject: one\nOrganization: The\n \
            Works\nDate: Thu, 1 Jan 1970 00:00:09 +0000\nContent-Type: text/plain; charset=iso-8859-1\n\
            Content-Transfer-Encoding: quoted-printable\n\nB=FCcher\n> quoted\n-- \nsigned\n";
        let text = IndexedText::of(article.replace('\n', "\r\n").as_bytes(), 1_000);
        let words = crate::words::words(&text.all);
        for word in ["j\u{fc}rgen", "works", "b\u{fc}cher", "quoted", "signed", "iso", "one"] {
            assert!(words.iter().any(|own| own == word), "{word}");
        }
        assert!(!words.iter().any(|own| own == "a" || own == "fcher" || own == "organization"));
        assert_eq!((text.subject.as_str(), text.date, text.is_cut), ("one", Some(9), false));
    }

    #[test]
    fn files_are_known_by_name_and_long_texts_are_cut() {
        let article = "Subject: x\n\nbegin 644 holiday.gif\n#9F]U\n`\nend\nafter\n";
        let text = IndexedText::of(article.replace('\n', "\r\n").as_bytes(), 1_000);
        assert!(text.all.contains("holiday.gif") && text.all.contains("after") && !text.all.contains("9F"));
        let data = format!("M{}\n", "#8V%T".repeat(12)).repeat(4) + "M#8V%T\n";
        let article =
            format!("Subject: x\n\nbefore\n{data}after\n=ypart begin=9 end=20\nxyzzy\n=yend size=11\nlast\n");
        let text = IndexedText::of(article.replace('\n', "\r\n").as_bytes(), 10_000);
        assert!(["before", "after", "last"].iter().all(|word| text.all.contains(word)), "{}", text.all);
        assert!(!text.all.contains("8V") && !text.all.contains("xyzzy"), "{}", text.all);
        let long = format!("Subject: x\r\n\r\n{}", "words of text\r\n".repeat(100));
        let text = IndexedText::of(long.as_bytes(), 100);
        assert!(text.is_cut && text.all.len() < 200);
    }
}
