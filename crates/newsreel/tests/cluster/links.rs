//! Links of members to the nodes of their log, which a test can slow down and cut.

use crate::nodes::free_port;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A relay on loopback. Its threads end with their connections, the accepting one with the process.
pub struct Link {
    pub port: u16,
    state: Arc<LinkState>,
}

#[derive(Default)]
struct LinkState {
    /// Delay of what the node sends, in milliseconds.
    delay_ms: AtomicU64,
    is_cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Creates a link to a port.
    pub fn to(target: u16) -> Self {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let state = Arc::new(LinkState::default());
        let link = Self { port, state: state.clone() };
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                // A client of a link that is cut, or of a node that is away, is closed at once.
                let server = (!state.is_cut.load(Ordering::Relaxed))
                    .then(|| TcpStream::connect(("127.0.0.1", target)).ok());
                let Some(server) = server.flatten() else { continue };
                state.carry(&client, &server);
            }
        });
        link
    }

    /// Delays what the node sends from here on.
    pub fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.state.delay_ms.store(millis, Ordering::Relaxed);
    }

    /// Closes all connections, and takes no new ones.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::Relaxed);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn mend(&self) {
        self.state.is_cut.store(false, Ordering::Relaxed);
    }
}

impl LinkState {
    fn carry(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) {
        self.open.lock().unwrap().push(client.try_clone().unwrap());
        for (from, to, is_down) in [(client, server, false), (server, client, true)] {
            from.set_nodelay(true).unwrap();
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
            let state = self.clone();
            thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(read @ 1..) = from.read(&mut bytes) {
                    let delay = if is_down { state.delay_ms.load(Ordering::Relaxed) } else { 0 };
                    let due = Instant::now() + Duration::from_millis(delay);
                    if sender.send((due, bytes[..read].to_vec())).is_err() {
                        break;
                    }
                }
            });
            thread::spawn(move || {
                for (due, bytes) in receiver {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    if to.write_all(&bytes).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }
}
