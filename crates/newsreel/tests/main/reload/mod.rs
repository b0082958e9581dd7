//! A new configuration in a running server: the changes, the clients they affect, and what stays as it was.

mod cases;
mod directory;
mod load;

use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::wait_for;

/// Configuration of the peer that a test client initially is.
const PEER: &str = "name = \"peer.example\"\naddresses = [\"127.0.0.1\"]";

fn take(client: &mut Client, id: &str, group: &str) -> String {
    client.send(format!("TAKETHIS {id}\r\n{}", article(id, group, "text")));
    client.line()
}

#[test]
fn connected_peer_gets_new_rights_and_a_removed_one_is_closed() {
    let server = Server::start();
    let mut feed = server.client();
    assert_eq!(take(&mut feed, "<1@x.example>", "misc.test"), "239 <1@x.example>");
    let accept = |text: String| text.replace("accept = \"*,!local.hidden\"", "accept = \"local.*\"");
    let said = server.reload(accept).unwrap();
    assert!(
        said.ends_with("1 change\n  [[peer]] peer.example accept: \"*,!local.hidden\" -> \"local.*\""),
        "{said}"
    );
    assert!(take(&mut feed, "<2@x.example>", "misc.test").starts_with("439 <2@x.example>"));
    assert_eq!(take(&mut feed, "<3@x.example>", "local.hidden"), "239 <3@x.example>");
    let elsewhere = |text: String| text.replace(PEER, "name = \"peer.example\"\naddresses = [\"192.0.2.1\"]");
    server.reload(elsewhere).unwrap();
    assert_eq!(feed.line(), "400 You are no longer a peer here");
    assert_eq!(feed.line_or_end(), None);
    // The peer's counters are kept.
    let (status, _) = server.control(&serde_json::json!({ "do": "status" }));
    let peer = &status[0]["status"]["server"]["peers"][0];
    assert_eq!((&peer["offered"], &peer["accepted"]), (&3.into(), &2.into()));
}

#[test]
fn readers_rights_change_at_the_next_command() {
    let server = Server::start_with(|text| text.replace(PEER, "name = \"p\"\naddresses = [\"192.0.2.1\"]"));
    let mut reader = server.client();
    assert!(reader.ask("GROUP misc.test").starts_with("211 "));
    let read = |read: &'static str| {
        move |text: String| {
            let (rest, last) = text.rsplit_once("read = ").unwrap();
            let (_, end) = last.split_once('\n').unwrap();
            format!("{rest}read = {read}\n{end}")
        }
    };
    server.reload(read("\"local.*\"")).unwrap();
    assert!(reader.ask("GROUP misc.test").starts_with("411 "));
    assert!(reader.ask("STAT").starts_with("412 "), "the group that was selected is no longer to be seen");
    assert!(reader.ask("GROUP local.hidden").starts_with("211 "));
    server.reload(|text| text.replace("from = [\"127.0.0.1\"]", "from = [\"192.0.2.1\"]")).unwrap();
    assert_eq!(reader.line(), "400 You are no longer known here");
    assert_eq!(reader.line_or_end(), None);
    assert!(Client::connect(server.address).line().starts_with("502 "));
}

#[test]
fn connected_clients_stay_when_limits_shrink() {
    let server = Server::start_with(|text| text.replace(PEER, "name = \"p\"\naddresses = [\"192.0.2.1\"]"));
    let mut readers = [(); 3].map(|()| server.client());
    let max = |old: &'static str, new: &'static str| {
        move |text: String| {
            text.replace(
                &format!("connections_per_address_max = {old}"),
                &format!("connections_per_address_max = {new}"),
            )
        }
    };
    server.reload(max("12000", "2")).unwrap();
    readers.iter_mut().for_each(|reader| assert!(reader.ask("DATE").starts_with("111 ")));
    assert!(Client::connect(server.address).line().starts_with("400 Too many connections"));
    server.reload(max("2", "4")).unwrap();
    server.client();
}

