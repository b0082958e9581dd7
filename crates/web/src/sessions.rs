//! Logins that last from one request to the next, and the tokens by which our forms are recognized.
//!
//! A browser holds a random identifier in a cookie. The server stores only its hash, with the user; an
//! identifier without a login needs no memory. Logging in makes a new one, so that a known one cannot have
//! been put into the browser before (session fixation). The token of a form is a keyed hash of the
//! identifier: another site can neither read nor compute it. The members of a cluster have one key for that,
//! so that a form may go to another member than the one that has shown it. All else is lost at a restart. The
//! table is locked briefly, and nothing else meanwhile. Source: RFC 6265.

use access::User;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hashbrown::HashMap;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use site_base::lock::Leaf;
use site_config::Web;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Divisor of `session_longest`: the time that may pass without a request.
const QUIET_PART: u32 = 8;
/// Maximum number of logins of one user: further ones end that user's own, not those of others.
const USER_LOGINS_MAX: usize = 20;
/// Octets of an identifier.
const ID_BYTES: usize = 32;

/// The identifier held by a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionId([u8; ID_BYTES]);

impl SessionId {
    /// Returns the text in a cookie.
    pub fn text(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Parses the text in a cookie; `None` if it is not one of ours.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }

    fn hash(&self) -> SessionIdHash {
        SessionIdHash(digest::digest(&digest::SHA256, &self.0).as_ref().try_into().unwrap_or_default())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionIdHash([u8; 32]);

/// A login.
#[derive(Debug)]
struct WebLogin {
    user: Arc<User>,
    /// Mark of the password with which the login began; see [`access::Gate::password_mark`].
    password_mark: u64,
    begun: Instant,
    used: Instant,
}

impl WebLogin {
    fn lasts(&self, longest: Duration, now: Instant) -> bool {
        now.duration_since(self.begun) < longest && now.duration_since(self.used) < longest / QUIET_PART
    }
}

/// All logins of a server.
pub(super) struct WebLogins {
    open: Leaf<HashMap<SessionIdHash, WebLogin>>,
    random: SystemRandom,
    /// Key for the tokens of forms.
    key: hmac::Key,
}

impl WebLogins {
    /// Creates an empty table. The key for the tokens of forms is a random one, or one that servers share.
    /// Without random numbers logins are impossible, as identifiers cannot be made.
    pub fn new(shared_key: Option<hmac::Key>) -> Self {
        let random = SystemRandom::new();
        let key = shared_key.unwrap_or_else(|| {
            let mut key = [0; 32];
            match random.fill(&mut key) {
                Ok(()) => hmac::Key::new(hmac::HMAC_SHA256, &key),
                Err(_) => hmac::Key::new(hmac::HMAC_SHA256, b""),
            }
        });
        Self { open: Leaf::default(), random, key }
    }

    /// Returns a new identifier without a login; `None` if there are no random numbers.
    pub fn new_id(&self) -> Option<SessionId> {
        let mut id = [0; ID_BYTES];
        self.random.fill(&mut id).ok()?;
        Some(SessionId(id))
    }

    /// Returns the token of forms that are shown to the holder of an identifier.
    pub fn form_token(&self, id: &SessionId) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, &id.0))
    }

    /// Returns true if a token is the one of this identifier.
    pub fn is_form_token(&self, id: &SessionId, token: &str) -> bool {
        let token = BASE64_URL_SAFE_NO_PAD.decode(token);
        token.is_ok_and(|token| hmac::verify(&self.key, &id.0, &token).is_ok())
    }

    /// Begins a login; returns the new identifier for the browser.
    pub fn begin(&self, user: Arc<User>, password_mark: u64, web: &Web, now: Instant) -> Option<SessionId> {
        let id = self.new_id()?;
        let mut open = self.open.lock();
        if open.len() >= web.sessions_max {
            open.retain(|_, session| session.lasts(web.session_longest, now));
        }
        if open.values().filter(|session| session.user.name == user.name).count() >= USER_LOGINS_MAX {
            end_quietest(&mut open, |session| session.user.name == user.name)?;
        }
        while open.len() >= web.sessions_max {
            end_quietest(&mut open, |_| true)?;
        }
        open.insert(id.hash(), WebLogin { user, password_mark, begun: now, used: now });
        Some(id)
    }

    /// Returns the user of an identifier, and the mark of the password that began the login; counts as a use.
    pub fn user(&self, id: &SessionId, web: &Web, now: Instant) -> Option<(Arc<User>, u64)> {
        let mut open = self.open.lock();
        let hash = id.hash();
        let session = open.get_mut(&hash)?;
        if !session.lasts(web.session_longest, now) {
            open.remove(&hash);
            return None;
        }
        session.used = now;
        Some((session.user.clone(), session.password_mark))
    }

    /// Ends the login of an identifier, if any.
    pub fn end(&self, id: &SessionId) {
        self.open.lock().remove(&id.hash());
    }
}

