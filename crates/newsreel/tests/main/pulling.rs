//! Articles fetched from other servers: by `newsreel pull` and by `[[pull]]` sections, over slow links, TLS
//! and connections that break, killed and resumed.

use crate::client::article;
use crate::layers::Authority;
use crate::link::Link;
use crate::operated::{Operated, Serving, complaints, with_tight_class};
use crate::running::Server;
use crate::waiting::{wait_for, wait_for_exit, wait_until};
use disk::SimDisk;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Puts articles into a group of the upstream.
fn fill(upstream: &Server, name: &str, groups: &str, articles: usize) {
    fill_on(upstream, name, groups, 0..articles);
}

fn fill_on(upstream: &Server, name: &str, groups: &str, articles: Range<usize>) {
    let mut feed = upstream.client();
    for start in articles.clone().step_by(500) {
        let numbers = start..(start + 500).min(articles.end);
        let id = |n: usize| format!("<{name}.{n}@x.example>");
        let takethis =
            |n: usize| format!("TAKETHIS {}\r\n{}", id(n), article(&id(n), groups, &format!("body {n}")));
        feed.send(numbers.clone().map(takethis).collect::<String>());
        for n in numbers {
            assert_eq!(feed.line(), format!("239 {}", id(n)));
        }
    }
}

/// Returns a section that pulls from this address.
fn section(from: SocketAddr, keys: &str) -> String {
    format!("\n[[pull]]\nname = \"far\"\nfrom = \"{from}\"\ninterval = \"100 ms\"\n{keys}")
}

/// Returns the number of articles and the high mark of a group; `None` if there is no such group.
fn count(serving: &Serving, group: &str) -> Option<(u64, u64)> {
    let line = serving.client().ask(&format!("GROUP {group}"));
    let mut words = line.split(' ').skip(1);
    let number = |word: Option<&str>| word.unwrap().parse().unwrap();
    line.starts_with("211 ").then(|| (number(words.next()), number(words.nth(1))))
}

fn pulls(site: &Operated) -> serde_json::Value {
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    status["server"]["pulls"].clone()
}

/// Waits until `is_so` of the status of the pulls.
fn wait(site: &Operated, is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    wait_for(|| pulls(site), is_so)
}

fn printed(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn repeatedly_killed_pull_over_a_slow_link_is_complete_without_duplicates() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 3_000);
    let link = Link::to(upstream.address, Duration::from_millis(25));
    // About 700 articles per second, so that it is killed during the pull.
    killed_while_pulling(&link, 3_000, 8, "bytes_per_sec_max = \"200 KiB\"\n");
}

#[test]
#[ignore = "soak: 10,000 articles over a slow link, a minute"]
fn ten_thousand_articles_take_less_than_twice_the_time_of_their_link_and_ten_kills_cost_none() {
    const ARTICLES: usize = 10_000;
    const OCTETS_PER_SEC: u32 = 500 << 10;
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", ARTICLES);
    let link = Link::with_rate(upstream.address, Duration::from_millis(25), OCTETS_PER_SEC);
    let site = Operated::with(&[]);
    let begun = Instant::now();
    let from = link.address().to_string();
    let said = site.done(&["pull", &from, "misc.*", "--create-groups"]);
    let (took, octets) = (begun.elapsed().as_secs_f64(), link.passed().octets_down);
    let least = octets as f64 / f64::from(OCTETS_PER_SEC);
    println!("{ARTICLES} articles in {took:.1} s over a link of {least:.1} s: {:.2} x; {said}", took / least);
    assert!(said.starts_with("10000 articles") || said.starts_with("10,000 articles"), "{said}");
    assert!(took < 2.0 * least, "{took} s, {least} s");
    killed_while_pulling(&link, ARTICLES, 10, "");
}

/// Repeatedly kills a server that pulls from `link`.
fn killed_while_pulling(link: &Link, articles: usize, kills: u64, keys: &str) {
    let site = Operated::with(&[]);
    let keys = format!("groups = \"misc.*\"\ncreate_groups = true\nconnections = 3\n{keys}");
    site.edit(|text| text + &section(link.address(), &keys));
    let mut serving = site.serve();
    let mut logged = Vec::new();
    for kill in 1..=kills {
        let due = kill * articles as u64 / (kills + 1);
        wait_for(
            || (count(&serving, "misc.test"), serving.log()),
            |(count, _)| count.is_some_and(|(filed, _)| filed >= due),
        );
        // By SIGKILL.
        drop(serving);
        serving = site.serve();
        logged.extend(serving.log());
    }
    let all = wait(&site, |pulls| pulls[0]["complete"].is_u64());
    assert_eq!(all[0]["last_error"], "", "{all}");
    let (filed, high) = count(&serving, "misc.test").unwrap();
    assert_eq!(filed, articles as u64);
    // The machine may drop its cached state of a directory while no process has it open: then the next start
    // must assume that bytes are lost, and skips numbers.
    let skipped = logged.iter().find(|line| line.contains("the last run was cut off, and "));
    assert!(high == filed || skipped.is_some(), "{high}: {logged:?}");
    let mut client = serving.client();
    assert!(client.ask("GROUP misc.test").starts_with("211 "));
    assert!(client.ask(&format!("XHDR Message-ID 1-{high}")).starts_with("221 "));
    let ids: Vec<String> =
        client.block().iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    // In the order of the upstream.
    assert_eq!(ids, (0..articles).map(|n| format!("<a.{n}@x.example>")).collect::<Vec<_>>());
}

