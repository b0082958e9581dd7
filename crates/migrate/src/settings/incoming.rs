//! Converts incoming.conf to `[[peer]]`: what peers may send.
//!
//! Called by `peers`. Source: incoming.conf(5).

use toml_edit::Value;

use super::blocks::{self, ConfPair, ScopedBlock};
use super::keys::is_among;
use super::patterns::{HostList, Patterns, ResolveHost};
use super::peers::{ConvertedPeer, PasswordFiles};
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{is_true, pieces, quoted};

const FILE: &str = "incoming.conf";

/// Returns the peers of incoming.conf.
pub(super) fn read(
    text: &str,
    resolve: ResolveHost<'_>,
    secrets: &mut PasswordFiles,
    sheet: &mut ConfigDraft,
) -> Vec<ConvertedPeer> {
    let parsed = blocks::parse(FILE, text);
    for (place, why) in &parsed.faults {
        sheet.remark(*place, why);
    }
    let (found, lines) = blocks::scoped(&parsed.root, "peer", "group");
    sheet.saw(lines);
    let peers = found.iter().map(|scoped| peer(scoped, resolve, secrets)).collect();
    for pair in &parsed.root.pairs {
        if !is_among(KEYS, &pair.key) {
            sheet.remark(pair.place, format!("`{}`: not a key of incoming.conf", quoted(&pair.key)));
        } else if found.is_empty() {
            sheet.remark(pair.place, format!("`{}` is about no peer", quoted(&pair.key)));
        }
    }
    peers
}

const KEYS: &str = "hostname streaming max-connections password patterns xbatch hold-time identd ignore list nolist \
                    resendid skip comment email";

fn peer(scoped: &ScopedBlock, resolve: ResolveHost<'_>, secrets: &mut PasswordFiles) -> ConvertedPeer {
    let mut peer = ConvertedPeer::new(&scoped.name, scoped.place);
    let section = &mut peer.section;
    section.saw([scoped.end]);
    let hostname = scoped.get("hostname").map_or(scoped.name.as_str(), |pair| pair.value.as_str());
    peer.hosts = pieces(hostname).map(str::to_owned).collect();
    let hosts = HostList::parse(hostname, resolve);
    let place = scoped.get("hostname").map_or(scoped.place, |pair| pair.place);
    peer.networks = hosts.networks;
    section.key("addresses", Value::from_iter(&peer.networks), place);
    for text in hosts.looked_up {
        section.remark(place, format!("looked up for the import: {text}"));
    }
    for text in hosts.unknown {
        section.remark(place, text);
    }
    let mut keys: Vec<&str> = Vec::new();
    for pair in scoped.own.iter().rev().chain(&scoped.inherited) {
        match keys.contains(&pair.key.as_str()) {
            true => peer.section.saw([pair.place]),
            false => key(pair, &peer.name, &mut peer.section, secrets),
        }
        keys.push(&pair.key);
    }
    peer
}

/// Converts one key.
fn key(pair: &ConfPair, name: &str, section: &mut DraftSection, secrets: &mut PasswordFiles) {
    let line = format!("`{}: {}`", quoted(&pair.key), quoted(&pair.value));
    match pair.key.as_str() {
        "hostname" => {}
        "streaming" => match is_true(&pair.value) {
            true => section.saw([pair.place]),
            false => section.key("streaming", false, pair.place),
        },
        "max-connections" => match pair.value.parse::<i64>() {
            Ok(count) if count > 0 => section.key("max_connections", count.min(1_000_000), pair.place),
            _ => section.saw([pair.place]),
        },
        "xbatch" if is_true(&pair.value) => section.key("xbatch", true, pair.place),
        "xbatch" => section.saw([pair.place]),
        "list" if is_true(&pair.value) => section.saw([pair.place]),
        "patterns" => match Patterns::parse(&pair.value) {
            Ok(patterns) => {
                section.key("accept", patterns.groups, pair.place);
                if !patterns.never.is_empty() {
                    let why = "a group with @ makes INN refuse an article; here it only does not count";
                    section.remark(pair.place, why);
                }
            }
            Err(why) => section.disable(why),
        },
        "password" if pair.value.is_empty() => section.saw([pair.place]),
        "password" => {
            let file = secrets.add(name, "incoming", &pair.value);
            section.key("user", name, pair.place);
            let advice = format!("newsreel user add {name} < {file}");
            section.remark(pair.place, format!("INN takes any user name with that password: {advice}"));
        }
        "skip" | "ignore" if !is_true(&pair.value) => section.saw([pair.place]),
        "skip" | "ignore" => section.disable(format!("INN takes nothing from it ({})", quoted(&pair.key))),
        "identd" => {
            section.remark(pair.place, format!("{line} has no equivalent"));
            section.disable(
                "nobody is asked for an ident here, and the peer would be known by its address alone",
            );
        }
        "hold-time" | "resendid" | "comment" | "email" | "list" | "nolist" => {
            section.remark(pair.place, format!("{line} has no equivalent"));
        }
        _ => section.remark(pair.place, format!("{line}: not a key of incoming.conf")),
    }
}
