//! Expiry alone: many articles that are kept, all of them due at once, in INN in a file each, and in newsreel
//! in a file each and in an appendonly class.
//!
//! Where each article is a file, removing the files is nearly all of the time, in INN as well; so the
//! appendonly class is what is compared. Also counted: the articles that newsreel opens meanwhile, which must
//! be none, and its memory with all of them and with a quarter, which must be about the same.

use super::batch::{ARTICLES, Batch};
use super::cost::{Cost, Task};
use super::sites::{Kind, Site, Workshop};
use crate::Verdict;
use crate::others::Inn;
use clap::Args;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How much faster newsreel must be.
const TIMES_FASTER: f64 = 20.0;
/// What four times as many articles may add to the memory, beyond a tenth.
const MEMORY_MORE_KIB: u64 = 4 << 10;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(1);

/// The options of `lab expire`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: crate::Place,
    /// The directory of the script that runs INN (inn/inn.sh); without it, or without root, it is left out
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Articles that are due
    #[arg(long, default_value_t = 100_000)]
    articles: u64,
    /// How often each is measured; the least counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
}

/// Runs the comparison.
pub fn run(options: &Options) -> Verdict {
    fs::create_dir_all(&options.place.dir)?;
    let workshop = super::workshop(&options.place, options.peers.as_deref())?;
    let ground = Ground { workshop, dir: options.place.dir.clone() };
    let (mut ours, mut files, mut theirs) = (None, None, None);
    for _ in 0..options.runs.max(1) {
        for (kind, least) in [
            (Kind::Newsreel("appendonly"), &mut ours),
            (Kind::Newsreel("tradspool"), &mut files),
            (Kind::Inn(Inn::New("tradspool")), &mut theirs),
        ] {
            let Some(cost) = ground.cost(kind, options.articles)? else { continue };
            *least = Some(least.map_or(cost, |least: Cost| least.least(cost)));
        }
    }
    println!("{:24} {:>10} {:>10} {:>10}", "all articles due", "real s", "user s", "system s");
    let names = ["newsreel appendonly", "newsreel tradspool", "INN 2.7 tradspool"];
    for (name, cost) in names.into_iter().zip([ours, files, theirs]) {
        if let Some(Cost { real, user, system }) = cost {
            println!("{name:24} {real:10.3} {user:10.3} {system:10.3}");
        }
    }
    let mut holds = true;
    let mut verdict = |is_so: bool, text: String| {
        println!("{} {text}", if is_so { "ok    " } else { "MISSED" });
        holds &= is_so;
    };
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        let times = theirs.real / ours.real;
        verdict(times >= TIMES_FASTER, format!("{times:.1} x as fast (at least {TIMES_FASTER})"));
    }
    let opened = ground.articles_opened(options.articles / 4)?;
    verdict(opened == 0, format!("{opened} articles opened to be read"));
    let (few, all) = (ground.memory_kib(options.articles / 4)?, ground.memory_kib(options.articles)?);
    let is_flat = all <= few + few / 10 + MEMORY_MORE_KIB;
    verdict(is_flat, format!("memory at most: {few} KiB with a quarter of the articles, {all} KiB with all"));
    Ok(holds)
}

struct Ground {
    workshop: Workshop,
    dir: PathBuf,
}

impl Ground {
    /// A site with about so many articles, and the task that expires them.
    fn filled(&self, kind: Kind, articles: u64) -> io::Result<Option<(Site, Task)>> {
        let Some(mut site) = self.workshop.make(kind)? else { return Ok(None) };
        let path = self.dir.join("due.batch");
        fs::write(&path, Batch { name: "due", times: (articles / ARTICLES).max(1), is_old: false }.text())?;
        site.file(&path).run()?;
        fs::remove_file(&path)?;
        if site.filed()? < articles / ARTICLES * ARTICLES {
            return Err(io::Error::other(format!("{}: not all articles were filed", kind.name())));
        }
        let task = site.expire()?;
        Ok(Some((site, task)))
    }

    fn cost(&self, kind: Kind, articles: u64) -> io::Result<Option<Cost>> {
        let Some((site, task)) = self.filled(kind, articles)? else { return Ok(None) };
        let nothing = site.nothing().map_or(Ok(Cost::default()), |nothing| nothing.cost(None))?;
        Ok(Some(task.cost(site.server)?.without(nothing)))
    }

    fn ours(&self, articles: u64) -> io::Result<(Site, Task)> {
        let filled = self.filled(Kind::Newsreel("tradspool"), articles)?;
        filled.ok_or_else(|| io::Error::other("newsreel cannot be had"))
    }

    /// How often newsreel opens an article while it expires them.
    fn articles_opened(&self, articles: u64) -> io::Result<usize> {
        let (_site, task) = self.ours(articles)?;
        let calls = self.dir.join("opened");
        let path = calls.to_string_lossy().into_owned();
        task.run_under(&["strace", "-f", "-e", "trace=open,openat,openat2", "-o", &path])?;
        let text = fs::read_to_string(&calls)?;
        fs::remove_file(&calls)?;
        if !text.contains("open") {
            return Err(io::Error::other("strace saw nothing"));
        }
        Ok(text.lines().filter(|line| is_article(line)).count())
    }

    /// The most memory that newsreel had while it expired them.
    fn memory_kib(&self, articles: u64) -> io::Result<u64> {
        let (_site, task) = self.ours(articles)?;
        let mut command = Command::new(&task.program);
        command.args(&task.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut most = 0;
        loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            most = text.lines().find_map(peak_kib).unwrap_or_default().max(most);
            if let Some(status) = child.try_wait()? {
                let is_done = status.success() && most > 0;
                return if is_done { Ok(most) } else { Err(io::Error::other("newsreel expire failed")) };
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether a line of strace opens a file that is called by a number, and is no index.
fn is_article(line: &str) -> bool {
    let path = line.split('"').nth(1).map(Path::new);
    let name = path.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    !line.contains("O_DIRECTORY")
        && !line.contains("/index/")
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_digit())
}

/// `VmHWM:     1234 kB`.
fn peak_kib(line: &str) -> Option<u64> {
    line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strace_and_the_kernel_say_is_read() {
        let opened = "71 openat(AT_FDCWD, \"/x/spool/tree/lab/g0/17\", O_RDONLY|O_CLOEXEC) = 9";
        assert!(is_article(opened));
        for other in [
            "71 openat(AT_FDCWD, \"/x/spool/tree/lab/g0\", O_RDONLY|O_CLOEXEC) = 9",
            "71 openat(AT_FDCWD, \"/x/345\", O_RDONLY|O_DIRECTORY) = 9",
            "71 openat(AT_FDCWD, \"/x/index/residents/00001\", O_RDONLY|O_CLOEXEC) = 9",
            "71 +++ exited with 0 +++",
        ] {
            assert!(!is_article(other), "{other}");
        }
        assert_eq!((peak_kib("VmHWM:\t   12345 kB"), peak_kib("VmRSS:\t 1 kB")), (Some(12_345), None));
    }
}
