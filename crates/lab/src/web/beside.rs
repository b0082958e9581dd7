//! The same mails on newsreel's pages and on public-inbox's, Debian's package `public-inbox`.
//!
//! An inbox is one group here. Both get the mails as they would by moving in: newsreel from a peer,
//! public-inbox as a git repository of its second format (public-inbox-v2-format(5)), which it indexes. Each
//! page is asked for in turns, on a connection of its own, without compression; the pages that are kept for a
//! moment are measured apart, on connections that stay open.

use super::{Options, http, searching};
use crate::articles::group_name;
use crate::client::Client;
use crate::page::put_table;
use crate::rates::median;
use crate::rng::Rng;
use crate::site::{Plan, Site};
use disk::clock::unix_secs;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Mails of the long thread, which comes first; the others are in threads of [`SHORT_THREAD`].
const LONG_THREAD: u64 = 1_000;
const SHORT_THREAD: u64 = 10;
/// References of a mail, at most.
const REFERENCES_MAX: usize = 6;
/// Seconds between two mails.
const MAIL_SECS: u64 = 20;
/// Commands that are sent before their answers are read.
const WINDOW: u64 = 200;
/// What public-inbox needs until it answers.
const START_MAX: Duration = Duration::from_secs(30);
const WORDS: [&str; 16] = [
    "buffer", "cursor", "header", "journal", "kernel", "list", "memory", "number", "packet", "queue",
    "release", "sector", "thread", "update", "volume", "window",
];

/// A mail.
struct Mail {
    id: String,
    date: u64,
    text: String,
}

/// Makes the mails, oldest first.
fn mails(count: u64) -> Vec<Mail> {
    let mut rng = Rng::new(11, 0);
    let now = unix_secs();
    let id = |n: u64| format!("<{n}.mail@lab.example>");
    let mut parents: Vec<Option<u64>> = Vec::new();
    let mut mails = Vec::new();
    for n in 0..count {
        let parent = match n {
            0 => None,
            1..LONG_THREAD => Some(rng.below(n)),
            _ if n % SHORT_THREAD == 0 => None,
            _ => Some(n - 1 - rng.below(n % SHORT_THREAD)),
        };
        parents.push(parent);
        let mut ancestors = Vec::new();
        let mut next = parent;
        while let Some(ancestor) = next.filter(|_| ancestors.len() < REFERENCES_MAX) {
            ancestors.push(id(ancestor));
            next = parents.get(ancestor as usize).copied().flatten();
        }
        ancestors.reverse();
        let date = now - (count - n) * MAIL_SECS;
        let thread = if n < LONG_THREAD { 0 } else { n / SHORT_THREAD };
        let mut word = || WORDS.get(rng.below(16) as usize).copied().unwrap_or_default();
        let about = format!("{} of the {} {thread}", word(), word());
        let mut text = String::new();
        let author = n % 97;
        let _ = write!(
            text,
            "From: Author {author} <author{author}@lab.example>\r\nTo: lab@lab.example\r\n\
             Subject: {}{about}\r\nDate: {}\r\nMessage-ID: {}\r\n",
            if parent.is_some() { "Re: " } else { "" },
            date_text(date),
            id(n)
        );
        if let Some(last) = ancestors.last() {
            let _ = write!(text, "References: {}\r\nIn-Reply-To: {last}\r\n", ancestors.join(" "));
        }
        text.push_str("\r\n");
        for _ in 0..20 {
            let line: Vec<&str> = (0..9).map(|_| word()).collect();
            text.push_str(&line.join(" "));
            text.push_str("\r\n");
        }
        mails.push(Mail { id: id(n), date, text });
    }
    mails
}

