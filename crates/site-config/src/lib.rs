//! The configuration: one TOML file, read completely or not at all.
//!
//! Each section is one table (`section!`, see `table`): a key is one row, from which its field, default,
//! reading, checking, printing, `newsreel explain-config` and `docs/config.md` are made. `kinds` has the
//! types of values; `read` turns a file into a [`Config`] or into *all* faults in it; `checks` examines
//! relations between keys and between sections. A [`Config`] is plain data and needs no file.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod declare;
#[macro_use]
mod link;

mod access;
mod archive;
mod auth;
mod batches;
mod cache;
mod checks;
mod cidr;
mod cluster;
mod control;
mod diff;
mod directory;
mod distributions;
pub mod edit;
pub mod faults;
mod filter;
mod grant;
mod groups;
mod host_port;
mod hours;
mod issuer;
mod kinds;
mod ldap_filter;
mod live;
mod local_address;
pub mod manual;
mod passed_command;
mod passed_list;
mod place;
mod posting;
mod prefetch;
mod provider;
mod pull;
mod read;
mod report;
pub mod schema;
mod search;
mod send;
mod shape;
mod site;
mod site_part;
mod spam;
mod spool_config;
mod storage;
pub mod table;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod upstream;
mod web;
mod words;

use std::path::{Path, PathBuf};

use table::SectionTable;

pub use access::{Access, NumberWidth};
pub use archive::{Archive, ArchiveForm, ArchiveTrigger};
pub use auth::{Auth, AuthMechanism, Authenticator};
pub use batches::Batches;
pub use cache::Cache;
pub use cidr::{Cidr, NetworkError};
pub use cluster::{Cluster, ClusterReads, EngineSync};
pub use control::{Control, ControlAction, ControlType, LockRule};
pub use diff::{ConfigChange, Difference, differences};
pub use directory::Ldap;
pub use distributions::{DistributionError, Distributions};
pub use faults::{ConfigError, ConfigFault};
pub use filter::{FilterFailurePolicy, FilterProgram, FilterStage};
pub use grant::{GroupGrant, GroupGrantError};
pub use groups::NamePattern;
pub use host_port::{HostPortError, check_host_port, is_loopback_host};
pub use hours::{Hours, HoursError};
pub use issuer::IssuerError;
pub use kinds::{WAIT_HERE, host_name, is_path_identity};
pub use ldap_filter::{LdapComparison, LdapFilter, LdapFilterError, LdapTest, LdapValue};
pub use link::{Link, LinkTls, LoginMechanism};
pub use live::LiveConfig;
pub use local_address::{LocalAddress, LocalAddressError};
pub use passed_command::{PassedCommand, PassedCommandError};
pub use passed_list::{PassedList, PassedListError};
pub use place::ConfigLocation;
pub use posting::{Cancel, MailForm, Moderation, Moderator, PosterDisclosure, Posting, WithdrawalPolicy};
pub use prefetch::{Prefetch, PrefetchScope};
pub use provider::Oidc;
pub use pull::{BodyServer, Pull, PullMethod};
pub use read::{data_in, load, parse};
pub use search::Search;
pub use send::{
    ArticleType, BatchCompress, FeedCondition, FeedOrder, FeedStart, FeedStartError, FeedTransport,
    HashSplit, HashSplitError, LineItem,
};
pub use site::{Limits, LogFormat, LogLevel, Site, UnknownGroups};
pub use site_part::{is_of_site, with_own_keys};
pub use spam::{Spam, SpamMode};
pub use spool::{BufferOrder, Durability, FreeMin, HeaderCondition as HeaderMatch, MethodKind as Method};
pub use storage::{
    AgeBasis, ArticleCompression, Buffer, Class, Expire, GroupMatch, LineEnds, RetentionTime, Rule, keeps,
};
pub use tls::{KnownCertificate, KnownCertificateError, Peer, PeerSend, PeerTls, SendTemplate, Tls};
pub use upstream::Upstream;
pub use web::{STRANGER_NAME, SignUpMode, Web};
pub use words::ConfigWord;

