//! Peers: settings for one site in incoming.conf, newsfeeds, innfeed.conf, nntpsend.ctl and passwd.nntp
//! become one `[[peer]]`.
//!
//! A site of newsfeeds is the peer of incoming.conf that has its name, one of its exclusions, or the name
//! of its host; addresses are not compared, since several sites may share one. Called by `settings`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use toml_edit::Value;

use super::feeds::{self, OutgoingTexts};
use super::incoming;
use super::inn_conf::InnConf;
use super::patterns::{ResolveHost, peer_name};
use super::sheet::{ConfigDraft, DraftSection};
use super::text::SourcePosition;

/// A peer being assembled.
#[derive(Debug)]
pub(super) struct ConvertedPeer {
    pub name: String,
    /// Name as in INN.
    pub label: String,
    /// Hosts named in incoming.conf.
    pub hosts: Vec<String>,
    /// Addresses of these hosts.
    pub networks: Vec<String>,
    pub section: DraftSection,
    /// Whether articles are sent to it.
    pub is_fed: bool,
}

impl ConvertedPeer {
    /// Returns a peer with this label.
    pub fn new(label: &str, place: SourcePosition) -> Self {
        let name = peer_name(label);
        let mut section = DraftSection::new("peer");
        section.key("name", name.as_str(), place);
        let (hosts, networks) = (Vec::new(), Vec::new());
        Self { name, label: label.to_owned(), hosts, networks, section, is_fed: false }
    }

    fn is(&self, site: &str) -> bool {
        let is = |own: &String| own.eq_ignore_ascii_case(site) && own.parse::<IpAddr>().is_err();
        is(&self.label) || is(&self.name) || self.hosts.iter().any(is)
    }
}

/// Passwords of the old configuration, each to be written to a file of its own.
#[derive(Debug, Default)]
pub(super) struct PasswordFiles {
    /// Contents of the files, by their path below the directory of the configuration.
    pub files: BTreeMap<String, String>,
}

/// Directory of the files with passwords.
const DIR: &str = "passwords";

impl PasswordFiles {
    /// Adds a password; returns the file that will have it.
    pub fn add(&mut self, name: &str, kind: &str, password: &str) -> String {
        let file = format!("{DIR}/{}.{kind}", peer_name(name));
        self.files.insert(file.clone(), format!("{password}\n"));
        file
    }
}

/// Texts of the files about peers.
pub(super) struct PeerTexts<'a> {
    pub incoming: &'a str,
    pub outgoing: OutgoingTexts<'a>,
}

/// Converts all peers.
pub(super) fn convert(
    files: &PeerTexts<'_>,
    conf: &InnConf,
    resolve: ResolveHost<'_>,
    secrets: &mut PasswordFiles,
    sheet: &mut ConfigDraft,
) {
    let mut peers = incoming::read(files.incoming, resolve, secrets, sheet);
    feeds::read(&files.outgoing, conf, &mut peers, secrets, sheet);
    let mut names = BTreeSet::new();
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for mut peer in peers {
        // Each peer needs its own name, though INN may have a site twice.
        while !names.insert(peer.name.clone()) {
            peer.name.push_str("-2");
            peer.section.noted("name", peer.name.as_str(), "another of this name");
        }
        let is_free = |network: &String| !owners.contains_key(network);
        let (own, taken) = peer.networks.iter().cloned().partition::<Vec<_>, _>(is_free);
        for (network, first) in taken.iter().filter_map(|network| owners.get_key_value(network)) {
            peer.section.say(format!("{network} is an address of peer {first} already"));
        }
        if !taken.is_empty() {
            peer.section.noted("addresses", Value::from_iter(&own), "those that no peer above has");
        }
        if own.is_empty() && !peer.is_fed && !peer.section.has("user") {
            peer.section.disable("there is no address to know the peer by");
        }
        if !peer.section.is_off() {
            owners.extend(own.into_iter().map(|network| (network, peer.name.clone())));
        }
        sheet.push(peer.section);
    }
}

/// Returns the peer with one of these names, or a new one at the end.
pub(super) fn of_names<'a>(
    peers: &'a mut Vec<ConvertedPeer>,
    names: &[&str],
    place: SourcePosition,
) -> &'a mut ConvertedPeer {
    let known = names.iter().find_map(|name| peers.iter().position(|peer| !peer.is_fed && peer.is(name)));
    let at = known.unwrap_or_else(|| {
        peers.push(ConvertedPeer::new(names.first().copied().unwrap_or("peer"), place));
        peers.len() - 1
    });
    &mut peers[at]
}
