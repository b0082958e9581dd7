//! One control message: whether it is carried out, and how.

use super::changes::{NewsmasterMail, PendingChange, PendingChanges};
use super::done::{ControlHistory, NOT_NEWER};
use super::not::NotCarriedOut;
use ingest::control::{ControlPolicy, ControlRequest, SignatureProof};
use netnews::control::group_info::{self, BodyHeaders, CheckgroupsScope, GroupDescription};
use netnews::control::{self, ControlCommand as Command};
use netnews::nntp::wire;
use netnews::{Article, Known, date, newsgroups};
use site::moderation::ModerationQueue;
use site_base::printable;
use site_base::units::counted;
use site_config::{Config, ConfigWord, Control, ControlAction, ControlType};
use site_log::SiteLog;
use spool::{ChangeMaker as _, Group, GroupChange, GroupFlag, GroupUpdate, NewGroup, Spool};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use tracing::info;

/// Maximum distance of a message's date in the future, in seconds.
const AHEAD_SECS_MAX: i64 = 86_400;
/// Maximum number of bytes of a body that are read.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Context in which control messages are carried out.
pub(super) struct ControlContext<'a> {
    pub spool: &'a Spool,
    pub log: &'a SiteLog,
    pub mail: &'a ModerationQueue,
    pub done: &'a ControlHistory,
    pub changes: &'a mut PendingChanges,
    pub now: i64,
}

impl ControlContext<'_> {
    /// Makes the pending changes, because the next step depends on them or must not be repeated.
    pub fn make_changes(&mut self) -> io::Result<()> {
        self.changes.make(self.log, self.done, self.mail, self.now)
    }
}

/// A control message.
pub(super) struct GroupControlMessage<'a> {
    article: &'a Article<'a>,
    proof: &'a SignatureProof<'a>,
    id: &'a str,
    policy: ControlPolicy,
    asked: ControlRequest<'a>,
    /// Value of the Control header.
    control: &'a [u8],
    /// Body, without dot-stuffing.
    body: Vec<u8>,
}

impl<'a> GroupControlMessage<'a> {
    /// Returns the control message in an article; `None` if there is none, or a cancel.
    pub fn of(
        article: &'a Article<'a>,
        proof: &'a SignatureProof<'a>,
        id: &'a str,
        config: &Arc<Config>,
    ) -> Option<Self> {
        let control = article.header(Known::Control)?;
        let asked = ControlRequest::of(article).filter(|asked| asked.what != ControlType::Cancel)?;
        let mut body = Vec::new();
        wire::unstuff(article.body().get(..BODY_BYTES_MAX).unwrap_or(article.body()), &mut body);
        Some(Self { article, proof, id, policy: ControlPolicy::of(config.clone()), asked, control, body })
    }

    /// Carries out the message; after an error it must be tried again. A change of a group may stay pending.
    pub fn carry_out(&self, on: &mut ControlContext<'_>) -> io::Result<()> {
        let outcome = match self.asked.what {
            ControlType::Checkgroups => self.checkgroups(on).map(Some),
            _ => self.decided(on).map(|()| None),
        };
        let (what, from, id) = (self.subject(), &self.asked.sender, self.id);
        match outcome {
            Ok(Some(text)) => info!(what, from, id, "control message carried out: {text}"),
            // Logged once the change is made.
            Ok(None) => {}
            Err(NotCarriedOut::Carried(reason)) => {
                let remark = self.proof.remark();
                info!(what, from, id, "control message not carried out: {reason}{remark}");
            }
            Err(NotCarriedOut::Now(error)) => return Err(error),
        }
        Ok(())
    }

