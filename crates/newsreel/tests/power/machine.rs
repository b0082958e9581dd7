//! A machine whose power can go: the disk, its file system, and the server on it.

use crate::device::{Device, Random};
use nntp_io::{ConnectOptions, block_on};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where the server listens: an address of this machine on which nobody else does, so that its port is there
/// after every restart.
const HOST: &str = "127.0.0.10";
const DISK_BYTES: usize = 160 << 20;
const BUFFER_BYTES: &str = "12582912";
const START_MAX: Duration = Duration::from_secs(120);
pub const GROUPS: [&str; 3] = ["test.a", "test.b", "test.c"];

/// A connection.
pub struct Client(nntp_io::NntpClient);

impl Client {
    fn connect(port: u16) -> io::Result<Self> {
        Ok(Self(block_on(nntp_io::NntpClient::connect(&ConnectOptions::new(HOST, port)))?))
    }

    /// TAKETHIS; its answer.
    pub fn feed(&mut self, id: &str, article: &str) -> io::Result<String> {
        self.0.submit_takethis(id.as_bytes(), article.as_bytes())?;
        self.answer()
    }

    /// The first line of the answer.
    pub fn ask(&mut self, command: &str) -> io::Result<String> {
        self.0.submit(command)?;
        self.answer()
    }

    /// The lines of an answer that has some, without the first and the `.`; none if its code is another.
    pub fn lines(&mut self, command: &str, code: &str) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        if self.ask(command)?.starts_with(code) {
            while let Some(line) = block_on(self.0.block_line())? {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        Ok(lines)
    }

    fn answer(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(block_on(self.0.answer())?.line()).into_owned())
    }
}

pub struct Machine {
    child: Option<Child>,
    disk: Device,
    loop_device: Option<String>,
    dir: PathBuf,
    port: u16,
    binary: PathBuf,
}

impl Machine {
    /// A new site with this durability, closed in order.
    pub fn new(durability: &str) -> io::Result<Self> {
        static MACHINES: AtomicU32 = AtomicU32::new(0);
        let number = MACHINES.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("newsreel-power-{}-{number}", std::process::id()));
        for name in ["fuse", "mnt"] {
            fs::create_dir_all(dir.join(name))?;
        }
        let disk = Device::new(&dir.join("fuse"), DISK_BYTES)?;
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_newsreel"));
        let mut machine = Self { child: None, disk, loop_device: None, dir, port, binary };
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-J", "size=4"]).arg(machine.disk.path()))?;
        machine.mount()?;
        let groups = machine.dir.join("groups");
        fs::write(&groups, GROUPS.join("\n") + "\n")?;
        let mut init = Command::new(&machine.binary);
        init.arg("init").arg("--dir").arg(machine.site()).arg("--groups").arg(groups);
        init.args(["--listen", &format!("{HOST}:{port}"), "--buffer", BUFFER_BYTES, "--max-age", "none"]);
        init.args(["--peer", "127.0.0.1", "--reader", "127.0.0.1", "--path-identity", "server.lab.example"]);
        run(init.arg(format!("--durability={durability}")))?;
        run(Command::new("sync").arg("-f").arg(machine.site()))?;
        machine.unmount()?;
        Ok(machine)
    }

    fn site(&self) -> PathBuf {
        self.dir.join("mnt/site")
    }

    fn mount(&mut self) -> io::Result<()> {
        let found = run(Command::new("losetup").args(["--find", "--show"]).arg(self.disk.path()))?;
        let device = found.trim().to_owned();
        self.loop_device = Some(device.clone());
        run(Command::new("mount").args(["-t", "ext4", "-o", "commit=1", &device]).arg(self.dir.join("mnt")))
            .map(drop)
    }

    fn unmount(&mut self) -> io::Result<()> {
        run(Command::new("umount").arg(self.dir.join("mnt")))?;
        if let Some(device) = self.loop_device.take() {
            run(Command::new("losetup").args(["--detach", &device]))?;
        }
        Ok(())
    }

    /// Mounts the disk, starts the server, and waits until it serves.
    pub fn start(&mut self) -> io::Result<()> {
        self.mount()?;
        let log = File::create(self.dir.join("log"))?;
        let mut serve = Command::new(&self.binary);
        serve.arg("serve").arg("--config").arg(self.site().join("newsreel.toml"));
        self.child = Some(serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?);
        let began = Instant::now();
        while let Err(error) = Client::connect(self.port) {
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() || began.elapsed() > START_MAX {
                let log = fs::read_to_string(self.dir.join("log"))?;
                return Err(io::Error::other(format!("{error}; {ended:?}; {log}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// What the server reported about its last recovery.
    pub fn recovery(&self) -> String {
        let text = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        text.lines().find(|line| line.contains("replayed")).unwrap_or_default().to_owned()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// From now on each flush of the disk takes at least this long.
    pub fn slow_down(&self, flush_time: Duration) {
        self.disk.slow_down(flush_time);
    }

    /// Lets the kernel write out one of the spool's files, without a flush, as it does when memory is wanted.
    pub fn write_out(&self, random: &mut Random) {
        let mut dirs = vec![self.site()];
        let mut files = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                    Ok(kind) if kind.is_file() => files.push(entry.path()),
                    _ => {}
                }
            }
        }
        files.sort_unstable();
        let file =
            files.get(random.below(files.len() as u64) as usize).and_then(|path| File::open(path).ok());
        if let Some(file) = file {
            let _only_advice = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }

    /// The power goes: nothing that is written from here on is found again.
    pub fn cut(&self, random: &mut Random) -> usize {
        self.disk.cut(random)
    }

    /// What is left to do after it: the process dies, the file system is unmounted, and the power returns.
    pub fn power_off(&mut self) -> io::Result<()> {
        self.kill()?;
        self.unmount()?;
        self.disk.restart();
        Ok(())
    }

    fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _gone = self.kill();
        if self.loop_device.is_some() {
            let _gone = self.unmount();
        }
        self.disk.remove();
        // Anything that is still mounted is left alone: neither its files nor its mount point are removed.
        let _left = fs::remove_dir(self.dir.join("mnt")).and_then(|()| fs::remove_dir_all(&self.dir));
    }
}

/// Whether the programs it needs are installed.
pub fn has_tools() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&paths).any(|dir| dir.join(name).is_file());
    ["mkfs.ext4", "mount", "umount", "losetup"].into_iter().all(has)
}

/// Runs a program to its end; returns its standard output.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{command:?}: {text}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
