//! Estimates of where articles would be stored, and how much space they would take, before anything is
//! stored.
//!
//! Based on a configuration alone, so that an import can be compared with the available space even while a
//! server has the spool open. Uses the same rules as `commit`. Called by `newsreel import`.

use crate::index::change::Criteria;
use crate::index::rules::{ArticleTraits, StorageRules};
use spool_base::config::SpoolConfig;
use spool_base::error::SpoolError;
use spool_methods::cnfs::record::{END, HEADER_BYTES};

/// Length of the Xref line without its entries: name, our path identity's share of Path, line end.
const XREF_BYTES: u64 = 8;
/// Approximate length of a number and its colon in Xref.
const NUMBER_BYTES: u64 = 6;

/// The rules and classes of a configuration.
#[derive(Debug)]
pub struct Estimator {
    rules: StorageRules,
    /// Storage unit of each class, in bytes.
    blocks: Vec<u64>,
    identity_bytes: u64,
}

/// An article that might be stored.
#[derive(Debug, Clone, Copy)]
pub struct ProspectiveArticle<'a> {
    /// Groups that it would be filed in, the primary one first.
    pub groups: &'a [&'a str],
    /// Length in wire format.
    pub wire_bytes: u64,
    /// Properties that rules test.
    pub criteria: Criteria<'a>,
    /// Seconds from its arrival to its Expires date.
    pub expires_in_secs: Option<u64>,
}

impl Estimator {
    /// Creates the estimator of a configuration.
    pub fn new(config: &SpoolConfig) -> Result<Self, SpoolError> {
        let class = |name: &str| config.classes.iter().position(|class| class.name == name);
        let block = |name: &String| config.buffers.iter().find(|b| b.name == *name).map(|b| b.block_bytes);
        let unit = |names: &[String]| names.iter().filter_map(block).map(u64::from).max().unwrap_or(1);
        Ok(Self {
            rules: StorageRules::new(&config.rules, class)?,
            blocks: config.classes.iter().map(|class| unit(&class.buffers)).collect(),
            identity_bytes: config.path_identity.len() as u64,
        })
    }

    /// Returns the class of an article, by its index in the configuration, and about how many bytes it takes
    /// there; `None` if no rule matches.
    pub fn place(&self, article: &ProspectiveArticle<'_>) -> Option<(usize, u64)> {
        let bits = |group: &&str| self.rules.group_bits(group.as_bytes());
        let traits = ArticleTraits {
            size_bytes: article.wire_bytes,
            groups: article.groups.len(),
            criteria: &article.criteria,
            expires_in_secs: article.expires_in_secs,
        };
        let first = article.groups.first().map_or(0, bits);
        let all = || article.groups.iter().map(bits).fold(0, |all, bits| all | bits);
        let class = self.rules.class(first, all, &traits)?;
        let names: u64 = article.groups.iter().map(|group| group.len() as u64 + NUMBER_BYTES).sum();
        let added = (HEADER_BYTES + END.len()) as u64 + XREF_BYTES + self.identity_bytes + names;
        let block = self.blocks.get(class).copied().unwrap_or(1).max(1);
        Some((class, (article.wire_bytes + added).next_multiple_of(block)))
    }
}
