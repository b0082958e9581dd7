//! Follows the book's chapter "From one machine to three, and back" as its reader does: each command is run
//! on the machine that the text before it names, in order.
//!
//! A machine is a directory, with an address of its own on the loopback network. Paths are below the
//! directory, ports are free ones, sizes are smaller. Commands about services and other machines have
//! stand-ins.

use crate::Client;
use crate::nodes::{Scratch, free_port, program, wait_until};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MACHINES: [&str; 3] = ["news1", "news2", "news3"];

/// Stand-ins for commands of the system. `$MACHINES` is the directory of all machines.
const STAND_INS: [(&str, &str); 3] = [
    (
        "systemctl",
        "site=$HERE/var/lib/newsreel
runs() { [ -e /proc/$1 ] && ! grep -q '^State:.Z' /proc/$1/status; }
case $1-$2 in
  start-nats-server) nats-server -c $HERE/etc/nats-server.conf >> $HERE/nats.log 2>&1 & echo $! > $HERE/nats-server.pid; sleep 1;;
  start-newsreel)
    newsreel serve --dir $site >> $HERE/newsreel.log 2>&1 & echo $! > $HERE/newsreel.pid
    until newsreel status --dir $site --json 2> /dev/null | grep -q '\"pid\"'; do
      runs $(cat $HERE/newsreel.pid) || { cat $HERE/newsreel.log >&2; exit 1; }
      sleep 0.1
    done;;
  stop-*) kill $(cat $HERE/$2.pid); while runs $(cat $HERE/$2.pid); do sleep 0.1; done; rm $HERE/$2.pid;;
  *) exit 1;;
esac",
    ),
    // Every machine listens at an address of its own.
    (
        "scp",
        "address=${2%%:*}; to=$MACHINES/${address##*.}${2#*:}; mkdir -p $(dirname $to) && cp $1 $to || exit 1
case $to in *.toml) sed -i \"s/^listen = .*/listen = [\\\"$address:$NEWS_PORT\\\"]/\" $to;; esac",
    ),
    ("killall", "shift; for name; do kill -9 $(cat $HERE/$name.pid); rm $HERE/$name.pid; done; sleep 0.3"),
];

struct Machines {
    root: PathBuf,
    /// Ports for news, members, nodes and monitoring, which are the same on all machines.
    ports: [u16; 4],
}

