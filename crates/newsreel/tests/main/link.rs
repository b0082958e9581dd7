//! A slow link: a relay on loopback that delivers every octet after a fixed delay, and counts.
//!
//! The counts do not depend on the speed of the machine: octets, segments as they were read, and round trips.
//! A client makes a round trip when it sends something after it has received something; commands sent without
//! waiting are one.

use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Traffic since the relay was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    pub round_trips: usize,
    pub segments: usize,
    pub octets_up: usize,
    pub octets_down: usize,
}

/// The relay. Its threads end with their connections, the accepting one with the process.
pub struct Link {
    address: SocketAddr,
    passed: Arc<Mutex<Passed>>,
}

/// One direction of a connection.
struct Way {
    from: TcpStream,
    to: TcpStream,
    up: bool,
}

/// Octets that a line with a limited rate delivers at a time.
const FRAME_OCTETS: usize = 256;

/// State shared by the connections.
struct Line {
    /// Time for one octet.
    octet: Duration,
    /// Octets delivered at a time.
    frame_octets: usize,
    /// Time at which everything sent so far has passed.
    free: Mutex<Instant>,
}

impl Line {
    /// Returns the time at which this many octets have passed, after all before them.
    fn pass(&self, octets: usize) -> Instant {
        let mut free = self.free.lock();
        *free = (*free).max(Instant::now()) + self.octet * u32::try_from(octets).unwrap();
        *free
    }
}

/// Octets, and the time at which they are due.
type Delayed = (Instant, Vec<u8>);

impl Link {
    /// Creates a link to `target` with the delay `one_way` in each direction.
    pub fn to(target: SocketAddr, one_way: Duration) -> Self {
        Self::with_rate(target, one_way, u32::MAX)
    }

    /// Like [`to`](Self::to), with a limit in octets per second for all connections together.
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
                // Set if the client has received something since it sent last.
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

    /// Returns the number of round trips that `work` makes.
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

/// Reads to the end, which is delivered by dropping the sender.
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
        // The line has a delay and a rate.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        note();
        if to.write_all(&octets).is_err() {
            break;
        }
    }
    let _already_closed = to.shutdown(Shutdown::Write);
}
