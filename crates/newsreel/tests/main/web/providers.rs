//! Logins at an OpenID provider, and attacks on them.

use super::fake_provider::{FakeProvider, Manners};
use super::http::{Answer, get, get_with};
use super::{cookie_of, post, site};
use crate::running::Server;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Starts the test site with a provider, whose staff alone may read the metrics.
fn site_of(provider: &FakeProvider, keys: &str) -> (Server, SocketAddr) {
    let (server, address) = site("");
    let issuer = provider.issuer();
    let oidc = format!(
        "[[oidc]]\nname = \"campus\"\nlabel = \"your <campus> account\"\nissuer = {issuer:?}\n\
         client_id = \"news\"\nname_claim = \"preferred_username\"\nname_suffix = \"@campus\"\n\
         groups = [\"news-staff -> staff\"]\n{keys}"
    );
    let section = "[[access]]\nfrom = \"all\"\nuser_groups = [\"staff\"]\noperator = true\n\n[[access]]";
    let change = |text: String| {
        text.replace("operator = true", "operator = false").replacen("[[access]]", section, 1) + &oidc
    };
    server.reload(change).unwrap();
    (server, address)
}

/// Begins a login; returns the address of the provider's page, and the browser's cookie.
fn begin(address: SocketAddr, next: &str) -> (String, String) {
    let answer = get(address, &format!("/login/with/campus?next={next}"));
    assert_eq!(answer.status, 303, "{}", answer.body);
    (answer.header("Location").unwrap().to_owned(), cookie_of(&answer).expect("no cookie"))
}

/// Comes back from the provider.
fn come_back(address: SocketAddr, cookie: &str, code: &str, state: &str) -> Answer {
    let code = code.replace(' ', "+");
    let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
    get_with(address, &format!("/login/with/campus/back?code={code}&state={state}"), &cookie)
}

/// Logs in; returns the last answer.
fn log_in(address: SocketAddr, provider: &FakeProvider) -> Answer {
    let (location, cookie) = begin(address, "%2Fgroups%3Fpage%3D2");
    let (code, state) = provider.authorize(&location);
    come_back(address, &cookie, &code, &state)
}

fn metrics(address: SocketAddr, cookie: &str) -> u16 {
    get_with(address, "/metrics", &format!("Cookie: {cookie}\r\n")).status
}

#[test]
fn users_of_a_provider_log_in_with_their_groups_until_they_log_out() {
    let provider = FakeProvider::start();
    let (_server, address) = site_of(&provider, "");
    let page = get(address, "/login?next=%2Fgroups");
    assert!(page.body.contains("href=\"/login/with/campus?next=%2Fgroups\""), "{}", page.body);
    assert!(page.body.contains("your &lt;campus&gt; account"), "{}", page.body);
    let answer = log_in(address, &provider);
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/groups?page=2")), "{}", answer.body);
    let cookie = cookie_of(&answer).unwrap();
    assert_eq!(metrics(address, &cookie), 200);
    let account = get_with(address, "/account", &format!("Cookie: {cookie}\r\n"));
    assert!(
        account.body.contains("carol@campus") && account.body.contains("not kept here"),
        "{}",
        account.body
    );
    let forms = provider.forms();
    assert!(
        forms.len() == 1 && forms[0].contains("client_id=news") && !forms[0].contains("secret"),
        "{forms:?}"
    );
    let (_, token) = account.body.split_once("form_token\" value=\"").unwrap();
    let token = token.split_once('"').unwrap().0;
    assert_eq!(post(address, "/logout", &cookie, &format!("form_token={token}"), "").status, 303);
    assert_eq!(metrics(address, &cookie), 403);
    // Another user has none of the groups that count.
    provider.behave(|own| own.claims = json!({"groups": ["staff"], "preferred_username": "dave"}));
    let answer = log_in(address, &provider);
    assert_eq!((answer.status, metrics(address, &cookie_of(&answer).unwrap())), (303, 403));
    for unknown in ["/login/with/other", "/login/with/other/back?code=x&state=y"] {
        assert_eq!(get(address, unknown).status, 404);
    }
}

/// Makes a provider behave badly.
type Misbehaviour = Box<dyn FnOnce(&mut Manners)>;

