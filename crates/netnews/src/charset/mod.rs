//! Charsets: octets to text, by the name that an article declares.
//!
//! Every octet string becomes text; what cannot be read becomes U+FFFD, and control characters stay for the
//! caller to replace. A declaration is believed if it is known and plausible. Tables and most names are those
//! of encoding_rs; code pages of DOS come from oem_cp. What the Encoding Standard leaves out since browsers
//! must not have it, charsets with shifts (`shifted`), UTF-7 and UTF-32 (`unicode`), is read here. Called by
//! the pages, the full text search, and for descriptions of groups. Sources: RFC 2045 section 5.2, the
//! WHATWG's Encoding Standard, RFC 1456 (VISCII).

mod shifted;
mod unicode;

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, REPLACEMENT, SHIFT_JIS, UTF_8, WINDOWS_1252};
use oem_cp::code_table::DECODING_TABLE_CP_MAP;
use oem_cp::code_table_type::TableType;
use shifted::ShiftedCharset;
use unicode::UnicodeForm;

/// Longest name of a charset that is known, in octets.
const NAME_BYTES_MAX: usize = 40;

/// The characters of VISCII from 0x80 on (RFC 1456); its six characters below 0x20 are in [`VISCII_LOW`].
const VISCII: &str = "ẠẮẰẶẤẦẨẬẼẸẾỀỂỄỆỐỒỔỖỘỢỚỜỞỊỎỌỈỦŨỤỲÕắằặấầẩậẽẹếềểễệốồổỗỠƠộờởịỰỨỪỬơớƯ\
    ÀÁÂÃẢĂẳẵÈÉÊẺÌÍĨỳĐứÒÓÔạỷừửÙÚỹỵÝỡưàáâãảăữẫèéêẻìíĩỉđựòóôõỏọụùúũủýợỮ";
const VISCII_LOW: [(u8, char); 6] =
    [(0x02, 'Ẳ'), (0x05, 'Ẵ'), (0x06, 'Ẫ'), (0x14, 'Ỷ'), (0x19, 'Ỹ'), (0x1e, 'Ỵ')];

