//! From a TOML value to what a key takes: one function for each [`Kind`](super::keys::Kind).
//!
//! Each returns the value or what is wrong with it, with the place when that is an element of a list. Called by
//! `read` with values of the file and with defaults alike.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::keys::{Key, Kind};
use super::words::Word;
use super::{Cidr, Distributions, Durability, Groups, HeaderMatch, KnownCertificate, LocalAddress, units};
use netnews::wildmat::Wildmat;

/// What is wrong with a value.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) advice: Option<String>,
    pub(super) span: Range<usize>,
}

type Value<'a> = Spanned<DeValue<'a>>;

fn type_word(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

fn wrong_type(key: &Key, value: &Value<'_>) -> Wrong {
    Wrong {
        message: format!("{} takes {}, not {}", key.path(), key.kind.words(), type_word(value.get_ref())),
        advice: Some(format!("for example: {}", key.example)),
        span: value.span(),
    }
}

fn wrong(key: &Key, value: &Value<'_>, message: String) -> Wrong {
    Wrong {
        message: format!("{}: {message}", key.path()),
        advice: Some(format!("for example: {}", key.example)),
        span: value.span(),
    }
}

fn str_of<'a>(key: &Key, value: &'a Value<'_>) -> Result<&'a str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| wrong_type(key, value))
}

pub(super) fn text(key: &Key, value: &Value<'_>) -> Result<String, Wrong> {
    let text = str_of(key, value)?;
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(wrong(key, value, "the text must not be empty or hold control characters".into()));
    }
    Ok(text.to_owned())
}

/// Longest name of a buffer or class, in bytes: as much as a buffer's header holds.
const NAME_BYTES_MAX: usize = 15;

pub(super) fn name(key: &Key, value: &Value<'_>) -> Result<String, Wrong> {
    let text = str_of(key, value)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(allowed) {
        let message = format!("`{text}` is not 1 to {NAME_BYTES_MAX} letters, digits, `_`, `.` or `-`");
        return Err(wrong(key, value, message));
    }
    Ok(text.to_owned())
}

/// A path identity (RFC 5536 section 3.1.5).
pub(super) fn path_identity(key: &Key, value: &Value<'_>) -> Result<String, Wrong> {
    let text = str_of(key, value)?;
    if !is_path_identity(text) {
        let message = format!("`{text}` is not a path identity: letters, digits, `.`, `-`, `_`, no spaces");
        return Err(wrong(key, value, message));
    }
    Ok(text.to_owned())
}

/// Longest path identity, in bytes: a domain name's length.
const PATH_IDENTITY_BYTES_MAX: usize = 255;

/// Whether `text` can be a path identity.
pub fn is_path_identity(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    (1..=PATH_IDENTITY_BYTES_MAX).contains(&text.len())
        && text.chars().all(allowed)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

pub(super) fn size(key: &Key, value: &Value<'_>) -> Result<u64, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => units::parse_size(text).map_err(|message| wrong(key, value, message)),
        DeValue::Integer(_) => number(value).ok_or_else(|| wrong_type(key, value)),
        _ => Err(wrong_type(key, value)),
    }
}

pub(super) fn span(key: &Key, value: &Value<'_>) -> Result<Duration, Wrong> {
    match value.get_ref() {
        DeValue::Integer(n) => {
            Err(wrong(key, value, format!("`{n}` lacks a unit; write a text such as \"{n} s\"")))
        }
        _ => units::parse_span(str_of(key, value)?).map_err(|message| wrong(key, value, message)),
    }
}

/// A wildmat that may hold spaces, as values of headers do.
pub(super) fn pattern(key: &Key, value: &Value<'_>) -> Result<String, Wrong> {
    let text = str_of(key, value)?;
    match Wildmat::parse_lenient(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(wrong(key, value, format!("`{text}` is not a wildmat: {error}"))),
    }
}

/// A header condition or a list of them.
pub(super) fn headers(key: &Key, value: &Value<'_>) -> Result<Vec<HeaderMatch>, Wrong> {
    match value.get_ref() {
        DeValue::Table(_) => Ok(vec![header(key, value)?]),
        _ => list(key, value, header),
    }
}

fn header(key: &Key, value: &Value<'_>) -> Result<HeaderMatch, Wrong> {
    let DeValue::Table(table) = value.get_ref() else { return Err(wrong_type(key, value)) };
    let get = |name: &str| table.get(name).ok_or_else(|| wrong(key, value, format!("it lacks `{name}`")));
    if let Some(other) = table.keys().find(|k| !["name", "matches"].contains(&k.get_ref().as_ref())) {
        return Err(wrong(key, value, format!("`{}` is neither `name` nor `matches`", other.get_ref())));
    }
    let (name, matches) = (get("name")?, get("matches")?);
    let found = str_of(key, name)?;
    if found.is_empty() || !found.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
        return Err(wrong(key, name, format!("`{found}` is not a header's name")));
    }
    Ok(HeaderMatch { name: found.to_owned(), matches: pattern(key, matches)? })
}