#[test]
fn tokens_that_are_not_for_this_login_let_nobody_in() {
    let provider = FakeProvider::start();
    let (_server, address) = site_of(&provider, "");
    let claims = |claims: Value| move |own: &mut Manners| own.claims = claims;
    let head = |head: Value| move |own: &mut Manners| own.head = head;
    let attacks: Vec<(&str, Misbehaviour)> = vec![
        ("another nonce", Box::new(claims(json!({"nonce": "x"})))),
        ("no nonce", Box::new(claims(json!({"nonce": null})))),
        ("another audience", Box::new(claims(json!({"aud": "other"})))),
        ("another issuer", Box::new(claims(json!({"iss": "https://login.example.org"})))),
        ("expired", Box::new(claims(json!({"exp": 1_000_000_000})))),
        ("no name", Box::new(claims(json!({"preferred_username": null})))),
        ("algorithm none", Box::new(head(json!({"alg": "none"})))),
        ("a shared secret", Box::new(head(json!({"alg": "HS256", "kid": "key 1"})))),
        ("unsigned", Box::new(|own: &mut Manners| own.unsigned = true)),
        ("another key", Box::new(|own: &mut Manners| own.signs = 2)),
    ];
    for (what, change) in attacks {
        provider.behave(change);
        let answer = log_in(address, &provider);
        assert_eq!(
            (answer.status, metrics(address, &cookie_of(&answer).unwrap_or_default())),
            (403, 403),
            "{what}"
        );
        // Failures count for lock-outs, which end with a success of a known user only.
        provider.behave(|_| ());
    }
}

#[test]
fn a_state_counts_once_and_in_one_browser() {
    let provider = FakeProvider::start();
    let (_server, address) = site_of(&provider, "");
    let (location, cookie) = begin(address, "%2F");
    let (code, state) = provider.authorize(&location);
    let (other_code, other_state) = provider.authorize(&begin(address, "%2F").0);
    for (cookie, code, state, what) in [
        ("", &code, &state, "no browser"),
        (begin(address, "%2F").1.as_str(), &code, &state, "another browser"),
        (&cookie, &code, &other_state, "the state of another browser"),
        (&cookie, &code, &state.to_lowercase(), "a changed state"),
        (&cookie, &code, &String::new(), "no state"),
    ] {
        let answer = come_back(address, cookie, code, state);
        assert_eq!(answer.status, 403, "{what}");
        assert!(answer.body.contains("not begun in this browser"), "{what}: {}", answer.body);
    }
    assert!(provider.forms().is_empty(), "the provider is not even asked");
    // The code of another login does not fit the secret of this one; the state is spent by that.
    assert_eq!(come_back(address, &cookie, &other_code, &state).status, 403);
    assert_eq!(come_back(address, &cookie, &code, &state).status, 403, "replayed");
    let answer = log_in(address, &provider);
    assert_eq!(answer.status, 303, "{}", answer.body);
}

#[test]
fn nobody_is_sent_to_another_site_and_nothing_of_a_query_is_shown_as_markup() {
    let provider = FakeProvider::start();
    let (_server, address) = site_of(&provider, "");
    for next in ["%2F%2Fevil.example", "https%3A%2F%2Fevil.example", "%2F%5Cevil.example", "%2Fa%0D%0AX%3A+y"]
    {
        let (location, cookie) = begin(address, next);
        let (code, state) = provider.authorize(&location);
        let answer = come_back(address, &cookie, &code, &state);
        assert_eq!((answer.status, answer.header("Location")), (303, Some("/")), "{next}");
    }
    let (location, cookie) = begin(address, "%2F");
    let (_, state) = provider.authorize(&location);
    let path = format!("/login/with/campus/back?error=%3Cscript%3Edenied%3C%2Fscript%3E&state={state}");
    let answer = get_with(address, &path, &format!("Cookie: {cookie}\r\n"));
    assert!(answer.status == 403 && answer.body.contains("&lt;script&gt;denied"), "{}", answer.body);
    let (location, cookie) = begin(address, "%2F");
    let (_, state) = provider.authorize(&location);
    let path = format!("/login/with/campus/back?code=x&iss=https%3A%2F%2Fevil.example&state={state}");
    let answer = get_with(address, &path, &format!("Cookie: {cookie}\r\n"));
    assert!(answer.status == 403 && answer.body.contains("Another provider"), "{}", answer.body);
}

#[test]
fn a_provider_may_change_its_keys_at_any_time() {
    let provider = FakeProvider::start();
    let (_server, address) = site_of(&provider, "");
    assert_eq!(log_in(address, &provider).status, 303);
    let with = |signs: u8, shown: &'static [u8]| {
        provider.behave(|own| {
            own.signs = signs;
            own.shown = shown.to_vec();
            own.head = json!({"alg": "EdDSA", "kid": format!("key {signs}")});
        });
        log_in(address, &provider).status
    };
    assert_eq!(with(2, &[1, 2]), 303, "a new key is looked up");
    assert_eq!(with(3, &[3]), 303, "the others are removed");
    assert_eq!(with(1, &[3]), 403, "a removed key is none");
    assert_eq!(with(9, &[3]), 403, "a key that was never shown");
}