    /// Returns the command, in one line.
    fn subject(&self) -> String {
        let text = String::from_utf8_lossy(self.control.get(..200).unwrap_or(self.control)).into_owned();
        printable::line(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
    }

    /// Carries out a message that one section decides, by adding a pending change.
    fn decided(&self, on: &mut ControlContext<'_>) -> Result<(), NotCarriedOut> {
        let section = self.policy.decide(&self.asked, &|names| self.proof.is_by(names)).ok_or(UNDECIDED)?;
        match section.action {
            ControlAction::Do => {}
            ControlAction::Mail => {
                self.well_formed()?;
                self.timely(section, on.now)?;
                on.make_changes()?;
                self.mail(on, section, "It was not carried out: that is for you to do.");
                return Err("mailed".into());
            }
            action => return Err(left_to(action)),
        }
        let command = self.well_formed()?;
        let date = self.timely(section, on.now)?;
        let (Command::Newgroup { name, .. } | Command::Rmgroup(name)) = command else {
            return Err("messages of this type cannot be carried out".into());
        };
        let name = public_name(name)?;
        if on.changes.has_group(name) {
            on.make_changes()?;
        }
        if on.done.has_group(name, date) {
            return Err(NOT_NEWER.into());
        }
        let (update, text) = match command {
            Command::Newgroup { moderated, .. } => self.newgroup(on.spool, name, moderated)?,
            _ => rmgroup(on.spool, name),
        };
        let mail = self.letter(section, &format!("It was carried out: {text}."));
        let (what, from, id) = (self.subject(), self.asked.sender.clone(), self.id.to_owned());
        on.changes.add(PendingChange { name: name.to_owned(), date, update, text, what, from, id, mail });
        if on.changes.is_full() {
            on.make_changes()?;
        }
        Ok(())
    }

    fn newgroup(
        &self,
        spool: &Spool,
        name: &str,
        moderated: bool,
    ) -> Result<(Option<GroupUpdate>, String), NotCarriedOut> {
        let form = BodyHeaders::of(self.article);
        let line = group_info::newgroup_line(form, &self.body).filter(|line| line.name == name);
        if line.as_ref().is_some_and(|line| !line.description.is_empty() && line.is_moderated != moderated) {
            return Err("its body and its Control header disagree on whether the group is moderated".into());
        }
        let group = GroupDescription {
            name: name.to_owned(),
            description: line.map(|line| line.description).unwrap_or_default(),
            is_moderated: moderated,
        };
        let present = spool.group_id(name.as_bytes()).and_then(|id| spool.group(id));
        let update = self.update(&group, present.as_deref());
        let mut text = match &update {
            None => "the group was so already",
            Some(GroupUpdate::Add(_)) => "group created",
            Some(GroupUpdate::Change(_, GroupChange { flag: Some(GroupFlag::Moderated), .. })) => {
                "group is now moderated"
            }
            Some(GroupUpdate::Change(_, GroupChange { flag: Some(_), .. })) => "group is now unmoderated",
            Some(_) => "description changed",
        }
        .to_owned();
        if let Some(address) = group_info::submission_address(form, &self.body).filter(|_| moderated) {
            text.push_str(&format!(
                "; for its posts it names {address}: add [[moderator]] groups = \"{name}\", address = \
                 \"{address}\" to send them there"
            ));
        }
        Ok((update, text))
    }

    /// Returns the update that makes a group as the message has it; `None` if it is so already. Flags that
    /// only an operator sets stay.
    fn update(&self, line: &GroupDescription, present: Option<&Group>) -> Option<GroupUpdate> {
        let flag = if line.is_moderated { GroupFlag::Moderated } else { GroupFlag::Open };
        let Some(group) = present else {
            return Some(GroupUpdate::Add(NewGroup {
                name: line.name.clone(),
                flag,
                description: line.description.clone(),
                creator: printable::line(&self.asked.sender).into_owned(),
                created: site_base::clock::unix_secs(),
                high: 0,
            }));
        };
        let own = group.flag();
        let flag =
            Some(flag).filter(|new| matches!(own, GroupFlag::Open | GroupFlag::Moderated) && *new != own);
        let description = Some(line.description.clone());
        let description = description.filter(|text| !text.is_empty() && *text != group.description());
        (flag.is_some() || description.is_some())
            .then(|| GroupUpdate::Change(line.name.clone(), GroupChange { flag, description }))
    }

    fn checkgroups(&self, on: &mut ControlContext<'_>) -> Result<String, NotCarriedOut> {
        on.make_changes()?;
        let sections: Vec<&Control> =
            self.policy.applying(&self.asked, &|names| self.proof.is_by(names)).collect();
        if sections.is_empty() {
            return Err(UNDECIDED.into());
        }
        self.well_formed()?;
        let date = self.date()?;
        let mut scope = CheckgroupsScope::of(self.control).ok_or("its Control header is malformed")?;
        let listed = group_info::listed_groups(BodyHeaders::of(self.article), &self.body);
        if listed.is_empty() {
            return Err("it lists no group".into());
        }
        if scope.hierarchies.is_empty() {
            let tops: BTreeSet<&[u8]> =
                listed.iter().map(|line| group_info::top_level(line.name.as_bytes())).collect();
            scope.hierarchies = tops.into_iter().collect();
        }
        let hierarchies: Vec<&str> =
            scope.hierarchies.iter().filter_map(|name| std::str::from_utf8(name).ok()).collect();
        for hierarchy in &hierarchies {
            if let Some(reason) = on.done.is_outdated(hierarchy, date, scope.serial) {
                return Err(reason.into());
            }
        }
        let mut plan = self.plan(on.spool, &sections, &scope, &listed);
        plan.of_sections.values_mut().for_each(|planned| {
            planned.retain(|update| !on.done.has_newer_group(update.name(), date));
        });
        let (updates, said) = self.chosen(plan, &sections, on)?;
        let text = summary(&updates, said);
        let copy = format!("It was carried out: {text}.\n\n{}", listing(&updates));
        on.log.update_groups(updates)?;
        on.done.add_hierarchies(&hierarchies, date, scope.serial)?;
        for section in sections.iter().filter(|section| section.action == ControlAction::Do) {
            self.mail(on, section, &copy);
        }
        Ok(text)
    }

    /// Returns the planned updates to carry out, and remarks.
    fn chosen(
        &self,
        plan: CheckgroupsPlan,
        sections: &[&Control],
        on: &ControlContext<'_>,
    ) -> Result<(Vec<GroupUpdate>, Vec<String>), NotCarriedOut> {
        let (mut updates, mut said, mut decides) = (Vec::new(), Vec::new(), false);
        for (at, mut planned) in plan.of_sections {
            let Some(section) = sections.get(at) else { continue };
            match section.action {
                ControlAction::Do => {
                    self.timely(section, on.now)?;
                    decides = true;
                    let removals = planned.iter().filter(|u| matches!(u, GroupUpdate::Remove(_))).count();
                    if removals > section.removals_max {
                        said.push(format!(
                            "{} not removed, since removals_max is less",
                            counted(removals as u64, "group")
                        ));
                        planned.retain(|update| !matches!(update, GroupUpdate::Remove(_)));
                    }
                    updates.append(&mut planned);
                }
                ControlAction::Mail => {
                    self.timely(section, on.now)?;
                    let text = format!("It was not carried out; it would change:\n\n{}", listing(&planned));
                    self.mail(on, section, &text);
                    said.push(format!("{} mailed", counted(planned.len() as u64, "group")));
                }
                action => {
                    let groups = counted(planned.len() as u64, "group");
                    said.push(format!("{groups} left to action \"{}\"", action.word()));
                }
            }
        }
        if plan.undecided > 0 {
            said.push(format!(
                "{} that no [[control]] section decides",
                counted(plan.undecided as u64, "group")
            ));
        }
        if decides { Ok((updates, said)) } else { Err(NotCarriedOut::Carried(said.join(", "))) }
    }

    /// Plans the groups to add, change and remove.
    fn plan(
        &self,
        spool: &Spool,
        sections: &[&Control],
        scope: &CheckgroupsScope<'_>,
        listed: &[GroupDescription],
    ) -> CheckgroupsPlan {
        let table = spool.group_table();
        let (mut plan, mut seen) = (CheckgroupsPlan::default(), HashSet::new());
        for line in listed {
            let name = line.name.as_bytes();
            if scope.covers(name) && newsgroups::is_public_name(name) && seen.insert(line.name.as_str()) {
                let present = table.id(name).and_then(|id| table.get(id));
                plan.add(sections, &line.name, self.update(line, present.map(|group| &**group)));
            }
        }
        for group in table.sorted().iter().filter(|group| scope.covers(group.name.as_bytes())) {
            if !seen.contains(&*group.name) && newsgroups::is_public_name(group.name.as_bytes()) {
                plan.add(sections, &group.name, GroupUpdate::Remove(group.name.to_string()));
            }
        }
        plan
    }

    /// Returns the command, if the message is well-formed.
    fn well_formed(&self) -> Result<Command<'a>, NotCarriedOut> {
        for known in [Known::Control, Known::From, Known::Sender, Known::Date, Known::Approved] {
            if self.article.count(known) > 1 {
                return Err(NotCarriedOut::Carried(format!("it has more than one {} header", known.name())));
            }
        }
        if self.article.count(Known::Supersedes) > 0 {
            return Err(NotCarriedOut::Carried(control::ControlError::Both.to_string()));
        }
        let command = control::parse(self.control).map_err(|bad| NotCarriedOut::Carried(bad.to_string()))?;
        let is_of_groups = !matches!(command, Command::Cancel(_) | Command::Other(_));
        if is_of_groups
            && self.article.header(Known::Approved).is_none_or(|value| value.trim_ascii().is_empty())
        {
            return Err("it has no Approved header".into());
        }
        Ok(command)
    }

