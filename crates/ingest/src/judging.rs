//! Judging of a batch: each article is identified and goes through the guards, all that pass go through the
//! filters. No side effects.
//!
//! Called by `ingest`. Sources: RFC 5537 section 3.6, RFC 5536 section 3.1.

use super::aside::AsideContext;
use super::checks::{self, ArticlePolicy};
use super::drafts::{BatchDrafts, EntryDraft};
use super::filters::Filters;
use super::follow_ups::FollowUps;
use super::opinions::Opinion;
use super::pause::Pause;
use super::programs::FilterPrograms;
use super::reviews::{FilterFinding, FilterReviews};
use super::routing::Router;
use super::spam::{SpamCounts, SpamFilter};
use super::withdraw::withdrawing;
use super::{DeferralReason, Disposition, IncomingArticle, Origin, Reject, choose, patiently};
use arc_swap::ArcSwap;
use netnews::openpgp::may_be_cleartext;
use netnews::{Article, Known, MessageId, newsgroups};
use site_base::clock::unix_now;
use site_config::{Config, Control, ControlType, NamePattern};
use site_log::SiteLog;
use spool::{ArticleKey, ChangeMaker as _, GroupTable, Spool};
use std::sync::Arc;
use std::time::Instant;

/// A judged batch, ready to be committed.
pub(super) struct JudgedBatch<'a> {
    pub drafts: BatchDrafts<'a>,
    pub origin: &'a Origin,
    /// Time when its judging began.
    pub begun: Instant,
    /// Unix seconds.
    pub now: i64,
    /// Index of its first disposition.
    pub first: usize,
    /// Epoch of the withdrawals when it was judged.
    pub epoch: u64,
    /// Findings of the filters.
    pub found: Vec<FilterFinding>,
}

/// An article to be judged, with what is known of its announced Message-ID.
struct CandidateArticle<'b, 'a> {
    incoming: &'b IncomingArticle<'a>,
    /// Key of the announced Message-ID; without meaning if there is none.
    key: ArticleKey,
    is_known: bool,
}

impl<'a> CandidateArticle<'_, 'a> {
    /// Returns the announced Message-ID and its key, if there is one; a known one is rejected before the
    /// article is examined.
    fn claimed(&self) -> Result<Option<(MessageId<'a>, ArticleKey)>, Reject> {
        let Some(text) = self.incoming.claimed_id else { return Ok(None) };
        let id = MessageId::parse(text).ok_or(Reject::BadMessageId)?;
        if self.is_known { Err(Reject::Duplicate) } else { Ok(Some((id, self.key))) }
    }
}

/// Settings of the configuration for filing, as of one moment.
pub(super) struct FilingRules {
    pub config: Arc<Config>,
    pub policy: ArticlePolicy,
    pub filters: Filters,
    pub programs: FilterPrograms,
    /// Groups in which notices are read, by section.
    pub notice_groups: Vec<NamePattern>,
    /// Counts of the built-in filters, if one of them is on.
    pub spam_counts: Option<Arc<SpamCounts>>,
}

impl FilingRules {
    /// Returns the rules of a configuration; programs of `before` that are still configured keep running,
    /// and its counts are kept.
    pub fn of(config: Arc<Config>, before: Option<&Self>, log: &Arc<SiteLog>) -> Self {
        let none = FilterPrograms::default();
        let programs =
            FilterPrograms::after(before.map_or(&none, |rules| &rules.programs), &config.filters, log);
        let counts = before.and_then(|rules| rules.spam_counts.clone());
        let spam_counts = SpamFilter::is_on(&config.spam).then(|| counts.unwrap_or_default());
        let filters = Filters::of(&config, &programs, spam_counts.as_ref());
        let of_notices = |section: &&Control| section.is_about(ControlType::Nocem);
        let notice_groups =
            config.controls.iter().filter(of_notices).map(|section| section.notice_groups.clone()).collect();
        Self { policy: ArticlePolicy::of(&config), filters, programs, notice_groups, spam_counts, config }
    }

