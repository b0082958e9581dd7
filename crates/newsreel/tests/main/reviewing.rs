//! `newsreel filter`, with a running server and without one.

use crate::client::{Client, article};
use crate::operated::{Operated, complaints};

const POLICY: &str = "\n[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n\
    [spam]\ncrossposts = \"reject\"\ncrossposts_max = 2\ntypes = \"hide\"\n";
const REFUSED: &str = "<1@x.example>";
const HIDDEN: &str = "<2@x.example>";

fn take(client: &mut Client, id: &str) -> String {
    let html = if id == HIDDEN { "Content-Type: text/html\r\n" } else { "" };
    let groups = if id == HIDDEN { "misc.a" } else { "misc.a,misc.b,misc.c" };
    let article = article(id, groups, "b").replacen("Subject: ", &format!("{html}Subject: "), 1);
    client.send(format!("TAKETHIS {id}\r\n{article}"));
    client.line()
}

#[test]
fn mistakes_of_a_filter_are_listed_and_corrected() {
    for served in [true, false] {
        let site = Operated::new();
        site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1) + POLICY);
        ["misc.a", "misc.b", "misc.c"].iter().for_each(|group| drop(site.done(&["group", "add", group])));
        assert_eq!(site.done(&["filter", "review"]), "filters have found nothing\n");
        let serving = site.serve();
        let mut client = serving.client();
        assert_eq!(take(&mut client, REFUSED), format!("439 {REFUSED} posted to too many groups"));
        assert_eq!(take(&mut client, HIDDEN), format!("239 {HIDDEN}"));
        assert_eq!(client.ask(&format!("CHECK {REFUSED}")), format!("438 {REFUSED}"));
        assert!(client.ask(&format!("STAT {HIDDEN}")).starts_with("430 "));
        assert!(site.done(&["hide", "--list", "--issuer", "spam"]).contains("content of a type"));
        drop(client);
        let serving = match served {
            true => Some(serving),
            false => {
                serving.stop();
                None
            }
        };
        let list = site.done(&["filter", "review", "--filter", "spam", "--since", "1h"]);
        assert_eq!(list.lines().count(), 3, "{list}");
        assert!(list.contains("misc.a,misc.b,misc.c") && list.contains("refused"), "{list}");
        let json: serde_json::Value =
            serde_json::from_str(&site.done(&["filter", "review", "--json"])).unwrap();
        assert_eq!((&json[1]["finding"], &json[1]["filed"]), (&"hidden".into(), &true.into()));
        let unknown = site.run(&["filter", "release", "<9@x.example>", "noid"]);
        let said = complaints(&unknown);
        assert!(!unknown.status.success() && said.contains("no filter is known") && said.contains("`noid`"));
        assert_eq!(
            site.done(&["filter", "release", REFUSED, HIDDEN]),
            format!("{REFUSED} is let in when it comes again\n{HIDDEN} is shown\n")
        );
        let serving = serving.unwrap_or_else(|| site.serve());
        let mut client = serving.client();
        assert!(client.ask(&format!("STAT {HIDDEN}")).starts_with("223 "));
        assert_eq!(take(&mut client, REFUSED), format!("239 {REFUSED}"));
        assert_eq!(client.ask("GROUP misc.a"), "211 2 1 2 misc.a");
        assert_eq!(take(&mut client, "<3@x.example>"), "439 <3@x.example> posted to too many groups");
        drop(client);
        drop(serving);
        site.done(&["verify"]);
    }
}
