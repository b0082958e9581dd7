//! COMPRESS DEFLATE, alone and over TLS, and malicious streams.
//!
//! Source: RFC 8054.

use crate::client::{Client, article};
use crate::layers::settings;
use crate::running::Server;
use crate::tls::Site;
use crate::waiting::let_pass;
use flate2::{Compress, Compression, FlushCompress};
use std::time::Duration;

#[test]
fn capabilities_and_refusals_are_those_of_rfc_8054() {
    let site = Site::start();
    let mut client = Client::greeted(site.server.address);
    let labels = client.capabilities();
    assert!(labels.contains(&"COMPRESS DEFLATE".into()) && labels.contains(&"STARTTLS".into()), "{labels:?}");
    assert!(client.ask("COMPRESS").starts_with("501 "));
    assert!(client.ask("COMPRESS SHRINK").starts_with("503 "));
    client.send("COMPRESS DEFLATE\r\nDATE\r\n");
    assert_eq!(client.line(), "403 COMPRESS must not be pipelined");
    assert!(client.line().starts_with("111 "));
    client.compress();
    let labels = client.capabilities();
    assert!(!labels.iter().any(|label| label.starts_with("COMPRESS") || label == "STARTTLS"), "{labels:?}");
    assert!(client.ask("COMPRESS DEFLATE").starts_with("502 "));
    assert!(client.ask("STARTTLS").starts_with("502 "));
    assert!(client.ask("COMPRESS").starts_with("501 "));
    assert!(client.ask("QUIT").starts_with("205 "));
    assert!(client.is_cut_off());
}

/// Streams articles and reads them back, much at a time.
fn feed_and_read(client: &mut Client) {
    let ids: Vec<String> = (0..500).map(|i| format!("<c{i}@x.example>")).collect();
    let body = |i: usize| (0..60).map(|n| format!("line {n} of article {i}, as text is")).collect::<Vec<_>>();
    let offers: String = ids.iter().map(|id| format!("CHECK {id}\r\n")).collect();
    client.send(offers);
    for id in &ids {
        assert_eq!(client.line(), format!("238 {id}"));
    }
    let commands = ids
        .iter()
        .enumerate()
        .map(|(i, id)| format!("TAKETHIS {id}\r\n{}", article(id, "misc.test", &body(i).join("\r\n"))));
    client.send(commands.collect::<String>());
    for id in &ids {
        assert_eq!(client.line(), format!("239 {id}"));
    }
    assert!(client.ask("GROUP misc.test").starts_with("211 500 "));
    client.send("OVER 1-\r\n".to_owned() + &"BODY\r\nNEXT\r\n".repeat(499));
    assert!(client.line().starts_with("224 "));
    assert_eq!(client.block().len(), 500);
    for i in 0..499 {
        assert!(client.line().starts_with("222 "));
        assert_eq!(client.block(), body(i));
        assert!(client.line().starts_with("223 "));
    }
    // Repeated reads come from a cache, and are identical.
    for _ in 0..3 {
        assert!(client.ask("GROUP misc.test").starts_with("211 500 "));
        client.send("BODY\r\nNEXT\r\n".repeat(40) + "OVER 100-200\r\n");
        for i in 0..40 {
            assert!(client.line().starts_with("222 "));
            assert_eq!(client.block(), body(i));
            assert!(client.line().starts_with("223 "));
        }
        assert!(client.line().starts_with("224 "));
        assert_eq!(client.block().len(), 101);
    }
}

#[test]
fn peers_stream_and_readers_pipeline_compressed() {
    let server = Server::start();
    let mut client = Client::greeted(server.address);
    client.compress();
    feed_and_read(&mut client);
}

#[test]
fn compression_works_inside_tls() {
    let site = Site::start();
    let mut client = Client::encrypted(site.server.tls_address.unwrap(), settings(&site.authority, None));
    client.compress();
    feed_and_read(&mut client);
    assert!(client.ask("QUIT").starts_with("205 "));
    assert!(client.is_cut_off());
}

#[test]
fn silent_session_continues() {
    let server = Server::start();
    let mut client = Client::greeted(server.address);
    client.compress();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    let groups = client.block();
    assert!(groups.len() > 5);
    for _ in 0..2 {
        let_pass(Duration::from_millis(2_200), "after 2 s of silence the compressor is dropped");
        assert!(client.ask("LIST ACTIVE").starts_with("215 "));
        assert_eq!(client.block(), groups);
    }
}

/// Returns `bytes` as a raw deflate stream.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut out = Vec::with_capacity(bytes.len() / 100 + (64 << 10));
    compress.compress_vec(bytes, &mut out, FlushCompress::Sync).unwrap();
    assert_eq!(compress.total_in(), bytes.len() as u64);
    out
}

#[test]
fn bombs_are_cut_off_without_delaying_others() {
    let server = Server::start();
    let mut other = Client::greeted(server.address);
    let commands = b"\r\n".repeat(40 << 20);
    let line = vec![b'x'; 80 << 20];
    let article = [&b"TAKETHIS <bomb@x.example>\r\nPath: a\r\n\r\n"[..], &b"x\r\n".repeat(24 << 20)].concat();
    for (name, bomb) in [("empty commands", commands), ("a line", line), ("an article", article)] {
        let bomb = packed(&bomb);
        assert!(bomb.len() < 200_000, "{name}: {}", bomb.len());
        let mut client = Client::greeted(server.address);
        client.compress();
        // The connection may be cut off before everything is sent.
        let _cut_off = client.send_raw(&bomb);
        while let Some(answer) = client.line_or_end() {
            assert!(answer.starts_with("501 "), "{name}: {answer}");
        }
        assert!(other.ask("DATE").starts_with("111 "), "{name}");
    }
}

#[test]
fn damaged_stream_ends_the_connection() {
    let server = Server::start();
    for damage in [&b"DATE\r\n"[..], &[0xff; 40], &[0x06, 0x00]] {
        let mut client = Client::greeted(server.address);
        client.compress();
        assert!(client.ask("DATE").starts_with("111 "));
        client.send_raw(damage).unwrap();
        assert!(client.is_cut_off(), "{damage:?}");
    }
}
