//! Usenetfs: a file system that is mounted over another one and makes managed directories look flat.
//!
//! A managed directory, which has the setuid bit, is stored as up to a thousand small ones; names are
//! translated on their way down ([`netnews::bucket`]). Everything else passes through. [`mount`] mounts a
//! tree; [`convert`] makes a directory managed or flat again. [`Device`] and [`serve`] show a server's
//! articles as files instead. `newsreel mount` and `newsreel manage` are their command line. Invariants: each
//! change of a name is one call to the lower file system; no `unsafe`; nothing is stored on disk except the
//! paper's layout, and the scheme at the root. Source: the Usenetfs paper (UFS-01 to UFS-11),
//! `docs/usenetfs.md`.
//!
//! ```
//! use netnews::bucket::BucketScheme;
//! use usenetfs::{DirectoryForm, convert};
//!
//! let group = std::env::temp_dir().join(format!("usenetfs-example-{}", std::process::id()));
//! std::fs::create_dir(&group)?;
//! for number in 1..=200 {
//!     std::fs::write(group.join(number.to_string()), "an article")?;
//! }
//! let scheme = BucketScheme::Tens;
//! let report = convert(&group, DirectoryForm::Managed, scheme, false, &mut |_, _| {})?;
//! assert_eq!(report.moved, 200);
//! // Without a mount over it, the directory lists its buckets; below a mount it still lists articles.
//! assert!(group.join(scheme.bucket_of_number(120).as_str()).join("120").exists());
//! convert(&group, DirectoryForm::Flat, scheme, false, &mut |_, _| {})?;
//! assert!(group.join("120").exists());
//! # std::fs::remove_dir_all(&group)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod converting;
mod directory;
mod failpoint;
mod files;
mod filesystem;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod listing;
mod locating;
mod lower;
mod managing;
mod mounting;
mod naming;
mod nodes;
mod online;
mod suggesting;
mod tree;
mod workers;

pub use converting::{ConversionReport, ConvertError, DirectoryForm};
pub use lower::mounts::{MountEntry, SPOOL_SOURCE, mount_of, mounts};
pub use managing::convert;
pub use mounting::articles::{ArticleLookup, ArticleProvider, DiskWait, ReadFailure, ShownArticle};
pub use mounting::device::{Device, serve};
pub use mounting::helper::receive as receive_device;
pub use mounting::{MountSettings, Mounted, mount};
pub use suggesting::{DirectoryCandidate, FILES_MIN, Suggestions, suggest};
