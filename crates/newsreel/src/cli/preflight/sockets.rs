//! Checks whether every address can be listened on.

use std::net::{IpAddr, SocketAddr, TcpListener};

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
            match listeners::bind(std::slice::from_ref(name), key, &mut Vec::new()) {
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
    /// Returns whether the server holds all addresses of this name, or some of a port on all of them; what it
    /// holds it can bind again.
    fn has(&self, name: &str) -> bool {
        let own: Vec<SocketAddr> =
            self.listen.iter().chain(&self.web).filter_map(|text| text.parse().ok()).collect();
        let mut wanted = addresses_of(name).into_iter().flatten().peekable();
        wanted.peek().is_some() && wanted.all(|wanted| own.iter().any(|own| share_a_port(*own, wanted)))
    }
}

/// Returns whether sockets at these addresses exclude each other.
fn share_a_port(one: SocketAddr, other: SocketAddr) -> bool {
    let includes = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    let (one_ip, other_ip) = (one.ip(), other.ip());
    one.port() == other.port()
        && (one_ip == other_ip || includes(one_ip, other_ip) || includes(other_ip, one_ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_process_holds_at_another_address_is_not_ours() {
        let running = RunningServer { listen: vec!["127.0.0.1:1119".into()], ..RunningServer::default() };
        for (name, is_ours) in [
            ("127.0.0.1:1119", true),
            ("0.0.0.0:1119", true),
            ("[::]:1119", true),
            ("127.0.0.2:1119", false),
            ("[::1]:1119", false),
            ("127.0.0.1:1120", false),
        ] {
            assert_eq!(running.has(name), is_ours, "{name}");
        }
        let running = RunningServer { listen: vec!["0.0.0.0:1119".into()], ..RunningServer::default() };
        assert!(running.has("127.0.0.2:1119") && !running.has("[::1]:1119"));
    }

    #[test]
    fn an_address_of_another_process_is_a_problem_beside_a_running_server() {
        let other = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let text = format!(
            "[site]\nlisten = [\"127.0.0.1:{port}\", \"127.0.0.2:{port}\"]\n[[class]]\n\
             name = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n"
        );
        let config = site_config::parse(&text, std::path::Path::new("/sim/newsreel.toml"));
        let config = config.map_err(|error| error.to_string()).unwrap();
        let listen = vec![format!("127.0.0.1:{port}")];
        let running = RunningServer { listen, ..RunningServer::default() };
        let mut found = Findings::default();
        look(&config, Some(&running), &mut found);
        let [problem] = found.problems.as_slice() else { panic!("{found:?}") };
        assert!(problem.contains(&format!("127.0.0.2:{port}")), "{problem}");
    }
}
