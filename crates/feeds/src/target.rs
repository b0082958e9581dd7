//! From `[peer.send]` to what `nntp_io::Client` connects to.

use access::tls::Dial;
use nntp_io::{Limits, Role, Target};
use site_config::PeerSend;

/// Commands of one connection that wait for their answers, at most.
pub(super) const OFFERS_MAX: usize = 1_024;
/// Bytes of one connection that wait to be sent, at most: with more no further article is read.
const QUEUED_BYTES_MAX: usize = 256 << 10;

/// The places that a peer is reached at, in order; an error says what is wrong with the files that are named.
pub(super) fn all(send: &PeerSend) -> Result<Vec<Target>, String> {
    // Whether the peer streams is found out only if we would.
    let role = if send.streaming { Role::Transit } else { Role::Any };
    let limits = Limits {
        answer_timeout: send.answer_timeout,
        idle_timeout: send.answer_timeout,
        outstanding_max: OFFERS_MAX,
        queued_bytes_max: QUEUED_BYTES_MAX,
        ..Limits::default()
    };
    let target = |to: &String| Dial { to: to.clone(), link: send.link() }.target(role, limits.clone());
    send.to.iter().map(target).collect()
}
