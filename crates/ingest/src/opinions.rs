//! Opinions of filters on articles.
//!
//! Formed by `filters`, by the injecting agent for posts and by the operator for releases; followed by
//! `drafts`.

use std::sync::Arc;

/// Opinion of a filter on an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// Nothing to report.
    Pass,
    /// Verdict for storage rules.
    Verdict(Arc<str>),
    /// Refused, for this reason.
    Refuse(String),
    /// Passes, but would be refused for this reason if the filter were allowed to; may have a verdict for
    /// storage rules.
    Shadow(String, Option<Arc<str>>),
    /// Filed but hidden and not passed on, for this reason, until the operator shows it.
    Hide(String),
    /// Filed, but not passed on.
    Keep,
    /// Filed in this group instead of its own, and not passed on; its requests are not carried out.
    Aside(Arc<str>),
    /// Cannot be judged now, and is deferred.
    Defer,
}
