//! Requirements on the headers of a proto-article, as flat lists of guards.
//!
//! Permission to post to the groups is not checked here, since that needs the active groups. Called by
//! newsreel's `inject`. Sources: RFC 5537 sections 3.4.1 and 3.5 steps 2 to 4, RFC 5536 section 3, and the
//! checks of INN's nnrpd.

use super::{InjectionError, InjectionRules, LINE_BYTES_MAX, mailbox};
use crate::article::{Article, Known, MalformedArticle, REQUIRED};
use crate::encoded_word::{EncodedWord, encoded_words};
use crate::printable::replaced;
use crate::{charset, control, date, newsgroups};

/// Maximum time of a date ahead of now, in seconds (RFC 5537 section 3.5 step 3).
const FUTURE_SECS_MAX: i64 = 86_400;
/// Maximum length of a poster's text that is echoed in an answer, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// Headers that record where an article was injected, or that would reveal the poster's other recipients.
const NOT_YOURS: &[&str] = &[
    "Injection-Info",
    "Xref",
    "NNTP-Posting-Host",
    "NNTP-Posting-Date",
    "NNTP-Posting-Path",
    "X-Trace",
    "X-Complaints-To",
    "Bcc",
];

/// Headers deprecated for Netnews (RFC 5536 section 3.3, RFC 3798).
const OBSOLETE: &[&str] = &[
    "Also-Control",
    "Article-Names",
    "Article-Updates",
    "Date-Received",
    "Posting-Version",
    "Relay-Version",
    "See-Also",
    "Disposition-Notification-To",
];

/// Headers that may occur only once, besides those that every article has.
const SINGLE: &[Known] = &[
    Known::References,
    Known::Lines,
    Known::Control,
    Known::Approved,
    Known::Distribution,
    Known::Expires,
    Known::Supersedes,
    Known::FollowupTo,
    Known::ReplyTo,
    Known::Sender,
    Known::Organization,
    Known::Keywords,
    Known::Summary,
    Known::InjectionDate,
    Known::CancelLock,
    Known::CancelKey,
    Known::Archive,
    Known::UserAgent,
    Known::MimeVersion,
    Known::ContentType,
    Known::ContentTransferEncoding,
    Known::InReplyTo,
];

/// Checks everything except the body and the right to post to the groups.
pub fn check(article: &Article<'_>, rules: &InjectionRules, now: i64) -> Result<(), InjectionError> {
    if article.wire().len() as u64 > rules.article_bytes_max {
        return Err(InjectionError::TooLarge { bytes_max: rules.article_bytes_max });
    }
    REQUIRED.into_iter().try_for_each(|known| mandatory(article, known))?;
    for &known in SINGLE {
        if article.count(known) > 1 {
            return Err(InjectionError::Malformed(MalformedArticle::Repeated(known)));
        }
    }
    article.headers().fields().try_for_each(|(name, field)| form(name, field))?;
    if article.header(Known::Path).is_some_and(says_posted) {
        return Err(InjectionError::Posted);
    }
    if article.count(Known::MessageId) > 0 && !article.message_id().is_some_and(|id| id.is_strict()) {
        return Err(InjectionError::BadMessageId);
    }
    for known in [Known::Date, Known::InjectionDate] {
        dated(article, known, rules, now)?;
    }
    if let Some(value) = article.header(Known::Expires)
        && standard_date(value, Known::Expires)? <= now
    {
        return Err(InjectionError::Expired);
    }
    for known in [Known::From, Known::Sender, Known::ReplyTo] {
        let is_valid = if known == Known::Sender { mailbox::is_sender } else { mailbox::is_mailbox_list };
        if article.header(known).is_some_and(|value| !is_valid(value)) {
            return Err(InjectionError::BadAddress(known));
        }
    }
    group_names(article, rules)?;
    let withdraws = control::withdrawal(article)?;
    if let Some(value) = article.header(Known::Control) {
        control::parse(value)?;
    }
    let subject = article.header(Known::Subject).unwrap_or_default();
    let cmsg = subject.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"cmsg "));
    if cmsg && withdraws.is_none() && article.count(Known::Control) == 0 {
        return Err(InjectionError::ControlInSubject);
    }
    Ok(())
}

