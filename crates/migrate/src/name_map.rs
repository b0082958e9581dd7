//! A group's name.map as described in the CNFS paper: one line for each article number, all lines of the same
//! length.
//!
//! Works on bytes, without I/O. Three lines come first (`BodyStart 102`, `LowArt N`, `LastRewrite T`), so
//! that the line of a number is found by arithmetic: `BodyStart` + (number - `LowArt`) x 34. A token is
//! padded with spaces; `-` marks a removed article. Used by `operators` (writing) and `cli::care` (reading).
//! Source: CNFS-31 to CNFS-34.

/// Length of a line in bytes, its newline included.
pub const LINE_BYTES: usize = 34;
/// Offset of the first token in a map that was never pruned.
pub const BODY_START: u64 = 3 * LINE_BYTES as u64;
/// Mark for an article that was cancelled, overwritten or never there.
pub const GONE: &str = "-";

/// The head of a map: its first three lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameMapHead {
    /// Byte offset of the first line that counts; pruning moves it up (CNFS-34).
    pub body_start: u64,
    /// Article number of the first line after the head.
    pub low: u64,
    /// Time when the map was made, in Unix seconds.
    pub rewritten: u64,
}

impl NameMapHead {
    /// Returns the three lines, without newlines.
    pub fn lines(&self) -> Option<[String; 3]> {
        Some([
            line(&format!("BodyStart {}", self.body_start))?,
            line(&format!("LowArt {}", self.low))?,
            line(&format!("LastRewrite {}", self.rewritten))?,
        ])
    }

    /// Parses the head of a map; `None` if it is invalid.
    pub fn parse(map: &[u8]) -> Option<Self> {
        let field = |at: usize, name: &str| -> Option<u64> {
            let line = map.get(at * LINE_BYTES..(at + 1) * LINE_BYTES)?.strip_suffix(b"\n")?;
            std::str::from_utf8(line).ok()?.strip_prefix(name)?.trim().parse().ok()
        };
        let (body_start, low, rewritten) =
            (field(0, "BodyStart ")?, field(1, "LowArt ")?, field(2, "LastRewrite ")?);
        let whole = body_start >= BODY_START && body_start.is_multiple_of(LINE_BYTES as u64);
        whole.then_some(Self { body_start, low, rewritten })
    }

    /// Returns the token of an article number; `None` if the map has none.
    pub fn token<'a>(&self, map: &'a [u8], number: u64) -> Option<&'a str> {
        let at = number.checked_sub(self.low)?.checked_mul(LINE_BYTES as u64)?.checked_add(BODY_START)?;
        let start = usize::try_from(at).ok().filter(|_| at >= self.body_start)?;
        let line = map.get(start..start.checked_add(LINE_BYTES)?)?.strip_suffix(b"\n")?;
        Some(std::str::from_utf8(line).ok()?.trim_end()).filter(|token| *token != GONE && !token.is_empty())
    }
}

/// Returns a padded line without its newline; `None` if the text does not fit.
pub fn line(text: &str) -> Option<String> {
    (text.len() < LINE_BYTES).then(|| format!("{text:<0$}", LINE_BYTES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_papers_example_are_found_by_arithmetic() {
        let head = NameMapHead { body_start: BODY_START, low: 817_053, rewritten: 873_194_497 };
        let tokens = ["SD1:10a2a000:2a", GONE, "SD1:11527400:2a"];
        let lines = head.lines().unwrap().into_iter().chain(tokens.iter().map(|token| line(token).unwrap()));
        let map: String = lines.map(|line| line + "\n").collect();
        assert_eq!((map.len(), BODY_START), (6 * 34, 102));
        assert!(map.starts_with("BodyStart 102 "));
        let map = map.as_bytes();
        assert_eq!(NameMapHead::parse(map), Some(head));
        let found: Vec<_> = (817_052..817_057).map(|number| head.token(map, number)).collect();
        assert_eq!(found, [None, Some("SD1:10a2a000:2a"), None, Some("SD1:11527400:2a"), None]);
        // Pruned from the front.
        let pruned = NameMapHead { body_start: 136, ..head };
        assert_eq!((pruned.token(map, 817_053), pruned.token(map, 817_055)), (None, Some("SD1:11527400:2a")));
    }

    #[test]
    fn invalid_maps_are_rejected() {
        for text in ["", "BodyStart 102\nLowArt 1\n", "Path: x\n"] {
            assert_eq!(NameMapHead::parse(text.as_bytes()), None);
        }
        let head = NameMapHead { body_start: BODY_START, low: u64::MAX, rewritten: 0 };
        assert_eq!(head.token(&[b'x'; 400], u64::MAX), None);
        let bad = NameMapHead { body_start: 103, ..head }.lines().unwrap().map(|line| line + "\n").concat();
        assert_eq!(NameMapHead::parse(bad.as_bytes()), None);
        assert_eq!(line("a-name-of-a-buffer:of-33-bytes:xx").unwrap().len(), 33);
        assert_eq!(line("a-name-of-a-buffer:of-34-bytes:xxx"), None);
    }
}
