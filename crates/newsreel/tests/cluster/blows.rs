//! Blows to a cluster under load, chosen by a seed: members and nodes are killed and paused, and links
//! between them are cut, one at a time, for as long as `NEWSREEL_BLOW_SECONDS` says. What clients were told
//! is recorded and compared with what members have in the end. Run by `make soak-blows`.
//!
//! Checked: what was answered 2xx is at every member, and at the peer; no number of a group names two
//! articles; digests are equal; posts are accepted again 12 s after a blow; the peer is fed again as soon,
//! and is offered no more than 10,000 articles again; marks that a client sees do not fall as it changes
//! members.

use crate::links::Link;
use crate::nodes::{Nodes, Scratch, WAIT_MAX, program, wait_until};
use crate::{Client, GROUPS, Member, await_same_digest, done, members_of, overview};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time without an accepted article, whatever happens.
const BACK_MAX: Duration = Duration::from_secs(12);
/// Articles that a peer may be offered again whenever another member takes over its feed.
const REPEATED_MAX: u64 = 10_000;
/// Time after which a question for a fresh answer is answered from what a member has.
const FRESH_MAX: Duration = Duration::from_millis(1900);
/// Pause of each client between articles: the load is the clients', not what the machine bears.
const PAUSE: Duration = Duration::from_millis(50);
/// Articles of any number stay until the end.
const KEPT: &str = "\n[[class]]\nname = \"kept\"\nmethod = \"appendonly\"\nfile_size = \"16 MiB\"\n";

/// Random numbers from a seed (SplitMix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// What clients were told.
#[derive(Default)]
struct History {
    /// Message-IDs answered 2xx, with the time since the start.
    accepted: Vec<(Duration, String)>,
    /// Marks that fell for a client that had a fresh answer before and after.
    fallen: Vec<String>,
    /// Questions answered late, so that they may have been old.
    stale: u64,
}

/// Clients at work.
struct Load<'l> {
    ports: &'l [u16],
    begun: Instant,
    next: AtomicU64,
    is_over: AtomicBool,
}

impl Load<'_> {
    /// Brings articles to a member until the end.
    fn bring(&self, at: usize) -> History {
        let (mut history, mut client) = (History::default(), None);
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
            let port = self.ports[at % self.ports.len()];
            let Some(connected) = client.as_mut() else {
                client = connect(port);
                continue;
            };
            let id = format!("<{}.blow@three.example>", self.next.fetch_add(1, Ordering::Relaxed));
            let answer = match at < self.ports.len() {
                true => connected.post(&id, "test.a"),
                false => connected.take_this(&id, "test.a,test.b"),
            };
            match answer {
                Some(answer) if answer.starts_with("240") || answer.starts_with("239") => {
                    history.accepted.push((self.begun.elapsed(), id));
                }
                Some(answer) if answer.starts_with("44") => {}
                // In doubt, or closed: it may have been accepted or not.
                _ => client = None,
            }
        }
        history
    }

    /// Asks one member after the other for the marks of a group.
    fn hop(&self) -> History {
        let (mut history, mut highest) = (History::default(), 0);
        let mut at = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
            at = (at + 1) % self.ports.len();
            let Some(mut client) = connect(self.ports[at]) else { continue };
            let asked = Instant::now();
            let Some(answer) = client.ask("GROUP test.a") else { continue };
            if asked.elapsed() > FRESH_MAX {
                history.stale += 1;
                continue;
            }
            let high: u64 = answer.split(' ').nth(3).and_then(|high| high.parse().ok()).unwrap_or_default();
            if high < highest {
                history.fallen.push(format!("{highest}, then {high} at member {at}: {answer}"));
            }
            highest = highest.max(high);
        }
        history
    }
}

/// Connects to a member that may be paused or away.
fn connect(port: u16) -> Option<Client> {
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let client = Client::greeted(stream)?;
    client.0.get_ref().set_read_timeout(Some(WAIT_MAX)).ok()?;
    Some(client)
}

