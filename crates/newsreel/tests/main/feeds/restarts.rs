//! Feeds of servers that are stopped and killed.

use super::difficult::feed_of;
use super::recorder::{Behaviour, Recorder, Step};
use super::{hand_in, id, section, status, wait_for_status};
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::wait_for;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Creates a site that feeds `recorder`.
pub(super) fn site(recorder: &Recorder, keys: &str) -> Operated {
    let site = Operated::with(&["--peer", "127.0.0.1"]);
    site.done(&["group", "add", "misc.test"]);
    let section = section("down.example", recorder, keys);
    site.edit(|text| text + &section);
    site
}

#[test]
fn killed_server_loses_nothing_and_repeats_little() {
    // Killed in turn while idle, while articles are being sent, and while some wait.
    let recorder = Recorder::start(Behaviour::default());
    let site = site(&recorder, "connections = 2");
    let mut handed_in = 0;
    for round in 0..6 {
        let behaviour = match round % 3 {
            0 => Behaviour::default(),
            1 => Behaviour { later: 30_000, ..Behaviour::default() },
            _ => Behaviour { later: 5_000, closes: 500, dies: 500, ..Behaviour::default() },
        };
        recorder.behave(behaviour);
        let server = site.serve();
        hand_in(&mut server.client(), handed_in..handed_in + 300, "misc.test");
        handed_in += 300;
        let enough = handed_in - 150;
        recorder.wait("a part of the articles", |seen| seen.accepted.len() >= enough - 100);
        // Killed by SIGKILL.
        drop(server);
        recorder.sender_is_gone();
    }
    recorder.behave(Behaviour::default());
    let server = site.serve();
    recorder.wait_for(handed_in);
    let accepted = recorder.seen(|seen| seen.accepted.clone());
    let mut ids: Vec<String> = (0..handed_in).map(id).collect();
    ids.sort_unstable();
    let mut sorted = accepted.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ids, "every article once");
    drop(server);
}

/// State of the disk and the peer at one moment of a feed.
struct Moment {
    what: &'static str,
    disk: SimDisk,
    /// Articles that the peer has.
    accepted: Vec<String>,
    /// Number of articles that it has answered for.
    answered: usize,
    /// Whether the cursor is known to be after those.
    is_noted: bool,
}

/// Observes a feed from the peer's side.
struct Watcher {
    disk: SimDisk,
    cursor: OnceLock<PathBuf>,
    answered: AtomicUsize,
    /// Set when nothing more is to be recorded.
    is_over: AtomicBool,
    /// Sequence number of the first article.
    first: OnceLock<u64>,
    moments: Mutex<Vec<Moment>>,
}

impl Watcher {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: SimDisk::new(),
            cursor: OnceLock::new(),
            answered: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            first: OnceLock::new(),
            moments: Mutex::default(),
        })
    }

    /// Starts a server on this disk that feeds `recorder`; returns the sequence number of the first article.
    fn serve(&self, recorder: &Recorder, keys: &str) -> (Server, u64) {
        let section = section("down.example", recorder, keys);
        let disk = Arc::new(self.disk.clone());
        let server = Server::start_on(disk, |text| text.replace("\"32 MiB\"", "\"1 MiB\"") + &section);
        // A server that greets can be queried.
        let _greeted = server.client();
        wait_for_status(&server, "down.example", serde_json::Value::is_object);
        self.cursor.set(server.data().join("journal/feed.down.example.cursor")).unwrap();
        let first = self.noted();
        self.first.set(first).unwrap();
        (server, first)
    }

    /// Returns the sequence number at which the cursor continues after a kill (`docs/formats/cursor.md`).
    fn noted(&self) -> u64 {
        let file = self.disk.open(self.cursor.get().unwrap(), OpenMode::ReadOnly).unwrap();
        let copy = |at: u64| {
            let mut bytes = [0; 76];
            file.read_at(&mut bytes, at).unwrap();
            let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            (number(12), number(60))
        };
        copy(0).max(copy(4_096)).1
    }

    /// Waits until the cursor is after this many articles.
    fn wait_until_noted(&self, first: u64, articles: usize) {
        wait_for(|| self.noted(), |noted| *noted >= first + articles as u64);
    }

    fn keep(&self, what: &'static str, has: usize, is_noted: bool) {
        let disk = self.disk.image_after(CrashKind::Kill, 0).unwrap();
        let (answered, accepted) = (self.answered.load(Ordering::SeqCst), (0..has).map(id).collect());
        self.moments.lock().unwrap().push(Moment { what, disk, accepted, answered, is_noted });
    }

    /// Called at each step; articles are answered in order.
    fn watch(&self, step: Step) {
        if self.is_over.load(Ordering::SeqCst) {
            return;
        }
        let answered = self.answered.load(Ordering::SeqCst);
        match step {
            Step::Offered => self.keep("offered", answered, true),
            Step::Sent => {
                self.keep("sent, and not taken", answered, true);
                self.keep("sent and taken", answered + 1, true);
            }
            Step::Answered => {
                self.answered.fetch_add(1, Ordering::SeqCst);
                self.keep("answered", answered + 1, false);
                self.wait_until_noted(*self.first.get().unwrap(), answered + 1);
                self.keep("noted", answered + 1, true);
            }
        }
    }
}

