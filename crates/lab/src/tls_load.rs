//! Readers over plain, encrypted and compressed connections: the same load for all, so that the rows compare.
//!
//! Every connection has a task, selects groups at random and reads articles by number, many commands at a
//! time. The first connection asks which groups there are. Prints one JSON line. `bench/bench.sh` runs it
//! against newsreel and INN and takes the servers' processor time from the system.

use crate::Verdict;
use crate::client::target;
use crate::rng::Rng;
use clap::{Args, ValueEnum};
use nntp_io::{CompressionPolicy, ConnectOptions, Error, NntpClient, Role, Security, TlsOptions, tls};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Articles read in a group before the next GROUP.
const PER_GROUP: usize = 48;

/// What is measured.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Where the server listens
    #[arg(long)]
    addr: String,
    /// What is between NNTP and TCP
    #[arg(long, value_enum, default_value = "plain")]
    layers: Layers,
    /// The certificate that the server shows, in PEM; TLS needs it
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// What is asked for
    #[arg(long, value_enum, default_value = "article")]
    op: Op,
    /// Connections at once
    #[arg(long, default_value_t = 64)]
    conns: u64,
    /// Commands sent before their answers are read
    #[arg(long, default_value_t = 16)]
    pipeline: usize,
    /// How long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seed of the order of groups and articles
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Op {
    /// ARTICLE by number
    Article,
    /// OVER of a hundred numbers
    Over,
    /// Connecting, with the handshake, and QUIT
    Connect,
}

/// A group with articles.
struct Group {
    name: String,
    low: u64,
    high: u64,
}

/// What is between NNTP and TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layers {
    /// Nothing
    Plain,
    /// TLS from the first octet
    Tls,
    /// COMPRESS DEFLATE
    Compress,
    /// Both
    TlsCompress,
}

/// What was read.
#[derive(Default, Clone, Copy)]
struct Count {
    ops: u64,
    missing: u64,
    /// Octets of the answers as NNTP has them.
    bytes: u64,
}

/// Reads, and prints what came of it.
pub fn run(options: &Options) -> Verdict {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().enable_time().build()?;
    runtime.block_on(load(options))
}

async fn load(options: &Options) -> Verdict {
    let target = Arc::new(server(options)?);
    let groups: Arc<[Group]> = groups(&mut NntpClient::connect(&target).await?).await?.into();
    if groups.is_empty() {
        return Err("the server has no articles".into());
    }
    // Connecting is not in the time.
    let mut clients = Vec::new();
    for _ in 0..options.conns {
        clients.push(if options.op == Op::Connect {
            None
        } else {
            Some(NntpClient::connect(&target).await?)
        });
    }
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(options.seconds);
    let mut tasks = JoinSet::new();
    for (number, client) in (0..).zip(clients) {
        let (options, target, groups) = (options.clone(), target.clone(), groups.clone());
        tasks.spawn(async move {
            match client {
                Some(client) => read(&options, client, &groups, number, until).await,
                None => connect(&target, until).await,
            }
        });
    }
    let mut sum = Count::default();
    while let Some(count) = tasks.join_next().await {
        let count = count??;
        sum.ops += count.ops;
        sum.missing += count.missing;
        sum.bytes += count.bytes;
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{{\"op\":\"{:?}\",\"layers\":\"{:?}\",\"conns\":{},\"seconds\":{seconds:.3},\"ops\":{},\
         \"ops_per_s\":{:.1},\"missing\":{},\"bytes\":{}}}",
        options.op,
        options.layers,
        options.conns,
        sum.ops,
        sum.ops as f64 / seconds,
        sum.missing,
        sum.bytes,
    );
    Ok(sum.ops > 0)
}

/// The server, and how to connect to it.
fn server(options: &Options) -> Result<ConnectOptions, Box<dyn std::error::Error + Send + Sync>> {
    let security = match options.layers {
        Layers::Plain | Layers::Compress => Security::None,
        Layers::Tls | Layers::TlsCompress => {
            let file = options.certificate.as_deref();
            let file = file.ok_or("TLS needs --certificate: the one that the server shows, in PEM")?;
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(file)?)?;
            Security::Implicit(TlsOptions {
                config: tls::client_config(roots, Vec::new(), None)?,
                name: "localhost".try_into()?,
            })
        }
    };
    let compression = match options.layers {
        Layers::Plain | Layers::Tls => CompressionPolicy::Never,
        Layers::Compress | Layers::TlsCompress => CompressionPolicy::Required,
    };
    Ok(ConnectOptions { security, compression, role: Role::Reader, ..target(&options.addr)? })
}

/// The groups that have articles.
async fn groups(client: &mut NntpClient) -> Result<Vec<Group>, Error> {
    let mut groups = Vec::new();
    client.request("LIST ACTIVE").await?;
    while let Some(line) = client.block_line().await? {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        if let (Some(name), Some(Ok(high)), Some(Ok(low))) =
            (words.next(), words.next().map(str::parse), words.next().map(str::parse))
            && low <= high
        {
            groups.push(Group { name: name.to_owned(), low, high });
        }
    }
    Ok(groups)
}

/// Connects again and again.
async fn connect(target: &ConnectOptions, until: Instant) -> io::Result<Count> {
    let mut count = Count::default();
    while Instant::now() < until {
        NntpClient::connect(target).await?.quit().await?;
        count.ops += 1;
    }
    Ok(count)
}

/// One connection's reading.
async fn read(
    options: &Options,
    mut client: NntpClient,
    groups: &[Group],
    number: u64,
    until: Instant,
) -> io::Result<Count> {
    let mut count = Count::default();
    let mut rng = Rng::new(options.seed, number);
    let before = client.connection().received_bytes();
    while Instant::now() < until {
        let Some(group) = groups.get(rng.below(groups.len() as u64) as usize) else { break };
        if client.request(format!("GROUP {}", group.name)).await?.code != 211 {
            continue;
        }
        for _ in 0..PER_GROUP.div_ceil(options.pipeline) {
            for _ in 0..options.pipeline {
                let number = rng.between(group.low, group.high);
                client.submit(match options.op {
                    Op::Over => format!("OVER {number}-{}", number + 99),
                    _ => format!("ARTICLE {number}"),
                })?;
            }
            for _ in 0..options.pipeline {
                match client.answer().await?.code {
                    220 | 224 => count.ops += 1,
                    423 => count.missing += 1,
                    other => return Err(io::Error::other(format!("answered {other}"))),
                }
            }
        }
    }
    count.bytes = client.connection().received_bytes() - before;
    client.quit().await?;
    Ok(count)
}
