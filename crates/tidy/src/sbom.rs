//! The crates that the server is built of, as a software bill of materials: `tidy --sbom`, and with
//! `--sbom cluster` those of a server that can be a member of a cluster.
//!
//! Made of `cargo metadata`: what newsreel depends on in the build for this machine, without what only tests
//! or build scripts use. Source: CycloneDX 1.5, in JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::{Value, json};

use crate::licences::metadata;

/// The crate whose binary ships.
const PROGRAM: &str = "newsreel";

/// Returns the bill of a build with these features.
pub fn bill(features: &[&str]) -> io::Result<String> {
    Ok(format!("{:#}\n", of_metadata(&metadata(features)?)))
}

/// Returns a licence as SPDX writes it: some crates have a slash for OR, as cargo once did.
fn expression(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

fn of_metadata(metadata: &Value) -> Value {
    let all = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        all(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        all(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let program = packages.iter().find(|(_, package)| package["name"] == PROGRAM).map(|(id, _)| id.clone());
    let mut used = BTreeSet::new();
    let mut waiting: Vec<String> = program.iter().cloned().collect();
    let mut dependencies = Vec::new();
    while let Some(id) = waiting.pop() {
        if !used.insert(id.clone()) {
            continue;
        }
        let is_linked =
            |dependency: &&Value| all(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let below = nodes.get(&id).map(|node| all(&node["deps"])).unwrap_or_default();
        let below: Vec<String> =
            below.iter().filter(is_linked).map(|dependency| text(&dependency["pkg"])).collect();
        let names: Vec<String> = below.iter().filter_map(|id| packages.get(id)).map(purl).collect();
        dependencies.push(json!({ "ref": packages.get(&id).map(purl), "dependsOn": names }));
        waiting.extend(below);
    }
    let component = |id: &String, kind: &str| {
        let package = packages.get(id).cloned().unwrap_or_default();
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        json!({
            "type": kind,
            "bom-ref": purl(&package),
            "name": name,
            "version": version,
            "purl": purl(&package),
            "licenses": [{ "expression": expression(package["license"].as_str().unwrap_or_default()) }],
        })
    };
    let libraries = used.iter().filter(|id| Some(*id) != program.as_ref());
    let components: Vec<Value> = libraries.map(|id| component(id, "library")).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program.map(|id| component(&id, "application")) },
        "components": components,
        "dependencies": dependencies,
    })
}

/// Returns the name of a package by which others find it.
fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_what_is_linked_and_nothing_of_tests() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT" });
        let needs = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["newsreel", "a", "b", "tests-only"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "newsreel", "deps": [needs("a", Value::Null), needs("tests-only", "dev".into())] },
                { "id": "a", "deps": [needs("b", Value::Null)] },
            ] },
        });
        let bill = of_metadata(&metadata);
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(bill["metadata"]["component"]["name"], "newsreel");
    }

    #[test]
    fn licences_are_expressions_of_spdx() {
        for (written, expected) in [
            ("MIT/Apache-2.0", "MIT OR Apache-2.0"),
            ("Apache-2.0 / MIT / MPL-2.0", "Apache-2.0 OR MIT OR MPL-2.0"),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", "(MIT OR Apache-2.0) AND Unicode-3.0"),
        ] {
            assert_eq!(expression(written), expected);
            assert!(spdx::Expression::parse(expected).is_ok(), "{expected}");
        }
    }
}
