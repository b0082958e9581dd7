//! A program that reads a line for each article on its standard input, as in INN's channel feeds.
//!
//! It runs as long as the feed, and is started again when it ends. Both ends of the pipe are held here,
//! which shows how much the program has read; an article counts as sent only then. Lines not read when it
//! ends are written again for the next one. If the server is killed, the program reads the lines left in
//! the pipe, and the next server writes them once more: at most one pipe of lines is repeated.

use crate::outlets::ProgramChannel;
use crate::outlets::lines;
use crate::peer::feed::{FeedTrouble, PeerFeed};
use crate::peer::queue::OfferTicket;
use crate::sending::connection::ConnectionEnd;
use crate::shared::FeedContext;
use rustix::io::ioctl_fionread;
use site_base::counters::add;
use site_base::program::{COMPLAINT_TIMEOUT, ProcessGroup, complaint};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{sleep, timeout};
use tracing::info;

/// Bytes of lines written at once: a pipe takes this many whole or not at all, so that no line is split.
const WRITE_BYTES_MAX: usize = 4096;
/// Interval for checking how much the program has read.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the program to exit after its input is closed.
const END_TIMEOUT: Duration = Duration::from_secs(4);
/// Bytes of its error output shown.
const COMPLAINT_BYTES_MAX: u64 = 1_000;

/// A line not read by the program yet.
#[derive(Debug)]
struct UnreadLine {
    /// End of the line, in bytes since the program was started.
    end: u64,
    ticket: OfferTicket,
    article_bytes: u64,
}

/// A running program.
struct RunningProgram<'a> {
    peer: &'a PeerFeed,
    shared: &'a FeedContext,
    child: Child,
    group: ProcessGroup,
    complaint: JoinHandle<String>,
    /// Standard input of the program, from both ends; nothing is read from it here.
    pipe: Option<pipe::Sender>,
    input: PipeReader,
    /// Bytes of lines so far, and those of them written to the pipe.
    queued: u64,
    written: u64,
    unread: VecDeque<UnreadLine>,
    progressed: bool,
}

impl Drop for RunningProgram<'_> {
    fn drop(&mut self) {
        let mut window = self.peer.window.lock();
        self.unread.drain(..).for_each(|line| window.queue.give_back(line.ticket));
    }
}

/// Runs the program until it ends, or the feed does.
pub(crate) async fn run(peer: &PeerFeed, own: &ProgramChannel, shared: &FeedContext) -> ConnectionEnd {
    let Some((name, arguments)) = own.words.split_first() else { return ConnectionEnd::default() };
    let mut running = match start(peer, shared, name, arguments) {
        Ok(running) => running,
        Err(error) => return ConnectionEnd { error: Some(format!("{name}: {error}")), progressed: false },
    };
    info!(peer = peer.name, program = name, process = running.child.id(), "program started");
    peer.connections.fetch_add(1, Ordering::Relaxed);
    let mut ended = running.feed(own).await;
    if ended.is_ok() {
        ended = running.end().await;
    }
    running.settle_read();
    peer.connections.fetch_sub(1, Ordering::Relaxed);
    ConnectionEnd { error: ended.err().map(|why| format!("{name}: {why}")), progressed: running.progressed }
}

fn start<'a>(
    peer: &'a PeerFeed,
    shared: &'a FeedContext,
    name: &str,
    arguments: &[String],
) -> io::Result<RunningProgram<'a>> {
    let (input, pipe) = io::pipe()?;
    let pipe = Some(pipe::Sender::from_owned_fd(OwnedFd::from(pipe))?);
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::from(input.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = ProcessGroup::of(child.id());
    let complaint = tokio::spawn(complaint(child.stderr.take(), COMPLAINT_BYTES_MAX));
    let (queued, written, unread, progressed) = (0, 0, VecDeque::new(), false);
    Ok(RunningProgram {
        peer,
        shared,
        child,
        group,
        complaint,
        pipe,
        input,
        queued,
        written,
        unread,
        progressed,
    })
}

