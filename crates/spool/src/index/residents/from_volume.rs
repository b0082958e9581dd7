//! Residents read from the volume itself, for when their own entries are damaged.

use super::Resident;
use crate::index::groups::GroupTable;
use spool_methods::Cyclic;
use spool_methods::cnfs::record::HEADER_BYTES;
use spool_methods::scan::Scan;
use std::collections::VecDeque;

/// Returns the articles that lie in a volume from one place up to another, as residents. Without a place, the
/// range extends to the volume's end on that side.
pub(crate) fn residents_between(
    groups: &GroupTable,
    volume: &dyn Cyclic,
    from: Option<u64>,
    to: Option<u64>,
) -> VecDeque<Resident> {
    let mut scan = Scan::new(volume);
    scan.at = scan.at.max(from.unwrap_or(0).next_multiple_of(volume.block()));
    scan.end = to.unwrap_or(scan.end).min(scan.end);
    let mut found = VecDeque::new();
    while let Some(header) = scan.next_record() {
        let data = scan.record().get(HEADER_BYTES..).unwrap_or_default();
        let line = if header.packed { spool_methods::packing::xref_line(data) } else { data };
        let numbers = groups.numbers_in(line);
        found.push_back(Resident { place: header.place, arrived: header.arrived, numbers, ring_end: 0 });
    }
    found
}