fn number(value: &Value<'_>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

pub(super) fn integer(key: &Key, value: &Value<'_>) -> Result<u64, Wrong> {
    let (min, max) = match key.kind {
        Kind::Integer { min, max } => (min, max),
        _ => (0, u64::MAX),
    };
    if !value.get_ref().is_integer() {
        return Err(wrong_type(key, value));
    }
    number(value)
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| wrong(key, value, format!("the number must lie between {min} and {max}")))
}

/// Oldest age that `max_age_days` can name.
const AGE_DAYS_MAX: u64 = 36_500;

pub(super) fn days_or_none(key: &Key, value: &Value<'_>) -> Result<Option<u32>, Wrong> {
    match value.get_ref() {
        DeValue::String(text) if text == "none" => Ok(None),
        DeValue::Integer(_) => number(value)
            .filter(|days| (1..=AGE_DAYS_MAX).contains(days))
            .and_then(|days| u32::try_from(days).ok())
            .map(Some)
            .ok_or_else(|| wrong(key, value, format!("the number must lie between 1 and {AGE_DAYS_MAX}"))),
        _ => Err(wrong_type(key, value)),
    }
}

pub(super) fn switch(key: &Key, value: &Value<'_>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| wrong_type(key, value))
}

pub(super) fn choice<W: Word>(key: &Key, value: &Value<'_>) -> Result<W, Wrong> {
    let text = str_of(key, value)?;
    W::from_word(text).ok_or_else(|| {
        let near = super::faults::nearest(text, W::WORDS.iter().map(|(word, _)| *word));
        Wrong {
            message: format!("{} takes {}, not \"{text}\"", key.path(), key.kind.words()),
            advice: Some(match near {
                Some(word) => format!("did you mean \"{word}\"?"),
                None => format!("for example: {}", key.example),
            }),
            span: value.span(),
        }
    })
}

pub(super) fn durability(key: &Key, value: &Value<'_>) -> Result<Durability, Wrong> {
    Durability::from_text(str_of(key, value)?).map_err(|message| Wrong {
        message: format!("{}: {message}", key.path()),
        advice: Some(format!("write {}, for example \"interval(100ms)\"", key.kind.words())),
        span: value.span(),
    })
}

pub(super) fn wildmat(key: &Key, value: &Value<'_>) -> Result<Groups, Wrong> {
    let text = str_of(key, value)?;
    Groups::parse(text).map_err(|message| wrong(key, value, format!("`{text}` is not a wildmat: {message}")))
}

pub(super) fn distributions(key: &Key, value: &Value<'_>) -> Result<Distributions, Wrong> {
    Distributions::parse(str_of(key, value)?).map_err(|message| wrong(key, value, message))
}

fn list<T>(
    key: &Key,
    value: &Value<'_>,
    element: impl Fn(&Key, &Value<'_>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    match value.get_ref() {
        DeValue::Array(elements) => elements.iter().map(|value| element(key, value)).collect(),
        _ => Err(wrong_type(key, value)),
    }
}

pub(super) fn names(key: &Key, value: &Value<'_>) -> Result<Vec<String>, Wrong> {
    list(key, value, name)
}

pub(super) fn host_ports(key: &Key, value: &Value<'_>) -> Result<Vec<String>, Wrong> {
    list(key, value, host_port)
}

pub(super) fn host_port(key: &Key, value: &Value<'_>) -> Result<String, Wrong> {
    let text = str_of(key, value)?;
    check_host_port(text).map_err(|message| wrong(key, value, message))?;
    Ok(text.to_owned())
}

/// A mail address in which `%s` may stand for a group's name.
pub(super) fn moderator_address(key: &Key, value: &Value<'_>) -> Result<String, Wrong> {
    let text = str_of(key, value)?;
    let address = netnews::injection::moderation::address(text, "a.group");
    if !netnews::injection::is_address(address.as_bytes()) {
        return Err(wrong(key, value, format!("`{text}` makes no mail address: {address}")));
    }
    Ok(text.to_owned())
}

