//! `[[control]]`: handling of articles that ask the server to do something.

use std::ops::Range;

use super::kinds::*;
use super::{ConfigWord, NamePattern};

section! {
    /// What to do about articles that ask the server to do something: control messages, and articles with a
    /// Supersedes header. The first section that matches decides. If none does, [cancel] decides about a
    /// cancel or Supersedes, and any other control message is only logged. All of them are filed in control.*
    /// in any case, unless they are refused; newgroup, rmgroup and checkgroups are carried out from there, so
    /// the group control, or the one for their kind such as control.newgroup, must exist.
    [[control]] Control, ControlDraft {
        /// What the article asks for: "newgroup", "rmgroup", "checkgroups", "cancel", "supersede" (a
        /// Supersedes header), "ihave", "sendme", or "other" for the rest (sendsys, version, ...). By default
        /// all of these. "nocem": a NoCeM notice, which hides articles (docs/nocem.md).
        types "type": Vec<ControlType> = OneOrMore(word()), default [], example ["newgroup", "rmgroup"];
        /// Who sent it: the address in Sender or, without that, in From, in any case. Anybody can write any
        /// address; only signed_by proves anything. Of a notice it is the Issuer, which must be a user of
        /// its key.
        from: NamePattern = Wildmat, default "*", example "group-admin@isc.org";
        /// The groups it concerns: that of a newgroup or rmgroup; those of a cancel or Supersedes and of the
        /// article that it withdraws, all of which must match. A checkgroups message is decided group by
        /// group, so that each hierarchy in it has its own section. A notice hides those articles of which
        /// all groups match.
        groups: NamePattern = Wildmat, default "*", example "comp.*,news.*";
        /// Only messages signed by one of these (X-PGP-Sig, as pgpcontrol does; notices in the text): the
        /// user of a key, its first word or its address, or a fingerprint. The key must be in the site's
        /// keyring and trusted: newsreel keys import, newsreel keys trust.
        signed_by: Vec<String> = OneOrMore(Text), default [],
            example ["news.announce.newgroups", "de.admin.news.announce"];
        /// What to do: "do" carries it out (not for ihave, sendme and other); "mail" sends it to mail_to;
        /// "log" only logs it; "refuse" does not accept the article at all, so that it is neither filed nor
        /// passed on.
        action: ControlAction = word(), example "do";
        /// Where to mail it: with "mail" instead of carrying it out, with "do" afterwards. Mail is sent as
        /// [moderation] says. Not for cancel and supersede.
        mail_to: Option<String> = Maybe(MailAddress), example "newsmaster@example.org";
        /// For cancel and supersede with "do": how the Cancel-Lock of the withdrawn article is checked (RFC
        /// 8315). "key": a Cancel-Key must match; "key if locked": only if there is a lock; "ignored".
        lock: LockRule = word(), default "key", example "ignored";
        /// Only messages whose Date (or Injection-Date, if that is earlier) is not older than this are
        /// carried out. Cancels and Supersedes may have any age.
        age_max: std::time::Duration = Span, default "10 days", example "3 days";
        /// If a checkgroups message would remove more groups than this, it removes none, and the log says so.
        removals_max: usize = 0..=1_000_000, default 50, example 500;
        /// Of notices: only those of these types, as their issuer calls them, in any case. By default all.
        notice_types: Vec<String> = OneOrMore(Text), default [], example ["spam", "mmf"];
        /// Of notices: only those that are posted to one of these groups.
        notice_groups: NamePattern = Wildmat, default "news.lists.filters,*.nocem,*.nocem.*",
            example "news.lists.filters";
        /// Of notices: how many of one key are carried out within an hour.
        notices_per_hour_max: usize = 1..=100_000, default 100, example 20;
        /// Of notices: how many articles those of one key may list within an hour. A notice that exceeds it
        /// does nothing.
        hides_per_hour_max: usize = 1..=1_000_000, default 10000, example 500;
    }
}

/// A fault between the keys of a section.
pub(super) struct SectionFault<'a> {
    pub(super) at: &'a Range<usize>,
    pub(super) label: &'static str,
    pub(super) message: String,
    pub(super) advice: &'static str,
}

