//! What a program without clusters says to commands about them.

use super::{ClusterStatus, MemberError};
use disk::Progress;
use site_config::Config;
use spool::{RestoreReport, Spool};
use std::path::Path;

/// See the module of programs with clusters, as for all functions here.
pub fn create(_: &Config, _: &Spool) -> Result<String, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn invite(_: &Config, _: &str) -> Result<(), MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn join(_: &Config, _: &Path, _: &dyn Progress) -> Result<RestoreReport, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn leave(_: &Config) -> Result<usize, MemberError> {
    Err(MemberError::NotBuilt)
}

/// Is refused.
pub fn status(_: &Config) -> Result<ClusterStatus, MemberError> {
    Err(MemberError::NotBuilt)
}
