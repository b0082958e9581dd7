//! `[[archive]]`: copies of articles that survive them.

use std::path::PathBuf;
use std::time::Duration;

use super::NamePattern;
use super::kinds::*;

section! {
    /// Copies of articles, in a directory that should lie on another file system (C News' archive). What
    /// cannot be copied now is tried again later, and stops nothing else; docs/archive.md says what is
    /// promised.
    [[archive]] Archive, ArchiveDraft {
        /// The archive's name, in the log and for newsreel archive. It names files, too: at most 56 letters,
        /// digits, ".", "-" and "_", the first no ".".
        name: String = Text, example "comp";
        /// Articles in a group that matches are copied.
        groups: NamePattern = Wildmat, default "*", example "comp.*,!comp.binaries.*";
        /// When articles are copied. "arrival": as soon as they are filed. "expiry": before they are deleted
        /// because they are due, or overwritten.
        when: ArchiveTrigger = word(), default "expiry", example "arrival";
        /// The directory. It must exist. Once articles were copied there, the file .newsreel-archive in it
        /// says that it is the archive, and where that is missing nothing is copied: its disk is not mounted.
        path: PathBuf = FilePath, example "/archive/news", of machine;
        /// What is made there. "tree": a file for each number, such as comp/lang/c/4711; several numbers of
        /// an article are links of one file. "mbox": one file, NAME.mbox. "maildir": a mailbox of one file
        /// for each article.
        form: ArchiveForm = word(), default "tree", example "maildir", of machine;
        /// Whether articles are left out whose authors ask for that (Archive: no, or X-No-Archive: yes).
        honor_no_archive: bool = Switch, default true, example false;
        /// With when = "expiry": articles that are due wait so long for an archive that fails, and are then
        /// deleted without a copy.
        wait_max: Duration = Span, default "7 days", example "1 day";
    }
}

words! {
    /// Time when articles are copied.
    pub enum ArchiveTrigger {
        /// When they are filed.
        Arrival = "arrival",
        /// Before they are deleted or overwritten.
        Expiry = "expiry",
    }
}

words! {
    /// Form of an archive.
    pub enum ArchiveForm {
        /// Files by group and number.
        Tree = "tree",
        /// One file of mails.
        Mbox = "mbox",
        /// One file per mail.
        Maildir = "maildir",
    }
}
