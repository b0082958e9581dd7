//! The page of an article.

use maud::{Markup, html};

use super::{moment, text};
use crate::content::{ArticleContent, AttachedFile, TextBlock};
use crate::{header, urls};

/// Surroundings of an article.
#[derive(Debug, Default)]
pub struct ArticlePage<'a> {
    /// Group in which it was found, for the way back and its thread.
    pub group: Option<&'a str>,
    /// Path of the form for a follow-up, if the reader may post.
    pub follow_up: Option<&'a str>,
    /// Path of the page with all of its text, if not all is shown.
    pub all: Option<&'a str>,
}

/// Renders an article.
pub fn article(content: &ArticleContent, page: &ArticlePage<'_>) -> Markup {
    let head = &content.head;
    let id = head.message_id.as_deref().unwrap_or_default();
    html! {
        article {
            h1 dir="auto" { @if head.subject.is_empty() { "(no subject)" } @else { (head.subject) } }
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
            }
            p.ways {
                @if let Some(follow_up) = page.follow_up { a href=(follow_up) { "Follow up" } " " }
                @if let Some(group) = page.group { a href=(urls::thread(group, id)) { "Thread" } " " }
                a href={ (urls::article(id)) "/raw" } { "Raw source" }
            }
            @for block in &content.blocks { (self::block(block, content, id)) }
            @if content.is_cut {
                p.note {
                    "The text goes on. "
                    @match page.all {
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
}

fn date(content: &ArticleContent) -> String {
    match content.head.date {
        Some(secs) => format!("{} UTC", moment(secs)),
        None => content.head.date_text.clone(),
    }
}

fn block(block: &TextBlock, content: &ArticleContent, id: &str) -> Markup {
    match block {
        TextBlock::Text(lines) => html! { div.text dir="auto" { (text::lines(lines)) } },
        TextBlock::Quote(lines) => html! { div.text dir="auto" { (text::quotation(lines)) } },
        TextBlock::Signature(lines) => {
            html! { div.text.signature dir="auto" { "-- \n" (text::lines(lines)) } }
        }
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
    html! {
        p.file {
            a href=(urls::file(id, number, &file.name)) download=(file.name) { (file.name) }
            " (" (file.kind) ", about " (size(file.bytes))
            @if let Some((part, total)) = file.part {
                ", part " (part) @if total > 0 { " of " (total) }
            }
            ")"
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
