//! Repairs of residents: damaged pages are rewritten from the volume.

use super::RepairError;
use crate::index::residents::residents_between;
use crate::spool::Spool;

impl Spool {
    pub(super) fn mend_residents(&self, volume: u16, page: u64) -> Result<(), RepairError> {
        let mut writer = self.writer().lock();
        let volumes = self.shared.volumes.load_full();
        let Some(index) = volumes.index(volume) else { return Ok(()) };
        let Some(volume) = volumes.all().get(index).and_then(|v| v.cyclic()) else { return Ok(()) };
        let table = self.shared.groups.snapshot();
        let read = |from, to| residents_between(&table, volume, from, to);
        let Some(residents) = writer.folds.residents.get_mut(index) else { return Ok(()) };
        if residents.skip_damaged_front(page, read)? {
            self.wait_for_checkpoint(&writer)?;
            writer.checkpoint()?;
            self.wait_for_checkpoint(&writer)?;
            writer.accepting()?;
        }
        let Some(residents) = writer.folds.residents.get_mut(index) else { return Ok(()) };
        Ok(residents.mend(page, read)?)
    }
}
