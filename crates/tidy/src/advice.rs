//! Advice: long functions and long files, which are worth a look but break no rule.
//!
//! Printed by `tidy --advice`; never a finding.

use crate::source::Tree;

/// Lines of a file that is not worth a look.
const FILE_LINES_USUAL: usize = 800;
/// Lines of a function that is not worth a look, tests apart.
const FUNCTION_LINES_USUAL: usize = 70;
/// Entries that are printed.
const ENTRIES_MAX: usize = 30;

/// Long functions and files, each the longest compared with what is usual first.
pub fn lines(tree: &Tree) -> Vec<String> {
    let mut long = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_USUAL {
            long.push((lines * 100 / FILE_LINES_USUAL, format!("{}:1: a file of {lines} lines", file.path)));
        }
        let functions = file.functions.iter().filter(|f| !f.is_test && file.path.contains("/src/"));
        for function in functions.filter(|f| f.lines > FUNCTION_LINES_USUAL) {
            let what =
                format!("{}:{}: {} has {} lines", file.path, function.line, function.name, function.lines);
            long.push((function.lines * 100 / FUNCTION_LINES_USUAL, what));
        }
    }
    long.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    long.into_iter().take(ENTRIES_MAX).map(|(_, what)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::File;

    #[test]
    fn long_functions_and_files_are_listed_with_the_longest_first() {
        let function = |name, lines| format!("fn {name}() {{\n{}}}\n", "a();\n".repeat(lines));
        let long = format!("//! Head.\n{}{}{}", function("a", 68), function("b", 69), function("c", 99));
        let files = vec![
            File::new("crates/lab/src/a.rs", &long),
            File::new("crates/lab/tests/b.rs", &"\n".repeat(801)),
        ];
        let expected = [
            "crates/lab/src/a.rs:143: c has 101 lines",
            "crates/lab/src/a.rs:72: b has 71 lines",
            "crates/lab/tests/b.rs:1: a file of 801 lines",
        ];
        assert_eq!(lines(&Tree::of(files)), expected);
        let many = format!("//! Head.\n{}", function("a", 90).repeat(40));
        assert_eq!(lines(&Tree::of(vec![File::new("crates/lab/src/a.rs", &many)])).len(), ENTRIES_MAX);
    }
}
