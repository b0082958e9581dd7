//! Problems in words, with advice.
//!
//! Pure: takes a report and returns sentences, the worst first. Used by the operator's page and `newsreel
//! top`.

use crate::report::{
    ArchiveStatus, ClassReport, FeedStatus, MemberFigures, PullStatus, Report, ServerStatus, SpoolStatus,
};
use site_base::units::{about_span, counted, day_text};

/// Remaining validity below which a certificate is reported, in seconds.
const CERTIFICATE_SECS: i64 = 14 * 86_400;
/// Lag from which a feed is reported, in seconds.
const LAG_SECS: u64 = 3_600;
/// Age from which measurements are reported, in seconds.
const MEASURED_SECS: u64 = 60;

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something does not work.
    Bad,
    /// Something will stop working, or does not work for some clients.
    Warn,
    /// Something waits for the operator.
    Note,
}

/// A problem to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedProblem {
    /// How urgent it is.
    pub weight: Severity,
    /// Description of the problem, in a sentence.
    pub what: String,
    /// Advice: a sentence, or a command.
    pub advice: String,
}

fn trouble(weight: Severity, what: impl Into<String>, advice: impl Into<String>) -> ReportedProblem {
    ReportedProblem { weight, what: what.into(), advice: advice.into() }
}

/// Returns all problems at `now` (Unix seconds).
pub fn all(report: &Report, now: u64) -> Vec<ReportedProblem> {
    let mut found = Vec::new();
    spool(&report.spool, now, &mut found);
    let member = report.server.as_ref().and_then(|server| server.cluster.as_ref());
    if let Some(member) = member.filter(|member| !member.accepting) {
        let what = format!("No articles are accepted: the member {} {}", member.member, member.state);
        let advice = "Readers are served. `newsreel cluster status` shows the log and the other members.";
        found.push(trouble(Severity::Bad, what, advice));
    }
    member.into_iter().for_each(|member| of_cluster(member, &mut found));
    if let Some(server) = &report.server {
        of_server(server, now, &mut found);
    }
    found.sort_by_key(|trouble| trouble.weight);
    found
}

/// Time for which a member should be able to be away, in seconds.
const REACH_SECS_MIN: u64 = 86_400;

/// Number of nodes that a log needs.
const NODES_MIN: usize = 3;

/// Adds what is wrong in the cluster beside this member.
fn of_cluster(own: &MemberFigures, found: &mut Vec<ReportedProblem>) {
    for member in own.members.iter().filter(|member| !member.running && member.silent_secs.is_some()) {
        let silent = about_span(member.silent_secs.unwrap_or_default());
        let what = format!("The member {} has been away for {silent}", member.name);
        let advice = "Start it, or, if its disk is lost: `newsreel cluster join --replace`; `newsreel cluster remove` ends its \
             membership.";
        found.push(trouble(Severity::Warn, what, advice));
    }
    for member in own.members.iter().filter(|member| member.agrees == Some(false)) {
        let what = format!("The member {} has other news than others at its position", member.name);
        let advice = "Compare `newsreel cluster status` on all members; let the odd one join again.";
        found.push(trouble(Severity::Bad, what, advice));
    }
    if (1..NODES_MIN).contains(&own.nodes.len()) {
        let what = format!("The log is kept by {} only", counted(own.nodes.len() as u64, "node"));
        let advice = "Give its stream and its table three replicas again: what a node loses is lost.";
        found.push(trouble(Severity::Bad, what, advice));
    }
    for node in own.nodes.iter().filter(|node| !node.current) {
        let what = format!("The node {} of the log is away or behind", node.name);
        found.push(trouble(Severity::Warn, what, "While it is, no second node may fail: start it."));
    }
    if let Some(reach) = own.log_reach_secs.filter(|reach| *reach < REACH_SECS_MIN) {
        let what = format!("The log overtakes a member that is away for {}", about_span(reach));
        let advice = "It then has to join again. Give the log more room: max_bytes of its stream.";
        found.push(trouble(Severity::Warn, what, advice));
    }
}

