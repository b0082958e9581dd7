//! The spool of a site, wherever it is open: in the running server, or here.

use std::sync::Arc;

use spool::{RealDisk, Spool, SpoolError};

use super::Failure;
use super::bar::Bar;
use super::control::Control;
use crate::config::Config;
use crate::control_socket::protocol::{Reply, Request, StatusReport};
use crate::operations;

/// A way to a site's spool.
pub(super) enum Reach {
    /// A server runs.
    Server(Control),
    /// None runs; the spool is open here.
    Here(Box<Spool>),
}

impl Reach {
    /// Finds the running server of this configuration, or opens its spool.
    pub(super) fn new(config: &Config) -> Result<Self, Failure> {
        if let Some(control) = Control::connect(&config.site.data) {
            return Ok(Self::Server(control));
        }
        Ok(Self::Here(Box::new(open(config)?)))
    }

    /// Carries out a request; returns whether all was well.
    pub(super) fn ask(
        &mut self,
        config: &Config,
        request: &Request,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, Failure> {
        let bar = Bar::new();
        let mut hear = |reply| match reply {
            Reply::Progress { what, done, total } => bar.show(&what, done, total),
            Reply::Error(text) => eprintln!("newsreel: {text}"),
            other => hear(other),
        };
        match self {
            Self::Server(control) => control.ask(request, &mut hear),
            Self::Here(spool) if *request == Request::Status => {
                let spool = operations::spool_status(spool, config).map_err(io_problem)?;
                hear(Reply::Status(Box::new(StatusReport {
                    version: env!("CARGO_PKG_VERSION").into(),
                    path_identity: config.site.path_identity.clone(),
                    server: None,
                    spool,
                })));
                Ok(true)
            }
            Self::Here(spool) => Ok(match request {
                Request::BufferChange { name, change } => {
                    operations::buffers::change(spool, config, name, change, &mut hear)
                }
                other => operations::execute(other, spool, &mut hear),
            }),
        }
    }

    /// Ends it; a spool that was opened here is closed in order.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Here(spool) => Ok(spool.close()?),
        }
    }
}

/// Carries out one request and hears its replies; returns whether all was well.
pub(super) fn ask(
    config: &Config,
    request: &Request,
    hear: &mut (dyn FnMut(Reply) + Send),
) -> Result<bool, Failure> {
    let mut reach = Reach::new(config)?;
    let ok = reach.ask(config, request, hear)?;
    reach.close()?;
    Ok(ok)
}

/// Opens the spool of a configuration in this process; a site that was never served or made is none.
pub(super) fn open(config: &Config) -> Result<Spool, Failure> {
    match Spool::open(Arc::new(RealDisk::new()), config.spool_config(), &Bar::new()) {
        Ok((spool, _)) => Ok(spool),
        Err(SpoolError::Locked(path)) => Err(Failure::Problem(format!(
            "{} is in use by a newsreel process that does not answer on its control socket; wait, or stop it",
            path.display()
        ))),
        Err(error) => Err(error.into()),
    }
}

fn io_problem(error: std::io::Error) -> Failure {
    Failure::Problem(error.to_string())
}
