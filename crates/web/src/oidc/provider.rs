//! A provider: its description and keys, which are kept for an hour, and finishing a login there.
//!
//! Keys are asked for again when a token names one that is not known, once for each login, so that a provider
//! may change them at any time. Called by `oidc`. Sources: OpenID Connect Discovery section 4, OpenID Connect
//! Core sections 3.1.2 and 3.1.3, RFC 6749 sections 2.3.1, 4.1.3 and 5.

use super::fetch::{FetchError, Fetcher, SentData, is_safe_url};
use super::id_token::{self, IdTokenFault, ProviderKey, TokenExpectation};
use super::state;
use access::tls::{RemoteServerError, first_line};
use axum::http::{HeaderValue, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use newspages::urls::escape;
use serde_json::{Map, Value};
use site_base::clock::unix_now;
use site_base::lock::Leaf;
use site_config::Oidc;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time for which what a provider says of itself is kept.
const KEPT: Duration = Duration::from_secs(3600);
/// Time for which a provider that gave no answer is not asked again for what it says of itself.
const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// Logins at a provider that are finished at once; others wait, for as long as an answer may take.
const LOGINS_MAX: usize = 8;
/// Longest code that a browser brings back, in bytes.
const CODE_BYTES_MAX: usize = 4096;
/// Path of a provider's description below its issuer.
const DESCRIPTION_PATH: &str = "/.well-known/openid-configuration";

/// The reason why a login at a provider fails.
#[derive(Debug)]
pub(super) enum ProviderError {
    /// The provider cannot be asked.
    Fetch(FetchError),
    /// It answers with this status where only success will do.
    Status(StatusCode),
    /// Its description, its keys or its answer make no sense.
    Answer(&'static str),
    /// The file of the client's secret cannot be read.
    Secret(RemoteServerError),
    /// It refuses what the browser brought.
    Refused(String),
    /// Its ID token is not accepted.
    Token(IdTokenFault),
    /// Too many logins are finished at once, or a thread of ours has failed.
    Busy,
}

impl ProviderError {
    /// Returns true if this is the fault of what the browser brought.
    pub fn is_of_client(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Token(_))
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(error) => error.fmt(f),
            Self::Status(status) => write!(f, "it answers {status}"),
            Self::Answer(what) => f.write_str(what),
            Self::Secret(error) => error.fmt(f),
            Self::Refused(why) => write!(f, "it refuses the login: {why}"),
            Self::Token(fault) => write!(f, "its ID token is not accepted: {fault}"),
            Self::Busy => f.write_str("too many logins at once"),
        }
    }
}

impl std::error::Error for ProviderError {}

impl From<FetchError> for ProviderError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

/// What a provider says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderDescription {
    authorization: String,
    token: String,
    keys: String,
    /// Where more is said of a user.
    user: Option<String>,
    /// The client's secret goes into Authorization, not into the form.
    takes_basic: bool,
}

impl ProviderDescription {
    fn parse(text: &[u8], issuer: &str) -> Option<Self> {
        let all: Map<String, Value> = serde_json::from_slice(text).ok()?;
        let url = |name: &str| {
            let url = all.get(name).and_then(Value::as_str).filter(|url| is_safe_url(url));
            url.map(str::to_owned)
        };
        // A description of another issuer may not stand for this one (section 4.3).
        all.get("issuer").and_then(Value::as_str).filter(|own| *own == issuer)?;
        let ways = all.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let has = |way: &str| ways.is_some_and(|ways| ways.iter().any(|own| own.as_str() == Some(way)));
        Some(Self {
            authorization: url("authorization_endpoint")?,
            token: url("token_endpoint")?,
            keys: url("jwks_uri")?,
            user: url("userinfo_endpoint"),
            takes_basic: ways.is_none() || has("client_secret_basic") || !has("client_secret_post"),
        })
    }
}

/// The tokens for a code.
struct TokenAnswer {
    id_token: String,
    /// What the provider can be asked with about the user.
    access_token: Option<String>,
}

/// What is kept of a provider.
#[derive(Debug, Default)]
struct KnownOfProvider {
    description: Option<(Instant, Arc<ProviderDescription>)>,
    keys: Option<(Instant, Arc<Vec<ProviderKey>>)>,
    failed: Option<Instant>,
}

/// A provider.
pub(super) struct Provider {
    pub config: Oidc,
    known: Leaf<KnownOfProvider>,
    logins: Semaphore,
}

/// What a browser is sent to a provider with.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuthorizationRequest<'a> {
    pub redirect: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    pub verifier: &'a str,
}

/// What finishes a login.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeExchange<'a> {
    pub code: &'a str,
    pub redirect: &'a str,
    pub nonce: &'a str,
    pub verifier: &'a str,
}

impl Provider {
    pub fn new(config: &Oidc) -> Self {
        Self { config: config.clone(), known: Leaf::default(), logins: Semaphore::new(LOGINS_MAX) }
    }

