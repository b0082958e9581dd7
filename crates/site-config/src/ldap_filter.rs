//! Search filters of LDAP, read from their text: a filter is checked with the configuration, and a user's
//! name is put into its values later, as octets, so that no name can change what is searched for.
//!
//! `%s` in a value stands for a user's name, `%d` for the user's distinguished name, and `%%` for a percent
//! sign. Source: RFC 4515 section 3.

use std::fmt;

/// Longest text of a filter, in bytes.
const FILTER_BYTES_MAX: usize = 4096;
/// Deepest nesting of filters.
const DEPTH_MAX: usize = 16;
/// Most filters within `&` or `|`.
const PARTS_MAX: usize = 100;

/// A filter with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapFilter {
    text: String,
    test: LdapTest,
}

/// The test of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LdapTest {
    /// All hold.
    And(Vec<LdapTest>),
    /// At least one holds.
    Or(Vec<LdapTest>),
    /// The test does not hold.
    Not(Box<LdapTest>),
    /// The attribute has a value.
    Present(String),
    /// A value compares in this way.
    Compare(LdapComparison, String, LdapValue),
    /// A value contains these parts, in this order.
    Substrings {
        /// The attribute.
        attribute: String,
        /// Beginning of the value.
        initial: Option<LdapValue>,
        /// Parts in the middle.
        any: Vec<LdapValue>,
        /// End of the value.
        last: Option<LdapValue>,
    },
    /// A value matches by a rule.
    Extensible {
        /// The attribute; without one, every attribute that the rule is for.
        attribute: Option<String>,
        /// The attributes of the entry's distinguished name are tested, too (`:dn`).
        has_dn_attributes: bool,
        /// The rule; without one, the rule that tests the attribute for equality.
        rule: Option<String>,
        /// The value.
        value: LdapValue,
    },
}

/// A comparison with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdapComparison {
    /// `=`
    Equal,
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `~=`
    Approximate,
}

/// A value of a test, with places for what is known at a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapValue(Vec<LdapValuePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum LdapValuePart {
    Octets(Vec<u8>),
    Name,
    Dn,
}

/// Reason why a text is not a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdapFilterError {
    /// Too long or nested too deeply.
    TooLarge,
    /// Parentheses do not match.
    Parentheses,
    /// An attribute has no valid description.
    Attribute,
    /// No operator follows the attribute.
    Operator,
    /// An extensible match has a part that is not allowed there, or neither an attribute nor a rule.
    Extensible,
    /// An escape, a percent sign or a character in a value is invalid.
    Value,
}

impl fmt::Display for LdapFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the filter is too long, or nested too deeply",
            Self::Parentheses => "its parentheses do not match; each test has a pair: (&(a=b)(c=d))",
            Self::Attribute => "an attribute's name has letters, digits and hyphens",
            Self::Operator => "a test is an attribute, one of = >= <= ~= :=, and a value",
            Self::Extensible => "a test by a rule is ATTRIBUTE:RULE:=VALUE, with :dn before :RULE if wanted",
            Self::Value => {
                "in a value, \\ is followed by two hexadecimal digits, % by s, d or %, and * is written \\2a"
            }
        })
    }
}

impl std::error::Error for LdapFilterError {}

impl LdapFilter {
    /// Parses the text of a filter.
    ///
    /// # Errors
    /// If it is not one, or has what is not supported.
    pub fn parse(text: &str) -> Result<Self, LdapFilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(LdapFilterError::TooLarge);
        }
        let mut rest = text;
        let test = filter(&mut rest, 0)?;
        match rest {
            "" => Ok(Self { text: text.to_owned(), test }),
            _ => Err(LdapFilterError::Parentheses),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the test.
    pub fn test(&self) -> &LdapTest {
        &self.test
    }
}

impl LdapValue {
    /// Returns the octets of the value for a user.
    pub fn octets(&self, name: &str, dn: &str) -> Vec<u8> {
        let of = |part: &LdapValuePart| match part {
            LdapValuePart::Octets(octets) => octets.clone(),
            LdapValuePart::Name => name.as_bytes().to_vec(),
            LdapValuePart::Dn => dn.as_bytes().to_vec(),
        };
        self.0.iter().flat_map(of).collect()
    }

    fn parse(text: &str) -> Result<Self, LdapFilterError> {
        let (mut parts, mut octets) = (Vec::new(), Vec::new());
        let mut rest = text.as_bytes();
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            let place = match (first, after) {
                (b'\\', [high, low, after @ ..]) => {
                    rest = after;
                    octets.push(hex(*high)? * 16 + hex(*low)?);
                    continue;
                }
                (b'%', [b'%', after @ ..]) => {
                    rest = after;
                    octets.push(b'%');
                    continue;
                }
                (b'%', [b's', after @ ..]) => {
                    rest = after;
                    LdapValuePart::Name
                }
                (b'%', [b'd', after @ ..]) => {
                    rest = after;
                    LdapValuePart::Dn
                }
                (b'\\' | b'%' | b'(' | b')' | b'*' | 0, _) => return Err(LdapFilterError::Value),
                _ => {
                    octets.push(first);
                    continue;
                }
            };
            parts.push(LdapValuePart::Octets(std::mem::take(&mut octets)));
            parts.push(place);
        }
        parts.push(LdapValuePart::Octets(octets));
        parts.retain(|part| !matches!(part, LdapValuePart::Octets(octets) if octets.is_empty()));
        Ok(Self(parts))
    }
}

