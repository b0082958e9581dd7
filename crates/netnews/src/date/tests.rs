//! Tests of dates: the forms found in articles, rejected values, and round trips of written dates.

use super::*;
use proptest::prelude::*;

/// 16 April 1993, 14:05:29 UTC.
const NOW: i64 = 734_969_129;

/// Forms that all mean `NOW`.
const SAME: &[&str] = &[
    "Fri, 16 Apr 1993 14:05:29 +0000",
    "Fri, 16 Apr 1993 14:05:29 GMT",
    "Fri, 16 Apr 1993 14:05:29 UT",
    "Fri, 16 Apr 1993 14:05:29 UTC",
    "Fri, 16 Apr 1993 14:05:29 Z",
    "Fri, 16 Apr 1993 14:05:29 -0000",
    "Fri, 16 Apr 1993 14:05:29",
    "Fri, 16 Apr 93 14:05:29 GMT",
    "Friday, 16 Apr 1993 14:05:29 GMT",
    "Friday, 16-Apr-93 14:05:29 GMT",
    "16 Apr 93 14:05:29 GMT",
    "16 APR 93 14:05:29 GMT",
    "16 april 1993 14:05:29 gmt",
    "16-Apr-1993 14:05:29",
    "16-Apr-93 14:05:29 GMT",
    "Mon, 16 Apr 1993 14:05:29 GMT",
    "Fri,16 Apr 1993 14:05:29 GMT",
    "Fri 16 Apr 1993 14:05:29 GMT",
    "  Fri,  16  Apr  1993  14:05:29   GMT  ",
    "Fri, 16 Apr 1993\r\n\t14:05:29 GMT",
    "Fri, 16 Apr 93 10:05:29 EDT(-0400)",
    "Fri, 16 Apr 1993 14:05:29 GMT (Greenwich (mean) time)",
    "(posted) Fri, 16 Apr 1993 14:05:29 GMT",
    "Fri, 16 Apr 1993 14:05:29 +0000 (no end",
    "Fri, 16 Apr 1993 15:05:29 +0100",
    "Fri, 16 Apr 1993 15:05:29 +0100 (MET)",
    "Fri, 16 Apr 1993 16:05:29 +02",
    "Fri, 16 Apr 1993 16:05:29 +02:00",
    "Fri, 16 Apr 1993 16:05:29 +200",
    "Fri, 16 Apr 1993 16:05:29 +2",
    "Fri, 16 Apr 1993 19:35:29 +0530",
    "Fri, 16 Apr 1993 19:35:29 IST",
    "Fri, 16 Apr 1993 10:05:29 -0400",
    "Fri, 16 Apr 1993 10:05:29 EDT",
    "Fri, 16 Apr 1993 09:05:29 EST",
    "Fri, 16 Apr 1993 09:05:29 CDT",
    "Fri, 16 Apr 1993 08:05:29 CST",
    "Fri, 16 Apr 1993 08:05:29 MDT",
    "Fri, 16 Apr 1993 07:05:29 MST",
    "Fri, 16 Apr 1993 07:05:29 PDT",
    "Fri, 16 Apr 1993 06:05:29  PST",
    "Sat, 17 Apr 93 02:05:29 NZST",
    "Fri, 16 Apr 1993 16:05:29 MET DST",
    "Fri, 16 Apr 1993 16:05:29 METDST",
    "Fri, 16 Apr 1993 15:05:29 BST",
    "Fri, 16 Apr 1993 23:05:29 JST",
    "Fri, 16 Apr 1993 10:05:29 -0400 EDT",
    "Fri, 16 Apr 1993 10:05:29 EDT -0400",
    "Fri, 16 Apr 1993 16:05:29 GMT+2",
    "Fri, 16 Apr 1993 16:05:29 GMT+0200",
    "Fri, 16 Apr 1993 09:05:29 EST5EDT",
    "Fri, 16 Apr 1993 14:05:29 XYZ",
    "Fri, 16 Apr 1993 14:05:29 A",
    "Fri Apr 16 14:05:29 1993",
    "Fri Apr 16 14:05:29 GMT 1993",
    "Fri Apr 16 10:05:29 EDT 1993",
    "Fri Apr 16 14:05:29 93",
    "April 16, 1993 14:05:29",
    "Friday, April 16, 1993 2:05:29 PM",
    "Apr. 16, 1993 2:05:29pm GMT",
    "16th April 1993 14:05:29",
    "1993 Apr 16 14:05:29",
    "1993-04-16T14:05:29Z",
    "1993-04-16 14:05:29",
    "1993-04-16 10:05:29-04:00",
    "1993-04-16T14:05:29.123Z",
    "1993/04/16 14:05:29",
    "4/16/93 14:05:29",
    "04/16/1993 14:05:29 GMT",
    "16.4.1993 14:05:29",
    "Vendredi, 16 Apr 1993 14:05:29 GMT",
    "14:05:29 16 Apr 1993",
];

#[test]
fn forms() {
    for text in SAME {
        assert_eq!(parse(text.as_bytes()), Some(NOW), "{text}");
    }
    assert!(SAME.len() >= 60);
}

