//! Archives that are one file of mails, in the form mboxrd.
//!
//! Before something is appended the memory says how long the file is, and after it that it is whole: what a
//! crash or an error has left in between is cut off. The memory also has the articles that came last, so none
//! comes twice.

use super::copy::Copy;
use super::state::{Memory, MemoryFile, Written};
use memchr::memchr;
use netnews::date::format_rfc5322;
use spool::{Disk, Open};
use std::io::{self, IoSlice};
use std::path::Path;

/// The sender in the line that begins a mail.
const SENDER: &str = "newsreel-archive";

/// Appends articles to the mbox at `path`, durably; returns how many were not there.
pub(super) fn put(
    disk: &dyn Disk,
    path: &Path,
    copies: &[Copy],
    (memory, file_of_memory): (&mut Memory, &MemoryFile),
) -> io::Result<u64> {
    let is_there = disk.about(path)?.is_some();
    let file = disk.open(path, Open::Create)?;
    if !is_there && let Some(dir) = path.parent() {
        disk.sync_dir(dir)?;
    }
    let mut end = file.len()?;
    if let Some(Written { bytes, is_whole: false }) = memory.mbox
        && bytes < end
    {
        file.set_len(bytes)?;
        file.sync()?;
        end = bytes;
    }
    let fresh: Vec<&Copy> = copies.iter().filter(|copy| !memory.is_done(&copy.key)).collect();
    let mails: Vec<Vec<u8>> = fresh.iter().map(|copy| mail(copy)).collect();
    memory.mbox = Some(Written { bytes: end, is_whole: false });
    file_of_memory.write(memory)?;
    let parts: Vec<IoSlice<'_>> = mails.iter().map(|mail| IoSlice::new(mail)).collect();
    file.write_all_at(&parts, end)?;
    file.sync()?;
    let bytes = end + mails.iter().map(|mail| mail.len() as u64).sum::<u64>();
    memory.mbox = Some(Written { bytes, is_whole: true });
    fresh.iter().for_each(|copy| memory.add_done(copy.key));
    file_of_memory.write(memory)?;
    Ok(fresh.len() as u64)
}

/// An article as a mail of an mbox.
fn mail(copy: &Copy) -> Vec<u8> {
    let mut mail = format!("From {SENDER} {}\n", asctime(copy.arrived)).into_bytes();
    let mut rest = copy.text.as_slice();
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        let quotes = line.iter().take_while(|b| **b == b'>').count();
        if line.get(quotes..).is_some_and(|line| line.starts_with(b"From ")) {
            mail.push(b'>');
        }
        mail.extend_from_slice(line);
        rest = after;
    }
    if !mail.ends_with(b"\n") {
        mail.push(b'\n');
    }
    mail.push(b'\n');
    mail
}

/// `Thu Jan  1 00:00:00 1970`, UTC.
fn asctime(secs: u64) -> String {
    let mut date = Vec::new();
    format_rfc5322(i64::try_from(secs).unwrap_or_default(), &mut date);
    let date = String::from_utf8_lossy(&date).into_owned();
    match *date.split(' ').collect::<Vec<_>>().as_slice() {
        [weekday, day, month, year, time, ..] => {
            format!("{} {month} {day:>2} {time} {year}", weekday.trim_end_matches(','))
        }
        _ => date,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool::Key;

    #[test]
    fn a_mail_can_be_told_from_the_next_one() {
        let text = b"Subject: x\n\nFrom here\n>From there\n>>From\nend".to_vec();
        let mail = mail(&Copy { key: Key(1), arrived: 0, numbers: Vec::new(), text });
        let expected = "From newsreel-archive Thu Jan  1 00:00:00 1970\nSubject: x\n\n>From here\n>>From there\n\
                        >>From\nend\n\n";
        assert_eq!(String::from_utf8(mail).unwrap(), expected);
    }
}
