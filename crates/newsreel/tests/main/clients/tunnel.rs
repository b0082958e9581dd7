//! TLS for clients that have none: a port on loopback whose connections are forwarded encrypted, as by
//! stunnel.

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::site::{PASSWORD, Site, USER};
use crate::client::Client;

/// Time to wait for one direction before the other one is polled.
const TURN: Duration = Duration::from_millis(2);

/// A tunnel to a site's TLS port, ended on drop.
pub struct Tunnel {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tunnel {
    pub fn to(site: &Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = SocketAddr::from(([127, 0, 0, 1], site.tls_port().parse().unwrap()));
        let config = Arc::new(site.client_settings());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut connections = Vec::new();
            for plain in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let name = ServerName::try_from("localhost").unwrap();
                let tls = ClientConnection::new(config.clone(), name).unwrap();
                let encrypted = StreamOwned::new(tls, TcpStream::connect(target).unwrap());
                let stopped = stopped.clone();
                connections.push(thread::spawn(move || carry(plain.unwrap(), encrypted, &stopped)));
            }
            connections.into_iter().for_each(|connection| connection.join().unwrap());
        });
        Self { address, stop, thread: Some(thread) }
    }

    pub fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// Returns a connection through it, after greeting and login.
    pub fn client(&self) -> Client {
        let mut client = Client::greeted(self.address);
        assert!(client.ask(&format!("AUTHINFO USER {USER}")).starts_with("381 "));
        assert!(client.ask(&format!("AUTHINFO PASS {PASSWORD}")).starts_with("281 "));
        client
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Ends its wait for a connection.
        TcpStream::connect(self.address).unwrap();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Carries octets both ways until either side ends.
fn carry(mut plain: TcpStream, mut encrypted: StreamOwned<ClientConnection, TcpStream>, stop: &AtomicBool) {
    plain.set_read_timeout(Some(TURN)).unwrap();
    encrypted.sock.set_read_timeout(Some(TURN)).unwrap();
    let mut octets = [0; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        match plain.read(&mut octets) {
            Ok(0) => break,
            Ok(n) if encrypted.write_all(&octets[..n]).is_err() => break,
            Err(e) if !waits(&e) => break,
            _ => {}
        }
        match encrypted.read(&mut octets) {
            Ok(0) => break,
            Ok(n) if plain.write_all(&octets[..n]).is_err() => break,
            Err(e) if !waits(&e) => break,
            _ => {}
        }
    }
}

fn waits(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
