//! The floors of each crate: a module knows those below its own, and no other.
//!
//! [`FLOORS`] is the drawing in `ARCHITECTURE.md`, checked against what the files import. Two modules in one
//! row stand side by side and do not know each other. Files that need each other in a circle can neither be
//! read nor tested alone, so no circle has more than `circle_max`. One of the rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Module, Modules};
use crate::rules::{Finding, finding};
use crate::source::Tree;

/// A crate that is built in floors.
struct Building {
    name: &'static str,
    /// Its modules, from the ground up. What lies in `src` itself, such as `lib.rs`, is above all.
    rows: &'static [&'static [&'static str]],
    /// Most files that may need each other in a circle.
    circle_max: usize,
}

/// The crates that have floors.
const FLOORS: &[Building] = &[
    Building {
        name: "spool",
        rows: &[
            &["base"],
            &["disk"],
            &["method", "journal"],
            &["index"],
            &["write", "read"],
            &["open"],
            &["spool"],
            &["care"],
        ],
        circle_max: 2,
    },
    Building {
        name: "newscache",
        rows: &[
            &["ascending", "packed", "rank", "record", "stats", "strategy", "wanted"],
            &["access_log", "settings", "runs", "ids", "answers"],
            &["bookkeeping", "lanes", "loaded", "open_files", "recent"],
            &["cells", "opening", "slots"],
            &["cache"],
            &["compact", "index_io", "lists"],
            &["pieces"],
            &["group"],
            &["large", "numbers"],
            &["heads", "verify"],
            &["simulate"],
            &["chart"],
            &["tests"],
        ],
        circle_max: 2,
    },
    Building {
        name: "usenetfs",
        rows: &[
            &["failpoint", "lower", "workers"],
            &["directory", "files", "nodes"],
            &["listing"],
            &["tree"],
            &["naming"],
            &["converting"],
            &["online"],
            &["filesystem"],
            &["mounting"],
            &["locating", "suggesting"],
            &["managing"],
        ],
        circle_max: 1,
    },
    Building {
        name: "newsreel",
        rows: &[
            &["base"],
            &["config"],
            &["access", "cancel_lock", "import", "log", "name_map", "tls"],
            &["ingest", "moderation", "source"],
            &["site"],
            &["relay", "inject", "serve"],
            &["session"],
            &["operations", "listening"],
            &["running"],
            &["reload"],
            &["control_socket"],
            &["server"],
            &["cli"],
        ],
        // The sections of `config`, and the table of them all that each is read by.
        circle_max: 9,
    },
];

/// Files that stand above all floors: what other crates see.
const ROOF: &[&str] = &["lib", "main", "fuzzing"];

/// Everything that breaks the floors.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    let of_crate = |building: &Building| {
        let root = format!("crates/{}/src/", building.name);
        let modules = Modules::of(tree.rust(), &root);
        if modules.files.is_empty() {
            Vec::new()
        } else {
            [upwards(&modules, building.rows), circles(&modules, building.circle_max)].concat()
        }
    };
    FLOORS.iter().flat_map(of_crate).collect()
}

/// Imports of a floor above, or beside; modules that are on no floor.
fn upwards(modules: &Modules<'_>, rows: &[&[&str]]) -> Vec<Finding> {
    let row_of = |name: &str| rows.iter().position(|row| row.contains(&name));
    let mut found = Vec::new();
    for (module, file) in &modules.files {
        let Some(own) = module.first() else { continue };
        if ROOF.contains(&own.as_str()) {
            continue;
        }
        let Some(row) = row_of(own) else {
            found.push(finding(file, 1, format!("`{own}` is on no floor: see tidy's table of floors")));
            continue;
        };
        for import in modules.imports(module) {
            let Some(other) = import.path.first().filter(|other| *other != own) else { continue };
            match row_of(other) {
                Some(below) if below < row => {}
                Some(_) => {
                    let what = format!("`{own}` must not know `{other}`, which is not on a floor below it");
                    found.push(finding(file, import.line, what));
                }
                None => {
                    let what = format!("name `{other}` by the module it is in, not by the crate's root");
                    found.push(finding(file, import.line, what));
                }
            }
        }
    }
    found
}

