//! What a cluster costs and gives, on one machine: `make bench-cluster`, with `NEWSREEL_BENCH_ARTICLES`
//! articles of 2.35 KB. Prints the table of `docs/bench/cluster.md`. Rates are compared with that of the
//! engine in the same run, so that a slow machine does not decide, and with a single server's.

use crate::nodes::{Nodes, Scratch, WAIT_MAX, program, wait_until};
use crate::{Client, DATE, GROUPS, Member, await_same_digest, done, members_of, without_spam};
use cluster::nats::{NatsConnection, NatsEngine};
use cluster::{ClusterId, EngineEvent, EngineLog as _, MessageTag};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Length of an article, in bytes.
const ARTICLE_BYTES: usize = 2_350;
/// Length of a message of the engine's own measurement, in bytes.
const MESSAGE_BYTES: usize = 64 << 10;
/// Messages that each of three clients of the engine has on their way.
const IN_FLIGHT: usize = 4;
/// Articles of any number stay until the end.
const KEPT: &str = "\n[[class]]\nname = \"kept\"\nmethod = \"appendonly\"\nfile_size = \"64 MiB\"\n";

/// Returns an article as peers send it, with a body that hardly shrinks.
fn article(id: &str) -> String {
    let mut text = format!(
        "Path: peer.example!not-for-mail\r\nFrom: a@x.example\r\nNewsgroups: test.a\r\nSubject: measured\r\n\
         Message-ID: {id}\r\nDate: {DATE}\r\n\r\n"
    );
    let mut state = id.bytes().fold(7_u64, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    while text.len() < ARTICLE_BYTES {
        for _ in 0..70 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push(char::from(b'a' + (state >> 40) as u8 % 26));
        }
        text.push_str("\r\n");
    }
    text
}

/// What the engine's own measurement sends.
#[derive(Clone, Copy)]
enum Payload {
    /// Text of articles.
    Articles,
    /// The same byte again and again, which the engine compresses to nothing on its way.
    OneByte,
}

impl Payload {
    fn bytes(self) -> cluster::Bytes {
        let some = MESSAGE_BYTES.div_ceil(ARTICLE_BYTES);
        let mut text = match self {
            Self::Articles => (0..some).map(|n| article(&format!("<{n}@bench.example>"))).collect(),
            Self::OneByte => "x".repeat(MESSAGE_BYTES),
        };
        text.truncate(MESSAGE_BYTES);
        cluster::Bytes::from(text)
    }
}

/// Measures how many articles of that length the engine takes a second, in messages of 64 KiB of three
/// clients, each of which reads all.
fn engine_rate(nodes: &Nodes, site: &str, payload: Payload, messages: usize) -> f64 {
    let connect = |member: String| {
        let servers = nodes.ports.iter().map(|ports| format!("127.0.0.1:{}", ports[0])).collect();
        let connection = NatsConnection { site: site.into(), member, servers, ..NatsConnection::default() };
        Arc::new(NatsEngine::connect(connection).unwrap())
    };
    let first = connect("m0".into());
    wait_until("the log is created", || first.create(ClusterId([3; 8]), 3, 1 << 30).is_ok());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for at in 0..3_u16 {
            let engine = connect(format!("m{at}"));
            scope.spawn(move || {
                let (to, events) = mpsc::channel();
                let log = engine.log(Arc::new(move |event| drop(to.send(event))));
                log.follow(0);
                let bytes = payload.bytes();
                let append = |counter: usize| {
                    let tag = MessageTag { member: at, incarnation: 1, counter: counter as u64 };
                    log.append(tag, bytes.clone());
                };
                (0..IN_FLIGHT).for_each(append);
                let (mut sent, mut appended, mut read) = (IN_FLIGHT, 0, 0);
                while appended < messages || read < 3 * messages {
                    match events.recv_timeout(WAIT_MAX).unwrap() {
                        EngineEvent::Appended { .. } => {
                            appended += 1;
                            if sent < messages {
                                append(sent);
                                sent += 1;
                            }
                        }
                        EngineEvent::Message(_) => read += 1,
                        other => assert!(matches!(other, EngineEvent::Reach { .. }), "{other:?}"),
                    }
                }
            });
        }
    });
    (3 * messages * MESSAGE_BYTES) as f64 / ARTICLE_BYTES as f64 / begun.elapsed().as_secs_f64()
}

