//! Servers of others, each run by a script: INN 2.7 as the system has it installed, C News as it is installed
//! next to its script, and INN 1.7.2, which its script unpacks into a directory.
//!
//! Nothing is stopped here by itself: whoever starts an instance stops it. Called by `cnews` and
//! `spool_bench`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian has INN 2.7.
const INND: &str = "/usr/lib/news/bin/innd";

/// An INN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inn {
    /// INN 1.7.2, a file for each article.
    Old,
    /// INN 2.7 with this storage method.
    New(&'static str),
}

impl Inn {
    pub fn name(self) -> String {
        match self {
            Self::Old => "INN 1.7.2".into(),
            Self::New(method) => format!("INN 2.7 {method}"),
        }
    }

    /// The directory of its script, and what the script is called.
    fn word(self) -> &'static str {
        match self {
            Self::Old => "inn17",
            Self::New(_) => "inn",
        }
    }
}

/// The scripts.
#[derive(Debug)]
pub struct Scripts {
    /// The directory of `cnews/cnews.sh`, `inn/inn.sh` and `inn17/inn17.sh`.
    peers: Option<PathBuf>,
    /// Where they unpack what the system has not installed.
    installed: PathBuf,
}

/// Word of C News, which nothing here builds or installs.
const CNEWS: &str = "cnews";

/// What an instance of INN has.
#[derive(Debug)]
pub struct Plan<'a> {
    pub dir: &'a Path,
    pub port: u16,
    /// The groups, one a line.
    pub active: &'a Path,
    /// Size of each cyclic buffer.
    pub buffer_mib: u64,
    /// A site that articles are noted for.
    pub feed: Option<&'a str>,
}

impl Scripts {
    /// Those below `peers`; what they unpack goes below `dir`.
    pub fn new(peers: Option<&Path>, dir: &Path) -> io::Result<Self> {
        Ok(Self { peers: peers.map(fs::canonicalize).transpose()?, installed: dir.join("installed") })
    }

    /// Where the programs are that a script runs: C News is installed next to its script, others are
    /// unpacked by theirs.
    pub fn prefix(&self, word: &str) -> PathBuf {
        match &self.peers {
            Some(peers) if word == CNEWS => peers.join(word),
            _ => self.installed.join(word),
        }
    }

    /// The script `word/word.sh`, which has what it runs; `None`, with a word to the operator, if it cannot
    /// be had here.
    pub fn find(&self, word: &str) -> io::Result<Option<PathBuf>> {
        let name = format!("{word}/{word}.sh");
        let script = self.peers.as_ref().map(|peers| peers.join(&name)).filter(|script| script.is_file());
        let Some(script) = script.filter(|_| rustix::process::geteuid().is_root()) else {
            eprintln!("lab: {word} is left out: it needs root, and {name} in --peers");
            return Ok(None);
        };
        let prefix = self.prefix(word);
        if word == "inn" && !Path::new(INND).is_file() {
            eprintln!("lab: {word} is left out: the package inn2 is not installed");
            return Ok(None);
        }
        if word == CNEWS && !prefix.join("bin/relay/relaynews").is_file() {
            eprintln!("lab: {word} is left out: {} has no bin/relay/relaynews", prefix.display());
            return Ok(None);
        }
        if word != "inn" && !prefix.exists() {
            eprintln!("lab: installing {word} in {}", prefix.display());
            if let Err(error) = call(&script, "install", &prefix, &[]) {
                // What is half there would be taken for the whole the next time.
                let _left = fs::remove_dir_all(&prefix);
                return Err(error);
            }
        }
        Ok(Some(script))
    }

    /// The script of an INN.
    pub fn inn(&self, inn: Inn) -> io::Result<Option<PathBuf>> {
        self.find(inn.word())
    }

    /// Makes an instance of INN, not yet started.
    pub fn set_up(&self, inn: Inn, script: &Path, plan: &Plan<'_>) -> io::Result<()> {
        let (port, reader) = (plan.port.to_string(), (plan.port + 1).to_string());
        let (active, buffer) = (plan.active.to_string_lossy(), plan.buffer_mib.to_string());
        let prefix = self.prefix(inn.word()).to_string_lossy().into_owned();
        let mut words: Vec<&str> = match inn {
            Inn::Old => vec![&prefix],
            Inn::New(method) => {
                let storage = ["--storage", method, "--overview", "tradindexed"];
                [&storage[..], &["--cnfs-mb", &buffer, "--reader-port", &reader]].concat()
            }
        };
        words.extend(["--active", &active, "--port", &port]);
        if inn == Inn::Old {
            words.extend(plan.feed.into_iter().flat_map(|site| ["--feed", site]));
        }
        call(script, "setup", plan.dir, &words)?;
        if let (Inn::New(_), Some(site)) = (inn, plan.feed) {
            let feeds = plan.dir.join("etc/newsfeeds");
            fs::write(&feeds, fs::read_to_string(&feeds)? + &format!("{site}:*:Tf,Wnb:\n"))?;
        }
        Ok(())
    }
}

/// The process of an instance of INN that was started.
pub fn inn_process(script: &Path, dir: &Path) -> io::Result<u32> {
    // It fails where one of several processes has ended.
    let pids = Command::new(script).arg("pids").arg(dir).stdin(Stdio::null()).output()?.stdout;
    let pids = String::from_utf8_lossy(&pids).into_owned();
    let first = pids.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok());
    first.ok_or_else(|| io::Error::other("INN does not run"))
}

/// One command of a script for the instance in `dir`; what it printed.
pub fn call(script: &Path, command: &str, dir: &Path, words: &[&str]) -> io::Result<String> {
    let mut task = Command::new(script);
    let output = task.arg(command).arg(dir).args(words).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
    Err(io::Error::other(format!("{} {command}: {}", script.display(), lines.join(" / "))))
}
