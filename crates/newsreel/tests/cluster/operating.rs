//! What operators of a cluster do: run one on a single machine, let members join through the log's nodes,
//! take the place of one whose disk is lost, drain one, compare the nodes, and end a cluster.

use crate::nodes::{Nodes, Scratch, WAIT_MAX, program, wait_until};
use crate::{Client, DATE, Member, await_same_digest, done, members_of, newsreel, overview};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A whole cluster on this machine, run by `cluster up`.
struct Up {
    child: Child,
    said: String,
}

impl Up {
    fn start(dir: &Path, engine: &Path, port: u16) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_newsreel"))
            .args(["cluster", "up", "--nodes", "3", "--members", "2", "--port", &port.to_string(), "--dir"])
            .arg(dir)
            .arg("--engine")
            .arg(engine)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !said.contains("Stop with Ctrl-C") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said} {:?}", child.wait());
        }
        Self { child, said }
    }

    /// Interrupts it, as Ctrl-C does.
    fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut ended = None;
        wait_until("the cluster ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Ends its children, too, unless the test has ended it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < WAIT_MAX {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns the ports that `cluster up` has chosen for a program.
fn chosen_ports(dir: &Path, name: &str) -> Vec<u16> {
    let text = std::fs::read_to_string(dir.join("ports")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.split(' ').map(|port| port.parse().unwrap()).collect()
}

#[test]
fn a_whole_cluster_runs_on_one_machine_is_ended_by_ctrl_c_and_started_again() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("up");
    let dir = scratch.0.join("all");
    // Far from the ports of other tests.
    let first = 14_000 + (std::process::id() % 9_000) as u16;
    let up = Up::start(&dir, &program, first);
    assert!(up.said.contains("a log on 3 nodes, and 2 servers of one site"), "{}", up.said);
    let news = ["fe1", "fe2"].map(|name| chosen_ports(&dir, name)[0]);
    let post = |id: &str| {
        let answer = Client::connect(news[0]).unwrap().post(id, "local.test").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    };
    post("<1@try.example>");
    let number = |port: u16, id: &str| {
        let mut client = Client::connect(port).unwrap();
        assert!(client.ask("GROUP local.test").unwrap().starts_with("211"));
        client
            .lines("OVER 1-")
            .iter()
            .find(|line| line.contains(id))
            .map(|line| line.split('\t').next().unwrap().to_owned())
    };
    assert_eq!(number(news[1], "<1@try.example>"), Some("1".into()));
    let status = done(&dir.join("fe2"), &["cluster", "status"]);
    assert!(["on 3 nodes", "fe1", "fe2"].iter().all(|part| status.contains(part)), "{status}");
    // Another call for the directory is refused, and so is a stranger at the nodes.
    let mut again = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    let again =
        again.args(["cluster", "up", "--engine"]).arg(&program).arg("--dir").arg(&dir).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("runs already"), "{again:?}");
    up.interrupt();
    let ports: Vec<u16> =
        ["e1", "e2", "e3", "fe1", "fe2"].iter().flat_map(|name| chosen_ports(&dir, name)).collect();
    for port in ports {
        assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok(), "{port} is in use");
    }

    let up = Up::start(&dir, &program, first);
    assert_eq!(news, ["fe1", "fe2"].map(|name| chosen_ports(&dir, name)[0]));
    post("<2@try.example>");
    for port in news {
        assert_eq!(number(port, "<1@try.example>"), Some("1".into()));
        assert_eq!(number(port, "<2@try.example>"), Some("2".into()));
    }
    up.interrupt();
}

