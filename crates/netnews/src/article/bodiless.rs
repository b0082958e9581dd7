//! Articles without their bodies, as header-only feeds deliver them (MODE HEADFEED of Diablo).
//! Such an article has headers and no body. Its Bytes header has the size of the whole article, and mostly
//! its Lines header the number of lines of the body. The sender may have added both, at the end. Called by
//! [`super::Article`].

use super::{Article, Known};

/// Size of the whole article, from the headers of an article without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodilessArticle {
    /// Size of the article in octets, with the Xref of this copy.
    pub bytes: u64,
    /// Lines of the body; 0 if unknown.
    pub lines: u64,
    /// Octets of the body, provided that no header has changed since they were counted.
    pub body_bytes: u64,
}

impl Article<'_> {
    /// Returns the size of the whole article, if this is one without its body. Control messages are always
    /// whole.
    pub fn bodiless(&self) -> Option<BodilessArticle> {
        if !self.body().is_empty() || self.count(Known::Control) > 0 {
            return None;
        }
        let (mut announced, mut lines) = (None, None);
        // Octets of the headers that the sender has not added, and of the blank line.
        let mut own = b"\r\n".len() as u64;
        for (name, field) in self.headers().fields() {
            let bytes = (name.len() + b":".len() + field.len() + b"\r\n".len()) as u64;
            if name.eq_ignore_ascii_case(b"Bytes") {
                announced = number(field);
                continue;
            }
            let is_lines = name.eq_ignore_ascii_case(b"Lines");
            if is_lines {
                lines = number(field);
            }
            own += if is_lines && announced.is_some() { 0 } else { bytes };
        }
        let (announced, lines) = (announced?, lines.unwrap_or_default());
        let xref = self.header_lines(Known::Xref).map_or(0, |range| range.len() as u64);
        let body_bytes = announced.saturating_sub(own.saturating_sub(xref));
        (lines > 0 || announced > own).then_some(BodilessArticle {
            bytes: announced.saturating_add(xref),
            lines,
            body_bytes,
        })
    }
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(u64, u64)> {
        let wire = text.replace('\n', "\r\n");
        Article::parse(wire.as_bytes()).unwrap().bodiless().map(|found| (found.bytes, found.lines))
    }

    #[test]
    fn body_size_is_the_total_less_the_headers() {
        let head = "From: a@b\nMessage-ID: <1@x>\n";
        let own = (head.len() + head.lines().count() + 2) as u64;
        for text in [
            format!("{head}Bytes: {}\nLines: 7\n\n", own + 300),
            format!("Xref: s g:1\n{head}Bytes: {}\nLines: 7\n\n", own + 300),
        ] {
            let wire = text.replace('\n', "\r\n");
            let found = Article::parse(wire.as_bytes()).unwrap().bodiless().unwrap();
            assert_eq!(found.body_bytes, 300, "{text}");
        }
        let wire = format!("{head}Bytes: {}\n\n", u64::MAX).replace('\n', "\r\n");
        assert!(Article::parse(wire.as_bytes()).unwrap().bodiless().is_some());
    }

    #[test]
    fn bodiless_articles_are_recognized_by_bytes_and_lines() {
        let head = "From: a@b\nMessage-ID: <1@x>\n";
        let own = head.len() + head.lines().count() + 2;
        assert_eq!(of(&format!("{head}Bytes: 900\nLines: 7\n\n")), Some((900, 7)));
        assert_eq!(of(&format!("{head}Lines: 7\nBytes: 900\n\n")), Some((900, 7)));
        assert_eq!(of(&format!("{head}bytes: 900\n\n")), Some((900, 0)));
        assert_eq!(of(&format!("Xref: s g:1\n{head}Bytes: 900\nLines: 7\n\n")), Some((913, 7)));
        // A very short body, and our names before the Path.
        assert_eq!(of(&format!("Path: me!you!x\n{head}Bytes: {}\nLines: 1\n\n", own + 3)).unwrap().1, 1);
        for whole in [
            // Articles that have a body, do not say its size, are empty, or are control messages.
            format!("{head}Bytes: 900\nLines: 7\n\nbody\n"),
            format!("{head}Lines: 7\n\n"),
            format!("{head}Bytes: {own}\nLines: 0\n\n"),
            format!("{head}Bytes: many\nLines: 7\n\n"),
            format!("{head}Control: newgroup x\nBytes: 900\nLines: 7\n\n"),
        ] {
            assert_eq!(of(&whole), None, "{whole}");
        }
    }
}
