//! Kinds of notes: small facts of a site that decide what becomes of articles and messages to come.

use std::sync::Arc;

/// Maximum length of a note's key, in bytes.
pub const NOTE_KEY_BYTES_MAX: usize = 1024;
/// Maximum length of a note's value, in bytes.
pub const NOTE_VALUE_BYTES_MAX: usize = 16 << 10;

/// Kind of a note. Keys and values belong to the code that makes notes of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// A withdrawal that arrived before its article.
    EarlyCancel = 1,
    /// An article that is hidden when it arrives.
    EarlyHide = 2,
    /// The date of the last control message about a group or hierarchy.
    ControlDate = 3,
    /// Part of a small file that all machines of the site have, sealed.
    SharedFile = 4,
}

impl NoteKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::EarlyCancel, Self::EarlyHide, Self::ControlDate, Self::SharedFile];

    /// Returns the kind in journal and checkpoint.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind with a code; `None` for one of a later version.
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Maximum number of notes of the kind; beyond it the oldest is removed.
    pub const fn notes_max(self) -> usize {
        match self {
            Self::EarlyCancel | Self::EarlyHide => 65_536,
            Self::ControlDate => 100_000,
            Self::SharedFile => 32_768,
        }
    }

    /// Returns whether notes of the kind are about Message-IDs, and are forgotten like these.
    pub fn is_forgotten(self) -> bool {
        matches!(self, Self::EarlyCancel | Self::EarlyHide)
    }
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Time since which it is as it is, in Unix seconds.
    pub since: u32,
    /// What is noted.
    pub value: Arc<[u8]>,
}
