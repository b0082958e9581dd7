//! Groups described in the body of a group control message: names, descriptions, moderation.
//!
//! A newgroup message has one such line, in an entity of type application/news-groupinfo or, before there was
//! that type, after the words "For your newsgroups file:". A checkgroups message has nothing else. Bodies
//! come without dot-stuffing, in any transfer encoding; nothing here fails, and unreadable lines are skipped.
//! Called by newsreel's `group_control`. Sources: RFC 5537 sections 4.2, 4.3 and 5.2, RFC 2045 section 6,
//! INN's `newgroup.pl` and `docheckgroups`.

use std::borrow::Cow;

use crate::article::{Article, Known};
use crate::charset;
use crate::newsgroups::valid_name;
use crate::printable::one_line;
use crate::transfer;

/// Media type of a newgroup message's entity.
pub const GROUP_INFO: &[u8] = b"application/news-groupinfo";
/// Media type of a checkgroups message.
pub const CHECK_GROUPS: &[u8] = b"application/news-checkgroups";

/// Line that precedes the line about the group.
const TAG_LINE: &[u8] = b"For your newsgroups file:";
/// Words that precede the address to which posts to a moderated group are sent, by convention.
const SUBMISSION: &[&[u8]] = &[b"group submission address:", b"submission address:"];
/// Ending of a moderated group's description.
const MODERATED: &[u8] = b"(moderated)";
/// Maximum number of message parts that are examined.
const PARTS_MAX: usize = 100;
/// Maximum depth of nested multiparts: a signed message has its content one level further down.
const DEPTH_MAX: usize = 4;
/// The longest boundary between parts (RFC 2046 section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;
/// Maximum length of a description in bytes.
const DESCRIPTION_BYTES_MAX: usize = 400;

/// A group as a control message describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Name of the group, a valid one.
    pub name: String,
    /// Description in UTF-8, without control characters; empty if there is none.
    pub description: String,
    /// True if the description ends in `(Moderated)`.
    pub is_moderated: bool,
}

/// Headers that determine how a body is decoded; empty where one is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyHeaders<'a> {
    /// Content-Type.
    pub content_type: &'a [u8],
    /// Content-Transfer-Encoding.
    pub transfer: &'a [u8],
}

impl<'a> BodyHeaders<'a> {
    /// Returns the headers of an article.
    pub fn of(article: &Article<'a>) -> Self {
        Self {
            content_type: article.header(Known::ContentType).unwrap_or_default(),
            transfer: article.header(Known::ContentTransferEncoding).unwrap_or_default(),
        }
    }
}

/// Entity of a message that contains no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity<'a> {
    /// Content-Type; empty if absent.
    content_type: &'a [u8],
    /// Decoded content.
    content: Cow<'a, [u8]>,
}

impl Entity<'_> {
    fn is(&self, wanted: &[u8]) -> bool {
        is_type(self.content_type, wanted)
    }

    fn charset(&self) -> &[u8] {
        parameter(self.content_type, b"charset")
    }

    fn group_lines<'a>(
        &'a self,
        wanted: impl Fn(&&[u8]) -> bool + 'a,
    ) -> impl Iterator<Item = GroupDescription> + 'a {
        lines(&self.content).filter(wanted).filter_map(|line| group_line(line, self.charset()))
    }

    /// Returns the group line after the tag line.
    fn line_after_tag(&self) -> Option<GroupDescription> {
        let mut lines = lines(&self.content).skip_while(|line| !is_tag_line(line)).skip(1);
        group_line(lines.next()?, self.charset())
    }
}

/// Returns the entities of a message: its body, or the parts of that.
pub fn entities<'a>(form: BodyHeaders<'a>, body: &'a [u8]) -> Vec<Entity<'a>> {
    let mut found = Vec::new();
    append_entities(form, body, 0, &mut found);
    found
}

