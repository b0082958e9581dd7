//! `cluster`: several servers of one site.
//!
//! `up` runs a whole cluster on this machine, `engine_conf` prints the configuration of a node of the log.

mod engine_conf;
mod up;

use super::args::{ClusterCommand, ClusterConfigCommand, JoinOptions};
use super::bar::Bar;
use super::care::stopped;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, problem, say, say_json};
use super::table::Columns;
use crate::member::{
    ClusterMemberReport, ClusterMemberStatus, ClusterStatus, JoinSource, LogFollowerStatus, NodeScrub,
    joining, scrubbing,
};
use disk::{Disk as _, RealDisk};
use operators::drain::DrainOperation;
use operators::reply::Reply;
use operators::shared_config::ClusterConfigOperation;
use operators::snapshot::SnapshotOperation;
use site_base::units::{about_size, about_span, counted, grouped};
use site_config::Config;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which is looked whether a server has stopped.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Digits of a digest that are shown.
const DIGEST_DIGITS: usize = 12;

pub(super) fn run(command: &ClusterCommand, at: &SiteLocation) -> Result<(), CliError> {
    let config = || member_config(at);
    match command {
        ClusterCommand::Up(options) => up::up(options),
        ClusterCommand::Create { credentials } => create(&config()?, credentials.as_deref()),
        ClusterCommand::Invite { name, file } => invite(&config()?, name, file.as_deref()),
        ClusterCommand::Join(options) => join(&config()?, options),
        ClusterCommand::Leave { last: false } => leave(&config()?),
        ClusterCommand::Leave { last: true } => end(&config()?),
        ClusterCommand::Remove { name } => remove(&config()?, name),
        ClusterCommand::Drain { wait, force } => drain(&config()?, at, *wait, *force),
        ClusterCommand::Upgrade => upgrade(&config()?),
        ClusterCommand::Scrub { rate, json } => scrub(&config()?, *rate, *json),
        ClusterCommand::EngineConf(options) => engine_conf::print(&config()?, options),
        ClusterCommand::Config { command } => config().and_then(|_| configure(at, command)),
        ClusterCommand::Status { json } => status(&config()?, *json),
    }
}

/// Reads the configuration of a site that has a cluster.
fn member_config(at: &SiteLocation) -> Result<Config, CliError> {
    let config = at.load()?;
    if !config.cluster.is_used() {
        let advice = "this site has no cluster: name the nodes of its log in [cluster] servers";
        return Err(CliError::Usage(advice.into()));
    }
    Ok(config)
}

fn create(config: &Config, credentials: Option<&Path>) -> Result<(), CliError> {
    stopped(config, "cluster create")?;
    let (spool, _) = reach::open_existing(config)?;
    let created = joining::create(config, credentials, &spool).map_err(problem);
    spool.close()?;
    say(format_args!(
        "the site is a cluster, {}, and this server its first member; start it with: newsreel serve",
        created?
    ))
}

fn invite(config: &Config, name: &str, file: Option<&Path>) -> Result<(), CliError> {
    joining::invite(config, name).map_err(problem)?;
    let key = config.cluster.key.display();
    let copied = format!(
        "its machine, set member = \"{name}\" in [cluster] and its own addresses and paths there, and run:\n  \
         newsreel cluster join"
    );
    match file {
        Some(file) => {
            reach::print(config, SnapshotOperation { file: file.to_owned() })?;
            let file = file.display();
            say(format_args!(
                "{name} is invited. Copy {file}, {key} and this configuration to {copied} --snapshot {file}\n  newsreel serve"
            ))
        }
        None => say(format_args!(
            "{name} is invited. Copy {key} and this configuration to {copied}\n  newsreel serve"
        )),
    }
}

fn join(config: &Config, options: &JoinOptions) -> Result<(), CliError> {
    stopped(config, "cluster join")?;
    let source = match &options.snapshot {
        Some(file) => JoinSource::File(file.clone()),
        None => JoinSource::Member(options.from.clone()),
    };
    let report = joining::join(config, &source, options.replace, &Bar::new()).map_err(problem)?;
    say(format_args!(
        "joined with {}; what has happened since comes from the log: newsreel serve",
        counted(report.articles, "article")
    ))?;
    match report.displaced + report.unfit {
        0 => Ok(()),
        missing => Err(CliError::Problem(format!(
            "{} left out: the buffers here are smaller than those of the other members",
            counted(missing, "article")
        ))),
    }
}

fn leave(config: &Config) -> Result<(), CliError> {
    stopped(config, "cluster leave")?;
    let others = joining::leave(config).map_err(problem)?;
    say(format_args!("this server is no member any more; {} left", counted(others as u64, "member")))
}

fn remove(config: &Config, name: &str) -> Result<(), CliError> {
    let others = joining::remove(config, name).map_err(problem)?;
    say(format_args!("{name} is no member any more; {} left", counted(others as u64, "member")))
}

