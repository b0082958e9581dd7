//! The floors of each crate: a module knows those below its own, and no other.
//!
//! [`FLOORS`] is the drawing in `ARCHITECTURE.md`, checked against the imports of the files. Two modules in
//! one row stand side by side and do not know each other. Between crates, cargo keeps the order. One of the
//! rules.

use crate::finding::{Finding, finding};
use crate::imports::Modules;
use crate::source::Tree;

/// A crate that is built in floors.
struct Building {
    name: &'static str,
    /// Its modules, from the ground up. Files in `src` itself that [`ROOF`] lists are above all.
    rows: &'static [&'static [&'static str]],
}

/// The crates that have floors. The others are flat: their modules may know each other, and the limit on
/// circles of files holds for them as for all.
const FLOORS: &[Building] = &[
    Building {
        name: "spool",
        rows: &[&["index"], &["write", "read"], &["open"], &["apply", "reader"], &["care"], &["spool"]],
    },
    Building {
        name: "newscache",
        rows: &[
            &["base", "strategy"],
            &["settings"],
            &["books"],
            &["index", "files"],
            &["cache"],
            &["reading"],
            &["simulate"],
            &["chart"],
            &["tests"],
        ],
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
    },
    Building {
        name: "site",
        rows: &[
            &["message_ids"],
            &["log", "moderation", "permits"],
            &["site"],
            &["relay", "inject", "serve"],
            &["session"],
            &["listening"],
        ],
    },
    Building { name: "newsreel", rows: &[&["server", "member"], &["cli"]] },
];

/// Files above all floors, which are what other crates see.
const ROOF: &[&str] = &["lib", "main", "fuzzing"];

/// Everything that breaks the floors.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    let of_crate = |building: &Building| {
        let root = format!("crates/{}/src/", building.name);
        let modules = Modules::of(tree.rust(), &root);
        if modules.files.is_empty() { Vec::new() } else { upwards(&modules, building.rows) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::File;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File::new(&format!("crates/spool/src/{path}"), text));
        rule(&Tree::of(files.collect())).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_floor_knows_only_those_below() {
        let found = findings(&[
            ("index/key.rs", "pub struct Key;\n"),
            (
                "write/row.rs",
                "use crate::index::key::Key;\nuse crate::{\n    read,\n    index::{self, key},\n};\n",
            ),
            ("open/fold.rs", "use crate::write::row;\nfn f() { crate::care::verify::g() }\n"),
            ("care/verify.rs", "use crate::open::fold;\nuse crate::Key;\n"),
            ("lib.rs", "mod index;\npub use care::verify;\n"),
            ("attic.rs", "pub struct Old;\n"),
        ]);
        let start = |path: &str, line: usize| format!("crates/spool/src/{path}.rs:{line}: ");
        assert_eq!(
            found,
            [
                start("attic", 1) + "`attic` is on no floor: see tidy's table of floors",
                start("care/verify", 2) + "name `Key` by the module it is in, not by the crate's root",
                start("open/fold", 2) + "`open` must not know `care`, which is not on a floor below it",
                start("write/row", 2) + "`write` must not know `read`, which is not on a floor below it",
            ]
        );
    }

    #[test]
    fn relay_inject_and_serve_meet_in_the_site_and_do_not_name_each_other() {
        let files = [
            ("site", "use crate::inject::Injector;\n"),
            ("inject", "use crate::site::Site;\n"),
            ("serve/over", "use crate::relay::offers;\nuse crate::site::Site;\n"),
        ];
        let files = files.map(|(path, text)| File::new(&format!("crates/site/src/{path}.rs"), text));
        let found: Vec<_> = rule(&Tree::of(files.into())).iter().map(ToString::to_string).collect();
        let not_below = |path: &str, own: &str, other: &str| {
            let start = format!("crates/site/src/{path}.rs:1: ");
            start + &format!("`{own}` must not know `{other}`, which is not on a floor below it")
        };
        assert_eq!(found, [not_below("serve/over", "serve", "relay"), not_below("site", "site", "inject")]);
    }
}