/// Circles of files that are longer than `circle_max`, tests apart.
fn circles(modules: &Modules<'_>, circle_max: usize) -> Vec<Finding> {
    let mut reached: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
    for module in modules.files.keys().filter(|module| !module.is_empty()) {
        let needs = modules.imports(module).into_iter().filter(|i| !i.is_offered && !i.is_test);
        let needs = needs.filter_map(|i| modules.resolve(&i.path));
        let is_tests = module.last().is_some_and(|name| name == "tests");
        reached.insert(module, needs.filter(|to| !is_tests && to != module).collect());
    }
    // What each file reaches over others, until nothing is added.
    loop {
        let before: usize = reached.values().map(BTreeSet::len).sum();
        let old = reached.clone();
        for to in reached.values_mut() {
            let over: Vec<Module> = to.iter().filter_map(|via| old.get(via)).flatten().cloned().collect();
            to.extend(over);
        }
        if reached.values().map(BTreeSet::len).sum::<usize>() == before {
            break;
        }
    }
    let mut found = Vec::new();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    for (module, to) in &reached {
        let back =
            |other: &&Module| to.contains(*other) && reached.get(*other).is_some_and(|r| r.contains(*module));
        let circle: Vec<&Module> = reached.keys().copied().filter(back).collect();
        if circle.len() > circle_max && seen.insert(module) {
            seen.extend(&circle);
            let names: Vec<String> = circle.iter().map(|m| m.join("::")).collect();
            if let Some(file) = modules.files.get(*module) {
                found.push(finding(
                    file,
                    1,
                    format!("{} files need each other: {}", names.len(), names.join(", ")),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::File;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File::new(&format!("crates/spool/src/{path}"), text));
        rule(&Tree { files: files.collect() }).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_floor_knows_only_those_below() {
        let found = findings(&[
            ("base/key.rs", "pub struct Key;\n"),
            (
                "journal/row.rs",
                "use crate::base::key::Key;\nuse crate::{\n    method,\n    base::{self, key},\n};\n",
            ),
            ("index/fold.rs", "use crate::journal::row;\nfn f() { crate::care::verify::g() }\n"),
            ("care/verify.rs", "use crate::index::fold;\nuse crate::Key;\n"),
            ("lib.rs", "mod base;\npub use care::verify;\n"),
            ("attic.rs", "pub struct Old;\n"),
        ]);
        let start = |path: &str, line: usize| format!("crates/spool/src/{path}.rs:{line}: ");
        assert_eq!(
            found,
            [
                start("attic", 1) + "`attic` is on no floor: see tidy's table of floors",
                start("care/verify", 2) + "name `Key` by the module it is in, not by the crate's root",
                start("index/fold", 2) + "`index` must not know `care`, which is not on a floor below it",
                start("journal/row", 2)
                    + "`journal` must not know `method`, which is not on a floor below it",
            ]
        );
    }

    #[test]
    fn the_duties_meet_in_the_site_and_do_not_name_each_other() {
        let files = [
            ("site", "use crate::inject::Injector;\n"),
            ("inject", "use crate::site::Site;\n"),
            ("serve/over", "use crate::relay::offers;\nuse crate::site::Site;\n"),
        ];
        let files = files.map(|(path, text)| File::new(&format!("crates/newsreel/src/{path}.rs"), text));
        let found: Vec<_> = rule(&Tree { files: files.into() }).iter().map(ToString::to_string).collect();
        let not_below = |path: &str, own: &str, other: &str| {
            let start = format!("crates/newsreel/src/{path}.rs:1: ");
            start + &format!("`{own}` must not know `{other}`, which is not on a floor below it")
        };
        assert_eq!(found, [not_below("serve/over", "serve", "relay"), not_below("site", "site", "inject")]);
    }

    #[test]
    fn a_circle_of_three_is_found_over_what_a_folder_offers() {
        let pair = [("base/a.rs", "use super::b::B;\n"), ("base/b.rs", "use crate::base::a::A;\n")];
        assert_eq!(findings(&pair), [""; 0]);
        let found = findings(&[
            ("base/mod.rs", "mod a;\npub use a::A;\n"),
            ("base/a.rs", "use super::b::B;\n"),
            ("base/b.rs", "use super::c::C;\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n"),
            ("base/c.rs", "use crate::base::A;\n"),
        ]);
        assert_eq!(
            found,
            ["crates/spool/src/base/a.rs:1: 3 files need each other: base::a, base::b, base::c"]
        );
    }
}
