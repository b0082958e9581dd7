//! A configuration as it is being read: every value with its place in the file, absent where it was faulty.
//!
//! `read` fills it, `checks` looks at it as a whole, so that one fault does not hide the others; only a draft without
//! faults becomes a [`Config`](super::Config).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::access::AccessDraft;
use super::auth::{AuthDraft, AuthenticatorDraft};
use super::posting::{CancelDraft, ModerationDraft, ModeratorDraft, PostingDraft};
use super::{
    Buffer, Cidr, Class, Compression, Config, Distributions, Durability, Expire, GroupMatch, Groups,
    HeaderMatch, KnownCertificate, Limits, LineEnds, LogFormat, LogLevel, Method, Order, Peer, PeerTls, Rule,
    Site, Tls, UnknownGroups,
};

/// A value and its place; for a default, the place of its section's head.
#[derive(Debug)]
pub(super) struct At<T> {
    pub(super) value: Option<T>,
    pub(super) span: Range<usize>,
}

#[derive(Debug)]
pub(super) struct SiteDraft {
    pub(super) path_identity: At<String>,
    pub(super) organization: At<Option<String>>,
    pub(super) listen: At<Vec<String>>,
    pub(super) tls_listen: At<Vec<String>>,
    pub(super) data: At<String>,
    pub(super) lists: At<String>,
    pub(super) durability: At<Durability>,
    pub(super) max_age_days: At<Option<u32>>,
    pub(super) article_bytes_max: At<u64>,
    pub(super) remember_days: At<u64>,
    pub(super) unknown_groups: At<UnknownGroups>,
    pub(super) distributions: At<Distributions>,
    pub(super) journal_keep_bytes: At<u64>,
    pub(super) compress_overview_after: At<Duration>,
    pub(super) log_level: At<LogLevel>,
    pub(super) log_format: At<LogFormat>,
}

#[derive(Debug)]
pub(super) struct TlsDraft {
    pub(super) certificate: At<Vec<String>>,
    pub(super) key: At<Vec<String>>,
    pub(super) client_ca: At<Option<String>>,
}

#[derive(Debug)]
pub(super) struct LimitsDraft {
    pub(super) connections_max: At<u64>,
    pub(super) connections_per_address_max: At<u64>,
    pub(super) idle_timeout: At<Duration>,
    pub(super) command_timeout: At<Duration>,
    pub(super) write_timeout: At<Duration>,
    pub(super) receive_bytes_from_peers_max: At<u64>,
    pub(super) receive_bytes_from_posters_max: At<u64>,
    pub(super) receive_bytes_per_address_max: At<u64>,
    pub(super) receive_bytes_per_user_max: At<u64>,
}

#[derive(Debug)]
pub(super) struct BufferDraft {
    pub(super) name: At<String>,
    pub(super) path: At<String>,
    pub(super) size: At<Option<u64>>,
    pub(super) block: At<u64>,
    pub(super) retired: At<bool>,
}

#[derive(Debug)]
pub(super) struct ClassDraft {
    pub(super) head: Range<usize>,
    pub(super) name: At<String>,
    pub(super) method: At<Method>,
    pub(super) buffers: At<Vec<String>>,
    pub(super) order: At<Order>,
    pub(super) size: At<u64>,
    pub(super) compress: At<Compression>,
    pub(super) compress_level: At<u64>,
    pub(super) path: At<Option<String>>,
    pub(super) file_size: At<u64>,
    pub(super) files_max: At<u64>,
    pub(super) line_ends: At<LineEnds>,
    pub(super) keep_at_least: At<Option<Duration>>,
    pub(super) overflow: At<Option<String>>,
    pub(super) keep_target: At<Option<Duration>>,
}

#[derive(Debug)]
pub(super) struct ExpireDraft {
    pub(super) groups: At<Option<Groups>>,
    pub(super) class: At<Option<String>>,
    pub(super) keep: At<Option<Duration>>,
    pub(super) keep_min: At<Option<Duration>>,
    pub(super) keep_max: At<Option<Duration>>,
}

