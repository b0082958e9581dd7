//! Built-in filters (`[spam]`): based on an article itself, and on the rate of similar ones.
//!
//! Each check decides whether it would refuse an article; its mode decides the action. Counts are kept in
//! tables of fixed size (`counts`), fade within hours, and do not survive a restart. Called by `filters`.

mod body;
mod counts;
#[cfg(test)]
mod tests;

use super::Origin;
use super::opinions::Opinion;
use body::BodySketch;
use counts::{DecayingCounts, hash};
use netnews::article::ArticleTypes;
use netnews::{Article, Known, newsgroups};
use site_base::clock::unix_now;
use site_base::figures;
use site_base::lock::Leaf;
use site_base::units::grouped;
use site_config::{ConfigWord, Spam as SpamConfig, SpamMode};
use std::cell::LazyCell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tracing::info;

/// Kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpamCheck {
    Duplicates,
    HostRate,
    InjectorRate,
    PeerRate,
    Crossposts,
    Binaries,
    Types,
}

/// Number of kinds of checks.
const CHECKS: usize = 7;

figures! {
    /// A built-in filter.
    #[derive(Eq)]
    #[serde(default)]
    pub struct SpamCheckStatus {
        /// Name, as in verdicts for storage rules.
        name name: String,
        /// Mode, as the configuration writes it.
        text mode: String => text("mode", Status, Page),
        /// Articles and posts since the start that it has refused, or would have.
        counter found: u64 =>
            number("found" = |check, _| check.found_text(false), Status, Page)
            number("would have refused" = |check, _| check.found_text(true), Status, Page),
    }
}

impl SpamCheckStatus {
    /// Returns the count, if the mode is "shadow" or is not, and otherwise a dash.
    fn found_text(&self, is_shadow: bool) -> String {
        if (self.mode == SpamMode::Shadow.word()) == is_shadow { grouped(self.found) } else { "-".to_owned() }
    }
}

impl SpamCheck {
    /// Returns the reason with which an article is refused.
    fn reason(self) -> &'static str {
        match self {
            Self::Duplicates => "too many articles with this body",
            Self::HostRate => "too many articles from this host",
            Self::InjectorRate => "too many articles from this site's users",
            Self::PeerRate => "too many articles from this peer",
            Self::Crossposts => "posted to too many groups",
            Self::Binaries => "binary in a group for text",
            Self::Types => "content of a type that is not taken here",
        }
    }

    /// Returns its verdict for storage rules.
    fn class(self) -> &'static str {
        match self {
            Self::Duplicates => "duplicates",
            Self::HostRate => "host-rate",
            Self::InjectorRate => "injector-rate",
            Self::PeerRate => "peer-rate",
            Self::Crossposts => "crossposts",
            Self::Binaries => "binaries",
            Self::Types => "types",
        }
    }
}

/// The built-in filters of a site.
#[derive(Debug)]
pub(super) struct SpamFilter {
    config: SpamConfig,
    counts: Arc<SpamCounts>,
}

/// Counts of the filters, kept across a reload.
#[derive(Debug, Default)]
pub(super) struct SpamCounts {
    bodies: Leaf<DecayingCounts>,
    senders: Leaf<DecayingCounts>,
    /// Articles that each check has found, by its number.
    found: [AtomicU64; CHECKS],
}

impl SpamCounts {
    /// Returns the status of the checks that are on.
    pub fn status(&self, config: &SpamConfig) -> Vec<SpamCheckStatus> {
        let on = modes(config).into_iter().zip(&self.found).filter(|((_, mode), _)| *mode != SpamMode::Off);
        let status = |((check, mode), found): ((SpamCheck, SpamMode), &AtomicU64)| SpamCheckStatus {
            name: check.class().to_owned(),
            mode: mode.word().to_owned(),
            found: found.load(Ordering::Relaxed),
        };
        on.map(status).collect()
    }
}

impl SpamFilter {
    pub fn new(config: SpamConfig, counts: Arc<SpamCounts>) -> Self {
        Self { config, counts }
    }

    /// Returns whether any check is enabled.
    pub fn is_on(config: &SpamConfig) -> bool {
        modes(config).iter().any(|(_, mode)| *mode != SpamMode::Off)
    }

