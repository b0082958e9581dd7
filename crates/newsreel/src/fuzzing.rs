//! Entry points for the targets in `fuzz/`: parsers of octets from the network or from files that are not
//! public otherwise.
//!
//! Called by nothing else except tests.

pub use access::ldap_parsers as ldap;
use access::sasl;
use access::tls::names;
use access::users::{ScramKeys, UserTable};
use disk::SimDisk;
use ingest::control::{Keyring, SignatureProof, signer_of};
use migrate::head;
use migrate::settings;
use migrate::settings::{CNEWS_FILES, DIABLO_FILES, INN_FILES, LEAFNODE_FILES, OldConfiguration};
use migrate::source::FoundArticles;
use netnews::openpgp::Cleartext;
use site_base::clock::unix_now;
use std::path::Path;
use std::sync::Arc;
use upstreams::{GroupList, parsers};

/// Returns the names in a certificate in DER.
pub fn certificate_names(der: &[u8]) -> Vec<String> {
    names::of(der).iter().map(ToString::to_string).collect()
}

/// Returns the length of the PROXY header at the beginning of `input`, and the client's address in it.
pub fn proxy_header(input: &[u8]) -> Option<(usize, Option<std::net::SocketAddr>)> {
    let (bytes, ends) = site::listening::proxied::parse(input).ok()?;
    Some((bytes, ends.map(|ends| ends.client)))
}

/// Returns the course of a SASL exchange in which a client sends `responses`, each in base64 or not, to the
/// mechanism `name`, with `password` as the right one.
pub fn sasl_exchange(name: &[u8], responses: &[&[u8]], password: &[u8]) -> Vec<&'static str> {
    let mut exchange = sasl::mechanism(name).and_then(sasl::SaslExchange::start);
    let mut told = Vec::new();
    for response in responses {
        let Some(under_way) = exchange.take() else { break };
        let Some(response) = sasl::decode(response) else {
            told.push("no base64");
            break;
        };
        told.push(match under_way.respond(&response) {
            sasl::SaslAction::Password { password: sent, .. } if sent == password => "password",
            sasl::SaslAction::Password { .. } => "another password",
            sasl::SaslAction::Certificate { .. } => "certificate",
            sasl::SaslAction::Keys { name, first } => {
                let keys = ScramKeys::derived(password, name.as_bytes(), 1);
                let (next, challenge) = sasl::SaslExchange::with_keys(name, first, keys, "fresh");
                assert!(challenge.starts_with("r=") && challenge.ends_with(",i=1"));
                exchange = Some(next);
                "keys"
            }
            sasl::SaslAction::Proven { .. } => "proven",
            sasl::SaslAction::Wrong { .. } => "wrong",
            sasl::SaslAction::Refused => "refused",
            sasl::SaslAction::Malformed => "malformed",
        });
    }
    told
}

/// Returns what follows the label of an article that is set aside, and what is restored of the article after
/// it has been labelled itself.
pub fn set_aside(wire: &[u8], groups: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    ingest::label_and_back(wire, groups)
}

/// Parses the file of a post for an upstream and writes it again; `None` if it is invalid.
pub fn rewritten_post(file: &[u8]) -> Option<Vec<u8>> {
    parsers::rewritten_post(file)
}

/// Returns the fields of a form as a browser sends them; `None` if the body is invalid.
pub fn form_fields(body: &[u8]) -> Option<Vec<(String, String)>> {
    web::form::parse(body)
}

/// Parses a configuration; the error has the reported faults with their positions.
pub fn configuration(text: &str) -> Result<(), site_config::ConfigError> {
    site_config::parse(text, Path::new("newsreel.toml")).map(drop)
}

/// Parses a request line of the control socket and writes it as our own client does; `None` if it is invalid.
pub fn control_request(line: &[u8]) -> Option<Vec<u8>> {
    let request: operators::request::Request = serde_json::from_slice(line).ok()?;
    serde_json::to_vec(&request).ok()
}

/// Parses a users file and writes it again; `None` if it is invalid.
pub fn users_file(text: &str) -> Option<String> {
    Some(UserTable::parse(text).ok()?.text())
}

/// An article's bytes as stored, and in wire format.
pub type Imported = (Vec<u8>, Option<Vec<u8>>);

