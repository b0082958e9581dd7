//! The spool's errors: failures to open, failures that stop accepting, failed reads.

use crate::config::CommitError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Reason why a spool could not be opened or an operation on it failed. The text says what is wrong, where,
/// and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// A system call failed.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// Operation that failed.
        doing: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process has the spool open.
    #[error("{0} is in use by another newsreel process; stop that one first")]
    Locked(PathBuf),
    /// The configuration and the files on disk do not match, or a file is not what it should be.
    #[error("{0}")]
    Unfit(String),
    /// The caller could not change the configuration.
    #[error(transparent)]
    Config(CommitError),
}

impl SpoolError {
    /// Wraps an I/O error with the operation and the path.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

impl SpoolError {
    /// Returns the error of a request that trouble prevents.
    pub fn no_changes(trouble: &SpoolTrouble) -> Self {
        Self::Unfit(format!("the spool takes no changes: {trouble}"))
    }
}

/// Kind of trouble that stops the spool from accepting articles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// No space left; accepting resumes by itself when there is some.
    Full,
    /// A write or sync failed.
    Io,
    /// A bug in newsreel itself; nothing is accepted until a restart.
    Bug,
    /// The request is impossible; nothing is wrong with the spool.
    Refused,
    /// A shared log has not answered: the request may be carried out, now or later.
    InDoubt,
}

/// Failure of our own: the article was neither accepted nor rejected, and the sender should try later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolTrouble {
    /// Kind of the trouble.
    pub kind: TroubleKind,
    /// A sentence for log and status.
    pub text: String,
    cause: Option<Cause>,
}

/// The system error that caused the trouble. Its text is part of the sentence, so it is ignored in
/// comparisons.
#[derive(Debug, Clone)]
struct Cause(Arc<io::Error>);

impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cause {}

impl SpoolTrouble {
    /// Creates trouble that no system error caused.
    pub fn new(kind: TroubleKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), cause: None }
    }

    /// Creates trouble that this error caused.
    pub fn caused_by(kind: TroubleKind, text: impl Into<String>, error: &io::Error) -> Self {
        // Errors cannot be cloned; a system error is recreated from its number.
        let copy = match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        Self { kind, text: text.into(), cause: Some(Cause(Arc::new(copy))) }
    }
}

impl fmt::Display for SpoolTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SpoolTrouble {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &*cause.0 as _)
    }
}

/// Reason why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not in memory and the caller did not want to wait for the disk.
    #[error("not in memory")]
    WouldBlock,
    /// The disk failed, or what was read is damaged.
    #[error("{0}")]
    Failed(#[source] io::Error),
}

impl ReadError {
    /// Returns the error for damaged data.
    pub fn damaged(text: String) -> Self {
        Self::Failed(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

impl From<io::Error> for ReadError {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::WouldBlock { Self::WouldBlock } else { Self::Failed(e) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn errors_keep_their_source() {
        let full = || io::Error::from_raw_os_error(28);
        let trouble = SpoolTrouble::caused_by(TroubleKind::Full, "cannot write", &full());
        let errors: [Box<dyn Error>; 3] = [
            Box::new(SpoolError::io("write", "/s")(full())),
            Box::new(trouble.clone()),
            Box::new(ReadError::from(full())),
        ];
        for error in &errors {
            let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
            assert_eq!(source.raw_os_error(), Some(28), "{error}");
        }
        assert_eq!(
            trouble,
            SpoolTrouble::caused_by(TroubleKind::Full, "cannot write", &io::Error::other("x"))
        );
        assert!(SpoolTrouble::new(TroubleKind::Refused, "no").source().is_none());
    }
}
