//! A peer that takes articles by CHECK, TAKETHIS and IHAVE, records everything, and is as difficult as a test
//! wants: it puts off, rejects, closes, dies within an article, falls silent, or answers about another
//! article. What it does follows from a seed and from the Message-ID.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::operated::PATIENCE;

/// A peer that closes connections closes the first at this offer.
const FIRST_CLOSES_AFTER: u32 = 20;

/// How a peer behaves; odds are of 1,000.
#[derive(Debug, Clone, Copy, Default)]
pub struct Behaviour {
    /// It knows neither CAPABILITIES nor MODE STREAM.
    pub no_streaming: bool,
    /// 431 or 436: later.
    pub later: u64,
    /// 400 and the end; of the first connection surely.
    pub closes: u64,
    /// The end in the middle of an article.
    pub dies: u64,
    /// No answer any more.
    pub stalls: u64,
    /// An answer about another article.
    pub lies: u64,
    /// 439 or 437, always the same articles.
    pub rejects: u64,
    /// 438 or 435, always the same articles.
    pub refuses: u64,
}

/// What one peer saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Articles taken, in order, and what was sent of each.
    pub accepted: Vec<String>,
    pub articles: BTreeMap<String, String>,
    /// Commands with a Message-ID, in order.
    pub commands: Vec<String>,
    /// Articles that came though they were there.
    pub again: u64,
    pub rejected: BTreeMap<String, u64>,
    pub refused: BTreeMap<String, u64>,
    pub connections: u64,
}

struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
    behaviour: Mutex<Behaviour>,
    random: AtomicU64,
    is_down: AtomicBool,
}

/// The peer; gone with the value.
pub struct Recorder {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Recorder {
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            changed: Condvar::new(),
            behaviour: Mutex::new(behaviour),
            random: AtomicU64::new(88_172_645_463_325_252),
            is_down: AtomicBool::new(false),
        });
        let own = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.is_down.load(Ordering::SeqCst) {
                    continue;
                }
                let mut seen = own.seen.lock().unwrap();
                seen.connections += 1;
                let is_first = seen.connections == 1;
                drop(seen);
                let own = own.clone();
                // A connection that ends is what it is for.
                std::thread::spawn(move || _ = own.converse(stream, is_first));
            }
        });
        Self { address, shared }
    }

    /// Behaves otherwise from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// Takes no connections, or takes them again.
    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Looks at what was seen.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.shared.seen.lock().unwrap())
    }

    /// Waits until `is_so`.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let begun = Instant::now();
        let mut seen = self.shared.seen.lock().unwrap();
        while !is_so(&seen) {
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

    /// Waits for so many articles.
    pub fn wait_for(&self, articles: usize) {
        self.wait(&format!("{articles} articles"), |seen| seen.accepted.len() >= articles);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.set_down(true);
    }
}

/// Whether an article is among those of these odds, in the manner `salt`.
fn chosen(id: &str, odds: u64, salt: u64) -> bool {
    let hash = id.bytes().fold(salt, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 20) % 1_000 < odds
}

impl Shared {
    fn happens(&self, odds: u64) -> bool {
        let mut x = self.random.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Ordering::Relaxed);
        (x >> 16) % 1_000 < odds
    }

    fn record(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
    }

    fn has(&self, id: &str) -> bool {
        self.seen.lock().unwrap().articles.contains_key(id)
    }

    fn converse(&self, stream: TcpStream, is_first: bool) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut out = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        out.write_all(b"200 recorder\r\n")?;
        let mut line = String::new();
        let mut offers = 0;
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 || self.is_down.load(Ordering::SeqCst) {
                return Ok(());
            }
            let command = line.trim_end().to_owned();
            let (verb, id) = command.split_once(' ').unwrap_or((&command, ""));
            let behaviour = *self.behaviour.lock().unwrap();
            if !id.is_empty() && verb != "MODE" {
                self.record(|seen| seen.commands.push(command.clone()));
                offers += 1;
                let surely = is_first && behaviour.closes > 0 && offers == FIRST_CLOSES_AFTER;
                if surely || self.happens(behaviour.closes) {
                    out.write_all(b"400 enough for now\r\n")?;
                    return Ok(());
                }
                if self.happens(behaviour.stalls) {
                    std::thread::sleep(PATIENCE);
                    return Ok(());
                }
            }
            let answer = match verb {
                "CAPABILITIES" if behaviour.no_streaming => "500 what?".to_owned(),
                "CAPABILITIES" => "101 these\r\nVERSION 2\r\nIHAVE\r\nSTREAMING\r\n.".to_owned(),
                "MODE" => "500 what?".to_owned(),
                "QUIT" => {
                    out.write_all(b"205 bye\r\n")?;
                    return Ok(());
                }
                "CHECK" => {
                    let code = self.judge(id, &behaviour, [438, 431, 238]);
                    let id = if self.happens(behaviour.lies) { "<another@x.example>" } else { id };
                    format!("{code} {id}")
                }
                "IHAVE" => match self.judge(id, &behaviour, [435, 436, 335]) {
                    335 => {
                        out.write_all(b"335 send it\r\n")?;
                        match self.take(&mut input, id, &behaviour)? {
                            Some(true) => "235 thanks".to_owned(),
                            Some(false) => "437 no".to_owned(),
                            None => return Ok(()),
                        }
                    }
                    code => format!("{code} no"),
                },
                "TAKETHIS" => match self.take(&mut input, id, &behaviour)? {
                    Some(true) => format!("239 {id}"),
                    Some(false) => format!("439 {id}"),
                    None => return Ok(()),
                },
                _ => "500 what?".to_owned(),
            };
            out.write_all(format!("{answer}\r\n").as_bytes())?;
        }
    }

    /// The code to an offer: of these for "no", "later" and "yes".
    fn judge(&self, id: &str, behaviour: &Behaviour, [no, later, yes]: [u16; 3]) -> u16 {
        if self.has(id) {
            no
        } else if chosen(id, behaviour.refuses, 3) {
            self.record(|seen| *seen.refused.entry(id.to_owned()).or_default() += 1);
            no
        } else if self.happens(behaviour.later) {
            later
        } else {
            yes
        }
    }

    /// Takes an article; whether it is good, `None`: the connection is to end.
    fn take(
        &self,
        input: &mut impl BufRead,
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
                return Ok(None);
            }
            if &article[start..] == ".\r\n" {
                article.truncate(start);
                break;
            }
        }
        if self.has(id) {
            self.record(|seen| seen.again += 1);
            return Ok(Some(false));
        }
        if chosen(id, behaviour.rejects, 7) {
            self.record(|seen| *seen.rejected.entry(id.to_owned()).or_default() += 1);
            return Ok(Some(false));
        }
        self.record(|seen| {
            seen.accepted.push(id.to_owned());
            seen.articles.insert(id.to_owned(), article);
        });
        Ok(Some(true))
    }
}
