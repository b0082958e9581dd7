//! `newsreel mount --spool`, the running server's articles as files, beside the same files in a directory
//! behind the least that a FUSE file system can be: `grep -r` over all of them and reads at random, by
//! mounts that nobody has used yet and by those that somebody has; what a `grep -r` that never ends takes
//! from a feed at full rate; and whether each file is what ARTICLE sends, also while the feed lasts.
//!
//! The two take turns, and medians count.

use super::way::{Reached, Way};
use crate::Place;
use crate::articles::{Generator, Shape, group_name};
use crate::client::Client;
use crate::feeder;
use crate::rates::median;
use crate::rng::Rng;
use crate::site::{Plan, Site};
use crate::volume::run;
use clap::Args;
use netnews::nntp::wire;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const GROUPS: u64 = 20;
/// With its headers an article has some 2,000 bytes.
const SHAPE: Shape = Shape { bytes: (1_000, 2_500), large_every: 1_000, large_bytes: (50_000, 100_000) };
const BUFFER_BYTES: u64 = 1 << 30;
const CONNECTIONS: usize = 4;
const WINDOW: usize = 100;
/// Articles that a feed brings, for each that was there before: it is to last for a second or more.
const FED: u64 = 12;
/// Least part of the bare file system's rate, and the most that a feed may lose.
const PART_MIN: f64 = 0.7;
const LOSS_MAX: f64 = 0.05;

/// What is compared.
#[derive(Debug, Args)]
pub struct SpoolOptions {
    /// The server's binary, built with the feature `mount` [default: newsreel beside this one]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Articles of the server [default: 20000; with --full 100000]
    #[arg(long)]
    stored: Option<u64>,
    /// Rounds of which the medians count
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Files a second, of each round.
#[derive(Debug, Default)]
struct Rates {
    grep: Vec<f64>,
    grep_again: Vec<f64>,
    random: Vec<f64>,
    random_again: Vec<f64>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    files: u64,
    bare: Rates,
    ours: Rates,
    /// Articles a second that a feed brings, alone and beside `grep -r`.
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// Files that were compared with ARTICLE, and how many of them while articles arrived.
    compared: (u64, u64),
}

/// A server, its articles once more as plain files, and where both are mounted.
struct Bench {
    site: Site,
    generator: Generator,
    next: AtomicU64,
    plain: PathBuf,
    bare: PathBuf,
    ours: PathBuf,
}

/// Measures.
pub fn measure(options: &SpoolOptions, dir: &Path, port: u16, is_full: bool) -> Result<Found> {
    let stored = options.stored.unwrap_or(if is_full { 100_000 } else { 20_000 });
    let bench = Bench::make(options, dir, port, stored)?;
    let mount = bench.mount()?;
    run("cp", &["-r", text(&bench.ours.join("lab"))?, text(&bench.plain)?])?;
    let names = names(&bench.plain)?;
    let mut found = Found { files: names.len() as u64, ..Found::default() };
    let mut client = Client::connect(&bench.site.address())?;
    for name in &names {
        bench.compare(&mut client, name)?;
    }
    drop(mount);
    let mut rng = Rng::new(5, 0);
    for _ in 0..options.rounds {
        let random: Vec<&Named> = (0..names.len())
            .map(|_| rng.below(names.len() as u64))
            .filter_map(|n| names.get(n as usize))
            .collect();
        let bare = || Reached::new(Way::Bare, &bench.plain, &bench.bare);
        round(&mut found.bare, &bare, &bench.bare, &random, names.len())?;
        round(&mut found.ours, &|| bench.mount(), &bench.ours.join("lab"), &random, names.len())?;
    }
    let mount = bench.mount()?;
    // The first has memory to find that the others have.
    bench.feed(stored * FED)?;
    for _ in 0..options.rounds {
        found.alone.push(bench.feed(stored * FED)?);
        found.beside.push(bench.feed_beside_grep(stored * FED)?);
    }
    found.compared = (names.len() as u64, bench.compare_while_fed(stored * FED)?);
    drop(mount);
    bench.end(dir)?;
    Ok(found)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| "a path that is not UTF-8".into())
}

/// A file: group and number, and its path below the groups' first part.
struct Named {
    group: String,
    number: u64,
    path: PathBuf,
}

impl Named {
    fn new(group: &str, number: u64) -> Self {
        let last = group.rsplit('.').next().unwrap_or_default();
        Self { group: group.to_owned(), number, path: Path::new(last).join(number.to_string()) }
    }
}

