//! Search for one article: which server is asked for it, and in which order.
//!
//! By number an article is requested from the server that numbers the group, by Message-ID from the others,
//! in the order of [`Table::in_order_of`]. After one server of an owner, others of the same owner are not
//! asked. If there are several servers, one whose answer does not begin is given up. If it was only slow it
//! is asked once more in the end; a silent one is not. An article that all servers lack is missing; if one
//! could not be asked, that is reported.

use super::articles::Place;
use super::bringing::{About, AskArticle, Brought, Expected, Wanted};
use super::flight::Landing;
use super::group::Group;
use super::pool::Pool;
use super::rows::AskRows;
use super::table::{Table, Upstream};
use super::together::Ticket;
use super::trouble::{Trouble, shown};
use crate::Part;
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
pub(super) struct Search<'a> {
    pub table: &'a Table,
    pub place: &'a Place,
    /// Requested part: the head alone, or the whole article.
    pub part: Part,
    pub landing: &'a Arc<Landing<About>>,
    /// Ticket for sending the first question with others, if it is for that upstream.
    pub together: Leaf<Option<Ticket<AskArticle>>>,
}

/// Returns the upstream that is asked first.
pub(super) fn first_asked(table: &Table, place: &Place) -> Option<Arc<Pool>> {
    let id = known_id(place);
    let owner_has = |upstream: &&Upstream| {
        id.as_ref().is_none_or(|id| !table.is_known_without(upstream.config.owner(), id))
    };
    let is_numbering = |upstream: &&Upstream| place.is_numbered_by(upstream);
    let order = order(table, place, id.is_some());
    let first = order.into_iter().find(|upstream| is_numbering(upstream) || owner_has(upstream));
    first.map(|upstream| upstream.pool.clone())
}

fn known_id(place: &Place) -> Option<Vec<u8>> {
    match place {
        Place::Id(id) => Some(id.to_vec()),
        Place::Number(group, number) => group.shelf.id_of(*number),
    }
}

/// Returns the upstreams in the order in which they are asked. Without a Message-ID the server that numbers
/// the group must be asked first.
fn order<'t>(table: &'t Table, place: &Place, has_id: bool) -> Vec<&'t Upstream> {
    let mut order = table.in_order_of(place.group());
    if !has_id {
        order.sort_by_key(|upstream| !place.is_numbered_by(upstream));
    }
    order
}

/// Progress of a search.
struct Progress<'a> {
    id: Option<Vec<u8>>,
    /// Owners whose servers do not have it.
    without: HashSet<&'a str>,
    trouble: Option<Trouble>,
    /// Whether the server that numbers the group has given a wrong answer for the number.
    is_wrong_by_number: bool,
    /// Whether a server has refused to show it, with a code other than for a missing article.
    is_refused: bool,
}

impl<'a> Search<'a> {
    /// Asks one server after the other.
    pub async fn run(&self) -> Result<(), Trouble> {
        let mut progress = Progress {
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
        progress: &mut Progress<'a>,
    ) -> Result<bool, Trouble> {
        let owner = upstream.config.owner();
        let brought = match self.place {
            Place::Number(group, number) if self.is_numbering(upstream) && !progress.is_wrong_by_number => {
                self.by_number(group, *number, patience, progress).await
            }
            _ => {
                let Some(id) = progress.id.clone() else { return Ok(false) };
                if progress.without.contains(owner) || self.table.is_known_without(owner, &id) {
                    return Ok(false);
                }
                let is_row_of_other = !self.is_numbering(upstream);
                let expected = Expected { id: Some(id.clone()), is_row_of_other, ..self.expected() };
                let brought =
                    self.ask(&upstream.pool, Wanted::Id(id.clone().into()), expected, patience).await;
                if matches!(brought, Ok(Brought::Missing | Brought::Other(_))) {
                    self.table.is_without(owner, &id);
                }
                brought
            }
        };
        match brought {
            Ok(Brought::Whole) => return Ok(true),
            Ok(Brought::Refused) => {
                progress.is_refused = true;
                progress.without.insert(owner);
            }
            Ok(Brought::Otherwise) => {
                progress.trouble = Some(Trouble::Away("an article broke off".into()));
            }
            Ok(_) | Err(Trouble::Missing) => _ = progress.without.insert(owner),
            Err(Trouble::Slow) => return Err(Trouble::Slow),
            Err(other) => progress.trouble = Some(other),
        }
        Ok(false)
    }

    /// Returns why the article is not fetched. A number whose article no server has is dropped; if another
    /// server has it, its row is still needed.
    fn not_found(&self, progress: Progress<'_>) -> Trouble {
        if let (None, false, Place::Number(group, number)) =
            (&progress.trouble, progress.is_refused, self.place)
        {
            group.shelf.forget(*number);
        }
        progress.trouble.unwrap_or(Trouble::Missing)
    }

    /// Returns the Message-ID from the overview row, for an article that the numbering server does not
    /// show: another server may have it.
    async fn id_by_row(&self) -> Option<Vec<u8>> {
        let Place::Number(group, number) = self.place else { return None };
        id_in_row(group, *number).await.ok().flatten()
    }

    fn is_numbering(&self, upstream: &Upstream) -> bool {
        self.place.is_numbered_by(upstream)
    }

    fn expected(&self) -> Expected {
        let bytes = match self.place {
            Place::Number(group, number) => group.shelf.size_of(*number),
            Place::Id(_) => None,
        };
        Expected { bytes, bytes_max: self.table.article_bytes_max, ..Expected::default() }
    }

    /// Asks a server; gives up after `patience`, unless its answer has begun.
    async fn ask(
        &self,
        pool: &Arc<Pool>,
        wanted: Wanted,
        expected: Expected,
        patience: Option<Duration>,
    ) -> Result<Brought, Trouble> {
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
                Err(Trouble::Slow)
            }
        }
    }

    /// Asks the server that numbers the group. If it has another article by the number than was known,
    /// either the group was renumbered, or the answer is wrong.
    async fn by_number(
        &self,
        group: &Arc<Group>,
        number: u64,
        patience: Option<Duration>,
        progress: &mut Progress<'_>,
    ) -> Result<Brought, Trouble> {
        let wanted = Wanted::Number(group.name.clone(), number);
        let expected = Expected { id: progress.id.clone(), ..self.expected() };
        let brought = self.ask(&group.pool, wanted, expected, patience).await;
        progress.is_wrong_by_number = matches!(brought, Err(Trouble::Wrong(_)) | Ok(Brought::Other(_)));
        let brought = brought?;
        match &brought {
            Brought::Other(other) if id_in_row(group, number).await?.as_ref() == Some(other) => {
                group.begin_anew();
                (progress.id, progress.is_wrong_by_number) = (None, false);
                return Err(Trouble::Away(format!("{} was renumbered", shown(&group.name))));
            }
            Brought::Other(other) => {
                let (upstream, name) = (group.pool.name(), shown(&group.name));
                let other = shown(other);
                warn!(upstream, "wrong answer: the article {other} for {number} in {name}");
                group.pool.told_wrong();
                return Err(Trouble::Wrong(format!("another article by the number {number}")));
            }
            Brought::Missing | Brought::Refused | Brought::Otherwise | Brought::Whole => {}
        }
        Ok(brought)
    }
}

/// Returns the Message-ID that the server's overview has for a number now.
async fn id_in_row(group: &Group, number: u64) -> Result<Option<Vec<u8>>, Trouble> {
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
