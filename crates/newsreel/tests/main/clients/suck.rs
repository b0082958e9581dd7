//! suck pulls a small feed over TLS, with a password, into a batch of rnews.

use std::fs;
use std::process::Command;

use super::site::{PASSWORD, Site, USER};
use super::{fed, installed, text};

/// Returns the articles of the group in the batch that suck makes, from `host` with these options.
pub(super) fn sucked(site: &Site, host: &str, options: &[&str], group: &str) -> Vec<Vec<u8>> {
    let dir = site.dir().join("suck");
    let articles = dir.join("articles");
    fs::create_dir_all(&articles).unwrap();
    fs::write(dir.join("sucknewsrc"), format!("{group} 0\n")).unwrap();
    let batch = dir.join("batch");
    let output = Command::new("suck")
        .arg(host)
        .args(options)
        .args(["-c", "-n", "-m"])
        .args(["-dt", text(&dir), "-dd", text(&dir), "-dm", text(&articles), "-br", text(&batch)])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let batch = fs::read(&batch).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    netnews::batch::rnews(&batch).map(|article| article.unwrap().to_vec()).collect()
}

#[test]
fn suck_brings_a_group_over_tls() {
    if !installed(&[("suck", "suck")]) {
        return;
    }
    let (site, articles) = fed::small_secured_site();
    let articles = fed::read(&articles);
    let host = format!("127.0.0.1:{}", site.tls_port());
    let sucked = sucked(&site, &host, &["-ssl", "-U", USER, "-P", PASSWORD], "misc.test");
    assert_eq!(sucked.len(), 7);
    for article in articles.iter().filter(|article| article.groups().contains(&"misc.test".to_owned())) {
        let id = article.message_id();
        let copy = sucked
            .iter()
            .find(|copy| String::from_utf8_lossy(copy).contains(&format!("\nMessage-ID: {id}\n")));
        assert!(copy.unwrap_or_else(|| panic!("{id}")).ends_with(article.body()), "{id}");
    }
}
