//! Logins at an OpenID provider: the authorization code flow with PKCE.
//!
//! `/login/with/NAME` sends the browser to the provider, which sends it back to `/login/with/NAME/back` with
//! a code. The code is exchanged for an ID token, whose claims say who the user is. Each provider has an
//! address of its own to come back to, so that none can pass a code for another's (RFC 9700 section 4.4).
//! Both steps are plain links, and need no script. Called by `web`. Sources: RFC 6749, RFC 7636, RFC 9207,
//! RFC 9700, OpenID Connect Core 1.0.

mod fetch;
mod id_token;
mod provider;
mod state;

use super::login::{self, LoginProblem, PROVIDERS_PATH, local_path, with_cookie};
use super::visitor::Visitor;
use super::{WebState, answers, form};
use access::users::NAME_RULE;
use access::{LoginDenial, SpentTokens, User, granted_groups};
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use hashbrown::HashMap;
use provider::{AuthorizationRequest, CodeExchange, Provider};
use serde_json::{Map, Value};
use site_base::clock::unix_secs;
use site_base::lock::Leaf;
use site_base::printable;
use site_config::{Config, Oidc};
use state::{LOGIN_TIME_MAX, LoginState, StateKey};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tracing::warn;

/// Name of such logins in the log.
const MECHANISM: &str = "OIDC";
/// Longest query that a browser brings back, in bytes.
const QUERY_BYTES_MAX: usize = 16 << 10;
/// Most groups of a token that are looked at.
const GROUPS_MAX: usize = 5000;
/// The claims of a mail address, and of whether it is the user's.
const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";
/// Longest name that is shown where it is refused, in characters.
const NAME_CHARS_MAX: usize = 130;
/// Longest error of a provider that is shown, in characters.
const ERROR_CHARS_MAX: usize = 100;

/// Refusal of a login whose state is not valid.
const NOT_BEGUN: &str =
    "This login was not begun in this browser, or is too old, or was finished before. Try again.";

/// Logins at providers: what is known of the providers, and what is spent.
pub(super) struct ProviderLogins {
    key: Option<StateKey>,
    spent: SpentTokens,
    providers: Leaf<HashMap<String, Arc<Provider>>>,
}

impl ProviderLogins {
    /// Creates the tables. Without random numbers no login at a provider can begin.
    pub fn new() -> Self {
        Self { key: StateKey::new(), spent: SpentTokens::default(), providers: Leaf::default() }
    }

    /// Returns the provider of this name, as it is configured now.
    fn provider(&self, config: &Config, name: &str) -> Option<Arc<Provider>> {
        let wanted = config.providers.iter().find(|provider| provider.name == name)?;
        let mut known = self.providers.lock();
        if known.len() > config.providers.len() {
            known.retain(|name, _| config.providers.iter().any(|provider| provider.name == *name));
        }
        if let Some(provider) = known.get(name).filter(|provider| provider.config == *wanted) {
            return Some(provider.clone());
        }
        let provider = Arc::new(Provider::new(wanted));
        known.insert(name.to_owned(), provider.clone());
        Some(provider)
    }
}

pub(super) fn routes() -> Router<Arc<WebState>> {
    Router::new().route("/login/with/{name}", get(begin)).route("/login/with/{name}/back", get(finish))
}

/// Returns the address to which a provider sends browsers back.
fn redirect_of(config: &Config, provider: &Oidc) -> Option<String> {
    let url = config.web.url(&config.site.path_identity)?;
    Some(format!("{url}{PROVIDERS_PATH}/{}/back", provider.name))
}