#[test]
fn without_a_fitting_engine_a_cluster_is_refused_with_advice() {
    let scratch = Scratch::new("no-engine");
    let refused = |path: &Path, arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_newsreel"))
            .args(["cluster", "up"])
            .args(arguments)
            .arg("--dir")
            .arg(scratch.0.join("all"))
            .env("PATH", path)
            .env_remove("NEWSREEL_NATS_SERVER")
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = refused(Path::new("/nowhere"), &[]);
    for part in [
        "no nats-server in PATH",
        "2.15.2",
        "go install github.com/nats-io/nats-server/v2@latest",
        "--engine",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let old = scratch.0.join("nats-server");
    std::fs::write(&old, "#!/bin/sh\necho nats-server: v2.9.10\n").unwrap();
    assert!(Command::new("chmod").arg("755").arg(&old).status().unwrap().success());
    let told = refused(Path::new("/bin:/usr/bin"), &["--engine", old.to_str().unwrap()]);
    assert!(told.contains("the engine has version 2.9.10; install nats-server 2.15.2"), "{told}");
}

#[test]
fn a_nodes_printed_configuration_is_valid_and_names_its_members() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("engine-conf");
    let member = Member::new(&scratch, "fe1");
    done(&member.dir, &["init", "--buffer", "32 MiB", "--path-identity", "a.example"]);
    let file = member.dir.join("newsreel.toml");
    let buffers = "buffers = [\"text0\", \"text1\"]\n";
    let text =
        std::fs::read_to_string(&file).unwrap().replace(buffers, &format!("{buffers}ring = \"16 MiB\"\n"));
    let section = "[cluster]\nservers = [\"e1:4222\", \"e2:4222\", \"e3:4222\"]\n\
                   monitor = [\"e1:8222\", \"e2:8222\", \"e3:8222\"]\nmember = \"fe1\"\n";
    std::fs::write(&file, text + section).unwrap();
    let keys = scratch.0.join("keys");
    let print = |node: &str| {
        let keys = keys.to_str().unwrap();
        newsreel(
            &member.dir,
            &["cluster", "engine-conf", node, "--keys", keys, "--member", "fe1", "--member", "fe2"],
        )
    };
    let (first, again) = (print("e2"), print("e2"));
    assert!(first.status.success(), "{first:?}");
    assert_eq!(first.stdout, again.stdout, "keys are made once");
    let file = scratch.0.join("e2.conf");
    std::fs::write(&file, &first.stdout).unwrap();
    let checked = Command::new(&program).arg("-t").arg("-c").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    for name in ["operator", "fe1", "fe2"] {
        assert!(keys.join(format!("{name}.nk")).is_file(), "{name}");
    }
    let refused = print("e4");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("e4 is none of [cluster] servers"),
        "{refused:?}"
    );
}

/// Removes everything of a member but its configuration.
pub(crate) fn lose_disk(member: &Member) {
    for entry in std::fs::read_dir(&member.dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false if path.ends_with("newsreel.toml") => {}
            false => std::fs::remove_file(path).unwrap(),
        }
    }
}

