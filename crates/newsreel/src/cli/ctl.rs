//! `ctl`: orders to a running server.

use super::args::Order;
use super::locate::Where;
use super::reach;
use super::screen::{Failure, say};
use crate::operations::request::{Reply, Request};

pub(super) fn run(order: &Order, at: &Where) -> Result<(), Failure> {
    let request = match order {
        Order::Reload => Request::Reload,
        Order::Feed { peer, command } => Request::Feed { peer: peer.clone(), command: command.clone() },
    };
    let mut control = reach::server(at)?;
    let mut lines = Vec::new();
    let ok = control.ask(&request, &mut |reply| match reply {
        Reply::Text(text) => lines.push(text),
        Reply::Error(text) if matches!(order, Order::Reload) => {
            lines.push(format!("not reloaded, everything stays as it was:\n\n{text}"));
        }
        Reply::Error(text) => lines.push(text),
        _ => {}
    })?;
    let text = lines.join("\n");
    if ok { say(text) } else { Err(Failure::Problem(text)) }
}
