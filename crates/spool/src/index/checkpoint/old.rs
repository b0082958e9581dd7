//! Checkpoints of the old form without sections; read only (`docs/formats/checkpoint.md`).

use super::Checkpoint;
use super::sections::{read_group_state, read_kept};
use crate::index::residents::ResidentsState;
use spool_base::codec::ByteReader;
use spool_journal::read_volume;

/// Reads a body of consecutive fields; `None` if it is damaged.
pub(super) fn read_all(body: &[u8]) -> Option<Checkpoint> {
    let r = &mut ByteReader(body);
    let mut c = Checkpoint::default();
    c.read_state(r)?;
    c.history = spool_history::RecordRange { first_record: r.u64()?, next_record: r.u64()? };
    for _ in 0..r.count(28)? {
        c.volumes.push((read_volume(r)?, ResidentsState { read: r.u64()?, written: r.u64()? }));
    }
    c.read_segments(r)?;
    c.read_retired(r)?;
    for _ in 0..r.count(8)? {
        c.groups.push(read_group_state(r)?);
    }
    if !r.is_empty() {
        for _ in 0..r.count(3)? {
            c.kept.push(read_kept(r)?);
        }
        c.read_gone_names(r)?;
    }
    Some(c)
}
