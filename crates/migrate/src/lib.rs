//! Coming from another server: what an INN or another newsreel keeps on its disks, and articles in files,
//! become articles of this site.
//!
//! Formats (`cnfs`, `caf`, `conf`, `names`, `head`) are bytes in, values out. `site` finds what there is of
//! an INN, `newsreel` of a newsreel, `walk` and `source` list and read it, `plan` puts the articles in the
//! order in which the other server numbered them, so that their numbers can be kept. `settings` converts the
//! other server's configuration. Filing is `ingest`'s, the command is `cli::import`. The other server's files
//! are only read. Formats in words: `docs/formats/inn.md`; why numbers are kept so:
//! `docs/decisions/0014-imported-numbers.md`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod caf;
pub mod cnfs;
pub mod conf;
pub mod head;
pub mod history;
pub mod mails;
pub mod name_map;
pub mod names;
pub(crate) mod newsreel;
pub(crate) mod order;
pub mod plan;
pub mod settings;
pub mod site;
pub mod source;
mod walk;
