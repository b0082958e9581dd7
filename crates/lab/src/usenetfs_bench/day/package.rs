//! A package of C programs that is built again and again, as the paper's Am-utils was.

use super::Result;
use crate::volume::run;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Its sources.
const SOURCES: usize = 16;
/// Functions in each.
const FUNCTIONS: usize = 24;
/// Compiles each source and makes a program of them, from nothing.
const BUILD: &str = "cd \"$0\" && rm -f *.o program && for source in *.c; do \
    gcc -O1 -c \"$source\" || exit 1; done && gcc -o program *.o && ./program";

/// A package, in a directory of its own.
pub struct Package {
    dir: PathBuf,
}

impl Package {
    pub fn make(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        for source in 0..SOURCES {
            fs::write(dir.join(format!("source{source}.c")), text(source))?;
        }
        let each = |line: fn(usize) -> String| (0..SOURCES).map(line).collect::<String>();
        let calls = each(|source| format!("sum += s{source}_f0(sum);\n"));
        let declared = each(|source| format!("long s{source}_f0(long);\n"));
        let main = format!("{declared}int main(void) {{\nlong sum = 1;\n{calls}return sum == 0;\n}}\n");
        fs::write(dir.join("main.c"), main)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Builds it; the program that comes of it must work.
    pub fn build(&self) -> Result<()> {
        run("sh", &["-c", BUILD, super::path_text(&self.dir)?]).map(drop)
    }
}

/// A source: functions that call each other.
fn text(source: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for n in (0..FUNCTIONS).rev() {
        let called = if n + 1 < FUNCTIONS { format!("s{source}_f{}(a / 2)", n + 1) } else { "a".into() };
        let _ = write!(
            text,
            "long s{source}_f{n}(long a) {{\n  char text[64];\n  long i, sum = {n};\n  \
             for (i = 0; i < (a & 7); i++)\n    switch ((a + i) % 5) {{\n    case 0: sum += i * a; \
             break;\n    case 1: sum ^= i << 3; break;\n    case 2: snprintf(text, sizeof text, \"%ld\", a); \
             sum += (long)strlen(text); break;\n    default: sum -= i; }}\n  \
             return sum + {called};\n}}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_built_again_and_again() {
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            eprintln!("SKIPPED: gcc is missing");
            return;
        }
        let dir = std::env::temp_dir().join(format!("newsreel-lab-package-{}", std::process::id()));
        let package = Package::make(&dir).unwrap();
        // One source instead of all: what is tested is that they compile.
        (2..SOURCES).for_each(|n| fs::write(dir.join(format!("source{n}.c")), one_function(n)).unwrap());
        package.build().unwrap();
        package.build().unwrap();
        fs::write(dir.join("source1.c"), "no C").unwrap();
        package.build().unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
    }

    fn one_function(n: usize) -> String {
        format!("long s{n}_f0(long a) {{ return a; }}\n")
    }
}
