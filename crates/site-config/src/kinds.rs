//! Kinds of values that keys take: each reads a value, reports faults in it, prints it, and has a description
//! for the manual.
//!
//! Named in the rows of `section!`; called by `read` both with values of the file and with defaults.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{self, PathBuf};
use std::time::Duration;

use netnews::injection::{is_address, moderation};
use netnews::wildmat::WildmatError;
use toml::Spanned;
use toml::de::DeValue;
use toml_edit::{InlineTable, Value};

use super::faults::nearest;
use super::host_port::check_host_port;
use super::issuer::read_issuer;
use super::ldap_filter::{LdapFilterError, is_attribute};
use super::shape::ValueShape;
use super::words::ConfigWord;
use super::{
    Cidr, Distributions, Durability, FeedStart, FreeMin, GroupGrant, HashSplit, HeaderMatch, Hours,
    KnownCertificate, LdapFilter, LocalAddress, NamePattern, PassedCommand, PassedList, RetentionTime,
};
use site_base::units;
use site_base::units::{parse_size, parse_span, size_text, span_text};

/// A value in the file.
pub(super) type Toml<'a> = Spanned<DeValue<'a>>;

/// A fault in a value.
#[derive(Debug)]
pub(super) struct ValueFault {
    pub(super) reason: FaultReason,
    pub(super) span: Range<usize>,
    /// Advice, if an example of the key is not enough.
    pub(super) advice: Option<String>,
}

/// The message of a fault.
#[derive(Debug)]
pub(super) enum FaultReason {
    /// The key does not take this type or value.
    NotTaken(String),
    /// A sentence, printed after the key's name and a colon.
    Because(String),
    /// The rest of a sentence that begins with the key's name.
    Must(String),
    /// A whole sentence.
    Whole(String),
}

impl ValueFault {
    fn new(value: &Toml<'_>, reason: FaultReason) -> Self {
        Self { reason, span: value.span(), advice: None }
    }

    fn advised(self, advice: String) -> Self {
        Self { advice: Some(advice), ..self }
    }

    fn because(value: &Toml<'_>, reason: impl Into<String>) -> Self {
        Self::new(value, FaultReason::Because(reason.into()))
    }

    fn wrong_type(value: &Toml<'_>) -> Self {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a section",
        };
        Self::new(value, FaultReason::NotTaken(found.into()))
    }
}

/// A kind of value.
pub(super) trait ValueKind {
    /// Type of the field.
    type Value;

    /// Returns the description of accepted values.
    fn words(&self) -> String;

    /// Returns the form of accepted values.
    fn shape(&self) -> ValueShape {
        ValueShape::Text
    }

    /// Reads a value.
    fn read(&self, value: &Toml<'_>) -> Result<Self::Value, ValueFault>;

    /// Returns the value in TOML, such that it reads back as the same one; `None` if the key is to be left
    /// out.
    fn write(&self, value: &Self::Value) -> Option<Value>;

    /// Returns the value without the key, if its row has no default; `None` if the key is required.
    fn absent(&self) -> Option<Self::Value> {
        None
    }

    /// Returns a description of that value.
    fn absent_words(&self) -> &'static str {
        "none (required)"
    }
}

/// An optional key.
pub(super) struct Maybe<K>(pub(super) K);

impl<K: ValueKind> ValueKind for Maybe<K> {
    type Value = Option<K::Value>;

    fn words(&self) -> String {
        self.0.words()
    }

    fn shape(&self) -> ValueShape {
        self.0.shape()
    }

    fn read(&self, value: &Toml<'_>) -> Result<Self::Value, ValueFault> {
        self.0.read(value).map(Some)
    }

    fn write(&self, value: &Self::Value) -> Option<Value> {
        value.as_ref().and_then(|value| self.0.write(value))
    }

    fn absent(&self) -> Option<Self::Value> {
        Some(None)
    }

    fn absent_words(&self) -> &'static str {
        "none"
    }
}

/// A list of values.
pub(super) struct ListOf<K>(pub(super) K);

impl<K: ValueKind> ValueKind for ListOf<K> {
    type Value = Vec<K::Value>;