    fn fetcher(&self) -> Fetcher {
        Fetcher { tls_ca: self.config.tls_ca.clone(), timeout: self.config.timeout }
    }

    async fn text_at(&self, url: &str) -> Result<Vec<u8>, ProviderError> {
        match self.fetcher().fetch(url, SentData::default()).await? {
            (StatusCode::OK, text) => Ok(text),
            (status, _) => Err(ProviderError::Status(status)),
        }
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, ProviderError> {
        let permit = timeout(self.config.timeout, self.logins.acquire()).await;
        permit.map_err(|_| ProviderError::Busy)?.map_err(|_| ProviderError::Busy)
    }

    /// Returns the address to which a browser is sent.
    pub async fn authorization(&self, asked: &AuthorizationRequest<'_>) -> Result<String, ProviderError> {
        let description = self.description().await?;
        let scopes = std::iter::once("openid").chain(self.config.scopes.iter().map(String::as_str));
        let mut scopes: Vec<&str> = scopes.collect();
        scopes.dedup();
        let fields = [
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", asked.redirect),
            ("scope", &scopes.join(" ")),
            ("state", asked.state),
            ("nonce", asked.nonce),
            ("code_challenge", &state::challenge(asked.verifier)),
            ("code_challenge_method", "S256"),
        ];
        let join = if description.authorization.contains('?') { '&' } else { '?' };
        Ok(format!("{}{join}{}", description.authorization, form(&fields)))
    }

    /// Finishes a login; returns the claims of the ID token, and those that the provider has elsewhere if one
    /// of `wanted` is not among them.
    pub async fn finish(
        &self,
        exchange: &CodeExchange<'_>,
        wanted: &[&str],
    ) -> Result<Map<String, Value>, ProviderError> {
        if exchange.code.is_empty() || exchange.code.len() > CODE_BYTES_MAX {
            return Err(ProviderError::Refused("no code".into()));
        }
        let description = self.description().await?;
        let TokenAnswer { id_token, access_token } = {
            let _permit = self.permit().await?;
            self.token(&description, exchange).await?
        };
        let expected = TokenExpectation {
            issuer: &self.config.issuer,
            client_id: &self.config.client_id,
            nonce: exchange.nonce,
            now: unix_now(),
        };
        let (keys, is_fresh) = self.keys(&description, false).await?;
        let claims = match id_token::claims(&id_token, &keys, &expected) {
            Err(IdTokenFault::UnknownKey) if !is_fresh => {
                let (keys, _) = self.keys(&description, true).await?;
                id_token::claims(&id_token, &keys, &expected)
            }
            other => other,
        };
        let mut claims = claims.map_err(ProviderError::Token)?;
        claims.retain(|_, value| !value.is_null());
        match (&description.user, access_token) {
            (Some(url), Some(token))
                if wanted.iter().any(|name| id_token::claim(&claims, name).is_none()) =>
            {
                self.with_more(claims, url, &token).await
            }
            _ => Ok(claims),
        }
    }

    /// Returns claims with those that the provider has at its UserInfo endpoint. What the ID token says
    /// counts, and an answer about another subject is refused (OpenID Connect Core section 5.3.2).
    async fn with_more(
        &self,
        mut claims: Map<String, Value>,
        url: &str,
        token: &str,
    ) -> Result<Map<String, Value>, ProviderError> {
        const NO_TOKEN: ProviderError = ProviderError::Answer("its access token cannot be sent");
        let mut authorization = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| NO_TOKEN)?;
        authorization.set_sensitive(true);
        let _permit = self.permit().await?;
        let sent = SentData { form: None, authorization: Some(authorization) };
        let (status, answer) = self.fetcher().fetch(url, sent).await?;
        if status != StatusCode::OK {
            return Err(ProviderError::Status(status));
        }
        let more: Map<String, Value> = serde_json::from_slice(&answer)
            .map_err(|_| ProviderError::Answer("what it says of the user is no JSON object"))?;
        if more.get("sub") != claims.get("sub") {
            return Err(ProviderError::Answer("it speaks of another user than the ID token"));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(claims)
    }

    /// Exchanges the code that a browser brought for tokens.
    async fn token(
        &self,
        description: &ProviderDescription,
        exchange: &CodeExchange<'_>,
    ) -> Result<TokenAnswer, ProviderError> {
        let secret = match self.config.client_secret_file.clone() {
            None => None,
            Some(file) => {
                let read =
                    spawn_blocking(move || first_line(&file)).await.map_err(|_| ProviderError::Busy)?;
                Some(read.map_err(ProviderError::Secret)?)
            }
        };
        let id = self.config.client_id.as_str();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", exchange.code),
            ("redirect_uri", exchange.redirect),
            ("code_verifier", exchange.verifier),
        ];
        let mut authorization = None;
        match &secret {
            Some(secret) if description.takes_basic => authorization = basic(id, secret),
            Some(secret) => fields.extend([("client_id", id), ("client_secret", secret)]),
            None => fields.push(("client_id", id)),
        }
        let sent = SentData { form: Some(form(&fields)), authorization };
        let (status, answer) = self.fetcher().fetch(&description.token, sent).await?;
        let answer: Option<Map<String, Value>> = serde_json::from_slice(&answer).ok();
        let text = |name: &str| answer.as_ref()?.get(name)?.as_str().map(str::to_owned);
        match status {
            StatusCode::OK => {
                let id_token =
                    text("id_token").ok_or(ProviderError::Answer("it answers without an ID token"))?;
                let is_bearer = text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
                Ok(TokenAnswer { id_token, access_token: text("access_token").filter(|_| is_bearer) })
            }
            // RFC 6749 section 5.2: of these only a code is the browser's.
            StatusCode::BAD_REQUEST if text("error").as_deref() == Some("invalid_grant") => {
                Err(ProviderError::Refused("invalid_grant".into()))
            }
            _ => Err(ProviderError::Status(status)),
        }
    }

