//! Tests of the decoding of charsets.

use super::*;
use proptest::prelude::*;

#[test]
fn one_bad_octet_does_not_change_the_charset() {
    let with = |bad: &[u8]| ["Gr\u{fc}\u{df}e ".as_bytes(), bad, b" aus K\xc3\xb6ln\n"].concat();
    for declared in [Some("utf-8"), Some("UTF8"), Some("us-ascii"), Some("x-unknown"), None] {
        for (bad, shown) in [(&b"\xff"[..], "\u{fffd}"), (b"\xc3", "\u{fffd}"), (b"\xe2\x82", "\u{fffd}")] {
            let expected = format!("Gr\u{fc}\u{df}e {shown} aus K\u{f6}ln\n");
            assert_eq!(decode(declared, &with(bad)), expected, "{declared:?} {bad:?}");
        }
        assert!(is_utf_8(&with(b"\xff")));
    }
    // As many bad as good: the declaration decides.
    let even = b"\xc3\xbc \xfc";
    assert_eq!(decode(Some("utf-8"), even), "\u{fc} \u{fffd}");
    assert_eq!(decode(None, even), "\u{c3}\u{bc} \u{fc}");
}

#[test]
fn what_is_mostly_not_utf_8_is_windows_1252() {
    for declared in [Some("utf-8"), None] {
        for (octets, expected) in [
            (&b"Gr\xfc\xdfe"[..], "Gr\u{fc}\u{df}e"),
            (b"caf\xe9", "caf\u{e9}"),
            (b"d\xe9j\xe0 vu \xc3\xa9", "d\u{e9}j\u{e0} vu \u{c3}\u{a9}"),
            (b"\x80 \x81", "\u{20ac} \u{fffd}"),
        ] {
            assert_eq!(decode(declared, octets), expected, "{declared:?} {octets:?}");
            assert!(!is_utf_8(octets));
        }
    }
    // Latin 1 by declaration is not outvoted.
    assert_eq!(decode(Some("iso-8859-1"), b"\xc3\xbc\xc3\xbc \xfc"), "\u{c3}\u{bc}\u{c3}\u{bc} \u{fc}");
}

#[test]
fn a_character_that_is_cut_off_is_dropped() {
    assert_eq!(guess(b"\xc3\xa9t\xc3"), "\u{e9}t");
    assert_eq!(decode(Some("utf-8"), b"\xff\xc3\xa9t\xe2\x82"), "\u{fffd}\u{e9}t");
}

#[test]
fn iso_2022_jp_is_read_leniently() {
    for label in [
        "iso-2022-jp",
        "ISO-2022-JP-MS",
        "iso-2022-jp-2",
        "iso-2022-jp-3",
        "CP50221",
        "cp50220",
        "cp50222",
        "csISO2022JP",
        "x-windows-50221",
        "x-windows-iso2022jp",
    ] {
        for (octets, expected) in [
            (&b"\x1b$B$\"\x1b(B."[..], "\u{3042}."),
            // Escapes one after the other.
            (b"\x1b(B\x1b$B\x1b(B\x1b$B$\"\x1b(B\x1b$B$$\x1b(B\x1b(B!", "\u{3042}\u{3044}!"),
            (b"\x1b$@$\"\x1b(J\\~\x1b(B\\", "\u{3042}\u{a5}\u{203e}\\"),
            (b"\x1b$B$\"\r\nplain\r\n", "\u{3042}\r\nplain\r\n"),
            // Half-width katakana, in the three forms.
            (b"\x1b(I1\x1b(B \x0e1\x0f \xb1", "\u{ff71} \u{ff71} \u{ff71}"),
            // NEC's characters, JIS X 0212, a set of JIS X 0213, an announcer.
            (b"\x1b$B-!\x1b(B", "\u{2460}"),
            (b"\x1b$(D0!\x1b(B", "\u{4e02}"),
            (b"\x1b$(Q$\"\x1b(B\x1b&@\x1b$B$\"", "\u{3042}\u{3042}"),
            (b"\x1b$A0!\x1b$(C0!\x1b(B", "\u{554a}\u{ac00}"),
            (b"\x1b$B$\x1b(Bx", "\u{fffd}x"),
            (b"\x1b[2J\x1b", "\u{1b}[2J\u{1b}"),
            ("\u{3042}".as_bytes(), "\u{3042}"),
        ] {
            assert_eq!(decode(Some(label), octets), expected, "{label} {octets:?}");
        }
        assert!(has_shifts(label));
    }
    assert_eq!(guess(b"fj: \x1b$B$\"\x1b(B"), "fj: \u{3042}");
    assert_eq!(guess(b"\x1b[2J"), "\u{1b}[2J");
    assert!(!has_shifts("utf-8") && !has_shifts("euc-jp"));
}