fn spool(spool: &SpoolStatus, now: u64, found: &mut Vec<ReportedProblem>) {
    if let Some(why) = &spool.stopped {
        let advice = "Readers are served. On a full disk make room, and it goes on by itself; after a failed \
            disk, mend that and start the server again.";
        found.push(trouble(Severity::Bad, format!("No articles are accepted: {why}"), advice));
    }
    if let Some(why) = &spool.unopened {
        let advice = "What is shown is from the last checkpoint. `newsreel verify` says more.";
        found.push(trouble(Severity::Bad, format!("The spool cannot be opened: {why}"), advice));
    }
    if now.saturating_sub(spool.measured) > MEASURED_SECS {
        let what =
            format!("The disk answers slowly: its figures are {} old", about_span(now - spool.measured));
        found.push(trouble(Severity::Warn, what, "Look at the disk: `iostat -x 5`, `dmesg`."));
    }
    found.extend(spool.classes.iter().flat_map(|one| class(one, now)));
    for reader in spool.readers.iter().filter(|reader| reader.lost_articles > 0) {
        let articles = counted(reader.lost_articles, "article");
        let what = format!("{} was overtaken by the journal and missed {articles}", reader.name);
        let advice = "Raise journal_claim_bytes in [site], or mend what it waits for.";
        found.push(trouble(Severity::Warn, what, advice));
    }
    for (reader, damage) in spool.readers.iter().filter_map(|reader| Some((reader, reader.damage.as_ref()?)))
    {
        let what = format!("Where {} was in the journal: {damage}", reader.name);
        found.push(trouble(
            Severity::Warn,
            what,
            "The disk may be failing: `newsreel verify`, `smartctl -a`.",
        ));
    }
    for kept in spool.kept.iter().filter(|kept| kept.full) {
        let what = format!("The volume {} accepts nothing more for now", kept.name);
        found.push(trouble(
            Severity::Warn,
            what,
            "Make room on its disk, or keep articles shorter: [[expire]].",
        ));
    }
    if spool.mended_pages > 0 {
        let what = format!(
            "{} of index files could not be read and were rebuilt",
            counted(spool.mended_pages, "page")
        );
        found.push(trouble(
            Severity::Warn,
            what,
            "The disk may be failing: `newsreel verify`, `smartctl -a`.",
        ));
    }
    if spool.passed_over > 0 {
        let what = format!(
            "{} of articles' files are in use that no index knows",
            counted(spool.passed_over, "name")
        );
        found.push(trouble(Severity::Note, what, "See `newsreel verify`."));
    }
}

/// Returns the day of a time, UTC.
fn day_of(secs: u64) -> String {
    day_text(i64::try_from(secs).unwrap_or(i64::MAX))
}

fn class(class: &ClassReport, now: u64) -> Vec<ReportedProblem> {
    let mut found = Vec::new();
    if let (true, Some(stays), Some(target)) =
        (class.is_below_target(), class.stays_secs, class.keep_target_secs)
    {
        let (stays, target) = (about_span(stays), about_span(target));
        let from = class.target_missed.filter(|at| *at > now).map(|at| format!(" from {} on", day_of(at)));
        let from = from.unwrap_or_default();
        let what = format!("Articles of class {} stay {stays}{from}, and should stay {target}", class.name);
        let advice = "Enlarge its buffers or add one (`newsreel buffer`), or store less in it ([[rule]]).";
        found.push(trouble(Severity::Warn, what, advice));
    }
    if let Some((at, least)) = class.promise_missed.zip(class.keep_at_least_secs) {
        let (day, least) = (day_of(at), about_span(least));
        let what = format!("Class {} has no room for more from {day} on: {least} are promised", class.name);
        let advice = "Enlarge its buffers, give it an overflow class, or lower keep_at_least.";
        found.push(trouble(Severity::Warn, what, advice));
    }
    if class.turned_away > 0 {
        let articles = counted(class.turned_away, "article");
        let what =
            format!("{articles} found no room in class {}: what is there is promised to stay", class.name);
        let advice = "Enlarge its buffers, give it an overflow class, or lower keep_at_least.";
        found.push(trouble(Severity::Warn, what, advice));
    }
    if class.overwritten_early > 0 {
        let articles = counted(class.overwritten_early, "article");
        let what = format!("{articles} of class {} were overwritten within its ring", class.name);
        found.push(trouble(Severity::Warn, what, "Enlarge its buffers, or make its ring smaller."));
    }
    found
}

