//! Posting articles and follow-ups, for those who may.
//!
//! The text becomes a proto-article like one that comes by POST, and takes the same path: the injecting agent
//! checks and completes it. A form comes with its token (`form`).

use super::NewsPages;
use crate::form::FormSubmission;
use crate::page::form_token;
use crate::visitor::Visitor;
use crate::{WebState, answers};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use netnews::encoded_word::encode;
use netnews::nntp::wire::dot_stuff;
use newspages::content::{self, ArticleContent, SHOWN_BYTES};
use newspages::threads::base_subject;
use newspages::urls;
use std::sync::Arc;
use upstreams::ArticlePart;

/// Maximum length of a form with an article, in bytes.
const FORM_BYTES_MAX: usize = 512 << 10;
/// Maximum length of a header taken from a form, in bytes.
const FIELD_BYTES_MAX: usize = 400;
/// Maximum length of the References of a follow-up, in bytes.
const REFERENCES_BYTES_MAX: usize = 900;
/// Number of references that a follow-up keeps in addition to the first, so that the header stays short (RFC
/// 5537 section 3.4.4).
const REFERENCES_KEPT: usize = 20;

/// An article that is being written.
#[derive(Debug, Default)]
struct ArticleDraft {
    groups: String,
    references: String,
    from: String,
    subject: String,
    body: String,
}

impl ArticleDraft {
    /// Returns the draft in a form, and the reason why it cannot be accepted, if any.
    fn of(form: &FormSubmission) -> (Self, Option<&'static str>) {
        let field = |name: &str| form.field(name).trim().to_owned();
        let draft = Self {
            groups: field("groups"),
            references: field("references"),
            from: field("from"),
            subject: field("subject"),
            body: form.field("body").to_owned(),
        };
        let fields = [&draft.groups, &draft.from, &draft.subject];
        let has_lines = |text: &str| text.chars().any(char::is_control);
        let is_long = fields.iter().any(|field| field.len() > FIELD_BYTES_MAX);
        let problem = if has_lines(&draft.references) || fields.iter().any(|field| has_lines(field)) {
            Some("A header has one line.")
        } else if is_long || draft.references.len() > REFERENCES_BYTES_MAX {
            Some("A header is too long.")
        } else {
            None
        };
        (draft, problem)
    }

    /// Returns the proto-article, in wire format without the final `.` line.
    fn wire(&self) -> Vec<u8> {
        let mut head = String::new();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        };
        add("From", &mailbox(&self.from));
        add("Newsgroups", &self.groups.replace(' ', ""));
        add("Subject", &encode(&self.subject));
        add("References", &self.references);
        add("User-Agent", concat!("newsreel/", env!("CARGO_PKG_VERSION")));
        add("MIME-Version", "1.0");
        add("Content-Type", "text/plain; charset=utf-8");
        add("Content-Transfer-Encoding", "8bit");
        let mut wire = Vec::new();
        dot_stuff(format!("{head}\r\n{}", self.body).as_bytes(), &mut wire);
        wire
    }
}

/// Returns a mailbox with its name encoded if necessary.
fn mailbox(from: &str) -> String {
    match from.rfind('<').filter(|_| from.ends_with('>')).and_then(|at| from.split_at_checked(at)) {
        Some((name, address)) if !name.is_ascii() => format!("{} {address}", encode(name.trim())),
        _ => from.to_owned(),
    }
}

/// Shows an empty form for a group.
pub(super) async fn article_form(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &format!("{}/write", urls::group(&name)))?;
    reading.group(&name).await?;
    if !reading.may_post(&name) {
        return Err(reading.problem(StatusCode::FORBIDDEN, "You may not post to this group."));
    }
    let draft = ArticleDraft { groups: name, ..ArticleDraft::default() };
    Ok(reading.form(&draft, StatusCode::OK, None))
}

