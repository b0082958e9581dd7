//! The documents as HTML pages, as packages have them: `tidy --html DIR`.
//!
//! Each page stays where it is in the tree, with another ending; README.md is also the first page. Links are
//! rewritten to the pages and to the files that are copied with them; what a package does not have, such as
//! source, is named without a link. A link that leads nowhere in the tree is a finding. Called by `main`;
//! pages are CommonMark with tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::finding::Finding;

/// Pages of the root.
const PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
/// Directories whose pages are taken, and whose other files are copied if a page links to them.
const DIRS: [&str; 2] = ["docs", "packaging"];
/// The first page.
const INDEX: &str = "index.html";
/// The book's list of chapters, in their order.
const CHAPTERS: &str = "docs/book/src/SUMMARY.md";
/// Links at the top of each page.
const TOP: [(&str, &str); 4] = [
    ("newsreel", "README.md"),
    ("Book", CHAPTERS),
    ("Configuration", "docs/config.md"),
    ("Changes", "CHANGELOG.md"),
];
const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:48rem;margin:0 auto;padding:0 1rem 3rem}\
    nav{border-bottom:1px solid #8886;margin-bottom:1.5rem}nav a{display:inline-block;padding:.75rem .75rem .75rem 0}\
    pre{overflow-x:auto;padding:.75rem;background:#8881}code{font-family:ui-monospace,monospace;font-size:.9em}\
    table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #8886;padding:.25rem .5rem;\
    text-align:left;vertical-align:top}img{max-width:100%}:root{color-scheme:light dark}";

/// All pages and their anchors.
#[derive(Debug)]
pub struct Handbook {
    root: PathBuf,
    /// Text of each page.
    pages: BTreeMap<String, String>,
    /// Anchors of each page.
    anchors: BTreeMap<String, BTreeSet<String>>,
}

/// The pages as they are written.
#[derive(Debug, Default)]
struct Rendered {
    /// Path and HTML of each page.
    pages: Vec<(String, String)>,
    /// Files that pages link to.
    files: BTreeSet<String>,
    findings: Vec<Finding>,
}

/// Reason why a link leads nowhere.
struct DeadLink(String);

impl Handbook {
    /// Reads the pages below a root.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut paths: Vec<PathBuf> = PAGES.iter().map(PathBuf::from).collect();
        for dir in DIRS {
            collect(root, Path::new(dir), &mut paths)?;
        }
        let mut pages = BTreeMap::new();
        for path in paths {
            pages.insert(path.to_string_lossy().into_owned(), fs::read_to_string(root.join(&path))?);
        }
        let anchors =
            pages.iter().map(|(path, text)| (path.clone(), slugs(text).into_iter().collect())).collect();
        Ok(Self { root: root.to_owned(), pages, anchors })
    }

    /// Returns a finding for each link that leads nowhere.
    pub fn findings(&self) -> Vec<Finding> {
        self.rendered().findings
    }

    /// Writes the pages, and the files that they link to, below a directory. Returns their number.
    pub fn write(&self, out: &Path) -> io::Result<usize> {
        let rendered = self.rendered();
        let create = |path: &str| {
            let file = out.join(path);
            file.parent().map_or(Ok(()), fs::create_dir_all).map(|()| file)
        };
        for (path, html) in &rendered.pages {
            fs::write(create(path)?, html)?;
        }
        for path in &rendered.files {
            fs::copy(self.root.join(path), create(path)?)?;
        }
        Ok(rendered.pages.len())
    }

    fn rendered(&self) -> Rendered {
        let mut rendered = Rendered::default();
        for (path, text) in &self.pages {
            let html = self.page(path, text, &mut rendered);
            rendered.pages.push((page_path(path), html));
        }
        rendered
    }

    fn page(&self, path: &str, text: &str, rendered: &mut Rendered) -> String {
        let mut ids = slugs(text).into_iter();
        let mut is_linked = Vec::new();
        let mut title = None;
        let mut in_title = false;
        let parser = Parser::new_ext(text, OPTIONS).into_offset_iter();
        let events = parser.filter_map(|(event, place)| {
            let target = |link: &str, rendered: &mut Rendered| {
                let found = self.target(path, link, rendered);
                found.unwrap_or_else(|DeadLink(what)| {
                    let line = text.get(..place.start).unwrap_or_default().matches('\n').count() + 1;
                    rendered.findings.push(Finding::new(path, line, what));
                    None
                })
            };
            match event {
                Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                    in_title = title.is_none() && level == HeadingLevel::H1;
                    Some(Event::Start(Tag::Heading { level, id: ids.next().map(Into::into), classes, attrs }))
                }
                Event::End(TagEnd::Heading(_)) => {
                    in_title = false;
                    Some(event)
                }
                Event::Text(words) | Event::Code(words) if in_title => {
                    title.get_or_insert_with(String::new).push_str(&words);
                    Some(Event::Text(words))
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let target = target(&dest_url, rendered);
                    is_linked.push(target.is_some());
                    target.map(|to| Event::Start(Tag::Link { link_type, dest_url: to.into(), title, id }))
                }
                Event::End(TagEnd::Link) => is_linked.pop().unwrap_or_default().then_some(event),
                Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                    let to = target(&dest_url, rendered).unwrap_or_default();
                    Some(Event::Start(Tag::Image { link_type, dest_url: to.into(), title, id }))
                }
                other => Some(other),
            }
        });
        let mut body = String::new();
        html::push_html(&mut body, events);
        let links = |links: Vec<(&str, String)>| -> String {
            links.iter().map(|(name, to)| format!("<a href=\"{to}\">{name}</a> ")).collect()
        };
        let top = TOP.map(|(name, to)| (name, relative(path, &page_path(to)))).to_vec();
        let foot = links(self.neighbours(path));
        let foot = if foot.is_empty() { foot } else { format!("<nav>{foot}</nav>\n") };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             <nav>{}</nav>\n<main>\n{body}</main>\n{foot}</html>\n",
            title.as_deref().unwrap_or("newsreel"),
            links(top)
        )
    }

    /// Returns the links to the chapters before and after one of the book.
    fn neighbours(&self, path: &str) -> Vec<(&'static str, String)> {
        let Some(list) = self.pages.get(CHAPTERS) else { return Vec::new() };
        let dir = CHAPTERS.rsplit_once('/').map_or("", |(dir, _)| dir);
        let names = list.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let chapters: Vec<String> = names.map(|name| format!("{dir}/{name}")).collect();
        let Some(at) = chapters.iter().position(|chapter| chapter == path) else { return Vec::new() };
        let before = at.checked_sub(1).and_then(|before| chapters.get(before));
        let link = |name, to: &String| (name, relative(path, &page_path(to)));
        let before = before.map(|to| link("Previous chapter", to));
        let after = chapters.get(at + 1).map(|to| link("Next chapter", to));
        before.into_iter().chain(after).collect()
    }

    /// Returns where a link leads in the pages; `None` for what a package does not have. An error is the
    /// reason why it leads nowhere.
    fn target(&self, page: &str, link: &str, rendered: &mut Rendered) -> Result<Option<String>, DeadLink> {
        if link.contains("://") || link.starts_with("mailto:") {
            return Ok(Some(link.to_owned()));
        }
        let (name, anchor) = link.split_once('#').map_or((link, None), |(name, anchor)| (name, Some(anchor)));
        let path = match name {
            "" => page.to_owned(),
            name => joined(page, name).ok_or_else(|| DeadLink(format!("the link {link} leaves the tree")))?,
        };
        let of_dir = format!("{path}/README.md");
        let path = if self.pages.contains_key(&of_dir) { of_dir } else { path };
        if let Some(anchors) = self.anchors.get(&path) {
            let Some(anchor) = anchor else { return Ok(Some(relative(page, &page_path(&path)))) };
            return match anchors.contains(anchor) {
                true if path == page => Ok(Some(format!("#{anchor}"))),
                true => Ok(Some(format!("{}#{anchor}", relative(page, &page_path(&path))))),
                false => Err(DeadLink(format!("the link {link} names a heading that is not there"))),
            };
        }
        let file = self.root.join(&path);
        if !file.exists() {
            return Err(DeadLink(format!("the link {link} leads nowhere")));
        }
        if !file.is_file() || !DIRS.iter().any(|dir| path.starts_with(&format!("{dir}/"))) {
            return Ok(None);
        }
        let to = relative(page, &path);
        rendered.files.insert(path);
        Ok(Some(to))
    }
}

