//! The connected client, its connection, and its rights.
//!
//! A client is known by address, over TLS by certificate, and by the user it has logged in as: the first
//! `[[peer]]` that all of them match, the first `[[access]]` whose conditions hold. After STARTTLS it is a
//! new client, so nothing said before it counts (RFC 4642 section 2.2.2); logging in makes another one.
//! Called by `server` and by the session's commands.

use crate::inject::Poster;
use crate::serve::ReaderView;
use access::limits::LimitSubject;
use access::rules;
use access::rules::{AccessContext, AccessRight, AuthHint};
use access::tls::{TlsInfo, TlsOffer};
use access::users::prepared;
use access::{ClientEndpoint, LoginGate, User};
use netnews::nntp::response::code;
use site_config::{Access, AuthMechanism, Cidr, Config, KnownCertificate, Peer, PeerTls};
use std::net::IpAddr;
use std::sync::Arc;

/// The client of a connection, with its rights under the current configuration.
#[derive(Debug, Clone)]
pub struct ConnectedClient {
    config: Arc<Config>,
    gate: Arc<LoginGate>,
    caller: ClientEndpoint,
    address_text: Box<str>,
    user: Option<Arc<User>>,
    tls: Option<Box<TlsInfo>>,
    peer: Option<usize>,
    /// The condition to meet to become a peer, if the client is none.
    peer_needs: Option<PeerMatch>,
    access: Option<usize>,
    compressed: bool,
}

/// Result of matching a client against a `[[peer]]` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerMatch {
    No,
    /// The client may match after logging in.
    LoggedIn,
    /// The client may match once the connection is encrypted.
    OverTls,
    Yes,
}

impl ConnectedClient {
    /// Creates the client of a new connection, before TLS.
    pub fn at(config: &Arc<Config>, gate: &Arc<LoginGate>, caller: ClientEndpoint) -> Self {
        Self::known_by(config, gate, caller, None, None)
    }

    /// Returns the client after a TLS handshake; its actions before do not count.
    pub fn secured(&self, facts: TlsInfo) -> Self {
        Self::known_by(&self.config, &self.gate, self.caller, Some(Box::new(facts)), None)
    }

    /// Returns the client under another configuration, with its certificate judged by `offer`; `None` if it
    /// has logged in as a user that no longer exists.
    pub fn under(&self, config: &Arc<Config>, offer: Option<&TlsOffer>) -> Option<Self> {
        let tls = self.tls.as_deref().map(|facts| {
            let certificate = offer.and_then(|offer| offer.current().judged_again(facts));
            Box::new(TlsInfo { certificate, ..facts.clone() })
        });
        let user = match &self.user {
            None => None,
            Some(user) => {
                let certificate = tls.as_ref().and_then(|facts| facts.certificate.as_ref());
                let mut names = certificate.into_iter().flat_map(|certificate| certificate.proven_names());
                let proven = names.any(|name| prepared(name.as_bytes()).as_deref() == Some(&*user.name));
                Some(self.gate.still(user, proven)?)
            }
        };
        let compressed = self.compressed;
        let known = Self::known_by(config, &self.gate, self.caller, tls, user);
        Some(Self { compressed, ..known })
    }

    /// Returns the client after logging in.
    pub fn logged_in(&self, user: Arc<User>) -> Self {
        let compressed = self.compressed;
        let known = Self::known_by(&self.config, &self.gate, self.caller, self.tls.clone(), Some(user));
        Self { compressed, ..known }
    }

    fn known_by(
        config: &Arc<Config>,
        gate: &Arc<LoginGate>,
        caller: ClientEndpoint,
        tls: Option<Box<TlsInfo>>,
        user: Option<Arc<User>>,
    ) -> Self {
        let fits =
            config.peers.iter().map(|peer| peer_match(peer, caller.address, tls.as_deref(), user.as_deref()));
        let fits: Vec<PeerMatch> = fits.collect();
        let peer = fits.iter().position(|fit| *fit == PeerMatch::Yes);
        let lacks = [PeerMatch::LoggedIn, PeerMatch::OverTls].into_iter().find(|lack| fits.contains(lack));
        let mut client = Self {
            config: config.clone(),
            gate: gate.clone(),
            caller,
            address_text: caller.address.to_string().into(),
            user,
            tls,
            peer,
            peer_needs: if peer.is_none() { lacks } else { None },
            access: None,
            compressed: false,
        };
        client.access = rules::deciding_section(config, &client.access_context());
        client
    }

