//! HTTP: pages for people, figures for programs.
//!
//! `connection` takes connections that `listening` accepts on the addresses of `[web]`, within limits of its
//! own, and has each request answered by the [`Router`] of [`routes`], to which each part brings its routes:
//! `health`, `metrics`, `login`, `oidc`, `sign_up`, `mailed`, `account`, `operator`, `reading`. The client
//! is a [`Visitor`](visitor::Visitor): the same `[[access]]` sections, users and lock-outs decide as over
//! NNTP; `sessions` remembers logins. Data sent by a form comes as a [`Submission`](form::Submission).
//! `page` is the frame of pages; `answers` has the common parts of all answers: the headers that isolate
//! pages from other sites, and errors without a page. `rendering` makes pages on threads of their own;
//! `memory` is the one budget for requests and answers, and long answers are sent in `pieces`. Invariants:
//! the pages load nothing from other hosts and work without JavaScript; data of a request is returned only
//! as escaped text. Called by `server`. Sources: RFC 9110, RFC 9112, RFC 6265, CSP level 3, OpenMetrics 1.0.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod account;
mod answers;
mod asking;
mod assets;
mod coding;
mod connection;
mod crawlers;
mod delivery;
pub mod form;
mod generations;
mod health;
mod hosts;
mod kept;
mod login;
mod mailed;
mod memory;
mod metrics;
mod oidc;
mod operator;
mod page;
mod pieces;
mod place;
mod reading;
mod rendering;
mod sessions;
mod sign_up;
mod visitor;
mod visits;

use access::ClientEndpoint;
use access::sealing::ClusterKey;
use axum::Router;
use axum::middleware::from_fn_with_state;
use connection::HttpConnection;
use crawlers::NetworkBudgets;
use kept::KeptPages;
use memory::HttpMemory;
use nntp_io::Socket;
use operator::samples::{self, LoadHistory};
use operators::report::Report;
use operators::running::Server;
use reading::ties::ThreadTies;
use reading::traffic::MonthlyTraffic;
use rendering::Renderers;
use ring::hmac;
use sessions::WebLogins;
use site::listening::{ConnectionProtocol, SessionTask};
use site::{ConnectionPermits, Site};
use site_config::Config;
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;
use visits::GroupVisits;

/// State shared by all requests.
struct WebState {
    site: Arc<Site>,
    sessions: WebLogins,
    /// Logins at providers.
    providers: oidc::ProviderLogins,
    /// Figures of the last hour and day for the operator's page.
    samples: LoadHistory,
    /// Memory held by requests and answers.
    memory: Arc<HttpMemory>,
    /// Searches in progress, counted like memory: one address gets at most half of the turns.
    searches: Arc<HttpMemory>,
    /// The threads that render pages.
    renderers: Renderers,
    /// Pages that are kept for a moment.
    kept: KeptPages,
    /// Pages that networks may still have.
    budgets: NetworkBudgets,
    /// Accounts that visitors may still ask for.
    sign_ups: NetworkBudgets,
    /// The last visits of users to groups.
    visits: GroupVisits,
    /// Articles of the last month, by group.
    traffic: MonthlyTraffic,
    /// What ties articles into threads.
    ties: ThreadTies,
    /// Permits for requests of operators.
    desk: Semaphore,
    /// The whole server, which owns this.
    server: Weak<Server>,
}

impl WebState {
    /// Returns the current configuration.
    pub fn config(&self) -> Arc<Config> {
        self.site.config.current()
    }

    /// Returns a report of the server; `None` while it starts and after it has stopped.
    pub fn report(&self) -> Option<Report> {
        self.server.upgrade().map(|server| server.report())
    }
}

/// The HTTP side of a server.
pub struct HttpService {
    shared: Arc<WebState>,
    router: Router,
    permits: ConnectionPermits,
    /// Limits the connections that are being refused; others are closed at once.
    refusals: Arc<Semaphore>,
}

/// Maximum number of connections that are refused with an answer at the same time.
const REFUSALS_MAX: usize = 100;

/// Returns the key for the tokens of forms that the members of a cluster share; `None` if there is none.
fn key_of_forms(site: &Site) -> Option<hmac::Key> {
    let cluster = &site.config.current().cluster;
    // An error in the file is logged where the shared files are opened.
    let key = cluster.is_used().then(|| ClusterKey::read(&**site.spool.disk(), &cluster.key).ok().flatten());
    key.flatten().map(|key| key.forms())
}

impl HttpService {
    /// Creates the HTTP side of a server that is being assembled.
    pub fn new(site: &Arc<Site>, server: Weak<Server>) -> Arc<Self> {
        let shared = Arc::new(WebState {
            site: site.clone(),
            sessions: WebLogins::new(key_of_forms(site)),
            providers: oidc::ProviderLogins::new(),
            samples: LoadHistory::default(),
            memory: Arc::default(),
            searches: Arc::default(),
            renderers: Renderers::default(),
            kept: KeptPages::default(),
            budgets: NetworkBudgets::new(),
            sign_ups: NetworkBudgets::new(),
            visits: GroupVisits::default(),
            traffic: MonthlyTraffic::default(),
            ties: ThreadTies::default(),
            desk: Semaphore::new(operator::desk::REQUESTS_MAX),
            server,
        });
        let router = routes(&shared);
        tokio::spawn(samples::keep(Arc::downgrade(&shared), site.stopping()));
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        Arc::new(Self { shared, router, permits: ConnectionPermits::default(), refusals })
    }

    /// Returns a task that serves a new connection, if there is room for it.
    pub fn admit(
        self: &Arc<Self>,
        socket: Socket,
        caller: ClientEndpoint,
        beginning: ConnectionProtocol,
    ) -> Option<SessionTask> {
        match HttpConnection::admit(self, socket, caller, beginning.is_tls()) {
            Ok(connection) => Some(Box::pin(connection.serve())),
            // There is no answer before the handshake.
            Err(_) if beginning.is_tls() => None,
            Err(socket) => {
                let permit = self.refusals.clone().try_acquire_owned().ok()?;
                Some(Box::pin(async move {
                    connection::refuse(socket).await;
                    drop(permit);
                }))
            }
        }
    }
}

/// Returns all routes. Disabled parts answer 404 themselves, as the configuration may change.
fn routes(shared: &Arc<WebState>) -> Router {
    Router::new()
        .merge(account::routes())
        .merge(assets::routes())
        .merge(health::routes())
        .merge(login::routes())
        .merge(mailed::routes())
        .merge(metrics::routes())
        .merge(oidc::routes())
        .merge(operator::routes())
        .merge(sign_up::routes())
        .merge(reading::routes(shared).layer(from_fn_with_state(shared.clone(), delivery::deliver)))
        .fallback(answers::no_page)
        .method_not_allowed_fallback(answers::no_method)
        .with_state(shared.clone())
}
