//! Checks that a page is safe, whatever it was made of: it has known elements and attributes only, and its
//! links lead to the site or are plain ones of the web. Used by the tests of hostile articles and by the fuzz
//! target.

/// Elements of our pages.
const ELEMENTS: &[&str] = &[
    "a",
    "article",
    "b",
    "bdi",
    "blockquote",
    "br",
    "button",
    "code",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "form",
    "h1",
    "h2",
    "h3",
    "hr",
    "img",
    "input",
    "label",
    "li",
    "mark",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "span",
    "strong",
    "summary",
    "time",
    "ul",
];
/// Elements without an end.
const EMPTY: &[&str] = &["br", "hr", "img", "input"];
/// Their attributes.
const ATTRIBUTES: &[&str] = &[
    "action",
    "alt",
    "aria-describedby",
    "aria-label",
    "aria-labelledby",
    "class",
    "dir",
    "download",
    "for",
    "href",
    "id",
    "loading",
    "maxlength",
    "method",
    "name",
    "placeholder",
    "rel",
    "role",
    "src",
    "type",
    "value",
];

/// Panics unless the page is safe; returns its text.
pub fn assert_safe(page: &str) -> String {
    let (mut rest, mut text, mut open) = (page, String::new(), Vec::new());
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        let end = tag_end(&rest[at..]);
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "elements are closed in order");
            continue;
        }
        let name = tag.split(' ').next().unwrap_or_default();
        assert!(ELEMENTS.contains(&name), "<{tag}>");
        if !EMPTY.contains(&name) {
            open.push(name);
        }
        let more = &tag[name.len()..];
        attributes(if name == "details" { more.strip_suffix(" open").unwrap_or(more) } else { more });
    }
    assert!(open.is_empty(), "{open:?}");
    text.push_str(rest);
    assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "no control characters");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Where a tag ends, outside of quoted values.
fn tag_end(tag: &str) -> usize {
    let mut quoted = false;
    for (at, b) in tag.bytes().enumerate() {
        quoted ^= b == b'"';
        if b == b'>' && !quoted {
            return at;
        }
    }
    panic!("a tag that does not end: {tag}");
}

fn attributes(text: &str) {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) =
            rest.split_once("=\"").unwrap_or_else(|| panic!("an attribute without value: {rest}"));
        let (value, after) =
            after.split_once('"').unwrap_or_else(|| panic!("a value that does not end: {after}"));
        assert!(ATTRIBUTES.contains(&name.trim()), "{name}");
        assert!(!value.contains(['<', '>']), "{value}");
        if name.trim() == "src" {
            // A picture is one of the article's own files, and shown on demand.
            assert!(value.starts_with("/article/") && value.ends_with("?show=1"), "{value}");
        }
        if ["href", "action"].contains(&name.trim()) {
            let allowed = ["/", "#a", "http://", "https://", "ftp://"]
                .iter()
                .any(|begin| value.get(..begin.len()).is_some_and(|found| found.eq_ignore_ascii_case(begin)));
            assert!(allowed && !value.starts_with("//"), "{value}");
        }
        rest = after.trim_start();
    }
}
