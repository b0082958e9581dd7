//! Expiry alone: many articles that are kept, all of them due at once, in newsreel, INN and C News, by
//! storage methods.
//!
//! Where each article is a file, removing the files is nearly all of the time, in INN as well. So newsreel's
//! first method, without more words appendonly, is compared with each of INN's; with cnfs INN removes no
//! articles, only their overview. Also counted: the articles that newsreel opens meanwhile, which must be
//! none, and its memory with all of them and with a quarter, which must be about the same. Figures:
//! `docs/bench/expiry.md`.

use super::batch::{ARTICLES, Batch};
use super::beside;
use super::cost::{Cost, Task};
use super::sites::{Kind, Site, Workshop};
use crate::others::Inn;
use crate::{Verdict, page};
use clap::Args;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How much faster newsreel must be than INN where that has a file for each article.
const TIMES_FASTER: f64 = 20.0;
/// Every call that can bring bytes of a file into a process.
const READS: &str = "trace=read,pread64,readv,preadv,preadv2,mmap,sendfile,copy_file_range,splice";
/// What four times as many articles may add to the memory, beyond a tenth.
const MEMORY_MORE_KIB: u64 = 4 << 10;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(1);
/// With more articles C News is left out: each is a file, as with INN's tradspool.
const CNEWS_ARTICLES_MAX: u64 = 100_000;
/// An article in INN's cyclic buffers takes less than this.
const BUFFER_BYTES_EACH: u64 = 2_560;
/// Cyclic buffers of a site.
const BUFFERS: u64 = 2;

/// Ways of storing that newsreel or INN have.
const METHODS: [&str; 7] = ["appendonly", "tradspool", "bucketed", "hashed", "timehash", "timecaf", "cnfs"];

/// The options of `lab expire`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: crate::Place,
    /// The directory of the scripts that run INN and C News (inn/inn.sh, cnews/cnews.sh); without it, or
    /// without root, they are left out
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Articles that are due
    #[arg(long, default_value_t = 100_000)]
    articles: u64,
    /// How often each is measured; the least counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Articles that are due beside a peer that sends others
    #[arg(long, default_value_t = 15_000)]
    beside: u64,
    /// How often that is measured; medians count
    #[arg(long, default_value_t = 3)]
    beside_runs: usize,
    /// Measure only filing beside expiry
    #[arg(long)]
    beside_only: bool,
    /// newsreel's storage methods; the first is compared with INN's
    #[arg(long, value_delimiter = ',', value_parser = METHODS, default_value = "appendonly,tradspool")]
    methods: Vec<String>,
    /// INN's
    #[arg(long, value_delimiter = ',', value_parser = METHODS, default_value = "tradspool,cnfs")]
    inn_methods: Vec<String>,
    /// Where expiry.md's table goes; without it it is not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

impl Options {
    /// What is measured, newsreel first.
    fn kinds(&self) -> Vec<Kind> {
        let known = |words: &[String]| -> Vec<&'static str> {
            words.iter().filter_map(|word| METHODS.into_iter().find(|method| method == word)).collect()
        };
        let ours = known(&self.methods).into_iter().map(Kind::Newsreel);
        let inn = known(&self.inn_methods).into_iter().map(|method| Kind::Inn(Inn::New(method)));
        let cnews = (self.articles <= CNEWS_ARTICLES_MAX).then_some(Kind::CNews);
        ours.chain(inn).chain(cnews).collect()
    }
}

