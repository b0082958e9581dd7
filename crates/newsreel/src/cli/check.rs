//! `check`, `show`, `explain-config`: the configuration, without the spool.

use std::sync::Arc;

use super::args::Where;
use super::{Failure, say};
use crate::config::{Config, Method, Word, manual, units};
use crate::tls::Offer;

pub(super) fn check(at: &Where) -> Result<(), Failure> {
    let config = Arc::new(at.load()?);
    Offer::read(&config).map_err(Failure::Usage)?;
    say(summary(&config))
}

pub(super) fn show(at: &Where) -> Result<(), Failure> {
    say(at.load()?.to_toml().trim_end())
}

pub(super) fn docs() -> Result<(), Failure> {
    say(manual::markdown().trim_end())
}

pub(super) fn explain(word: &str) -> Result<(), Failure> {
    match manual::explain(word) {
        Some(text) => say(text.trim_end()),
        None => Err(Failure::Usage(match manual::suggestion(word) {
            Some(near) => format!("there is no key `{word}`; did you mean `{near}`?"),
            None => format!("there is no key `{word}`; `newsreel explain-config` lists them all"),
        })),
    }
}

/// What a configuration would serve, in a few lines.
fn summary(config: &Config) -> String {
    let mut lines = vec![format!("{}: no errors", config.file.display()), String::new()];
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
    let age = config.site.max_age_days.map_or("of any age".into(), |days| format!("up to {days} days old"));
    let size = units::size_text(config.site.article_bytes_max);
    line("articles", format!("{age}, up to {size}, durability {}", config.site.durability.text()));
    for class in &config.classes {
        let text = match class.method {
            Method::Cnfs => {
                let own = |name: &&String| config.buffers.iter().find(|buffer| buffer.name == **name);
                let bytes =
                    class.buffers.iter().filter_map(|name| own(&name)).map(|buffer| buffer.size).sum();
                format!(
                    "{} in {} ({})",
                    units::about_size(bytes),
                    class.buffers.join(", "),
                    class.order.word()
                )
            }
            Method::Memory => format!("{} in memory, empty after a restart", units::about_size(class.size)),
            Method::Trash => "nothing is kept".into(),
        };
        line("class", format!("{}: {text}", class.name));
    }
    let used = |name: &String| config.classes.iter().any(|class| class.buffers.contains(name));
    for buffer in config.buffers.iter().filter(|buffer| !used(&buffer.name)) {
        line("buffer", format!("{}: in no class, nothing is added to it", buffer.name));
    }
    line("rules", format!("{}, the last for all other articles", config.rules.len()));
    for peer in &config.peers {
        let addresses: Vec<String> = peer.addresses.iter().map(ToString::to_string).collect();
        line("peer", format!("{} from {} sends {}", peer.name, addresses.join(", "), peer.accept.as_str()));
    }
    if config.peers.is_empty() {
        line("peers", "none: nobody may feed articles".into());
    }
    for access in &config.access {
        let from: Vec<String> = access.from.iter().map(ToString::to_string).collect();
        let post = if access.post.is_empty() {
            "may not post".into()
        } else {
            format!("post {}", access.post.as_str())
        };
        line("readers", format!("{} read {}, {post}", from.join(", "), access.read.as_str()));
    }
    if config.access.is_empty() {
        line("readers", "none: there is no [[access]]".into());
    }
    lines.join("\n")
}
