//! A running server, as a reload and the control socket know it.

use crate::Pulls;
use crate::archive::Archives;
use crate::days;
use crate::days::Days;
use crate::report;
use crate::report::{Measuring, Report};
use access::tls::Offer;
use feeds::{Feeds, Prepared};
use site::Site;
use site::listening::{Listening, Plan};
use site::session::SessionContext;
use site_base::clock::unix_secs;
use site_config::Config;
use std::sync::Arc;
use upstreams::Upstreams;

/// A running server.
pub struct Server {
    /// What every part of it shares.
    pub site: Arc<Site>,
    /// What its sessions share beyond that.
    pub context: Arc<SessionContext>,
    /// What is sent to peers.
    pub feeds: Feeds,
    /// Where it listens.
    pub listening: Listening,
    /// The servers whose groups are shown beside ours.
    pub upstreams: Upstreams,
    /// What is known of the standing pulls.
    pub pulls: Arc<Pulls>,
    /// The archives.
    pub archives: Arc<Archives>,
    /// What past days were like.
    pub days: Arc<Days>,
    /// The search index.
    #[cfg(feature = "search")]
    pub search: Arc<crate::search::Search>,
    /// Measures the spool for reports.
    pub measuring: Arc<Measuring>,
}

impl Server {
    /// How it is.
    pub fn report(&self) -> Report {
        let addresses = self.listening.addresses();
        let mut report = report::of_server(
            &self.site,
            &self.context,
            (&self.feeds, &self.pulls, &self.archives, &self.upstreams),
            (&addresses.nntp, &addresses.web),
        );
        days::foretell(&mut report.spool.classes, &self.days.history(), unix_secs());
        self.with_search(report)
    }

    #[cfg(feature = "search")]
    fn with_search(&self, mut report: Report) -> Report {
        if let Some(server) = &mut report.server {
            server.search = self.search.status(&self.site.spool);
        }
        report
    }

    #[cfg(not(feature = "search"))]
    fn with_search(&self, report: Report) -> Report {
        report
    }

    /// Lets a new configuration hold from now on, with what was prepared for it; the spool has switched
    /// already.
    pub fn apply(&self, config: Arc<Config>, tls: Option<Offer>, listeners: Plan, feeds: Prepared) {
        self.upstreams.apply(&config);
        self.site.apply(config.clone(), tls);
        self.feeds.apply(&config, feeds);
        self.listening.apply(listeners);
    }
}