    /// Returns the date: that of injection if it is earlier.
    fn date(&self) -> Result<i64, NotCarriedOut> {
        let read = |known| match self.article.header(known) {
            None => Ok(None),
            Some(value) => {
                date::parse(value).map(Some).ok_or_else(|| NotCarriedOut::from("its date cannot be read"))
            }
        };
        let posted = read(Known::Date)?.ok_or("it has no date")?;
        Ok(read(Known::InjectionDate)?.map_or(posted, |injected| injected.min(posted)))
    }

    /// Returns the date, if it is neither too old nor too far ahead.
    fn timely(&self, section: &Control, now: i64) -> Result<i64, NotCarriedOut> {
        let date = self.date()?;
        let age_max = i64::try_from(section.age_max.as_secs()).unwrap_or(i64::MAX);
        if date > now.saturating_add(AHEAD_SECS_MAX) {
            return Err("its date is more than a day ahead".into());
        }
        if now.saturating_sub(date) > age_max {
            return Err("it is older than age_max of its [[control]] section".into());
        }
        Ok(date)
    }

    /// Mails the message if the section asks for it.
    fn mail(&self, on: &ControlContext<'_>, section: &Control, what: &str) {
        if let Some(letter) = self.letter(section, what) {
            letter.send(on.mail, self.id, on.now);
        }
    }

