//! Progress of the index, recorded with each of its commits (`docs/formats/search.md`).

/// Progress of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexProgress {
    /// Sequence number below which articles may be in the index.
    pub next: u64,
    /// Sequence number below which articles are older than the index; these are added by `filling`.
    pub begun: u64,
    /// Position at which `filling` continues; `None` if it is done.
    pub fill: Option<FillPosition>,
}

/// Position of `filling`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FillPosition {
    /// Group, or a name before the next one in order.
    pub group: String,
    /// First number that was not examined.
    pub number: u64,
}

/// Version of the text.
const VERSION: &str = "1";

impl IndexProgress {
    /// Returns the progress of a new index; the next article has this sequence number.
    pub fn begin(next: u64) -> Self {
        Self { next, begun: next, fill: Some(FillPosition::default()) }
    }

    /// Returns the recorded text.
    pub fn text(&self) -> String {
        let Self { next, begun, fill } = self;
        match fill {
            Some(FillPosition { group, number }) => format!("{VERSION} {next} {begun} {number} {group}"),
            None => format!("{VERSION} {next} {begun}"),
        }
    }

    /// Parses the output of [`IndexProgress::text`]; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        if words.next()? != VERSION {
            return None;
        }
        let (next, begun) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let fill = match words.next() {
            Some(number) => {
                Some(FillPosition { number: number.parse().ok()?, group: words.next()?.to_owned() })
            }
            None => None,
        };
        Some(Self { next, begun, fill })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_progress_is_read_back() {
        let begun = IndexProgress::begin(7);
        let half =
            IndexProgress { fill: Some(FillPosition { group: "a.b".into(), number: 9 }), ..begun.clone() };
        let done = IndexProgress { next: 70, fill: None, ..begun.clone() };
        for progress in [begun, half, done] {
            assert_eq!(IndexProgress::parse(&progress.text()), Some(progress));
        }
        for other in ["", "0 1 2", "1 x 2", "1 1 2 x g", "1 1 2 3"] {
            assert_eq!(IndexProgress::parse(other), None, "{other}");
        }
    }
}
