//! The limits and time-outs of a client's connection.
//!
//! A server may be slow, broken or hostile: each of these limits bounds its cost. Set in
//! [`Target`](crate::Target), enforced by [`Connection`](crate::Connection) and [`Client`](crate::Client).

use std::time::Duration;

/// Minimum average speed of a block; a slower one is not waited for beyond `idle_timeout`.
pub(crate) const BLOCK_BYTES_PER_SEC_MIN: u64 = 1024;

/// Maximum length of a list of groups or Message-IDs, in bytes: several times that of the servers with the
/// most groups.
pub const LIST_BYTES_MAX: u64 = 32 << 20;
/// Time within which such a list ends.
pub const LIST_TIME_MAX: Duration = Duration::from_secs(300);

/// Bounds on the cost of a server to its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// Time limit for each of looking up the name, connecting to one address and the TLS handshake.
    pub connect_timeout: Duration,
    /// Time limit for the whole greeting.
    pub greeting_timeout: Duration,
    /// Time limit for the whole first line of an answer, counted from the end of the previous answer and from
    /// the last progress in sending.
    pub answer_timeout: Duration,
    /// Maximum time without new octets of a block that has begun, and without progress in sending. Also the
    /// time limit of a block that arrives at less than 1 KiB a second on average.
    pub idle_timeout: Duration,
    /// Maximum length of the first line of an answer, in bytes. RFC 3977 section 3.1 allows 512, RFC 4643
    /// section 2.4.1 12,288.
    pub line_bytes_max: usize,
    /// Maximum length of a line of a block that is read line by line, in bytes.
    pub block_line_bytes_max: usize,
    /// Maximum length of an answer's block, in bytes. Blocks are streamed, so this bounds time, not memory.
    pub block_bytes_max: u64,
    /// Number of bytes waiting to be sent from which no further command is accepted.
    pub queued_bytes_max: usize,
    /// Maximum number of commands that may wait for their answers.
    pub outstanding_max: usize,
}

impl Default for ClientLimits {
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