fn end(config: &Config) -> Result<(), CliError> {
    stopped(config, "cluster leave")?;
    let (spool, _) = reach::open_existing(config)?;
    let spool = Arc::new(spool);
    let ended = joining::end(config, &spool).map_err(problem);
    spool.close()?;
    ended?;
    let site = &config.cluster.site;
    say(format_args!(
        "the cluster has ended, and this is a site on one machine, with the same articles and numbers. Remove \
         [cluster] from {}, and start it with: newsreel serve\nThe log stays on its nodes until you remove their \
         directories, or, once they have their configurations of newsreel cluster engine-conf --allow-changes, its \
         streams: nats stream rm NR_{site}_LOG; nats stream rm KV_NR_{site}_STATE",
        config.file.display()
    ))
}

/// Longest wait for a server that stops.
const STOP_MAX: Duration = Duration::from_secs(120);

fn drain(config: &Config, at: &SiteLocation, wait_secs: u64, force: bool) -> Result<(), CliError> {
    let status = joining::status(config).map_err(problem)?;
    let serves = |member: &ClusterMemberStatus| {
        let is_other = config.cluster.member.as_deref() != Some(member.name.as_str());
        is_other && member.report.as_ref().is_some_and(|report| report.serves)
    };
    if !force && !status.members.iter().any(serves) {
        return Err(CliError::Problem(
            "no other member follows the log and takes connections, so nothing would be served meanwhile; --force \
             drains anyway"
                .into(),
        ));
    }
    let mut said = Vec::new();
    let drained = reach::server(at)?.ask(DrainOperation { wait_secs }, &mut |reply| {
        if let Reply::Text(text) | Reply::Error(text) = reply {
            said.push(text);
        }
    })?;
    if !drained {
        return Err(CliError::Problem(said.join("\n")));
    }
    said.iter().try_for_each(say)?;
    let begun = Instant::now();
    // The server has the spool until its end.
    while RealDisk::new().lock(&config.site.data.join("lock")).is_err() {
        if begun.elapsed() > STOP_MAX {
            return Err(CliError::Problem("the server does not end; see its log".into()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    say("it has stopped; start it again with: newsreel serve")
}

fn upgrade(config: &Config) -> Result<(), CliError> {
    let (format, is_raised) = joining::upgrade(config).map_err(problem)?;
    let status = joining::status(config).map_err(problem)?;
    let behind =
        status.members.iter().filter(|member| member.format <= format).map(|member| member.name.as_str());
    match (is_raised, behind.collect::<Vec<_>>()) {
        (true, _) => say(format_args!(
            "from now on members write format {format}; versions of newsreel that do not know it are refused"
        )),
        (false, behind) if status.members.iter().any(|member| member.format > format) => {
            let behind = behind.join(", ");
            say(format_args!("members go on writing format {format}: upgrade {behind} first"))
        }
        (false, _) => say(format_args!("members write format {format}, the newest that they can read")),
    }
}

/// Messages whose numbers are printed for each node.
const MESSAGES_SHOWN: usize = 10;

fn scrub(config: &Config, rate: u64, json: bool) -> Result<(), CliError> {
    let report = scrubbing::scrub(config, rate, &Bar::new()).map_err(problem)?;
    let is_sound = report.nodes.iter().all(NodeScrub::is_sound);
    if json {
        say_json(&report)?;
    } else {
        say(format_args!(
            "{} of the log, {}, compared on {}",
            counted(report.messages, "message"),
            about_size(report.bytes),
            counted(report.nodes.len() as u64, "node")
        ))?;
        report.nodes.iter().try_for_each(|node| say(scrubbed(node)))?;
    }
    if is_sound { Ok(()) } else { Err(CliError::Told) }
}

fn scrubbed(node: &NodeScrub) -> String {
    let size = match (node.messages, node.bytes) {
        (Some(messages), Some(bytes)) => format!("{}, {}", counted(messages, "message"), about_size(bytes)),
        _ => "does not say how much it has".into(),
    };
    let list = |messages: &[u64]| {
        let shown: Vec<String> = messages.iter().take(MESSAGES_SHOWN).map(ToString::to_string).collect();
        let more = if messages.len() > MESSAGES_SHOWN { ", ..." } else { "" };
        format!("{} ({}{more})", counted(messages.len() as u64, "message"), shown.join(", "))
    };
    let mut faults = Vec::new();
    if !node.different.is_empty() {
        faults.push(format!("has {} OTHERWISE than the other nodes", list(&node.different)));
    }
    if !node.missing.is_empty() {
        faults.push(format!("LACKS {}", list(&node.missing)));
    } else if node.has_holes {
        faults.push("LACKS messages between its first and its last".to_owned());
    }
    match faults.as_slice() {
        [] => format!("{}: {size}: the same as the others", node.name),
        faults => format!(
            "{}: {size}: {}; stop the node, remove its store_dir and start it: it copies the log from the others",
            node.name,
            faults.join(" and ")
        ),
    }
}

/// Changes or shows the configuration that the members share; a running server does that.
fn configure(at: &SiteLocation, command: &ClusterConfigCommand) -> Result<(), CliError> {
    let operation = match command {
        ClusterConfigCommand::Apply { file } => {
            let cannot =
                |error: std::io::Error| CliError::Usage(format!("cannot read {}: {error}", file.display()));
            let text = std::fs::read_to_string(file).map_err(cannot)?;
            ClusterConfigOperation { apply: Some(text) }
        }
        ClusterConfigCommand::Show => ClusterConfigOperation { apply: None },
    };
    let (mut said, mut refused) = (Vec::new(), Vec::new());
    let ok = reach::server(at)?.ask(operation, &mut |reply| match reply {
        Reply::Text(text) => said.push(text),
        Reply::Error(text) => refused.push(text),
        _ => {}
    })?;
    if ok { say(said.join("\n").trim_end()) } else { Err(CliError::Problem(refused.join("\n"))) }
}

fn status(config: &Config, json: bool) -> Result<(), CliError> {
    let status = joining::status(config).map_err(problem)?;
    if json { say_json(&status) } else { say(text(&status)) }
}

fn text(ClusterStatus { cluster, format, log, members }: &ClusterStatus) -> String {
    let follower = |follower: &LogFollowerStatus| match follower.current {
        true => follower.name.clone(),
        false => format!("{} (BEHIND)", follower.name),
    };
    let followers: Vec<String> = log.followers.iter().map(follower).collect();
    let head = format!(
        "cluster {cluster}, log of messages {} to {} on {} nodes: led by {}, followed by {}{}",
        grouped(log.first),
        grouped(log.last),
        log.replicas,
        log.leader.as_deref().unwrap_or("NO ONE"),
        if followers.is_empty() { "no one".into() } else { followers.join(", ") },
        match members.iter().map(|member| member.format).min() {
            Some(common) if common > *format =>
                "; all members can read a newer format: newsreel cluster upgrade",
            _ => "",
        }
    );
    let of = |report: &Option<ClusterMemberReport>, text: &dyn Fn(&ClusterMemberReport) -> String| {
        report.as_ref().map_or_else(|| "-".to_owned(), text)
    };
    let ago = |secs: u32| about_span(secs.into()) + " ago";
    let differing = differing(members);
    let members = Columns::of(members)
        .left("member", |member| member.name.clone())
        .right("position", |member| of(&member.report, &|report| grouped(report.position)))
        .right("behind by", |member| {
            of(&member.report, &|report| grouped(log.last.saturating_sub(report.position)))
        })
        .left("seen", |member| of(&member.report, &|report| ago(report.silent_secs)))
        .left("version", |member| of(&member.report, &|report| report.version.clone()))
        .left("digest", |member| {
            of(&member.report, &|report| report.digest.chars().take(DIGEST_DIGITS).collect())
        })
        .left("state", |member| member.report.as_ref().map_or_else(|| "was invited".into(), shown_state))
        .text();
    format!("{head}\n\n{members}{differing}")
}

/// Names members that have different news at one message, as their digests tell.
fn differing(members: &[ClusterMemberStatus]) -> String {
    let known = |member: &ClusterMemberStatus| {
        let report = member.report.as_ref().filter(|report| !report.digest.is_empty())?;
        Some((report.position, report.digest.clone(), member.name.clone()))
    };
    let mut known: Vec<_> = members.iter().filter_map(known).collect();
    known.sort();
    let pairs = known.windows(2).filter_map(|pair| match pair {
        [(at, one, name), (other_at, other, other_name)] if at == other_at && one != other => Some(format!(
            "\n{name} and {other_name} have DIFFERENT news at message {}; let the odd one join again",
            grouped(*at)
        )),
        _ => None,
    });
    pairs.collect()
}

/// Returns the state of a member, or that it has not been heard of.
fn shown_state(report: &ClusterMemberReport) -> String {
    match report.may_run || report.state.starts_with("has stopped") {
        true => report.state.clone(),
        false => format!("AWAY; last: {}", report.state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::ClusterLogStatus;

    #[test]
    fn status_names_what_is_behind_or_was_never_seen() {
        let report = ClusterMemberReport {
            time: 1_000,
            silent_secs: 60,
            version: "0.2.0".into(),
            position: 1_500,
            digest: "0123456789abcdef".into(),
            state: "follows the log".into(),
            may_run: true,
            serves: true,
        };
        let away = ClusterMemberReport { may_run: false, serves: false, ..report.clone() };
        let member =
            |name: &str, report| ClusterMemberStatus { name: name.into(), number: 1, format: 2, report };
        let follower = |name: &str, current| LogFollowerStatus { name: name.into(), current };
        let status = ClusterStatus {
            cluster: "07".into(),
            format: 1,
            log: ClusterLogStatus {
                first: 1,
                last: 1_600,
                replicas: 3,
                leader: None,
                followers: vec![follower("n1", true), follower("n2", false)],
            },
            members: vec![member("fe1", Some(report)), member("fe3", Some(away)), member("fe2", None)],
        };
        let text = text(&status);
        for part in [
            "messages 1 to 1,600 on 3 nodes: led by NO ONE, followed by n1, n2 (BEHIND); all members can read a newer format",
            "1,500",
            "100",
            "1 min ago",
            "0123456789ab ",
            "  follows the log",
            "  AWAY; last: follows the log",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let invited = text.lines().last().unwrap();
        assert!(invited.starts_with("fe2") && invited.contains("was invited"), "{text}");
    }
}
