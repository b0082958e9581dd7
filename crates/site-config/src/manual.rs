//! The manual of the configuration, generated from the table of keys: `newsreel explain-config`,
//! `docs/config.md` and newsreel.toml(5).

use std::fmt::Write as _;

use roff::{Inline, Roff, bold, roman};
use textwrap::{Options, WordSeparator, WordSplitter};

use super::table::{ConfigKey, ConfigSection, KeyOwner, ReloadEffect, SECTIONS, keys, section};

/// Description of the file and of reloads: a heading, and paragraphs with an empty line between.
const INTRODUCTION: &str = include_str!("manual.txt");
/// Further text for the page in `docs` only.
const ON_THE_PAGE: &str = include_str!("manual-more.txt");

/// Returns `docs/config.md`: an introduction, the contents, and every section with its keys.
pub fn markdown() -> String {
    let mut out = [INTRODUCTION, ON_THE_PAGE].concat();
    for section in SECTIONS.iter() {
        let (title, about) = (section.brackets(), first_sentence(&section.doc));
        let anchor = section.name.replace('.', "");
        let _ = writeln!(out, "- [`{title}`](#{anchor}): {about}");
    }
    for section in SECTIONS.iter() {
        let (title, effect, owner) =
            (section.brackets(), effect_of_section(section), owner_of_section(section));
        let _ = write!(out, "\n## {title}\n\n{}\n\n{effect} {owner}\n", section.doc);
        for key in &section.keys {
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n- type: {}\n- default: {}\n- example: `{}`\n{}- of: {}\n",
                key.path(),
                key.doc,
                key.takes,
                absent_text(key),
                key.example,
                effect_text(key).map_or_else(String::new, |text| format!("- changes: {text}\n")),
                owner_text(key),
            );
        }
    }
    out
}

/// Returns newsreel.toml(5) with a date.
pub fn man_page(date: &str) -> String {
    let mut page = Roff::new();
    let version = concat!("newsreel ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["newsreel.toml", "5", date, version, "Usenet server"]);
    page.control("SH", ["NAME"])
        .text([roman("newsreel.toml - configuration of newsreel, the Usenet server")]);
    page.control("SH", ["DESCRIPTION"]);
    let paragraphs = INTRODUCTION.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    for paragraph in paragraphs.filter(|text| !text.starts_with('#')) {
        page.text(inlines(&paragraph.replace('\n', " "))).control("PP", []);
    }
    page.text([roman("The file has these sections.")]);
    for section in SECTIONS.iter() {
        page.control("SH", [section.brackets().as_str()]).text(inlines(&section.doc));
        page.control("PP", []).text(inlines(&effect_of_section(section)));
        page.control("PP", []).text([roman(owner_of_section(section))]);
        for key in &section.keys {
            page.control("TP", []).text([bold(key.name)]).text(inlines(&key.doc));
            let mut fact = |name: &str, text: Vec<Inline>| {
                let head = [roman(format!("{name}: "))].into_iter();
                page.control("br", []).text(head.chain(text).collect::<Vec<_>>());
            };
            fact("type", inlines(&key.takes));
            fact("default", inlines(&absent_text(key)));
            fact("example", vec![bold(key.example.as_str())]);
            if let Some(text) = effect_text(key) {
                fact("changes", inlines(&text));
            }
            fact("of", vec![roman(owner_text(key))]);
        }
    }
    page.control("SH", ["SEE ALSO"]).text([
        bold("newsreel"),
        roman("(1), "),
        bold("newsreel-check"),
        roman("(1), "),
        bold("newsreel-explain-config"),
        roman("(1)"),
    ]);
    page.render()
}

/// Makes text between backticks bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate().filter(|(_, part)| !part.is_empty());
    parts.map(|(at, part)| if at % 2 == 0 { roman(part) } else { bold(part) }).collect()
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or_default().trim_end()
}

/// Returns when changes of a section take effect.
fn effect_of_section(section: &ConfigSection) -> String {
    let others = section.keys.iter().filter(|key| effect_text(key).is_some());
    let others: Vec<&str> = others.map(ConfigKey::word).collect();
    match others.as_slice() {
        [] => "Changes take effect when the file is reloaded.".into(),
        others => {
            format!("Changes take effect when the file is reloaded, except those of {}.", others.join(", "))
        }
    }
}

/// Returns when changes of a key take effect, if a reload does not simply apply them.
fn effect_text(key: &ConfigKey) -> Option<String> {
    match key.effect {
        ReloadEffect::Reload => None,
        ReloadEffect::Restart => Some("take effect at the next start".into()),
        ReloadEffect::Refused(instead) => Some(format!("are refused by a reload; {instead}")),
    }
}

