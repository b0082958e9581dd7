//! The Usenetfs paper's figures 3 to 6 and table 2: what directories of 1 to half a million articles cost,
//! flat and in buckets, with and without a mount, on file systems with and without an index; and figure 7:
//! what that leaves to others on a machine where a news server has its day ([`day`]); and what files cost
//! that are a running server's articles ([`spool_mount`]).
//!
//! Each file system is an image below `--dir`. A directory of each size is filled once; the others have the
//! same files as hard links. Times are those that a program waits. Each part writes what it found as soon as
//! it is done, so that they can be run one by one. Figures: `docs/bench/usenetfs.md`.

mod day;
mod passthrough;
mod report;
mod spool_mount;
mod way;
mod work;

use crate::rng::Rng;
use crate::volume::{Kind, Volume};
use crate::{Verdict, page};
use clap::{Args, ValueEnum};
use netnews::bucket::BucketScheme;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use way::{FLAT, Reached, Way};
use work::{ARTICLE_BYTES, Times};

/// Runs of table 2, as in the paper.
const BUILDS: usize = 12;

/// The options of `lab usenetfs`.
#[derive(Debug, Args)]
pub struct Options {
    /// A directory to work in; what is made there is removed
    #[arg(long, default_value = "/tmp/newsreel-lab")]
    dir: PathBuf,
    /// The largest directory has two to the power of this many articles
    #[arg(long, default_value_t = 16)]
    largest: u32,
    /// Directories up to 2^19, each power of two, as in the paper; takes hours and 12 GB
    #[arg(long)]
    full: bool,
    /// What is measured; what others have left in the page stays there
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    #[command(flatten)]
    day: day::DayOptions,
    #[command(flatten)]
    spool: spool_mount::SpoolOptions,
    /// Port of servers, on 127.0.0.1
    #[arg(long, default_value_t = 11_719)]
    port: u16,
    /// Where usenetfs.md's tables and the plots go; without it they are not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// What is measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Directories on ext4 without an index
    Unindexed,
    /// On ext4 as it is made today
    Ext4,
    /// On xfs
    Xfs,
    /// Figure 7
    Day,
    /// A running server's articles as files; its program must have been built with `mount`
    Spool,
}

impl Part {
    const ALL: [Self; 5] = [Self::Unindexed, Self::Ext4, Self::Xfs, Self::Day, Self::Spool];

    /// What its tables are made by.
    fn command(self) -> String {
        let name = self.to_possible_value().map(|value| value.get_name().to_owned());
        format!("make bench-usenetfs, part {}", name.unwrap_or_default())
    }
}

/// The options of `lab usenetfs-mount`, the process of a mount.
#[derive(Debug, Args)]
pub struct MountOptions {
    lower: PathBuf,
    point: PathBuf,
    #[arg(long, default_value_t)]
    scheme: BucketScheme,
    /// The least that a FUSE file system can be
    #[arg(long)]
    bare: bool,
}

/// One way's figures in directories of all sizes.
pub struct Measured {
    kind: Kind,
    way: Way,
    /// Articles, times when everything is cached, and when nothing is.
    sizes: Vec<(u64, Times, Times)>,
    /// Seconds of the work of table 2, where that is asked.
    builds: Option<f64>,
}

pub fn serve(options: &MountOptions) -> Verdict {
    way::serve(&options.lower, &options.point, options.scheme, options.bare).map(|()| true)
}