/// All files of the plain tree.
fn names(plain: &Path) -> Result<Vec<Named>> {
    let mut names = Vec::new();
    for group in (0..GROUPS).map(group_name) {
        let dir = plain.join(group.rsplit('.').next().unwrap_or_default());
        for entry in fs::read_dir(dir)? {
            let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            names.push(Named::new(&group, number.ok_or("a name that is no number")?));
        }
    }
    Ok(names)
}

/// `grep -r` and reads at random, each by a mount that is new, and then once more.
fn round(
    rates: &mut Rates,
    mount: &dyn Fn() -> Result<Reached>,
    root: &Path,
    random: &[&Named],
    files: usize,
) -> Result<()> {
    let grep = || -> Result<f64> {
        let begun = Instant::now();
        let found = run("grep", &["-rl", "^Message-ID: <1[.][0-9a-f]*@lab.example>", text(root)?])?;
        if found.is_empty() {
            return Err("grep does not find an article".into());
        }
        Ok(files as f64 / begun.elapsed().as_secs_f64())
    };
    let read = || -> Result<f64> {
        let begun = Instant::now();
        for name in random {
            fs::read(root.join(&name.path))?;
        }
        Ok(random.len() as f64 / begun.elapsed().as_secs_f64())
    };
    let used = mount()?;
    rates.grep.push(grep()?);
    rates.grep_again.push(grep()?);
    drop(used);
    let used = mount()?;
    rates.random.push(read()?);
    rates.random_again.push(read()?);
    drop(used);
    Ok(())
}

impl Bench {
    fn make(options: &SpoolOptions, dir: &Path, port: u16, stored: u64) -> Result<Self> {
        let place = Place { binary: options.binary.clone(), dir: dir.to_owned(), port };
        let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
        let mut site = Site::make(&place, "spool-site", port, plan)?;
        site.start(&group_name(0))?;
        let (generator, next) = (Generator::new(1, GROUPS, SHAPE), AtomicU64::new(0));
        let plain = dir.join("plain");
        if plain.exists() {
            fs::remove_dir_all(&plain)?;
        }
        let bench = Self { site, generator, next, plain, bare: dir.join("mount"), ours: dir.join("news") };
        bench.feed(stored)?;
        Ok(bench)
    }

    fn mount(&self) -> Result<Reached> {
        let mut command = Command::new(self.site.binary());
        command.arg("mount").arg("--spool").arg(&self.ours).arg("--config").arg(self.site.config());
        command.stderr(Stdio::null());
        Reached::by(command, "newsreel mount --spool", &self.ours)
    }

    /// Feeds articles; how many a second were taken.
    fn feed(&self, articles: u64) -> Result<f64> {
        let begun = Instant::now();
        feeder::feed(&self.site, &self.generator, &self.next, articles, CONNECTIONS, WINDOW)?;
        Ok(articles as f64 / begun.elapsed().as_secs_f64())
    }

    /// The same while somebody looks for a word again and again.
    fn feed_beside_grep(&self, articles: u64) -> Result<f64> {
        let again = "while :; do grep -rl 'no such line' \"$0\"; done";
        let mut grep = Command::new("sh");
        grep.args(["-c", again, text(&self.ours.join("lab"))?]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut grep = grep.spawn()?;
        let fed = self.feed(articles);
        grep.kill()?;
        grep.wait()?;
        fed
    }

    /// The article of a file by NNTP, as files have it; `None` if it is not there.
    fn asked(client: &mut Client, name: &Named) -> Result<Option<Vec<u8>>> {
        client.group(&name.group)?;
        if !client.command(&format!("ARTICLE {}", name.number))?.starts_with("220") {
            return Ok(None);
        }
        let mut text = Vec::new();
        wire::to_text(&client.block()?, &mut text);
        Ok(Some(text))
    }

    /// Compares a file with ARTICLE. What goes or comes in between may be in one of them alone, once.
    fn compare(&self, client: &mut Client, name: &Named) -> Result<()> {
        let path = self.ours.join("lab").join(&name.path);
        for _ in 0..2 {
            let (file, article) = (fs::read(&path).ok(), Self::asked(client, name)?);
            match (file, article) {
                (Some(file), Some(article)) if file == article => return Ok(()),
                (None, None) => return Ok(()),
                (Some(_), Some(_)) => break,
                _ => {}
            }
        }
        Err(format!("{} is not what ARTICLE sends", path.display()).into())
    }

    /// Compares files at random while a feed brings articles and others are overwritten; how many.
    fn compare_while_fed(&self, articles: u64) -> Result<u64> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let comparing = scope.spawn(|| -> Result<u64> {
                let (mut client, mut rng) = (Client::connect(&self.site.address())?, Rng::new(9, 0));
                let mut compared = 0;
                while !over.load(Ordering::Relaxed) {
                    let group = group_name(rng.below(GROUPS));
                    let (_, low, high) = client.group(&group)?;
                    self.compare(&mut client, &Named::new(&group, rng.between(low.min(high), high)))?;
                    compared += 1;
                }
                Ok(compared)
            });
            let fed = self.feed(articles);
            over.store(true, Ordering::Relaxed);
            fed?;
            comparing.join().map_err(|_| "comparing panicked")?
        })
    }

    fn end(mut self, dir: &Path) -> Result<()> {
        self.site.stop()?;
        fs::remove_dir_all(self.site.dir())?;
        fs::remove_dir_all(&self.plain)?;
        for point in ["mount", "news"] {
            // It is empty, or somebody else's.
            let _left = fs::remove_dir(dir.join(point));
        }
        Ok(())
    }
}

