//! Articles as pages that are safe to view, whatever their content.
//!
//! Invariants: no part of an article becomes markup, and nothing in a page but a link that the reader follows
//! leads to another host; no input or output, no clock, no `unsafe`; every depth, count and size has a bound.
//! `content` parses an article (`mime`, `charset`, `header`, `flowed`, `embedded`, `html`, `entities`),
//! `view` makes a page of it, `threads` puts overview rows in threads, `ties` finds those of one thread,
//! `feed` makes Atom of them. `urls` has the addresses of all pages, `work` bounds the cost of each
//! rendering. MIME is parsed here and not by a library, since existing ones build the whole tree of a
//! message, however deep, before a caller can reject it. Called by the web server, which adds HTTP, sessions
//! and rights. Sources: RFC 2045-2047, 2183, 2231, 3676, 4287, 5322, 5536, 5538; the yEnc draft 1.3;
//! Zawinski's "message threading".
//!
//! ```
//! use newspages::content::ArticleContent;
//! use newspages::view::{ArticlePage, article};
//!
//! let wire = b"Path: x!y\r\nFrom: A Tester <a@site.example>\r\nNewsgroups: misc.test\r\n\
//!     Subject: Is <b>this</b> bold?\r\nMessage-ID: <1@site.example>\r\n\r\n<script>alert(1)</script>\r\n";
//! let content = ArticleContent::of(wire, 64 << 10);
//! let page = article(&content, &ArticlePage::default()).into_string();
//! assert!(page.contains("Is &lt;b&gt;this&lt;/b&gt; bold?"));
//! assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod charset;
pub mod content;
pub mod embedded;
mod entities;
pub mod feed;
pub mod flowed;
pub mod header;
pub mod html;
pub mod links;
pub mod mime;
pub mod names;
pub mod threads;
pub mod ties;
pub mod urls;
pub mod view;
pub mod work;
