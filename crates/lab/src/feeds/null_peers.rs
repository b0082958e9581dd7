//! Peers that want everything and keep nothing (RFC 4644), as cheap as peers can be.

use memchr::{memchr, memmem};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Read at once.
const READ_BYTES: usize = 256 << 10;
const ARTICLE_END: &[u8] = b"\r\n.\r\n";
/// Between two looks at the counts, and between two at what else there is to see: to read how much memory a
/// program has stops it for a moment.
const POLL: Duration = Duration::from_millis(2);
const LOOK: Duration = Duration::from_millis(100);

/// What a peer has seen of an article, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    pub message_id: Vec<u8>,
    pub when: Instant,
    /// All of it has come; else it was offered.
    pub is_whole: bool,
}

/// Some peers, in threads of this process that end with their connections.
#[derive(Debug)]
pub struct NullPeers {
    pub addresses: Vec<SocketAddr>,
    taken: Vec<Arc<AtomicU64>>,
    /// Connections that each has had.
    connections: Vec<Arc<AtomicU64>>,
    sights: Option<Receiver<Sight>>,
    is_over: Arc<AtomicBool>,
}

impl NullPeers {
    /// `count` of them; if they are `watched`, each article's arrival is reported.
    pub fn start(count: usize, watched: bool) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let sender = watched.then_some(sender);
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut addresses, mut taken, mut connections) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            addresses.push(listener.local_addr()?);
            let (counter, sender, is_over) = (Arc::new(AtomicU64::new(0)), sender.clone(), is_over.clone());
            taken.push(counter.clone());
            let connected = Arc::new(AtomicU64::new(0));
            connections.push(connected.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    connected.fetch_add(1, Ordering::Relaxed);
                    let mut connection = Connection::new(counter.clone(), sender.clone());
                    // The end of the connection, whatever it was.
                    thread::spawn(move || _ = connection.serve(stream));
                }
            });
        }
        Ok(Self { addresses, taken, connections, sights: watched.then_some(receiver), is_over })
    }

    /// Articles that the slowest of them has taken.
    pub fn least(&self) -> u64 {
        self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).min().unwrap_or_default()
    }

    /// Waits until each has had a connection; false: not within `patience`.
    pub fn wait_for_connections(&self, patience: Duration) -> bool {
        let begun = Instant::now();
        let is_missing = || self.connections.iter().any(|count| count.load(Ordering::Relaxed) == 0);
        while is_missing() {
            if begun.elapsed() > patience {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// Waits until each has this many, and calls `look` now and then; false: nothing came for `patience`.
    pub fn wait_for(&self, articles: u64, patience: Duration, mut look: impl FnMut()) -> bool {
        let (mut least, mut since) = (self.least(), Instant::now());
        let mut looked = None;
        while least < articles {
            if looked.is_none_or(|looked: Instant| looked.elapsed() >= LOOK) {
                look();
                looked = Some(Instant::now());
            }
            thread::sleep(POLL);
            let now = self.least();
            if now > least {
                (least, since) = (now, Instant::now());
            } else if since.elapsed() > patience {
                return false;
            }
        }
        true
    }

    /// What was seen next, within this time.
    pub fn next_sight(&self, patience: Duration) -> Option<Sight> {
        self.sights.as_ref()?.recv_timeout(patience).ok()
    }
}

impl Drop for NullPeers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // Wakes the thread that accepts.
            let _woken = TcpStream::connect(address);
        }
    }
}

struct Connection {
    counter: Arc<AtomicU64>,
    sights: Option<Sender<Sight>>,
    end: memmem::Finder<'static>,
    /// An article is arriving.
    is_article: bool,
    /// Its Message-ID.
    id: Vec<u8>,
}

impl Connection {
    fn new(counter: Arc<AtomicU64>, sights: Option<Sender<Sight>>) -> Self {
        let end = memmem::Finder::new(ARTICLE_END);
        Self { counter, sights, end, is_article: false, id: Vec::new() }
    }

    fn serve(&mut self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.write_all(b"200 null\r\n")?;
        let (mut input, mut filled, mut answers) = (vec![0; READ_BYTES], 0, Vec::new());
        loop {
            if filled == input.len() {
                input.resize(2 * filled, 0);
            }
            let read = stream.read(input.get_mut(filled..).unwrap_or_default())?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            let mut at = 0;
            while let Some(used) = self.next(input.get(at..filled).unwrap_or_default(), &mut answers) {
                at += used;
            }
            input.copy_within(at..filled, 0);
            filled -= at;
            stream.write_all(&answers)?;
            answers.clear();
        }
    }

    /// Answers the next command or article; the length of it, if it is whole.
    fn next(&mut self, bytes: &[u8], answers: &mut Vec<u8>) -> Option<usize> {
        let mut answer = |code: &[u8], id: &[u8]| {
            answers.extend_from_slice(code);
            answers.extend_from_slice(id);
            answers.extend_from_slice(b"\r\n");
        };
        if self.is_article {
            let end = self.end.find(bytes)? + ARTICLE_END.len();
            answer(b"239 ", &self.id);
            self.counter.fetch_add(1, Ordering::Relaxed);
            self.is_article = false;
            self.report(&self.id, true);
            return Some(end);
        }
        let end = memchr(b'\n', bytes)?;
        let line = bytes.get(..end)?.trim_ascii_end();
        if let Some(id) = line.strip_prefix(b"CHECK ") {
            answer(b"238 ", id);
            self.report(id, false);
        } else if let Some(id) = line.strip_prefix(b"TAKETHIS ") {
            self.is_article = true;
            self.id.clear();
            self.id.extend_from_slice(id);
        } else {
            answers.extend_from_slice(match line {
                b"CAPABILITIES" => b"101 these\r\nVERSION 2\r\nIHAVE\r\nSTREAMING\r\n.\r\n",
                b"MODE STREAM" => b"203 streaming\r\n",
                b"QUIT" => b"205 bye\r\n",
                _ => b"500 what?\r\n",
            });
        }
        Some(end + 1)
    }

    fn report(&self, message_id: &[u8], is_whole: bool) {
        if let Some(sights) = &self.sights {
            // Nobody may be looking any more.
            let _gone =
                sights.send(Sight { message_id: message_id.to_vec(), when: Instant::now(), is_whole });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_wanted_and_taken_however_it_is_cut() {
        let wire = b"MODE STREAM\r\nCHECK <1@x>\r\nTAKETHIS <1@x>\r\nA: b\r\n\r\n..\r\n.\r\nQUIT\r\n";
        for cut in 1..wire.len() {
            let mut connection = Connection::new(Arc::default(), None);
            let (mut unread, mut answers) = (Vec::new(), Vec::new());
            for part in wire.chunks(cut) {
                unread.extend_from_slice(part);
                while let Some(used) = connection.next(&unread, &mut answers) {
                    unread.drain(..used);
                }
            }
            assert_eq!(answers, b"203 streaming\r\n238 <1@x>\r\n239 <1@x>\r\n205 bye\r\n");
            assert_eq!(connection.counter.load(Ordering::Relaxed), 1);
        }
    }
}
