//! `cluster create|invite|join|leave|status`: several servers of one site.

use super::args::ClusterCommand;
use super::locate::SiteLocation;
use super::screen::CliError;

#[cfg(not(feature = "cluster"))]
pub(super) fn run(_: &ClusterCommand, _: &SiteLocation) -> Result<(), CliError> {
    Err(super::screen::problem(crate::member::MemberError::NotBuilt))
}

#[cfg(feature = "cluster")]
pub(super) use with_clusters::run;

#[cfg(feature = "cluster")]
mod with_clusters {
    use super::super::bar::Bar;
    use super::super::care::stopped;
    use super::super::reach;
    use super::super::screen::{problem, say, say_json};
    use super::super::table::Columns;
    use super::{CliError, ClusterCommand, SiteLocation};
    use crate::member::joining::{self, ClusterStatus};
    use operators::snapshot::SnapshotOperation;
    use serde_json::json;
    use site_base::clock::unix_secs;
    use site_base::units::{about_span, counted, grouped};
    use site_config::Config;
    use std::path::Path;

    pub(crate) fn run(command: &ClusterCommand, at: &SiteLocation) -> Result<(), CliError> {
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
            "{name} is invited. Copy {} and this configuration to its machine, set member = \"{name}\" in [cluster] and \
             its own addresses and paths there, and run:\n  newsreel cluster join {0}\n  newsreel serve",
            file.display()
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

    fn status(config: &Config, json: bool) -> Result<(), CliError> {
        let status = joining::status(config).map_err(problem)?;
        if json { say_json(&as_json(&status)) } else { say(text(&status, unix_secs())) }
    }

    fn as_json(ClusterStatus { log, members }: &ClusterStatus) -> serde_json::Value {
        let members: Vec<_> = members
            .iter()
            .map(|(member, report)| {
                let report = report.as_ref().map(|report| {
                    json!({
                        "time": report.time,
                        "version": report.version,
                        "position": report.position,
                        "digest": report.digest,
                        "state": report.state,
                    })
                });
                json!({ "name": member.name, "number": member.number, "report": report })
            })
            .collect();
        json!({
            "cluster": log.cluster.map(|cluster| cluster.to_string()),
            "log": {
                "first": log.first,
                "last": log.last,
                "replicas": log.replicas,
                "leader": log.leader,
                "followers": log.followers.iter().map(|(name, is_current)| json!({ "name": name, "current": is_current }))
                    .collect::<Vec<_>>(),
            },
            "members": members,
        })
    }

    fn text(ClusterStatus { log, members }: &ClusterStatus, now: u64) -> String {
        let follower = |(name, is_current): &(String, bool)| match is_current {
            true => name.clone(),
            false => format!("{name} (BEHIND)"),
        };
        let followers: Vec<String> = log.followers.iter().map(follower).collect();
        let cluster = log.cluster.map_or_else(|| "-".into(), |cluster| cluster.to_string());
        let head = format!(
            "cluster {cluster}, log of messages {} to {} on {} nodes: led by {}, followed by {}",
            grouped(log.first),
            grouped(log.last),
            log.replicas,
            log.leader.as_deref().unwrap_or("NO ONE"),
            if followers.is_empty() { "no one".into() } else { followers.join(", ") },
        );
        let members = Columns::of(members)
            .left("member", |(member, _)| member.name.clone())
            .right("position", |(_, report)| {
                report.as_ref().map_or("-".into(), |report| grouped(report.position))
            })
            .right("behind by", |(_, report)| {
                report.as_ref().map_or("-".into(), |report| grouped(log.last.saturating_sub(report.position)))
            })
            .left("seen", |(_, report)| {
                report.as_ref().map_or("never".into(), |report| {
                    about_span(now.saturating_sub(u64::from(report.time))) + " ago"
                })
            })
            .left("version", |(_, report)| {
                report.as_ref().map_or("-".into(), |report| report.version.clone())
            })
            .left("digest", |(_, report)| {
                report.as_ref().map_or("-".into(), |report| report.digest.chars().take(12).collect())
            })
            .left("state", |(_, report)| report.as_ref().map_or(String::new(), |report| report.state.clone()))
            .text();
        format!("{head}\n\n{members}")
    }
}