#[test]
fn articles_due_by_a_new_rule_expire_at_once() {
    let server = Server::start_with(|text| {
        text.replace("buffers = [\"text0\"]", "method = \"tradspool\"\npath = \"tree\"")
            .replace("[[buffer]]\nname = \"text0\"\npath = \"text0.cyc\"\nsize = \"32 MiB\"\n", "")
    });
    let mut client = server.client();
    assert_eq!(take(&mut client, "<1@x.example>", "misc.test"), "239 <1@x.example>");
    assert!(client.ask("STAT <1@x.example>").starts_with("223 "));
    server.reload(|text| text + "\n[[expire]]\ngroups = \"misc.*\"\nkeep = \"1 ms\"\n").unwrap();
    wait_for(|| client.ask("STAT <1@x.example>"), |answer| !answer.starts_with("223 "));
}

#[test]
fn faulty_file_changes_nothing_and_all_faults_are_reported() {
    let server = Server::start();
    let before = std::fs::read_to_string(server.file()).unwrap();
    let mut feed = server.client();
    let said = server
        .reload(|text| {
            text.replace("max_age_days = \"none\"", "max_age_days = 3\nlisen = []")
                .replace("max_connections = 8000", "max_connections = 0")
        })
        .unwrap_err();
    assert!(said.contains("did you mean `listen`?") && said.contains("max_connections = 0"), "{said}");
    assert!(said.ends_with("newsreel.toml: 2 errors"), "{said}");
    std::fs::write(server.file(), &before).unwrap();
    let said = server
        .reload(|text| {
            text.replace("path = \"text0.cyc\"", "path = \"other.cyc\"")
                .replace("max_age_days = \"none\"", "max_age_days = 3")
                .replace("\"128 KiB\"", "\"64 KiB\"")
        })
        .unwrap_err();
    assert!(said.contains("newsreel buffer move") && said.ends_with("1 error"), "{said}");
    // None of the other changes was made: the article is 23 years too old.
    assert_eq!(take(&mut feed, "<1@x.example>", "misc.test"), "239 <1@x.example>");
}

#[test]
fn reloads_without_change_have_no_effect() {
    let server = Server::start();
    let mut client = server.client();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                server.reload(|text| text).unwrap();
            }
        });
        for n in 0..60 {
            let id = format!("<{n}@x.example>");
            client.send(format!(
                "TAKETHIS {id}\r\n{}",
                article(&id, "misc.test", &"some text\r\n".repeat(10_000))
            ));
            assert_eq!(client.line(), format!("239 {id}"));
            assert!(client.ask(&format!("BODY {id}")).starts_with("222 "));
            client.block();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn removed_user_is_disconnected_at_the_next_reload() {
    let server = Server::start_with(|text| {
        text.replace(PEER, "name = \"p\"\naddresses = [\"192.0.2.1\"]")
            .replace("[[access]]", "[[access]]\nusers = \"*\"")
            .replace(
                "users = \"*\"\nfrom = [\"127.0.0.1\"]\nusers = \"old\"",
                "from = [\"127.0.0.1\"]\nusers = \"old\"",
            )
            + "\n[auth]\nplain_passwords_from = [\"127.0.0.0/8\"]\n"
    });
    for user in ["fred", "wilma"] {
        server.user(&["add", user], "long enough\n").unwrap();
    }
    let mut clients = ["fred", "wilma"].map(|user| {
        let mut client = server.client();
        client.ask(&format!("AUTHINFO USER {user}"));
        assert!(client.ask("AUTHINFO PASS long enough").starts_with("281 "));
        client
    });
    server.user(&["remove", "fred"], "").unwrap();
    server.reload(|text| text).unwrap();
    assert_eq!(clients[0].line(), "400 You are no longer a user here");
    assert!(clients[1].ask("GROUP misc.test").starts_with("211 "));
}
