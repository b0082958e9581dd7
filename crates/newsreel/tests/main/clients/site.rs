//! A site in a temporary directory, served by the built binary in a process of its own.
//!
//! The port is below the range of ephemeral ports, so that it is still free after a restart. The process ends
//! on drop.

use crate::client::Client;
use crate::layers::{self, Authority};
use crate::waiting::wait_until;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use tempfile::TempDir;

use super::text;

/// The binary under test.
const NEWSREEL: &str = env!("CARGO_BIN_EXE_newsreel");
/// Ports to try: above 10,000 and below those that the system assigns to outgoing connections.
const PORTS: std::ops::Range<u16> = 10_100..32_000;

/// Size of each of the two buffers of the site.
const BUFFER: &str = "16 MiB";

pub struct Site {
    dir: TempDir,
    port: u16,
    server: Child,
    secured: Option<Secured>,
}

/// Additional parts of a secured site.
struct Secured {
    port: u16,
    authority: Authority,
}

/// User and password of the secured site.
pub const USER: &str = "sam";
pub const PASSWORD: &str = "rust-never-sleeps";

impl Site {
    /// Creates a site with these groups (lines of `name flag description`) that accepts articles of any age,
    /// and serves it.
    pub fn start(groups: &str) -> Self {
        Self::make(groups, false)
    }

    /// Like [`start`](Self::start), with a port for TLS connections; the certificate is for `localhost`,
    /// signed by the authority in `ca.crt`. Only [`USER`] may read and post; only peers need no password.
    pub fn start_secured(groups: &str) -> Self {
        Self::make(groups, true)
    }

    fn make(groups: &str, is_secured: bool) -> Self {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("groups");
        fs::write(&file, groups).unwrap();
        for _ in 0..10 {
            let port = free_port();
            let data = dir.path().join(port.to_string());
            let made = newsreel(&["init", "--dir", text(&data), "--listen", &format!("127.0.0.1:{port}")])
                .args([
                    "--groups",
                    text(&file),
                    "--buffer",
                    BUFFER,
                    "--peer",
                    "127.0.0.1",
                    "--reader",
                    "127.0.0.1",
                ])
                .args(["--max-age", "none", "--path-identity", "site.example"])
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            let secured = is_secured.then(|| secure(&data, dir.path()));
            if let Ok(server) = serve(&data, port) {
                let site = Self { dir, port, server, secured };
                // The greeting is sent once it listens on all its ports.
                drop(site.client());
                return site;
            }
        }
        panic!("no server starts");
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub fn port(&self) -> String {
        self.port.to_string()
    }

    /// Returns the port for TLS connections.
    pub fn tls_port(&self) -> String {
        self.secured.as_ref().unwrap().port.to_string()
    }

    /// Returns the path of the authority's certificate, for clients.
    pub fn authority(&self) -> std::path::PathBuf {
        self.dir().join("ca.crt")
    }

    /// Returns client settings that trust the authority.
    pub fn client_settings(&self) -> rustls::ClientConfig {
        layers::settings(&self.secured.as_ref().unwrap().authority, None)
    }

    /// Returns the temporary directory, for the test's own files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a connection after the greeting.
    pub fn client(&self) -> Client {
        Client::greeted(self.address())
    }

    /// Runs `newsreel` with arguments on this site.
    pub fn run(&self, arguments: &[&str]) -> Output {
        newsreel(arguments).args(["--dir", text(&self.data())]).output().unwrap()
    }

    /// Kills the server with SIGKILL and serves the site again, on the same port.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.server = serve(&self.data(), self.port).unwrap();
        drop(self.client());
    }

    fn data(&self) -> std::path::PathBuf {
        self.dir().join(self.port())
    }

    fn kill(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Adds certificate, TLS port and user to a new site.
fn secure(data: &Path, dir: &Path) -> Secured {
    let (authority, port) = (Authority::new(), free_port());
    authority.write(&dir.join("ca.crt"));
    let (certificate, key) = (dir.join("site.crt"), dir.join("site.key"));
    authority.sign("localhost").write(&certificate, &key);
    let file = data.join("newsreel.toml");
    let text = fs::read_to_string(&file).unwrap();
    let listen = format!("[site]\ntls_listen = [\"127.0.0.1:{port}\"]\n");
    let tls = format!("\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    let text =
        text.replacen("[site]\n", &listen, 1).replace("\n[[access]]\n", "\n[[access]]\nusers = \"*\"\n");
    fs::write(&file, text + &tls).unwrap();
    let password = dir.join("password");
    fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    let added = newsreel(&["user", "add", USER, "--dir", super::text(data)])
        .stdin(File::open(&password).unwrap())
        .output()
        .unwrap();
    assert!(added.status.success(), "{added:?}");
    Secured { port, authority }
}

fn newsreel(arguments: &[&str]) -> Command {
    let mut command = Command::new(NEWSREEL);
    command.args(arguments).env_remove("NEWSREEL_CONFIG").stdin(Stdio::null());
    command
}

/// A server that ended before it answered.
#[derive(Debug)]
struct ServerEnded {
    #[expect(dead_code, reason = "shown when a test fails")]
    log: String,
}

/// Serves the site in `data`; returns when it answers, or with its output if it ended.
fn serve(data: &Path, port: u16) -> Result<Child, ServerEnded> {
    let log = data.join("log");
    let mut server = newsreel(&["serve", "--dir", text(data)])
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut has_ended = false;
    wait_until("the server listens, or ends", || {
        has_ended = server.try_wait().unwrap().is_some();
        has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    if has_ended {
        return Err(ServerEnded { log: fs::read_to_string(&log).unwrap_or_default() });
    }
    Ok(server)
}

/// Returns a free port, a different one at every call.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let first = (std::process::id() % u32::from(span)) as u16;
    loop {
        let port = PORTS.start + (first + NEXT.fetch_add(1, Ordering::Relaxed) % 1_000) % span;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