    fn words(&self) -> String {
        let one = self.0.words();
        one.strip_prefix("a ").map_or_else(|| format!("a list of {one}"), |one| format!("a list of {one}s"))
    }

    fn shape(&self) -> ValueShape {
        self.0.shape().listed()
    }

    fn read(&self, value: &Toml<'_>) -> Result<Self::Value, ValueFault> {
        list(value, |element| self.0.read(element))
    }

    fn write(&self, value: &Self::Value) -> Option<Value> {
        Some(Value::from_iter(value.iter().filter_map(|element| self.0.write(element))))
    }
}

/// A single value or a list.
pub(super) struct OneOrMore<K>(pub(super) K);

impl<K: ValueKind + Copy> ValueKind for OneOrMore<K> {
    type Value = Vec<K::Value>;

    fn words(&self) -> String {
        format!("{}, or a list of them", self.0.words())
    }

    fn shape(&self) -> ValueShape {
        ValueShape::OneOf(vec![self.0.shape(), self.0.shape().listed()])
    }

    fn read(&self, value: &Toml<'_>) -> Result<Self::Value, ValueFault> {
        if value.get_ref().is_array() { ListOf(self.0).read(value) } else { Ok(vec![self.0.read(value)?]) }
    }

    fn write(&self, value: &Self::Value) -> Option<Value> {
        ListOf(self.0).write(value)
    }
}

/// An integer type of a key's value.
pub(super) trait KeyInteger: Copy + PartialOrd + fmt::Display + TryFrom<u64> + TryInto<i64> {}

impl<N: Copy + PartialOrd + fmt::Display + TryFrom<u64> + TryInto<i64>> KeyInteger for N {}

fn number<N: KeyInteger>(value: &Toml<'_>) -> Option<N> {
    let integer = value.get_ref().as_integer()?;
    N::try_from(u64::from_str_radix(integer.as_str(), integer.radix()).ok()?).ok()
}

/// An integer within bounds.
impl<N: KeyInteger> ValueKind for RangeInclusive<N> {
    type Value = N;

    fn words(&self) -> String {
        format!("a whole number from {} to {}", self.start(), self.end())
    }

    fn shape(&self) -> ValueShape {
        let bound = |bound: &N| (*bound).try_into().unwrap_or(i64::MAX);
        ValueShape::Number(bound(self.start()), bound(self.end()))
    }

    fn read(&self, value: &Toml<'_>) -> Result<N, ValueFault> {
        if !value.get_ref().is_integer() {
            return Err(ValueFault::wrong_type(value));
        }
        let text = || format!("the number must lie between {} and {}", self.start(), self.end());
        number(value).filter(|n| self.contains(n)).ok_or_else(|| ValueFault::because(value, text()))
    }

    fn write(&self, value: &N) -> Option<Value> {
        Some((*value).try_into().unwrap_or(i64::MAX).into())
    }
}

/// Declares a kind: the type of its value, its description, how a value is read, and how it is printed.
macro_rules! kind {
    (
        $(#[doc = $doc:literal])+
        $Kind:ident: $value:ty, $words:literal, $read:expr, $write:expr $(, $($more:tt)+)?
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy)]
        pub(super) struct $Kind;

        impl ValueKind for $Kind {
            type Value = $value;

            fn words(&self) -> String {
                $words.into()
            }

            fn read(&self, value: &Toml<'_>) -> Result<$value, ValueFault> {
                let read: fn(&Toml<'_>) -> Result<$value, ValueFault> = $read;
                read(value)
            }

            fn write(&self, value: &$value) -> Option<Value> {
                let write: fn(&$value) -> Value = $write;
                Some(write(value))
            }

            $($($more)+)?
        }
    };
}

