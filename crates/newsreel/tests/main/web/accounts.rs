//! Accounts on the web: passwords changed by their owners, and by one-time links.

use super::http::{Answer, get, get_with};
use super::{cookie_of, form_of, log_in, post, site_with_fred};
use crate::running::Server;
use std::net::SocketAddr;

fn page_of(address: SocketAddr, cookie: &str, path: &str) -> Answer {
    get_with(address, path, &format!("Cookie: {cookie}\r\n"))
}

fn token_of(page: &Answer) -> String {
    page.body.split_once("form_token\" value=\"").expect("no form").1.split_once('"').unwrap().0.to_owned()
}

/// Sends the form of another password; returns the answer.
fn change(address: SocketAddr, cookie: &str, present: &str, new: &str, again: &str) -> Answer {
    let token = token_of(&page_of(address, cookie, "/account"));
    post(
        address,
        "/account",
        cookie,
        &format!("present={present}&new={new}&again={again}&form_token={token}"),
        "",
    )
}

/// Returns the path of a one-time link of the operator.
fn link(server: &Server, name: &str) -> String {
    let url = server.user(&["reset", name], "").unwrap();
    url.trim_end().split_once("/reset/").map(|(_, token)| format!("/reset/{token}")).unwrap()
}

fn use_link(address: SocketAddr, path: &str, new: &str) -> Answer {
    let (token, cookie) = form_of(&get(address, "/login"));
    post(address, path, &cookie, &format!("new={new}&again={new}&form_token={token}"), "")
}

#[test]
fn users_change_their_passwords_and_other_logins_end() {
    let (server, address) = site_with_fred();
    let log_in = |password: &str| log_in(address, "fred", password, "/");
    let (own, elsewhere) =
        (cookie_of(&log_in("secretive")).unwrap(), cookie_of(&log_in("secretive")).unwrap());
    let none = get(address, "/account");
    assert_eq!((none.status, none.header("Location")), (303, Some("/login?next=/account")));
    for (present, new, again, status, said) in [
        ("wrong", "another+one", "another+one", 403, "present password is wrong"),
        ("secretive", "another+one", "another+two", 422, "not the same"),
        ("secretive", "short+1", "short+1", 422, "at least 8 characters"),
        ("secretive", "with%07bell%20and", "with%07bell%20and", 422, "no control characters"),
        ("secretive", "", "", 422, "at least 8 characters"),
    ] {
        let answer = change(address, &own, present, new, again);
        assert_eq!(answer.status, status, "{new}: {}", answer.body);
        assert!(answer.body.contains(said), "{said}: {}", answer.body);
    }
    assert_eq!(page_of(address, &own, "/metrics").status, 200, "nothing has changed");
    let changed = change(address, &own, "secretive", "another+one", "another+one");
    assert_eq!((changed.status, changed.header("Location")), (303, Some("/")));
    let new = cookie_of(&changed).unwrap();
    assert_eq!(page_of(address, &new, "/metrics").status, 200);
    for ended in [&own, &elsewhere] {
        assert_eq!(page_of(address, ended, "/metrics").status, 403);
    }
    assert_eq!(log_in("secretive").status, 403);
    assert_eq!(log_in("another+one").status, 303);
    let mut client = server.client();
    client.send("AUTHINFO USER fred\r\nAUTHINFO PASS another one\r\n");
    client.line();
    assert!(client.line().starts_with("281"));
}

