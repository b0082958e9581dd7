//! The issuer of an OpenID provider: the address below which its description is found.
//!
//! Called by `kinds`. Source: OpenID Connect Discovery section 3.

use std::fmt;

use super::host_port::is_loopback_host;

/// Reason why a text is not the issuer of an OpenID provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerError(String);

impl fmt::Display for IssuerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not the issuer of a provider: https://HOST, perhaps with a port and a path, without ? and # \
             (http for this machine only)",
            self.0
        )
    }
}

impl std::error::Error for IssuerError {}

/// Returns the text if it can be an issuer (OpenID Connect Discovery section 3).
pub(super) fn read_issuer(text: &str) -> Result<String, IssuerError> {
    let wrong = || IssuerError(text.to_owned());
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && !b"?#\\\"<>".contains(&b));
    let is_host = !authority.is_empty() && !authority.contains('@');
    let is_safe = scheme == "https" || scheme == "http" && is_loopback_host(authority);
    (is_plain && is_host && is_safe).then(|| text.to_owned()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_https_except_on_this_machine() {
        for good in [
            "https://login.example.org",
            "https://login.example.org:8443/realms/news",
            "http://127.0.0.1:8080/",
            "http://localhost:9",
            "http://[::1]:9/x",
        ] {
            assert_eq!(read_issuer(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "login.example.org",
            "http://login.example.org",
            "http://localhost.example.org",
            "https://",
            "https://a@b.example",
            "https://a.example?x=y",
            "https://a.example#x",
            "ftp://a.example",
            "https://a.example/ b",
        ] {
            assert!(read_issuer(bad).is_err(), "{bad}");
        }
    }
}