kind! {
    /// Any text except an empty one.
    Text: String, "a text", |value| text(value, read_text), |text| text.into()
}
kind! {
    /// A text of several lines.
    MultilineText: String, "a text of one or more lines", |value| text(value, read_lines), |text| text.into()
}
kind! {
    /// The name of a buffer, class or group of users.
    Name: String, "a name", |value| text(value, read_name), |name| name.into()
}
kind! {
    /// A group of users that a login from outside may bring.
    Grant: GroupGrant, "\"NAME ELSEWHERE -> GROUP\" or a group's name",
    |value| text(value, |text| GroupGrant::parse(text, |group| read_name(group).is_ok())),
    |grant| grant.to_string().into()
}
kind! {
    /// A search filter of LDAP.
    SearchFilter: LdapFilter, "a search filter of LDAP", |value| text(value, LdapFilter::parse),
    |filter| filter.as_str().into()
}
kind! {
    /// The name of an attribute of LDAP.
    Attribute: String, "an attribute's name", |value| text(value, |text| {
        match is_attribute(text) {
            true => Ok(text.to_owned()),
            false => Err(LdapFilterError::Attribute),
        }
    }), |name| name.into()
}
kind! {
    /// The issuer of an OpenID provider.
    Issuer: String, "an address, https://HOST/PATH", |value| text(value, read_issuer), |issuer| issuer.into()
}
kind! {
    /// A path, relative to the directory given in the key's text.
    FilePath: PathBuf, "a path", |value| text(value, |text| read_text(text).map(PathBuf::from)), |path| {
        path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().as_ref().into()
    }
}
kind! {
    /// An address to listen on or connect to.
    HostPort: String, "\"HOST:PORT\"", |value| text(value, |text| {
        check_host_port(text).map(|()| text.to_owned())
    }), |text| text.into()
}
kind! {
    /// A mail address in which `%s` stands for a group's name.
    MailTemplate: String, "a mail address, %s in it for the group", |value| text(value, read_mail_template),
    |text| text.into()
}
kind! {
    /// The destination of posts to moderated groups.
    SubmissionAddress: String, "a mail address, %s in it for the group, or \"queue\"",
    |value| text(value, |text| match text {
        WAIT_HERE => Ok(text.to_owned()),
        _ => read_mail_template(text),
    }),
    |text| text.into()
}
kind! {
    /// A mail address.
    MailAddress: String, "a mail address", |value| text(value, |text| {
        match netnews::injection::is_address(text.as_bytes()) && !text.starts_with('-') {
            true => Ok(text.to_owned()),
            false => Err(TextFault::NotAMailAddress(text.to_owned())),
        }
    }), |text| text.into()
}
kind! {
    /// One of our own addresses.
    Local: LocalAddress, "addresses of ours, each with or without a port", |value| text(value, str::parse),
    |address| address.to_string().into()
}
kind! {
    /// A certificate.
    Certificate: KnownCertificate, "the name or fingerprint of a certificate",
    |value| text(value, KnownCertificate::parse), |known| known.to_string().into()
}
kind! {
    /// A wildmat.
    Wildmat: NamePattern, "a wildmat", |value| text(value, |text| {
        NamePattern::parse(text).map_err(|error| TextFault::NotAWildmat(text.to_owned(), error))
    }), |groups| groups.as_str().into()
}
kind! {
    /// A wildmat that may contain spaces, as values of headers do.
    Pattern: String, "a wildmat", |value| text(value, |text| {
        match netnews::wildmat::Wildmat::parse_lenient(text.as_bytes()) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(TextFault::NotAWildmat(text.to_owned(), error)),
        }
    }), |text| text.into()
}
kind! {
    /// Distributions between commas, like a wildmat.
    DistributionList: Distributions, "distributions between commas",
    |value| text(value, Distributions::parse),
    |list| list.as_str().into()
}
kind! {
    /// The time when an article counts as stored.
    Durable: Durability, "\"process\", \"interval(TIME)\" or \"always\"",
    |value| text(value, units::parse_durability), |durability| units::durability_text(*durability).into()
}
kind! {
    /// Our name in Path (RFC 5536 section 3.1.5); by default that of the machine.
    PathIdentity: String, "a text", |value| text(value, |text| match is_path_identity(text) {
        true => Ok(text.to_owned()),
        false => Err(TextFault::NotAPathIdentity(text.to_owned())),
    }), |text| text.into(),
    fn absent(&self) -> Option<String> {
        Some(host_name())
    }
    fn absent_words(&self) -> &'static str {
        "the machine's host name"
    }
}
kind! {
    /// A header that can be added to overview.
    FurtherHeader: String, "a header's name", |value| text(value, |text| {
        match netnews::overview_row::is_further(text.as_bytes()) {
            true => Ok(text.to_owned()),
            false => Err(TextFault::NotAFurtherHeader(text.to_owned())),
        }
    }), |text| text.into()
}
kind! {
    /// How much of what was just written stays in memory; `u64::MAX`: all.
    HotMemory: u64, "a size, at least 1 MiB, or \"all\"", |value| match value.get_ref().as_str() {
        Some("all") => Ok(u64::MAX),
        _ => Size { min: 1 << 20, max: u64::MAX }.read(value),
    }, |bytes| if *bytes == u64::MAX { "all".into() } else { size_text(*bytes).into() },
    fn shape(&self) -> ValueShape {
        Size::ANY.shape()
    }
    fn absent(&self) -> Option<u64> {
        let system = rustix::system::sysinfo();
        Some(hot_memory_of((system.totalram as u64).saturating_mul(u64::from(system.mem_unit))))
    }
    fn absent_words(&self) -> &'static str {
        "a 512th of the machine's memory, at least 8 MiB"
    }
}
kind! {
    /// True or false.
    Switch: bool, "true or false", |value| {
        value.get_ref().as_bool().ok_or_else(|| ValueFault::wrong_type(value))
    }, |switch| (*switch).into(),
    fn shape(&self) -> ValueShape {
        ValueShape::Switch
    }
}
kind! {
    /// A time.
    Span: Duration, "a time", |value| match value.get_ref() {
        DeValue::Integer(n) => {
            Err(ValueFault::because(value, format!("`{n}` lacks a unit; write a text such as \"{n} s\"")))
        }
        _ => text(value, parse_span),
    }, |span| span_text(*span).into()
}
kind! {
    /// A time, or never.
    SpanOrNever: RetentionTime, "a time, or \"never\"", |value| match value.get_ref().as_str() {
        Some("never") => Ok(RetentionTime::Never),
        _ => Span.read(value).map(RetentionTime::For),
    }, |stay| match stay {
        RetentionTime::Never => "never".into(),
        RetentionTime::For(span) => span_text(*span).into(),
    }
}
kind! {
    /// Free space on a file system.
    Room: FreeMin, "a size, or a percentage from \"1 %\" to \"99 %\"", |value| {
        let percent = value.get_ref().as_str().and_then(|text| text.strip_suffix('%'));
        let Some(percent) = percent else { return Size::ANY.read(value).map(FreeMin::Bytes) };
        let percent = percent.trim_end().parse().ok().filter(|percent| (1..=99).contains(percent));
        percent.map(FreeMin::Percent).ok_or_else(|| ValueFault::because(value, "write it as in \"5 %\""))
    }, |room| match room {
        FreeMin::Bytes(bytes) => size_text(*bytes).into(),
        FreeMin::Percent(percent) => format!("{percent} %").into(),
    },
    fn shape(&self) -> ValueShape {
        Size::ANY.shape()
    }
}
kind! {
    /// A time after which a client is disconnected.
    Timeout: Duration, "a time", |value| match Span.read(value)? {
        span if span < TIMEOUT_MIN => {
            let reason = FaultReason::Must("would close every connection at once".into());
            Err(ValueFault::new(value, reason).advised(format!("write at least \"{}\"", span_text(TIMEOUT_MIN))))
        }
        span => Ok(span),
    }, |span| span_text(*span).into()
}
kind! {
    /// A time between two attempts.
    Pause: Duration, "a time", |value| match Span.read(value)? {
        span if span < PAUSE_MIN => {
            let reason = FaultReason::Must("would leave no pause".into());
            Err(ValueFault::new(value, reason).advised(format!("write at least \"{}\"", span_text(PAUSE_MIN))))
        }
        span => Ok(span),
    }, |span| span_text(*span).into()
}
kind! {
    /// A command that is passed on to an upstream.
    CommandToPass: PassedCommand, "a command",
    |value| text(value, str::parse), |command| command.to_string().into()
}
kind! {
    /// A list that is requested from an upstream.
    ListToPass: PassedList, "a list", |value| text(value, str::parse), |list| list.to_string().into()
}
kind! {
    /// Hours of the day.
    HourRange: Hours, "\"FROM-TO\", hours from 0 to 24", |value| text(value, str::parse), |hours| {
        hours.to_string().into()
    }
}
kind! {
    /// An address.
    Address: IpAddr, "an IP address", |value| text(value, |text| {
        text.parse().map_err(|_| TextFault::NotAnIpAddress(text.to_owned()))
    }), |address| address.to_string().into()
}
kind! {
    /// The beginning of a feed.
    StartAt: FeedStart, "\"now\", \"oldest\" or a date", |value| text(value, FeedStart::parse), |from| {
        from.to_string().into()
    }
}
kind! {
    /// A part of all articles.
    Split: HashSplit, "\"FIRST-LAST/PARTS\", perhaps with \":OFFSET\"", |value| text(value, HashSplit::parse),
    |split| split.to_string().into()
}
kind! {
    /// The unit of allocation of a buffer.
    Block: u32, "a size", |value| {
        let block = u32::try_from(Size::ANY.read(value)?).ok();
        block.filter(|block| block.is_power_of_two() && BLOCK_BYTES.contains(block)).ok_or_else(|| {
            let reason = FaultReason::Whole("a block must be a power of two from 64 to 16384 bytes".into());
            ValueFault::new(value, reason).advised("the default, \"64\", suits text".into())
        })
    }, |block| block.to_string().into(),
    fn shape(&self) -> ValueShape {
        Size::ANY.shape()
    }
}
kind! {
    /// A number of days, or none.
    DaysOrNone: Option<u32>, "a whole number of days, or \"none\"", |value| match value.get_ref().as_str() {
        Some("none") => Ok(None),
        _ => DAYS.read(value).map(Some),
    }, |days| days.map_or_else(|| "none".into(), |days| i64::from(days).into()),
    fn shape(&self) -> ValueShape {
        ValueShape::OneOf(vec![DAYS.shape(), ValueShape::Word(vec!["none"])])
    }
}
kind! {
    /// A program by its absolute path, and its arguments.
    Program: Vec<String>, "a list: a program and its arguments", |value| {
        let argument = |value: &Toml<'_>| text(value, |text| match text.contains('\0') {
            true => Err(TextFault::Nul),
            false => Ok(text.to_owned()),
        });
        let words = list(value, argument)?;
        match words.first() {
            Some(program) if program.starts_with('/') => Ok(words),
            Some(program) => Err(ValueFault::because(value, format!("`{program}` is not an absolute path"))),
            None => Err(ValueFault::because(value, "the list names no program")),
        }
    }, |words| words.iter().collect(),
    fn shape(&self) -> ValueShape {
        ValueShape::Text.listed()
    }
}
kind! {
    /// One or more networks, or `"all"`; may be empty.
    NetworksOrNone: Vec<Cidr>, "an IP address or network, or a list of them, perhaps empty", |value| {
        let one = |value: &Toml<'_>| text(value, |text| match text {
            "all" => Ok(Cidr::ALL.to_vec()),
            text => text.parse().map(|cidr| vec![cidr]),
        });
        if value.get_ref().is_array() { Ok(list(value, one)?.concat()) } else { one(value) }
    }, |networks| networks.iter().map(Cidr::to_string).collect(),
    fn shape(&self) -> ValueShape {
        ValueShape::OneOf(vec![ValueShape::Text, ValueShape::Text.listed()])
    }
}
kind! {
    /// One or more networks, or `"all"`.
    Networks: Vec<Cidr>, "an IP address or network, or a list of them", |value| {
        match NetworksOrNone.read(value)? {
            networks if networks.is_empty() => Err(ValueFault::because(value, "the list is empty")),
            networks => Ok(networks),
        }
    }, |networks| networks.iter().map(Cidr::to_string).collect(),
    fn shape(&self) -> ValueShape {
        NetworksOrNone.shape()
    }
}
kind! {
    /// A condition on a header: `{ name = "...", matches = "..." }`.
    Header: HeaderMatch, "a header condition", |value| {
        let table = value.get_ref().as_table().ok_or_else(|| ValueFault::wrong_type(value))?;
        let get = |name| table.get(name).ok_or_else(|| ValueFault::because(value, format!("it lacks `{name}`")));
        if let Some(other) = table.keys().find(|key| !["name", "matches"].contains(&key.get_ref().as_ref())) {
            let reason = format!("`{}` is neither `name` nor `matches`", other.get_ref());
            return Err(ValueFault::because(value, reason));
        }
        let name = text(get("name")?, |name| {
            match !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
                true => Ok(name.to_owned()),
                false => Err(TextFault::NotAHeader(name.to_owned())),
            }
        })?;
        Ok(HeaderMatch { name, matches: Pattern.read(get("matches")?)? })
    }, |HeaderMatch { name, matches }| {
        InlineTable::from_iter([("name", name.as_str()), ("matches", matches.as_str())]).into()
    },
    fn shape(&self) -> ValueShape {
        ValueShape::Table(vec!["name", "matches"])
    }
}

