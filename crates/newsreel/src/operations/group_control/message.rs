//! One control message: whether it is carried out, and what then happens.

use super::done::{Done, NOT_NEWER};
use super::not::Not;
use crate::base::printable;
use crate::config::{Config, Control, ControlAction, ControlType, Word};
use crate::ingest::control::{Asked, Policy, Proof};
use crate::moderation::Moderation;
use netnews::control::group_info::{self, GroupLine, Scope};
use netnews::control::{self, Control as Command};
use netnews::nntp::wire;
use netnews::{Article, Known, date, newsgroups};
use spool::{Flag, Group, GroupChange, GroupUpdate, NewGroup, Spool};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use tracing::{info, warn};

/// How far ahead the date of a message may be.
const AHEAD_SECS_MAX: i64 = 86_400;
/// The longest body that is looked at.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A control message.
pub(super) struct Message<'a> {
    article: &'a Article<'a>,
    proof: &'a Proof<'a>,
    id: &'a str,
    policy: Policy,
    asked: Asked<'a>,
    /// Its Control header.
    control: &'a [u8],
    /// Its body, without dot-stuffing.
    body: Vec<u8>,
}

impl<'a> Message<'a> {
    /// `None`: it is none, or a cancel.
    pub fn of(
        (article, proof): (&'a Article<'a>, &'a Proof<'a>),
        id: &'a str,
        config: &Arc<Config>,
    ) -> Option<Self> {
        let control = article.header(Known::Control)?;
        let asked = Asked::of(article).filter(|asked| asked.what != ControlType::Cancel)?;
        let mut body = Vec::new();
        wire::unstuff(article.body().get(..BODY_BYTES_MAX).unwrap_or(article.body()), &mut body);
        Some(Self { article, proof, id, policy: Policy::of(config.clone()), asked, control, body })
    }

    /// Does what is to be done about it; an error if it must be tried again.
    pub fn carry_out(&self, spool: &Spool, mail: &Moderation, done: &mut Done, now: i64) -> io::Result<()> {
        let outcome = match self.asked.what {
            ControlType::Checkgroups => self.checkgroups(spool, mail, done, now),
            _ => self.decided(spool, mail, done, now),
        };
        let (what, from, id) = (self.subject(), &self.asked.sender, self.id);
        match outcome {
            Ok(text) => info!(what, from, id, "control message carried out: {text}"),
            Err(Not::Carried(reason)) => {
                let remark = self.proof.remark();
                info!(what, from, id, "control message not carried out: {reason}{remark}");
            }
            Err(Not::Now(error)) => return Err(error),
        }
        Ok(())
    }

