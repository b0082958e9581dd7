//! The server: assembles its parts, gives each connection a session, stops in order.
//!
//! Listeners and the stop signal come from outside, so that tests can bind port 0 and stop at any time.
//! Called by `cli`. Source: guarantee G6 for the limits on connections.

mod admitting;
use access::tls::TlsOffer;
use admitting::admitting;
use feeds::Feeds;
use operators::archive::{Archives, keep_archiving};
use operators::audit::AuditLog;
use operators::cluster_texts::ClusterTexts;
use operators::control_socket;
use operators::days;
use operators::days::DayKeeper;
use operators::overview::OverviewPacker;
use operators::reload::reload;
use operators::report;
use operators::report::MeasureRequests;
use operators::running::Server;
use operators::shared_config::keep_configured;
use operators::shared_files::{SharedFiles, keep_sharing};
use operators::{ControlMessages, keep_expiring, supervisor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use site::Site;
use site::inject::Injector;
use site::listening::{Listeners, ListeningSockets};
use site::moderation::ModerationQueue;
use site::serve::numbers;
use site::session::{ReceiveBudget, SessionContext};
use site_base::memory::give_back_after_start;
use site_config::{Config, LiveConfig};
use spool::{SharedLog, Spool};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::timeout;
use tracing::{info, warn};
use upstreams::{NewsSource, SideBySide, Upstreams};

/// Time within which sessions must end after the stop signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time after which a blocking thread ends: dozens are started in a burst of reads, and each takes some
/// 300 KB of memory.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Returns a runtime for [`run`], and raises the limit on file descriptors as far as allowed.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let limit = getrlimit(Resource::Nofile);
    // If this is refused the old limit stays, and accepting reports when it is reached.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().thread_name("newsreel").thread_keep_alive(THREAD_KEEP_ALIVE).build()
}

/// Serves NNTP on `listeners` and the control socket until `shutdown` resolves; then ends all sessions and
/// closes the spool. Readers are served from the spool and from the upstreams of the configuration. Must run
/// on the runtime of [`runtime`].
pub async fn run(
    config: Arc<Config>,
    spool: Arc<Spool>,
    listeners: impl Into<Listeners>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let upstreams = block_in_place(|| Upstreams::open(&config, &spool))?;
    let source = SideBySide::of_site(&spool, &upstreams);
    run_from(config, spool, source, upstreams, listeners, shutdown).await
}

/// Like [`run`], but readers are served from `source`; arriving articles still go to the spool.
pub async fn run_with<S: NewsSource>(
    config: Arc<Config>,
    spool: Arc<Spool>,
    source: S,
    listeners: impl Into<Listeners>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let upstreams = block_in_place(|| Upstreams::open(&config, &spool))?;
    run_from(config, spool, source, upstreams, listeners, shutdown).await
}

/// Starts what a server does without being asked.
fn start_housekeeping(server: &Arc<Server>, tasks: &mut JoinSet<()>) {
    let site = &server.site;
    tasks.spawn(operators::keep_renewed(site.clone()));
    tasks.spawn(operators::rest_when_quiet(site.clone()));
    operators::look_over_indexes(site);
    tasks.spawn(operators::file_incoming(site.clone()));
    tasks.spawn(operators::keep_leading(server.clone()));
    tasks.spawn(operators::obey_for_others(site.clone()));
    tasks.spawn(keep_configured(server.clone()));
    tasks.spawn(keep_archiving(site.clone(), server.archives.clone()));
    let spool = site.spool.clone();
    let sends_posts = move |upstream: &str| spool.leads(&format!("posts.{upstream}"));
    tasks.spawn(server.upstreams.clone().run(sends_posts, site.stopping()));
    tasks.spawn(operators::keep_pulling(site.clone(), server.pulls.clone()));
}