fn append_entities<'a>(form: BodyHeaders<'a>, body: &'a [u8], depth: usize, found: &mut Vec<Entity<'a>>) {
    let boundary = parameter(form.content_type, b"boundary");
    let begin = form.content_type.trim_ascii_start().get(..10);
    let is_multipart = begin.is_some_and(|begin| begin.eq_ignore_ascii_case(b"multipart/"))
        && (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
        && depth < DEPTH_MAX;
    let before = found.len();
    if is_multipart {
        for part in parts(body, boundary) {
            if found.len() >= PARTS_MAX {
                return;
            }
            let (head, content) = head_and_content(part);
            let content_type = field(head, b"Content-Type").trim_ascii_start();
            let transfer = field(head, b"Content-Transfer-Encoding");
            append_entities(BodyHeaders { content_type, transfer }, content, depth + 1, found);
        }
    }
    // A body without parts is read as it stands.
    if found.len() == before {
        let content = transfer::decoded(form.transfer, body);
        found.push(Entity { content_type: form.content_type, content });
    }
}

/// Returns the line about its group in the body of a newgroup message.
pub fn newgroup_line(form: BodyHeaders<'_>, body: &[u8]) -> Option<GroupDescription> {
    let entities = entities(form, body);
    if let Some(entity) = entities.iter().find(|entity| entity.is(GROUP_INFO)) {
        return entity.group_lines(|line| !is_tag_line(line)).next();
    }
    entities.iter().find_map(Entity::line_after_tag)
}

/// Returns the address for posts to a moderated group, if the body of its newgroup message has one.
pub fn submission_address(form: BodyHeaders<'_>, body: &[u8]) -> Option<String> {
    entities(form, body).iter().find_map(|entity| lines(&entity.content).find_map(address_of))
}

fn address_of(line: &[u8]) -> Option<String> {
    let begins = |word: &&&[u8]| line.get(..word.len()).is_some_and(|b| b.eq_ignore_ascii_case(word));
    let address = SUBMISSION.iter().find(begins).and_then(|word| line.get(word.len()..))?.trim_ascii();
    let address = address.strip_prefix(b"<").and_then(|a| a.strip_suffix(b">")).unwrap_or(address);
    crate::injection::is_address(address).then(|| std::str::from_utf8(address).ok().map(str::to_owned))?
}

/// Returns the groups that a checkgroups message lists.
pub fn listed_groups(form: BodyHeaders<'_>, body: &[u8]) -> Vec<GroupDescription> {
    let entities = entities(form, body);
    let typed = entities.iter().find(|entity| entity.is(CHECK_GROUPS));
    let read = typed.map_or(entities.as_slice(), std::slice::from_ref);
    read.iter().flat_map(|entity| entity.group_lines(|_| true)).collect()
}

/// Scope of a checkgroups message: the arguments of its Control header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckgroupsScope<'a> {
    /// Hierarchies that the message lists; if empty, those of the groups in its body.
    pub hierarchies: Vec<&'a [u8]>,
    /// Excluded parts of these hierarchies.
    pub except: Vec<&'a [u8]>,
    /// Serial number in digits; empty if there is none.
    pub serial: &'a [u8],
}

impl<'a> CheckgroupsScope<'a> {
    /// Reads the value of a Control header; `None` if an argument is invalid.
    pub fn of(control: &'a [u8]) -> Option<Self> {
        let mut scope = Self::default();
        for word in super::words(control).skip(1) {
            match word.split_first()? {
                (b'#', digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
                    scope.serial = digits.get(zeros.min(digits.len() - 1)..)?;
                }
                (b'!', name) if valid_name(name) => scope.except.push(name),
                (b'#' | b'!', _) => return None,
                _ if valid_name(word) => scope.hierarchies.push(word),
                _ => return None,
            }
        }
        Some(scope)
    }

    /// Returns whether the message determines if the group exists.
    pub fn covers(&self, group: &[u8]) -> bool {
        let within = |hierarchy: &&[u8]| is_within(group, hierarchy);
        self.hierarchies.iter().any(within) && !self.except.iter().any(within)
    }
}

/// Returns whether a serial number, as in [`CheckgroupsScope::serial`], is smaller than another.
pub fn is_older_serial(serial: &[u8], than: &[u8]) -> bool {
    (serial.len(), serial) < (than.len(), than)
}

