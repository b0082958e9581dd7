//! Output of a command for other programs, in a file or on standard output, and new directories.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::screen::CliError;
use disk::{Disk, RealDisk};

/// Creates a directory and its parents, durably.
pub(super) fn make_dir(dir: &Path) -> Result<(), CliError> {
    RealDisk::new()
        .create_dir(dir)
        .map_err(|error| CliError::Problem(format!("cannot make the directory {}: {error}", dir.display())))
}

/// Lines being written. The first failure ends the writing, and [`CommandOutput::finish`] returns it.
pub(super) struct CommandOutput<'a> {
    /// Path of the file; `None` for standard output.
    path: Option<&'a Path>,
    to: BufWriter<Box<dyn Write + Send>>,
    written: io::Result<()>,
}

impl<'a> CommandOutput<'a> {
    /// Creates the file, or truncates it.
    pub fn open(path: Option<&'a Path>) -> Result<Self, CliError> {
        let to: Box<dyn Write + Send> = match path {
            Some(file) => Box::new(File::create(file).map_err(|error| cannot(path, &error))?),
            None => Box::new(io::stdout()),
        };
        Ok(Self { path, to: BufWriter::new(to), written: Ok(()) })
    }

    /// Writes one or more lines.
    pub fn line(&mut self, text: &str) {
        if self.written.is_ok() {
            self.written = writeln!(self.to, "{text}");
        }
    }

    pub fn finish(mut self) -> Result<(), CliError> {
        self.written.and_then(|()| self.to.flush()).map_err(|error| cannot(self.path, &error))
    }
}

fn cannot(path: Option<&Path>, error: &io::Error) -> CliError {
    match path {
        Some(path) => CliError::Problem(format!("cannot write {}: {error}", path.display())),
        // A reader that closes the output has seen enough.
        None => CliError::Told,
    }
}
