//! Decision on a request: the first matching `[[control]]` section.

use super::{ControlRequest, SignatureProof};
use netnews::{Article, Known};
use site_config::{Config, Control, ControlAction, ControlType, LockRule, WithdrawalPolicy};
use std::sync::Arc;

/// Proof required for a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithdrawalProof {
    /// Not honored, with any proof.
    NotHonored,
    /// A matching key.
    Key,
    /// A matching key, if there is a lock.
    KeyIfLocked,
    /// None.
    Nothing,
}

/// Checks whether the request is signed with one of the keys of these names.
pub(crate) type SignedBy<'a> = &'a dyn Fn(&[String]) -> bool;

/// Decides which requests are permitted.
#[derive(Debug)]
pub struct ControlPolicy {
    config: Arc<Config>,
    /// Whether any section refuses articles; if not, the check is skipped.
    refuses: bool,
}

impl ControlPolicy {
    /// Returns the policy of a configuration.
    pub fn of(config: Arc<Config>) -> Self {
        let refuses = config.controls.iter().any(|section| section.action == ControlAction::Refuse);
        Self { config, refuses }
    }

    /// Returns the deciding section, if any.
    pub fn decide(&self, asked: &ControlRequest<'_>, signed: SignedBy<'_>) -> Option<&Control> {
        self.deciding(asked, signed).next()
    }

    /// Returns the sections that match all groups of `asked`: the first one decides, unless the request turns
    /// out to be about more groups.
    fn deciding(&self, asked: &ControlRequest<'_>, signed: SignedBy<'_>) -> impl Iterator<Item = &Control> {
        let matches = |section: &&Control| asked.groups.iter().all(|group| section.groups.matches(group));
        self.applying(asked, signed).filter(matches)
    }

    /// Returns the sections that decide about `asked`, each for the groups that no earlier one matches.
    pub fn applying(
        &self,
        asked: &ControlRequest<'_>,
        signed: SignedBy<'_>,
    ) -> impl Iterator<Item = &Control> {
        self.config.controls.iter().filter(move |section| {
            section.is_about(asked.what)
                && section.from.matches(asked.sender.as_bytes())
                && (section.signed_by.is_empty() || signed(&section.signed_by))
        })
    }

    /// Returns whether an article is not to be taken at all. No signature is verified here: requests that a
    /// section with `signed_by` may decide are not refused.
    pub fn refuses(&self, article: &Article<'_>) -> bool {
        if !self.refuses || article.count(Known::Control) + article.count(Known::Supersedes) == 0 {
            return false;
        }
        let asked = ControlRequest::of(article);
        let section =
            asked.as_ref().and_then(|asked| self.decide(asked, &|_| SignatureProof::may_be(article)));
        section.is_some_and(|section| section.action == ControlAction::Refuse)
    }

    /// Returns the proof a withdrawal needs, and the section that requires it; `None` for `[cancel]`.
    pub fn withdrawal(
        &self,
        asked: &ControlRequest<'_>,
        signed: SignedBy<'_>,
    ) -> (WithdrawalProof, Option<&Control>) {
        let section = self.decide(asked, signed);
        (section.map_or(self.unless_decided(), proof), section)
    }

    /// Returns the proofs that a withdrawal may need whose article is not here yet, each with a pattern of
    /// groups: of those that match all groups of the article the first counts.
    pub fn early(&self, asked: &ControlRequest<'_>, signed: SignedBy<'_>) -> Vec<(WithdrawalProof, &str)> {
        let sections = self.deciding(asked, signed).map(|section| (proof(section), section.groups.as_str()));
        sections.chain([(self.unless_decided(), "*")]).collect()
    }

    /// Reports whether any withdrawal is honored. The sender of one that arrived before its article is no
    /// longer known.
    pub fn honors_any(&self) -> bool {
        let withdraws = |section: &Control| {
            section.action == ControlAction::Do
                && [ControlType::Cancel, ControlType::Supersede].iter().any(|what| section.is_about(*what))
        };
        self.unless_decided() != WithdrawalProof::NotHonored || self.config.controls.iter().any(withdraws)
    }

    /// Returns the proof needed by a withdrawal that no section decides.
    fn unless_decided(&self) -> WithdrawalProof {
        match (self.config.cancel.honor, self.config.cancel.unlocked) {
            (WithdrawalPolicy::None, _) => WithdrawalProof::NotHonored,
            (WithdrawalPolicy::All, _) => WithdrawalProof::Nothing,
            (WithdrawalPolicy::Verified, false) => WithdrawalProof::Key,
            (WithdrawalPolicy::Verified, true) => WithdrawalProof::KeyIfLocked,
        }
    }
}

/// Returns the proof that a section requires of a withdrawal.
fn proof(section: &Control) -> WithdrawalProof {
    match (section.action, section.lock) {
        (ControlAction::Do, LockRule::Key) => WithdrawalProof::Key,
        (ControlAction::Do, LockRule::KeyIfLocked) => WithdrawalProof::KeyIfLocked,
        (ControlAction::Do, LockRule::Ignored) => WithdrawalProof::Nothing,
        _ => WithdrawalProof::NotHonored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    fn article(headers: &str) -> Vec<u8> {
        format!("From: Joe <Joe@X.Example>\r\nNewsgroups: misc.test\r\n{headers}\r\nb\r\n").into_bytes()
    }

    #[test]
    fn the_first_matching_section_decides() {
        let policy = ControlPolicy::of(Arc::new(with_trash(
            "[[control]]\ntype = \"newgroup\"\nfrom = \"joe@x.example\"\ngroups = \"x.*,!x.y.*\"\naction = \"do\"\n\
             [[control]]\ntype = [\"newgroup\", \"rmgroup\"]\naction = \"log\"\n\
             [[control]]\ntype = \"other\"\naction = \"refuse\"\n\
             [[control]]\ntype = \"supersede\"\ngroups = \"misc.*\"\naction = \"do\"\nlock = \"ignored\"\n",
        )));
        let action = |headers: &str| {
            let wire = article(headers);
            let article = Article::parse(&wire).unwrap();
            policy.decide(&ControlRequest::of(&article)?, &|_| false).map(|section| section.action)
        };
        assert_eq!(action("Control: newgroup x.a\r\n"), Some(ControlAction::Do));
        assert_eq!(action("Sender: other@x\r\nControl: newgroup x.a\r\n"), Some(ControlAction::Log));
        assert_eq!(action("Control: newgroup x.y.z\r\n"), Some(ControlAction::Log));
        assert_eq!(action("Control: RMGROUP x.a\r\n"), Some(ControlAction::Log));
        assert_eq!(action("Control: sendsys\r\n"), Some(ControlAction::Refuse));
        assert_eq!(action("Control: checkgroups\r\n"), None);
        assert_eq!(action("Control: cancel <a@b>\r\n"), None);
        assert_eq!(action("Subject: x\r\n"), None);
        let wire = article("Supersedes: <a@b>\r\n");
        let article = Article::parse(&wire).unwrap();
        let asked = ControlRequest::of(&article).unwrap();
        assert_eq!(asked.what, ControlType::Supersede);
        assert_eq!(policy.withdrawal(&asked, &|_| false).0, WithdrawalProof::Nothing);
        let asked = asked.and_of(b"Newsgroups: local.other,misc.test\r\n");
        assert_eq!(
            policy.withdrawal(&asked, &|_| false),
            (WithdrawalProof::Key, None),
            "the other article is elsewhere too"
        );
    }
}