/// Sends a signal to a process.
pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Strikes once, and puts things right again; returns what it was.
fn strike(random: &mut Seeded, members: &mut [Member], nodes: &mut Nodes, links: &[Vec<Link>]) -> String {
    let (kind, victim) = (random.below(5), random.below(3));
    let lasts = Duration::from_millis(1_000 + random.below(7_000) as u64);
    let told = match kind {
        0 => {
            members[victim].kill();
            std::thread::sleep(lasts);
            members[victim].serve();
            format!("member {victim} killed")
        }
        1 => {
            nodes.kill(victim);
            std::thread::sleep(lasts);
            nodes.run(victim);
            format!("node {victim} killed")
        }
        2 => {
            let pid = members[victim].running.as_ref().unwrap().id();
            signal("-STOP", pid);
            std::thread::sleep(lasts);
            signal("-CONT", pid);
            format!("member {victim} paused")
        }
        3 => {
            let pid = nodes.running[victim].as_ref().unwrap().id();
            signal("-STOP", pid);
            std::thread::sleep(lasts);
            signal("-CONT", pid);
            format!("node {victim} paused")
        }
        _ => {
            links[victim].iter().for_each(Link::cut);
            std::thread::sleep(lasts);
            links[victim].iter().for_each(Link::mend);
            format!("links of member {victim} cut")
        }
    };
    format!("{told} for {:.1} s", lasts.as_secs_f64())
}

/// Returns the longest time between two of these, the start and the end.
fn longest_gap(mut times: Vec<Duration>, end: Duration) -> (Duration, Duration) {
    times.extend([Duration::ZERO, end]);
    times.sort();
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0], pair[0]));
    gaps.max().unwrap_or_default()
}

/// Makes the site that is fed.
pub(crate) fn make_peer(scratch: &Scratch) -> Member {
    let groups = scratch.0.join("groups");
    std::fs::write(&groups, GROUPS).unwrap();
    let peer = Member::new(scratch, "peer");
    let (listen, groups) = (format!("127.0.0.1:{}", peer.port), groups.to_str().unwrap().to_owned());
    let words =
        ["init", "--listen", &listen, "--buffer", "256 MiB", "--peer", "127.0.0.1", "--max-age", "none"];
    done(&peer.dir, &[&words[..], &["--path-identity", "fed.example", "--groups", &groups]].concat());
    peer
}

