//! A small LDAP server on this machine for tests: it binds, searches and begins TLS as RFC 4511 says, or does
//! what no directory should.

use super::ldap::testing::{BerReader, element, elements, number};
use site_base::lock::Leaf;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// An entry of the directory.
#[derive(Debug, Clone)]
pub(super) struct FakeEntry {
    pub dn: &'static str,
    pub password: &'static str,
    pub attributes: &'static [(&'static str, &'static str)],
}

/// The behaviour of a fake directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    /// As the standards say.
    Good,
    /// It says nothing.
    Silent,
    /// Its answers are no BER.
    Garbage,
    /// It announces a message of 2 GiB.
    Huge,
    /// Its search never ends.
    Endless,
    /// One octet comes every tenth of a second.
    Slow,
    /// It answers other requests than were sent.
    OtherRequests,
    /// It hangs up.
    Short,
    /// It says that it is busy.
    Busy,
    /// Its searches below a place end with the result that there is more than it returns.
    Limited,
}

/// A running fake directory, which ends with the test's process.
#[derive(Debug)]
pub(super) struct FakeDirectory {
    pub address: SocketAddr,
    /// Binds that were asked for: distinguished names and passwords.
    pub binds: Arc<Leaf<Vec<(String, String)>>>,
}

impl FakeDirectory {
    pub fn start(manners: Manners, entries: &'static [FakeEntry]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let binds = Arc::<Leaf<Vec<(String, String)>>>::default();
        let seen = binds.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = seen.clone();
                std::thread::spawn(move || {
                    let _client_left = serve(stream.unwrap(), manners, entries, &seen);
                });
            }
        });
        Self { address, binds }
    }
}

fn serve(
    mut stream: TcpStream,
    manners: Manners,
    entries: &[FakeEntry],
    binds: &Leaf<Vec<(String, String)>>,
) -> std::io::Result<()> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let length = match head[1] {
            short @ 0..0x80 => usize::from(short),
            long => {
                let mut octets = vec![0; usize::from(long & 0x7f)];
                stream.read_exact(&mut octets)?;
                octets.iter().fold(0, |length, octet| (length << 8) | usize::from(*octet))
            }
        };
        let mut content = vec![0; length];
        stream.read_exact(&mut content)?;
        let mut message = BerReader(&content);
        let id = message.number(0x02).unwrap();
        let (tag, operation) = message.any().unwrap();
        let mut operation = BerReader(operation);
        let id = if manners == Manners::OtherRequests { id + 1 } else { id };
        let send = |operation: Vec<u8>| elements(0x30, &[number(0x02, id), operation]);
        let result = |tag: u8, code: u32| {
            send(elements(tag, &[number(0x0a, code), element(4, b""), element(4, b"as asked")]))
        };
        match manners {
            Manners::Silent => continue,
            Manners::Short => return Ok(()),
            Manners::Garbage => return stream.write_all(&[0xff; 4000]),
            Manners::Huge => return stream.write_all(b"\x30\x84\x7f\xff\xff\xff"),
            Manners::Busy => {
                stream.write_all(&result(if tag == 0x60 { 0x61 } else { 0x65 }, 51))?;
                continue;
            }
            Manners::Slow => {
                for octet in result(0x61, 0) {
                    stream.write_all(&[octet])?;
                    std::thread::sleep(Duration::from_millis(100));
                }
                continue;
            }
            Manners::Good | Manners::Endless | Manners::OtherRequests | Manners::Limited => {}
        }
        match tag {
            0x60 => {
                let _version = operation.number(0x02).unwrap();
                let dn = String::from_utf8(operation.of(4).unwrap().to_vec()).unwrap();
                let password = String::from_utf8_lossy(operation.of(0x80).unwrap()).into_owned();
                // Like real directories, this one takes a bind without a password for an anonymous one.
                let is_right = password.is_empty()
                    || entries.iter().any(|own| is_same(own.dn, &dn) && own.password == password);
                binds.lock().push((dn, password));
                stream.write_all(&result(0x61, if is_right { 0 } else { 49 }))?;
            }
            0x63 => {
                let base = String::from_utf8(operation.of(4).unwrap().to_vec()).unwrap();
                let scope = operation.number(0x0a).unwrap();
                let _deref = operation.any();
                let entries_max = operation.number(0x02).unwrap() as usize;
                let (_time, _types) = (operation.any(), operation.any());
                let (filter_tag, filter) = operation.any().unwrap();
                let lies = |own: &&FakeEntry| {
                    is_same(own.dn, &base)
                        || scope == 2 && own.dn.to_lowercase().ends_with(&base.to_lowercase())
                };
                let found = entries.iter().filter(lies).filter(|own| passes(own, filter_tag, filter));
                let found: Vec<Vec<u8>> = found.map(entry).map(send).collect();
                if manners == Manners::Endless {
                    loop {
                        stream.write_all(&found.concat())?;
                    }
                }
                // A reference is no entry.
                stream.write_all(&send(elements(0x73, &[element(4, b"ldap://elsewhere.example/")])))?;
                stream.write_all(&found.iter().take(entries_max).flatten().copied().collect::<Vec<u8>>())?;
                let is_there = entries.iter().any(|own| lies(&own));
                let is_limited = manners == Manners::Limited && base.starts_with("ou=groups");
                stream.write_all(&result(
                    0x65,
                    match is_there {
                        false => 32,
                        true if is_limited || found.len() > entries_max => 4,
                        true => 0,
                    },
                ))?;
            }
            // A request for TLS, which this directory does not speak.
            0x77 => stream.write_all(&result(0x78, 2))?,
            _ => return Ok(()),
        }
    }
}

fn is_same(own: &str, other: &str) -> bool {
    own.eq_ignore_ascii_case(&other.replace("\\2d", "-").replace("\\2e", "."))
}

fn entry(own: &FakeEntry) -> Vec<u8> {
    let text = |text: &str| element(4, text.as_bytes());
    let attributes: Vec<Vec<u8>> = (own.attributes.iter())
        .map(|(name, value)| elements(0x30, &[text(name), elements(0x31, &[text(value)])]))
        .collect();
    elements(0x64, &[text(own.dn), elements(0x30, &attributes)])
}

/// Evaluates `&`, `|`, `!`, `=` and presence.
fn passes(own: &FakeEntry, tag: u8, content: &[u8]) -> bool {
    let mut parts = BerReader(content);
    let mut tests = Vec::new();
    match tag {
        0x87 => true,
        0xa3 => {
            let (name, value) = (parts.of(4).unwrap(), parts.of(4).unwrap());
            let has = |(own, text): &(&str, &str)| {
                own.as_bytes().eq_ignore_ascii_case(name) && text.as_bytes().eq_ignore_ascii_case(value)
            };
            own.attributes.iter().any(has)
        }
        _ => {
            while let Some((tag, content)) = parts.any() {
                tests.push(passes(own, tag, content));
            }
            match tag {
                0xa0 => tests.iter().all(|test| *test),
                0xa1 => tests.iter().any(|test| *test),
                0xa2 => !tests[0],
                _ => panic!("no filter of the tests: {tag:x}"),
            }
        }
    }
}
