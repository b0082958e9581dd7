//! Doors for the targets in `fuzz/`: what takes octets from the network and is not public otherwise.
//!
//! Nothing else calls these, tests apart.

use crate::session::Compressed;
use crate::tls::names;

/// A room in which octets of a compressed stream arrive, in bytes: as much as a session takes from the socket at once.
const ARRIVING_BYTES_MAX: usize = 1 << 20;

/// `text` as we send it compressed: `piece` octets to an answer, each ended by a flush and, with `forget`, by a pause.
pub fn deflate_in_pieces(text: &[u8], piece: usize, forget: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    if let Some((mut deflating, _)) = Compressed::default().begin(0) {
        for piece in text.chunks(piece.max(1)) {
            // Only a fault of ours makes an error: what is missing then is seen.
            let _seen_by_the_caller = deflating.deflate(piece, true, &mut stream);
            if forget {
                deflating.forget();
            }
        }
    }
    stream
}

/// What a client has sent compressed, arriving `piece` octets at a time and decoded into `room` octets at a time; on an
/// error, how much was decoded before it.
pub fn inflate_in_pieces(
    stream: &[u8],
    piece: usize,
    room: usize,
    free_bytes: u64,
) -> Result<Vec<u8>, usize> {
    let mut read = Vec::new();
    let Some((_, mut inflating)) = Compressed::default().begin(free_bytes) else { return Err(0) };
    let mut out = Vec::with_capacity(room.max(1));
    for piece in stream.chunks(piece.clamp(1, ARRIVING_BYTES_MAX)) {
        let mut at = 0;
        loop {
            let Ok(taken) = inflating.inflate(piece.get(at..).unwrap_or_default(), &mut out) else {
                return Err(read.len() + out.len());
            };
            at += taken;
            let made = out.len();
            read.append(&mut out);
            if at >= piece.len() && !inflating.has_more() || taken == 0 && made == 0 {
                break;
            }
        }
    }
    Ok(read)
}

/// The names in a certificate in DER.
pub fn certificate_names(der: &[u8]) -> Vec<String> {
    names::of(der).iter().map(ToString::to_string).collect()
}
