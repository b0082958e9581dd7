//! Rates of single commands and the server's CPU time for each, for comparing two servers under the same
//! load.
//!
//! All bytes to be sent are generated before the clock starts.

use crate::articles::{Generator, group_name};
use crate::client::{Client, unexpected};
use crate::rng::Rng;
use crate::site::{bytes_read, serving_time};
use std::io;
use std::path::PathBuf;
use std::time::Instant;

/// Commands sent before their answers are read.
const PIPELINE: usize = 16;
/// Unanswered CHECK and TAKETHIS commands.
const STREAM_WINDOW: usize = 100;
/// Rows that an OVER asks for.
const ROWS: u64 = 100;
/// Articles read in a group before the next GROUP.
const PER_GROUP: usize = 50;

/// A measurement.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Operations a second.
    pub per_second: f64,
    /// Server CPU, in microseconds an operation, without the upkeep of the spool.
    pub cpu_us: f64,
    /// Read from the disk, in KiB an operation.
    pub read_kib: f64,
}

/// A server to be measured.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Where it listens.
    pub address: String,
    /// Its process.
    pub pid: u32,
    /// The directory of its site.
    pub dir: PathBuf,
    /// Its groups.
    pub groups: u64,
    /// Generated the articles that were there before.
    pub old: &'a Generator,
    /// How many they are.
    pub old_articles: u64,
    /// The last number of each group that belongs to them.
    pub old_last: Vec<u64>,
    /// Generates those that are fed.
    pub new: &'a Generator,
}