fn date_text(date: u64) -> String {
    let mut text = Vec::new();
    netnews::date::format_rfc5322(date.cast_signed(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A running public-inbox with one inbox.
struct PublicInbox {
    child: Child,
    address: SocketAddr,
    dir: PathBuf,
    indexing: Duration,
}

impl PublicInbox {
    /// Makes an inbox of these mails and serves it; `None` where the package is not installed.
    fn start(dir: &Path, address: SocketAddr, mails: &[Mail]) -> io::Result<Option<Self>> {
        if Command::new("public-inbox-init").arg("--help").stdout(Stdio::null()).status().is_err() {
            eprintln!("lab: public-inbox is left out: the package public-inbox is not installed");
            return Ok(None);
        }
        let dir = dir.join("public-inbox");
        let _none_yet = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir)?;
        let inbox = dir.join("inbox");
        let program = |name: &str| {
            let mut command = Command::new(name);
            command.env("HOME", &dir).env("PI_CONFIG", dir.join("config")).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let url = format!("http://{address}/lab");
        done(program("public-inbox-init").args(["-V2", "lab"]).arg(&inbox).args([&url, "lab@lab.example"]))?;
        let epoch = inbox.join("git/0.git");
        if !epoch.is_dir() {
            done(program("git").args(["init", "-q", "--bare"]).arg(&epoch))?;
        }
        import(program("git").arg("--git-dir").arg(&epoch).args(["fast-import", "--quiet"]), mails)?;
        let begun = Instant::now();
        done(program("public-inbox-index").args(["-L", "full"]).arg(&inbox))?;
        let indexing = begun.elapsed();
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let child = program("public-inbox-httpd")
            .args(["-l", &address.to_string(), &format!("-W{workers}")])
            .spawn()?;
        let running = Self { child, address, dir, indexing };
        let begun = Instant::now();
        while let Err(error) = http::get(address, "/lab/") {
            if begun.elapsed() > START_MAX {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(Some(running))
    }
}

impl Drop for PublicInbox {
    fn drop(&mut self) {
        // It ends its workers, which a kill would leave.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _may_have_ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _may_have_ended = self.child.wait();
        let _left_for_the_next_run = fs::remove_dir_all(&self.dir);
    }
}

fn done(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

/// Writes a commit for each mail, whose only file is the mail.
fn import(git: &mut Command, mails: &[Mail]) -> io::Result<()> {
    let mut child = git.stdin(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or_else(|| io::Error::other("git has no input"))?;
    let mut input = io::BufWriter::new(input);
    for (n, Mail { date, text, .. }) in mails.iter().enumerate() {
        let text = text.replace("\r\n", "\n");
        let who = format!("A <a@lab.example> {date} +0000");
        write!(input, "commit refs/heads/master\nmark :{}\nauthor {who}\ncommitter {who}\ndata 0\n", n + 1)?;
        if n > 0 {
            writeln!(input, "from :{n}")?;
        }
        write!(input, "M 100644 inline m\ndata {}\n{text}\n", text.len())?;
    }
    input.flush()?;
    drop(input);
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("git fast-import: {status}"))) }
}

/// Feeds the mails to a group.
fn feed(site: &Site, mails: &[Mail]) -> io::Result<()> {
    let mut client = Client::connect(&site.address())?;
    client.expect("MODE STREAM", "203")?;
    let head = format!("Path: lab.example!not-for-mail\r\nNewsgroups: {}\r\n", group_name(0));
    let mut waiting = 0;
    let answer = |client: &mut Client| match client.answer()? {
        answer if answer.starts_with("239") => Ok(()),
        answer => Err(io::Error::other(answer)),
    };
    for Mail { id, text, .. } in mails {
        client
            .queue_article(id.as_bytes(), format!("{head}{text}").into_bytes())
            .map_err(io::Error::other)?;
        waiting += 1;
        if waiting >= WINDOW {
            answer(&mut client)?;
            waiting -= 1;
        }
    }
    (0..waiting).try_for_each(|_| answer(&mut client))
}

/// A page, as both name it.
struct PagePair {
    what: &'static str,
    ours: String,
    theirs: String,
}

fn pages(count: u64) -> Vec<PagePair> {
    let group = group_name(0);
    let id = |n: u64| format!("{n}.mail@lab.example");
    let of_ours = |n: u64| id(n).replace('@', "%40");
    let short = LONG_THREAD + (count - LONG_THREAD) / 2 / SHORT_THREAD * SHORT_THREAD;
    let pair = |what, ours, theirs| PagePair { what, ours, theirs };
    vec![
        pair("newest threads", format!("/groups/{group}"), "/lab/".into()),
        pair("one message", format!("/article/{}", of_ours(short)), format!("/lab/{}/", id(short))),
        pair(
            "a thread of 10",
            format!("/groups/{group}/thread/{}", of_ours(short)),
            format!("/lab/{}/T/", id(short)),
        ),
        pair(
            "a thread of 1,000",
            format!("/groups/{group}/thread/{}", of_ours(0)),
            format!("/lab/{}/T/", id(0)),
        ),
        pair(
            "one message, raw",
            format!("/article/{}/raw", of_ours(short)),
            format!("/lab/{}/raw", id(short)),
        ),
        pair(
            "a thread of 10 as a mailbox",
            format!("/groups/{group}/thread/{}/mbox", of_ours(short)),
            format!("/lab/{}/t.mbox.gz", id(short)),
        ),
        pair("Atom feed", format!("/groups/{group}/atom"), "/lab/new.atom".into()),
        pair("search for a common word", format!("/search?q=kernel+group:{group}"), "/lab/?q=kernel".into()),
        pair(
            "search for a rare subject",
            format!("/search?q=subject:{}", short / SHORT_THREAD),
            format!("/lab/?q=s:{}", short / SHORT_THREAD),
        ),
    ]
}

/// Returns how long a page takes, in milliseconds, and its size.
fn timed(address: SocketAddr, path: &str, round: usize) -> io::Result<(f64, usize)> {
    // Another address each time, so that no page is sent again as it is.
    let mark = if path.contains('?') { '&' } else { '?' };
    let begun = Instant::now();
    let bytes = http::get(address, &format!("{path}{mark}round={round}"))?.len();
    Ok((1_000.0 * begun.elapsed().as_secs_f64(), bytes))
}

/// Compares the pages; returns whether ours are ahead in each row.
pub fn run(options: &Options) -> io::Result<bool> {
    let count = options.mails.max(2 * LONG_THREAD);
    let mails = mails(count);
    let theirs = SocketAddr::from(([127, 0, 0, 1], options.place.port + 2));
    let Some(other) = PublicInbox::start(&options.place.dir, theirs, &mails)? else { return Ok(true) };
    let plan = Plan { groups: 1, buffer_bytes: 256 << 20, durability: None };
    let mut site = Site::make(&options.place, "beside", options.place.port, plan)?;
    site.add_pages(options.web())?;
    searching::turn_on(&site)?;
    site.start(&group_name(0))?;
    let begun = Instant::now();
    feed(&site, &mails)?;
    searching::wait_until_complete(&site, count)?;
    let indexing = begun.elapsed();
    let mut table = String::from(
        "| page | newsreel, ms (least to most) | public-inbox, ms (least to most) | ratio | bytes |\n\
         |---|---:|---:|---:|---:|\n",
    );
    let mut holds = true;
    for PagePair { what, ours: own, theirs } in pages(count) {
        let (mut here, mut there, mut sizes) = (Vec::new(), Vec::new(), (0, 0));
        for round in 0..options.rounds.max(3) {
            let (time, bytes) = timed(options.web(), &own, round)?;
            let (other_time, other_bytes) = timed(other.address, &theirs, round)?;
            here.push(time);
            there.push(other_time);
            sizes = (bytes, other_bytes);
        }
        let ratio = median(there.clone()) / median(here.clone());
        holds &= ratio > 1.0;
        let _ = writeln!(
            table,
            "| {what} | {} | {} | {ratio:.1} | {}, {} |",
            spread(&here, 2),
            spread(&there, 2),
            sizes.0,
            sizes.1
        );
    }
    let kept = |address, path: &str| super::kept_rate(address, path);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(3) {
        here.push(kept(options.web(), &format!("/groups/{}", group_name(0)))?);
        there.push(kept(other.address, "/lab/")?);
    }
    let ratio = median(here.clone()) / median(there.clone());
    holds &= ratio > 1.0;
    let _ = writeln!(
        table,
        "| newest threads, a second, asked for again and again | {} | {} | {ratio:.1} | |",
        spread(&here, 0),
        spread(&there, 0)
    );
    let ratio = other.indexing.as_secs_f64() / indexing.as_secs_f64();
    holds &= ratio > 1.0;
    let _ = writeln!(
        table,
        "| moving in and indexing {count} mails, s | {:.1} | {:.1} | {ratio:.1} | |",
        indexing.as_secs_f64(),
        other.indexing.as_secs_f64()
    );
    print!("{table}");
    if let Some(docs) = &options.docs {
        put_table(&docs.join("web.md"), "make bench-web", &table)?;
    }
    site.stop()?;
    fs::remove_dir_all(site.dir())?;
    Ok(holds)
}

/// Returns a median with the least and the most.
fn spread(figures: &[f64], digits: usize) -> String {
    let (least, most) =
        figures.iter().fold((f64::MAX, f64::MIN), |(least, most), one| (least.min(*one), most.max(*one)));
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", median(figures.to_vec()))
}
