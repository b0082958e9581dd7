//! Three nodes of a real engine and three members: what is accepted is everywhere, with the same numbers,
//! while nodes are killed. Without nats-server (2.15.2 or later, in PATH or named by
//! `NEWSREEL_NATS_SERVER`) the tests are skipped with a message, or fail if CI is set.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod nodes;

use cluster::Bytes;
use cluster::engine_check::{EngineDemands, EngineFault, NodeFacts, faults};
use cluster::engine_conf::{EngineUser, NodeConf};
use cluster::nats::{NatsConnection, NatsEngine, node_facts, user_key};
use cluster::*;
use disk::{ReadMode, RealDisk};
use futures_util::StreamExt as _;
use netnews::Article;
use netnews::overview_row::OverviewFields;
use nodes::{Nodes, Scratch, WAIT_MAX, program, wait_until};
use spool::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn connection(nodes: &Nodes, member: &str) -> NatsConnection {
    NatsConnection {
        site: "test".into(),
        member: member.into(),
        servers: nodes.ports.iter().map(|[client, ..]| format!("nats://127.0.0.1:{client}")).collect(),
        ..NatsConnection::default()
    }
}

fn connect(nodes: &Nodes, member: &str) -> Arc<NatsEngine> {
    let mut engine = None;
    wait_until("the engine takes connections", || {
        engine = NatsEngine::connect(connection(nodes, member)).ok();
        engine.is_some()
    });
    Arc::new(engine.unwrap())
}

fn monitored(nodes: &Nodes) -> Vec<NodeFacts> {
    nodes.ports.iter().map(|[_, _, monitor]| node_facts(&format!("127.0.0.1:{monitor}"))).collect()
}

/// A member at work.
struct Site {
    handle: Arc<MemberHandle>,
    thread: JoinHandle<()>,
    spool: Arc<Spool>,
}

const CLUSTER: ClusterId = ClusterId(*b"\x01three!!");

fn spool_config(dir: &Path) -> SpoolConfig {
    let mut config = SpoolConfig::new(dir);
    config.path_identity = "site.example".into();
    config.buffers = vec![BufferConfig {
        name: "a".into(),
        path: dir.join("a.cyc"),
        size_bytes: 48 << 20,
        block_bytes: 512,
        retired: false,
    }];
    config.classes = vec![ClassConfig {
        name: "all".into(),
        method: MethodKind::Cnfs,
        buffers: vec!["a".into()],
        ..ClassConfig::default()
    }];
    config.rules = vec![RuleConfig { class: "all".into(), ..RuleConfig::default() }];
    config.secret = Some([7; 16]);
    config.history = HistoryShape::small(12, 3);
    config.journal_file_bytes = 4 << 20;
    config
}

impl Site {
    /// Starts a member, with a new spool or the one that it had.
    fn start(nodes: &Nodes, dir: &Path, number: u16) -> Self {
        let name = format!("m{number}");
        let engine = connect(nodes, &name);
        let mut known = None;
        wait_until("the log is there", || {
            known = engine.facts().ok();
            known.is_some()
        });
        let facts = known.unwrap();
        let (spool, _) = Spool::open(Arc::new(RealDisk::new()), spool_config(&dir.join(&name)), &()).unwrap();
        if spool.position().is_none() {
            Fold::begin(&spool, &LogPosition::after(CLUSTER, facts.created, 0, 0)).unwrap();
        }
        let spool = Arc::new(spool);
        let fold = Fold::open(spool.clone()).unwrap();
        let mut incarnation = None;
        wait_until("the table answers", || {
            incarnation = engine::next_incarnation(&*engine, number, None).ok();
            incarnation.is_some()
        });
        let sink: Arc<parking_lot::Mutex<Option<Arc<MemberHandle>>>> = Arc::default();
        let to = sink.clone();
        let log = engine.log(Arc::new(move |event| {
            let handle = to.lock().clone();
            handle.into_iter().for_each(|handle| handle.tell(event.clone()));
        }));
        let world = Arc::new(MachineWorld::default());
        let (handle, member) =
            MemberHandle::new(fold, log, world, number, &name, incarnation.unwrap()).unwrap();
        *sink.lock() = Some(handle.clone());
        let thread = std::thread::spawn({
            let handle = handle.clone();
            move || handle.run(member)
        });
        let site = Self { handle, thread, spool };
        wait_until("the member follows the log", || site.handle.status().may_propose);
        site
    }

