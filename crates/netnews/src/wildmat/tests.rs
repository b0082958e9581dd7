//! Tests of wildmats: the examples of RFC 3977 section 4.4, the grammar of 4.1, and a naive model.

use super::*;
use proptest::prelude::*;

fn strict(text: &str) -> Wildmat {
    Wildmat::parse(text.as_bytes()).unwrap()
}

#[test]
fn wildmats_that_begin_differently_do_not_overlap() {
    for (one, other, may) in [
        ("comp.*", "de.*", false),
        ("comp.*,misc.test", "de.*,misc.*", true),
        ("comp.os.*", "comp.*", true),
        ("comp.os", "comp.*", true),
        ("comp.os", "comp.os.linux", false),
        ("comp.os", "comp.os", true),
        ("comp", "comp.*", false),
        ("*.test", "de.*", true),
        ("*", "de.x", true),
        ("de.?lt.*", "de.al", true),
        ("de.?lt.*", "da.*", false),
        ("de.*,!*", "de.*", true),
        ("!de.*", "de.*", false),
    ] {
        assert_eq!(strict(one).may_overlap(&strict(other)), may, "{one} {other}");
        assert_eq!(strict(other).may_overlap(&strict(one)), may, "{other} {one}");
    }
}

fn check(wildmat: &Wildmat, yes: &[&str], no: &[&str]) {
    for text in yes {
        assert!(wildmat.matches(text.as_bytes()), "{wildmat:?} must match {text:?}");
    }
    for text in no {
        assert!(!wildmat.matches(text.as_bytes()), "{wildmat:?} must not match {text:?}");
    }
}

#[test]
fn examples_of_the_rfc() {
    check(&strict("abc"), &["abc"], &["", "ab", "abcd", "xabc", "ABC"]);
    check(&strict("abc,def"), &["abc", "def"], &["abc,def", "abcdef"]);
    check(&strict("\u{a3}"), &["\u{a3}"], &["$", "\u{a3}\u{a3}"]);
    check(&strict("a*"), &["a", "ab", "aaa"], &["", "ba"]);
    check(&strict("a*b"), &["ab", "aab", "axb", "abb"], &["a", "b", "aba"]);
    check(&strict("a*,*b"), &["a", "ax", "b", "xb", "ab"], &["x", "xa", "bx"]);
    check(&strict("a*,!*b"), &["a", "ax", "aba"], &["ab", "b", "x"]);
    check(&strict("a*,!*b,c*"), &["a", "ax", "c", "cb"], &["ab", "b"]);
    check(&strict("a*,c*,!*b"), &["a", "cx"], &["ab", "cb", "b"]);
    check(&strict("?a*"), &["xa", "aab", "\u{a3}a"], &["a", "ax", "xxa"]);
    check(&strict("??a*"), &["xxa", "\u{a3}\u{20ac}ab"], &["xa", "xxxa"]);
    check(&strict("*a?"), &["ax", "xa\u{a3}", "aaa"], &["a", "axx"]);
    check(&strict("*a??"), &["axx", "xxa\u{a3}\u{10348}"], &["ax", "axxx"]);
}

#[test]
fn newsgroups() {
    let feed = strict("*,!local.*,!*.test,local.test");
    check(&feed, &["comp.lang.c++", "local.test", "test", "local"], &["local.x", "misc.test"]);
    check(&strict("*"), &["", "a.b"], &[]);
    check(&strict("**?**"), &["a", "ab"], &[""]);
    check(&strict("!a"), &[], &["a", "b"]);
}

#[test]
fn strict_grammar() {
    for (text, expected) in [
        ("", WildmatError::EmptyPattern),
        ("a,", WildmatError::EmptyPattern),
        (",a", WildmatError::EmptyPattern),
        ("a,,b", WildmatError::EmptyPattern),
        ("a,!", WildmatError::EmptyPattern),
        ("a!b", WildmatError::Reserved(b'!')),
        ("!!a", WildmatError::Reserved(b'!')),
        ("[ab]", WildmatError::Reserved(b'[')),
        ("a]", WildmatError::Reserved(b']')),
        ("a\\b", WildmatError::Reserved(b'\\')),
        ("a b", WildmatError::BadOctet),
        ("a\tb", WildmatError::BadOctet),
    ] {
        assert_eq!(Wildmat::parse(text.as_bytes()).unwrap_err(), expected, "{text}");
    }
    assert_eq!(Wildmat::parse(b"caf\xe9*").unwrap_err(), WildmatError::BadOctet);
    let long = "a".repeat(WILDMAT_BYTES_MAX);
    assert!(long.parse::<Wildmat>().unwrap().matches(long.as_bytes()));
    assert_eq!(Wildmat::parse_lenient(format!("{long}a").as_bytes()).unwrap_err(), WildmatError::TooLong);
}

