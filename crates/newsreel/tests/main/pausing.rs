//! `newsreel ctl pause` and `go`: clients that bring articles are deferred or wait, readers are not affected,
//! and no article is lost.

use crate::client::{Client, article};
use crate::operated::{Operated, complaints};
use crate::waiting::wait_until;
use std::fs;

const WHY: &str = "the disk is being copied";

fn takethis(client: &mut Client, id: &str) -> String {
    client.send(format!("TAKETHIS {id}\r\n{}", article(id, "local.test", "b")));
    client.line()
}

#[test]
fn paused_site_accepts_and_loses_nothing() {
    let site = Operated::new();
    let peer = "\n[[peer]]\nname = \"feeder\"\naddresses = \"127.0.0.1\"\n";
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1) + peer);
    let serving = site.serve();
    let (mut feed, mut reader) = (serving.client(), serving.client());
    assert_eq!(takethis(&mut feed, "<1@x.example>"), "239 <1@x.example>");
    assert!(site.done(&["ctl", "pause", WHY]).starts_with("paused: "));

    assert_eq!(feed.ask("CHECK <2@x.example>"), "431 <2@x.example>");
    assert_eq!(feed.ask("CHECK <1@x.example>"), "438 <1@x.example>", "what is here is not asked for later");
    assert!(feed.ask("IHAVE <2@x.example>").starts_with("436 "));
    assert!(takethis(&mut feed, "<2@x.example>").starts_with("400 "));
    assert_eq!(feed.line_or_end(), None);
    let refused =
        "440 Posting is not possible now: the server is paused: the disk is being copied; try again later";
    assert_eq!(reader.ask("POST"), refused);
    assert!(reader.ask("GROUP local.test").starts_with("211 1 1 1 "));
    assert!(reader.ask("ARTICLE 1").starts_with("220 1 "));
    reader.block();

    // A batch waits, on standard input and in the directory; none of it is rejected.
    let text = article("<3@x.example>", "local.test", "b").replace("\r\n", "\n");
    let text = text.strip_suffix(".\n").unwrap();
    let batch = format!("#! rnews {}\n{text}", text.len());
    let waits = site.run_with(&["rnews"], batch.as_bytes());
    assert!(waits.status.success(), "{}", complaints(&waits));
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    assert_eq!(status["server"]["paused_reason"], WHY);
    assert!(site.done(&["status"]).contains(&format!("({WHY}); newsreel ctl go")));
    let imported = site.home().join("three");
    fs::write(&imported, &batch).unwrap();
    let import = site.run(&["import", "rnews", imported.to_str().unwrap()]);
    assert!(complaints(&import).contains(&format!("the server is paused: {WHY}")), "{}", complaints(&import));

    assert!(site.done(&["ctl", "go"]).starts_with("articles are accepted again, after "));
    let mut feed = serving.client();
    assert_eq!(feed.ask("CHECK <2@x.example>"), "238 <2@x.example>");
    assert_eq!(takethis(&mut feed, "<2@x.example>"), "239 <2@x.example>");
    assert!(reader.ask("POST").starts_with("340 "));
    wait_until("the batch is filed", || feed.ask("CHECK <3@x.example>") == "438 <3@x.example>");
    assert_eq!(site.done(&["ctl", "go"]), "the server was not paused\n");
    let long = "x".repeat(201);
    assert!(complaints(&site.run(&["ctl", "pause", &long])).contains("at most 200 bytes"));
    assert_eq!(feed.ask("CHECK <4@x.example>"), "238 <4@x.example>");
}
