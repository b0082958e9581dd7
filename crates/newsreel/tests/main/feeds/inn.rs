//! A real INN at the other end.

use super::{hand_in, status, wait_for_status};
use crate::client::Client;
use crate::running::Server;
use crate::transcripts::inn::Inn;

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn inn_takes_what_it_is_sent_once() {
    let Some(inn) = Inn::found() else { return };
    inn.start_empty();
    let section = format!(
        "\n[[peer]]\nname = \"inn.example\"\n[peer.send]\nto = \"{}\"\ngroups = \"misc.*,local.*\"\n",
        inn.peer_address()
    );
    let server = Server::start_with(|text| text.replace("\"site.example\"", "\"up.example\"") + &section);
    let mut client = server.client();
    hand_in(&mut client, 0..300, "misc.test");
    hand_in(&mut client, 300..310, "misc.test,local.closed");
    wait_for_status(&server, "inn.example", |feed| feed["lag_articles"] == 0);
    let feed = status(&server, "inn.example");
    assert_eq!(
        (&feed["accepted"], &feed["rejected"], &feed["missed"]),
        (&310.into(), &0.into(), &0.into()),
        "{feed}"
    );
    let mut reader = Client::greeted(inn.reader_address());
    assert!(reader.ask("GROUP misc.test").starts_with("211 310 1 310 "));
    assert!(reader.ask("GROUP local.closed").starts_with("211 10 1 10 "));
    // Offered again from the beginning: INN has all of it.
    let from = serde_json::json!({ "from": { "place": "oldest" } });
    let (_, ok) =
        server.control(&serde_json::json!({ "do": "feed", "peer": "inn.example", "command": from }));
    assert!(ok);
    wait_for_status(&server, "inn.example", |feed| feed["refused"] == 310);
}