#[test]
fn a_bad_provider_costs_little_and_locks_nobody_out() {
    let provider = FakeProvider::start();
    let changes: Vec<Misbehaviour> = vec![
        Box::new(|own: &mut Manners| own.silent = "/token"),
        Box::new(|own: &mut Manners| own.huge = "/token"),
        Box::new(|own: &mut Manners| own.rubbish = "/token"),
        Box::new(|own: &mut Manners| own.huge = "/keys"),
        Box::new(|own: &mut Manners| own.silent = "/keys"),
    ];
    let (server, address) = site_of(&provider, "timeout = \"700 ms\"\n");
    server
        .reload(|text| text + "[auth]\nfailures_per_address_max = 1\nlockout_first = \"1 h\"\nlockout_longest = \"1 h\"\n")
        .unwrap();
    for change in changes {
        provider.behave(change);
        let begun = Instant::now();
        let answer = log_in(address, &provider);
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
    provider.behave(|_| ());
    assert_eq!(log_in(address, &provider).status, 303, "the failures were not the visitor's");
    // One that says nothing of itself delays the one who asks, and is left alone for a moment.
    let silent = FakeProvider::start();
    silent.behave(|own| own.silent = "/.well-known/openid-configuration");
    let (_server, address) = site_of(&silent, "timeout = \"700 ms\"\n");
    for _ in 0..2 {
        let answer = get(address, "/login/with/campus");
        assert!(answer.status == 503 && answer.body.contains("cannot be reached"), "{}", answer.body);
    }
    assert_eq!(get(address, "/login").status, 200);
}

#[test]
fn codes_cannot_be_guessed_without_end() {
    let provider = FakeProvider::start();
    let (server, address) = site_of(&provider, "");
    server
        .reload(|text| text + "[auth]\nfailures_per_address_max = 3\nlockout_first = \"1 h\"\nlockout_longest = \"1 h\"\n")
        .unwrap();
    let guess = || {
        let (location, cookie) = begin(address, "%2F");
        let (_, state) = provider.authorize(&location);
        come_back(address, &cookie, "guessed", &state).status
    };
    assert_eq!([guess(), guess(), guess(), guess()], [403, 403, 403, 429]);
}

#[test]
fn no_provider_speaks_for_a_user_with_a_password_here() {
    let provider = FakeProvider::start();
    let (server, address) = site_of(&provider, "");
    server.user(&["add", "carol@campus", "--group", "staff"], "a long password\n").unwrap();
    let answer = log_in(address, &provider);
    assert!(answer.status == 403 && answer.body.contains("another user"), "{}", answer.body);
    // A user without a password has the groups of the file, too.
    server.user(&["add", "dave@campus", "--no-password", "--group", "staff"], "").unwrap();
    provider.behave(|own| own.claims = json!({"groups": [], "preferred_username": "dave"}));
    let answer = log_in(address, &provider);
    assert_eq!((answer.status, metrics(address, &cookie_of(&answer).unwrap())), (303, 200));
    // A login ends when its source is removed.
    provider.behave(|own| own.claims = json!({"preferred_username": "erin"}));
    let erin = cookie_of(&log_in(address, &provider)).unwrap();
    assert_eq!(metrics(address, &erin), 200);
    server.reload(|text| text.split_once("[[oidc]]").unwrap().0.to_owned()).unwrap();
    assert_eq!(metrics(address, &erin), 403);
}

#[test]
fn a_client_with_a_secret_proves_it() {
    let dir = tempfile::TempDir::new().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "s%cret\n").unwrap();
    let provider = FakeProvider::start();
    let (_server, address) = site_of(&provider, &format!("client_secret_file = {secret:?}\n"));
    assert_eq!(log_in(address, &provider).status, 303);
    let forms = provider.forms();
    assert!(
        !forms[0].contains("client_id") && !forms[0].contains("cret"),
        "it is in Authorization: {forms:?}"
    );
    std::fs::remove_file(&secret).unwrap();
    assert_eq!(log_in(address, &provider).status, 503);
}

