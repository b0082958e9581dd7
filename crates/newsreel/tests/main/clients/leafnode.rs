//! leafnode's fetchnews fills its own spool from ours.
//!
//! fetchnews has its places built in (`/etc/news/leafnode`, `/var/spool/news`): it runs in a mount namespace
//! of its own, which needs root, with directories of the test mounted over `/etc` and `/var/spool`. It speaks
//! no TLS: a tunnel does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::site::{PASSWORD, Site, USER};
use super::tunnel::Tunnel;
use super::{fed, installed, skipped, text};

/// What of `/etc` programs need.
const ETC: [&str; 7] = ["passwd", "group", "hosts", "nsswitch.conf", "services", "protocols", "ld.so.cache"];
/// Directories that fetchnews finds in its spool.
const SPOOL: [&str; 6] =
    ["interesting.groups", "leaf.node", "message.id", "out.going", "failed.postings", "temp.files"];

/// Makes the two directories; those to be mounted.
fn places(dir: &Path, port: &str, group: &str) -> (PathBuf, PathBuf) {
    let (etc, spool) = (dir.join("etc"), dir.join("spool"));
    let news = spool.join("news");
    fs::create_dir_all(etc.join("news/leafnode")).unwrap();
    for name in ETC {
        // Not every system has all of them.
        let _absent = fs::copy(Path::new("/etc").join(name), etc.join(name));
    }
    let config = format!(
        "server = 127.0.0.1\nport = {port}\nusername = {USER}\npassword = {PASSWORD}\nexpire = 20000\nmaxage = 20000\n\
         hostname = news.leafsite.net\n"
    );
    fs::write(etc.join("news/leafnode/config"), config).unwrap();
    SPOOL.iter().for_each(|name| fs::create_dir_all(news.join(name)).unwrap());
    (0..1000).for_each(|n| fs::create_dir(news.join(format!("message.id/{n:03}"))).unwrap());
    fs::write(news.join("interesting.groups").join(group), "").unwrap();
    (etc, spool)
}

/// Whether fetchnews can be run here; says so aloud if not.
pub(super) fn runs() -> bool {
    installed(&[("fetchnews", "leafnode"), ("unshare", "util-linux"), ("mount", "mount")])
        && (rustix::process::geteuid().is_root() || skipped("(fetchnews is tried as root only)", false))
}

/// Fetches a group of the site by way of this port: what fetchnews said, and its spool.
pub(super) fn fetch(site: &Site, port: &str, group: &str) -> (String, PathBuf) {
    let (etc, spool) = places(site.dir(), port, group);
    let script = "mount --bind \"$1\" /etc && mount --bind \"$2\" /var/spool && chown -R news:news /var/spool/news \
                  && chmod 2775 /var/spool/news && chmod 711 \"$3\" && exec fetchnews -vvv -w";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", text(&etc), text(&spool), text(site.dir())])
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    (said, spool)
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
    // It fetches all, and then drops the one with octets above 127 in its Subject.
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
