//! leafnode's fetchnews fills its own spool from our server, and leafnode serves it to a cache of ours.
//! fetchnews has no TLS, so a tunnel is used.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::site::{PASSWORD, Site, USER};
use super::tunnel::Tunnel;
use super::{fed, installed, skipped};
use crate::client::Client;
use crate::leafnode_home::Home;
use crate::operated::Operated;

/// Creates leafnode's directories; `port` is that of the server it fetches from.
fn home(dir: &Path, port: &str, group: &str) -> Home {
    let config = format!(
        "server = 127.0.0.1\nport = {port}\nusername = {USER}\npassword = {PASSWORD}\nexpire = 20000\nmaxage = 20000\n\
         hostname = news.leafsite.net\n"
    );
    Home::make(dir, &config, &[group.to_owned()]).unwrap()
}

/// Returns whether fetchnews can be run here; prints a message if not.
pub(crate) fn runs() -> bool {
    installed(&[("fetchnews", "leafnode"), ("unshare", "util-linux"), ("mount", "mount")])
        && (rustix::process::geteuid().is_root() || skipped("(fetchnews is tried as root only)", false))
}

/// Serves the fetched articles, with a leafnode process for each connection.
fn serve(dir: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let home = Home::of(dir);
    std::thread::spawn(move || {
        let end = |stream: TcpStream| Stdio::from(OwnedFd::from(stream));
        for stream in listener.incoming().flatten() {
            let mut leafnode = home.command("exec leafnode");
            leafnode.stdin(end(stream.try_clone().unwrap())).stdout(end(stream)).stderr(Stdio::null());
            let mut child = leafnode.spawn().unwrap();
            // Closes this process's end of the connection.
            drop(leafnode);
            std::thread::spawn(move || child.wait());
        }
    });
    address
}

/// Fetches a group of the site through this port; returns fetchnews's output and its spool.
pub(super) fn fetch(site: &Site, port: &str, group: &str) -> (String, PathBuf) {
    let home = home(site.dir(), port, group);
    let output = home.fetch("fetchnews").output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    (said, home.spool)
}

#[test]
fn fetchnews_fills_its_spool() {
    if !runs() {
        return;
    }
    let (site, articles) = fed::small_secured_site();
    let tunnel = Tunnel::to(&site);
    let (said, spool) = fetch(&site, &tunnel.port(), "misc.test");
    assert!(said.contains("misc.test: 7 articles fetched, 0 killed"), "{said}");
    let group = spool.join("news/misc/test");
    let numbered = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u64>().is_ok();
    let files = fs::read_dir(&group).unwrap().map(Result::unwrap).filter(numbered);
    let fetched: Vec<Vec<u8>> = files.map(|entry| fs::read(entry.path()).unwrap()).collect();
    // fetchnews fetches all, and then drops the one with octets above 127 in its Subject.
    assert_eq!(fetched.len(), 6, "{said}");
    let wanted =
        |a: &&fed::Text| a.groups().contains(&"misc.test".to_owned()) && a.header("Subject").is_ascii();
    for article in fed::read(&articles).iter().filter(wanted) {
        let id = article.message_id();
        let copy =
            fetched.iter().find(|copy| String::from_utf8_lossy(copy).contains(&format!("Message-ID: {id}")));
        let copy = copy.unwrap_or_else(|| panic!("{id}: {said}"));
        assert!(copy.ends_with(article.body()), "{id}: {}", String::from_utf8_lossy(copy));
    }
}

#[test]
fn cache_shows_leafnodes_articles() {
    if !runs() {
        return;
    }
    let (site, _) = fed::small_secured_site();
    fetch(&site, &Tunnel::to(&site).port(), "misc.test");
    let leafnode = serve(site.dir());
    let cache = Operated::new();
    let own = format!("[[upstream]]\nname = \"leafnode\"\nhost = \"{leafnode}\"\n");
    cache.edit(|text| text + &own);
    let serving = cache.serve();
    let shown = |client: &mut Client, command: &str| {
        let status = client.ask(command);
        let is_there = status.starts_with('2');
        assert!(is_there || status.starts_with("423 "), "{command}: {status}");
        is_there.then(|| client.block())
    };
    let (mut direct, mut cached) = (Client::greeted(leafnode), serving.client());
    // leafnode adds words of its own.
    let group = direct.ask("GROUP misc.test");
    assert!(group.starts_with(&cached.ask("GROUP misc.test")), "{group}");
    let numbers = |client: &mut Client| {
        let rows = shown(client, "XOVER 1-").unwrap();
        rows.iter().map(|row| row.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of_rows = numbers(&mut direct);
    assert!(of_rows.len() >= 6, "{of_rows:?}");
    assert_eq!(numbers(&mut cached), of_rows);
    let articles: Vec<_> =
        of_rows.iter().map(|number| shown(&mut direct, &format!("ARTICLE {number}"))).collect();
    let count = articles.iter().flatten().count();
    assert_eq!(count, 6);
    for _ in 0..2 {
        for (number, article) in of_rows.iter().zip(&articles) {
            assert_eq!(shown(&mut cached, &format!("ARTICLE {number}")), *article, "{number}");
        }
    }
    assert!(cached.ask("HEAD <none@leafsite.invalid>").starts_with("430 "));
    // The second time they came from the cache.
    let stats = cache.done(&["cache", "stats"]);
    let words: Vec<_> =
        stats.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = format!("article {} {count} 50 %", 2 * count);
    assert!(words.iter().any(|line| line.starts_with(&expected)), "{stats}");
}
