//! Search for one article: which server is asked for it, and in which order.
//!
//! By number an article is requested from the server that numbers the group, by Message-ID from the others,
//! in the order of [`UpstreamTable::in_order_of`]. After one server of an owner, others of the same owner are
//! not asked. If there are several servers, one whose answer does not begin is given up. If it was only slow
//! it is asked once more in the end; a silent one is not. An article that all servers lack is missing; if one
//! could not be asked, that is reported.

use super::articles::UpstreamLocator;
use super::bringing::{AskArticle, ExpectedArticle, FetchOutcome, FlightFacts, WantedArticle};
use super::flight::Landing;
use super::group::NumberedGroup;
use super::pool::ConnectionPool;
use super::rows::AskRows;
use super::table::{Upstream, UpstreamTable};
use super::together::QuestionTicket;
use super::trouble::{UpstreamError, shown};
use crate::ArticlePart;
use hashbrown::HashSet;
use netnews::overview_row::{self, index};
use site_base::lock::Leaf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::warn;

/// Factor by which the last server is waited for longer than others.
const PATIENCE_TIMES_LAST: u32 = 2;

/// Search for one article.
pub(super) struct ArticleSearch<'a> {
    pub table: &'a UpstreamTable,
    pub place: &'a UpstreamLocator,
    /// Requested part: the head alone, or the whole article.
    pub part: ArticlePart,
    pub landing: &'a Arc<Landing<FlightFacts>>,
    /// Ticket for sending the first question with others, if it is for that upstream.
    pub together: Leaf<Option<QuestionTicket<AskArticle>>>,
}

/// Returns the upstream that is asked first.
pub(super) fn first_asked(table: &UpstreamTable, place: &UpstreamLocator) -> Option<Arc<ConnectionPool>> {
    let id = known_id(place);
    let owner_has = |upstream: &&Upstream| {
        id.as_ref().is_none_or(|id| !table.is_known_without(upstream.config.owner(), id))
    };
    let is_numbering = |upstream: &&Upstream| place.is_numbered_by(upstream);
    let order = order(table, place, id.is_some());
    let first = order.into_iter().find(|upstream| is_numbering(upstream) || owner_has(upstream));
    first.map(|upstream| upstream.pool.clone())
}

fn known_id(place: &UpstreamLocator) -> Option<Vec<u8>> {
    match place {
        UpstreamLocator::Id(id) => Some(id.to_vec()),
        UpstreamLocator::Number(group, number) => group.shelf.id_of(*number),
    }
}

/// Returns the upstreams in the order in which they are asked. Without a Message-ID the server that numbers
/// the group must be asked first.
fn order<'t>(table: &'t UpstreamTable, place: &UpstreamLocator, has_id: bool) -> Vec<&'t Upstream> {
    let mut order = table.in_order_of(place.group());
    if !has_id {
        order.sort_by_key(|upstream| !place.is_numbered_by(upstream));
    }
    order
}

/// Progress of a search.
struct SearchProgress<'a> {
    id: Option<Vec<u8>>,
    /// Owners whose servers do not have it.
    without: HashSet<&'a str>,
    trouble: Option<UpstreamError>,
    /// Whether the server that numbers the group has given a wrong answer for the number.
    is_wrong_by_number: bool,
    /// Whether a server has refused to show it, with a code other than for a missing article.
    is_refused: bool,
}

