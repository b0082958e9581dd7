//! A running server, as used by a reload and the control socket.

use crate::Pulls;
use crate::archive::Archives;
use crate::audit::AuditLog;
use crate::cluster_texts::ClusterTexts;
use crate::days;
use crate::days::DayTotals;
use crate::report;
use crate::report::{MeasureRequests, Report};
use access::tls::TlsOffer;
use feeds::{Feeds, PreparedFeeds};
use site::Site;
use site::listening::{ListenPlan, ListeningSockets};
use site::session::SessionContext;
use site_base::clock::unix_secs;
use site_config::Config;
use std::sync::Arc;
use upstreams::Upstreams;

/// A running server.
pub struct Server {
    /// State shared by all parts.
    pub site: Arc<Site>,
    /// Further state shared by the sessions.
    pub context: Arc<SessionContext>,
    /// Outgoing feeds to peers.
    pub feeds: Feeds,
    /// The listening sockets.
    pub listening: ListeningSockets,
    /// The servers whose groups are shown beside our own.
    pub upstreams: Upstreams,
    /// State of the standing pulls.
    pub pulls: Arc<Pulls>,
    /// The archives.
    pub archives: Arc<Archives>,
    /// Records of past days.
    pub days: Arc<DayTotals>,
    /// The search index.
    pub search: Arc<crate::search::SearchService>,
    /// The actions of operators.
    pub audit: AuditLog,
    /// The configuration that the members of a cluster share.
    pub shared_config: ClusterTexts,
    /// Measures the spool for reports.
    pub measuring: Arc<MeasureRequests>,
}

impl Server {
    /// Returns a report of the state of the server.
    pub fn report(&self) -> Report {
        let addresses = self.listening.addresses();
        let sources = report::ReportSources {
            feeds: &self.feeds,
            pulls: &self.pulls,
            archives: &self.archives,
            upstreams: &self.upstreams,
        };
        let mut report =
            report::of_server(&self.site, &self.context, sources, &addresses.nntp, &addresses.web);
        days::foretell(&mut report.spool.classes, &self.days.history(), unix_secs());
        self.with_search(report)
    }

    fn with_search(&self, mut report: Report) -> Report {
        if let Some(server) = &mut report.server {
            server.search = self.search.status(&self.site.spool);
        }
        report
    }

    /// Applies a new configuration, with the parts prepared for it; the spool has switched already.
    pub fn apply(
        &self,
        config: Arc<Config>,
        tls: Option<TlsOffer>,
        listeners: ListenPlan,
        feeds: PreparedFeeds,
    ) {
        self.upstreams.apply(&config);
        self.site.apply(config.clone(), tls);
        self.feeds.apply(&config, feeds);
        self.listening.apply(listeners);
    }
}
