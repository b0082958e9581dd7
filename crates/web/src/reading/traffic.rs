//! Articles of the last 30 days in each group that is stored here, for the front page.
//!
//! They are counted in the background, when a page needs them and the last count is old; a page waits for the
//! first count alone, and briefly. Only numbers are kept, and each visitor sees those of its groups. Called
//! by `front`.

use super::dates;
use crate::WebState;
use netnews::GroupMarks;
use site_base::clock::unix_now;
use site_base::lock::Leaf;
use spool::Spool;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::debug;
use upstreams::{Answer, GroupList, GroupSelection, GroupStream, LocalSpool, NewsSource};

/// Length of a month, in seconds.
const MONTH_SECS: i64 = 30 * 24 * 60 * 60;
/// Age of a count after which it is repeated.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10 * 60);
/// Time that a page waits for the first count.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of groups that are counted.
const GROUPS_MAX: usize = 50_000;
/// Maximum number of articles of a group that are counted one by one; more are taken for the number of
/// their numbers.
const COUNTED_MAX: usize = 100_000;

/// Articles of the last 30 days, by group.
#[derive(Debug)]
pub(crate) struct TrafficCounts {
    counted: Instant,
    by_group: HashMap<Box<[u8]>, u64>,
}

impl TrafficCounts {
    /// Returns the count of a group.
    pub fn of(&self, group: &[u8]) -> Option<u64> {
        self.by_group.get(group).copied()
    }
}

/// The last count.
#[derive(Debug, Default)]
pub(crate) struct MonthlyTraffic {
    known: Leaf<Option<Arc<TrafficCounts>>>,
    is_counting: AtomicBool,
}

impl MonthlyTraffic {
    fn known(&self) -> Option<Arc<TrafficCounts>> {
        self.known.lock().clone()
    }

    /// Returns the last count, and begins another if that is old.
    pub async fn current(shared: &Arc<WebState>) -> Option<Arc<TrafficCounts>> {
        let traffic = &shared.traffic;
        let known = traffic.known();
        let is_old = known.as_ref().is_none_or(|known| known.counted.elapsed() > COUNT_AGE_MAX);
        if is_old && !traffic.is_counting.swap(true, Ordering::AcqRel) {
            let shared = shared.clone();
            let counting = tokio::spawn(async move {
                let counted = count(shared.site.spool.clone()).await;
                match counted {
                    Ok(counts) => *shared.traffic.known.lock() = Some(Arc::new(counts)),
                    Err(error) => debug!(%error, "the articles of the last month are not counted"),
                }
                shared.traffic.is_counting.store(false, Ordering::Release);
            });
            if known.is_none() {
                // Without a count the page has none.
                let _late = timeout(FIRST_WAIT, counting).await;
            }
        }
        traffic.known()
    }
}

async fn count(spool: Arc<Spool>) -> Answer<TrafficCounts> {
    let source = LocalSpool::new(spool);
    let since = unix_now() - MONTH_SECS;
    let mut by_group = HashMap::new();
    let mut groups = source.groups(GroupList::Counts, GroupSelection::All, |_| 0).await?;
    while let Some(info) = groups.next(&|_: &[u8]| true).await? {
        if by_group.len() == GROUPS_MAX {
            break;
        }
        let (name, marks) = (Box::<[u8]>::from(info.name), info.marks);
        let articles = match marks.count {
            0 => 0,
            _ => articles_since(&source, &name, &marks, since).await?,
        };
        by_group.insert(name, articles);
        yield_now().await;
    }
    Ok(TrafficCounts { counted: Instant::now(), by_group })
}

/// Returns the number of articles of a group that were written since then, about.
async fn articles_since(source: &LocalSpool, name: &[u8], marks: &GroupMarks, since: i64) -> Answer<u64> {
    let Some((group, _)) = source.group(name, |_| 0).await? else { return Ok(0) };
    let first = dates::first_since(source, &group, marks, since).await?;
    let mut numbers = Vec::new();
    source.numbers(&group, first..=marks.high, COUNTED_MAX, &mut numbers).await?;
    let all = marks.high.saturating_add(1).saturating_sub(first);
    Ok(if numbers.len() < COUNTED_MAX { numbers.len() as u64 } else { all })
}