#[test]
fn korean_and_chinese_with_shifts_are_read() {
    for (label, octets, expected) in [
        ("iso-2022-kr", &b"\x1b$)C\x0e0!\x0f a\n\x0e0!\nb"[..], "\u{ac00} a\n\u{ac00}\nb"),
        ("ISO-2022-KR", b"\xb0\xa1", "\u{ac00}"),
        ("iso-2022-cn", b"\x1b$)A\x0e0!\x0fx", "\u{554a}x"),
        ("iso-2022-cn-ext", b"\x1b$)G\x0e0!\x0fx\x1b$*H\x1bN!!", "\u{fffd}x\u{fffd}"),
        ("hz-gb-2312", b"a~{0!~}~~b~\nc\n~{0!\nd", "a\u{554a}~bc\n\u{554a}\nd"),
        ("HZ", b"~x ~{0", "~x \u{fffd}"),
    ] {
        assert_eq!(decode(Some(label), octets), expected, "{label} {octets:?}");
    }
}

#[test]
fn forms_of_unicode_are_read() {
    for (label, octets, expected) in [
        ("utf-7", &b"Gr+APw-n +- 1+1=2 C++ x+2D3eAA-."[..], "Gr\u{fc}n + 1+1=2 C++ x\u{1f600}."),
        ("unicode-1-1-utf-7", b"+ZeVnLIqe", "\u{65e5}\u{672c}\u{8a9e}"),
        ("utf-7", "\u{fc}".as_bytes(), "\u{fc}"),
        ("utf-16", b"\xfe\xff\0a", "\u{feff}a"),
        ("utf-16", b"\xff\xfea\0", "\u{feff}a"),
        ("utf-16le", b"\xfe\xff\0a", "\u{feff}a"),
        ("utf-16", b"\0a\0b", "ab"),
        ("utf-16", b"a\0b\0", "ab"),
        ("utf-16", b"\x4e\x2d\x65\x87", "\u{4e2d}\u{6587}"),
        ("utf-16", b"it is not\r\n", "it is not\r\n"),
        ("ucs-2", b"\0a\0", "a"),
        ("utf-16be", b"\0a", "a"),
        ("iso-10646-ucs-2", b"\0a", "a"),
        ("utf-32", b"\0\0\0a\0\x01\xf6\0", "a\u{1f600}"),
        ("UTF-32", b"a\0\0\0", "a"),
        ("utf-32be", b"\0\0\0a\0\x11\0\0", "a\u{fffd}"),
        ("utf-32le", b"a\0\0\0b", "a"),
    ] {
        assert_eq!(decode(Some(label), octets), expected, "{label} {octets:?}");
    }
}

#[test]
fn code_pages_are_read() {
    for (label, octets, expected) in [
        ("cp437", &b"Gr\x81\xe1e \xc9\xcd"[..], "Gr\u{fc}\u{df}e \u{2554}\u{2550}"),
        ("IBM437", b"\x81", "\u{fc}"),
        ("cspc8codepage437", b"\x81", "\u{fc}"),
        ("ibm850", b"\x81", "\u{fc}"),
        ("IBM00858", b"\xd5", "\u{20ac}"),
        ("csPC850Multilingual", b"\x81", "\u{fc}"),
        ("cp866", b"\x8f", "\u{41f}"),
        ("cp852", b"\xa5", "\u{105}"),
        ("cp857", b"\x8d\xe7", "\u{131}\u{fffd}"),
        ("cp1251", b"\xcf", "\u{41f}"),
        ("cp936", b"\xc4\xe3", "\u{4f60}"),
        ("cp65001", b"\xc3\xbc", "\u{fc}"),
        ("viscii", b"Vi\xaet Nam \x02", "Vi\u{1ec7}t Nam \u{1eb2}"),
        // Without a table: ASCII, and no characters of other charsets.
        ("armscii-8", b"a\xb2\xb3\n", "a\u{fffd}\u{fffd}\n"),
        ("cp1047", b"\xc3\xbc", "\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(decode(Some(label), octets), expected, "{label} {octets:?}");
    }
    assert_eq!(VISCII.chars().count(), 128);
}

proptest! {
    #[test]
    fn any_octets_are_decoded_to_a_bounded_text(
        label in prop::sample::select(vec![
            "iso-2022-jp", "iso-2022-kr", "iso-2022-cn", "hz", "utf-7", "utf-16", "utf-32", "cp437", "cp864",
            "viscii", "utf-8", "armscii-8", "gb18030", "", "big5",
        ]),
        octets in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(b"\x1b$()ABCDINJ@\x0e\x0f~{}+-&.*!0".to_vec()),
        ], 0..200),
    ) {
        prop_assert!(decode(Some(label), &octets).len() <= 3 * octets.len());
        if octets.is_ascii() && !octets.contains(&0x1b) {
            prop_assert_eq!(guess(&octets).into_bytes(), octets.clone());
        }
    }
}
