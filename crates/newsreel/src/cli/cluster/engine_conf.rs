//! `cluster engine-conf`: the configuration of a node of the log.

use super::super::args::EngineConfOptions;
use super::super::screen::{CliError, problem, say};
use crate::member::{NodePlan, OPERATOR, SYSTEM, joining};
use site_config::Config;
use std::net::IpAddr;

/// Port of the engine where an address names none.
const PORT: u16 = 4222;

pub(super) fn print(config: &Config, options: &EngineConfOptions) -> Result<(), CliError> {
    say(joining::node_conf(&plan(config, options)?).map_err(problem)?.trim_end())
}

/// Host and port in an address of `[cluster] servers`, which may begin with a scheme and a user.
fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest).trim_end_matches('/');
    match rest.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']')) {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((rest, PORT)),
    }
}

fn plan(config: &Config, options: &EngineConfOptions) -> Result<NodePlan, CliError> {
    let EngineConfOptions { node, keys, member, store, route_port, tls, allow_changes } = options;
    let cluster = &config.cluster;
    let nodes: Vec<(&str, u16)> =
        cluster.servers.iter().filter_map(|address| host_and_port(address)).collect();
    let Some((host, port)) = nodes.iter().find(|(host, _)| host == node) else {
        let hosts: Vec<&str> = nodes.iter().map(|(host, _)| *host).collect();
        return Err(CliError::Usage(format!("{node} is none of [cluster] servers: {}", hosts.join(", "))));
    };
    let mut monitors = cluster.monitor.iter().filter_map(|address| host_and_port(address));
    let Some((_, monitor)) = monitors.find(|(of, _)| of == host) else {
        let advice =
            format!("[cluster] monitor has no address of {node}; members ask there whether it syncs");
        return Err(CliError::Usage(advice));
    };
    let members = match member.as_slice() {
        [] => cluster.member.iter().cloned().collect(),
        members => members.to_vec(),
    };
    let is_taken = |name: &str| [OPERATOR, SYSTEM, "routes"].contains(&name);
    if let Some(name) = members.iter().find(|name| is_taken(name) || !is_name(name)) {
        return Err(CliError::Usage(format!(
            "`{name}` is no name of a member: use letters, digits and \"-\""
        )));
    }
    let tls = match tls.as_slice() {
        [certificate, key, ca] => Some([certificate.clone(), key.clone(), ca.clone()]),
        _ => None,
    };
    // A name may stand for another address of its own machine.
    let at = |port: u16| match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(_) => format!("{host}:{port}"),
        Err(_) => format!("0.0.0.0:{port}"),
    };
    Ok(NodePlan {
        site: cluster.site.clone(),
        name: (*node).clone(),
        listen: at(*port),
        monitor: at(monitor),
        route: at(*route_port),
        routes: nodes.iter().map(|(host, _)| format!("{host}:{route_port}")).collect(),
        store: store.clone(),
        log_bytes: cluster.log_size,
        keys: keys.clone(),
        members,
        tls,
        allows_changes: *allow_changes,
    })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_addresses_of_all_forms() {
        for (address, expected) in [
            ("e1:4300", ("e1", 4300)),
            ("nats://e1", ("e1", PORT)),
            ("tls://fe1:secret@e1:4222/", ("e1", 4222)),
            ("tls://[::1]:4222", ("[::1]", 4222)),
        ] {
            assert_eq!(host_and_port(address), Some(expected), "{address}");
        }
        assert_eq!(host_and_port("e1:port"), None);
    }
}
