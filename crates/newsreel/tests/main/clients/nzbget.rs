//! nzbget downloads a binary of several parts, yEnc-encoded and posted before, over TLS and with a password.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use super::site::{PASSWORD, Site, USER};
use super::tunnel::Tunnel;
use super::{installed, text};
use crate::link::Link;

const GROUP: &str = "alt.binaries.test";
/// Octets of the file, and of each of its parts.
const FILE_BYTES: usize = 300_000;
const PART_BYTES: usize = 100_000;
/// Octets in a yEnc line.
const LINE_BYTES: usize = 128;

/// Encodes a part as yEnc: octets shifted by 42, critical ones escaped.
fn encode(part: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut column = 0;
    for octet in part {
        let moved = octet.wrapping_add(42);
        if matches!(moved, 0 | b'\n' | b'\r' | b'=') {
            text.extend_from_slice(&[b'=', moved.wrapping_add(64)]);
            column += 2;
        } else {
            text.push(moved);
            column += 1;
        }
        if column >= LINE_BYTES {
            text.extend_from_slice(b"\r\n");
            column = 0;
        }
    }
    if column > 0 {
        text.extend_from_slice(b"\r\n");
    }
    text
}

fn crc32(octets: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(octets);
    crc.sum()
}

/// Returns the proto-articles of the parts.
fn parts(file: &[u8]) -> Vec<Vec<u8>> {
    let total = file.len().div_ceil(PART_BYTES);
    let parts = file.chunks(PART_BYTES).enumerate().map(|(n, part)| {
        let number = n + 1;
        let begin = n * PART_BYTES + 1;
        let mut article = format!(
            "From: sam@x.example\r\nNewsgroups: {GROUP}\r\nSubject: file.bin ({number}/{total})\r\n\
             Message-ID: <part{number}@x.example>\r\n\r\n\
             =ybegin part={number} total={total} line={LINE_BYTES} size={} name=file.bin\r\n\
             =ypart begin={begin} end={}\r\n",
            file.len(),
            begin + part.len() - 1,
        )
        .into_bytes();
        article.extend(encode(part));
        let end = format!(
            "=yend size={} part={number} pcrc32={:08x} crc32={:08x}\r\n",
            part.len(),
            crc32(part),
            crc32(file)
        );
        article.extend_from_slice(end.as_bytes());
        article
    });
    parts.collect()
}

/// Returns the description of the file that nzbget reads.
fn nzb(parts: &[Vec<u8>]) -> String {
    let mut segments = String::new();
    for (n, part) in parts.iter().enumerate() {
        let (bytes, number) = (part.len(), n + 1);
        write!(segments, "<segment bytes=\"{bytes}\" number=\"{number}\">part{number}@x.example</segment>")
            .unwrap();
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<nzb xmlns=\"http://www.newzbin.com/DTD/2003/nzb\">\
         <file poster=\"sam@x.example\" date=\"1770000000\" subject=\"file.bin (1/{})\"><groups><group>{GROUP}</group></groups>\
         <segments>{segments}</segments></file></nzb>\n",
        parts.len()
    )
}

#[test]
fn nzbget_downloads_a_binary_over_tls() {
    if !installed(&[("nzbget", "nzbget")]) {
        return;
    }
    let site = Site::start_secured(&format!("{GROUP} y Binaries\n"));
    let file: Vec<u8> = (0..FILE_BYTES).map(|i| (i * 7 + i / 251) as u8).collect();
    let parts = parts(&file);
    let tunnel = Tunnel::to(&site);
    let mut client = tunnel.client();
    for part in &parts {
        assert!(client.ask("POST").starts_with("340 "));
        let mut wire = Vec::new();
        netnews::nntp::wire::dot_stuff(part, &mut wire);
        client.send(wire);
        client.send(".\r\n");
        assert!(client.line().starts_with("240 "));
    }
    let link = Link::to(([127, 0, 0, 1], site.tls_port().parse().unwrap()).into(), Duration::from_millis(5));
    let dir = site.dir().join("nzbget");
    fs::create_dir(&dir).unwrap();
    let description = dir.join("file.nzb");
    fs::write(&description, nzb(&parts)).unwrap();
    let options = [
        format!("MainDir={}", text(&dir)),
        format!("DestDir={}/done", text(&dir)),
        "InterDir=".to_owned(),
        "WriteLog=none".to_owned(),
        "OutputMode=log".to_owned(),
        "ParCheck=manual".to_owned(),
        "Server1.Active=yes".to_owned(),
        "Server1.Host=localhost".to_owned(),
        format!("Server1.Port={}", link.port()),
        "Server1.Encryption=yes".to_owned(),
        format!("Server1.Username={USER}"),
        format!("Server1.Password={PASSWORD}"),
        "Server1.Connections=2".to_owned(),
        format!("CertStore={}", text(&site.authority())),
        "CertCheck=yes".to_owned(),
    ];
    let mut command = Command::new("nzbget");
    command.arg("-n");
    options.iter().for_each(|option| {
        command.args(["-o", option]);
    });
    let output = command.arg(&description).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("completely downloaded"), "{said}");
    assert!(!said.contains("[ERROR] Decoding"), "{said}");
    // nzbget has checked each part's CRC; the file equals the one posted.
    assert!(fs::read(dir.join("done/file/file.bin")).unwrap() == file, "{said}");
    // Two connections, each with TLS, login and QUIT; at most two commands for a part.
    assert!(link.passed().round_trips <= 2 * 6 + 2 * parts.len(), "{:?}", link.passed());
}
