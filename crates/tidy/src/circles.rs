//! Circles of files: files that need each other can neither be read nor tested alone, so circles are small.
//!
//! Every crate is checked. [`CIRCLES`] lists the circles larger than [`CIRCLE_MAX`] with their sizes, which
//! are ratchets: a circle that has grown is a finding, and so is a size that the circle no longer has.
//! Imports of tests do not count, nor do circles through the root of the crate (`lib.rs`). One of the rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::imports::{Module, Modules};
use crate::source::Tree;

/// Files that may need each other in a crate.
const CIRCLE_MAX: usize = 3;

/// Crates with a smaller limit than [`CIRCLE_MAX`].
const CIRCLE_MAX_OF: &[(&str, usize)] = &[
    ("spool-base", 1),
    ("spool-journal", 2),
    ("spool-history", 2),
    ("spool-methods", 2),
    ("spool", 2),
    ("newscache", 2),
    ("usenetfs", 1),
];

/// Circles that are too large, to be made smaller: crate, one of the files, number of files.
const CIRCLES: &[(&str, &str, usize)] = &[];

/// The file of this table, for findings about it.
const TABLE: &str = "crates/tidy/src/circles.rs";

/// Circles that are too large, and exceptions that are larger than needed.
pub fn rule(tree: &Tree) -> Vec<Finding> {
    let names: BTreeSet<&str> = tree.rust().filter_map(|file| crate_of(&file.path)).collect();
    let circles = names.into_iter().map(|name| {
        let modules = Modules::of(tree.rust(), &format!("crates/{name}/src/"));
        let circles: Vec<Circle> =
            circles(&modules).into_iter().map(|circle| Circle::of(&modules, &circle)).collect();
        (name, circles)
    });
    judge(&circles.collect(), CIRCLES)
}

/// A circle of files.
#[derive(Debug)]
struct Circle {
    /// Path of the first of them.
    path: String,
    /// Their modules, in order, such as `base::key`.
    names: Vec<String>,
}

impl Circle {
    fn of(modules: &Modules<'_>, circle: &[&Module]) -> Self {
        let first = circle.first().and_then(|module| modules.files.get(*module));
        let path = first.map(|file| file.path.clone()).unwrap_or_default();
        Self { path, names: circle.iter().map(|module| module.join("::")).collect() }
    }
}

/// The crate whose `src` holds this file.
fn crate_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

/// Compares the circles of each crate with the limits and with the table of exceptions.
fn judge(circles: &BTreeMap<&str, Vec<Circle>>, exceptions: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, of_crate) in circles {
        let limit = CIRCLE_MAX_OF.iter().find(|(of, _)| of == name).map_or(CIRCLE_MAX, |(_, max)| *max);
        for circle in of_crate {
            let is_this = |(of, member, _): &&(&str, &str, usize)| {
                of == name && circle.names.iter().any(|n| n == member)
            };
            let max = exceptions.iter().find(is_this).map_or(limit, |(_, _, max)| *max);
            let len = circle.names.len();
            if len > max {
                let names = circle.names.join(", ");
                let what = format!("{len} files need each other, at most {max} may: {names}");
                found.push(Finding::new(&circle.path, 1, what));
            }
        }
    }
    for (name, member, max) in exceptions {
        let Some(of_crate) = circles.get(name) else { continue };
        let len = of_crate.iter().find(|c| c.names.iter().any(|n| n == member)).map_or(1, |c| c.names.len());
        if len < *max {
            let what =
                format!("the size of the circle of `{member}` in {name} is {len}, not {max}: lower it");
            found.push(Finding::new(TABLE, 1, what));
        }
    }
    found
}