/// Minimum of all timeouts.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// Minimum pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Minimum and maximum block size of a buffer, in bytes.
const BLOCK_BYTES: RangeInclusive<u32> = 64..=16_384;
/// Ages of articles: up to 100 years.
const DAYS: RangeInclusive<u32> = 1..=36_500;

/// The submission address that stands for this server's own queue.
pub const WAIT_HERE: &str = "queue";

/// Reads a value of type text.
fn text<T, E: fmt::Display>(value: &Toml<'_>, read: impl Fn(&str) -> Result<T, E>) -> Result<T, ValueFault> {
    let text = value.get_ref().as_str().ok_or_else(|| ValueFault::wrong_type(value))?;
    read(text).map_err(|reason| ValueFault::because(value, reason.to_string()))
}

/// Reads a value of type list.
fn list<T>(
    value: &Toml<'_>,
    read: impl Fn(&Toml<'_>) -> Result<T, ValueFault>,
) -> Result<Vec<T>, ValueFault> {
    let elements = value.get_ref().as_array().ok_or_else(|| ValueFault::wrong_type(value))?;
    elements.iter().map(read).collect()
}

/// Reason why a text is not what a key takes.
#[derive(Debug, thiserror::Error)]
enum TextFault {
    /// Empty, or with control characters.
    #[error("the text must not be empty or hold control characters")]
    EmptyOrControls,
    /// Empty, too long, or with control characters other than tabs and line ends.
    #[error(
        "the text must have 1 to {lines_bytes_max} bytes, and no control characters",
        lines_bytes_max = LINES_BYTES_MAX
    )]
    NotLines,
    /// An argument of a program with a NUL.
    #[error("an argument must not hold NUL")]
    Nul,
    /// Not the name of a buffer or class.
    #[error(
        "`{0}` is not 1 to {name_bytes_max} letters, digits, `_`, `.` or `-`",
        name_bytes_max = NAME_BYTES_MAX
    )]
    NotAName(String),
    /// Not a mail address.
    #[error("`{0}` is not a mail address")]
    NotAMailAddress(String),
    /// Not a wildmat, for this reason.
    #[error("`{0}` is not a wildmat: {1}")]
    NotAWildmat(String, WildmatError),
    /// Not a path identity.
    #[error("`{0}` is not a path identity: letters, digits, `.`, `-`, `_`, no spaces")]
    NotAPathIdentity(String),
    /// Not the name of a header.
    #[error("`{0}` is not a header's name")]
    NotAHeader(String),
    /// Not the name of a header that can be added to overview.
    #[error("`{0}` is not a header's name, or overview has it anyway")]
    NotAFurtherHeader(String),
    /// Not an IP address.
    #[error("`{0}` is not an IP address")]
    NotAnIpAddress(String),
    /// A template that makes no mail address.
    #[error("`{template}` makes no mail address: {address}")]
    NoMailAddress {
        /// The template.
        template: String,
        /// The text that it makes of a group's name.
        address: String,
    },
}

