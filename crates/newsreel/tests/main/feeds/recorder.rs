//! A peer that takes articles by CHECK, TAKETHIS and IHAVE, records everything, and is as difficult as a test
//! wants: it defers, rejects, closes, dies within an article, falls silent, or answers about another article.
//! Its behaviour follows from a seed and from the Message-ID. Any violation of the rules by the sender is a
//! fault ([`Manners`]).

use super::manners::{Answer, Manners, Pauses};
use crate::waiting::{PATIENCE, wait_for_close};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Number of the offer at which a peer that closes connections closes the first one.
const FIRST_CLOSES_AFTER: u32 = 20;
/// Base of the odds.
const CERTAIN: u64 = 100_000;

/// Behaviour of a peer; odds are out of 100,000.
#[derive(Debug, Clone, Copy, Default)]
pub struct Behaviour {
    /// Supports neither CAPABILITIES nor MODE STREAM.
    pub no_streaming: bool,
    /// Supports MODE HEADFEED.
    pub takes_headers: bool,
    /// Defers with 431 or 436.
    pub later: u64,
    /// Sends 400 and closes; always on the first connection.
    pub closes: u64,
    /// Closes in the middle of an article.
    pub dies: u64,
    /// Stops answering.
    pub stalls: u64,
    /// Answers about another article.
    pub lies: u64,
    /// Rejects with 439 or 437, always the same articles.
    pub rejects: u64,
    /// Refuses with 438 or 435, always the same articles.
    pub refuses: u64,
}

/// Progress of an exchange about an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// CHECK or IHAVE has come, and is not answered.
    Offered,
    /// The article has come, and is not answered.
    Sent,
    /// The final answer is sent.
    Answered,
}

/// Observations of one peer.
#[derive(Debug, Default)]
pub struct Seen {
    /// Articles accepted, in order, with their text.
    pub accepted: Vec<String>,
    pub articles: BTreeMap<String, String>,
    /// Commands with a Message-ID, in order.
    pub commands: Vec<String>,
    pub rejected: BTreeMap<String, u64>,
    pub refused: BTreeMap<String, u64>,
    pub connections: u64,
    /// Times of all connections, including refused ones.
    pub attempts: Vec<Instant>,
    /// Connections broken by the peer itself, and the times just before.
    pub breaks: Vec<(u64, Instant)>,
    pub manners: Manners,
}

/// Called with each step of each exchange.
type Watch = Box<dyn Fn(Step, &str) + Send + Sync>;

struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
    behaviour: Mutex<Behaviour>,
    random: AtomicU64,
    is_down: AtomicBool,
    watch: Watch,
}

/// The peer, which ends on drop.
pub struct Recorder {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Recorder {
    pub fn start(behaviour: Behaviour) -> Self {
        Self::start_with(behaviour, None, Box::new(|_, _| {}))
    }

