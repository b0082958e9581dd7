//! NNTP connections: the stream that servers and clients share, and the client.
//!
//! - [`Transport`] is the stream of a connection: the socket, with TLS (RFC 4642, RFC 8143), compression
//!   (RFC 8054) or both on top, switched in mid-session.
//! - [`ServerOutput`] gathers a server's answers and sends them in few writes, paced by a
//!   [`rate::Bandwidth`].
//! - [`NntpClient`] connects to a server, encrypts, logs in and compresses as its [`ConnectOptions`] says,
//!   and then pipelines commands; [`Connection`] is the layer below it, octets without NNTP.
//!   [`Error::retry`] separates temporary from permanent errors, [`ClientLimits`] bounds the cost of a
//!   server.
//! - [`TransportStream`] is a transport for a library that needs tokio's traits.
//! - [`pool`] keeps spare buffers, so that an idle connection holds none.
//!
//! Invariants: nothing here knows a spool, a group or a configuration; every buffer and every wait has a
//! limit; no input panics. The crate needs tokio's runtime with its I/O and time drivers; [`block_on`] is for
//! programs without one. `newsreel` builds on it.
//!
//! ```
//! use nntp_io::{ConnectOptions, NntpClient, block_on};
//! # use std::io::{BufRead, BufReader, Write};
//! # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! # let port = listener.local_addr()?.port();
//! # std::thread::spawn(move || {
//! #     let (mut stream, _) = listener.accept().unwrap();
//! #     stream.write_all(b"200 ready\r\n").unwrap();
//! #     for line in BufReader::new(stream.try_clone().unwrap()).lines() {
//! #         let answer = match line.unwrap().as_str() {
//! #             "DATE" => "111 20261126120000\r\n",
//! #             "QUIT" => "205 bye\r\n",
//! #             _ => "500 what?\r\n",
//! #         };
//! #         stream.write_all(answer.as_bytes()).unwrap();
//! #     }
//! # });
//!
//! block_on(async {
//!     let mut client = NntpClient::connect(&ConnectOptions::new("127.0.0.1", port)).await?;
//!     let answer = client.request("DATE").await?;
//!     assert_eq!((answer.code, answer.text()), (111, &b"20261126120000"[..]));
//!     client.quit().await
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod blocking;
mod client;
mod connection;
mod error;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod output;
pub mod pool;
pub mod rate;
pub mod reply;
mod sending;
mod slice;
mod stream;
pub mod tls;
mod transport;

pub use blocking::block_on;
pub use client::{
    AnswerJudgement, ArticleRequest, Capabilities, ClientCredentials, ClientMechanism, CompressionPolicy,
    ConnectOptions, JUDGEMENTS, LoginOptions, NntpAnswer, NntpClient, ODD_ANSWERS_MAX, ODD_IN_A_ROW_MAX,
    Role, Security, TlsOptions, WireArticle,
};
pub use connection::Connection;
pub use error::{Error, ProtocolFault, RetryAdvice, SetupStep, WaitEvent};
pub use limits::{ClientLimits, LIST_BYTES_MAX, LIST_TIME_MAX};
pub use output::{GATHERED_BYTES_MAX, ServerOutput};
pub use slice::TimeSlice;
pub use stream::TransportStream;
pub use transport::{
    COMPRESSED_CONNECTIONS_MAX, CompressionPermits, Deflater, Inflater, MachineLoad, Socket, Transport,
};