/// Ends the login that has been unused longest of those that `is_one` accepts; returns `None` if there is
/// none.
fn end_quietest(
    open: &mut HashMap<SessionIdHash, WebLogin>,
    is_one: impl Fn(&WebLogin) -> bool,
) -> Option<WebLogin> {
    let some = open.iter().filter(|(_, session)| is_one(session));
    let quietest = some.min_by_key(|(_, session)| session.used).map(|(hash, _)| *hash);
    quietest.and_then(|hash| open.remove(&hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    /// Mark of the password of all logins.
    const MARK: u64 = 7;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User::named(name))
    }

    #[test]
    fn a_login_ends_by_itself_and_when_it_is_ended() {
        let web = with_trash("[web]\nsession_longest = \"8 h\"").web;
        let (sessions, now) = (WebLogins::new(None), Instant::now());
        let name = |id: &SessionId, minutes: u64| {
            let user = sessions.user(id, &web, now + Duration::from_secs(60 * minutes));
            user.map(|(user, mark)| format!("{} {mark}", user.name))
        };
        let id = sessions.begin(user("fred"), MARK, &web, now).unwrap();
        assert_eq!(SessionId::parse(&id.text()), Some(id.clone()));
        assert_eq!(name(&sessions.new_id().unwrap(), 0), None);
        // Used every half hour, it lasts for 8 hours.
        for minutes in (0..480).step_by(30) {
            assert_eq!(name(&id, minutes).as_deref(), Some("fred 7"), "{minutes}");
        }
        assert_eq!(name(&id, 480), None);
        let quiet = sessions.begin(user("fred"), MARK, &web, now).unwrap();
        assert_eq!(name(&quiet, 61), None, "an hour is an eighth");
        let ended = sessions.begin(user("fred"), MARK, &web, now).unwrap();
        sessions.end(&ended);
        assert_eq!(name(&ended, 0), None);
        assert!(sessions.open.lock().is_empty());
    }

    #[test]
    fn the_login_unused_longest_is_dropped() {
        let web = with_trash("[web]\nsessions_max = 2").web;
        let (sessions, now) = (WebLogins::new(None), Instant::now());
        let later = |secs| now + Duration::from_secs(secs);
        let [first, second] = [0, 1].map(|secs| sessions.begin(user("a"), MARK, &web, later(secs)).unwrap());
        sessions.user(&first, &web, later(2)).unwrap();
        let third = sessions.begin(user("b"), MARK, &web, later(3)).unwrap();
        assert!(sessions.user(&second, &web, later(4)).is_none());
        assert!([&first, &third].into_iter().all(|id| sessions.user(id, &web, later(4)).is_some()));
    }

    #[test]
    fn the_logins_of_one_user_end_none_of_another() {
        let web = with_trash("[web]\nsessions_max = 50").web;
        let (sessions, now) = (WebLogins::new(None), Instant::now());
        let later = |secs| now + Duration::from_secs(secs);
        let other = sessions.begin(user("carol"), MARK, &web, now).unwrap();
        let many = (0..60).map(|n| sessions.begin(user("bob"), MARK, &web, later(n)).unwrap());
        let many: Vec<SessionId> = many.collect();
        assert!(sessions.user(&other, &web, later(60)).is_some());
        let lasts = many.iter().map(|id| sessions.user(id, &web, later(60)).is_some());
        assert_eq!(lasts.collect::<Vec<_>>(), (0..60).map(|n| n >= 40).collect::<Vec<_>>());
    }

    #[test]
    fn a_form_token_belongs_to_one_identifier() {
        let sessions = WebLogins::new(None);
        let [own, other] = [(); 2].map(|()| sessions.new_id().unwrap());
        let token = sessions.form_token(&own);
        assert!(sessions.is_form_token(&own, &token));
        assert!(!sessions.is_form_token(&other, &token));
        assert!(!WebLogins::new(None).is_form_token(&own, &token), "of another server");
        let [shown, sent] =
            ["key", "key"].map(|key| WebLogins::new(Some(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))));
        assert!(sent.is_form_token(&own, &shown.form_token(&own)), "of another member of a cluster");
        for wrong in ["", "x", "====", token.get(1..).unwrap()] {
            assert!(!sessions.is_form_token(&own, wrong), "{wrong}");
        }
        for wrong in ["", "!", &own.text()[1..], &(own.text() + "A")] {
            assert_eq!(SessionId::parse(wrong), None, "{wrong}");
        }
    }
}