    async fn description(&self) -> Result<Arc<ProviderDescription>, ProviderError> {
        {
            let known = self.known.lock();
            if let Some((at, description)) = &known.description
                && at.elapsed() < KEPT
            {
                return Ok(description.clone());
            }
            if known.failed.is_some_and(|at| at.elapsed() < FAILURE_KEPT) {
                return Err(ProviderError::Answer("it gave no answer a moment ago"));
            }
        }
        let _permit = self.permit().await?;
        let issuer = self.config.issuer.as_str();
        let url = format!("{}{DESCRIPTION_PATH}", issuer.trim_end_matches('/'));
        let described = self.text_at(&url).await.and_then(|text| {
            let description = ProviderDescription::parse(&text, issuer);
            description
                .ok_or(ProviderError::Answer("its description is that of no provider with this issuer"))
        });
        let mut known = self.known.lock();
        match described {
            Ok(description) => {
                let description = Arc::new(description);
                known.description = Some((Instant::now(), description.clone()));
                known.failed = None;
                Ok(description)
            }
            Err(error) => {
                known.failed = Some(Instant::now());
                Err(error)
            }
        }
    }

    /// Returns the provider's keys, and whether they were asked for just now.
    async fn keys(
        &self,
        description: &ProviderDescription,
        must_ask: bool,
    ) -> Result<(Arc<Vec<ProviderKey>>, bool), ProviderError> {
        if let Some((at, keys)) = &self.known.lock().keys
            && !must_ask
            && at.elapsed() < KEPT
        {
            return Ok((keys.clone(), false));
        }
        let _permit = self.permit().await?;
        let text = self.text_at(&description.keys).await?;
        let keys = id_token::keys_in(&text).ok_or(ProviderError::Answer("its keys are no set of keys"))?;
        let keys = Arc::new(keys);
        self.known.lock().keys = Some((Instant::now(), keys.clone()));
        Ok((keys, true))
    }
}

/// Returns fields as a form or a query.
fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the value of Authorization for a client with a secret.
fn basic(id: &str, secret: &str) -> Option<HeaderValue> {
    let pair = format!("{}:{}", escape(id), escape(secret));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn described(change: impl FnOnce(&mut Value)) -> Option<ProviderDescription> {
        let mut text = json!({
            "issuer": "https://a.example",
            "authorization_endpoint": "https://a.example/authorize",
            "token_endpoint": "https://a.example/token",
            "jwks_uri": "https://a.example/keys",
        });
        change(&mut text);
        ProviderDescription::parse(text.to_string().as_bytes(), "https://a.example")
    }

    #[test]
    fn a_description_is_of_the_issuer_and_names_safe_addresses() {
        assert!(described(|_| ()).is_some_and(|found| found.takes_basic));
        let ways = |ways: Value| described(|all| all["token_endpoint_auth_methods_supported"] = ways);
        assert!(!ways(json!(["client_secret_post"])).unwrap().takes_basic);
        assert!(ways(json!(["client_secret_post", "client_secret_basic"])).unwrap().takes_basic);
        assert_eq!(described(|all| all["issuer"] = json!("https://a.example/")), None);
        assert_eq!(described(|all| all["issuer"] = json!(1)), None);
        assert_eq!(described(|all| all["token_endpoint"] = json!("http://a.example/token")), None);
        assert_eq!(described(|all| all["authorization_endpoint"] = json!("javascript:alert(1)")), None);
        let user = |url: &str| described(|all| all["userinfo_endpoint"] = json!(url)).unwrap().user;
        assert_eq!(user("https://a.example/user").as_deref(), Some("https://a.example/user"));
        assert_eq!(user("http://a.example/user"), None);
        assert_eq!(described(|all| drop(all.as_object_mut().unwrap().remove("jwks_uri"))), None);
        assert_eq!(ProviderDescription::parse(b"[]", "https://a.example"), None);
    }
}
