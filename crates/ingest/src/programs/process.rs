//! Process of a filter program: its pipes, and one request at a time.
//!
//! Called by `worker`, which enforces the time limits.

use super::protocol::{self, FilterAnswer, HELLO, ProgramLine};
use super::worker::FilterJob;
use super::{questions, shortened};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use site_base::program::{ProcessGroup, piped};
use site_config::FilterProgram;
use site_log::SiteLog;
use std::io;
use std::mem;
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};
use tracing::{debug, error, info, warn};

/// Longest line of a program, in bytes.
const LINE_BYTES_MAX: u64 = 4096;
/// Time for a program to get ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a program to exit after its input is closed.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Most lines of standard error logged within [`LOG_INTERVAL`]; further ones are dropped.
const LOG_LINES_MAX: u32 = 100;
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Fault of a program.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramFault {
    #[error("cannot be started: {0}")]
    CannotStart(io::Error),
    /// It did not get ready in time.
    #[error("was not ready within {} s", START_TIMEOUT.as_secs())]
    NotReady,
    /// The first line is another, with this text.
    #[error("wrote `{0}` as its first line")]
    FirstLine(String),
    /// A line that means nothing, with this text.
    #[error("wrote `{0}`")]
    UnknownLine(String),
    #[error("wrote a line of more than {line_bytes_max} bytes", line_bytes_max = LINE_BYTES_MAX)]
    LineTooLong,
    #[error("wrote more verdicts than it was asked for")]
    TooManyVerdicts,
    #[error("was done before it had written all verdicts")]
    TooFewVerdicts,
    /// Its output ended.
    #[error("ended")]
    Ended,
    /// It has exited, with this status.
    #[error("ended: {0}")]
    Exited(ExitStatus),
    /// No answer within this time.
    #[error("did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("{0}")]
    Io(io::Error),
}

/// A program that is ready for requests.
pub(super) struct FilterProcess {
    pub child: Child,
    group: ProcessGroup,
    input: Option<UnboundedSender<Arc<Vec<u8>>>>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

/// Starts the program of a section and waits until it is ready.
pub(super) async fn start(section: &FilterProgram) -> Result<FilterProcess, ProgramFault> {
    let mut process = spawn(section).map_err(ProgramFault::CannotStart)?;
    match timeout(START_TIMEOUT, process.read_line()).await {
        Ok(Ok(())) if process.line == HELLO => Ok(process),
        Ok(Ok(())) => Err(ProgramFault::FirstLine(process.shown_line())),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(ProgramFault::NotReady),
    }
}

fn spawn(section: &FilterProgram) -> io::Result<FilterProcess> {
    let (program, arguments) = section.program.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut child = piped(program, arguments).spawn()?;
    let group = ProcessGroup::of(child.id());
    let limit = Rlimit { current: Some(section.memory_max), maximum: Some(section.memory_max) };
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    prlimit(pid, Resource::As, limit)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let (input, chunks) = unbounded_channel();
    tokio::spawn(write(stdin, chunks));
    tokio::spawn(log(section.name.clone(), stderr));
    Ok(FilterProcess { child, group, input: Some(input), output: BufReader::new(stdout), line: Vec::new() })
}

impl FilterProcess {
    /// Sends a request and reads its answers; answers received before a failure are kept in the job.
    pub async fn exchange(
        &mut self,
        filter: &str,
        job: &mut FilterJob,
        number: u64,
        log: &Weak<SiteLog>,
    ) -> Result<(), ProgramFault> {
        job.answers.clear();
        self.write(Arc::new(job.head(number)));
        self.write(job.payload.clone());
        let mut headers = None;
        loop {
            self.read_line().await?;
            match protocol::read(&self.line).ok_or_else(|| ProgramFault::UnknownLine(self.shown_line()))? {
                ProgramLine::Verdict(verdict) if job.answers.len() < job.count => {
                    job.answers.push(FilterAnswer { headers: headers.take(), verdict });
                }
                ProgramLine::Verdict(_) => return Err(ProgramFault::TooManyVerdicts),
                ProgramLine::Headers(bytes) => headers = Some(self.read_block(bytes).await?),
                ProgramLine::Question(question) => {
                    let found = questions::answer(filter, log, question);
                    self.write(Arc::new(protocol::reply(found.as_deref())));
                }
                ProgramLine::Done(done) if done == number && job.answers.len() == job.count => return Ok(()),
                ProgramLine::Done(_) => return Err(ProgramFault::TooFewVerdicts),
            }
        }
    }

    /// Closes its input and waits for it; kills it if it does not exit.
    pub async fn end(mut self) {
        self.input = None;
        if timeout(END_TIMEOUT, self.child.wait()).await.is_ok() {
            self.group.ended();
        }
    }

    /// Kills it and waits for it; returns its exit status if it had exited by itself.
    pub async fn kill(mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().ok().flatten();
        self.group.kill();
        let _ended = timeout(END_TIMEOUT, self.child.wait()).await;
        ended
    }

    /// Returns the last line, as shown in the log.
    fn shown_line(&self) -> String {
        shortened(&String::from_utf8_lossy(&self.line))
    }

    fn write(&self, chunk: Arc<Vec<u8>>) {
        if let Some(input) = &self.input {
            // If the program has exited, reading reports it.
            let _gone = input.send(chunk);
        }
    }

    async fn read_line(&mut self) -> Result<(), ProgramFault> {
        self.line = mem::take(&mut self.line);
        read_line(&mut self.output, &mut self.line).await.map_err(ProgramFault::Io)?;
        match self.line.pop() {
            Some(b'\n') => Ok(()),
            Some(_) => Err(ProgramFault::LineTooLong),
            None => Err(ProgramFault::Ended),
        }
    }

    async fn read_block(&mut self, bytes: usize) -> Result<Vec<u8>, ProgramFault> {
        let mut block = vec![0; bytes];
        self.output.read_exact(&mut block).await.map_err(|_| ProgramFault::Ended)?;
        Ok(block)
    }
}

async fn read_line(
    from: &mut (impl AsyncRead + AsyncBufReadExt + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<()> {
    line.clear();
    from.take(LINE_BYTES_MAX).read_until(b'\n', line).await.map(drop)
}

/// Writes chunks in order while answers are read.
async fn write(mut stdin: ChildStdin, mut chunks: UnboundedReceiver<Arc<Vec<u8>>>) {
    while let Some(chunk) = chunks.recv().await {
        if stdin.write_all(&chunk).await.is_err() {
            return;
        }
    }
}

/// Logs the lines of the program's standard error. A line may begin with its level, as in sd-daemon(3).
async fn log(filter: String, stderr: ChildStderr) {
    let (mut stderr, mut line) = (BufReader::new(stderr), Vec::new());
    let (mut begun, mut lines) = (Instant::now(), 0);
    while read_line(&mut stderr, &mut line).await.is_ok() && !line.is_empty() {
        if begun.elapsed() >= LOG_INTERVAL {
            (begun, lines) = (Instant::now(), 0);
        }
        lines += 1;
        if lines == LOG_LINES_MAX {
            warn!(filter, "a filter writes too much; the rest of this minute is not logged");
        }
        if lines >= LOG_LINES_MAX {
            continue;
        }
        let (level, text) = match *line.as_slice() {
            [b'<', level @ b'0'..=b'7', b'>', ref text @ ..] => (level, text),
            _ => (b'6', line.as_slice()),
        };
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        match level {
            b'0'..=b'3' => error!(filter, text, "filter"),
            b'4' => warn!(filter, text, "filter"),
            b'7' => debug!(filter, text, "filter"),
            _ => info!(filter, text, "filter"),
        }
    }
}
