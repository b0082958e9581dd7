//! The spool's errors: what stops an opening, what stops accepting, what a reader may meet.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a spool could not be opened or an operation on it could not be done. Says what is wrong, where, and
/// what to do.
#[derive(Debug)]
pub enum SpoolError {
    /// A call to the machine failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's word for it.
        source: io::Error,
    },
    /// Another process has the spool open.
    Locked(PathBuf),
    /// The configuration and what is on disk do not go together, or a file is not what it should be.
    Unfit(String),
}

impl SpoolError {
    /// Wraps an I/O error with what was being done and where.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Self::Locked(path) => {
                write!(f, "{} is in use by another newsreel process; stop that one first", path.display())
            }
            Self::Unfit(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for SpoolError {}

/// What kind of trouble keeps us from accepting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// No space left; accepting starts again by itself when there is some.
    Full,
    /// A write or sync failed.
    Io,
    /// A bug in newsreel itself; nothing is accepted until a restart.
    Bug,
    /// The request is impossible; nothing is wrong with the spool.
    Refused,
}

/// Our own trouble: the article was neither accepted nor rejected; the sender should try later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Its kind.
    pub kind: TroubleKind,
    /// A sentence for log and status.
    pub text: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

/// Why something could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The bytes are not in memory and the caller did not want to wait for the disk.
    WouldBlock,
    /// The disk failed, or what was read is damaged.
    Failed(String),
}

impl From<io::Error> for ReadError {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::WouldBlock { Self::WouldBlock } else { Self::Failed(e.to_string()) }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("not in memory"),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ReadError {}