#[test]
fn passwords_are_changed_only_by_forms_of_ours_and_guessing_is_locked_out() {
    let (server, address) = site_with_fred();
    let own = cookie_of(&log_in(address, "fred", "secretive", "/")).unwrap();
    let body = "present=secretive&new=another+one&again=another+one";
    let (others, other_cookie) = form_of(&get(address, "/login"));
    let token = token_of(&page_of(address, &own, "/account"));
    for (cookie, body, more, why) in [
        (own.as_str(), body.to_owned(), "", "no token"),
        (&own, format!("{body}&form_token={others}"), "", "the token of another browser"),
        (&own, format!("{body}&form_token={token}"), "Sec-Fetch-Site: cross-site\r\n", "another site"),
        (&other_cookie, format!("{body}&form_token={others}"), "", "no login"),
    ] {
        assert_eq!(post(address, "/account", cookie, &body, more).status, 403, "{why}");
    }
    assert_eq!(page_of(address, &own, &format!("/account?{body}&form_token={token}")).status, 200);
    assert_eq!(log_in(address, "fred", "secretive", "/").status, 303, "the password is as it was");
    // A stranger at an open browser guesses no faster than elsewhere.
    server
        .reload(|text| {
            text + "[auth]\nfailures_per_address_max = 2\nlockout_first = \"1 h\"\nlockout_longest = \"2 h\"\n"
        })
        .unwrap();
    let guess = || change(address, &own, "guessed", "another+one", "another+one");
    let answers: Vec<u16> = (0..4).map(|_| guess().status).collect();
    assert_eq!((answers[0], answers[3]), (403, 429), "{answers:?}");
    assert!(guess().header("Retry-After").unwrap().parse::<u32>().unwrap() > 3_000);
    assert_eq!(change(address, &own, "secretive", "another+one", "another+one").status, 429);
}

#[test]
fn a_link_of_the_operator_sets_a_password_once() {
    let (server, address) = site_with_fred();
    let old = cookie_of(&log_in(address, "fred", "secretive", "/")).unwrap();
    let path = link(&server, "fred");
    // Looking at it spends nothing; nor does a password that cannot be one.
    for _ in 0..2 {
        let page = get(address, &path);
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.body.contains("<strong>fred</strong>"), "{}", page.body);
        assert_eq!(page.header("Referrer-Policy"), Some("no-referrer"));
        assert_eq!(page.header("Cache-Control"), Some("no-store"));
    }
    assert_eq!(use_link(address, &path, "short").status, 422);
    // Neither does a form without a token.
    assert_eq!(post(address, &path, "", "new=another+one&again=another+one", "").status, 403);
    let also = link(&server, "fred");
    let set = use_link(address, &path, "another+one");
    assert_eq!(set.status, 200, "{}", set.body);
    assert_eq!(log_in(address, "fred", "another+one", "/").status, 303);
    assert_eq!(page_of(address, &old, "/metrics").status, 403, "logins end with the old password");
    for spent in [&path, &also] {
        assert_eq!(get(address, spent).status, 403);
        assert_eq!(use_link(address, spent, "a+third+password").status, 403);
    }
    assert_eq!(log_in(address, "fred", "another+one", "/").status, 303);
    let refused = server.user(&["reset", "barney"], "").unwrap_err();
    assert!(refused.contains("there is no user `barney`"), "{refused}");
    server.user(&["add", "--no-password", "wilma"], "").unwrap();
    let refused = server.user(&["reset", "wilma"], "").unwrap_err();
    assert!(refused.contains("no password here"), "{refused}");
}

#[test]
fn links_that_are_made_up_reveal_nothing() {
    let (server, address) = site_with_fred();
    let path = link(&server, "fred");
    let (_, token) = path.rsplit_once('/').unwrap();
    let (name, rest) = token.split_once('.').unwrap();
    assert_eq!(name, "ZnJlZA");
    let wrong = rest.replacen(rest.rsplit_once('.').unwrap().1, &"A".repeat(43), 1);
    // "fred" is a user, and "barn" is not.
    let pages = ["ZnJlZA", "YmFybg"].map(|name| get(address, &format!("/reset/{name}.{wrong}")));
    let text = |answer: &Answer| answer.body.replace("YmFybg", "ZnJlZA");
    assert_eq!((pages[0].status, text(&pages[0])), (pages[1].status, text(&pages[1])));
    assert!(pages[0].status == 403 && !pages[0].body.contains("fred"), "{}", pages[0].body);
    for other in ["x", ".", "..", "a.b.c", "%00", "%3Cscript%3E", &"A".repeat(5_000)] {
        let answer = get(address, &format!("/reset/{other}"));
        assert_eq!((answer.status, answer.body.contains("<script>")), (403, false), "{other}");
    }
    assert_eq!(get(address, &path).status, 200);
}

