//! The imports of a Rust file: every path below its own crate that it names, in `use` declarations (nested
//! ones too) and in the code itself.
//!
//! Works on blanked code ([`File::code`]), so strings and comments name nothing. Used by [`crate::floors`]
//! and [`crate::circles`].

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
    /// Whether it is in a `pub use`: offered to others, not used here.
    pub is_offered: bool,
    /// Whether it is in a module of tests.
    pub is_test: bool,
}

/// The modules of a crate that have a file of their own, what each imports, and what each offers under its
/// own name.
#[derive(Debug, Default)]
pub struct Modules<'a> {
    /// By path.
    pub files: BTreeMap<Module, &'a File>,
    imports: BTreeMap<Module, Vec<Import>>,
    offers: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl<'a> Modules<'a> {
    /// The files below `root`, such as `crates/spool/src/`. The root of a crate with both is `lib.rs`, not
    /// `main.rs`.
    pub fn of(files: impl Iterator<Item = &'a File>, root: &str) -> Self {
        let mut modules = Self::default();
        for file in files {
            let Some(path) = file.path.strip_prefix(root) else { continue };
            if let Some(module) =
                module_of(path).filter(|m| path != "main.rs" || !modules.files.contains_key(m))
            {
                modules.files.insert(module, file);
            }
        }
        let paths: BTreeSet<Module> = modules.files.keys().cloned().collect();
        for (module, file) in &modules.files {
            let imports = imports(module, file, &paths);
            for import in imports.iter().filter(|import| import.is_offered) {
                if let Some(name) = import.path.last().cloned() {
                    modules.offers.entry(module.clone()).or_default().insert(name, import.path.clone());
                }
            }
            modules.imports.insert(module.clone(), imports);
        }
        modules
    }

    /// What a module imports.
    pub fn imports(&self, module: &Module) -> &[Import] {
        self.imports.get(module).map(Vec::as_slice).unwrap_or_default()
    }

    /// The module with a file of its own in which a path ends. A name that a module only offers is looked up
    /// in the module that it comes from.
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

/// The module of a file below `src/`; `None` for files that are no modules, such as another binary.
fn module_of(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs").filter(|path| !path.starts_with("bin/"))?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let parts = path.split('/').map(str::to_owned);
    Some(if matches!(path, "lib" | "main") { Vec::new() } else { parts.collect() })
}

/// All paths below the crate's root that the code of a file names.
fn imports(module: &Module, file: &File, paths: &BTreeSet<Module>) -> Vec<Import> {
    let code = file.code.as_str();
    let inline = inline_modules(file);
    let here = |at: usize| {
        let within = inline.iter().filter(|inline| inline.from <= at && at < inline.to);
        within.fold((module.clone(), false), |(mut path, is_test), inline| {
            path.push(inline.name.clone());
            (path, is_test || inline.is_test)
        })
    };
    let declarations = declarations(file);
    let mut found = Vec::new();
    for (at, text, is_offered) in &declarations {
        let (own, is_test) = here(*at);
        for path in leaves(text) {
            let parts: Vec<&str> = path.split("::").collect();
            let path = absolute(&own, &parts, paths);
            let line = file.line_at(*at);
            found.extend(path.map(|path| Import { line, path, is_offered: *is_offered, is_test }));
        }
    }
    for at in file.places("crate").chain(file.places("super")) {
        let rest = code.get(at..).unwrap_or_default();
        let next = declarations.partition_point(|(start, ..)| *start <= at);
        let declaration = next.checked_sub(1).and_then(|last| declarations.get(last));
        let is_declared = declaration.is_some_and(|(start, text, _)| at < start + text.len());
        let is_within = code.get(..at).is_some_and(|before| before.ends_with(':'));
        if is_within || is_declared || rest.get(5..7) != Some("::") {
            continue;
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        let text = rest.get(..end).unwrap_or_default();
        let parts: Vec<&str> = text.split("::").filter(|part| !part.is_empty()).collect();
        let (own, is_test) = here(at);
        let path = absolute(&own, &parts, paths);
        let line = file.line_at(at);
        found.extend(path.map(|path| Import { line, path, is_offered: false, is_test }));
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

fn inline_modules(file: &File) -> Vec<Inline> {
    let code = file.code.as_str();
    let mut found = Vec::new();
    for at in file.places("mod") {
        let text = code.get(at..).unwrap_or_default();
        let name: String = text.chars().skip(4).take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let has_body = text.get(4 + name.len()..).is_some_and(|rest| rest.trim_start().starts_with('{'));
        if name.is_empty() || !has_body {
            continue;
        }
        if let Some(body) = body_of(text) {
            let before = code.get(..at).unwrap_or_default();
            let attributes = before.rsplit(['}', ';']).next().unwrap_or_default();
            let is_test = attributes.contains("cfg(test)");
            found.push(Inline { name, from: at, to: at + body.len(), is_test });
        }
    }
    found
}

/// The `use` declarations: where the imported tree begins, its text, and whether they are `pub`.
fn declarations(file: &File) -> Vec<(usize, &str, bool)> {
    let code = file.code.as_str();
    let mut found = Vec::new();
    for at in file.places("use") {
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
        imports(&module, &file, &known).iter().map(|i| format!("{}:{}", i.line, i.path.join("::"))).collect()
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
