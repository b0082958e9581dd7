//! The current configuration of a server that takes a new one without a restart.
//!
//! A [`Config`] never changes; a reload replaces it as a whole. Code that needs several consistent values
//! loads it once and keeps it for as long as it needs them. Replaced only by `reload`.

use super::Config;
use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;

/// A handle to the current configuration; clones share it.
#[derive(Debug, Clone)]
pub struct LiveConfig(Arc<ArcSwap<Config>>);

impl LiveConfig {
    /// Creates a handle to a first configuration.
    pub fn new(config: Arc<Config>) -> Self {
        Self(Arc::new(ArcSwap::new(config)))
    }

    /// Returns the current configuration for a moment.
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.0.load()
    }

    /// Returns the current configuration to keep.
    pub fn current(&self) -> Arc<Config> {
        self.0.load_full()
    }

    /// Returns true if this is the current configuration.
    pub fn is_current(&self, config: &Arc<Config>) -> bool {
        Arc::ptr_eq(&self.0.load(), config)
    }

    /// Replaces the configuration.
    pub fn replace(&self, config: Arc<Config>) {
        self.0.store(config);
    }
}

impl From<Config> for LiveConfig {
    fn from(config: Config) -> Self {
        Self::new(Arc::new(config))
    }
}