/// Sends the form for an account, with these header lines; returns the answer.
fn sign_up(address: SocketAddr, name: &str, password: &str, more: &str) -> Answer {
    let (token, cookie) = form_of(&get_with(address, "/sign-up", more));
    let body = format!("user={name}&new={password}&again={password}&note=A+%3Cb%3Efriend&form_token={token}");
    post(address, "/sign-up", &cookie, &body, more)
}

/// Starts the test site with fred, who may act, and with these keys of `[web]`.
fn site_with(keys: &str) -> (Server, SocketAddr) {
    let (server, address) = site_with_fred();
    let managed = "users = \"fred\"\nmanage = true";
    let change = |text: String| text.replacen("users = \"fred\"", managed, 1) + keys;
    server.reload(change).unwrap();
    (server, address)
}

/// Acts on the page of accounts that wait; returns the answer.
fn decide(address: SocketAddr, fred: &str, fields: &str) -> Answer {
    let token = token_of(&page_of(address, fred, "/operator/accounts"));
    post(address, "/operator/accounts", fred, &format!("{fields}&form_token={token}"), "")
}

#[test]
fn no_account_is_made_unless_the_operator_says_so() {
    let (server, address) = site_with_fred();
    let login = get(address, "/login");
    assert!(!login.body.contains("Sign up"));
    assert_eq!(get(address, "/sign-up").status, 404);
    let (token, cookie) = form_of(&login);
    let body = format!("user=newcomer&new=a+long+password&again=a+long+password&form_token={token}");
    assert_eq!(post(address, "/sign-up", &cookie, &body, "").status, 404);
    assert!(!server.user(&["list"], "").unwrap().contains("newcomer"));
    // Strangers must not become operators, nor users of a program.
    for (edit, said) in [
        ("users = \"*\"\noperator = true", "would be an operator"),
        ("users = \"fred\"\n[[authenticator]]\nprogram = [\"/bin/false\"]", "[[authenticator]]"),
    ] {
        let before = std::fs::read_to_string(server.file()).unwrap();
        let change = |text: String| {
            text.replacen("users = \"fred\"\noperator = true", edit, 1) + "sign_up = \"open\"\n"
        };
        let refused = server.reload(change).unwrap_err();
        assert!(refused.contains(said), "{refused}");
        std::fs::write(server.file(), before).unwrap();
    }
}

#[test]
fn accounts_wait_for_an_operator_and_the_answer_tells_nothing() {
    let (server, address) =
        site_with("sign_up = \"moderated\"\nsign_up_group = \"web\"\nsign_ups_per_network = 50\n");
    assert!(get(address, "/login").body.contains("href=\"/sign-up\""));
    for (name, password, status) in [
        ("Newcomer", "a+long+password", 422),
        ("fr%D0%B5d", "a+long+password", 422),
        ("a%09b", "a+long+password", 422),
        ("newcomer", "short", 422),
    ] {
        assert_eq!(sign_up(address, name, password, "").status, status, "{name} {password}");
    }
    let new = sign_up(address, "newcomer", "a+long+password", "");
    assert!(new.status == 200 && new.body.contains("waits for the operator"), "{}", new.body);
    // One that is a user, one that waits, and one that the configuration names: all like a new one.
    for name in ["fred", "newcomer", "old", "root"] {
        let answer = sign_up(address, name, "another+long+password", "");
        assert_eq!((answer.status, &answer.body), (200, &new.body), "{name}");
    }
    assert_eq!(log_in(address, "newcomer", "a+long+password", "/").status, 403);
    assert_eq!(log_in(address, "fred", "another+long+password", "/").status, 403);
    let listed = server.user(&["waiting"], "").unwrap();
    assert!(listed.lines().count() == 2 && listed.contains("newcomer"), "{listed}");

    sign_up(address, "other", "a+long+password", "");
    let fred = cookie_of(&log_in(address, "fred", "secretive", "/")).unwrap();
    let page = page_of(address, &fred, "/operator/accounts").body;
    assert!(page.contains("2 accounts") && page.contains("A &lt;b&gt;friend"), "{page}");
    assert!(get(address, "/operator/accounts").status == 403);
    let asked = decide(address, &fred, "action=refuse&name=other");
    assert!(asked.body.contains("Are you sure"), "{}", asked.body);
    let refused = decide(address, &fred, "action=refuse&name=other&confirmed=yes");
    assert!(refused.body.contains("other does not wait any more"), "{}", refused.body);
    let confirmed = decide(address, &fred, "action=confirm&name=newcomer");
    assert!(confirmed.body.contains("newcomer is a user now"), "{}", confirmed.body);
    let again = decide(address, &fred, "action=confirm&name=newcomer");
    assert!(again.status == 422 && again.body.contains("no account of this name waits"), "{}", again.body);
    assert_eq!(log_in(address, "newcomer", "a+long+password", "/").status, 303);
    assert_eq!(log_in(address, "other", "a+long+password", "/").status, 403);
    let users = server.user(&["list"], "").unwrap();
    assert!(users.lines().any(|line| line.starts_with("newcomer") && line.contains("web")), "{users}");
    let audit = page_of(address, &fred, "/operator/audit").body;
    assert!(audit.contains("accounts confirm names=newcomer"), "{audit}");
}

