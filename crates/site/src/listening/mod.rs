//! The listening sockets, which a reload opens and closes while the others stay open.
//!
//! Each open socket has a task that accepts; when it is closed, connections that already wait are still
//! accepted, and its sessions continue. Addresses that stay in the configuration keep their socket, even if
//! named differently, or if TLS comes first from now on. [`ListeningSockets::plan`] opens new sockets and may
//! fail; [`ListeningSockets::apply`] cannot.

mod accept;
mod bind;
mod listener;
pub mod proxied;

pub use bind::addresses_of;
pub use bind::{BoundSocket, bind};

use crate::site::Site;
use accept::accept_all;
use arc_swap::ArcSwap;
use bind::{bind_with, listen, listen_beside};
use lock_order::Ordered;
use nntp_io::Socket;
use rustix::net::sockopt;
use site_base::lock::{Leaf, rank};
use site_config::Config;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

/// Time for which [`ListeningSockets::apply`] waits for a socket to be closed, as it still accepts waiting
/// connections.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);

/// The sockets to serve.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Sockets for NNTP.
    pub plain: Vec<BoundSocket>,
    /// Sockets for NNTP over TLS.
    pub tls: Vec<BoundSocket>,
    /// Sockets for HTTP.
    pub http: Vec<BoundSocket>,
    /// Sockets for HTTPS.
    pub https: Vec<BoundSocket>,
}

/// The protocol with which connections of a socket begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionProtocol {
    /// NNTP, beginning with the greeting.
    Greeting,
    /// TLS, then the greeting.
    Tls,
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl ConnectionProtocol {
    const ALL: [Self; 4] = [Self::Greeting, Self::Tls, Self::Http, Self::Https];

    /// Returns true for NNTP.
    pub fn is_nntp(self) -> bool {
        matches!(self, Self::Greeting | Self::Tls)
    }

    /// Returns true if TLS comes first.
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Https)
    }

    /// Returns the name of the protocol for the log.
    fn protocol(self) -> &'static str {
        match self {
            Self::Greeting => "NNTP",
            Self::Tls => "NNTP over TLS",
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
        }
    }

    /// Returns the section and key that name such sockets, and the value of the key.
    fn named(self, config: &Config) -> (&'static str, &'static str, &[String]) {
        match self {
            Self::Greeting => ("site", "listen", &config.site.listen),
            Self::Tls => ("site", "tls_listen", &config.site.tls_listen),
            Self::Http => ("web", "listen", &config.web.listen),
            Self::Https => ("web", "tls_listen", &config.web.tls_listen),
        }
    }
}

impl From<Vec<TcpListener>> for Listeners {
    fn from(plain: Vec<TcpListener>) -> Self {
        Self { plain: plain.into_iter().map(BoundSocket::from).collect(), ..Self::default() }
    }
}

/// Makes a session of a connection and the protocol it begins with; `None` if it was refused.
pub type Admit = Arc<dyn Fn(Socket, SocketAddr, ConnectionProtocol) -> Option<SessionTask> + Send + Sync>;
/// A session as a future that runs until its end.
pub type SessionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The open sockets.
pub struct ListeningSockets {
    site: Arc<Site>,
    admit: Admit,
    open: Ordered<Vec<OpenSocket>, { rank::OPEN }>,
    /// Addresses of the open sockets, for callers that must not wait while sockets are opened.
    addresses: ArcSwap<Addresses>,
    accepting: Leaf<JoinSet<()>>,
}

/// The addresses of open sockets, ports resolved.
#[derive(Debug, Default)]
pub struct Addresses {
    /// For NNTP.
    pub nntp: Vec<SocketAddr>,
    /// For HTTP and HTTPS.
    pub web: Vec<SocketAddr>,
}

/// An open socket.
#[derive(Debug)]
struct OpenSocket {
    name: Option<String>,
    address: SocketAddr,
    /// The socket, which the accepting task uses; shared here so that its address can be shared for a moment.
    socket: TcpListener,
    way: Arc<ListenerControl>,
    /// Disconnected once the accepting task has closed its socket.
    accepting: mpsc::Receiver<()>,
}

/// Instructions for an accepting task.
#[derive(Debug, Default)]
pub(super) struct ListenerControl {
    /// A `ConnectionProtocol`, by its number.
    beginning: AtomicU8,
    closed: Notify,
}

impl ListenerControl {
    fn new(beginning: ConnectionProtocol) -> Self {
        Self { beginning: AtomicU8::new(beginning as u8), closed: Notify::new() }
    }