#[derive(Debug)]
pub(super) struct RuleDraft {
    pub(super) head: Range<usize>,
    pub(super) class: At<String>,
    pub(super) groups: At<Option<Groups>>,
    pub(super) group_match: At<GroupMatch>,
    pub(super) larger_than: At<Option<u64>>,
    pub(super) smaller_than: At<Option<u64>>,
    pub(super) crossposts_at_least: At<Option<u64>>,
    pub(super) from: At<Option<Groups>>,
    pub(super) path: At<Option<String>>,
    pub(super) header: At<Option<Vec<HeaderMatch>>>,
    pub(super) verdict: At<Option<String>>,
    pub(super) origin: At<Option<String>>,
    pub(super) expires_within: At<Option<Duration>>,
    pub(super) expires_beyond: At<Option<Duration>>,
}

#[derive(Debug)]
pub(super) struct PeerDraft {
    pub(super) name: At<String>,
    pub(super) addresses: At<Vec<Cidr>>,
    pub(super) certificate: At<Vec<KnownCertificate>>,
    pub(super) tls: At<PeerTls>,
    pub(super) user: At<Option<String>>,
    pub(super) accept: At<Groups>,
    pub(super) distributions: At<Distributions>,
    pub(super) max_connections: At<u64>,
    pub(super) streaming: At<bool>,
}

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) site: SiteDraft,
    pub(super) tls: TlsDraft,
    pub(super) limits: LimitsDraft,
    pub(super) buffers: Vec<BufferDraft>,
    pub(super) classes: Vec<ClassDraft>,
    pub(super) rules: Vec<RuleDraft>,
    pub(super) expire: Vec<ExpireDraft>,
    pub(super) peers: Vec<PeerDraft>,
    pub(super) auth: AuthDraft,
    pub(super) authenticators: Vec<AuthenticatorDraft>,
    pub(super) access: Vec<AccessDraft>,
    pub(super) posting: PostingDraft,
    pub(super) cancel: CancelDraft,
    pub(super) moderation: ModerationDraft,
    pub(super) moderators: Vec<ModeratorDraft>,
}

impl RuleDraft {
    /// Whether every article meets it.
    pub(super) fn matches_everything(&self) -> bool {
        fn none<T>(condition: &At<Option<T>>) -> bool {
            matches!(condition.value, Some(None))
        }
        let every_group = match &self.groups.value {
            Some(None) => true,
            Some(Some(groups)) => groups.as_str() == "*",
            None => false,
        };
        every_group
            && none(&self.larger_than)
            && none(&self.smaller_than)
            && none(&self.crossposts_at_least)
            && none(&self.from)
            && none(&self.path)
            && none(&self.header)
            && none(&self.verdict)
            && none(&self.origin)
            && none(&self.expires_within)
            && none(&self.expires_beyond)
    }
}

impl Draft {
    /// The configuration; `None` if a value is absent, which then was reported as a fault.
    pub(super) fn finish(self, file: &Path) -> Option<Config> {
        let site = self.site.finish(file)?;
        let data = site.data.clone();
        Some(Config {
            file: file.to_owned(),
            site,
            tls: self.tls.finish(file)?,
            limits: self.limits.finish()?,
            buffers: self.buffers.into_iter().map(|draft| draft.finish(&data)).collect::<Option<_>>()?,
            classes: self.classes.into_iter().map(|draft| draft.finish(&data)).collect::<Option<_>>()?,
            rules: self.rules.into_iter().map(RuleDraft::finish).collect::<Option<_>>()?,
            expire: self.expire.into_iter().map(ExpireDraft::finish).collect::<Option<_>>()?,
            peers: self.peers.into_iter().map(PeerDraft::finish).collect::<Option<_>>()?,
            auth: self.auth.finish()?,
            authenticators: self
                .authenticators
                .into_iter()
                .map(AuthenticatorDraft::finish)
                .collect::<Option<_>>()?,
            access: self.access.into_iter().map(AccessDraft::finish).collect::<Option<_>>()?,
            posting: self.posting.finish()?,
            cancel: self.cancel.finish()?,
            moderation: self.moderation.finish()?,
            moderators: self.moderators.into_iter().map(ModeratorDraft::finish).collect::<Option<_>>()?,
        })
    }
}

/// The directory that `data` names in a configuration file; the current directory's part stays out of it.
pub(super) fn data_dir(file: &Path, data: &str) -> PathBuf {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if data == "." { dir.to_owned() } else { dir.join(data) }
}

