//! Python's nntplib and Perl's Net::NNTP, the clients that most scripts use.
//!
//! nntplib is in Python up to 3.12.

use std::path::Path;
use std::process::Command;

use super::site::{PASSWORD, Site, USER};
use super::{fed, installed, skipped, text};

/// Pythons to try.
const PYTHONS: [&str; 3] = ["/usr/bin/python3", "python3", "python3.11"];

/// Returns a Python that has nntplib; returns `None` and prints a message if there is none.
pub fn python() -> Option<&'static str> {
    let has = |python: &&str| {
        let tried = Command::new(python).args(["-W", "ignore", "-c", "import nntplib"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let found = PYTHONS.into_iter().find(has);
    if found.is_none() {
        skipped("(install python3 of a version below 3.13, which has nntplib)", true);
    }
    found
}

/// Runs a script of this folder; returns its output.
pub fn run(command: &[&str], script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/clients").join(script);
    let (program, options) = command.split_first().unwrap();
    let output = Command::new(program).args(options).arg(&script).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", script.display());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nntplib_reads_the_articles_fed() {
    let Some(python) = python() else { return };
    let (site, articles) = fed::small_site();
    let said = run(&[python, "-W", "ignore"], "reading.py", &[&site.port(), text(&articles)]);
    assert_eq!(said, "8 articles in 3 groups read\n");
}

#[test]
fn nntplib_reads_over_tls_with_a_password() {
    let Some(python) = python() else { return };
    let (site, articles) = fed::small_secured_site();
    for (how, port) in [("tls", site.tls_port()), ("starttls", site.port())] {
        let authority = site.authority();
        let arguments = [&port, text(&articles), how, USER, PASSWORD, text(&authority)];
        let said = run(&[python, "-W", "ignore"], "reading.py", &arguments);
        assert_eq!(said, "8 articles in 3 groups read\n");
    }
}

#[test]
fn post_by_nntplib_is_visible_at_once_and_after_a_kill() {
    let Some(python) = python() else { return };
    let mut site = Site::start(fed::GROUPS);
    let python = [python, "-W", "ignore"];
    let said = run(&python, "posting.py", &[&site.port(), "post", "misc.test"]);
    let ids: Vec<_> = said.split_whitespace().collect();
    assert_eq!(ids.len(), 2, "{said}");
    site.kill_and_restart();
    let port = site.port();
    run(&python, "posting.py", &[&[port.as_str(), "read"], ids.as_slice()].concat());
    let mut client = site.client();
    assert_eq!(client.ask("GROUP misc.test"), "211 2 1 2 misc.test");
    for (number, id) in (1..).zip(&ids) {
        assert_eq!(client.ask(&format!("STAT {number}")), format!("223 {number} {id}"));
    }
}

#[test]
fn net_nntp_reads_the_articles_fed_and_posts() {
    if !installed(&[("perl", "perl")]) {
        return;
    }
    let (site, articles) = fed::small_site();
    let said = run(&["perl"], "reading.pl", &[&site.port(), text(&articles), "misc.test"]);
    assert_eq!(said, "8 articles read\n");
}
