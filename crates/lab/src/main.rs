//! lab: shows on the real binary what no unit test can.
//!
//! `crash` kills the server under a feed and checks what it promised; `scale` opens thousands of connections
//! and measures their cost; `recover` times the start of a big spool after a crash; `rebuild` times the
//! rebuild of its indexes; `flat` compares a huge spool with an empty one; `spool` compares storage methods;
//! `feeds` measures feeds to peers, `cancels` what cancels cost a feed, `fairness` what clients cost each
//! other, `cnews` what batches cost, `usenetfs` what large directories cost, `web` what pages and search
//! cost, `newscache` how fast caches are, `cores` how the rate grows with processors. Each creates its own
//! site below `--dir`, prints its findings, and exits with 1 if something did not hold. `tls-load` reads from
//! a server that runs already, over TLS and COMPRESS. `bench/bench.sh` measures servers beside each other,
//! and `speed` makes the table of it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod articles;
mod cache_bench;
mod cancels;
mod client;
mod cnews;
mod cores;
mod crash;
mod drawing;
mod fairness;
mod feeder;
mod feeds;
mod filling;
mod flat;
mod memory;
mod others;
mod page;
mod rates;
mod rebuild;
mod record;
mod recover;
mod rnews;
mod rng;
mod scale;
mod site;
mod speed;
mod spool_bench;
mod tls_load;
mod usenetfs_bench;
mod volume;
mod web;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// The result of a part of the lab: whether everything held, or why that could not be determined.
type Verdict = Result<bool, Box<dyn std::error::Error + Send + Sync>>;

/// Proves guarantees and limits on the real binary
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// kill -9 under full feed, again and again: nothing lost, torn or renumbered
    Crash(crash::Options),
    /// Thousands of connections at once, and what each costs
    Scale(scale::Options),
    /// Time from exec to the first answer, after kill -9 on a big spool
    Recover(recover::Options),
    /// How fast all indexes of a big spool are rebuilt
    Rebuild(rebuild::Options),
    /// The papers' comparison: each storage method, and INN's, under the CNFS paper's batches
    Spool(spool_bench::Options),
    /// The table of `bench/bench.sh`: medians of its runs, ratios to INN, limits
    Speed(speed::Options),
    /// The machine, and whether others use it, as a line of JSON
    #[command(hide = true)]
    Machine,
    /// What feeding peers costs, and how fast it is, with INN beside it
    Feeds(feeds::Options),
    /// Batches filed by rnews, with INN's beside it
    Rnews(rnews::Options),
    /// The C News paper's appendix: batches accepted, known, too old, made and expired, in four servers
    Cnews(cnews::Options),
    /// Many articles that are all due at once, in newsreel and in INN, by storage methods
    Expire(cnews::expiring::Options),
    /// What cancels cost the feed that they arrive with
    Cancels(cancels::Options),
    /// What one client costs another beyond its processor time
    Fairness(fairness::Options),
    /// The NewsCache paper's tables: four jobs, directly and through caches, on loopback and a thin line
    Newscache(cache_bench::Options),
    /// The same figures on an empty and on a huge server
    Flat(flat::Options),
    /// The Usenetfs paper's figures: flat directories and those in buckets, mounted or not
    Usenetfs(usenetfs_bench::Options),
    /// How fast articles are accepted with more or fewer processors
    Cores(cores::Options),
    /// How long pages take on a large spool, and what metrics, an open page and search cost
    Web(web::Options),
    /// The process of a mount of `usenetfs`
    #[command(hide = true)]
    UsenetfsMount(usenetfs_bench::MountOptions),
    /// Readers over plain, encrypted and compressed connections to a server that runs
    TlsLoad(tls_load::Options),
}

/// Where the servers of the lab run.
#[derive(Debug, Clone, Args)]
struct Place {
    /// The server's binary [default: newsreel beside this one]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A directory to work in; emptied before and after
    #[arg(long, default_value = "/tmp/newsreel-lab")]
    dir: PathBuf,
    /// Port of the (first) server, on 127.0.0.1
    #[arg(long, default_value_t = 11_700)]
    port: u16,
}

impl Place {
    /// Returns the server's binary.
    fn newsreel(&self) -> std::io::Result<PathBuf> {
        match &self.binary {
            Some(binary) => Ok(binary.clone()),
            None => Ok(std::env::current_exe()?.with_file_name("newsreel")),
        }
    }
}

fn main() -> ExitCode {
    let verdict = match Cli::parse().command {
        Command::Crash(options) => crash::run(&options),
        Command::Scale(options) => scale::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Rebuild(options) => rebuild::run(&options),
        Command::Spool(options) => spool_bench::run(&options),
        Command::Speed(options) => speed::run(&options),
        Command::Machine => speed::machine(),
        Command::Feeds(options) => feeds::run(&options),
        Command::Rnews(options) => rnews::run(&options),
        Command::Cnews(options) => cnews::run(&options),
        Command::Expire(options) => cnews::expiring::run(&options),
        Command::Cancels(options) => cancels::run(&options),
        Command::Fairness(options) => fairness::run(&options),
        Command::Newscache(options) => cache_bench::run(&options),
        Command::Flat(options) => flat::run(&options),
        Command::Usenetfs(options) => usenetfs_bench::run(&options),
        Command::UsenetfsMount(options) => usenetfs_bench::serve(&options),
        Command::Cores(options) => cores::run(&options),
        Command::Web(options) => web::run(&options),
        Command::TlsLoad(options) => tls_load::run(&options),
    };
    match verdict {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn commands_do_not_contradict_themselves() {
        Cli::command().debug_assert();
    }
}
