//! Filter programs: INN's hooks in Perl and Python through the adapters in packaging/filters, for articles,
//! posts and logins, and programs that are killed while articles come in.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, article};
use crate::clients::installed;
use crate::posting::{head, headers, post};
use crate::running::Server;
use crate::waiting::{PATIENCE, let_pass, wait_for};

/// A filter in the style of INN's: it examines %hdr and returns reasons.
const INND: &str = r#"
use strict;
use vars qw(%hdr %mode);
sub filter_art {
    return 'EMP (body)' if $hdr{__BODY__} =~ /make money fast\r\n/i;
    return "bad subject, $hdr{__LINES__} lines" if ($hdr{Subject} || '') =~ /^\$\$\$/;
    return 'known: ' . INN::havehist('<known@x.example>') if $hdr{__BODY__} =~ /^history/;
    return 'flag ' . INN::newsgroup('local.moderated') if $hdr{__BODY__} =~ /^group/;
    return 'head ' . (INN::head('<known@x.example>') =~ /^Subject: (.*)$/m)[0] if $hdr{__BODY__} =~ /^head/;
    return 'cancelled ' . INN::cancel('<known@x.example>') if $hdr{__BODY__} =~ /^cancel/;
    if ($hdr{__BODY__} =~ /^verdict (.*)\r$/m) { return Newsreel::verdict($1) }
    die "no idea\n" if $hdr{__BODY__} =~ /^die/;
    print "a line that must not be taken for a verdict\n";
    INN::syslog('warning', 'folded') if ($hdr{'X-Trace'} || '') =~ /^a\r\n b$/;
    return '';
}
sub filter_messageid { return $_[0] =~ /^<bad/ ? 'bad id' : '' }
sub filter_mode { open my $file, '>', "$ENV_DIR::dir/mode" or die; print $file $mode{NewMode} }
open my $pid, '>', "$ENV_DIR::dir/pid.new" or die; print $pid $$; close $pid;
rename "$ENV_DIR::dir/pid.new", "$ENV_DIR::dir/pid";
1;
"#;

const NNRPD: &str = r#"
sub filter_post {
    return "no $attributes{ipaddress} $user" if $hdr{Subject} =~ /refuse/;
    return 'DROP it' if $hdr{Subject} =~ /drop/;
    return 'SPOOL it' if $hdr{Subject} =~ /spool/;
    if ($hdr{Subject} =~ /change/) {
        $hdr{Organization} = "Changed\n by a filter: " . ($body =~ /^\.dot$/m ? 'dot' : 'no dot');
        $hdr{'X-New'} = 'new';
        $hdr{'User-Agent'} = '';
        $modify_headers = 1;
    }
    return '';
}
sub filter_login { return $user eq 'mallory' ? "not you, $user" : '' }
1;
"#;

const PYTHON: &str = r#"
import INN
class Filter:
    def filter_art(self, art):
        body = art["__BODY__"]
        if b"money" in body:
            return "money in %d lines, sender %s" % (art["__LINES__"], art["Sender"])
        if body.startswith(b"history"):
            return "known" if INN.havehist("<known@x.example>") else "unknown"
        if body.startswith(b"aside"):
            return INN.newsreel_verdict("aside")
        if body.startswith(b"raise"):
            raise ValueError("no idea")
        print("a line that must not be taken for a verdict")
        return ""
    def filter_messageid(self, message_id):
        return "bad id" if message_id.startswith(b"<bad") else ""
    def filter_login(self, attributes):
        return "not you" if attributes["username"] == "mallory" else ""
INN.set_filter_hook(Filter())
"#;