/// Returns whether a group is the hierarchy itself or below it.
pub fn is_within(group: &[u8], hierarchy: &[u8]) -> bool {
    group.strip_prefix(hierarchy).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Returns the first component of a group's name.
pub fn top_level(group: &[u8]) -> &[u8] {
    group.split(|b| *b == b'.').next().unwrap_or(group)
}

fn is_tag_line(line: &[u8]) -> bool {
    line.trim_ascii().eq_ignore_ascii_case(TAG_LINE)
}

/// Parses `name TAB description`; spaces too, where the name cannot be a word of a sentence.
fn group_line(line: &[u8], charset: &[u8]) -> Option<GroupDescription> {
    let end = line.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let is_listed = valid_name(name) && (rest.starts_with(b"\t") || name.contains(&b'.'));
    let description = described(&to_utf8(rest, charset));
    let is_moderated = description
        .len()
        .checked_sub(MODERATED.len())
        .and_then(|at| description.as_bytes().get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(MODERATED));
    let name = is_listed.then(|| String::from_utf8(name.to_vec()).ok())??;
    Some(GroupDescription { name, description, is_moderated })
}

/// Returns the text as one line, cut to the maximum length of a description.
fn described(text: &str) -> String {
    let mut line = one_line(text);
    let end = (0..=DESCRIPTION_BYTES_MAX.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
    line.truncate(end.unwrap_or(0));
    line
}

/// Converts text to UTF-8 from the declared charset, if that is one in which line ends and names look as in
/// ASCII.
fn to_utf8(octets: &[u8], declared: &[u8]) -> String {
    let declared = std::str::from_utf8(declared).ok().filter(|name| charset::has_ascii_lines(name));
    charset::decode(declared, octets)
}

/// Converts lines that may be of several origins, as in a list of descriptions: each is read as UTF-8 if it
/// is valid, otherwise as windows-1252.
pub fn lines_to_utf8(octets: &[u8]) -> String {
    octets.split_inclusive(|b| *b == b'\n').map(|line| to_utf8(line, b"")).collect()
}

/// Returns the lines without their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns the parts between the boundaries of a multipart body.
fn parts<'a>(body: &'a [u8], boundary: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let is_boundary = move |line: &[u8]| {
        line.strip_prefix(b"--")
            .and_then(|line| line.strip_prefix(boundary))
            .is_some_and(|rest| matches!(rest.trim_ascii_end(), b"" | b"--"))
    };
    let mut at = 0;
    let mut begun = None;
    std::iter::from_fn(move || {
        while at < body.len() {
            let rest = body.get(at..)?;
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let (line_at, line) = (at, rest.get(..end)?);
            at += end;
            if is_boundary(line.trim_ascii_end())
                && let Some(start) = begun.replace(at)
            {
                return body.get(start..line_at);
            }
        }
        body.get(begun.take()?..)
    })
}

/// Splits a part at its first blank line into header lines and content.
fn head_and_content(part: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    for line in part.split_inclusive(|b| *b == b'\n') {
        let next = at + line.len();
        if line.trim_ascii().is_empty() {
            return (part.get(..at).unwrap_or_default(), part.get(next..).unwrap_or_default());
        }
        at = next;
    }
    (part, &[])
}

/// Returns the value of a header with all its lines; empty if it is absent.
fn field<'a>(head: &'a [u8], name: &[u8]) -> &'a [u8] {
    let mut found: Option<usize> = None;
    let mut at = 0;
    for line in head.split_inclusive(|b| *b == b'\n') {
        let is_fold = line.first().is_some_and(|b| matches!(b, b' ' | b'\t'));
        if let Some(start) = found.filter(|_| !is_fold) {
            return head.get(start..at).unwrap_or_default();
        }
        let is_it = line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        if !is_fold && is_it && line.get(name.len()) == Some(&b':') {
            found = Some(at + name.len() + 1);
        }
        at += line.len();
    }
    found.and_then(|start| head.get(start..)).unwrap_or_default()
}

fn is_type(content_type: &[u8], wanted: &[u8]) -> bool {
    let own = content_type.split(|b| *b == b';').next().unwrap_or_default();
    own.trim_ascii().eq_ignore_ascii_case(wanted)
}

