//! Access rights of clients by address, listener, user, group and TLS; and limits on connections and use.
//!
//! Sources: RFC 3977 section 3.2.1 (480, 483, 502), INN's readers.conf for the rights.

use crate::auth::{add_users, plain, start, with_access};
use crate::client::{Client, article};
use crate::layers::settings;
use crate::running::Server;
use crate::tls::Site;
use crate::waiting::wait_until;
use std::time::{Duration, Instant};

/// Configuration of a site with a peer that is known by its user.
const FED: &str = r#"
[[peer]]
name = "peer.example"
addresses = ["127.0.0.1"]
user = "feeder"

[[access]]
from = "all"
users = "fred"
read = "*,!local.empty"
post = "*"

[[access]]
from = "all"
read = "misc.*"
"#;

fn login(client: &mut Client, name: &str, password: &str) {
    let answer = client.ask(&plain(name, password));
    assert!(answer.starts_with("281 "), "{name}: {answer}");
}

fn fed() -> Server {
    let server = Server::start_with(with_access(FED));
    add_users(&server);
    server.user(&["add", "feeder"], "secretive\n").unwrap();
    server
}

fn feed(server: &Server, articles: &[(&str, &str)]) {
    let mut client = server.client();
    login(&mut client, "feeder", "secretive");
    for (id, groups) in articles {
        client.send(format!("TAKETHIS {id}\r\n{}", article(id, groups, "text")));
        assert_eq!(client.line(), format!("239 {id}"));
    }
}

#[test]
fn peers_have_no_rights_before_login() {
    let server = fed();
    let mut client = server.client();
    for command in ["IHAVE <a@x.example>", "CHECK <a@x.example>", "MODE STREAM"] {
        assert!(client.ask(command).starts_with("480 "), "{command}");
    }
    client.send(format!("TAKETHIS <a@x.example>\r\n{}DATE\r\n", article("<a@x.example>", "misc.test", "x")));
    assert!(client.line().starts_with("480 "));
    assert!(client.line().starts_with("111 "));
    login(&mut client, "feeder", "secretive");
    assert!(client.ask("CAPABILITIES").starts_with("101 "));
    let capabilities = client.block();
    assert!(capabilities.contains(&"IHAVE".into()) && capabilities.contains(&"STREAMING".into()));
    assert_eq!(client.ask("CHECK <a@x.example>"), "238 <a@x.example>");
    // Another user is no peer, and cannot become one.
    let mut client = server.client();
    login(&mut client, "fred", "flintstone");
    assert!(client.ask("CHECK <a@x.example>").starts_with("502 "));
    assert!(client.ask("IHAVE <a@x.example>").starts_with("502 "));
}

/// Commands that show whether a group or article exists, each with the answer to clients that may not see it.
const HIDDEN: &[(&str, &str)] = &[
    ("GROUP local.hidden", "411 "),
    ("LISTGROUP local.hidden", "411 "),
    ("ARTICLE <hidden@x.example>", "430 "),
    ("HEAD <hidden@x.example>", "430 "),
    ("BODY <hidden@x.example>", "430 "),
    ("STAT <hidden@x.example>", "430 "),
    ("OVER <hidden@x.example>", "430 "),
    ("HDR Subject <hidden@x.example>", "430 "),
    ("XHDR Subject <hidden@x.example>", "430 "),
    ("XPATH <hidden@x.example>", "430 "),
];

const LISTS: &[&str] = &[
    "LIST",
    "LIST ACTIVE local.*",
    "LIST COUNTS",
    "LIST NEWSGROUPS",
    "LIST ACTIVE.TIMES",
    "NEWGROUPS 19700101 000000",
    "NEWNEWS * 19700101 000000",
    "XGTITLE *",
];

