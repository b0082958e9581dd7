//! `keys`: the file of keys is read here, with the rights of the user who runs the command.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::locate::SiteLocation;
use super::reach;
use super::screen::CliError;
use super::typed::TypedOperation;
use operators::keys::{KeysCommand, KeysOperation};

/// Longest file of keys, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl TypedOperation for KeysOperation {
    fn carry_out(mut self, at: &SiteLocation) -> Result<(), CliError> {
        if let KeysCommand::Import { file, content } = &mut self.command {
            let cannot = |error: String| CliError::Usage(format!("cannot read {}: {error}", file.display()));
            let disk = disk::RealDisk::new();
            let bytes =
                disk::read_small(&disk, file, FILE_BYTES_MAX).map_err(|error| cannot(error.to_string()))?;
            *content = BASE64_STANDARD.encode(bytes.ok_or_else(|| cannot("there is no such file".into()))?);
        }
        reach::print(&at.load()?, self)
    }
}
