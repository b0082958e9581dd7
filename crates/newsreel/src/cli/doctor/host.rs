//! Checks of memory, of the clock against the site's files, and of the service that starts the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{CheckResult, part};
use crate::cli::preflight::machine::meminfo;
use site_base::units;
use site_config::Config;

/// Available memory, in bytes, below which the system takes pages from processes that use them.
const AVAILABLE_BYTES_FEW: u64 = 128 << 20;
/// Files that a running server writes.
const WRITTEN: [&str; 3] = ["journal", "index", "lock"];
/// Lag of the clock behind the site's own files that shows it was set back.
const SET_BACK: Duration = Duration::from_secs(60);
/// Directories of systemd units, by precedence.
const UNIT_DIRS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// Name of the unit.
const UNIT: &str = "newsreel.service";
/// Directory that the unit lets the server write to in any case.
const STATE_DIR: &str = "/var/lib/newsreel";

pub(super) fn parts(config: &Config) -> Vec<CheckResult> {
    vec![memory(), clock_of_files(&config.site.data), service(config, Path::new("/"))]
}

fn memory() -> CheckResult {
    let (total, available) = (meminfo("MemTotal:"), meminfo("MemAvailable:"));
    let (Some(total), Some(available)) = (total, available) else {
        return part("memory", "this system does not say");
    };
    let (of, free) = (units::about_size(total), units::about_size(available));
    let mut part = part("memory", format!("{free} of {of} are available"));
    if available < AVAILABLE_BYTES_FEW {
        part.found.warning(format!("{free} of {of} are available; see what else runs here, or add memory"));
    }
    part
}

/// Checks that the clock is not behind the site's files: new articles would seem older than stored ones.
fn clock_of_files(data: &Path) -> CheckResult {
    let mut part = part("clock", "is not behind the site's files");
    let written = |name| fs::metadata(data.join(name)).and_then(|about| about.modified()).ok();
    if let Some(newest) = WRITTEN.iter().filter_map(written).max()
        && let Ok(ahead) = newest.duration_since(SystemTime::now())
        && ahead > SET_BACK
    {
        let by = units::about_span(ahead.as_secs());
        part.found.problem(format!(
            "is {by} behind the newest file in {}: it was set back; set it by NTP before the server runs",
            data.display()
        ));
    }
    part
}

/// Checks that the server starts with the machine, and may write to where the site lies.
fn service(config: &Config, root: &Path) -> CheckResult {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let mut part = part("service", "this machine has no systemd");
    if !below("/run/systemd/system").is_dir() {
        return part;
    }
    let Some(unit) = UNIT_DIRS.iter().map(|dir| below(dir).join(UNIT)).find(|unit| unit.is_file()) else {
        part.found.warning(format!(
            "there is no {UNIT}: nothing starts the server with the machine; make install, or a package, has one"
        ));
        return part;
    };
    part.well = format!("{} starts the server with the machine", unit.display());
    if fs::symlink_metadata(below("/etc/systemd/system/multi-user.target.wants").join(UNIT)).is_err() {
        part.found.warning(format!(
            "{} is not enabled: nothing starts the server with the machine; type: systemctl enable newsreel",
            unit.display()
        ));
    }
    let drop_ins = UNIT_DIRS.iter().flat_map(|dir| fs::read_dir(below(dir).join(format!("{UNIT}.d"))));
    let drop_ins = drop_ins.flatten().flatten().map(|entry| entry.path());
    let text: String =
        std::iter::once(unit).chain(drop_ins).filter_map(|file| fs::read_to_string(file).ok()).collect();
    if text.contains("ProtectSystem=strict") {
        for path in forbidden(config, &text) {
            part.found.problem(format!(
                "the unit does not let the server write to {}; name its directory in ReadWritePaths= \
                 (packaging/newsreel.service.d/buffers.conf)",
                path.display()
            ));
        }
    }
    part
}

/// Returns the paths that the server writes to and the unit's text does not allow.
fn forbidden(config: &Config, unit: &str) -> Vec<PathBuf> {
    let named = unit.lines().filter_map(|line| line.strip_prefix("ReadWritePaths="));
    let named = named.flat_map(str::split_whitespace).map(|path| PathBuf::from(path.trim_start_matches('-')));
    let open: Vec<PathBuf> = named.chain([PathBuf::from(STATE_DIR)]).collect();
    let buffers = config.buffers.iter().map(|buffer| &buffer.path);
    let all = buffers.chain(config.classes.iter().filter_map(|class| class.path.as_ref()));
    let all = all.chain(config.archives.iter().map(|archive| &archive.path)).chain([&config.site.data]);
    let is_open = |path: &&PathBuf| open.iter().any(|dir| path.starts_with(dir)) || path.starts_with("/dev");
    all.filter(|path| path.is_absolute() && !is_open(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    #[test]
    fn clock_that_was_set_back_is_a_fault() {
        let home = tempfile::tempdir().unwrap();
        let lock = fs::File::create(home.path().join("lock")).unwrap();
        assert!(clock_of_files(home.path()).found.problems.is_empty());
        lock.set_modified(SystemTime::now() + Duration::from_secs(7_200)).unwrap();
        let problems = clock_of_files(home.path()).found.problems;
        assert!(
            problems[0].starts_with("is 2 hours behind") || problems[0].contains("behind the newest"),
            "{problems:?}"
        );
    }

    #[test]
    fn missing_disabled_or_too_strict_unit_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let mut config = with_trash("");
        config.site.data = "/srv/news".into();
        let dir = |path: &str| fs::create_dir_all(root.path().join(path)).unwrap();
        assert_eq!(service(&config, root.path()).well, "this machine has no systemd");
        dir("run/systemd/system");
        assert!(service(&config, root.path()).found.warnings[0].contains("there is no newsreel.service"));
        dir("etc/systemd/system/newsreel.service.d");
        dir("etc/systemd/system/multi-user.target.wants");
        let unit = root.path().join("etc/systemd/system/newsreel.service");
        fs::write(&unit, "[Service]\nProtectSystem=strict\n").unwrap();
        let found = service(&config, root.path()).found;
        assert!(found.warnings[0].contains("systemctl enable newsreel"), "{found:?}");
        assert!(found.problems[0].contains("write to /srv/news;"), "{found:?}");
        fs::write(root.path().join("etc/systemd/system/multi-user.target.wants/newsreel.service"), "")
            .unwrap();
        let drop_in = root.path().join("etc/systemd/system/newsreel.service.d/own.conf");
        fs::write(drop_in, "[Service]\nReadWritePaths=/mnt /srv\n").unwrap();
        let found = service(&config, root.path()).found;
        assert!(found.warnings.is_empty() && found.problems.is_empty(), "{found:?}");
    }
}