/// A known charset.
#[derive(Debug, Clone, Copy)]
enum Charset {
    /// US-ASCII, which says nothing about other octets.
    Ascii,
    /// One of the Encoding Standard.
    Standard(&'static Encoding),
    /// One whose octets mean what an escape before them says.
    Shifted(ShiftedCharset),
    /// A form of Unicode other than UTF-8.
    Unicode(UnicodeForm),
    /// A code page of DOS.
    CodePage(&'static TableType),
    /// VISCII.
    Viscii,
    /// One without a table here, of which ASCII alone can be shown.
    Unsupported,
}

impl Charset {
    /// Returns the charset of this name.
    fn named(label: &str) -> Option<Self> {
        let label = label.trim_ascii();
        if label.len() > NAME_BYTES_MAX {
            return None;
        }
        let name: String =
            label.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
        let name = name.as_str();
        match name {
            "usascii" | "ascii" | "ansix3.41968" | "iso646us" | "us" => return Some(Self::Ascii),
            "viscii" | "csviscii" | "viscii1.1" | "viscii1.11" => return Some(Self::Viscii),
            "gb18030" => {}
            _ => {
                let known = ShiftedCharset::named(name).map(Self::Shifted);
                if let Some(known) = known.or_else(|| UnicodeForm::named(name).map(Self::Unicode)) {
                    return Some(known);
                }
            }
        }
        if let Some(known) = Encoding::for_label(label.as_bytes()).filter(|known| *known != REPLACEMENT) {
            return Some(Self::Standard(known));
        }
        if let Some(page) = code_page_number(name) {
            return Some(Self::code_page(page));
        }
        let is_unsupported = ["armscii", "tcvn", "ebcdic", "georgian", "geostd"];
        is_unsupported.iter().any(|known| name.starts_with(known)).then_some(Self::Unsupported)
    }

    /// Returns the charset of a code page of DOS, Windows or IBM.
    fn code_page(number: u16) -> Self {
        let of_label = |label: &str| Encoding::for_label(label.as_bytes());
        let standard = match number {
            932 | 943 => Some(SHIFT_JIS),
            936 | 1386 => Some(GBK),
            949 | 970 => Some(EUC_KR),
            950 => Some(BIG5),
            65001 => Some(UTF_8),
            1250..=1258 => of_label(&format!("windows-{number}")),
            28591..=28606 => of_label(&format!("iso-8859-{}", number - 28590)),
            _ => None,
        };
        match (standard, DECODING_TABLE_CP_MAP.get(&number)) {
            (Some(standard), _) => Self::Standard(standard),
            (None, Some(table)) => Self::CodePage(table),
            (None, None) => Self::Unsupported,
        }
    }
}

/// Returns the number in the name of a code page, such as `cp437`, `ibm850` or `cspc8codepage437`, in lower
/// case and without hyphens.
fn code_page_number(name: &str) -> Option<u16> {
    let prefixes = ["cspc8codepage", "cspcp", "cspc", "csibm", "xcp", "xibm", "cp", "ibm", "dos", "oem"];
    let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let end = rest.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.trim_start_matches('0').parse().ok()
}

/// Returns whether a charset of this name keeps its state from octet to octet, so that texts in it begin
/// afresh and cannot be joined before they are decoded: each encoded word stands for itself.
pub fn has_shifts(declared: &str) -> bool {
    match Charset::named(declared) {
        Some(Charset::Shifted(_)) => true,
        Some(Charset::Unicode(form)) => form == UnicodeForm::Utf7,
        _ => false,
    }
}

/// Decodes octets that were declared to be in this charset, if any was declared.
///
/// UTF-8 is UTF-8, with U+FFFD for each sequence that is none, unless there are more of those than there are
/// characters of several octets: then the declaration is wrong, and the octets are windows-1252. Octets that
/// are declared to be in Latin 1 or windows-1252 are that, unless all of them are valid UTF-8. Without a
/// declaration, with US-ASCII or an unknown one, see [`guess`].
pub fn decode(declared: Option<&str>, octets: &[u8]) -> String {
    match declared.and_then(Charset::named) {
        None | Some(Charset::Ascii) => guess(octets),
        Some(Charset::Standard(encoding)) if encoding == UTF_8 => {
            utf_8(octets, |count| count.broken <= count.whole).unwrap_or_else(|| windows_1252(octets))
        }
        Some(Charset::Standard(encoding)) if encoding == WINDOWS_1252 => {
            utf_8(octets, |count| count.broken == 0).unwrap_or_else(|| windows_1252(octets))
        }
        Some(Charset::Standard(encoding)) => by(encoding, octets),
        Some(Charset::Shifted(charset)) => of_seven_bits(octets, |octets| charset.decode(octets)),
        Some(Charset::Unicode(UnicodeForm::Utf7)) => of_seven_bits(octets, unicode::utf_7),
        Some(Charset::Unicode(form)) => form.decode(octets),
        Some(Charset::CodePage(table)) => eight_bits(octets, |at| match table {
            TableType::Complete(table) => table.get(at).copied(),
            TableType::Incomplete(table) => table.get(at).copied().flatten(),
        }),
        Some(Charset::Viscii) => viscii(octets),
        Some(Charset::Unsupported) => eight_bits(octets, |_| None),
    }
}

/// Decodes octets without a declared charset: as UTF-8, with U+FFFD for each sequence that is none, if more
/// characters of several octets are valid than not; as ISO-2022-JP if they are ASCII and have its escapes;
/// otherwise as windows-1252.
pub fn guess(octets: &[u8]) -> String {
    if octets.is_ascii() && shifted::has_japanese_escapes(octets) {
        return ShiftedCharset::Japanese.decode(octets);
    }
    utf_8(octets, Utf8Count::has_more_whole).unwrap_or_else(|| windows_1252(octets))
}

/// Returns whether [`guess`] reads octets as UTF-8.
pub fn is_utf_8(octets: &[u8]) -> bool {
    std::str::from_utf8(octets).is_ok() || Utf8Count::of(octets).is_utf_8(Utf8Count::has_more_whole)
}

/// Returns whether lines and names in a charset of this name look as in ASCII until they are decoded.
pub(crate) fn has_ascii_lines(declared: &str) -> bool {
    match Charset::named(declared) {
        None | Some(Charset::Ascii | Charset::CodePage(_) | Charset::Viscii | Charset::Unsupported) => true,
        Some(Charset::Standard(encoding)) => encoding.is_ascii_compatible(),
        Some(Charset::Shifted(_)) => true,
        Some(Charset::Unicode(_)) => false,
    }
}

/// Sequences of octets from 0x80 on.
struct Utf8Count {
    /// Characters of UTF-8.
    whole: usize,
    /// Sequences that are none.
    broken: usize,
    /// Octets at the end that begin a character, as where a text was cut.
    cut: usize,
}

impl Utf8Count {
    fn of(octets: &[u8]) -> Self {
        let mut count = Self { whole: 0, broken: 0, cut: 0 };
        for chunk in octets.utf8_chunks() {
            if !chunk.valid().is_ascii() {
                count.whole += chunk.valid().bytes().filter(|b| *b >= 0xc0).count();
            }
            let invalid = chunk.invalid();
            count.broken += usize::from(!invalid.is_empty());
            count.cut = match std::str::from_utf8(invalid) {
                Err(error) if error.error_len().is_none() => invalid.len(),
                _ => 0,
            };
        }
        // What is cut off is not broken.
        count.broken -= usize::from(count.cut > 0);
        count
    }

    fn has_more_whole(&self) -> bool {
        self.whole > self.broken
    }

    /// Returns whether these are counts of UTF-8; if there are characters at all, `is_likely` decides.
    fn is_utf_8(&self, is_likely: impl Fn(&Self) -> bool) -> bool {
        match self.whole {
            0 => self.broken == 0 && self.cut == 0,
            _ => is_likely(self),
        }
    }
}

/// Decodes UTF-8 if that is likely. A character that is cut off at the end is dropped.
fn utf_8(octets: &[u8], is_likely: impl Fn(&Utf8Count) -> bool) -> Option<String> {
    if let Ok(text) = std::str::from_utf8(octets) {
        return Some(text.to_owned());
    }
    let count = Utf8Count::of(octets);
    let whole = octets.get(..octets.len().saturating_sub(count.cut))?;
    count.is_utf_8(is_likely).then(|| String::from_utf8_lossy(whole).into_owned())
}

fn by(encoding: &'static Encoding, octets: &[u8]) -> String {
    encoding.decode_without_bom_handling(octets).0.into_owned()
}

fn is_c1(c: char) -> bool {
    ('\u{80}'..='\u{9f}').contains(&c)
}

/// Decodes windows-1252, in which five octets have no meaning.
fn windows_1252(octets: &[u8]) -> String {
    let text = by(WINDOWS_1252, octets);
    if text.contains(is_c1) { text.replace(is_c1, "\u{fffd}") } else { text }
}

/// Decodes octets of a charset that has seven bits, unless they are UTF-8 with characters of more.
fn of_seven_bits(octets: &[u8], decode: impl Fn(&[u8]) -> String) -> String {
    match std::str::from_utf8(octets) {
        Ok(text) if !text.is_ascii() => text.to_owned(),
        _ => decode(octets),
    }
}

/// Decodes ASCII, and other octets by a table that begins at 0x80.
fn eight_bits(octets: &[u8], of_upper: impl Fn(usize) -> Option<char>) -> String {
    let character = |b: &u8| match usize::from(*b).checked_sub(0x80) {
        None => char::from(*b),
        Some(at) => of_upper(at).unwrap_or('\u{fffd}'),
    };
    octets.iter().map(character).collect()
}

fn viscii(octets: &[u8]) -> String {
    let upper: Vec<char> = VISCII.chars().collect();
    let text = eight_bits(octets, |at| upper.get(at).copied());
    let low =
        |c: char| VISCII_LOW.iter().find(|(octet, _)| char::from(*octet) == c).map_or(c, |(_, found)| *found);
    text.chars().map(low).collect()
}

#[cfg(test)]
mod tests;