#[test]
fn pull_keeps_to_the_rate_limit() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 1_000);
    let link = Link::to(upstream.address, Duration::ZERO);
    let site = Operated::with(&[]);
    let begun = Instant::now();
    site.done(&["pull", &link.address().to_string(), "misc.*", "--create-groups", "--rate", "64 KiB"]);
    let octets = link.passed().octets_down as f64;
    // The burst is one second's worth; lists and responses do not count.
    let least = 0.8 * octets / 65_536.0 - 1.0;
    assert!(least > 1.0, "{octets}");
    assert!(begun.elapsed().as_secs_f64() > least, "{octets} octets in {:?}", begun.elapsed());
}

#[test]
fn articles_fetched_on_a_full_disk_wait_for_room() {
    const ARTICLES: usize = 400;
    let upstream = Server::start_with(|text| text.replace("\"site.example\"", "\"far.example\""));
    fill(&upstream, "a", "misc.test", 20);
    let disk = SimDisk::new();
    let section = section(upstream.address, "groups = \"misc.*\"\n");
    let server = Server::start_on(Arc::new(disk.clone()), |text| text + &section);
    let filed = || {
        let line = server.client().ask("GROUP misc.test");
        line.split(' ').nth(1).and_then(|count| count.parse::<usize>().ok()).unwrap()
    };
    wait_for(filed, |filed| *filed == 20);
    disk.fail_at(disk.steps(), SimDisk::ENOSPC, true);
    fill_on(&upstream, "a", "misc.test", 20..ARTICLES);
    // New articles cannot be filed.
    wait_for(|| server.client().ask("CHECK <other@x.example>"), |answer| answer.starts_with("431 "));
    assert_eq!(filed(), 20);
    disk.stop_failing();
    wait_for(|| (filed(), server.status()["pulls"].clone()), |(filed, _)| *filed == ARTICLES);
    // Numbers taken by the failed write are not used again.
    let mut client = server.client();
    assert!(client.ask("GROUP misc.test").starts_with(&format!("211 {ARTICLES} 1 ")));
    assert!(client.ask("XHDR Message-ID 1-").starts_with("221 "));
    let ids: Vec<String> =
        client.block().iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(ids, (0..ARTICLES).map(|n| format!("<a.{n}@x.example>")).collect::<Vec<_>>());
}

/// Over a link of 50 ms, a pull waits for about ten responses, not for each of its articles.
#[test]
fn pipelined_pull_needs_few_round_trips() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 2_000);
    let link = Link::to(upstream.address, Duration::from_millis(25));
    let site = Operated::with(&[]);
    let from = link.address().to_string();
    let trips = link.round_trips(|| {
        site.done(&["pull", &from, "misc.*", "--create-groups", "--connections", "1"]);
    });
    assert!(trips < 150, "{trips} round trips for 2,000 articles");
}

