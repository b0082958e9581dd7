//! What the parts of newsreel's article storage share: names, numbers, limits, settings and encodings.
//!
//! Nothing here touches a disk or depends on another part. The crates `spool-journal`, `spool-history` and
//! `spool-methods` use this one alone, and `spool` is made of all four.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod bug;
pub mod codec;
pub mod config;
pub mod digest;
pub mod error;
pub mod facts;
pub mod fetch;
pub mod hidden;
pub mod ids;
pub mod key;
pub mod latency;
pub mod leaving;
pub mod limits;
pub mod moved;
pub mod note;
pub mod ordered;
pub mod status;
pub mod token;
pub mod xref;
