//! Zip files for tests of the program and of the module that reads them.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Returns a zip file of these members: name, content, and whether it is deflated.
pub fn zipped(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content, is_deflated) in members {
        let mut crc = Crc::new();
        crc.update(content);
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(content).unwrap();
        let packed = if *is_deflated { deflate.finish().unwrap() } else { content.to_vec() };
        // Version, flags, method, time, date.
        let mut common = [20, 0, 0, 0, if *is_deflated { 8 } else { 0 }, 0, 0, 0, 0, 0].to_vec();
        common.extend(crc.sum().to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend([b"PK\x01\x02", &[20, 0][..], &common, &[0; 10]].concat());
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend([b"PK\x03\x04", common.as_slice(), name.as_bytes(), &packed].concat());
    }
    let at = out.len() as u32;
    out.extend(&directory);
    out.extend([b"PK\x05\x06", &[0; 4][..], &(members.len() as u16).to_le_bytes().repeat(2)].concat());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}
