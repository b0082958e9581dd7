//! Repairs of residents: damaged pages are rewritten from the volume.

use super::text;
use crate::index::residents::residents_between;
use crate::spool::Spool;

impl Spool {
    pub(super) fn mend_residents(&self, volume: u16, page: u64) -> Result<(), String> {
        let mut writer = self.writer().lock();
        let volumes = self.shared.volumes.load_full();
        let Some(index) = volumes.index(volume) else { return Ok(()) };
        let Some(volume) = volumes.all().get(index).and_then(|v| v.cyclic()) else { return Ok(()) };
        let table = self.shared.groups.snapshot();
        let read = |from, to| residents_between(&table, volume, from, to);
        let Some(residents) = writer.folds.residents.get_mut(index) else { return Ok(()) };
        if residents.skip_damaged_front(page, read).map_err(text)? {
            self.wait_for_checkpoint(&writer).map_err(|e| e.to_string())?;
            writer.checkpoint().map_err(text)?;
            self.wait_for_checkpoint(&writer).map_err(|e| e.to_string())?;
            writer.accepting().map_err(|trouble| trouble.to_string())?;
        }
        let Some(residents) = writer.folds.residents.get_mut(index) else { return Ok(()) };
        residents.mend(page, read).map_err(text)
    }
}
