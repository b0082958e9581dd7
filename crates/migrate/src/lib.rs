//! Import from other servers: articles on the disks of an INN or another newsreel, and articles in files,
//! become articles of this site.
//!
//! Formats (`cnfs`, `caf`, `conf`, `names`, `head`) are bytes in, values out. `site` finds the data of an
//! INN, `newsreel` of a newsreel, `walk` and `source` list and read it, `overview` reads which numbers an INN
//! shows, `plan` puts the articles in the
//! order in which the other server numbered them, so that their numbers can be kept. `settings` converts
//! the other server's configuration. Filing is done by `ingest`, the command is `cli::import`. The other
//! server's files are only read. Formats are described in `docs/formats/inn.md`; reasons for keeping
//! numbers: `docs/decisions/0014-imported-numbers.md`.
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
mod overview;
pub mod plan;
pub mod settings;
pub mod site;
pub mod source;
mod walk;
