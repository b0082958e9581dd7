//! The table of keys against itself.

use super::*;

#[test]
fn every_key_has_a_section_and_an_example_that_sets_it() {
    for row in KEYS {
        assert!(section(row.section).is_some(), "{}", row.path());
        assert!(row.example.starts_with(&format!("{} = ", row.name)), "{}", row.path());
        assert!(row.doc.ends_with('.'), "{}", row.path());
    }
}

#[test]
fn choices_read_as_a_sentence() {
    assert_eq!(Kind::Choice(&["cnfs", "memory", "trash"]).words(), "\"cnfs\", \"memory\" or \"trash\"");
    assert_eq!(Kind::Choice(&["reject", "junk"]).words(), "\"reject\" or \"junk\"");
}
