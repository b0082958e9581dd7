//! The graceful stop: idle sessions are told, articles under way are taken, the spool is closed and opens again.

use crate::client::{Client, article};
use crate::running::Server;
use std::time::{Duration, Instant};

#[test]
fn idle_sessions_are_told_and_what_runs_is_finished() {
    let mut server = Server::start();
    let mut idle = server.client();
    let mut feeding = server.client();
    let whole = format!("TAKETHIS <s@x.example>\r\n{}", article("<s@x.example>", "misc.test", "b"));
    let (first, second) = whole.split_at(60);
    feeding.send(first);
    // The first part must have been read when the server stops.
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    server.tell_to_stop();
    assert!(idle.line().starts_with("400 "));
    assert_eq!(idle.line_or_end(), None);
    drop(idle);
    feeding.send(second);
    assert_eq!(feeding.line(), "239 <s@x.example>");
    assert!(feeding.line().starts_with("400 "));
    assert_eq!(feeding.line_or_end(), None);
    drop(feeding);
    server.join();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn an_article_that_never_ends_does_not_keep_the_server() {
    let mut server = Server::start();
    let mut feeding = Client::greeted(server.address);
    feeding.send("TAKETHIS <s@x.example>\r\nPath: a!b\r\n");
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    server.join();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}
