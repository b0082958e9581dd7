//! Paths of the pages: permanent ones by Message-ID, and those of groups.
//!
//! All links within the site are made here, and read by the web server. Source: RFC 3986 section 2.

/// Appends the octets of percent-encoded text.
pub fn unescape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    let digit =
        |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => out.push(*first),
        }
    }
}

/// Encodes text as one segment of a path, or one value of a query.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

/// Path of the list of groups.
pub const GROUPS: &str = "/groups";

/// Path of the search page.
pub const SEARCH: &str = "/search";

/// Returns the path of the groups whose names begin with this part.
pub fn hierarchy(name: &str) -> String {
    format!("{GROUPS}?in={}", escape(name))
}

/// Returns the path of a group's threads, newest first.
pub fn group(group: &str) -> String {
    format!("{GROUPS}/{}", escape(group))
}

/// Returns the path of a search.
pub fn search(query: &str) -> String {
    format!("{SEARCH}?q={}", escape(query))
}

/// Returns the path of an article by its number, which redirects to its permanent path.
pub fn number(group: &str, number: u64) -> String {
    format!("{}/{number}", self::group(group))
}

/// Returns the path of a thread of a group, named by any of its articles.
pub fn thread(group: &str, message_id: &str) -> String {
    format!("{}/thread/{}", self::group(group), bare(message_id))
}

/// Returns the path of an article, valid for as long as the article is stored.
pub fn article(message_id: &str) -> String {
    format!("/article/{}", bare(message_id))
}

/// Returns the `news:` URL of an article (RFC 5538 section 2.2).
pub fn news(message_id: &str) -> String {
    format!("news:{}", bare(message_id).replace("%40", "@"))
}

/// Returns the path of a file of an article.
pub fn file(message_id: &str, number: usize, name: &str) -> String {
    format!("{}/file/{number}/{}", article(message_id), escape(name))
}

/// Returns the Message-ID without its angle brackets, if it has them.
pub fn bare_id(message_id: &str) -> &str {
    message_id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(message_id)
}

/// Returns the Message-ID without its angle brackets, as one segment.
fn bare(message_id: &str) -> String {
    escape(bare_id(message_id))
}

/// Returns the path for a `news:` URL: of an article or a group of this site (RFC 5538 section 2.2).
pub fn of_news(url: &str) -> Option<String> {
    let rest =
        url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("news:")).and_then(|_| url.get(5..))?;
    let mut octets = Vec::new();
    unescape(rest, &mut octets);
    // A URL with `//` names another server.
    if octets.contains(&b'@') && !octets.starts_with(b"//") {
        let id = [b"<", octets.as_slice(), b">"].concat();
        return netnews::MessageId::parse(&id).map(|id| article(id.as_str()));
    }
    let name = std::str::from_utf8(&octets).ok()?;
    netnews::newsgroups::valid_name(&octets).then(|| group(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_can_contain_any_message_id() {
        assert_eq!(article("<a/b?c#d%@x.y>"), "/article/a%2Fb%3Fc%23d%25%40x.y");
        assert_eq!(thread("comp.lang.c++", "<a@b>"), "/groups/comp.lang.c%2B%2B/thread/a%40b");
        assert_eq!(file("<a@b>", 2, "x y.txt"), "/article/a%40b/file/2/x%20y.txt");
        assert_eq!(number("a.b", 7), "/groups/a.b/7");
        assert_eq!(news("<a/b@c>"), "news:a%2Fb@c");
        assert_eq!(search("a b"), "/search?q=a%20b");
        assert_eq!(hierarchy("a"), "/groups?in=a");
    }

    #[test]
    fn news_urls_lead_to_articles_and_groups_of_this_site() {
        for (url, place) in [
            ("news:a@b.c", Some("/article/a%40b.c")),
            ("NEWS:a%2Fb@c", Some("/article/a%2Fb%40c")),
            ("news:comp.lang.c", Some("/groups/comp.lang.c")),
            ("news:comp.lang.c%2B%2B", Some("/groups/comp.lang.c%2B%2B")),
            ("news://other.example/a@b", None),
            ("news:*", None),
            ("news:", None),
            ("news:a@b>x", None),
            ("news:a..b", None),
            ("javascript:a@b", None),
        ] {
            assert_eq!(of_news(url).as_deref(), place, "{url}");
        }
    }

    proptest! {
        #[test]
        fn escaped_text_is_restored(text in "\\PC{0,60}") {
            let escaped = escape(&text);
            prop_assert!(escaped.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
            let mut octets = Vec::new();
            unescape(&escaped, &mut octets);
            prop_assert_eq!(String::from_utf8(octets).unwrap(), text);
        }
    }
}
