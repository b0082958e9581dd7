//! `status`: state of the server and its spool.

#[cfg(test)]
mod tests;

use super::archive;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, complain, problem, say, say_json};
use super::table::{Columns, status_table};
use super::typed::TypedOperation;
use operators::reply::Reply;
use operators::report::{
    CacheCounts, CacheStatus, ClusterMemberFigures, LogNodeFigures, MemberFigures, PeerStatus, PullStatus,
    Report, ServerStatus, SpamSource, SpoolStatus, UpstreamStatus,
};
use operators::status::StatusOperation;
use site_base::clock::unix_secs;
use site_base::figures::{FigurePlace, ShownFigures};
use site_base::units::{about_size, about_span, counted, grouped};

/// Sources of refused articles that are shown, of each kind.
const SOURCES_SHOWN: usize = 5;

impl TypedOperation for StatusOperation {
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        let json = self.json;
        let mut report = None;
        let ok = reach::ask_at(at, self, &mut |reply| match reply {
            Reply::Status(told) => report = Some(told),
            Reply::Error(text) => complain(format_args!("newsreel: {text}")),
            _ => {}
        })?;
        let Some(report) = report else {
            return Err(if ok { problem("the server sent no status") } else { CliError::Told });
        };
        if json {
            say_json(&report)?;
        } else {
            say(text(&report, unix_secs()))?;
        }
        // A server that takes nothing, as its disk is full, has a state to show like any other.
        if report.spool.unopened.is_none() { Ok(()) } else { Err(CliError::Told) }
    }
}

