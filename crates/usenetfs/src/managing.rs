//! Requests for conversions: of a path, on a mount or below it.

use std::path::Path;
use std::time::Duration;

use netnews::bucket::BucketScheme;
use rustix::fs::{self, XattrFlags};
use rustix::io::Errno;

use crate::converting::{self, ConversionReport, ConvertError, DirectoryForm};
use crate::locating;
use crate::online::{CONVERSION, ConversionState, STATE_BYTES_MAX};

/// Interval for polling the progress of a conversion.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Converts a directory to a form; `progress` is called with the number of entries done and the total.
pub fn convert(
    path: &Path,
    form: DirectoryForm,
    scheme: BucketScheme,
    dry_run: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConversionReport, ConvertError> {
    let dir = locating::lower_directory(path, scheme).map_err(ConvertError::Io)?;
    if dry_run {
        return converting::count(dir, form);
    }
    if state_of(path).is_none() {
        return converting::convert(dir, form, None, progress);
    }
    // Checked here, since this error has the names that prevent a conversion.
    converting::check(&dir, form)?;
    ask(path, form, progress)
}

/// Returns the mount's state for a directory; `None` if no mount of ours answers.
fn state_of(path: &Path) -> Option<ConversionState> {
    let mut bytes = vec![0; STATE_BYTES_MAX];
    let length = fs::getxattr(path, CONVERSION, &mut bytes).ok()?;
    ConversionState::read(bytes.get(..length)?)
}

/// Requests a conversion from the mount.
fn ask(
    path: &Path,
    form: DirectoryForm,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConversionReport, ConvertError> {
    let asked = std::thread::scope(|scope| {
        let asked =
            scope.spawn(|| fs::setxattr(path, CONVERSION, form.name().as_bytes(), XattrFlags::empty()));
        while !asked.is_finished() {
            std::thread::sleep(LOOK_EVERY);
            if let Some(state) = state_of(path).filter(|state| state.total > 0) {
                progress(state.done.moved.min(state.total), state.total);
            }
        }
        asked.join().unwrap_or(Err(Errno::IO))
    });
    let state = state_of(path).unwrap_or_default();
    match asked {
        Ok(()) => Ok(state.done),
        Err(Errno::EXIST) => Err(ConvertError::Twice(state.twice)),
        Err(Errno::BUSY) => Err(ConvertError::Busy),
        Err(error) => Err(error.into()),
    }
}