/// Feeds articles to servers at once, over several connections to each; returns the rate.
fn feed(servers: &[u16], connections: usize, articles: usize, name: &str) -> f64 {
    let ports = servers.repeat(connections);
    let some = articles / ports.len();
    // Made before, as the clients share the processors.
    let texts = (0..ports.len()).map(|at| {
        let ids = (0..some).map(|n| format!("<{n}.{at}.{name}@bench.example>"));
        ids.map(|id| format!("TAKETHIS {id}\r\n{}.\r\n", article(&id))).collect::<String>()
    });
    let texts: Vec<String> = texts.collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (port, text) in ports.into_iter().zip(&texts) {
            scope.spawn(move || {
                let mut client = Client::connect(port).unwrap();
                let mut sender = client.0.get_ref().try_clone().unwrap();
                scope.spawn(move || sender.write_all(text.as_bytes()).unwrap());
                for _ in 0..some {
                    let answer = client.line().unwrap();
                    assert!(answer.starts_with("239"), "{answer}");
                }
            });
        }
    });
    (some * texts.len()) as f64 / begun.elapsed().as_secs_f64()
}

/// Times of an action that is repeated, ascending.
fn times(count: usize, mut act: impl FnMut(usize)) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count)
        .map(|n| {
            let begun = Instant::now();
            act(n);
            begun.elapsed()
        })
        .collect();
    times.sort();
    times
}

fn millis(times: &[Duration], percent: usize) -> f64 {
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3
}

/// Reads articles by number, all asked for at once; returns the rate.
fn read_rate(port: u16, articles: usize) -> f64 {
    let mut client = Client::connect(port).unwrap();
    client.ask("GROUP test.a").unwrap();
    let mut sender = client.0.get_ref().try_clone().unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let commands: String = (1..=articles).map(|n| format!("ARTICLE {n}\r\n")).collect();
            sender.write_all(commands.as_bytes()).unwrap();
        });
        for _ in 0..articles {
            let answer = client.line().unwrap();
            assert!(answer.starts_with("220"), "{answer}");
            while client.line().unwrap() != "." {}
        }
    });
    articles as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Returns the memory that a server has of its own, in MiB.
