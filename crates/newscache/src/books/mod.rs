//! Books of the cache: files with their sizes and uses, requests, articles that were missed.

pub(crate) mod access_log;
pub(crate) mod bookkeeping;
pub(crate) mod lanes;
pub(crate) mod stats;
pub(crate) mod wanted;
