//! `cancel-key` and `moderators`: what an operator needs for cancels and for moderated groups.
//!
//! Both only print: a header for a cancel message, sections for the configuration.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::locate::Where;
use super::screen::{Failure, say};
use crate::cancel_lock::key_element;
use crate::config::{Groups, quoted};
use crate::inject::Secret;
use netnews::MessageId;
use netnews::injection::{is_address, moderation};

/// As much of a moderators file as is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Prints the Cancel-Key header that withdraws an article posted here: the operator's, or the user's who
/// posted it.
pub(super) fn cancel_key(at: &Where, id: &str, user: Option<&str>) -> Result<(), Failure> {
    let config = at.load()?;
    let id = MessageId::parse(id.as_bytes()).ok_or_else(|| {
        Failure::Usage(format!("`{id}` is not a Message-ID; write it with its brackets: '<...>'"))
    })?;
    let secret = Secret::open(&config.site.data).map_err(|error| Failure::Problem(error.to_string()))?;
    let key = match user {
        Some(user) => secret.user_key(user, id.as_str()),
        None => secret.operator_key(id.as_str()),
    };
    say(format_args!("Cancel-Key: {}", key_element(&key)))
}

/// Prints the `[[moderator]]` sections that say what INN's moderators file says.
pub(super) fn moderators(file: &Path) -> Result<(), Failure> {
    let mut text = Vec::new();
    let unreadable =
        |error: std::io::Error| Failure::Usage(format!("cannot read {}: {error}", file.display()));
    File::open(file).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text)).map_err(unreadable)?;
    let sections = sections(&String::from_utf8_lossy(&text))
        .map_err(|error| Failure::Usage(format!("{}:{error}", file.display())))?;
    say(sections.trim_end())
}

/// Lines `wildmat:address`, the first match deciding, `#` before comments.
fn sections(text: &str) -> Result<String, String> {
    let mut sections = String::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |what: String| format!("{}: {what}", at + 1);
        let (groups, address) = line
            .split_once(':')
            .ok_or_else(|| fault(format!("`{line}` lacks a colon between groups and address")))?;
        let groups =
            Groups::parse(groups).map_err(|error| fault(format!("`{groups}` is not a wildmat: {error}")))?;
        if !is_address(moderation::address(address, "a.group").as_bytes()) {
            return Err(fault(format!("`{address}` is not a mail address")));
        }
        let (groups, address) = (quoted(groups.as_str()), quoted(address));
        sections.push_str(&format!("[[moderator]]\ngroups = {groups}\naddress = {address}\n\n"));
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moderators_file_becomes_sections() {
        let file = "# INN's\n\nfoo.important:announce@x.example\nlocal.*,!local.a:%s@y.example\n*:%s@moderators.isc.org\n";
        assert_eq!(
            sections(file).unwrap(),
            "[[moderator]]\ngroups = \"foo.important\"\naddress = \"announce@x.example\"\n\n\
             [[moderator]]\ngroups = \"local.*,!local.a\"\naddress = \"%s@y.example\"\n\n\
             [[moderator]]\ngroups = \"*\"\naddress = \"%s@moderators.isc.org\"\n\n"
        );
        assert_eq!(
            sections("\nnothing").unwrap_err(),
            "2: `nothing` lacks a colon between groups and address"
        );
        assert_eq!(sections("a:b").unwrap_err(), "1: `b` is not a mail address");
        assert!(sections("a[:b@c").unwrap_err().starts_with("1: `a[` is not a wildmat"));
    }
}
