//! The spool's part of the configuration, in the spool's own types.

use std::time::Duration;

use super::{AgeBasis, ArticleCompression, Config, GroupMatch, LineEnds, NamePattern, RetentionTime};

const DAY_SECS: u64 = 86_400;

impl Config {
    /// Returns the spool's part of the configuration.
    pub fn spool_config(&self) -> spool::SpoolConfig {
        let mut config = spool::SpoolConfig::new(&self.site.data);
        config.path_identity.clone_from(&self.site.path_identity);
        config.buffers = self.buffers.iter().map(buffer).collect();
        config.classes = self.classes.iter().map(class).collect();
        config.rules = self.rules.iter().map(rule).collect();
        config.expire = self.expire.iter().map(expire).collect();
        config.durability = self.site.durability;
        config.remember_secs = u64::from(self.site.remember_days) * DAY_SECS;
        config.journal_keep_bytes = self.site.journal_keep_bytes;
        config.journal_claim_bytes = self.site.journal_claim_bytes;
        config.journal_claim_secs = u64::from(self.site.journal_claim_days) * DAY_SECS;
        config.overview_cold_secs = self.site.compress_overview_after.as_secs();
        config.overview_headers.clone_from(&self.site.overview_headers);
        config.hot_memory = spool::HotMemory::of(self.site.hot_memory);
        config.article_bytes_max = self.site.article_bytes_max;
        config
    }
}

fn buffer(buffer: &super::Buffer) -> spool::BufferConfig {
    spool::BufferConfig {
        name: buffer.name.clone(),
        path: buffer.path.clone(),
        size_bytes: buffer.size.unwrap_or(0),
        block_bytes: buffer.block,
        retired: buffer.retired,
    }
}

fn class(class: &super::Class) -> spool::ClassConfig {
    spool::ClassConfig {
        name: class.name.clone(),
        method: class.method,
        buffers: class.buffers.clone(),
        order: class.order,
        size_bytes: class.size,
        compress: (class.compress == ArticleCompression::Zstd).then(|| spool::CompressConfig {
            level: i32::from(class.compress_level),
            samples: spool::CompressConfig::SAMPLES_USUAL,
        }),
        tree: spool::TreeConfig {
            path: class.path.clone().unwrap_or_default(),
            file_bytes: class.file_size,
            files_max: class.files_max,
            lines_end_in_lf: class.line_ends == LineEnds::Lf,
            free_min: class.free_min,
        },
        floor: class.keep_at_least.map(|span| spool::Floor {
            keep_at_least_secs: span.as_secs(),
            overflow: class.overflow.clone(),
        }),
        ring_bytes: class.ring,
    }
}

fn expire(expire: &super::Expire) -> spool::ExpireConfig {
    let secs = |stay: RetentionTime| match stay {
        RetentionTime::Never => spool::NEVER,
        RetentionTime::For(span) => span.as_secs(),
    };
    let keep = expire.keep.map_or(spool::Retention::Forever, |keep| spool::Retention::Secs {
        min: expire.keep_min.map_or(0, secs),
        default: secs(keep),
        max: secs(expire.keep_max.unwrap_or(keep)),
    });
    spool::ExpireConfig {
        groups: expire.groups.as_ref().map(|groups| groups.as_str().to_owned()),
        class: expire.class.clone(),
        moderated: expire.moderated,
        keep,
        by_thread: expire.age == AgeBasis::Thread,
        from_all_groups: expire.from_all_groups,
        articles_max: expire.articles_max,
        bytes_max: expire.bytes_max,
    }
}

fn rule(rule: &super::Rule) -> spool::RuleConfig {
    let text = |groups: &Option<NamePattern>| groups.as_ref().map(|groups| groups.as_str().to_owned());
    let secs = |span: &Option<Duration>| span.map(|span| span.as_secs());
    spool::RuleConfig {
        class: rule.class.clone(),
        groups: text(&rule.groups),
        any_group: rule.group_match == GroupMatch::Any,
        larger_than: rule.larger_than,
        smaller_than: rule.smaller_than,
        crossposts_at_least: rule.crossposts_at_least,
        from: text(&rule.from),
        path: rule.path.clone(),
        headers: rule.header.clone().unwrap_or_default(),
        verdict: rule.verdict.clone(),
        origin: rule.origin.clone(),
        expires_within_secs: secs(&rule.expires_within),
        expires_beyond_secs: secs(&rule.expires_beyond),
        expires_absent: rule.expires_absent,
    }
}