    /// Ends the member in good order.
    fn end(self) {
        self.handle.end();
        self.thread.join().unwrap();
        self.spool.close().unwrap();
    }

    /// Offers an article; returns what became of it.
    fn offer(&self, number: u64) -> Result<ChangeOutcome, SpoolTrouble> {
        self.offer_lines(number, number as usize % 60)
    }

    /// Offers an article with so many lines.
    fn offer_lines(&self, number: u64, lines: usize) -> Result<ChangeOutcome, SpoolTrouble> {
        let id = format!("<{number}@test.example>");
        let group = format!("t.g{}", number % 7);
        let wire = format!(
            "Path: {}!not-for-mail\r\nFrom: a@x.example\r\nNewsgroups: {group}\r\nSubject: {number}\r\n\
             Message-ID: {id}\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n{}",
            self.handle.status().name,
            "a line of text\r\n".repeat(lines)
        )
        .into_bytes();
        let article = Article::parse(&wire).unwrap();
        let mut tagged = Vec::new();
        RowFacts { wire_bytes: wire.len() as u64, origin: "peer x", ..RowFacts::default() }.put(&mut tagged);
        let new = NewArticle {
            message_id: id.as_bytes(),
            key: None,
            pieces: &[&wire],
            header_bytes: article.body_offset(),
            message_id_at: wire.windows(id.len()).position(|w| w == id.as_bytes()).unwrap(),
            groups: ArticleGroups::Named(&[group.as_bytes()]),
            numbers: &[],
            fields: OverviewFields::of(&article, id.as_bytes()),
            arrived: 1,
            expires: None,
            criteria: Criteria { head: article.head(), ..Criteria::default() },
            tagged: TaggedFields::new(&tagged).unwrap(),
        };
        let mut outcomes = Vec::new();
        self.handle.commit(&[Change::Article(new)], &mut outcomes)?;
        Ok(outcomes[0])
    }

    /// Returns marks and overview of all groups.
    fn answers(&self) -> Vec<String> {
        let mut all = Vec::new();
        for group in self.spool.groups().iter() {
            all.push(format!("{} {:?}", group.name, group.marks()));
            let mut rows = Vec::new();
            self.spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap();
            all.extend(String::from_utf8(rows).unwrap().lines().map(str::to_owned));
        }
        all
    }
}

fn create(nodes: &Nodes) {
    let engine = connect(nodes, "create");
    wait_until("the log is created", || engine.create(CLUSTER, nodes.ports.len(), 1 << 30).is_ok());
}

