//! Filters: examine the articles of a batch together, after the guards have let them through.
//!
//! Filters run one after the other: first the built-in ones, which share a time limit for each batch, then
//! the programs of `[[filter]]`, each with its own limit. Articles not judged in that time pass as if there
//! were no filter, unless the program's section says to defer them: accepting does not wait for opinions.
//! Such periods are logged when they begin and when they end. Called by `ingest`.

use super::aside::AsideContext;
use super::drafts::BatchDrafts;
use super::opinions::Opinion;
use super::programs::{self, FilterPrograms, FilterRequest, ProgramVerdict, RunningFilter};
use super::reviews::{FilterAction, FilterFinding, FilterReviews};
use super::spam::{SpamCounts, SpamFilter};
use super::{Disposition, Origin};
use netnews::{Article, Known, newsgroups};
use site_config::{Config, FilterStage};
use spool::ArticleKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time limit of the built-in filters for a batch.
const BATCH_TIME_MAX: Duration = Duration::from_millis(500);
/// Size of a request to a program, in bytes; a longer article is sent alone.
const REQUEST_BYTES_MAX: usize = 256 << 10;

/// A filter of the configuration.
#[derive(Debug)]
pub(super) enum BatchFilter {
    Encodings,
    Spam(SpamFilter),
    Program(ProgramFilter),
    #[cfg(test)]
    BySubject(super::tests::filters::BySubject),
}

impl BatchFilter {
    /// Returns the name for the log.
    fn name(&self) -> &str {
        match self {
            Self::Encodings => "encodings",
            Self::Spam(_) => "spam",
            Self::Program(filter) => &filter.program.section.name,
            #[cfg(test)]
            Self::BySubject(_) => "by subject",
        }
    }

    /// Appends an opinion for each of the articles, in order, and returns at `until` at the latest, unless
    /// the filter has a limit of its own; articles without an opinion are not judged. May wait.
    fn judge(&self, origin: &Origin, articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>) {
        match self {
            Self::Encodings => judge_encodings(articles, until, opinions),
            Self::Spam(filter) => filter.judge(origin, articles, until, opinions),
            Self::Program(filter) => filter.judge(origin, articles, opinions),
            #[cfg(test)]
            Self::BySubject(filter) => filter.judge(articles, until, opinions),
        }
    }

    /// Returns whether it only sets verdicts for storage rules.
    fn only_classifies(&self) -> bool {
        matches!(self, Self::Encodings)
    }
}

/// The filters of a site.
#[derive(Debug)]
pub(super) struct Filters {
    filters: Vec<BatchFilter>,
    time_max: Duration,
    /// Whether part of the last batch was not judged.
    is_late: AtomicBool,
}

impl Filters {
    /// Returns the filters of the configuration, with its programs. Examining bodies is expensive, so it is
    /// only done if a storage rule asks for a verdict.
    pub fn of(config: &Config, programs: &FilterPrograms, spam_counts: Option<&Arc<SpamCounts>>) -> Self {
        let asks_verdict = config.rules.iter().any(|rule| rule.verdict.is_some());
        let mut filters = Vec::new();
        if asks_verdict {
            filters.push(BatchFilter::Encodings);
        }
        if let Some(counts) = spam_counts {
            filters.push(BatchFilter::Spam(SpamFilter::new(config.spam.clone(), counts.clone())));
        }
        for program in programs.judging(FilterStage::Feed) {
            let aside = program.section.aside.as_str().into();
            filters.push(BatchFilter::Program(ProgramFilter { program: program.clone(), aside }));
        }
        Self::new(filters, BATCH_TIME_MAX)
    }

    pub fn new(filters: Vec<BatchFilter>, time_max: Duration) -> Self {
        Self { filters, time_max, is_late: AtomicBool::new(false) }
    }

    /// Returns whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Runs all filters on the articles of `drafts`, and sets the dispositions of those that they refuse or
    /// defer. Articles refused or set aside by one filter are not shown to the next, and articles released by
    /// the operator pass. Returns the findings.
    pub fn judge(
        &self,
        context: AsideContext<'_>,
        reviews: &FilterReviews,
        drafts: &mut BatchDrafts<'_>,
        dispositions: &mut [Disposition],
    ) -> Vec<FilterFinding> {
        let origin = context.origin;
        let mut found = Vec::new();
        let until = Instant::now() + self.time_max;
        let mut late = None;
        if *origin.opinion() != Opinion::Pass {
            let mut said = vec![origin.opinion().clone(); drafts.parsed().len()];
            note(origin.judged_by(), drafts.places(), &mut said, reviews, &mut found);
            drafts.follow(origin.judged_by(), said, context, dispositions);
        }
        for filter in &self.filters {
            if origin.is_released() && !filter.only_classifies() {
                continue;
            }
            let mut opinions = Vec::new();
            let articles = drafts.parsed();
            filter.judge(origin, articles, until, &mut opinions);
            if opinions.len() < articles.len() {
                late = late.or(Some((filter.name(), articles.len() - opinions.len())));
            }
            note(filter.name(), drafts.places(), &mut opinions, reviews, &mut found);
            drafts.follow(filter.name(), opinions, context, dispositions);
        }
        match late {
            Some((filter, articles)) if !self.is_late.swap(true, Ordering::Relaxed) => {
                let millis_max = self.time_max.as_millis();
                warn!(
                    filter,
                    articles, millis_max, "a filter is too slow: articles pass without being judged"
                );
            }
            None if self.is_late.load(Ordering::Relaxed) && self.is_late.swap(false, Ordering::Relaxed) => {
                info!("filters judge all articles again");
            }
            _ => {}
        }
        found
    }
}