/// Returns a parameter of a Content-Type; empty if it is absent.
fn parameter<'a>(content_type: &'a [u8], name: &[u8]) -> &'a [u8] {
    let parameters = content_type.split(|b| *b == b';').skip(1);
    let value = parameters.map(<[u8]>::trim_ascii).find_map(|parameter| {
        let equals = memchr::memchr(b'=', parameter)?;
        let (own, value) = parameter.split_at(equals);
        own.trim_ascii().eq_ignore_ascii_case(name).then(|| value.get(1..)).flatten()
    });
    let value = value.unwrap_or_default().trim_ascii();
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;

    const MULTIPART: &str = "This is a MIME control message.\r\n--nxtprt\r\n\
        Content-Type: application/news-groupinfo;\r\n charset=\"utf-8\"\r\n\r\n\
        For your newsgroups file:\r\nexample.admin.info\tAbout the \u{e9}xample.* groups (Moderated)\r\n\r\n\
        --nxtprt\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nA group.\r\n\r\n--nxtprt--\r\n";

    fn typed(content_type: &str) -> BodyHeaders<'_> {
        BodyHeaders { content_type: content_type.as_bytes(), transfer: b"" }
    }

    fn line(name: &str, description: &str, is_moderated: bool) -> Option<GroupDescription> {
        Some(GroupDescription { name: name.into(), description: description.into(), is_moderated })
    }

    #[test]
    fn newgroup_line_is_found_in_each_of_its_forms() {
        let described = line("example.admin.info", "About the \u{e9}xample.* groups (Moderated)", true);
        for content_type in ["multipart/mixed; boundary=\"nxtprt\"", "Multipart/Mixed;\r\n boundary=nxtprt"] {
            assert_eq!(newgroup_line(typed(content_type), MULTIPART.as_bytes()), described);
        }
        let whole = "application/news-groupinfo; charset=iso-8859-1";
        assert_eq!(
            newgroup_line(typed(whole), b"x.y\tGr\xfc\xdfe\r\n"),
            line("x.y", "Gr\u{fc}\u{df}e", false)
        );
        let legacy = "x.y is a group.\r\n\r\nFor your newsgroups file:\r\nx.y\t\tOf letters (moderated)\r\n\
            z.z\tNo\r\n";
        assert_eq!(newgroup_line(typed(""), legacy.as_bytes()), line("x.y", "Of letters (moderated)", true));
        assert_eq!(newgroup_line(typed("text/plain"), b"x.y\tNot said so\r\n"), None);
        assert_eq!(
            newgroup_line(typed("multipart/mixed; boundary=other"), MULTIPART.as_bytes()).map(|l| l.name),
            Some("example.admin.info".into()),
            "the words lead to the line even then"
        );
        assert_eq!(newgroup_line(typed(""), b"For your newsgroups file:"), None);
        assert_eq!(newgroup_line(typed(""), b"For your newsgroups file:\n\x80 x"), None);
    }

    #[test]
    fn transfer_encodings_are_decoded_before_lines_are_read() {
        let quoted =
            BodyHeaders { content_type: b"text/plain; charset=utf-8", transfer: b"Quoted-Printable" };
        let coded = BodyHeaders { transfer: b"base64", ..quoted };
        for body in [
            "For your newsgroups file:\r\nx.y\t=C3=84pfel\r\n",
            "For your newsgroups file:\nx.y=09=C3=84pf=\nel\n",
        ] {
            assert_eq!(newgroup_line(quoted, body.as_bytes()), line("x.y", "\u{c4}pfel", false));
        }
        // "For your newsgroups file:", the line, and "Submission address: <a@b.c>", in two lines of base64.
        let body = b"Rm9yIHlvdXIgbmV3c2dyb3VwcyBmaWxlOgp4LnkJw4RwZmVsCg==\r\n\
                     U3VibWlzc2lvbiBhZGRyZXNzOiA8YUBiLmM+Cg==\r\n";
        assert_eq!(newgroup_line(coded, body), line("x.y", "\u{c4}pfel", false));
        assert_eq!(submission_address(coded, body).as_deref(), Some("a@b.c"));
        assert_eq!(
            listed_groups(quoted, b"x.y\t=C3=84pfel\r\n"),
            [line("x.y", "\u{c4}pfel", false).unwrap()]
        );
        // A part of a part, as in signed messages.
        let nested = b"--O\r\nContent-Type: multipart/mixed; boundary=I\r\n\r\n--I\r\n\
            Content-Type: application/news-groupinfo\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
            x.y\t=C3=84pfel\r\n--I--\r\n--O--\r\n";
        let signed = typed("multipart/signed; boundary=O");
        assert_eq!(newgroup_line(signed, nested), line("x.y", "\u{c4}pfel", false));
    }

    #[test]
    fn submission_addresses() {
        let body = b"Text\r\nGroup submission address: <x-y@mod.example>\r\n";
        assert_eq!(submission_address(typed(""), body).as_deref(), Some("x-y@mod.example"));
        for body in ["submission address: -oops", "address: a@b.c", "Submission address: a@b.c; rm"] {
            assert_eq!(submission_address(typed(""), body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn checkgroups_lists_groups_and_nothing_else() {
        let body = b"# comment\r\nDear all,\r\nx.a\tOne\r\nx.b  Two (Moderated)\r\n bad.name\tx\r\n\
            top\tA group of one word\r\nx..c\tno\r\n\r\nx.d\r\n";
        let names: Vec<String> = listed_groups(typed(""), body).into_iter().map(|line| line.name).collect();
        assert_eq!(names, ["x.a", "x.b", "top", "x.d"]);
        assert_eq!(listed_groups(typed("application/news-checkgroups"), body).len(), 4);
        let long = format!("x.y\t{}\u{e9}", "a".repeat(DESCRIPTION_BYTES_MAX - 1));
        assert_eq!(
            listed_groups(typed(""), long.as_bytes()).first().unwrap().description.len(),
            DESCRIPTION_BYTES_MAX - 1
        );
    }

    #[test]
    fn descriptions_are_read_in_the_charset_that_is_declared() {
        for (charset, octets, expected) in [
            ("koi8-r", &b"\xf0\xd2\xc9\xd7\xc5\xd4"[..], "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
            ("\"ISO-8859-2\"", b"\xb3\xf3d\xbc", "\u{142}\u{f3}d\u{17a}"),
            ("iso-2022-jp", b"\x1b$B$\"\x1b(B", "\u{3042}"),
            ("iso-8859-1", b"Gr\xfc\xdfe", "Gr\u{fc}\u{df}e"),
            ("us-ascii", "Gr\u{fc}\u{df}e".as_bytes(), "Gr\u{fc}\u{df}e"),
            ("x-unknown", b"Gr\xfc\xdfe", "Gr\u{fc}\u{df}e"),
            ("utf-16", b"plain", "plain"),
        ] {
            let content_type = format!("text/plain; charset={charset}");
            let list = [b"x.y\t", octets].concat();
            let found = listed_groups(typed(&content_type), &list).pop();
            assert_eq!(found, line("x.y", expected, false), "{charset}");
            let body = [b"For your newsgroups file:\r\nx.y\t", octets, b"\r\n"].concat();
            assert_eq!(newgroup_line(typed(&content_type), &body), line("x.y", expected, false), "{charset}");
            let coded = base64::prelude::BASE64_STANDARD.encode(&body);
            let part = format!(
                "--b\r\nContent-Type: application/news-groupinfo; charset={charset}\r\n\
                 Content-Transfer-Encoding: base64\r\n\r\n{coded}\r\n--b--\r\n"
            );
            let found = newgroup_line(typed("multipart/mixed; boundary=b"), part.as_bytes());
            assert_eq!(found, line("x.y", expected, false), "{charset} in a part");
        }
        let quoted =
            BodyHeaders { content_type: b"text/plain; charset=koi8-r", transfer: b"quoted-printable" };
        assert_eq!(listed_groups(quoted, b"x.y\t=F0=D2\r\n").pop(), line("x.y", "\u{41f}\u{440}", false));
    }

    #[test]
    fn each_line_of_a_list_is_converted_to_utf8() {
        let list = b"a.b\tGr\xc3\xbc\xc3\x9fe\r\na.c\tGr\xfc\xdfe \x80\n\na.d\tplain";
        let expected = "a.b\tGr\u{fc}\u{df}e\r\na.c\tGr\u{fc}\u{df}e \u{20ac}\n\na.d\tplain";
        assert_eq!(lines_to_utf8(list), expected);
        assert_eq!(lines_to_utf8(b""), "");
    }

    #[test]
    fn scopes_cover_the_hierarchies_they_name() {
        let scope = CheckgroupsScope::of(b"checkgroups de !de.alt #002009021301").unwrap();
        assert_eq!(scope.serial, b"2009021301");
        for (group, covered) in
            [("de", true), ("de.comp", true), ("de.alt", false), ("de.alt.x", false), ("deu.x", false)]
        {
            assert_eq!(scope.covers(group.as_bytes()), covered, "{group}");
        }
        assert_eq!(CheckgroupsScope::of(b"checkgroups"), Some(CheckgroupsScope::default()));
        assert_eq!(CheckgroupsScope::of(b"checkgroups x #0").unwrap().serial, b"0");
        for bad in ["checkgroups #", "checkgroups #1a", "checkgroups !", "checkgroups a..b", "checkgroups *"]
        {
            assert_eq!(CheckgroupsScope::of(bad.as_bytes()), None, "{bad}");
        }
        assert!(is_older_serial(b"99", b"100") && !is_older_serial(b"100", b"99"));
        assert!(!is_older_serial(b"100", b"100") && is_older_serial(b"", b"1"));
    }
}