#[test]
fn unreadable_groups_do_not_exist() {
    let server = fed();
    feed(
        &server,
        &[
            ("<hidden@x.example>", "local.hidden"),
            ("<both@x.example>", "local.hidden,misc.test"),
            ("<open@x.example>", "misc.test"),
        ],
    );
    let mut client = server.client();
    for (command, code) in HIDDEN {
        let answer = client.ask(command);
        assert!(answer.starts_with(code), "{command}: {answer}");
    }
    for command in LISTS {
        assert!(client.ask(command).starts_with('2'), "{command}");
        let block = client.block();
        assert!(block.iter().all(|line| !line.contains("hidden")), "{command}: {block:?}");
        assert!(command.contains("local") || !block.is_empty(), "{command}");
    }
    // The crosspost is visible in the group that may be read; Xref is as stored.
    assert!(client.ask("HEAD <both@x.example>").starts_with("221 "));
    assert!(client.block().iter().any(|line| line.starts_with("Xref: ") && line.contains("local.hidden:2")));
    assert_eq!(client.ask("XPATH <both@x.example>"), "223 misc/test/1");
    // After logging in everything is visible.
    login(&mut client, "fred", "flintstone");
    for (command, _) in HIDDEN {
        let answer = client.ask(command);
        assert!(answer.starts_with('2'), "{command}: {answer}");
        if !command.starts_with("GROUP") && !command.starts_with("STAT") && !command.starts_with("XPATH") {
            client.block();
        }
    }
    for command in
        LISTS.iter().filter(|command| !command.starts_with("LIST NEWS") && !command.starts_with("XG"))
    {
        assert!(client.ask(command).starts_with('2'), "{command}");
        let block = client.block();
        assert!(block.iter().any(|line| line.contains("hidden")), "{command}: {block:?}");
    }
    assert!(client.ask("GROUP local.empty").starts_with("411 "), "fred's section leaves it out");
}

#[test]
fn selected_group_stays_selected_only_if_readable() {
    let server = Server::start_with(with_access(
        "[[access]]\nfrom = \"all\"\nusers = \"fred\"\nread = \"local.*\"\n\
         [[access]]\nfrom = \"all\"\nread = \"misc.*,local.empty\"\n",
    ));
    add_users(&server);
    for (group, after) in [("misc.test", "412 "), ("local.empty", "420 ")] {
        let mut client = server.client();
        assert!(client.ask(&format!("GROUP {group}")).starts_with("211 "));
        login(&mut client, "fred", "flintstone");
        assert!(client.ask("STAT").starts_with(after), "{group}");
    }
}

#[test]
fn missing_rights_are_reported_as_480_483_or_502() {
    let server = start();
    let mut client = server.client();
    assert!(client.ask("POST").starts_with("480 "), "users may post");
    assert!(client.ask("NEWNEWS * 20000101 000000").starts_with("230 "));
    client.block();
    assert!(client.ask("IHAVE <a@x.example>").starts_with("502 "), "nobody may feed");
    login(&mut client, "fred", "flintstone");
    assert!(client.ask("POST").starts_with("340 "));
    client.send(".\r\n");
    assert!(client.line().starts_with("441 "));
    drop(server);

    // Only users that have logged in have rights, and only under TLS.
    let site = Site::start_with("", with_access("[[access]]\nfrom = \"all\"\nusers = \"*\"\ntls = true\n"));
    add_users(&site.server);
    let mut client = Client::connect(site.server.address);
    assert!(client.line().starts_with("201 "));
    assert!(client.ask("GROUP misc.test").starts_with("483 "));
    assert!(client.ask("POST").starts_with("440 "), "not even then");
    assert!(client.ask("MODE READER").starts_with("201 "));
    assert!(client.ask("STARTTLS").starts_with("382 "));
    client.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    assert!(client.ask("GROUP misc.test").starts_with("480 "));
    assert!(client.ask("LIST").starts_with("480 "));
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("281 "));
    assert!(client.ask("GROUP misc.test").starts_with("211 "));
    // A client that logged in before TLS, which it needs, cannot start TLS any more.
    let mut client = site.server.client();
    login(&mut client, "fred", "flintstone");
    assert!(client.ask("GROUP misc.test").starts_with("502 "));
}

#[test]
fn strangers_without_any_rights_are_rejected() {
    let server = Server::start_with(with_access("[[access]]\nfrom = \"192.0.2.0/24\"\nusers = \"*\"\n"));
    add_users(&server);
    let mut client = Client::connect(server.address);
    assert!(client.line().starts_with("502 "));
    assert_eq!(client.line_or_end(), None);
    let server = Server::start_with(with_access("[[access]]\nfrom = \"all\"\nusers = \"*\"\n"));
    assert!(Client::connect(server.address).line().starts_with("502 "), "nobody can log in");
    add_users(&server);
    assert!(Client::connect(server.address).line().starts_with("201 "));
}

