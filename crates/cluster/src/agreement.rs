//! Whether members have made the same of the log.
//!
//! Every so many messages each member appends a digest of what it has made of them: the numbers that groups
//! have come to, what became of every article, and the times. Members compare the digests as they apply them,
//! so all of them judge alike. The one that is alone with its own stops; of two that differ, the one whose
//! digest came second. A digest is one of a window of messages, not of the whole site: what members have had
//! from before they joined may differ for a while without harm (`docs/cluster.md`).

use spool::KeyHasher;
use std::collections::BTreeMap;

/// Messages of a window, at whose end digests are compared.
pub(crate) const WINDOW: u64 = if cfg!(test) { 24 } else { 500 };
/// Messages after a window within which the others have appended their digests: only then they are compared.
const LATE_MAX: u64 = WINDOW / 4;

/// Digest of a window.
pub type WindowDigest = [u8; 16];

/// Digest of the messages that a member has applied in the current window.
#[derive(Debug)]
pub(crate) struct AppliedWindow {
    digest: WindowDigest,
    /// Whether it has all messages of the window so far.
    is_whole: bool,
}

impl AppliedWindow {
    /// Creates that of a member which has just begun, somewhere in a window.
    pub fn new() -> Self {
        Self { digest: WindowDigest::default(), is_whole: false }
    }

    /// Adds what was made of a message; `None`: that is not known, as after a crash within it. Returns the
    /// digest if this was the last one of the window.
    pub fn add(&mut self, sequence: u64, made: Option<&[u8]>) -> Option<WindowDigest> {
        if sequence % WINDOW == 1 {
            *self = Self { digest: WindowDigest::default(), is_whole: true };
        }
        match made {
            Some(made) => {
                let all = [&self.digest, &sequence.to_le_bytes()[..], made].concat();
                // It is no secret, and another text of the same digest would gain nothing.
                self.digest = KeyHasher::new([0; 16]).key(&all).0.to_le_bytes();
            }
            None => self.is_whole = false,
        }
        (sequence.is_multiple_of(WINDOW) && self.is_whole).then_some(self.digest)
    }
}

/// Digests of one window.
#[derive(Debug, Default)]
struct WindowDigests {
    own: Option<WindowDigest>,
    /// In the order of the log, one of each member.
    appended: Vec<(u16, WindowDigest)>,
}

impl WindowDigests {
    /// Reports whether the others have something else, once all who are there have appended theirs.
    fn differ(&self, member: u16) -> bool {
        let Some(own) = self.own else { return false };
        let count = |digest: WindowDigest| self.appended.iter().filter(|(_, other)| *other == digest).count();
        let first = |digest: WindowDigest| self.appended.iter().position(|(_, other)| *other == digest);
        let is_own_in_log = self.appended.iter().any(|(of, _)| *of == member);
        let with_own = count(own) + usize::from(!is_own_in_log);
        self.appended.iter().filter(|(_, other)| *other != own).any(|(_, other)| {
            let is_first = first(own).is_none_or(|at| first(*other).is_some_and(|other| other < at));
            let others = count(*other);
            others > with_own || (others == with_own && is_first)
        })
    }
}

/// The digests that a member compares.
#[derive(Debug)]
pub(crate) struct Agreement {
    member: u16,
    windows: BTreeMap<u64, WindowDigests>,
}

impl Agreement {
    /// Creates that of a member.
    pub fn of(member: u16) -> Self {
        Self { member, windows: BTreeMap::new() }
    }

    /// Notes the own digest of the window that ends with a message.
    pub fn note_own(&mut self, upto: u64, digest: WindowDigest) {
        self.windows.entry(upto).or_default().own = Some(digest);
    }

    /// Notes the digest that a member has appended.
    pub fn note(&mut self, member: u16, upto: u64, digest: WindowDigest) {
        // Of windows that this member has not applied, or that are long past, nothing is compared.
        let Some(window) = self.windows.get_mut(&upto) else { return };
        if window.appended.iter().all(|(of, _)| *of != member) {
            window.appended.push((member, digest));
        }
    }

    /// Returns the last message of a window of which the others have made something else, once everything up
    /// to `reached` is applied.
    pub fn differs(&mut self, reached: u64) -> Option<u64> {
        let mut differing = None;
        while let Some(window) =
            self.windows.first_entry().filter(|window| reached >= window.key() + LATE_MAX)
        {
            let (upto, digests) = window.remove_entry();
            differing = differing.or(digests.differ(self.member).then_some(upto));
        }
        differing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WindowDigest = [1; 16];
    const B: WindowDigest = [2; 16];

    /// Returns which of these members stop, which append these digests in this order.
    fn stop(digests: &[(u16, WindowDigest)]) -> Vec<u16> {
        let stops = |member: u16, own: WindowDigest| {
            let mut agreement = Agreement::of(member);
            agreement.note_own(WINDOW, own);
            for (at, (other, digest)) in (1..).zip(digests) {
                agreement.note(*other, WINDOW, *digest);
                assert_eq!(agreement.differs(WINDOW + at), None, "others may follow");
            }
            agreement.differs(WINDOW + LATE_MAX) == Some(WINDOW)
        };
        digests.iter().filter(|(member, own)| stops(*member, *own)).map(|(member, _)| *member).collect()
    }

    #[test]
    fn the_member_that_is_alone_with_its_digest_stops() {
        assert_eq!(stop(&[(1, A)]), [0_u16; 0]);
        assert_eq!(stop(&[(1, A), (2, A), (3, A)]), [0_u16; 0]);
        for odd in 1..=3 {
            let digests = [1, 2, 3].map(|member| (member, if member == odd { B } else { A }));
            assert_eq!(stop(&digests), [odd]);
        }
        // No one knows which of two is right; one of them serves.
        assert_eq!(stop(&[(2, B), (1, A)]), [1]);
        assert_eq!(stop(&[(1, A), (2, B), (4, B), (3, A)]), [2, 4]);
    }

    #[test]
    fn a_window_of_which_a_member_has_applied_a_part_is_not_compared() {
        let mut window = AppliedWindow::new();
        let end = |window: &mut AppliedWindow, from: u64, made: Option<&[u8]>| {
            (from..=from.next_multiple_of(WINDOW)).filter_map(|at| window.add(at, made)).last()
        };
        assert_eq!(end(&mut window, 2, Some(b"x")), None);
        let first = end(&mut window, WINDOW + 1, Some(b"x")).unwrap();
        assert!(end(&mut window, 2 * WINDOW + 1, Some(b"x")).is_some_and(|second| second != first));
        assert_eq!(end(&mut window, 3 * WINDOW + 1, None), None);
        assert!(end(&mut window, 4 * WINDOW + 1, Some(b"y")).is_some());
        let mut agreement = Agreement::of(1);
        agreement.note(2, WINDOW, A);
        assert_eq!(agreement.differs(9 * WINDOW), None);
    }
}
