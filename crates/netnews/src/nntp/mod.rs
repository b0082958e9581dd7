//! The NNTP codec: commands, responses and the framing of lines and multi-line blocks.
//!
//! Pure functions over byte slices; the server's sessions, the feeds and the cache's upstream side call them.
//! Source: RFC 3977 section 3 and section 9.

pub mod command;
pub mod response;
pub mod wire;