#[test]
fn pull_command_fetches_new_articles_and_creates_groups() {
    let upstream = Server::start();
    upstream.operate(&["newgroup", "misc.crossposts", "y"]);
    fill(&upstream, "a", "misc.test", 300);
    fill(&upstream, "b", "misc.test,misc.crossposts", 50);
    fill(&upstream, "c", "local.closed,misc.test", 10);
    let from = upstream.address.to_string();
    let site = Operated::with(&[]);
    let pull = |arguments: &[&str]| {
        let output = site.run(&[&["pull", &from], arguments].concat());
        assert!(output.status.success(), "{}", complaints(&output));
        printed(&output)
    };
    // Nothing that matches is carried here.
    let nothing = pull(&["misc.*"]);
    assert!(nothing.starts_with("0 articles of 0 groups fetched"), "{nothing}");
    assert!(nothing.contains("; 2 matching groups not carried here"), "{nothing}");
    let output = site.run(&["pull", &from, "nosuch.*"]);
    assert!(!output.status.success());
    assert!(complaints(&output).contains("matches nosuch.*"), "{}", complaints(&output));
    let first = pull(&["misc.*,!misc.test", "--create-groups"]);
    assert!(first.starts_with("50 articles of 1 group fetched"), "{first}");
    assert!(first.contains(": 50 accepted, 0 rejected; 1 group made;"), "{first}");
    // Articles here are not fetched again, and then nothing is left to fetch.
    let second = pull(&["misc.*,local.closed", "--create-groups"]);
    assert!(second.starts_with("310 articles of "), "{second}");
    assert!(
        second.contains(": 310 accepted, 0 rejected, ") && second.contains("known and not fetched"),
        "{second}"
    );
    let third = pull(&["misc.*,local.closed", "--by", "number"]);
    assert!(third.starts_with("0 articles of 0 groups fetched"), "{third}");
    let groups = site.done(&["group", "list", "misc.*,local.*"]);
    assert!(
        groups.lines().any(|l| l.starts_with("misc.test ") && l.contains("For trying things out")),
        "{groups}"
    );
    assert!(groups.lines().any(|line| line.starts_with("local.closed ") && line.contains(" n ")), "{groups}");
    // Through a server, whose articles are those of the upstream with our name in Path.
    let serving = site.serve();
    fill(&upstream, "d", "misc.test", 20);
    let fourth = pull(&["misc.test"]);
    assert!(fourth.starts_with("20 articles of 1 group fetched"), "{fourth}");
    let mut client = serving.client();
    assert!(client.ask("ARTICLE <d.7@x.example>").starts_with("220 "));
    let lines = client.block();
    let path = lines.iter().find(|line| line.starts_with("Path: ")).unwrap();
    assert!(path.contains("!.SEEN.127.0.0.1!site.example!!peer.example!not-for-mail"), "{path}");
    assert!(client.ask("GROUP misc.crossposts").starts_with("211 50 "));
}

#[test]
fn pull_by_newnews_and_first_max_of_a_new_group() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 120);
    let from = upstream.address.to_string();
    let site = Operated::with(&[]);
    let newest = site.done(&["pull", &from, "misc.test", "--create-groups", "--first", "20"]);
    assert!(newest.starts_with("20 articles of 1 group fetched"), "{newest}");
    let all = site.done(&["pull", &from, "misc.test", "--by", "newnews"]);
    assert!(all.starts_with("100 articles of ") && all.contains("20 known and not fetched"), "{all}");
    fill(&upstream, "b", "misc.test", 5);
    let new: serde_json::Value =
        serde_json::from_str(&site.done(&["pull", &from, "misc.test", "--by", "newnews", "--json"])).unwrap();
    assert_eq!((&new["counts"]["accepted"], &new["counts"]["known"]), (&5.into(), &120.into()), "{new}");
}

/// The other server has a certificate, and requires a login.
#[test]
fn pull_over_tls_with_login_and_compression() {
    let (dir, authority) = (tempfile::TempDir::new().unwrap(), Authority::new());
    let file = |name: &str| dir.path().join(name);
    authority.write(&file("ca.crt"));
    authority.sign("localhost").write(&file("news.crt"), &file("news.key"));
    let tls =
        format!("\n[tls]\ncertificate = {:?}\nkey = {:?}\n\n[limits]", file("news.crt"), file("news.key"));
    let upstream = Server::start_with(|text| {
        let text =
            text.replace("\n[limits]", &tls).replace("[site]", "[site]\ntls_listen = [\"127.0.0.1:0\"]");
        // The last section is for everyone: readers must log in.
        let at = text.rfind("[[access]]").unwrap();
        text[..at].to_owned() + "[[access]]\nfrom = \"all\"\nusers = \"*\"\nread = \"*\"\n"
    });
    assert!(upstream.operate(&["user", "fred", "secret", "of", "his"]));
    fill(&upstream, "a", "misc.test", 100);
    fs::write(file("password"), "secret of his\n").unwrap();
    let (plain, encrypted) = (upstream.address.port(), upstream.tls_address.unwrap().port());
    let ways = [("starttls", plain, true), ("implicit", encrypted, false)];
    for (tls, port, compress) in ways {
        let site = Operated::with(&[]);
        let keys = format!(
            "groups = \"misc.*\"\ncreate_groups = true\ntls = \"{tls}\"\ntls_ca = {:?}\nuser = \"fred\"\n\
             password_file = {:?}\ncompress = {compress}\n",
            file("ca.crt"),
            file("password")
        );
        let text = section(upstream.address, &keys).replace("127.0.0.1", "localhost");
        site.edit(|old| old + &text.replace(&format!(":{plain}"), &format!(":{port}")));
        let serving = site.serve();
        let pulls = wait(&site, |pulls| pulls[0]["complete"].is_u64());
        assert_eq!(pulls[0]["accepted"], 100, "{tls}: {pulls}");
        drop(serving);
        // Another authority does not verify it, and the command reports that.
        Authority::new().write(&file("other.crt"));
        let (to, other, ca) = (format!("localhost:{port}"), file("other.crt"), file("ca.crt"));
        let arguments = ["pull", &to, "misc.*", "--tls", tls, "--tls-ca"];
        let refused = site.run(&[&arguments[..], &[other.to_str().unwrap()]].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(complaints(&refused).contains("TLS failed"), "{}", complaints(&refused));
        // Without a login nothing can be read.
        let refused = site.run(&[&arguments[..], &[ca.to_str().unwrap()]].concat());
        assert!(complaints(&refused).contains("480"), "{}", complaints(&refused));
        let done = site.run(&[
            "pull",
            &to,
            "misc.*",
            "--tls",
            tls,
            "--no-tls-verify",
            "--user",
            "fred",
            "--password-file",
            file("password").to_str().unwrap(),
        ]);
        assert!(done.status.success(), "{}", complaints(&done));
    }
}

/// Starts an old server that has neither HDR nor XHDR, loses articles, and hangs up in the middle of every
/// fifth connection's responses.
fn old_server(articles: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = counted.fetch_add(1, Ordering::Relaxed);
            let stream = stream.unwrap();
            thread::spawn(move || converse(stream, connection, articles));
        }
    });
    (address, connections)
}

