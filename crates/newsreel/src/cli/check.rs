//! `check`, `show`, `explain-config`: the configuration, and problems that would keep it from being served.

use std::sync::Arc;

use super::compare::compare;
use super::locate::SiteLocation;
use super::preflight;
use super::rights::{self, AccessQuery};
use super::screen::{CliError, say};
use clap::Args;
use site_base::units;
use site_base::units::counted;
use site_config::Upstream;
use site_config::{Config, ConfigWord, FeedTransport, Method, PeerSend, manual};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// A question about access.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AccessQuestion {
    /// Say which [[access]] section decides for a client from this address, and what it may do
    #[arg(long, value_name = "ADDR")]
    access: Option<IpAddr>,
    /// ... once it has logged in as this user
    #[arg(long, value_name = "NAME", requires = "access")]
    user: Option<String>,
    /// ... over TLS
    #[arg(long, requires = "access")]
    tls: bool,
    /// ... connected to this address of ours
    #[arg(long, value_name = "ADDR:PORT", requires = "access")]
    listener: Option<SocketAddr>,
    /// Compare with the running server: what a reload would change, what waits for a restart, what is refused
    #[arg(long, conflicts_with = "access")]
    diff: bool,
}

pub(super) fn check(at: &SiteLocation, question: &AccessQuestion) -> Result<(), CliError> {
    if question.diff {
        return compare(at);
    }
    let config = Arc::new(at.load()?);
    if let Some(address) = question.access {
        let (listener, user, tls) = (question.listener, question.user.clone(), question.tls);
        let users = rights::users_of(&config)?;
        return say(rights::decision(
            &config,
            users.as_ref(),
            &AccessQuery { address, listener, user, tls },
        )?);
    }
    let mut users = None;
    let found = preflight::look(&config, &mut users);
    say(summary(&config, &found.count()))?;
    say(format_args!("\nAccess; the first match decides:\n\n{}", rights::overview(&config)))?;
    if let unknown @ [_, ..] = rights::unknown(&config, users.as_ref()).as_slice() {
        say(format_args!("\nNo client matches these:\n  {}", unknown.join("\n  ")))?;
    }
    if !found.text().is_empty() {
        say(found.text())?;
    }
    if found.problems.is_empty() { Ok(()) } else { Err(CliError::Told) }
}

/// Prints the configuration, a section of it, or the values of a key.
pub(super) fn show(key: Option<&str>, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let Some(word) = key else { return say(config.to_toml().trim_end()) };
    let text = config.part_of(word).ok_or_else(|| unknown_key(word))?;
    if text.is_empty() { Ok(()) } else { say(text.trim_end()) }
}

pub(super) fn explain(word: &str) -> Result<(), CliError> {
    say(manual::explain(word).ok_or_else(|| unknown_key(word))?.trim_end())
}

fn unknown_key(word: &str) -> CliError {
    let paths = manual::paths_of(word);
    if !paths.is_empty() {
        return CliError::Usage(format!("`{word}` is in several sections; one of {}", paths.join(", ")));
    }
    CliError::Usage(match manual::suggestion(word) {
        Some(near) => format!("there is no key `{word}`; did you mean `{near}`?"),
        None => format!("there is no key `{word}`; `newsreel explain-config` lists them all"),
    })
}

