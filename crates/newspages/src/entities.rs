//! Character references of HTML: `&copy;`, `&copy`, `&#169;` and `&#xa9;`.
//!
//! Numbers are read as in the WHATWG's standard: those of C1 controls mean windows-1252, those of no
//! character a replacement. Names are those of HTML 4, including prefixes that need no `;`. Called by `html`.
//! Source: HTML Living Standard, sections 13.2.5.72 to 13.2.5.80 and 13.5.

use std::ops::RangeInclusive;

use crate::{charset, work};

/// Maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 13;
/// Lengths of names that need no `;`, in bytes.
const LEGACY_BYTES: RangeInclusive<usize> = 2..=6;
/// Bytes examined of a name that is compared with another.
const COMPARED_BYTES: usize = 2;

/// Reads the reference at whose `&` the text begins; returns its character and length in bytes, or `None` if
/// it is not one.
pub(crate) fn read(text: &str) -> Option<(char, usize)> {
    let inner = text.strip_prefix('&')?;
    let (character, bytes) = match inner.strip_prefix('#') {
        Some(number) => numeric(number).map(|(character, bytes)| (character, bytes + 1))?,
        None => named(inner)?,
    };
    Some((character, bytes + 1))
}

/// Returns the character of a number after `&#`, and its length in bytes.
fn numeric(text: &str) -> Option<(char, usize)> {
    let (digits, prefix_bytes, radix) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 1, 16),
        None => (text, 0, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, after) = digits.split_at(end);
    if digits.is_empty() {
        return None;
    }
    // A number that is too large is no character.
    let number = u32::from_str_radix(digits, radix).unwrap_or(u32::MAX);
    Some((character(number), prefix_bytes + end + usize::from(after.starts_with(';'))))
}

/// Returns the character of a number.
fn character(number: u32) -> char {
    match u8::try_from(number) {
        Ok(0) => '\u{fffd}',
        Ok(octet @ 0x80..=0x9f) => {
            let read = charset::decode(Some("windows-1252"), &[octet]).chars().next();
            read.filter(|c| *c != '\u{fffd}').unwrap_or(char::from(octet))
        }
        _ => char::from_u32(number).unwrap_or('\u{fffd}'),
    }
}

/// Returns the character of a name after `&`, and its length in bytes: a name with its `;`, otherwise the
/// longest name that needs none.
fn named(text: &str) -> Option<(char, usize)> {
    let window = text.as_bytes().get(..text.len().min(NAME_BYTES_MAX + 1))?;
    let end = window.iter().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(window.len());
    if window.get(end) == Some(&b';')
        && let Some(name) = window.get(..end)
        && let Some(character) = find(LEGACY, name).or_else(|| find(MORE, name))
    {
        return Some((character, end + 1));
    }
    // No name is longer than the letters and digits here: most `&` begin none, and cost nothing more.
    let lengths = *LEGACY_BYTES.start()..=end.min(*LEGACY_BYTES.end());
    lengths.rev().find_map(|bytes| Some((find(LEGACY, window.get(..bytes)?)?, bytes)))
}

fn find(names: &[(&str, char)], name: &[u8]) -> Option<char> {
    work::take(names.len().checked_ilog2().map_or(0, |halvings| halvings as usize + 1) * COMPARED_BYTES);
    let at = names.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok()?;
    names.get(at).map(|(_, character)| *character)
}

