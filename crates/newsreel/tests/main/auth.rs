//! Logging in: AUTHINFO USER and PASS, SASL PLAIN, SCRAM-SHA-256 and EXTERNAL, in every order and state.
//!
//! Source: RFC 4643, whose examples are played literally where our server can give the same responses.

use crate::client::Client;
use crate::layers::{Authority, settings};
use crate::operated::{Operated, complaints};
use crate::running::Server;
use crate::scram;
use crate::tls::Site;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Access rights: fred may read and post, wilma is staff, everyone else may read `misc.*`.
const ACCESS: &str = r#"
[[access]]
from = "all"
user_groups = ["staff"]
read = "*"
post = "*"
approve = "*"
local = "*"

[[access]]
from = "all"
users = "*"
read = "*,!local.hidden"
post = "misc.*,local.*"
newnews = false

[[access]]
from = "all"
read = "misc.*"
"#;

/// Replaces the test site's access section, and removes its peer.
pub fn with_access(access: &'static str) -> impl Fn(String) -> String {
    move |text| {
        let (head, _) = text.split_once("[[access]]").unwrap();
        let (head, _) = head.split_once("[[peer]]").unwrap();
        format!("{head}{access}")
    }
}

/// Starts the site with fred (flintstone) and wilma (pebblestone, staff).
pub fn start() -> Server {
    let server = Server::start_with(with_access(ACCESS));
    add_users(&server);
    server
}

pub fn add_users(server: &Server) {
    assert_eq!(server.user(&["add", "fred"], "flintstone\n"), Ok("fred added\n".into()));
    server.user(&["add", "wilma", "--group", "staff"], "pebblestone\n").unwrap();
}

pub fn plain(name: &str, password: &str) -> String {
    format!("AUTHINFO SASL PLAIN {}", BASE64_STANDARD.encode(format!("\0{name}\0{password}")))
}

fn capabilities(client: &mut Client) -> Vec<String> {
    assert!(client.ask("CAPABILITIES").starts_with("101 "));
    client.block()
}

fn with_label(capabilities: &[String], label: &str) -> Option<String> {
    capabilities.iter().find(|line| line.split(' ').next() == Some(label)).cloned()
}

#[test]
fn examples_of_rfc_4643_with_passwords() {
    let server = start();
    let mut client = server.client();
    // Section 2.3.3: PASS before USER, and failure.
    assert_eq!(client.ask("AUTHINFO PASS flintstone"), "482 Authentication commands issued out of sequence");
    assert!(client.ask("AUTHINFO USER barney").starts_with("381 "));
    assert_eq!(client.ask("AUTHINFO PASS flintstone"), "481 Authentication failed");
    // The server forgets the name after a failure.
    assert!(client.ask("AUTHINFO PASS flintstone").starts_with("482 "));
    // Other commands may come in between, and the last name counts.
    assert!(client.ask("AUTHINFO USER barney").starts_with("381 "));
    assert!(client.ask("DATE").starts_with("111 "));
    assert!(client.ask("AUTHINFO USER fred").starts_with("381 "));
    assert_eq!(client.ask("AUTHINFO PASS flintstone"), "281 Authentication accepted");
    // Section 2.2: no further login after success.
    for command in ["AUTHINFO USER fred", "AUTHINFO PASS flintstone", &plain("fred", "flintstone")] {
        assert!(client.ask(command).starts_with("502 "), "{command}");
    }
    assert!(client.ask("AUTHINFO GENERIC x").starts_with("501 "));
}

#[test]
fn examples_of_rfc_4643_with_sasl() {
    let server = start();
    let mut client = server.client();
    // Section 2.4.3: aborted, unknown mechanism, wrong encoding, not the mechanism's syntax.
    assert_eq!(client.ask("AUTHINFO SASL PLAIN"), "383 =");
    assert_eq!(client.ask("*"), "481 Authentication aborted as requested");
    assert!(client.ask("AUTHINFO SASL EXAMPLE").starts_with("503 "));
    assert_eq!(client.ask("AUTHINFO SASL PLAIN"), "383 =");
    assert_eq!(client.ask("abcd=efg"), "504 Error in base64-encoding");
    assert!(client.ask("AUTHINFO SASL PLAIN abcd=efg").starts_with("504 "));
    assert_eq!(client.ask("AUTHINFO SASL PLAIN YWJj"), "482 SASL protocol error");
    assert_eq!(client.ask("AUTHINFO SASL PLAIN ="), "482 SASL protocol error");
    // A response over two round trips, in lower case.
    assert_eq!(client.ask("authinfo sasl plain"), "383 =");
    assert_eq!(
        client.ask(plain("fred", "flintstone").rsplit(' ').next().unwrap()),
        "281 Authentication accepted"
    );

    let mut client = server.client();
    assert!(client.ask(&plain("fred", "Flintstone")).starts_with("481 "));
    // fred may not act for other users.
    let other = BASE64_STANDARD.encode("wilma\0fred\0flintstone");
    assert!(client.ask(&format!("AUTHINFO SASL PLAIN {other}")).starts_with("481 "));
    let same = BASE64_STANDARD.encode("fred\0fred\0flintstone");
    assert!(client.ask(&format!("AUTHINFO SASL PLAIN {same}")).starts_with("281 "));
}

