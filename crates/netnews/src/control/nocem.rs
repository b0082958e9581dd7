//! NoCeM notices: lists of articles that an issuer advises to hide.
//!
//! A notice stands in a text that its issuer has signed; only its form is read here, with limits. Comments
//! and unknown headers are ignored. Called by `operators::group_control`. Sources: the NoCeM form
//! of version 0.9 (its grammar, and INN's `perl-nocem`).

use crate::message_id::MessageId;
use std::fmt;

/// Maximum number of articles of a notice.
pub const LISTED_MAX: usize = 20_000;
/// Maximum number of groups kept for one of them.
const GROUPS_MAX: usize = 100;
/// The longest value of a header, in bytes.
const VALUE_BYTES_MAX: usize = 200;

const HEADERS: &str = "@@BEGIN NCM HEADERS";
const BODY: &str = "@@BEGIN NCM BODY";
const END: &str = "@@END NCM BODY";

/// Action that a notice asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeAction {
    /// To hide articles.
    Hide,
    /// To show articles that the same issuer had hidden.
    Show,
}

/// A notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NocemNotice<'a> {
    /// Issuer of the notice, usually an address.
    pub issuer: &'a str,
    /// Reason, in a word of the issuer's.
    pub kind: &'a str,
    /// Requested action.
    pub action: NoticeAction,
    /// Identifier of the notice among those of its issuer.
    pub id: &'a str,
    /// The articles.
    pub listed: Vec<ListedArticle<'a>>,
}

/// An article in a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedArticle<'a> {
    /// Message-ID of the article.
    pub id: MessageId<'a>,
    /// Groups of the article, as stated by the issuer.
    pub groups: Vec<&'a str>,
}

/// Reasons why a text is not a readable notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeError {
    /// The text contains no notice.
    Absent,
    /// There is more than one, or its delimiters are out of order.
    Several,
    /// The notice has no end.
    Endless,
    /// The text is not valid UTF-8.
    NotText,
    /// This header is missing, present twice, too long, or has control characters.
    Header(&'static str),
    /// The version is none of 0.9 and 0.90 to 0.99.
    Version,
    /// The action is neither to hide nor to show articles.
    Action,
    /// The notice lists nothing.
    Empty,
    /// The notice lists more than [`LISTED_MAX`] articles.
    TooLong,
}

impl fmt::Display for NoticeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "there is no notice in what is signed",
            Self::Several => "it has more than one notice, or its parts are out of order",
            Self::Endless => "the notice has no end",
            Self::NotText => "the notice is not text",
            Self::Header(name) => return write!(f, "its header {name} is missing or malformed"),
            Self::Version => "its version is not 0.9",
            Self::Action => "its action is neither hide nor show",
            Self::Empty => "it lists no articles",
            Self::TooLong => return write!(f, "it lists more than {LISTED_MAX} articles"),
        })
    }
}

impl<'a> NocemNotice<'a> {
    /// Reads the one notice in a text whose lines end in LF.
    pub fn of(text: &'a [u8]) -> Result<Self, NoticeError> {
        let text = std::str::from_utf8(text).map_err(|_| NoticeError::NotText)?;
        let mut lines = text.lines().map(|line| line.trim_end_matches([' ', '\t', '\r']));
        let begins = |line: &&str| line.starts_with("@@");
        if lines.by_ref().find(begins).ok_or(NoticeError::Absent)? != HEADERS {
            return Err(NoticeError::Several);
        }
        let headers: Vec<&str> = lines.by_ref().take_while(|line| *line != BODY).collect();
        let mut body = NoticeBody::default();
        loop {
            match lines.next() {
                None => return Err(NoticeError::Endless),
                Some(END) => break,
                Some(line) if line.starts_with("@@") => return Err(NoticeError::Several),
                Some(line) => body.add(line)?,
            }
        }
        if lines.any(|line| line.starts_with("@@")) || headers.iter().any(begins) {
            return Err(NoticeError::Several);
        }
        let mut listed = body.listed;
        listed.retain(|listed| !listed.groups.is_empty());
        let value = |name, others: &[&str]| header(&headers, name, others);
        if !is_known(value("Version", &[])?) {
            return Err(NoticeError::Version);
        }
        let action = match value("Action", &[])?.to_ascii_lowercase().as_str() {
            "hide" => NoticeAction::Hide,
            "show" | "unhide" => NoticeAction::Show,
            _ => return Err(NoticeError::Action),
        };
        let (issuer, kind) = (value("Issuer", &[])?, value("Type", &[])?);
        let id = value("Notice-ID", &["NoticeID"])?;
        if listed.is_empty() {
            return Err(NoticeError::Empty);
        }
        Ok(Self { issuer, kind, action, id, listed })
    }
}

