//! The configuration that all members of a cluster share, changed in two phases: `cluster config apply`.
//!
//! The site's keys come from one file, each machine's own from the file there. First every member that is
//! not away says whether it could switch, and why not; only if all can, the text becomes that of the cluster.
//! Then each member writes its own file and reloads it. One that cannot takes no changes until it can,
//! instead of going on by another configuration. Texts and answers are sealed like shared files.

use crate::cluster_texts::{CURRENT, NumberedText};
use crate::operation::{OperatedSite, Operation, replied};
use crate::reload::{ReloadCause, ReloadError, judge_of_cluster, reload_by};
use crate::reply::Reply;
use crate::running::Server;
use crate::sink::Sink;
use serde::{Deserialize, Serialize};
use site::Site;
use site_base::clock::unix_secs;
use site_base::units::counted;
use site_config::edit::{ConfigEditError, EditFault, replace_file};
use site_config::{ConfigError, differences, is_of_site, with_own_keys};
use spool::NoteKind;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{error, info, warn};

/// Name of the text that is proposed.
const CANDIDATE: &str = "config/candidate";
/// Interval of looks at them.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause before a switch that has failed is tried again.
const SWITCH_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Silence after which a member is taken to be away, and need not answer: it switches when it is back.
const SILENT_MAX: Duration = Duration::from_secs(15);
/// Time that the members have to answer, and to switch.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Answer of a member about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MemberAnswer {
    /// It could switch.
    Can,
    /// It has switched.
    Done,
    /// It cannot, for this reason.
    Cannot(String),
}

impl MemberAnswer {
    fn text(&self, number: &str) -> String {
        match self {
            Self::Can => format!("{number}\ncan"),
            Self::Done => format!("{number}\ndone"),
            Self::Cannot(why) => format!("{number}\ncannot {why}"),
        }
    }

    /// Reads an answer about the text of this number.
    fn read(content: &[u8], number: &str) -> Option<Self> {
        let NumberedText { text, .. } = NumberedText::read(content).filter(|read| read.number == number)?;
        match text.as_str() {
            "can" => Some(Self::Can),
            "done" => Some(Self::Done),
            text => text.strip_prefix("cannot ").map(|why| Self::Cannot(why.to_owned())),
        }
    }
}

/// Reason why the configuration of the cluster is not changed.
#[derive(Debug)]
enum NotApplied {
    /// The server is no member of a cluster, or has no key of it.
    NoCluster,
    /// A member cannot switch, or has not answered.
    Member { name: String, why: String },
    /// The log takes nothing, or something on this machine failed.
    Trouble(String),
    /// The command was given up.
    Stopped,
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster => f.write_str(
                "this server is no member of a cluster, or has no file with its key: see [cluster] key",
            ),
            Self::Member { name, why } => write!(f, "nothing is changed: {name}: {why}"),
            Self::Trouble(text) => f.write_str(text),
            Self::Stopped => f.write_str("nothing is changed: the command was given up"),
        }
    }
}

impl From<io::Error> for NotApplied {
    fn from(error: io::Error) -> Self {
        Self::Trouble(format!("cannot write to the log: {error}"))
    }
}

