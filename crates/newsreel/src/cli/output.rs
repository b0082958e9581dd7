//! Output of a command for other programs: a file, or standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::screen::Failure;

/// Lines being written. The first failure ends the writing, and [`Output::finish`] returns it.
pub(super) struct Output<'a> {
    /// Path of the file; `None` for standard output.
    path: Option<&'a Path>,
    to: BufWriter<Box<dyn Write + Send>>,
    written: io::Result<()>,
}

impl<'a> Output<'a> {
    /// Creates the file, or truncates it.
    pub fn open(path: Option<&'a Path>) -> Result<Self, Failure> {
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

    pub fn finish(mut self) -> Result<(), Failure> {
        self.written.and_then(|()| self.to.flush()).map_err(|error| cannot(self.path, &error))
    }
}

fn cannot(path: Option<&Path>, error: &io::Error) -> Failure {
    match path {
        Some(path) => Failure::Problem(format!("cannot write {}: {error}", path.display())),
        // A reader that closes the output has seen enough.
        None => Failure::Told,
    }
}