/// Returns the numbers of the articles offered after this many commands, in order.
fn offered(recorder: &Recorder, commands: usize) -> Vec<usize> {
    let number = |command: &String| {
        let id = command.strip_prefix("CHECK ").or(command.strip_prefix("IHAVE "))?;
        id.trim_start_matches('<').split('@').next()?.parse().ok()
    };
    recorder.seen(|seen| seen.commands.iter().skip(commands).filter_map(number).collect())
}

fn killed_at_each_step(behaviour: Behaviour) {
    const ARTICLES: usize = 4;
    let watcher = Watcher::new();
    let own = watcher.clone();
    let watch = Box::new(move |step, _: &str| own.watch(step));
    let recorder = Recorder::start_with(behaviour, None, watch);
    let (mut server, _) = watcher.serve(&recorder, "connections = 1");
    hand_in(&mut server.client(), 0..ARTICLES, "misc.test");
    wait_for(|| watcher.moments.lock().unwrap().len(), |moments| *moments >= 5 * ARTICLES);
    watcher.is_over.store(true, Ordering::SeqCst);
    let moments = std::mem::take(&mut *watcher.moments.lock().unwrap());
    for Moment { what, disk, accepted, answered, is_noted } in moments {
        recorder.begin_again(&accepted);
        server = server.again(Arc::new(disk));
        hand_in(&mut server.client(), ARTICLES..ARTICLES + 1, "misc.test");
        recorder.wait_for(ARTICLES + 1);
        let offered = offered(&recorder, 0);
        let from = if is_noted { answered } else { offered[0].clamp(answered - 1, answered) };
        assert_eq!(offered, (from..=ARTICLES).collect::<Vec<_>>(), "killed when {answered} was {what}");
        recorder.expects_no_faults();
    }
}

#[test]
fn kill_at_any_step_loses_nothing_and_repeats_nothing_noted() {
    killed_at_each_step(Behaviour::default());
    killed_at_each_step(Behaviour { no_streaming: true, ..Behaviour::default() });
}

#[test]
fn deferred_articles_are_offered_when_due_after_a_kill() {
    const ARTICLES: usize = 5;
    let watcher = Watcher::new();
    watcher.is_over.store(true, Ordering::SeqCst);
    let recorder = Recorder::start(Behaviour { later: 100_000, ..Behaviour::default() });
    let (server, first) = watcher.serve(&recorder, "");
    server.reload(|text| text.replace("\"10ms\"", "\"1 h\"").replace("\"200ms\"", "\"1 h\"")).unwrap();
    hand_in(&mut server.client(), 0..ARTICLES, "misc.test");
    watcher.wait_until_noted(first, ARTICLES);
    let image = watcher.disk.image_after(CrashKind::Kill, 0).unwrap();
    recorder.sender_is_gone();
    let before = recorder.seen(|seen| seen.commands.len());
    recorder.behave(Behaviour::default());
    let server = server.again(Arc::new(image));
    hand_in(&mut server.client(), ARTICLES..ARTICLES + 1, "misc.test");
    recorder.wait_for(1);
    wait_for_status(&server, "down.example", |feed| feed["lag_articles"] == 0);
    assert_eq!(offered(&recorder, before), [ARTICLES]);
    assert_eq!(status(&server, "down.example")["waiting"], ARTICLES);
    let flush = serde_json::json!({ "do": "feed", "peer": "down.example", "command": "flush" });
    assert!(server.control(&flush).1);
    recorder.wait_for(ARTICLES + 1);
}

#[test]
fn nothing_is_offered_again_after_a_stop() {
    let recorder = Recorder::start(Behaviour { later: 100_000, ..Behaviour::default() });
    let site = site(&recorder, "connections = 1");
    let server = site.serve();
    hand_in(&mut server.client(), 0..50, "misc.test");
    recorder.wait("offers", |seen| seen.commands.len() >= 50);
    recorder.behave(Behaviour::default());
    recorder.wait_for(50);
    // The peer has them; its responses may not have arrived yet.
    wait_for(|| feed_of(&site), |feed| feed["lag_articles"] == 0 && feed["waiting"] == 0);
    server.stop();
    let before = recorder.seen(|seen| seen.commands.len());
    let server = site.serve();
    hand_in(&mut server.client(), 50..51, "misc.test");
    recorder.wait_for(51);
    let commands = recorder.seen(|seen| seen.commands.get(before..).map(<[String]>::to_vec)).unwrap();
    assert_eq!(commands, [format!("CHECK {}", id(50)), format!("TAKETHIS {}", id(50))]);
}