/// State of reading a notice's body.
#[derive(Default)]
struct NoticeBody<'a> {
    listed: Vec<ListedArticle<'a>>,
    /// Lines that begin with a blank belong to no article.
    is_skipping: bool,
}

impl<'a> NoticeBody<'a> {
    /// Adds the articles and groups of a line.
    fn add(&mut self, line: &'a str) -> Result<(), NoticeError> {
        if line.starts_with('#') || line.is_empty() {
            return Ok(());
        }
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        if !line.starts_with([' ', '\t']) {
            let id = words.next().and_then(|id| MessageId::parse(id.as_bytes()));
            self.is_skipping = id.is_none();
            if self.listed.len() >= LISTED_MAX {
                return Err(NoticeError::TooLong);
            }
            self.listed.extend(id.map(|id| ListedArticle { id, groups: Vec::new() }));
        }
        if let Some(last) = self.listed.last_mut().filter(|_| !self.is_skipping) {
            let room = GROUPS_MAX - last.groups.len();
            last.groups.extend(words.take(room));
        }
        Ok(())
    }
}

/// Returns the value of a header, by one of its names.
fn header<'a>(lines: &[&'a str], name: &'static str, others: &[&str]) -> Result<&'a str, NoticeError> {
    let mut values = lines.iter().filter_map(|line| {
        let (own, value) = line.split_once(':')?;
        let own = own.trim_end();
        let is_it = own.eq_ignore_ascii_case(name) || others.iter().any(|o| own.eq_ignore_ascii_case(o));
        is_it.then(|| value.trim())
    });
    let value = values.next().filter(|value| !value.is_empty() && value.len() <= VALUE_BYTES_MAX);
    match (value, values.next()) {
        (Some(value), None) if !value.chars().any(char::is_control) => Ok(value),
        _ => Err(NoticeError::Header(name)),
    }
}

