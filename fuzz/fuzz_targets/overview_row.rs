//! Overview rows: whatever the values hold, a row is one line of nine fields (RFC 3977 section 8.3.2), and of
//! one more for each further header; what is sent has what is stored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::overview_row::{
    OverviewFields, append_fields, append_headers, append_headers_of_row, append_row, append_value, arrange,
    field, further, index,
};

fn naive(value: &[u8]) -> Vec<u8> {
    let text: String = value.iter().map(|&b| char::from(b)).collect();
    text.replace("\r\n", "").replace(['\t', '\r', '\n', '\0'], " ").chars().map(|c| c as u8).collect()
}

fuzz_target!(|data: &[u8]| {
    let mut values = data.splitn(6, |&b| b == b'|');
    let mut value = || values.next().unwrap_or_default();
    let fields = OverviewFields {
        subject: value(),
        from: value(),
        date: value(),
        message_id: value(),
        references: value(),
        bytes: data.len() as u64,
        lines: u64::MAX,
    };
    let xref = value();
    let (mut text, mut row) = (Vec::new(), Vec::new());
    append_fields(&fields, &mut text);
    append_row(7, &text, xref, &mut row);

    assert_eq!(row.iter().filter(|&&b| b == b'\t').count(), if xref.is_empty() { 7 } else { 8 });
    assert!(row.ends_with(b"\r\n"));
    assert!(!row[..row.len() - 2].iter().any(|b| b"\r\n\0".contains(b)));
    assert_eq!(field(&row, index::NUMBER), Some(&b"7"[..]));
    assert_eq!(field(&row, index::LINES), Some(u64::MAX.to_string().as_bytes()));
    for (at, value) in [
        (index::SUBJECT, fields.subject),
        (index::FROM, fields.from),
        (index::DATE, fields.date),
        (index::MESSAGE_ID, fields.message_id),
        (index::REFERENCES, fields.references),
    ] {
        assert_eq!(field(&row, at), Some(&naive(value)[..]));
    }
    let mut once = Vec::new();
    append_value(xref, &mut once);
    assert_eq!(once, naive(xref));
    let mut twice = Vec::new();
    append_value(&once, &mut twice);
    assert_eq!(once, twice);

    let names = ["Keywords", "A"];
    append_headers(data, &names, &mut text);
    let (mut stored, mut sent) = (Vec::new(), Vec::new());
    append_row(7, &text, xref, &mut stored);
    arrange(&stored, &names, &mut sent);
    assert_eq!(stored.iter().filter(|&&b| b == b'\t').count(), 10);
    assert_eq!(sent.iter().filter(|&&b| b == b'\n').count(), 1);
    for name in names {
        let known = further(&stored, name.as_bytes()).expect("it is kept");
        assert_eq!(known, further(&sent, name.as_bytes()).unwrap_or_default());
    }

    for at in 0..12 {
        let _ = field(data, at);
    }
    let _ = further(data, b"A");
    arrange(data, &names, &mut sent);
    append_headers_of_row(data, &names, &mut text);
});
