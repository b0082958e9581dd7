//! Whether a request is meant for this server: by the host that it names.
//!
//! A page of another site may get a browser to ask this server under a name of that site, whose address was
//! changed after the page was loaded (DNS rebinding); the answer would then belong to that page. So only
//! names that are known to be ours are answered. Called by `connection`. Source: RFC 9110 sections 7.2 and
//! 15.5.20.

use crate::config::Config;
use axum::extract::Request;
use axum::http::header::HOST;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a request names a host of ours, once.
pub(super) fn is_ours(request: &Request, config: &Config) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    is_own_name(without_port(host), config)
        && request.uri().host().is_none_or(|host| is_own_name(host, config))
}

fn without_port(host: &str) -> &str {
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
    use crate::config::tests::with_trash;
    use axum::body::Body;

    #[test]
    fn only_addresses_and_names_of_ours_are_answered() {
        let config =
            with_trash("[site]\npath_identity = \"news.example.org\"\n[web]\nnames = [\"www.example.org\"]");
        let asked = |host: &str| {
            let request = Request::builder().uri("/").header(HOST, host).body(Body::empty()).unwrap();
            is_ours(&request, &config)
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
        for host in ["", "evil.example", "news.example.org.evil.example", "127.0.0.1.evil.example", "a:b:80"]
        {
            assert!(!asked(host), "{host}");
        }
        let twice = Request::builder().header(HOST, "localhost").header(HOST, "evil.example");
        assert!(!is_ours(&twice.body(Body::empty()).unwrap(), &config));
        let none = Request::builder().uri("/").body(Body::empty()).unwrap();
        assert!(!is_ours(&none, &config));
        let other = Request::builder().uri("http://evil.example/").header(HOST, "localhost");
        assert!(!is_ours(&other.body(Body::empty()).unwrap(), &config));
    }
}
