//! The manual of the configuration, generated from the table of keys: `newsreel explain-config` and
//! `docs/config.md`.

use std::fmt::Write as _;

use super::keys::{Absent, Effect, KEYS, Key, SECTIONS, Section, effect, keys_of};

/// `docs/config.md`: an introduction, the contents, and every section with its keys.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         One TOML file, by default `newsreel.toml`. Unknown keys are errors. `newsreel check`\n\
         lists every error in a file, with line and advice; `newsreel show` prints every key with\n\
         the value in effect; and `newsreel explain-config KEY` prints a paragraph of this page.\n\
         Sizes are written `\"512\"`, `\"64 KiB\"`, `\"2 GiB\"` or `\"1 MB\"`, times `\"100ms\"`, `\"90 s\"`,\n\
         `\"10 min\"`, `\"2 h\"` or `\"14 days\"`, wildmats as in RFC 3977 section 4.\n\n\
         A running server reads a changed file on `newsreel ctl reload` or SIGHUP and applies it\n\
         as a whole: if anything is wrong with it, all of the reasons are reported and nothing\n\
         changes. Sessions use the new file from their next command on. No client that it allows\n\
         is disconnected; those that it does not allow are sent a 400 and closed. Limits apply to\n\
         new connections. `newsreel check --diff` shows what a reload would change, what would\n\
         wait for a restart and what would be refused.\n\n\
         Two complete configurations to start from:\n\
         [a private site with readers](examples/private.toml) and\n\
         [a relay with peers](examples/relay.toml). What INN's settings are called here:\n\
         [from-inn.md](from-inn.md).\n\n\
         This page is generated from the table in `crates/newsreel/src/config/keys.rs` by\n\
         `make docs`.\n\n\
         ## Contents\n\n",
    );
    for section in SECTIONS {
        let title = head(section);
        let _ = writeln!(out, "- [`{title}`](#{}): {}", section.name, first_sentence(section.doc));
    }
    for section in SECTIONS {
        let _ =
            write!(out, "\n## {}\n\n{}\n\n{}\n", head(section), section.doc, effect_of_section(section.name));
        for key in keys_of(section.name) {
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n- takes: {}\n- without it: {}\n- example: `{}`\n{}",
                key.path(),
                key.doc,
                key.kind.words(),
                absent_text(key),
                key.example,
                effect_text(key).map_or_else(String::new, |text| format!("- a change: {text}\n")),
            );
        }
    }
    out
}

/// A section's title, as it stands in the file.
fn head(section: &Section) -> String {
    if section.repeated { format!("[[{}]]", section.name) } else { format!("[{}]", section.name) }
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or_default().trim_end()
}

/// When changes of a section take effect.
fn effect_of_section(section: &str) -> String {
    let others: Vec<&str> =
        keys_of(section).filter(|key| effect_text(key).is_some()).map(|key| key.name).collect();
    match others.as_slice() {
        [] => "Changes take effect when the file is reloaded.".into(),
        others => format!("Changes take effect when the file is reloaded, but for {}.", others.join(", ")),
    }
}

/// What becomes of a change of a key, if a reload does not just take it.
fn effect_text(key: &Key) -> Option<String> {
    match effect(key.section, key.name) {
        Effect::Reload => None,
        Effect::Restart => Some("takes effect at the next start".into()),
        Effect::Refused(instead) => Some(format!("refused by a reload; {instead}")),
    }
}

fn absent_text(key: &Key) -> String {
    match key.absent {
        Absent::Refused => "an error".into(),
        Absent::Nothing => "nothing".into(),
        Absent::Value(value) => format!("`{value}`"),
        Absent::HostName => "the machine's host name".into(),
    }
}

/// The paragraphs on what `word` names: a key (`site.listen` or `listen`), a section, or, if it is empty, everything
/// in one line each. `None`: there is no such thing; [`suggestion`] may know what was meant.
pub fn explain(word: &str) -> Option<String> {
    if word.is_empty() {
        return Some(overview(|_| true));
    }
    let bare = word.trim_matches(|c| c == '[' || c == ']');
    if let Some(section) = super::keys::section(bare) {
        return Some(format!("{}\n\n{}", wrapped(section.doc), overview(|key| key.section == bare)));
    }
    let found: Vec<String> =
        KEYS.iter().filter(|key| key.path() == bare || key.name == bare).map(paragraph).collect();
    (!found.is_empty()).then(|| found.join("\n"))
}

/// The key or section that `word` is a slip of.
pub fn suggestion(word: &str) -> Option<String> {
    let paths: Vec<String> = KEYS.iter().map(Key::path).collect();
    let names = KEYS.iter().map(|key| key.name).chain(SECTIONS.iter().map(|section| section.name));
    super::faults::nearest(word, paths.iter().map(String::as_str).chain(names)).map(str::to_owned)
}

fn overview(wanted: impl Fn(&Key) -> bool) -> String {
    let rows: Vec<&Key> = KEYS.iter().filter(|key| wanted(key)).collect();
    let width = rows.iter().map(|key| key.path().len()).max().unwrap_or(0);
    rows.iter().map(|key| format!("{:width$}  {}\n", key.path(), key.kind.words())).collect()
}

fn paragraph(key: &Key) -> String {
    let change = effect_text(key).map_or_else(String::new, |text| format!("  a change    {text}\n"));
    format!(
        "{}\n\n{}\n\n  takes       {}\n  without it  {}\n  example     {}\n{change}",
        key.path(),
        wrapped(key.doc),
        key.kind.words(),
        absent_text(key).trim_matches('`'),
        key.example
    )
}

/// Longest line of a paragraph, in characters.
const LINE_CHARS_MAX: usize = 78;

fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > LINE_CHARS_MAX {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_explained_by_its_path_or_its_name() {
        let text = explain("site.durability").unwrap();
        assert!(text.starts_with("site.durability\n\nWhen an article counts as stored"), "{text}");
        assert!(text.contains("without it  \"interval(100ms)\"\n"), "{text}");
        assert_eq!(explain("durability").unwrap(), text);
        assert_eq!(explain("name").unwrap().matches("takes").count(), 3);
        assert!(explain("[[buffer]]").unwrap().contains("buffer.block"));
        assert!(explain("").unwrap().lines().count() == KEYS.len());
        assert_eq!(explain("durabilty"), None);
        assert_eq!(suggestion("durabilty").unwrap(), "durability");
    }

    #[test]
    fn paragraphs_are_wrapped_without_losing_a_word() {
        for key in KEYS {
            let lines = wrapped(key.doc);
            assert!(lines.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX), "{lines}");
            assert_eq!(
                lines.split_whitespace().collect::<Vec<_>>(),
                key.doc.split_whitespace().collect::<Vec<_>>()
            );
        }
    }
}
