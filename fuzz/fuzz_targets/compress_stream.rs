//! A compressed stream from a client: however it arrives and however little room there is, the same is
//! decoded; it never expands beyond what is allowed. What we send compressed comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nntp_io::fuzzing::{deflate_in_pieces, inflate_in_pieces};

const FREE_BYTES: u64 = 64 << 10;
/// The most that one octet may become, as in the server.
const EXPANSION_MAX: u64 = 256;

fuzz_target!(|input: &[u8]| {
    let Some((&[piece, room], stream)) = input.split_first_chunk() else { return };
    let (piece, room) = (usize::from(piece) + 1, usize::from(room) * 16 + 1);
    let whole = inflate_in_pieces(stream, 1 << 20, 1 << 20, FREE_BYTES);
    let pieces = inflate_in_pieces(stream, piece, room, FREE_BYTES);
    if let (Ok(whole), Ok(pieces)) = (&whole, &pieces) {
        assert_eq!(whole, pieces);
    }
    for read in [&whole, &pieces] {
        let made = read.as_ref().map_or_else(|made| *made, Vec::len) as u64;
        // What one call makes before it is looked at comes on top.
        assert!(made <= FREE_BYTES + EXPANSION_MAX * stream.len() as u64 + (1 << 20));
    }
    let sent = deflate_in_pieces(stream, piece * 8, room % 2 == 0);
    assert_eq!(inflate_in_pieces(&sent, piece, room, FREE_BYTES).as_deref(), Ok(stream));
});
