//! The limits and time-outs of a client's connection.
//!
//! A server may be slow, broken or hostile: each of these bounds what it can cost. Set in
//! [`Target`](crate::Target), enforced by [`Connection`](crate::Connection) and [`Client`](crate::Client).

use std::time::Duration;

/// A block that arrives more slowly than this, on average, is not waited for beyond `idle_timeout`.
pub(crate) const BLOCK_BYTES_PER_SEC_MIN: u64 = 1024;

/// What a server may cost its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long looking up the name, connecting to one address and the TLS handshake may take, each.
    pub connect_timeout: Duration,
    /// How long the greeting may take, to its last octet.
    pub greeting_timeout: Duration,
    /// How long the first line of an answer may take to its last octet, counted from when the previous
    /// answer was complete and the server last took something of what we send.
    pub answer_timeout: Duration,
    /// How long nothing may arrive of a block that has begun, and how long the server may take nothing of
    /// what we send. A block that dribbles in at less than 1 KiB a second in all is given no more time than
    /// this either.
    pub idle_timeout: Duration,
    /// The longest first line of an answer, in bytes. RFC 3977 section 3.1 allows 512, RFC 4643 section
    /// 2.4.1 12,288.
    pub line_bytes_max: usize,
    /// The longest line of a block that is read line by line, in bytes.
    pub block_line_bytes_max: usize,
    /// The longest block of an answer, in bytes. Blocks are streamed, so this bounds time, not memory.
    pub block_bytes_max: u64,
    /// From this many bytes on that wait to be sent no further command is taken.
    pub queued_bytes_max: usize,
    /// The most commands that may wait for their answers.
    pub outstanding_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            greeting_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(180),
            idle_timeout: Duration::from_secs(60),
            line_bytes_max: 12_288,
            block_line_bytes_max: 1 << 20,
            block_bytes_max: 1 << 30,
            queued_bytes_max: 4 << 20,
            outstanding_max: 10_000,
        }
    }
}
