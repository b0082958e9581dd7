//! Many connections at once, idle and busy.

use crate::client::{Client, article};
use crate::running::Server;

/// As many as a test may have with the descriptors it shares with the server: two per connection, with a
/// limit of 1,024.
const CONNECTIONS: usize = 400;

#[test]
fn hundreds_of_idle_connections_answer_when_asked() {
    let server = Server::start();
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("GROUP misc.test\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.line(), "211 0 1 0 misc.test");
    }
    for (i, client) in clients.iter_mut().enumerate() {
        let id = format!("<many{i}@x.example>");
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, "misc.test", "b")));
    }
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.line(), format!("239 <many{i}@x.example>"));
    }
    for client in &mut clients {
        assert!(client.ask("GROUP misc.test").starts_with(&format!("211 {CONNECTIONS} 1 ")));
        assert!(client.ask("QUIT").starts_with("205 "));
        assert_eq!(client.line_or_end(), None);
    }
}
