//! Signing of approved articles by a program, in the header X-PGP-Sig.
//!
//! The program reads the text to sign and writes a detached signature, armored, as gpg does; it manages its
//! own key. Called by `approving`. Form: `netnews::control::pgp_sig`.

use super::refusal::PostRefusal;
use netnews::control::pgp_sig::UnsignedArticle;
use netnews::{Article, Known};
use site_base::printable;
use site_base::program::{ProcessGroup, complaint, piped};
use std::io;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Time limit for the program.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum length of a signature; those of the largest keys have some 1,500 bytes.
const SIGNATURE_BYTES_MAX: u64 = 64 << 10;
/// Maximum length of its error output in the log, in bytes.
const COMPLAINT_BYTES_MAX: u64 = 500;

/// Returns a complete article signed by `command`. Signatures added by the poster are removed.
pub(super) async fn signed(command: &[String], wire: &[u8]) -> Result<Vec<u8>, PostRefusal> {
    let wire = unsigned(wire)?;
    let article = Article::parse(&wire)?;
    let unsigned =
        UnsignedArticle::of(&article).map_err(|error| PostRefusal::NotSigned(error.to_string()))?;
    let said = match timeout(TIME_MAX, run(command, &unsigned.message)).await {
        Ok(said) => said.map_err(|error| PostRefusal::NotSigned(error.to_string()))?,
        Err(_) => {
            let text = format!("{} did not end within {} s", command_name(command), TIME_MAX.as_secs());
            return Err(PostRefusal::NotSigned(text));
        }
    };
    let header = std::str::from_utf8(&said).ok().and_then(|armored| unsigned.header(armored));
    let no_signature =
        || PostRefusal::NotSigned(format!("{} has written no signature", command_name(command)));
    let header = header.ok_or_else(no_signature)?;
    let (head, rest) = wire.split_at_checked(article.head().len()).unwrap_or((&wire, &[]));
    Ok([head, header.as_bytes(), rest].concat())
}

fn command_name(command: &[String]) -> &str {
    command.first().map_or("", String::as_str)
}

/// Returns the article without X-PGP-Sig headers.
fn unsigned(wire: &[u8]) -> Result<Vec<u8>, PostRefusal> {
    let mut wire = wire.to_vec();
    loop {
        let lines = Article::parse(&wire)?.header_lines(Known::XPgpSig);
        match lines.filter(|lines| !lines.is_empty()) {
            Some(lines) => drop(wire.drain(lines)),
            None => return Ok(wire),
        }
    }
}

/// Reason why the program has signed nothing.
#[derive(Debug, thiserror::Error)]
enum SigningError {
    /// The configuration names no program.
    #[error("no program is named")]
    NoProgram,
    /// The program cannot be started, or waited for.
    #[error("{program}: {error}")]
    Io {
        /// The program.
        program: String,
        /// The error.
        error: io::Error,
    },
    /// The program has ended in failure.
    #[error("{program}: {status}: {}", printable::line(.complaint))]
    Failed {
        /// The program.
        program: String,
        /// Exit status of the program.
        status: ExitStatus,
        /// Error output of the program.
        complaint: String,
    },
}

/// Runs the program to its end; returns its output.
async fn run(command: &[String], message: &[u8]) -> Result<Vec<u8>, SigningError> {
    let Some((program, arguments)) = command.split_first() else { return Err(SigningError::NoProgram) };
    let failed = |error| SigningError::Io { program: program.clone(), error };
    let mut child = piped(program, arguments).spawn().map_err(failed)?;
    let mut group = ProcessGroup::of(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A program that stops reading reports the reason by its exit status.
            let _unread = stdin.write_all(message).await;
        }
    };
    let reading = async {
        let mut said = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(SIGNATURE_BYTES_MAX).read_to_end(&mut said).await?;
        }
        Ok::<_, std::io::Error>(said)
    };
    let complaining = complaint(stderr, COMPLAINT_BYTES_MAX);
    let ((), said, complaint, status) = tokio::join!(feeding, reading, complaining, child.wait());
    group.kill();
    let (said, status) = (said.map_err(failed)?, status.map_err(failed)?);
    match status.success() {
        true => Ok(said),
        false => Err(SigningError::Failed { program: program.clone(), status, complaint }),
    }
}