/// Rows of the table: what, the bare file system's rates, ours.
fn rows(found: &Found) -> [(&'static str, f64, f64); 4] {
    let (bare, ours) = (&found.bare, &found.ours);
    let row = |what, of: fn(&Rates) -> &Vec<f64>| (what, median(of(bare).clone()), median(of(ours).clone()));
    [
        row("`grep -r`", |rates| &rates.grep),
        row("`grep -r` again", |rates| &rates.grep_again),
        row("at random", |rates| &rates.random),
        row("at random again", |rates| &rates.random_again),
    ]
}

/// What part of a feed is lost while somebody looks for a word.
fn loss(found: &Found) -> f64 {
    1.0 - median(found.beside.clone()) / median(found.alone.clone())
}

/// Tables, and what came of the promises.
pub fn markdown(found: &Found) -> String {
    let mut text = format!(
        "| {} files, read one after the other, a second | bare FUSE | `mount --spool` | of bare |\n\
         |---|---:|---:|---:|\n",
        found.files
    );
    for (what, bare, ours) in rows(found) {
        let _ = writeln!(text, "| {what} | {bare:.0} | {ours:.0} | {:.2} |", ours / bare);
    }
    let (alone, beside) = (median(found.alone.clone()), median(found.beside.clone()));
    let _ = writeln!(
        text,
        "\n| articles a second that a feed brings | |\n|---|---:|\n| alone | {alone:.0} |\n\
         | beside `grep -r` | {beside:.0} |\n"
    );
    for (what, holds) in promises(found) {
        let _ = writeln!(text, "- {what}: {}", if holds { "holds" } else { "does not hold" });
    }
    text
}

fn promises(found: &Found) -> Vec<(String, bool)> {
    let least = rows(found).map(|(_, bare, ours)| ours / bare).into_iter().fold(f64::INFINITY, f64::min);
    let (loss, (all, live)) = (loss(found), found.compared);
    vec![
        (
            format!("files are read at {least:.2} of the rate of bare FUSE or more, of {PART_MIN}"),
            least >= PART_MIN,
        ),
        (
            format!("a feed loses {:.1} % beside `grep -r`, of {:.0}", loss * 100.0, LOSS_MAX * 100.0),
            loss <= LOSS_MAX,
        ),
        (
            format!(
                "{all} files are what ARTICLE sends, and {live} while articles arrive and are overwritten"
            ),
            all > 0 && live > 0,
        ),
    ]
}

/// Whether all that was promised holds.
pub fn holds(found: &Found) -> bool {
    promises(found).iter().all(|(_, holds)| *holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(grep: f64, beside: f64) -> Found {
        let rates = |grep: f64| Rates {
            grep: vec![grep, 0.0, 1e9],
            grep_again: vec![100.0],
            random: vec![100.0],
            random_again: vec![100.0],
        };
        Found {
            files: 7,
            bare: rates(100.0),
            ours: rates(grep),
            alone: vec![1000.0],
            beside: vec![beside],
            compared: (7, 1),
        }
    }

    #[test]
    fn the_least_rate_and_the_loss_decide() {
        assert!(holds(&found(70.0, 951.0)) && !holds(&found(69.0, 951.0)) && !holds(&found(70.0, 949.0)));
        assert!(!holds(&Found { compared: (7, 0), ..found(70.0, 951.0) }));
        let text = markdown(&found(69.0, 951.0));
        assert!(text.contains("| `grep -r` | 100 | 69 | 0.69 |"), "{text}");
        assert!(text.contains("at 0.69 of the rate of bare FUSE or more, of 0.7: does not hold"), "{text}");
        assert!(text.contains("a feed loses 4.9 % beside `grep -r`, of 5: holds"), "{text}");
    }

    #[test]
    fn a_file_is_where_its_group_and_number_say() {
        let name = Named::new("lab.g7", 12);
        assert_eq!((name.path.to_str(), name.group.as_str()), (Some("g7/12"), "lab.g7"));
    }
}
