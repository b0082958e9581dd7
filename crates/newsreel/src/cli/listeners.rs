//! The sockets of a server, bound before it reports that it is ready, or passed by systemd.

use super::screen::{CliError, problem};
use listenfd::ListenFd;
use site::listening::{self, BoundSocket, Listeners};
use site_config::Config;
use std::net::TcpListener;

/// Returns the sockets that a configuration names. Sockets that systemd has passed (socket activation,
/// sd_listen_fds(3)) are used for their addresses; the others are opened.
pub(super) fn of(config: &Config) -> Result<Listeners, CliError> {
    let mut passed = passed()?;
    let mut bind = |listen, key| bind(listen, key, &mut passed);
    let listeners = Listeners {
        plain: bind(&config.site.listen, "listen in [site]")?,
        tls: bind(&config.site.tls_listen, "tls_listen in [site]")?,
        http: bind(&config.web.listen, "listen in [web]")?,
        https: bind(&config.web.tls_listen, "tls_listen in [web]")?,
    };
    let unnamed = passed.iter().filter_map(|socket| socket.local_addr().ok());
    match unnamed.map(|address| address.to_string()).collect::<Vec<_>>().as_slice() {
        [] => Ok(listeners),
        unnamed => Err(CliError::Problem(format!(
            "systemd listens on {}, which {} does not name: name the same addresses there and in newsreel.socket",
            unnamed.join(", "),
            config.file.display()
        ))),
    }
}

/// Checks that the addresses of a new site can be had; messages name the options that choose them.
pub(super) fn try_addresses(config: &Config) -> Result<(), CliError> {
    // Systemd has some of them already.
    if std::env::var_os("LISTEN_FDS").is_some() {
        return Ok(());
    }
    let (site, web) = (&config.site, &config.web);
    let wanted =
        [("--listen", &site.listen), ("--tls-listen", &site.tls_listen), ("--web-listen", &web.listen)];
    // All at once, as two of them may be the same.
    let bound = wanted.map(|(option, listen)| bind(listen, option, &mut Vec::new()));
    bound.into_iter().try_for_each(|bound| bound.map(drop))
}

/// Takes the sockets that were passed to this process; programs that it starts do not get them.
fn passed() -> Result<Vec<TcpListener>, CliError> {
    let mut all = ListenFd::from_env();
    let passed =
        (0..all.len()).map(|at| all.take_tcp_listener(at)?.map(|socket| socket.try_clone()).transpose());
    Ok(passed.collect::<std::io::Result<Vec<_>>>().map_err(problem)?.into_iter().flatten().collect())
}

/// Listens on every address of every `HOST:PORT` of a key, which messages name as `key in [section]`; of a
/// name with several addresses, at least one must work.
pub(super) fn bind(
    listen: &[String],
    key: &str,
    passed: &mut Vec<TcpListener>,
) -> Result<Vec<BoundSocket>, CliError> {
    let mut listeners = Vec::new();
    for name in listen {
        let bound = listening::bind(name, passed).map_err(|error| {
            // A socket of that port keeps others from it, as one for all addresses does.
            let mut locals = passed.iter().filter_map(|socket| socket.local_addr().ok());
            if let Some(local) = locals.find(|local| name.ends_with(&format!(":{}", local.port()))) {
                return CliError::Problem(format!(
                    "cannot listen on {name}: {error}; systemd listens on {local}: name the same address with {key} and \
                     in newsreel.socket"
                ));
            }
            let rights = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "ports below 1024 need CAP_NET_BIND_SERVICE, as the systemd unit has it; "
                }
                _ => "",
            };
            CliError::Problem(format!(
                "cannot listen on {name}: {error}; {rights}another address can be set with {key}"
            ))
        })?;
        listeners.extend(bound);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_in_use_is_reported_by_name() {
        let bind = |listen: &[String], key| bind(listen, key, &mut Vec::new());
        let first = bind(&["127.0.0.1:0".into()], "listen in [site]").unwrap();
        let taken = first[0].socket.local_addr().unwrap().to_string();
        let CliError::Problem(text) = bind(std::slice::from_ref(&taken), "tls_listen in [web]").unwrap_err()
        else {
            panic!()
        };
        assert!(text.starts_with(&format!("cannot listen on {taken}: ")), "{text}");
        assert!(text.ends_with("another address can be set with tls_listen in [web]"), "{text}");
        std::net::TcpStream::connect(&taken).unwrap();
    }

    #[test]
    fn a_socket_that_was_passed_is_used_for_its_address() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = socket.local_addr().unwrap().to_string();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut passed = vec![other, socket];
        let bound = bind(&[name.clone(), "127.0.0.1:0".into()], "listen in [site]", &mut passed).unwrap();
        assert_eq!(bound[0].socket.local_addr().unwrap().to_string(), name);
        assert_eq!(bound.iter().map(|bound| bound.is_passed).collect::<Vec<_>>(), [true, false]);
        assert_eq!(passed.len(), 1);
    }

    #[test]
    fn a_socket_of_another_address_and_the_same_port_is_named() {
        let socket = TcpListener::bind("0.0.0.0:0").unwrap();
        let all = socket.local_addr().unwrap();
        let name = format!("127.0.0.1:{}", all.port());
        let refused = bind(&[name], "listen in [site]", &mut vec![socket]).unwrap_err().to_string();
        assert!(refused.contains(&format!("systemd listens on {all}: name the same address")), "{refused}");
    }
}
