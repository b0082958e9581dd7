//! Tables in the pages of `docs/bench`, each between marks that name the command that makes it.

use std::fs;
use std::io;
use std::path::Path;

const END: &str = "<!-- end of table -->\n";

/// Puts a table that `command` made between its marks in a page; a page without marks gets it at its end.
pub fn put_table(page: &Path, command: &str, table: &str) -> io::Result<()> {
    let text = fs::read_to_string(page).unwrap_or_default();
    fs::write(page, with_table(&text, command, table))
}

fn with_table(text: &str, command: &str, table: &str) -> String {
    let begin = format!("<!-- table: made by {command} -->\n");
    let table = format!("{begin}\n{table}\n{END}");
    let marks = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    match marks {
        Some((before, after)) => format!("{before}{table}{after}"),
        None => format!("{text}\n{table}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_its_last_one() {
        let page = with_table("# Head\n", "make this", "one\n") + "\nafter\n";
        assert_eq!(with_table(&page, "make this", "two\n"), page.replace("one", "two"));
        assert!(page.starts_with("# Head\n") && page.ends_with("after\n"), "{page}");
    }
}