fn read_text(text: &str) -> Result<String, TextFault> {
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err(TextFault::EmptyOrControls),
        false => Ok(text.to_owned()),
    }
}

/// Longest text of several lines, in bytes.
const LINES_BYTES_MAX: usize = 64 << 10;

fn read_lines(text: &str) -> Result<String, TextFault> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    match text.is_empty() || text.len() > LINES_BYTES_MAX || text.chars().any(is_control) {
        true => Err(TextFault::NotLines),
        false => Ok(text.to_owned()),
    }
}

/// Longest name of a buffer or class, in bytes: as much as a buffer's header holds.
const NAME_BYTES_MAX: usize = 15;

fn read_name(text: &str) -> Result<String, TextFault> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    match (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(TextFault::NotAName(text.to_owned())),
    }
}

fn read_mail_template(text: &str) -> Result<String, TextFault> {
    let address = moderation::address(text, "a.group");
    match is_address(address.as_bytes()) {
        true => Ok(text.to_owned()),
        false => Err(TextFault::NoMailAddress { template: text.to_owned(), address }),
    }
}

/// Longest path identity, in bytes: a domain name's length.
const PATH_IDENTITY_BYTES_MAX: usize = 255;

/// Returns true if `text` is a valid path identity.
pub fn is_path_identity(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    (1..=PATH_IDENTITY_BYTES_MAX).contains(&text.len())
        && text.chars().all(allowed)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns the default amount of recently written data that a machine with this memory keeps.
fn hot_memory_of(memory_bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    (memory_bytes / 512 / MIB * MIB).max(8 * MIB)
}

/// Returns the machine's name, if it is a valid path identity.
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().into_owned();
    if is_path_identity(&name) { name } else { "localhost".into() }
}