/// Returns which keys of a section describe one machine.
fn owner_of_section(section: &ConfigSection) -> String {
    let own = section.keys.iter().filter(|key| key.owner == KeyOwner::Machine);
    let own: Vec<&str> = own.map(ConfigKey::word).collect();
    match own.as_slice() {
        [] => "All keys are the site's.".into(),
        all if all.len() == section.keys.len() => "All keys are the machine's.".into(),
        own => format!("All keys are the site's, except the machine's: {}.", own.join(", ")),
    }
}

/// Returns what a key describes.
fn owner_text(key: &ConfigKey) -> &'static str {
    match key.owner {
        KeyOwner::Site => "the site",
        KeyOwner::Machine => "the machine",
    }
}

fn absent_text(key: &ConfigKey) -> String {
    key.default.as_ref().map_or_else(|| key.absent.to_owned(), |value| format!("`{value}`"))
}

/// Returns the paragraphs on `word`: a key (`site.listen` or `listen`), a section, or, if it is empty,
/// everything in one line each. `None` if it is unknown; see [`suggestion`].
pub fn explain(word: &str) -> Option<String> {
    if word.is_empty() {
        return Some(overview(|_| true));
    }
    let bare = word.trim_matches(|c| c == '[' || c == ']');
    if let Some(section) = section(bare) {
        let is_its = |key: &ConfigKey| section.keys.iter().any(|its| its.path() == key.path());
        return Some(format!("{}\n\n{}", wrapped(&section.doc), overview(is_its)));
    }
    let found: Vec<String> =
        keys().filter(|key| key.path() == bare || key.word() == bare).map(paragraph).collect();
    (!found.is_empty()).then(|| found.join("\n"))
}

/// Returns the paths of the keys with this name, such as `site.listen` and `web.listen` for `listen`.
pub fn paths_of(name: &str) -> Vec<String> {
    keys().filter(|key| key.word() == name).map(ConfigKey::path).collect()
}

/// Returns the key or section that `word` is probably a misspelling of.
pub fn suggestion(word: &str) -> Option<String> {
    let paths: Vec<String> = keys().map(ConfigKey::path).collect();
    let names = keys().map(|key| key.word()).chain(SECTIONS.iter().map(|section| section.name));
    super::faults::nearest(word, paths.iter().map(String::as_str).chain(names)).map(str::to_owned)
}

fn overview(wanted: impl Fn(&ConfigKey) -> bool) -> String {
    let rows: Vec<&ConfigKey> = keys().filter(|key| wanted(key)).collect();
    let width = rows.iter().map(|key| key.path().len()).max().unwrap_or(0);
    rows.iter().map(|key| format!("{:width$}  {}\n", key.path(), key.takes)).collect()
}

fn paragraph(key: &ConfigKey) -> String {
    let change = effect_text(key).map_or_else(String::new, |text| format!("  changes  {text}\n"));
    format!(
        "{}\n\n{}\n\n  type     {}\n  default  {}\n  example  {}\n{change}  of       {}\n",
        key.path(),
        wrapped(&key.doc),
        key.takes,
        absent_text(key).trim_matches('`'),
        key.example,
        owner_text(key)
    )
}

/// Longest line of a paragraph, in characters.
const LINE_CHARS_MAX: usize = 78;

fn wrapped(text: &str) -> String {
    let options = Options::new(LINE_CHARS_MAX).word_separator(WordSeparator::AsciiSpace);
    textwrap::fill(text, options.word_splitter(WordSplitter::NoHyphenation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_explained_by_its_path_or_its_name() {
        let text = explain("site.durability").unwrap();
        assert!(text.starts_with("site.durability\n\nWhen an article counts as stored"), "{text}");
        assert!(text.contains("  default  \"interval(100ms)\"\n"), "{text}");
        assert_eq!(explain("durability").unwrap(), text);
        assert_eq!(explain("name").unwrap().matches("  type  ").count(), 11);
        assert!(text.ends_with("  of       the machine\n"), "{text}");
        assert!(explain("remember_days").unwrap().ends_with("  of       the site\n"));
        assert!(explain("[[buffer]]").unwrap().contains("buffer.block"));
        assert!(explain("").unwrap().lines().count() == keys().count());
        assert_eq!(explain("durabilty"), None);
        assert_eq!(suggestion("durabilty").unwrap(), "durability");
    }

    #[test]
    fn paragraphs_are_wrapped_without_losing_a_word() {
        for key in keys() {
            let lines = wrapped(&key.doc);
            assert!(lines.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX), "{lines}");
            assert_eq!(
                lines.split_whitespace().collect::<Vec<_>>(),
                key.doc.split_whitespace().collect::<Vec<_>>()
            );
        }
    }
}
