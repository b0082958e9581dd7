//! Groups whose article numbers approach the limit of old clients.
//!
//! Numbers are 64 bits wide here and keep growing; clients that cannot read them are shown others
//! (`serve::window`) if the operator configures that, so the operator is warned in time. A task of `server`.
//! Sources: RFC 3977 section 6 (numbers up to 2,147,483,647), the decision on it.

use crate::site::Site;
use spool::Spool;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// The greatest number that RFC 3977 requires clients to read.
pub(crate) const CLIENTS_READ_MAX: u64 = i32::MAX as u64;
/// Distance from the limit at which the operator is warned.
const WARN_MARGIN: u64 = 100_000_000;
/// Interval of the check.
const LOOK_INTERVAL: Duration = Duration::from_secs(86_400);

/// Logs the groups that approach the limit, at once and every day, until the server stops.
pub async fn watch(site: Arc<Site>) {
    let look = async {
        loop {
            for (group, high) in nearing(&site.spool) {
                warn!(
                    group,
                    high,
                    "article numbers come near 2,147,483,647, and old clients read none beyond; give those an \
                     [[access]] with numbers = \"31-bit\", or make a group of another name, which begins at 1, and \
                     this one its alias"
                );
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::select! {
        () = look => {}
        () = site.stopping() => {}
    }
}

fn nearing(spool: &Spool) -> Vec<(String, u64)> {
    let groups = spool.groups();
    let high = groups.iter().map(|group| (group.name.to_string(), group.marks().high));
    high.filter(|(_, high)| *high > CLIENTS_READ_MAX - WARN_MARGIN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use site_config as config;
    use spool::{ChangeMaker as _, NewGroup};
    use std::path::Path;

    #[test]
    fn only_groups_near_the_limit_are_reported() {
        let text =
            "[site]\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
        let config = config::parse(text, Path::new("/sim/newsreel.toml")).map_err(|e| e.to_string()).unwrap();
        let (spool, _) = Spool::open(Arc::new(SimDisk::new()), config.spool_config(), &()).unwrap();
        let group = |name: &str, high| NewGroup { name: name.into(), high, ..NewGroup::default() };
        let edge = CLIENTS_READ_MAX - WARN_MARGIN;
        spool
            .add_groups(&[group("a", 5), group("b", edge), group("c", edge + 1), group("d", 1 << 40)])
            .unwrap();
        let names: Vec<_> = nearing(&spool).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["c", "d"]);
    }
}
