//! The request that an article makes: its type, its claimed sender and its groups.

use netnews::article::Headers;
use netnews::control::group_info::CheckgroupsScope;
use netnews::{Article, Known, control, newsgroups};
use site_config::ControlType;

/// Most groups of one article examined.
const GROUPS_MAX: usize = 1_000;

/// A request of an article to the servers it reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlRequest<'a> {
    /// Type of the request.
    pub what: ControlType,
    /// Address in Sender, or in From, in lower case.
    pub sender: String,
    /// Groups that the request is about.
    pub groups: Vec<&'a [u8]>,
}

impl<'a> ControlRequest<'a> {
    /// Returns the request of `article`; `None` for nearly every article.
    pub fn of(article: &Article<'a>) -> Option<Self> {
        let what = what(article)?;
        let control = article.header(Known::Control).unwrap_or_default();
        let named = |groups: &'a [u8]| newsgroups::split(groups).take(GROUPS_MAX).collect();
        let groups = match what {
            ControlType::Newgroup | ControlType::Rmgroup => argument(control).into_iter().collect(),
            ControlType::Checkgroups => match CheckgroupsScope::of(control) {
                Some(scope) if !scope.hierarchies.is_empty() => scope.hierarchies,
                _ => named(article.header(Known::Newsgroups).unwrap_or_default()),
            },
            _ => named(article.header(Known::Newsgroups).unwrap_or_default()),
        };
        Some(Self { what, sender: sender(article), groups })
    }

    /// Adds the groups of the article with these header lines.
    pub fn and_of(mut self, head: &'a [u8]) -> Self {
        let mut headers = Headers::of(head);
        let named = headers.find(|(name, _)| name.eq_ignore_ascii_case(b"Newsgroups"));
        let groups = named.map(|(_, value)| newsgroups::split(value).take(GROUPS_MAX));
        self.groups.extend(groups.into_iter().flatten());
        self
    }
}

/// Returns the type of the request.
fn what(article: &Article<'_>) -> Option<ControlType> {
    let Some(value) = article.header(Known::Control) else {
        return (article.count(Known::Supersedes) > 0).then_some(ControlType::Supersede);
    };
    let verb = control::verb(value).to_ascii_lowercase();
    Some(match verb.as_slice() {
        b"newgroup" => ControlType::Newgroup,
        b"rmgroup" => ControlType::Rmgroup,
        b"checkgroups" => ControlType::Checkgroups,
        b"cancel" => ControlType::Cancel,
        b"ihave" => ControlType::Ihave,
        b"sendme" => ControlType::Sendme,
        _ => ControlType::Other,
    })
}

/// Returns the first word after the verb.
fn argument(control: &[u8]) -> Option<&[u8]> {
    control.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1)
}

/// Returns the address of the claimed sender of an article.
pub(crate) fn sender(article: &Article<'_>) -> String {
    let value = article.header(Known::Sender).or(article.header(Known::From)).unwrap_or_default();
    address(value).to_ascii_lowercase()
}

/// Returns the address of a mailbox: the part in angle brackets, or the text without comments.
pub fn address(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let angle = text.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    let bare = match angle {
        Some((inner, _)) => inner.to_owned(),
        None => {
            let mut depth = 0u32;
            let outside = |c: &char| {
                let was_outside = depth == 0;
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                was_outside && depth == 0
            };
            text.chars().filter(outside).collect()
        }
    };
    bare.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_brackets_or_outside_comments() {
        for (value, expected) in [
            ("a@b.c", "a@b.c"),
            ("Joe <a@b.c>", "a@b.c"),
            ("\"x@y <z>\" <a@b.c> (z)", "a@b.c"),
            ("a@b.c (Joe (the) x@y)", "a@b.c"),
            ("(x@y) a@b.c\r\n (c)", "a@b.c"),
            ("", ""),
            ("a@b.c)", "a@b.c)"),
        ] {
            assert_eq!(address(value.as_bytes()), expected, "{value}");
        }
    }
}
