//! The validity of certificates.
//!
//! Called by `check` and where certificates are loaded. Source: RFC 5280 section 4.1.2.5.

use std::path::Path;

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

use super::files;

/// Returns the times from which and until which the certificate in a PEM file is valid, in Unix seconds;
/// `None` if they cannot be read.
pub fn lifetime(path: &Path) -> Option<(i64, i64)> {
    of(files::chain(path).ok()?.first()?)
}

/// Returns true if the certificate in a PEM file names itself as its issuer; false if it cannot be read.
pub(super) fn is_own(path: &Path) -> bool {
    let chain = files::chain(path).unwrap_or_default();
    let certificate = chain.first().and_then(|der| Certificate::from_der(der).ok());
    certificate.is_some_and(|own| own.tbs_certificate().issuer() == own.tbs_certificate().subject())
}

/// Like [`lifetime`], for a certificate in DER.
pub(super) fn of(der: &[u8]) -> Option<(i64, i64)> {
    let certificate = Certificate::from_der(der).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let unix = |time: Time| i64::try_from(time.to_unix_duration().as_secs()).ok();
    Some((unix(validity.not_before)?, unix(validity.not_after)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_of_certificates_and_of_other_bytes() {
        // Before 2050 dates have two digits for the year, from then on four.
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
