//! Running programs: how they are started and killed, and reading their standard error.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// Time to read the standard error of a program that has ended: a child of it may hold it open.
pub const COMPLAINT_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns a command that is spoken to over pipes: in a process group of its own (see [`ProcessGroup`]), in
/// `/`, and without our environment.
pub fn piped(program: &str, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// The process group of a program, killed when this is dropped, children included, unless
/// [`ProcessGroup::ended`] was called.
#[derive(Debug)]
pub struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    /// Returns the group of the process with this id.
    pub fn of(id: Option<u32>) -> Self {
        Self(id)
    }

    /// Records that the program ended by itself: its id may belong to another process by now.
    pub fn ended(mut self) {
        self.0 = None;
    }

    /// Kills the remaining processes of the group.
    pub fn kill(&mut self) {
        let pid = self.0.take().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The program may have ended by itself meanwhile.
            let _ended = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the end of a program, not for children that it leaves behind. Returns its status, and, if it
/// failed, what [`complaint`] returns.
///
/// # Errors
/// Errors of waiting.
pub async fn wait_for_end(child: &mut Child, complaint_bytes_max: u64) -> io::Result<(ExitStatus, String)> {
    let mut complaint = pin!(complaint(child.stderr.take(), complaint_bytes_max));
    let mut said = None;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            text = &mut complaint, if said.is_none() => said = Some(text),
        }
    };
    let complaint = match said {
        Some(text) => text,
        None if status.success() => String::new(),
        None => timeout(COMPLAINT_TIMEOUT, complaint).await.unwrap_or_default(),
    };
    Ok((status, complaint))
}

/// Returns the beginning of what a program writes to its standard error until it closes it; the rest is read
/// and dropped, so that the program is not blocked.
pub async fn complaint(stderr: Option<ChildStderr>, bytes_max: u64) -> String {
    let mut complaint = Vec::new();
    if let Some(stderr) = stderr {
        let mut begin = stderr.take(bytes_max);
        let _nothing_to_say = begin.read_to_end(&mut complaint).await;
        let _dropped = tokio::io::copy(&mut begin.into_inner(), &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&complaint).trim().to_owned()
}