#[test]
fn members_join_through_the_nodes_replace_a_lost_disk_and_the_last_one_is_a_site_again() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("joining");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    let posted = |member: &Member, id: &str| {
        let answer = member.client().post(id, "test.a").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    };
    (0..50).for_each(|n| posted(&members[n % 2], &format!("<{n}@join.example>")));

    // A third one joins with no file carried.
    let mut third = Member::new(&scratch, "fe3");
    let told = done(&members[0].dir, &["cluster", "invite", "fe3"]);
    assert!(told.contains("newsreel cluster join\n"), "{told}");
    let text = std::fs::read_to_string(members[0].dir.join("newsreel.toml")).unwrap();
    let own = [(members[0].port, third.port), (members[0].web, third.web)];
    let text = own.iter().fold(text, |text, (from, to)| {
        text.replace(&format!("127.0.0.1:{from}\""), &format!("127.0.0.1:{to}\""))
    });
    std::fs::create_dir_all(&third.dir).unwrap();
    let text = text.replace("member = \"fe1\"", "member = \"fe3\"");
    std::fs::write(third.dir.join("newsreel.toml"), &text).unwrap();
    let key = members[0].dir.join("cluster.key");
    std::fs::copy(&key, third.dir.join("cluster.key")).unwrap();
    // Invited again, as by one who wants a snapshot in a file, and without the key.
    let file = scratch.0.join("fe3.snapshot");
    done(&members[0].dir, &["cluster", "invite", "fe3", file.to_str().unwrap()]);
    let own_key = third.dir.join("cluster.key");
    std::fs::remove_file(&own_key).unwrap();
    let refused = newsreel(&third.dir, &["cluster", "join"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("copy it from another member"), "{refused:?}");
    std::fs::copy(&key, &own_key).unwrap();
    // A snapshot that was fetched earlier and is damaged is told, and not tried again.
    let fetched = third.dir.join("joining/0.fetched");
    let mut damaged = std::fs::read(file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::create_dir_all(third.dir.join("joining")).unwrap();
    std::fs::write(&fetched, damaged).unwrap();
    let refused = newsreel(&third.dir, &["cluster", "join"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("damaged"), "{refused:?}");
    assert!(!refused.status.success() && !fetched.exists());
    // What was restored of it is in the way of another one.
    let refused = newsreel(&third.dir, &["cluster", "join"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let (_, paths) = said.split_once("rm -rf ").expect(&said);
    for path in paths.split_whitespace() {
        let _either = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
    }
    let told = done(&third.dir, &["cluster", "join"]);
    assert!(told.contains("joined with"), "{told}");
    // One that never joins is removed again; one that runs is not, nor does it leave.
    done(&members[0].dir, &["cluster", "invite", "never"]);
    let told = done(&members[0].dir, &["cluster", "remove", "never"]);
    assert!(told.contains("never is no member any more; 3 members left"), "{told}");
    let refused = newsreel(&members[0].dir, &["cluster", "remove", "fe2"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("fe2 runs"), "{refused:?}");
    assert_eq!(std::fs::read_dir(third.dir.join("joining")).unwrap().count(), 0);
    third.serve();
    posted(&third, "<third@join.example>");
    members.push(third);
    await_same_digest(&members);

    // The disk of the second is lost.
    members[1].kill();
    lose_disk(&members[1]);
    std::fs::copy(&key, members[1].dir.join("cluster.key")).unwrap();
    posted(&members[0], "<meanwhile@join.example>");
    let refused = newsreel(&members[1].dir, &["cluster", "join"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("fe2 runs elsewhere"), "{refused:?}");
    wait_until("the second is known to be away", || {
        let refused = newsreel(&members[1].dir, &["cluster", "join", "--from", "fe3"]);
        String::from_utf8_lossy(&refused.stderr).contains("newsreel cluster join --replace")
    });
    done(&members[1].dir, &["cluster", "join", "--from", "fe3", "--replace"]);
    members[1].serve();
    await_same_digest(&members);

    // Two leave; the last one ends the cluster.
    let seen = overview(&mut members[0].client());
    for at in [2, 1] {
        members[0].stop();
        let refused = newsreel(&members[0].dir, &["cluster", "leave", "--last"]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("there are other members"), "{refused:?}");
        members[0].serve();
        members[at].stop();
        done(&members[at].dir, &["cluster", "leave"]);
    }
    members[0].stop();
    let told = done(&members[0].dir, &["cluster", "leave", "--last"]);
    assert!(told.contains("a site on one machine"), "{told}");
    done(&members[0].dir, &["cluster", "leave", "--last"]);
    let file = members[0].dir.join("newsreel.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.split("[cluster]").next().unwrap()).unwrap();
    members[0].serve();
    assert_eq!(overview(&mut members[0].client()), seen);
    drop(nodes);
    posted(&members[0], "<alone@join.example>");
    done(&members[0].dir, &["group", "add", "test.alone"]);
    assert!(members[0].client().ask("GROUP test.a").unwrap().starts_with("211 54 1 54 "));
    members[0].kill();
    members[0].serve();
    assert!(members[0].client().ask("STAT <alone@join.example>").unwrap().starts_with("223"));
    members[0].stop();
}

#[test]
fn a_member_that_is_drained_takes_no_connections_and_stops_while_another_serves() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("draining");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let mut members = members_of(&["fe1", "fe2"], &scratch, &nodes, "");
    let mut open = members[1].client();
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| done(&members[1].dir, &["cluster", "drain", "--wait", "8"]));
        wait_until("new connections are refused", || Client::connect(members[1].port).is_none());
        // Those that are open go on until the end.
        assert!(open.ask("GROUP test.a").unwrap().starts_with("211"));
        assert_eq!(members[1].page("/ready"), 503);
        let status = || done(&members[0].dir, &["cluster", "status"]);
        wait_until("it says so", || status().contains("takes no new connections"));
        // The other one does not retire meanwhile.
        let refused = newsreel(&members[0].dir, &["cluster", "drain"]);
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("no other member follows the log"), "{told}");
        let said = drained.join().unwrap();
        assert!(said.contains("1 connection ended now") && said.contains("it has stopped"), "{said}");
    });
    let ended = members[1].running.take().unwrap().wait().unwrap();
    assert!(ended.success(), "{ended}");
    assert!(open.line().is_none_or(|line| line.starts_with("400")));
    assert!(members[0].client().post("<drained@three.example>", "test.a").unwrap().starts_with("240"));
    let status = done(&members[0].dir, &["cluster", "status"]);
    assert!(status.lines().any(|line| line.starts_with("fe2") && line.contains("has stopped")), "{status}");
    // The only one that serves is not drained.
    let refused = newsreel(&members[0].dir, &["cluster", "drain"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("no other member follows the log"),
        "{refused:?}"
    );
    // One that is stopped as soon as its port is open ends in order, too.
    members[1].serve();
    members[1].stop();
    members[1].serve();
    await_same_digest(&members);
    let said = done(&members[0].dir, &["cluster", "upgrade"]);
    assert!(said.contains("members write format 1, the newest"), "{said}");
}

#[test]
fn a_node_with_a_damaged_log_is_named() {
    let Some(program) = program() else { return };
    let scratch = Scratch::new("scrubbing");
    let nodes = Nodes::start(program, &scratch.0, 3, "always");
    let members = members_of(&["fe1"], &scratch, &nodes, "");
    for n in 0..300 {
        let answer = members[0].client().post(&format!("<{n}@scrub.example>"), "test.a").unwrap();
        assert!(answer.starts_with("240"), "{answer}");
    }
    // Of a size near that of the largest message.
    let (mut body, mut state) = (String::new(), 1_u64);
    for _ in 0..12_380 {
        for _ in 0..78 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            body.push(char::from(b'A' + (state >> 33) as u8 % 26));
        }
        body += "\r\n";
    }
    let large = format!(
        "TAKETHIS <large@scrub.example>\r\nPath: p!not-for-mail\r\nFrom: a@x.example\r\nNewsgroups: test.a\r\n\
         Subject: large\r\nMessage-ID: <large@scrub.example>\r\nDate: {DATE}\r\n\r\n{body}."
    );
    let answer = members[0].client().ask(&large).unwrap();
    assert!(answer.starts_with("239"), "{answer}");
    let scrub = || newsreel(&members[0].dir, &["cluster", "scrub"]);
    let sound = scrub();
    let said = String::from_utf8_lossy(&sound.stdout);
    assert!(sound.status.success() && said.matches("the same as the others").count() == 3, "{sound:?}");
    // A disk changes a byte in the middle of the log of one node.
    let path = scratch.0.join("n1/data/jetstream/$G/streams/NR_three_LOG/msgs/1.blk");
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[at] ^ 0x40], at as u64).unwrap();
    wait_until("the damaged node is named", || {
        let damaged = scrub();
        let said = String::from_utf8_lossy(&damaged.stdout).into_owned();
        eprintln!("{said}{}", String::from_utf8_lossy(&damaged.stderr));
        let named: Vec<&str> =
            said.lines().filter(|line| line.contains("LACKS") || line.contains("OTHERWISE")).collect();
        named.len() == 1 && named[0].starts_with("n1:")
    });
}