/// Shows a form for a follow-up.
pub(super) async fn follow_up_form(
    State(shared): State<Arc<WebState>>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Result<Response, Response> {
    let reading = NewsPages::begin(&shared, &visitor, &format!("{}/follow-up", urls::article(&id)))?;
    let found = reading.article(&id, ArticlePart::Article).await?;
    let render = |wire: &[u8]| {
        let content = ArticleContent::of(wire, SHOWN_BYTES);
        let body = content::quoted(&content);
        (content.head, body)
    };
    let ((head, body), _memory) = reading.render_article(found, 2, 2 * SHOWN_BYTES, render).await?;
    if head.followup_to.iter().any(|group| group.eq_ignore_ascii_case("poster")) {
        let words = format!("Its author asks for answers by mail: {}", head.from);
        return Ok(reading.page("Follow up", &html! { p { (words) } }));
    }
    let groups = if head.followup_to.is_empty() { &head.groups } else { &head.followup_to };
    if !groups.iter().any(|group| reading.may_post(group)) {
        let words = "You may not post to the groups of this article.";
        return Err(reading.problem(StatusCode::FORBIDDEN, words));
    }
    let (subject, _) = base_subject(&head.subject);
    let draft = ArticleDraft {
        groups: groups.join(","),
        references: references(&head.references, &format!("<{}>", urls::bare_id(&id))),
        from: String::new(),
        subject: format!("Re: {subject}"),
        body,
    };
    Ok(reading.form(&draft, StatusCode::OK, None))
}

/// Returns the References of a follow-up: the first, and the last ones.
fn references(above: &[String], id: &str) -> String {
    let mut kept: Vec<&str> = above.iter().map(String::as_str).collect();
    if kept.len() > REFERENCES_KEPT {
        kept.drain(1..kept.len() - REFERENCES_KEPT);
    }
    kept.push(id);
    while kept.iter().map(|id| id.len() + 1).sum::<usize>() > REFERENCES_BYTES_MAX && kept.len() > 2 {
        kept.remove(1);
    }
    kept.join(" ")
}

/// Posts the article in a form.
pub(super) async fn send(
    State(shared): State<Arc<WebState>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Response> {
    let form = FormSubmission::read(request, &shared, FORM_BYTES_MAX).await?;
    let reading = NewsPages::begin(&shared, &form.visitor, &format!("{}/write", urls::group(&name)))?;
    let (draft, problem) = ArticleDraft::of(&form);
    if let Some(problem) = problem {
        return Err(reading.form(&draft, StatusCode::BAD_REQUEST, Some(problem)));
    }
    let Some(server) = shared.server.upgrade() else {
        return Err(answers::text(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping."));
    };
    let client = form.visitor.client();
    let poster = client.poster().filter(|_| client.may_post());
    let mut answer = Vec::new();
    server.context.injector.post(&server.site, poster, &draft.wire(), &mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let (code, words) = answer.trim_end().split_once(' ').unwrap_or_default();
    if code != "240" {
        return Err(reading.form(&draft, StatusCode::UNPROCESSABLE_ENTITY, Some(words)));
    }
    match words.strip_prefix("Article received OK ").filter(|id| id.starts_with('<')) {
        Some(id) => Ok(answers::gone_to(&urls::article(id))),
        None => {
            let back = urls::group(&name);
            Ok(reading.page("Sent", &html! { p { (words) } p { a href=(back) { "Back to " (name) } } }))
        }
    }
}

impl NewsPages<'_> {
    fn form(&self, draft: &ArticleDraft, status: StatusCode, problem: Option<&str>) -> Response {
        let group = draft.groups.split(',').next().unwrap_or_default().trim();
        let title = if draft.references.is_empty() { "Write an article" } else { "Follow up" };
        let body = html! {
            h1 { (title) }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            form.stacked.write method="post" action={ (urls::group(group)) "/write" } {
                (form_token(self.shared, self.visitor))
                input type="hidden" name="references" value=(draft.references);
                (field("from", "From", &draft.from, "Your Name <you@example.org>"))
                (field("groups", "Newsgroups", &draft.groups, ""))
                (field("subject", "Subject", &draft.subject, ""))
                label for="body" { "Text" }
                textarea #body name="body" rows="20" required { "\n" (draft.body) }
                button type="submit" { "Send" }
            }
        };
        self.page_with(title, None, status, &body)
    }
}

fn field(name: &str, label: &str, value: &str, hint: &str) -> Markup {
    html! {
        label for=(name) { (label) }
        input id=(name) name=(name) type="text" value=(value) placeholder=(hint)
            maxlength=(FIELD_BYTES_MAX) required;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netnews::Article;

    #[test]
    fn a_draft_becomes_a_proto_article() {
        let draft = ArticleDraft {
            groups: "a.b, c.d".into(),
            references: "<1@x>".into(),
            from: "J\u{fc}rgen <j@x.example>".into(),
            subject: "Gr\u{fc}\u{df}e".into(),
            body: ".dot\r\nend".into(),
        };
        let wire = draft.wire();
        let article = Article::parse(&wire).unwrap();
        let get = |name: &[u8]| {
            let value = article.headers().find(|(own, _)| own.eq_ignore_ascii_case(name)).unwrap().1;
            newspages::header::text(value)
        };
        assert_eq!(get(b"From"), "J\u{fc}rgen <j@x.example>");
        assert_eq!(get(b"Subject"), "Gr\u{fc}\u{df}e");
        assert_eq!(get(b"Newsgroups"), "a.b,c.d");
        assert!(article.head().is_ascii() && article.body() == b"..dot\r\nend\r\n");
    }

    #[test]
    fn references_stay_short_and_keep_the_first() {
        let above: Vec<String> = (0..100).map(|n| format!("<{n}@{}>", "x".repeat(40))).collect();
        let kept = references(&above, "<id@x>");
        assert!(kept.starts_with("<0@") && kept.ends_with(" <id@x>") && kept.len() <= REFERENCES_BYTES_MAX);
        assert_eq!(references(&[], "<id@x>"), "<id@x>");
    }
}