/// Names that need no `;`, in ascending order.
#[rustfmt::skip]
const LEGACY: &[(&str, char)] = &[
    ("AElig", '\u{c6}'), ("AMP", '&'), ("Aacute", '\u{c1}'), ("Acirc", '\u{c2}'),
    ("Agrave", '\u{c0}'), ("Aring", '\u{c5}'), ("Atilde", '\u{c3}'), ("Auml", '\u{c4}'),
    ("COPY", '\u{a9}'), ("Ccedil", '\u{c7}'), ("ETH", '\u{d0}'), ("Eacute", '\u{c9}'),
    ("Ecirc", '\u{ca}'), ("Egrave", '\u{c8}'), ("Euml", '\u{cb}'), ("GT", '>'),
    ("Iacute", '\u{cd}'), ("Icirc", '\u{ce}'), ("Igrave", '\u{cc}'), ("Iuml", '\u{cf}'),
    ("LT", '<'), ("Ntilde", '\u{d1}'), ("Oacute", '\u{d3}'), ("Ocirc", '\u{d4}'),
    ("Ograve", '\u{d2}'), ("Oslash", '\u{d8}'), ("Otilde", '\u{d5}'), ("Ouml", '\u{d6}'),
    ("QUOT", '"'), ("REG", '\u{ae}'), ("THORN", '\u{de}'), ("Uacute", '\u{da}'),
    ("Ucirc", '\u{db}'), ("Ugrave", '\u{d9}'), ("Uuml", '\u{dc}'), ("Yacute", '\u{dd}'),
    ("aacute", '\u{e1}'), ("acirc", '\u{e2}'), ("acute", '\u{b4}'), ("aelig", '\u{e6}'),
    ("agrave", '\u{e0}'), ("amp", '&'), ("aring", '\u{e5}'), ("atilde", '\u{e3}'),
    ("auml", '\u{e4}'), ("brvbar", '\u{a6}'), ("ccedil", '\u{e7}'), ("cedil", '\u{b8}'),
    ("cent", '\u{a2}'), ("copy", '\u{a9}'), ("curren", '\u{a4}'), ("deg", '\u{b0}'),
    ("divide", '\u{f7}'), ("eacute", '\u{e9}'), ("ecirc", '\u{ea}'), ("egrave", '\u{e8}'),
    ("eth", '\u{f0}'), ("euml", '\u{eb}'), ("frac12", '\u{bd}'), ("frac14", '\u{bc}'),
    ("frac34", '\u{be}'), ("gt", '>'), ("iacute", '\u{ed}'), ("icirc", '\u{ee}'),
    ("iexcl", '\u{a1}'), ("igrave", '\u{ec}'), ("iquest", '\u{bf}'), ("iuml", '\u{ef}'),
    ("laquo", '\u{ab}'), ("lt", '<'), ("macr", '\u{af}'), ("micro", '\u{b5}'), ("middot", '\u{b7}'),
    ("nbsp", '\u{a0}'), ("not", '\u{ac}'), ("ntilde", '\u{f1}'), ("oacute", '\u{f3}'),
    ("ocirc", '\u{f4}'), ("ograve", '\u{f2}'), ("ordf", '\u{aa}'), ("ordm", '\u{ba}'),
    ("oslash", '\u{f8}'), ("otilde", '\u{f5}'), ("ouml", '\u{f6}'), ("para", '\u{b6}'),
    ("plusmn", '\u{b1}'), ("pound", '\u{a3}'), ("quot", '"'), ("raquo", '\u{bb}'),
    ("reg", '\u{ae}'), ("sect", '\u{a7}'), ("shy", '\u{ad}'), ("sup1", '\u{b9}'),
    ("sup2", '\u{b2}'), ("sup3", '\u{b3}'), ("szlig", '\u{df}'), ("thorn", '\u{fe}'),
    ("times", '\u{d7}'), ("uacute", '\u{fa}'), ("ucirc", '\u{fb}'), ("ugrave", '\u{f9}'),
    ("uml", '\u{a8}'), ("uuml", '\u{fc}'), ("yacute", '\u{fd}'), ("yen", '\u{a5}'),
    ("yuml", '\u{ff}'),
];