fn of_server(server: &ServerStatus, now: u64, found: &mut Vec<ReportedProblem>) {
    if let Some(since) = server.paused_since {
        let mut what =
            format!("No articles are accepted: paused for {}", about_span(now.saturating_sub(since)));
        if !server.paused_reason.is_empty() {
            what.push_str(&format!(" ({})", server.paused_reason));
        }
        found.push(trouble(Severity::Warn, what, "`newsreel ctl go` accepts them again."));
    }
    if let Some(end) = server.certificate_expires {
        let left = end - i64::try_from(now).unwrap_or(i64::MAX);
        if left < CERTIFICATE_SECS {
            let what = match u64::try_from(left) {
                Ok(left) => format!("A certificate expires in {}", about_span(left)),
                Err(_) => "A certificate has expired".to_owned(),
            };
            let advice = "Renew it; the new files are picked up by themselves.";
            found.push(trouble(if left < 0 { Severity::Bad } else { Severity::Warn }, what, advice));
        }
    }
    for peer in &server.peers {
        found.extend(peer.feed.iter().flat_map(|feed| self::feed(&peer.name, feed)));
    }
    found.extend(server.pulls.iter().filter_map(pull));
    for upstream in server.upstreams.iter().filter(|upstream| !upstream.problem.is_empty()) {
        let what = format!("The upstream {} is away: {}", upstream.name, upstream.problem);
        found.push(trouble(Severity::Warn, what, "What the cache has of it is still served."));
    }
    for filter in server.filters.iter().filter(|filter| filter.down) {
        let what = format!("The filter {} cannot judge", filter.name);
        found.push(trouble(Severity::Bad, what, "See its messages in the log."));
    }
    found.extend(server.archives.iter().flat_map(archive));
    if let Some(search) = server.search.as_ref().filter(|search| !search.problem.is_empty()) {
        let what = format!("Nothing is added to the search index: {}", search.problem);
        found.push(trouble(
            Severity::Warn,
            what,
            "It is tried again; `newsreel rebuild --search` begins anew.",
        ));
    }
    waiting(server, found);
}

/// Reports work that waits for other systems or the operator.
fn waiting(server: &ServerStatus, found: &mut Vec<ReportedProblem>) {
    if !server.batches.problem.is_empty() {
        let what = format!("Batches wait: {}", server.batches.problem);
        found.push(trouble(Severity::Warn, what, "They are tried again; see batches.incoming."));
    }
    if server.batches.damaged > 0 {
        let what =
            format!("{} of batches are in quarantine", counted(server.batches.damaged, "damaged piece"));
        found.push(trouble(Severity::Note, what, "Look at them in batches.incoming, and ask their sender."));
    }
    if server.moderation.failed > 0 {
        let what = format!("{} cannot be sent", counted(server.moderation.failed, "mail"));
        found.push(trouble(
            Severity::Warn,
            what,
            "See moderation/failed in the site's directory, and [moderation].",
        ));
    }
    if server.moderation.held > 0 {
        let what = format!("{} for a moderator", waits(server.moderation.held, "post"));
        found.push(trouble(Severity::Note, what, "Decide: `newsreel moderation list`."));
    }
    if server.logins.lock_outs > 0 {
        let what =
            format!("{} after failed logins since the start", counted(server.logins.lock_outs, "lock-out"));
        found.push(trouble(Severity::Note, what, "Who: the events below. For good: `packaging/fail2ban`."));
    }
}

fn waits(count: u64, one: &str) -> String {
    format!("{} {}", counted(count, one), if count == 1 { "waits" } else { "wait" })
}

fn feed(name: &str, feed: &FeedStatus) -> Vec<ReportedProblem> {
    let mut found = Vec::new();
    if let Some(error) = &feed.last_error {
        let again = feed.retry_secs.map(|secs| format!(" It is tried again in {}.", about_span(secs)));
        let advice = format!("`newsreel ctl feed {name} flush` tries at once.{}", again.unwrap_or_default());
        found.push(trouble(Severity::Warn, format!("{name} cannot be fed: {error}"), advice));
    } else if feed.state == "stopped" {
        let advice = format!("Start it: `newsreel ctl feed {name} start`.");
        found.push(trouble(Severity::Note, format!("The feed to {name} is stopped"), advice));
    } else if feed.lag_secs >= LAG_SECS {
        let (span, articles) = (about_span(feed.lag_secs), counted(feed.lag_articles, "article"));
        let what = format!("{name} is {span} behind, by {articles}");
        found.push(trouble(
            Severity::Warn,
            what,
            "More connections in [peer.send] help if the peer is slow.",
        ));
    }
    if feed.missed > 0 {
        let what = format!("{name} missed {}", counted(feed.missed, "article"));
        found.push(trouble(
            Severity::Warn,
            what,
            "`newsreel status` names the last; `newsreel send` brings them.",
        ));
    }
    found
}

