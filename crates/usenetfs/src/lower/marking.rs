//! The scheme of a tree, recorded at its root.
//!
//! A tree whose managed directories have other buckets than the mount expects would look empty, and get
//! buckets of two kinds. The first mount that may write therefore records its scheme in an extended attribute
//! of the lower root, and every later one, and `manage`, must have the same. A tree without the record is
//! accepted: one that was never mounted, a class of the method `bucketed`, a copy without attributes, one on
//! a file system without attributes.

use std::io;
use std::path::Path;

use netnews::bucket::BucketScheme;
use rustix::fs::{self, XattrFlags};
use rustix::io::Errno;

/// Name of the attribute.
const SCHEME: &str = "user.usenetfs.scheme";
/// Maximum length of its value, in bytes.
const SCHEME_BYTES_MAX: usize = 16;

/// Rejects a root that is recorded with another scheme; records this one if none is and `may_note`.
pub fn check(root: &Path, scheme: BucketScheme, may_note: bool) -> io::Result<()> {
    match noted(root)? {
        Some(noted) if noted != scheme => Err(differs(root, noted)),
        Some(_) => Ok(()),
        None if !may_note => Ok(()),
        None => match fs::setxattr(root, SCHEME, scheme.to_string().as_bytes(), XattrFlags::CREATE) {
            // There is no record without support for attributes, or without the right to change them.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::NOSPC) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        },
    }
}

/// Rejects a directory in a tree that is recorded with another scheme.
pub fn check_within(dir: &Path, scheme: BucketScheme) -> io::Result<()> {
    for root in dir.ancestors() {
        if let Some(noted) = noted(root)? {
            return if noted == scheme { Ok(()) } else { Err(differs(root, noted)) };
        }
    }
    Ok(())
}

fn noted(root: &Path) -> io::Result<Option<BucketScheme>> {
    let mut value = [0; SCHEME_BYTES_MAX];
    let length = match fs::getxattr(root, SCHEME, &mut value) {
        Ok(length) => length,
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let text = value.get(..length).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    text.parse().map(Some).map_err(|unknown| {
        let why = format!("the attribute {SCHEME} of {} is {unknown}", root.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

fn differs(root: &Path, noted: BucketScheme) -> io::Error {
    let why = format!(
        "the tree at {} has the buckets of scheme {noted} (its attribute {SCHEME} says so); use --scheme {noted}",
        root.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
