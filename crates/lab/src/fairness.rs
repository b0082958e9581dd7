//! What one client costs another, beyond the processor time that it takes.
//!
//! A measured reader asks STAT for one article after the other, each answer waited for. Beside it runs one
//! load of several: large articles from a peer, searches by XPAT, lists of new articles, overview, pages.
//! Whatever a load costs the reader on a machine of two processors, a part of it is only that the processors
//! are busy. So each load is compared with a control: threads that burn as much processor time as the load
//! took at the server and in its client together. The rest is what the server could have prevented.

use crate::articles::{Generator, Shape, group_name};
use crate::client::{Client, unexpected};
use crate::page::put_table;
use crate::rates::median;
use crate::rng::Rng;
use crate::site::{Plan, Site, processor_time};
use crate::{Place, Verdict, filling, web};
use clap::Args;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GROUPS: u64 = 40;
const ARTICLES: u64 = 200_000;
/// Of each of the two buffers.
const BUFFER_BYTES: u64 = 1 << 30;
const SHAPE: Shape = Shape { bytes: (2_140, 2_140), large_every: 0, large_bytes: (0, 0) };
/// Articles of 3 MB, as the measured peer sends them.
const LARGE: Shape = Shape { bytes: (3_000_000, 3_000_000), large_every: 0, large_bytes: (0, 0) };
/// Large articles that are made before the clock starts, and sent again and again under other Message-IDs.
const LARGE_MADE: u64 = 4;
/// Unanswered commands of a load.
const WINDOW: usize = 4;
/// For how long a burning thread works and rests at a time.
const BURN_PERIOD: Duration = Duration::from_millis(2);
/// What a load may cost beyond its processor time.
const COST_MAX: f64 = 0.10;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A directory of pages whose fairness.md gets the table
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
}

/// What runs beside the measured reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    LargeArticles,
    Xpat,
    Pages,
    Newnews,
    Over,
    Hdr,
    Check,
}

impl Load {
    /// All of them; last the one that displaces the articles which the others read.
    const ALL: [Self; 7] =
        [Self::Xpat, Self::Pages, Self::Newnews, Self::Over, Self::Hdr, Self::Check, Self::LargeArticles];

    fn name(self) -> &'static str {
        match self {
            Self::LargeArticles => "articles of 3 MB from a peer",
            Self::Xpat => "XPAT over groups",
            Self::Pages => "pages of groups",
            Self::Newnews => "NEWNEWS of all groups",
            Self::Over => "OVER of groups",
            Self::Hdr => "HDR of a header that is not in overview",
            Self::Check => "CHECK of new ids",
        }
    }
}

/// A measurement of the reader.
#[derive(Debug, Clone, Copy)]
struct Measured {
    per_second: f64,
    /// The slowest of a hundred answers takes at least so long, in milliseconds.
    p99_ms: f64,
    /// Processor time of the server and of this process.
    burned: Duration,
    answers: u64,
    took: Duration,
}

/// The figures of a load, each a median.
struct Row {
    load: Load,
    beside: f64,
    control: f64,
    p99_ms: f64,
    busy: f64,
    costs: Vec<f64>,
}

/// Runs all of it.
pub fn run(options: &Options) -> Verdict {
    let place = &options.place;
    let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
    let mut site = Site::make(place, "fairness", place.port, plan)?;
    let pages = SocketAddr::from(([127, 0, 0, 1], place.port + 1));
    site.add_pages(pages)?;
    let generator = Generator::new(1, GROUPS, SHAPE);
    filling::fill(&site, &generator, ARTICLES, 0)?;
    site.start(&group_name(0))?;
    let bench = Bench { site: &site, pages, generator, large: Generator::new(2, GROUPS, LARGE), options };
    let mut rows = Vec::new();
    for load in Load::ALL {
        rows.push(bench.row(load)?);
    }
    let table = table(&rows);
    print!("{table}");
    if let Some(docs) = &options.docs {
        put_table(&docs.join("fairness.md"), "make bench-fairness", &table)?;
    }
    site.stop()?;
    fs::remove_dir_all(site.dir())?;
    Ok(rows.iter().all(|row| median(row.costs.clone()) <= COST_MAX))
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| beside the reader | processors busy | STAT/s | STAT/s beside the control | p99 | \
         cost, median (least to most) |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let percent = |cost: f64| 100.0 * cost;
        let (least, most) = row
            .costs
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), cost| (least.min(*cost), most.max(*cost)));
        text += &format!(
            "| {} | {:.2} | {:.0} | {:.0} | {:.2} ms | {:.0} % ({:.0} to {:.0}) |\n",
            row.load.name(),
            row.busy,
            row.beside,
            row.control,
            row.p99_ms,
            percent(median(row.costs.clone())),
            percent(least),
            percent(most)
        );
    }
    text
}

struct Bench<'a> {
    site: &'a Site,
    pages: SocketAddr,
    generator: Generator,
    large: Generator,
    options: &'a Options,
}

