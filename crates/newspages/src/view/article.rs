//! An article: as a page of its own, and among the others of its thread.

use maud::{Markup, html};

use super::{moment, text};
use crate::content::{ArticleContent, AttachedFile, TextBlock};
use crate::threads::base_subject;
use crate::{header, urls};

/// Surroundings of an article.
#[derive(Debug, Default)]
pub struct ArticlePage<'a> {
    /// Group in which it was found, for the way back, and its number there, for its place in the thread.
    pub place: Option<(&'a str, u64)>,
    /// Path of the form for a follow-up, if the reader may post.
    pub follow_up: Option<&'a str>,
    /// Path of the page with all of its text, if not all is shown.
    pub all: Option<&'a str>,
}

/// Place of an article in the page of its thread.
#[derive(Debug, Default)]
pub struct ThreadPlace<'a> {
    /// Article number.
    pub number: u64,
    /// Number of the article that is shown before it.
    pub previous: Option<u64>,
    /// Number of the article that is shown after it.
    pub next: Option<u64>,
    /// Title of the thread, which is not repeated.
    pub title: &'a str,
    /// True if the reader may answer.
    pub may_follow_up: bool,
}

/// Renders an article.
pub fn article(content: &ArticleContent, page: &ArticlePage<'_>) -> Markup {
    let head = &content.head;
    let id = head.message_id.as_deref().unwrap_or_default();
    html! {
        article {
            h1 dir="auto" { (subject(&head.subject)) }
            dl.head {
                dt { "From" } dd dir="auto" { (head.from) }
                dt { "Date" } dd { (date(content)) }
                @if !head.organization.is_empty() { dt { "Organization" } dd dir="auto" { (head.organization) } }
                dt { "Newsgroups" }
                dd { @for group in &head.groups { a href=(urls::group(group)) { (group) } " " } }
                @if !head.followup_to.is_empty() { dt { "Followup-To" } dd { (head.followup_to.join(", ")) } }
                @if let Some(above) = head.references.last() {
                    dt { "In reply to" } dd { a href=(urls::article(above)) { (above) } }
                }
                dt { "Message-ID" } dd { a href=(urls::article(id)) { (id) } }
                @if let Some(kind) = content.signed { dt { "Signed" } dd { (kind.words()) } }
            }
            p.ways {
                @if let Some(follow_up) = page.follow_up { a href=(follow_up) { "Follow up" } " " }
                @if let Some((group, number)) = page.place {
                    a href={ (urls::thread(group, id)) "#a" (number) } { "Thread" } " "
                }
                a href={ (urls::article(id)) "/raw" } { "Raw source" }
            }
            (blocks(content, id, page.all))
        }
    }
}

/// Renders an article among the others of its thread.
pub fn threaded(content: &ArticleContent, place: &ThreadPlace<'_>) -> Markup {
    let head = &content.head;
    let id = head.message_id.as_deref().unwrap_or_default();
    let is_renamed = base_subject(&head.subject).0 != base_subject(place.title).0;
    html! {
        article id={ "a" (place.number) } {
            details open {
                summary {
                    h2 { bdi { (header::author(&head.from)) } }
                    " " time { (date(content)) }
                }
                @if is_renamed { p.renamed dir="auto" { "Subject: " b { (subject(&head.subject)) } } }
                @if let Some(kind) = content.signed { p.quiet { "Signed: " (kind.words()) } }
                (blocks(content, id, Some(&urls::article(id))))
                p.ways {
                    @if place.may_follow_up { a href={ (urls::article(id)) "/follow-up" } { "Follow up" } " " }
                    a href=(urls::article(id)) { "Permanent link" } " "
                    a href={ (urls::article(id)) "/raw" } { "Raw source" } " "
                    @if let Some(number) = place.previous { a rel="prev" href={ "#a" (number) } { "Previous" } " " }
                    @if let Some(number) = place.next { a rel="next" href={ "#a" (number) } { "Next" } }
                }
            }
        }
    }
}

/// Renders the place of an article that is too large for the page of its thread, or is no longer here.
pub fn withheld(message_id: &str, number: u64, reason: &str) -> Markup {
    html! {
        article id={ "a" (number) } {
            p.note { (reason) " " a href=(urls::article(message_id)) { "Open it" } "." }
        }
    }
}

/// Renders the text of an article that is not filed; its files are named.
pub fn unfiled(content: &ArticleContent) -> Markup {
    html! {
        @for part in &content.blocks {
            @match part {
                TextBlock::File(at) => {
                    @if let Some(file) = content.files.get(*at) { p.file { (file.name) " (" (file.kind) ")" } }
                },
                part => (block(part, content, "")),
            }
        }
        @if content.is_cut || content.is_incomplete { p.note { "There is more of it than is shown here." } }
    }
}

fn subject(subject: &str) -> &str {
    if subject.is_empty() { "(no subject)" } else { subject }
}

fn date(content: &ArticleContent) -> String {
    match content.head.date {
        Some(secs) => format!("{} UTC", moment(Some(secs))),
        None => content.head.date_text.clone(),
    }
}

/// Renders the text and the files; `all` is the path of the page with all of them, if not all is shown.
fn blocks(content: &ArticleContent, id: &str, all: Option<&str>) -> Markup {
    html! {
        @for block in &content.blocks { (self::block(block, content, id)) }
        @if content.is_cut {
            p.note {
                "The text goes on. "
                @match all {
                    Some(all) => a href=(all) { "Show all" },
                    None => a href={ (urls::article(id)) "/raw" } { "All of it is in the raw source" },
                }
            }
        }
        @if content.is_incomplete {
            p.note { "It has more parts than are taken apart here; the raw source has all of them." }
        }
    }
}

fn block(block: &TextBlock, content: &ArticleContent, id: &str) -> Markup {
    match block {
        TextBlock::Text(lines) => text::lines(lines),
        TextBlock::Quote(lines) => text::quotation(lines),
        TextBlock::Signature(lines) => {
            let lines: Vec<&str> = std::iter::once("-- ").chain(lines.iter().map(String::as_str)).collect();
            html! { div.signature { (text::lines(&lines)) } }
        }
        TextBlock::Armour(lines) => html! {
            details { summary { "PGP signature" } (text::lines(lines)) }
        },
        TextBlock::File(at) => {
            content.files.get(*at).map_or_else(Markup::default, |file| self::file(file, id, at + 1))
        }
        TextBlock::Message([from, subject, date]) => html! {
            p.note dir="auto" { "A message within the message: " b { (subject) } ", " (header::author(from)) ", " (date) }
        },
        TextBlock::FromHtml => html! { p.note { "This was HTML; here is its text." } },
    }
}

fn file(file: &AttachedFile, id: &str, number: usize) -> Markup {
    let place = urls::file(id, number, &file.name);
    html! {
        div.file {
            a href=(place) download=(file.name) { (file.name) }
            " (" (file.kind) ", about " (size(file.bytes))
            @if let Some((part, total)) = file.part {
                ", part " (part) @if total > 0 { " of " (total) }
            }
            ")"
            @if file.may_be_image() {
                // The picture is fetched once its frame is opened.
                details.image {
                    summary { "Show the picture" }
                    img src={ (place) "?show=1" } alt=(file.name) loading="lazy";
                }
            }
        }
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} bytes"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
