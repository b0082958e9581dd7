//! Checks of names and connections: our own name in DNS and in certificates, our own ports, and the servers
//! that the configuration names, whose clocks are compared with ours (DATE, RFC 3977 section 7.1).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use netnews::date::parse_nntp;
use netnews::nntp::response::code;
use nntp_io::{ClientLimits, Error, NntpClient, Role, SetupStep};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{CheckResult, part};
use crate::cli::preflight::RunningServer;
use crate::cli::screen::{CliError, problem};
use access::tls::{RemoteServer, names};
use site_base::clock::unix_now;
use site_base::units;
use site_config::{Config, Link, LinkTls};

/// Time limit for each step of a connection, and for looking up a name.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Clock error beyond which Injection-Date and expiry are wrong, in seconds.
const SKEW_SECS_MUCH: i64 = 60;
/// Clock error beyond which articles are rejected elsewhere and good ones here, in seconds.
const SKEW_SECS_FAULT: i64 = 3600;

/// A server that the configuration names: its role there and how to reach it.
struct ProbeTarget {
    what: String,
    dial: RemoteServer,
    role: Role,
}

/// Result of connecting to a server.
struct ProbeResult {
    what: String,
    to: String,
    /// Greeting, and how many seconds its clock is ahead of ours if it answered DATE.
    greeted: Result<(String, Option<i64>), Error>,
}

pub(super) fn parts(
    config: &Config,
    running: Option<&RunningServer>,
    offline: bool,
) -> Result<Vec<CheckResult>, CliError> {
    let runtime = crate::server::runtime().map_err(problem)?;
    let mut parts = vec![certificate(config), runtime.block_on(ports(config, running))];
    if !offline {
        parts.extend(runtime.block_on(name(config)));
        let met = runtime.block_on(meet(others(config)));
        if !met.is_empty() {
            parts.push(peers(&met));
            parts.push(clock(&met));
        }
    }
    // Does not wait for a lookup that hangs.
    runtime.shutdown_background();
    Ok(parts)
}

/// Checks whether a certificate has our name, which clients verify.
fn certificate(config: &Config) -> CheckResult {
    let identity = config.site.path_identity.as_str();
    let mut part = part("names", format!("a certificate is for {identity}"));
    if config.tls.certificate.is_empty() {
        part.well = "none is needed: there is no certificate".into();
        return part;
    }
    let of_files = config.tls.certificate.iter().flat_map(|file| names::of_file(file).into_vec());
    let all: Vec<Box<str>> = of_files.collect();
    if !all.iter().any(|name| covers(name, identity)) {
        part.found.warning(format!(
            "no certificate is for {identity}, only for {}: clients that connect to {identity} refuse it",
            all.join(", ")
        ));
    }
    part
}

/// Returns whether a name in a certificate covers a host (RFC 6125 section 6.4.3).
fn covers(name: &str, host: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(domain) => host.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain)),
        None => name.eq_ignore_ascii_case(host),
    }
}

/// Checks whether each address of the running server accepts a connection and greets.
async fn ports(config: &Config, running: Option<&RunningServer>) -> CheckResult {
    let mut part = part("ports", "no server runs, so nothing was connected to");
    let Some(running) = running else { return part };
    let own: Vec<ProbeTarget> = running.listen.iter().filter_map(|text| own(config, text)).collect();
    let mut greetings = Vec::new();
    for ProbeResult { to, greeted, .. } in meet(own).await {
        match greeted {
            Ok((text, _)) => greetings.push(format!("{to} greets: {text}")),
            Err(Error::Refused { step: SetupStep::Greeting, code, text }) => {
                greetings.push(format!("{to} answers: {code} {text}"));
            }
            Err(error) => part.found.problem(format!(
                "{to} does not greet: {error}; see the server's log, and whether a firewall is in between"
            )),
        }
    }
    for address in running.web.iter().filter_map(|text| reached(text)) {
        match timeout(STEP_TIMEOUT, health(config, address)).await.unwrap_or(Err(ErrorKind::TimedOut.into())) {
            Ok(()) => greetings.push(format!("{address} answers browsers")),
            Err(error) => part.found.problem(format!(
                "{address} does not answer browsers: {error}; see the server's log, and whether a firewall is in between"
            )),
        }
    }
    part.well = greetings.join("; ");
    part
}

/// Checks whether `/health` is answered; over TLS, only whether a connection is accepted.
async fn health(config: &Config, address: SocketAddr) -> io::Result<()> {
    let mut socket = TcpStream::connect(address).await?;
    let port = format!(":{}", address.port());
    if !config.web.listen.iter().any(|name| name.ends_with(&port) || name.ends_with(":0")) {
        return Ok(());
    }
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut status = [0; 12];
    socket.read_exact(&mut status).await?;
    match status.strip_suffix(b" 200") {
        Some(_) => Ok(()),
        None => Err(io::Error::other(String::from_utf8_lossy(&status))),
    }
}