/// A size, as a text with a unit or as a number of bytes.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Minimum size in bytes.
    pub(super) min: u64,
    /// Maximum size in bytes.
    pub(super) max: u64,
}

impl Size {
    /// Without limits.
    pub(super) const ANY: Self = Self { min: 0, max: u64::MAX };
}

impl ValueKind for Size {
    type Value = u64;

    fn words(&self) -> String {
        match (self.min, self.max) {
            (0, u64::MAX) => "a size".into(),
            (min, u64::MAX) => format!("a size, at least {}", size_text(min)),
            (min, max) => format!("a size from {} to {}", size_text(min), size_text(max)),
        }
    }

    fn shape(&self) -> ValueShape {
        ValueShape::OneOf(vec![ValueShape::Text, ValueShape::COUNT])
    }

    fn read(&self, value: &Toml<'_>) -> Result<u64, ValueFault> {
        let bytes = match value.get_ref() {
            DeValue::String(text) => {
                parse_size(text).map_err(|reason| ValueFault::because(value, reason.to_string()))?
            }
            _ => number(value).ok_or_else(|| ValueFault::wrong_type(value))?,
        };
        let Self { min, max } = *self;
        let must = match max {
            _ if (min..=max).contains(&bytes) => return Ok(bytes),
            u64::MAX => format!("must be at least {}", size_text(min)),
            max => format!("must lie between {} and {}", size_text(min), size_text(max)),
        };
        Err(ValueFault::new(value, FaultReason::Must(must)))
    }

