//! Requests to a provider over HTTPS: one on a connection of its own, with limits on time and size.
//!
//! No redirect is followed and no compression accepted, so an answer is what the named server sent. Called by
//! `provider`. Source: RFC 9112.

use crate::connection::Io;
use access::tls::{RemoteServer, RemoteServerError};
use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use nntp_io::{ClientLimits, Connection, Role};
use site_config::{Link, LinkTls, is_loopback_host};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Longest answer, in bytes: a provider's keys with their certificates.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Maximum bytes of an answer's first line and headers.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Maximum number of headers of an answer.
const HEADERS_MAX: usize = 64;
/// Longest address.
const URL_BYTES_MAX: usize = 2048;

/// The reason why a provider gives no answer.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The address is not one that is asked.
    Address(String),
    /// The connection cannot be prepared.
    Setup(RemoteServerError),
    /// The connection failed.
    Connection(nntp_io::Error),
    /// The answer is no HTTP, or breaks off.
    Http(hyper::Error),
    /// The answer is too long, or breaks off.
    Body,
    /// The answer did not end in time.
    TooSlow,
    /// A thread of ours has failed.
    Internal,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(url) => write!(f, "{url} is not an address that is asked: https, or this machine"),
            Self::Setup(error) => error.fmt(f),
            Self::Connection(error) => error.fmt(f),
            Self::Http(error) => error.fmt(f),
            Self::Body => write!(f, "the answer breaks off, or is longer than {ANSWER_BYTES_MAX} bytes"),
            Self::TooSlow => f.write_str("no answer in time"),
            Self::Internal => f.write_str("an internal failure"),
        }
    }
}

impl std::error::Error for FetchError {}

/// The settings of requests to a provider.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    pub tls_ca: Option<PathBuf>,
    pub timeout: Duration,
}

/// What is sent with a request.
#[derive(Debug, Default)]
pub(super) struct SentData {
    /// A form; without one the request is a GET.
    pub form: Option<String>,
    /// The value of Authorization.
    pub authorization: Option<HeaderValue>,
}

/// Returns true if a provider may be asked at this address, or a browser sent there.
pub(super) fn is_safe_url(url: &str) -> bool {
    let is_plain = url.len() <= URL_BYTES_MAX && url.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    let Some(uri) = url.parse::<Uri>().ok().filter(|_| is_plain) else { return false };
    let Some(authority) = uri.authority().filter(|authority| !authority.as_str().contains('@')) else {
        return false;
    };
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback_host(authority.as_str()),
        _ => false,
    }
}

/// Ends the task of a connection with the request.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Fetcher {
    /// Asks for what is at an address, or sends a form there; returns the status and the answer.
    pub async fn fetch(&self, url: &str, sent: SentData) -> Result<(StatusCode, Vec<u8>), FetchError> {
        if !is_safe_url(url) {
            return Err(FetchError::Address(url.chars().take(URL_BYTES_MAX).collect()));
        }
        let fetched = timeout(self.timeout, self.fetch_from(url, sent)).await;
        fetched.map_err(|_| FetchError::TooSlow)?
    }

    async fn fetch_from(&self, url: &str, sent: SentData) -> Result<(StatusCode, Vec<u8>), FetchError> {
        let no_address = || FetchError::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| no_address())?;
        let authority = uri.authority().ok_or_else(no_address)?.clone();
        let is_tls = uri.scheme_str() == Some("https");
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let server = RemoteServer { to: format!("{}:{port}", authority.host()), link: self.link(is_tls) };
        let limits = ClientLimits {
            connect_timeout: self.timeout,
            idle_timeout: self.timeout,
            ..ClientLimits::default()
        };
        let options = spawn_blocking(move || server.target(Role::Any, limits)).await;
        let options = options.map_err(|_| FetchError::Internal)?.map_err(FetchError::Setup)?;
        let connection = Connection::connect(&options).await.map_err(FetchError::Connection)?;
        let io = Io::unlimited(connection.into_transport(), self.timeout);
        let (mut sender, serving) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(io)
            .await
            .map_err(FetchError::Http)?;
        let _serving = AbortOnDrop(tokio::spawn(async move {
            // Errors come with the answer, too.
            let _ended = serving.await;
        }));
        let request = request(&uri, authority.as_str(), sent).ok_or_else(no_address)?;
        let answer = sender.send_request(request).await.map_err(FetchError::Http)?;
        let (parts, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), ANSWER_BYTES_MAX).await.map_err(|_| FetchError::Body)?;
        Ok((parts.status, body.into()))
    }

    fn link(&self, is_tls: bool) -> Link {
        Link {
            bind: None,
            tls: if is_tls { LinkTls::Implicit } else { LinkTls::Off },
            tls_verify: true,
            tls_ca: self.tls_ca.clone(),
            user: None,
            password_file: None,
            mechanisms: Vec::new(),
            compress: false,
        }
    }
}

fn request(uri: &Uri, authority: &str, sent: SentData) -> Option<Request<Body>> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let SentData { form, authorization } = sent;
    let request = Request::builder()
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, "newsreel")
        .header(ACCEPT, "application/json");
    let request = match form {
        None => request.method(Method::GET).body(Body::empty()),
        Some(form) => {
            let request = request.method(Method::POST);
            request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(Body::from(form))
        }
    };
    let mut request = request.ok()?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization);
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine_are_asked() {
        for good in ["https://login.example.org/a?b=c", "http://127.0.0.1:8080/x", "http://[::1]:9/"] {
            assert!(is_safe_url(good), "{good}");
        }
        for bad in [
            "",
            "/path",
            "login.example.org",
            "http://login.example.org/",
            "https://a@login.example.org/",
            "https://login.example.org/#x",
            "https://login.example.org/ x",
            "https://login.example.org/\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
            "file:///etc/passwd",
            &format!("https://a.example/{}", "x".repeat(URL_BYTES_MAX)),
        ] {
            assert!(!is_safe_url(bad), "{bad}");
        }
    }
}
