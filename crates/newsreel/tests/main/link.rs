//! A slow link: a relay on loopback that delivers every octet after a fixed delay, and counts.
//!
//! What is counted does not depend on how fast the machine is: octets, segments as they were read, and round
//! trips. A client makes a round trip when it sends something after it has received something; commands sent
//! one after another without waiting are one.

use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What has passed since the relay was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    pub round_trips: usize,
    pub segments: usize,
    pub octets_up: usize,
    pub octets_down: usize,
}

/// The relay. Its threads end with their connections, that which accepts them with the process.
pub struct Link {
    address: SocketAddr,
    passed: Arc<Mutex<Passed>>,
}

/// One connection's way in one direction.
struct Way {
    from: TcpStream,
    to: TcpStream,
    up: bool,
}

/// Octets that a line with a rate delivers at a time.
const FRAME_OCTETS: usize = 256;

/// What the connections share.
struct Line {
    /// How long one octet takes.
    octet: Duration,
    /// How many are delivered at a time.
    frame_octets: usize,
    /// When what was sent so far has passed.
    free: Mutex<Instant>,
}

impl Line {
    /// When so many octets have passed, after all before them.
    fn pass(&self, octets: usize) -> Instant {
        let mut free = self.free.lock();
        *free = (*free).max(Instant::now()) + self.octet * u32::try_from(octets).unwrap();
        *free
    }
}

/// Octets, and when they are due.
type Delayed = (Instant, Vec<u8>);

impl Link {
    /// A link to `target` that takes `one_way` in each direction.
    pub fn to(target: SocketAddr, one_way: Duration) -> Self {
        Self::with_rate(target, one_way, u32::MAX)
    }

    /// The same, where all connections together receive so many octets a second.
    pub fn with_rate(target: SocketAddr, one_way: Duration, octets_per_sec: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed: Arc<Mutex<Passed>> = Arc::default();
        let counts = passed.clone();
        let octet = Duration::from_secs(1) / octets_per_sec;
        let line = Arc::new(Line {
            octet,
            frame_octets: if octet.is_zero() { usize::MAX } else { FRAME_OCTETS },
            free: Mutex::new(Instant::now()),
        });
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(target).unwrap());
                // Whether the client has received something since it sent last.
                let answered = Arc::new(Mutex::new(true));
                for (from, to, up) in [(&client, &server, true), (&server, &client, false)] {
                    from.set_nodelay(true).unwrap();
                    let way = Way { from: from.try_clone().unwrap(), to: to.try_clone().unwrap(), up };
                    way.carry(one_way, &counts, &answered, &line);
                }
            }
        });
        Self { address, passed }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> String {
        self.address.port().to_string()
    }

    pub fn passed(&self) -> Passed {
        *self.passed.lock()
    }

    /// The round trips that `work` makes.
    pub fn round_trips(&self, work: impl FnOnce()) -> usize {
        let before = self.passed().round_trips;
        work();
        self.passed().round_trips - before
    }
}

impl Way {
    fn carry(
        self,
        one_way: Duration,
        counts: &Arc<Mutex<Passed>>,
        answered: &Arc<Mutex<bool>>,
        line: &Arc<Line>,
    ) {
        let (sender, receiver) = channel();
        let Self { from, to, up } = self;
        let (counts, heard) = (counts.clone(), answered.clone());
        let (delivered, line) = (answered.clone(), line.clone());
        thread::spawn(move || {
            let note = |octets: usize| {
                let mut counts = counts.lock();
                counts.segments += 1;
                if up {
                    counts.octets_up += octets;
                    counts.round_trips += usize::from(std::mem::take(&mut *heard.lock()));
                } else {
                    counts.octets_down += octets;
                }
            };
            let due = |octets: usize| (if up { Instant::now() } else { line.pass(octets) }) + one_way;
            take(from, &sender, line.frame_octets, due, note);
        });
        thread::spawn(move || deliver(to, &receiver, || *delivered.lock() |= !up));
    }
}

/// Reads to the end; an end is delivered by dropping the sender.
fn take(
    mut from: TcpStream,
    sender: &Sender<Delayed>,
    frame_octets: usize,
    due: impl Fn(usize) -> Instant,
    note: impl Fn(usize),
) {
    let mut octets = [0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut octets) {
        note(n);
        for frame in octets[..n].chunks(frame_octets) {
            if sender.send((due(frame.len()), frame.to_vec())).is_err() {
                return;
            }
        }
    }
}

fn deliver(mut to: TcpStream, receiver: &Receiver<Delayed>, note: impl Fn()) {
    for (due, octets) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        note();
        if to.write_all(&octets).is_err() {
            break;
        }
    }
    let _already_closed = to.shutdown(Shutdown::Write);
}
