//! Overview of a spool that cannot be opened because the disk of a buffer is missing: from its last
//! checkpoint and the headers of its buffers. Changes and locks nothing.

use crate::index::checkpoint::Checkpoint;
use crate::open::paths::SpoolPaths;
use crate::open::recovery::presence;
use disk::Disk;
use spool_base::config::{BufferConfig, SpoolConfig};
use spool_base::error::SpoolError;
use spool_methods::cnfs::FoundBuffer;
use std::sync::Arc;

/// Visible state of a spool that is not open.
#[derive(Debug, Default)]
pub struct Glance {
    /// Articles at the last checkpoint.
    pub articles: u64,
    /// Groups at the last checkpoint.
    pub groups: u64,
    /// The configured buffers.
    pub buffers: Vec<GlancedBuffer>,
}

/// Visible state of a buffer.
#[derive(Debug)]
pub struct GlancedBuffer {
    /// Section of the configuration, with the size of its file.
    pub config: BufferConfig,
    /// Name of its class.
    pub class: String,
    /// Whether its file does not exist.
    pub is_away: bool,
    /// Capacity for articles, in bytes; 0: unknown.
    pub area_bytes: u64,
    /// Bytes that hold articles.
    pub used_bytes: u64,
    /// Cycle number; 0: unknown.
    pub cycle: u64,
}

/// Reads the state of a spool without opening it.
///
/// # Errors
/// A checkpoint or a file of a buffer that cannot be read.
pub fn glance(disk: &Arc<dyn Disk>, config: &SpoolConfig) -> Result<Glance, SpoolError> {
    let checkpoint = Checkpoint::read(&**disk, &SpoolPaths::new(&config.dir).index)?.unwrap_or_default();
    let mut seen =
        Glance { articles: checkpoint.articles, groups: checkpoint.groups.len() as u64, buffers: Vec::new() };
    let away = presence::away(&**disk, config)?;
    for buffer in &config.buffers {
        let found = FoundBuffer::look(&**disk, &buffer.path)?;
        let header = found.as_ref().and_then(|found| found.header.as_ref());
        let area = found.as_ref().and_then(|found| found.area(buffer)).unwrap_or_default();
        let class = config.classes.iter().find(|class| class.buffers.contains(&buffer.name));
        seen.buffers.push(GlancedBuffer {
            config: BufferConfig {
                size_bytes: header.map_or(buffer.size_bytes, |header| header.len),
                ..buffer.clone()
            },
            class: class.map(|class| class.name.clone()).unwrap_or_default(),
            is_away: away.contains(&buffer.name),
            area_bytes: area,
            used_bytes: header.map_or(0, |header| if header.cycle > 1 { area } else { header.free }),
            cycle: header.map_or(0, |header| header.cycle),
        });
    }
    Ok(seen)
}
