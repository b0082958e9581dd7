//! The licences of everything that the binary is built of are ones that a program under Apache-2.0 OR MIT may
//! contain, by their SPDX expressions. Called by `main`: the list of crates comes from `cargo metadata`.
//! Where cargo-deny is installed it checks the same by `deny.toml`, whose list is this one.

use std::io;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

/// Licences under which the binary may be passed on if their notices are kept.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Findings about the licences of the crates that are built on this machine, as lines.
pub fn findings() -> io::Result<Vec<String>> {
    let mut found = judge(&metadata(&[CLUSTER])?)?;
    let deny = std::fs::read_to_string("deny.toml").map_err(named("deny.toml"))?;
    found.extend(differs(&deny).then(|| "deny.toml:1: allows other licences than tidy".to_owned()));
    Ok(found)
}

/// The feature of a build that can be a member of a cluster, as cargo names it in a workspace.
pub const CLUSTER: &str = "newsreel/cluster";

/// The crates that are built on this machine with these features, as `cargo metadata` prints them.
pub fn metadata(features: &[&str]) -> io::Result<Value> {
    let host = output("rustc", &["-vV"])?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| io::Error::other("rustc -vV names no host"))?;
    let features = features.join(",");
    let arguments =
        ["metadata", "--locked", "--format-version=1", "--filter-platform", host, "--features", &features];
    Ok(serde_json::from_str(&output("cargo", &arguments)?)?)
}

/// Whether cargo-deny would allow other licences.
fn differs(deny: &str) -> bool {
    let list = deny.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    let names = list.unwrap_or_default().split(',').map(|name| name.trim().trim_matches('"'));
    names.filter(|name| !name.is_empty()).ne(ALLOWED.iter().copied())
}

fn output(program: &str, arguments: &[&str]) -> io::Result<String> {
    let program = std::env::var(program.to_uppercase()).unwrap_or_else(|_| program.into());
    let output = Command::new(&program).args(arguments).output().map_err(named(&program))?;
    if !output.status.success() {
        return Err(named(&program)(io::Error::other(String::from_utf8_lossy(&output.stderr))));
    }
    String::from_utf8(output.stdout).map_err(|error| named(&program)(io::Error::other(error)))
}

/// Returns what puts the name of a program or file before an error.
fn named(name: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{name}: {error}"))
}

/// Judges what `cargo metadata` printed.
fn judge(metadata: &Value) -> io::Result<Vec<String>> {
    let packages = metadata["packages"].as_array();
    let packages = packages.ok_or_else(|| io::Error::other("cargo metadata lists no packages"))?;
    let judged = packages.iter().filter_map(|package| {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let fault = fault(text("license"))?;
        Some(format!("Cargo.lock:1: crate {} {}: {fault}", text("name"), text("version")))
    });
    Ok(judged.collect())
}

/// Why a crate under this licence may not be used.
fn fault(licence: &str) -> Option<String> {
    if licence.is_empty() {
        return Some("names no licence".into());
    }
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return Some(format!("`{licence}` is no SPDX expression"));
    };
    let is_allowed = expression.evaluate(|requirement| {
        let id = requirement.license.id().map(|id| id.name);
        // An exception to a licence only allows more.
        id.is_some_and(|id| ALLOWED.contains(&id))
    });
    (!is_allowed).then(|| format!("the licence {licence} is not one of those that may be used"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_build_for_clusters_has_more_crates() {
        let has_client = |features: &[&str]| {
            let packages = metadata(features).unwrap()["packages"].as_array().unwrap().clone();
            packages.iter().any(|package| package["name"] == "async-nats")
        };
        assert!(!has_client(&[]) && has_client(&[CLUSTER]));
    }

    #[test]
    fn one_of_several_is_enough_and_all_of_several_are_needed() {
        for licence in
            ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR ISC", "Apache-2.0 WITH LLVM-exception AND Zlib"]
        {
            assert_eq!(fault(licence), None, "{licence}");
        }
        for licence in ["", "GPL-3.0-only", "MIT AND MPL-2.0", "LGPL-2.1-or-later", "see the file"] {
            assert!(fault(licence).is_some(), "{licence}");
        }
    }

    #[test]
    fn cargo_deny_has_the_same_list() {
        let list = |names: &[&str]| format!("[licenses]\nallow = [\n  \"{}\",\n]\n", names.join("\",\n  \""));
        assert!(!differs(&list(ALLOWED)));
        assert!(differs(&list(&ALLOWED[1..])));
        assert!(differs(""));
    }

    #[test]
    fn a_crate_is_named_with_its_licence() {
        let metadata = json!({"packages": [{"name": "a", "version": "1.0.0", "license": "MIT"},
            {"name": "b", "version": "2.0.0", "license": "SSPL-1.0"},
            {"name": "c", "version": "3.0.0", "license": null}]});
        let expected = [
            "Cargo.lock:1: crate b 2.0.0: the licence SSPL-1.0 is not one of those that may be used",
            "Cargo.lock:1: crate c 3.0.0: names no licence",
        ];
        assert_eq!(judge(&metadata).unwrap(), expected);
        assert!(judge(&json!({})).is_err());
    }
}