sections! {
    /// The server itself.
    site: Site,
    /// Certificates.
    tls: Tls,
    /// Limits on each client, and on all of them together.
    limits: Limits,
    /// Cyclic buffers.
    buffers: [Buffer],
    /// Storage classes.
    classes: [Class],
    /// Choice of a class for an article; the first match decides, the last one matches everything.
    rules: [Rule],
    /// Time that articles stay if nothing is overwritten; the first match decides.
    expire: [Expire],
    /// Copies of articles that survive them.
    archives: [Archive],
    /// Neighbours that feed us, and that we feed.
    peers: [Peer],
    /// Sets of keys that peers share.
    send_templates: [SendTemplate],
    /// Batches that arrive as files.
    batches: Batches,
    /// Servers from which articles are fetched.
    pulls: [Pull],
    /// Servers that have the bodies of articles of which only the headers are here.
    body_servers: [BodyServer],
    /// Servers whose groups are shown beside the local ones.
    upstreams: [Upstream],
    /// The store of data from upstreams.
    cache: Cache,
    /// Fetching from upstreams before readers ask.
    prefetch: Prefetch,
    /// Logging in.
    auth: Auth,
    /// Authentication programs.
    authenticators: [Authenticator],
    /// Directories that check passwords.
    directories: [Ldap],
    /// Providers at which visitors of the pages log in.
    providers: [Oidc],
    /// Rights to read and post; the first match decides; no match: no access.
    access: [Access],
    /// Pages and figures over HTTP.
    web: Web,
    /// Full text search.
    search: Search,
    /// Several servers of one site.
    cluster: Cluster,
    /// Requirements on posts.
    posting: Posting,
    /// Handling of control messages; the first match decides.
    controls: [Control],
    /// The built-in filters.
    spam: Spam,
    /// Programs that judge articles, posts and logins, in their order.
    filters: [FilterProgram],
    /// Withdrawals that are obeyed where no section above decides.
    cancel: Cancel,
    /// Mailing posts to moderators.
    moderation: Moderation,
    /// Moderators of groups; the first match decides.
    moderators: [Moderator],
}

impl Config {
    /// Returns advice about a path identity that is not a full name, which other sites may have too (RFC 5536
    /// section 3.1.5).
    pub fn identity_advice(&self) -> Option<String> {
        let identity = &self.site.path_identity;
        (!identity.contains('.')).then(|| {
            format!(
                "the path identity `{identity}` has no domain, so another server may have the same; set \
                 path_identity in [site] to this server's full name, such as news.example.org, before \
                 articles are exchanged with peers"
            )
        })
    }

    /// Returns true if anything depends on the local address of a connection.
    pub fn needs_local_address(&self) -> bool {
        !self.authenticators.is_empty() || self.access.iter().any(|access| !access.listener.is_empty())
    }

    /// Returns true if users other than those of the users file may log in with a password.
    pub fn has_outside_passwords(&self) -> bool {
        !self.authenticators.is_empty() || !self.directories.is_empty()
    }

    /// Returns true if users other than those of the users file may log in, apart from certificates.
    pub fn has_outside_users(&self) -> bool {
        self.has_outside_passwords() || !self.providers.is_empty()
    }

    /// Returns the files with passwords for other servers.
    pub fn password_files(&self) -> impl Iterator<Item = &Path> {
        let sends = self.peers.iter().filter_map(|peer| peer.send.as_ref()).map(|send| &send.password_file);
        let pulls = self.pulls.iter().map(|pull| &pull.password_file);
        let bodies = self.body_servers.iter().map(|server| &server.password_file);
        let upstreams = self.upstreams.iter().map(|upstream| &upstream.password_file);
        let directories = self.directories.iter().map(|directory| &directory.service_password_file);
        let providers = self.providers.iter().map(|provider| &provider.client_secret_file);
        let links = sends.chain(pulls).chain(bodies).chain(upstreams);
        links.chain(directories).chain(providers).flatten().map(PathBuf::as_path)
    }

    /// Returns the groups of users that a login from outside may bring.
    pub fn outside_groups(&self) -> impl Iterator<Item = &str> {
        let of_programs = self.authenticators.iter().flat_map(|program| &program.groups);
        let of_directories = self.directories.iter().flat_map(|directory| &directory.groups);
        let of_providers = self.providers.iter().flat_map(|provider| &provider.groups);
        of_programs.chain(of_directories).chain(of_providers).map(|grant| grant.group.as_str())
    }

    /// Returns the configuration as a file, every key written out, defaults included: `newsreel show`. It
    /// reads back as the same configuration.
    pub fn to_toml(&self) -> String {
        let sections = self.sections();
        let texts: Vec<String> = sections.iter().map(|(name, lines)| section_text(name, lines)).collect();
        texts.join("\n")
    }

