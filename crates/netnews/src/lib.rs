//! News articles and the NNTP protocol as values: bytes in, values out.
//!
//! Invariants: no input or output, no clock, no threads, no `unsafe`; nothing here panics on any input, and
//! nothing allocates unless a caller passes a `Vec` to append to (except `injection`, which makes new
//! articles and mails, `charset` and `transfer`). `spool` and `newsreel` build on this crate, never the other
//! way round. Sources: RFC 3977, 4642-4644, 5536, 5537, 6048, 8054, 8315 and the older 977, 1036, 2980.

//!
//! ```
//! use netnews::{Article, Known, Wildmat};
//!
//! let wire = b"Path: news.example!not-for-mail\r\nFrom: A Tester <a@site.example>\r\n\
//!     Newsgroups: misc.test\r\nSubject: Hello\r\nDate: 15 Apr 1993 12:00:00 GMT\r\n\
//!     Message-ID: <1@site.example>\r\n\r\nThe first line.\r\n..A line with a dot.\r\n";
//! let article = Article::parse(wire)?;
//! article.required()?;
//! assert_eq!(article.content(Known::Subject), Some(&b"Hello"[..]));
//! assert_eq!(article.message_id().map(|id| id.as_bytes()), Some(&b"<1@site.example>"[..]));
//! assert_eq!(article.lines(), 2);
//!
//! let wanted = Wildmat::parse(b"misc.*,!misc.private")?;
//! assert!(wanted.matches(b"misc.test"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod article;
pub mod batch;
pub mod bucket;
pub mod charset;
pub mod control;
pub mod date;
pub mod decimal;
pub mod encoded_word;
mod group_marks;
pub mod injection;
pub mod mbox;
pub mod message_id;
pub mod newsgroups;
pub mod nntp;
pub mod openpgp;
pub mod overview_row;
pub mod path;
pub mod printable;
pub mod transfer;
pub mod wildmat;

pub use article::{Article, Known, MalformedArticle};
pub use group_marks::GroupMarks;
pub use message_id::MessageId;
pub use wildmat::Wildmat;
