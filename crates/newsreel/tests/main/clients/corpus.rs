//! The corpus of real articles, if available: an archive named by `NEWSREEL_CORPUS`, or one beside the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{installed, skipped, text};

/// Path of the archive from this crate.
const BESIDE: &str = "../../../shared/corpus/mini_newsgroups.tar.xz";

/// Unpacks the corpus into a directory; returns `None` and prints a message if there is none.
pub fn unpack(dir: &Path) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join(BESIDE);
    let archive = std::env::var_os("NEWSREEL_CORPUS").map_or(beside, PathBuf::from);
    if !archive.is_file() {
        skipped(&format!("(no corpus at {}; name one with NEWSREEL_CORPUS)", archive.display()), false);
        return None;
    }
    if !installed(&[("tar", "tar"), ("xz", "xz-utils")]) {
        return None;
    }
    let unpacked = dir.join("corpus");
    std::fs::create_dir(&unpacked).unwrap();
    let done = Command::new("tar").args(["-xJf", text(&archive), "-C", text(&unpacked)]).status().unwrap();
    assert!(done.success());
    Some(unpacked)
}
