//! INN's tools: innxmit sends to us, pullnews pulls from us, actsync compares groups with ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::site::{PASSWORD, USER};
use super::tunnel::Tunnel;
use super::{fed, skipped, text};

/// Directory of the tools in Debian.
const BIN: &str = "/usr/lib/news/bin";

fn has_inn() -> bool {
    Path::new(BIN).join("innxmit").is_file() || skipped("(install inn2)", true)
}

/// Creates a directory that INN's tools accept as their installation; returns its configuration file.
fn installation(dir: &Path) -> PathBuf {
    let dir = dir.join("inn");
    fs::create_dir_all(dir.join("articles")).unwrap();
    ["history", "storage.conf"].iter().for_each(|name| fs::write(dir.join(name), "").unwrap());
    // Login for INN's tools.
    fs::write(dir.join("passwd.nntp"), format!("127.0.0.1:{USER}:{PASSWORD}\n")).unwrap();
    let places = ["db", "etc", "log", "run", "tmp", "spool"];
    let places: String = places.iter().map(|name| format!("path{name}: {}\n", text(&dir))).collect();
    let config = format!(
        "mta: \"/bin/true %s\"\nmailcmd: /bin/true\ndomain: inn.example\nfromhost: inn.example\npathhost: inn.example\n\
         ovmethod: tradindexed\nhismethod: hisv6\nenableoverview: true\nserver: 127.0.0.1\npathnews: /usr/lib/news\n\
         pathbin: {BIN}\n{places}"
    );
    let file = dir.join("inn.conf");
    fs::write(&file, config).unwrap();
    file
}

fn inn(site_dir: &Path, program: &str, arguments: &[&str]) -> Output {
    let config = installation(site_dir);
    let output = Command::new(Path::new(BIN).join(program))
        .args(arguments)
        .env("INNCONF", &config)
        .env("SSL_CERT_FILE", site_dir.join("ca.crt"))
        .current_dir(site_dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn innxmit_sends_a_batch_over_tls() {
    if !has_inn() {
        return;
    }
    let site = super::site::Site::start_secured(fed::GROUPS);
    let articles = site.dir().join("batch.d");
    fs::create_dir(&articles).unwrap();
    let mut batch = String::new();
    for n in 0..30 {
        let file = articles.join(n.to_string());
        let groups = if n % 2 == 0 { "misc.test" } else { "misc.test,local.general" };
        let article = format!(
            "Path: inn.example!not-for-mail\nFrom: writer@x.example\nNewsgroups: {groups}\nSubject: number {n}\n\
             Date: Fri, 16 Apr 1993 14:05:{n:02} +0000\nMessage-ID: <sent.{n}@x.example>\n\nbody {n}\n.dot\n..two\n"
        );
        fs::write(&file, article).unwrap();
        // Some lines have a Message-ID, some do not.
        let id = if n < 20 { format!(" <sent.{n}@x.example>") } else { String::new() };
        batch += &format!("{}{id}\n", text(&file));
    }
    let file = site.dir().join("batch");
    let tunnel = Tunnel::to(&site);
    let port = tunnel.port();
    for expected in ["accepted 30 refused 0 rejected 0", "accepted 0 refused 30 rejected 0"] {
        fs::write(&file, &batch).unwrap();
        let output = inn(site.dir(), "innxmit", &["-v", "-P", &port, "127.0.0.1", text(&file)]);
        assert!(said(&output).contains(expected), "{output:?}");
        assert!(!file.exists(), "innxmit keeps what it could not send");
    }
    let mut client = tunnel.client();
    assert_eq!(client.ask("GROUP local.general"), "211 15 1 15 local.general");
    assert_eq!(client.ask("GROUP misc.test"), "211 30 1 30 misc.test");
    assert!(client.ask("BODY <sent.7@x.example>").starts_with("222 "));
    assert_eq!(client.block(), ["body 7", "..dot", "...two"]);
}

#[test]
fn pullnews_pulls_a_group_over_tls() {
    if !has_inn() {
        return;
    }
    let (site, articles) = fed::small_secured_site();
    let (marks, batch) = (site.dir().join("marks"), site.dir().join("pulled"));
    fs::write(&marks, format!("localhost:{}_TLS {USER} {}\n\tmisc.test\n", site.tls_port(), PASSWORD))
        .unwrap();
    let output = inn(site.dir(), "pullnews", &["-c", text(&marks), "-r", text(&batch)]);
    let batch = fs::read(&batch).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let pulled: Vec<&[u8]> = netnews::batch::rnews(&batch).map(Result::unwrap).collect();
    assert_eq!(pulled.len(), 7, "{output:?}");
    for article in fed::read(&articles).iter().filter(|a| a.groups().contains(&"misc.test".to_owned())) {
        let id = article.message_id();
        let copy =
            pulled.iter().find(|copy| String::from_utf8_lossy(copy).contains(&format!("Message-ID: {id}")));
        let copy: Vec<u8> =
            copy.unwrap_or_else(|| panic!("{id}")).iter().copied().filter(|b| *b != b'\r').collect();
        assert!(copy.ends_with(article.body()), "{id}");
    }
    // The marks are now after the articles pulled, so nothing is left.
    assert!(fs::read_to_string(&marks).unwrap().contains(" 7"), "{:?}", fs::read_to_string(&marks));
}

#[test]
fn actsync_reports_differences_from_our_groups() {
    if !has_inn() {
        return;
    }
    // actsync does not log in.
    let (site, _) = fed::small_site();
    let active = site.dir().join("active");
    fs::write(&active, "local.general 0 1 y\nlocal.closed 0 1 y\nother.group 0 1 y\n").unwrap();
    let ours = format!("127.0.0.1:{}", site.port());
    let output = inn(site.dir(), "actsync", &["-p", "0", "-v", "1", "-o", "c", text(&active), &ours]);
    let said = said(&output);
    for expected in
        ["ctlinnd rmgroup other.group", "ctlinnd newgroup misc.test y", "ctlinnd changegroup local.closed n"]
    {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!said.contains("local.general"), "{said}");
}