/// The circles of two files and more: the strongly connected components of the imports.
fn circles<'a>(modules: &'a Modules<'_>) -> Vec<Vec<&'a Module>> {
    let all: Vec<&Module> = modules.files.keys().filter(|module| !module.is_empty()).collect();
    let number: BTreeMap<&Module, usize> = all.iter().enumerate().map(|(at, module)| (*module, at)).collect();
    let needs = |module: &&Module| -> BTreeSet<usize> {
        if module.last().is_some_and(|name| name == "tests") {
            return BTreeSet::new();
        }
        let imports = modules.imports(module).iter().filter(|i| !i.is_offered && !i.is_test);
        imports.filter_map(|i| number.get(&modules.resolve(&i.path)?).copied()).collect()
    };
    let forward: Vec<BTreeSet<usize>> = all.iter().map(needs).collect();
    let mut backward = vec![BTreeSet::new(); all.len()];
    for (from, to) in forward.iter().enumerate() {
        for to in to {
            backward[*to].insert(from);
        }
    }
    // Files in the order in which a search over their imports leaves them; then searches the other way, from
    // the last one left, each find a component.
    let mut is_seen = vec![false; all.len()];
    let mut order = Vec::new();
    for start in 0..all.len() {
        visit(&forward, start, &mut is_seen, &mut order);
    }
    is_seen.fill(false);
    let mut found = Vec::new();
    for start in order.into_iter().rev() {
        let mut circle = Vec::new();
        visit(&backward, start, &mut is_seen, &mut circle);
        if circle.len() > 1 {
            circle.sort_unstable();
            found.push(circle.into_iter().filter_map(|at| all.get(at).copied()).collect());
        }
    }
    found.sort();
    found
}

/// Searches from `from` in depth, and adds each file when all that it leads to have been added.
fn visit(edges: &[BTreeSet<usize>], from: usize, is_seen: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut is_seen[from], true) {
        return;
    }
    for to in &edges[from] {
        visit(edges, *to, is_seen, order);
    }
    order.push(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::File;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| File::new(&format!("crates/feeds/src/{path}"), text));
        rule(&Tree::of(files.collect())).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_of_four_is_found_over_reexports_of_a_folder() {
        let found = findings(&[
            ("base/mod.rs", "mod a;\npub use a::A;\n"),
            ("base/a.rs", "use super::b::B;\n"),
            ("base/b.rs", "use super::c::C;\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n"),
            ("base/c.rs", "use crate::base::d::D;\n"),
            ("base/d.rs", "use crate::base::A;\n"),
            ("pair/a.rs", "use super::b::B;\n"),
            ("pair/b.rs", "use crate::pair::a::A;\n"),
        ]);
        let names = "base::a, base::b, base::c, base::d";
        let expected =
            format!("crates/feeds/src/base/a.rs:1: 4 files need each other, at most 3 may: {names}");
        assert_eq!(found, [expected]);
    }

    #[test]
    fn imports_of_the_root_do_not_count() {
        let of = |to: &str| format!("use crate::Hub;\nuse crate::{to}::A;\n");
        let files = [
            ("lib.rs", "mod a;\nmod b;\nuse a::A;\npub struct Hub;\n".to_owned()),
            ("a.rs", of("b")),
            ("b.rs", of("c")),
            ("c.rs", of("d")),
            ("d.rs", "use crate::Hub;\n".to_owned()),
        ];
        assert_eq!(findings(&files.each_ref().map(|(path, text)| (*path, text.as_str()))), [""; 0]);
    }

    #[test]
    fn an_exception_fits_its_circle() {
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let circles =
            || BTreeMap::from([("feeds", vec![Circle { path: "a.rs".into(), names: names.clone() }])]);
        let judged = |exception| -> Vec<String> {
            judge(&circles(), &[exception]).iter().map(ToString::to_string).collect()
        };
        assert_eq!(judged(("feeds", "c", 5)), [""; 0]);
        assert_eq!(
            judged(("feeds", "c", 4)),
            ["a.rs:1: 5 files need each other, at most 4 may: a, b, c, d, e"]
        );
        let low = format!("{TABLE}:1: the size of the circle of `c` in feeds is 5, not 6: lower it");
        assert_eq!(judged(("feeds", "c", 6)), [low]);
        let idle = format!("{TABLE}:1: the size of the circle of `x` in feeds is 1, not 4: lower it");
        assert_eq!(judged(("feeds", "x", 4))[1..], [idle]);
    }
}