    fn access_context(&self) -> AccessContext<'_> {
        AccessContext {
            address: self.caller.address,
            local: self.caller.local,
            user: self.user.as_deref(),
            tls: self.tls.is_some(),
        }
    }

    /// Returns its connection.
    pub fn caller(&self) -> &ClientEndpoint {
        &self.caller
    }

    /// Returns its address.
    pub fn address(&self) -> IpAddr {
        self.caller.address
    }

    /// Returns its address as text.
    pub fn address_text(&self) -> &str {
        &self.address_text
    }

    /// Returns the user that it has logged in as.
    pub fn user(&self) -> Option<&User> {
        self.user.as_deref()
    }

    /// Returns the configuration that it is judged by.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns its `[[peer]]` section.
    pub fn peer(&self) -> Option<&Peer> {
        self.config.peers.get(self.peer?)
    }

    /// Returns its `[[access]]` section.
    pub fn access(&self) -> Option<&Access> {
        self.config.access.get(self.access?)
    }

    /// Returns the view of the groups it may see.
    pub fn view(&self) -> ReaderView {
        let asks = self.user.is_none() && self.access().is_some_and(|access| access.login_for_hidden);
        let asks = asks && self.offers_login();
        let access_context = self.access_context();
        let sections = rules::of_users(&self.config, &access_context, access_context.tls).filter(|_| asks);
        let login = sections.map(|(number, _)| number).collect();
        let everything = !self.config.site.numbers && self.may_feed();
        ReaderView::new(self.config.clone(), self.access, login).widened(everything)
    }

    /// Returns the client as a poster, if it may post at all.
    pub fn poster(&self) -> Option<Poster<'_>> {
        let access = self.access()?;
        let user = self.user().map(|user| &*user.name);
        Some(Poster { access, address: self.address(), address_text: self.address_text(), user })
    }

    /// Returns the results of the TLS handshake; `None` while the connection is not encrypted.
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.tls.as_deref()
    }

    /// Returns true if the connection is compressed; then neither TLS nor authentication may begin (RFC 8054
    /// section 2.2.2).
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Records that the connection is compressed from now on.
    pub fn set_compressed(&mut self) {
        self.compressed = true;
    }

    /// Returns the peer's name, or the address, for the log.
    pub fn name(&self) -> &str {
        self.peer().map_or(&self.address_text, |peer| &peer.name)
    }

    /// Returns true if the client is known, or may become known.
    pub fn is_known(&self) -> bool {
        let may_become = |right| self.auth_hint(right) != AuthHint::None;
        self.peer.is_some()
            || self.peer_needs.is_some()
            || self.may_read_by_id()
            || may_become(AccessRight::Read)
            || may_become(AccessRight::Post)
    }

    /// Returns true if commands on groups, and the other commands of readers, are allowed.
    pub fn may_read(&self) -> bool {
        self.config.site.numbers && self.may_read_by_id()
    }

    /// Returns true if articles can be read by Message-ID; on a site without numbers peers may do so as well.
    pub fn may_read_by_id(&self) -> bool {
        self.access().is_some_and(|access| !access.read.is_empty())
            || !self.config.site.numbers && self.may_feed()
    }

    /// Returns true if POST is allowed.
    pub fn may_post(&self) -> bool {
        self.config.site.numbers && self.access().is_some_and(|access| !access.post.is_empty())
    }

    /// Returns true if NEWNEWS is allowed.
    pub fn may_newnews(&self) -> bool {
        self.may_read() && self.access().is_some_and(|access| access.newnews)
    }

    /// Returns true if IHAVE is allowed.
    pub fn may_feed(&self) -> bool {
        self.peer.is_some()
    }

    /// Returns true if CHECK and TAKETHIS are allowed.
    pub fn may_stream(&self) -> bool {
        self.peer().is_some_and(|peer| peer.streaming)
    }

    /// Returns true if MODE HEADFEED is allowed.
    pub fn may_feed_headers(&self) -> bool {
        self.peer().is_some_and(|peer| peer.headers_only)
    }

    /// Returns true if XBATCH is allowed.
    pub fn may_xbatch(&self) -> bool {
        self.peer().is_some_and(|peer| peer.xbatch)
    }

    fn auth_hint(&self, right: AccessRight) -> AuthHint {
        rules::auth_hint(
            &self.config,
            &self.access_context(),
            right,
            self.offers_login(),
            self.may_start_tls(),
        )
    }

    /// Returns true if the client could obtain a right by its next step.
    pub fn may_become(&self, right: AccessRight) -> bool {
        self.auth_hint(right) != AuthHint::None
    }

    /// Returns the response for a client that lacks a right: `refused` if nothing helps.
    pub fn missing_right(&self, right: AccessRight, refused: (u16, &'static str)) -> (u16, &'static str) {
        match self.auth_hint(right) {
            AuthHint::Authenticate => (code::AUTHENTICATION_REQUIRED, "Log in first (AUTHINFO)"),
            AuthHint::Encrypt => (code::PRIVACY_REQUIRED, "Encrypt first (STARTTLS)"),
            AuthHint::None => refused,
        }
    }

    /// Returns the response for a client that may not send articles.
    pub fn no_feed(&self) -> (u16, &'static str) {
        match self.peer_needs {
            Some(PeerMatch::LoggedIn) if self.offers_login() => {
                (code::AUTHENTICATION_REQUIRED, "Log in first (AUTHINFO)")
            }
            Some(PeerMatch::OverTls) => {
                (code::PRIVACY_REQUIRED, "Encrypt first (STARTTLS) and show your certificate if you have one")
            }
            _ => (code::NOT_PERMITTED, "You may not send articles here"),
        }
    }

    /// Returns true if STARTTLS is possible on this connection (RFC 4642 section 2.2.1: not after logging
    /// in).
    pub fn may_start_tls(&self) -> bool {
        self.config.tls.is_offered() && self.tls.is_none() && self.user.is_none() && !self.compressed
    }

    /// Returns true if there is any way to log in, now or over TLS.
    pub fn offers_login(&self) -> bool {
        let external = self.config.tls.client_ca.is_some()
            && self.config.auth.mechanisms.contains(&AuthMechanism::External);
        self.user.is_none() && (self.gate.has_passwords() || external)
    }

    /// Returns true if this mechanism is available on this connection as it is now; unchanged by logging in.
    pub fn offers(&self, mechanism: AuthMechanism) -> bool {
        self.config.auth.mechanisms.contains(&mechanism)
            && match mechanism {
                AuthMechanism::User | AuthMechanism::Plain => {
                    self.may_send_passwords() && self.gate.has_passwords()
                }
                AuthMechanism::ScramSha256 => self.gate.has_users(),
                AuthMechanism::External => self.proven_names().next().is_some(),
            }
    }

    /// Returns true if plain passwords may be sent over this connection.
    pub fn may_send_passwords(&self) -> bool {
        self.tls.is_some() || contains(&self.config.auth.plain_passwords_from, self.caller.address)
    }

    /// Returns the names that its certificate proves.
    pub fn proven_names(&self) -> impl Iterator<Item = &str> {
        let certificate = self.tls.as_ref().and_then(|facts| facts.certificate.as_ref());
        certificate.into_iter().flat_map(|certificate| certificate.proven_names())
    }

    /// Returns the subject that its actions as a reader are counted for; `None` for a peer.
    pub fn limit_subject(&self) -> Option<LimitSubject<'_>> {
        let access = self.access().filter(|_| self.peer.is_none())?;
        let user = self.user.as_ref().map(|user| &*user.name);
        Some(LimitSubject { access, address: self.caller.address, user })
    }
}

