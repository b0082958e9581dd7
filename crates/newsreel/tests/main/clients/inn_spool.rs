//! Imports of spools written by INN's own storage manager: every article under its number, and none twice.

use super::site::Site;
use super::{skipped, text};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// INN's storage manager, in the Debian package inn2.
const SM: &str = "/usr/lib/news/bin/sm";
/// Path of INN's configuration below the temporary directory.
const CONF: &str = "etc/inn.conf";

/// Returns the Xref of an article: gaps as left by cancels, every third one crossposted.
fn xref(n: u64) -> String {
    let second = if n.is_multiple_of(3) { format!(" inn.b:{}", 900 + n) } else { String::new() };
    format!("inn.a:{}{second}", 100 + 2 * n)
}

fn body(n: u64) -> String {
    format!("line of {n}\r\n..with a dot\r\n{}", "filling\r\n".repeat(n as usize * 5))
}

fn wire(n: u64) -> String {
    format!(
        "Path: site.example!other!not-for-mail\r\nFrom: a@b.example\r\nNewsgroups: inn.a\r\nSubject: s {n}\r\n\
         Message-ID: <{n}@inn.example>\r\nDate: 21 Nov 2026 05:00:00 GMT\r\nXref: site.example {}\r\n\r\n{}.\r\n",
        xref(n),
        body(n)
    )
}

/// Creates an INN site below `dir` whose articles are stored by `method`.
fn inn(dir: &Path, method: &str, articles: u64) -> PathBuf {
    let inn = dir.join(format!("inn-{method}"));
    for part in ["etc", "db", "run", "tmp", "log", "cnfs", "spool/articles"] {
        fs::create_dir_all(inn.join(part)).unwrap();
    }
    let d = text(&inn);
    let conf = format!(
        "mta: \"/bin/true %s\"\ndomain: example.invalid\npathhost: site.example\nwireformat: {}\npathnews: {d}\n\
         pathdb: {d}/db\npathetc: {d}/etc\npathrun: {d}/run\npathtmp: {d}/tmp\npathlog: {d}/log\npathspool: {d}/spool\n\
         patharticles: {d}/spool/articles\novmethod: tradindexed\nhismethod: hisv6\nenableoverview: true\n",
        method != "tradspool"
    );
    fs::write(inn.join(CONF), conf).unwrap();
    let options = if method == "cnfs" { " options: BIG\n" } else { "" };
    let storage = format!("method {method} {{\n newsgroups: *\n class: 0\n{options}}}\n");
    fs::write(inn.join("etc/storage.conf"), storage).unwrap();
    let buffers =
        format!("cycbuff:B1:{d}/cnfs/b1:256\ncycbuff:B2:{d}/cnfs/b2:256\nmetacycbuff:BIG:B1,B2:INTERLEAVE\n");
    fs::write(inn.join("etc/cycbuff.conf"), buffers).unwrap();
    for buffer in ["cnfs/b1", "cnfs/b2"] {
        fs::write(inn.join(buffer), vec![0; 256 << 10]).unwrap();
    }
    fs::write(inn.join("db/active"), "inn.a 0000000500 0000000001 y\ninn.b 0000000950 0000000001 m\n")
        .unwrap();
    fs::write(inn.join("db/newsgroups"), "inn.a\tAbout a\n").unwrap();
    fs::write(inn.join("db/active.times"), "inn.a 1000000000 root@inn.example\n").unwrap();
    let mut sm = Command::new(SM);
    sm.args(["-R", "-s"]).env("INNCONF", inn.join(CONF)).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut sm = sm.spawn().unwrap();
    let all: String = (1..=articles).map(wire).collect();
    sm.stdin.take().unwrap().write_all(all.as_bytes()).unwrap();
    assert!(sm.wait().unwrap().success());
    inn
}

/// Imports, and returns these counts of the summary.
fn import(site: &Site, from: &Path, names: [&str; 4]) -> [u64; 4] {
    let output = site.run(&["import", "inn", "--json", text(from)]);
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    let counts = names.map(|name| {
        let line = told.lines().find_map(|line| line.trim().strip_prefix(&format!("\"{name}\": ")));
        line.unwrap().trim_end_matches(',').parse().unwrap()
    });
    // Damaged articles were not imported.
    let lacks_some = names.iter().zip(counts).any(|(name, count)| *name == "damaged" && count > 0);
    assert_eq!(output.status.code(), Some(i32::from(lacks_some)), "{output:?}");
    counts
}