fn pull(pull: &PullStatus) -> Option<ReportedProblem> {
    let what = format!("The last pull from {} ended early: {}", pull.name, pull.last_error);
    let advice = "It is tried again at its time.";
    (!pull.last_error.is_empty()).then(|| trouble(Severity::Warn, what, advice))
}

fn archive(archive: &ArchiveStatus) -> Vec<ReportedProblem> {
    let mut found = Vec::new();
    if !archive.problem.is_empty() {
        let what = format!("The archive {} cannot be written: {}", archive.name, archive.problem);
        found.push(trouble(Severity::Bad, what, "Articles wait for it as long as wait_max says."));
    }
    if archive.missed > 0 {
        let what = format!("{} went without a copy in {}", counted(archive.missed, "article"), archive.name);
        found.push(trouble(Severity::Warn, what, "See `newsreel archive missed`."));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ClusterMemberFigures, ModerationStatus, PeerStatus};

    #[test]
    fn healthy_server_has_no_trouble() {
        let spool = SpoolStatus { measured: 1_000, ..SpoolStatus::default() };
        let report = Report { server: Some(ServerStatus::default()), spool, ..Report::default() };
        assert_eq!(all(&report, 1_030), []);
    }

    #[test]
    fn problems_are_sorted_by_severity_and_have_advice() {
        let feed = |error: Option<&str>, missed| FeedStatus {
            last_error: error.map(str::to_owned),
            missed,
            lag_secs: 9_000,
            ..FeedStatus::default()
        };
        let peer =
            |name: &str, feed| PeerStatus { name: name.into(), feed: Some(feed), ..PeerStatus::default() };
        let class = ClassReport {
            name: "text".into(),
            stays_secs: Some(86_400),
            keep_target_secs: Some(864_000),
            turned_away: 1,
            ..ClassReport::default()
        };
        let spool = SpoolStatus {
            stopped: Some("no space left".into()),
            classes: vec![class],
            ..SpoolStatus::default()
        };
        let server = ServerStatus {
            certificate_expires: Some(500),
            peers: vec![peer("a", feed(Some("refused"), 2)), peer("b", feed(None, 0))],
            moderation: ModerationStatus { held: 1, ..ModerationStatus::default() },
            ..ServerStatus::default()
        };
        let found = all(&Report { server: Some(server), spool, ..Report::default() }, 1_000);
        let told: Vec<&str> = found.iter().map(|trouble| trouble.what.as_str()).collect();
        assert_eq!(
            told,
            [
                "No articles are accepted: no space left",
                "A certificate has expired",
                "The disk answers slowly: its figures are 16 min 40 s old",
                "Articles of class text stay 1 d, and should stay 10 d",
                "1 article found no room in class text: what is there is promised to stay",
                "a cannot be fed: refused",
                "a missed 2 articles",
                "b is 2 h 30 min behind, by 0 articles",
                "1 post waits for a moderator",
            ]
        );
        assert!(found.iter().all(|trouble| trouble.advice.len() > 10));
    }

    #[test]
    fn a_silent_member_is_reported_with_the_time_for_which_it_has_been_away() {
        let silent_secs = Some(3 * 3_600);
        let member =
            ClusterMemberFigures { name: "fe2".into(), silent_secs, ..ClusterMemberFigures::default() };
        let mut found = Vec::new();
        of_cluster(&MemberFigures { members: vec![member], ..MemberFigures::default() }, &mut found);
        let told: Vec<&str> = found.iter().map(|trouble| trouble.what.as_str()).collect();
        assert_eq!(told, ["The member fe2 has been away for 3 h"]);
    }
}
