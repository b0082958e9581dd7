//! Lists that come from files: present or not, changed while the server runs.

use crate::client::{Client, article};
use crate::running::Server;
use crate::waiting::wait_until;

#[test]
fn lists_without_a_file_are_not_kept() {
    let server = Server::start();
    let mut client = server.client();
    let lists = server.data().parent().unwrap().join("lists");
    for (keyword, file) in [
        ("MOTD", "motd"),
        ("DISTRIBUTIONS", "distributions"),
        ("DISTRIB.PATS", "distrib.pats"),
        ("SUBSCRIPTIONS", "subscriptions"),
    ] {
        let command = format!("LIST {keyword}");
        assert!(client.ask(&command).starts_with("215 "), "{keyword}");
        assert!(!client.block().is_empty(), "{keyword}");
        // A new file takes effect without a restart.
        std::fs::write(lists.join(file), "").unwrap();
        assert!(client.ask(&command).starts_with("215 "), "{keyword}");
        assert!(client.block().is_empty(), "{keyword}");
        std::fs::remove_file(lists.join(file)).unwrap();
        assert_eq!(client.ask(&command), "503 List not kept here", "{keyword}");
        // A directory is no text file, which is a fault of ours.
        std::fs::create_dir(lists.join(file)).unwrap();
        assert!(client.ask(&command).starts_with("403 "), "{keyword}");
    }
}

/// Returns the keywords of LIST in CAPABILITIES.
fn offered(client: &mut Client) -> String {
    assert!(client.ask("CAPABILITIES").starts_with("101 "));
    client.block().into_iter().find(|line| line.starts_with("LIST ")).unwrap_or_default()
}

#[test]
fn capabilities_name_the_existing_lists() {
    let server = Server::start();
    let mut client = server.client();
    let lists = server.data().parent().unwrap().join("lists");
    for (keyword, file) in
        [("MOTD", "motd"), ("DISTRIB.PATS", "distrib.pats"), ("SUBSCRIPTIONS", "subscriptions")]
    {
        let has = |client: &mut Client| offered(client).split(' ').any(|word| word == keyword);
        assert!(has(&mut client), "{keyword}");
        std::fs::remove_file(lists.join(file)).unwrap();
        assert!(!has(&mut client), "{keyword}");
    }
    let left = "LIST ACTIVE ACTIVE.MODTIME ACTIVE.TIMES COUNTS DISTRIBUTIONS HEADERS MODERATORS NEWSGROUPS \
        OVERVIEW.FMT";
    assert_eq!(offered(&mut client), left);
}

/// Returns the server's time, once it is so much later than the last change that LIST ACTIVE.MODTIME lists
/// nothing.
pub fn time_without_changes(client: &mut Client) -> String {
    let mut now = String::new();
    wait_until("no group has changed lately", || {
        now = client.ask("DATE").split_off(4);
        assert!(client.ask(&format!("LIST ACTIVE.MODTIME {now}")).starts_with("215 "));
        client.block().is_empty()
    });
    now
}

#[test]
fn active_modtime_omits_unchanged_groups() {
    let server = Server::start();
    let mut client = server.client();
    let ask = format!("LIST ACTIVE.MODTIME {}", time_without_changes(&mut client));
    client.send(format!("TAKETHIS <m@x.example>\r\n{}", article("<m@x.example>", "misc.test", "b")));
    assert_eq!(client.line(), "239 <m@x.example>");
    assert!(client.ask(&ask).starts_with("215 "));
    assert_eq!(client.block(), ["misc.test 1 1 y"]);
    assert!(server.operate(&["changegroup", "local.empty", "n"]));
    assert!(client.ask(&format!("{ask} local.*")).starts_with("215 "));
    assert_eq!(client.block(), ["local.empty 0 1 n"]);
}

#[test]
fn times_of_changes_survive_a_restart() {
    let server = Server::start();
    let since = time_without_changes(&mut server.client());
    assert!(server.operate(&["changegroup", "local.empty", "n"]));
    let server = server.again_as_configured();
    let mut client = server.client();
    assert!(client.ask(&format!("LIST ACTIVE.MODTIME {since}")).starts_with("215 "));
    assert_eq!(client.block(), ["local.empty 0 1 n"]);
}
