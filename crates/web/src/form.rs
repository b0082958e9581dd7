//! Submitted forms: their fields, and the proof that the form was ours.
//!
//! A handler with a [`FormSubmission`] gets no request without the token of a form that was shown to the same
//! browser (CSRF), none that the browser marks as coming from another site, and none that is too long or too
//! slow. Called by axum for handlers. Sources: the URL standard's application/x-www-form-urlencoded; Fetch
//! Metadata (Sec-Fetch-Site).

use super::memory::MemoryReservation;
use super::visitor::Visitor;
use super::{WebState, answers};
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::str::FromStr;
use std::sync::Arc;
use tokio::time::timeout;

/// Default maximum length of a form in bytes.
const FORM_BYTES_MAX: usize = 16 << 10;
/// Copies of a form in memory: as received, its fields, and the data made from them.
const FORM_COPIES: usize = 3;
/// Maximum number of fields.
const FIELDS_MAX: usize = 100;
/// Name of the field with the token.
pub(super) const TOKEN_FIELD: &str = "form_token";
/// The media type of forms.
const MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

/// A form submitted by a visitor.
pub(super) struct FormSubmission {
    pub visitor: Visitor,
    _memory: MemoryReservation,
    fields: Vec<(String, String)>,
}

impl FormSubmission {
    /// Returns the value of a field; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Returns all fields but the token.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        fields.filter(|(name, _)| *name != TOKEN_FIELD)
    }

    /// Reads a form of at most `bytes_max` bytes.
    pub async fn read(request: Request, shared: &Arc<WebState>, bytes_max: usize) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, shared).await?;
        if is_foreign(&parts.headers) {
            return Err(refused("A form of another site cannot be sent here."));
        }
        let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default();
        if !media_type.trim().eq_ignore_ascii_case(MEDIA_TYPE) {
            let text = "Only forms can be sent here.";
            return Err(answers::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let size = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let size = size.unwrap_or(bytes_max).min(bytes_max);
        let memory = visitor.memory().take(FORM_COPIES * size).await.map_err(|_| answers::busy())?;
        let body = body_of(body, shared, bytes_max).await?;
        let Some(fields) = parse(&body) else {
            return Err(answers::text(StatusCode::BAD_REQUEST, "That is no form."));
        };
        let submission = Self { visitor, _memory: memory, fields };
        if !submission.visitor.is_form_token(shared, submission.field(TOKEN_FIELD)) {
            return Err(refused(
                "The form is too old, or was not shown to you. Go back, reload it, and try again.",
            ));
        }
        Ok(submission)
    }
}

impl FromRequest<Arc<WebState>> for FormSubmission {
    type Rejection = Response;

    async fn from_request(request: Request, shared: &Arc<WebState>) -> Result<Self, Response> {
        Self::read(request, shared, FORM_BYTES_MAX).await
    }
}

fn refused(text: &str) -> Response {
    answers::text(StatusCode::FORBIDDEN, text)
}

/// Returns true if the browser marks the request as coming from another site.
fn is_foreign(headers: &HeaderMap) -> bool {
    let from = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    !matches!(from, None | Some(b"same-origin" | b"none"))
}

async fn body_of(body: Body, shared: &WebState, bytes_max: usize) -> Result<Vec<u8>, Response> {
    let limit = shared.config().web.request_timeout;
    match timeout(limit, to_bytes(body, bytes_max)).await {
        Ok(Ok(body)) => Ok(body.into()),
        Ok(Err(_)) => {
            let text = format!("That is too long; at most {bytes_max} bytes can be sent here.");
            Err(answers::text(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Err(_) => Err(answers::text(StatusCode::REQUEST_TIMEOUT, "That took too long.")),
    }
}

/// Parses the fields of a form; `None` if it is invalid.
pub fn parse(body: &[u8]) -> Option<Vec<(String, String)>> {
    let pairs = body.split(|b| *b == b'&').filter(|pair| !pair.is_empty());
    let fields: Vec<_> = pairs.take(FIELDS_MAX + 1).map(field).collect::<Option<_>>()?;
    (fields.len() <= FIELDS_MAX).then_some(fields)
}

fn field(pair: &[u8]) -> Option<(String, String)> {
    let equals = pair.iter().position(|b| *b == b'=').unwrap_or(pair.len());
    let (name, value) = pair.split_at_checked(equals)?;
    Some((decoded(name)?, decoded(value.get(1..).unwrap_or_default())?))
}

/// Decodes `+` and `%XX`; `None` if the text is not UTF-8.
pub(super) fn decoded(text: &[u8]) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        octets.push(match first {
            b'+' => b' ',
            b'%' => match after {
                [high, low, after @ ..] => {
                    rest = after;
                    let digit = |b: &u8| char::from(*b).to_digit(16);
                    u8::try_from(digit(high)? * 16 + digit(low)?).ok()?
                }
                _ => return None,
            },
            other => *other,
        });
    }
    String::from_utf8(octets).ok()
}

/// Returns the value of a field of a query.
pub(super) fn asked(query: Option<&str>, name: &str) -> String {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(own, _)| *own == name).map_or("", |(_, value)| value);
    decoded(value.as_bytes()).unwrap_or_default()
}

/// A field of a query is no number.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no number")]
pub(super) struct NotANumber(&'static str);

/// Returns the number in a field of a query; `None` if the field is absent or empty.
pub(super) fn asked_number<N: FromStr>(
    query: Option<&str>,
    name: &'static str,
) -> Result<Option<N>, NotANumber> {
    match asked(query, name).as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| NotANumber(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_query_are_numbers() {
        let number = |query| asked_number::<u64>(Some(query), "before");
        assert_eq!((number("a=1"), number("before="), number("before=7")), (Ok(None), Ok(None), Ok(Some(7))));
        for wrong in ["before=x", "before=-1", "before=1.5", "before=99999999999999999999"] {
            assert_eq!(number(wrong), Err(NotANumber("before")), "{wrong}");
        }
    }

    #[test]
    fn fields_are_decoded_and_invalid_forms_rejected() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields = parse(b"a=1&b=x+y%26%3D%c3%BC&&c&=d&a=2").unwrap();
        assert_eq!(
            fields,
            [pair("a", "1"), pair("b", "x y&=\u{fc}"), pair("c", ""), pair("", "d"), pair("a", "2")]
        );
        assert_eq!(parse(b""), Some(Vec::new()));
        for wrong in [&b"a=%"[..], b"a=%4", b"a=%zz", b"a=%ff", b"a=\xff", b"%+1=a"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        assert!(parse("a=1&".repeat(FIELDS_MAX).as_bytes()).is_some());
        assert!(parse("a=1&".repeat(FIELDS_MAX + 1).as_bytes()).is_none());
    }
}