    /// Starts a peer that knows the sender's pauses, and whose exchanges are watched.
    pub fn start_with(behaviour: Behaviour, pauses: Option<Pauses>, watch: Watch) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            seen: Mutex::new(Seen { manners: Manners::with(pauses), ..Seen::default() }),
            changed: Condvar::new(),
            behaviour: Mutex::new(behaviour),
            random: AtomicU64::new(88_172_645_463_325_252),
            is_down: AtomicBool::new(false),
            watch,
        });
        let own = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                own.record(|seen| seen.attempts.push(Instant::now()));
                if own.is_down.load(Ordering::SeqCst) {
                    continue;
                }
                let mut number = 0;
                own.record(|seen| {
                    seen.connections += 1;
                    number = seen.connections;
                });
                let own = own.clone();
                std::thread::spawn(move || {
                    // An error is the end of a connection like any other.
                    let has_quit = own.converse(stream, number).unwrap_or(false);
                    if !has_quit {
                        own.record(|seen| seen.manners.broke(number));
                    }
                });
            }
        });
        Self { address, shared }
    }

    /// Changes the behaviour from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// Refuses connections, or accepts them again.
    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Records that the sender was killed, with all connections.
    pub fn sender_is_gone(&self) {
        self.shared.record(|seen| (1..=seen.connections).for_each(|number| seen.manners.broke(number)));
    }

    /// Allows repeated offers, as requested by an operator.
    pub fn may_be_offered_again(&self) {
        self.shared.record(|seen| seen.manners.may_repeat = true);
    }

    /// Resets the peer, which has these articles.
    pub fn begin_again(&self, accepted: &[String]) {
        self.sender_is_gone();
        self.shared.record(|seen| {
            seen.accepted = accepted.to_vec();
            seen.articles = accepted.iter().map(|id| (id.clone(), String::new())).collect();
            seen.commands.clear();
            seen.manners = seen.manners.begun_again();
        });
    }

    /// Reads the observations.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.shared.seen.lock().unwrap())
    }

    /// Panics if the sender has committed a fault.
    pub fn expects_no_faults(&self) {
        let faults: Vec<String> =
            self.seen(|seen| seen.manners.faults().into_iter().take(5).map(str::to_owned).collect());
        assert!(faults.is_empty(), "{faults:#?}");
    }

    /// Waits until `is_so`.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let (mut begun, mut progress) = (Instant::now(), 0);
        let mut seen = self.shared.seen.lock().unwrap();
        while !is_so(&seen) {
            if seen.commands.len() > progress {
                (begun, progress) = (Instant::now(), seen.commands.len());
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{what}: {} accepted, {} rejected, {} refused of {} connections; the last: {:?}",
                seen.accepted.len(),
                seen.rejected.len(),
                seen.refused.len(),
                seen.connections,
                seen.commands.iter().rev().take(5).collect::<Vec<_>>()
            );
            seen = self.shared.changed.wait_timeout(seen, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// Waits for this many articles.
    pub fn wait_for(&self, articles: usize) {
        self.wait(&format!("{articles} articles"), |seen| seen.accepted.len() >= articles);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.set_down(true);
        if !std::thread::panicking() {
            self.expects_no_faults();
        }
    }
}

/// Returns whether an article is among those of these odds, for the behaviour `salt`.
fn chosen(id: &str, odds: u64, salt: u64) -> bool {
    let hash = id.bytes().fold(salt, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 20) % CERTAIN < odds
}

impl Shared {
    fn happens(&self, odds: u64) -> bool {
        let mut x = self.random.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Ordering::Relaxed);
        (x >> 16) % CERTAIN < odds
    }

    fn record(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
    }

    /// Records that the connection will end, or is about to be ended by the other side.
    fn break_off(&self, number: u64) {
        self.record(|seen| {
            seen.breaks.push((number, Instant::now()));
            seen.manners.broke(number);
        });
    }

    fn has(&self, id: &str) -> bool {
        self.seen.lock().unwrap().articles.contains_key(id)
    }

    /// Converses to the end; returns whether the other side sent QUIT.
    fn converse(&self, stream: TcpStream, number: u64) -> std::io::Result<bool> {
        stream.set_nodelay(true)?;
        let mut out = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        out.write_all(b"200 recorder\r\n")?;
        let mut line = String::new();
        let mut offers = 0;
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 || self.is_down.load(Ordering::SeqCst) {
                return Ok(false);
            }
            if self.seen.lock().unwrap().manners.is_broken(number) {
                return Ok(false);
            }
            let command = line.trim_end().to_owned();
            let (verb, id) = command.split_once(' ').unwrap_or((&command, ""));
            let behaviour = *self.behaviour.lock().unwrap();
            self.record(|seen| seen.manners.line(&line));
            if ["CHECK", "IHAVE", "TAKETHIS"].contains(&verb) {
                let pipelined = !input.buffer().is_empty();
                self.record(|seen| {
                    seen.commands.push(command.clone());
                    seen.manners.offer(number, verb, id, pipelined);
                });
                if verb != "TAKETHIS" {
                    (self.watch)(Step::Offered, id);
                }
                offers += 1;
                if !self.bears(&mut out, &behaviour, number, offers)? {
                    return Ok(false);
                }
            }
            let answer = match verb {
                "CAPABILITIES" if behaviour.no_streaming => "500 what?".to_owned(),
                "CAPABILITIES" => "101 these\r\nVERSION 2\r\nIHAVE\r\nSTREAMING\r\n.".to_owned(),
                "MODE" if behaviour.takes_headers && id == "HEADFEED" => "250 headers".to_owned(),
                "MODE" => "500 what?".to_owned(),
                "QUIT" => {
                    out.write_all(b"205 bye\r\n")?;
                    return Ok(true);
                }
                "CHECK" => {
                    let lies = self.happens(behaviour.lies);
                    if lies {
                        self.break_off(number);
                    }
                    let code = self.judge(number, verb, id, &behaviour, [438, 431, 238]);
                    format!("{code} {}", if lies { "<another@x.example>" } else { id })
                }
                "IHAVE" => match self.transfer(&mut input, &mut out, number, id, &behaviour)? {
                    Some(code) => format!("{code} that is all"),
                    None => return Ok(false),
                },
                "TAKETHIS" => match self.take(&mut input, number, id, &behaviour)? {
                    Some(true) => format!("239 {id}"),
                    Some(false) => format!("439 {id}"),
                    None => return Ok(false),
                },
                _ => "500 what?".to_owned(),
            };
            out.write_all(format!("{answer}\r\n").as_bytes())?;
            if ["235", "239", "435", "437", "438", "439"].iter().any(|code| answer.starts_with(code)) {
                (self.watch)(Step::Answered, id);
            }
        }
    }

    /// Handles IHAVE up to its last response; `None` if the connection is to end.
    fn transfer(
        &self,
        input: &mut impl BufRead,
        out: &mut TcpStream,
        number: u64,
        id: &str,
        behaviour: &Behaviour,
    ) -> std::io::Result<Option<u16>> {
        let code = self.judge(number, "IHAVE", id, behaviour, [435, 436, 335]);
        if code != 335 {
            return Ok(Some(code));
        }
        out.write_all(b"335 send it\r\n")?;
        let taken = self.take(input, number, id, behaviour)?;
        Ok(taken.map(|is_good| if is_good { 235 } else { 437 }))
    }

    /// Returns whether the connection survives this offer.
    fn bears(
        &self,
        out: &mut TcpStream,
        behaviour: &Behaviour,
        number: u64,
        offers: u32,
    ) -> std::io::Result<bool> {
        let surely = number == 1 && behaviour.closes > 0 && offers == FIRST_CLOSES_AFTER;
        let closes = surely || self.happens(behaviour.closes);
        if !closes && !self.happens(behaviour.stalls) {
            return Ok(true);
        }
        self.break_off(number);
        if closes {
            out.write_all(b"400 enough for now\r\n")?;
        } else {
            wait_for_close(out);
        }
        Ok(false)
    }

    /// Returns the code for an offer, from those for refused, later and wanted.
    fn judge(
        &self,
        number: u64,
        verb: &str,
        id: &str,
        behaviour: &Behaviour,
        [no, later, yes]: [u16; 3],
    ) -> u16 {
        let (code, answer) = if self.has(id) {
            (no, Answer::Settled)
        } else if chosen(id, behaviour.refuses, 3) {
            self.record(|seen| *seen.refused.entry(id.to_owned()).or_default() += 1);
            (no, Answer::Settled)
        } else if self.happens(behaviour.later) {
            (later, Answer::Later)
        } else {
            (yes, Answer::Wanted)
        };
        self.record(|seen| seen.manners.answer(number, verb, id, answer));
        code
    }

    /// Receives an article; returns whether it is good, or `None` if the connection is to end.
    fn take(
        &self,
        input: &mut impl BufRead,
        number: u64,
        id: &str,
        behaviour: &Behaviour,
    ) -> std::io::Result<Option<bool>> {
        let mut article = String::new();
        let dies = self.happens(behaviour.dies);
        loop {
            let start = article.len();
            if input.read_line(&mut article)? == 0 {
                return Ok(None);
            }
            if dies {
                self.break_off(number);
                return Ok(None);
            }
            if &article[start..] == ".\r\n" {
                article.truncate(start);
                break;
            }
        }
        (self.watch)(Step::Sent, id);
        let is_good = !self.has(id) && !chosen(id, behaviour.rejects, 7);
        self.record(|seen| {
            seen.manners.article(id, &article);
            seen.manners.answer(number, "TAKETHIS", id, Answer::Settled);
            if is_good {
                seen.accepted.push(id.to_owned());
                seen.articles.insert(id.to_owned(), article);
            } else if !seen.articles.contains_key(id) {
                *seen.rejected.entry(id.to_owned()).or_default() += 1;
            }
        });
        Ok(Some(is_good))
    }
}
