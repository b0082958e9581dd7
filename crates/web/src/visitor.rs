//! The client of a request: the address, perhaps as given by a proxy, encryption, login, and the rights of
//! its `[[access]]` section.
//!
//! A visitor is judged like an NNTP client of the same address and user, by the configuration at the time of
//! the request. An argument of handlers. Sources: RFC 6265 for cookies; RFC 7239 for headers of proxies (in
//! their older form, X-Forwarded-For and X-Forwarded-Proto).

use super::connection::RequestOrigin;
use super::memory::MemoryShare;
use super::sessions::SessionId;
use super::{WebState, answers};
use access::ClientEndpoint;
use access::tls::TlsInfo;
use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, GetAll};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use site::session::ConnectedClient;
use site_config::{AuthMechanism, Cidr};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Names of the cookie. Over TLS the prefix makes browsers require Secure, this host, and all its paths.
const COOKIE_NAME: &str = "newsreel";
const SECURE_COOKIE_NAME: &str = "__Host-newsreel";

/// The client of a request.
#[derive(Debug)]
pub(super) struct Visitor {
    client: ConnectedClient,
    /// The browser's identifier, or a new one that is sent if the answer has a form.
    id: Option<SessionId>,
    /// The browser does not have the identifier yet.
    is_new: bool,
    /// A form with the token of `id` was made.
    has_form: AtomicBool,
    memory: MemoryShare,
}

impl Visitor {
    /// Returns the visitor's share of memory.
    pub fn memory(&self) -> &MemoryShare {
        &self.memory
    }

    /// Returns the visitor as a client, with its rights, groups and limits.
    pub fn client(&self) -> &ConnectedClient {
        &self.client
    }

    /// Returns the user it has logged in as.
    pub fn user(&self) -> Option<&str> {
        self.client.user().map(|user| &*user.name)
    }

    /// Returns true if it may see the operator's page and metrics.
    pub fn may_operate(&self) -> bool {
        self.client.access().is_some_and(|access| access.operator)
    }

    /// Returns true if it may act on the operator's pages: only with a login, which the audit log names.
    pub fn may_manage(&self) -> bool {
        self.user().is_some() && self.client.access().is_some_and(|access| access.operator && access.manage)
    }

    /// Returns true if it may log in, by a password or at a provider.
    pub fn may_log_in(&self) -> bool {
        self.may_send_password() || self.may_log_in_elsewhere()
    }

    /// Returns true if a password can be accepted from it.
    pub fn may_send_password(&self) -> bool {
        self.has_mechanism() && self.client.may_send_passwords() && self.client.offers_login()
    }

    /// Returns true if it may log in at a provider: where passwords are taken, as the cookie of a login is
    /// worth as much.
    pub fn may_log_in_elsewhere(&self) -> bool {
        self.user().is_none()
            && !self.client.config().providers.is_empty()
            && self.client.may_send_passwords()
    }

    /// Returns true if it could log in over an encrypted connection.
    pub fn may_log_in_encrypted(&self) -> bool {
        let has_providers = !self.client.config().providers.is_empty();
        has_providers || self.has_mechanism() && self.client.offers_login()
    }

    fn has_mechanism(&self) -> bool {
        let mechanisms = &self.client.config().auth.mechanisms;
        [AuthMechanism::User, AuthMechanism::Plain].iter().any(|own| mechanisms.contains(own))
    }

    /// Returns the browser's identifier.
    pub fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// Returns the identifier that the browser has shown.
    pub fn held_id(&self) -> Option<&SessionId> {
        self.id.as_ref().filter(|_| !self.is_new)
    }

    /// Returns the token for a form in the answer.
    pub fn form_token(&self, shared: &WebState) -> String {
        self.has_form.store(true, Ordering::Relaxed);
        self.id.as_ref().map(|id| shared.sessions.form_token(id)).unwrap_or_default()
    }

    /// Returns true if the answer has a form with a token.
    pub fn has_form(&self) -> bool {
        self.has_form.load(Ordering::Relaxed)
    }

    /// Returns true if the token is that of a form shown to this browser, which must have its identifier.
    pub fn is_form_token(&self, shared: &WebState, token: &str) -> bool {
        self.held_id().is_some_and(|id| shared.sessions.is_form_token(id, token))
    }

    /// Returns the cookie for an answer with a form, if the browser needs one.
    pub fn new_cookie(&self) -> Option<HeaderValue> {
        let is_needed = self.is_new && self.has_form();
        self.id.as_ref().filter(|_| is_needed).and_then(|id| self.cookie(id))
    }

    /// Returns the cookie with an identifier.
    pub fn cookie(&self, id: &SessionId) -> Option<HeaderValue> {
        let (name, secure) = match self.client.tls() {
            Some(_) => (SECURE_COOKIE_NAME, "; Secure"),
            None => (COOKIE_NAME, ""),
        };
        let text = format!("{name}={}; Path=/; HttpOnly; SameSite=Lax{secure}", id.text());
        HeaderValue::try_from(text).ok()
    }
}

