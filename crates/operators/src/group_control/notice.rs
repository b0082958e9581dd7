//! One NoCeM notice: whether it is carried out, and how (`docs/nocem.md`).
//!
//! Listed articles that are here are hidden, those not here yet are hidden on arrival; then the notice is
//! recorded. After a crash in between it is repeated, which changes nothing already done. Sources: the NoCeM
//! format, version 0.9, RFC 4880 section 7.

use super::not::NotCarriedOut;
use super::notices_done::{DoneNotice, NoticesDone};
use disk::ReadMode;
use ingest::control::{Keyring, SignedText, address, signer_of};
use ingest::{EarlyHides, Hider};
use netnews::control::nocem::{ListedArticle, NocemNotice as Form, NoticeAction, NoticeError};
use netnews::nntp::wire;
use netnews::openpgp::{Cleartext, CleartextError};
use netnews::{Article, Known, newsgroups};
use site_base::printable;
use site_base::units::counted;
use site_config::{Config, Control, ControlAction, ControlType};
use site_log::SiteLog;
use spool::{ArticleBuf, ArticleKey, ChangeMaker as _, HideOutcome, Lookup, Spool};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use tracing::info;

/// Period of the issuers' limits, in seconds.
const HOUR_SECS: i64 = 3_600;

/// Context in which notices are carried out.
pub(super) struct NoticeContext<'a> {
    pub spool: &'a Spool,
    pub log: &'a SiteLog,
    pub hides: &'a EarlyHides,
    pub keyring: &'a Keyring,
    pub config: &'a Config,
    pub now: i64,
}

/// Counts of a notice's articles by result.
#[derive(Default)]
struct NoticeCounts {
    changed: usize,
    awaited: usize,
    already: usize,
    elsewhere: usize,
    gone: usize,
}