#[test]
fn long_sasl_lines_are_accepted_up_to_a_limit() {
    let server = start();
    let mut client = server.client();
    // First a line longer than a command line, then a password longer than allowed.
    assert_eq!(client.ask(&plain("fred", &"x".repeat(1500))), "481 Authentication failed");
    assert!(client.ask(&plain("fred", &"x".repeat(4000))).starts_with("501 "));
    assert_eq!(client.ask("AUTHINFO SASL PLAIN"), "383 =");
    assert!(client.ask(&"QUJD".repeat(4000)).starts_with("504 "));
    assert!(client.ask("DATE").starts_with("111 "));
    assert!(client.ask(&format!("AUTHINFO USER {}", "x".repeat(600))).starts_with("501 "));
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("281 "));
}

#[test]
fn scram_proves_both_sides() {
    let server = start();
    let mut client = server.client();
    let mut ask = |line: String| client.ask(&line);
    assert!(scram::login(&mut ask, "fred", "flintstone", true).unwrap().starts_with("283 "));
    let mut client = server.client();
    let mut ask = |line: String| client.ask(&line);
    assert!(scram::login(&mut ask, "fred", "flintstone", false).unwrap().starts_with("283 "));
    let mut client = server.client();
    let mut ask = |line: String| client.ask(&line);
    assert!(scram::login(&mut ask, "fred", "wrong", true).unwrap_err().starts_with("481 "));
    // An unknown user gets a constant challenge, as existing users do, and then a failure.
    let salt = scram::salt(&mut ask, "nobody");
    assert_eq!(scram::salt(&mut ask, "nobody"), salt);
    assert_ne!(scram::salt(&mut ask, "somebody"), salt);
    assert!(scram::login(&mut ask, "nobody", "flintstone", true).unwrap_err().starts_with("481 "));
}

#[test]
fn capabilities_follow_the_state() {
    let server = start();
    let mut client = server.client();
    let before = capabilities(&mut client);
    assert_eq!(with_label(&before, "AUTHINFO").as_deref(), Some("AUTHINFO USER SASL"));
    assert_eq!(with_label(&before, "SASL").as_deref(), Some("SASL SCRAM-SHA-256 PLAIN"));
    assert_eq!(with_label(&before, "POST"), None);
    assert!(with_label(&before, "READER").is_some() && with_label(&before, "NEWNEWS").is_some());
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("281 "));
    let after = capabilities(&mut client);
    assert_eq!(with_label(&after, "AUTHINFO"), None);
    assert_eq!(with_label(&after, "SASL"), with_label(&before, "SASL"));
    assert!(with_label(&after, "POST").is_some() && with_label(&after, "NEWNEWS").is_none());
    assert!(client.ask("NEWNEWS * 20000101 000000").starts_with("502 "));
    // Logging in is not possible after COMPRESS (RFC 8054 section 2.2.2).
    let mut client = Client::connect(server.address);
    assert!(client.line().starts_with("201 "));
    client.compress();
    assert!(client.capabilities().contains(&"AUTHINFO".into()));
    assert!(client.ask("AUTHINFO USER fred").starts_with("502 "));
}

#[test]
fn login_is_offered_once_the_first_user_exists() {
    let server = Server::start_with(with_access(ACCESS));
    let mut client = server.client();
    assert_eq!(with_label(&capabilities(&mut client), "AUTHINFO"), None);
    assert!(client.ask("AUTHINFO USER fred").starts_with("503 "));
    assert!(client.ask("POST").starts_with("440 "));
    add_users(&server);
    assert!(client.ask("POST").starts_with("480 "));
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("281 "));
    server.user(&["passwd", "fred"], "rubblestone\n").unwrap();
    let mut client = server.client();
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("481 "));
    assert!(client.ask(&plain("fred", "rubblestone")).starts_with("281 "));
    server.user(&["remove", "fred"], "").unwrap();
    assert!(server.client().ask(&plain("fred", "rubblestone")).starts_with("481 "));
}

