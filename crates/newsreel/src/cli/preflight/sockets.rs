//! Checks whether every address can be listened on.

use std::net::{SocketAddr, TcpListener};

use super::super::listeners;
use super::{Findings, RunningServer};
use site::listening::addresses_of;
use site_config::Config;

pub(super) fn look(config: &Config, running: Option<&RunningServer>, found: &mut Findings) {
    // Held until the end, so that conflicting addresses of ours are noticed.
    let mut bound: Vec<TcpListener> = Vec::new();
    let all = [
        ("listen in [site]", &config.site.listen),
        ("tls_listen in [site]", &config.site.tls_listen),
        ("listen in [web]", &config.web.listen),
        ("tls_listen in [web]", &config.web.tls_listen),
    ];
    for (key, names) in all {
        for name in names.iter().filter(|name| !running.is_some_and(|running| running.has(name))) {
            match listeners::bind(std::slice::from_ref(name), key) {
                Ok(new) => bound.extend(new.into_iter().map(|new| new.socket)),
                Err(failure) => {
                    let text = failure.to_string();
                    let text = text.trim_start_matches("newsreel: ");
                    let port = |listener: &TcpListener| Some(listener.local_addr().ok()?.port());
                    let own =
                        bound.iter().find(|listener| port(listener).is_some_and(|port| is_at(name, port)));
                    found.problem(match own.and_then(|own| own.local_addr().ok()) {
                        Some(own) => format!("{text}; this configuration has {own} as well"),
                        None => text.to_owned(),
                    });
                }
            }
        }
    }
}

fn is_at(name: &str, port: u16) -> bool {
    name.rsplit_once(':').is_some_and(|(_, text)| text.parse() == Ok(port))
}

impl RunningServer {
    /// Returns whether the server holds this port on any address; what it holds it can bind again.
    fn has(&self, name: &str) -> bool {
        let own: Vec<SocketAddr> =
            self.listen.iter().chain(&self.web).filter_map(|text| text.parse().ok()).collect();
        let mut wanted = addresses_of(name).into_iter().flatten().peekable();
        wanted.peek().is_some() && wanted.all(|wanted| own.iter().any(|own| own.port() == wanted.port()))
    }
}
