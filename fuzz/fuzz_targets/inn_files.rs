//! CNFS buffers and timecaf files of INN, as an import reads them: what is found lies in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::fuzzing::imported;
use std::path::PathBuf;

fuzz_target!(|input: &[u8]| {
    let Some((kind, file)) = input.split_first() else { return };
    // Areas of buffers begin at 16 KiB: inputs would be as long otherwise.
    let file = match kind % 3 {
        0 => file.to_vec(),
        1 => buffer(file),
        _ => caf(file),
    };
    let dir = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = dir.join(format!("newsreel-fuzz-inn-{}", std::process::id()));
    for is_caf in [false, true] {
        let articles = imported(&path, &file, is_caf).expect("a fault");
        let blocks = file.len() / 512 + 1;
        assert!(articles.len() <= if is_caf { 1 << 20 } else { blocks });
        for (stored, wire) in articles {
            assert!(is_caf || stored.first().is_some_and(u8::is_ascii_alphabetic));
            let Some(wire) = wire else { continue };
            assert!(wire.ends_with(b"\r\n"));
            assert!(!stored.ends_with(b"\r\n.\r\n") || stored.strip_suffix(b".\r\n").is_some());
        }
    }
});

/// A sound header and bitmap before what is to be read.
fn buffer(rest: &[u8]) -> Vec<u8> {
    let (bits, area) = rest.split_at(rest.len().min(64));
    let mut file = vec![0; 32 << 10];
    for (at, text) in [
        (0, "CBuf4"),
        (8, "B1"),
        (88, "0000000000010000"),
        (104, "0000000000004000"),
        (136, "0000000000000002"),
        (192, "0000000000000200"),
    ] {
        file[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    file[512..512 + bits.len()].copy_from_slice(bits);
    file.truncate(16 << 10);
    file.extend_from_slice(area);
    file
}

fn caf(rest: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 96];
    file[..4].copy_from_slice(b"CRMT");
    for (at, number) in [(8, 1u64), (16, 64), (24, u64::from(rest.first().copied().unwrap_or(0)) % 64)] {
        file[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(rest);
    file
}