/// Adds the findings of a filter for articles, given by their index in the batch; articles released by the
/// operator pass.
fn note(
    filter: &str,
    articles: impl Iterator<Item = (usize, ArticleKey)>,
    opinions: &mut [Opinion],
    reviews: &FilterReviews,
    found: &mut Vec<FilterFinding>,
) {
    for ((at, key), opinion) in articles.zip(opinions) {
        let (finding, reason) = match opinion {
            Opinion::Refuse(reason) => (FilterAction::Refused, reason.clone()),
            Opinion::Hide(reason) => (FilterAction::Hidden, reason.clone()),
            Opinion::Aside(group) => (FilterAction::Aside, format!("in {group}")),
            Opinion::Shadow(reason, _) => (FilterAction::Shadow, reason.clone()),
            Opinion::Pass | Opinion::Verdict(_) | Opinion::Keep | Opinion::Defer => continue,
        };
        if finding != FilterAction::Shadow && reviews.is_released(key, filter) {
            *opinion = Opinion::Pass;
            continue;
        }
        found.push(FilterFinding {
            at,
            filter: filter.to_owned(),
            finding,
            reason: programs::shortened(&reason),
        });
    }
}

/// Recognizes articles that carry binaries.
fn judge_encodings(articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>) {
    let in_time = articles.iter().take_while(|_| Instant::now() < until);
    opinions.extend(in_time.map(|article| match netnews::article::encoding(article.body()) {
        Some(_) => Opinion::Verdict("binary".into()),
        None => Opinion::Pass,
    }));
}

/// Consults a program.
#[derive(Debug)]
pub(super) struct ProgramFilter {
    program: Arc<RunningFilter>,
    /// Group in which it sets articles aside.
    aside: Arc<str>,
}

impl ProgramFilter {
    /// Appends the opinion of the program on each of the articles.
    fn judge(&self, origin: &Origin, articles: &[Article<'_>], opinions: &mut Vec<Opinion>) {
        let begun = opinions.len();
        opinions.resize(begun + articles.len(), Opinion::Pass);
        let own = opinions.get_mut(begun..).unwrap_or_default();
        let mut shown = Vec::new();
        let mut request = FilterRequest::new("feed");
        for (article, opinion) in articles.iter().zip(own).filter(|(article, _)| self.is_shown(article)) {
            if !shown.is_empty() && request.bytes() + article.wire().len() > REQUEST_BYTES_MAX {
                self.ask(std::mem::replace(&mut request, FilterRequest::new("feed")), shown.drain(..));
            }
            request.push(format_args!("{}", origin.for_rules()), article.wire());
            shown.push(opinion);
        }
        if !shown.is_empty() {
            self.ask(request, shown.drain(..));
        }
    }

    /// Returns whether the article is in a group whose articles are judged.
    fn is_shown(&self, article: &Article<'_>) -> bool {
        let groups = &self.program.section.groups;
        let names = article.header(Known::Newsgroups).unwrap_or_default();
        groups.as_str() == "*" || newsgroups::split(names).any(|name| groups.matches(name))
    }

    /// Sets the opinion on each article of a request.
    fn ask<'o>(&self, request: FilterRequest, opinions: impl Iterator<Item = &'o mut Opinion>) {
        let unjudged = || if self.program.defers() { Opinion::Defer } else { Opinion::Pass };
        let mut answers = self.program.ask(request).into_iter();
        for opinion in opinions {
            *opinion = match answers.next().map(|answer| answer.verdict) {
                Some(ProgramVerdict::Pass) => Opinion::Pass,
                Some(ProgramVerdict::Reject(reason)) => Opinion::Refuse(reason),
                Some(ProgramVerdict::Drop) => Opinion::Refuse("dropped by a filter".into()),
                Some(ProgramVerdict::Class(class)) => Opinion::Verdict(class.into()),
                Some(ProgramVerdict::Keep) => Opinion::Keep,
                Some(ProgramVerdict::Aside) => Opinion::Aside(self.aside.clone()),
                Some(ProgramVerdict::Fail(_)) | None => unjudged(),
            };
        }
    }
}
