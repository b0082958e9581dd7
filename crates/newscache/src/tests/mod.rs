//! Tests of the cache as a whole, on a simulated disk.

mod crash;
mod model;
mod purge;
mod rounds;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, SimDisk};

use crate::cache::Cache;
use crate::files::opening::OpeningReport;
use crate::settings::CacheSettings;
use crate::strategy::StrategyKind;

const DIR: &str = "/cache";

fn settings(size_bytes: u64) -> CacheSettings {
    CacheSettings { size_bytes, small_max: 16 << 10, strategy: StrategyKind::Lrua, negative_age: 60 }
}

fn open(sim: &SimDisk, settings: CacheSettings, now: u64) -> (Cache, OpeningReport) {
    Cache::open(Arc::new(sim.clone()), Path::new(DIR), settings, now).unwrap()
}

fn id(n: u64) -> Vec<u8> {
    format!("<{n}@example.org>").into_bytes()
}

/// Returns an article with a body of about this many bytes.
fn article(n: u64, body: usize) -> Vec<u8> {
    let line = format!("{n} ").repeat(20) + "\r\n";
    let mut text = format!(
        "Path: x!not-for-mail\r\nFrom: a{n}@example.org\r\nNewsgroups: a.b\r\nSubject: article {n}\r\n\
         Date: Thu, 01 Jan 2026 12:00:00 +0000\r\nMessage-ID: <{n}@example.org>\r\n\
         Xref: h a.b:{n}\r\n\r\n"
    );
    while text.len() < body {
        text.push_str(&line);
    }
    text.into_bytes()
}

/// Returns the row of this article.
fn row(n: u64, body: usize) -> Vec<u8> {
    let mut row = Vec::new();
    assert!(crate::index::loaded::append_row(n, &id(n), &article(n, body), &[], &mut row));
    row
}

fn rows(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(|n| row(n, 600)).collect()
}

/// Returns all plain files below a directory.
fn files(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = disk.list(dir).unwrap().iter().map(|name| dir.join(name)).collect();
    for below in disk.list_dirs(dir).unwrap() {
        found.extend(files(disk, &dir.join(below)));
    }
    found
}

/// Returns the size of articles and rows on the disk.
fn bytes_on(disk: &dyn Disk) -> u64 {
    let parts = ["groups", "large"].map(|part| files(disk, &Path::new(DIR).join(part)));
    parts.iter().flatten().map(|path| disk.about(path).unwrap().map_or(0, |about| about.bytes)).sum()
}