    /// Returns whether an article may be a notice to be read.
    fn may_be_notice(&self, article: &Article<'_>) -> bool {
        if self.notice_groups.is_empty() || article.count(Known::Control) > 0 {
            return false;
        }
        let names = article.header(Known::Newsgroups).unwrap_or_default();
        let reads = |name| self.notice_groups.iter().any(|groups| groups.matches(name));
        newsgroups::split(names).any(reads) && may_be_cleartext(article.body())
    }

    /// Runs the guards: checks whether the article is taken, and appends the groups it is filed in to those
    /// of `drafts`. Returns false if it is only to be remembered.
    fn judge(
        &self,
        origin: &Origin,
        article: &Article<'_>,
        table: &GroupTable,
        now: i64,
        drafts: &mut BatchDrafts<'_>,
    ) -> Result<bool, Reject> {
        checks::relayable(article, &self.policy, origin, now)?;
        let site = &self.config.site;
        if !site.numbers {
            let is_carried = || drafts.is_carried(article);
            return choose::unnumbered(site.unknown_groups, origin, article, is_carried).map(|()| true);
        }
        let start = drafts.groups.len();
        choose::groups(table, site.unknown_groups, origin, article, &mut drafts.groups)?;
        Ok(drafts.groups.len() > start)
    }
}

/// Judges articles by the current configuration.
pub(super) struct ArticleJudge {
    log: Arc<SiteLog>,
    pub rules: ArcSwap<FilingRules>,
    /// Whether articles are currently taken.
    pub pause: Pause,
    router: Arc<Router>,
    follow_ups: Arc<FollowUps>,
    reviews: Arc<FilterReviews>,
}

impl ArticleJudge {
    pub fn new(
        config: Arc<Config>,
        log: Arc<SiteLog>,
        router: Arc<Router>,
        follow_ups: Arc<FollowUps>,
        reviews: Arc<FilterReviews>,
    ) -> Self {
        let rules = ArcSwap::from_pointee(FilingRules::of(config, None, &log));
        Self { log, rules, pause: Pause::default(), router, follow_ups, reviews }
    }

    /// Returns the spool that articles are looked up in.
    pub fn spool(&self) -> &Spool {
        self.log.spool()
    }

    /// Applies another configuration, beginning with the next batch.
    pub fn apply(&self, config: &Arc<Config>) {
        let rules = FilingRules::of(config.clone(), Some(&self.rules.load()), &self.log);
        rules.programs.begin();
        self.rules.store(Arc::new(rules));
    }

    /// Returns whether articles are deferred, as the server is paused or a filter cannot judge them now.
    pub fn is_deferring(&self) -> bool {
        self.pause.lasts() || self.rules.load().programs.is_deferring()
    }