/// A name is shown to its owner, who is not told of another user, and is not locked out.
#[test]
fn a_name_that_no_user_can_have_is_said_and_not_counted() {
    let provider = FakeProvider::start();
    let (server, address) = site_of(&provider, "");
    server
        .reload(|text| text + "[auth]\nfailures_per_address_max = 1\nlockout_first = \"1 h\"\nlockout_longest = \"1 h\"\n")
        .unwrap();
    let long = "x".repeat(200);
    for (claims, problem) in [
        (
            json!({"preferred_username": "Carol <Smith>"}),
            "Carol &lt;Smith&gt;@campus, is not usable here: a name has",
        ),
        (json!({"preferred_username": "a,b"}), "is not usable here"),
        (json!({"preferred_username": long}), "is not usable here"),
        (json!({"preferred_username": null}), "the provider does not say your name"),
        (json!({"preferred_username": ["carol"]}), "is no text"),
    ] {
        provider.behave(|own| own.claims = claims.clone());
        let answer = log_in(address, &provider);
        assert!(answer.status == 403 && answer.body.contains(problem), "{claims}: {}", answer.body);
        assert!(!answer.body.contains("another user"), "{claims}: {}", answer.body);
    }
    provider.behave(|_| ());
    assert_eq!(log_in(address, &provider).status, 303, "nothing was counted");
}

#[test]
fn claims_that_are_not_in_the_token_are_asked_for() {
    let provider = FakeProvider::start();
    let known = json!({"sub": "u-1", "preferred_username": "dave", "groups": ["news-staff"]});
    let nameless = json!({"preferred_username": null, "groups": null});
    provider.behave(|own| (own.user, own.claims) = (known.clone(), nameless.clone()));
    let (_server, address) = site_of(&provider, "");
    let answer = log_in(address, &provider);
    let cookie = cookie_of(&answer).unwrap();
    assert_eq!((answer.status, metrics(address, &cookie)), (303, 200), "{}", answer.body);
    let account = get_with(address, "/account", &format!("Cookie: {cookie}\r\n"));
    assert!(account.body.contains("dave@campus"), "{}", account.body);
    // What the token says counts.
    provider.behave(|own| (own.user, own.claims) = (known.clone(), json!({"groups": []})));
    let answer = log_in(address, &provider);
    assert_eq!((answer.status, metrics(address, &cookie_of(&answer).unwrap())), (303, 403));
    let other = json!({"sub": "u-2", "preferred_username": "dave"});
    for bad in [other, json!({"preferred_username": "dave"}), json!(["u-1"])] {
        provider.behave(|own| (own.user, own.claims) = (bad.clone(), nameless.clone()));
        assert_eq!(log_in(address, &provider).status, 503, "{bad}");
    }
    provider.behave(|own| (own.user, own.claims, own.huge) = (known.clone(), nameless.clone(), "/userinfo"));
    assert_eq!(log_in(address, &provider).status, 503);
}

#[test]
fn a_reload_takes_other_settings_of_a_provider() {
    let (provider, other) = (FakeProvider::start(), FakeProvider::start());
    let (server, address) = site_of(&provider, "");
    assert_eq!(log_in(address, &provider).status, 303);
    let change = |old: &str, new: &str| {
        server
            .reload(|text| {
                assert!(text.contains(old), "{old}");
                text.replace(old, new)
            })
            .unwrap()
    };
    let said = change("label = \"your <campus> account\"", "label = \"another account\"");
    assert!(said.contains("[[oidc]] campus label"), "{said}");
    assert!(get(address, "/login").body.contains("another account"));
    // A login that was begun before the change is not finished at another provider.
    let (location, cookie) = begin(address, "%2F");
    let (code, state) = provider.authorize(&location);
    change(&provider.issuer(), &other.issuer());
    assert_eq!(come_back(address, &cookie, &code, &state).status, 403);
    change("name_suffix = \"@campus\"", "name_suffix = \"@other\"");
    let answer = log_in(address, &other);
    let cookie = cookie_of(&answer).unwrap();
    let account = get_with(address, "/account", &format!("Cookie: {cookie}\r\n"));
    assert!(account.body.contains("carol@other"), "{}", account.body);
    change("[[oidc]]\nname = \"campus\"", "[[oidc]]\nname = \"school\"");
    assert_eq!(get(address, "/login/with/campus").status, 404);
    assert_eq!(get(address, "/login/with/school").status, 303);
    server.reload(|text| text.split_once("[[oidc]]").unwrap().0.to_owned()).unwrap();
    assert_eq!(get(address, "/login/with/school").status, 404);
}
