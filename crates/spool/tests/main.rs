//! All integration tests of the spool in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod buffers;
mod compress;
mod crash;
mod damage;
mod durability;
mod explains;
mod figure4;
mod fixtures;
mod floors;
mod full_disk;
mod groups_file;
mod journal_loss;
mod kept;
mod lifecycle;
mod meaning;
mod methods;
mod moved;
mod news;
mod numbers;
mod older_index;
mod online;
mod overview;
mod presence;
mod purge;
mod rebuild;
mod reconfigure;
mod recovery;
mod reports;
mod residents;
mod rot;
mod same_entries;
mod tails;
mod unfit;
mod unpack;
mod unreadable;
