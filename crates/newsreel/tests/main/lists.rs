//! Lists that come from files: kept or not, changed while the server runs.

use crate::client::article;
use crate::running::Server;
use std::time::Duration;

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
        // What a file says holds from then on, without a restart.
        std::fs::write(lists.join(file), "").unwrap();
        assert!(client.ask(&command).starts_with("215 "), "{keyword}");
        assert!(client.block().is_empty(), "{keyword}");
        std::fs::remove_file(lists.join(file)).unwrap();
        assert_eq!(client.ask(&command), "503 List not kept here", "{keyword}");
        // A directory is no text: our own trouble.
        std::fs::create_dir(lists.join(file)).unwrap();
        assert!(client.ask(&command).starts_with("403 "), "{keyword}");
    }
}

#[test]
fn active_modtime_leaves_out_what_has_not_changed() {
    let server = Server::start();
    let mut client = server.client();
    std::thread::sleep(Duration::from_secs(4));
    let now = client.ask("DATE").split_off(4);
    let ask = format!("LIST ACTIVE.MODTIME {now}");
    assert!(client.ask(&ask).starts_with("215 "));
    assert!(client.block().is_empty());
    client.send(format!("TAKETHIS <m@x.example>\r\n{}", article("<m@x.example>", "misc.test", "b")));
    assert_eq!(client.line(), "239 <m@x.example>");
    assert!(client.ask(&ask).starts_with("215 "));
    assert_eq!(client.block(), ["misc.test 1 1 y"]);
    assert!(server.operate(&["changegroup", "local.empty", "n"]));
    assert!(client.ask(&format!("{ask} local.*")).starts_with("215 "));
    assert_eq!(client.block(), ["local.empty 0 1 n"]);
}
