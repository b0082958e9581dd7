//! The mount, on real directories. Needs root and /dev/fuse; where they are missing a test says so and is
//! skipped.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod convert;
mod flat;
mod kills;
mod pjdfstest;
mod posix;
mod rights;
mod site;
mod stress;
