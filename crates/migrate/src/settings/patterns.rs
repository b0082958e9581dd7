//! INN's patterns and lists of hosts, converted to newsreel's form.
//!
//! In both, the last pattern that matches decides. INN's `@`, which refuses an article for one of its
//! groups, becomes a separate wildmat here. Called by the converters of `settings`. Source:
//! libinn_uwildmat(3).

use std::net::IpAddr;

use super::text::{NotConverted, pieces};
use site_config::{Cidr, NamePattern};

/// Looks up the addresses of a host.
pub type ResolveHost<'a> = &'a dyn Fn(&str) -> Vec<IpAddr>;

/// A list of patterns: groups that match, and groups that poison an article (`@`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patterns {
    pub groups: String,
    /// Poison patterns; empty if there are none.
    pub never: String,
}

impl Patterns {
    /// Parses a list; the error names what newsreel does not support.
    pub fn parse(text: &str) -> Result<Self, NotConverted> {
        let mut groups = Vec::new();
        let mut never = Vec::new();
        for piece in pieces(text) {
            let (sign, pattern) = match (piece.strip_prefix('!'), piece.strip_prefix('@')) {
                (Some(rest), _) => ('!', rest.trim_start()),
                (_, Some(rest)) => ('@', rest.trim_start()),
                _ => (' ', piece),
            };
            NamePattern::parse(pattern)
                .map_err(|error| format!("newsreel has no pattern `{piece}`: {error}"))?;
            let excluded = || format!("!{pattern}");
            match sign {
                ' ' => {
                    groups.push(pattern.to_owned());
                    never.push(excluded());
                }
                '!' => {
                    groups.push(excluded());
                    never.push(excluded());
                }
                _ => {
                    groups.push(excluded());
                    never.push(pattern.to_owned());
                }
            }
        }
        Ok(Self { groups: joined(&groups), never: joined(&never) })
    }
}

/// Joins patterns, leaving out exclusions that have no effect.
fn joined(patterns: &[String]) -> String {
    // Patterns before one for everything never decide.
    let all = patterns.iter().rposition(|pattern| pattern == "*" || pattern == "!*").unwrap_or(0);
    let rest = patterns.get(all..).unwrap_or_default();
    let begins = rest.iter().position(|pattern| !pattern.starts_with('!')).unwrap_or(rest.len());
    let mut kept: Vec<String> = rest.iter().skip(begins).cloned().collect();
    // Adjacent repeated exclusions are redundant.
    kept.dedup();
    kept.join(",")
}

/// Clients in a list of hosts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HostList {
    /// Addresses and networks, or `all`.
    pub networks: Vec<String>,
    /// Excluded addresses and networks.
    pub without: Vec<String>,
    /// Names that were looked up, with the results.
    pub looked_up: Vec<String>,
    /// Entries that cannot be converted.
    pub unknown: Vec<String>,
    /// Excluded hosts whose addresses are unknown.
    pub unknown_without: Vec<String>,
}

impl HostList {
    /// Parses a list of host names, addresses, networks and patterns of them.
    pub fn parse(text: &str, resolve: ResolveHost<'_>) -> Self {
        let mut hosts = Self::default();
        for piece in pieces(text) {
            let (piece, excluded) = match piece.strip_prefix('!') {
                Some(rest) => (rest.trim_start(), true),
                None => (piece, false),
            };
            let found = hosts.one(piece, resolve);
            if excluded && found.is_empty() && piece != "stdin" {
                hosts.unknown_without.push(piece.to_owned());
            }
            let list = if excluded { &mut hosts.without } else { &mut hosts.networks };
            for network in found {
                if !list.contains(&network) {
                    list.push(network);
                }
            }
        }
        hosts
    }

    fn one(&mut self, name: &str, resolve: ResolveHost<'_>) -> Vec<String> {
        let local = || vec!["127.0.0.1".to_owned(), "::1".to_owned()];
        match name {
            "*" => return vec!["all".into()],
            "localhost" => return local(),
            // A newsreader that runs nnrpd itself.
            "stdin" => return Vec::new(),
            _ => {}
        }
        if let Some(network) = network(name) {
            return vec![network];
        }
        if name.contains(['*', '?', '[']) {
            self.unknown.push(format!("`{name}`: clients are known by address, not by name"));
            return Vec::new();
        }
        let addresses = resolve(name);
        match addresses.is_empty() {
            true => self.unknown.push(format!("`{name}`: its addresses could not be found")),
            false => {
                let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                self.looked_up.push(format!("{name} is {}", texts.join(", ")));
            }
        }
        addresses.iter().map(IpAddr::to_string).collect()
    }
}

