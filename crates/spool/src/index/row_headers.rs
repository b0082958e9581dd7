//! Additional headers that overview rows may have: all that this spool has ever kept.
//!
//! Invariant: a name is durable in the file before a row has its header. A spool that never kept additional
//! headers therefore sends rows as they are stored, without examining them. Used while opening and by
//! `reconfigure`; the file is described in `docs/formats/overview.md`.

use disk::{Disk, FileAccess, durable_replace, read_small};
use spool_base::error::SpoolError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the file.
const NAME: &str = "overview.headers";
/// Longest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// State of the file.
#[derive(Debug)]
pub(crate) struct RowHeaders {
    path: PathBuf,
    any: AtomicBool,
}

impl RowHeaders {
    /// Reads the file in the spool's directory and adds the names of headers that are kept from now on.
    pub fn open(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<Self, SpoolError> {
        let headers = Self { path: dir.join(NAME), any: AtomicBool::new(false) };
        headers.add(disk, names).map_err(SpoolError::io("note the further headers of overview in", dir))?;
        Ok(headers)
    }

    /// Adds names; they are durable on return.
    pub fn add(&self, disk: &dyn Disk, names: &[String]) -> io::Result<()> {
        let mut text = read_small(disk, &self.path, BYTES_MAX)?.unwrap_or_default();
        let is_known = |text: &[u8], name: &str| {
            text.split(|b| *b == b'\n').any(|known| known.eq_ignore_ascii_case(name.as_bytes()))
        };
        let before = text.len();
        for name in names {
            if !is_known(&text, name) {
                text.extend_from_slice(name.as_bytes());
                text.push(b'\n');
            }
        }
        if text.len() > before {
            durable_replace(disk, &self.path, &[&text], FileAccess::Group)?;
        }
        self.any.store(!text.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Reports whether rows may have additional headers.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }
}
