//! `ctl`: orders to a running server.

use super::args::{Order, Where};
use super::control::Control;
use super::{Failure, say};
use crate::control_socket::protocol::{Reply, Request};

pub(super) fn run(order: &Order, at: &Where) -> Result<(), Failure> {
    let config = at.load()?;
    let request = match order {
        Order::Reload => Request::Reload,
    };
    let data = config.site.data.display();
    let mut control = Control::connect(&config.site.data).ok_or_else(|| {
        Failure::Problem(format!("no server runs on {data}; start one with: newsreel serve"))
    })?;
    let mut lines = Vec::new();
    let ok = control.ask(&request, &mut |reply| match reply {
        Reply::Text(text) => lines.push(text),
        Reply::Error(text) => lines.push(format!("not done, all stays as it was: {text}")),
        _ => {}
    })?;
    let text = lines.join("\n");
    if ok { say(text) } else { Err(Failure::Problem(text)) }
}
