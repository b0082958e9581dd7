//! A peer whose responses to commands about articles are scripted by a test.

use crate::waiting::{let_pass, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Returns the response to a command (`CHECK`, `TAKETHIS`, `IHAVE`, or `ARTICLE` after IHAVE) about an
/// article, given how often it came before; `None` for a proper response. `HANG UP` closes the connection.
pub type Script = dyn Fn(&str, &str, usize) -> Option<String> + Send + Sync;

#[derive(Default)]
struct Seen {
    commands: BTreeMap<(String, String), usize>,
    articles: BTreeSet<String>,
    connections: usize,
    open: usize,
    open_most: usize,
}

/// The peer; its thread ends with the process.
pub struct OddPeer {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl OddPeer {
    pub fn start(
        streaming: bool,
        script: impl Fn(&str, &str, usize) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::start_slow(streaming, Duration::ZERO, script)
    }

    /// Starts a peer that takes this long for each response on a connection.
    pub fn start_slow(
        streaming: bool,
        pause: Duration,
        script: impl Fn(&str, &str, usize) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, script) = (Arc::<Mutex<Seen>>::default(), Arc::new(script));
        let shared = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (shared.clone(), script.clone());
                thread::spawn(move || {
                    note(&seen, |seen| {
                        seen.connections += 1;
                        seen.open += 1;
                        seen.open_most = seen.open_most.max(seen.open);
                    });
                    let _broken = converse(&stream, streaming, pause, &seen, &*script);
                    note(&seen, |seen| seen.open -= 1);
                });
            }
        });
        Self { address, seen }
    }

    /// Returns how often a command came.
    pub fn count(&self, verb: &str, id: &str) -> usize {
        let key = (verb.to_owned(), id.to_owned());
        self.seen.lock().unwrap().commands.get(&key).copied().unwrap_or_default()
    }

    /// Returns the accepted articles.
    pub fn articles(&self) -> BTreeSet<String> {
        self.seen.lock().unwrap().articles.clone()
    }

    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Returns the highest number of connections open at once.
    pub fn open_most(&self) -> usize {
        self.seen.lock().unwrap().open_most
    }

    /// Waits until this many articles were accepted.
    pub fn wait_for(&self, articles: usize) {
        wait_for(|| self.articles().len(), |count| *count >= articles);
    }
}

fn note<T>(seen: &Mutex<Seen>, change: impl FnOnce(&mut Seen) -> T) -> T {
    change(&mut seen.lock().unwrap())
}

fn converse(
    stream: &TcpStream,
    streaming: bool,
    pause: Duration,
    seen: &Mutex<Seen>,
    script: &Script,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut out, mut lines) = (stream, BufReader::new(stream).lines());
    write!(out, "200 odd\r\n")?;
    while let Some(line) = lines.next() {
        let line = line?;
        let (verb, id) = line.split_once(' ').unwrap_or((&line, ""));
        let skip =
            |lines: &mut std::io::Lines<_>| while lines.next().is_some_and(|l| l.is_ok_and(|l| l != ".")) {};
        let answer = |verb: &str, proper: &str| {
            let_pass(pause, "this peer is slow");
            let before = note(seen, |seen| {
                let count = seen.commands.entry((verb.to_owned(), id.to_owned())).or_default();
                *count += 1;
                *count - 1
            });
            let answer = script(verb, id, before).unwrap_or_else(|| format!("{proper} {id}"));
            // Recorded before the sender can know of it.
            if proper.starts_with("23") && verb != "CHECK" && answer.starts_with(proper) {
                note(seen, |seen| seen.articles.insert(id.to_owned()));
            }
            if answer == "HANG UP" { Err(std::io::Error::other("hangs up")) } else { Ok(answer) }
        };
        let has = note(seen, |seen| seen.articles.contains(id));
        let answered = match verb {
            "MODE" if streaming => "203 streaming".to_owned(),
            "AUTHINFO" => if id.starts_with("USER ") { "381 go on" } else { "281 welcome" }.to_owned(),
            "QUIT" => "205 bye".to_owned(),
            "CHECK" => answer(verb, if has { "438" } else { "238" })?,
            "IHAVE" => {
                let answered = answer(verb, if has { "435" } else { "335" })?;
                if answered.starts_with("335") {
                    write!(out, "{answered}\r\n")?;
                    skip(&mut lines);
                    answer("ARTICLE", "235")?
                } else {
                    answered
                }
            }
            "TAKETHIS" => {
                skip(&mut lines);
                answer(verb, "239")?
            }
            _ => "500 what?".to_owned(),
        };
        write!(out, "{answered}\r\n")?;
        if verb == "QUIT" {
            return Ok(());
        }
    }
    Ok(())
}