fn converse(stream: TcpStream, connection: usize, articles: usize) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut sent = 0;
    write!(out, "200 old\r\n")?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["MODE", "READER"] => write!(out, "200 old\r\n")?,
            ["LIST", "ACTIVE"] => {
                write!(
                    out,
                    "215 list\r\nold.group {articles} 1 y\r\nold.gone 0 1 y\r\nbad..name 9 1 y\r\n.\r\n"
                )?;
            }
            ["LIST", "NEWSGROUPS"] => write!(out, "215 list\r\nold.group\tOf old\r\n.\r\n")?,
            ["GROUP", "old.group"] => write!(out, "211 {articles} 1 {articles} old.group\r\n")?,
            ["ARTICLE", number] => {
                let number: usize = number.parse().unwrap();
                sent += 1;
                if connection % 5 != 4 && sent == 60 {
                    // In the middle of an article.
                    return write!(out, "220 {number} <o.{number}@x.example> article\r\nPath: x\r\nFrom:");
                }
                if number.is_multiple_of(10) {
                    write!(out, "423 no such article\r\n")?;
                } else {
                    let id = format!("<o.{number}@x.example>");
                    write!(out, "220 {number} {id} article\r\n{}", article(&id, "old.group", "old"))?;
                }
            }
            ["QUIT"] => return write!(out, "205 bye\r\n"),
            _ => write!(out, "500 what?\r\n")?,
        }
    }
    Ok(())
}

#[test]
fn pull_from_a_server_without_hdr_that_hangs_up_is_complete() {
    const ARTICLES: usize = 700;
    let (address, connections) = old_server(ARTICLES);
    let site = Operated::with(&[]);
    let done = site.run(&["pull", &address.to_string(), "old.*", "--create-groups", "--connections", "3"]);
    assert!(done.status.success(), "{}", complaints(&done));
    let said = printed(&done);
    assert!(
        said.contains(": 630 accepted, 0 rejected, ") && said.contains("70 listed and not there"),
        "{said}"
    );
    assert!(connections.load(Ordering::Relaxed) > 3, "no connection broke");
    let serving = site.serve();
    assert_eq!(count(&serving, "old.group"), Some((630, 630)));
    // A server that refuses everything is reported, and so are wrong arguments.
    for (arguments, code, why) in [
        (&["pull", "127.0.0.1:1", "x.*"][..], 1, "cannot connect to 127.0.0.1:1"),
        (&["pull", "127.0.0.1:1"], 2, "name the groups"),
        (&["pull", "127.0.0.1:x", "x.*"], 2, "is not a port"),
        (&["pull", "127.0.0.1:1", "x.[*"], 2, ""),
    ] {
        let output = site.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", complaints(&output));
        assert!(complaints(&output).contains(why), "{}", complaints(&output));
    }
}