    /// Appends an opinion for each of the articles, in order, until the time is up.
    pub fn judge(
        &self,
        origin: &Origin,
        articles: &[Article<'_>],
        until: Instant,
        opinions: &mut Vec<Opinion>,
    ) {
        let now = u64::try_from(unix_now()).unwrap_or_default();
        let in_time = articles.iter().take_while(|_| Instant::now() < until);
        opinions.extend(in_time.map(|article| self.opinion(origin, article, now)));
    }

    /// Returns the opinion on one article that arrives at this time, in Unix seconds.
    fn opinion(&self, origin: &Origin, article: &Article<'_>, now: u64) -> Opinion {
        let names = article.header(Known::Newsgroups).unwrap_or_default();
        if newsgroups::split(names).any(|name| self.config.groups_never.matches(name)) {
            return Opinion::Pass;
        }
        let types = LazyCell::new(|| ArticleTypes::of(article.wire(), article.body_offset()));
        let (mut class, mut hidden, mut shadow) = (None, None, None);
        for ((check, mode), found) in modes(&self.config).into_iter().zip(&self.counts.found) {
            // Articles are counted even if another check refuses them.
            if mode == SpamMode::Off || !self.meets(check, origin, article, &types, now) {
                continue;
            }
            found.fetch_add(1, Ordering::Relaxed);
            match mode {
                SpamMode::Reject => return Opinion::Refuse(check.reason().to_owned()),
                SpamMode::Hide => hidden = hidden.or(Some(check.reason())),
                SpamMode::Class => class = class.or(Some(check.class())),
                SpamMode::Shadow => {
                    let id = article.header(Known::MessageId).unwrap_or_default();
                    let id = String::from_utf8_lossy(id.trim_ascii());
                    info!(from = origin.name(), %id, reason = check.reason(), "would have been refused");
                    shadow = shadow.or(Some(check.reason()));
                }
                SpamMode::Off => {}
            }
        }
        match (hidden, shadow, class) {
            (Some(reason), _, _) => Opinion::Hide(reason.to_owned()),
            (None, Some(reason), class) => Opinion::Shadow(reason.to_owned(), class.map(Into::into)),
            (None, None, Some(class)) => Opinion::Verdict(class.into()),
            (None, None, None) => Opinion::Pass,
        }
    }

    /// Returns whether a check would refuse an article.
    fn meets(
        &self,
        check: SpamCheck,
        origin: &Origin,
        article: &Article<'_>,
        types: &impl Deref<Target = ArticleTypes>,
        now: u64,
    ) -> bool {
        let config = &self.config;
        match check {
            SpamCheck::Crossposts => crossposts(article) > config.crossposts_max,
            SpamCheck::Binaries => {
                let names = article.header(Known::Newsgroups).unwrap_or_default();
                !newsgroups::split(names).any(|name| config.binaries_groups.matches(name))
                    && types.has(ArticleTypes::BINARY)
            }
            SpamCheck::Types => config.types_refused.iter().any(|one| types.has(one.types())),
            SpamCheck::PeerRate => {
                let key = hash(origin.for_rules().as_bytes());
                self.counts.senders.lock().add(key, now) > config.peer_rate_max
            }
            SpamCheck::InjectorRate => injector(article)
                .is_some_and(|key| self.counts.senders.lock().add(key, now) > config.injector_rate_max),
            SpamCheck::HostRate => host(article)
                .is_some_and(|key| self.counts.senders.lock().add(key, now) > config.host_rate_max),
            SpamCheck::Duplicates => {
                // Control messages for the same purpose look alike.
                let sketch = match article.count(Known::Control) {
                    0 => BodySketch::of(article),
                    _ => None,
                };
                sketch.is_some_and(|sketch| {
                    sketch.count(&mut self.counts.bodies.lock(), now) > config.duplicates_max
                })
            }
        }
    }
}

/// Returns the checks with their modes; those that count are first, so that articles refused by others are
/// counted as well.
fn modes(config: &SpamConfig) -> [(SpamCheck, SpamMode); CHECKS] {
    [
        (SpamCheck::HostRate, config.host_rate),
        (SpamCheck::InjectorRate, config.injector_rate),
        (SpamCheck::PeerRate, config.peer_rate),
        (SpamCheck::Duplicates, config.duplicates),
        (SpamCheck::Crossposts, config.crossposts),
        (SpamCheck::Binaries, config.binaries),
        (SpamCheck::Types, config.types),
    ]
}

/// Returns the number of groups of an article; half of them if follow-ups go to fewer.
fn crossposts(article: &Article<'_>) -> usize {
    let count = |known| newsgroups::split(article.header(known).unwrap_or_default()).count();
    let (groups, answers) = (count(Known::Newsgroups), count(Known::FollowupTo));
    if (1..groups).contains(&answers) { groups.div_ceil(2) } else { groups }
}

/// Returns a hash of the site where an article was injected: the server of Injection-Info, else the last name
/// in Path that is a server's; `None` if there is neither.
fn injector(article: &Article<'_>) -> Option<u64> {
    let site = match article.header(Known::InjectionInfo) {
        Some(info) => info.split(|b| *b == b';').next()?.trim_ascii(),
        None => {
            // The last part of Path is no server, and neither are diagnostics.
            let mut parts =
                article.header(Known::Path)?.rsplit(|b| *b == b'!').skip(1).map(<[u8]>::trim_ascii);
            parts.find(|part| !part.is_empty() && !part.starts_with(b"."))?
        }
    };
    // Apart from hosts and peers of the same name.
    (!site.is_empty()).then(|| !hash(&site.to_ascii_lowercase()))
}

/// Returns a hash of the posting host, or the account, as stated by the injecting server; `None` if it is
/// not stated.
fn host(article: &Article<'_>) -> Option<u64> {
    if let Some(info) = article.header(Known::InjectionInfo) {
        let mut parameters = info.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let server = hash(parameters.next().unwrap_or_default());
        let names: [&[u8]; 2] = [b"posting-account", b"posting-host"];
        let is_whose = |parameter: &&[u8]| names.iter().any(|name| parameter.starts_with(name));
        return parameters.find(is_whose).map(|parameter| hash(parameter) ^ server);
    }
    article.header(Known::NntpPostingHost).map(|host| hash(host.trim_ascii()))
}