/// Checks a mandatory header. Message-ID, Date and Path may be missing; those present occur once and are not
/// empty.
fn mandatory(article: &Article<'_>, known: Known) -> Result<(), InjectionError> {
    let may_be_missing = matches!(known, Known::MessageId | Known::Date | Known::Path);
    match article.count(known) {
        0 if may_be_missing => return Ok(()),
        0 => return Err(InjectionError::Malformed(MalformedArticle::Missing(known))),
        1 => {}
        _ => return Err(InjectionError::Malformed(MalformedArticle::Repeated(known))),
    }
    if article.header(known).is_none_or(|value| value.trim_ascii().is_empty()) {
        return Err(InjectionError::Malformed(MalformedArticle::Empty(known)));
    }
    Ok(())
}

/// Checks every header; `field` is everything after its colon.
fn form(name: &[u8], field: &[u8]) -> Result<(), InjectionError> {
    let named = |list: &[&'static str]| {
        list.iter().copied().find(|known| known.as_bytes().eq_ignore_ascii_case(name))
    };
    if let Some(known) = named(NOT_YOURS) {
        return Err(InjectionError::NotYours(known));
    }
    if let Some(known) = named(OBSOLETE) {
        return Err(InjectionError::Obsolete(known));
    }
    if field.trim_ascii().is_empty() {
        return Err(InjectionError::EmptyHeader(shown(name)));
    }
    if !field.starts_with(b" ") {
        return Err(InjectionError::NoSpace(shown(name)));
    }
    let Ok(text) = std::str::from_utf8(field) else { return Err(InjectionError::NotUtf8(shown(name))) };
    if text.chars().any(commands_terminals) || has_encoded_controls(text) {
        return Err(InjectionError::ControlCharacter(shown(name)));
    }
    let mut before = name.len() + b":".len();
    for line in field.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() + before > LINE_BYTES_MAX {
            return Err(InjectionError::LongHeaderLine(shown(name)));
        }
        if before == 0 && line.trim_ascii().is_empty() {
            return Err(InjectionError::BlankFold(shown(name)));
        }
        before = 0;
    }
    Ok(())
}

/// Returns whether `c` is a control character other than tab and line ends: C0, DEL and C1, which RFC 5536
/// section 2.2 excludes, and the overrides of text direction (U+202D, U+202E). A terminal that shows a header
/// with such characters can be made to show anything.
fn commands_terminals(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\r' | '\n')) || matches!(c, '\u{202d}' | '\u{202e}')
}

/// Returns whether encoded words contain such characters, or a line end, once decoded. Consecutive words of
/// one charset are decoded together, as newsreaders do.
fn has_encoded_controls(text: &str) -> bool {
    let mut words = encoded_words(text).peekable();
    while let Some(EncodedWord { charset, mut octets }) = words.next() {
        while let Some(next) = words.next_if(|next| next.charset.eq_ignore_ascii_case(charset)) {
            octets.extend(next.octets);
        }
        if decoded_controls(charset, &octets) {
            return true;
        }
    }
    false
}

/// C1 characters that begin a command of a terminal. The other C1 characters are allowed: text that is
/// labelled ISO 8859-1 is often Windows-1252, which has quotation marks and dashes there.
const STRING_STARTS: &[u8] = &[0x90, 0x98, 0x9b, 0x9d, 0x9e, 0x9f];