/// Names that need their `;`, in ascending order.
#[rustfmt::skip]
const MORE: &[(&str, char)] = &[
    ("Alpha", '\u{391}'), ("Beta", '\u{392}'), ("Chi", '\u{3a7}'), ("Dagger", '\u{2021}'),
    ("Delta", '\u{394}'), ("Epsilon", '\u{395}'), ("Eta", '\u{397}'), ("Gamma", '\u{393}'),
    ("Iota", '\u{399}'), ("Kappa", '\u{39a}'), ("Lambda", '\u{39b}'), ("Mu", '\u{39c}'),
    ("Nu", '\u{39d}'), ("OElig", '\u{152}'), ("Omega", '\u{3a9}'), ("Omicron", '\u{39f}'),
    ("Phi", '\u{3a6}'), ("Pi", '\u{3a0}'), ("Prime", '\u{2033}'), ("Psi", '\u{3a8}'),
    ("Rho", '\u{3a1}'), ("Scaron", '\u{160}'), ("Sigma", '\u{3a3}'), ("Tau", '\u{3a4}'),
    ("Theta", '\u{398}'), ("Upsilon", '\u{3a5}'), ("Xi", '\u{39e}'), ("Yuml", '\u{178}'),
    ("Zeta", '\u{396}'), ("alefsym", '\u{2135}'), ("alpha", '\u{3b1}'), ("and", '\u{2227}'),
    ("ang", '\u{2220}'), ("apos", '\u{27}'), ("asymp", '\u{2248}'), ("bdquo", '\u{201e}'),
    ("beta", '\u{3b2}'), ("bull", '\u{2022}'), ("cap", '\u{2229}'), ("centerdot", '\u{b7}'),
    ("chi", '\u{3c7}'), ("circ", '\u{2c6}'), ("clubs", '\u{2663}'), ("cong", '\u{2245}'),
    ("copysr", '\u{2117}'), ("crarr", '\u{21b5}'), ("cup", '\u{222a}'), ("dArr", '\u{21d3}'),
    ("dagger", '\u{2020}'), ("darr", '\u{2193}'), ("delta", '\u{3b4}'), ("diams", '\u{2666}'),
    ("divideontimes", '\u{22c7}'), ("empty", '\u{2205}'), ("emsp", '\u{2003}'),
    ("ensp", '\u{2002}'), ("epsilon", '\u{3b5}'), ("equiv", '\u{2261}'), ("eta", '\u{3b7}'),
    ("euro", '\u{20ac}'), ("exist", '\u{2203}'), ("fnof", '\u{192}'), ("forall", '\u{2200}'),
    ("frasl", '\u{2044}'), ("gamma", '\u{3b3}'), ("ge", '\u{2265}'), ("gtcc", '\u{2aa7}'),
    ("gtcir", '\u{2a7a}'), ("gtdot", '\u{22d7}'), ("gtlPar", '\u{2995}'), ("gtquest", '\u{2a7c}'),
    ("gtrapprox", '\u{2a86}'), ("gtrarr", '\u{2978}'), ("gtrdot", '\u{22d7}'),
    ("gtreqless", '\u{22db}'), ("gtreqqless", '\u{2a8c}'), ("gtrless", '\u{2277}'),
    ("gtrsim", '\u{2273}'), ("hArr", '\u{21d4}'), ("harr", '\u{2194}'), ("hearts", '\u{2665}'),
    ("hellip", '\u{2026}'), ("image", '\u{2111}'), ("infin", '\u{221e}'), ("int", '\u{222b}'),
    ("iota", '\u{3b9}'), ("isin", '\u{2208}'), ("kappa", '\u{3ba}'), ("lArr", '\u{21d0}'),
    ("lambda", '\u{3bb}'), ("lang", '\u{27e8}'), ("larr", '\u{2190}'), ("lceil", '\u{2308}'),
    ("ldquo", '\u{201c}'), ("le", '\u{2264}'), ("lfloor", '\u{230a}'), ("lowast", '\u{2217}'),
    ("loz", '\u{25ca}'), ("lrm", '\u{200e}'), ("lsaquo", '\u{2039}'), ("lsquo", '\u{2018}'),
    ("ltcc", '\u{2aa6}'), ("ltcir", '\u{2a79}'), ("ltdot", '\u{22d6}'), ("lthree", '\u{22cb}'),
    ("ltimes", '\u{22c9}'), ("ltlarr", '\u{2976}'), ("ltquest", '\u{2a7b}'), ("ltrPar", '\u{2996}'),
    ("ltri", '\u{25c3}'), ("ltrie", '\u{22b4}'), ("ltrif", '\u{25c2}'), ("mdash", '\u{2014}'),
    ("minus", '\u{2212}'), ("mu", '\u{3bc}'), ("nabla", '\u{2207}'), ("ndash", '\u{2013}'),
    ("ne", '\u{2260}'), ("ni", '\u{220b}'), ("notin", '\u{2209}'), ("notinva", '\u{2209}'),
    ("notinvb", '\u{22f7}'), ("notinvc", '\u{22f6}'), ("notni", '\u{220c}'),
    ("notniva", '\u{220c}'), ("notnivb", '\u{22fe}'), ("notnivc", '\u{22fd}'), ("nsub", '\u{2284}'),
    ("nu", '\u{3bd}'), ("oelig", '\u{153}'), ("oline", '\u{203e}'), ("omega", '\u{3c9}'),
    ("omicron", '\u{3bf}'), ("oplus", '\u{2295}'), ("or", '\u{2228}'), ("otimes", '\u{2297}'),
    ("parallel", '\u{2225}'), ("part", '\u{2202}'), ("permil", '\u{2030}'), ("perp", '\u{22a5}'),
    ("phi", '\u{3c6}'), ("pi", '\u{3c0}'), ("piv", '\u{3d6}'), ("prime", '\u{2032}'),
    ("prod", '\u{220f}'), ("prop", '\u{221d}'), ("psi", '\u{3c8}'), ("rArr", '\u{21d2}'),
    ("radic", '\u{221a}'), ("rang", '\u{27e9}'), ("rarr", '\u{2192}'), ("rceil", '\u{2309}'),
    ("rdquo", '\u{201d}'), ("real", '\u{211c}'), ("rfloor", '\u{230b}'), ("rho", '\u{3c1}'),
    ("rlm", '\u{200f}'), ("rsaquo", '\u{203a}'), ("rsquo", '\u{2019}'), ("sbquo", '\u{201a}'),
    ("scaron", '\u{161}'), ("sdot", '\u{22c5}'), ("sigma", '\u{3c3}'), ("sigmaf", '\u{3c2}'),
    ("sim", '\u{223c}'), ("spades", '\u{2660}'), ("sub", '\u{2282}'), ("sube", '\u{2286}'),
    ("sum", '\u{2211}'), ("sup", '\u{2283}'), ("supe", '\u{2287}'), ("tau", '\u{3c4}'),
    ("there4", '\u{2234}'), ("theta", '\u{3b8}'), ("thetasym", '\u{3d1}'), ("thinsp", '\u{2009}'),
    ("tilde", '\u{2dc}'), ("timesb", '\u{22a0}'), ("timesbar", '\u{2a31}'), ("timesd", '\u{2a30}'),
    ("trade", '\u{2122}'), ("uArr", '\u{21d1}'), ("uarr", '\u{2191}'), ("upsih", '\u{3d2}'),
    ("upsilon", '\u{3c5}'), ("weierp", '\u{2118}'), ("xi", '\u{3be}'), ("zeta", '\u{3b6}'),
    ("zwj", '\u{200d}'), ("zwnj", '\u{200c}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_within_the_length_limit() {
        assert!(LEGACY.is_sorted_by_key(|(name, _)| name) && MORE.is_sorted_by_key(|(name, _)| name));
        assert!(LEGACY.iter().all(|(name, _)| LEGACY_BYTES.contains(&name.len())));
        assert_eq!(MORE.iter().map(|(name, _)| name.len()).max(), Some(NAME_BYTES_MAX));
    }

    #[test]
    fn numbers_of_c1_controls_mean_windows_1252() {
        for (text, expected) in [
            ("&#128;", Some(('\u{20ac}', 6))),
            ("&#150;", Some(('\u{2013}', 6))),
            ("&#x97 ", Some(('\u{2014}', 5))),
            ("&#129;", Some(('\u{81}', 6))),
            ("&#160;", Some(('\u{a0}', 6))),
            ("&#0;", Some(('\u{fffd}', 4))),
            ("&#xD800;", Some(('\u{fffd}', 8))),
            ("&#99999999999999;", Some(('\u{fffd}', 17))),
            ("&#00000000000000065;", Some(('A', 20))),
            ("&#65", Some(('A', 4))),
            ("&#", None),
            ("&#x", None),
            ("&#;", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn legacy_names_need_no_semicolon_and_others_do() {
        for (text, expected) in [
            ("&copy 2026", Some(('\u{a9}', 5))),
            ("&copy;", Some(('\u{a9}', 6))),
            ("&copyright", Some(('\u{a9}', 5))),
            ("&AMP", Some(('&', 4))),
            ("&notit;", Some(('\u{ac}', 4))),
            ("&notin;", Some(('\u{2209}', 7))),
            ("&mdash;", Some(('\u{2014}', 7))),
            ("&mdash", None),
            ("&trade;", Some(('\u{2122}', 7))),
            ("&thetasym;", Some(('\u{3d1}', 10))),
            ("&lt\u{e9}", Some(('<', 3))),
            ("&bogus;", None),
            ("& ", None),
            ("&", None),
            ("&\u{e9};", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
