//! Tokens: opaque locators of stored articles (CNFS-10).
//!
//! A token is 12 bytes: method, class, volume and a 64-bit place that only the method understands. For cyclic
//! buffers the place is the *absolute position*: cycle number x area size + offset, so that tokens of one
//! volume grow with time and "is it still alive" is one comparison (CNFS-11). See `docs/formats/token.md`.

use disk::hex;
use std::fmt;

/// How an article is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MethodKind {
    /// Articles are not stored.
    Trash = 0,
    /// Cyclic buffers (CNFS).
    Cnfs = 1,
    /// A bounded buffer in memory, empty after a restart.
    Memory = 2,
    /// Files of records that are created as needed and removed when all their articles are due (CNFS-F4).
    AppendOnly = 3,
    /// One file per article, by group and number, as in C News and INN.
    Tradspool = 4,
    /// `tradspool` with big directories split as Usenetfs does (UFS-02).
    Bucketed = 5,
    /// One file per article, by a digest of its Message-ID (CNFS-40).
    Hashed = 6,
    /// One file per article, by its arrival time, as in INN.
    Timehash = 7,
}

impl MethodKind {
    /// Returns the kind with this number.
    pub fn from_u8(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Trash),
            1 => Some(Self::Cnfs),
            2 => Some(Self::Memory),
            3 => Some(Self::AppendOnly),
            4 => Some(Self::Tradspool),
            5 => Some(Self::Bucketed),
            6 => Some(Self::Hashed),
            7 => Some(Self::Timehash),
            _ => None,
        }
    }

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trash => "trash",
            Self::Cnfs => "cnfs",
            Self::Memory => "memory",
            Self::AppendOnly => "appendonly",
            Self::Tradspool => "tradspool",
            Self::Bucketed => "bucketed",
            Self::Hashed => "hashed",
            Self::Timehash => "timehash",
        }
    }
}

impl MethodKind {
    /// Reports whether each article is a file of its own.
    pub fn is_file_per_article(self) -> bool {
        matches!(self, Self::Tradspool | Self::Bucketed | Self::Hashed | Self::Timehash)
    }

    /// Reports whether articles stay until they are due instead of being displaced by later ones.
    pub fn keeps(self) -> bool {
        self == Self::AppendOnly || self.is_file_per_article()
    }
}

/// Location of a stored article.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// The storage method.
    pub method: MethodKind,
    /// Number of the storage class, as in the configuration's order when it was stored.
    pub class: u8,
    /// Number of the buffer (or other container) within the spool.
    pub volume: u16,
    /// The place within the volume; absolute byte position for `cnfs` and `memory` (`docs/formats/token.md`).
    pub place: u64,
}

impl Token {
    /// Length of the binary form.
    pub const BYTES: usize = 12;

    /// Returns the binary form: method, class, volume (u16 LE), place (u64 LE).
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        b[0] = self.method as u8;
        b[1] = self.class;
        b[2..4].copy_from_slice(&self.volume.to_le_bytes());
        b[4..].copy_from_slice(&self.place.to_le_bytes());
        b
    }

    /// Returns the binary form as hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex::digits(&self.to_bytes())
    }

    /// Reads what [`Token::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&hex::octets::<{ Self::BYTES }>(text.as_bytes())?)
    }

    /// Reads the binary form; `None` for an unknown method.
    pub fn from_bytes(b: &[u8; Self::BYTES]) -> Option<Self> {
        let [method, class, v0, v1, p @ ..] = *b;
        Some(Self {
            method: MethodKind::from_u8(method)?,
            class,
            volume: u16::from_le_bytes([v0, v1]),
            place: u64::from_le_bytes(p),
        })
    }
}

/// Writes the form for logs without volume names: `cnfs/2/1:24da800`.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}:{:x}", self.method.name(), self.class, self.volume, self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_form_round_trips() {
        let t = Token { method: MethodKind::Cnfs, class: 7, volume: 300, place: 0x1e_024d_a800 };
        assert_eq!(Token::from_bytes(&t.to_bytes()), Some(t));
        assert_eq!(Token::from_hex(&t.to_hex()), Some(t));
        assert_eq!(Token::from_hex(&t.to_hex()[1..]), None);
        let mut b = t.to_bytes();
        b[0] = 99;
        assert_eq!(Token::from_bytes(&b), None);
    }
}
