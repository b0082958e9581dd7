//! The graceful stop: idle sessions are notified, articles in progress are accepted, and the spool is closed
//! and opens again.

use crate::client::{Client, article};
use crate::running::Server;
use std::time::{Duration, Instant};

#[test]
fn idle_sessions_are_closed_and_transfers_finished() {
    let mut server = Server::start_at([127, 0, 0, 9]);
    let mut idle = server.client();
    let mut feeding = server.client();
    let whole = format!("TAKETHIS <s@x.example>\r\n{}", article("<s@x.example>", "misc.test", "b"));
    let (first, second) = whole.split_at(60);
    // The server has read the first part once it answers the command in the same segment.
    feeding.send(format!("DATE\r\n{first}"));
    assert!(feeding.line().starts_with("111 "));
    server.tell_to_stop();
    assert!(idle.line().starts_with("400 "));
    // Work in progress may take some seconds from here.
    feeding.send(second);
    assert_eq!(feeding.line(), "239 <s@x.example>");
    assert_eq!(idle.line_or_end(), None);
    drop(idle);
    assert!(feeding.line().starts_with("400 "));
    assert_eq!(feeding.line_or_end(), None);
    drop(feeding);
    server.join();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn endless_article_does_not_prevent_the_stop() {
    let mut server =
        Server::start_with(|text| text.replace("command_timeout = \"1 min\"", "command_timeout = \"1 h\""));
    let mut feeding = Client::greeted(server.address);
    feeding.send("DATE\r\nTAKETHIS <s@x.example>\r\nPath: a!b\r\n");
    assert!(feeding.line().starts_with("111 "));
    let begun = Instant::now();
    server.join();
    // Without the limit it would wait for an hour.
    assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
}
