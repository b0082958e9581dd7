//! Articles that the other server stores and shows nowhere any more: only their Message-IDs are taken over.

use super::super::screen::{CliError, complain};
use super::target::ImportTarget;
use migrate::head;
use migrate::plan::ImportPlan;
use migrate::site::OtherSite;
use operators::history::HistoryImportOperation;
use operators::reply::Reply;
use site_config::Config;

/// Size of the parts in which Message-IDs are sent, in bytes.
const PART_BYTES: usize = 1 << 20;

/// Remembers the Message-IDs of expired articles, so that peers cannot bring them again.
pub(super) fn remember(
    config: &Config,
    other: &OtherSite,
    plan: &ImportPlan,
    target: &mut ImportTarget,
) -> Result<(), CliError> {
    let (mut lines, mut begun) = (String::new(), Vec::new());
    for article in &plan.expired {
        let Some(item) = other.found.items.get(*article as usize) else { continue };
        if other.found.read_head(item, &mut begun).is_err() {
            continue;
        }
        let Ok(id) = std::str::from_utf8(head::read(&begun).message_id) else { continue };
        let arrived = plan.numbered.arrived.get(*article as usize).copied().unwrap_or(0);
        lines.push_str(&format!("{id}\t{arrived}~-\n"));
        if lines.len() >= PART_BYTES {
            send(config, std::mem::take(&mut lines), target)?;
        }
    }
    if lines.is_empty() { Ok(()) } else { send(config, lines, target) }
}

fn send(config: &Config, lines: String, target: &mut ImportTarget) -> Result<(), CliError> {
    target.ask(config, HistoryImportOperation { lines }, &mut |reply| {
        if let Reply::Error(text) = reply {
            complain(format_args!("newsreel: {text}"));
        }
    })?;
    Ok(())
}
