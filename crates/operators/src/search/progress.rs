//! How far the index has come, as it is recorded with each of its commits (`docs/formats/search.md`).

/// How far the index has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// Articles with a sequence number below this may be in the index.
    pub next: u64,
    /// Articles with a sequence number below this were here before; they are added by `filling`.
    pub begun: u64,
    /// Where that continues; `None`: all is done.
    pub fill: Option<Place>,
}

/// A number of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The group, or the next one in order of name.
    pub group: String,
    /// The first number that was not looked at.
    pub number: u64,
}

/// The form of the text.
const VERSION: &str = "1";

impl Progress {
    /// Of an index that begins now: the next article has this sequence number.
    pub fn begin(next: u64) -> Self {
        Self { next, begun: next, fill: Some(Place::default()) }
    }

    /// As it is recorded.
    pub fn text(&self) -> String {
        let Self { next, begun, fill } = self;
        match fill {
            Some(Place { group, number }) => format!("{VERSION} {next} {begun} {number} {group}"),
            None => format!("{VERSION} {next} {begun}"),
        }
    }

    /// Reads what [`Progress::text`] wrote; `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        if words.next()? != VERSION {
            return None;
        }
        let (next, begun) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let fill = match words.next() {
            Some(number) => Some(Place { number: number.parse().ok()?, group: words.next()?.to_owned() }),
            None => None,
        };
        Some(Self { next, begun, fill })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_again() {
        let begun = Progress::begin(7);
        let half = Progress { fill: Some(Place { group: "a.b".into(), number: 9 }), ..begun.clone() };
        let done = Progress { next: 70, fill: None, ..begun.clone() };
        for progress in [begun, half, done] {
            assert_eq!(Progress::parse(&progress.text()), Some(progress));
        }
        for other in ["", "0 1 2", "1 x 2", "1 1 2 x g", "1 1 2 3"] {
            assert_eq!(Progress::parse(other), None, "{other}");
        }
    }
}
