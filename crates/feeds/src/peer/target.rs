//! From `[peer.send]` to what `nntp_io::Client` connects to.

use access::tls::{RemoteServer, RemoteServerError};
use nntp_io::{ClientLimits, ConnectOptions, Role};
use site_config::PeerSend;

/// Most unanswered commands of one connection.
pub(crate) const OFFERS_MAX: usize = 1_024;
/// Most unsent bytes of one connection: beyond this no further article is read.
const QUEUED_BYTES_MAX: usize = 256 << 10;

/// Returns the addresses of a peer, in order; an error describes a problem with the files named.
pub(crate) fn all(send: &PeerSend) -> Result<Vec<ConnectOptions>, RemoteServerError> {
    // Whether the peer streams is found out only if we would.
    let role = if send.streaming { Role::Transit } else { Role::Any };
    let limits = ClientLimits {
        answer_timeout: send.answer_timeout,
        greeting_timeout: send.answer_timeout,
        idle_timeout: send.answer_timeout,
        outstanding_max: OFFERS_MAX,
        queued_bytes_max: QUEUED_BYTES_MAX,
        ..ClientLimits::default()
    };
    let target =
        |to: &String| RemoteServer { to: to.clone(), link: send.link() }.target(role, limits.clone());
    send.to.iter().map(target).collect()
}