    /// Identifies and judges a batch; appends a disposition for each article, which is `TryLater` until the
    /// accepted ones are committed. No side effects.
    pub fn judge<'a>(
        &self,
        origin: &'a Origin,
        batch: &[IncomingArticle<'a>],
        dispositions: &mut Vec<Disposition>,
    ) -> JudgedBatch<'a> {
        let (begun, now, first) = (Instant::now(), unix_now(), dispositions.len());
        let table = self.spool().group_table();
        let mut drafts = BatchDrafts::new(batch.len(), &self.router, table.clone());
        let epoch = self.follow_ups.withdrawals.epoch();
        if self.pause.lasts() {
            dispositions.extend(batch.iter().map(|_| Disposition::Deferred(DeferralReason::Paused)));
            return JudgedBatch { drafts, origin, begun, now, first, epoch, found: Vec::new() };
        }
        let ids: Vec<&[u8]> = batch.iter().map(|incoming| incoming.claimed_id.unwrap_or_default()).collect();
        let keys: Vec<ArticleKey> = ids.iter().map(|id| self.spool().key(id)).collect();
        let known = self.spool().are_known(&keys, &ids);
        let rules = self.rules.load();
        for (incoming, (key, is_known)) in batch.iter().zip(keys.into_iter().zip(known)) {
            drafts.at = dispositions.len();
            let candidate = CandidateArticle { incoming, key, is_known };
            let verdict = self.consider(&rules, origin, candidate, &table, now, &mut drafts);
            dispositions.push(verdict.map_or_else(Disposition::Rejected, |()| Disposition::TryLater));
        }
        let said = *origin.opinion() != Opinion::Pass;
        let mut found = Vec::new();
        if said || !rules.filters.is_empty() {
            let context = AsideContext { spool: self.spool(), origin, table: &table };
            found = rules.filters.judge(context, &self.reviews, &mut drafts, dispositions);
        }
        JudgedBatch { drafts, origin, begun, now, first, epoch, found }
    }

    /// Identifies and judges one article; entries to be committed are added to `drafts`.
    fn consider<'a>(
        &self,
        rules: &FilingRules,
        origin: &'a Origin,
        candidate: CandidateArticle<'_, 'a>,
        table: &GroupTable,
        now: i64,
        drafts: &mut BatchDrafts<'a>,
    ) -> Result<(), Reject> {
        let claimed = candidate.claimed()?;
        let article = Article::parse(candidate.incoming.wire)?;
        article.required()?;
        checks::framing(&article, origin)?;
        // A released article is known, as it was set aside.
        let key = |id: MessageId<'a>| (id, self.spool().key(id.as_bytes()));
        let claimed = claimed.or_else(|| article.message_id().filter(|_| origin.is_released()).map(key));
        let is_claimed = claimed.is_some();
        let (id, key) = self.identify(&article, claimed)?;
        if !is_claimed && self.spool().is_hash_known(id.as_bytes()) {
            return Err(Reject::Duplicate);
        }
        if !id.is_relayable() {
            return Err(Reject::BadMessageId);
        }
        if let Some(ticket) = self.follow_ups.withdrawing(&key) {
            patiently(|| self.follow_ups.settle(ticket..=ticket));
        }
        if let Err(reject) = self.follow_ups.withdrawals.check(&article, key) {
            drafts.remember(key);
            return Err(reject);
        }
        let groups_start = drafts.groups.len();
        match rules.judge(origin, &article, table, now, drafts) {
            Ok(is_filed) => {
                let groups = groups_start..drafts.groups.len();
                let is_notice = is_filed && rules.may_be_notice(&article);
                let draft =
                    EntryDraft::of(&article, id, key, origin, groups).filed(is_filed).noticed(is_notice);
                drafts.withdrawing.extend(withdrawing(&article, drafts.at, is_filed));
                drafts.push(draft);
                if !rules.filters.is_empty() || *origin.opinion() != Opinion::Pass {
                    drafts.keep_parsed(article);
                }
                Ok(())
            }
            Err(reject) => {
                drafts.groups.truncate(groups_start);
                if reject.is_remembered() {
                    drafts.remember(key);
                }
                Err(reject)
            }
        }
    }

    /// Returns the article's Message-ID, which must be the announced one, and its key.
    pub fn identify<'a>(
        &self,
        article: &Article<'a>,
        claimed: Option<(MessageId<'a>, ArticleKey)>,
    ) -> Result<(MessageId<'a>, ArticleKey), Reject> {
        let id = article.message_id().ok_or(Reject::BadMessageId)?;
        match claimed {
            Some((claimed, _)) if claimed != id => Err(Reject::OtherMessageId),
            Some((_, key)) => Ok((id, key)),
            None => {
                let key = self.spool().key(id.as_bytes());
                if self.spool().is_known(&key) { Err(Reject::Duplicate) } else { Ok((id, key)) }
            }
        }
    }
}
