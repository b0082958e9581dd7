//! `newsreel cache`: simulation and figures of a cache of other servers' articles.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use disk::Progress;
use newscache::StrategyKind;
use newscache::chart::{PaperFigure, figure};
use newscache::simulate::{RemovalUnit, SimulationPoint, Trace, simulate, sizes_for};
use serde::Serialize;

use super::args::UpAddresses;
use super::bar::Bar;
use super::locate::SiteLocation;
use super::screen::{CliError, complain, say, say_json, unreadable};
use super::table::Columns;
use super::typed::TypedOperation;
use super::{cache_stats, reach};
use operators::cached::{PurgeCacheOperation, RefreshCacheOperation, VerifyCacheOperation};
use operators::posts::{PostsCommand, PostsOperation};
use site_base::units;
use site_base::units::{about_size, counted, parse_size};
use site_config::{check_host_port, quoted};

/// Read size for a log, in bytes.
const READ_BYTES: usize = 1 << 20;

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Replay a log of accesses with all replacement strategies at many sizes
    #[command(
        long_about = "Replay a log of accesses with all replacement strategies at many sizes, and print how many \
        requests for articles a cache would have answered, and how many bytes would have come from upstream.\n\n\
        LOG is an access log of newsreel's cache, or the log of INN's nnrpd as syslog has it; - is standard input. With \
        nnrpd -t every command is known; without, readers are taken to read what came since their last visit. For each \
        --size, what a fifth more disk would give is said too."
    )]
    #[command(after_long_help = "Examples:\n  newsreel cache simulate access.log\n  \
        newsreel cache simulate /var/log/news/news.notice --strategy lrug --strategy gain --size \"2 GiB\"\n  \
        newsreel cache simulate access.log --json --figures .")]
    Simulate(SimulateOptions),
    /// Create a site that shows the groups of another server and keeps what was read, and serve it
    #[command(
        long_about = "Create a site that shows the groups of another server and keeps what was read, and serve it.\n\n\
        In a new DIR this creates a site as newsreel up does, with an [[upstream]], with --size also a [cache], in place \
        of buffers, classes and groups; an existing site is served as it is. Stop it with Ctrl-C."
    )]
    #[command(after_long_help = "Examples:\n  newsreel cache up --upstream news.example.net\n  \
        newsreel cache up --upstream news.example.net:563 --size \"20 GiB\" --listen 127.0.0.1:2119")]
    Up(CacheUpOptions),
    /// Show what readers asked for, and how much of it the cache had
    Stats {
        /// Show all groups that are counted, not only the twenty most asked for
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read all of the cache, and remove what is damaged
    #[command(
        long_about = "Read all of the cache, and remove what is damaged, whether the server runs or not. What was in a \
        damaged file is fetched again when somebody asks for it.\n\nExit code 1 if anything was damaged."
    )]
    Verify,
    /// Drop articles, or all of groups, from the cache
    #[command(
        long_about = "Drop articles, or all of groups, from the cache, whether the server runs or not: what a wrong \
        article is replaced by, or what may not stay on this disk. It is fetched again when somebody asks for it. An \
        article of a purged group that is stored with another group stays.\n\n\
        Exit code 1 if something was not in the cache."
    )]
    #[command(after_long_help = "Examples:\n  newsreel cache purge '<1993Apr5.012345@example.org>'\n  \
        newsreel cache purge comp.lang.rust")]
    Purge {
        /// Message-IDs, with their angle brackets, or groups
        #[arg(required = true, value_name = "MESSAGE-ID|GROUP")]
        names: Vec<String>,
    },
    /// Ask the upstreams of groups what they have now
    #[command(
        long_about = "Ask the upstreams of groups what they have now, however young group_age lets the last answer be: \
        new and cancelled articles are seen at once. Only a running server does this."
    )]
    #[command(after_long_help = "Examples:\n  newsreel cache refresh comp.lang.rust")]
    Refresh {
        /// The groups
        #[arg(required = true, value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// List, show, send again or delete posts that wait for an upstream, or that one has refused
    #[command(after_long_help = "Examples:\n  newsreel cache posts list\n  \
        newsreel cache posts retry '<1993Apr5.012345@example.org>'\n  \
        newsreel cache posts drop '<1993Apr5.012345@example.org>' --upstream isp")]
    Posts {
        #[command(subcommand)]
        command: PostsCommand,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct CacheUpOptions {
    /// The site's directory
    #[arg(long, value_name = "DIR", default_value = "newsreel-data")]
    pub(super) dir: PathBuf,
    /// The other server; its port is 119 if none is named, and on port 563 connections begin with TLS
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(super) upstream: String,
    /// The user to log in as
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(super) user: Option<String>,
    /// A file with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(super) password_file: Option<PathBuf>,
    /// Disk space for the cache [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) size: Option<u64>,
    #[command(flatten)]
    pub(super) at: UpAddresses,
}

impl CacheUpOptions {
    /// Returns the other server, with its port.
    pub(super) fn host(&self) -> String {
        let upstream = &self.upstream;
        if check_host_port(upstream).is_ok() { upstream.clone() } else { format!("{upstream}:119") }
    }

    /// Returns the configuration's sections for the upstream and the cache.
    pub(super) fn config_text(&self) -> String {
        let mut text = format!("\n[[upstream]]\nname = \"upstream\"\nhost = {}\n", quoted(&self.host()));
        if self.upstream.ends_with(":563") {
            text += "tls = \"implicit\"\n";
        }
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            // Relative paths in the configuration start at another directory.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            let file = quoted(&file.display().to_string());
            text += &format!("user = {}\npassword_file = {file}\n", quoted(user));
        }
        if let Some(size) = self.size {
            text += &format!("\n[cache]\nsize = {}\n", quoted(&units::size_text(size)));
        }
        text
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct SimulateOptions {
    /// The log
    log: PathBuf,
    /// Only this strategy (repeatable)
    #[arg(long, value_name = "NAME")]
    strategy: Vec<StrategyKind>,
    /// Only this size (repeatable) [default: 12 sizes, up to that of all articles in the log]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Vec<u64>,
    /// Replace single articles, as in the NewsCache paper, instead of files of several as the cache does
    #[arg(long)]
    by_article: bool,
    /// Write figures 3 and 4 of the paper, bandwidth.svg and hit-rate.svg, to this directory
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Result of one strategy at one size.
#[derive(Debug, Serialize)]
struct SimulationRow {
    strategy: &'static str,
    size_bytes: u64,
    requests: u64,
    hits: u64,
    hit_rate: f64,
    asked_bytes: u64,
    upstream_bytes: u64,
    /// Gain from a fifth more disk; only for sizes that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_a_fifth_more: Option<ExtraDiskGain>,
}

/// Gain from more disk.
#[derive(Debug, Serialize)]
struct ExtraDiskGain {
    hits: i64,
    upstream_bytes: i64,
}

/// Result of a simulation.
#[derive(Debug, Serialize)]
struct Simulation {
    requests: usize,
    articles: usize,
    article_bytes: u64,
    groups: usize,
    clients: usize,
    other_requests: u64,
    unknown_lines: u64,
    rows: Vec<SimulationRow>,
}

/// Runs a command; `up` creates a site with a cache and serves it.
pub(super) fn run(
    command: CacheCommand,
    at: &SiteLocation,
    up: fn(&CacheUpOptions) -> Result<(), CliError>,
) -> Result<(), CliError> {
    match command {
        CacheCommand::Up(options) => up(&options),
        CacheCommand::Stats { all, json } => cache_stats::stats(at, all, json),
        CacheCommand::Verify => reach::print(&at.load()?, VerifyCacheOperation {}),
        CacheCommand::Purge { names } => reach::print(&at.load()?, PurgeCacheOperation { names }),
        CacheCommand::Refresh { groups } => reach::print(&at.load()?, RefreshCacheOperation { groups }),
        CacheCommand::Posts { command } => PostsOperation { command }.carry_out(at),
        CacheCommand::Simulate(options) => replay(&options),
    }
}

fn replay(options: &SimulateOptions) -> Result<(), CliError> {
    let trace = read(&options.log)?;
    if trace.requests.is_empty() {
        return Err(CliError::Problem(format!(
            "{} names no request for an article: it is neither an access log of newsreel nor a log of nnrpd",
            options.log.display()
        )));
    }
    let strategies = if options.strategy.is_empty() { &StrategyKind::ALL[..] } else { &options.strategy[..] };
    let mut sizes = if options.size.is_empty() { sizes_for(&trace) } else { options.size.clone() };
    sizes.extend(options.size.iter().map(|size| fifth_more(*size)));
    sizes.sort_unstable();
    sizes.dedup();
    let units = if options.by_article { RemovalUnit::Articles } else { RemovalUnit::Files };
    let bar = Bar::new();
    bar.start("replaying", (strategies.len() * sizes.len()) as u64);
    let points = simulate(&trace, strategies, &sizes, units, |done| bar.step(done));
    bar.finish();
    if let Some(dir) = &options.figures {
        draw(dir, &points)?;
    }
    let simulation = summary(&trace, rows(&points, &options.size));
    if options.json { say_json(&simulation) } else { say(text(&simulation)) }
}

fn fifth_more(size: u64) -> u64 {
    size.saturating_add(size / 5)
}

fn read(log: &Path) -> Result<Trace, CliError> {
    let cannot = unreadable(log);
    let bar = Bar::new();
    let trace = if log == Path::new("-") {
        Trace::read(std::io::stdin().lock(), |_| ())
    } else {
        let file = File::open(log).map_err(cannot)?;
        bar.start("reading the log", file.metadata().map_err(cannot)?.len());
        Trace::read(BufReader::with_capacity(READ_BYTES, file), |done| bar.step(done))
    };
    bar.finish();
    let trace = trace.map_err(cannot)?;
    if trace.unknown_lines > 0 {
        complain(format_args!("passed over: {} of no known form", counted(trace.unknown_lines, "line")));
    }
    Ok(trace)
}

fn draw(dir: &Path, points: &[SimulationPoint]) -> Result<(), CliError> {
    for (name, what) in [("bandwidth.svg", PaperFigure::Bandwidth), ("hit-rate.svg", PaperFigure::HitRate)] {
        let path = dir.join(name);
        std::fs::write(&path, figure(points, what))
            .map_err(|error| CliError::Problem(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

fn summary(trace: &Trace, rows: Vec<SimulationRow>) -> Simulation {
    Simulation {
        requests: trace.requests.len(),
        articles: trace.articles.len(),
        article_bytes: trace.article_bytes(),
        groups: trace.groups,
        clients: trace.clients,
        other_requests: trace.others,
        unknown_lines: trace.unknown_lines,
        rows,
    }
}

/// Returns a row for each point. Sizes in `asked` include the gain from a fifth more, which has no row of its
/// own.
fn rows(points: &[SimulationPoint], asked: &[u64]) -> Vec<SimulationRow> {
    let more = |point: &SimulationPoint| {
        let with = |other: &&SimulationPoint| {
            other.strategy == point.strategy && other.size_bytes == fifth_more(point.size_bytes)
        };
        let other = points.iter().find(with).filter(|_| asked.contains(&point.size_bytes))?;
        Some(ExtraDiskGain {
            hits: other.hits as i64 - point.hits as i64,
            upstream_bytes: other.upstream_bytes as i64 - point.upstream_bytes as i64,
        })
    };
    let shown = points.iter().filter(|point| asked.is_empty() || asked.contains(&point.size_bytes));
    let row = |point: &SimulationPoint| SimulationRow {
        strategy: point.strategy.name(),
        size_bytes: point.size_bytes,
        requests: point.requests,
        hits: point.hits,
        hit_rate: point.hit_rate(),
        asked_bytes: point.asked_bytes,
        upstream_bytes: point.upstream_bytes,
        with_a_fifth_more: more(point),
    };
    shown.map(row).collect()
}

fn text(simulation: &Simulation) -> String {
    let head = format!(
        "{} for {} ({}) in {} by {}\n",
        counted(simulation.requests as u64, "request"),
        counted(simulation.articles as u64, "article"),
        about_size(simulation.article_bytes),
        counted(simulation.groups as u64, "group"),
        counted(simulation.clients as u64, "client")
    );
    let percent = |part: u64, of: u64| format!("{:.1} %", 100.0 * part as f64 / (of as f64).max(1.0));
    let columns = Columns::of(&simulation.rows)
        .left("strategy", |row| row.strategy.to_owned())
        .right("size", |row| about_size(row.size_bytes))
        .right("hits", |row| percent(row.hits, row.requests))
        .right("from upstream", |row| about_size(row.upstream_bytes))
        .right("of asked", |row| percent(row.upstream_bytes, row.asked_bytes));
    if simulation.rows.iter().all(|row| row.with_a_fifth_more.is_none()) {
        return head + &columns.text();
    }
    let more = |row: &SimulationRow| {
        let more = row.with_a_fifth_more.as_ref()?;
        let saved = more.upstream_bytes.min(0).unsigned_abs();
        Some(format!("{:+} hits, {} less", more.hits, about_size(saved)))
    };
    head + &columns.right("with a fifth more", |row| more(row).unwrap_or_default()).text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_replayed_with_gain_of_a_fifth_more_disk() {
        let line = |at: u64, n: u64| format!("{at} c article isp a.b {n} <{n}@x> 0 100000 miss\n");
        let log: String = (0..600).map(|at| line(at, at % 30)).collect();
        let trace = Trace::read(log.as_bytes(), |_| ()).unwrap();
        let sizes = [2_000_000, fifth_more(2_000_000), 100_000_000];
        let points = simulate(&trace, &[StrategyKind::Lrua], &sizes, RemovalUnit::Articles, |_| ());
        let all = rows(&points, &[2_000_000]);
        assert_eq!((all.len(), all[0].hits), (1, 0), "a cycle that does not fit");
        assert_eq!(all[0].with_a_fifth_more.as_ref().unwrap().hits, 0);
        let shown = text(&summary(&trace, rows(&points, &[])));
        assert!(
            shown.starts_with("600 requests for 30 articles (2.86 MiB) in 1 group by 1 client\n"),
            "{shown}"
        );
        assert!(shown.lines().last().unwrap().contains("95.0 %"), "{shown}");
    }
}
