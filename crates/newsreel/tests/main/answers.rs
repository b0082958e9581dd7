//! Checks whether a server's output consists of well-formed responses, judged by their codes (RFC 3977
//! section 3.2). Used by the tests with random sessions and by the fuzz target for whole sessions.

use std::fmt;

/// A line that is not part of a response.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedAnswer(String);

impl fmt::Display for MalformedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no answer", self.0)
    }
}

impl std::error::Error for MalformedAnswer {}

/// Checks that the output consists of status lines, and blocks after codes that have one. The last line may
/// be incomplete, and everything after the start of TLS or compression is ignored.
pub fn well_formed(answers: &str) -> Result<(), MalformedAnswer> {
    let mut block = false;
    let mut numbers = false;
    let mut lines: Vec<&str> = answers.split("\r\n").collect();
    lines.pop();
    for line in lines {
        let text = line.as_bytes();
        let status = matches!(text, [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9', b' ', ..]);
        if block {
            block = line != ".";
        } else if status {
            let code = &line[..3];
            if matches!(code, "206" | "382") {
                return Ok(());
            }
            block = matches!(
                code,
                "100" | "101" | "202" | "215" | "220" | "221" | "222" | "224" | "225" | "230" | "231" | "282"
            );
            numbers = code == "211";
        } else if !(numbers && (line == "." || line.bytes().all(|octet| octet.is_ascii_digit()))) {
            return Err(MalformedAnswer(line.to_owned()));
        }
    }
    Ok(())
}