#[test]
fn three_members_number_alike_while_nodes_are_killed() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("kills");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    create(&nodes);
    let engine = connect(&nodes, "check");
    let facts = engine.facts().unwrap();
    assert_eq!(facts.cluster, Some(CLUSTER));
    let demands = EngineDemands { known: Some((CLUSTER, facts.created)), allows_lazy: false };
    assert_eq!(faults(&facts, &monitored(&nodes), &demands), []);

    let sites: Vec<Site> = (1..=3).map(|number| Site::start(&nodes, &scratch.0, number)).collect();
    let groups: Vec<GroupUpdate> = (0..7)
        .map(|n| GroupUpdate::Add(NewGroup { name: format!("t.g{n}"), created: 9, ..NewGroup::default() }))
        .collect();
    sites[0].handle.commit(&[Change::Groups(&groups)], &mut Vec::new()).unwrap();
    sites.iter().for_each(|site| assert!(site.handle.freshen()));

    // Each article is offered at two members, in different orders.
    let articles = 3_000u64;
    let filed: Vec<BTreeMap<u64, u64>> = std::thread::scope(|scope| {
        let feeders: Vec<_> = (0..6)
            .map(|feeder: usize| {
                let site = &sites[feeder % 3];
                scope.spawn(move || {
                    let mut filed = BTreeMap::new();
                    for step in 0..articles / 3 {
                        // Feeders 0, 1, 2 have a third of the articles each, and so have 3, 4, 5, backwards.
                        let third = (feeder % 3 + feeder / 3) as u64 % 3;
                        let step = if feeder < 3 { step } else { articles / 3 - 1 - step };
                        let number = step * 3 + third;
                        loop {
                            match site.offer(number) {
                                Ok(ChangeOutcome::Filed(_)) => {
                                    *filed.entry(number).or_default() += 1;
                                    break;
                                }
                                Ok(ChangeOutcome::Duplicate) => break,
                                Ok(other) => panic!("{number}: {other:?}"),
                                Err(_) => std::thread::sleep(Duration::from_millis(50)),
                            }
                        }
                    }
                    filed
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(1));
        let leader = engine.facts().ok().and_then(|facts| facts.leader).unwrap_or_else(|| "n0".into());
        let leader: usize = leader.trim_start_matches('n').parse().unwrap();
        nodes.kill(leader);
        std::thread::sleep(Duration::from_secs(2));
        nodes.run(leader);
        feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect()
    });
    let times: BTreeMap<u64, u64> =
        filed.into_iter().flatten().fold(BTreeMap::new(), |mut all, (number, n)| {
            *all.entry(number).or_default() += n;
            all
        });
    assert!(times.values().all(|n| *n == 1), "an article was accepted twice");
    wait_until("all members are fresh", || sites.iter().all(|site| site.handle.freshen()));
    let answers = sites[0].answers();
    let rows = answers.iter().filter(|line| line.contains("@test.example")).count();
    assert_eq!(rows as u64, articles);
    for site in &sites[1..] {
        assert_eq!(site.answers(), answers);
    }

    // All nodes are killed, and a member is replaced by a later process of it.
    (0..3).for_each(|node| nodes.kill(node));
    (0..3).for_each(|node| nodes.run(node));
    let mut sites = sites.into_iter();
    let first = sites.next().unwrap();
    first.end();
    let first = Site::start(&nodes, &scratch.0, 1);
    assert_eq!(first.answers(), answers);
    wait_until("an article is taken again", || {
        matches!(first.offer(articles + 1), Ok(ChangeOutcome::Filed(_) | ChangeOutcome::Duplicate))
    });
    for site in sites {
        wait_until("the others have it", || site.handle.freshen() && site.answers() == first.answers());
        site.end();
    }
    // A new member has the same numbers from the log alone.
    let fourth = Site::start(&nodes, &scratch.0, 4);
    assert!(fourth.handle.freshen());
    assert_eq!(fourth.answers(), first.answers());
    first.end();
    fourth.end();
}

#[test]
fn large_articles_come_in_parts_and_repeated_appends_count_once() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("parts");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    create(&nodes);
    let sites: Vec<Site> = (1..=2).map(|number| Site::start(&nodes, &scratch.0, number)).collect();
    let group = |n| GroupUpdate::Add(NewGroup { name: format!("t.g{n}"), created: 9, ..NewGroup::default() });
    let groups: Vec<GroupUpdate> = (0..7).map(group).collect();
    sites[0].handle.commit(&[Change::Groups(&groups)], &mut Vec::new()).unwrap();
    // 3.2 MB each, in seven parts; a node is killed while they are on their way.
    std::thread::scope(|scope| {
        for (site, first) in sites.iter().zip([0, 100]) {
            scope.spawn(move || {
                for number in first..first + 6 {
                    let begun = Instant::now();
                    loop {
                        match site.offer_lines(number, 200_000) {
                            // It had been in doubt.
                            Ok(ChangeOutcome::Filed(_) | ChangeOutcome::Duplicate) => break,
                            other => {
                                eprintln!(
                                    "{number} {:?}: {other:?} {:?}",
                                    begun.elapsed(),
                                    site.handle.status()
                                );
                                assert!(begun.elapsed() < WAIT_MAX, "{number}: {other:?}");
                            }
                        }
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        nodes.kill(2);
    });
    nodes.run(2);
    wait_until("both are fresh", || sites.iter().all(|site| site.handle.freshen()));
    let answers = sites[0].answers();
    assert_eq!(answers.iter().filter(|line| line.contains("@test.example")).count(), 12);
    assert_eq!(sites[1].answers(), answers);

    // The engine knows a repeated append by its tag.
    let engine = connect(&nodes, "repeats");
    let (to, events) = std::sync::mpsc::channel();
    let log = engine.log(Arc::new(move |event| drop(to.send(event))));
    let tag = MessageTag { member: 9, incarnation: 1, counter: 0 };
    let mut sequences = Vec::new();
    for _ in 0..2 {
        log.append(tag, Bytes::from_static(b"no message of a member"));
        sequences.push(events.recv_timeout(WAIT_MAX).unwrap());
    }
    assert!(matches!(sequences[0], EngineEvent::Appended { .. }), "{sequences:?}");
    assert_eq!(sequences[0], sequences[1]);
    // What no member has written stops all of them, loudly.
    let has_stopped = |site: &Site| matches!(site.handle.status().state, MemberState::Stopped(_));
    wait_until("the members stop", || sites.iter().all(has_stopped));

    // An entry of the table changes by comparing its revision.
    wait_until("the table answers", || engine.get("a") == Ok(None));
    let revision = engine.put_if("a", b"1", 0).unwrap();
    assert_eq!(engine.put_if("a", b"2", 0), Err(TableError::Changed));
    engine.put_if("a", b"2", revision).unwrap();
    assert_eq!(engine.get("a").unwrap().unwrap().value, b"2");
    sites.into_iter().for_each(Site::end);
}

#[test]
fn engines_that_may_lose_what_they_acknowledge_are_refused() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("refused");
    let nodes = Nodes::start(program, &scratch.0, 1, "2m");
    create(&nodes);
    let engine = connect(&nodes, "check");
    let facts = engine.facts().unwrap();
    let found = faults(&facts, &monitored(&nodes), &EngineDemands::default());
    assert!(found.contains(&EngineFault::Replicas(1)), "{found:?}");
    assert!(found.iter().any(|fault| matches!(fault, EngineFault::Lazy(_))), "{found:?}");
    let other = EngineDemands { known: Some((ClusterId([9; 8]), facts.created)), allows_lazy: true };
    let found = faults(&facts, &[], &other);
    assert!(found.iter().any(|fault| matches!(fault, EngineFault::OtherCluster { .. })), "{found:?}");
}

#[test]
fn an_entry_that_was_deleted_can_be_written_again() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("deleted");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    create(&nodes);
    let engine = connect(&nodes, "m1");
    wait_until("the table answers", || engine.put_if("a", b"1", 0).is_ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // As `nats kv del` and `nats kv purge` do.
        let client = async_nats::connect(format!("127.0.0.1:{}", nodes.ports[0][0])).await.unwrap();
        let bucket = async_nats::jetstream::new(client).get_key_value("NR_test_STATE").await.unwrap();
        bucket.delete("a").await.unwrap();
    });
    wait_until("the entry is deleted", || engine.get("a") == Ok(None));
    let revision = engine.put_if("a", b"2", 0).unwrap();
    assert_eq!(engine.put_if("a", b"3", 0), Err(TableError::Changed));
    engine.put_if("a", b"3", revision).unwrap();
}

#[test]
fn a_member_may_append_and_read_and_change_no_stream() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("rights");
    let mut nodes = Nodes::start(program, &scratch.0, 3, "always");
    let file = |name: &str| scratch.0.join(format!("{name}.nk"));
    let key = |name: &str| user_key(&RealDisk::new(), &file(name)).unwrap();
    let user = |name: &str| EngineUser { name: name.into(), public_key: key(name) };
    let at = |ports: &[u16; 3], port: usize| format!("127.0.0.1:{}", ports[port]);
    let conf = |(node, ports): (usize, &[u16; 3])| NodeConf {
        site: "test".into(),
        name: format!("n{node}"),
        listen: at(ports, 0),
        monitor: at(ports, 2),
        route: at(ports, 1),
        routes: nodes.ports.iter().map(|ports| at(ports, 1)).collect(),
        store: scratch.0.join(format!("n{node}/own")),
        log_bytes: 1 << 30,
        route_password: "secret".into(),
        operator: key("operator"),
        system: key("system"),
        allows_changes: false,
        members: vec![user("fe1"), user("fe2")],
        tls: None,
    };
    let texts: Vec<String> = nodes.ports.iter().enumerate().map(|one| conf(one).text()).collect();
    (0..3).for_each(|node| nodes.kill(node));
    nodes.texts = texts;
    (0..3).for_each(|node| nodes.run(node));
    let connect_as = |name: &str| {
        let connection = NatsConnection { credentials: Some(file(name)), ..connection(&nodes, name) };
        NatsEngine::connect(connection)
    };
    let mut operator = None;
    wait_until("the nodes take connections", || {
        operator = connect_as("operator").ok();
        operator.is_some()
    });
    let operator = operator.unwrap();
    wait_until("the log is created", || operator.create(CLUSTER, 3, 1 << 28).is_ok());
    assert!(NatsEngine::connect(connection(&nodes, "fe1")).is_err(), "a stranger");
    key("stranger");
    assert!(connect_as("stranger").is_err());

    let (first, second) = (Arc::new(connect_as("fe1").unwrap()), connect_as("fe2").unwrap());
    let facts = first.facts().unwrap();
    let demands = EngineDemands { known: Some((CLUSTER, facts.created)), allows_lazy: false };
    assert_eq!(faults(&facts, &monitored(&nodes), &demands), []);
    // The table, the log, and requests between members.
    wait_until("the table answers", || first.get("a") == Ok(None));
    first.put_if("a", b"1", 0).unwrap();
    assert_eq!(second.get("a").unwrap().unwrap().value, b"1");
    assert_eq!(second.table_keys("a"), Some(vec!["a".to_owned()]));
    let (to, events) = std::sync::mpsc::channel();
    let log = first.log(Arc::new(move |event| drop(to.send(event))));
    for counter in 0..20 {
        log.append(MessageTag { member: 1, incarnation: 1, counter }, Bytes::from_static(b"a message"));
        assert!(matches!(events.recv_timeout(WAIT_MAX).unwrap(), EngineEvent::Appended { .. }));
    }
    log.follow(0);
    let message = events.recv_timeout(WAIT_MAX).unwrap();
    assert!(matches!(message, EngineEvent::Message(EngineMessage { sequence: 1, .. })), "{message:?}");
    assert!(second.message(7).is_some());
    first.answer_requests("snapshot", |request: &[u8]| [request, b"!"].concat());
    wait_until("the other member answers", || {
        let answers = second.ask_member("fe1", "snapshot", vec![b"a".to_vec(), b"b".to_vec()]);
        answers == [Some(b"a!".to_vec()), Some(b"b!".to_vec())]
    });
    // Every replica can be read.
    for node in ["n0", "n1", "n2"] {
        let mut reader = second.open_replica(node, 1).unwrap();
        assert_eq!(reader.node(), node);
        wait_until("the replica is whole", || {
            let read = second.read_replica(&mut reader, 21).unwrap();
            let is_whole = read.len() == 20;
            reader = second.open_replica(node, 1).unwrap();
            is_whole
        });
    }
    // A stream of its own is refused, and so is the one of the cluster in another form.
    let other =
        NatsConnection { site: "other".into(), credentials: Some(file("fe1")), ..connection(&nodes, "fe1") };
    let other = NatsEngine::connect(other).unwrap();
    assert!(other.create(ClusterId([9; 8]), 3, 1 << 28).is_err());
    assert!(first.create(CLUSTER, 1, 1 << 20).is_err());
    assert_eq!(second.facts().unwrap().replicas, 3);

    // Neither can another program with its credentials remove anything, or read answers to others.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let seed = std::fs::read_to_string(file("fe1")).unwrap().trim().to_owned();
        let options = async_nats::ConnectOptions::new().nkey(seed).custom_inbox_prefix("_INBOX.fe1");
        let options = options.request_timeout(Some(Duration::from_secs(2)));
        let client = options.connect(at(&nodes.ports[0], 0)).await.unwrap();
        let own = client.request("$JS.API.STREAM.INFO.NR_test_LOG", "".into()).await;
        assert!(own.is_ok(), "{own:?}");
        let mut others = client.subscribe("_INBOX.fe2.>").await.unwrap();
        let refused = ["LOG", "STATE"].into_iter().flat_map(|stream| {
            let stream = if stream == "LOG" { "NR_test_LOG" } else { "KV_NR_test_STATE" };
            let smaller = format!("{{\"name\":\"{stream}\",\"max_msgs\":1,\"num_replicas\":1}}");
            [
                (format!("$JS.API.STREAM.PURGE.{stream}"), String::new()),
                (format!("$JS.API.STREAM.DELETE.{stream}"), String::new()),
                (format!("$JS.API.STREAM.MSG.DELETE.{stream}"), "{\"seq\":1}".to_owned()),
                (format!("$JS.API.STREAM.UPDATE.{stream}"), smaller),
                (format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}"), String::new()),
            ]
        });
        let asked = refused.map(|(subject, text)| {
            let client = client.clone();
            async move { (client.request(subject.clone(), text.into()).await, subject) }
        });
        for (answer, subject) in futures_util::future::join_all(asked).await {
            assert!(answer.is_err(), "{subject}: {answer:?}");
        }
        let heard = tokio::time::timeout(Duration::from_millis(500), others.next()).await;
        assert!(!matches!(heard, Ok(Some(_))), "{heard:?}");
        // Nor has it the engine do so, with answers to questions or with messages that are delivered.
        client.request("nr.test.log", "".into()).await.unwrap();
        let smaller = "{\"name\":\"NR_test_LOG\",\"subjects\":[\"nr.test.log\"],\"max_msgs\":1}";
        client.request("nr.test.log", smaller.into()).await.unwrap();
        for stream in ["NR_test_LOG", "KV_NR_test_STATE"] {
            for request in ["DELETE", "UPDATE", "PURGE", "PEER.REMOVE"] {
                let to = format!("$JS.API.STREAM.{request}.{stream}");
                for sequence in [21, 22] {
                    let question = format!("{{\"seq\":{sequence}}}");
                    let subject = "$JS.API.DIRECT.GET.NR_test_LOG";
                    client.publish_with_reply(subject, to.clone(), question.into()).await.unwrap();
                }
                let consumer = format!(
                    "{{\"stream_name\":\"NR_test_LOG\",\"config\":{{\"deliver_subject\":\"{to}\",\"deliver_policy\":\
                     \"by_start_sequence\",\"opt_start_seq\":21,\"ack_policy\":\"none\",\"mem_storage\":true}}}}"
                );
                let created = client.request("$JS.API.CONSUMER.CREATE.NR_test_LOG", consumer.into()).await;
                assert!(created.is_ok(), "{created:?}");
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    assert!(second.get("a").unwrap().is_some());
    assert_eq!(second.table_keys("a"), Some(vec!["a".to_owned()]));
    assert!((1..=20).all(|sequence| second.message(sequence).is_some()));
    assert_eq!(second.facts().unwrap().replicas, 3);
}
