//! Articles in files of other programs: mbox, maildir and rnews batches, of Usenet and of mailing lists.
//!
//! `folders` finds the files, including those in zip files, and the groups derived from their names, `rules`
//! choose groups by headers, `adopt` converts a text to an article, including news older than RFC 1036.
//! Reading and filing are done by `cli::import`. The files are only read. Described in `docs/mail.md`.

pub mod adopt;
pub mod folders;
pub mod rules;
mod zip;