#[test]
fn reload_starts_changes_and_ends_standing_pulls() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 30);
    let site = Operated::with(&[]);
    let serving = site.serve();
    let before = fs::read_to_string(site.dir().join("newsreel.toml")).unwrap();
    let wrong = section("127.0.0.1:1".parse().unwrap(), "groups = \"misc.*\"\ncreate_groups = true\n");
    site.edit(|text| text + &wrong);
    site.done(&["ctl", "reload"]);
    let failing = wait(&site, |pulls| pulls[0]["runs"] != 0);
    assert!(failing[0]["last_error"].as_str().unwrap().contains("cannot connect to"), "{failing}");
    assert!(site.done(&["status"]).contains("\n  far: cannot connect to 127.0.0.1:1"));
    site.edit(|text| text.replace("127.0.0.1:1\"", &format!("{}\"", upstream.address)));
    site.done(&["ctl", "reload"]);
    let complete = wait(&site, |pulls| pulls[0]["complete"].is_u64());
    assert_eq!((&complete[0]["accepted"], &complete[0]["last_error"]), (&30.into(), &"".into()));
    // New articles are fetched automatically.
    fill(&upstream, "b", "misc.test", 10);
    wait(&site, |pulls| pulls[0]["accepted"] == 40);
    assert_eq!(count(&serving, "misc.test"), Some((40, 40)));
    fs::write(site.dir().join("newsreel.toml"), before).unwrap();
    site.done(&["ctl", "reload"]);
    assert_eq!(pulls(&site), serde_json::json!([]));
    // The command may now lock the marks, once a run in progress has released them.
    let pull = || site.run(&["pull", &upstream.address.to_string(), "misc.*"]);
    let nothing = wait_for(pull, |output| {
        let has_begun = output.status.success();
        assert!(has_begun || complaints(output).contains("another pull from"), "{}", complaints(output));
        has_begun
    });
    let nothing = printed(&nothing);
    assert!(nothing.starts_with("0 articles of 0 groups fetched"), "{nothing}");
}

/// A pull that would take a minute ends with its command, and with the server.
#[test]
fn long_pull_ends_with_command_and_server_and_releases_its_marks() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 3_000);
    let from = upstream.address.to_string();
    let site = Operated::with(&[]);
    let serving = site.serve();
    let begin = || {
        let before = count(&serving, "misc.test").map_or(0, |(articles, _)| articles);
        let arguments = ["pull", &from, "misc.test", "--create-groups", "--rate", "16 KiB"];
        let pull = site.command(&arguments).spawn().unwrap();
        wait_until("articles are pulled", || {
            count(&serving, "misc.test").is_some_and(|(articles, _)| articles != before)
        });
        pull
    };
    let mut pull = begin();
    pull.kill().unwrap();
    wait_for_exit(&mut pull);
    // The server releases the marks, so another pull can begin.
    let arguments = ["pull", &from, "misc.none", "--create-groups"];
    // The groups there are listed only once the marks are locked.
    wait_for(|| complaints(&site.run(&arguments)), |said| said.contains("no group of "));
    let mut pull = begin();
    let pid = rustix::process::Pid::from_raw(serving.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(serving.end().success());
    assert_eq!(wait_for_exit(&mut pull).code(), Some(1));
}

/// A server with six articles in each of two groups that answers the third article, or the first group, in a
/// special way.
struct Odd {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    /// Response to `ARTICLE <odd.3@x.example>`; "close" ends the connection, "lapsed" is 480 once, "" sends
    /// the article. With "fell" the last article of the group is gone, with "anew" its numbers are those of
    /// others.
    answer: Arc<Mutex<&'static str>>,
    /// Response to `GROUP odd.group`.
    group: &'static str,
    /// Text after the number in the third row of XHDR.
    row: &'static str,
}