impl Bench<'_> {
    fn row(&self, load: Load) -> io::Result<Row> {
        let (mut beside, mut control, mut p99, mut busy, mut costs) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.runs {
            let alone = self.measure(|_| Ok(()))?;
            let loaded = self.measure(|stop| self.load(load, stop))?;
            let own = alone.burned.as_secs_f64() / alone.answers.max(1) as f64;
            let others = loaded.burned.as_secs_f64() - own * loaded.answers as f64;
            let processors = (others / loaded.took.as_secs_f64()).max(0.0);
            let burned = self.measure(|stop| {
                burn(processors, stop);
                Ok(())
            })?;
            beside.push(loaded.per_second);
            control.push(burned.per_second);
            p99.push(loaded.p99_ms);
            busy.push(processors);
            costs.push(1.0 - loaded.per_second / burned.per_second);
        }
        Ok(Row {
            load,
            beside: median(beside),
            control: median(control),
            p99_ms: median(p99),
            busy: median(busy),
            costs,
        })
    }

    /// Measures the reader while `load` runs on another thread, until it is told to stop.
    fn measure(&self, load: impl FnOnce(&AtomicBool) -> io::Result<()> + Send) -> io::Result<Measured> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| load(&stop));
            let measured = self.read();
            stop.store(true, Ordering::Relaxed);
            beside.join().unwrap_or_else(|_| Err(io::Error::other("a load failed")))?;
            measured
        })
    }

    fn read(&self) -> io::Result<Measured> {
        let mut client = Client::connect(&self.site.address())?;
        let mut rng = Rng::new(7, 0);
        let length = Duration::from_secs_f64(self.options.seconds);
        // The load is under way before anything counts.
        std::thread::sleep(length / 10);
        let burned =
            || Ok::<_, io::Error>(processor_time(self.site.pid())? + processor_time(std::process::id())?);
        let (before, begun) = (burned()?, Instant::now());
        let mut answers = Vec::new();
        while begun.elapsed() < length {
            let asked = Instant::now();
            // Large articles displace those that the spool was filled with: 430 is an answer, too.
            let answer =
                client.command(&format!("STAT {}", self.generator.message_id(rng.below(ARTICLES))))?;
            if !answer.starts_with("223") && !answer.starts_with("430") {
                return Err(unexpected("STAT", &answer));
            }
            answers.push(asked.elapsed());
        }
        let (took, burned) = (begun.elapsed(), burned()? - before);
        answers.sort_unstable();
        let p99 = answers.get(answers.len() * 99 / 100).copied().unwrap_or_default();
        Ok(Measured {
            per_second: answers.len() as f64 / took.as_secs_f64(),
            p99_ms: 1000.0 * p99.as_secs_f64(),
            burned,
            answers: answers.len() as u64,
            took,
        })
    }

    fn load(&self, load: Load, stop: &AtomicBool) -> io::Result<()> {
        match load {
            Load::LargeArticles => self.large_articles(stop),
            Load::Pages => self.read_pages(stop),
            Load::Check => self.check(stop),
            Load::Xpat => self.by_group(stop, |_| ("XPAT Subject 1- *nothing*".into(), "221")),
            Load::Newnews => self.by_group(stop, |_| ("NEWNEWS * 19930101 000000 GMT".into(), "230")),
            Load::Over => self.by_group(stop, |_| ("OVER 1-".into(), "224")),
            Load::Hdr => self.by_group(stop, |_| ("HDR Path 1-".into(), "225")),
        }
    }

    /// One group after the other, and what is asked in each.
    fn by_group(&self, stop: &AtomicBool, ask: impl Fn(u64) -> (String, &'static str)) -> io::Result<()> {
        let mut client = Client::connect(&self.site.address())?;
        for n in (0..GROUPS).cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            client.group(&group_name(n))?;
            let (command, code) = ask(n);
            client.expect(&command, code)?;
            client.block()?;
        }
        Ok(())
    }

    fn read_pages(&self, stop: &AtomicBool) -> io::Result<()> {
        for n in (0..GROUPS).cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            web::get(self.pages, &format!("/groups/{}", group_name(n)))?;
        }
        Ok(())
    }

    fn check(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut client = Client::connect(&self.site.address())?;
        client.expect("MODE STREAM", "203")?;
        let mut waiting = 0;
        for n in 0_u64.. {
            client.queue(format!("CHECK <{n}.new@lab.example>\r\n").as_bytes()).map_err(io::Error::other)?;
            waiting += 1;
            if waiting >= 16 * WINDOW {
                client.answer()?;
                waiting -= 1;
            }
            if n % 64 == 0 && stop.load(Ordering::Relaxed) {
                break;
            }
        }
        for _ in 0..waiting {
            client.answer()?;
        }
        Ok(())
    }

    fn large_articles(&self, stop: &AtomicBool) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let made: Vec<Vec<u8>> = (0..LARGE_MADE)
            .map(|index| {
                let mut article = Vec::new();
                self.large.put(index, &mut article);
                article
            })
            .collect();
        let mut client = Client::connect(&self.site.address())?;
        client.expect("MODE STREAM", "203")?;
        let mut waiting = 0;
        while !stop.load(Ordering::Relaxed) {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let Some(article) = made.get((n % LARGE_MADE) as usize) else { break };
            let id = format!("<{n}.large@lab.example>");
            client.queue_article(id.as_bytes(), renamed(article, &id)).map_err(io::Error::other)?;
            waiting += 1;
            if waiting >= WINDOW {
                client.answer()?;
                waiting -= 1;
            }
        }
        for _ in 0..waiting {
            client.answer()?;
        }
        Ok(())
    }
}

/// An article under another Message-ID.
fn renamed(article: &[u8], id: &str) -> Vec<u8> {
    const NAME: &[u8] = b"Message-ID: ";
    let at = memchr::memmem::find(article, NAME).map_or(0, |at| at + NAME.len());
    let end = article.get(at..).and_then(|rest| memchr::memchr(b'\r', rest)).map_or(at, |length| at + length);
    let (before, after) = (article.get(..at).unwrap_or_default(), article.get(end..).unwrap_or_default());
    [before, id.as_bytes(), after].concat()
}

/// Takes this many processors' time, and does nothing with it, on as few threads as can.
fn burn(processors: f64, stop: &AtomicBool) {
    let threads = (processors.ceil() as usize).max(1);
    let work = BURN_PERIOD.mul_f64((processors / threads as f64).min(1.0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < work {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(BURN_PERIOD - work);
                }
            });
        }
    });
}
