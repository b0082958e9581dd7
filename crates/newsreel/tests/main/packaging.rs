//! The systemd unit and its drop-ins, as systemd itself reads them, and against each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::clients::installed;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The drop-ins: name and text.
fn drop_ins() -> Vec<(String, String)> {
    let found = fs::read_dir(packaging().join("newsreel.service.d")).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    found.map(read).collect()
}

/// What systemd says of the unit with drop-ins; it must be nothing.
fn verify(drop_ins: &[(String, String)]) {
    let dir = TempDir::new().unwrap();
    let unit = fs::read_to_string(packaging().join("newsreel.service")).unwrap();
    // The program and the user need not be on this machine.
    let unit = unit.replace("/usr/bin/newsreel", "/bin/true").replace("=newsreel\n", "=root\n");
    let file = dir.path().join("newsreel.service");
    fs::write(&file, unit).unwrap();
    fs::create_dir(dir.path().join("newsreel.service.d")).unwrap();
    for (name, text) in drop_ins {
        fs::write(dir.path().join("newsreel.service.d").join(name), text).unwrap();
    }
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("newsreel")).collect();
    assert!(output.status.success() && of_ours.is_empty(), "{said}");
}

#[test]
fn systemd_understands_unit_and_drop_ins() {
    if !installed(&[("systemd-analyze", "systemd")]) {
        return;
    }
    let drop_ins = drop_ins();
    verify(&[]);
    drop_ins.iter().for_each(|one| verify(std::slice::from_ref(one)));
    verify(&drop_ins);
}

/// The keys of a unit's text, and their values.
fn keys(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')).collect()
}

/// With any of these a service that is not root's cannot gain rights, whatever NoNewPrivileges says
/// (systemd.exec(5)), and so neither a setuid nor a setgid mailer.
const IMPLY_NO_NEW_PRIVILEGES: [&str; 14] = [
    "LockPersonality",
    "MemoryDenyWriteExecute",
    "NoNewPrivileges",
    "PrivateDevices",
    "ProtectClock",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "SystemCallArchitectures",
];

#[test]
fn the_drop_in_for_sendmail_takes_back_all_that_keeps_a_mailer_from_its_queue() {
    let unit = fs::read_to_string(packaging().join("newsreel.service")).unwrap();
    let all = drop_ins();
    let (_, sendmail) = all.iter().find(|(name, _)| name == "sendmail.conf").unwrap();
    let taken_back: BTreeSet<&str> =
        keys(sendmail).iter().filter(|(_, value)| ["no", ""].contains(value)).map(|(key, _)| *key).collect();
    for (key, value) in keys(&unit) {
        let implies = IMPLY_NO_NEW_PRIVILEGES.contains(&key) || key == "SystemCallFilter";
        if implies && !["no", ""].contains(&value) {
            assert!(
                taken_back.contains(key),
                "{key}={value} of the unit stands in the way of setuid programs"
            );
        }
    }
    assert!(keys(sendmail).iter().any(|(key, value)| *key == "ReadWritePaths" && value.contains("postfix")));
    // Each is in the table that says what it is for.
    let page = fs::read_to_string(packaging().join("README.md")).unwrap();
    for (name, _) in &all {
        assert!(page.contains(&format!("`newsreel.service.d/{name}`")), "{name}");
    }
}
