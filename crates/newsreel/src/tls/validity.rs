//! When a certificate is valid.
//!
//! Called by `check`. Source: RFC 5280 section 4.1.2.5.

use super::files;
use super::names::{SEQUENCE, VERSION, Values, inside};
use netnews::date;
use std::path::Path;

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Fields between version and validity: serial number, algorithm, issuer.
const FIELDS_BEFORE_VALIDITY: usize = 3;

/// From when until when the certificate in a PEM file is valid, in Unix seconds; `None` if that cannot be
/// read.
pub(crate) fn lifetime(path: &Path) -> Option<(i64, i64)> {
    of(files::chain(path).ok()?.first()?)
}

fn of(der: &[u8]) -> Option<(i64, i64)> {
    let (_, body) = inside(der, SEQUENCE)?.next().filter(|(tag, _)| *tag == SEQUENCE)?;
    let mut fields = Values(body);
    if fields.clone().next()?.0 == VERSION {
        fields.next();
    }
    let (_, validity) = fields.nth(FIELDS_BEFORE_VALIDITY).filter(|(tag, _)| *tag == SEQUENCE)?;
    let mut times = Values(validity);
    Some((time(times.next()?)?, time(times.next()?)?))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, as RFC 5280 has them.
fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (day, hour) = digits.split_at_checked(digits.len().checked_sub(6)?)?;
    let day = match (tag, day.len()) {
        // RFC 5280: below 50 they are of this century.
        (UTC_TIME, 6) => format!("{}{day}", if day < "50" { "20" } else { "19" }),
        (GENERALIZED_TIME, 8) => day.to_owned(),
        _ => return None,
    };
    date::parse_nntp(day.as_bytes(), hour.as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_forms() {
        assert_eq!(time((UTC_TIME, b"260101000000Z")), Some(1_767_225_600));
        assert_eq!(time((UTC_TIME, b"990101000000Z")), Some(915_148_800));
        assert_eq!(time((GENERALIZED_TIME, b"20260101000001Z")), Some(1_767_225_601));
        for text in [&b"2601010000Z"[..], b"260101000000", b"261301000000Z", b"xx0101000000Z", b""] {
            assert_eq!(time((UTC_TIME, text)), None);
        }
    }

    #[test]
    fn that_of_a_certificate_and_of_none() {
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2020, 2, 3);
        params.not_after = rcgen::date_time_ymd(2070, 2, 3);
        let der = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec();
        assert_eq!(of(&der), Some((1_580_688_000, 3_158_611_200)));
        for length in 0..der.len().min(200) {
            of(&der[..length]);
        }
    }
}