impl Subject<'_> {
    /// Notes the last numbers of the groups, before anything is fed.
    pub fn note_marks(&mut self) -> io::Result<()> {
        let mut client = self.reader()?;
        let last = |group| client.group(&group_name(group)).map(|(_, _, high)| high);
        self.old_last = (0..self.groups).map(last).collect::<io::Result<_>>()?;
        Ok(())
    }

    /// TAKETHIS of articles `from..from + count`, one connection.
    pub fn takethis(&self, from: u64, count: u64) -> io::Result<Rate> {
        let command = |index: u64| {
            let mut out = format!("TAKETHIS {}\r\n", self.new.message_id(index)).into_bytes();
            self.new.put(index, &mut out);
            out.extend_from_slice(b".\r\n");
            out
        };
        self.stream((from..from + count).map(command).collect(), "239")
    }

    /// CHECK of known Message-IDs, any of the newest `among` of the old articles.
    pub fn check_known(&self, count: u64, among: u64, rng: &mut Rng) -> io::Result<Rate> {
        let first = self.old_articles.saturating_sub(among);
        let mut any = || first + rng.below(self.old_articles - first);
        let command = |_| format!("CHECK {}\r\n", self.old.message_id(any())).into_bytes();
        self.stream((0..count).map(command).collect(), "438")
    }

    /// CHECK of unknown Message-IDs. Each creates a reservation, which ends with the connection.
    pub fn check_new(&self, count: u64, rng: &mut Rng) -> io::Result<Rate> {
        let command = |_| format!("CHECK <{:x}@new.lab.example>\r\n", rng.next()).into_bytes();
        self.stream((0..count).map(command).collect(), "238")
    }

    /// ARTICLE by Message-ID, pipelined, of any of the newest `among` of the old articles.
    pub fn article_by_id(&self, count: usize, among: u64, rng: &mut Rng) -> io::Result<Rate> {
        let mut client = self.reader()?;
        let first = self.old_articles.saturating_sub(among);
        let command =
            |_| format!("ARTICLE {}\r\n", self.old.message_id(first + rng.below(self.old_articles - first)));
        let commands: Vec<String> = (0..count).map(command).collect();
        self.timed(count, || pipelined(&mut client, &commands, "220", true))
    }

    /// ARTICLE by number, pipelined, with a GROUP before each fifty, of any of the newest `among` of the old
    /// articles.
    pub fn article_by_number(&self, count: usize, among: u64, rng: &mut Rng) -> io::Result<Rate> {
        let mut client = self.reader()?;
        let mut parts = Vec::new();
        for _ in 0..count / PER_GROUP {
            let group = rng.below(self.groups);
            let last = self.old_last.get(group as usize).copied().unwrap_or(1);
            let first = last.saturating_sub(among / self.groups).max(1);
            let command = |_| format!("ARTICLE {}\r\n", rng.between(first, last));
            let commands: Vec<String> = (0..PER_GROUP).map(command).collect();
            parts.push((group_name(group), commands));
        }
        self.timed(count, || {
            for (group, commands) in &parts {
                client.group(group)?;
                pipelined(&mut client, commands, "220", true)?;
            }
            Ok(())
        })
    }

    /// GROUP, lock-step.
    pub fn group(&self, count: usize, rng: &mut Rng) -> io::Result<Rate> {
        let mut client = self.reader()?;
        let names: Vec<String> = (0..count).map(|_| group_name(rng.below(self.groups))).collect();
        self.timed(count, || names.iter().try_for_each(|name| client.group(name).map(|_| ())))
    }

    /// OVER of a hundred rows somewhere in a group, lock-step.
    pub fn over(&self, count: usize, rng: &mut Rng) -> io::Result<Rate> {
        let mut client = self.reader()?;
        let mut places = Vec::new();
        for _ in 0..count {
            let group = group_name(rng.below(self.groups));
            let (rows, low, _) = client.group(&group)?;
            let from = low + rng.below(rows.saturating_sub(2 * ROWS).max(1));
            places.push((format!("GROUP {group}\r\n"), format!("OVER {from}-{}\r\n", from + ROWS - 1)));
        }
        self.timed(count, || {
            for (group, over) in &places {
                pipelined(&mut client, std::slice::from_ref(group), "211", false)?;
                pipelined(&mut client, std::slice::from_ref(over), "224", true)?;
            }
            Ok(())
        })
    }

    fn reader(&self) -> io::Result<Client> {
        let mut client = Client::connect(&self.address)?;
        client.expect("MODE READER", "20")?;
        Ok(client)
    }

    fn timed(&self, count: usize, work: impl FnOnce() -> io::Result<()>) -> io::Result<Rate> {
        let (cpu, read, began) = (serving_time(self.pid)?, bytes_read(self.pid)?, Instant::now());
        work()?;
        let (count, took) = (count as f64, began.elapsed().as_secs_f64());
        let cpu = serving_time(self.pid)?.saturating_sub(cpu).as_secs_f64();
        let read = bytes_read(self.pid)?.saturating_sub(read) as f64;
        Ok(Rate { per_second: count / took, cpu_us: cpu * 1e6 / count, read_kib: read / 1024.0 / count })
    }

    /// Commands with a window; each answer is one line that starts with `code`.
    fn stream(&self, commands: Vec<Vec<u8>>, code: &str) -> io::Result<Rate> {
        let mut client = Client::connect(&self.address)?;
        client.expect("MODE STREAM", "203")?;
        self.timed(commands.len(), || {
            let (mut open, mut answered) = (0, 0);
            let mut rest = commands.iter();
            while answered < commands.len() {
                for command in rest.by_ref().take(STREAM_WINDOW - open) {
                    client.queue(command)?;
                    open += 1;
                }
                loop {
                    let answer = client.answer()?;
                    if !answer.starts_with(code) {
                        return Err(unexpected(code, &answer));
                    }
                    open -= 1;
                    answered += 1;
                    if !client.has_answer() {
                        break;
                    }
                }
            }
            Ok(())
        })
    }
}

/// The median; 0 of nothing.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn pipelined(client: &mut Client, commands: &[String], code: &str, block: bool) -> io::Result<()> {
    for batch in commands.chunks(PIPELINE) {
        batch.iter().try_for_each(|command| client.queue(command.as_bytes()))?;
        for command in batch {
            let answer = client.answer()?;
            if !answer.starts_with(code) {
                return Err(unexpected(command, &answer));
            }
            if block {
                client.block()?;
            }
        }
    }
    Ok(())
}
