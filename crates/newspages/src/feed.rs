//! Atom feeds of a group or a thread.
//!
//! The identifier of an entry is the article's `news:` URL, which is the same on every server that has it.
//! Called by the web server. Sources: RFC 4287; RFC 4151 for the identifier of the feed; RFC 5538.

use netnews::date;

use crate::threads::ThreadRow;
use crate::{header, urls};

/// Maximum length of an article's text in its entry, in bytes.
pub const SUMMARY_BYTES: usize = 2_000;

/// An article in a feed.
#[derive(Debug)]
pub struct FeedEntry<'a> {
    /// Overview row of the article.
    pub row: &'a ThreadRow,
    /// Beginning of the article's text; empty if there is none.
    pub summary: &'a str,
}

/// Parameters of a feed.
#[derive(Debug)]
pub struct AtomFeed<'a> {
    /// Title of the feed.
    pub title: &'a str,
    /// Address of the site, such as `https://news.example.org`, without a slash at the end.
    pub site: &'a str,
    /// Name of the site, which is part of the feed's identifier, by whatever address the site is reached.
    pub authority: &'a str,
    /// Path of the corresponding page.
    pub page: &'a str,
    /// Path of the feed itself.
    pub path: &'a str,
}

/// Returns an Atom feed of these articles.
pub fn atom(feed: &AtomFeed<'_>, entries: &[FeedEntry<'_>]) -> String {
    let newest = entries.iter().filter_map(|entry| entry.row.date).max().unwrap_or(0);
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n",
    );
    let site = feed.site;
    element("title", feed.title, &mut out);
    element("id", &format!("tag:{},2026:{}", feed.authority, feed.page), &mut out);
    element("updated", &rfc3339(newest), &mut out);
    link("self", &format!("{site}{}", feed.path), &mut out);
    link("alternate", &format!("{site}{}", feed.page), &mut out);
    for FeedEntry { row, summary } in entries {
        let place = format!("{site}{}", urls::article(&row.message_id));
        out.push_str("<entry>\n");
        element("title", if row.subject.is_empty() { "(no subject)" } else { &row.subject }, &mut out);
        element("id", &urls::news(&row.message_id), &mut out);
        // Atom requires a time, if need be another's.
        element("updated", &rfc3339(row.date.unwrap_or(newest)), &mut out);
        link("alternate", &place, &mut out);
        out.push_str("<author>");
        element(
            "name",
            Some(header::author(&row.from)).filter(|name| !name.is_empty()).unwrap_or("?"),
            &mut out,
        );
        out.push_str("</author>\n");
        if !summary.is_empty() {
            out.push_str("<summary type=\"text\">");
            escaped(summary, &mut out);
            out.push_str("</summary>\n");
        }
        out.push_str("</entry>\n");
    }
    out.push_str("</feed>\n");
    out
}

fn element(name: &str, text: &str, out: &mut String) {
    out.push_str(&format!("<{name}>"));
    escaped(text, out);
    out.push_str(&format!("</{name}>\n"));
}

fn link(relation: &str, place: &str, out: &mut String) {
    out.push_str(&format!("<link rel=\"{relation}\" href=\""));
    escaped(place, out);
    out.push_str("\"/>\n");
}

/// Appends text in XML; characters that XML does not allow are replaced.
fn escaped(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// Formats a time like `2026-11-21T01:24:41Z`.
pub fn rfc3339(secs: i64) -> String {
    let digits = date::format_nntp(secs);
    let part = |from: usize, to: usize| {
        String::from_utf8_lossy(digits.get(from..to).unwrap_or_default()).into_owned()
    };
    format!("{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12), part(12, 14))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feed_is_valid_xml_for_any_articles() {
        let row = ThreadRow {
            subject: "</title><script>&\u{1}".into(),
            from: "\"<b>\" <a@b>".into(),
            message_id: "<a\"b@c>".into(),
            date: Some(1),
            ..ThreadRow::default()
        };
        let feed = AtomFeed {
            title: "a.b",
            site: "https://x.example",
            authority: "x.example",
            page: "/groups/a.b",
            path: "/groups/a.b/atom",
        };
        let xml = atom(&feed, &[FeedEntry { row: &row, summary: "]]><x/>" }]);
        assert!(xml.contains("<title>&lt;/title&gt;&lt;script&gt;&amp;\u{fffd}</title>"));
        assert!(xml.contains("<id>news:a%22b@c</id>"));
        assert!(xml.contains("<id>tag:x.example,2026:/groups/a.b</id>"));
        assert!(xml.contains("<updated>1970-01-01T00:00:01Z</updated>"));
        assert!(xml.contains("<summary type=\"text\">]]&gt;&lt;x/&gt;</summary>"));
        assert_eq!(xml.matches('<').count(), xml.matches('>').count());
    }
}