fn contains(cidrs: &[Cidr], address: IpAddr) -> bool {
    cidrs.iter().any(|cidr| cidr.contains(address))
}

fn peer_match(peer: &Peer, address: IpAddr, tls: Option<&TlsInfo>, user: Option<&User>) -> PeerMatch {
    if peer.addresses.is_empty() && peer.certificate.is_empty() && peer.user.is_none() {
        // A peer that is only sent articles: no client matches it.
        return PeerMatch::No;
    }
    if !peer.addresses.is_empty() && !contains(&peer.addresses, address) {
        return PeerMatch::No;
    }
    match tls {
        None if peer.tls == PeerTls::Require || !peer.certificate.is_empty() => return PeerMatch::OverTls,
        Some(facts)
            if !peer.certificate.is_empty() && !peer.certificate.iter().any(|known| shows(facts, known)) =>
        {
            return PeerMatch::No;
        }
        _ => {}
    }
    match (&peer.user, user) {
        (None, _) => PeerMatch::Yes,
        (Some(_), None) => PeerMatch::LoggedIn,
        (Some(wanted), Some(user)) if **wanted == *user.name => PeerMatch::Yes,
        (Some(_), Some(_)) => PeerMatch::No,
    }
}

/// Returns true if the certificate shown is the one by which a peer is known.
fn shows(facts: &TlsInfo, known: &KnownCertificate) -> bool {
    facts.certificate.as_ref().is_some_and(|shown| match known {
        KnownCertificate::Fingerprint(octets) => shown.fingerprint == *octets,
        KnownCertificate::Name(name) => shown.proven_names().any(|proven| proven.eq_ignore_ascii_case(name)),
    })
}