fn memory(member: &Member) -> f64 {
    let pid = member.running.as_ref().unwrap().id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Makes a server that is no member of a cluster.
fn single(scratch: &Scratch) -> Member {
    let groups = scratch.0.join("groups");
    std::fs::write(&groups, GROUPS).unwrap();
    let server = Member::new(scratch, "single");
    let (listen, groups) = (format!("127.0.0.1:{}", server.port), groups.to_str().unwrap().to_owned());
    let words =
        ["init", "--listen", &listen, "--buffer", "32 MiB", "--peer", "127.0.0.1", "--max-age", "none"];
    done(&server.dir, &[&words[..], &["--path-identity", "news.one.example", "--groups", &groups]].concat());
    server.edit(|text| {
        let text = without_spam(text)
            .replace("[[rule]]\n", "[[rule]]\nclass = \"kept\"\ngroups = \"test.*\"\n\n[[rule]]\n");
        text + KEPT
    });
    server
}

/// Files a batch of rnews; returns the rate.
fn rnews_rate(server: &Member, articles: usize) -> f64 {
    let batch: String = (0..articles)
        .map(|n| {
            let text = article(&format!("<{n}.rnews@bench.example>")).replace("\r\n", "\n");
            format!("#! rnews {}\n{text}", text.len())
        })
        .collect();
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_newsreel"))
        .args(["rnews", "--dir"])
        .arg(&server.dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(batch.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    articles as f64 / begun.elapsed().as_secs_f64()
}

#[test]
#[ignore = "make bench-cluster"]
fn what_a_cluster_costs() {
    let Some(program) = program() else { return };
    let articles: usize =
        std::env::var("NEWSREEL_BENCH_ARTICLES").map_or(90_000, |text| text.parse().unwrap());
    // Fewer than one poster may send without a pause.
    let few = (articles / 30).clamp(50, 500);
    let scratch = Scratch::new("bench");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");

    let mut server = single(&scratch);
    server.serve();
    let alone = feed(&[server.port], 1, articles, "fed");
    let (by_rnews, of_server) = (rnews_rate(&server, articles), memory(&server));
    feed(&[server.port], 4, articles, "four");
    let of_server_of_four = memory(&server);
    let mut client = server.client();
    let posted_alone = times(few, |n| {
        let answer = client.post(&format!("<{n}.post@bench.example>"), "test.b").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    });
    let local = times(few, |_| drop(client.ask("GROUP test.a").unwrap()));

    let messages = articles * ARTICLE_BYTES / MESSAGE_BYTES / 3 + IN_FLIGHT;
    let engine = engine_rate(&nodes, "bench", Payload::Articles, messages);
    let engine_of_one_byte = engine_rate(&nodes, "byte", Payload::OneByte, messages);
    let mut members = members_of(&["fe1", "fe2", "fe3"], &scratch, &nodes, KEPT);
    let ports: Vec<u16> = members.iter().map(|member| member.port).collect();
    let filed = feed(&ports, 1, articles, "fed");
    await_same_digest(&members);
    let of_member = memory(&members[0]);
    let filed_by_four = feed(&ports, 4, articles, "four");
    await_same_digest(&members);
    let of_member_of_four = memory(&members[0]);
    let mut client = members[0].client();
    let posted = times(few, |n| {
        let answer = client.post(&format!("<{n}.post@bench.example>"), "test.b").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    });
    let fresh = times(few, |_| drop(client.ask("GROUP test.a").unwrap()));
    // In turns, as the rates of a minute earlier are those of another machine.
    let rates = (0..5).map(|_| (read_rate(server.port, articles), read_rate(ports[0], articles)));
    let (read_alone, read): (Vec<f64>, Vec<f64>) = rates.unzip();
    let (read_alone, read) = (median(read_alone), median(read));
    server.stop();
    // One applies what was filed while it was away; then it loses everything, and joins again.
    members[2].stop();
    feed(&ports[..2], 4, articles, "away");
    let begun = Instant::now();
    members[2].serve();
    members[2].client();
    let replayed = articles as f64 / begun.elapsed().as_secs_f64();
    await_same_digest(&members);
    members[2].stop();
    crate::operating::lose_disk(&members[2]);
    std::fs::copy(members[0].dir.join("cluster.key"), members[2].dir.join("cluster.key")).unwrap();
    let begun = Instant::now();
    done(&members[2].dir, &["cluster", "join", "--replace"]);
    members[2].serve();
    members[2].client();
    let joined = 3.0 * articles as f64 / begun.elapsed().as_secs_f64();
    await_same_digest(&members);

    let mut version = String::new();
    std::fs::File::open("/proc/loadavg").unwrap().read_to_string(&mut version).unwrap();
    println!("{articles} articles; load of the machine at the end: {}", version.trim());
    println!("| | measured | to compare with | bar |\n|---|---:|---:|---:|");
    let row = |what: &str, value: String, beside: String, bar: &str| {
        println!("| {what} | {value} | {beside} | {bar} |");
    };
    let ratio = |rate: f64, of: f64| format!("{rate:.0}/s, {:.2}", rate / of);
    row("the engine's own rate (E)", format!("{engine:.0}/s"), String::new(), "");
    row("the same in messages of one byte", format!("{engine_of_one_byte:.0}/s"), String::new(), "");
    row("filing by TAKETHIS through three members", ratio(filed, engine), "E".into(), ">= 0.5");
    row("the same over four connections to each", ratio(filed_by_four, engine), "E".into(), ">= 0.5");
    row("the same by one server alone", format!("{alone:.0}/s"), String::new(), "");
    row(
        "a lone POST, p50 and p99",
        format!("{:.1} and {:.1} ms", millis(&posted, 50), millis(&posted, 99)),
        format!("{:.1} and {:.1} ms alone", millis(&posted_alone, 50), millis(&posted_alone, 99)),
        "p50 <= 6 ms, p99 <= 20 ms",
    );
    row(
        "GROUP, `reads = \"fresh\"`, p50",
        format!("{:.2} ms", millis(&fresh, 50)),
        format!("{:.2} ms alone", millis(&local, 50)),
        "<= alone + 1.5 ms",
    );
    row(
        "applying the log after an absence",
        ratio(replayed, by_rnews),
        format!("{by_rnews:.0}/s by rnews"),
        ">= 0.7",
    );
    row(
        "joining by a snapshot of a member",
        ratio(joined, by_rnews),
        format!("{by_rnews:.0}/s by rnews"),
        ">= 0.7",
    );
    row("reading one member", ratio(read, read_alone), format!("{read_alone:.0}/s alone"), ">= 0.95");
    row(
        "memory of a member",
        format!("{of_member:.0} MiB, {of_member_of_four:.0} after four connections"),
        format!("{of_server:.0} MiB alone, {of_server_of_four:.0} after four connections"),
        "<= alone + 64 MiB",
    );
}
