//! A configuration as TOML, every key written out, defaults included: `newsreel show`.
//!
//! What is written reads back as the same configuration. Each struct is taken apart without `..`, so that a new field
//! does not compile until it is written too.

use std::fmt::Write as _;
use std::path::Path;

use super::access::access_lines;
use super::auth::{auth_lines, authenticator_lines};
use super::posting::{cancel_lines, moderation_lines, moderator_lines, posting_lines};
use super::units;
use super::words::Word;
use super::{
    Buffer, Cidr, Class, Config, Expire, Groups, HeaderMatch, KnownCertificate, Limits, Method, Peer, Rule,
    Site, Tls,
};

/// The keys of one section, in order; the value is TOML.
pub(super) type Lines = Vec<(&'static str, String)>;

impl Config {
    /// The whole configuration as TOML.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for (section, lines) in self.sections() {
            let repeated = super::keys::section(section).is_some_and(|row| row.repeated);
            let head = if repeated { format!("[[{section}]]") } else { format!("[{section}]") };
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}{head}");
            for (name, value) in lines {
                let _ = writeln!(out, "{name} = {value}");
            }
        }
        out
    }

    /// Every section with its keys and values.
    pub(super) fn sections(&self) -> Vec<(&'static str, Lines)> {
        let Self {
            file: _,
            site,
            tls,
            limits,
            buffers,
            classes,
            rules,
            expire,
            peers,
            auth,
            authenticators,
            access,
            posting,
            cancel,
            moderation,
            moderators,
        } = self;
        let mut sections =
            vec![("site", site_lines(site)), ("tls", tls_lines(tls)), ("limits", limits_lines(limits))];
        sections.extend(buffers.iter().map(|buffer| ("buffer", buffer_lines(buffer))));
        sections.extend(classes.iter().map(|class| ("class", class_lines(class))));
        sections.extend(rules.iter().map(|rule| ("rule", rule_lines(rule))));
        sections.extend(expire.iter().map(|expire| ("expire", expire_lines(expire))));
        sections.extend(peers.iter().map(|peer| ("peer", peer_lines(peer))));
        sections.push(("auth", auth_lines(auth)));
        sections.extend(authenticators.iter().map(|one| ("authenticator", authenticator_lines(one))));
        sections.extend(access.iter().map(|access| ("access", access_lines(access))));
        sections.push(("posting", posting_lines(posting)));
        sections.push(("cancel", cancel_lines(cancel)));
        sections.push(("moderation", moderation_lines(moderation)));
        sections.extend(moderators.iter().map(|moderator| ("moderator", moderator_lines(moderator))));
        sections
    }
}

/// A text as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn path(path: &Path) -> String {
    quoted(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy())
}

pub(super) fn size(bytes: u64) -> String {
    quoted(&units::size_text(bytes))
}

pub(super) fn span(span: std::time::Duration) -> String {
    quoted(&units::span_text(span))
}

