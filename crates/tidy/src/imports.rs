//! What a Rust file imports: every path below its own crate that it names, in `use` declarations (nested ones
//! too) and in the code itself.
//!
//! Works on blanked code ([`File::code`]), so strings and comments name nothing. Used by [`crate::floors`].

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, body_of};

/// Path of a module below its crate's root; empty for the root itself.
pub type Module = Vec<String>;

/// A path below the crate's root that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// From 1.
    pub line: usize,
    /// The whole path: modules, then an item.
    pub path: Module,
    /// It stands in a `pub use`: offered to others, not used here.
    pub is_offered: bool,
    /// It stands in a module of tests.
    pub is_test: bool,
}

/// The modules of a crate that have a file of their own, and what each of them offers under its own name.
#[derive(Debug, Default)]
pub struct Modules<'a> {
    /// By path.
    pub files: BTreeMap<Module, &'a File>,
    offers: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl<'a> Modules<'a> {
    /// The files below `root`, such as `crates/spool/src/`.
    pub fn of(files: impl Iterator<Item = &'a File>, root: &str) -> Self {
        let named = files.filter_map(|file| Some((module_of(file.path.strip_prefix(root)?)?, file)));
        let mut modules = Self { files: named.collect(), offers: BTreeMap::new() };
        let paths: BTreeSet<Module> = modules.files.keys().cloned().collect();
        for (module, file) in &modules.files {
            for import in imports(module, &file.code, &paths).into_iter().filter(|i| i.is_offered) {
                if let Some(name) = import.path.last().cloned() {
                    modules.offers.entry(module.clone()).or_default().insert(name, import.path);
                }
            }
        }
        modules
    }

    /// What a module imports.
    pub fn imports(&self, module: &Module) -> Vec<Import> {
        let paths: BTreeSet<Module> = self.files.keys().cloned().collect();
        self.files.get(module).map_or_else(Vec::new, |file| imports(module, &file.code, &paths))
    }

    /// The module with a file of its own in which a path ends; what a module only offers is looked up where
    /// it comes from.
    pub fn resolve(&self, path: &[String]) -> Option<Module> {
        let mut path = path.to_vec();
        // A path is passed on a few times at most.
        for _ in 0..8 {
            let known = |len: &usize| path.get(..*len).is_some_and(|p| self.files.contains_key(p));
            let len = (0..=path.len()).rev().find(known)?;
            let (module, rest) = path.split_at(len);
            let source = rest.first().and_then(|item| self.offers.get(module)?.get(item));
            match source {
                Some(source) => path = [source.as_slice(), rest.get(1..).unwrap_or_default()].concat(),
                None => return Some(module.to_vec()),
            }
        }
        None
    }
}

/// The module of a file below `src/`; `None` for what is not a module, such as another binary.
fn module_of(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs").filter(|path| !path.starts_with("bin/"))?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let parts = path.split('/').map(str::to_owned);
    Some(if matches!(path, "lib" | "main") { Vec::new() } else { parts.collect() })
}

/// All paths below the crate's root that blanked code names.
fn imports(module: &Module, code: &str, paths: &BTreeSet<Module>) -> Vec<Import> {
    let inline = inline_modules(code);
    let here = |at: usize| {
        let within = inline.iter().filter(|inline| inline.from <= at && at < inline.to);
        within.fold((module.clone(), false), |(mut path, is_test), inline| {
            path.push(inline.name.clone());
            (path, is_test || inline.is_test)
        })
    };
    let line = |at: usize| code.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let mut found = Vec::new();
    let mut rest = vec![true; code.len()];
    for (at, text, is_offered) in declarations(code) {
        rest.iter_mut().skip(at).take(text.len()).for_each(|free| *free = false);
        let (own, is_test) = here(at);
        for path in leaves(text) {
            let parts: Vec<&str> = path.split("::").collect();
            let absolute = absolute(&own, &parts, paths);
            found.extend(absolute.map(|path| Import { line: line(at), path, is_offered, is_test }));
        }
    }
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code.get(..at).unwrap_or_default();
            let inside = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if inside || !rest.get(at).copied().unwrap_or_default() {
                continue;
            }
            let named = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let text: String = code.get(at..).unwrap_or_default().chars().take_while(|c| named(*c)).collect();
            let parts: Vec<&str> = text.split("::").filter(|part| !part.is_empty()).collect();
            let (own, is_test) = here(at);
            let absolute = absolute(&own, &parts, paths);
            found.extend(absolute.map(|path| Import { line: line(at), path, is_offered: false, is_test }));
        }
    }
    found
}