fn adapter(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/filters");
    dir.join(name).canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Returns a section with the Perl adapter and files in `dir`.
fn perl(dir: &TempDir, keys: &str) -> String {
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let startup = format!("$ENV_DIR::dir = '{}';\n1;\n", dir.path().display());
    let (startup, innd, nnrpd) =
        (file("startup.pl", &startup), file("filter_innd.pl", INND), file("filter_nnrpd.pl", NNRPD));
    format!(
        "\n[[filter]]\nname = \"perl\"\nprogram = [{:?}, \"--startup\", {startup:?}, \"--innd\", {innd:?}, \
         \"--nnrpd\", {nnrpd:?}]\ntimeout = \"1 s\"\n{keys}\n",
        adapter("newsreel-filter-perl")
    )
}

/// Repeats an attempt deferred on a slow machine, on a new connection.
fn judged(server: &Server, mut attempt: impl FnMut(&mut Client) -> Option<String>) -> String {
    let is_deferred = |answer: &str| answer.contains("cannot be judged") || answer.starts_with("400");
    let attempt = || attempt(&mut server.client());
    wait_for(attempt, |answer| answer.as_ref().is_some_and(|answer| !is_deferred(answer))).unwrap()
}

/// Returns the response to an article: `239`, or `439` and the reason.
fn feed(server: &Server, id: &str, body: &str) -> String {
    feed_with(server, id, "", body)
}

fn feed_with(server: &Server, id: &str, more: &str, body: &str) -> String {
    let wire = article(id, "misc.test", body).replace("Subject:", &format!("{more}Subject:"));
    let answer = judged(server, |client| {
        client.send(format!("TAKETHIS {id}\r\n{wire}"));
        client.line_or_end()
    });
    answer.replace(&format!(" {id}"), "")
}

fn login_as(client: &mut Client, name: &str, password: &str) -> String {
    assert!(client.ask(&format!("AUTHINFO USER {name}")).starts_with("381 "));
    client.ask(&format!("AUTHINFO PASS {password}"))
}

/// Returns whether an article was set aside in junk.
fn is_aside(server: &Server, id: &str) -> bool {
    let mut client = server.client();
    let marks = client.ask("GROUP junk");
    let last = marks.split(' ').nth(3).unwrap();
    head(&mut client, last).contains(&format!("X-Newsreel-Aside-Message-ID: {id}"))
}

fn groups_of(server: &Server, id: &str) -> String {
    let lines = head(&mut server.client(), id);
    lines.iter().find_map(|line| line.strip_prefix("Xref: site.example ")).unwrap().to_owned()
}

const DEFER: &str = "on_failure = \"defer\"\njudges = [\"feed\", \"post\", \"login\"]";

#[test]
fn inns_perl_filter_judges_articles_unchanged() {
    if !installed(&[("perl", "perl")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let section = perl(&dir, DEFER);
    let server = Server::start_with(|text| text + &section);
    assert_eq!(feed(&server, "<known@x.example>", "fine"), "239");
    assert_eq!(feed(&server, "<1@x.example>", "Make Money Fast"), "439 EMP (body)");
    assert_eq!(feed(&server, "<1@x.example>", "fine now"), "439 duplicate");
    assert_eq!(feed(&server, "<2@x.example>", "a\r\nb\r\nverdict keep"), "239");
    assert_eq!(feed(&server, "<bad@x.example>", "fine"), "439 bad id");
    assert_eq!(feed(&server, "<3@x.example>", "history"), "439 known: 1");
    assert_eq!(feed(&server, "<4@x.example>", "group"), "439 flag m");
    let subject = head(&mut server.client(), "<known@x.example>");
    let subject = subject.iter().find_map(|line| line.strip_prefix("Subject: ")).unwrap();
    assert_eq!(feed(&server, "<5@x.example>", "head"), format!("439 head {subject}"));
    assert_eq!(feed(&server, "<6@x.example>", "verdict aside"), "239");
    assert!(is_aside(&server, "<6@x.example>"));
    let release = serde_json::json!({ "release": { "message_ids": ["<6@x.example>"] } });
    let (replies, ok) = server.control(&serde_json::json!({ "do": "filter", "command": release }));
    assert!(ok && replies[0]["text"] == "<6@x.example> is filed", "{replies:?}");
    assert!(groups_of(&server, "<6@x.example>").starts_with("misc.test:"));
    assert!(groups_of(&server, "<2@x.example>").starts_with("misc.test:"));
    assert_eq!(feed_with(&server, "<7@x.example>", "X-TRACE: a\r\n b\r\n", "x"), "239");
    assert_eq!(feed_with(&server, "<8@x.example>", "X-Y: 1\r\n", "a\r\nb\r\ncancel"), "239");
    assert_eq!(feed(&server, "<9@x.example>", "cancel"), "439 cancelled 1");
    assert!(server.client().ask("STAT <known@x.example>").starts_with("430"));
    assert_eq!(std::fs::read_to_string(dir.path().join("mode")).unwrap(), "running");
    // A filter that died on an article judges the next: nothing is lost. On a machine that stalls for a
    // second the server also kills it, meanwhile or as it ends.
    let starts = || server.status()["filters"][0]["starts"].as_u64().unwrap();
    let is_the_same = |n: usize| {
        let (before, id) = (starts(), format!("<died{n}@x.example>"));
        let mut client = server.client();
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, "misc.test", "die")));
        assert!(client.line().starts_with("400 "));
        assert_eq!(feed(&server, &format!("<after{n}@x.example>"), "fine"), "239");
        starts() == before
    };
    assert!((0..20).any(is_the_same));
    assert_eq!(server.status()["filters"][0]["name"], "perl");
    drop(server);
    let ended_by_itself = || std::fs::read_to_string(dir.path().join("mode")).unwrap() == "shutdown";
    let ends_by_itself = |n: usize| {
        let server = Server::start_with(|text| text + &section);
        assert_eq!(feed(&server, &format!("<end{n}@x.example>"), "fine"), "239");
        drop(server);
        ended_by_itself()
    };
    assert!(ended_by_itself() || (0..20).any(ends_by_itself));
}

