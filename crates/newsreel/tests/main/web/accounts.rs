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