    /// Returns the mail about the message if the section asks for it.
    fn letter(&self, section: &Control, what: &str) -> Option<NewsmasterMail> {
        let to = section.mail_to.clone()?;
        let subject = format!("{} from {}", self.subject(), printable::line(&self.asked.sender));
        let mut text = format!("{what}\n\nThe control message:\n\n").into_bytes();
        for part in [self.article.head(), b"\r\n", &self.body] {
            text.extend(part.iter().filter(|b| **b != b'\r'));
        }
        Some(NewsmasterMail { to, subject, text })
    }
}

fn rmgroup(spool: &Spool, name: &str) -> (Option<GroupUpdate>, String) {
    match spool.group_id(name.as_bytes()) {
        Some(_) => (Some(GroupUpdate::Remove(name.to_owned())), "group removed".to_owned()),
        None => (None, "there was no such group".to_owned()),
    }
}

const UNDECIDED: &str = "no [[control]] section decides";

fn left_to(action: ControlAction) -> NotCarriedOut {
    NotCarriedOut::Carried(format!("its [[control]] section has action = \"{}\"", action.word()))
}

fn public_name(name: &[u8]) -> Result<&str, NotCarriedOut> {
    let valid = Some(name).filter(|name| newsgroups::is_public_name(name));
    valid
        .and_then(|name| std::str::from_utf8(name).ok())
        .ok_or_else(|| "the group's name is not valid".into())
}

/// Updates that a checkgroups message asks for.
#[derive(Default)]
struct CheckgroupsPlan {
    /// Updates by the index of the section that decides.
    of_sections: BTreeMap<usize, Vec<GroupUpdate>>,
    /// Number of updates without a deciding section.
    undecided: usize,
}

impl CheckgroupsPlan {
    /// Adds an update of a group (or none, if it needs none) to the section that decides.
    fn add(&mut self, sections: &[&Control], group: &str, update: impl Into<Option<GroupUpdate>>) {
        let update = update.into();
        match sections.iter().position(|section| section.groups.matches(group.as_bytes())) {
            Some(at) => self.of_sections.entry(at).or_default().extend(update),
            None => self.undecided += usize::from(update.is_some()),
        }
    }
}

/// Describes how many groups are added, changed and removed, followed by remarks.
fn summary(updates: &[GroupUpdate], mut said: Vec<String>) -> String {
    let count = |of: fn(&GroupUpdate) -> bool| updates.iter().filter(|update| of(update)).count();
    let counts = [
        (count(|update| matches!(update, GroupUpdate::Add(_))), "created"),
        (count(|update| matches!(update, GroupUpdate::Change(..))), "changed"),
        (count(|update| matches!(update, GroupUpdate::Remove(_))), "removed"),
    ];
    let mut words: Vec<String> =
        counts.iter().map(|(n, word)| format!("{} {word}", counted(*n as u64, "group"))).collect();
    words.append(&mut said);
    words.join(", ")
}

/// Formats the updates, one in each line.
fn listing(updates: &[GroupUpdate]) -> String {
    let line = |update: &GroupUpdate| {
        let word = match update {
            GroupUpdate::Add(_) => "create",
            GroupUpdate::Change(..) => "change",
            GroupUpdate::Remove(_) => "remove",
            GroupUpdate::RaiseHigh(..) => "raise the high mark of",
        };
        format!("  {word} {}\n", update.name())
    };
    updates.iter().map(line).collect()
}