/// Returns the address at which this machine reaches one that we listen on.
fn reached(listen: &str) -> Option<SocketAddr> {
    let address: SocketAddr = listen.parse().ok()?;
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    Some(SocketAddr::new(ip, address.port()))
}

/// Returns a connection to an address of ours.
fn own(config: &Config, listen: &str) -> Option<ProbeTarget> {
    let address = reached(listen)?;
    let names = |names: &[String], port: u16| names.iter().any(|name| name.ends_with(&format!(":{port}")));
    let (plain, tls) = (&config.site.listen, &config.site.tls_listen);
    let tls = match (names(plain, address.port()), names(tls, address.port())) {
        (_, true) => LinkTls::Implicit,
        (true, false) => LinkTls::Off,
        // The system has chosen the port: where it chose some of each kind, nothing says which this is.
        (false, false) if names(plain, 0) && names(tls, 0) => return None,
        (false, false) if names(tls, 0) => LinkTls::Implicit,
        (false, false) => LinkTls::Off,
    };
    // Our own certificate need not be for this address.
    let link = Link {
        bind: None,
        tls,
        tls_verify: false,
        tls_ca: None,
        user: None,
        password_file: None,
        mechanisms: Vec::new(),
        compress: false,
    };
    Some(ProbeTarget {
        what: String::new(),
        dial: RemoteServer { to: address.to_string(), link },
        role: Role::Any,
    })
}

/// Checks whether our name leads here; skipped for a site that serves this machine alone.
async fn name(config: &Config) -> Option<CheckResult> {
    let identity = config.site.path_identity.as_str();
    let listen = config.site.listen.iter().chain(&config.site.tls_listen);
    let is_private = |name: &String| {
        name.starts_with("127.") || name.starts_with("[::1]") || name.starts_with("localhost:")
    };
    if !identity.contains('.') || listen.into_iter().all(is_private) {
        return None;
    }
    let mut part = part("dns", "");
    let looked_up = timeout(STEP_TIMEOUT, lookup_host((identity, 0))).await;
    let addresses: Vec<IpAddr> = match looked_up {
        Ok(Ok(addresses)) => addresses.map(|address| address.ip()).collect(),
        Ok(Err(error)) => {
            part.found.warning(format!(
                "{identity} has no address ({error}): who goes by the name in Path does not find this server"
            ));
            return Some(part);
        }
        Err(_) => {
            let secs = STEP_TIMEOUT.as_secs();
            part.found.warning(format!("no answer for {identity} within {secs} s; see /etc/resolv.conf"));
            return Some(part);
        }
    };
    let is_ours = |ip: &IpAddr| UdpSocket::bind((*ip, 0)).is_ok();
    let list = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
    part.well = format!("{identity} is {list}");
    if !addresses.iter().any(is_ours) {
        part.found.warning(format!(
            "{identity} is {list}, which no interface here has: right only if a router forwards to this machine"
        ));
    }
    Some(part)
}

/// Returns the servers that the configuration names.
fn others(config: &Config) -> Vec<ProbeTarget> {
    let mut all = Vec::new();
    let mut add = |what: String, to: &String, link: Link, role| {
        all.push(ProbeTarget { what, dial: RemoteServer { to: to.clone(), link }, role });
    };
    for (peer, send) in config.peers.iter().filter_map(|peer| Some((peer, peer.send.as_ref()?))) {
        send.to.iter().for_each(|to| add(format!("peer {}", peer.name), to, send.link(), Role::Transit));
    }
    for pull in &config.pulls {
        add(format!("pull {}", pull.name), &pull.from, pull.link(), Role::Reader);
    }
    for server in &config.body_servers {
        add(format!("body_server {}", server.name), &server.from, server.link(), Role::Reader);
    }
    for upstream in config.upstreams.iter().filter(|upstream| !upstream.offline) {
        add(format!("upstream {}", upstream.name), &upstream.host, upstream.link(), Role::Reader);
    }
    all
}

/// Connects to all of them at once, and asks those that answer for their time.
async fn meet(others: Vec<ProbeTarget>) -> Vec<ProbeResult> {
    let mut meetings = JoinSet::new();
    for (at, ProbeTarget { what, dial, role }) in others.into_iter().enumerate() {
        meetings.spawn(async move {
            let to = dial.to.clone();
            (at, ProbeResult { what, to, greeted: greet(&dial, role).await })
        });
    }
    let mut met = meetings.join_all().await;
    met.sort_by_key(|(at, _)| *at);
    met.into_iter().map(|(_, met)| met).collect()
}