/// Runs the comparison.
pub fn run(options: &Options) -> Verdict {
    fs::create_dir_all(&options.place.dir)?;
    let buffer_mib = (options.articles * BUFFER_BYTES_EACH / BUFFERS).div_ceil(1 << 20).max(256);
    let workshop = super::workshop(&options.place, options.peers.as_deref())?;
    let workshop = Workshop { buffer_mib, ..workshop };
    let ground = Ground { workshop, dir: options.place.dir.clone() };
    let is_fair = beside(&ground, options)?;
    if options.beside_only {
        return Ok(is_fair);
    }
    let kinds = options.kinds();
    let mut costs: Vec<Option<Cost>> = vec![None; kinds.len()];
    for _ in 0..options.runs.max(1) {
        for (kind, least) in kinds.iter().zip(&mut costs) {
            let Some(cost) = ground.cost(*kind, options.articles)? else { continue };
            eprintln!("lab: {}: {:.3} s", kind.name(), cost.real);
            *least = Some(least.map_or(cost, |least| least.least(cost)));
        }
    }
    let measured: Vec<(Kind, Cost)> =
        kinds.iter().zip(&costs).filter_map(|(kind, cost)| Some((*kind, (*cost)?))).collect();
    let articles = options.articles / ARTICLES * ARTICLES;
    let table = markdown(&measured, articles);
    println!("{table}");
    if let Some(docs) = &options.docs {
        page::put_table(&docs.join("expiry.md"), "make bench-expire", table.trim_end())?;
    }
    let mut holds = is_fair;
    let mut verdict = |is_so: bool, text: String| {
        println!("{} {text}", if is_so { "ok    " } else { "MISSED" });
        holds &= is_so;
    };
    for (kind, cost) in &measured {
        if *kind == Kind::Inn(Inn::New("tradspool")) {
            let times = times(&measured, *cost);
            let text = format!("{times:.1} x as fast as {} (at least {TIMES_FASTER})", kind.name());
            verdict(times >= TIMES_FASTER, text);
        }
    }
    for method in ["appendonly", "tradspool"] {
        let read = ground.articles_read(method, options.articles.min(100_000) / 4)?;
        verdict(read == 0, format!("{method}: {read} reads of articles"));
    }
    let few = ground.memory_kib("appendonly", options.articles / 4)?;
    let all = ground.memory_kib("appendonly", options.articles)?;
    let is_flat = all <= few + few / 10 + MEMORY_MORE_KIB;
    verdict(is_flat, format!("memory at most: {few} KiB with a quarter of the articles, {all} KiB with all"));
    Ok(holds)
}

/// Measures filing beside expiry; whether newsreel is at least as fast as INN.
fn beside(ground: &Ground, options: &Options) -> Verdict {
    let (table, is_as_fast) = beside::run(ground, options.beside, options.beside_runs)?;
    println!("{table}");
    if let Some(docs) = &options.docs {
        page::put_table(&docs.join("expiry.md"), "make bench-expire beside a peer", table.trim_end())?;
    }
    let word = match is_as_fast {
        Some(true) => "ok    ",
        Some(false) => "MISSED",
        None => "-     ",
    };
    println!("{word} filing beside expiry at least as fast as INN");
    Ok(is_as_fast != Some(false))
}

/// How many times longer something took than the first.
fn times(measured: &[(Kind, Cost)], cost: Cost) -> f64 {
    measured.first().map_or(f64::NAN, |(_, first)| cost.real / first.real)
}

/// The costs as a table; `articles` have gone.
fn markdown(measured: &[(Kind, Cost)], articles: u64) -> String {
    let mut text = format!(
        "| {articles} articles, all due | real s | user s | system s | us an article | times the first |\n\
         |---|---:|---:|---:|---:|---:|\n"
    );
    for (kind, cost) in measured {
        let (each, times) = (cost.real * 1e6 / articles as f64, times(measured, *cost));
        let Cost { real, user, system } = cost;
        let name = kind.name();
        let _ = writeln!(text, "| {name} | {real:.2} | {user:.2} | {system:.2} | {each:.2} | {times:.1} |");
    }
    text
}

/// Where sites are made and filled.
pub(super) struct Ground {
    workshop: Workshop,
    dir: PathBuf,
}

impl Ground {
    /// A site with about this many articles.
    pub fn filled(&self, kind: Kind, articles: u64) -> io::Result<Option<Site>> {
        let Some(site) = self.workshop.make(kind)? else { return Ok(None) };
        let path = self.dir.join("due.batch");
        let batch = Batch { name: "due", times: (articles / ARTICLES).max(1), is_old: false };
        batch.write(&mut fs::File::create(&path)?)?;
        site.file(&path).run()?;
        fs::remove_file(&path)?;
        if site.filed()? < articles / ARTICLES * ARTICLES {
            return Err(io::Error::other(format!("{}: not all articles were filed", kind.name())));
        }
        Ok(Some(site))
    }

