//! Replay of a trace with one strategy at one size. Called by `simulate`.

use super::{RemovalUnit, SimulationPoint, Trace, TraceArticle};
use crate::base::record::HEADER_BYTES;
use crate::books::bookkeeping::{Bookkeeping, CacheFile, on_disk};
use crate::settings::CacheSettings;
use crate::strategy::{StrategyKind, UnitInfo, Victim};

/// Approximate length of a Message-ID.
const ID_BYTES: u64 = 40;

/// Replays a trace.
pub(super) fn replay(
    trace: &Trace,
    strategy: StrategyKind,
    size_bytes: u64,
    units: RemovalUnit,
) -> SimulationPoint {
    let mut point = SimulationPoint {
        strategy,
        size_bytes,
        requests: trace.requests.len() as u64,
        hits: 0,
        asked_bytes: trace.asked_bytes(),
        upstream_bytes: 0,
    };
    match units {
        RemovalUnit::Articles => by_article(trace, &mut point),
        RemovalUnit::Files => by_file(trace, &mut point),
    }
    point
}

fn by_article(trace: &Trace, point: &mut SimulationPoint) {
    let mut strategy = point.strategy.new_strategy();
    let item_of = |unit: u32, article: &TraceArticle| UnitInfo {
        key: unit.into(),
        group: article.group,
        bytes: article.bytes,
        expires: article.posted,
    };
    let mut is_here = vec![false; trace.articles.len()];
    // Cached articles of each group, and some that were removed.
    let mut groups: Vec<Vec<u32>> = vec![Vec::new(); trace.groups];
    let mut used = 0;
    for request in &trace.requests {
        let unit = request.article;
        let Some(article) = trace.articles.get(unit as usize) else { continue };
        if is_here.get(unit as usize) == Some(&true) {
            point.hits += 1;
            strategy.hit(unit, item_of(unit, article));
            continue;
        }
        point.upstream_bytes += article.bytes;
        if article.bytes > point.size_bytes {
            continue;
        }
        while used + article.bytes > point.size_bytes {
            let gone = match strategy.victim() {
                Some(Victim::Unit(unit)) => vec![unit],
                Some(Victim::Group(group)) => {
                    groups.get_mut(group as usize).map(std::mem::take).unwrap_or_default()
                }
                None => break,
            };
            for unit in gone {
                if let Some(is_here) = is_here.get_mut(unit as usize).filter(|is_here| **is_here)
                    && let Some(article) = trace.articles.get(unit as usize)
                {
                    *is_here = false;
                    strategy.remove(unit, item_of(unit, article));
                    used -= article.bytes;
                }
            }
        }
        used += article.bytes;
        is_here[unit as usize] = true;
        groups[article.group as usize].push(unit);
        strategy.insert(unit, item_of(unit, article));
    }
}

/// Replays the trace like the store, without its disk.
fn by_file(trace: &Trace, point: &mut SimulationPoint) {
    let settings =
        CacheSettings { size_bytes: point.size_bytes, strategy: point.strategy, ..CacheSettings::default() };
    let shape = settings.shape();
    let mut books = Bookkeeping::new(point.strategy, shape);
    // Location of each article, and the newest file of each group with its length.
    let mut places: Vec<Option<(u32, CacheFile)>> = vec![None; trace.articles.len()];
    let mut newest: Vec<Option<(u32, CacheFile, u64)>> = vec![None; trace.groups];
    let mut gone = Vec::new();
    for (n, request) in trace.requests.iter().enumerate() {
        let Some(article) = trace.articles.get(request.article as usize) else { continue };
        let place = places.get(request.article as usize).copied().flatten();
        if let Some((unit, file)) = place.filter(|(unit, file)| books.is_file(*unit, *file)) {
            point.hits += 1;
            books.hit(unit, file, request.at);
            continue;
        }
        point.upstream_bytes += article.bytes;
        if article.bytes > shape.article_bytes_max {
            continue;
        }
        let name = article.group.to_le_bytes();
        let slot = books.slot("trace", &name, request.at, |_| false).0;
        let (key, generation) = books.slots.get(slot as usize).map_or((0, 0), |s| (s.key, s.generation));
        gone.clear();
        if article.bytes > shape.large_above {
            let file = CacheFile::Large((u128::from(request.article) << 64) | u128::from(request.article));
            let bytes = article.bytes + 2 * HEADER_BYTES as u64;
            if books.reserve(on_disk(bytes), &mut gone) {
                books.release(on_disk(bytes));
                let unit = books.enter(slot, file, bytes, article.posted, request.at);
                places[request.article as usize] = Some((unit, file));
            }
            continue;
        }
        let bytes = (article.bytes + ID_BYTES + HEADER_BYTES as u64).next_multiple_of(8);
        let begun = newest[article.group as usize]
            .filter(|(unit, file, end)| books.is_file(*unit, *file) && end + bytes <= shape.segment_bytes);
        let end = begun.map_or(2 * HEADER_BYTES as u64, |(.., end)| end);
        let more = on_disk(end + bytes) - begun.map_or(0, |_| on_disk(end));
        if !books.reserve(more, &mut gone) {
            continue;
        }
        books.release(more);
        let grown = begun.filter(|(unit, file, _)| {
            books.grow(*unit, *file, end + bytes, u64::MAX, article.posted, request.at)
        });
        let (unit, file) = match grown {
            Some((unit, file, _)) => (unit, file),
            None => {
                let file = CacheFile::Segment { key, generation, seq: n as u32 };
                let bytes = 2 * HEADER_BYTES as u64 + bytes;
                (books.enter(slot, file, bytes, article.posted, request.at), file)
            }
        };
        let end = if grown.is_some() { end + bytes } else { 2 * HEADER_BYTES as u64 + bytes };
        newest[article.group as usize] = Some((unit, file, end));
        places[request.article as usize] = Some((unit, file));
    }
}