impl Machines {
    fn new(scratch: &Scratch, engine: &Path) -> Self {
        let root = scratch.0.join("machines");
        let bin = scratch.0.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let script = |name: &str, text: &str| {
            let file = bin.join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        STAND_INS.iter().for_each(|(name, text)| script(name, text));
        script("nats-server", &format!("exec {} \"$@\"", engine.display()));
        script("newsreel", &format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_newsreel")));
        for at in 1..=MACHINES.len() {
            std::fs::create_dir_all(root.join(at.to_string()).join("etc")).unwrap();
            std::fs::create_dir_all(root.join(at.to_string()).join("var/lib")).unwrap();
        }
        Self { root, ports: [(); 4].map(|()| free_port()) }
    }

    fn address(at: usize) -> String {
        format!("127.0.77.{at}")
    }

    fn dir(&self, at: usize) -> PathBuf {
        self.root.join(at.to_string())
    }

    /// Returns text of the page as it is on a machine of the test.
    fn here(&self, text: &str, at: usize) -> String {
        let [news, members, nodes, monitor] = self.ports;
        let mut text = text.replace("0.0.0.0:119", &format!("{}:{news}", Self::address(at)));
        // Paths on other machines are made below their directories by the stand-in.
        let is_remote = |rest: &str| rest.ends_with(':');
        for path in ["/var/lib", "/etc/nats-server.conf"] {
            let mut pieces = text.split(path);
            let mut made = pieces.next().unwrap_or_default().to_owned();
            for piece in pieces {
                let below = if is_remote(&made) { String::new() } else { self.dir(at).display().to_string() };
                made = made + &below + path + piece;
            }
            text = made;
        }
        for (n, name) in (1..).zip(MACHINES) {
            for after in [":", " ", "\""] {
                text = text.replace(&format!("{name}{after}"), &format!("{}{after}", Self::address(n)));
            }
        }
        let text = [("2 GiB", "48 MiB"), ("3 GiB", "64 MiB"), ("8 GiB", "80 MiB")]
            .iter()
            .fold(text, |text, (from, to)| text.replace(from, to));
        let text = text.replace(":4222", &format!(":{members}")).replace(":8222", &format!(":{monitor}"));
        match text.contains("engine-conf") {
            true => format!(
                "{} --route-port {nodes} --store {} {}",
                text.split(" > ").next().unwrap(),
                self.dir(conf_of(&text)).join("var/lib/nats").display(),
                text.find(" > ").map_or("", |at| &text[at..])
            ),
            false => text,
        }
    }

    fn run(&self, command: &str, at: usize) {
        let text = self.here(command, at);
        let output = Command::new("sh")
            .args(["-c", &text])
            .current_dir(self.dir(at))
            .env(
                "PATH",
                format!("{}:{}", self.root.with_file_name("bin").display(), std::env::var("PATH").unwrap()),
            )
            .env("HERE", self.dir(at))
            .env("MACHINES", &self.root)
            .env("NEWS_PORT", self.ports[0].to_string())
            .env_remove("NEWSREEL_CONFIG")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{at}: {text}: {out}{err}");
    }

    /// Fetches the overview of the group at a machine; `None` while it does not serve.
    fn rows(&self, at: usize) -> Option<Vec<String>> {
        let stream = TcpStream::connect((Self::address(at), self.ports[0])).ok()?;
        let mut client = Client::of(stream)?;
        let marks = client.ask("GROUP misc.test")?;
        (!marks.starts_with("211 0 ")).then(|| [vec![marks], client.lines("OVER 1-")].concat())
    }

    fn post(&self, at: usize, id: &str) {
        let stream = TcpStream::connect((Self::address(at), self.ports[0])).unwrap();
        let mut client = Client::of(stream).unwrap();
        let answer = client.post(id, "misc.test").unwrap();
        assert!(answer.starts_with("240"), "{at}: {answer}");
    }
}

/// Returns the machine whose configuration a command writes.
fn conf_of(command: &str) -> usize {
    let address = |at: &usize| command.contains(&format!("engine-conf {} ", Machines::address(*at)));
    (1..=MACHINES.len()).find(address).unwrap()
}

impl Drop for Machines {
    fn drop(&mut self) {
        for at in 1..=MACHINES.len() {
            let kill = "for pid in *.pid; do kill -9 $(cat $pid); done 2> /dev/null";
            let _ = Command::new("sh").args(["-c", kill]).current_dir(self.dir(at)).status();
        }
    }
}

/// Returns the blocks of a page: language, text, and the machine that the text before has named last.
fn blocks(page: &str) -> Vec<(String, String, usize)> {
    let mut machine = 1;
    let pieces: Vec<&str> = page.split("\n```").collect();
    let mut blocks = Vec::new();
    for piece in pieces.chunks_exact(2) {
        let [said, block] = piece else { unreachable!() };
        let named = |(at, name): (usize, &&str)| {
            let begins = ["On", "on"].map(|on| format!("{on} `{name}`"));
            begins.iter().filter_map(|begin| said.rfind(begin.as_str())).max().map(|found| (found, at))
        };
        if let Some((_, at)) = (1..).zip(&MACHINES).filter_map(named).max() {
            machine = at;
        }
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), text.replace("\\\n", ""), machine));
    }
    blocks
}

#[test]
fn the_chapter_about_three_machines_works() {
    let Some(engine) = program() else { return };
    let scratch = Scratch::new("chapter");
    let machines = Machines::new(&scratch, &engine);
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/three-machines.md");
    let page = std::fs::read_to_string(book).unwrap();
    let (mut posted, mut serving) = (0, Vec::new());
    for (language, text, at) in blocks(&page) {
        if language == "toml" {
            let file = machines.dir(at).join("var/lib/newsreel/newsreel.toml");
            let before = std::fs::read_to_string(&file).unwrap();
            std::fs::write(file, before + "\n" + &machines.here(&text, at) + "\n").unwrap();
            continue;
        }
        for command in text.lines() {
            let command = command.strip_prefix("$ ").expect("a command begins with $");
            machines.run(command, at);
            if command.contains("newsreel")
                && ["stop", "drain", "killall"].iter().any(|verb| command.contains(verb))
            {
                serving.retain(|other| *other != at);
            }
            if command == "systemctl start newsreel" {
                serving.push(at);
                // Each machine takes a post, and all that serve have all of them under the same numbers.
                for to in serving.clone() {
                    posted += 1;
                    machines.post(to, &format!("<{posted}@chapter.example>"));
                }
                // A busy machine answers after two seconds with what is there.
                let mut first = Vec::new();
                wait_until("the first has all of them", || {
                    first = machines.rows(serving[0]).unwrap();
                    first.len() == posted + 1
                });
                for other in &serving {
                    wait_until("all have the same", || machines.rows(*other).as_ref() == Some(&first));
                }
            }
        }
    }
    assert_eq!(serving, [1]);
    assert!(posted > 10, "{posted}");
}
