//! The file system tests of pjdfstest: none fails on a mount that passes on the lower directory.
//!
//! Needs `pjdfstest` (`cargo install pjdfstest`) on the path, and the users nobody and daemon.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::site::{Site, skipped};

const CONFIG: &str = "
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
allow_remount = false
expected_failures = []
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// The tests that passed in a directory, and those that failed there.
fn outcome(config: &Path, dir: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    fs::set_permissions(
        dir,
        fs::Permissions::from_mode(fs::metadata(dir).unwrap().permissions().mode() | 0o777),
    )
    .unwrap();
    let output = Command::new("pjdfstest").arg("-c").arg(config).arg("-p").arg(dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |word: &str| {
        let lines = said.lines().filter(|line| line.contains("::") && line.ends_with(word));
        lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    assert!(said.contains("Summary: "), "{said}");
    (of(" ok"), of(" FAILED"))
}

#[test]
#[ignore = "long, needs pjdfstest: make soak"]
fn no_test_fails_here_that_passes_on_the_lower_directory() {
    let Some(site) = Site::new() else { return };
    if Command::new("pjdfstest").arg("--version").output().is_err() {
        return skipped("needs pjdfstest");
    }
    let config = site.lower("pjdfstest.toml");
    fs::write(&config, CONFIG).unwrap();
    for name in ["plain", "unmanaged"] {
        fs::create_dir(site.upper(name)).unwrap();
    }
    site.make_managed("managed");
    let (passes, fails) = outcome(&config, &site.lower("plain"));
    assert!(passes.len() > 300, "{} pass and {} fail below", passes.len(), fails.len());
    for name in ["unmanaged", "managed"] {
        let (_, failed) = outcome(&config, &site.upper(name));
        let worse: Vec<_> = failed.intersection(&passes).collect();
        assert!(worse.is_empty(), "{name}: {worse:?}");
    }
}