#[test]
fn passwords_need_tls_unless_the_address_is_excepted() {
    let auth = "[auth]\nplain_passwords_from = []\n\n[[buffer]]";
    let site = Site::start_with("", |text| with_access(ACCESS)(text).replacen("[[buffer]]", auth, 1));
    add_users(&site.server);
    let mut client = site.server.client();
    let before = capabilities(&mut client);
    assert_eq!(with_label(&before, "AUTHINFO").as_deref(), Some("AUTHINFO SASL"));
    assert_eq!(with_label(&before, "SASL").as_deref(), Some("SASL SCRAM-SHA-256"));
    assert!(client.ask("AUTHINFO USER fred").starts_with("483 "));
    assert!(client.ask("AUTHINFO PASS flintstone").starts_with("483 "));
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("483 "));
    assert!(client.ask("AUTHINFO SASL EXTERNAL =").starts_with("483 "));
    // SCRAM sends no password. TLS may not start after it (RFC 4642 section 2.2.1).
    let mut ask = |line: String| client.ask(&line);
    assert!(scram::login(&mut ask, "fred", "flintstone", true).is_ok());
    assert!(client.ask("STARTTLS").starts_with("502 "));
    assert_eq!(with_label(&capabilities(&mut client), "STARTTLS"), None);

    let mut client = Client::connect(site.server.address);
    assert!(client.line().starts_with("201 "));
    assert!(client.ask("STARTTLS").starts_with("382 "));
    client.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    assert!(client.capabilities().contains(&"AUTHINFO USER SASL".into()));
    assert!(client.capabilities().contains(&"SASL SCRAM-SHA-256 PLAIN".into()));
    assert!(client.ask("AUTHINFO USER fred").starts_with("381 "));
    assert!(client.ask("AUTHINFO PASS flintstone").starts_with("281 "));
}

