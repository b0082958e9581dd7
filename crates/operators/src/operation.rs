//! What operators ask for: [`Operation`], implemented once for each request, and the site on which it is
//! carried out, [`OperatedSite`].
//!
//! A running server and a command that has opened the spool itself call the same implementation. Where they
//! differ, the site supplies the part: its filer, its configuration. Everything blocks.

use crate::control_socket::exchange::ControlExchange;
use crate::reply::Reply;
use crate::running::Server;
use crate::sink::Sink;
use disk::Disk;
use feeds::begin_without_server;
use ingest::Filer;
use site_config::Config;
use site_log::SiteLog;
use spool::{Glance, Spool};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An operation that operators ask for; its fields are the options.
pub trait Operation {
    /// Carries it out, and sends all replies but the final [`Reply::Done`] to `sink`. Returns whether it
    /// succeeded and found no problem.
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool;

    /// Returns whether users in `site.control_group` may ask a server for it, as it changes nothing.
    fn is_for_control_group(&self) -> bool {
        false
    }

    /// Carries it out for a client of the control socket. Operations that receive more than their options
    /// have a version of their own.
    fn answer(&self, server: &Server, client: &mut ControlExchange) -> io::Result<bool> {
        let mut failure = None;
        let is_gone = AtomicBool::new(false);
        let mut sink = |reply: Reply| {
            if failure.is_none() {
                failure = client.send(&reply).err();
                is_gone.store(failure.is_some(), Ordering::Relaxed);
            }
        };
        // Long operations end with the server, and with the command that asked for them.
        let is_over = || is_gone.load(Ordering::Relaxed) || server.site.is_stopping();
        let ok = self.run(&OperatedSite::Running { server, is_over: &is_over }, &mut sink);
        failure.map_or(Ok(ok), Err)
    }

    /// Returns it as an operation that needs no spool, if it is one.
    fn on_files(&self) -> Option<&dyn FileOperation> {
        None
    }

    /// Answers from a glance at a spool that cannot be opened, for this reason, as the disk of a buffer is
    /// away. Returns false if that is not enough for an answer.
    fn glance(&self, _config: &Config, _glance: &Glance, _why: &str, _sink: &mut Sink<'_>) -> bool {
        false
    }
}

/// An operation that needs no spool.
pub trait FileOperation {
    /// Carries it out on the files of a site that no server has open, and sends all replies to `sink`.
    /// Returns whether it succeeded.
    fn run_on_files(&self, files: &SiteFiles<'_>, sink: &mut Sink<'_>) -> bool;
}

/// The files of a site that no server has open, and whose spool is not needed.
#[derive(Debug, Clone, Copy)]
pub struct SiteFiles<'a> {
    /// The disk.
    pub disk: &'a Arc<dyn Disk>,
    /// The configuration.
    pub config: &'a Config,
}

/// A site on which an operation is carried out.
#[derive(Clone, Copy)]
pub enum OperatedSite<'a> {
    /// The site of a running server.
    Running {
        /// The server.
        server: &'a Server,
        /// Returns whether a long operation is to end.
        is_over: &'a (dyn Fn() -> bool + Sync),
    },
    /// A site without a server, whose spool this process has opened.
    Stopped {
        /// The spool.
        spool: &'a Arc<Spool>,
        /// The configuration.
        config: &'a Config,
    },
}

impl<'a> OperatedSite<'a> {
    /// Returns the spool.
    pub fn spool(&self) -> &'a Arc<Spool> {
        match self {
            Self::Running { server, .. } => &server.site.spool,
            Self::Stopped { spool, .. } => spool,
        }
    }

    /// Returns the log through which changes reach the spool.
    pub fn log(&self) -> Arc<SiteLog> {
        match self {
            Self::Running { server, .. } => server.site.filer.log().clone(),
            Self::Stopped { spool, .. } => Arc::new(SiteLog::new((*spool).clone())),
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> Arc<Config> {
        match self {
            Self::Running { server, .. } => server.site.config.current(),
            Self::Stopped { config, .. } => Arc::new((*config).clone()),
        }
    }

    /// Returns the server; replies with an error if none runs.
    pub(crate) fn server(&self, sink: &mut Sink<'_>) -> Option<&'a Server> {
        match self {
            Self::Running { server, .. } => Some(server),
            Self::Stopped { .. } => {
                sink(Reply::Error("only a running server does this".into()));
                None
            }
        }
    }

    /// Returns the filer of articles; without a server it is a new one, which routes to every configured
    /// peer.
    pub fn filer(&self) -> io::Result<Arc<Filer>> {
        match self {
            Self::Running { server, .. } => Ok(server.site.filer.clone()),
            Self::Stopped { spool, config } => {
                begin_without_server(spool, config)?;
                Ok(Arc::new(Filer::new(self.config(), (*spool).clone())))
            }
        }
    }

    /// Does work that waits for the network: on the server's runtime, or on one of its own.
    pub(crate) fn in_runtime(
        &self,
        sink: &mut Sink<'_>,
        work: impl FnOnce(&mut Sink<'_>) -> bool + Send,
    ) -> bool {
        if matches!(self, Self::Running { .. }) {
            return work(sink);
        }
        let done = in_runtime(|| work(sink));
        done.unwrap_or_else(|error| {
            sink(Reply::Error(error.to_string()));
            false
        })
    }

    /// Returns whether a long operation is to end.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Running { is_over, .. } => is_over(),
            Self::Stopped { .. } => false,
        }
    }
}

/// Does work on a thread of a new runtime, as in a server.
pub fn in_runtime<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let _inside = runtime.enter();
            work()
        });
        done.join().map_err(|_| io::Error::other("it failed by a fault of newsreel's"))
    })
}

/// Sends the value of a result as a reply, or its error; returns whether it is a value.
pub(crate) fn replied<E: std::fmt::Display>(result: Result<Reply, E>, sink: &mut Sink<'_>) -> bool {
    let ok = result.is_ok();
    sink(result.unwrap_or_else(|error| Reply::Error(error.to_string())));
    ok
}