/// Whether `text` is `HOST:PORT`; the error says what is wrong in words.
pub fn check_host_port(text: &str) -> Result<(), String> {
    let (host, port) =
        text.rsplit_once(':').ok_or_else(|| format!("`{text}` lacks a port; write HOST:PORT"))?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_err() => {
            return Err(format!("`{inner}` is not an IPv6 address"));
        }
        None if host.contains(':') => {
            return Err(format!("`{text}`: write an IPv6 address in brackets, as in [::1]:119"));
        }
        None if host.is_empty() => {
            return Err(format!(
                "`{text}` lacks a host; every address of the machine is 0.0.0.0:{port} and [::]:{port}"
            ));
        }
        _ => {}
    }
    port.parse::<u16>().map(|_| ()).map_err(|_| format!("`{port}` is not a port from 0 to 65535"))
}

/// A path, or a list of them.
pub(super) fn paths(key: &Key, value: &Value<'_>) -> Result<Vec<String>, Wrong> {
    if value.get_ref().as_str().is_some() {
        return text(key, value).map(|path| vec![path]);
    }
    list(key, value, text)
}

/// A certificate's name or fingerprint, or a list of them.
pub(super) fn certificates(key: &Key, value: &Value<'_>) -> Result<Vec<KnownCertificate>, Wrong> {
    let one = |key: &Key, value: &Value<'_>| {
        KnownCertificate::parse(str_of(key, value)?).map_err(|message| wrong(key, value, message))
    };
    if value.get_ref().as_str().is_some() {
        return one(key, value).map(|known| vec![known]);
    }
    list(key, value, one)
}

/// As [`networks`], and the list may be empty.
pub(super) fn networks_or_none(key: &Key, value: &Value<'_>) -> Result<Vec<Cidr>, Wrong> {
    match value.get_ref().as_array() {
        Some(elements) if elements.is_empty() => Ok(Vec::new()),
        _ => networks(key, value),
    }
}

pub(super) fn networks(key: &Key, value: &Value<'_>) -> Result<Vec<Cidr>, Wrong> {
    if value.get_ref().as_str().is_some() {
        return network(key, value);
    }
    let found = list(key, value, network)?.concat();
    if found.is_empty() {
        return Err(wrong(key, value, "the list is empty".into()));
    }
    Ok(found)
}

pub(super) fn locals(key: &Key, value: &Value<'_>) -> Result<Vec<LocalAddress>, Wrong> {
    list(key, value, |key, value| {
        str_of(key, value)?.parse().map_err(|message: String| wrong(key, value, message))
    })
}

/// A program by its absolute path, and its arguments.
pub(super) fn program(key: &Key, value: &Value<'_>) -> Result<Vec<String>, Wrong> {
    let words = list(key, value, |key, value| {
        let text = str_of(key, value)?;
        match text.contains('\0') {
            true => Err(wrong(key, value, "an argument must not hold NUL".into())),
            false => Ok(text.to_owned()),
        }
    })?;
    match words.first() {
        Some(program) if program.starts_with('/') => Ok(words),
        Some(program) => Err(wrong(key, value, format!("`{program}` is not an absolute path"))),
        None => Err(wrong(key, value, "the list names no program".into())),
    }
}

pub(super) fn choices<W: Word>(key: &Key, value: &Value<'_>) -> Result<Vec<W>, Wrong> {
    list(key, value, choice)
}

fn network(key: &Key, value: &Value<'_>) -> Result<Vec<Cidr>, Wrong> {
    match str_of(key, value)? {
        "all" => Ok(Cidr::ALL.to_vec()),
        text => text.parse().map(|cidr| vec![cidr]).map_err(|message: String| wrong(key, value, message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_addresses_are_checked() {
        for text in ["127.0.0.1:1119", "localhost:119", "[::1]:119", "0.0.0.0:0"] {
            assert_eq!(check_host_port(text), Ok(()), "{text}");
        }
        for (text, error) in [
            ("127.0.0.1", "`127.0.0.1` lacks a port; write HOST:PORT"),
            ("::1:119", "`::1:119`: write an IPv6 address in brackets, as in [::1]:119"),
            (":119", "`:119` lacks a host; every address of the machine is 0.0.0.0:119 and [::]:119"),
            ("localhost:news", "`news` is not a port from 0 to 65535"),
            ("[localhost]:119", "`localhost` is not an IPv6 address"),
        ] {
            assert_eq!(check_host_port(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn path_identities_are_checked() {
        assert!(is_path_identity("news.example.org"));
        assert!(is_path_identity("uunet"));
        assert!(!is_path_identity("news example"));
        assert!(!is_path_identity("a!b"));
        assert!(!is_path_identity(""));
        assert!(!is_path_identity(".POSTED"));
    }
}
