//! `cluster create|invite|join|leave|status`: several servers of one site.

use super::args::{ClusterCommand, ClusterConfigCommand};
use super::bar::Bar;
use super::care::stopped;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, problem, say, say_json};
use super::table::Columns;
use crate::member::{ClusterMemberReport, ClusterStatus, LogFollowerStatus, joining};
use operators::reply::Reply;
use operators::shared_config::ClusterConfigOperation;
use operators::snapshot::SnapshotOperation;
use site_base::clock::unix_secs;
use site_base::units::{about_span, counted, grouped};
use site_config::Config;
use std::path::Path;

/// Digits of a digest that are shown.
const DIGEST_DIGITS: usize = 12;

pub(super) fn run(command: &ClusterCommand, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    if !config.cluster.is_used() {
        let advice = "this site has no cluster: name the nodes of its log in [cluster] servers";
        return Err(CliError::Usage(advice.into()));
    }
    match command {
        ClusterCommand::Create => create(&config),
        ClusterCommand::Invite { name, file } => invite(&config, name, file),
        ClusterCommand::Join { file } => join(&config, file),
        ClusterCommand::Leave => leave(&config),
        ClusterCommand::Config { command } => configure(at, command),
        ClusterCommand::Status { json } => status(&config, *json),
    }
}

fn create(config: &Config) -> Result<(), CliError> {
    stopped(config, "cluster create")?;
    let (spool, _) = reach::open_existing(config)?;
    let created = joining::create(config, &spool).map_err(problem);
    spool.close()?;
    say(format_args!(
        "the site is a cluster, {}, and this server its first member; start it with: newsreel serve",
        created?
    ))
}

fn invite(config: &Config, name: &str, file: &Path) -> Result<(), CliError> {
    joining::invite(config, name).map_err(problem)?;
    reach::print(config, SnapshotOperation { file: file.to_owned() })?;
    say(format_args!(
        "{name} is invited. Copy {file}, {key} and this configuration to its machine, set member = \"{name}\" in \
         [cluster] and its own addresses and paths there, and run:\n  newsreel cluster join {file}\n  newsreel serve",
        file = file.display(),
        key = config.cluster.key.display()
    ))
}

fn join(config: &Config, file: &Path) -> Result<(), CliError> {
    stopped(config, "cluster join")?;
    let report = joining::join(config, file, &Bar::new()).map_err(problem)?;
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
    if json { say_json(&status) } else { say(text(&status, unix_secs())) }
}

fn text(ClusterStatus { cluster, log, members }: &ClusterStatus, now: u64) -> String {
    let follower = |follower: &LogFollowerStatus| match follower.current {
        true => follower.name.clone(),
        false => format!("{} (BEHIND)", follower.name),
    };
    let followers: Vec<String> = log.followers.iter().map(follower).collect();
    let head = format!(
        "cluster {cluster}, log of messages {} to {} on {} nodes: led by {}, followed by {}",
        grouped(log.first),
        grouped(log.last),
        log.replicas,
        log.leader.as_deref().unwrap_or("NO ONE"),
        if followers.is_empty() { "no one".into() } else { followers.join(", ") },
    );
    let of = |report: &Option<ClusterMemberReport>, text: &dyn Fn(&ClusterMemberReport) -> String| {
        report.as_ref().map_or_else(|| "-".to_owned(), text)
    };
    let ago = |time: u32| about_span(now.saturating_sub(u64::from(time))) + " ago";
    let members = Columns::of(members)
        .left("member", |member| member.name.clone())
        .right("position", |member| of(&member.report, &|report| grouped(report.position)))
        .right("behind by", |member| {
            of(&member.report, &|report| grouped(log.last.saturating_sub(report.position)))
        })
        .left("seen", |member| of(&member.report, &|report| ago(report.time)))
        .left("version", |member| of(&member.report, &|report| report.version.clone()))
        .left("digest", |member| {
            of(&member.report, &|report| report.digest.chars().take(DIGEST_DIGITS).collect())
        })
        .left("state", |member| of(&member.report, &|report| report.state.clone()))
        .text();
    format!("{head}\n\n{members}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{ClusterLogStatus, ClusterMemberStatus};

    #[test]
    fn status_names_what_is_behind_or_was_never_seen() {
        let report = ClusterMemberReport {
            time: 1_000,
            version: "0.2.0".into(),
            position: 1_500,
            digest: "0123456789abcdef".into(),
            state: "follows the log".into(),
        };
        let member = |name: &str, report| ClusterMemberStatus { name: name.into(), number: 1, report };
        let follower = |name: &str, current| LogFollowerStatus { name: name.into(), current };
        let status = ClusterStatus {
            cluster: "07".into(),
            log: ClusterLogStatus {
                first: 1,
                last: 1_600,
                replicas: 3,
                leader: None,
                followers: vec![follower("n1", true), follower("n2", false)],
            },
            members: vec![member("fe1", Some(report)), member("fe2", None)],
        };
        let text = text(&status, 1_060);
        for part in [
            "messages 1 to 1,600 on 3 nodes: led by NO ONE, followed by n1, n2 (BEHIND)",
            "1,500",
            "100",
            "1 min ago",
            "0123456789ab ",
            "follows the log",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.lines().last().unwrap().starts_with("fe2"), "{text}");
    }
}
