//! A reader during the feed: random articles by number, compared with what was sent under their Message-ID.

use super::GROUPS;
use crate::articles::group_name;
use crate::client::Client;
use crate::feeder::Feed;
use crate::rng::Rng;
use std::io;
use std::sync::atomic::Ordering;

/// Articles read between two GROUP commands.
const READS: u64 = 8;

/// What the reader saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Answers that were not what was sent.
    pub wrong: Vec<String>,
    /// Group, number and article.
    pub numbers: Vec<(String, u64, u64)>,
}

/// Reads until the feed ends or the server dies.
pub fn watch(feed: &Feed<'_>) -> Seen {
    let mut seen = Seen::default();
    let mut rng = Rng::new(feed.clock.load(Ordering::Relaxed), u64::MAX);
    if let Ok(mut client) = Client::connect(&feed.address) {
        while !feed.stop.load(Ordering::Relaxed) {
            if read(feed, &mut client, &mut rng, &mut seen).is_err() {
                break;
            }
        }
    }
    seen
}

fn read(feed: &Feed<'_>, client: &mut Client, rng: &mut Rng, seen: &mut Seen) -> io::Result<()> {
    let group = group_name(rng.below(GROUPS));
    let (count, low, high) = client.group(&group)?;
    if count == 0 {
        return Ok(());
    }
    for _ in 0..READS {
        // Now and then among the oldest, which are being overwritten.
        let last = if rng.below(2) == 0 { low + (high - low) / 50 } else { high };
        let number = rng.between(low, last);
        let answer = client.command(&format!("ARTICLE {number}"))?;
        if !answer.starts_with("220") {
            continue;
        }
        let got = client.block()?;
        let id = answer.split(' ').nth(2).unwrap_or_default();
        match feed.generator.index_of(id.as_bytes()) {
            None => seen.wrong.push(format!("{group}:{number} under feed: {answer}")),
            Some(index) => {
                seen.numbers.push((group.clone(), number, index));
                match feed.generator.compare(index, crate::site::IDENTITY, &got) {
                    Ok(article) if article.numbers.contains(&(group.clone(), number)) => {}
                    Ok(article) => {
                        seen.wrong.push(format!("{group}:{number} under feed has Xref {:?}", article.numbers))
                    }
                    Err(error) => seen.wrong.push(format!("{group}:{number} {id} under feed: {error}")),
                }
            }
        }
    }
    Ok(())
}
