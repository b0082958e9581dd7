//! Mail by running a program like `sendmail`: the recipient among its arguments, the mail on its standard
//! input.
//!
//! Exit statuses are those of sysexits.h. Called by `mailer`.

use super::queue::QueuedMail;
use super::unsent::MailError;
use site_base::program::{ProcessGroup, wait_for_end};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Time limit for the program.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum length of its error output in the log, in bytes.
const COMPLAINT_BYTES_MAX: u64 = 1_000;
/// EX_DATAERR, EX_NOUSER, EX_NOHOST: permanent failures.
const NEVER: [i32; 3] = [65, 67, 68];

/// Runs `command`, in whose arguments `%s` is the recipient.
pub(super) async fn send(command: &[String], mail: &QueuedMail) -> Result<(), MailError> {
    let [program, arguments @ ..] = command else {
        return Err(MailError::Down("no program is configured".into()));
    };
    let mut child = Command::new(program)
        .args(arguments.iter().map(|argument| argument.replace("%s", &mail.to)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| MailError::Down(format!("{program}: {error}")))?;
    let group = ProcessGroup::of(child.id());
    let stdin = child.stdin.take();
    let run = async {
        let feeding = async {
            if let Some(mut stdin) = stdin {
                // A program that stops reading reports the reason by its exit status.
                let _gone = stdin.write_all(&with_lf(&mail.text)).await;
            }
        };
        let ((), ended) = tokio::join!(feeding, wait_for_end(&mut child, COMPLAINT_BYTES_MAX));
        ended
    };
    let Ok(ended) = timeout(RUN_TIMEOUT, run).await else {
        return Err(MailError::Later(format!("{program} did not end")));
    };
    group.ended();
    let (status, complaint) = ended.map_err(|error| MailError::Later(format!("{program}: {error}")))?;
    let text = format!("{program}: {status}: {complaint}");
    match status.code() {
        Some(0) => Ok(()),
        Some(code) if NEVER.contains(&code) => Err(MailError::Never(text)),
        _ => Err(MailError::Later(text)),
    }
}

/// Converts line ends to LF, as programs of this system expect.
fn with_lf(text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|&b| b == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                lines.extend_from_slice(line);
                lines.push(b'\n');
            }
            None => lines.extend_from_slice(line),
        }
    }
    lines
}
