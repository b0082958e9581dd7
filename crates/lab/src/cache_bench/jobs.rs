//! The four jobs, each on a connection of its own, as a newsreader does them: one command after the answer to
//! the other.

use super::link::Link;
use crate::articles::group_name;
use crate::client::Client;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Instant;

/// Groups with articles.
pub const GROUPS: u64 = 5;

/// How large the jobs are.
#[derive(Debug)]
pub struct Plan {
    pub selections: u64,
    pub articles_per_group: u64,
}

/// A job, and what it took; `None`: it could not be done.
#[derive(Debug)]
pub struct Done {
    pub job: &'static str,
    pub figures: Option<Figures>,
}

/// What a job took.
#[derive(Debug)]
pub struct Figures {
    /// From the connection to the last answer.
    pub seconds: f64,
    /// To the first answer.
    pub first_byte: f64,
    /// What came over the line from the upstream.
    pub upstream_bytes: u64,
}

/// What a job does.
type Work = fn(&mut Reader, &Plan) -> io::Result<()>;

/// A connection, and when its first answer came.
struct Reader {
    client: Client,
    begun: Instant,
    first_byte: Option<f64>,
}

impl Reader {
    fn ask(&mut self, command: &str, code: &str) -> io::Result<String> {
        let answer = self.client.expect(command, code)?;
        self.first_byte.get_or_insert(self.begun.elapsed().as_secs_f64());
        Ok(answer)
    }

    /// Selects a group; the numbers of the job, from its lowest on.
    fn select(&mut self, group: u64, plan: &Plan) -> io::Result<RangeInclusive<u64>> {
        let answer = self.ask(&format!("GROUP {}", group_name(group)), "211")?;
        let low = answer.split(' ').nth(2).and_then(|low| low.parse().ok()).unwrap_or(1);
        Ok(low..=low + plan.articles_per_group - 1)
    }

    fn block(&mut self) -> io::Result<()> {
        self.client.block().map(drop)
    }
}

/// What a round trip to this server takes: a short command and its answer.
pub fn round_trip(at: SocketAddr) -> io::Result<f64> {
    let mut client = Client::connect(&at.to_string())?;
    let begun = Instant::now();
    client.expect("MODE READER", "20")?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The jobs.
const JOBS: [(&str, Work); 4] =
    [("active", active), ("selections", selections), ("overview", overview), ("articles", articles)];

/// Does all jobs at the server at this address.
pub fn all(at: SocketAddr, link: &Link, plan: &Plan) -> io::Result<Vec<Done>> {
    JOBS.iter().map(|(job, work)| Ok(Done { job, figures: Some(one(*work, at, link, plan)?) })).collect()
}

/// Does those that can be done there.
pub fn possible(at: SocketAddr, link: &Link, plan: &Plan) -> Vec<Done> {
    let done = |(job, work): &(&'static str, Work)| Done {
        job,
        figures: one(*work, at, link, plan)
            .inspect_err(|error| println!("{job} cannot be done there: {error}"))
            .ok(),
    };
    JOBS.iter().map(done).collect()
}

/// No job is done.
pub fn none() -> Vec<Done> {
    JOBS.iter().map(|(job, _)| Done { job, figures: None }).collect()
}

fn one(work: Work, at: SocketAddr, link: &Link, plan: &Plan) -> io::Result<Figures> {
    let before = link.passed().octets_down;
    let begun = Instant::now();
    let client = Client::connect(&at.to_string())?;
    let mut reader = Reader { client, begun, first_byte: None };
    work(&mut reader, plan)?;
    Ok(Figures {
        seconds: begun.elapsed().as_secs_f64(),
        first_byte: reader.first_byte.unwrap_or_default(),
        upstream_bytes: (link.passed().octets_down - before) as u64,
    })
}

fn active(reader: &mut Reader, _: &Plan) -> io::Result<()> {
    reader.ask("LIST", "215")?;
    reader.block()
}

fn selections(reader: &mut Reader, plan: &Plan) -> io::Result<()> {
    (0..plan.selections).try_for_each(|n| reader.ask(&format!("GROUP {}", group_name(n)), "211").map(drop))
}

fn overview(reader: &mut Reader, plan: &Plan) -> io::Result<()> {
    for n in 0..GROUPS {
        let numbers = reader.select(n, plan)?;
        reader.ask(&format!("XOVER {}-{}", numbers.start(), numbers.end()), "224")?;
        reader.block()?;
    }
    Ok(())
}

fn articles(reader: &mut Reader, plan: &Plan) -> io::Result<()> {
    for n in 0..GROUPS {
        for number in reader.select(n, plan)? {
            reader.ask(&format!("ARTICLE {number}"), "220")?;
            reader.block()?;
        }
    }
    Ok(())
}
