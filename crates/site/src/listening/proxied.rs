//! Connections through a proxy: a PROXY header before everything else has the client's address.
//!
//! Only the addresses in `site.proxy_protocol_from` may send one, and must: a connection from there without
//! it is closed, as any address could be forged otherwise. The header is read in exact pieces, so that none
//! of the client's own bytes, such as a TLS handshake, is read with it. Called by `server`. Source: the PROXY
//! protocol of HAProxy, versions 1 and 2.

use nntp_io::Socket;
use proxy_header::{ParseConfig, ProxyHeader};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Bytes that every header has, and from which its version is known.
const PREFIX_BYTES: usize = 12;
/// Beginning of a header of version 2.
const SIGNATURE: &[u8; PREFIX_BYTES] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a header of version 2 before its addresses; the last two are the length of the rest.
const FIXED_BYTES: usize = 16;
/// Longest header of version 1, the end of its line included.
const LINE_BYTES_MAX: usize = 107;
/// Longest header of version 2: addresses and what proxies add to them, such as the name of a certificate.
const HEADER_BYTES_MAX: usize = 4096;
/// Why a client without an address is refused.
const UNNAMED: &str = "its PROXY header does not say which client it comes from";
/// Time within which a proxy must send the header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Both ends of a connection as the proxy sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// Address of the client.
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub local: SocketAddr,
}

/// Reads the header; `None` for a connection that the proxy makes for itself, such as a health check (LOCAL):
/// both ends are then those of the connection.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if there is no header, a malformed one, or one of a client without an
/// address (UNKNOWN, UNSPEC, UNIX), which must not get the rights of the proxy; [`io::ErrorKind::TimedOut`],
/// and those of the socket.
pub async fn read_header(socket: &mut Socket) -> io::Result<Option<ProxiedAddresses>> {
    let stream = socket.registered()?;
    let bytes =
        timeout(HEADER_TIMEOUT, header_bytes(stream)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    ends(&bytes)
}

async fn header_bytes(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PREFIX_BYTES];
    stream.read_exact(&mut bytes).await?;
    if bytes == SIGNATURE {
        read_more(stream, &mut bytes, FIXED_BYTES).await?;
        let follows = match bytes.last_chunk() {
            Some(length) => usize::from(u16::from_be_bytes(*length)),
            None => 0,
        };
        let whole = FIXED_BYTES + follows;
        if whole > HEADER_BYTES_MAX {
            return Err(invalid("its PROXY header is too long"));
        }
        read_more(stream, &mut bytes, whole).await?;
        return Ok(bytes);
    }
    if !bytes.starts_with(b"PROXY ") {
        return Err(invalid("it does not begin with a PROXY header"));
    }
    while !bytes.ends_with(b"\n") {
        let longer = bytes.len() + 1;
        if longer > LINE_BYTES_MAX {
            return Err(invalid("its PROXY header is too long"));
        }
        read_more(stream, &mut bytes, longer).await?;
    }
    Ok(bytes)
}

/// Reads until `bytes` has this length.
async fn read_more(
    stream: &mut (impl AsyncReadExt + Unpin),
    bytes: &mut Vec<u8>,
    length: usize,
) -> io::Result<()> {
    let from = bytes.len();
    bytes.resize(length.max(from), 0);
    stream.read_exact(bytes.get_mut(from..).unwrap_or_default()).await?;
    Ok(())
}

fn ends(bytes: &[u8]) -> io::Result<Option<ProxiedAddresses>> {
    let malformed = || invalid("its PROXY header is malformed");
    match ProxyHeader::parse(bytes, ParseConfig::default()) {
        Ok((_, length)) if length == bytes.len() && is_local(bytes) => Ok(None),
        Ok((header, length)) if length == bytes.len() => {
            let ends = header.proxied_address().ok_or_else(|| invalid(UNNAMED))?;
            Ok(Some(ProxiedAddresses { client: ends.source, local: ends.destination }))
        }
        _ => Err(malformed()),
    }
}

/// Whether a header is one of version 2 with the command LOCAL. Version 1 has no such word.
fn is_local(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE) && bytes.get(PREFIX_BYTES).is_some_and(|command| command & 0x0f == 0)
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Parses a header, for the fuzz target; returns its length and addresses.
#[cfg(feature = "testing")]
pub fn parse(mut input: &[u8]) -> io::Result<(usize, Option<ProxiedAddresses>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let bytes = runtime.block_on(header_bytes(&mut input))?;
    Ok((bytes.len(), ends(&bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut input: &[u8]) -> (io::Result<Option<ProxiedAddresses>>, &[u8]) {
        match header_bytes(&mut input).await {
            Ok(bytes) => (ends(&bytes), input),
            Err(error) => (Err(error), input),
        }
    }

    fn between(client: &str, local: &str) -> Option<ProxiedAddresses> {
        Some(ProxiedAddresses { client: client.parse().unwrap(), local: local.parse().unwrap() })
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[0x20 | command, family][..], &length, rest].concat()
    }

    #[tokio::test]
    async fn the_header_is_read_and_nothing_of_the_client() {
        let four =
            [&[192, 0, 2, 7, 192, 0, 2, 1][..], &5555u16.to_be_bytes(), &119u16.to_be_bytes()].concat();
        let with_more = [&four[..], &[0x02, 0, 3, b'a', b'b', b'c']].concat();
        for (header, expected) in [
            (
                b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 119\r\n".to_vec(),
                between("192.0.2.7:5555", "192.0.2.1:119"),
            ),
            (b"PROXY TCP6 2001:db8::7 ::1 5555 563\r\n".to_vec(), between("[2001:db8::7]:5555", "[::1]:563")),
            (version_2(1, 0x11, &four), between("192.0.2.7:5555", "192.0.2.1:119")),
            (version_2(1, 0x11, &with_more), between("192.0.2.7:5555", "192.0.2.1:119")),
            (version_2(0, 0, &[]), None),
            // The addresses of the proxy itself do not matter.
            (version_2(0, 0x11, &four), None),
        ] {
            let input = [&header[..], b"MODE READER\r\n"].concat();
            let (read, rest) = read(&input).await;
            assert_eq!(read.unwrap(), expected, "{}", header.escape_ascii());
            assert_eq!(rest, b"MODE READER\r\n", "{}", header.escape_ascii());
        }
    }

    #[tokio::test]
    async fn malformed_and_missing_headers_are_refused() {
        let long = format!("PROXY TCP4 {}\r\n", "1".repeat(LINE_BYTES_MAX));
        for input in [
            &b"MODE READER\r\nDATE\r\n"[..],
            b"PROXY TCP4 192.0.2.7\r\n",
            b"PROXY TCP4 2001:db8::7 ::1 5555 563\r\n",
            b"PROXY TCP4 192.0.2.7 192.0.2.1 99999 119\r\n",
            long.as_bytes(),
            &version_2(1, 0x11, &[192, 0, 2, 7]),
            &version_2(1, 0x11, &vec![0; HEADER_BYTES_MAX]),
            &version_2(9, 0x11, &[0; 12]),
            b"PROXY TCP4 192.0.2.7 192.0.2.1 5555",
            // Clients whose addresses the proxy does not know.
            b"PROXY UNKNOWN\r\n",
            b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
            &version_2(1, 0, &[]),
            &version_2(1, 0x31, &[b'/'; 216]),
        ] {
            assert!(read(input).await.0.is_err(), "{}", input.escape_ascii());
        }
    }
}