/// A module within a file.
struct Inline {
    name: String,
    from: usize,
    to: usize,
    is_test: bool,
}

fn inline_modules(code: &str) -> Vec<Inline> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("mod ") {
        let before = code.get(..at).unwrap_or_default();
        let text = code.get(at..).unwrap_or_default();
        let name: String = text.chars().skip(4).take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let has_body = text.get(4 + name.len()..).is_some_and(|rest| rest.trim_start().starts_with('{'));
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') || name.is_empty() || !has_body {
            continue;
        }
        if let Some(body) = body_of(text) {
            let attributes = before.rsplit(['}', ';']).next().unwrap_or_default();
            let is_test = attributes.contains("cfg(test)");
            found.push(Inline { name, from: at, to: at + body.len(), is_test });
        }
    }
    found
}

/// The `use` declarations: where the imported tree begins, its text, and whether they are `pub`.
fn declarations(code: &str) -> Vec<(usize, &str, bool)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let line = code.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default().trim();
        let is_offered = line.starts_with("pub");
        let rest = code.get(at + 4..).unwrap_or_default();
        let text = rest.split(';').next().unwrap_or_default();
        if line.is_empty() || is_offered && !line.contains(['=', '{']) {
            found.push((at + 4, text, is_offered));
        }
    }
    found
}

/// The single paths of a tree such as `a::{b, c::{self, d as e}}`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        let path = path.strip_suffix("::self").unwrap_or(path);
        return Vec::from_iter((!path.is_empty()).then(|| path.split_whitespace().collect()));
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let mut depth = 0usize;
    let parts = group.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let join = |leaf: String| {
        if leaf == "self" { prefix.trim_end_matches(':').into() } else { format!("{prefix}{leaf}") }
    };
    parts.flat_map(leaves).map(join).map(|path| path.trim().to_owned()).collect()
}

/// A path as named in the module `own`, from the crate's root on; `None` if it is of another crate.
fn absolute(own: &Module, parts: &[&str], paths: &BTreeSet<Module>) -> Option<Module> {
    let (first, mut rest) = parts.split_first()?;
    let mut base = match *first {
        "crate" => Vec::new(),
        "self" => own.clone(),
        "super" => own.split_last()?.1.to_vec(),
        child => {
            let path = [own.as_slice(), &[child.to_owned()]].concat();
            paths.contains(&path).then_some(path)?
        }
    };
    while let Some((&"super", left)) = rest.split_first() {
        base.pop()?;
        rest = left;
    }
    base.extend(rest.iter().map(|part| (*part).to_owned()));
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(module: &str, code: &str) -> Vec<String> {
        let module: Module = module.split("::").map(str::to_owned).collect();
        let known = BTreeSet::from([vec!["a".to_owned(), "b".to_owned(), "child".to_owned()]]);
        let file = File::new("crates/x/src/a.rs", code);
        imports(&module, &file.code, &known)
            .iter()
            .map(|i| format!("{}:{}", i.line, i.path.join("::")))
            .collect()
    }

    #[test]
    fn nested_and_relative_imports_are_whole_paths() {
        let code = "use crate::{c, d::{self, e::F as G}};\nuse super::h::I;\nuse child::J;\nuse std::io;\n";
        assert_eq!(paths("a::b", code), ["1:c", "1:d", "1:d::e::F", "2:a::h::I", "3:a::b::child::J"]);
    }

    #[test]
    fn paths_in_code_count_and_those_in_comments_do_not() {
        let code = "//! [`crate::no`]\nfn f() { crate::c::g(super::super::h::I) }\n";
        assert_eq!(paths("a::b", code), ["2:c::g", "2:h::I"]);
    }

    #[test]
    fn a_module_within_a_file_has_that_file_above_it() {
        let code =
            "use super::x;\n#[cfg(test)]\nmod tests {\n    use super::super::y;\n    use super::*;\n}\n";
        assert_eq!(paths("a::b", code), ["1:a::x", "4:a::y", "5:a::b::*"]);
    }
}