impl RunningProgram<'_> {
    /// Writes lines. Returns `Ok` if the program should end, or why it has ended by itself.
    async fn feed(&mut self, own: &ProgramChannel) -> Result<(), ProgramEnd> {
        let peer = self.peer;
        let mut end = peer.end.subscribe();
        let (mut text, mut at) = (Vec::new(), 0);
        loop {
            let mut woken = pin!(peer.offers.notified());
            woken.as_mut().enable();
            self.settle_read();
            if peer.is_halted() {
                return Ok(());
            }
            if at == text.len() {
                text.clear();
                at = 0;
                block_in_place(|| self.take(&mut text));
            }
            let Some(pipe) = &mut self.pipe else { return Ok(()) };
            let lines = whole_lines(text.get(at..).unwrap_or_default());
            let status = tokio::select! {
                biased;
                status = self.child.wait() => status,
                () = own.restart.notified() => return Ok(()),
                _ = end.changed() => continue,
                written = pipe.write(lines), if !lines.is_empty() => {
                    let written = written.map_err(ProgramEnd::Io)?;
                    at += written;
                    self.written += written as u64;
                    continue;
                }
                () = woken => continue,
                () = peer.is_due(), if lines.is_empty() => continue,
                () = sleep(LOOK_INTERVAL), if !self.unread.is_empty() => continue,
            };
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(self.ended(status).await);
        }
    }

    /// Takes offers and appends their lines.
    fn take(&mut self, text: &mut Vec<u8>) {
        let (peer, shared) = (self.peer, self.shared);
        while text.len() < WRITE_BYTES_MAX / 2
            && let Some(taken) = peer.take(&shared.hub.frontier)
        {
            if !shared.is_there(peer, &taken.offer) {
                peer.settle(taken.ticket);
                continue;
            }
            lines::append(&peer.send.lines, &taken.offer, &peer.name, &shared.spool, text);
            let end = self.queued + text.len() as u64;
            let (ticket, article_bytes) = (taken.ticket, taken.offer.wire_bytes);
            self.unread.push_back(UnreadLine { end, ticket, article_bytes });
        }
        self.queued += text.len() as u64;
    }

    /// Settles the offers whose lines the program has read.
    fn settle_read(&mut self) {
        let in_pipe = match ioctl_fionread(&self.input) {
            Ok(bytes) => bytes,
            Err(_) => return,
        };
        let read = self.written.saturating_sub(in_pipe);
        let mut settled = 0;
        while let Some(line) = self.unread.pop_front_if(|line| line.end <= read) {
            self.peer.settle(line.ticket);
            add(&self.peer.counts.sent_bytes, line.article_bytes as usize);
            settled += 1;
        }
        if settled > 0 {
            self.progressed = true;
            self.peer.works(FeedTrouble::Peer);
            for count in [&self.peer.counts.offered, &self.peer.counts.accepted] {
                add(count, settled);
            }
            self.peer.note(&self.shared.hub.frontier);
        }
    }

    /// Ends the program's input and waits for it.
    async fn end(&mut self) -> Result<(), ProgramEnd> {
        self.pipe = None;
        match timeout(END_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.ended(status.to_string()).await),
            Ok(Err(error)) => Err(ProgramEnd::Io(error)),
            Err(_) => Err(ProgramEnd::Killed),
        }
    }

    /// Returns its end with this status, with its error output.
    async fn ended(&mut self, status: String) -> ProgramEnd {
        // A child of it may hold its standard error open.
        self.group.kill();
        let complaint = match timeout(COMPLAINT_TIMEOUT, &mut self.complaint).await {
            Ok(Ok(complaint)) => complaint,
            _ => String::new(),
        };
        ProgramEnd::Ended { status, complaint }
    }
}

/// The way in which a program ended other than as it was asked to.
#[derive(Debug)]
enum ProgramEnd {
    /// It ended by itself, or in failure.
    Ended {
        /// Exit status of the program.
        status: String,
        /// Error output of the program; empty if there is none.
        complaint: String,
    },
    /// It was killed, as it did not end in time.
    Killed,
    /// It cannot be written to, or waited for.
    Io(io::Error),
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status, complaint } if complaint.is_empty() => write!(f, "ended: {status}"),
            Self::Ended { status, complaint } => write!(f, "ended: {status}: {complaint}"),
            Self::Killed => f.write_str("killed, since it did not end with its input"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProgramEnd {}

/// Returns the whole lines that are written at once.
fn whole_lines(text: &[u8]) -> &[u8] {
    match text.get(..WRITE_BYTES_MAX) {
        Some(begin) => memchr::memrchr(b'\n', begin).map_or(text, |lf| text.get(..=lf).unwrap_or(text)),
        None => text,
    }
}