    /// Its command, in a line.
    fn subject(&self) -> String {
        let text = String::from_utf8_lossy(self.control.get(..200).unwrap_or(self.control)).into_owned();
        printable::line(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
    }

    /// A message that one section decides.
    fn decided(&self, spool: &Spool, mail: &Moderation, done: &mut Done, now: i64) -> Result<String, Not> {
        let section = self.policy.decide(&self.asked, &|names| self.proof.is_by(names)).ok_or(UNDECIDED)?;
        match section.action {
            ControlAction::Do => {}
            ControlAction::Mail => {
                self.well_formed()?;
                self.timely(section, now)?;
                self.mail(mail, section, "It was not carried out: that is for you to do.", now);
                return Err("mailed".into());
            }
            action => return Err(left_to(action)),
        }
        let command = self.well_formed()?;
        let date = self.timely(section, now)?;
        let text = match command {
            Command::Newgroup { name, moderated } => self.newgroup(spool, done, name, moderated, date)?,
            Command::Rmgroup(name) => self.rmgroup(spool, done, name, date)?,
            _ => return Err("messages of this type cannot be carried out".into()),
        };
        self.mail(mail, section, &format!("It was carried out: {text}."), now);
        Ok(text)
    }

    fn newgroup(
        &self,
        spool: &Spool,
        done: &mut Done,
        name: &[u8],
        moderated: bool,
        date: i64,
    ) -> Result<String, Not> {
        let name = public_name(name)?;
        if done.has_group(name, date) {
            return Err(NOT_NEWER.into());
        }
        let content_type = self.article.header(Known::ContentType).unwrap_or_default();
        let line = group_info::newgroup_line(content_type, &self.body).filter(|line| line.name == name);
        if line.as_ref().is_some_and(|line| !line.description.is_empty() && line.is_moderated != moderated) {
            return Err("its body and its Control header disagree on whether the group is moderated".into());
        }
        let group = GroupLine {
            name: name.to_owned(),
            description: line.map(|line| line.description).unwrap_or_default(),
            is_moderated: moderated,
        };
        let present = spool.group_id(name.as_bytes()).and_then(|id| spool.group(id));
        let mut text = match self.update(&group, present.as_deref()) {
            None => "the group was so already".to_owned(),
            Some(update) => {
                let text = match &update {
                    GroupUpdate::Add(_) => "group created",
                    GroupUpdate::Change(_, GroupChange { flag: Some(Flag::Moderated), .. }) => {
                        "group is now moderated"
                    }
                    GroupUpdate::Change(_, GroupChange { flag: Some(_), .. }) => "group is now unmoderated",
                    _ => "description changed",
                };
                spool.update_groups([update])?;
                text.to_owned()
            }
        };
        done.add_group(name, date)?;
        if let Some(address) = group_info::submission_address(&self.body).filter(|_| moderated) {
            text.push_str(&format!(
                "; for its posts it names {address}: add [[moderator]] groups = \"{name}\", address = \
                 \"{address}\" to send them there"
            ));
        }
        Ok(text)
    }

    fn rmgroup(&self, spool: &Spool, done: &mut Done, name: &[u8], date: i64) -> Result<String, Not> {
        let name = public_name(name)?;
        if done.has_group(name, date) {
            return Err(NOT_NEWER.into());
        }
        let removed = spool.remove_group(name)?;
        done.add_group(name, date)?;
        Ok(if removed { "group removed".into() } else { "there was no such group".into() })
    }

    /// The update that makes a group as the message has it; `None`: it is so already. Flags that only an
    /// operator sets stay.
    fn update(&self, line: &GroupLine, present: Option<&Group>) -> Option<GroupUpdate> {
        let flag = if line.is_moderated { Flag::Moderated } else { Flag::Open };
        let Some(group) = present else {
            return Some(GroupUpdate::Add(NewGroup {
                name: line.name.clone(),
                flag,
                description: line.description.clone(),
                creator: printable::line(&self.asked.sender).into_owned(),
                created: crate::base::clock::unix_secs(),
                high: 0,
            }));
        };
        let own = group.flag();
        let flag = Some(flag).filter(|new| matches!(own, Flag::Open | Flag::Moderated) && *new != own);
        let description = Some(line.description.clone());
        let description = description.filter(|text| !text.is_empty() && *text != group.description());
        (flag.is_some() || description.is_some())
            .then(|| GroupUpdate::Change(line.name.clone(), GroupChange { flag, description }))
    }

    fn checkgroups(
        &self,
        spool: &Spool,
        mail: &Moderation,
        done: &mut Done,
        now: i64,
    ) -> Result<String, Not> {
        let sections: Vec<&Control> =
            self.policy.applying(&self.asked, &|names| self.proof.is_by(names)).collect();
        if sections.is_empty() {
            return Err(UNDECIDED.into());
        }
        self.well_formed()?;
        let date = self.date()?;
        let mut scope = Scope::of(self.control).ok_or("its Control header is malformed")?;
        let content_type = self.article.header(Known::ContentType).unwrap_or_default();
        let listed: Vec<GroupLine> = group_info::listed_groups(content_type, &self.body).collect();
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
            if let Some(reason) = done.is_outdated(hierarchy, date, scope.serial) {
                return Err(reason.into());
            }
        }
        let mut plan = self.plan(spool, &sections, &scope, &listed);
        plan.of_sections.values_mut().for_each(|planned| {
            planned.retain(|update| !done.has_newer_group(name_of(update), date));
        });
        let (updates, said) = self.chosen(plan, &sections, mail, now)?;
        let text = counted(&updates, said);
        let copy = format!("It was carried out: {text}.\n\n{}", listing(&updates));
        spool.update_groups(updates)?;
        done.add_hierarchies(&hierarchies, date, scope.serial)?;
        for section in sections.iter().filter(|section| section.action == ControlAction::Do) {
            self.mail(mail, section, &copy, now);
        }
        Ok(text)
    }

    /// Of what is planned the updates that are to be done, and what else there is to say.
    fn chosen(
        &self,
        plan: Plan,
        sections: &[&Control],
        mail: &Moderation,
        now: i64,
    ) -> Result<(Vec<GroupUpdate>, Vec<String>), Not> {
        let (mut updates, mut said, mut decides) = (Vec::new(), Vec::new(), false);
        for (at, mut planned) in plan.of_sections {
            let Some(section) = sections.get(at) else { continue };
            match section.action {
                ControlAction::Do => {
                    self.timely(section, now)?;
                    decides = true;
                    let removals = planned.iter().filter(|u| matches!(u, GroupUpdate::Remove(_))).count();
                    if removals > section.removals_max {
                        said.push(format!("{removals} groups not removed, since removals_max is less"));
                        planned.retain(|update| !matches!(update, GroupUpdate::Remove(_)));
                    }
                    updates.append(&mut planned);
                }
                ControlAction::Mail => {
                    self.timely(section, now)?;
                    let text = format!("It was not carried out; it would change:\n\n{}", listing(&planned));
                    self.mail(mail, section, &text, now);
                    said.push(format!("{} groups mailed", planned.len()));
                }
                action => said.push(format!("{} groups left to action \"{}\"", planned.len(), action.word())),
            }
        }
        if plan.undecided > 0 {
            said.push(format!("{} groups that no [[control]] section decides", plan.undecided));
        }
        if decides { Ok((updates, said)) } else { Err(Not::Carried(said.join(", "))) }
    }