    /// Returns the protocol with which the next connection begins.
    pub fn beginning(&self) -> ConnectionProtocol {
        let number = usize::from(self.beginning.load(Ordering::Relaxed));
        ConnectionProtocol::ALL.get(number).copied().unwrap_or(ConnectionProtocol::Greeting)
    }

    fn begin_with(&self, beginning: ConnectionProtocol) {
        self.beginning.store(beginning as u8, Ordering::Relaxed);
    }

    /// Resolves when the socket is to be closed.
    pub async fn closed(&self) {
        self.closed.notified().await;
    }
}

/// The sockets that a configuration asks for.
#[derive(Debug, Default)]
pub struct ListenPlan {
    wanted: Vec<PlannedSocket>,
}

#[derive(Debug)]
struct PlannedSocket {
    name: Option<String>,
    beginning: ConnectionProtocol,
    source: SocketSource,
}

#[derive(Debug)]
enum SocketSource {
    /// The open socket with this address.
    Kept(SocketAddr),
    /// A socket that was opened for this plan, or was passed by the program that started this one.
    New { socket: TcpListener, is_passed: bool },
}

/// A `HOST:PORT` on which listening failed.
#[derive(Debug)]
pub struct ListenError {
    /// The section that names it.
    pub section: &'static str,
    /// `listen` or `tls_listen`.
    pub key: &'static str,
    /// The `HOST:PORT`.
    pub name: String,
    /// The error.
    pub error: io::Error,
}

impl ListeningSockets {
    /// Creates the state without any socket.
    pub fn new(site: &Arc<Site>, admit: Admit) -> Self {
        let (open, accepting) = (Ordered::default(), Leaf::default());
        Self { site: site.clone(), admit, open, addresses: ArcSwap::default(), accepting }
    }

    /// Returns the addresses of the open sockets, ports resolved.
    pub fn addresses(&self) -> Arc<Addresses> {
        self.addresses.load_full()
    }

    /// Returns the plan for the sockets passed in at the start.
    pub fn given(listeners: Listeners, config: &Config) -> ListenPlan {
        let Listeners { plain, tls, http, https } = listeners;
        let mut wanted = Vec::new();
        for (beginning, bound) in ConnectionProtocol::ALL.into_iter().zip([plain, tls, http, https]) {
            let (_, _, names) = beginning.named(config);
            let alike = bound.len() == names.len();
            let mut names = names.iter().filter(|_| alike).cloned();
            wanted.extend(bound.into_iter().map(|BoundSocket { name, socket, is_passed }| {
                let configured = names.next();
                let source = SocketSource::New { socket, is_passed };
                PlannedSocket { name: name.or(configured), beginning, source }
            }));
        }
        ListenPlan { wanted }
    }

    /// Opens the sockets that `new` asks for and that are not open; connections are not accepted yet.
    pub fn plan(&self, old: &Config, new: &Config) -> Result<ListenPlan, Vec<ListenError>> {
        let open = self.open.lock();
        let keep = |open: &OpenSocket, beginning| PlannedSocket {
            name: open.name.clone(),
            beginning,
            source: SocketSource::Kept(open.address),
        };
        if ConnectionProtocol::ALL.iter().all(|beginning| beginning.named(old) == beginning.named(new)) {
            return Ok(ListenPlan {
                wanted: open.iter().map(|open| keep(open, open.way.beginning())).collect(),
            });
        }
        let mut plan = ListenPlan::default();
        let mut rest = Vec::new();
        for beginning in ConnectionProtocol::ALL {
            for name in beginning.named(new).2 {
                let same = |open: &&OpenSocket| {
                    open.name.as_ref() == Some(name) && open.way.beginning() == beginning
                };
                let kept: Vec<_> = open.iter().filter(same).map(|open| keep(open, beginning)).collect();
                if kept.is_empty() {
                    rest.push((name, beginning));
                }
                plan.wanted.extend(kept);
            }
        }
        // Sockets that may be closed: another name can take over one of their addresses.
        let mut failed = Vec::new();
        for (name, beginning) in rest {
            if let Err(error) = plan.add(&open, name, beginning) {
                let (section, key, _) = beginning.named(new);
                failed.push(ListenError { section, key, name: name.clone(), error });
            }
        }
        if failed.is_empty() { Ok(plan) } else { Err(failed) }
    }