fn text(report: &Report, now: u64) -> String {
    let spool = &report.spool;
    let mut parts = match &report.server {
        Some(server) => server_parts(report, server, now),
        None => vec![format!("{}: no server runs", report.path_identity)],
    };
    parts.extend([
        spool_text(spool, now),
        status_table("class", &spool.classes, now),
        status_table("buffer", &spool.buffers, now),
        status_table("kept by class", &spool.kept, now),
        status_table("reader of the journal", &spool.readers, now),
    ]);
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn server_parts(report: &Report, server: &ServerStatus, now: u64) -> Vec<String> {
    let mut head = format!(
        "{}: newsreel {}, process {}, up {}",
        report.path_identity,
        report.version,
        server.pid,
        about_span(server.uptime_secs)
    );
    add_lines(&mut head, server, now);
    let mut texts = vec![head, upstreams_text(&server.upstreams, now)];
    texts.extend(server.cluster.as_ref().map(member_text));
    texts.extend(server.cache.as_ref().map(cache_text));
    texts.push(pulls_text(&server.pulls, now));
    if !server.archives.is_empty() {
        texts.push(archive::text(&server.archives, now));
    }
    texts.push(status_table("filter", &server.filters, now));
    texts.push(status_table("built-in filter", &server.spam, now));
    texts.push(sources_text("injecting site", &server.spam_sources.sites));
    texts.push(sources_text("posting address", &server.spam_sources.addresses));
    texts.push(status_table("peer", &server.peers, now));
    texts.extend(feeds_text(&server.peers, now));
    texts
}

/// Adds the lines that show figures, below their heading.
fn add_lines(text: &mut String, figures: &impl ShownFigures, now: u64) {
    for (word, line) in figures.lines(now) {
        text.push_str(&format!("\n  {word:<12} {line}"));
    }
}

fn spool_text(spool: &SpoolStatus, now: u64) -> String {
    let mut text = format!("spool {}, durability {}", spool.dir, spool.durability);
    match &spool.unopened {
        None => add_lines(&mut text, spool, now),
        Some(reason) => text.push_str(&format!(
            "\n  at its last checkpoint: {} in {}\n  CANNOT BE OPENED: {reason}",
            counted(spool.articles, "article"),
            counted(spool.groups, "group"),
        )),
    }
    text
}

/// Renders the sources of which articles were refused in the last day, or would have been.
fn sources_text(kind: &'static str, sources: &[SpamSource]) -> String {
    let is_found = |source: &&SpamSource| source.day.refused + source.day.would_refuse > 0;
    let found: Vec<&SpamSource> = sources.iter().filter(is_found).take(SOURCES_SHOWN).collect();
    Columns::of(&found)
        .left(kind, |source| source.name.clone())
        .right("articles", |source| grouped(source.day.articles))
        .right("refused", |source| grouped(source.day.refused))
        .right("would have refused", |source| grouped(source.day.would_refuse))
        .right("in the last hour", |source| grouped(source.hour.articles))
        .text_if_any()
}

fn upstreams_text(upstreams: &[UpstreamStatus], now: u64) -> String {
    let mut text = status_table("upstream", upstreams, now);
    for upstream in upstreams.iter().filter(|upstream| !upstream.problem.is_empty()) {
        text.push_str(&format!("\n  {}: {}", upstream.name, upstream.problem));
    }
    text
}

/// Returns the tables about feeds to peers: what they wait for, what they have sent, and odd answers.
fn feeds_text(peers: &[PeerStatus], now: u64) -> [String; 4] {
    let named = |peer: &&PeerStatus| peer.name.clone();
    let fed: Vec<&PeerStatus> = peers.iter().filter(|peer| peer.feed.is_some()).collect();
    let (mut with_output, mut odd) = (fed.clone(), fed.clone());
    with_output.retain(|peer| peer.feed.as_ref().is_some_and(|feed| feed.output.is_some()));
    odd.retain(|peer| peer.feed.as_ref().is_some_and(|feed| feed.set_aside + feed.given_up > 0));
    let table = |head, peers: &[&PeerStatus], place| {
        Columns::of(peers).left(head, named).figures(place, now, |peer| peer.feed.as_ref()).text_if_any()
    };
    let output = Columns::of(&with_output).left("taken away for", named);
    let output = output.figures(FigurePlace::Status, now, |peer| peer.feed.as_ref()?.output.as_ref());
    [
        table("feed to", &fed, FigurePlace::Status),
        table("sent to", &fed, FigurePlace::Sent),
        output.text_if_any(),
        table("odd answers from", &odd, FigurePlace::Odd),
    ]
}

/// Returns the requests to the cache as a table; rows without a name are of requests by Message-ID.
pub(super) fn counts_text(head: &'static str, rows: &[CacheCounts]) -> String {
    let name = |counts: &CacheCounts| match counts.of.as_str() {
        "" => "by Message-ID".into(),
        name => name.to_owned(),
    };
    // None of these figures depends on the time.
    Columns::of(rows).left(head, name).figures(FigurePlace::Status, 0, |counts| Some(counts)).text()
}

/// Returns the requests to the cache by kind, and the cache's size.
pub(super) fn cache_text(cache: &CacheStatus) -> String {
    let table = counts_text("cached", &cache.kinds);
    let (used, size) = (about_size(cache.used_bytes), about_size(cache.size_bytes));
    format!("{table}\n  {used} of {size} in {}", counted(cache.files, "file"))
}

fn member_text(member: &MemberFigures) -> String {
    format!(
        "member {} of a cluster: {}{}\n  {} of {} messages of the log applied, {} on their way, {} sent again",
        member.member,
        member.state,
        if member.accepting { "" } else { "; NOTHING IS ACCEPTED" },
        grouped(member.position),
        grouped(member.log_last),
        grouped(member.in_flight),
        grouped(member.retries),
    ) + &cluster_text(member)
}

/// Returns the nodes of the log and the members, once they are known.
fn cluster_text(member: &MemberFigures) -> String {
    if member.members.is_empty() {
        return String::new();
    }
    let node = |node: &LogNodeFigures| match (node.leads, node.current) {
        (true, _) => format!("{} (leads)", node.name),
        (_, true) => node.name.clone(),
        _ => format!("{} (BEHIND)", node.name),
    };
    let nodes: Vec<String> = member.nodes.iter().map(node).collect();
    let reach = member
        .log_reach_secs
        .map_or_else(String::new, |secs| format!("; a member may be away for {}", about_span(secs)));
    format!("\n  log on {}{reach}\n\n{}", nodes.join(", "), members_text(&member.members))
}

/// Returns the members of a cluster, each in a line.
pub(super) fn members_text(members: &[ClusterMemberFigures]) -> String {
    Columns::of(members)
        .left("member", |member| member.name.clone())
        .right("behind by", |member| grouped(member.lag_messages))
        .left("seen", |member| member.silent_secs.map_or("never".into(), |secs| about_span(secs) + " ago"))
        .left("version", |member| member.version.clone())
        .left("news", |member| match member.agrees {
            None => "-".into(),
            Some(true) => "same".into(),
            Some(false) => "DIFFERENT".into(),
        })
        .left("state", |member| if member.running { member.state.clone() } else { "AWAY".into() })
        .left("does", |member| member.jobs.clone())
        .text()
}

fn pulls_text(pulls: &[PullStatus], now: u64) -> String {
    let mut text = status_table("pull", pulls, now);
    for pull in pulls.iter().filter(|pull| !pull.last_error.is_empty()) {
        text.push_str(&format!("\n  {}: {}", pull.name, pull.last_error));
    }
    for pull in pulls {
        for line in pull.details.lines() {
            text.push_str(&format!("\n  {}: {line}", pull.name));
        }
    }
    text
}
