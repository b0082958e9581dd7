//! Changes that simulated clients ask for, and the spools of simulated members.

use crate::entry::{Section, SectionWriter};
use crate::fold::Fold;
use disk::SimRandom;
use netnews::overview_row::OverviewFields;
use netnews::{Article, Known};
use spool::{
    ArticleGroups, ArticleIdent, BufferConfig, Change, ClassConfig, Criteria, Durability, GroupChange,
    GroupFlag, GroupUpdate, HistoryShape, MethodKind, NewArticle, NewGroup, OverviewShape, RowFacts,
    RuleConfig, SpoolConfig, TaggedFields,
};
use std::path::PathBuf;
use std::time::Duration;

/// Groups that come and go.
pub(super) const GROUPS: u64 = 5;
/// Time since which hides are distinguished.
const REASON: &str = "why";

/// A change that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimChange {
    /// A copy of an article: no two have the same Path.
    Article {
        number: u64,
        copy: u64,
    },
    Remember(u64),
    Cancel(u64),
    /// The article leaves the first of its groups.
    Leave(u64),
    Hide(u64),
    Unhide(u64),
    AddGroup(u64),
    RemoveGroup(u64),
    FlagGroup(u64, GroupFlag),
    RaiseHigh(u64, u64),
    Site(u64),
}

impl SimChange {
    /// Draws a change; `next` is the number of the next article.
    pub fn draw(random: &mut SimRandom, next: &mut u64) -> Self {
        let any = random.below(*next + 1);
        let group = random.below(GROUPS);
        match random.below(60) {
            0..36 => {
                *next += 1;
                Self::Article { number: *next, copy: 0 }
            }
            36..44 => Self::Article { number: any, copy: 0 },
            44..46 => Self::Remember(any),
            46..48 => Self::Cancel(any),
            48 => Self::Leave(any),
            49..51 => Self::Hide(any),
            51..53 => Self::Unhide(any),
            53..55 => Self::AddGroup(group),
            55 => Self::RemoveGroup(group),
            56 => Self::FlagGroup(group, [GroupFlag::Open, GroupFlag::Moderated][random.up_to(1)].clone()),
            57 => Self::RaiseHigh(group, random.below(200)),
            _ => Self::Site(random.below(12)),
        }
    }
}

/// Returns the name of a group.
pub(super) fn group(number: u64) -> String {
    format!("sim.g{number}")
}

/// Returns a Message-ID.
pub(super) fn message_id(number: u64) -> String {
    format!("<{number}@sim.example>")
}

/// Returns the Path of a copy of an article.
pub(super) fn path(copy: u64) -> String {
    format!("copy{copy}!not-for-mail")
}

/// Returns the groups of an article.
fn groups_of(number: u64) -> Vec<String> {
    let mix = mixed(number);
    let mut groups = vec![group(mix % GROUPS)];
    if mix.is_multiple_of(5) {
        groups.push(group((mix + 1) % GROUPS));
    }
    groups
}

fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// An article with what its change borrows.
struct SimArticle {
    id: String,
    groups: Vec<String>,
    wire: Vec<u8>,
    tagged: Vec<u8>,
    header_bytes: usize,
}

impl SimArticle {
    fn new(number: u64, copy: u64, sites: &[String]) -> Self {
        let mix = mixed(number);
        let id = message_id(number);
        let groups = groups_of(number);
        let mut wire = format!(
            "Path: {}\r\nFrom: a@x.example\r\nNewsgroups: {}\r\nSubject: number {number}\r\nMessage-ID: {id}\r\n\
             Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n",
            path(copy),
            groups.join(",")
        )
        .into_bytes();
        let header_bytes = wire.len();
        // A few are large, so that they come in parts.
        let lines = if mix.is_multiple_of(13) { 120 } else { 2 + mix % 8 };
        for line in 0..lines {
            wire.extend_from_slice(format!("line {line} of {number}\r\n").as_bytes());
        }
        let wants = (!sites.is_empty()).then(|| 1u8 << (mix % sites.len() as u64 % 8));
        let mut tagged = Vec::new();
        let wire_bytes = wire.len() as u64;
        let hidden = mix.is_multiple_of(11).then_some(("filter", "spam"));
        let path = path(copy);
        let sites: Vec<u8> = wants.into_iter().collect();
        RowFacts {
            wire_bytes,
            path: path.as_bytes(),
            origin: "peer x",
            hidden,
            sites: &sites,
            ..RowFacts::default()
        }
        .put(&mut tagged);
        Self { id, groups, wire, tagged, header_bytes }
    }
}

