//! What is measured in one directory: figures 3, 4 and 5 of the paper, and missing names.

use super::way::Way;
use crate::rng::Rng;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// Look-ups, additions and deletions of one measurement.
pub const TIMES: u64 = 1000;
/// Bytes of an article.
pub const ARTICLE_BYTES: usize = 2048;
/// Passes over a listing, of which the quickest counts.
const LISTINGS: usize = 3;

/// Seconds of each measurement in a directory; of look-ups and changes, of [`TIMES`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    pub random: f64,
    pub sequential: f64,
    pub missing: f64,
    pub added: f64,
    pub removed: f64,
    pub listed: f64,
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Look-ups of what is there, in an order.
fn look_up(way: Way, dir: &Path, numbers: impl Iterator<Item = u64>) -> io::Result<f64> {
    let paths: Vec<_> = numbers.map(|number| way.path(dir, number)).collect();
    timed(|| paths.iter().try_for_each(|path| fs::symlink_metadata(path).map(drop)))
}

/// The look-ups alone: what a directory costs that is in no cache.
pub fn lookups(way: Way, dir: &Path, files: u64, rng: &mut Rng) -> io::Result<Times> {
    let random: Vec<u64> = (0..TIMES).map(|_| 1 + rng.below(files)).collect();
    Ok(Times {
        random: look_up(way, dir, random.into_iter())?,
        sequential: look_up(way, dir, (0..TIMES).map(|n| 1 + n % files))?,
        ..Times::default()
    })
}

/// Everything, with a directory that was used just now; what was added is removed again.
pub fn all(way: Way, dir: &Path, files: u64, rng: &mut Rng) -> io::Result<Times> {
    let mut times = lookups(way, dir, files, rng)?;
    times.missing = timed(|| {
        (0..TIMES).try_for_each(|n| match fs::symlink_metadata(way.path(dir, files + TIMES * 9 + n * 7)) {
            Ok(_) => Err(io::Error::other("a name that was to be missing")),
            Err(_) => Ok(()),
        })
    })?;
    times.listed = f64::INFINITY;
    for _ in 0..LISTINGS {
        times.listed = times.listed.min(timed(|| list(way, dir))?);
    }
    let text = [b'x'; ARTICLE_BYTES];
    times.added = timed(|| {
        (files + 1..=files + TIMES).try_for_each(|number| {
            let path = way.path(dir, number);
            let file = match File::create_new(&path) {
                // The method `bucketed` makes buckets as they are needed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && way == Way::Bucketed => {
                    fs::create_dir_all(path.parent().unwrap_or(dir))?;
                    File::create_new(&path)
                }
                made => made,
            };
            file?.write_all(&text)
        })
    })?;
    times.removed = remove_oldest(way, dir, files)?;
    (files + 1..=files + TIMES).try_for_each(|number| fs::remove_file(way.path(dir, number)))?;
    Ok(times)
}

/// Removes the oldest articles, and puts them back, which is not counted.
fn remove_oldest(way: Way, dir: &Path, files: u64) -> io::Result<f64> {
    let aside = dir.with_extension("aside");
    fs::create_dir(&aside)?;
    let oldest = 1..=TIMES.min(files);
    let kept = |number: u64| aside.join(format!("kept-{number}"));
    oldest.clone().try_for_each(|number| fs::hard_link(way.path(dir, number), kept(number)))?;
    let time = timed(|| oldest.clone().try_for_each(|number| fs::remove_file(way.path(dir, number))))?;
    oldest.clone().try_for_each(|number| fs::rename(kept(number), way.path(dir, number)))?;
    fs::remove_dir(aside)?;
    Ok(time * TIMES as f64 / TIMES.min(files) as f64)
}

fn list(way: Way, dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if way == Way::Bucketed && entry.file_type()?.is_dir() {
            for inner in fs::read_dir(entry.path())? {
                inner?;
            }
        }
    }
    Ok(())
}

/// Table 2's question, with a build's kind of work in directories that are not managed: a tree of sources is
/// made, looked at, read, renamed and removed. Seconds.
pub fn build(dir: &Path) -> io::Result<f64> {
    let text = [b'x'; ARTICLE_BYTES];
    let file = |d: usize, n: usize| dir.join(format!("build-{d}/source-{n}.c"));
    timed(|| {
        for d in 0..20 {
            fs::create_dir(dir.join(format!("build-{d}")))?;
            for n in 0..50 {
                File::create_new(file(d, n))?.write_all(&text)?;
            }
        }
        for _ in 0..3 {
            for (d, n) in (0..20).flat_map(|d| (0..50).map(move |n| (d, n))) {
                fs::metadata(file(d, n))?;
                fs::read(file(d, n))?;
            }
        }
        for d in 0..20 {
            for n in 0..50 {
                fs::rename(file(d, n), file(d, n).with_extension("o"))?;
                fs::remove_file(file(d, n).with_extension("o"))?;
            }
            fs::remove_dir(dir.join(format!("build-{d}")))?;
        }
        Ok(())
    })
}