impl SiteDraft {
    fn finish(self, file: &Path) -> Option<Site> {
        Some(Site {
            path_identity: self.path_identity.value?,
            organization: self.organization.value?,
            listen: self.listen.value?,
            tls_listen: self.tls_listen.value?,
            data: data_dir(file, &self.data.value?),
            lists: data_dir(file, &self.lists.value?),
            durability: self.durability.value?,
            max_age_days: self.max_age_days.value?,
            article_bytes_max: self.article_bytes_max.value?,
            remember_days: u32::try_from(self.remember_days.value?).ok()?,
            unknown_groups: self.unknown_groups.value?,
            distributions: self.distributions.value?,
            journal_keep_bytes: self.journal_keep_bytes.value?,
            compress_overview_after: self.compress_overview_after.value?,
            log_level: self.log_level.value?,
            log_format: self.log_format.value?,
        })
    }
}

impl TlsDraft {
    fn finish(self, file: &Path) -> Option<Tls> {
        let paths = |texts: Vec<String>| texts.iter().map(|text| data_dir(file, text)).collect();
        Some(Tls {
            certificate: self.certificate.value.map(paths)?,
            key: self.key.value.map(paths)?,
            client_ca: self.client_ca.value?.map(|text| data_dir(file, &text)),
        })
    }
}

impl LimitsDraft {
    fn finish(self) -> Option<Limits> {
        Some(Limits {
            connections_max: usize::try_from(self.connections_max.value?).ok()?,
            connections_per_address_max: usize::try_from(self.connections_per_address_max.value?).ok()?,
            idle_timeout: self.idle_timeout.value?,
            command_timeout: self.command_timeout.value?,
            write_timeout: self.write_timeout.value?,
            receive_bytes_from_peers_max: self.receive_bytes_from_peers_max.value?,
            receive_bytes_from_posters_max: self.receive_bytes_from_posters_max.value?,
            receive_bytes_per_address_max: self.receive_bytes_per_address_max.value?,
            receive_bytes_per_user_max: self.receive_bytes_per_user_max.value?,
        })
    }
}

impl BufferDraft {
    fn finish(self, data: &Path) -> Option<Buffer> {
        Some(Buffer {
            name: self.name.value?,
            path: data.join(self.path.value?),
            size: self.size.value?,
            block: u32::try_from(self.block.value?).ok()?,
            retired: self.retired.value?,
        })
    }
}

impl ExpireDraft {
    fn finish(self) -> Option<Expire> {
        Some(Expire {
            groups: self.groups.value?,
            class: self.class.value?,
            keep: self.keep.value?,
            keep_min: self.keep_min.value?,
            keep_max: self.keep_max.value?,
        })
    }
}

impl ClassDraft {
    fn finish(self, data: &Path) -> Option<Class> {
        let name = self.name.value?;
        let method = self.method.value?;
        let path = self.path.value?.unwrap_or_else(|| format!("kept/{name}"));
        Some(Class {
            path: if method.keeps() { data.join(path) } else { PathBuf::new() },
            file_size: self.file_size.value?,
            files_max: self.files_max.value?,
            line_ends: self.line_ends.value?,
            name,
            method,
            buffers: self.buffers.value?,
            order: self.order.value?,
            size: self.size.value?,
            compress: self.compress.value?,
            compress_level: u8::try_from(self.compress_level.value?).ok()?,
            keep_at_least: self.keep_at_least.value?,
            overflow: self.overflow.value?,
            keep_target: self.keep_target.value?,
        })
    }
}

impl RuleDraft {
    fn finish(self) -> Option<Rule> {
        let crossposts_at_least = match self.crossposts_at_least.value? {
            Some(groups) => Some(usize::try_from(groups).ok()?),
            None => None,
        };
        Some(Rule {
            class: self.class.value?,
            groups: self.groups.value?,
            group_match: self.group_match.value?,
            larger_than: self.larger_than.value?,
            smaller_than: self.smaller_than.value?,
            crossposts_at_least,
            from: self.from.value?,
            path: self.path.value?,
            header: self.header.value?,
            verdict: self.verdict.value?,
            origin: self.origin.value?,
            expires_within: self.expires_within.value?,
            expires_beyond: self.expires_beyond.value?,
        })
    }
}

impl PeerDraft {
    fn finish(self) -> Option<Peer> {
        Some(Peer {
            name: self.name.value?,
            addresses: self.addresses.value?,
            certificate: self.certificate.value?,
            tls: self.tls.value?,
            user: self.user.value?,
            accept: self.accept.value?,
            distributions: self.distributions.value?,
            max_connections: usize::try_from(self.max_connections.value?).ok()?,
            streaming: self.streaming.value?,
        })
    }
}