#[test]
fn reload_rereads_filters_and_starts_new_ones() {
    if !installed(&[("perl", "perl")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let section = perl(&dir, DEFER);
    let server = Server::start_with(|text| text + &section);
    assert_eq!(feed(&server, "<1@x.example>", "other text"), "239");
    let file = dir.path().join("filter_innd.pl");
    std::fs::write(&file, INND.replace("make money fast", "other text")).unwrap();
    server.reload(|text| text).unwrap();
    assert_eq!(feed(&server, "<2@x.example>", "other text"), "439 EMP (body)");
    // The filter is not restarted for that, unless the server kills it on a slow machine.
    let stays = |n: usize| {
        let starts = || server.status()["filters"][0]["starts"].clone();
        let before = starts();
        server.reload(|text| text).unwrap();
        assert_eq!(feed(&server, &format!("<again{n}@x.example>"), "other text"), "439 EMP (body)");
        starts() == before
    };
    assert!((0..20).any(stays));
    server.reload(|text| text.replace("timeout = \"1 s\"", "timeout = \"900 ms\"")).unwrap();
    assert_eq!(feed(&server, "<3@x.example>", "other text"), "439 EMP (body)");
    server.reload(|text| text.split("[[filter]]").next().unwrap().to_owned()).unwrap();
    assert_eq!(feed(&server, "<4@x.example>", "other text"), "239");
    assert_eq!(server.status()["filters"], serde_json::json!([]));
}

#[test]
fn inns_perl_filter_judges_posts_and_logins() {
    if !installed(&[("perl", "perl")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let section = perl(&dir, DEFER);
    let server = Server::start_with(|text| text + &section);
    let posted = |subject: &str, body: &str| {
        let headers = headers("misc.test", "User-Agent: old\r\n").replace("a post", subject);
        judged(&server, |client| Some(post(client, &headers, body)))
    };
    assert_eq!(posted("refuse", "b"), "441 Posting failed: no 127.0.0.1");
    let dropped = posted("drop", "b");
    assert!(dropped.starts_with("240 "), "{dropped}");
    let id = dropped.rsplit(' ').next().unwrap();
    assert!(server.client().ask(&format!("STAT {id}")).starts_with("430"));
    let spooled = posted("spool", "b");
    let id = spooled.rsplit(' ').next().unwrap();
    assert!(is_aside(&server, id), "{spooled}");
    let changed = posted("change", "..dot\r\nb");
    let id = changed.rsplit(' ').next().unwrap();
    let shown = head(&mut server.client(), id).join("\n");
    assert!(
        shown.contains("Organization: Changed by a filter: dot") && shown.contains("X-New: new"),
        "{shown}"
    );
    assert!(!shown.contains("User-Agent"), "{shown}");
    let plain = posted("plain", "b");
    let shown = head(&mut server.client(), plain.rsplit(' ').next().unwrap()).join("\n");
    assert!(shown.contains("User-Agent: old") && shown.contains("Organization: Example Site"), "{shown}");

    for name in ["mallory", "fred"] {
        server.user(&["add", name], "secret word\n").unwrap();
    }
    let login = |name: &str| {
        judged(&server, |client| {
            let answer = login_as(client, name, "secret word");
            (!answer.starts_with("403")).then_some(answer)
        })
    };
    assert_eq!(login("mallory"), "481 not you, mallory");
    assert!(login("fred").starts_with("281 "));
}

#[test]
fn inns_python_filter_judges_articles_unchanged() {
    if !installed(&[("python3", "python3")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("filter_innd.py");
    std::fs::write(&file, PYTHON).unwrap();
    let section = format!(
        "\n[[filter]]\nname = \"python\"\nprogram = [{:?}, {:?}]\ntimeout = \"1 s\"\n{DEFER}\n",
        adapter("newsreel-filter-python"),
        file.to_str().unwrap()
    );
    let server = Server::start_with(|text| text + &section);
    assert_eq!(feed(&server, "<known@x.example>", "fine"), "239");
    assert_eq!(feed(&server, "<1@x.example>", "much\r\nmoney"), "439 money in 2 lines, sender None");
    assert_eq!(feed(&server, "<2@x.example>", "history"), "439 known");
    assert_eq!(feed(&server, "<bad@x.example>", "fine"), "439 bad id");
    assert_eq!(feed(&server, "<3@x.example>", "aside"), "239");
    assert!(is_aside(&server, "<3@x.example>"));
    let mut client = server.client();
    client.send(format!("TAKETHIS <4@x.example>\r\n{}", article("<4@x.example>", "misc.test", "raise")));
    assert!(client.line().starts_with("400 "));
    std::fs::write(&file, PYTHON.replace("money", "wealth")).unwrap();
    server.reload(|text| text).unwrap();
    assert_eq!(feed(&server, "<5@x.example>", "money"), "239");
    server.user(&["add", "mallory"], "secret word\n").unwrap();
    let refused = judged(&server, |client| {
        let answer = login_as(client, "mallory", "secret word");
        (!answer.starts_with("403")).then_some(answer)
    });
    assert_eq!(refused, "481 not you");
}

/// Number of STAT commands sent at once.
const STATS: usize = 200;

/// Feeds articles in batches, every second one spam, and repeats deferred ones. `between` is called with the
/// number of answered articles.
fn feed_all(server: &Server, articles: usize, at_once: usize, mut between: impl FnMut(usize)) {
    let id = |n: usize| format!("<{n}@feed.example>");
    let body = |n: usize| if n % 2 == 1 { "make money fast" } else { "a fine article" };
    let (mut next, begun) = (0, Instant::now());
    let mut client = server.client();
    while next < articles {
        let batch = next..(next + at_once).min(articles);
        let wires =
            batch.clone().map(|n| format!("TAKETHIS {}\r\n{}", id(n), article(&id(n), "misc.test", body(n))));
        client.try_send(wires.collect::<String>());
        for n in batch {
            match client.line_or_end() {
                Some(answer) if answer.starts_with("239") || answer.starts_with("439") => {
                    let known = answer.ends_with("duplicate");
                    assert!(known || answer.starts_with("439") == (n % 2 == 1), "{n}: {answer}");
                    next = n + 1;
                }
                // Deferred: the connection has ended.
                _ => {
                    client = server.client();
                    break;
                }
            }
        }
        assert!(begun.elapsed() < PATIENCE * 10, "{next}: {}", server.status());
        between(next);
    }
    for from in (0..articles).step_by(STATS) {
        let asked = from..(from + STATS).min(articles);
        client.send(asked.clone().map(|n| format!("STAT {}\r\n", id(n))).collect::<String>());
        for n in asked {
            let (answer, expected) = (client.line(), if n % 2 == 1 { "430" } else { "223" });
            assert!(answer.starts_with(expected), "{n}: {answer}");
        }
    }
}

#[test]
fn killed_filter_loses_no_article_and_skips_none() {
    if !installed(&[("perl", "perl")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let section = perl(&dir, "on_failure = \"defer\"");
    let server = Server::start_with(|text| text + &section);
    let mut killed = 0_u64;
    let mut last = String::new();
    feed_all(&server, 2_000, 20, |_| {
        // The first process may not have started yet.
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap_or_default();
        // A process that has just been started is killed, too.
        if !pid.is_empty() && pid != last && killed < 30 {
            // On a slow machine the server may have killed it first.
            killed += u64::from(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
            last = pid;
        }
    });
    let status = server.status();
    let starts = status["filters"][0]["starts"].as_u64().unwrap();
    assert!(killed > 1 && starts >= killed, "{killed} {status}");
    assert_eq!(status["accepted"], 1_000);
    assert!(status["rejected"].as_u64().unwrap() >= 1_000, "{status}");
}

#[test]
#[ignore = "soak: 300,000 articles in a minute"]
fn filter_killed_each_second_for_a_minute_loses_no_article() {
    const RATE: u64 = 5_000;
    const SECS: u64 = 60;
    if !installed(&[("perl", "perl")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let section = perl(&dir, "on_failure = \"defer\"");
    let server = Server::start_with(|text| text.replace("32 MiB", "256 MiB") + &section);
    let (begun, mut killed, mut late) = (Instant::now(), 0, Duration::ZERO);
    feed_all(&server, (RATE * SECS) as usize, 100, |next| {
        if begun.elapsed() >= Duration::from_secs(killed + 1) && killed < SECS {
            let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap_or_default();
            Command::new("kill").args(["-9", &pid]).status().unwrap();
            killed += 1;
        }
        let due = Duration::from_secs_f64(next as f64 / RATE as f64);
        late = late.max(begun.elapsed().saturating_sub(due));
        let_pass(due.saturating_sub(begun.elapsed()), "articles come at this rate");
    });
    let (took, status) = (begun.elapsed(), server.status());
    println!("{} articles in {took:?}, {killed} kills, {late:?} behind at most", RATE * SECS);
    let starts = status["filters"][0]["starts"].as_u64().unwrap();
    assert!(killed >= SECS / 2 && starts >= killed / 2, "{killed} {status}");
    assert_eq!(status["accepted"], RATE * SECS / 2);
}

#[test]
fn hanging_filter_defers_articles_unless_configured_otherwise() {
    let dir = TempDir::new().unwrap();
    let script = dir.path().join("hangs.sh");
    std::fs::write(&script, "echo newsreel-filter 1\nexec sleep 600\n").unwrap();
    let section = |on_failure: &str| {
        format!(
            "\n[[filter]]\nname = \"hangs\"\nprogram = [\"/bin/sh\", {:?}]\ntimeout = \"50 ms\"\n\
             on_failure = \"{on_failure}\"\n",
            script.to_str().unwrap()
        )
    };
    let server = Server::start_with(|text| text + &section("pass"));
    let mut client = server.client();
    for n in 0..10 {
        let id = format!("<{n}@x.example>");
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, "misc.test", "fine")));
        assert_eq!(client.line(), format!("239 {id}"));
    }
    assert_eq!(server.status()["filters"][0]["unjudged"], 10);

    let text = section("defer");
    server.reload(|before| before.split("\n[[filter]]").next().unwrap().to_owned() + &text).unwrap();
    let offer = || {
        let mut client = server.client();
        let asked = client.ask("CHECK <d@x.example>");
        client.send(format!("TAKETHIS <d@x.example>\r\n{}", article("<d@x.example>", "misc.test", "fine")));
        let answer = client.line();
        assert!(answer.starts_with("400 "), "{answer}");
        asked
    };
    wait_for(offer, |answer| answer == "431 <d@x.example>");
    assert!(server.client().ask("STAT <d@x.example>").starts_with("430"));
    // The article is accepted once nothing defers it.
    server.reload(|before| before.split("\n[[filter]]").next().unwrap().to_owned()).unwrap();
    assert_eq!(feed(&server, "<d@x.example>", "fine"), "239");
}