async fn greet(dial: &RemoteServer, role: Role) -> Result<(String, Option<i64>), Error> {
    let limits = ClientLimits {
        connect_timeout: STEP_TIMEOUT,
        greeting_timeout: STEP_TIMEOUT,
        answer_timeout: STEP_TIMEOUT,
        idle_timeout: STEP_TIMEOUT,
        ..ClientLimits::default()
    };
    let target = dial.target(role, limits).map_err(|error| Error::Broken(std::io::Error::other(error)))?;
    let mut client = NntpClient::connect(&target).await?;
    let greeting = client.greeting().to_owned();
    client.submit("DATE")?;
    let now = unix_now();
    // A server that does not know the command still counts as reached.
    let told = match client.answer().await {
        Ok(answer) if answer.code == code::DATE => seconds(answer.first_word(), now),
        _ => None,
    };
    _ = client.submit("QUIT");
    _ = timeout(STEP_TIMEOUT, client.answer()).await;
    Ok((greeting, told.map(|theirs| theirs - now)))
}

/// Converts `yyyymmddhhmmss` to Unix seconds.
fn seconds(text: &[u8], now: i64) -> Option<i64> {
    let (date, time) = text.split_at_checked(8)?;
    parse_nntp(date, time, now)
}

fn peers(met: &[ProbeResult]) -> CheckResult {
    let greeted = met.iter().filter(|met| met.greeted.is_ok()).count() as u64;
    let mut part = part("peers", format!("{} greeted us", units::counted(greeted, "server")));
    for ProbeResult { what, to, greeted } in met {
        match greeted {
            Ok(_) => {}
            Err(error @ Error::Lookup { .. }) => {
                part.found.problem(format!("{what}, {to}: {error}; mend the name"))
            }
            Err(error) => part.found.warning(format!("{what}, {to}: {error}")),
        }
    }
    part
}

/// Compares our clock with those of the other servers by the median, as one of them may be wrong itself.
fn clock(met: &[ProbeResult]) -> CheckResult {
    let told = met.iter().filter_map(|met| met.greeted.as_ref().ok()?.1);
    let mut skews: Vec<i64> = told.collect();
    skews.sort_unstable();
    let mut part = part("clock", "no other server has told its time (DATE)");
    let Some(&skew) = skews.get(skews.len() / 2) else { return part };
    let by = units::about_span(skew.unsigned_abs());
    let which = if skew > 0 { "behind" } else { "ahead of" };
    let others = units::counted(skews.len() as u64, "other server");
    part.well = format!("is within {} s of the time of {others} (DATE)", skew.abs().max(1));
    let text = format!("is {by} {which} the time of {others} (DATE); let NTP set it");
    match skew.abs() {
        off if off > SKEW_SECS_FAULT => part.found.problem(text),
        off if off > SKEW_SECS_MUCH => part.found.warning(text),
        _ => {}
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    fn met(skews: &[Option<i64>]) -> Vec<ProbeResult> {
        let one = |skew: &Option<i64>| ProbeResult {
            what: "peer p".into(),
            to: "p:119".into(),
            greeted: Ok((String::new(), *skew)),
        };
        skews.iter().map(one).collect()
    }

    #[test]
    fn clock_is_compared_with_the_median_of_other_servers() {
        assert!(clock(&met(&[])).well.contains("no other server"));
        assert!(clock(&met(&[None, Some(2)])).well.contains("within 2 s of the time of 1 other server"));
        let one_is_wrong = clock(&met(&[Some(0), Some(90_000), Some(1)]));
        assert!(one_is_wrong.found.problems.is_empty() && one_is_wrong.found.warnings.is_empty());
        let late = clock(&met(&[Some(120), Some(130), None]));
        assert!(
            late.found.warnings[0].starts_with("is 2 minutes behind")
                || late.found.warnings[0].contains("behind")
        );
        assert!(
            clock(&met(&[Some(-7_200)])).found.problems[0].contains("ahead of the time of 1 other server")
        );
    }

    #[test]
    fn names_in_certificates_cover_hosts() {
        assert!(covers("news.example.org", "News.example.org"));
        assert!(covers("*.example.org", "news.example.org"));
        assert!(!covers("*.example.org", "a.news.example.org"));
        assert!(!covers("*.example.org", "example.org"));
        assert_eq!(seconds(b"20260131120000", 0), Some(1_769_860_800));
        assert_eq!(seconds(b"2026", 0), None);
    }

    #[test]
    fn every_server_of_the_configuration_is_contacted() {
        let config = with_trash(
            "[[peer]]\nname = \"p\"\n[peer.send]\nto = [\"p.invalid:119\", \"q.invalid:119\"]\ngroups = \"*\"\n\
             [[pull]]\nname = \"l\"\nfrom = \"l.invalid:119\"\ngroups = \"*\"\n",
        );
        let all: Vec<String> =
            others(&config).iter().map(|one| format!("{} {}", one.what, one.dial.to)).collect();
        assert_eq!(all, ["peer p p.invalid:119", "peer p q.invalid:119", "pull l l.invalid:119"]);
        let own = own(&config, "0.0.0.0:1119").unwrap();
        assert_eq!((own.dial.to.as_str(), own.dial.link.tls), ("127.0.0.1:1119", LinkTls::Off));
    }
}