impl Odd {
    fn start(answer: &'static str, group: &'static str, row: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, answer) = (Arc::default(), Arc::new(Mutex::new(answer)));
        let odd = Self { address, asked, answer, group, row };
        let (asked, answer) = (odd.asked.clone(), odd.answer.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let odd = Self { address, asked: asked.clone(), answer: answer.clone(), group, row };
                thread::spawn(move || odd.converse(stream.unwrap()));
            }
        });
        odd
    }

    fn converse(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut out = stream.try_clone()?;
        let mut selected = String::new();
        write!(out, "200 odd\r\n")?;
        for line in BufReader::new(stream.try_clone()?).lines() {
            let line = line?;
            self.asked.lock().unwrap().push(line.clone());
            let answer = match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["MODE", "READER"] => "200 odd\r\n".into(),
                ["AUTHINFO", "USER", _] => "381 go on\r\n".into(),
                ["AUTHINFO", "PASS", _] => "281 welcome\r\n".into(),
                ["LIST", "ACTIVE", ..] => {
                    let high = if ["fell", "anew"].contains(&*self.answer.lock().unwrap()) { 5 } else { 6 };
                    format!("215 list\r\nodd.group {high} 1 y\r\nodd line\r\nplain.group 6 1 y\r\n.\r\n")
                }
                ["STAT", number] => {
                    let name = if *self.answer.lock().unwrap() == "anew" { "new" } else { "odd" };
                    format!("223 {number} <{name}.{number}@x.example>\r\n")
                }
                ["LIST", "NEWSGROUPS", ..] => "215 list\r\n.\r\n".into(),
                ["GROUP", name] => {
                    selected = (*name).to_owned();
                    match (*name, self.group) {
                        ("odd.group", refusal) if !refusal.is_empty() => format!("{refusal}\r\n"),
                        _ => format!("211 6 1 6 {name}\r\n"),
                    }
                }
                ["XHDR", _, range] => {
                    let (first, last) = range.split_once('-').unwrap();
                    let [first, last] = [first, last].map(|number| number.parse::<u64>().unwrap());
                    let rows = (first..=last.min(6)).map(|n| match (n, self.row) {
                        (3, row) if selected == "odd.group" && !row.is_empty() => format!("3 {row}\r\n"),
                        _ => format!("{n} <{}.{n}@x.example>\r\n", selected.split_once('.').unwrap().0),
                    });
                    format!("221 rows\r\n{}.\r\n", rows.collect::<String>())
                }
                ["ARTICLE", id] => {
                    let id =
                        if id.starts_with('<') { (*id).to_owned() } else { format!("<odd.{id}@x.example>") };
                    let answer = *self.answer.lock().unwrap();
                    match answer {
                        "lapsed" if id == "<odd.3@x.example>" => {
                            *self.answer.lock().unwrap() = "";
                            "480 log in\r\n".into()
                        }
                        "close" if id == "<odd.3@x.example>" => return Ok(()),
                        "silent" if id == "<odd.3@x.example>" => {
                            // Until the client ends the connection.
                            std::io::copy(&mut &stream, &mut std::io::sink())?;
                            return Ok(());
                        }
                        "malformed" if id == "<odd.3@x.example>" => {
                            format!("220 0 {id} article\r\nno header\r\n.\r\n")
                        }
                        answer if id == "<odd.3@x.example>" && !answer.is_empty() => format!("{answer}\r\n"),
                        _ => {
                            let group = if id.starts_with("<odd") { "odd.group" } else { "plain.group" };
                            format!("220 0 {id} article\r\n{}", article(&id, group, "x"))
                        }
                    }
                }
                ["QUIT"] => return write!(out, "205 bye\r\n"),
                _ => "500 what?\r\n".into(),
            };
            write!(out, "{answer}")?;
        }
        Ok(())
    }

    fn times_asked(&self, what: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|line| *line == what).count()
    }
}

fn pull_from(site: &Operated, odd: &Odd) -> (Option<i32>, String) {
    let done =
        site.run(&["pull", &odd.address.to_string(), "*.group", "--create-groups", "--connections", "1"]);
    (done.status.code(), printed(&done) + &complaints(&done))
}

#[test]
fn pull_sets_aside_a_refused_article_and_fetches_the_others_once() {
    for answer in [
        "451 removed for legal reasons",
        "403 fault",
        "400 not now",
        "500 what?",
        "502 not for you",
        "503 cannot",
        "480 log in",
        "close",
    ] {
        let odd = Odd::start(answer, "", "");
        let site = Operated::with(&[]);
        let (code, said) = pull_from(&site, &odd);
        assert_eq!(code, Some(1), "{answer}: {said}");
        assert!(said.contains(": 11 accepted, 0 rejected, "), "{answer}: {said}");
        let shown = if answer == "close" { "the connection ends there" } else { answer };
        assert!(
            said.contains(&format!("set aside: odd.group 3 <odd.3@x.example>: {shown}"))
                && said.contains("(refused 1 time)"),
            "{answer}: {said}"
        );
        // The article is not due yet, and nothing else is fetched again.
        let (code, said) = pull_from(&site, &odd);
        assert_eq!(code, Some(0), "{answer}: {said}");
        let place = |text: &str| said.find(text).unwrap_or_else(|| panic!("{answer}: {said}"));
        assert!(place("waiting: odd.group 3 ") < place("0 articles of 0 groups fetched"), "{said}");
        assert!(said.contains("waiting: odd.group 3 <odd.3@x.example>: "), "{answer}: {said}");
        // Articles requested after a response that ends the connection are requested again.
        let most = if ["400 not now", "502 not for you", "close"].contains(&answer) { 2 } else { 1 };
        assert!((1..=most).contains(&odd.times_asked("ARTICLE <odd.6@x.example>")), "{answer}");
    }
}

