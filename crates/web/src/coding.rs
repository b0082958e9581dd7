//! Content codings: text is sent compressed to clients that take it.
//!
//! Bodies in one piece are coded, of types that gain by it, and not those with the token of a form: the
//! length of a compressed page would let a stranger guess the token, if he can put text into the page
//! (BREACH). Called by `connection` for every answer, and by `delivery`, which keeps coded pages. Sources:
//! RFC 9110 sections 8.4 and 12.5.3; RFC 1952, 7932, 8878.

use super::answers::ForOneVisitor;
use axum::body::{Body, HttpBody, to_bytes};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use tokio::task::block_in_place;

/// Size from which a body is coded, in bytes.
const CODED_BYTES_MIN: usize = 1 << 10;
/// Size up to which a body is coded; larger ones are sent as they are.
const CODED_BYTES_MAX: usize = 8 << 20;
/// Size up to which coding takes so little time that no other connection has to wait.
const SHORT_BYTES_MAX: usize = 16 << 10;
/// Levels: of each coding the one after which much more time saves few bytes.
const GZIP_LEVEL: u32 = 5;
const ZSTD_LEVEL: i32 = 3;
const BROTLI_QUALITY: i32 = 4;
/// Logarithm of brotli's window.
const BROTLI_WINDOW: i32 = 20;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentCoding {
    /// As it is.
    Identity,
    /// gzip, which all clients take.
    Gzip,
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
}

/// Codings by preference.
const PREFERRED: [(&str, ContentCoding); 3] =
    [("zstd", ContentCoding::Zstd), ("br", ContentCoding::Brotli), ("gzip", ContentCoding::Gzip)];

impl ContentCoding {
    /// Returns the coding for a client: the one that it takes best.
    pub fn for_client(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        let taken: Vec<(&str, f32)> = lines.flat_map(|line| line.split(',')).map(weighted).collect();
        let weight = |name: &str| {
            let of = |name: &str| {
                taken.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, weight)| *weight)
            };
            of(name).or_else(|| of("*")).unwrap_or(0.0)
        };
        let mut best = (Self::Identity, 0.0);
        for (name, coding) in PREFERRED {
            if weight(name) > best.1 {
                best = (coding, weight(name));
            }
        }
        best.0
    }

    /// Returns the name in headers; `None` for the identity.
    pub fn name(self) -> Option<&'static str> {
        PREFERRED.iter().find(|(_, coding)| *coding == self).map(|(name, _)| *name)
    }

    /// Returns these octets in this coding.
    pub fn coded(self, octets: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(octets.to_vec()),
            Self::Gzip => {
                let mut coder =
                    GzEncoder::new(Vec::with_capacity(octets.len() / 3), Compression::new(GZIP_LEVEL));
                coder.write_all(octets)?;
                coder.finish()
            }
            Self::Zstd => zstd::bulk::compress(octets, ZSTD_LEVEL),
            Self::Brotli => {
                let mut coded = Vec::with_capacity(octets.len() / 3);
                let parameters = brotli::enc::BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    lgwin: BROTLI_WINDOW,
                    size_hint: octets.len(),
                    ..Default::default()
                };
                brotli::BrotliCompress(&mut &*octets, &mut coded, &parameters)?;
                Ok(coded)
            }
        }
    }
}

/// Returns a coding and its weight.
fn weighted(item: &str) -> (&str, f32) {
    let mut parts = item.split(';');
    let name = parts.next().unwrap_or_default().trim();
    // In either case of the letter (RFC 9110 12.4.2).
    let weight = |part: &'_ str| -> Option<f32> {
        let weight = part.trim().strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('=')?;
        Some(weight.trim().parse().unwrap_or(0.0))
    };
    (name, parts.find_map(weight).unwrap_or(1.0))
}