impl NoticeContext<'_> {
    /// Carries out an article that may be a notice; after an error it must be tried again.
    pub fn carry_out(&self, article: &Article<'_>, id: &str, done: &mut NoticesDone) -> io::Result<()> {
        let names = article.header(Known::Newsgroups).unwrap_or_default();
        let reads = |section: &&Control| {
            section.types.contains(&ControlType::Nocem)
                && newsgroups::split(names).any(|name| section.notice_groups.matches(name))
        };
        let sections: Vec<&Control> = self.config.controls.iter().filter(reads).collect();
        let mut body = Vec::new();
        wire::unstuff(article.body(), &mut body);
        let signed = match Cleartext::of(&body) {
            _ if sections.is_empty() => return Ok(()),
            // People write there as well.
            Err(CleartextError::Absent) => return Ok(()),
            Err(bad) => {
                info!(id, "notice not carried out: {bad}");
                return Ok(());
            }
            Ok(signed) => signed,
        };
        let notice = match Form::of(&signed.text) {
            Err(NoticeError::Absent) => return Ok(()),
            Err(bad) => {
                info!(id, "notice not carried out: {bad}");
                return Ok(());
            }
            Ok(notice) => notice,
        };
        let (issuer, kind) = (printable::line(notice.issuer), printable::line(notice.kind));
        let notice_id = printable::line(notice.id);
        match self.decide(&notice, &signed, &sections, done) {
            Ok(text) => info!(%issuer, %kind, %notice_id, id, "notice carried out: {text}"),
            Err(NotCarriedOut::Carried(why)) => {
                info!(%issuer, %kind, %notice_id, id, "notice not carried out: {why}")
            }
            Err(NotCarriedOut::Now(error)) => return Err(error),
        }
        Ok(())
    }

    fn decide(
        &self,
        notice: &Form<'_>,
        text: &Cleartext,
        sections: &[&Control],
        done: &mut NoticesDone,
    ) -> Result<String, NotCarriedOut> {
        let issuer = match notice.issuer.contains('@') {
            true => address(notice.issuer.as_bytes()).to_lowercase(),
            false => notice.issuer.to_lowercase(),
        };
        let is_about = |section: &&&Control| {
            section.from.matches(issuer.as_bytes())
                && (section.notice_types.is_empty()
                    || section.notice_types.iter().any(|kind| kind.eq_ignore_ascii_case(notice.kind)))
        };
        let sections: Vec<&Control> = sections.iter().filter(is_about).copied().collect();
        if sections.is_empty() {
            return Err("no [[control]] section decides about its issuer and type".into());
        }
        let signed = signer_of(&text.text, &text.signature, self.keyring, self.now)
            .map_err(|why| format!("its signature does not count: {why}"))?;
        let called = || signed.key.users.first().unwrap_or(&signed.key.fingerprint);
        if !signed.key.is_of(&issuer) {
            return Err(format!("it is signed by {}, who is not its issuer", called()).into());
        }
        let is_by = |section: &&Control| section.signed_by.iter().any(|name| signed.key.is_called(name));
        let sections: Vec<&Control> = sections.into_iter().filter(is_by).collect();
        let Some(first) = sections.first() else {
            return Err(format!("it is signed by {}, whom its section does not name", called()).into());
        };
        self.check_limits(notice, &signed, first, done)?;
        let by = format!("nocem:{}", printable::line(&issuer));
        let text = match notice.action {
            NoticeAction::Hide => self.hide(notice, &by, &sections)?,
            NoticeAction::Show => self.show(notice, &by)?,
        };
        let entry = DoneNotice {
            signed: signed.created,
            at: self.now,
            listed: notice.listed.len(),
            key: signed.key.fingerprint.clone(),
        };
        done.add(signed.digest, entry)?;
        Ok(text)
    }

    /// Refuses a notice that is too old, was carried out before, or exceeds the issuer's limits.
    fn check_limits(
        &self,
        notice: &Form<'_>,
        signed: &SignedText,
        section: &Control,
        done: &NoticesDone,
    ) -> Result<(), NotCarriedOut> {
        let age_max = i64::try_from(section.age_max.as_secs()).unwrap_or(i64::MAX);
        if self.now.saturating_sub(signed.created) > age_max {
            return Err("it was signed longer ago than age_max of its [[control]] section".into());
        }
        if let Some(why) = done.refuses(&signed.digest, signed.created) {
            return Err(why.into());
        }
        let (notices, listed) = done.since(self.now - HOUR_SECS, &signed.key.fingerprint);
        if notices >= section.notices_per_hour_max {
            return Err(format!("{notices} notices of its issuer were carried out within an hour").into());
        }
        if listed + notice.listed.len() > section.hides_per_hour_max {
            let more = counted(notice.listed.len() as u64, "article");
            return Err(format!("it lists {more}, after {listed} of its issuer within an hour").into());
        }
        Ok(())
    }

    fn hide(&self, notice: &Form<'_>, by: &str, sections: &[&Control]) -> Result<String, NotCarriedOut> {
        let reason = printable::line(&format!("{}, notice {}", notice.kind, notice.id)).into_owned();
        let hiders: Vec<Arc<Hider>> = sections
            .iter()
            .map(|section| Hider { by: by.into(), reason: reason.clone(), groups: section.groups.clone() })
            .map(Arc::new)
            .collect();
        let does = |at: usize| sections.get(at).is_some_and(|section| section.action == ControlAction::Do);
        let (here, mut counts) = self.await_absent(notice, &hiders, &does)?;
        self.hides.sync()?;
        let mut ids: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
        let mut buf = ArticleBuf::default();
        for listed in here {
            let id = listed.id.as_bytes();
            let key = self.spool.key(id);
            let Lookup::Present(token) = self.spool.lookup(&key) else { continue };
            match self.spool.read(&token, Some(&key), ReadMode::Wait, &mut buf) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => return Err(NotCarriedOut::Now(io::Error::other(error.to_string()))),
            }
            let mut headers = netnews::article::Headers::of(buf.head());
            let names = headers.find(|(name, _)| name.eq_ignore_ascii_case(b"Newsgroups"));
            let names = names.map(|(_, value)| value).unwrap_or_default();
            match hiders.iter().position(|hider| hider.hides(names)) {
                Some(at) if does(at) => ids.entry(at).or_default().push(id),
                _ => counts.elsewhere += 1,
            }
        }
        for ids in ids.values() {
            let outcomes = self.log.hide_all(ids, by, &reason)?;
            counts.changed += outcomes.iter().filter(|outcome| **outcome == HideOutcome::Hidden).count();
        }
        Ok(counts.text("hidden"))
    }

    /// Registers absent articles to be hidden on arrival; returns those that are here.
    fn await_absent<'n>(
        &self,
        notice: &'n Form<'n>,
        hiders: &[Arc<Hider>],
        does: &dyn Fn(usize) -> bool,
    ) -> Result<(Vec<&'n ListedArticle<'n>>, NoticeCounts), NotCarriedOut> {
        let (mut here, mut counts) = (Vec::new(), NoticeCounts::default());
        let mut absent: BTreeMap<usize, Vec<(&ListedArticle<'_>, ArticleKey)>> = BTreeMap::new();
        let mut seen = HashSet::new();
        // Nothing is filed between the lookup and the registration.
        let _closed = self.hides.closed();
        for listed in &notice.listed {
            let key = self.spool.key(listed.id.as_bytes());
            if !seen.insert(key.0) {
                continue;
            }
            match self.spool.lookup(&key) {
                Lookup::Present(_) => here.push(listed),
                Lookup::Hidden(_) => counts.already += 1,
                Lookup::Gone | Lookup::Remembered => counts.gone += 1,
                Lookup::Unknown if self.spool.is_hash_known(listed.id.as_bytes()) => counts.gone += 1,
                Lookup::Unknown => {
                    let names = listed.groups.join(",");
                    match hiders.iter().position(|hider| hider.hides(names.as_bytes())) {
                        Some(at) if does(at) => absent.entry(at).or_default().push((listed, key)),
                        _ => counts.elsewhere += 1,
                    }
                }
            }
        }
        for (at, listed) in absent {
            let Some(hider) = hiders.get(at) else { continue };
            let keys: Vec<ArticleKey> = listed.iter().map(|(_, key)| *key).collect();
            self.hides.add(&keys, hider, self.now)?;
            // The gate is this machine's: what another member of a cluster has filed before the
            // registration is here by now.
            let is_here = |(_, key): &&(_, ArticleKey)| matches!(self.spool.lookup(key), Lookup::Present(_));
            let before = here.len();
            here.extend(listed.iter().filter(is_here).map(|(listed, _)| *listed));
            counts.awaited += keys.len() - (here.len() - before);
        }
        Ok((here, counts))
    }

    /// Unhides articles that the same issuer has hidden.
    fn show(&self, notice: &Form<'_>, by: &str) -> Result<String, NotCarriedOut> {
        let keys: Vec<ArticleKey> =
            notice.listed.iter().map(|listed| self.spool.key(listed.id.as_bytes())).collect();
        let mut counts = NoticeCounts { awaited: self.hides.remove(&keys, by)?, ..NoticeCounts::default() };
        self.hides.sync()?;
        let is_own = |key: &&ArticleKey| self.spool.hidden_article(key).is_some_and(|hidden| hidden.by == by);
        let own: Vec<ArticleKey> = keys.iter().filter(is_own).copied().collect();
        counts.changed = self.log.unhide_all(&own)?.iter().filter(|shown| **shown).count();
        Ok(counts.text("shown again"))
    }
}

impl NoticeCounts {
    fn text(&self, what: &str) -> String {
        let all = [
            (self.changed, what.to_owned()),
            (self.awaited, format!("{what} when they come")),
            (self.already, "hidden already".to_owned()),
            (self.elsewhere, "in groups in which they are not hidden".to_owned()),
            (self.gone, "not here any more".to_owned()),
        ];
        let said = all.iter().enumerate().filter(|(at, (count, _))| *at == 0 || *count > 0);
        let said: Vec<String> = said
            .map(|(_, (count, what))| {
                format!("{count} {} {what}", if *count == 1 { "article" } else { "articles" })
            })
            .collect();
        said.join(", ")
    }
}
