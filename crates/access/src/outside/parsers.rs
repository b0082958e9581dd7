//! Doors to the parsers of LDAP, for fuzz targets.

use super::directory::escaped_for_dn;
use super::group_name::DirectoryGroupName;
use super::ldap;
use site_config::LdapFilter;

/// Returns the octets of a filter for a user; `None` if the text is no filter.
pub fn filter_octets(text: &str, name: &str, dn: &str) -> Option<Vec<u8>> {
    Some(ldap::filter_for(&LdapFilter::parse(text).ok()?, name, dn))
}

/// Returns the number of the message that `octets` are.
pub fn answer_number(octets: &[u8]) -> Option<u32> {
    ldap::answer_number(octets)
}

/// Returns the length of the message that `octets` begin with, as far as it can be known.
pub fn message_length(octets: &[u8]) -> Option<usize> {
    ldap::message_length(octets)
}

/// Returns the number of values in each part of a distinguished name; `None` if it is none.
pub fn dn_parts(text: &str) -> Option<Vec<usize>> {
    match DirectoryGroupName::of(text) {
        DirectoryGroupName::Dn(parts) => Some(parts.iter().map(Vec::len).collect()),
        DirectoryGroupName::Text(_) => None,
    }
}

/// Returns true if two texts name one group.
pub fn is_same_group(own: &str, other: &str) -> bool {
    DirectoryGroupName::of(own) == DirectoryGroupName::of(other)
}

/// Returns the distinguished name of a user, made with a name as a client sends it.
pub fn user_dn(name: &str) -> String {
    format!("uid={},dc=x", escaped_for_dn(name))
}
