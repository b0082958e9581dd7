//! Checks of the machine against the configured limits: file descriptors and memory.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::{Findings, RunningServer};
use site_base::units;
use site_config::{Config, FeedTransport, Method, PeerSend};

/// File descriptors for everything but connections and buffers.
const DESCRIPTORS_OWN: u64 = 256;
/// File descriptors of a program that runs beside the server.
const PIPES: usize = 3;

/// Describes how many files may be open, and how many are needed; without a limit, the latter alone.
pub(super) fn summary(config: &Config, running: Option<&RunningServer>) -> String {
    let limit = limit(running);
    let needed = units::grouped(config.limits.connections_max as u64 + own(config, limit));
    match limit {
        Some(limit) => format!("{} files may be open, and at most {needed} are", units::grouped(limit)),
        None => format!("at most {needed} files are open, and there is no limit"),
    }
}

/// Returns the number of open files besides the connections of clients, with this limit.
fn own(config: &Config, limit: Option<u64>) -> u64 {
    let cached = if config.upstreams.is_empty() { 0 } else { newscache::open_files_max(limit) };
    DESCRIPTORS_OWN + configured(config) + cached as u64
}

/// Returns the number of open files for what is configured: connections to other servers, pipes to programs,
/// buffers.
fn configured(config: &Config) -> u64 {
    let feeds = config.peers.iter().filter_map(|peer| peer.send.as_ref()).map(of_feed);
    let pulls = config.pulls.iter().map(|pull| pull.connections);
    let body_servers = config.body_servers.iter().map(|server| server.connections);
    let upstreams = config.upstreams.iter().map(|upstream| upstream.connections);
    let connections: usize = feeds.chain(pulls).chain(body_servers).chain(upstreams).sum();
    let programs = config.filters.len() + config.authenticators.len();
    (config.buffers.len() + config.archives.len() + connections + PIPES * programs) as u64
}

/// Returns the number of open files for the feed of one peer. Cursors and files of lines are opened for each
/// write.
fn of_feed(send: &PeerSend) -> usize {
    match send.way_out() {
        FeedTransport::Connections => send.connections,
        FeedTransport::Batches(_) | FeedTransport::Program(_) => PIPES,
        FeedTransport::File(_) => 0,
    }
}

fn limit(running: Option<&RunningServer>) -> Option<u64> {
    running.and_then(limit_of).or_else(|| getrlimit(Resource::Nofile).maximum)
}

pub(super) fn look(config: &Config, running: Option<&RunningServer>, found: &mut Findings) {
    let connections = config.limits.connections_max as u64;
    let configured = configured(config);
    if let Some(limit) = limit(running) {
        let own = own(config, Some(limit));
        let text = format!(
            "connections_max is {connections}, and some {own} more files are open besides ({configured} for \
             feeds, pulls, upstreams, buffers, archives and programs, the rest for files of the server and its \
             cache), but the hard limit of open files is \
             {limit}; raise it (LimitNOFILE= of the systemd unit, ulimit -Hn), or lower connections_max in \
             [limits] or connections of peers"
        );
        if limit < connections.max(configured) {
            found.problem(text);
        } else if limit < connections + own {
            found.warning(text);
        }
    }
    let memory: u64 = config.classes.iter().filter(|c| c.method == Method::Memory).map(|c| c.size).sum();
    if let Some(total) = memory_bytes().filter(|total| memory > *total) {
        found.problem(format!(
            "the classes of method \"memory\" take {}, but this machine has {}; make their size smaller",
            units::about_size(memory),
            units::about_size(total)
        ));
    }
}

/// Returns the limit of a running server, which its unit may have set.
fn limit_of(running: &RunningServer) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/limits", running.pid)).ok()?;
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(4)?.parse().ok()
}

fn memory_bytes() -> Option<u64> {
    meminfo("MemTotal:")
}

/// Returns a figure from the system's memory table, in bytes.
pub fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}
