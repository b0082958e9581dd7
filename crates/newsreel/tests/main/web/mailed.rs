//! Accounts and passwords by links that are mailed.

use super::http::{Answer, get, get_with};
use super::{cookie_of, form_of, log_in, post, site_with_fred};
use crate::moderation::{Mail, configured, listener, mail_of, mail_server};
use crate::running::Server;
use crate::waiting::wait_until;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Starts the test site with fred, with these keys of `[web]`, and a mail server.
fn site_with(keys: &str) -> (Server, SocketAddr, Receiver<Mail>) {
    site_of(keys, &[])
}

/// Like [`site_with`], with a mail server that answers RCPT with these codes in turn, and 250 after that.
fn site_of(keys: &str, recipients: &'static [u16]) -> (Server, SocketAddr, Receiver<Mail>) {
    let (server, address) = site_with_fred();
    let (listener, at) = listener();
    let mails = mail_server(listener, recipients);
    let change = |text: String| configured(&text, None, &format!("[moderation]\nsmtp = \"{at}\"\n")) + keys;
    server.reload(change).unwrap();
    (server, address, mails)
}

fn sign_up(address: SocketAddr, name: &str, mail: &str, more: &str) -> Answer {
    let (token, cookie) = form_of(&get_with(address, "/sign-up", more));
    post(address, "/sign-up", &cookie, &format!("user={name}&mail={mail}&form_token={token}"), more)
}

fn forgotten(address: SocketAddr, name: &str, mail: &str) -> Answer {
    let (token, cookie) = form_of(&get(address, "/forgotten"));
    post(address, "/forgotten", &cookie, &format!("user={name}&mail={mail}&form_token={token}"), "")
}

/// Returns the path of the link in a mail.
fn link_in(mail: &Mail) -> String {
    let line =
        mail.text.lines().find(|line| line.starts_with("http://")).unwrap_or_else(|| panic!("{mail:?}"));
    format!("/{}", line.splitn(4, '/').nth(3).unwrap())
}

/// Sends the form of a link.
fn use_link(address: SocketAddr, path: &str, password: &str) -> Answer {
    let (token, cookie) = form_of(&get(address, "/login"));
    post(address, path, &cookie, &format!("new={password}&again={password}&form_token={token}"), "")
}

fn no_mail(mails: &Receiver<Mail>) {
    assert!(mails.recv_timeout(Duration::from_millis(700)).is_err(), "a mail came");
}

/// Returns a page without what differs from one request to the next.
fn without_token(answer: &Answer) -> (u16, String) {
    (answer.status, answer.body.clone())
}

#[test]
fn the_owner_of_an_address_makes_an_account_once() {
    let (server, address, mails) =
        site_with("sign_up = \"mail\"\nsign_up_group = \"web\"\nsign_ups_per_network = 50\n");
    assert!(get(address, "/sign-up").body.contains("type=\"email\""));
    let asked = sign_up(address, "newcomer", "New%40Example.org", "");
    assert!(asked.status == 200 && asked.body.contains("New@Example.org"), "{}", asked.body);
    let mail = mail_of(&mails);
    assert!(mail.to.contains("<New@Example.org>") && mail.text.contains("Auto-Submitted: "), "{mail:?}");
    assert!(!server.user(&["list"], "").unwrap().contains("newcomer"), "nothing is made before");
    let path = link_in(&mail);
    assert!(path.starts_with("/sign-up/confirm/"), "{path}");
    for _ in 0..2 {
        let page = get(address, &path);
        assert!(page.status == 200 && page.body.contains("<strong>newcomer</strong>"), "{}", page.body);
        assert_eq!(page.header("Referrer-Policy"), Some("no-referrer"));
    }
    assert_eq!(use_link(address, &path, "short").status, 422);
    assert_eq!(
        post(address, &path, "", "new=a+long+password&again=a+long+password", "").status,
        403,
        "no token"
    );
    let made = use_link(address, &path, "a+long+password");
    assert!(made.status == 200 && made.body.contains("account is made"), "{}", made.body);
    assert_eq!(log_in(address, "newcomer", "a+long+password", "/").status, 303);
    let users = server.user(&["list"], "").unwrap();
    assert!(users.lines().any(|line| line.starts_with("newcomer") && line.contains("web")), "{users}");
    let file = std::fs::read_to_string(server.data().join("users")).unwrap();
    assert!(!file.to_lowercase().contains("example.org"), "no address is kept");
    // The link is spent, even if the operator removes the account.
    assert_eq!((get(address, &path).status, use_link(address, &path, "another+password").status), (403, 403));
    server.user(&["remove", "newcomer"], "").unwrap();
    assert_eq!(use_link(address, &path, "another+password").status, 403);
    for wrong in ["x", "a.b.c.d", "%00", &path[17..path.len() - 1]] {
        assert_eq!(get(address, &format!("/sign-up/confirm/{wrong}")).status, 403, "{wrong}");
    }
}