impl ControlDraft {
    pub(super) fn wrong(&self) -> Vec<SectionFault<'_>> {
        let (Some(types), Some(action), Some(mail_to)) =
            (&self.types.value, self.action.value, &self.mail_to.value)
        else {
            return Vec::new();
        };
        let withdraws = |what: &ControlType| matches!(what, ControlType::Cancel | ControlType::Supersede);
        let undoable = |what: &&ControlType| {
            matches!(what, ControlType::Ihave | ControlType::Sendme | ControlType::Other)
        };
        let at = &self.action.span;
        let mut wrong = Vec::new();
        if action == ControlAction::Mail && mail_to.is_none() {
            let message = "this [[control]] mails, but has no mail_to".into();
            let advice = "add mail_to = \"newsmaster@example.org\"";
            wrong.push(SectionFault { at, label: "mailed where to?", message, advice });
        }
        if action == ControlAction::Mail && types.iter().any(withdraws) {
            let message = "cancels and Supersedes are not mailed".into();
            let advice = "name the other types, or let the action be \"log\"";
            wrong.push(SectionFault { at, label: "mailed?", message, advice });
        }
        if mail_to.is_some() && !matches!(action, ControlAction::Mail | ControlAction::Do) {
            let message = format!("nothing is mailed with action = \"{}\"", action.word());
            let advice = "remove it, or use \"mail\" or \"do\"";
            wrong.push(SectionFault { at: &self.mail_to.span, label: "without effect", message, advice });
        }
        if self.signed_by.value.as_ref().is_some_and(|names| !names.is_empty())
            && action == ControlAction::Refuse
        {
            let message = "an article is refused before its signature is verified".into();
            let advice = "remove signed_by, or use \"log\"";
            wrong.push(SectionFault { at: &self.signed_by.span, label: "too early", message, advice });
        }
        wrong.extend(self.wrong_of_notices(types, action));
        if let Some(what) = types.iter().find(undoable).filter(|_| action == ControlAction::Do) {
            let message = format!("messages of type \"{}\" cannot be carried out", what.word());
            let advice = "use \"mail\", \"log\" or \"refuse\" for them";
            wrong.push(SectionFault { at, label: "cannot be done", message, advice });
        }
        wrong
    }

    /// Returns the faults in the keys about notices.
    fn wrong_of_notices(&self, types: &[ControlType], action: ControlAction) -> Vec<SectionFault<'_>> {
        let is_empty =
            |list: &super::table::SpannedValue<Vec<String>>| list.value.as_ref().is_none_or(Vec::is_empty);
        let mut wrong = Vec::new();
        if !types.contains(&ControlType::Nocem) {
            if !is_empty(&self.notice_types) {
                let message = "this [[control]] is not about notices".into();
                let advice = "add \"nocem\" to its type, or remove notice_types";
                wrong.push(SectionFault {
                    at: &self.notice_types.span,
                    label: "without effect",
                    message,
                    advice,
                });
            }
            return wrong;
        }
        let at = &self.action.span;
        if !matches!(action, ControlAction::Do | ControlAction::Log) {
            let message = format!("notices cannot have action = \"{}\"", action.word());
            let advice = "use \"do\" or \"log\" for them";
            wrong.push(SectionFault { at, label: "not for notices", message, advice });
        }
        if is_empty(&self.signed_by) {
            let message = "anybody can write a notice that is not signed".into();
            let advice = "add signed_by with the user of a key of its issuer";
            wrong.push(SectionFault { at, label: "signed by whom?", message, advice });
        }
        if matches!(self.mail_to.value, Some(Some(_))) {
            let message = "notices are not mailed".into();
            let advice = "remove mail_to, or give notices a section of their own";
            wrong.push(SectionFault { at: &self.mail_to.span, label: "without effect", message, advice });
        }
        wrong
    }
}

impl Control {
    /// Returns true if the section applies to messages of this type.
    pub fn is_about(&self, what: ControlType) -> bool {
        (self.types.is_empty() && what != ControlType::Nocem) || self.types.contains(&what)
    }
}

words! {
    /// The request of an article.
    pub enum ControlType {
        /// Create or change a group.
        Newgroup = "newgroup",
        /// Remove a group.
        Rmgroup = "rmgroup",
        /// Adjust the groups of a hierarchy to a list.
        Checkgroups = "checkgroups",
        /// Withdraw an article.
        Cancel = "cancel",
        /// Withdraw an article and replace it.
        Supersede = "supersede",
        /// Request articles of a list.
        Ihave = "ihave",
        /// Send articles.
        Sendme = "sendme",
        /// Hide articles.
        Nocem = "nocem",
        /// Anything else.
        Other = "other",
    }
}

words! {
    /// The action on a request.
    pub enum ControlAction {
        /// Carry it out.
        Do = "do",
        /// Mail it.
        Mail = "mail",
        /// Log it.
        Log = "log",
        /// Reject the article.
        Refuse = "refuse",
    }
}

words! {
    /// Requirement on the Cancel-Lock.
    pub enum LockRule {
        /// A key must match.
        Key = "key",
        /// A key must match if there is a lock.
        KeyIfLocked = "key if locked",
        /// None.
        Ignored = "ignored",
    }
}