/// Converts an address, a network, or a pattern such as `192.0.2.*`.
fn network(text: &str) -> Option<String> {
    if text.parse::<Cidr>().is_ok() {
        return Some(text.to_owned());
    }
    let parts: Vec<&str> = text.split('.').collect();
    let fixed = parts.iter().take_while(|part| part.parse::<u8>().is_ok()).count();
    let rest = parts.get(fixed..)?;
    if !(1..=3).contains(&fixed) || rest.is_empty() || rest.iter().any(|part| *part != "*") {
        return None;
    }
    let octets: Vec<&str> =
        parts.iter().take(fixed).copied().chain(std::iter::repeat_n("0", 4 - fixed)).collect();
    Some(format!("{}/{}", octets.join("."), 8 * fixed))
}

/// Longest name of a peer, in bytes, as it also names a file.
const PEER_NAME_BYTES_MAX: usize = 59;
/// Longest name of a buffer or class, in bytes.
const NAME_BYTES_MAX: usize = 15;

/// Returns a name of letters, digits, `.`, `-` and `_`, no longer than a peer's may be.
pub(super) fn peer_name(text: &str) -> String {
    plain_name(text.trim_end_matches('!'), PEER_NAME_BYTES_MAX)
}

/// Like [`peer_name`], for buffers and classes.
pub(super) fn storage_name(text: &str) -> String {
    plain_name(text, NAME_BYTES_MAX)
}

fn plain_name(text: &str, bytes_max: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = text.trim_start_matches('.').chars().map(plain).take(bytes_max).collect();
    if name.is_empty() { "x".into() } else { name }
}

/// Returns a host in the form required before a port.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_becomes_a_separate_wildmat() {
        for (text, groups, never) in [
            ("*", "*", ""),
            ("comp.*,!comp.sources.*,comp.sources.unix", "comp.*,!comp.sources.*,comp.sources.unix", ""),
            ("alt.*,@alt.warez,misc.*", "alt.*,!alt.warez,misc.*", "alt.warez,!misc.*"),
            ("alt.*,misc.*,@alt.warez", "alt.*,misc.*,!alt.warez", "alt.warez"),
            ("!*,control,control.*,!control.cancel", "control,control.*,!control.cancel", ""),
            ("!*", "", ""),
            ("*,!junk,!local.*,*,!control", "*,!control", ""),
            ("*, !example.admin.*", "*,!example.admin.*", ""),
        ] {
            let patterns = Patterns::parse(text).unwrap();
            assert_eq!((patterns.groups.as_str(), patterns.never.as_str()), (groups, never), "{text}");
        }
        assert!(
            Patterns::parse("a,b[cd]")
                .unwrap_err()
                .to_string()
                .starts_with("newsreel has no pattern `b[cd]`")
        );
    }

    #[test]
    fn hosts_become_networks() {
        let resolve = |name: &str| match name {
            "news.example" => vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
            _ => Vec::new(),
        };
        let hosts = HostList::parse(
            "localhost, 127.0.0.1, ::1, 10.1.*, 192.0.2.0/24, news.example, *.example.com, no.example, !10.1.2.3, stdin",
            &resolve,
        );
        assert_eq!(
            hosts.networks,
            ["127.0.0.1", "::1", "10.1.0.0/16", "192.0.2.0/24", "192.0.2.7", "2001:db8::7"]
        );
        assert_eq!(hosts.without, ["10.1.2.3"]);
        assert_eq!(hosts.looked_up, ["news.example is 192.0.2.7, 2001:db8::7"]);
        assert_eq!(hosts.unknown.len(), 2, "{hosts:?}");
        assert_eq!(HostList::parse("*", &resolve).networks, ["all"]);
    }

    #[test]
    fn names_are_made_plain() {
        assert_eq!(peer_name("archive!"), "archive");
        assert_eq!(peer_name("..a b/c"), "a_b_c");
        assert_eq!(storage_name("a-very-long-name-of-a-buffer"), "a-very-long-nam");
        assert_eq!(storage_name(""), "x");
    }
}
