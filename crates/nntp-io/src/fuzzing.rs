//! Entry points for the targets in `fuzz/`: input from the network whose parsers are otherwise private.
//!
//! Called only by these targets and by tests.

use crate::transport::CompressionPermits;

/// Maximum number of octets of a compressed stream that arrive at once: as many as a session reads from the
/// socket.
const ARRIVING_BYTES_MAX: usize = 1 << 20;

/// Compresses `text` as the server does: `piece` octets per answer, each ended by a flush and, with `pause`,
/// by a drop of the compressor.
pub fn deflate_in_pieces(text: &[u8], piece: usize, pause: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    if let Some((mut deflating, _)) = CompressionPermits::default().begin(0) {
        for piece in text.chunks(piece.max(1)) {
            // Only a defect of this program causes an error; the missing output reveals it.
            let _seen_by_the_caller = deflating.deflate(piece, true, &mut stream);
            if pause {
                deflating.drop_compressor();
            }
        }
    }
    stream
}

/// Decodes a compressed stream that arrives `piece` octets at a time into `room` octets at a time.
///
/// # Errors
/// The number of octets decoded before the stream turned out to be damaged or a bomb.
pub fn inflate_in_pieces(
    stream: &[u8],
    piece: usize,
    room: usize,
    free_bytes: u64,
) -> Result<Vec<u8>, usize> {
    let mut read = Vec::new();
    let Some((_, mut inflating)) = CompressionPermits::default().begin(free_bytes) else { return Err(0) };
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
