//! A private INN that feeds null peers by innfeed, as `inn.sh` sets it up.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian has it.
const INND: &str = "/usr/lib/news/bin/innd";
const BUFFER_MIB: u64 = 512;

/// An INN; stopped with the value.
#[derive(Debug)]
pub struct Inn {
    script: PathBuf,
    dir: PathBuf,
    port: u16,
}

impl Inn {
    /// One with these groups that feeds these peers; `None`: it is not installed here.
    pub fn start(
        scripts: &Path,
        dir: &Path,
        port: u16,
        groups: &[String],
        peers: &[SocketAddr],
    ) -> io::Result<Option<Self>> {
        let script = scripts.join("inn.sh");
        if !Path::new(INND).is_file() || !script.is_file() || !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let active = dir.with_extension("groups");
        fs::create_dir_all(dir.parent().unwrap_or(dir))?;
        fs::write(&active, groups.join("\n") + "\n")?;
        let inn = Self { script, dir: dir.to_owned(), port };
        let (port, reader, buffer) = (port.to_string(), (port + 1).to_string(), BUFFER_MIB.to_string());
        let active = active.to_string_lossy().into_owned();
        inn.run(
            "setup",
            &[
                "--storage",
                "cnfs",
                "--overview",
                "tradindexed",
                "--active",
                &active,
                "--cnfs-mb",
                &buffer,
                "--port",
                &port,
                "--reader-port",
                &reader,
                "--set",
                "artcutoff: 0",
            ],
        )?;
        let (mut newsfeeds, mut innfeed) = (String::new(), String::new());
        for (number, peer) in peers.iter().enumerate() {
            newsfeeds += &format!("null{number}.example:*:Tm:innfeed!\n");
            innfeed += &format!(
                "peer null{number}.example {{\n  ip-name: {}\n  port-number: {}\n}}\n",
                peer.ip(),
                peer.port()
            );
        }
        if !peers.is_empty() {
            newsfeeds += "innfeed!:!*:Tc,Wnm*:/usr/lib/news/bin/innfeed\n";
        }
        inn.append("newsfeeds", &newsfeeds)?;
        // Nothing goes to its backlog, from which it would send only now and then.
        let global = "initial-sleep: 1\nhost-queue-highwater: 1000000\nmax-queue-size: 200\n";
        inn.append("innfeed.conf", &(global.to_owned() + &innfeed))?;
        inn.run("start", &[])?;
        Ok(Some(inn))
    }

    /// Where it takes articles.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// One of its programs.
    pub fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(&self.script);
        command.arg("news").arg(&self.dir).arg(program);
        command
    }

    fn append(&self, file: &str, more: &str) -> io::Result<()> {
        let file = self.dir.join("etc").join(file);
        let text = fs::read_to_string(&file)?;
        fs::write(file, text + more)
    }

    fn run(&self, command: &str, options: &[&str]) -> io::Result<()> {
        let output = Command::new(&self.script).arg(command).arg(&self.dir).args(options).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("inn.sh {command}: {said}")))
    }
}

impl Drop for Inn {
    fn drop(&mut self) {
        let _stopped = self.run("stop", &[]);
        let _removed = fs::remove_dir_all(&self.dir);
    }
}
