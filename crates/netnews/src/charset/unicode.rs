//! Forms of Unicode other than UTF-8.
//!
//! A byte order mark decides about the order, then the name, then where the octets of ASCII characters are.
//! Called by `charset`. Sources: RFC 2152 (UTF-7), RFC 2781 (UTF-16), the Unicode Standard (UTF-32).

use encoding_rs::{UTF_16BE, UTF_16LE};

/// Order of the octets of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    /// The most significant octet first.
    Big,
    /// The least significant octet first.
    Little,
}

/// A form of Unicode, with its order if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnicodeForm {
    /// UTF-7.
    Utf7,
    /// UTF-16, or UCS-2.
    Utf16(Option<ByteOrder>),
    /// UTF-32, or UCS-4.
    Utf32(Option<ByteOrder>),
}

impl UnicodeForm {
    /// Returns the form of this name, in lower case and without hyphens.
    pub fn named(name: &str) -> Option<Self> {
        let (name, order) = match (name.strip_suffix("be"), name.strip_suffix("le")) {
            (Some(name), _) => (name, Some(ByteOrder::Big)),
            (_, Some(name)) => (name, Some(ByteOrder::Little)),
            _ => (name, None),
        };
        match name.strip_prefix('x').unwrap_or(name) {
            "utf7" | "unicode11utf7" | "csunicode11utf7" | "unicode20utf7" | "cp65000" => Some(Self::Utf7),
            "utf16" | "ucs2" | "iso10646ucs2" | "unicode" | "csunicode" => Some(Self::Utf16(order)),
            "utf32" | "ucs4" | "iso10646ucs4" | "csucs4" => Some(Self::Utf32(order)),
            _ => None,
        }
    }

    pub fn decode(self, octets: &[u8]) -> String {
        match self {
            Self::Utf7 => utf_7(octets),
            Self::Utf16(None) if is_plain(octets) => String::from_utf8_lossy(octets).into_owned(),
            Self::Utf16(order) => utf_16(order, octets),
            Self::Utf32(None) if is_plain(octets) => String::from_utf8_lossy(octets).into_owned(),
            Self::Utf32(order) => utf_32(order, octets),
        }
    }
}

/// Returns whether octets are text of one octet each, in spite of what they were declared to be: in UTF-16
/// and UTF-32 the blanks and line ends would have zeros beside them.
fn is_plain(octets: &[u8]) -> bool {
    octets.iter().any(|b| matches!(b, b' ' | b'\n'))
        && !octets.iter().any(|b| b.is_ascii_control() && !matches!(b, b'\t' | b'\n' | b'\r'))
        && std::str::from_utf8(octets).is_ok()
}

fn utf_16(order: Option<ByteOrder>, octets: &[u8]) -> String {
    let (pairs, _cut) = octets.as_chunks::<2>();
    let zeros = |at: usize| pairs.iter().filter(|pair| pair.get(at) == Some(&0)).count();
    let order = match (pairs.first(), order) {
        (Some([0xfe, 0xff]), _) => ByteOrder::Big,
        (Some([0xff, 0xfe]), _) => ByteOrder::Little,
        (_, Some(order)) => order,
        // Characters of ASCII have a zero; without any, the order is that of RFC 2781.
        _ if zeros(1) > zeros(0) => ByteOrder::Little,
        _ => ByteOrder::Big,
    };
    let encoding = if order == ByteOrder::Big { UTF_16BE } else { UTF_16LE };
    encoding.decode_without_bom_handling(pairs.as_flattened()).0.into_owned()
}

fn utf_32(order: Option<ByteOrder>, octets: &[u8]) -> String {
    let (units, _cut) = octets.as_chunks::<4>();
    let number = |unit: &[u8; 4], order| match order {
        ByteOrder::Big => u32::from_be_bytes(*unit),
        ByteOrder::Little => u32::from_le_bytes(*unit),
    };
    let valid = |order| units.iter().filter(|unit| char::from_u32(number(unit, order)).is_some()).count();
    let order = match (units.first(), order) {
        (Some([0, 0, 0xfe, 0xff]), _) => ByteOrder::Big,
        (Some([0xff, 0xfe, 0, 0]), _) => ByteOrder::Little,
        (_, Some(order)) => order,
        _ if valid(ByteOrder::Little) > valid(ByteOrder::Big) => ByteOrder::Little,
        _ => ByteOrder::Big,
    };
    units.iter().map(|unit| char::from_u32(number(unit, order)).unwrap_or('\u{fffd}')).collect()
}

/// Decodes UTF-7. A plus sign that begins nothing stands for itself, since it is in texts that are none.
pub(super) fn utf_7(octets: &[u8]) -> String {
    let mut out = String::with_capacity(octets.len());
    let mut rest = octets;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'+' {
            out.push(if first.is_ascii() { char::from(*first) } else { '\u{fffd}' });
            continue;
        }
        let end = after.iter().position(|b| six_bits(*b).is_none()).unwrap_or(after.len());
        let (shifted, behind) = after.split_at(end);
        let units = utf7_units(shifted);
        match (shifted, behind.strip_prefix(b"-")) {
            ([], Some(behind)) => {
                out.push('+');
                rest = behind;
            }
            _ if units.is_empty() => out.push('+'),
            (_, unshifted) => {
                out.extend(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')));
                rest = unshifted.unwrap_or(behind);
            }
        }
    }
    out
}

/// Returns the UTF-16 units in a shifted part of UTF-7.
fn utf7_units(shifted: &[u8]) -> Vec<u16> {
    // Bits that belong to no unit yet, and their number.
    let (mut bits, mut held) = (0_u32, 0);
    let mut units = Vec::with_capacity(shifted.len() * 6 / 16);
    for six in shifted.iter().filter_map(|b| six_bits(*b)) {
        bits = bits << 6 | six;
        held += 6;
        if held >= 16 {
            held -= 16;
            units.push((bits >> held) as u16);
            bits &= (1 << held) - 1;
        }
    }
    units
}

/// Returns the value of a character of base64.
fn six_bits(b: u8) -> Option<u32> {
    let six = match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(six))
}