/// Returns whether a version is 0.9, or 0.90 to 0.99.
fn is_known(version: &str) -> bool {
    let rest = version.strip_prefix("0.9").unwrap_or("more");
    rest.len() < 2 && rest.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTICE: &str = "A comment\n\n@@BEGIN NCM HEADERS\nVersion: 0.93\nIssuer: bot@x.example\n\
        Type: spam\nAction: hide\nCount: 3\nNotice-ID: 2026-11.7\nHierarchies: comp\n@@BEGIN NCM BODY\n\
        # a comment <no@x> comp.test\n<1@x>\tcomp.a\n<2@x> comp.a comp.b\n\tcomp.c,comp.d \n \n\
        <3@x>\n\tcomp.e\n@@END NCM BODY\n\nbye\n";

    fn read(text: &str) -> Result<NocemNotice<'_>, NoticeError> {
        NocemNotice::of(text.as_bytes())
    }

    #[test]
    fn a_notice_lists_articles_with_their_groups() {
        let notice = read(NOTICE).unwrap();
        assert_eq!((notice.issuer, notice.kind, notice.id), ("bot@x.example", "spam", "2026-11.7"));
        assert_eq!(notice.action, NoticeAction::Hide);
        let listed: Vec<(&[u8], usize)> =
            notice.listed.iter().map(|listed| (listed.id.as_bytes(), listed.groups.len())).collect();
        assert_eq!(listed, [(&b"<1@x>"[..], 1), (b"<2@x>", 4), (b"<3@x>", 1)]);
        assert_eq!(notice.listed[1].groups, ["comp.a", "comp.b", "comp.c", "comp.d"]);
        for (from, to, action) in [
            ("Action: hide", "action : SHOW", NoticeAction::Show),
            ("Action: hide", "Action: unhide", NoticeAction::Show),
            ("Version: 0.93", "Version: 0.9", NoticeAction::Hide),
            ("Notice-ID", "NoticeID", NoticeAction::Hide),
        ] {
            assert_eq!(read(&NOTICE.replace(from, to)).unwrap().action, action, "{to}");
        }
        // Groups after an invalid Message-ID do not belong to the article before; articles without groups are
        // not listed.
        let strange = NOTICE.replace("<2@x>", "2@x").replace("\tcomp.e", "");
        assert_eq!(read(&strange).unwrap().listed.len(), 1);
        assert_eq!(read(&strange).unwrap().listed[0].groups, ["comp.a"]);
    }

    #[test]
    fn notice_not_in_the_form_is_rejected() {
        for (from, to, why) in [
            ("@@BEGIN NCM HEADERS", "BEGIN NCM HEADERS", NoticeError::Several),
            ("@@BEGIN NCM BODY", "BEGIN NCM BODY", NoticeError::Endless),
            ("@@END NCM BODY", "END NCM BODY", NoticeError::Endless),
            ("@@END NCM BODY", "@@BEGIN NCM BODY", NoticeError::Several),
            ("bye", "@@BEGIN NCM HEADERS", NoticeError::Several),
            ("Version: 0.93\n", "", NoticeError::Header("Version")),
            ("Version: 0.93", "Version: 1.0", NoticeError::Version),
            ("Version: 0.93", "Version: 0.931", NoticeError::Version),
            ("Action: hide", "Action: none", NoticeError::Action),
            ("Action: hide", "Action: hide\nAction: show", NoticeError::Header("Action")),
            ("Issuer: bot@x.example", "Issuer: ", NoticeError::Header("Issuer")),
            ("Issuer: bot@x.example", "Issuer: a\u{1b}b", NoticeError::Header("Issuer")),
            ("Type: spam\n", "", NoticeError::Header("Type")),
            ("Notice-ID: 2026-11.7", "Notice-ID: a\nNoticeID: b", NoticeError::Header("Notice-ID")),
        ] {
            assert_eq!(read(&NOTICE.replace(from, to)), Err(why), "{to}");
        }
        assert_eq!(read("text"), Err(NoticeError::Absent));
        assert_eq!(NocemNotice::of(b"@@BEGIN NCM HEADERS\n\xff"), Err(NoticeError::NotText));
        assert_eq!(read(&NOTICE.replace(".a", "").replace('<', "")), Err(NoticeError::Empty));
        let long = "<1@x> a\n".repeat(LISTED_MAX + 1);
        assert_eq!(read(&NOTICE.replace("<1@x>\tcomp.a\n", &long)), Err(NoticeError::TooLong));
        let wide = NOTICE.replace("\tcomp.a", &format!("\tcomp.a{}", " x".repeat(1_000)));
        assert_eq!(read(&wide).unwrap().listed[0].groups.len(), GROUPS_MAX);
    }

    #[test]
    fn truncated_or_damaged_notices_do_not_panic() {
        for len in 0..NOTICE.len() {
            assert!(NocemNotice::of(&NOTICE.as_bytes()[..len]).is_err() || NOTICE[len..].len() < 7);
            for bit in 0..8 {
                let mut changed = NOTICE.as_bytes().to_vec();
                changed[len] ^= 1 << bit;
                let listed = NocemNotice::of(&changed).map_or(0, |notice| notice.listed.len());
                assert!(listed <= 4);
            }
        }
    }
}
