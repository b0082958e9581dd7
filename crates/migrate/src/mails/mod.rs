//! Articles in files of their own kind of each program: mbox, maildir and batches of rnews, of Usenet and of
//! mailing lists.
//!
//! `folders` finds the files, also those in zip files, and the groups that their names tell, `rules` choose
//! groups by headers, `adopt` makes an article of what a file has, also of the news of before RFC 1036.
//! Reading and filing are `cli::import`'s. The files are only read. In words: `docs/mail.md`.

pub mod adopt;
pub mod folders;
pub mod rules;
mod zip;