/// Returns what an import finds in a file that claims to be a CNFS buffer of INN, or a timecaf file: each
/// article's bytes as stored, and in wire format if they are an article. `path` is overwritten with the file.
pub fn imported(path: &Path, file: &[u8], is_caf: bool) -> std::io::Result<Vec<Imported>> {
    std::fs::write(path, file)?;
    let mut found = FoundArticles::default();
    if is_caf {
        found.add_caf(path)?
    } else {
        found.add_buffer(path)?
    };
    let mut articles = Vec::new();
    let (mut stored, mut wire) = (Vec::new(), Vec::new());
    for item in &found.items {
        found.read_head(item, &mut stored)?;
        let id = head::read(&stored).message_id.to_vec();
        found.read(item, &mut stored)?;
        if stored.len() < item.bytes as usize {
            return Err(std::io::Error::other("an article reaches beyond its file"));
        }
        let whole = head::to_wire(&stored, &mut wire).is_ok();
        if head::is_whole(&stored) && head::read(&stored).message_id != id {
            return Err(std::io::Error::other("a head read alone tells another Message-ID"));
        }
        articles.push((stored.clone(), whole.then(|| wire.clone())));
    }
    Ok(articles)
}

/// Converts files of INN, C News, leafnode and Diablo, and returns each configuration with the errors of its
/// parser: `text` has several files, each after a line `== NAME`. No host has an address.
pub fn imported_settings(text: &str) -> [(String, Option<String>); 4] {
    let mut old = OldConfiguration::default();
    let names = [&INN_FILES[..], &CNEWS_FILES[..], &LEAFNODE_FILES[..], &DIABLO_FILES[..]].concat();
    for part in text.split("== ") {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        if let Some(name) = names.iter().find(|own| **own == name.trim()) {
            old.files.entry(name).or_default().push_str(text);
        }
    }
    let resolve = |_: &str| Vec::new();
    let all = [
        settings::from_inn(&old, &resolve),
        settings::from_cnews(&old),
        settings::from_leafnode(&old),
        settings::from_diablo(&old, &resolve),
    ];
    all.map(|new| (new.text, new.refused))
}

/// A keyring of trusted keys, in memory.
pub struct Keys(Keyring);

impl Keys {
    /// Creates a keyring from the keys of an exported file.
    pub fn of(file: &[u8]) -> std::io::Result<Self> {
        let keyring = Keyring::of(Arc::new(SimDisk::new()), Path::new("/keys"));
        for key in keyring.import(file)?.keys.into_iter().flatten() {
            keyring.trust(&key)?;
        }
        Ok(Self(keyring))
    }

    /// Returns true if one of these keys has signed an article in wire format.
    pub fn have_signed(&self, wire: &[u8], names: &[String]) -> bool {
        netnews::Article::parse(wire).is_ok_and(|article| SignatureProof::of(&article, &self.0).is_by(names))
    }

    /// Returns the text in a body that one of the keys has cleartext-signed.
    pub fn signed_text(&self, body: &[u8]) -> Option<Vec<u8>> {
        let signed = Cleartext::of(body).ok()?;
        signer_of(&signed.text, &signed.signature, &self.0, unix_now()).ok()?;
        Some(signed.text)
    }
}

/// An upstream's octets, parsed as an overview row, as a line of a list, as the answer to GROUP, and as an
/// article.
pub struct FromUpstream {
    /// The row as shown, with the number 7.
    pub row: Vec<u8>,
    /// Low mark, high mark and count, from each parser.
    pub marks: Vec<(u64, u64, u64)>,
    /// The article with another Xref.
    pub article: Vec<u8>,
}

/// Parses octets of an upstream.
pub fn from_upstream(octets: &[u8]) -> FromUpstream {
    let lists = [GroupList::Active, GroupList::Counts, GroupList::Times, GroupList::Descriptions];
    let listed = lists.into_iter().filter_map(|list| parsers::listed(list, octets)).map(|(_, marks)| marks);
    let marks = listed.chain(parsers::marks(octets)).map(|marks| (marks.low, marks.high, marks.count));
    FromUpstream {
        row: parsers::row(octets, 7),
        marks: marks.collect(),
        article: parsers::other_xref(octets),
    }
}
