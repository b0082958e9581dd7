//! Response codes and their texts.
//!
//! One table of every code this program sends, with the default text; codes decide about a client's actions,
//! texts are for people. Called by sessions. Sources: RFC 3977 appendix C, RFC 4642-4644, 8054.

use crate::decimal::append_decimal;

macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// The response codes by name.
        pub mod code {
            $(#[doc = concat!("`", stringify!($code), " ", $text, "`")] pub const $name: u16 = $code;)*
        }

        /// Every code with its text, ascending.
        pub const TABLE: &[(u16, &str)] = &[$(($code, $text)),*];
    };
}

codes! {
    HELP_FOLLOWS = 100, "Help text follows";
    CAPABILITIES_FOLLOW = 101, "Capability list follows";
    DATE = 111, "Server date and time";
    POSTING_ALLOWED = 200, "Service available, posting allowed";
    POSTING_PROHIBITED = 201, "Service available, posting prohibited";
    SLAVE_NOTED = 202, "Slave status noted";
    STREAMING_OK = 203, "Streaming permitted";
    CLOSING = 205, "Bye";
    COMPRESSION_ACTIVE = 206, "Compression active";
    GROUP_SELECTED = 211, "Group selected";
    LIST_FOLLOWS = 215, "List follows";
    ARTICLE_FOLLOWS = 220, "Article follows";
    HEAD_FOLLOWS = 221, "Headers follow";
    BODY_FOLLOWS = 222, "Body follows";
    ARTICLE_EXISTS = 223, "Article exists";
    OVERVIEW_FOLLOWS = 224, "Overview information follows";
    HDR_FOLLOWS = 225, "Headers follow";
    NEWNEWS_FOLLOWS = 230, "List of new articles follows";
    NEWGROUPS_FOLLOWS = 231, "List of new newsgroups follows";
    TRANSFERRED = 235, "Article transferred OK";
    CHECK_SEND = 238, "Send it";
    TAKETHIS_ACCEPTED = 239, "Article transferred OK";
    POSTED = 240, "Article received OK";
    HEADERS_OK = 250, "Articles may come without their bodies";
    AUTHENTICATED = 281, "Authentication accepted";
    GROUP_TITLES_FOLLOW = 282, "List of groups and descriptions follows";
    AUTHENTICATED_WITH_DATA = 283, "Authentication accepted";
    SEND_IT = 335, "Send it; end with <CR-LF>.<CR-LF>";
    SEND_BATCH = 339, "Send the batch";
    SEND_POST = 340, "Input article; end with <CR-LF>.<CR-LF>";
    PASSWORD_REQUIRED = 381, "Enter password";
    CONTINUE_TLS = 382, "Continue with TLS negotiation";
    CONTINUE_SASL = 383, "Continue with SASL exchange";
    UNAVAILABLE = 400, "Service temporarily unavailable";
    INTERNAL_FAULT = 403, "Internal fault";
    NO_SUCH_GROUP = 411, "No such newsgroup";
    NO_GROUP_SELECTED = 412, "No newsgroup selected";
    NO_CURRENT_ARTICLE = 420, "Current article number is invalid";
    NO_NEXT_ARTICLE = 421, "No next article in this group";
    NO_PREVIOUS_ARTICLE = 422, "No previous article in this group";
    NO_SUCH_NUMBER = 423, "No article with that number";
    NO_SUCH_ARTICLE = 430, "No article with that Message-ID";
    CHECK_LATER = 431, "Try again later";
    NOT_WANTED = 435, "Article not wanted";
    TRANSFER_LATER = 436, "Transfer not possible; try again later";
    TRANSFER_REJECTED = 437, "Transfer rejected; do not retry";
    CHECK_NOT_WANTED = 438, "Article not wanted";
    TAKETHIS_REJECTED = 439, "Transfer rejected; do not retry";
    POSTING_NOT_PERMITTED = 440, "Posting not permitted";
    POSTING_FAILED = 441, "Posting failed";
    AUTHENTICATION_REQUIRED = 480, "Authentication required";
    AUTHENTICATION_FAILED = 481, "Authentication failed";
    AUTHENTICATION_SEQUENCE = 482, "Authentication commands issued out of sequence";
    PRIVACY_REQUIRED = 483, "Encryption or stronger authentication required";
    UNKNOWN_COMMAND = 500, "Unknown command";
    SYNTAX_ERROR = 501, "Syntax error";
    NOT_PERMITTED = 502, "Command not permitted";
    NOT_SUPPORTED = 503, "Feature not supported";
    BAD_BASE64 = 504, "Error in base64-encoding";
    CANNOT_TLS = 580, "Can not initiate TLS negotiation";
}

/// Code of LIST EXTENSIONS in the drafts before RFC 3977, also that of SLAVE.
pub const EXTENSIONS_FOLLOW: u16 = code::SLAVE_NOTED;

/// Returns the text of `code`; empty if it is not in the table.
pub fn text(code: u16) -> &'static str {
    TABLE
        .binary_search_by_key(&code, |(code, _)| *code)
        .ok()
        .and_then(|at| TABLE.get(at))
        .map_or("", |row| row.1)
}

/// Appends `code SP text CRLF`.
pub fn append(out: &mut Vec<u8>, code: u16, text: &str) {
    append_bytes(out, code, text.as_bytes());
}

/// Appends `code SP text CRLF`, with a text that need not be UTF-8, such as the echoed argument of CHECK.
pub fn append_bytes(out: &mut Vec<u8>, code: u16, text: &[u8]) {
    append_decimal(u64::from(code), out);
    out.push(b' ');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends `code` with its text from the table.
pub fn append_standard(out: &mut Vec<u8>, code: u16) {
    append(out, code, text(code));
}

/// Returns the code at the start of a response line: three digits, then a space or the end.
pub fn parse_code(line: &[u8]) -> Option<u16> {
    let digits = line.get(..3)?;
    if line.get(3).is_some_and(|&b| b != b' ') || !matches!(digits.first(), Some(b'1'..=b'5')) {
        return None;
    }
    crate::decimal::parse_decimal(digits).and_then(|code| u16::try_from(code).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends_without_repeats() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(
            TABLE.iter().all(|(code, text)| (100..600).contains(code) && !text.is_empty() && text.is_ascii())
        );
    }

    #[test]
    fn lines() {
        let mut out = Vec::new();
        append_standard(&mut out, code::NO_GROUP_SELECTED);
        append(&mut out, 211, "3 1 3 a.b");
        append_bytes(&mut out, code::CHECK_NOT_WANTED, b"<\xff>");
        assert_eq!(out, b"412 No newsgroup selected\r\n211 3 1 3 a.b\r\n438 <\xff>\r\n");
    }

    #[test]
    fn codes_of_lines() {
        assert_eq!(parse_code(b"200 hello"), Some(200));
        assert_eq!(parse_code(b"335"), Some(335));
        for bad in [&b""[..], b"20", b"2000 x", b"200-x", b"000 x", b"600 x", b"2x0 y"] {
            assert_eq!(parse_code(bad), None);
        }
    }
}
