//! `[[ldap]]`: directories that know users and passwords.

use std::path::PathBuf;
use std::time::Duration;

use super::control::SectionFault;
use super::kinds::*;
use super::{GroupGrant, LdapFilter, LinkTls, is_loopback_host};

section! {
    /// An LDAP directory that knows users and passwords that newsreel user does not (docs/logins.md). A
    /// password is checked by a bind as the user; directories are asked after the [[authenticator]] programs,
    /// in the order of the file, and not about a user who has a password here.
    [[ldap]] Ldap, LdapDraft {
        /// A name for the log.
        name: String = Text, example "people";
        /// Where to connect.
        to: String = HostPort, example "ldap.example.org:636", of machine;
        /// Encryption: "implicit" from the first octet (ldaps); "starttls" (RFC 4513 section 3); "off", which
        /// is taken for this machine only.
        tls: LinkTls = word(), default "implicit", example "starttls";
        /// Whether the directory must prove its name with a certificate. false protects against listeners
        /// only.
        tls_verify: bool = Switch, default true, example false;
        /// The PEM file of the authorities that may have signed the directory's certificate, or of that
        /// certificate itself, relative to the directory of this file; without it those that the system
        /// trusts.
        tls_ca: Option<PathBuf> = Maybe(FilePath), example "ldap-ca.crt", of machine;
        /// The distinguished name of a user, in which %s is the name that the client logs in with. Either
        /// this or base is needed.
        user_dn: Option<String> = Maybe(Text), example "uid=%s,ou=people,dc=example,dc=org";
        /// Where to search for the entry of a user, as whom to bind then.
        base: Option<String> = Maybe(Text), example "ou=people,dc=example,dc=org";
        /// The search filter (RFC 4515) that finds the entry below base; %s is the name that the client logs
        /// in with. Several entries are as bad as none.
        filter: LdapFilter = SearchFilter, default "(uid=%s)",
            example "(&(objectClass=person)(|(uid=%s)(mail=%s)))";
        /// The entry to search as; without it the search is anonymous.
        service_dn: Option<String> = Maybe(Text), example "cn=news,ou=services,dc=example,dc=org";
        /// The file whose first line is the password of service_dn, relative to the directory of this file.
        service_password_file: Option<PathBuf> = Maybe(FilePath), example "ldap.password", of machine;
        /// The attribute of the entry that is the user's name here, so that a name typed in other letters is
        /// the same user. An entry without it is no user's.
        name_attribute: String = Attribute, default "uid", example "sAMAccountName";
        /// The attribute of the entry that lists the user's groups.
        group_attribute: String = Attribute, default "memberOf", example "isMemberOf";
        /// Where to search for the user's groups, if no attribute lists them: those that group_filter finds,
        /// by their distinguished names.
        group_base: Option<String> = Maybe(Text), example "ou=groups,dc=example,dc=org";
        /// The search filter that finds the user's groups below group_base; %d is the distinguished name of
        /// the user's entry, %s the user's name as the entry has it in name_attribute.
        group_filter: LdapFilter = SearchFilter, default "(member=%d)", example "(memberUid=%s)";
        /// The groups of the directory that count for user_groups of [[access]], each as "NAME IN THE
        /// DIRECTORY -> GROUP", or as a GROUP's name that is the same there. Others are ignored.
        /// Distinguished names are compared as such, without regard to case.
        groups: Vec<GroupGrant> = ListOf(Grant), default [],
            example ["cn=news,ou=groups,dc=example,dc=org -> staff"];
        /// How long a login at the directory may take, from connecting to the last answer. Without an answer
        /// the client is asked to try again later.
        timeout: Duration = Timeout, default "10 s", example "3 s";
        /// Concurrent logins at the directory, each over a connection of its own; further ones wait their
        /// turn, for as long as timeout.
        connections_max: usize = 1..=1000, default 8, example 32, of machine;
    }
}

impl LdapDraft {
    pub(super) fn wrong(&self) -> Option<SectionFault<'_>> {
        let fault = |at, label, message: &str, advice| {
            Some(SectionFault { at, label, message: message.to_owned(), advice })
        };
        let set = |value: &Option<Option<String>>| matches!(value, Some(Some(_)));
        let (by_name, by_search) = (set(&self.user_dn.value), set(&self.base.value));
        if by_name == by_search {
            let message = "an [[ldap]] finds a user's entry by user_dn or below base, one of the two";
            return fault(&self.head, "this section", message, "for example: base = \"dc=example,dc=org\"");
        }
        if self.user_dn.value.as_ref().is_some_and(|dn| dn.as_ref().is_some_and(|dn| !dn.contains("%s"))) {
            let message = "user_dn would be the same entry for every name";
            return fault(&self.user_dn.span, "no %s", message, "write %s where the name is to stand");
        }
        if set(&self.service_dn.value) != matches!(self.service_password_file.value, Some(Some(_))) {
            let message = "service_dn and service_password_file belong together";
            return fault(&self.head, "only one of them", message, "write both, or neither");
        }
        let host = self.to.value.as_deref().unwrap_or_default();
        if self.tls.value == Some(LinkTls::Off) && !is_loopback_host(host) {
            let message = "passwords would be sent to another machine in the clear";
            return fault(
                &self.tls.span,
                "no encryption",
                message,
                "write tls = \"starttls\" or \"implicit\"",
            );
        }
        None
    }
}

impl Ldap {
    /// Returns the named files, each relative to the directory of the configuration.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.tls_ca.iter_mut().chain(&mut self.service_password_file)
    }
}
