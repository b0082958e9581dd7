//! What a program without clusters says to commands about them.

use super::{ClusterStatus, JoinSource, MemberError, NodePlan, ScrubReport};
use disk::Progress;
use site_config::Config;
use spool::{RestoreReport, Spool};
use std::path::Path;
use std::sync::Arc;

/// See the module of programs with clusters, as for all functions here.
pub fn create(_: &Config, _: Option<&Path>, _: &Spool) -> Result<String, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn invite(_: &Config, _: &str) -> Result<(), MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn invite_again(_: &Config, _: &str) -> Result<(), MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn join(_: &Config, _: &JoinSource, _: bool, _: &dyn Progress) -> Result<RestoreReport, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn leave(_: &Config) -> Result<usize, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn remove(_: &Config, _: &str) -> Result<usize, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn status(_: &Config) -> Result<ClusterStatus, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn end(_: &Config, _: &Arc<Spool>) -> Result<(), MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn node_conf(_: &NodePlan) -> Result<String, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn check_engine_version(_: &str) -> Result<(), MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn upgrade(_: &Config) -> Result<(u8, bool), MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn scrub(_: &Config, _: u64, _: &dyn Progress) -> Result<ScrubReport, MemberError> {
    Err(MemberError::NotBuilt)
}
