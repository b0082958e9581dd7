//! Paths of the operator's pages.

/// The state of the server.
pub(crate) const OVERVIEW: &str = "/operator";
/// Posts that wait for a moderator.
pub(crate) const MODERATION: &str = "/operator/moderation";
/// Findings of filters.
pub(crate) const FILTERS: &str = "/operator/filters";
/// Feeds to peers.
pub(crate) const FEEDS: &str = "/operator/feeds";
/// Upstreams and the cache.
pub(crate) const CACHE: &str = "/operator/cache";
/// Accounts that wait for an operator.
pub(crate) const ACCOUNTS: &str = "/operator/accounts";
/// Actions of operators.
pub(crate) const AUDIT: &str = "/operator/audit";
