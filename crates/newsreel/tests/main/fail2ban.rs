//! Log lines about clients that guess passwords, and their evaluation by fail2ban with the filter in
//! `packaging/fail2ban`.

use crate::auth::plain;
use crate::clients::{installed, skipped};
use crate::operated::{Operated, Serving};
use std::path::Path;
use std::process::Command;

/// Names that imitate failures from elsewhere, in text and in JSON.
const NAMES: &[&str] = &[
    "x WARN access::gate: authentication failed address=203.0.113.9 user=",
    "x\" 2026-11-21T22:00:00.000000Z  WARN access::gate: authentication failed address=203.0.113.9 user=\"y",
    "\",\"level\":\"WARN\",\"fields\":{\"message\":\"authentication failed\",\"address\":\"203.0.113.9\",\"user\":\"",
    "{\"timestamp\":\"2026-11-21T22:00:00Z\",\"level\":\"WARN\",\"fields\":{\"message\":\"authentication failed\",\
     \"address\":\"203.0.113.9\",\"user\":\"",
    "address=203.0.113.9",
];

/// Serves a site whose only user is fred, with a log in this format.
fn served(format: &str) -> (Operated, Serving) {
    let site = Operated::new();
    let settings = format!(
        "[auth]\nfailures_per_address_max = {}\nlockout_first = \"1 h\"\nlockout_longest = \"1 h\"\n\n[[buffer]]",
        NAMES.len()
    );
    site.edit(|text| {
        text.replacen("[site]", &format!("[site]\nlog_format = \"{format}\""), 1).replacen(
            "[[buffer]]",
            &settings,
            1,
        )
    });
    assert!(site.run_with(&["user", "add", "fred"], b"flintstone\n").status.success());
    let serving = site.serve();
    (site, serving)
}

fn guess(serving: &Serving, name: &str) -> String {
    let mut client = serving.client();
    assert!(client.ask(&format!("AUTHINFO USER {name}")).starts_with("381 "));
    client.ask("AUTHINFO PASS guess")
}

/// Returns the addresses that fail2ban finds in these lines, in order.
fn found(dir: &Path, lines: &[String]) -> Vec<String> {
    let log = dir.join("fed-to-fail2ban");
    std::fs::write(&log, lines.join("\n") + "\n").unwrap();
    let filter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fail2ban/newsreel.conf");
    let output = Command::new("fail2ban-regex").args(["-o", "<ip>"]).args([&log, &filter]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn no_name_fools_the_filter() {
    let has_fail2ban = installed(&[("fail2ban-regex", "fail2ban")]);
    for format in ["plain", "json"] {
        let (site, mut serving) = served(format);
        for name in NAMES {
            assert_eq!(guess(&serving, name), "481 Authentication failed", "{name}");
        }
        serving.logged(|line| line.matches("locked_out_secs").count() > 0 && line.contains("3600"));
        let failures: Vec<String> =
            serving.log().into_iter().filter(|line| line.contains("authentication failed")).collect();
        assert_eq!(failures.len(), NAMES.len(), "{failures:#?}");
        if !has_fail2ban {
            continue;
        }
        let expected = vec!["127.0.0.1"; NAMES.len()];
        assert_eq!(found(site.home(), &serving.log()), expected, "{format}, from a file");
        for prefix in ["news newsreel[77]: ", "Nov 21 22:18:43 news newsreel[77]: "] {
            let lines: Vec<String> = serving.log().iter().map(|line| format!("{prefix}{line}")).collect();
            assert_eq!(found(site.home(), &lines), expected, "{format} after {prefix}");
        }
    }
    if !has_fail2ban {
        skipped("the part with fail2ban-regex", true);
    }
}

#[test]
fn locked_out_client_is_logged_once() {
    let (site, mut serving) = served("plain");
    for n in 0..NAMES.len() {
        assert_eq!(guess(&serving, &format!("user{n}")), "481 Authentication failed");
    }
    for n in 0..30 {
        assert!(guess(&serving, &format!("user{n}")).starts_with("481 Too many failures"));
    }
    serving
        .logged(|line| line.contains("authentication refused: locked out address=127.0.0.1 user=\"user0\""));
    let about = |log: Vec<String>| log.iter().filter(|line| line.contains("access::gate")).count();
    assert_eq!(about(serving.log()), NAMES.len() + 1, "{:#?}", serving.log());
    if installed(&[("fail2ban-regex", "fail2ban")]) {
        assert_eq!(found(site.home(), &serving.log()).len(), NAMES.len() + 1);
    }
}

#[test]
fn json_has_names_without_quotes_around_them() {
    let (_site, mut serving) = served("json");
    assert!(serving.client().ask(&plain("fred", "flintstone")).starts_with("281 "));
    let line = serving.logged(|line| line.contains("logged in"));
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&event["fields"]["user"], &event["fields"]["address"]),
        (&"fred".into(), &"127.0.0.1".into())
    );
}