/// Summarizes in a few lines what a configuration would serve.
fn summary(config: &Config, found: &str) -> String {
    let mut lines = vec![format!("{}: {found}", config.file.display()), String::new()];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<10} {text}"));
    line("site", format!("{} on {}", config.site.path_identity, config.site.listen.join(", ")));
    if config.tls.is_offered() {
        let files: Vec<String> =
            config.tls.certificate.iter().map(|file| file.display().to_string()).collect();
        let also = match config.site.tls_listen.as_slice() {
            [] => String::new(),
            listen => format!(", from the start on {}", listen.join(", ")),
        };
        line("tls", format!("{}{also}", files.join(", ")));
    }
    line("spool", config.site.data.display().to_string());
    let age = config
        .site
        .max_age_days
        .map_or("of any age".into(), |days| format!("up to {} old", counted(u64::from(days), "day")));
    let size = units::size_text(config.site.article_bytes_max);
    line(
        "articles",
        format!("{age}, up to {size}, durability {}", units::durability_text(config.site.durability)),
    );
    for class in &config.classes {
        let text = match class.method {
            Method::Cnfs => {
                let own = |name: &&String| config.buffers.iter().find(|buffer| buffer.name == **name);
                let bytes =
                    class.buffers.iter().filter_map(|name| own(&name)).filter_map(|buffer| buffer.size).sum();
                format!(
                    "{} in {} ({})",
                    units::about_size(bytes),
                    class.buffers.join(", "),
                    class.order.word()
                )
            }
            Method::Memory => format!("{} in memory, empty after a restart", units::about_size(class.size)),
            Method::Trash => "nothing is kept".into(),
            method => {
                let path = class.path.as_deref().unwrap_or(Path::new(""));
                format!("{} in {}, until due", method.word(), path.display())
            }
        };
        line("class", format!("{}: {text}", class.name));
    }
    let used = |name: &String| config.classes.iter().any(|class| class.buffers.contains(name));
    for buffer in config.buffers.iter().filter(|buffer| !used(&buffer.name)) {
        line("buffer", format!("{}: in no class, nothing is added to it", buffer.name));
    }
    line("rules", format!("{}, the last for all other articles", config.rules.len()));
    for peer in &config.peers {
        let mut known: Vec<String> = peer.addresses.iter().map(ToString::to_string).collect();
        known.extend(peer.certificate.iter().map(|certificate| format!("certificate {certificate}")));
        known.extend(peer.user.iter().map(|user| format!("user {user}")));
        let mut text = Vec::new();
        if !known.is_empty() {
            text.push(format!("known by {}, sends {}", known.join(", "), peer.accept.as_str()));
        }
        if let Some(send) = &peer.send {
            text.push(format!("is sent {} {}", send.groups.as_str(), way_text(send)));
        }
        line("peer", format!("{}: {}", peer.name, text.join("; ")));
    }
    fetching_lines(config).into_iter().for_each(|(label, text)| line(label, text));
    if config.peers.is_empty() && config.upstreams.is_empty() {
        line("peers", "none: nobody may feed articles".into());
    }
    lines.join("\n")
}

/// The servers from which articles are fetched.
fn fetching_lines(config: &Config) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for pull in &config.pulls {
        let text =
            format!("{} from {} every {}", pull.groups.as_str(), pull.from, units::span_text(pull.interval));
        lines.push(("pull", format!("{}: {text}", pull.name)));
    }
    if !config.upstreams.is_empty() {
        lines.push(("upstreams", upstream_counts(&config.upstreams)));
    }
    for upstream in &config.upstreams {
        lines
            .push(("upstream", format!("{}: {}", upstream.name, upstream_text(upstream, &config.upstreams))));
    }
    lines
}

/// How many upstreams there are, of each kind.
fn upstream_counts(upstreams: &[Upstream]) -> String {
    let fill = upstreams.iter().filter(|upstream| upstream.fill).count();
    let posts = upstreams.iter().filter(|upstream| !upstream.fill && upstream.is_unread()).count();
    let numbering = upstreams.len() - fill - posts;
    let kinds = [
        (numbering, "numbers groups", "number groups"),
        (fill, "fills in", "fill in"),
        (posts, "only takes posts", "only take posts"),
    ];
    let kinds = kinds.iter().filter(|(count, ..)| *count > 0);
    let kinds: Vec<_> =
        kinds.map(|(count, one, more)| format!("{count} {}", if *count == 1 { one } else { more })).collect();
    format!("{}; {}", upstreams.len(), kinds.join(", "))
}

/// What an upstream of these is asked for.
fn upstream_text(upstream: &Upstream, all: &[Upstream]) -> String {
    let is_before = |other: &&Upstream| !std::ptr::eq(*other, upstream);
    let mut before = all.iter().take_while(is_before).filter(|other| !other.fill && !other.is_unread());
    let same = before.find(|other| other.groups.as_str() == upstream.groups.as_str());
    let asked = match (upstream.fill, upstream.is_unread()) {
        (true, _) => "fills in by Message-ID".to_owned(),
        (false, true) => "only takes posts".to_owned(),
        (false, false) => match same {
            Some(first) => format!(
                "numbers no group, as {} has the same groups; name its own with groups, or set fill = true",
                first.name
            ),
            None => format!("numbers {}", upstream.groups.as_str()),
        },
    };
    let offline = if upstream.offline { ", offline" } else { "" };
    format!("{asked}, at {}{offline}", upstream.host)
}

/// Describes how articles leave for a peer.
fn way_text(send: &PeerSend) -> String {
    match send.way_out() {
        FeedTransport::Connections => format!("at {}", send.to.join(", ")),
        FeedTransport::Batches(dir) => format!("as batches in {}", dir.display()),
        FeedTransport::File(file) => format!("as lines in {}", file.display()),
        FeedTransport::Program(words) => format!("as lines to {}", words.join(" ")),
    }
}