/// Reason why this member cannot switch to a configuration.
#[derive(Debug, thiserror::Error)]
enum CannotSwitch {
    /// The file of this machine cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    /// The site's keys and those of this machine cannot be put together.
    #[error("a file: {0}")]
    OwnKeys(#[from] EditFault),
    /// A configuration is not valid.
    #[error("{}", .0.report(false))]
    Invalid(#[from] ConfigError),
    /// It does not suit the server as it runs, or could not be applied.
    #[error("{0}")]
    Reload(#[from] ReloadError),
    /// The file of this machine cannot be written.
    #[error("{0}")]
    Write(#[from] ConfigEditError),
}

fn answer_of(member: &str) -> String {
    format!("config/answers/{member}")
}

/// Returns the answer of a member about the text of a number.
fn answer_about(server: &Server, member: &str, number: &str) -> Option<MemberAnswer> {
    MemberAnswer::read(&server.shared_config.content(&server.site.spool, &answer_of(member))?, number)
}

fn own_name(site: &Site) -> String {
    site.config.load().cluster.member.clone().unwrap_or_default()
}

/// Answers what other members propose, and switches to what they have applied, until the server stops.
pub async fn keep_configured(server: Arc<Server>) {
    if !server.shared_config.has_key() {
        return;
    }
    let mut stopping = std::pin::pin!(server.site.stopping());
    loop {
        if let Err(error) = block_in_place(|| look(&server)) {
            warn!(%error, "the configuration of the cluster cannot be followed now");
        }
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// Looks for a text to answer, and for one to switch to.
fn look(server: &Server) -> Result<(), NotApplied> {
    let (shared, site) = (&server.shared_config, &server.site);
    let changes = site.spool.note_changes(NoteKind::SharedFile);
    {
        let mut state = shared.state.lock();
        let is_due = state.failed.is_some_and(|failed| failed.elapsed() >= SWITCH_AGAIN_AFTER);
        if state.seen == Some(changes) && !is_due {
            return Ok(());
        }
        state.seen = Some(changes);
    }
    let answered = shared.state.lock().answered.clone();
    if let Some(candidate) = shared.text(&site.spool, CANDIDATE).filter(|text| text.number != answered) {
        let answer = match judged(server, &candidate.text) {
            Ok(()) => MemberAnswer::Can,
            Err(why) => MemberAnswer::Cannot(why.to_string()),
        };
        shared.put(site, &answer_of(&own_name(site)), Some(&answer.text(&candidate.number)))?;
        shared.state.lock().answered = candidate.number;
    }
    switch(server)
}

/// Reports what prevents this member from switching to the text of the cluster. Has no effect.
fn judged(server: &Server, shared: &str) -> Result<(), CannotSwitch> {
    let file = server.site.config.current().file.clone();
    Ok(judge_of_cluster(server, &with_own_keys(shared, &own_text(&file)?)?)?)
}

/// Returns the text of this machine's file.
fn own_text(file: &Path) -> Result<String, CannotSwitch> {
    std::fs::read_to_string(file).map_err(|error| CannotSwitch::Read(file.to_owned(), error))
}

/// Switches to the configuration of the cluster, if this member has another, and no one else does so here.
fn switch(server: &Server) -> Result<(), NotApplied> {
    let (shared, site) = (&server.shared_config, &server.site);
    let Some(current) = shared.text(&site.spool, CURRENT) else { return Ok(()) };
    {
        let mut state = shared.state.lock();
        if state.done == current.number || state.is_switching {
            return Ok(());
        }
        state.is_switching = true;
    }
    let done = switch_to(server, &current);
    shared.state.lock().is_switching = false;
    done
}

fn switch_to(server: &Server, current: &NumberedText) -> Result<(), NotApplied> {
    let (shared, site) = (&server.shared_config, &server.site);
    let name = own_name(site);
    let log = site.spool.shared_log();
    match switched(server, &current.text) {
        Ok(has_changed) => {
            log.into_iter().for_each(|log| log.halt(None));
            {
                let mut state = shared.state.lock();
                (state.done, state.failed) = (current.number.clone(), None);
            }
            if has_changed {
                info!(number = current.number, "switched to the configuration of the cluster");
            }
            if answer_about(server, &name, &current.number) != Some(MemberAnswer::Done) {
                let answer = MemberAnswer::Done.text(&current.number);
                shared.put(site, &answer_of(&name), Some(&answer))?;
            }
        }
        Err(why) => {
            error!(%why, "this member cannot switch to the configuration of the cluster: it takes no changes");
            let is_first = shared.state.lock().failed.replace(Instant::now()).is_none();
            if is_first {
                let answer = MemberAnswer::Cannot(why.to_string()).text(&current.number);
                // Whether the others learn that or not, nothing is to be judged by another configuration.
                let _ = shared.put(site, &answer_of(&name), Some(&answer));
            }
            let state = format!("cannot switch to the configuration of the cluster (config): {why}");
            log.into_iter().for_each(|log| log.halt(Some(state.clone())));
        }
    }
    Ok(())
}

/// Writes the file of this machine and reloads it; returns false if it is right already.
fn switched(server: &Server, shared: &str) -> Result<bool, CannotSwitch> {
    let file = server.site.config.current().file.clone();
    let own = own_text(&file)?;
    let text = with_own_keys(shared, &own)?;
    let old = site_config::parse(&own, &file)?;
    let new = site_config::parse(&text, &file)?;
    if !differences(&old, &new).iter().any(is_of_site) {
        return Ok(false);
    }
    judge_of_cluster(server, &text)?;
    replace_file(&file, &text)?;
    match reload_by(server, ReloadCause::Cluster) {
        Ok(_) => Ok(true),
        Err(error) => {
            // The file is as it was, so that a start does not meet what was refused.
            replace_file(&file, &own)?;
            Err(error.into())
        }
    }
}

/// Changes the configuration of the cluster; answered by [`Reply::Text`], or by [`Reply::Error`] with what
/// prevents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfigOperation {
    /// Text to be applied; `None`: show the one that counts.
    pub apply: Option<String>,
}

impl Operation for ClusterConfigOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let done = match &self.apply {
            Some(text) => apply(server, text, &|| site.is_over()),
            None => shown(server),
        };
        replied(done.map(Reply::Text), sink)
    }
}

fn shown(server: &Server) -> Result<String, NotApplied> {
    let text = server.shared_config.text(&server.site.spool, CURRENT);
    text.map(|current| current.text).ok_or_else(|| {
        NotApplied::Trouble(
            "the members of the cluster share no configuration yet; newsreel cluster config apply FILE begins that".into(),
        )
    })
}

/// Has all members judge a text, and makes it that of the cluster.
fn apply(server: &Server, text: &str, is_over: &dyn Fn() -> bool) -> Result<String, NotApplied> {
    let (shared, site) = (&server.shared_config, &server.site);
    let log = site.spool.shared_log().ok_or(NotApplied::NoCluster)?;
    let own = own_name(site);
    judged(server, text).map_err(|why| NotApplied::Member { name: own.clone(), why: why.to_string() })?;
    // Notes change with each text, so two of one second differ: an answer about the first is none about the
    // second.
    let number = format!("{}-{}-{own}", unix_secs(), site.spool.note_changes(NoteKind::SharedFile));
    let numbered = format!("{number}\n{text}");
    let others = log.others().into_iter().filter(|other| other.silent < SILENT_MAX);
    let mut members: Vec<String> = others.map(|other| other.name).collect();
    shared.put(site, CANDIDATE, Some(&numbered))?;
    let answered = await_answers(server, &members, &number, &MemberAnswer::Can, is_over);
    if let Err(why) = answered {
        shared.put(site, CANDIDATE, None)?;
        return Err(why);
    }
    shared.put(site, CURRENT, Some(&numbered))?;
    shared.put(site, CANDIDATE, None)?;
    switch(server)?;
    members.push(own);
    match await_answers(server, &members, &number, &MemberAnswer::Done, is_over) {
        Ok(()) => {
            Ok(format!("applied, as {number}: {} have switched", counted(members.len() as u64, "member")))
        }
        Err(why) => Err(NotApplied::Trouble(format!("applied, as {number}; not at all members: {why}"))),
    }
}

/// Waits until all these members have given an answer.
fn await_answers(
    server: &Server,
    members: &[String],
    number: &str,
    wanted: &MemberAnswer,
    is_over: &dyn Fn() -> bool,
) -> Result<(), NotApplied> {
    let begun = Instant::now();
    loop {
        let mut missing = None;
        for name in members {
            match answer_about(server, name, number) {
                Some(MemberAnswer::Cannot(why)) => {
                    return Err(NotApplied::Member { name: name.clone(), why });
                }
                Some(answer) if answer == *wanted || answer == MemberAnswer::Done => {}
                _ => missing = Some(name.clone()),
            }
        }
        let Some(name) = missing else { return Ok(()) };
        if is_over() {
            return Err(NotApplied::Stopped);
        }
        if begun.elapsed() > ANSWER_MAX {
            return Err(NotApplied::Member { name, why: "it has not answered".into() });
        }
        std::thread::sleep(ASK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_the_text_that_it_is_about() {
        for answer in [MemberAnswer::Can, MemberAnswer::Done, MemberAnswer::Cannot("no: a\nb".into())] {
            let text = answer.text("7-fe1");
            assert_eq!(MemberAnswer::read(text.as_bytes(), "7-fe1"), Some(answer));
            assert_eq!(MemberAnswer::read(text.as_bytes(), "7-fe2"), None);
        }
        assert_eq!(MemberAnswer::read(b"7-fe1\nperhaps", "7-fe1"), None);
        assert_eq!(MemberAnswer::read(b"7-fe1", "7-fe1"), None);
    }
}
