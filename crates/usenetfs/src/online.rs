//! Conversions of mounted directories: the mount performs them itself, so that no request is answered while
//! an entry is being moved, and listings that have begun lack no moved entries.
//!
//! A conversion is requested by writing `managed` or `flat` to the attribute [`CONVERSION`] of the directory,
//! through the mount, and the write returns when it is done. Reading the attribute meanwhile returns the
//! progress: entries done, entries to do, and buckets, in decimal; then the names that exist twice, each
//! after a zero byte.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use fuser::{Errno as FuseErrno, ReplyEmpty};
use lock_order::Ordered;
use rustix::io::Errno;

use crate::converting::{self, ConversionReport, ConvertError, DirectoryForm};
use crate::directory::LowerDirectory;
use crate::lower::{self, FileKey, LowerResult, rank};
use crate::tree::MountedTree;

/// Name of the attribute.
pub const CONVERSION: &str = "user.usenetfs.conversion";
/// Maximum number of directories whose state is remembered.
const STATES_MAX: usize = 64;
/// Maximum number of bytes of the attribute that are read: more names than are shown.
pub const STATE_BYTES_MAX: usize = 64 * 1024;

/// Progress of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversionState {
    /// Work done so far.
    pub done: ConversionReport,
    /// Number of entries to move.
    pub total: u64,
    /// Names that exist twice.
    pub twice: Vec<OsString>,
    is_running: bool,
}

impl ConversionState {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} {}", self.done.moved, self.total, self.done.buckets).into_bytes();
        for name in &self.twice {
            if bytes.len() + 1 + name.len() > STATE_BYTES_MAX {
                break;
            }
            bytes.push(0);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    /// Reads the value of the attribute.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.split(|b| *b == 0);
        let mut numbers = std::str::from_utf8(parts.next()?).ok()?.split(' ').map(|text| text.parse().ok());
        let mut number = || numbers.next().flatten();
        let (moved, total, buckets) = (number()?, number()?, number()?);
        let twice = parts.map(|name| OsString::from_vec(name.to_vec())).collect();
        Some(Self { done: ConversionReport { moved, buckets }, total, twice, is_running: false })
    }
}

/// State of a conversion, shared with readers of the attribute.
type SharedConversion = Arc<Ordered<ConversionState, { rank::CONVERSION }>>;

/// Conversions of a mount.
#[derive(Default)]
pub struct Conversions {
    states: Ordered<HashMap<FileKey, SharedConversion>, { rank::CONVERSIONS }>,
}

impl Conversions {
    /// Returns the progress of a directory's conversion, or the result of the last one.
    pub fn state(&self, tree: &MountedTree, id: u64) -> LowerResult<Vec<u8>> {
        let dir = tree.directory(id)?;
        if !lower::is_dir(&dir.stat) {
            return Err(Errno::NODATA);
        }
        let state = self.states.lock().get(&lower::key(&dir.stat)).cloned();
        Ok(state.map_or_else(ConversionState::default, |state| state.lock().clone()).to_bytes())
    }

    /// Starts a conversion for `user` and replies when it has ended.
    pub fn start(&self, tree: &Arc<MountedTree>, id: u64, value: &[u8], user: u32, reply: ReplyEmpty) {
        let (dir, form, state) = match self.begin(tree, id, value, user) {
            Ok(begun) => begun,
            Err(error) => return reply.error(FuseErrno::from_i32(error.raw_os_error())),
        };
        let tree = tree.clone();
        let work = move || match convert(dir, form, &tree, &state) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(FuseErrno::from_i32(error.raw_os_error())),
        };
        // If no thread can be started the reply is dropped, which answers EIO.
        let _started = std::thread::Builder::new().name("usenetfs-convert".into()).spawn(work);
    }

    fn begin(
        &self,
        tree: &MountedTree,
        id: u64,
        value: &[u8],
        user: u32,
    ) -> LowerResult<(LowerDirectory, DirectoryForm, SharedConversion)> {
        let form = DirectoryForm::from_name(value).ok_or(Errno::INVAL)?;
        let dir = tree.directory(id)?;
        if !lower::is_dir(&dir.stat) {
            return Err(Errno::NOTDIR);
        }
        if user != 0 && user != dir.stat.stx_uid {
            return Err(Errno::PERM);
        }
        let mut states = self.states.lock();
        if states.len() >= STATES_MAX {
            states.retain(|_, state| state.lock().is_running);
        }
        let state = states.entry(lower::key(&dir.stat)).or_default().clone();
        let mut now = state.lock();
        if now.is_running || states.len() > STATES_MAX {
            return Err(Errno::BUSY);
        }
        *now = ConversionState { is_running: true, ..ConversionState::default() };
        drop(now);
        Ok((dir, form, state))
    }
}

/// Runs a conversion, and leaves its result in `state`.
fn convert(
    dir: LowerDirectory,
    form: DirectoryForm,
    tree: &MountedTree,
    state: &Ordered<ConversionState, { rank::CONVERSION }>,
) -> LowerResult<()> {
    let mut progress = |done, total| {
        let mut state = state.lock();
        (state.done.moved, state.total) = (done, total);
    };
    let converted = converting::convert(dir, form, Some(tree), &mut progress);
    let mut state = state.lock();
    state.is_running = false;
    match converted {
        Ok(done) => {
            state.done = done;
            Ok(())
        }
        Err(ConvertError::Twice(names)) => {
            state.twice = names;
            Err(Errno::EXIST)
        }
        Err(ConvertError::Busy) => Err(Errno::BUSY),
        Err(ConvertError::Names(_) | ConvertError::OtherScheme(..)) => Err(Errno::INVAL),
        Err(ConvertError::Io(error)) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_back() {
        let twice = vec![OsString::from("12 3"), OsString::from("x")];
        let state = ConversionState {
            done: ConversionReport { moved: 3, buckets: 7 },
            total: 9,
            twice,
            is_running: false,
        };
        assert_eq!(ConversionState::read(&state.to_bytes()), Some(state));
        assert_eq!(
            ConversionState::read(&ConversionState::default().to_bytes()),
            Some(ConversionState::default())
        );
        for wrong in [&b""[..], b"1", b"1 2", b"1 x 3"] {
            assert_eq!(ConversionState::read(wrong), None);
        }
    }
}