#[test]
fn access_depends_on_listener_and_tls() {
    let access = r#"
[[access]]
from = "all"
listener = ["127.0.0.2"]
read = "misc.*"
[[access]]
from = "all"
tls = true
read = "local.*"
[[access]]
from = "all"
read = "junk"
"#;
    let site = Site::start_with("", |text| {
        with_access(access)(text).replace("tls_listen = [\"127.0.0.1:0\"]", "tls_listen = [\"127.0.0.2:0\"]")
    });
    let mut plain = Client::connect(site.server.address);
    plain.line();
    assert!(plain.ask("GROUP misc.test").starts_with("411 "));
    assert!(plain.ask("GROUP junk").starts_with("211 "));
    assert!(plain.ask("STARTTLS").starts_with("382 "));
    plain.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    assert!(plain.ask("GROUP junk").starts_with("411 "));
    assert!(plain.ask("GROUP local.empty").starts_with("211 "));
    let mut other = Client::connect(site.server.tls_address.unwrap());
    other.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    other.line();
    assert!(other.ask("GROUP misc.test").starts_with("211 "));
    assert!(other.ask("GROUP local.empty").starts_with("411 "));
}

fn post(client: &mut Client, group: &str, more: &str) -> String {
    assert!(client.ask("POST").starts_with("340 "));
    client.send(format!("From: a@b.example\r\nNewsgroups: {group}\r\nSubject: s\r\n{more}\r\ntext\r\n.\r\n"));
    client.line()
}

#[test]
fn approving_and_posting_to_closed_groups_need_rights() {
    let server = start();
    let mut fred = server.client();
    login(&mut fred, "fred", "flintstone");
    let mut wilma = server.client();
    login(&mut wilma, "wilma", "pebblestone");
    let approved = "Approved: a@b.example\r\n";
    assert!(post(&mut fred, "local.moderated", approved).starts_with("441 You may not approve"));
    assert!(post(&mut wilma, "local.moderated", approved).starts_with("240 "));
    assert!(post(&mut fred, "local.closed", "").starts_with("441 "));
    assert!(post(&mut wilma, "local.closed", "").starts_with("240 "));
    assert!(post(&mut wilma, "local.refused", "").starts_with("441 "));
    assert!(post(&mut fred, "misc.test", "").starts_with("240 "));
    assert!(post(&mut fred, "local.hidden", "").starts_with("441 Posting to local.hidden is not"));
}

#[test]
fn connections_are_counted_by_address_and_by_user() {
    let server = Server::start_with(with_access(
        "[[access]]\nfrom = \"all\"\nusers = \"*\"\nconnections_per_user_max = 2\n\
         [[access]]\nfrom = \"all\"\nread = \"misc.*\"\nconnections_per_address_max = 4\n",
    ));
    add_users(&server);
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let mut fifth = Client::connect(server.address);
    assert!(fifth.line().starts_with("400 Too many connections from your address (at most "));
    assert_eq!(fifth.line_or_end(), None);
    for client in &mut clients[..2] {
        login(client, "fred", "flintstone");
    }
    // These have left the section for everyone, so two more may connect.
    let mut more = [server.client(), server.client()];
    assert!(
        clients[2]
            .ask(&plain("fred", "flintstone"))
            .starts_with("400 Too many connections of this user (at most ")
    );
    assert_eq!(clients[2].line_or_end(), None);
    login(&mut more[0], "wilma", "pebblestone");
    drop(clients.remove(0));
    // Refused connections may still be counted for their address.
    let logged_in = || {
        let mut client = Client::connect(server.address);
        client.line().starts_with("20") && client.ask(&plain("fred", "flintstone")).starts_with("281 ")
    };
    wait_until("a place is free again", logged_in);
}

#[test]
fn posts_are_counted_by_the_hour() {
    let server = Server::start_with(with_access(
        "[[access]]\nfrom = \"all\"\nusers = \"*\"\npost = \"*\"\nposts_per_hour_max = 2\n\
         [[access]]\nfrom = \"all\"\npost = \"*\"\nposts_per_hour_max = 1\n",
    ));
    add_users(&server);
    let mut client = server.client();
    login(&mut client, "fred", "flintstone");
    assert!(post(&mut client, "misc.test", "").starts_with("240 "));
    assert!(post(&mut client, "misc.test", "").starts_with("240 "));
    assert!(client.ask("POST").starts_with("440 Too many posts (at most 2 an hour), try again in 1"));
    // A new connection changes nothing; other users and addresses are counted separately.
    let mut again = server.client();
    assert!(post(&mut again, "misc.test", "").starts_with("240 "));
    assert!(again.ask("POST").starts_with("440 Too many posts"));
    login(&mut again, "fred", "flintstone");
    assert!(again.ask("POST").starts_with("440 Too many posts"));
    let mut wilma = server.client();
    login(&mut wilma, "wilma", "pebblestone");
    assert!(post(&mut wilma, "misc.test", "").starts_with("240 "));
}