const OPTIONS: Options = Options::ENABLE_TABLES;

/// Collects the pages below a directory.
fn collect(root: &Path, dir: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, paths)?;
        } else if path.extension().is_some_and(|ending| ending == "md") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the path of a page's HTML.
fn page_path(path: &str) -> String {
    match path.strip_suffix(".md") {
        Some("README") => INDEX.to_owned(),
        Some(bare) => format!("{bare}.html"),
        None => path.to_owned(),
    }
}

/// Returns the path that a relative link names; `None` if it is outside of the tree.
fn joined(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => _ = parts.pop()?,
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// Returns the link from a page to a path, both below the root.
fn relative(page: &str, to: &str) -> String {
    let dir: Vec<&str> = page.split('/').collect();
    let dir = dir.split_last().map_or(&[][..], |(_, dir)| dir);
    let to: Vec<&str> = to.split('/').collect();
    let common = dir.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..", dir.len() - common);
    up.chain(to.iter().skip(common).copied()).collect::<Vec<_>>().join("/")
}

/// Returns the anchors of a page's headings, in their order, as repositories on the web make them.
fn slugs(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut words = None;
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Start(Tag::Heading { .. }) => words = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(words) = &mut words {
                    words.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&words.take().unwrap_or_default());
                let before = all.iter().filter(|other| **other == slug).count();
                all.push(if before == 0 { slug } else { format!("{slug}-{before}") });
            }
            _ => {}
        }
    }
    all
}

fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handbook(pages: &[(&str, &str)]) -> Handbook {
        let pages: BTreeMap<String, String> =
            pages.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let anchors =
            pages.iter().map(|(path, text)| (path.clone(), slugs(text).into_iter().collect())).collect();
        Handbook { root: Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), pages, anchors }
    }

    #[test]
    fn links_lead_to_pages_and_files_that_are_shipped() {
        let docs = handbook(&[
            (
                "README.md",
                "# A\n\n[w](docs/web.md#see-also) [c](crates/tidy) [x](docs/examples/relay.toml)\n",
            ),
            ("docs/web.md", "# W\n\n## See also\n\n[back](../README.md) [here](#see-also)\n"),
        ]);
        let rendered = docs.rendered();
        assert!(rendered.findings.is_empty(), "{:?}", rendered.findings);
        let [(index, first), (_, second)] = rendered.pages.as_slice() else { panic!() };
        assert_eq!(index, "index.html");
        let expected =
            "<a href=\"docs/web.html#see-also\">w</a> c <a href=\"docs/examples/relay.toml\">x</a>";
        assert!(first.contains(expected), "{first}");
        assert!(
            second.contains("<a href=\"../index.html\">back</a> <a href=\"#see-also\">here</a>"),
            "{second}"
        );
        assert!(second.contains("<h2 id=\"see-also\">") && second.contains("<title>W</title>"), "{second}");
        assert_eq!(rendered.files.iter().collect::<Vec<_>>(), ["docs/examples/relay.toml"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "# A\n\n[w](docs/none.md)\n[h](#nothing)\n[up](../../x.md)\n";
        let found: Vec<String> =
            handbook(&[("README.md", page)]).findings().iter().map(ToString::to_string).collect();
        let expected = [
            "README.md:3: the link docs/none.md leads nowhere",
            "README.md:4: the link #nothing names a heading that is not there",
            "README.md:5: the link ../../x.md leaves the tree",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn headings_have_the_anchors_of_repositories() {
        let text = "# [peer.send]\n\n## `site.listen`\n\n## Who may see what\n\n## Who may see what\n";
        assert_eq!(slugs(text), ["peersend", "sitelisten", "who-may-see-what", "who-may-see-what-1"]);
    }
}