#[test]
#[ignore = "takes an hour: make soak-blows"]
fn members_survive_blows_under_load() {
    let Some(program) = program() else { return };
    let lasts = Duration::from_secs(number_of("NEWSREEL_BLOW_SECONDS", 3_600));
    let seed = number_of("NEWSREEL_SEED", u64::from(std::process::id()));
    println!("seed {seed}, for {lasts:?}");
    let scratch = Scratch::new("blows");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut peer = make_peer(&scratch);
    peer.serve();
    let more = format!(
        "{KEPT}\n[[peer]]\nname = \"to.peer\"\naddresses = [\"127.0.0.2\"]\n[peer.send]\nto = \"127.0.0.1:{}\"\n",
        peer.port
    );
    let mut members = members_of(&["fe1", "fe2", "fe3"], &scratch, &nodes, &more);
    let links: Vec<Vec<Link>> =
        (0..3).map(|_| nodes.ports.iter().map(|ports| Link::to(ports[0])).collect()).collect();
    for (member, links) in members.iter_mut().zip(&links) {
        member.stop();
        member.connect_through(&nodes, links);
        member.serve();
    }

    let ports: Vec<u16> = members.iter().map(|member| member.port).collect();
    let load = Load {
        ports: &ports,
        begun: Instant::now(),
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let (mut blows, mut fed) = (Vec::new(), Vec::new());
    let histories: Vec<History> = std::thread::scope(|scope| {
        let mut clients: Vec<_> = (0..6)
            .map(|at| {
                scope.spawn({
                    let load = &load;
                    move || load.bring(at)
                })
            })
            .collect();
        clients.extend((0..2).map(|_| scope.spawn(|| load.hop())));
        // Times at which the peer has got something.
        let watching = scope.spawn(|| {
            let (mut times, mut high, mut client) = (Vec::new(), String::new(), peer.client());
            while !load.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let marks = client.ask("GROUP test.a").unwrap();
                if marks != high {
                    high = marks;
                    times.push(load.begun.elapsed());
                }
            }
            times
        });
        let mut random = Seeded(seed);
        std::thread::sleep(Duration::from_secs(5));
        while load.begun.elapsed() < lasts {
            let at = load.begun.elapsed();
            let told = strike(&mut random, &mut members, &mut nodes, &links);
            println!("{:6.1} s: {told}", at.as_secs_f64());
            blows.push((at, told));
            std::thread::sleep(Duration::from_secs(8 + random.below(8) as u64));
        }
        load.is_over.store(true, Ordering::Relaxed);
        fed = watching.join().unwrap();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let end = load.begun.elapsed();

    // All members have the same, and all of what was accepted.
    await_same_digest(&members);
    let seen = overview(&mut members[0].client());
    for member in &members[1..] {
        assert!(overview(&mut member.client()) == seen, "{} differs", member.name);
    }
    let mut numbers: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut places: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    for line in &seen {
        let Some(id) = line.split('\t').nth(4) else { continue };
        let (group, number) = line.split('\t').next().unwrap().split_once(' ').unwrap();
        assert_eq!(numbers.insert((group, number), id), None, "{group} {number}");
        assert!(places.insert((group, id)), "{id} has two numbers in {group}");
        ids.insert(id);
    }
    let accepted: Vec<&(Duration, String)> = histories.iter().flat_map(|history| &history.accepted).collect();
    let missing: Vec<_> = accepted.iter().filter(|(_, id)| !ids.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "answered 2xx, and not here: {missing:?}");
    let fallen: Vec<&String> = histories.iter().flat_map(|history| &history.fallen).collect();
    assert!(fallen.is_empty(), "{fallen:#?}");
    // So has the peer, once it has been fed.
    wait_until("the peer has everything", || {
        let theirs = overview(&mut peer.client());
        let theirs: BTreeSet<&str> = theirs.iter().filter_map(|line| line.split('\t').nth(4)).collect();
        accepted.iter().all(|(_, id)| theirs.contains(id.as_str()))
    });
    let report: serde_json::Value = serde_json::from_str(&done(&peer.dir, &["status", "--json"])).unwrap();
    let peers = report["server"]["peers"].as_array().unwrap().iter();
    let count = |peer: &serde_json::Value, name: &str| peer[name].as_u64().unwrap_or_default();
    let repeated: u64 = peers.map(|peer| count(peer, "offered") - count(peer, "accepted")).sum();

    let stale: u64 = histories.iter().map(|history| history.stale).sum();
    let (gap, since) = longest_gap(accepted.iter().map(|(at, _)| *at).collect(), end);
    let (unfed, unfed_since) = longest_gap(fed, end);
    println!(
        "{} blows, {} articles accepted of {} offered, {stale} stale answers; longest pause of the site {:.1} s \
         (from {:.1} s on), of the feed {:.1} s (from {:.1} s on); {repeated} offers repeated to the peer",
        blows.len(),
        accepted.len(),
        load.next.load(Ordering::Relaxed),
        gap.as_secs_f64(),
        since.as_secs_f64(),
        unfed.as_secs_f64(),
        unfed_since.as_secs_f64(),
    );
    assert!(gap <= BACK_MAX, "no article was accepted for {gap:?}");
    assert!(unfed <= BACK_MAX, "the peer was not fed for {unfed:?}");
    assert!(repeated <= REPEATED_MAX * blows.len() as u64, "{repeated}");
}
