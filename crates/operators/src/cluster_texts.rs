//! Texts about the configuration of a cluster, as the log of the site has them: what is proposed, what
//! counts, and what the members answer; and what this member has done about them.

use crate::shared_files::sealed::{SealedFiles, SealedNote};
use access::sealing::ClusterKey;
use site::Site;
use site_base::lock::Leaf;
use site_config::Config;
use spool::{ChangeMaker as _, Spool};
use std::io;
use std::time::Instant;
use tracing::error;

/// Name of the text that counts.
pub(crate) const CURRENT: &str = "config/site";

/// A text with its number, which tells it from all others.
pub(crate) struct NumberedText {
    pub number: String,
    pub text: String,
}

impl NumberedText {
    /// Reads a text whose number is its first line.
    pub fn read(content: &[u8]) -> Option<Self> {
        let (number, text) = std::str::from_utf8(content).ok()?.split_once('\n')?;
        Some(Self { number: number.to_owned(), text: text.to_owned() })
    }
}

/// State of this member.
#[derive(Debug, Default)]
pub(crate) struct SwitchState {
    /// Number of changes of notes at the last look.
    pub seen: Option<u64>,
    /// Number of the text answered last.
    pub answered: String,
    /// Number of the text that this member has switched to.
    pub done: String,
    /// Whether it is switching.
    pub is_switching: bool,
    /// Time of the last switch that has failed.
    pub failed: Option<Instant>,
}

/// The configuration that the members of a cluster share, at one of them.
pub struct ClusterTexts {
    files: Option<SealedFiles>,
    pub(crate) state: Leaf<SwitchState>,
}

impl ClusterTexts {
    /// Opens that of a server.
    pub fn of(site: &Site) -> Self {
        let config = site.config.load();
        let key = match site.spool.shared_log() {
            None => None,
            Some(_) => ClusterKey::read(&**site.spool.disk(), &config.cluster.key).unwrap_or_else(|error| {
                error!(%error, "the key of the cluster cannot be read");
                None
            }),
        };
        Self { files: key.map(SealedFiles::under), state: Leaf::default() }
    }

    /// Reports whether the notes of a spool have a configuration that members share, if the key is here.
    pub fn are_noted(config: &Config, spool: &Spool) -> bool {
        let key = ClusterKey::read(&**spool.disk(), &config.cluster.key).ok().flatten();
        key.is_some_and(|key| SealedFiles::under(key).content(spool, CURRENT).is_some())
    }

    /// Reports whether the members share a configuration: it was applied at one of them.
    pub fn is_shared(&self, spool: &Spool) -> bool {
        self.text(spool, CURRENT).is_some()
    }

    /// Reports whether there is a key under which texts can be sealed.
    pub(crate) fn has_key(&self) -> bool {
        self.files.is_some()
    }

    /// Returns what is noted under a name.
    pub(crate) fn content(&self, spool: &Spool, name: &str) -> Option<Vec<u8>> {
        self.files.as_ref()?.content(spool, name)
    }

    /// Returns a text by its name.
    pub(crate) fn text(&self, spool: &Spool, name: &str) -> Option<NumberedText> {
        NumberedText::read(&self.content(spool, name)?)
    }

    /// Notes a text, or removes it.
    pub(crate) fn put(&self, site: &Site, name: &str, content: Option<&str>) -> io::Result<()> {
        let files = self.files.as_ref().ok_or_else(|| io::Error::other("there is no key of the cluster"))?;
        let notes = files.notes_of(&site.spool, name, content.map(str::as_bytes))?;
        let changes: Vec<_> = notes.iter().map(SealedNote::change).collect();
        let done = site.filer.log().commit(&changes, &mut Vec::new());
        done.map(drop).map_err(|trouble| io::Error::other(trouble.text))
    }
}
