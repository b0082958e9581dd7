//! Armor: Base64 with a checksum.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

const BEGIN: &str = "-----BEGIN PGP ";
const END: &str = "-----END PGP ";

/// Returns the checksum of armor (RFC 4880 section 6.1).
pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x00b7_04ce, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b) << 16, |crc, _| {
            let shifted = crc << 1;
            (if shifted & 0x0100_0000 != 0 { shifted ^ 0x0186_4cfb } else { shifted }) & 0x00ff_ffff
        })
    })
}

/// Decodes words of Base64, of which the last may be `=` and the checksum; `None` if the checksum is wrong.
pub fn from_base64<'a>(words: impl Iterator<Item = &'a str>) -> Option<Vec<u8>> {
    let (mut text, mut sum) = (String::new(), None);
    for word in words {
        if sum.is_some() {
            return None;
        }
        match word.strip_prefix('=').filter(|digits| digits.len() == 4) {
            Some(digits) => sum = Some(digits),
            None => text.push_str(word),
        }
    }
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    match sum {
        None => Some(bytes),
        Some(sum) => {
            let expected = BASE64_STANDARD.decode(sum).ok()?;
            (crc24(&bytes).to_be_bytes().get(1..)? == expected).then_some(bytes)
        }
    }
}

/// Returns the content of the armored blocks in `text`, joined; `None` if there is none, or one is damaged.
pub fn dearmored(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while lines.by_ref().any(|line| line.starts_with(BEGIN)) {
        // Headers such as Version, up to a blank line.
        let body = lines.by_ref().skip_while(|line| !line.is_empty());
        let words: Vec<&str> =
            body.take_while(|line| !line.starts_with(END)).filter(|line| !line.is_empty()).collect();
        bytes.extend(from_base64(words.into_iter())?);
    }
    (!bytes.is_empty()).then_some(bytes)
}