impl<'a> ArticleSearch<'a> {
    /// Asks one server after the other.
    pub async fn run(&self) -> Result<(), UpstreamError> {
        let mut progress = SearchProgress {
            id: known_id(self.place),
            without: HashSet::new(),
            trouble: None,
            is_wrong_by_number: false,
            is_refused: false,
        };
        let (order, mut slow) = (order(self.table, self.place, progress.id.is_some()), Vec::new());
        for (at, upstream) in order.iter().copied().enumerate() {
            let times = if at + 1 < order.len() { 1 } else { PATIENCE_TIMES_LAST };
            let patience = (order.len() > 1).then(|| upstream.pool.patience() * times);
            match self.step(upstream, patience, &mut progress).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(_) => slow.push(upstream),
            }
            if progress.id.is_none() && at + 1 < order.len() {
                progress.id = self.id_by_row().await;
            }
        }
        if progress.is_wrong_by_number {
            slow.extend(
                self.table.in_order_of(self.place.group()).into_iter().filter(|one| self.is_numbering(one)),
            );
        }
        for upstream in slow {
            if self.step(upstream, None, &mut progress).await.is_ok_and(|is_there| is_there) {
                return Ok(());
            }
        }
        Err(self.not_found(progress))
    }

    /// Asks one server. Returns `Err` if it is not waited for.
    async fn step(
        &self,
        upstream: &'a Upstream,
        patience: Option<Duration>,
        progress: &mut SearchProgress<'a>,
    ) -> Result<bool, UpstreamError> {
        let owner = upstream.config.owner();
        let brought = match self.place {
            UpstreamLocator::Number(group, number)
                if self.is_numbering(upstream) && !progress.is_wrong_by_number =>
            {
                self.by_number(group, *number, patience, progress).await
            }
            _ => {
                let Some(id) = progress.id.clone() else { return Ok(false) };
                if progress.without.contains(owner) || self.table.is_known_without(owner, &id) {
                    return Ok(false);
                }
                let is_row_of_other = !self.is_numbering(upstream);
                let expected = ExpectedArticle { id: Some(id.clone()), is_row_of_other, ..self.expected() };
                let brought =
                    self.ask(&upstream.pool, WantedArticle::Id(id.clone().into()), expected, patience).await;
                if matches!(brought, Ok(FetchOutcome::Missing | FetchOutcome::Other(_))) {
                    self.table.is_without(owner, &id);
                }
                brought
            }
        };
        match brought {
            Ok(FetchOutcome::Whole) => return Ok(true),
            Ok(FetchOutcome::Refused) => {
                progress.is_refused = true;
                progress.without.insert(owner);
            }
            Ok(FetchOutcome::Otherwise) => {
                progress.trouble = Some(UpstreamError::Away("an article broke off".into()));
            }
            Ok(_) | Err(UpstreamError::Missing) => _ = progress.without.insert(owner),
            Err(UpstreamError::Slow) => return Err(UpstreamError::Slow),
            Err(other) => progress.trouble = Some(other),
        }
        Ok(false)
    }

    /// Returns why the article is not fetched. A number whose article no server has is dropped; if another
    /// server has it, its row is still needed.
    fn not_found(&self, progress: SearchProgress<'_>) -> UpstreamError {
        if let (None, false, UpstreamLocator::Number(group, number)) =
            (&progress.trouble, progress.is_refused, self.place)
        {
            group.shelf.forget(*number);
        }
        progress.trouble.unwrap_or(UpstreamError::Missing)
    }

    /// Returns the Message-ID from the overview row, for an article that the numbering server does not
    /// show: another server may have it.
    async fn id_by_row(&self) -> Option<Vec<u8>> {
        let UpstreamLocator::Number(group, number) = self.place else { return None };
        id_in_row(group, *number).await.ok().flatten()
    }

    fn is_numbering(&self, upstream: &Upstream) -> bool {
        self.place.is_numbered_by(upstream)
    }

    fn expected(&self) -> ExpectedArticle {
        let bytes = match self.place {
            UpstreamLocator::Number(group, number) => group.shelf.size_of(*number),
            UpstreamLocator::Id(_) => None,
        };
        ExpectedArticle { bytes, bytes_max: self.table.article_bytes_max, ..ExpectedArticle::default() }
    }

    /// Asks a server; gives up after `patience`, unless its answer has begun.
    async fn ask(
        &self,
        pool: &Arc<ConnectionPool>,
        wanted: WantedArticle,
        expected: ExpectedArticle,
        patience: Option<Duration>,
    ) -> Result<FetchOutcome, UpstreamError> {
        let (part, from, landing) = (self.part, self.table.place_of(pool), self.landing.clone());
        let question = AskArticle { wanted, part, expected, from, landing, is_selecting: false };
        let ticket = self.together.lock().take().filter(|ticket| ticket.is_for(pool));
        if let Some(ticket) = ticket
            && let Some(answer) = ticket.ask(question.clone()).await
        {
            return answer;
        }
        let mut asked = pin!(pool.ask(question));
        let Some(patience) = patience else { return asked.await };
        self.landing.change(|cargo| {
            if cargo.about.is_none() {
                cargo.bytes.clear();
            }
        });
        let begun = Instant::now();
        match timeout(patience, &mut asked).await {
            Ok(answer) => answer,
            Err(_) if self.landing.change(|cargo| !cargo.bytes.is_empty()) => asked.await,
            Err(_) => {
                pool.was_slow(begun);
                Err(UpstreamError::Slow)
            }
        }
    }

    /// Asks the server that numbers the group. If it has another article by the number than was known,
    /// either the group was renumbered, or the answer is wrong.
    async fn by_number(
        &self,
        group: &Arc<NumberedGroup>,
        number: u64,
        patience: Option<Duration>,
        progress: &mut SearchProgress<'_>,
    ) -> Result<FetchOutcome, UpstreamError> {
        let wanted = WantedArticle::Number(group.name.clone(), number);
        let expected = ExpectedArticle { id: progress.id.clone(), ..self.expected() };
        let brought = self.ask(&group.pool, wanted, expected, patience).await;
        progress.is_wrong_by_number =
            matches!(brought, Err(UpstreamError::Wrong(_)) | Ok(FetchOutcome::Other(_)));
        let brought = brought?;
        match &brought {
            FetchOutcome::Other(other) if id_in_row(group, number).await?.as_ref() == Some(other) => {
                group.begin_anew();
                (progress.id, progress.is_wrong_by_number) = (None, false);
                return Err(UpstreamError::Away(format!("{} was renumbered", shown(&group.name))));
            }
            FetchOutcome::Other(other) => {
                let (upstream, name) = (group.pool.name(), shown(&group.name));
                let other = shown(other);
                warn!(upstream, "wrong answer: the article {other} for {number} in {name}");
                group.pool.told_wrong();
                return Err(UpstreamError::Wrong(format!("another article by the number {number}")));
            }
            FetchOutcome::Missing | FetchOutcome::Refused | FetchOutcome::Otherwise | FetchOutcome::Whole => {
            }
        }
        Ok(brought)
    }
}

/// Returns the Message-ID that the server's overview has for a number now.
async fn id_in_row(group: &NumberedGroup, number: u64) -> Result<Option<Vec<u8>>, UpstreamError> {
    let said = Arc::<Leaf<Vec<u8>>>::default();
    let rows = said.clone();
    let question = AskRows {
        group: group.name.clone(),
        ranges: vec![number..=number],
        is_here: group.is_here.clone(),
        headers: Arc::default(),
        take: move |_, row: &[u8]| rows.lock().extend_from_slice(row),
    };
    group.pool.ask(question).await?;
    let row = said.lock();
    Ok(overview_row::field(&row, index::MESSAGE_ID).map(<[u8]>::to_vec))
}