    fn write(&self, value: &u64) -> Option<Value> {
        Some(size_text(*value).into())
    }
}

/// One of the words of an enumeration.
pub(super) struct OneWord<W>(PhantomData<W>);

impl<W> Clone for OneWord<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for OneWord<W> {}

/// Returns the kind for one of the words of the field's enumeration.
pub(super) fn word<W: ConfigWord>() -> OneWord<W> {
    OneWord(PhantomData)
}

impl<W: ConfigWord> ValueKind for OneWord<W> {
    type Value = W;

    fn words(&self) -> String {
        let quoted: Vec<String> = W::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Word(W::WORDS.iter().map(|(word, _)| *word).collect())
    }

    fn read(&self, value: &Toml<'_>) -> Result<W, ValueFault> {
        let text = value.get_ref().as_str().ok_or_else(|| ValueFault::wrong_type(value))?;
        W::from_word(text).ok_or_else(|| {
            let near = nearest(text, W::WORDS.iter().map(|(word, _)| *word));
            let advice = near.map(|near| format!("did you mean \"{near}\"?"));
            ValueFault { advice, ..ValueFault::new(value, FaultReason::NotTaken(format!("\"{text}\""))) }
        })
    }

    fn write(&self, value: &W) -> Option<Value> {
        Some(value.word().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