#[test]
fn pull_replaces_a_connection_with_expired_login() {
    for (answer, code) in [("lapsed", Some(0)), ("480 log in", Some(1))] {
        let odd = Odd::start(answer, "", "");
        let site = Operated::with(&[]);
        let password = site.home().join("password");
        fs::write(&password, "secret\n").unwrap();
        let (from, password) = (odd.address.to_string(), password.to_str().unwrap());
        let arguments = ["pull", &from, "*.group", "--create-groups", "--connections", "1"];
        let login = ["--user", "fred", "--password-file", password];
        let done = site.run(&[&arguments[..], &login[..]].concat());
        let said = printed(&done) + &complaints(&done);
        assert_eq!(done.status.code(), code, "{answer}: {said}");
        assert!(!said.contains("set aside"), "{answer}: {said}");
        let is_whole = said.contains(": 12 accepted, 0 rejected");
        let is_told = said.contains("the server no longer honours the login: 480 log in");
        assert_eq!((is_whole, is_told), (answer == "lapsed", answer != "lapsed"), "{answer}: {said}");
        let logins = odd.times_asked("AUTHINFO PASS secret");
        assert!((2..=3).contains(&logins), "{answer}: {logins} logins");
    }
}

#[test]
fn pull_asks_again_on_later_runs_and_gives_up_in_time() {
    let odd = Odd::start("451 removed", "", "");
    let site = Operated::with(&[]);
    let keys = "groups = \"*.group\"\ncreate_groups = true\ngive_up_after = \"60 s\"\n";
    site.edit(|text| text + &section(odd.address, keys));
    let serving = site.serve();
    let waiting = wait(&site, |pulls| pulls[0]["details"]["waiting"] == 1);
    assert_eq!(waiting[0]["accepted"], 11, "{waiting}");
    let status = site.done(&["status"]);
    assert!(status.contains(": odd.group 3 <odd.3@x.example>: 451 removed"), "{status}");
    wait(&site, |_| odd.times_asked("ARTICLE <odd.3@x.example>") >= 2);
    *odd.answer.lock().unwrap() = "";
    let came = wait(&site, |pulls| pulls[0]["accepted"] == 12);
    assert_eq!(count(&serving, "odd.group").map(|(articles, _)| articles), Some(6), "{came}");
    wait(&site, |pulls| pulls[0]["details"]["waiting"] == 0);
    drop(serving);
    // With a minimal time limit it is given up at once.
    let odd = Odd::start("451 removed", "", "");
    let site = Operated::with(&[]);
    site.edit(|text| text + &section(odd.address, &keys.replace("60 s", "10ms")));
    let mut serving = site.serve();
    serving.logged(|line| line.contains("article given up"));
    wait(&site, |pulls| pulls[0]["details"]["waiting"] == 0);
}

/// Where the last article is removed, the high mark may fall (RFC 3977 6.1.1.2).
#[test]
fn pull_looks_at_all_articles_again_only_if_numbers_are_those_of_others() {
    let odd = Odd::start("", "", "");
    let site = Operated::with(&[]);
    let (_, said) = pull_from(&site, &odd);
    assert!(said.contains(": 12 accepted, 0 rejected"), "{said}");
    for (answer, looks_again) in [("fell", false), ("anew", true)] {
        *odd.answer.lock().unwrap() = answer;
        odd.asked.lock().unwrap().clear();
        // The mark is that of the last pull.
        let (code, said) = pull_from(&site, &odd);
        assert_eq!(code, Some(0), "{answer}: {said}");
        let asked = |begin: &str| odd.asked.lock().unwrap().iter().any(|line| line.starts_with(begin));
        assert_eq!((asked("STAT 5"), asked("XHDR")), (true, looks_again), "{answer}: {said}");
        *odd.answer.lock().unwrap() = "";
        let (_, said) = pull_from(&site, &odd);
        assert!(said.contains(": 0 accepted, 0 rejected"), "{said}");
    }
}

#[test]
fn pull_leaves_out_a_refused_group_and_fetches_the_others() {
    for refusal in ["411 no such group", "403 fault", "480 log in", "502 not for you"] {
        let odd = Odd::start("", refusal, "");
        let (code, said) = pull_from(&Operated::with(&[]), &odd);
        assert_eq!(code, Some(1), "{refusal}: {said}");
        assert!(said.contains(": 6 accepted, 0 rejected"), "{refusal}: {said}");
        assert!(said.contains(&format!("group left out: odd.group: {refusal}")), "{refusal}: {said}");
        assert!(said.contains("LIST ACTIVE: 1 odd lines, such as: odd line"), "{said}");
    }
}