fn hex(digit: u8) -> Result<u8, LdapFilterError> {
    let digit = char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digit.ok_or(LdapFilterError::Value)
}

/// Takes a filter in parentheses from the beginning of `rest`.
fn filter(rest: &mut &str, depth: usize) -> Result<LdapTest, LdapFilterError> {
    if depth > DEPTH_MAX {
        return Err(LdapFilterError::TooLarge);
    }
    *rest = rest.strip_prefix('(').ok_or(LdapFilterError::Parentheses)?;
    let test = if let Some(after) = rest.strip_prefix('&') {
        *rest = after;
        LdapTest::And(several(rest, depth)?)
    } else if let Some(after) = rest.strip_prefix('|') {
        *rest = after;
        LdapTest::Or(several(rest, depth)?)
    } else if let Some(after) = rest.strip_prefix('!') {
        *rest = after;
        LdapTest::Not(Box::new(filter(rest, depth + 1)?))
    } else {
        item(rest)?
    };
    *rest = rest.strip_prefix(')').ok_or(LdapFilterError::Parentheses)?;
    Ok(test)
}

/// Takes the filters that follow an operator.
fn several(rest: &mut &str, depth: usize) -> Result<Vec<LdapTest>, LdapFilterError> {
    let mut all = Vec::new();
    while rest.starts_with('(') {
        if all.len() == PARTS_MAX {
            return Err(LdapFilterError::TooLarge);
        }
        all.push(filter(rest, depth + 1)?);
    }
    if all.is_empty() { Err(LdapFilterError::Parentheses) } else { Ok(all) }
}

/// Takes a test of one attribute.
fn item(rest: &mut &str) -> Result<LdapTest, LdapFilterError> {
    let (text, after) = rest.split_at(rest.find(')').ok_or(LdapFilterError::Parentheses)?);
    *rest = after;
    let (attribute, value) = text.split_once('=').ok_or(LdapFilterError::Operator)?;
    if let Some(matched) = attribute.strip_suffix(':') {
        return extensible(matched, value);
    }
    let signs =
        [('>', LdapComparison::AtLeast), ('<', LdapComparison::AtMost), ('~', LdapComparison::Approximate)];
    let signed = signs
        .into_iter()
        .find_map(|(sign, comparison)| attribute.strip_suffix(sign).map(|attribute| (attribute, comparison)));
    let (attribute, comparison) = signed.unwrap_or((attribute, LdapComparison::Equal));
    if !is_described(attribute) {
        return Err(LdapFilterError::Attribute);
    }
    let attribute = attribute.to_owned();
    if comparison != LdapComparison::Equal || !value.contains('*') {
        return Ok(LdapTest::Compare(comparison, attribute, LdapValue::parse(value)?));
    }
    if value == "*" {
        return Ok(LdapTest::Present(attribute));
    }
    let mut parts: Vec<Option<LdapValue>> = Vec::new();
    for part in value.split('*') {
        parts.push((!part.is_empty()).then(|| LdapValue::parse(part)).transpose()?);
    }
    let last = parts.pop().flatten();
    let mut parts = parts.into_iter();
    let initial = parts.next().flatten();
    let any: Vec<LdapValue> = parts.flatten().collect();
    if initial.is_none() && any.is_empty() && last.is_none() {
        return Err(LdapFilterError::Value);
    }
    Ok(LdapTest::Substrings { attribute, initial, any, last })
}

/// Returns an extensible match: `matched` is what precedes `:=`, an attribute, `:dn` and a rule, of which
/// `:dn` may be absent, and one of the others.
fn extensible(matched: &str, value: &str) -> Result<LdapTest, LdapFilterError> {
    let mut parts = matched.split(':');
    let attribute = parts.next().filter(|attribute| !attribute.is_empty());
    let mut next = parts.next();
    let has_dn_attributes = next.is_some_and(|part| part.eq_ignore_ascii_case("dn"));
    if has_dn_attributes {
        next = parts.next();
    }
    if parts.next().is_some() || attribute.is_none() && next.is_none() {
        return Err(LdapFilterError::Extensible);
    }
    if attribute.is_some_and(|attribute| !is_described(attribute)) {
        return Err(LdapFilterError::Attribute);
    }
    if next.is_some_and(|rule| !is_attribute(rule)) {
        return Err(LdapFilterError::Extensible);
    }
    let (attribute, rule) = (attribute.map(str::to_owned), next.map(str::to_owned));
    Ok(LdapTest::Extensible { attribute, has_dn_attributes, rule, value: LdapValue::parse(value)? })
}