    /// What is to be added, changed and removed.
    fn plan(&self, spool: &Spool, sections: &[&Control], scope: &Scope<'_>, listed: &[GroupLine]) -> Plan {
        let table = spool.group_table();
        let (mut plan, mut seen) = (Plan::default(), HashSet::new());
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

    /// What it asks for, if it says so as it must.
    fn well_formed(&self) -> Result<Command<'a>, Not> {
        for known in [Known::Control, Known::From, Known::Sender, Known::Date, Known::Approved] {
            if self.article.count(known) > 1 {
                return Err(Not::Carried(format!("it has more than one {} header", known.name())));
            }
        }
        if self.article.count(Known::Supersedes) > 0 {
            return Err(Not::Carried(control::BadControl::Both.to_string()));
        }
        let command = control::parse(self.control).map_err(|bad| Not::Carried(bad.to_string()))?;
        let is_of_groups = !matches!(command, Command::Cancel(_) | Command::Other(_));
        if is_of_groups
            && self.article.header(Known::Approved).is_none_or(|value| value.trim_ascii().is_empty())
        {
            return Err("it has no Approved header".into());
        }
        Ok(command)
    }

    /// Its date: that of injection if that is earlier.
    fn date(&self) -> Result<i64, Not> {
        let read = |known| match self.article.header(known) {
            None => Ok(None),
            Some(value) => date::parse(value).map(Some).ok_or_else(|| Not::from("its date cannot be read")),
        };
        let posted = read(Known::Date)?.ok_or("it has no date")?;
        Ok(read(Known::InjectionDate)?.map_or(posted, |injected| injected.min(posted)))
    }

    /// Its date, if it is neither too old nor too far ahead.
    fn timely(&self, section: &Control, now: i64) -> Result<i64, Not> {
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

    /// Mails it where the section says so.
    fn mail(&self, mail: &Moderation, section: &Control, what: &str, now: i64) {
        let Some(to) = &section.mail_to else { return };
        let subject = format!("{} from {}", self.subject(), printable::line(&self.asked.sender));
        let mut text = format!("{what}\n\nThe control message:\n\n").into_bytes();
        for part in [self.article.head(), b"\r\n", &self.body] {
            text.extend(part.iter().filter(|b| **b != b'\r'));
        }
        if let Err(why) = mail.notify(to, &subject, &text, now) {
            warn!(id = self.id, to, ?why, "a control message cannot be mailed");
        }
    }
}

const UNDECIDED: &str = "no [[control]] section decides";

fn left_to(action: ControlAction) -> Not {
    Not::Carried(format!("its [[control]] section has action = \"{}\"", action.word()))
}

fn public_name(name: &[u8]) -> Result<&str, Not> {
    let valid = Some(name).filter(|name| newsgroups::is_public_name(name));
    valid
        .and_then(|name| std::str::from_utf8(name).ok())
        .ok_or_else(|| "the group's name is not valid".into())
}

/// What a checkgroups message changes.
#[derive(Default)]
struct Plan {
    /// By the place of the section that decides.
    of_sections: BTreeMap<usize, Vec<GroupUpdate>>,
    /// Groups that none decides.
    undecided: usize,
}

impl Plan {
    /// Adds an update of a group, or that it needs none, to the section that decides.
    fn add(&mut self, sections: &[&Control], group: &str, update: impl Into<Option<GroupUpdate>>) {
        let update = update.into();
        match sections.iter().position(|section| section.groups.matches(group.as_bytes())) {
            Some(at) => self.of_sections.entry(at).or_default().extend(update),
            None => self.undecided += usize::from(update.is_some()),
        }
    }
}

fn name_of(update: &GroupUpdate) -> &str {
    match update {
        GroupUpdate::Add(group) => &group.name,
        GroupUpdate::Change(name, _) | GroupUpdate::Remove(name) => name,
    }
}

/// How many groups are added, changed and removed, and what else there is to say.
fn counted(updates: &[GroupUpdate], mut said: Vec<String>) -> String {
    let count = |of: fn(&GroupUpdate) -> bool| updates.iter().filter(|update| of(update)).count();
    let counts = [
        (count(|update| matches!(update, GroupUpdate::Add(_))), "created"),
        (count(|update| matches!(update, GroupUpdate::Change(..))), "changed"),
        (count(|update| matches!(update, GroupUpdate::Remove(_))), "removed"),
    ];
    let mut words: Vec<String> = counts.iter().map(|(n, word)| format!("{n} groups {word}")).collect();
    words.append(&mut said);
    words.join(", ")
}

/// One line an update.
fn listing(updates: &[GroupUpdate]) -> String {
    let line = |update: &GroupUpdate| {
        let word = match update {
            GroupUpdate::Add(_) => "create",
            GroupUpdate::Change(..) => "change",
            GroupUpdate::Remove(_) => "remove",
        };
        format!("  {word} {}\n", name_of(update))
    };
    updates.iter().map(line).collect()
}