#[test]
fn sets_and_escapes() {
    let lenient = |text: &str| Wildmat::parse_lenient(text.as_bytes()).unwrap();
    check(&lenient("[a-c]x"), &["ax", "cx"], &["dx", "x", "-x", "aax"]);
    check(&lenient("[^0-9]*"), &["x", "\u{a3}1"], &["1x", ""]);
    check(&lenient("[!0-9]"), &["x"], &["1"]);
    check(&lenient("[]a]"), &["]", "a"], &["b", "[]a]"]);
    check(&lenient("[^]a]"), &["b"], &["]", "a"]);
    check(&lenient("[a-]"), &["a", "-"], &["b"]);
    check(&lenient("[\u{a3}-\u{20ac}]"), &["\u{a3}", "\u{20ac}", "\u{100}"], &["a", "\u{20ad}"]);
    check(&lenient("[,]"), &[","], &["["]);
    check(&lenient("\\*\\,a"), &["*,a"], &["xa", "xx,a"]);
    check(&lenient("two words"), &["two words"], &["two"]);
    for text in ["[", "[a", "[^", "[]", "[a-", "\\", "a,b\\"] {
        assert_eq!(Wildmat::parse_lenient(text.as_bytes()).unwrap_err(), WildmatError::Unfinished, "{text}");
    }
    let octets = Wildmat::parse_lenient(b"?\xe9*").unwrap();
    assert!(octets.matches(b"f\xe9d") && octets.matches(b"\xff\xe9") && !octets.matches(b"fd"));
}

#[test]
fn many_stars_match_quickly() {
    let wildmat = strict(&"*a".repeat(200));
    let text = "a".repeat(199) + &"b".repeat(5000);
    check(&wildmat, &["a".repeat(200).as_str()], &[text.as_str()]);
}

/// Model of the match: follows the definition and tries all splits.
fn naive(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, rest) => rest.is_none(),
        (Some(('*', after)), _) => (0..=text.len()).any(|n| naive(after, &text[n..])),
        (Some(('?', after)), Some((_, rest))) => naive(after, rest),
        (Some((c, after)), Some((t, rest))) => c == t && naive(after, rest),
        (Some(_), None) => false,
    }
}

fn naive_list(patterns: &[(bool, String)], text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let mut decided = false;
    for (negated, pattern) in patterns {
        if naive(&pattern.chars().collect::<Vec<_>>(), &chars) {
            decided = !negated;
        }
    }
    decided
}

proptest! {
    #[test]
    fn same_as_naive(
        patterns in prop::collection::vec((any::<bool>(), "[ab\u{a3}?*]{1,7}"), 1..4),
        text in "[ab\u{a3}\u{20ac}]{0,8}",
    ) {
        let list: Vec<String> =
            patterns.iter().map(|(negated, p)| format!("{}{p}", if *negated { "!" } else { "" })).collect();
        let list = list.join(",");
        let expected = naive_list(&patterns, &text);
        prop_assert_eq!(Wildmat::parse(list.as_bytes()).unwrap().matches(text.as_bytes()), expected);
        prop_assert_eq!(Wildmat::parse_lenient(list.as_bytes()).unwrap().matches(text.as_bytes()), expected);
        let has = |one: &String| naive_list(&[(false, one.clone())], &text);
        let matching = patterns.iter().filter(|(negated, one)| !negated && has(one));
        let longest = matching.map(|(_, one)| one.len()).max().filter(|_| expected);
        prop_assert_eq!(Wildmat::parse(list.as_bytes()).unwrap().longest_match(text.as_bytes()), longest);
    }

    #[test]
    fn any_octets(
        wildmat in prop::collection::vec(any::<u8>(), 0..40),
        text in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        if let Ok(strict) = Wildmat::parse(&wildmat) {
            let lenient = Wildmat::parse_lenient(&wildmat).unwrap();
            prop_assert_eq!(strict.matches(&text), lenient.matches(&text));
        }
    }
}

#[test]
fn one_pattern_takes_commas_and_exclamation_marks_as_they_are() {
    let one =
        |pattern: &str, text: &str| Wildmat::parse_one(pattern.as_bytes()).unwrap().matches(text.as_bytes());
    assert!(one("Hello, *", "Hello, world"));
    assert!(!one("Hello, *", " world"));
    assert!(one("!*", "!x") && !one("!*", "x"));
    assert!(one("[a,b]x", ",x") && one("a\\*", "a*") && !one("a\\*", "ab"));
    assert!(Wildmat::parse_one(b"[a").is_err() && Wildmat::parse_one(b"").is_err());
}