/// Texts as a TOML list.
pub(crate) fn list(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

fn networks(cidrs: &[Cidr]) -> String {
    list(cidrs.iter().map(Cidr::to_string))
}

pub(super) fn optional<T>(
    lines: &mut Lines,
    name: &'static str,
    value: Option<T>,
    text: impl Fn(T) -> String,
) {
    lines.extend(value.map(|value| (name, text(value))));
}

fn site_lines(site: &Site) -> Lines {
    let Site {
        path_identity,
        organization,
        listen,
        tls_listen,
        data,
        lists,
        durability,
        max_age_days,
        article_bytes_max,
        remember_days,
        unknown_groups,
        distributions,
        journal_keep_bytes,
        compress_overview_after,
        log_level,
        log_format,
    } = site;
    let mut lines = vec![("path_identity", quoted(path_identity))];
    optional(&mut lines, "organization", organization.as_deref(), quoted);
    lines.extend([
        ("listen", list(listen)),
        ("tls_listen", list(tls_listen)),
        ("data", path(data)),
        ("lists", path(lists)),
        ("durability", quoted(&durability.text())),
        ("max_age_days", max_age_days.map_or_else(|| quoted("none"), |days| days.to_string())),
        ("article_bytes_max", size(*article_bytes_max)),
        ("remember_days", remember_days.to_string()),
        ("unknown_groups", quoted(unknown_groups.word())),
        ("distributions", quoted(distributions.as_str())),
        ("journal_keep_bytes", size(*journal_keep_bytes)),
        ("compress_overview_after", span(*compress_overview_after)),
        ("log_level", quoted(log_level.word())),
        ("log_format", quoted(log_format.word())),
    ]);
    lines
}

fn tls_lines(tls: &Tls) -> Lines {
    let Tls { certificate, key, client_ca } = tls;
    let paths = |paths: &[std::path::PathBuf]| {
        format!("[{}]", paths.iter().map(|file| path(file)).collect::<Vec<_>>().join(", "))
    };
    let mut lines = vec![("certificate", paths(certificate)), ("key", paths(key))];
    optional(&mut lines, "client_ca", client_ca.as_deref(), path);
    lines
}

fn limits_lines(limits: &Limits) -> Lines {
    let Limits {
        connections_max,
        connections_per_address_max,
        idle_timeout,
        command_timeout,
        write_timeout,
        receive_bytes_from_peers_max,
        receive_bytes_from_posters_max,
        receive_bytes_per_address_max,
        receive_bytes_per_user_max,
    } = limits;
    vec![
        ("connections_max", connections_max.to_string()),
        ("connections_per_address_max", connections_per_address_max.to_string()),
        ("idle_timeout", span(*idle_timeout)),
        ("command_timeout", span(*command_timeout)),
        ("write_timeout", span(*write_timeout)),
        ("receive_bytes_from_peers_max", size(*receive_bytes_from_peers_max)),
        ("receive_bytes_from_posters_max", size(*receive_bytes_from_posters_max)),
        ("receive_bytes_per_address_max", size(*receive_bytes_per_address_max)),
        ("receive_bytes_per_user_max", size(*receive_bytes_per_user_max)),
    ]
}

fn buffer_lines(buffer: &Buffer) -> Lines {
    let Buffer { name, path: file, size: bytes, block, retired } = buffer;
    let mut lines = vec![("name", quoted(name)), ("path", path(file))];
    optional(&mut lines, "size", *bytes, size);
    lines.extend([("block", quoted(&block.to_string())), ("retired", retired.to_string())]);
    lines
}

fn class_lines(class: &Class) -> Lines {
    let Class {
        name,
        method,
        buffers,
        order,
        size: bytes,
        compress,
        compress_level,
        path: dir,
        file_size,
        files_max,
        line_ends,
        keep_at_least,
        overflow,
        keep_target,
    } = class;
    let mut lines = vec![("name", quoted(name)), ("method", quoted(method.word()))];
    if *method == Method::Cnfs {
        lines.push(("buffers", list(buffers)));
        lines.push(("order", quoted(order.word())));
        lines.push(("compress", quoted(compress.word())));
        lines.push(("compress_level", compress_level.to_string()));
    }
    if method.keeps() {
        lines.push(("path", path(dir)));
        if *method == Method::AppendOnly {
            lines.push(("file_size", size(*file_size)));
            lines.push(("files_max", files_max.to_string()));
        } else {
            lines.push(("line_ends", quoted(line_ends.word())));
        }
    }
    if *method == Method::Memory {
        lines.push(("size", size(*bytes)));
    }
    optional(&mut lines, "keep_at_least", *keep_at_least, span);
    optional(&mut lines, "overflow", overflow.as_deref(), quoted);
    optional(&mut lines, "keep_target", *keep_target, span);
    lines
}

fn expire_lines(expire: &Expire) -> Lines {
    let Expire { groups, class, keep, keep_min, keep_max } = expire;
    let mut lines = Vec::new();
    optional(&mut lines, "groups", groups.as_ref().map(Groups::as_str), quoted);
    optional(&mut lines, "class", class.as_deref(), quoted);
    optional(&mut lines, "keep", *keep, span);
    optional(&mut lines, "keep_min", *keep_min, span);
    optional(&mut lines, "keep_max", *keep_max, span);
    lines
}

fn rule_lines(rule: &Rule) -> Lines {
    let Rule {
        class,
        groups,
        group_match,
        larger_than,
        smaller_than,
        crossposts_at_least,
        from,
        path,
        header,
        verdict,
        origin,
        expires_within,
        expires_beyond,
    } = rule;
    let mut lines = vec![("class", quoted(class))];
    optional(&mut lines, "groups", groups.as_ref().map(Groups::as_str), quoted);
    lines.push(("match", quoted(group_match.word())));
    optional(&mut lines, "larger_than", *larger_than, size);
    optional(&mut lines, "smaller_than", *smaller_than, size);
    optional(&mut lines, "crossposts_at_least", *crossposts_at_least, |groups| groups.to_string());
    optional(&mut lines, "from", from.as_ref().map(Groups::as_str), quoted);
    optional(&mut lines, "path", path.as_deref(), quoted);
    optional(&mut lines, "header", header.as_deref(), headers);
    optional(&mut lines, "verdict", verdict.as_deref(), quoted);
    optional(&mut lines, "origin", origin.as_deref(), quoted);
    optional(&mut lines, "expires_within", *expires_within, span);
    optional(&mut lines, "expires_beyond", *expires_beyond, span);
    lines
}

fn headers(headers: &[HeaderMatch]) -> String {
    let one = |h: &HeaderMatch| format!("{{ name = {}, matches = {} }}", quoted(&h.name), quoted(&h.matches));
    format!("[{}]", headers.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn peer_lines(peer: &Peer) -> Lines {
    let Peer { name, addresses, certificate, tls, user, accept, distributions, max_connections, streaming } =
        peer;
    let mut lines = vec![
        ("name", quoted(name)),
        ("addresses", networks(addresses)),
        ("certificate", list(certificate.iter().map(KnownCertificate::to_string))),
        ("tls", quoted(tls.word())),
    ];
    optional(&mut lines, "user", user.as_deref(), quoted);
    lines.extend([
        ("accept", quoted(accept.as_str())),
        ("distributions", quoted(distributions.as_str())),
        ("max_connections", max_connections.to_string()),
        ("streaming", streaming.to_string()),
    ]);
    lines
}