const COUNTS: [&str; 4] = ["imported", "duplicates", "damaged", "groups_kept"];

#[test]
fn articles_of_inn_keep_their_numbers() {
    if !Path::new(SM).exists() {
        skipped("(install inn2)", true);
        return;
    }
    for method in ["cnfs", "tradspool", "timehash", "timecaf"] {
        let site = Site::start("local.test\n");
        let inn = inn(site.dir(), method, 30);
        assert_eq!(import(&site, &inn, COUNTS), [30, 0, 0, 2], "{method}");
        let mut client = site.client();
        assert_eq!(client.ask("GROUP inn.a"), "211 30 102 500 inn.a", "{method}");
        for n in 1..=30 {
            assert!(client.ask(&format!("ARTICLE {}", 100 + 2 * n)).starts_with("220 "), "{method} {n}");
            let article = client.block().join("\r\n") + "\r\n";
            let (head, got) = article.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(&format!("Xref: site.example {}\r\nPath: site.example!other!", xref(n))),
                "{head}"
            );
            assert_eq!(got, body(n), "{method}");
        }
        assert_eq!(client.ask("GROUP inn.b"), "211 10 903 950 inn.b");
        assert!(client.ask("LIST ACTIVE inn.b").starts_with("215 "));
        assert_eq!(client.block(), ["inn.b 950 903 m"].map(str::to_owned));
        assert!(client.ask("LIST ACTIVE.TIMES inn.a").starts_with("215 "));
        assert_eq!(client.block(), ["inn.a 1000000000 root@inn.example"].map(str::to_owned));
        assert_eq!(import(&site, &inn, COUNTS), [0, 30, 0, 2], "{method}");
    }
}

#[test]
fn undamaged_articles_of_wrapped_damaged_buffers_are_imported() {
    if !Path::new(SM).exists() {
        skipped("(install inn2)", true);
        return;
    }
    let site = Site::start("local.test\n");
    let inn = inn(site.dir(), "cnfs", 160);
    let buffer = inn.join("cnfs/b1");
    let mut bytes = fs::read(&buffer).unwrap();
    // The size of the first article after the header, and the end of another.
    bytes[0x4000..0x4004].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    fs::write(&buffer, &bytes).unwrap();
    let [imported, _, damaged, kept] = import(&site, &inn, COUNTS);
    // An article of 8 KB leaves room for 15 articles of up to 4 blocks at most in 256 KB, twice.
    assert!((20..120).contains(&imported) && damaged == 1 && kept == 2, "{imported} {damaged} {kept}");
    let mut client = site.client();
    assert!(client.ask("STAT <160@inn.example>").starts_with("223 "));
    assert!(client.ask("STAT <1@inn.example>").starts_with("430 "));
    // A lost header costs the whole buffer, and is reported.
    bytes[..8].fill(0);
    fs::write(&buffer, &bytes).unwrap();
    let output = site.run(&["import", "inn", "--dry-run", text(&inn)]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1)
            && told.contains("b1 was passed over: it does not begin with CBuf3 or CBuf4"),
        "{told}"
    );
}

#[test]
fn name_map_is_written_and_explained() {
    let site = Site::start("local.test\n");
    let mut client = site.client();
    for id in ["<1@map>", "<2@map>"] {
        assert!(client.ask(&format!("IHAVE {id}")).starts_with("335 "));
        client.send(crate::client::article(id, "local.test", "body"));
        assert!(client.line().starts_with("235 "));
    }
    let file = site.dir().join("name.map");
    assert!(site.run(&["export", "name-map", "local.test", "--out", text(&file)]).status.success());
    let map = fs::read_to_string(&file).unwrap();
    assert_eq!(map.len(), 5 * 34);
    assert!(map.lines().all(|line| line.len() == 33), "{map}");
    assert!(map.starts_with("BodyStart 102 ") && map[34..].starts_with("LowArt 1 "), "{map}");
    let token = map[102 + 34..].trim();
    let told = String::from_utf8(site.run(&["explain", text(&file)]).stdout).unwrap();
    assert!(told.contains("2 article numbers from 1 on; 2 have a token") && told.contains(token), "{told}");
    let told = String::from_utf8(site.run(&["explain", token]).stdout).unwrap();
    assert!(told.contains("<2@map>"), "{told}");
    let output = site.run(&["export", "name-map", "no.such"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
}
