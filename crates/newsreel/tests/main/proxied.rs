//! Clients behind a proxy that sends a PROXY header, and log lines about refused clients.

use crate::client::Client;
use crate::operated::{Operated, Serving};
use std::io::{Read, Write};
use std::net::TcpStream;

const PROXY: &str = "127.0.0.1";

/// Serves a site for readers at 192.0.2.7 only, which trusts the proxy at 127.0.0.1.
fn served() -> (Operated, Serving) {
    let site = Operated::new();
    site.edit(|text| {
        let text = text.replacen("[site]", &format!("[site]\nproxy_protocol_from = \"{PROXY}\""), 1);
        let (before, _) = text.split_once("\n[[access]]").unwrap();
        format!("{before}\n[[access]]\nfrom = \"192.0.2.7\"\nlistener = [\"192.0.2.1:119\"]\npost = \"*\"\n")
    });
    let serving = site.serve();
    (site, serving)
}

/// Returns the server's output until it closes a connection that begins with `sent`.
fn answered(serving: &Serving, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(serving.address).unwrap();
    stream.write_all(sent).unwrap();
    let mut text = Vec::new();
    // A connection that is closed unread may be reset.
    let _reset = stream.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

fn version_2(source: [u8; 4]) -> Vec<u8> {
    let head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c";
    let ports = [5555u16.to_be_bytes(), 119u16.to_be_bytes()].concat();
    [&head[..], &source, &[192, 0, 2, 1], &ports].concat()
}

#[test]
fn client_behind_a_proxy_is_identified_by_the_header() {
    let (_site, mut serving) = served();
    for header in [b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 119\r\n".to_vec(), version_2([192, 0, 2, 7])] {
        // The client's own bytes may come in the same segment.
        let text = answered(&serving, &[&header[..], b"MODE READER\r\nQUIT\r\n"].concat());
        let codes: Vec<&str> = text.lines().filter_map(|line| line.get(..3)).collect();
        assert_eq!(codes, ["200", "200", "205"], "{text}");
    }
    for header in [b"PROXY TCP4 192.0.2.8 192.0.2.1 5555 119\r\n".to_vec(), version_2([192, 0, 2, 9])] {
        let text = answered(&serving, &header);
        assert!(text.starts_with("502 "), "{text}");
    }
    let line = serving.logged(|line| line.contains("connection refused"));
    assert!(line.contains("INFO") && line.contains("192.0.2.8"), "{line}");
}

#[test]
fn proxy_connection_without_header_is_closed_silently() {
    let (_site, mut serving) = served();
    for sent in [&b"MODE READER\r\nDATE\r\n"[..], b"PROXY TCP4 192.0.2.7 192.0.2.1 99999 119\r\n"] {
        assert_eq!(answered(&serving, sent), "");
    }
    let line = serving.logged(|line| line.contains("connection from a proxy closed"));
    assert!(line.contains("WARN") && line.contains(PROXY), "{line}");
}

/// A header of version 2 without addresses.
fn version_2_without(command: u8) -> Vec<u8> {
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20 | command, 0, 0, 0]].concat()
}

#[test]
fn a_client_that_the_proxy_cannot_name_gets_none_of_its_rights() {
    let (site, serving) = served();
    site.edit(|text| text + "\n[[access]]\nfrom = \"127.0.0.1\"\npost = \"*\"\n");
    site.done(&["ctl", "reload"]);
    // The proxy itself has the rights of its address.
    let text = answered(&serving, &[&version_2_without(0)[..], b"QUIT\r\n"].concat());
    assert!(text.starts_with("200 "), "{text}");
    for header in [b"PROXY UNKNOWN\r\n".to_vec(), b"PROXY UNKNOWN 1 2 3 4\r\n".to_vec(), version_2_without(1)]
    {
        let text = answered(&serving, &[&header[..], b"QUIT\r\n"].concat());
        assert_eq!(text, "", "{}", header.escape_ascii());
    }
}

#[test]
fn only_configured_proxies_may_send_headers() {
    let (_site, serving) = served();
    let mut stranger = Client::connect_from([127, 0, 0, 2].into(), serving.address);
    let line = stranger.line();
    assert!(line.starts_with("502 "), "{line}");
}