impl FromRequestParts<Arc<WebState>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<WebState>) -> Result<Self, Response> {
        let Some(arrival) = parts.extensions.get::<RequestOrigin>() else {
            return Err(answers::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Nothing is known of the connection.",
            ));
        };
        let config = shared.config();
        let (caller, tls) = told_by_proxy(arrival, &parts.headers, &config.web.proxies);
        let name = if tls.is_some() { SECURE_COOKIE_NAME } else { COOKIE_NAME };
        let held = held_cookie(&parts.headers, name);
        let client = ConnectedClient::at(&config, &shared.site.gate, caller);
        let client = tls.map_or_else(|| client.clone(), |facts| client.secured(facts));
        let user = held.as_ref().and_then(|id| shared.sessions.user(id, &config.web, Instant::now()));
        // A removed user, or one with another password, is no longer logged in.
        let gate = &shared.site.gate;
        let user = user.filter(|(user, mark)| gate.password_mark(&user.name) == *mark);
        let user = user.and_then(|(user, _)| gate.still(&user, false));
        let client = user.map_or_else(|| client.clone(), |user| client.logged_in(user));
        if let Err(reached) = arrival.place.take(&client, &shared.site.limits) {
            return Err(answers::text(StatusCode::TOO_MANY_REQUESTS, format!("{reached}.")));
        }
        let is_new = held.is_none();
        let id = held.or_else(|| shared.sessions.new_id());
        let memory = arrival.memory.clone();
        Ok(Self { client, id, is_new, has_form: AtomicBool::new(false), memory })
    }
}

/// Returns the identifier in the cookie of this name.
fn held_cookie(headers: &HeaderMap, name: &str) -> Option<SessionId> {
    cookie_in(headers.get_all(COOKIE), name).and_then(SessionId::parse)
}

/// Returns the value of the first cookie of this name in the values of Cookie.
pub(super) fn cookie_in<'a>(lines: GetAll<'a, HeaderValue>, name: &str) -> Option<&'a str> {
    let lines = lines.into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(own, _)| own.trim() == name).map(|(_, value)| value.trim())
}

/// Returns the caller and its TLS: as given by the proxy if the connection is a proxy's.
fn told_by_proxy(
    arrival: &RequestOrigin,
    headers: &HeaderMap,
    proxies: &[Cidr],
) -> (ClientEndpoint, Option<TlsInfo>) {
    let is_proxy = |address: IpAddr| proxies.iter().any(|proxy| proxy.contains(address));
    let (mut caller, mut tls) = (arrival.caller, arrival.tls.clone());
    if !is_proxy(caller.address) {
        return (caller, tls);
    }
    // Clients that a proxy does not name do not get the rights of the proxy's own address.
    (caller.address, caller.port) = (Ipv4Addr::UNSPECIFIED.into(), 0);
    let told = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let told: Vec<&str> = told.flat_map(|value| value.split(',')).collect();
    // Each proxy appends its client's address; anything before those from our proxies could be forged.
    for address in told.into_iter().rev() {
        let Ok(address) = address.trim().parse::<IpAddr>() else { break };
        let address = address.to_canonical();
        if !is_proxy(address) {
            caller.address = address;
            break;
        }
    }
    let is_https = headers.get("x-forwarded-proto").is_some_and(|proto| proto.as_bytes() == b"https");
    if tls.is_none() && is_https {
        tls = Some(TlsInfo { version: "by a proxy", certificate: None });
    }
    (caller, tls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(from: &str, lines: &[(&'static str, &str)]) -> (String, bool) {
        let caller = ClientEndpoint { address: from.parse().unwrap(), port: 9, local: None };
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let proxies = ["127.0.0.1", "10.0.0.0/8"].map(|text| text.parse().unwrap());
        let (place, memory) =
            (Arc::default(), MemoryShare::of(&Arc::default(), None, 0, Duration::from_secs(1)));
        let arrival = RequestOrigin { caller, tls: None, place, memory };
        let (caller, tls) = told_by_proxy(&arrival, &headers, &proxies);
        (caller.address.to_string(), tls.is_some())
    }

    #[test]
    fn only_proxies_are_trusted_and_only_for_the_addresses_they_saw() {
        const FOR: &str = "x-forwarded-for";
        const PROTO: &str = "x-forwarded-proto";
        let plain = |address: &str| (address.to_owned(), false);
        assert_eq!(told("203.0.113.1", &[(FOR, "127.0.0.1"), (PROTO, "https")]), plain("203.0.113.1"));
        assert_eq!(told("127.0.0.1", &[(FOR, "203.0.113.1")]), plain("203.0.113.1"));
        assert_eq!(told("127.0.0.1", &[(FOR, "127.0.0.1, 203.0.113.1")]), plain("203.0.113.1"), "made up");
        assert_eq!(
            told("127.0.0.1", &[(FOR, "6.6.6.6"), (FOR, "2001:db8::1, 10.1.1.1")]),
            plain("2001:db8::1")
        );
        // A proxy that does not name its client does not lend it its own rights.
        for nobody in ["", "unknown", "6.6.6.6, unknown", "127.0.0.1"] {
            assert_eq!(told("127.0.0.1", &[(FOR, nobody)]), plain("0.0.0.0"), "{nobody}");
        }
        assert_eq!(told("127.0.0.1", &[]), plain("0.0.0.0"));
        assert_eq!(told("10.2.3.4", &[(FOR, "1.2.3.4"), (PROTO, "https")]), ("1.2.3.4".to_owned(), true));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let id = crate::sessions::WebLogins::new(None).new_id().unwrap();
        let held = |lines: &[String]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, line.parse().unwrap());
            }
            held_cookie(&headers, COOKIE_NAME)
        };
        assert_eq!(held(&[format!("a=b; newsreel={}; c", id.text())]), Some(id.clone()));
        assert_eq!(held(&["x=y".into(), format!("newsreel={}", id.text())]), Some(id.clone()));
        assert_eq!(held(&[format!("__Host-newsreel={}", id.text())]), None);
        assert_eq!(held(&["newsreel=nothing of ours".into()]), None);
    }
}
