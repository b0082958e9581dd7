//! Nodes of a real engine on this machine, for tests of the cluster and of servers that are its members.

use cluster::engine_check::is_recent;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// After this a test that waits has failed.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Path of the engine's program: the file that NEWSREEL_NATS_SERVER names, or that of PATH. Without a fitting
/// one the tests are skipped, and say so; in CI, they fail.
pub fn program() -> Option<PathBuf> {
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|dir| dir.join("nats-server")).find(|file| file.is_file())
    };
    let found = std::env::var_os("NEWSREEL_NATS_SERVER").map(PathBuf::from).or_else(in_path);
    let why = match &found {
        None => "no nats-server in PATH or NEWSREEL_NATS_SERVER".to_owned(),
        Some(file) => match version(file) {
            Some(version) if is_recent(&version) => return found,
            Some(version) => format!("{} has version {version}", file.display()),
            None => format!("{} does not say its version", file.display()),
        },
    };
    let why =
        format!("skipped: {why}; go install github.com/nats-io/nats-server/v2@v2.15.2 makes one that fits");
    assert!(std::env::var_os("CI").is_none(), "{why}");
    let _ = writeln!(std::io::stderr(), "{why}");
    None
}

/// Returns the version that a program says it has, as in "nats-server: v2.15.2".
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().strip_prefix("nats-server: v").map(str::to_owned)
}

/// Returns a free port, below those that the system gives to clients: one that waits for a server to listen
/// must not be connected with itself.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begun = (std::process::id() % 9_000) as u16;
    loop {
        let port = 12_000 + (begun + NEXT.fetch_add(1, Ordering::Relaxed)) % 18_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WAIT_MAX, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Directory that is removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("newsreel-cluster-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Nodes of an engine on this machine.
pub struct Nodes {
    program: PathBuf,
    dir: PathBuf,
    /// Ports of each node: for clients, for other nodes, for monitoring.
    pub ports: Vec<[u16; 3]>,
    /// Processes of the nodes; `None` for one that was killed.
    pub running: Vec<Option<Child>>,
    pub sync: &'static str,
    /// Configurations of nodes that have their own, once they are run again.
    pub texts: Vec<String>,
}

impl Nodes {
    pub fn start(program: PathBuf, dir: &Path, nodes: usize, sync: &'static str) -> Self {
        let ports = (0..nodes).map(|_| [free_port(), free_port(), free_port()]).collect();
        let mut all = Self { program, dir: dir.into(), ports, running: Vec::new(), sync, texts: Vec::new() };
        for node in 0..nodes {
            all.running.push(None);
            all.run(node);
        }
        all
    }

    /// Starts a node.
    pub fn run(&mut self, node: usize) {
        let [client, route, monitor] = self.ports[node];
        let dir = self.dir.join(format!("n{node}"));
        std::fs::create_dir_all(&dir).unwrap();
        let routes: Vec<String> =
            self.ports.iter().map(|[_, route, _]| format!("nats://127.0.0.1:{route}")).collect();
        let cluster = match self.ports.len() {
            1 => String::new(),
            _ => format!(
                "cluster {{ name: newsreel, listen: \"127.0.0.1:{route}\", no_advertise: true, routes: [{}] }}\n",
                routes.iter().map(|route| format!("\"{route}\"")).collect::<Vec<_>>().join(", ")
            ),
        };
        let text = format!(
            "server_name: n{node}\nlisten: \"127.0.0.1:{client}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
             jetstream {{ store_dir: \"{}\", max_file_store: 4GB, sync_interval: {} }}\n{cluster}",
            dir.join("data").display(),
            self.sync
        );
        std::fs::write(dir.join("nats.conf"), self.texts.get(node).unwrap_or(&text)).unwrap();
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(dir.join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.running[node] = Some(child);
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.running[node].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..self.running.len()).for_each(|node| self.kill(node));
    }
}
