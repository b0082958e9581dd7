//! Fills a site's spool without its server, straight through the spool crate: millions of articles in
//! seconds.
//!
//! It stores what the server would have stored for the same articles, so they compare equal when read back.

use crate::articles::Generator;
use crate::site::{IDENTITY, Site};
use disk::RealDisk;
use disk::clock::unix_secs;
use netnews::overview_row::OverviewFields;
use netnews::{Article, Known};
use site_log::SiteLog;
use spool::{
    ArticleGroups, ArticleIdent, Change, ChangeMaker as _, ChangeOutcome, Durability, NewArticle, Spool,
};
use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Articles committed at once.
const BATCH: u64 = 256;
/// Remembered Message-IDs committed at once.
const REMEMBER_BATCH: u64 = 4096;

/// What the server adds at the beginning of an article, up to the Path's old value.
const PATH: &[u8] = b"Path: ";

/// Fills the spool of a site that is not served: articles `0..articles` of `generator`, and this many
/// Message-IDs that are only remembered.
pub fn fill(
    site: &Site,
    generator: &Generator,
    articles: u64,
    remembered: u64,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let began = Instant::now();
    let mut config = site_config::load(&site.config()).map_err(|error| error.to_string())?.spool_config();
    config.durability = Durability::Process;
    let (spool, _) = Spool::open(Arc::new(RealDisk::new()), config, &())?;
    let log = SiteLog::new(Arc::new(spool));
    let spool = log.spool();
    let mut outcomes = Vec::new();
    for start in (0..articles).step_by(BATCH as usize) {
        commit(&log, generator, start..articles.min(start + BATCH), &mut outcomes)?;
    }
    for start in (0..remembered).step_by(REMEMBER_BATCH as usize) {
        remember(&log, start..remembered.min(start + REMEMBER_BATCH), &mut outcomes)?;
    }
    let status = spool.meter().status()?;
    spool.close()?;
    println!(
        "filled with {} articles, {} history entries in {:.1?}",
        status.articles,
        status.history_entries,
        began.elapsed()
    );
    Ok(())
}

fn commit(
    log: &SiteLog,
    generator: &Generator,
    indexes: Range<u64>,
    outcomes: &mut Vec<ChangeOutcome>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut wires = Vec::new();
    let mut ranges = Vec::new();
    for index in indexes {
        let start = wires.len();
        generator.put(index, &mut wires);
        ranges.push(start..wires.len());
    }
    let name = format!("{IDENTITY}!");
    let mut drafts = Vec::new();
    for range in &ranges {
        let wire = wires.get(range.clone()).unwrap_or_default();
        let article = Article::parse(wire).map_err(|error| error.to_string())?;
        let groups: Vec<&[u8]> =
            netnews::newsgroups::split(article.header(Known::Newsgroups).unwrap_or_default()).collect();
        let pieces = [PATH, name.as_bytes(), wire.get(PATH.len()..).unwrap_or_default()];
        drafts.push((article, groups, pieces));
    }
    let arrived = unix_secs();
    let changes: Option<Vec<Change<'_>>> = drafts
        .iter()
        .map(|(article, groups, pieces)| {
            let value = |known| article.header(known).unwrap_or_default();
            let id = article.message_id()?.as_bytes();
            let id_at = article.header_lines(Known::MessageId)?.end - 2 - id.len();
            Some(Change::Article(NewArticle {
                key: None,
                message_id: id,
                pieces,
                header_bytes: article.body_offset() + name.len(),
                message_id_at: id_at + name.len(),
                groups: ArticleGroups::Named(groups),
                numbers: &[],
                fields: OverviewFields {
                    bytes: article.bytes() + name.len() as u64,
                    ..OverviewFields::of(article, id)
                },
                arrived,
                expires: None,
                criteria: spool::Criteria { from: value(Known::From), ..Default::default() },
                tagged: spool::TaggedFields::default(),
            }))
        })
        .collect();
    outcomes.clear();
    log.commit(&changes.ok_or("an article without Message-ID")?, outcomes)?;
    match outcomes.iter().find(|outcome| !matches!(outcome, ChangeOutcome::Filed(_))) {
        None => Ok(()),
        Some(outcome) => Err(format!("an article was not filed: {outcome:?}").into()),
    }
}

fn remember(
    log: &SiteLog,
    ids: Range<u64>,
    outcomes: &mut Vec<ChangeOutcome>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let arrived = unix_secs();
    let ids: Vec<String> = ids.map(|n| format!("<{n}@rejected.lab.example>")).collect();
    let idents = ids.iter().map(|id| ArticleIdent::Id(id.as_bytes()));
    let changes: Vec<Change<'_>> = idents.map(|id| Change::Remember { id, arrived }).collect();
    outcomes.clear();
    log.commit(&changes, outcomes)?;
    Ok(())
}