    /// Returns the values of a key such as `site.listen` or `buffer.size`, each on a line of its own, texts
    /// without quotes; its section may be left out if no other has such a key. Or the sections of this name
    /// as `to_toml` writes them. `None` if there is neither.
    pub fn part_of(&self, word: &str) -> Option<String> {
        let bare = word.trim_matches(|c| c == '[' || c == ']');
        let sections = self.sections();
        if table::section(bare).is_some_and(|section| section.keys.iter().all(|key| key.section == bare)) {
            let own = sections.iter().filter(|(name, _)| *name == bare);
            return Some(own.map(|(name, lines)| section_text(name, lines)).collect::<Vec<_>>().join("\n"));
        }
        let mut named = table::keys().filter(|key| key.word() == bare);
        let only = named.next().filter(|_| named.next().is_none());
        let key = table::keys().find(|key| key.path() == bare).or(only)?;
        let own = sections.iter().filter(|(name, _)| *name == key.section).flat_map(|(_, lines)| lines);
        let values = own.filter(|(name, _)| *name == key.name).map(|(_, value)| {
            let text =
                value.parse().ok().and_then(|value: toml_edit::Value| Some(value.as_str()?.to_owned()));
            text.unwrap_or_else(|| value.clone()) + "\n"
        });
        Some(values.collect())
    }

    /// Joins every path to the directory that it is relative to.
    fn resolved(mut self) -> Self {
        let Self {
            file,
            site,
            tls,
            buffers,
            classes,
            archives,
            batches,
            peers,
            pulls,
            body_servers,
            upstreams,
            cache,
            directories,
            providers,
            cluster,
            ..
        } = &mut self;
        let archives = archives.iter_mut().map(|archive| &mut archive.path);
        let own = [&mut site.data, &mut site.lists].into_iter().chain(archives);
        let of_tls = tls.certificate.iter_mut().chain(&mut tls.key).chain(&mut tls.client_ca);
        let of_links = pulls.iter_mut().flat_map(Pull::link_files);
        let of_links = of_links.chain(upstreams.iter_mut().flat_map(Upstream::link_files));
        let of_links = of_links.chain(body_servers.iter_mut().flat_map(BodyServer::link_files));
        let of_logins = directories.iter_mut().flat_map(Ldap::files);
        let of_logins = of_logins.chain(providers.iter_mut().flat_map(Oidc::files));
        for path in own.chain(of_tls).chain(of_links).chain(of_logins) {
            *path = beside(file, path);
        }
        let of_cluster =
            [&mut cluster.credentials, &mut cluster.ca, &mut cluster.certificate, &mut cluster.private_key];
        let of_cluster = of_cluster.into_iter().flatten().chain([&mut cluster.key]);
        of_cluster.for_each(|path| *path = beside(file, path));
        for send in peers.iter_mut().filter_map(|peer| peer.send.as_mut()) {
            send.batch.iter_mut().chain(&mut send.file).for_each(|path| *path = site.data.join(&path));
            send.link_files().for_each(|path| *path = beside(file, path));
        }
        buffers.iter_mut().for_each(|buffer| buffer.path = site.data.join(&buffer.path));
        batches.incoming = site.data.join(&batches.incoming);
        cache.path = site.data.join(&cache.path);
        cache.log.iter_mut().for_each(|path| *path = site.data.join(&path));
        for class in classes {
            let path = class.path.take().unwrap_or_else(|| Path::new("kept").join(&class.name));
            class.path = keeps(class.method).then(|| site.data.join(path));
        }
        self
    }
}

/// Returns a section as a part of the file.
fn section_text(name: &str, lines: &table::Lines) -> String {
    let mut text = table::section(name).map_or_else(String::new, table::ConfigSection::brackets) + "\n";
    let mut part = None;
    for (key, value) in lines {
        let (own, word) = key.split_once('.').map_or((None, *key), |(own, word)| (Some(own), word));
        if let Some(own) = own.filter(|_| own != part) {
            text.push_str(&format!("[{name}.{own}]\n"));
            part = Some(own);
        }
        text.push_str(&format!("{word} = {value}\n"));
    }
    text
}

/// Returns a path relative to the directory of the configuration, without a leading `./`.
fn beside(file: &Path, path: &Path) -> PathBuf {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path == Path::new(".") { dir.to_owned() } else { dir.join(path) }
}

/// Returns the new configuration with the old values of keys that take effect after a restart.
pub fn held_back(old: &Config, mut new: Config) -> Config {
    for class in &mut new.classes {
        if let Some(old) = old.classes.iter().find(|old| old.name == class.name && old.method == class.method)
        {
            class.size = old.size;
        }
    }
    new.cache.path.clone_from(&old.cache.path);
    new.site.control_group.clone_from(&old.site.control_group);
    new.cluster.clone_from(&old.cluster);
    new
}

/// Returns a text as a TOML string.
pub fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// Returns texts as a TOML list.
pub fn list(texts: &[String]) -> String {
    toml_edit::Value::from_iter(texts).to_string()
}