/// Returns whether decoded octets contain such characters. The escapes of ISO 2022 belong to the charset;
/// other multi-octet charsets have controls below 0x20 only.
fn decoded_controls(declared: &str, octets: &[u8]) -> bool {
    let is = |start: &str| declared.get(..start.len()).is_some_and(|s| s.eq_ignore_ascii_case(start));
    let shown = |c: char| c == '\t' || !(c.is_control() || commands_terminals(c));
    let all_shown =
        |units: &mut dyn Iterator<Item = u16>| char::decode_utf16(units).all(|c| c.map_or(true, shown));
    if is("utf-16") || is("ucs-2") || is("iso-10646-ucs-2") {
        // Without a byte order mark it may be read in either byte order.
        let (pairs, _) = octets.as_chunks::<2>();
        return !all_shown(&mut pairs.iter().map(|pair| u16::from_be_bytes(*pair)))
            || !all_shown(&mut pairs.iter().map(|pair| u16::from_le_bytes(*pair)));
    }
    if is("utf-32") || is("ucs-4") || is("iso-10646-ucs-4") {
        let is_shown = |c: u32| char::from_u32(c).is_none_or(shown);
        let (units, _) = octets.as_chunks::<4>();
        return !units.iter().all(|u| is_shown(u32::from_be_bytes(*u)) && is_shown(u32::from_le_bytes(*u)));
    }
    let is_line_end = |c: char| matches!(c, '\r' | '\n');
    if is("utf-7") && charset::decode(Some(declared), octets).contains(|c| !shown(c) && !is_line_end(c)) {
        return true;
    }
    let shifts: &[u8] = if is("iso-2022") || is("hz") { b"\x0e\x0f\x1b\t" } else { b"\t" };
    octets.iter().any(|b| b.is_ascii_control() && !shifts.contains(b))
        || is("iso-8859") && octets.iter().any(|b| STRING_STARTS.contains(b))
        || is("utf-8") && !String::from_utf8_lossy(octets).chars().all(shown)
}

fn dated(
    article: &Article<'_>,
    known: Known,
    rules: &InjectionRules,
    now: i64,
) -> Result<(), InjectionError> {
    let Some(value) = article.header(known) else { return Ok(()) };
    let dated = standard_date(value, known)?;
    if dated > now + FUTURE_SECS_MAX {
        return Err(InjectionError::FutureDate(known));
    }
    if let Some(age_secs_max) = rules.age_secs_max.filter(|age_secs_max| dated < now - age_secs_max) {
        return Err(InjectionError::OldDate { known, age_secs_max });
    }
    Ok(())
}

/// Returns the time of a header in the form of RFC 5322. Relaying agents may reject any other (RFC 5537
/// section 3.5 step 3), after the poster was answered that the article is received.
fn standard_date(value: &[u8], known: Known) -> Result<i64, InjectionError> {
    let time = if date::is_standard(value) { date::parse(value) } else { None };
    time.ok_or(InjectionError::BadHeader(known))
}

fn says_posted(path: &[u8]) -> bool {
    path.split(|&b| b == b'!').any(|entry| {
        let keyword = entry.trim_ascii().get(..7).unwrap_or_default();
        keyword.eq_ignore_ascii_case(b".POSTED")
    })
}

/// Checks the names in Newsgroups, and in Followup-To, which may be `poster` instead.
fn group_names(article: &Article<'_>, rules: &InjectionRules) -> Result<(), InjectionError> {
    let names = |known| newsgroups::split(article.header(known).unwrap_or_default());
    if names(Known::Newsgroups).count() > rules.groups_max {
        return Err(InjectionError::TooManyGroups { groups_max: rules.groups_max });
    }
    if names(Known::FollowupTo).count() > rules.followup_groups_max {
        return Err(InjectionError::TooManyFollowups { groups_max: rules.followup_groups_max });
    }
    match names(Known::Newsgroups).chain(names(Known::FollowupTo)).find(|name| !newsgroups::valid_name(name))
    {
        Some(name) => Err(InjectionError::BadGroupName(shown(name))),
        None => Ok(()),
    }
}