/// As on a full disk. What is answered does not depend on the name or the address.
#[test]
fn no_mail_is_announced_that_cannot_be_queued() {
    let keys = "sign_up = \"mail\"\nreset_by_mail = true\nsign_ups_per_network = 50\n";
    let (server, address, mails) = site_with(keys);
    let queue = server.data().join("moderation");
    let _not_there_yet = std::fs::remove_dir_all(&queue);
    std::fs::write(&queue, "in the way").unwrap();
    for name in ["newcomer", "fred"] {
        let answers =
            [sign_up(address, name, "a%40example.org", ""), forgotten(address, name, "a%40example.org")];
        for answer in answers {
            assert!(
                answer.status == 503 && answer.body.contains("No mails can be sent now"),
                "{}",
                answer.body
            );
            assert!(!answer.body.contains("on its way"), "{}", answer.body);
        }
    }
    std::fs::remove_file(&queue).unwrap();
    assert_eq!(sign_up(address, "newcomer", "a%40example.org", "").status, 200);
    mail_of(&mails);
    // The mail itself is removed once the mail server has taken it.
    let left = || std::fs::read_dir(&queue).unwrap().map(|entry| entry.unwrap().file_name());
    wait_until("trials leave nothing", || left().all(|name| name == "failed"));
}

#[test]
fn asking_for_an_account_by_mail_reveals_no_name_and_no_address() {
    let (_server, address, mails) = site_with("sign_up = \"mail\"\nsign_ups_per_network = 50\n");
    let new = without_token(&sign_up(address, "newcomer", "a%40example.org", ""));
    mail_of(&mails);
    for name in ["fred", "old", "root"] {
        let asked = sign_up(address, name, "a%40example.org", "");
        assert_eq!(without_token(&asked), new, "{name}");
    }
    for _ in 0..2 {
        let mail = mail_of(&mails);
        assert!(mail.text.contains("cannot be had") && !mail.text.contains("/confirm/"), "{mail:?}");
    }
    // Three mails in a day are enough for an address; the visitor sees no difference.
    no_mail(&mails);
    assert_eq!(
        without_token(&sign_up(address, "other", "A%40example.org", "")),
        new_for("A@example.org", &new)
    );
    no_mail(&mails);
    for (name, mail) in [
        ("Newcomer", "b%40example.org"),
        ("newcomer", "b"),
        ("newcomer", "-oX%40example.org"),
        ("newcomer", "b%40example.org%0D%0ABcc%3A+c%40example.org"),
        ("newcomer", "b%40example.org%2Cc%40example.org"),
        ("newcomer", ""),
    ] {
        assert_eq!(sign_up(address, name, mail, "").status, 422, "{name} {mail}");
    }
    no_mail(&mails);
}

#[test]
fn users_give_an_address_with_their_password() {
    let (server, address, mails) = site_with("reset_by_mail = true\nsign_ups_per_network = 50\n");
    let cookie = cookie_of(&log_in(address, "fred", "secretive", "/")).unwrap();
    let account = || get_with(address, "/account", &format!("Cookie: {cookie}\r\n"));
    let keep = |present: &str, mail: &str| {
        let page = account();
        let (_, token) = page.body.split_once("form_token\" value=\"").unwrap();
        let token = token.split_once('"').unwrap().0;
        let body = format!("present={present}&mail={mail}&form_token={token}");
        post(address, "/account/mail", &cookie, &body, "").status
    };
    assert!(account().body.contains("No address is known"));
    assert_eq!([keep("wrong", "fred%40example.org"), keep("secretive", "fred")], [403, 422]);
    assert_eq!(
        post(address, "/account/mail", &cookie, "present=secretive&mail=a%40example.org", "").status,
        403
    );
    assert_eq!(keep("secretive", "fred%40example.org"), 303);
    assert!(account().body.contains("An address is known"));
    assert_eq!(forgotten(address, "fred", "fred%40example.org").status, 200);
    let path = link_in(&mail_of(&mails));
    assert_eq!(get(address, &path).status, 200);
    assert_eq!(keep("secretive", ""), 303);
    assert_eq!(forgotten(address, "fred", "fred%40example.org").status, 200);
    no_mail(&mails);
    assert!(std::fs::read_to_string(server.data().join("users")).unwrap().starts_with("newsreel-users 2 "));
}