pub fn run(options: &Options) -> Verdict {
    if !rustix::process::geteuid().is_root() {
        return Err("mounting takes root".into());
    }
    let sizes: Vec<u32> = match options.full {
        true => (0..=19).collect(),
        false => (0..=options.largest).rev().step_by(2).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    fs::create_dir_all(&options.dir)?;
    let begun = Instant::now();
    let mut holds = true;
    for part in &options.parts {
        let (table, plots, part_holds) = match part {
            Part::Unindexed => directories(Kind::Unindexed, options, &sizes)?,
            Part::Ext4 => directories(Kind::Ext4, options, &sizes)?,
            Part::Xfs => directories(Kind::Xfs, options, &sizes)?,
            Part::Day => match day::measure(&options.day, &options.dir, options.port, options.full)? {
                Some(figure) => {
                    let plots = vec![("usenetfs-day.svg".to_owned(), day::plot(&figure))];
                    (day::markdown(&figure), plots, day::is_fair(&figure))
                }
                None => continue,
            },
            Part::Spool => {
                let found = spool_mount::measure(&options.spool, &options.dir, options.port, options.full)?;
                (spool_mount::markdown(&found), Vec::new(), spool_mount::holds(&found))
            }
        };
        print!("{table}");
        println!("{:.0} s since the beginning", begun.elapsed().as_secs_f64());
        if let Some(docs) = &options.docs {
            page::put_table(&docs.join("usenetfs.md"), &part.command(), table.trim_end())?;
            for (name, drawn) in plots {
                fs::write(docs.join(name), drawn)?;
            }
        }
        holds &= part_holds;
    }
    Ok(holds)
}

/// A table, plots by name, and whether what was promised holds.
type Found = (String, Vec<(String, String)>, bool);

fn directories(
    kind: Kind,
    options: &Options,
    sizes: &[u32],
) -> Result<Found, Box<dyn std::error::Error + Send + Sync>> {
    let all = measure(kind, &options.dir, sizes)?;
    Ok((report::markdown(&all), report::plots(&all), report::holds(&all)))
}

/// All ways on one file system.
fn measure(
    kind: Kind,
    dir: &Path,
    sizes: &[u32],
) -> Result<Vec<Measured>, Box<dyn std::error::Error + Send + Sync>> {
    let files: u64 = sizes.iter().map(|size| 1u64 << size).sum();
    let schemes: Vec<BucketScheme> = Way::ALL
        .into_iter()
        .filter_map(|way| if let Way::Managed(scheme) = way { Some((way, scheme)) } else { None })
        .filter(|(way, _)| way.is_possible(kind))
        .map(|(_, scheme)| scheme)
        .collect();
    // A block of data for each file, and what directories and their buckets take.
    let buckets = (schemes.len() * sizes.len() * 11_000) as u64;
    let bytes = (files + buckets) * 4096 * 3 / 2 + (files * schemes.len() as u64) * 128 + (600 << 20);
    let mut volume = Volume::make(kind, dir, bytes, files + buckets + 100_000)?;
    fill(volume.point(), sizes, &schemes)?;
    volume.drop_index()?;
    let point = dir.join("mount");
    let mut all = Vec::new();
    for way in Way::ALL.into_iter().filter(|way| way.is_possible(kind)) {
        let mut rng = Rng::new(1, 0);
        let mut measured = Measured { kind, way, sizes: Vec::new(), builds: None };
        volume.cool()?;
        let reached = Reached::new(way, &volume.point().join(way.tree()), &point)?;
        let articles = |size: u32| reached.root().join(size.to_string());
        let cold: Vec<Times> = sizes
            .iter()
            .map(|size| work::lookups(way, &articles(*size), 1 << size, &mut rng))
            .collect::<Result<_, _>>()?;
        for (size, cold) in sizes.iter().zip(cold) {
            let warm = work::all(way, &articles(*size), 1 << size, &mut rng)?;
            measured.sizes.push((1 << size, warm, cold));
        }
        drop(reached);
        all.push(measured);
    }
    for (way, seconds) in builds(kind, volume.point(), dir)? {
        let mut of_way = all.iter_mut().filter(|measured| measured.way == way);
        of_way.by_ref().for_each(|measured| measured.builds = Some(seconds));
    }
    drop(volume);
    // It is empty, or somebody else's.
    let _left = fs::remove_dir(point);
    Ok(all)
}

/// Table 2: the least of [`BUILDS`] on each way to the flat tree. The ways take turns, so that what else the
/// machine does slows them all.
fn builds(
    kind: Kind,
    volume: &Path,
    dir: &Path,
) -> Result<Vec<(Way, f64)>, Box<dyn std::error::Error + Send + Sync>> {
    let ways = [Way::Flat, Way::Bare, Way::Bindfs, Way::Unmanaged];
    let point = |n: usize| dir.join(format!("mount{n}"));
    let mut all = Vec::new();
    for (n, way) in ways.into_iter().enumerate().filter(|(_, way)| way.is_possible(kind)) {
        all.push((way, Reached::new(way, &volume.join(way.tree()), &point(n))?, f64::INFINITY));
    }
    for _ in 0..BUILDS {
        for (_, reached, least) in &mut all {
            *least = least.min(work::build(reached.root())?);
        }
    }
    let found = all.into_iter().map(|(way, _, least)| (way, least)).collect();
    for n in 0..ways.len() {
        // It is empty, or there is none.
        let _left = fs::remove_dir(point(n));
    }
    Ok(found)
}

/// Makes the articles, once flat, and as hard links in the buckets of each scheme.
fn fill(root: &Path, sizes: &[u32], schemes: &[BucketScheme]) -> std::io::Result<()> {
    let mut text = [0; ARTICLE_BYTES];
    let mut rng = Rng::new(7, 0);
    for size in sizes {
        let flat = root.join(FLAT).join(size.to_string());
        fs::create_dir_all(&flat)?;
        let managed: Vec<_> =
            schemes.iter().map(|scheme| root.join(way::scheme_dir(*scheme)).join(size.to_string())).collect();
        for dir in &managed {
            fs::create_dir_all(dir)?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o4755))?;
        }
        for number in 1..=1u64 << size {
            let name = number.to_string();
            for bytes in text.chunks_mut(8) {
                bytes.copy_from_slice(&rng.next().to_le_bytes());
            }
            File::create_new(flat.join(&name))?.write_all(&text)?;
            for (scheme, dir) in schemes.iter().zip(&managed) {
                let bucket = dir.join(scheme.bucket(name.as_bytes()).as_str());
                if !bucket.exists() {
                    fs::create_dir_all(&bucket)?;
                }
                fs::hard_link(flat.join(&name), bucket.join(&name))?;
            }
        }
    }
    Ok(())
}
