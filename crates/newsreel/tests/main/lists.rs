//! Lists that come from files: kept or not, changed while the server runs.

use crate::running::Server;

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