#[test]
fn responses_keep_to_the_rate_without_delaying_others() {
    let server = Server::start_with(with_access(
        "[[peer]]\nname = \"p\"\naddresses = [\"127.0.0.1\"]\nuser = \"feeder\"\n\
         [[access]]\nfrom = \"all\"\nusers = \"*\"\nbytes_per_sec_max = \"30 KB\"\n\
         [[access]]\nfrom = \"all\"\n",
    ));
    add_users(&server);
    server.user(&["add", "feeder"], "secretive\n").unwrap();
    let mut feeder = server.client();
    login(&mut feeder, "feeder", "secretive");
    let body = "0123456789".repeat(9_900);
    feeder.send(format!("TAKETHIS <big@x.example>\r\n{}", article("<big@x.example>", "misc.test", &body)));
    assert_eq!(feeder.line(), "239 <big@x.example>");
    // 300 KB over one connection, with a burst of 30 KB: nine seconds, or more as another shares the rate.
    // Others get in less than a minute what would take them a hundred seconds at that rate.
    let (slow, quick) = std::thread::scope(|scope| {
        let fetch = |times: usize, user: bool| {
            let mut client = server.client();
            if user {
                login(&mut client, "fred", "flintstone");
            }
            let begun = Instant::now();
            client.send("BODY <big@x.example>\r\n".repeat(times));
            for _ in 0..times {
                assert!(client.line().starts_with("222 "));
                assert_eq!(client.block().concat().len(), body.len());
            }
            begun.elapsed()
        };
        let one = scope.spawn(move || fetch(3, true));
        let other = scope.spawn(move || fetch(1, true));
        let quick = scope.spawn(move || fetch(30, false));
        (one.join().unwrap(), other.join().map(|_| quick.join().unwrap()).unwrap())
    });
    assert!(slow > Duration::from_secs(6), "{slow:?}");
    assert!(quick < Duration::from_secs(60), "{quick:?}");
}

#[test]
fn key_decides_whether_a_hidden_group_asks_for_login() {
    for (key, hidden) in
        [("", "411 "), ("login_for_hidden = false\n", "411 "), ("login_for_hidden = true\n", "480 ")]
    {
        let server = Server::start_with(|text| {
            let users = "[[access]]\nfrom = \"all\"\nusers = \"fred\"\nread = \"*,!local.closed\"\n";
            format!("{}[[access]]\nfrom = \"all\"\nread = \"misc.*\"\n{key}", with_access(users)(text))
        });
        add_users(&server);
        let mut client = server.client();
        for command in ["GROUP", "LISTGROUP"] {
            assert!(client.ask(&format!("{command} local.hidden")).starts_with(hidden), "{key}");
            // Without the key the closed group looks like one that does not exist.
            for name in ["local.closed", "no.such.group"] {
                assert!(client.ask(&format!("{command} {name}")).starts_with("411 "), "{key} {name}");
            }
        }
        assert!(client.ask("GROUP misc.test").starts_with("211 "));
        assert!(client.ask("LIST ACTIVE local.hidden").starts_with("215 "));
        assert!(client.block().is_empty(), "lists never name it");
        // A client that has logged in is not asked to log in again.
        login(&mut client, "wilma", "pebblestone");
        assert!(client.ask("GROUP local.hidden").starts_with("411 "), "{key}");
        login(&mut server.client(), "fred", "flintstone");
        let mut fred = server.client();
        login(&mut fred, "fred", "flintstone");
        assert!(fred.ask("GROUP local.hidden").starts_with("211 "));
        assert!(fred.ask("GROUP local.closed").starts_with("411 "));
    }
}

#[test]
fn closed_group_has_flag_y_for_users_who_may_post() {
    const OPEN: &str = "[[access]]\nfrom = \"all\"\npost = \"*\"\nlocal = \"local.*\"\n";
    const CLOSED: &str = "[[access]]\nfrom = \"all\"\npost = \"misc.*\"\nlocal = \"local.*\"\n";
    for (access, flag) in [(OPEN, "y"), (CLOSED, "n")] {
        let server = Server::start_with(with_access(access));
        let mut client = server.client();
        for list in ["LIST ACTIVE", "LIST ACTIVE local.closed", "LIST COUNTS local.closed"] {
            assert!(client.ask(list).starts_with("215 "));
            let row = client.block().into_iter().find(|row| row.starts_with("local.closed ")).unwrap();
            assert!(row.ends_with(&format!(" {flag}")), "{list}: {row}");
        }
    }
}
