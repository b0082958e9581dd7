//! The sockets of a server, bound before it reports that it is ready.

use super::screen::CliError;
use site::listening;
use site::listening::BoundSocket;

/// Listens on every address of every `HOST:PORT` of a key, which messages name as `key in [section]`; of a
/// name with several addresses, at least one must work.
pub(super) fn bind(listen: &[String], key: &str) -> Result<Vec<BoundSocket>, CliError> {
    let mut listeners = Vec::new();
    for name in listen {
        let bound = listening::bind(name).map_err(|error| {
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
}
