//! Many articles: the batches again and again with other articles, until a spool has as many as the paper's
//! server kept (CNFS-42: 180,000 a day for three days). What `hashed` costs depends on how many files its
//! directories have.

use super::batches::Maker;
use super::measuring::feed;
use super::meter::{self, Counters};
use super::subject::{Subject, Workshop};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

/// What is compared.
const METHODS: [&str; 3] = ["cnfs", "tradspool", "hashed"];
/// Size of each of two buffers: all articles fit into them.
const BUFFER_MIB: u64 = 1024;

/// What was measured of a method.
#[derive(Debug)]
pub struct Many {
    method: &'static str,
    /// Articles a second of the first round of batches, and of the last.
    first: f64,
    last: f64,
    /// For each article.
    disk_writes: f64,
    disk_kb: f64,
    /// Directories with files of articles in them, and most files of one; none where articles have no files.
    directories: Option<(u64, u64, f64)>,
}

/// Files this many articles in each method that is among the subjects; nothing if there are to be none.
pub fn measure(
    workshop: &Workshop<'_>,
    subjects: &[Subject],
    maker: &Maker,
    articles: usize,
) -> io::Result<Vec<Many>> {
    if articles == 0 {
        return Ok(Vec::new());
    }
    let there = Workshop {
        binary: workshop.binary.clone(),
        groups: workshop.groups.clone(),
        buffer_mib: BUFFER_MIB,
        ..*workshop
    };
    let mut all = Vec::new();
    for method in METHODS.into_iter().filter(|method| subjects.contains(&Subject::Newsreel(method))) {
        eprintln!("lab: {articles} articles in {method}");
        all.push(one(&there, method, maker, articles)?);
        fs::remove_dir_all(there.place(&Subject::Newsreel(method)))?;
    }
    Ok(all)
}

fn one(workshop: &Workshop<'_>, method: &'static str, maker: &Maker, articles: usize) -> io::Result<Many> {
    let server = workshop.start(&Subject::Newsreel(method))?;
    meter::sync(&server.dir)?;
    let before = Counters::read(server.pid, &server.dir)?;
    let (mut rates, mut sent, mut round) = (Vec::new(), 0, 0);
    while sent < articles {
        let made = maker.batches(round);
        let mut seconds = 0.0;
        for batch in &made.batches {
            seconds += feed(workshop, batch)?.as_secs_f64();
        }
        rates.push(made.articles() as f64 / seconds);
        sent += made.articles();
        round += 1;
    }
    meter::sync(&server.dir)?;
    let counted = Counters::read(server.pid, &server.dir)?.since(&before);
    let each = |n: u64| n as f64 / sent as f64;
    let directories = if method == "cnfs" { None } else { Some(directories(&server.dir)?) };
    server.stop()?;
    Ok(Many {
        method,
        first: rates.first().copied().unwrap_or_default(),
        last: rates.last().copied().unwrap_or_default(),
        disk_writes: each(counted.disk_writes),
        disk_kb: each(counted.disk_bytes) / 1024.0,
        directories,
    })
}

/// Directories below `dir` that have files and no directories, as those of articles: how many, most files of
/// one, files of one on average.
fn directories(dir: &Path) -> io::Result<(u64, u64, f64)> {
    let (mut count, mut most, mut all) = (0, 0, 0);
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        let (mut files, mut below) = (0, 0);
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                below += 1;
                left.push(entry.path());
            } else {
                files += 1;
            }
        }
        if files > 0 && below == 0 {
            (count, most, all) = (count + 1, most.max(files), all + files);
        }
    }
    Ok((count, most, all as f64 / f64::max(count as f64, 1.0)))
}

/// For the page.
pub fn markdown(all: &[Many], articles: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n### {articles} articles\n\n| newsreel | articles/s at first | at the end | disk writes | \
         disk KB | directories | files in one | most |\n|---|{}\n",
        "---:|".repeat(7)
    );
    for many in all {
        let directories = many.directories.map_or_else(
            || "- | - | -".to_owned(),
            |(count, most, average)| format!("{count} | {average:.0} | {most}"),
        );
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.3} | {:.2} | {directories} |",
            many.method, many.first, many.last, many.disk_writes, many.disk_kb
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_articles_are_counted_and_those_above_them_are_not() {
        let dir = std::env::temp_dir().join(format!("lab-many-{}", std::process::id()));
        for (place, files) in [("spool/00", 3), ("spool/01", 1), ("spool/empty", 0)] {
            fs::create_dir_all(dir.join(place)).unwrap();
            (0..files).for_each(|n| fs::write(dir.join(place).join(n.to_string()), "").unwrap());
        }
        fs::write(dir.join("newsreel.toml"), "").unwrap();
        let counted = directories(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(counted.unwrap(), (2, 3, 2.0));
    }

    #[test]
    fn a_method_without_files_has_no_directories() {
        let many = |method, directories| Many {
            method,
            first: 10.0,
            last: 5.0,
            disk_writes: 1.5,
            disk_kb: 3.0,
            directories,
        };
        let text = markdown(&[many("cnfs", None), many("hashed", Some((4096, 150, 131.8)))], 540_000);
        assert!(text.contains("| cnfs | 10 | 5 | 1.500 | 3.00 | - | - | - |"), "{text}");
        assert!(text.contains("| hashed | 10 | 5 | 1.500 | 3.00 | 4096 | 132 | 150 |"), "{text}");
        assert_eq!(markdown(&[], 0), "");
    }
}