/// Returns true if a text is the description of an attribute (RFC 4512 section 2.5), perhaps with options.
fn is_described(text: &str) -> bool {
    let mut parts = text.split(';');
    let is_option =
        |option: &str| !option.is_empty() && option.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    parts.next().is_some_and(is_attribute) && parts.all(is_option)
}

/// Returns true if a text is the description of an attribute (RFC 4512 section 2.5) without options, or an
/// object identifier, by a name or by numbers.
pub fn is_attribute(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> LdapTest {
        LdapFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).test
    }

    #[test]
    fn filters_become_tests() {
        let value = |text: &[u8]| LdapValue(vec![LdapValuePart::Octets(text.to_vec())]);
        let name = || LdapValue(vec![LdapValuePart::Name]);
        let equal =
            |attribute: &str, value| LdapTest::Compare(LdapComparison::Equal, attribute.to_owned(), value);
        assert_eq!(test("(uid=%s)"), equal("uid", name()));
        assert_eq!(
            test("(&(objectClass=person)(!(locked=TRUE))(|(uid=%s)(mail=%s)))"),
            LdapTest::And(vec![
                equal("objectClass", value(b"person")),
                LdapTest::Not(Box::new(equal("locked", value(b"TRUE")))),
                LdapTest::Or(vec![equal("uid", name()), equal("mail", name())]),
            ])
        );
        assert_eq!(test("(cn=*)"), LdapTest::Present("cn".into()));
        assert_eq!(
            test("(cn=a*b\\2a*)"),
            LdapTest::Substrings {
                attribute: "cn".into(),
                initial: Some(value(b"a")),
                any: vec![value(b"b*")],
                last: None
            }
        );
        assert_eq!(test("(age>=18)"), LdapTest::Compare(LdapComparison::AtLeast, "age".into(), value(b"18")));
        assert_eq!(test("(cn;lang-de=a)"), equal("cn;lang-de", value(b"a")));
    }

    /// The forms, and the examples, of RFC 4515 section 4, and the one for nested groups of Active Directory.
    #[test]
    fn extensible_matches_have_an_attribute_or_a_rule_or_both() {
        let value = |text: &[u8]| LdapValue(vec![LdapValuePart::Octets(text.to_vec())]);
        for (text, attribute, has_dn_attributes, rule, value) in [
            ("(cn:caseExactMatch:=Fred)", Some("cn"), false, Some("caseExactMatch"), value(b"Fred")),
            ("(cn:=Betty Rubble)", Some("cn"), false, None, value(b"Betty Rubble")),
            ("(sn:dn:2.4.6.8.10:=Barney)", Some("sn"), true, Some("2.4.6.8.10"), value(b"Barney")),
            ("(o:dn:=Ace Industry)", Some("o"), true, None, value(b"Ace Industry")),
            ("(:1.2.3:=Wilma)", None, false, Some("1.2.3"), value(b"Wilma")),
            ("(:DN:2.4.6.8.10:=Dino)", None, true, Some("2.4.6.8.10"), value(b"Dino")),
            (
                "(member:1.2.840.113556.1.4.1941:=%d)",
                Some("member"),
                false,
                Some("1.2.840.113556.1.4.1941"),
                LdapValue(vec![LdapValuePart::Dn]),
            ),
        ] {
            let (attribute, rule) = (attribute.map(str::to_owned), rule.map(str::to_owned));
            assert_eq!(
                test(text),
                LdapTest::Extensible { attribute, has_dn_attributes, rule, value },
                "{text}"
            );
        }
        for bad in [
            "(:=x)",
            "(:dn:=x)",
            "(cn::=x)",
            "(cn:dn:dn:dn:=x)",
            "(cn:rule:dn:=x)",
            "(cn:a:b:=x)",
            "(cn:a b:=x)",
            "(c n:a:=x)",
            "(cn:a:=x*)",
            "(cn:a:x)",
            "(:dn::=x)",
        ] {
            assert!(LdapFilter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_only_ever_a_value() {
        let LdapTest::Compare(_, _, value) = test("(member=%%%d-%s)") else { panic!("not a comparison") };
        assert_eq!(value.octets("*)(uid=root", "cn=a,dc=b"), b"%cn=a,dc=b-*)(uid=root");
    }

    #[test]
    fn texts_that_are_no_filters_are_refused() {
        let deep = format!("{}(a=b){}", "(!".repeat(30), ")".repeat(30));
        for bad in [
            "",
            "uid=%s",
            "(uid=%s",
            "(uid=%s))",
            "()",
            "(&)",
            "(uid)",
            "(=x)",
            "(u d=x)",
            "(uid=%x)",
            "(uid=a\\2)",
            "(uid=a\\zz)",
            "(uid=a(b)",
            "(uid=**)",
            "(!(a=b)(c=d))",
            "(uid>>=x)",
            "(uid>=x*)",
            "(uid;=x)",
            "(uid;a_b=x)",
            &deep,
            &format!("(a={})", "x".repeat(FILTER_BYTES_MAX)),
        ] {
            assert!(LdapFilter::parse(bad).is_err(), "{bad}");
        }
    }
}