/// Returns the sections in which a member proposes these changes; `time` is the member's.
pub(super) fn sections(changes: &[SimChange], fold: &Fold, time: u32, uploads: u64) -> Vec<Section> {
    let sites = fold.sites();
    let mut writer = SectionWriter::default();
    let mut upload = uploads;
    let mut draw = || {
        upload += 1;
        upload
    };
    for change in changes {
        let id;
        match change {
            SimChange::Article { number, copy } => {
                let article = SimArticle::new(*number, *copy, sites);
                let names: Vec<&[u8]> = article.groups.iter().map(String::as_bytes).collect();
                let parsed = Article::parse(&article.wire).unwrap();
                let message_id_at =
                    article.wire.windows(article.id.len()).position(|w| w == article.id.as_bytes()).unwrap();
                let new = NewArticle {
                    message_id: article.id.as_bytes(),
                    key: None,
                    pieces: &[&article.wire],
                    header_bytes: article.header_bytes,
                    message_id_at,
                    groups: ArticleGroups::Named(&names),
                    numbers: &[],
                    fields: OverviewFields::of(&parsed, article.id.as_bytes()),
                    arrived: u64::from(time),
                    expires: None,
                    criteria: Criteria {
                        from: parsed.header(Known::From).unwrap(),
                        head: parsed.head(),
                        ..Criteria::default()
                    },
                    tagged: TaggedFields::new(&article.tagged).unwrap(),
                };
                writer.push(&Change::Article(new), sites, &mut draw).unwrap();
            }
            SimChange::Remember(number) => {
                id = message_id(*number);
                let change =
                    Change::Remember { id: ArticleIdent::Id(id.as_bytes()), arrived: u64::from(time) };
                writer.push(&change, sites, &mut draw).unwrap();
            }
            SimChange::Cancel(number) => {
                id = message_id(*number);
                let change = Change::Cancel { id: ArticleIdent::Id(id.as_bytes()) };
                writer.push(&change, sites, &mut draw).unwrap();
            }
            SimChange::Leave(number) => {
                let key = fold.spool().key(message_id(*number).as_bytes());
                let groups = groups_of(*number);
                let change = Change::Expire { id: ArticleIdent::Key(key), groups: &groups[..1] };
                writer.push(&change, sites, &mut draw).unwrap();
            }
            SimChange::Hide(number) => {
                id = message_id(*number);
                let change =
                    Change::Hide { message_id: id.as_bytes(), by: "operator", reason: REASON, since: 0 };
                writer.push(&change, sites, &mut draw).unwrap();
            }
            SimChange::Unhide(number) => {
                id = message_id(*number);
                let change = Change::Unhide { id: ArticleIdent::Id(id.as_bytes()) };
                writer.push(&change, sites, &mut draw).unwrap();
            }
            SimChange::Site(number) => {
                let name = format!("peer{number}");
                writer.push(&Change::Site { name: &name }, sites, &mut draw).unwrap();
            }
            groups => {
                let update = match groups {
                    SimChange::AddGroup(number) => GroupUpdate::Add(NewGroup {
                        name: group(*number),
                        created: u64::from(time),
                        ..NewGroup::default()
                    }),
                    SimChange::RemoveGroup(number) => GroupUpdate::Remove(group(*number)),
                    SimChange::FlagGroup(number, flag) => {
                        let flag = Some(flag.clone());
                        GroupUpdate::Change(group(*number), GroupChange { flag, description: None })
                    }
                    SimChange::RaiseHigh(number, high) => GroupUpdate::RaiseHigh(group(*number), *high),
                    other => unreachable!("{other:?} is about no group"),
                };
                writer.push(&Change::Groups(&[update]), sites, &mut draw).unwrap();
            }
        }
    }
    writer.finish()
}

/// Returns the configuration of a member's spool: no two have the same buffers and files.
pub(super) fn spool_config(random: &mut SimRandom) -> SpoolConfig {
    let dir = PathBuf::from("/s");
    let names: Vec<String> = (0..1 + random.below(3)).map(|n| format!("b{n}")).collect();
    let mut config = SpoolConfig::new(&dir);
    config.path_identity = "sim.example".into();
    config.buffers = names
        .iter()
        .map(|name| BufferConfig {
            name: name.clone(),
            path: dir.join(format!("{name}.cyc")),
            size_bytes: 2 << 20,
            block_bytes: 512,
            retired: false,
        })
        .collect();
    config.classes = vec![ClassConfig {
        name: "all".into(),
        method: MethodKind::Cnfs,
        buffers: names,
        ..ClassConfig::default()
    }];
    config.rules = vec![RuleConfig { class: "all".into(), ..RuleConfig::default() }];
    config.durability = match random.below(3) {
        0 => Durability::Always,
        1 => Durability::Process,
        _ => Durability::Interval(Duration::from_secs(3_600)),
    };
    config.remember_secs = u64::MAX;
    config.article_bytes_max = 64 << 10;
    config.journal_file_bytes = 16 << 10 << random.below(3);
    config.checkpoint_rows = 20 + random.below(200);
    config.history = HistoryShape::small(8, 3);
    config.overview = OverviewShape { block_text_bytes: 600 << random.below(4), segment_bytes: 64 << 10 };
    // The key of a Message-ID may be in the log.
    config.secret = Some(*b"one for them all");
    config
}
