//! Copies of what an import does not file, in the site's quarantine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, RealDisk};
use netnews::nntp::wire;
use serde::Serialize;

use ingest::batches::Quarantine;
use site_base::units::grouped;

/// Where copies go, and what became of them. A quarantine keeps this many of one import, and not more.
#[derive(Default, Serialize)]
pub(super) struct Copies {
    /// Absent: nothing is written.
    #[serde(skip)]
    quarantine: Option<Quarantine>,
    /// Where they lie, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    pub count: u64,
}

impl Copies {
    /// In the quarantine of the site whose spool is in `data`.
    pub fn of(data: Option<&Path>) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        Self { quarantine: data.map(|data| Quarantine::of(data, &disk)), ..Self::default() }
    }

    /// `3 copies`.
    pub fn counted(&self) -> String {
        format!("{} {}", grouped(self.count), if self.count == 1 { "copy" } else { "copies" })
    }

    /// Keeps a text; returns where, as the end of a message.
    pub fn keep(&mut self, text: &[u8]) -> String {
        match self.quarantine.as_mut().map(|quarantine| quarantine.put(text)) {
            Some(Ok(Some(path))) => {
                self.dir = path.parent().map(Path::to_owned);
                self.count += 1;
                format!("; kept as {}", path.display())
            }
            Some(Err(error)) => format!("; not kept: {error}"),
            Some(Ok(None)) | None => String::new(),
        }
    }

    /// Keeps an article in wire format as the text that it is.
    pub fn keep_wire(&mut self, article: &[u8]) -> String {
        let mut text = Vec::with_capacity(article.len());
        wire::to_text(article, &mut text);
        self.keep(&text)
    }
}
