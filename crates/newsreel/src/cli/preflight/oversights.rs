//! Valid settings that are probably mistakes: each question is a function of its own.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Findings;
use access::tls::first_line;
use access::users::USERS_FILE_NAME;
use site_config::{Config, Peer};

/// Permission bits with which users other than owner and group can read a file.
const READ_BY_OTHERS: u32 = 0o004;

pub(super) fn look(config: &Config, found: &mut Findings) {
    own_names(config, found);
    buffers_without_class(config, found);
    shared_addresses(config, found);
    passwords(config, found);
    secrets(config, found);
}

/// Warns of peers with a name of this server: every article has it in its Path, so none would be sent.
fn own_names(config: &Config, found: &mut Findings) {
    let site = &config.site;
    let is_own = |name: &str| {
        let own = std::iter::once(&site.path_identity).chain(&site.path_also);
        own.into_iter().any(|own| own.eq_ignore_ascii_case(name))
    };
    for peer in config.peers.iter().filter(|peer| is_own(&peer.name)) {
        found.warning(format!(
            "peer {} has a name of this server (path_identity or path_also in [site]): every article has \
             that name in its Path, so none would be sent to it; use the peer's own path identity",
            peer.name
        ));
    }
}

/// Warns of buffers that take up disk space and get no articles.
fn buffers_without_class(config: &Config, found: &mut Findings) {
    let used: HashSet<&String> = config.classes.iter().flat_map(|class| &class.buffers).collect();
    for buffer in config.buffers.iter().filter(|buffer| !buffer.retired && !used.contains(&buffer.name)) {
        found.warning(format!(
            "buffer {} belongs to no class, so nothing is stored in it; name it in buffers of a [[class]], or \
             remove it",
            buffer.name
        ));
    }
}

/// Warns of peers that connect from the same addresses: a client is the first of them that fits.
fn shared_addresses(config: &Config, found: &mut Findings) {
    let is_known_by_address = |peer: &&Peer| peer.certificate.is_empty() && peer.user.is_none();
    for (at, peer) in config.peers.iter().enumerate() {
        for earlier in config.peers.iter().take(at).filter(is_known_by_address) {
            let shared = peer
                .addresses
                .iter()
                .find(|own| earlier.addresses.iter().any(|other| other.covers(own) || own.covers(other)));
            if let Some(address) = shared {
                found.warning(format!(
                    "peers {} and {} both connect from {address}: whoever connects from there counts as {}; \
                     give each its own addresses, or a certificate or user to the first",
                    earlier.name, peer.name, earlier.name
                ));
            }
        }
    }
}

/// Checks whether passwords for other servers can be read: without, no login is tried.
fn passwords(config: &Config, found: &mut Findings) {
    for error in config.password_files().filter_map(|file| first_line(file).err()) {
        found.problem(error.to_string());
    }
}

/// Warns of files with passwords and keys that every user of the machine can read.
fn secrets(config: &Config, found: &mut Findings) {
    let passwords = config.password_files().map(|file| ("password file", file.to_owned()));
    let mut named: Vec<(&str, PathBuf)> = passwords.collect();
    named.extend(config.tls.key.iter().map(|file| ("key", file.clone())));
    named.push(("file of users", config.site.data.join(USERS_FILE_NAME)));
    for (what, file) in named.iter().filter(|(_, file)| is_read_by_others(file)) {
        found.warning(format!("the {what} {} can be read by everyone; chmod o-r it", file.display()));
    }
}

fn is_read_by_others(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.permissions().mode() & READ_BY_OTHERS != 0)
}
