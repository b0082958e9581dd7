//! Built-in filters (`[spam]`): based on an article itself, and on the rate of similar ones.
//!
//! Each check decides whether it would refuse an article; its mode decides the action. Counts are kept in
//! tables of fixed size (`counts`), fade within hours, and do not survive a restart; so are the busiest
//! sources of articles (`sources`), which operators see. Called by `filters`.

mod body;
mod counts;
mod shadow;
mod sources;
#[cfg(test)]
mod tests;

use super::Origin;
use super::opinions::Opinion;
use body::BodySketch;
use counts::{DecayingCounts, hash};
use netnews::article::ArticleTypes;
use netnews::{Article, Known, newsgroups};
use shadow::ShadowLine;
use site_base::clock::unix_secs;
use site_base::figures;
use site_base::lock::Leaf;
use site_base::printable;
use site_base::units::grouped;
use site_config::{ConfigWord, Spam as SpamConfig, SpamMode};
use sources::{ArticleFate, BusySources};
pub use sources::{SourceCounts, SpamSource, SpamSources};
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
    sites: Leaf<BusySources>,
    addresses: Leaf<BusySources>,
    /// Lines of the log about each check in shadow mode, by its number.
    shadow: Leaf<[ShadowLine; CHECKS]>,
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

    /// Returns the busiest sources of articles at this time, in Unix seconds.
    pub fn sources(&self, now: u64) -> SpamSources {
        let sites = self.sites.lock().busiest(now);
        let addresses = self.addresses.lock().busiest(now);
        SpamSources { sites, addresses }
    }

    /// Counts an article that a check in shadow mode would have refused, and logs how many there were if that
    /// is due, with the busiest sources.
    fn log_shadowed(&self, check: SpamCheck, origin: &Origin, article: &Article<'_>, now: u64) {
        let due = self.shadow.lock().get_mut(check as usize).and_then(|line| line.count(now));
        let Some(articles) = due else { return };
        let id = article.header(Known::MessageId).unwrap_or_default();
        let id = String::from_utf8_lossy(id.trim_ascii());
        let SpamSources { sites, addresses } = self.sources(now);
        let busiest = |of: &[SpamSource]| of.first().map(|source| source.name.clone()).unwrap_or_default();
        let (site, address) = (busiest(&sites), busiest(&addresses));
        let (from, reason) = (origin.name(), check.reason());
        info!(articles, reason, %site, %address, from, %id, "would have been refused");
    }

    /// Counts an article for its sources, by the opinion on it.
    fn count_sources(&self, article: &Article<'_>, opinion: &Opinion, now: u64) {
        let fate = match opinion {
            Opinion::Refuse(_) | Opinion::Hide(_) => ArticleFate::Refused,
            Opinion::Shadow(..) => ArticleFate::WouldBeRefused,
            _ => ArticleFate::Passed,
        };
        if let Some(site) = injector(article) {
            let name = || shown(&site.to_ascii_lowercase());
            self.sites.lock().count(injector_key(site), name, fate, now);
        }
        if let Some(host) = PostingHost::of(article) {
            self.addresses.lock().count(host.key(), || host.shown(), fate, now);
        }
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
        let now = unix_secs();
        let in_time = articles.iter().take_while(|_| Instant::now() < until);
        opinions.extend(in_time.map(|article| self.opinion(origin, article, now)));
    }

    /// Returns the opinion on one article that arrives at this time, in Unix seconds.
    fn opinion(&self, origin: &Origin, article: &Article<'_>, now: u64) -> Opinion {
        let names = article.header(Known::Newsgroups).unwrap_or_default();
        if newsgroups::split(names).any(|name| self.config.groups_never.matches(name)) {
            return Opinion::Pass;
        }
        let mut shadowed = Vec::new();
        let opinion = self.judged(origin, article, now, &mut shadowed);
        self.counts.count_sources(article, &opinion, now);
        shadowed.into_iter().for_each(|check| self.counts.log_shadowed(check, origin, article, now));
        opinion
    }

    /// Returns the opinion of all checks; appends those in shadow mode that would have refused the article.
    fn judged(
        &self,
        origin: &Origin,
        article: &Article<'_>,
        now: u64,
        shadowed: &mut Vec<SpamCheck>,
    ) -> Opinion {
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
                    shadowed.push(check);
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
            SpamCheck::InjectorRate => injector(article).is_some_and(|site| {
                self.counts.senders.lock().add(injector_key(site), now) > config.injector_rate_max
            }),
            SpamCheck::HostRate => PostingHost::of(article)
                .is_some_and(|host| self.counts.senders.lock().add(host.key(), now) > config.host_rate_max),
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

/// Returns the site where an article was injected: the server of Injection-Info, else the last name in Path
/// that is a server's; `None` if there is neither.
fn injector<'a>(article: &Article<'a>) -> Option<&'a [u8]> {
    let site = match article.header(Known::InjectionInfo) {
        Some(info) => info.split(|b| *b == b';').next()?.trim_ascii(),
        None => {
            // The last part of Path is no server, and neither are diagnostics.
            let mut parts =
                article.header(Known::Path)?.rsplit(|b| *b == b'!').skip(1).map(<[u8]>::trim_ascii);
            parts.find(|part| !part.is_empty() && !part.starts_with(b"."))?
        }
    };
    (!site.is_empty()).then_some(site)
}

/// Returns the key of an injecting site, apart from those of hosts and peers of the same name.
fn injector_key(site: &[u8]) -> u64 {
    !hash(&site.to_ascii_lowercase())
}

/// Posting host, or account, as stated by the injecting server.
struct PostingHost<'a> {
    /// The server of Injection-Info; `None` where NNTP-Posting-Host has the host.
    server: Option<&'a [u8]>,
    /// The parameter, or the host.
    stated: &'a [u8],
}

/// Parameters of Injection-Info that name a host or an account, with how they are shown.
const HOST_PARAMETERS: [(&[u8], &str); 2] = [(b"posting-account", "account "), (b"posting-host", "")];

impl<'a> PostingHost<'a> {
    /// Returns that of an article; `None` if it is not stated.
    fn of(article: &Article<'a>) -> Option<Self> {
        let Some(info) = article.header(Known::InjectionInfo) else {
            let stated = article.header(Known::NntpPostingHost)?.trim_ascii();
            return Some(Self { server: None, stated });
        };
        let mut parameters = info.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let server = parameters.next().unwrap_or_default();
        let is_whose =
            |parameter: &&[u8]| HOST_PARAMETERS.iter().any(|(name, _)| parameter.starts_with(name));
        Some(Self { server: Some(server), stated: parameters.find(is_whose)? })
    }

    fn key(&self) -> u64 {
        hash(self.stated) ^ self.server.map_or(0, hash)
    }

    /// Returns it for operators.
    fn shown(&self) -> String {
        let Some(server) = self.server else { return shown(self.stated) };
        let value = self.stated.iter().position(|b| *b == b'=').and_then(|at| self.stated.get(at + 1..));
        let value = value.unwrap_or_default().trim_ascii();
        let value = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
        let kind = HOST_PARAMETERS.iter().find(|(name, _)| self.stated.starts_with(name));
        let kind = kind.map_or("", |(_, kind)| kind);
        format!("{kind}{} at {}", shown(value), shown(server))
    }
}

/// Longest part of a name that is shown, in bytes as it came.
const SHOWN_BYTES_MAX: usize = 80;

/// Returns a name from an article, safe and short.
fn shown(name: &[u8]) -> String {
    let name = name.get(..SHOWN_BYTES_MAX).unwrap_or(name);
    printable::line(&String::from_utf8_lossy(name)).into_owned()
}