    /// Accepts on the sockets of the plan, and no longer on any others. Blocks until the others are closed,
    /// so that their addresses are free.
    pub fn apply(&self, plan: ListenPlan) {
        let mut open = self.open.lock();
        let mut before = std::mem::take(&mut *open);
        for PlannedSocket { name, beginning, source } in plan.wanted {
            let kept = match source {
                SocketSource::Kept(address) => before
                    .iter()
                    .position(|open| open.address == address)
                    .map(|at| OpenSocket { name, ..before.swap_remove(at) })
                    .inspect(|open| open.way.begin_with(beginning)),
                SocketSource::New { socket, is_passed } => self.start(name, socket, is_passed, beginning),
            };
            open.extend(kept);
        }
        let addresses = |nntp: bool| {
            let of_kind = open.iter().filter(|open| open.way.beginning().is_nntp() == nntp);
            of_kind.map(|open| open.address).collect()
        };
        self.addresses.store(Arc::new(Addresses { nntp: addresses(true), web: addresses(false) }));
        drop(open);
        for unwanted in &before {
            unwanted.way.closed.notify_one();
        }
        for OpenSocket { address, socket, accepting, .. } in before {
            drop(socket);
            match accepting.recv_timeout(CLOSING_TIMEOUT) {
                Err(RecvTimeoutError::Timeout) => warn!(%address, "still accepts connections that wait"),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => info!(%address, "no longer listening"),
            }
        }
    }

    fn start(
        &self,
        name: Option<String>,
        socket: TcpListener,
        is_passed: bool,
        beginning: ConnectionProtocol,
    ) -> Option<OpenSocket> {
        let started = (|| {
            socket.set_nonblocking(true)?;
            // Inherited by connections.
            sockopt::set_tcp_nodelay(&socket, true)?;
            let way = Arc::new(ListenerControl::new(beginning));
            let (closing, accepting) = mpsc::channel();
            let open = OpenSocket {
                name,
                address: socket.local_addr()?,
                socket: socket.try_clone()?,
                way,
                accepting,
            };
            let polling = self.site.polling.clone();
            let listener = listener::PollingListener::new(socket, is_passed, closing, polling)?;
            let task = accept_all(listener, open.way.clone(), self.admit.clone(), self.site.stopping());
            self.accepting.lock().spawn(task);
            Ok::<_, io::Error>(open)
        })();
        match started {
            Ok(open) => {
                info!(address = %open.address, protocol = beginning.protocol(), "listening");
                Some(open)
            }
            Err(error) => {
                error!(%error, "cannot accept connections on a socket");
                None
            }
        }
    }

    /// Waits until all sessions have ended and all sockets are closed, once the server stops.
    pub async fn ended(&self) {
        let mut accepting = std::mem::take(&mut *self.accepting.lock());
        self.open.lock().clear();
        while accepting.join_next().await.is_some() {}
    }
}

impl ListenPlan {
    /// Adds the sockets of a name that has none.
    fn add(&mut self, open: &[OpenSocket], name: &str, beginning: ConnectionProtocol) -> io::Result<()> {
        let is_kept = |plan: &Self, address: SocketAddr| {
            let kept =
                |wanted: &PlannedSocket| matches!(wanted.source, SocketSource::Kept(kept) if kept == address);
            plan.wanted.iter().any(kept)
        };
        let mut taken_over = Vec::new();
        let bound = bind_with(name, &mut |address| {
            let own = |open: &&OpenSocket| open.address == address && !is_kept(self, address);
            if let Some(own) = open.iter().find(own) {
                taken_over.push(own.address);
                // A placeholder until both are sorted out below.
                return own.socket.try_clone();
            }
            listen(address).or_else(|error| {
                let beside = |open: &&OpenSocket| {
                    let any = open.address.ip().is_unspecified() || address.ip().is_unspecified();
                    any && open.address.port() == address.port() && !is_kept(self, open.address)
                };
                let beside: Vec<&TcpListener> = open.iter().filter(beside).map(|open| &open.socket).collect();
                match beside.as_slice() {
                    [] => Err(error),
                    others => listen_beside(address, others),
                }
            })
        })?;
        for BoundSocket { name, socket, .. } in bound {
            let address = socket.local_addr()?;
            let source = match taken_over.contains(&address) {
                true => SocketSource::Kept(address),
                false => SocketSource::New { socket, is_passed: false },
            };
            self.wanted.push(PlannedSocket { name, beginning, source });
        }
        Ok(())
    }
}