async fn begin(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Response {
    let config = shared.config();
    let Some(provider) = shared.providers.provider(&config, &name) else { return answers::no_page().await };
    let fields = fields_of(query.as_deref());
    let next = local_path(field(&fields, "next"));
    if visitor.user().is_some() {
        return answers::gone_to(next);
    }
    let refused = |status, problem: &str| login::refused(&shared, &visitor, status, next, problem);
    if !visitor.may_log_in_elsewhere() {
        return refused(StatusCode::FORBIDDEN, "Nobody can log in over this connection.");
    }
    let unavailable = || refused(StatusCode::SERVICE_UNAVAILABLE, "No login can begin now.");
    let (Some(key), Some(browser)) = (&shared.providers.key, visitor.id()) else { return unavailable() };
    let (Some(redirect), Some(begun)) =
        (redirect_of(&config, &provider.config), key.begin(next, unix_secs()))
    else {
        return unavailable();
    };
    let asked = AuthorizationRequest {
        redirect: &redirect,
        state: &key.text(&begun, &name, browser),
        nonce: &key.nonce(&begun),
        verifier: &key.verifier(&begun),
    };
    match provider.authorization(&asked).await {
        // The browser has to show the same identifier when it comes back.
        Ok(url) => with_cookie(answers::gone_to(&url), visitor.cookie(browser)),
        Err(error) => {
            warn!(provider = name, %error, "nobody can log in at the provider");
            let text = format!("{} cannot be reached now. Try again later.", provider.config.shown_name());
            refused(StatusCode::SERVICE_UNAVAILABLE, &text)
        }
    }
}

async fn finish(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    visitor: Visitor,
) -> Response {
    let config = shared.config();
    let Some(provider) = shared.providers.provider(&config, &name) else { return answers::no_page().await };
    let fields = fields_of(query.as_deref());
    let begun = begun_here(&shared, &visitor, &name, field(&fields, "state"));
    let next = begun.as_ref().map_or("/", |state| local_path(&state.next)).to_owned();
    let outcome = match begun {
        Some(state) => finished(&shared, &visitor, &provider, &state, &fields).await,
        None => Err(LoginProblem::new(StatusCode::FORBIDDEN, NOT_BEGUN)),
    };
    match outcome.and_then(|user| login::begin(&shared, &visitor, user)) {
        Ok(cookie) => with_cookie(answers::gone_to(&next), cookie),
        Err(problem) => {
            problem.answered(|status, text| login::refused(&shared, &visitor, status, &next, text))
        }
    }
}

/// Returns the state that a browser brings back, if it began the login here.
fn begun_here(shared: &WebState, visitor: &Visitor, provider: &str, state: &str) -> Option<LoginState> {
    let (key, browser) = (shared.providers.key.as_ref()?, visitor.held_id()?);
    key.parse(state, provider, browser, unix_secs())
}

/// Finishes a login; returns the user.
async fn finished(
    shared: &WebState,
    visitor: &Visitor,
    provider: &Provider,
    state: &LoginState,
    fields: &[(String, String)],
) -> Result<Arc<User>, LoginProblem> {
    let (config, own) = (shared.config(), &provider.config);
    let (gate, caller) = (&shared.site.gate, visitor.client().caller());
    let refused = |text: &str| LoginProblem::new(StatusCode::FORBIDDEN, text);
    if !visitor.may_log_in_elsewhere() {
        return Err(refused("Nobody can log in over this connection."));
    }
    let unavailable = || LoginProblem::new(StatusCode::SERVICE_UNAVAILABLE, "No login can be finished now.");
    let (key, redirect) =
        shared.providers.key.as_ref().zip(redirect_of(&config, own)).ok_or_else(unavailable)?;
    let error = field(fields, "error");
    if !error.is_empty() {
        let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
        let text = format!("{} did not log you in: {}.", own.shown_name(), printable::line(&error));
        return Err(refused(&text));
    }
    // A provider that names itself must be the one that was asked (RFC 9207).
    let issuer = field(fields, "iss");
    if !issuer.is_empty() && issuer != own.issuer {
        return Err(refused("Another provider answered than was asked."));
    }
    // Failures count for the address alone: it is not known who failed.
    let address = caller.address.to_string();
    gate.open_to(caller, address.as_bytes())?;
    // Counted for clients that are not locked out alone: the table is bounded.
    if !shared.providers.spent.spend(state.mark(), LOGIN_TIME_MAX, Instant::now()) {
        return Err(refused(NOT_BEGUN));
    }
    let exchange = CodeExchange {
        code: field(fields, "code"),
        redirect: &redirect,
        nonce: &key.nonce(state),
        verifier: &key.verifier(state),
    };
    let mut wanted = vec![own.name_claim.as_str()];
    if own.name_claim == EMAIL {
        wanted.push(EMAIL_VERIFIED);
    }
    if !own.groups.is_empty() {
        wanted.push(&own.group_claim);
    }
    let claims = match provider.finish(&exchange, &wanted).await {
        Ok(claims) => claims,
        Err(error) => {
            warn!(provider = own.name, %error, "a login at the provider failed");
            if error.is_of_client() {
                gate.deny(caller, address.as_bytes(), MECHANISM);
                return Err(refused("The login failed. Try again."));
            }
            return Err(unavailable());
        }
    };
    let name = name_in(&claims, own).map_err(|fault| {
        warn!(provider = own.name, claim = own.name_claim, "a user of the provider cannot log in: {fault}");
        refused(&format!("You cannot log in: {fault}."))
    })?;
    let granted = granted_groups(&own.groups, &groups_in(&claims, &own.group_claim));
    gate.vouched(caller, &name, granted, MECHANISM).await.map_err(|denial| match denial {
        LoginDenial::Wrong => refused("Your name there is that of another user here."),
        LoginDenial::Nameless => {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            refused(&format!("Your name there, {}, is not usable here: {NAME_RULE}.", printable::line(&name)))
        }
        other => other.into(),
    })
}

/// The reason why claims name no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameFault {
    Missing,
    NoText,
    Unverified,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the provider does not say your name",
            Self::NoText => "what the provider says is your name is no text",
            Self::Unverified => "the provider has not verified your mail address",
        })
    }
}

