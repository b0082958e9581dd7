//! Filters: examine the articles of a batch together, after the guards have let them through.
//!
//! Filters run one after the other: first the built-in ones, which share a time limit for each batch, then
//! the programs of `[[filter]]`, each with its own limit. Articles not judged in that time pass as if there
//! were no filter, unless the program's section says to defer them: accepting does not wait for opinions.
//! Such periods are logged when they begin and when they end. Called by `ingest`.

use super::drafts::BatchDrafts;
use super::programs::{self, FilterPrograms, FilterRequest, ProgramVerdict, RunningFilter};
use super::reviews::{FilterAction, FilterFinding, FilterReviews};
use super::spam::{SpamCounts, SpamFilter};
use super::{Origin, Reject};
use netnews::{Article, Known, newsgroups};
use site_config::{Config, FilterStage};
use spool::{ArticleKey, GroupTable, Spool};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time limit of the built-in filters for a batch.
const BATCH_TIME_MAX: Duration = Duration::from_millis(500);
/// Size of a request to a program, in bytes; a longer article is sent alone.
const REQUEST_BYTES_MAX: usize = 256 << 10;

/// Opinion of a filter on an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// Nothing to report.
    Pass,
    /// Verdict for storage rules.
    Verdict(Arc<str>),
    /// Refused, for this reason.
    Refuse(String),
    /// Passes, but would be refused for this reason if the filter were allowed to; may have a verdict for
    /// storage rules.
    Shadow(String, Option<Arc<str>>),
    /// Filed but hidden and not passed on, for this reason, until the operator shows it.
    Hide(String),
    /// Filed, but not passed on.
    Keep,
    /// Filed in this group instead of its own, and not passed on; its requests are not carried out.
    Aside(Arc<str>),
    /// Cannot be judged now, and is deferred.
    Defer,
}

/// A judge of articles.
pub(crate) trait Filter: fmt::Debug + Send + Sync {
    /// Returns the name for the log.
    fn name(&self) -> &str;

    /// Appends an opinion for each of the articles, in order, and returns at `until` at the latest, unless
    /// the filter has a limit of its own; articles without an opinion are not judged. May wait.
    fn judge(&self, origin: &Origin, articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>);

    /// Returns whether it only sets verdicts for storage rules.
    fn only_classifies(&self) -> bool {
        false
    }
}

/// Context in which the filters of a batch run.
#[derive(Clone, Copy)]
pub(super) struct FilterContext<'a> {
    pub spool: &'a Spool,
    pub origin: &'a Origin,
    /// Groups in which articles may be set aside.
    pub table: &'a GroupTable,
}

/// The filters of a site.
#[derive(Debug)]
pub(super) struct Filters {
    filters: Vec<Box<dyn Filter>>,
    time_max: Duration,
    /// Whether part of the last batch was not judged.
    is_late: AtomicBool,
}

impl Filters {
    /// Returns the filters of the configuration, with its programs. Examining bodies is expensive, so it is
    /// only done if a storage rule asks for a verdict.
    pub fn of(config: &Config, programs: &FilterPrograms, spam_counts: Option<&Arc<SpamCounts>>) -> Self {
        let asks_verdict = config.rules.iter().any(|rule| rule.verdict.is_some());
        let mut filters: Vec<Box<dyn Filter>> = Vec::new();
        if asks_verdict {
            filters.push(Box::new(EncodingFilter));
        }
        if let Some(counts) = spam_counts {
            filters.push(Box::new(SpamFilter::new(config.spam.clone(), counts.clone())));
        }
        for program in programs.judging(FilterStage::Feed) {
            let aside = program.section.aside.as_str().into();
            filters.push(Box::new(ProgramFilter { program: program.clone(), aside }));
        }
        Self::new(filters, BATCH_TIME_MAX)
    }

    pub fn new(filters: Vec<Box<dyn Filter>>, time_max: Duration) -> Self {
        Self { filters, time_max, is_late: AtomicBool::new(false) }
    }

    /// Returns whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Runs all filters on the articles of `drafts`; `refuse` is called with the batch index of each
    /// refused article and the reason, or no reason if it is deferred. Articles refused or set aside by one
    /// filter are not shown to the next, and articles released by the operator pass. Returns the findings.
    pub fn judge(
        &self,
        context: FilterContext<'_>,
        reviews: &FilterReviews,
        drafts: &mut BatchDrafts<'_>,
        mut refuse: impl FnMut(usize, Option<Reject>),
    ) -> Vec<FilterFinding> {
        let origin = context.origin;
        let mut found = Vec::new();
        let until = Instant::now() + self.time_max;
        let mut late = None;
        if *origin.opinion() != Opinion::Pass {
            let mut said = vec![origin.opinion().clone(); drafts.parsed().len()];
            note(origin.judged_by(), drafts.places(), &mut said, reviews, &mut found);
            drafts.follow(origin.judged_by(), said, context, &mut refuse);
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
            drafts.follow(filter.name(), opinions, context, &mut refuse);
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

/// Returns a filter's reason as passed on: one printable line.
pub fn reject(reason: &str) -> Reject {
    Reject::Filtered(programs::shortened(reason).into())
}

/// Recognizes articles that carry binaries.
#[derive(Debug)]
struct EncodingFilter;

impl Filter for EncodingFilter {
    fn name(&self) -> &str {
        "encodings"
    }

    fn only_classifies(&self) -> bool {
        true
    }

    fn judge(&self, _: &Origin, articles: &[Article<'_>], until: Instant, opinions: &mut Vec<Opinion>) {
        let in_time = articles.iter().take_while(|_| Instant::now() < until);
        opinions.extend(in_time.map(|article| match netnews::article::encoding(article.body()) {
            Some(_) => Opinion::Verdict("binary".into()),
            None => Opinion::Pass,
        }));
    }
}

/// Consults a program.
#[derive(Debug)]
struct ProgramFilter {
    program: Arc<RunningFilter>,
    /// Group in which it sets articles aside.
    aside: Arc<str>,
}

impl Filter for ProgramFilter {
    fn name(&self) -> &str {
        &self.program.section.name
    }

    fn judge(&self, origin: &Origin, articles: &[Article<'_>], _: Instant, opinions: &mut Vec<Opinion>) {
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
}

impl ProgramFilter {
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
