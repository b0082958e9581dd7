//! The configuration that holds now, for a server that takes a new one without a restart.
//!
//! A [`Config`] never changes; a reload puts another one in its place. Whoever needs several values that
//! belong together loads it once and keeps what it got for as long as it needs them. Replaced by `reload`
//! only.

use super::Config;
use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;

/// A handle to the configuration that holds; clones share it.
#[derive(Debug, Clone)]
pub struct Live(Arc<ArcSwap<Config>>);

impl Live {
    /// A handle to a first configuration.
    pub fn new(config: Arc<Config>) -> Self {
        Self(Arc::new(ArcSwap::new(config)))
    }

    /// What holds now, for a moment.
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.0.load()
    }

    /// What holds now, to keep.
    pub fn current(&self) -> Arc<Config> {
        self.0.load_full()
    }

    /// Whether this is the one that holds now.
    pub fn is_current(&self, config: &Arc<Config>) -> bool {
        Arc::ptr_eq(&self.0.load(), config)
    }

    /// Puts another one in its place.
    pub fn replace(&self, config: Arc<Config>) {
        self.0.store(config);
    }
}

impl From<Config> for Live {
    fn from(config: Config) -> Self {
        Self::new(Arc::new(config))
    }
}