#[test]
fn certificate_logs_in_with_external() {
    let site = Site::start_with("client_ca = \"{CA}\"", with_access(ACCESS));
    add_users(&site.server);
    let tls = site.server.tls_address.unwrap();
    let connect = |identity: Option<&crate::layers::Identity>| {
        let mut client = Client::connect(tls);
        client.handshake(settings(&site.authority, identity), "news.example.org").unwrap();
        assert!(client.line().starts_with("201 "));
        client
    };
    let wilma = site.authority.sign("wilma");
    let mut client = connect(Some(&wilma));
    assert!(client.capabilities().contains(&"SASL SCRAM-SHA-256 EXTERNAL PLAIN".into()));
    let fred = BASE64_STANDARD.encode("fred");
    assert!(client.ask(&format!("AUTHINFO SASL EXTERNAL {fred}")).starts_with("481 "));
    assert_eq!(client.ask("AUTHINFO SASL EXTERNAL ="), "281 Authentication accepted");
    assert!(client.ask("GROUP local.hidden").starts_with("211 "), "wilma is staff");
    let mut client = connect(Some(&wilma));
    assert_eq!(client.ask("AUTHINFO SASL EXTERNAL"), "383 =");
    assert!(client.ask(&BASE64_STANDARD.encode("wilma")).starts_with("281 "));
    // Without a certificate, or with one that no trusted authority has signed.
    let mut client = connect(None);
    assert!(client.ask("AUTHINFO SASL EXTERNAL =").starts_with("481 "));
    assert!(!client.capabilities().iter().any(|line| line.contains("EXTERNAL")));
    let stranger = Authority::new().sign("wilma");
    let mut client = Client::connect(tls);
    let shaken = client.handshake(settings(&site.authority, Some(&stranger)), "news.example.org");
    if shaken.is_ok() && client.line_or_end().is_some() {
        assert!(client.ask("AUTHINFO SASL EXTERNAL =").starts_with("481 "));
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = start();
    let mut client = server.client();
    client.send("DATE\r\nAUTHINFO USER fred\r\nAUTHINFO PASS flintstone\r\nGROUP local.empty\r\nDATE\r\n");
    let codes: Vec<String> = (0..5).map(|_| client.line()[..3].to_owned()).collect();
    assert_eq!(codes, ["111", "381", "281", "211", "111"]);
    let mut client = server.client();
    let response = plain("wilma", "pebblestone").rsplit(' ').next().unwrap().to_owned();
    client.send(format!("AUTHINFO SASL PLAIN\r\n{response}\r\nGROUP local.hidden\r\n"));
    let codes: Vec<String> = (0..3).map(|_| client.line()[..3].to_owned()).collect();
    assert_eq!(codes, ["383", "281", "211"]);
}

#[test]
fn mechanisms_can_be_switched_off() {
    let auth = "[auth]\nmechanisms = [\"scram-sha-256\"]\n\n[[buffer]]";
    let server = Server::start_with(|text| with_access(ACCESS)(text).replacen("[[buffer]]", auth, 1));
    add_users(&server);
    let mut client = server.client();
    assert_eq!(with_label(&capabilities(&mut client), "AUTHINFO").as_deref(), Some("AUTHINFO SASL"));
    assert!(client.ask("AUTHINFO USER fred").starts_with("503 "));
    assert!(client.ask(&plain("fred", "flintstone")).starts_with("503 "));
    let mut ask = |line: String| client.ask(&line);
    assert!(scram::login(&mut ask, "fred", "flintstone", true).is_ok());
}

#[test]
fn names_and_passwords_are_prepared_and_may_have_spaces() {
    let server = Server::start_with(with_access(ACCESS));
    // The Roman numeral nine and IX are one name (RFC 4013 section 3).
    server.user(&["add", "\u{2168}"], "two words\n").unwrap();
    assert!(server.client().ask("AUTHINFO USER IX").starts_with("381 "));
    let mut client = server.client();
    client.send("AUTHINFO USER \u{2168}\r\n");
    assert!(client.line().starts_with("381 "));
    assert!(client.ask("AUTHINFO PASS two words").starts_with("281 "));
    assert!(server.client().ask(&plain("IX", "two words")).starts_with("281 "));
    assert!(server.client().ask(&plain("IX\u{627}1", "two words")).starts_with("481 "));
}

#[test]
fn user_commands_refuse_invalid_arguments() {
    let server = start();
    let failure = |arguments: &[&str], input: &str| server.user(arguments, input).unwrap_err();
    assert!(failure(&["add", "fred"], "x\n").contains("is there already"));
    assert!(failure(&["add", "a b"], "x\n").contains("cannot be a user's name"));
    assert!(failure(&["add", "barney", "--group", "a b"], "x\n").contains("cannot be a group"));
    assert!(failure(&["add", "barney"], "\n").contains("1 to 512 bytes"));
    assert!(
        failure(&["add", "barney"], "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\n")
            .contains("at least 8 characters")
    );
    assert!(failure(&["passwd", "fred"], "seven c\n").contains("at least 8 characters"));
    assert!(failure(&["passwd", "barney"], "x\n").contains("there is no user `barney`"));
    assert!(failure(&["remove", "fred", "barney"], "").contains("nobody was removed"));
    assert!(failure(&["check", "fred"], "rubble\n").contains("wrong"));
    assert!(server.user(&["check", "fred"], "flintstone\n").unwrap().contains("right"));
    server.user(&["add", "cert", "--no-password"], "").unwrap();
    server.user(&["set", "cert", "--group", "staff", "--group", "a"], "").unwrap();
    let listed = server.user(&["list"], "").unwrap();
    assert!(listed.contains("a,staff") && listed.contains("none here"), "{listed}");
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&server.user(&["list", "--json"], "").unwrap()).unwrap();
    assert_eq!(
        (rows.len(), rows[0]["name"].as_str(), rows[2]["password"].as_bool()),
        (3, Some("fred"), Some(false))
    );
}

#[test]
fn user_without_any_section_causes_a_warning() {
    let site = Operated::new();
    let added = |name: &str| {
        let output = site.run_with(&["user", "add", name], b"flintstone\n");
        assert!(output.status.success(), "{}", complaints(&output));
        complaints(&output)
    };
    assert!(added("barney").contains("barney gains nothing by logging in: no [[access]] section"));
    site.edit(|text| text + "\n[[peer]]\nname = \"p\"\naddresses = [\"192.0.2.1\"]\nuser = \"feeder\"\n");
    assert_eq!(added("feeder"), "");
    site.edit(|text| text + "\n[[access]]\nfrom = \"all\"\nusers = \"fred\"\nread = \"*\"\n");
    assert_eq!(added("fred"), "");
    assert!(added("wilma").contains("wilma gains nothing"));
}