/// Returns a poster's text in the form in which an answer may contain it.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..SHOWN_BYTES_MAX).unwrap_or(text));
    replaced(&text, ' ').into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_780_000_000;

    fn judged(change: impl FnOnce(String) -> String) -> Option<String> {
        let rules = InjectionRules {
            article_bytes_max: 4000,
            age_secs_max: Some(10 * 86_400),
            groups_max: 3,
            followup_groups_max: 2,
            line_bytes_max: 998,
            check_quoted: true,
        };
        let wire = change("From: a@b\r\nNewsgroups: c.d\r\nSubject: s\r\n".to_owned()) + "\r\nbody\r\n";
        check(&Article::parse(wire.as_bytes()).unwrap(), &rules, NOW)
            .err()
            .map(|objection| objection.to_string())
    }

    fn with(header: &str) -> Option<String> {
        judged(|head| format!("{head}{header}\r\n"))
    }

    fn date(secs: i64) -> String {
        let mut text = Vec::new();
        date::format_rfc5322(NOW + secs, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn articles_in_good_form_pass() {
        assert_eq!(judged(|head| head), None);
        for good in [
            "Followup-To: poster",
            "Followup-To: c.d,e.f",
            "Control: cancel <a@b>",
            "Supersedes: <a@b>",
            "Message-ID: <a@b>",
            "Path: not-for-mail",
            "Sender: x@y",
            "Sender: root%news.example.org",
            "Message-ID: <a@[192.0.2.1]>",
            "Approved: x@y",
            "X-Own: \u{e9}",
            "Subjective: cmsg cancel <a@b>",
        ] {
            assert_eq!(with(good), None, "{good}");
        }
        assert_eq!(with(&format!("Expires: {}", date(1))), None);
        assert_eq!(with(&format!("Date: {}", date(-10 * 86_400))), None);
        assert_eq!(with(&format!("X-Long: {}", "x".repeat(990))), None);
        assert_eq!(with(&format!("X-Long: {}\r\n {}", "x".repeat(990), "y".repeat(997))), None);
    }

    #[test]
    fn terminal_controls_are_rejected_in_every_header() {
        for evil in ["\u{1b}[2J", "a\u{7}b", "a\u{7f}", "a\u{9b}2J", "\u{202e}fdp.exe", "\u{1}"] {
            for name in ["Summary", "Organization", "X-Own"] {
                let told = with(&format!("{name}: a {evil} b")).unwrap_or_default();
                assert_eq!(told, format!("{name} header has a control character; remove it"), "{evil:?}");
            }
            for from in ["From: ", "Subject: "] {
                let told =
                    judged(|head| head.replace(from, &format!("{from}\"{evil}\" "))).unwrap_or_default();
                assert!(told.ends_with(" header has a control character; remove it"), "{evil:?}: {told}");
            }
        }
        for evil in [
            "=?utf-8?q?=1b[2J?=",
            "=?us-ascii?B?G1sySg==?=",
            "=?utf-8?Q?=C2=9B2J?=",
            "=?utf-8?Q?a=0D=0AFrom:?=",
            "=?iso-8859-1?Q?=9B31m?=",
            "=?utf-8?Q?=c2?= =?UTF-8?Q?=9b31m?=",
            "=?utf-16?b?ABs=?=",
            "=?utf-16le?b?GwA=?=",
            "=?utf-32?b?AAAAGw==?=",
            "=?utf-7?Q?+ABs-?=",
            "=?utf-7?Q?+=2BAAAAGw-?=",
        ] {
            let told = with(&format!("Summary: x {evil} y"));
            assert_eq!(told.as_deref(), Some("Summary header has a control character; remove it"), "{evil}");
        }
        for good in [
            "=?utf-8?Q?Gr=C3=BCn=09x?=",
            "=?ISO-2022-JP?B?GyRCJUYlOSVIGyhC?=",
            "=?iso-8859-1?Q?=93x=94?=",
            "=?utf-8?Q?Gr=C3?= =?utf-8?Q?=BCn?=",
            "=?utf-16?b?AEEAQg==?=",
            "=?utf-7?Q?Gr+APw-n+-?=",
        ] {
            assert_eq!(with(&format!("Summary: {good}")), None, "{good}");
        }
        for good in ["a\tb", "a\r\n\tb", "\u{5d0}\u{200f}\u{2067}x\u{2069}", "\u{a0}gr\u{fc}n"] {
            assert_eq!(with(&format!("Summary: {good}")), None, "{good:?}");
        }
    }

    #[test]
    fn each_fault_has_its_message() {
        for (header, start) in [
            ("From: c@d", "Posting failed: repeated From header"),
            (
                "Expires: 1 Jan 2030 00:00:00 GMT\r\nExpires: 2 Jan 2030 00:00:00 GMT",
                "Posting failed: repeated Expires",
            ),
            ("Xref: a b:1", "Xref header must not be in a post"),
            ("injection-info: x", "Injection-Info header must not be in a post"),
            ("X-Trace: x", "X-Trace header must not be in a post"),
            ("Also-Control: cancel <a@b>", "Also-Control header is obsolete"),
            ("Path: a!.POSTED.x!b", "Path says that it was injected already"),
            ("Message-ID: <a>", "Message-ID header is not valid"),
            ("Message-ID: <a@b@c>", "Message-ID header is not valid"),
            ("Message-ID: <a..b@c>", "Message-ID header is not valid"),
            ("Message-ID: <a@b.>", "Message-ID header is not valid"),
            ("X-Own:x", "X-Own header has no space after the colon"),
            ("X-Own:\tx", "X-Own header has no space after the colon"),
            ("X-Own:\r\n x", "X-Own header has no space after the colon"),
            ("Date: tomorrow", "Date header is not valid"),
            ("Injection-Date: tomorrow", "Injection-Date header is not valid"),
            ("Date: 2026-05-28T20:26:40Z", "Date header is not valid; write it like"),
            ("Date: Thu May 28 20:26:40 2026", "Date header is not valid; write it like"),
            ("Date: 28 May 2026", "Date header is not valid; write it like"),
            ("Expires: 2036-12-01", "Expires header is not valid; write it like"),
            ("Expires: never", "Expires header is not valid"),
            ("Expires: 1 Jan 2001 00:00:00 GMT", "Expires header is in the past"),
            ("Sender: nobody", "Sender header has no valid mail address"),
            ("Sender: nobody%", "Sender header has no valid mail address"),
            ("Reply-To: root%news.example.org", "Reply-To header has no valid mail address"),
            ("Reply-To: nobody", "Reply-To header has no valid mail address"),
            ("Followup-To: a..b", "\"a..b\" is not a valid newsgroup name"),
            ("Followup-To: a,b,c", "More than 2 newsgroups in Followup-To"),
            ("Control: cancel", "Posting failed: no Message-ID"),
            ("Control: newgroup", "Posting failed: Control header without a newsgroup"),
            ("Control: cancel <a@b>\r\nSupersedes: <a@b>", "Posting failed: both Control and Supersedes"),
            ("Summary: ", "Summary header is empty"),
            ("Summary: a\r\n \r\n b", "Summary header has a continuation line without text"),
        ] {
            let told = with(header).unwrap_or_default();
            assert!(told.starts_with(start), "{header}: {told}");
        }
        let told = with(&format!("Date: {}", date(86_401))).unwrap_or_default();
        assert!(told.starts_with("Date header is more than a day ahead"), "{told}");
        let told = with(&format!("Date: {}", date(-10 * 86_400 - 1))).unwrap_or_default();
        assert!(told.starts_with("Date header is too old (at most 10 days);"), "{told}");
        let told = with(&format!("X-Long: {}", "x".repeat(991))).unwrap_or_default();
        assert!(told.starts_with("X-Long header has a line"), "{told}");
        let told = with(&format!("X-Long: a\r\n {}", "x".repeat(998))).unwrap_or_default();
        assert!(told.starts_with("X-Long header has a line"), "{told}");
        for (from, to, start) in [
            ("a@b", "nobody", "From header has no valid mail address"),
            ("c.d", "c.d,e,f,g", "More than 3 newsgroups"),
            ("c.d", "../etc", "\"../etc\" is not a valid newsgroup name"),
            (": s\r", ": cmsg cancel <a@b>\r", "Subject begins with \"cmsg\""),
            ("Subject: s\r\n", "", "Posting failed: missing Subject header"),
        ] {
            let told = judged(|head| head.replace(from, to)).unwrap_or_default();
            assert!(told.starts_with(start), "{to}: {told}");
        }
        let long = "X: y\r\n".repeat(700);
        assert_eq!(
            with(long.trim_end()).as_deref(),
            Some("Article is too large: at most 4000 bytes are accepted")
        );
        let latin = [&b"From: a@b\r\nNewsgroups: c\r\nSubject: caf"[..], b"\xe9", b"\r\n\r\nb\r\n"].concat();
        let rules = InjectionRules {
            article_bytes_max: 999,
            age_secs_max: None,
            groups_max: 1,
            followup_groups_max: 1,
            line_bytes_max: 9,
            check_quoted: false,
        };
        let told = check(&Article::parse(&latin).unwrap(), &rules, NOW).unwrap_err().to_string();
        assert!(told.starts_with("Subject header is neither ASCII nor UTF-8"), "{told}");
    }
}