async fn run_from<S: NewsSource>(
    config: Arc<Config>,
    spool: Arc<Spool>,
    source: S,
    upstreams: Upstreams,
    listeners: impl Into<Listeners>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let mut tasks = JoinSet::new();
    let listeners = ListeningSockets::given(listeners.into(), &config);
    let offer = TlsOffer::read(&config).map_err(io::Error::other)?;
    let config = LiveConfig::new(config);
    // Before anything reads them.
    let shared_files = block_in_place(|| SharedFiles::open(&config.load(), &spool))?;
    let moderation = ModerationQueue::open(&config, spool.disk())?;
    let injector = Injector::open(spool.disk().clone(), &config, moderation.clone(), upstreams.clone());
    let context = Arc::new(SessionContext { injector, budget: ReceiveBudget::default() });
    let site = Site::new(config, spool, offer);
    let control = control_socket::ControlListener::bind(&site)?;
    let server = assemble(site, context, source, upstreams);
    let site = &server.site;
    let control_messages = ControlMessages::open(site, &moderation)?;
    obey_again(site);
    let follow_ups = site.filer.start_follow_ups()?;
    block_in_place(|| site.filer.start_filters());
    let feeds = server.feeds.prepare(&site.config.load()).map_err(io::Error::other)?;
    server.feeds.apply(&site.config.current(), feeds);
    let threads = IndexThreads::start(&server)?;
    let hangups = signal(SignalKind::hangup())?;
    // From here on only the operator ends the server.
    server.listening.apply(listeners);
    tasks.spawn(reload_at_hangups(hangups, server.clone()));
    tasks.spawn(control.serve(server.clone()));
    tasks.spawn(report::measure(site.clone(), server.measuring.clone()));
    tasks.spawn(operators::retention::watch(site.clone()));
    tasks.spawn(control_messages.carry_out());
    let (waiting, posts) = (moderation.clone(), server.upstreams.clone());
    tasks.spawn(keep_sharing(site.clone(), shared_files, waiting, posts));
    tasks.spawn(moderation.run(leading(site, "mail"), site.stopping()));
    tasks.spawn(numbers::watch(site.clone()));
    start_housekeeping(&server, &mut tasks);
    let expiring = tokio::spawn(keep_expiring(site.filer.log().clone(), site.expiry.clone()));
    tasks.spawn(supervisor::keep_reporting(site.stopping()));
    supervisor::ready();
    let mut shutdown = std::pin::pin!(shutdown);
    tokio::select! {
        () = &mut shutdown => {}
        () = give_back_after_start() => shutdown.await,
    }
    info!("stopping");
    supervisor::stopping();
    site.stop();
    expiring.abort();
    block_in_place(|| threads.end());
    let ended = timeout(STOP_TIMEOUT, async {
        server.listening.ended().await;
        while tasks.join_next().await.is_some() {}
    });
    if ended.await.is_err() {
        warn!(connections = site.permits.all(), "connections cut off");
        tasks.shutdown().await;
    }
    block_in_place(|| drop(follow_ups));
    block_in_place(|| site.filer.end_filters());
    // Feeds stop after the last article has arrived, so that it is still sent.
    block_in_place(|| server.feeds.stop());
    block_in_place(|| site.spool.shared_log().into_iter().for_each(SharedLog::end));
    block_in_place(|| site.spool.close()).map_err(io::Error::other)?;
    info!("stopped");
    Ok(())
}

/// Creates the parts of a server that depend on each other.
fn assemble<S: NewsSource>(
    site: Arc<Site>,
    context: Arc<SessionContext>,
    source: S,
    upstreams: Upstreams,
) -> Arc<Server> {
    let (measuring, pulls, archives) = (MeasureRequests::new(), Arc::default(), Archives::of_site(&site));
    let feeds = Feeds::new(site.spool.clone(), site.filer.clone());
    Arc::new_cyclic(|server: &Weak<Server>| {
        let admit = admitting(&site, &context, source.under(&site.config), server);
        let listening = ListeningSockets::new(&site, admit);
        Server {
            search: Arc::default(),
            days: Arc::default(),
            listening,
            measuring,
            pulls,
            archives,
            shared_config: ClusterTexts::of(&site),
            audit: AuditLog::of(site.spool.disk().clone(), &site.config.load().site.data),
            context,
            feeds,
            upstreams,
            site,
        }
    })
}

/// The threads that maintain indexes while a server runs.
struct IndexThreads {
    packing: OverviewPacker,
    days: DayKeeper,
    indexing: operators::search::Indexer,
}

impl IndexThreads {
    fn start(server: &Arc<Server>) -> io::Result<Self> {
        let reporting = Arc::downgrade(server);
        let report = move || reporting.upgrade().map(|server| server.report());
        Ok(Self {
            packing: OverviewPacker::start(&server.site.spool)?,
            days: days::start(&server.site, &server.days, report)?,
            indexing: operators::search::start(&server.site, &server.search)?,
        })
    }

    /// Waits for the threads to end; the server must be stopping.
    fn end(self) {
        self.packing.end();
        self.days.end();
        self.indexing.end();
    }
}

/// Returns the question whether this server does a job that one member of a cluster does at a time.
fn leading(site: &Site, job: &'static str) -> impl Fn() -> bool + Send + Sync + use<> {
    let spool = site.spool.clone();
    move || spool.leads(job)
}

/// Carries out the withdrawals that a crash left undone.
fn obey_again(site: &Site) {
    match block_in_place(|| site.filer.obey_again()) {
        Ok(0) => {}
        Ok(articles) => info!(articles, "cancels and Supersedes from before the crash obeyed again"),
        Err(error) => warn!(%error, "cannot look for cancels that a crash has left undone"),
    }
}

/// Reloads the configuration at every SIGHUP, until the server stops.
async fn reload_at_hangups(mut hangups: Signal, server: Arc<Server>) {
    let mut stopping = std::pin::pin!(server.site.stopping());
    loop {
        tokio::select! {
            () = &mut stopping => return,
            Some(()) = hangups.recv() => {
                // Errors are in the log.
                let _told = block_in_place(|| reload(&server));
            }
        }
    }
}