/// Returns whether the body of an answer gains by a coding, and may have one.
fn is_codable(answer: &Response) -> bool {
    let headers = answer.headers();
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    let is_text = media_type.starts_with("text/")
        || ["application/json", "application/atom+xml", "application/xml", "image/svg+xml"]
            .contains(&media_type)
        || media_type == "application/openmetrics-text";
    let size = answer.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    is_text
        && size.is_some_and(|size| (CODED_BYTES_MIN..=CODED_BYTES_MAX).contains(&size))
        && !headers.contains_key(CONTENT_ENCODING)
        && answer.extensions().get::<ForOneVisitor>().is_none()
}

/// Returns the answer in a coding, if that is possible and makes it shorter.
pub(super) async fn encoded(coding: ContentCoding, answer: Response) -> Response {
    if !is_codable(&answer) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    let Some(name) = coding.name() else { return Response::from_parts(parts, body) };
    let Ok(octets) = to_bytes(body, CODED_BYTES_MAX).await else {
        // The body is one piece in memory.
        return super::answers::busy();
    };
    let coded = match octets.len() {
        0..=SHORT_BYTES_MAX => coding.coded(&octets),
        _ => block_in_place(|| coding.coded(&octets)),
    };
    match coded {
        Ok(coded) if coded.len() < octets.len() => {
            parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
            parts.headers.remove(CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(coded))
        }
        _ => Response::from_parts(parts, Body::from(octets)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use std::io::Read;

    fn chosen(accepted: &str) -> ContentCoding {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, accepted.parse().unwrap());
        ContentCoding::for_client(&headers)
    }

    #[test]
    fn clients_get_the_coding_that_they_take_best() {
        for (accepted, coding) in [
            ("gzip, deflate, br, zstd", ContentCoding::Zstd),
            ("gzip, deflate, br", ContentCoding::Brotli),
            ("gzip", ContentCoding::Gzip),
            ("GZIP;q=0.5, br;q=0.2", ContentCoding::Gzip),
            ("gzip;q=0, br;q=0", ContentCoding::Identity),
            ("*", ContentCoding::Zstd),
            ("*;q=0.1, gzip", ContentCoding::Gzip),
            ("gzip;q=x", ContentCoding::Identity),
            ("gzip;Q=0, br ; q = 0", ContentCoding::Identity),
            ("identity", ContentCoding::Identity),
            ("", ContentCoding::Identity),
        ] {
            assert_eq!(chosen(accepted), coding, "{accepted}");
        }
        assert_eq!(ContentCoding::for_client(&HeaderMap::new()), ContentCoding::Identity);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn coded_text_is_restored_and_shorter() {
        let text = "On Friday she wrote: ".repeat(3_000);
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd, ContentCoding::Brotli] {
            let answer = super::super::answers::text(StatusCode::OK, text.clone());
            let answer = encoded(coding, answer).await;
            assert_eq!(answer.headers()[CONTENT_ENCODING], coding.name().unwrap());
            assert_eq!(answer.headers()[VARY], "accept-encoding");
            let octets = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert!(octets.len() < text.len() / 10, "{coding:?}");
            let mut restored = Vec::new();
            match coding {
                ContentCoding::Gzip => {
                    flate2::read::GzDecoder::new(&*octets).read_to_end(&mut restored).map(drop).unwrap();
                }
                ContentCoding::Zstd => restored = zstd::decode_all(&*octets).unwrap(),
                _ => brotli::BrotliDecompress(&mut &*octets, &mut restored).unwrap(),
            }
            assert_eq!(restored, (text.clone() + "\n").as_bytes(), "{coding:?}");
        }
    }

    #[tokio::test]
    async fn short_answers_pictures_and_pages_with_tokens_are_not_coded() {
        let text = |length: usize| super::super::answers::text(StatusCode::OK, "x".repeat(length));
        let mut with_token = text(5_000);
        with_token.extensions_mut().insert(ForOneVisitor);
        let picture = super::super::answers::of_type(StatusCode::OK, "image/png", "x".repeat(5_000));
        for answer in [text(100), with_token, picture] {
            assert!(!encoded(ContentCoding::Gzip, answer).await.headers().contains_key(CONTENT_ENCODING));
        }
    }
}