#[test]
fn parts_left_out() {
    assert_eq!(parse(b"11 May 93 05:18 PDT"), Some(737_122_680));
    assert_eq!(parse(b"16 Apr 1993"), Some(NOW - (14 * 3600 + 5 * 60 + 29)));
    assert_eq!(parse(b"Fri, 16 Apr 1993 14:05 GMT"), Some(NOW - 29));
    assert_eq!(parse(b"1 Jan 1970 00:00:00 GMT"), Some(0));
    assert_eq!(parse(b"29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
    assert_eq!(parse(b"30 Jun 1993 23:59:60 GMT"), Some(741_484_800));
    assert_eq!(parse(b"1 Jan 00 00:00:00 GMT"), Some(946_684_800));
    assert_eq!(parse(b"31 Dec 1949 23:59:59 GMT"), Some(-631_152_001));
    assert_eq!(parse(b"1 Jan 50 00:00:00 GMT"), Some(-631_152_000));
    assert_eq!(parse(b"1 Jan 103 00:00:00 GMT"), parse(b"1 Jan 2003 00:00:00 GMT"));
}

#[test]
fn refused() {
    for text in [
        "",
        "yesterday",
        "Fri",
        "Apr 1993",
        "16 Apr",
        "14:05:29",
        "1993",
        "31 Apr 1993 14:05:29 GMT",
        "29 Feb 1993 14:05:29 GMT",
        "0 Apr 1993 14:05:29 GMT",
        "32 Jan 1993 14:05:29 GMT",
        "16 Apr 1993 24:00:00 GMT",
        "16 Apr 1993 14:60:29 GMT",
        "16 Apr 1993 14:05:61 GMT",
        "16 Apr 1993 14:05: GMT",
        "16 Apr 1993 :05:29 GMT",
        "16 Apr 1993 114:05:29 GMT",
        "16 Apr 19933 14:05:29 GMT",
        "16 Apr 1993 14:05:29 +9900",
        "16 Apr 1993 14:05:29 +0175",
        "16 Apr 1993 14:05:29 15:05:29 GMT",
        "16 Apr May 1993 14:05:29 GMT",
        "16 17 Apr 1993 14:05:29 GMT",
        "16 Apr 1993 14:05:29 GMT \u{e9}",
        "1993-13-16 14:05:29",
        "13/13/93 14:05:29",
        "99999999999999999999 Apr 1993",
        "(all comment",
    ] {
        assert_eq!(parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse(&[b' '; 10_000]), None);
}

#[test]
fn written() {
    let text = |secs| {
        let mut out = Vec::new();
        format_rfc5322(secs, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(text(NOW), "Fri, 16 Apr 1993 14:05:29 +0000");
    assert_eq!(text(0), "Thu, 1 Jan 1970 00:00:00 +0000");
    assert_eq!(text(1_795_224_281), "Sat, 21 Nov 2026 01:24:41 +0000");
    assert_eq!(text(i64::MAX), "Fri, 31 Dec 9999 23:59:59 +0000");
    assert_eq!(text(i64::MIN), "Sat, 1 Jan 0000 00:00:00 +0000");
    assert_eq!(&format_nntp(NOW), b"19930416140529");
}

#[test]
fn arguments_of_newgroups() {
    let year = |date: &[u8], now: i64| {
        parse_nntp(date, b"000000", now)
            .map(|secs| str::from_utf8(&format_nntp(secs)[..4]).unwrap().to_string())
    };
    let in_2026 = 1_795_224_281;
    assert_eq!(year(b"930101", in_2026).unwrap(), "1993");
    assert_eq!(year(b"260101", in_2026).unwrap(), "2026");
    assert_eq!(year(b"261231", in_2026).unwrap(), "2026");
    assert_eq!(year(b"270101", in_2026).unwrap(), "1927");
    assert_eq!(year(b"930101", NOW).unwrap(), "1993");
    assert_eq!(year(b"000101", NOW).unwrap(), "1900");
    assert_eq!(parse_nntp(b"19930416", b"140529", in_2026), Some(NOW));
    assert_eq!(parse_nntp(b"930416", b"140529", in_2026), Some(NOW));
    for (date, time) in [
        ("930230", "000000"),
        ("931301", "000000"),
        ("930100", "000000"),
        ("9301", "000000"),
        ("930101", "240000"),
        ("930101", "0000"),
        ("93010x", "000000"),
        ("+30101", "000000"),
    ] {
        assert_eq!(parse_nntp(date.as_bytes(), time.as_bytes(), NOW), None, "{date} {time}");
    }
}

proptest! {
    #[test]
    fn written_dates_are_read_back(secs in -62_000_000_000i64..253_402_300_000) {
        let mut out = Vec::new();
        format_rfc5322(secs, &mut out);
        prop_assert_eq!(parse(&out), Some(secs));
        let digits = format_nntp(secs);
        prop_assert_eq!(parse_nntp(&digits[..8], &digits[8..], 0), Some(secs));
    }

    #[test]
    fn any_octets(value in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Some(secs) = parse(&value) {
            prop_assert!((-63_000_000_000..254_000_000_000).contains(&secs));
        }
    }
}

#[test]
fn an_article_without_a_possible_date_has_that_of_its_arrival() {
    let (now, arrived) = (2_000_000, Some(1_000_000));
    for (written, arrived, expected) in [
        (Some(0), arrived, Some(0)),
        (Some(-5), arrived, Some(-5)),
        (Some(1_000_000 + AHEAD_SECS_MAX), arrived, Some(1_000_000 + AHEAD_SECS_MAX)),
        (Some(1_000_001 + AHEAD_SECS_MAX), arrived, arrived),
        (None, arrived, arrived),
        (Some(1_500_000), None, Some(1_500_000)),
        (Some(i64::MAX), None, None),
        (None, None, None),
    ] {
        assert_eq!(of_article(written, arrived, now), expected, "{written:?} {arrived:?}");
    }
}