/// Returns the user's name.
fn name_in(claims: &Map<String, Value>, provider: &Oidc) -> Result<String, NameFault> {
    let name = match id_token::claim(claims, &provider.name_claim) {
        None | Some(Value::Null) => return Err(NameFault::Missing),
        Some(name) => name.as_str().ok_or(NameFault::NoText)?,
    };
    if name.is_empty() {
        return Err(NameFault::Missing);
    }
    // Some providers let users enter any address before it is verified.
    let is_verified = matches!(claims.get(EMAIL_VERIFIED), Some(Value::Bool(true)));
    if provider.name_claim == EMAIL && !is_verified {
        return Err(NameFault::Unverified);
    }
    Ok(format!("{name}{}", provider.name_suffix.as_deref().unwrap_or_default()))
}

/// Returns the groups of a claim that is a list of texts, or one text.
fn groups_in<'a>(claims: &'a Map<String, Value>, name: &str) -> Vec<&'a str> {
    match id_token::claim(claims, name) {
        Some(Value::Array(all)) => all.iter().take(GROUPS_MAX).filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one],
        _ => Vec::new(),
    }
}

fn fields_of(query: Option<&str>) -> Vec<(String, String)> {
    let query = query.filter(|query| query.len() <= QUERY_BYTES_MAX).unwrap_or_default();
    form::parse(query.as_bytes()).unwrap_or_default()
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use site_config::testing::with_trash;

    #[test]
    fn names_and_groups_are_those_of_the_configured_claims() {
        let claims = json!({
            "sub": "u-1", "email": "fred@a.example", "preferred_username": "fred",
            "groups": ["staff", 7, "news"], "role": "boss", "realm": {"roles": ["admin"]},
        });
        let claims = claims.as_object().unwrap();
        let name = |keys: &str| {
            let section = "[[oidc]]\nname = \"a\"\nissuer = \"https://a.example\"\nclient_id = \"news\"\n";
            name_in(claims, &with_trash(&format!("{section}{keys}")).providers[0])
        };
        assert_eq!(name("").as_deref(), Ok("u-1"));
        assert_eq!(
            name("name_claim = \"preferred_username\"\nname_suffix = \"@a\"").as_deref(),
            Ok("fred@a")
        );
        assert_eq!(name("name_claim = \"email\""), Err(NameFault::Unverified));
        assert_eq!(name("name_claim = \"groups\""), Err(NameFault::NoText));
        assert_eq!(name("name_claim = \"nickname\""), Err(NameFault::Missing));
        assert_eq!(groups_in(claims, "groups"), ["staff", "news"]);
        assert_eq!(groups_in(claims, "role"), ["boss"]);
        assert_eq!(groups_in(claims, "realm.roles"), ["admin"]);
        assert!(groups_in(claims, "none").is_empty());
    }
}
