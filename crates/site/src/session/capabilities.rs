//! The server's description of itself: greeting, CAPABILITIES, HELP.
//!
//! All three depend on what the client may do. Source: RFC 3977 sections 5.1 to 5.3 and 7.2, RFC 4644 section
//! 2.1, RFC 4642 section 2.1, RFC 4643 section 2.1, RFC 8054 section 2.1.

use super::ConnectedClient;
use access::sasl;
use netnews::nntp::command;
use netnews::nntp::response::{EXTENSIONS_FOLLOW, append, append_bytes, append_standard, code};
use site_config::{AuthMechanism, Config, PassedList};

/// Name and version, as shown in CAPABILITIES and the greeting.
const IMPLEMENTATION: &str = concat!("newsreel ", env!("CARGO_PKG_VERSION"));

/// Lists that LIST offers, for CAPABILITIES; texts of the site only if it has them.
const LISTS: [(&str, Option<PassedList>); 12] = [
    ("ACTIVE", None),
    ("ACTIVE.MODTIME", None),
    ("ACTIVE.TIMES", None),
    ("COUNTS", None),
    ("DISTRIB.PATS", Some(PassedList::DistribPats)),
    ("DISTRIBUTIONS", Some(PassedList::Distributions)),
    ("HEADERS", None),
    ("MODERATORS", None),
    ("MOTD", Some(PassedList::Motd)),
    ("NEWSGROUPS", None),
    ("OVERVIEW.FMT", None),
    ("SUBSCRIPTIONS", Some(PassedList::Subscriptions)),
];

/// Appends the greeting. A peer without reading rights gets 200, which peers take as a welcome.
pub(super) fn greeting(client: &ConnectedClient, out: &mut Vec<u8>) {
    let welcome = client.may_feed() && !client.may_read();
    say_posting(client.config(), welcome || client.may_post(), out);
}

/// Appends the answer to MODE READER.
pub(super) fn posting(client: &ConnectedClient, out: &mut Vec<u8>) {
    say_posting(client.config(), client.may_post(), out);
}

fn say_posting(config: &Config, may_post: bool, out: &mut Vec<u8>) {
    let (code, text) = if may_post {
        (code::POSTING_ALLOWED, "posting allowed")
    } else {
        (code::POSTING_PROHIBITED, "no posting")
    };
    let text = format!("{} {IMPLEMENTATION} ready, {text}", config.site.path_identity);
    append_bytes(out, code, text.as_bytes());
}

/// Appends the answer to CAPABILITIES; `has_list` returns which texts LIST has.
pub(super) fn list(client: &ConnectedClient, has_list: &dyn Fn(PassedList) -> bool, out: &mut Vec<u8>) {
    append_standard(out, code::CAPABILITIES_FOLLOW);
    let mut line = |text: &str| {
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    line("VERSION 2");
    line(concat!("IMPLEMENTATION newsreel ", env!("CARGO_PKG_VERSION")));
    if client.may_read() {
        line("READER");
        if client.may_post() {
            line("POST");
        }
        if client.may_newnews() {
            line("NEWNEWS");
        }
        line("HDR");
        line("OVER MSGID");
        let lists = LISTS.iter().filter(|(_, text)| text.is_none_or(has_list));
        line(&lists.fold("LIST".to_owned(), |line, (keyword, _)| line + " " + keyword));
        // A label of INN that clients look for; no RFC has one.
        line("XPAT");
    }
    if client.may_feed() {
        line("IHAVE");
    }
    if client.may_stream() {
        line("STREAMING");
    }
    authentication(client, &mut line);
    if client.may_start_tls() {
        line("STARTTLS");
    }
    if !client.is_compressed() {
        line("COMPRESS DEFLATE");
    }
    line(".");
}

/// Appends the answer to LIST EXTENSIONS, which clients older than RFC 3977 send instead of CAPABILITIES: the
/// capability list in its terms.
pub(super) fn extensions(client: &ConnectedClient, out: &mut Vec<u8>) {
    let mut capabilities = Vec::new();
    // LIST is left out below.
    list(client, &|_| false, &mut capabilities);
    append(out, EXTENSIONS_FOLLOW, "Extensions supported");
    for line in capabilities.split_inclusive(|&b| b == b'\n').skip(1) {
        let label = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        match label {
            b"VERSION" | b"IMPLEMENTATION" | b"IHAVE" | b"POST" | b"NEWNEWS" | b"LIST" | b"MODE-READER" => {}
            b"READER" => out.extend_from_slice(b"LISTGROUP\r\n"),
            _ => out.extend_from_slice(line),
        }
    }
}

/// Appends AUTHINFO, until the client is logged in, and SASL, which stays the same after that (RFC 4643
/// sections 2.1 and 2.2); without arguments if none of it is possible now (RFC 8054 section 2.2.2).
fn authentication(client: &ConnectedClient, line: &mut impl FnMut(&str)) {
    let offered = sasl::NAMES.iter().filter(|(_, mechanism)| client.offers(*mechanism));
    let names: Vec<&str> = offered.map(|(name, _)| *name).collect();
    if client.offers_login() {
        let mut words = vec!["AUTHINFO"];
        if !client.is_compressed() {
            words.extend(client.offers(AuthMechanism::User).then_some("USER"));
            words.extend((!names.is_empty()).then_some("SASL"));
        }
        line(&words.join(" "));
    }
    if !names.is_empty() {
        line(&format!("SASL {}", names.join(" ")));
    }
}

/// Appends the answer to HELP: the verbs that this client can use.
pub(super) fn help(client: &ConnectedClient, out: &mut Vec<u8>) {
    append_standard(out, code::HELP_FOLLOWS);
    let offered = |verb: &command::Verb| match verb.text {
        "AUTHINFO" => client.offers_login() && !client.is_compressed(),
        "NEWNEWS" => client.may_newnews(),
        "STARTTLS" => client.may_start_tls(),
        "COMPRESS" => !client.is_compressed(),
        "CHECK" | "TAKETHIS" => client.may_stream(),
        "IHAVE" => client.may_feed(),
        "XBATCH" => client.may_xbatch(),
        "POST" => client.may_post(),
        "HEAD" | "STAT" => client.may_read_by_id() || client.may_feed(),
        "ARTICLE" | "BODY" => client.may_read_by_id(),
        "CAPABILITIES" | "DATE" | "HELP" | "MODE" | "QUIT" | "SLAVE" => true,
        _ => client.may_read(),
    };
    command::help(offered, out);
    out.extend_from_slice(b".\r\n");
}