/// Returns an answer with another address.
fn new_for(mail: &str, answer: &(u16, String)) -> (u16, String) {
    (answer.0, answer.1.replace("a@example.org", mail))
}

#[test]
fn mails_are_asked_for_within_limits_of_networks_and_of_all() {
    let (_server, address, _mails) = site_with(
        "sign_up = \"mail\"\nreset_by_mail = true\nsign_ups_per_network = 2\nsign_ups_per_day = 3\n\
         proxies = [\"127.0.0.1\"]\n",
    );
    let from = |network: u8, name: &str| {
        let told = format!("X-Forwarded-For: 198.51.{network}.7\r\nX-Forwarded-Proto: https\r\n");
        sign_up(address, name, &format!("{name}%40example.org"), &told).status
    };
    assert_eq!([from(1, "aaa"), from(1, "bbb"), from(1, "ccc")], [200, 200, 429]);
    assert_eq!([from(2, "ddd"), from(2, "eee"), from(3, "fff")], [200, 429, 429]);
}

#[test]
fn a_forgotten_password_is_set_by_the_owner_of_the_address_alone() {
    let keys = "sign_up = \"mail\"\nreset_by_mail = true\nsign_ups_per_network = 50\n";
    let (server, address, mails) = site_with(keys);
    sign_up(address, "newcomer", "new%40example.org", "");
    let path = link_in(&mail_of(&mails));
    assert_eq!(use_link(address, &path, "a+long+password").status, 200);
    assert!(get(address, "/login").body.contains("href=\"/forgotten\""));
    // Strangers who ask for accounts with this address keep nothing from its owner.
    for n in 0..4 {
        sign_up(address, &format!("stranger{n}"), "new%40example.org", "");
    }
    (0..2).for_each(|_| assert!(link_in(&mail_of(&mails)).starts_with("/sign-up/confirm/")));
    no_mail(&mails);
    let asked = forgotten(address, "newcomer", "NEW%40example.org");
    assert_eq!(asked.status, 200, "{}", asked.body);
    let mail = mail_of(&mails);
    assert!(mail.to.contains("<NEW@example.org>"), "{mail:?}");
    let path = link_in(&mail);
    let expected = without_token(&asked);
    for (name, mail) in [
        ("newcomer", "other%40example.org"),
        ("fred", "new%40example.org"),
        ("nobody", "new%40example.org"),
        ("", "new%40example.org"),
    ] {
        let answer = without_token(&forgotten(address, name, mail));
        let shown = mail.replace("%40", "@");
        assert_eq!((answer.0, answer.1.replace(&shown, "NEW@example.org")), expected, "{name} {mail}");
    }
    no_mail(&mails);
    assert_eq!(log_in(address, "newcomer", "a+long+password", "/").status, 303, "it still counts");
    assert_eq!(use_link(address, &path, "another+password").status, 200);
    assert_eq!(log_in(address, "newcomer", "another+password", "/").status, 303);
    assert_eq!(log_in(address, "newcomer", "a+long+password", "/").status, 403);
    assert_eq!(use_link(address, &path, "a+third+password").status, 403, "spent");
    server.reload(|text| text.replace("reset_by_mail = true\n", "")).unwrap();
    assert_eq!(get(address, "/forgotten").status, 404);
    assert!(!get(address, "/login").body.contains("/forgotten"));
}

/// Mail servers refuse mails without these headers, or take them for junk.
#[test]
fn mails_about_accounts_have_the_headers_of_a_mail() {
    let (_server, address, mails) = site_with("sign_up = \"mail\"\nsign_ups_per_network = 50\n");
    let ids = ["first", "second"].map(|name| {
        sign_up(address, name, &format!("{name}%40example.org"), "");
        let mail = mail_of(&mails);
        let (head, _) = mail.text.split_once("\n\n").unwrap();
        let names: Vec<&str> = head.lines().map(|line| line.split_once(": ").unwrap().0).collect();
        let expected = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version"];
        assert_eq!(names[..7], expected, "{head}");
        head.lines().find(|line| line.starts_with("Message-ID: <") && line.contains('@')).unwrap().to_owned()
    });
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_refused_mail_with_a_link_is_not_kept() {
    let (server, address, mails) = site_of("sign_up = \"mail\"\nsign_ups_per_network = 50\n", &[550]);
    sign_up(address, "refused", "nobody%40example.org", "");
    sign_up(address, "taken", "somebody%40example.org", "");
    mail_of(&mails);
    let left = || {
        let dirs = ["moderation", "moderation/failed"].map(|dir| server.data().join(dir));
        let files = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).unwrap().flatten());
        files.map(|entry| entry.path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    wait_until("no mail is left", || left().is_empty());
    assert!(get(address, "/login").status == 200);
}
