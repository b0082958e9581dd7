//! Checking that a request is meant for this server, by the host that it names.
//!
//! HTTP/1.0 has no Host, and checks by load balancers have none, so a missing host is accepted. A page of
//! another site may make a browser ask this server under a name of that site, whose address was changed after
//! the page was loaded (DNS rebinding); the answer would then be readable for that page. Therefore only names
//! known to be ours are answered; browsers always name one. Called by `connection` and `reading`. Sources:
//! RFC 9110 sections 7.2 and 15.5.20; RFC 9112 section 3.2.

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::{HeaderMap, Version};
use site_config::Config;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The reason why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFault {
    /// The request names a host that is not ours.
    Other,
    /// Host is there twice, or missing after HTTP/1.0.
    Malformed,
}

/// Checks that a request names a host of ours, or none where that is allowed.
pub(super) fn check(request: &Request, config: &Config) -> Result<(), HostFault> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| HostFault::Other)?,
        (None, None) if request.version() <= Version::HTTP_10 => "",
        _ => return Err(HostFault::Malformed),
    };
    let is_ours = (named.is_empty() || is_own_name(without_port(named), config))
        && request.uri().host().is_none_or(|host| is_own_name(host, config));
    if is_ours { Ok(()) } else { Err(HostFault::Other) }
}

/// Returns the name by which an admitted client knows this server, with the port.
pub(super) fn asked_for<'a>(headers: &'a HeaderMap, config: &'a Config) -> &'a str {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
    named.unwrap_or_else(|| config.web.names.first().unwrap_or(&config.site.path_identity))
}

/// Returns a host without the port after it.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    }
}

fn is_own_name(name: &str, config: &Config) -> bool {
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let own = [&config.site.path_identity];
    v6.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
        || name.parse::<Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || own.into_iter().chain(&config.web.names).any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use site_config::testing::with_trash;

    #[test]
    fn only_addresses_and_names_of_ours_are_answered() {
        let config =
            with_trash("[site]\npath_identity = \"news.example.org\"\n[web]\nnames = [\"www.example.org\"]");
        let asked = |host: &str| {
            let request = Request::builder().uri("/").header(HOST, host).body(Body::empty()).unwrap();
            check(&request, &config).is_ok()
        };
        for host in [
            "127.0.0.1:8119",
            "[::1]:8119",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:1",
            "news.example.org:80",
        ] {
            assert!(asked(host), "{host}");
        }
        assert!(asked("WWW.example.org"));
        assert!(asked(""), "no host is not another one");
        for host in ["evil.example", "news.example.org.evil.example", "127.0.0.1.evil.example", "a:b:80"] {
            assert!(!asked(host), "{host}");
        }
        let twice = Request::builder().header(HOST, "localhost").header(HOST, "evil.example");
        assert_eq!(check(&twice.body(Body::empty()).unwrap(), &config), Err(HostFault::Malformed));
        let other = Request::builder().uri("http://evil.example/").header(HOST, "localhost");
        assert_eq!(check(&other.body(Body::empty()).unwrap(), &config), Err(HostFault::Other));
    }

    #[test]
    fn requests_of_http_1_0_need_no_host() {
        let config = with_trash("[site]\npath_identity = \"news.example.org\"");
        let asked = |uri: &str, version| {
            check(&Request::builder().uri(uri).version(version).body(Body::empty()).unwrap(), &config)
        };
        assert_eq!(asked("/", Version::HTTP_10), Ok(()));
        assert_eq!(asked("/", Version::HTTP_11), Err(HostFault::Malformed));
        assert_eq!(asked("http://evil.example/", Version::HTTP_10), Err(HostFault::Other));
        assert_eq!(asked_for(&HeaderMap::new(), &config), "news.example.org");
    }
}
