//! Archives in the form of one file of mails (mboxrd).
//!
//! Before an append the memory records the length of the file, and after it that the file is whole: a part
//! left by a crash or an error is truncated. The memory also lists the latest articles, so none is written
//! twice.

use super::copy::ArchiveCopy;
use super::state::{ArchiveMemory, ArchiveMemoryFile, MboxState};
use disk::{Disk, OpenMode};
use netnews::mbox::append_mail;
use std::io::{self, IoSlice};
use std::path::Path;

/// Sender in the line that begins a mail.
const SENDER: &str = "newsreel-archive";

/// Appends articles to the mbox at `path`, durably; returns how many were not there.
pub(super) fn put(
    disk: &dyn Disk,
    path: &Path,
    copies: &[ArchiveCopy],
    memory: &mut ArchiveMemory,
    file_of_memory: &ArchiveMemoryFile,
) -> io::Result<u64> {
    let is_there = disk.about(path)?.is_some();
    let file = disk.open(path, OpenMode::Create)?;
    if !is_there && let Some(dir) = path.parent() {
        disk.sync_dir(dir)?;
    }
    let mut end = file.len()?;
    if let Some(MboxState { bytes, is_whole: false }) = memory.mbox
        && bytes < end
    {
        file.set_len(bytes)?;
        file.sync()?;
        end = bytes;
    }
    let fresh: Vec<&ArchiveCopy> = copies.iter().filter(|copy| !memory.is_done(&copy.key)).collect();
    let mails: Vec<Vec<u8>> = fresh.iter().map(|copy| mail(copy)).collect();
    memory.mbox = Some(MboxState { bytes: end, is_whole: false });
    file_of_memory.write(memory)?;
    let parts: Vec<IoSlice<'_>> = mails.iter().map(|mail| IoSlice::new(mail)).collect();
    file.write_all_at(&parts, end)?;
    file.sync()?;
    let bytes = end + mails.iter().map(|mail| mail.len() as u64).sum::<u64>();
    memory.mbox = Some(MboxState { bytes, is_whole: true });
    fresh.iter().for_each(|copy| memory.add_done(copy.key));
    file_of_memory.write(memory)?;
    Ok(fresh.len() as u64)
}

/// Formats an article as a mail of an mbox.
fn mail(copy: &ArchiveCopy) -> Vec<u8> {
    let mut mail = Vec::new();
    append_mail(SENDER, i64::try_from(copy.arrived).unwrap_or_default(), &copy.text, &mut mail);
    mail
}
