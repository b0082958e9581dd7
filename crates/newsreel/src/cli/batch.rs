//! `batch`: writes batches for a peer now.

use std::sync::Arc;

use super::locate::SiteLocation;
use super::reach::{self, Reach};
use super::screen::{CliError, complain, say};
use feeds::batch_without_server;
use operators as operations;
use operators::request::{Reply, Request};

pub(super) fn batch(peer: &str, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let mut said = Ok(());
    let mut hear = |reply| match reply {
        Reply::Text(text) => said = say(text),
        Reply::Error(text) => complain(format_args!("newsreel: {text}")),
        _ => {}
    };
    let ok = match Reach::new(&config)? {
        Reach::Server(mut control) => control.ask(&Request::Batch { peer: peer.to_owned() }, &mut hear)?,
        Reach::Here(spool) => {
            let filer = Arc::new(reach::filer(&config, &spool)?);
            let made = batch_without_server(&spool, &filer, &config, peer);
            let ok = operations::batch(made, peer, &mut hear);
            drop(filer);
            spool.close()?;
            ok
        }
    };
    said?;
    if ok { Ok(()) } else { Err(CliError::Told) }
}