#[test]
fn an_open_site_gives_no_rights_and_no_names_of_others() {
    let (server, address) = site_with("sign_up = \"open\"\nsign_ups_per_network = 50\n");
    // "old" has a section, and no account yet.
    for name in ["fred", "old", "root", "postmaster"] {
        let answer = sign_up(address, name, "a+long+password", "");
        assert_eq!(answer.status, 409, "{name}: {}", answer.body);
    }
    let made = sign_up(address, "newcomer", "a+long+password", "");
    assert!(made.status == 200 && made.body.contains("account is made"), "{}", made.body);
    assert_eq!(sign_up(address, "newcomer", "another+password", "").status, 409);
    let own = cookie_of(&log_in(address, "newcomer", "a+long+password", "/")).unwrap();
    for path in ["/metrics", "/operator", "/operator/accounts", "/operator/moderation"] {
        assert_eq!(page_of(address, &own, path).status, 403, "{path}");
    }
    assert_eq!(log_in(address, "newcomer", "another+password", "/").status, 403);
    let (token, cookie) = form_of(&get(address, "/sign-up"));
    let body = "user=sneaky&new=a+long+password&again=a+long+password";
    assert_eq!(post(address, "/sign-up", &cookie, body, "").status, 403, "no token");
    let cross = format!("{body}&form_token={token}");
    assert_eq!(post(address, "/sign-up", &cookie, &cross, "Sec-Fetch-Site: cross-site\r\n").status, 403);
    assert_eq!(get(address, &format!("/sign-up?{cross}")).status, 200);
    server.reload(|text| text + "[auth]\nplain_passwords_from = []\n").unwrap();
    assert_eq!(post(address, "/sign-up", &cookie, &cross, "").status, 403, "unencrypted");
    assert!(!server.user(&["list"], "").unwrap().contains("sneaky"));
}

#[test]
fn accounts_are_asked_for_within_limits_of_networks_and_of_all() {
    let (_server, address) = site_with(
        "sign_up = \"moderated\"\nsign_ups_per_network = 2\nsign_ups_per_day = 3\nproxies = [\"127.0.0.1\"]\n",
    );
    let from = |network: u8, name: &str| {
        let told = format!("X-Forwarded-For: 198.51.{network}.7\r\nX-Forwarded-Proto: https\r\n");
        sign_up(address, name, "a+long+password", &told)
    };
    assert_eq!([from(1, "aaa").status, from(1, "bbb").status], [200, 200]);
    let full = from(1, "ccc");
    assert!(full.status == 429 && full.header("Retry-After").is_some(), "{}", full.body);
    assert_eq!([from(2, "ddd").status, from(2, "eee").status], [200, 429]);
    assert_eq!(from(3, "fff").status, 429, "all networks together");
}