#[test]
fn pull_asks_by_number_for_articles_whose_row_is_odd() {
    for row in ["(none)", "", "<two words@x.example>", "<odd.3@x.example> and more"] {
        let odd = Odd::start("", "", row);
        let (code, said) = pull_from(&Operated::with(&[]), &odd);
        assert_eq!(code, Some(0), "{row}: {said}");
        assert!(said.contains(": 12 accepted, 0 rejected"), "{row}: {said}");
    }
}

#[test]
fn pull_says_why_articles_are_rejected() {
    let upstream = Server::start();
    fill(&upstream, "a", "misc.test", 5);
    let site = Operated::with(&[]);
    // All of them are older.
    site.edit(|text| text.replace("max_age_days = \"none\"", "max_age_days = 1"));
    let done = site.run(&["pull", &upstream.address.to_string(), "misc.test", "--create-groups"]);
    let said = printed(&done);
    assert!(said.contains(": 0 accepted, 5 rejected"), "{said}");
    let rejected =
        said.lines().find(|line| line.starts_with("rejected: 5 ")).unwrap_or_else(|| panic!("{said}"));
    assert!(rejected.contains(": <a.0@x.example>, <a.1@x.example>, "), "{said}");
}

#[test]
fn pull_waits_twice_for_a_silent_article_and_files_those_before_it_meanwhile() {
    let odd = Odd::start("silent", "", "");
    let site = Operated::with(&[]);
    let keys = "groups = \"*.group\"\ncreate_groups = true\nconnections = 1\n";
    site.edit(|text| text + &section(odd.address, keys));
    let serving = site.serve();
    // The server stays silent for a minute.
    let begun = Instant::now();
    wait_for(|| count(&serving, "odd.group"), |count| count.is_some_and(|(filed, _)| filed >= 2));
    assert!(begun.elapsed() < Duration::from_secs(40), "articles before the silent one wait for it");
    drop(serving);
    site.edit(|text| text.replace("connections = 1", "connections = 1\nanswer_timeout = \"1 s\""));
    let asked = odd.times_asked("ARTICLE <odd.3@x.example>");
    let done = site.run(&["pull", "far"]);
    let said = printed(&done) + &complaints(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains(": 9 accepted, 0 rejected, "), "{said}");
    assert!(said.contains("set aside: odd.group 3 <odd.3@x.example>: the connection ends there: "), "{said}");
    assert_eq!(odd.times_asked("ARTICLE <odd.3@x.example>") - asked, 2);
}

#[test]
fn pull_names_an_article_that_is_malformed() {
    let odd = Odd::start("malformed", "", "");
    let (code, said) = pull_from(&Operated::with(&[]), &odd);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(": 11 accepted, 1 rejected"), "{said}");
    let reason = said.lines().find(|line| line.starts_with("rejected: 1 "));
    assert!(reason.is_some_and(|line| line.ends_with(": <odd.3@x.example>")), "{said}");
}

#[test]
fn pull_sets_aside_what_has_no_room_in_its_class_and_files_it_once_there_is() {
    let upstream = Server::start();
    upstream.operate(&["newgroup", "misc.big", "y"]);
    let mut feed = upstream.client();
    for n in 0..9 {
        let id = format!("<big.{n}@x.example>");
        let big = article(&id, "misc.big", &"a line of an article that fills a class\r\n".repeat(500));
        feed.send(format!("TAKETHIS {id}\r\n{big}"));
        assert_eq!(feed.line(), format!("239 {id}"));
    }
    fill(&upstream, "a", "misc.test", 20);
    let site = Operated::with(&[]);
    let keys = "groups = \"misc.*\"\ncreate_groups = true\ngive_up_after = \"60 s\"\n";
    site.edit(|text| with_tight_class(&text, "misc.big") + &section(upstream.address, keys));
    let done = site.run(&["pull", "far"]);
    let said = printed(&done) + &complaints(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("set aside: misc.big 9 <big.8@x.example>: its storage class is full"), "{said}");
    site.edit(|text| text.replace("files_max = 1\n", "files_max = 20\n"));
    // The others are not fetched again.
    let again = site.done(&["pull", "far"]);
    let fetched = again.split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!((1..9).contains(&fetched) && !again.contains("waiting: "), "{again}");
    let serving = site.serve();
    assert_eq!(count(&serving, "misc.test").map(|(articles, _)| articles), Some(20));
    assert_eq!(count(&serving, "misc.big").map(|(articles, _)| articles), Some(9));
}
