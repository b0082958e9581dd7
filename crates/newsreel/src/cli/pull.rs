//! `pull`: fetch articles from another server now, through the running server or into the spool itself.

use std::path::PathBuf;

use clap::Args;

use super::args::host_port;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say, say_json};
use access::tls::RemoteServer;
use operators::pull::PullSpec;
use operators::pull::operation::PullOperation;
use operators::pull::standing;
use operators::reply::Reply;
use site_base::units;
use site_config::{Config, Link, LinkTls, NamePattern, PullMethod};

/// Options for a connection to another server.
#[derive(Debug, Clone, Args)]
pub(super) struct LinkOptions {
    /// Encryption
    #[arg(long, value_enum, default_value = "off")]
    pub(super) tls: LinkTls,
    /// Do not check the server's certificate
    #[arg(long)]
    pub(super) no_tls_verify: bool,
    /// The authorities that may vouch for the server, or its certificate (PEM) [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(super) tls_ca: Option<PathBuf>,
    /// Log in as this user
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(super) user: Option<String>,
    /// The password is the first line of this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(super) password_file: Option<PathBuf>,
    /// Compress if the server supports it
    #[arg(long)]
    pub(super) compress: bool,
    /// The local address to connect from
    #[arg(long, value_name = "ADDR")]
    pub(super) bind: Option<std::net::IpAddr>,
}

impl LinkOptions {
    /// Returns how to connect to a server at `to`.
    pub(super) fn dial(&self, to: &str) -> RemoteServer {
        // The server reads these files, and has another working directory.
        let whole = |file: &Option<PathBuf>| {
            file.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()))
        };
        let link = Link {
            bind: self.bind,
            tls: self.tls,
            tls_verify: !self.no_tls_verify,
            tls_ca: whole(&self.tls_ca),
            user: self.user.clone(),
            password_file: whole(&self.password_file),
            mechanisms: Vec::new(),
            compress: self.compress,
        };
        RemoteServer { to: to.to_owned(), link }
    }

    /// Returns whether any option was given.
    fn is_given(&self) -> bool {
        self.tls != LinkTls::Off
            || self.no_tls_verify
            || self.tls_ca.is_some()
            || self.user.is_some()
            || self.compress
            || self.bind.is_some()
    }
}

/// Options of `pull`.
#[derive(Debug, Clone, Args)]
pub(super) struct PullOptions {
    /// The server, HOST:PORT (HOST alone: port 119, or 563 with --tls implicit), or the name of a [[pull]]
    /// section
    #[arg(value_name = "SERVER|NAME")]
    server: String,
    /// The groups, such as comp.*,!comp.os.* [default: those of the section]
    #[arg(value_name = "GROUPS")]
    groups: Option<String>,
    /// Create groups that match and are not carried here
    #[arg(long)]
    create_groups: bool,
    /// From a group that was never fetched, fetch at most this many of its newest articles
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// How to find out what is new
    #[arg(long, value_enum)]
    by: Option<PullMethod>,
    /// Connections at once [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    connections: Option<u8>,
    /// At most this many bytes of articles per second, such as "1 MiB"
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    rate: Option<u64>,
    #[command(flatten)]
    link: LinkOptions,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn pull(options: &PullOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let spec = spec(options, &config)?;
    NamePattern::parse(&spec.groups).map_err(|error| CliError::Usage(error.to_string()))?;
    let mut summary = None;
    let ok = reach::ask(&config, PullOperation { spec: Box::new(spec) }, &mut |reply| {
        if let Reply::Pulled { counts, seconds, details } = reply {
            summary = Some((counts, seconds, details));
        }
    })?;
    if let Some((counts, seconds, details)) = summary {
        if options.json {
            say_json(&serde_json::json!({ "counts": counts, "seconds": seconds, "details": details }))?;
        } else {
            let rate = counts.fetched as f64 / seconds.max(0.001);
            let rate = units::grouped(rate as u64);
            details.lines().iter().try_for_each(say)?;
            say(format_args!("{}; {seconds:.1} s, {rate} articles a second", standing::summary(&counts)))?;
        }
    }
    if ok { Ok(()) } else { Err(CliError::Told) }
}

/// Returns the pull to carry out: from a section, or as typed.
fn spec(options: &PullOptions, config: &Config) -> Result<PullSpec, CliError> {
    let section = config.pulls.iter().find(|pull| pull.name == options.server);
    let mut spec = match section {
        Some(_) if options.link.is_given() => {
            let text =
                format!("the connection to `{}` is configured in its [[pull]] section", options.server);
            return Err(CliError::Usage(text));
        }
        Some(section) => PullSpec::from(section),
        None => PullSpec {
            name: options.server.clone(),
            dial: options.link.dial(&address(&options.server, options.link.tls)?),
            groups: options.groups.clone().ok_or_else(|| {
                CliError::Usage("name the groups, such as 'comp.*,!comp.os.*', or '*' for all".into())
            })?,
            by: PullMethod::Number,
            create_groups: false,
            first_max: None,
            connections: 2,
            bytes_per_sec_max: None,
            give_up_secs: operators::pull::give_up_secs(),
            answer_timeout_ms: operators::pull::answer_timeout_ms(),
        },
    };
    if let Some(groups) = &options.groups {
        spec.groups.clone_from(groups);
    }
    spec.by = options.by.unwrap_or(spec.by);
    spec.create_groups |= options.create_groups;
    spec.first_max = options.first.or(spec.first_max);
    spec.connections = options.connections.map_or(spec.connections, usize::from);
    spec.bytes_per_sec_max = options.rate.or(spec.bytes_per_sec_max);
    Ok(spec)
}

/// Returns `HOST:PORT`, with the default port if none was typed.
pub(super) fn address(typed: &str, tls: LinkTls) -> Result<String, CliError> {
    let port = if tls == LinkTls::Implicit { 563 } else { 119 };
    let is_bare_v6 = typed.parse::<std::net::Ipv6Addr>().is_ok();
    let whole = match typed {
        _ if is_bare_v6 => format!("[{typed}]:{port}"),
        _ if typed.contains(':') && !typed.ends_with(']') => typed.to_owned(),
        _ => format!("{typed}:{port}"),
    };
    host_port(&whole).map_err(|error| CliError::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_may_be_typed_without_a_port() {
        let typed = |text: &str| address(text, LinkTls::Off).ok();
        assert_eq!(typed("news.example.net").as_deref(), Some("news.example.net:119"));
        assert_eq!(typed("news.example.net:1119").as_deref(), Some("news.example.net:1119"));
        assert_eq!(typed("2001:db8::7").as_deref(), Some("[2001:db8::7]:119"));
        assert_eq!(typed("[2001:db8::7]").as_deref(), Some("[2001:db8::7]:119"));
        assert_eq!(address("x.example", LinkTls::Implicit).ok().as_deref(), Some("x.example:563"));
        assert_eq!(typed("news.example.net:news"), None);
    }
}
