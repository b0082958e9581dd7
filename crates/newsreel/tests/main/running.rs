//! A server on a free port, with a spool in a temporary directory, that stops when dropped.

use disk::{Disk, RealDisk};
use newsreel::server;
use site::listening::Listeners;
use site_config::Config;
use spool::{ChangeMaker as _, GroupChange, GroupFlag, NewGroup, Spool};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::sync::oneshot;
use upstreams::{LocalSpool, NewsSource};

use crate::client::Client;
use crate::test_site;
use crate::waiting::wait_for;

/// Text with which a server or a command refused something.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl std::ops::Deref for Refusal {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    /// Address for TLS connections, if configured.
    pub tls_address: Option<SocketAddr>,
    dir: Arc<TempDir>,
    spool: Arc<Spool>,
    /// Whether the server may end with an error, as after a failed disk.
    pub may_fail: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    /// Starts the test site.
    pub fn start() -> Self {
        Self::start_with(|text| text)
    }

    /// Starts the test site with a changed configuration.
    pub fn start_with(change: impl FnOnce(String) -> String) -> Self {
        Self::start_on(Arc::new(RealDisk::new()), change)
    }

    /// Like [`start_with`](Self::start_with), on another disk.
    pub fn start_on(disk: Arc<dyn Disk>, change: impl FnOnce(String) -> String) -> Self {
        Self::start_from(disk, change, |spool| LocalSpool::new(spool.clone()))
    }

    /// Like [`start_on`](Self::start_on), with another source for readers.
    pub fn start_from<S: NewsSource>(
        disk: Arc<dyn Disk>,
        change: impl FnOnce(String) -> String,
        source: impl FnOnce(&Arc<Spool>) -> S,
    ) -> Self {
        Self::start_listening([127, 0, 0, 1], disk, change, source)
    }

    /// Starts a site with these local groups, with the readers' source as configured.
    pub fn start_showing(groups: &[(&str, &str, &str)], change: impl FnOnce(String) -> String) -> Self {
        Self::show_in(Arc::new(TempDir::new().unwrap()), Arc::new(RealDisk::new()), groups, change)
    }

    /// Like [`start_showing`](Self::start_showing) without local groups, on another disk.
    pub fn start_showing_on(disk: Arc<dyn Disk>, change: impl FnOnce(String) -> String) -> Self {
        Self::show_in(Arc::new(TempDir::new().unwrap()), disk, &[], change)
    }

    /// Restarts the same site, with the readers' source as configured.
    pub fn again_as_configured(self) -> Self {
        let (dir, text) = (self.dir.clone(), std::fs::read_to_string(self.file()).unwrap());
        drop(self);
        wait_for_unlocked(&dir.path().join("data"));
        Self::show_in(dir, Arc::new(RealDisk::new()), &[], |_| text)
    }

    fn show_in(
        dir: Arc<TempDir>,
        disk: Arc<dyn Disk>,
        groups: &[(&str, &str, &str)],
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let (config, spool) = test_site::make_with(groups, disk, dir.path(), change);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _dropped = stopped.await;
        };
        let thread = serve_as_configured(config, spool.clone(), listener, shutdown);
        let (stop, thread) = (Some(stop), Some(thread));
        Self { address, tls_address: None, dir, spool, may_fail: false, stop, thread }
    }

    /// Restarts the same site from another disk.
    pub fn again(self, disk: Arc<dyn Disk>) -> Self {
        let (dir, text) = (self.dir.clone(), std::fs::read_to_string(self.file()).unwrap());
        drop(self);
        wait_for_unlocked(&dir.path().join("data"));
        let source = |spool: &Arc<Spool>| LocalSpool::new(spool.clone());
        Self::start_in(dir, [127, 0, 0, 1], disk, |_| text, source)
    }

    /// Starts the test site at another address of this machine, which no other test uses, so that the port
    /// stays free once the server has ended.
    pub fn start_at(host: [u8; 4]) -> Self {
        Self::start_listening(
            host,
            Arc::new(RealDisk::new()),
            |text| text,
            |spool| LocalSpool::new(spool.clone()),
        )
    }

    fn start_listening<S: NewsSource>(
        host: [u8; 4],
        disk: Arc<dyn Disk>,
        change: impl FnOnce(String) -> String,
        source: impl FnOnce(&Arc<Spool>) -> S,
    ) -> Self {
        Self::start_in(Arc::new(TempDir::new().unwrap()), host, disk, change, source)
    }

    fn start_in<S: NewsSource>(
        dir: Arc<TempDir>,
        host: [u8; 4],
        disk: Arc<dyn Disk>,
        change: impl FnOnce(String) -> String,
        source: impl FnOnce(&Arc<Spool>) -> S,
    ) -> Self {
        let (config, spool) = test_site::make(disk, dir.path(), change);
        let listener = TcpListener::bind((IpAddr::from(host), 0)).unwrap();
        // The same backlog as for the server's own sockets; the standard library has 128.
        rustix::net::listen(&listener, 4096).unwrap();
        let address = listener.local_addr().unwrap();
        let tls = config.site.tls_listen.first().map(|address| TcpListener::bind(address).unwrap());
        let tls_address = tls.as_ref().map(|listener| listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _dropped = stopped.await;
        };
        let thread = test_site::serve(config, spool.clone(), source(&spool), listener, tls, shutdown);
        Self { address, tls_address, dir, spool, may_fail: false, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the spool's directory.
    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the configuration's file.
    pub fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("newsreel.toml")
    }

    /// Connects to the control socket, which exists soon after the start.
    fn control_socket(&self) -> UnixStream {
        wait_for(|| UnixStream::connect(self.data().join("control")), Result::is_ok).unwrap()
    }

    /// Sends a request to the control socket; returns the replies, and whether the request succeeded.
    pub fn control(&self, request: &serde_json::Value) -> (Vec<serde_json::Value>, bool) {
        let mut socket = self.control_socket();
        writeln!(socket, "{request}").unwrap();
        let mut replies: Vec<serde_json::Value> = Vec::new();
        for line in BufReader::new(socket).lines() {
            let reply: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            if let Some(ok) = reply["done"]["ok"].as_bool() {
                return (replies, ok);
            }
            replies.push(reply);
        }
        panic!("no end of {replies:?}");
    }

    /// Returns the server's part of its status.
    pub fn status(&self) -> serde_json::Value {
        let (replies, ok) = self.control(&serde_json::json!({ "do": "status" }));
        assert!(ok, "{replies:?}");
        replies[0]["status"]["server"].clone()
    }

    /// Waits until this many connections are open: the server notices the end of one after its client.
    pub fn wait_for_connections(&self, count: u64) {
        wait_for(|| self.status(), |status| status["connections"] == count);
    }

    /// Changes the configuration's file and reloads it; returns the server's reply.
    pub fn reload(&self, change: impl FnOnce(String) -> String) -> Result<String, Refusal> {
        let text = std::fs::read_to_string(self.file()).unwrap();
        std::fs::write(self.file(), change(text)).unwrap();
        let (replies, ok) = self.control(&serde_json::json!({ "do": "reload" }));
        let text =
            |reply: &serde_json::Value| reply["text"].as_str().or(reply["error"].as_str()).map(str::to_owned);
        let said: Vec<String> = replies.iter().filter_map(text).collect();
        if ok { Ok(said.join("\n")) } else { Err(Refusal(said.join("\n"))) }
    }

    /// Runs `newsreel user` on the site with `input` as standard input. Returns its output, or its errors.
    pub fn user(&self, arguments: &[&str], input: &str) -> Result<String, Refusal> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
        command.arg("user").args(arguments).arg("--config").arg(self.dir.path().join("newsreel.toml"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that asks nothing may have ended already.
        let _ended = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(Refusal(text(output.stderr))) }
    }

    /// Returns a connection after the greeting.
    pub fn client(&self) -> Client {
        Client::greeted(self.address)
    }

    /// Carries out an operator's action: `cancel ID`, `newgroup NAME FLAG [HIGH]`, `changegroup NAME FLAG`,
    /// `rmgroup NAME`, `raise NAME HIGH`, `user NAME PASSWORD`.
    pub fn operate(&self, words: &[&str]) -> bool {
        match words {
            ["cancel", id] => self.spool.cancel(id.as_bytes()).unwrap(),
            ["hide", id] => self.spool.hide_all(&[id.as_bytes()], "operator", "").unwrap().len() == 1,
            ["newgroup", name, flag, high @ ..] => {
                let flag = GroupFlag::parse(flag).unwrap();
                let high = high.first().map_or(0, |high| high.parse().unwrap());
                let group = NewGroup { name: (*name).into(), flag, high, ..NewGroup::default() };
                self.spool.add_groups(&[group]).unwrap() == 1
            }
            ["changegroup", name, flag] => {
                let change = GroupChange { flag: GroupFlag::parse(flag), ..GroupChange::default() };
                self.spool.change_group(name, &change).unwrap()
            }
            ["user", name, password @ ..] => self.user(&["add", name], &password.join(" ")).is_ok(),
            ["raise", name, high] => {
                let marks = [((*name).to_owned(), high.parse().unwrap())];
                self.spool.raise_high(&marks).unwrap() == 1
            }
            ["rmgroup", name] => self.spool.remove_group(name).unwrap(),
            _ => false,
        }
    }

    /// Asks the server to stop, without waiting for it.
    pub fn tell_to_stop(&mut self) {
        self.stop.take();
    }

    /// Waits for the server's end.
    pub fn join(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().unwrap();
            assert!(ended.is_ok() || self.may_fail, "{ended:?}");
        }
    }
}

/// Serves the site in a thread of its own, with the readers' source as configured.
fn serve_as_configured(
    config: Config,
    spool: Arc<Spool>,
    plain: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<std::io::Result<()>> {
    let listeners = Listeners { plain: vec![plain.into()], ..Listeners::default() };
    std::thread::spawn(move || {
        server::runtime().unwrap().block_on(server::run(Arc::new(config), spool, listeners, stop))
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

/// Waits until no thread of a server that has ended holds the spool in this directory.
fn wait_for_unlocked(data: &Path) {
    let problem = || RealDisk::new().lock(&data.join("lock")).err().map(|error| error.kind());
    wait_for(problem, |problem| *problem != Some(ErrorKind::WouldBlock));
}

/// Calls a function on drop, also after a panic.
pub struct AtEnd<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