    /// A site with about this many articles, and the task that expires them.
    fn due(&self, kind: Kind, articles: u64) -> io::Result<Option<(Site, Task)>> {
        let Some(mut site) = self.filled(kind, articles)? else { return Ok(None) };
        let task = site.expire()?;
        Ok(Some((site, task)))
    }

    fn cost(&self, kind: Kind, articles: u64) -> io::Result<Option<Cost>> {
        let Some((site, task)) = self.due(kind, articles)? else { return Ok(None) };
        let nothing = site.nothing().map_or(Ok(Cost::default()), |nothing| nothing.cost(None))?;
        Ok(Some(task.cost(site.server)?.without(nothing)))
    }

    fn ours(&self, method: &'static str, articles: u64) -> io::Result<(Site, Task)> {
        let due = self.due(Kind::Newsreel(method), articles)?;
        due.ok_or_else(|| io::Error::other("newsreel cannot be had"))
    }

    /// How often newsreel reads from a file of articles while it expires them.
    fn articles_read(&self, method: &'static str, articles: u64) -> io::Result<usize> {
        let (_site, task) = self.ours(method, articles)?;
        let calls = self.dir.join("calls");
        let path = calls.to_string_lossy().into_owned();
        task.run_under(&["strace", "-f", "-y", "-e", READS, "-o", &path])?;
        let text = fs::read_to_string(&calls)?;
        fs::remove_file(&calls)?;
        if !text.contains("read(") {
            return Err(io::Error::other("strace saw nothing"));
        }
        Ok(text.lines().filter(|line| reads_articles(line)).count())
    }

    /// The most memory of its own that newsreel had while it expired them. Pages of mapped files do not
    /// count: they are the system's cache.
    fn memory_kib(&self, method: &'static str, articles: u64) -> io::Result<u64> {
        let (_site, task) = self.ours(method, articles)?;
        let mut command = Command::new(&task.program);
        command.args(&task.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut most = 0;
        loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            most = text.lines().find_map(own_kib).unwrap_or_default().max(most);
            if let Some(status) = child.try_wait()? {
                let is_done = status.success() && most > 0;
                return if is_done { Ok(most) } else { Err(io::Error::other("newsreel expire failed")) };
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether a line of strace says that bytes came from a file of articles: one that is called by a number,
/// and is no index. A look behind the end of such a file gives no bytes, and a mapping may give some.
fn reads_articles(line: &str) -> bool {
    let Some((call, result)) = line.rsplit_once(" = ") else { return false };
    let Some((call, of)) = call.split_once('(') else { return false };
    // PID CALL(FD</path>, ...
    let is_mapped = call.ends_with("mmap");
    let path = of.split_once('<').and_then(|(_, path)| path.split_once('>')).map(|(path, _)| Path::new(path));
    let name = path.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_suffix(".app").unwrap_or(name);
    !of.contains("/index/")
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
        && (is_mapped || result.trim().parse::<u64>().is_ok_and(|bytes| bytes > 0))
}

/// `RssAnon:     1234 kB`.
fn own_kib(line: &str) -> Option<u64> {
    line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strace_and_the_kernel_say_is_read() {
        let read = "71 pread64(9</x/spool/tree/lab/g0/17>, \"Path: a\"..., 4096, 0) = 1200";
        assert!(reads_articles(read) && reads_articles(&read.replace("17", "0000000003.app")));
        let mapped = "71 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 9</x/spool/0000000003.app>, 0) = 0x7f00";
        assert!(reads_articles(mapped));
        for other in [
            "71 pread64(9</x/spool/0000000003.app>, \"\", 4096, 1048576) = 0",
            "71 read(9</x/spool/tree/lab/g0>, 0x7f, 4096) = -1 EISDIR (Is a directory)",
            "71 pread64(9</x/index/residents/00001>, \"a\"..., 4096, 0) = 4096",
            "71 read(3</x/etc/newsreel.toml>, \"[site]\"..., 4096) = 312",
            "71 +++ exited with 0 +++",
        ] {
            assert!(!reads_articles(other), "{other}");
        }
        assert_eq!((own_kib("RssAnon:\t   12345 kB"), own_kib("VmRSS:\t 1 kB")), (Some(12_345), None));
    }
}
