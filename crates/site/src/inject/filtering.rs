//! Filters that judge posts, as they are completed.
//!
//! A filter may refuse a post, discard it silently, choose how it is filed, or replace its headers, as INN's
//! filter_nnrpd.pl does. Headers that decide where the post goes and who its poster is stay. Called by
//! `inject`.

use super::poster::Poster;
use super::refusal::PostRefusal;
use ingest::Opinion;
use ingest::programs::{FilterPrograms, FilterRequest, ProgramVerdict, RunningFilter};
use netnews::{Article, Known, newsgroups};
use site_config::FilterStage;
use tracing::warn;

/// Headers that no filter changes: poster and destinations have been checked by them.
const FIXED: [Known; 8] = [
    Known::MessageId,
    Known::Newsgroups,
    Known::Path,
    Known::Approved,
    Known::Control,
    Known::Supersedes,
    Known::InjectionInfo,
    Known::CancelLock,
];

/// A post that filters have judged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JudgedPost {
    /// The complete article.
    pub wire: Vec<u8>,
    /// The opinion of the deciding filter.
    pub opinion: Opinion,
    /// Name of that filter.
    pub by: String,
    /// The post is discarded.
    pub is_dropped: bool,
}

impl JudgedPost {
    /// A post that filters have judged before.
    pub fn passed(wire: Vec<u8>) -> Self {
        Self { wire, opinion: Opinion::Pass, by: String::new(), is_dropped: false }
    }
}

/// Lets the filters judge a complete post. The first one with an opinion decides.
pub(super) fn judge(
    filters: &FilterPrograms,
    poster: &Poster<'_>,
    wire: Vec<u8>,
) -> Result<JudgedPost, PostRefusal> {
    let names = match filters.judging(FilterStage::Post).next() {
        Some(_) => newsgroups_of(&wire),
        None => Vec::new(),
    };
    let mut judged = JudgedPost::passed(wire);
    for program in filters.judging(FilterStage::Post).filter(|program| is_shown(program, &names)) {
        let mut request = FilterRequest::new("post");
        request
            .push(format_args!("{} {}", poster.address_text, poster.user.unwrap_or_default()), &judged.wire);
        let Some(answer) = program.ask(request).pop() else {
            if program.defers() { return Err(PostRefusal::Unjudged) } else { continue }
        };
        if let Some(headers) = answer.headers {
            match with_headers(&judged.wire, &headers) {
                Some(changed) => judged.wire = changed,
                None => warn!(
                    filter = program.section.name,
                    "headers of a filter are not used: they are malformed, or change what must not be changed"
                ),
            }
        }
        match answer.verdict {
            ProgramVerdict::Pass => continue,
            ProgramVerdict::Reject(reason) => {
                return Err(PostRefusal::Rejected(ingest::Reject::by_filter(&reason)));
            }
            ProgramVerdict::Fail(_) if program.defers() => return Err(PostRefusal::Unjudged),
            ProgramVerdict::Fail(_) => continue,
            ProgramVerdict::Drop => judged.is_dropped = true,
            ProgramVerdict::Keep => judged.opinion = Opinion::Keep,
            ProgramVerdict::Class(class) => judged.opinion = Opinion::Verdict(class.into()),
            ProgramVerdict::Aside => judged.opinion = Opinion::Aside(program.section.aside.as_str().into()),
        }
        judged.by.clone_from(&program.section.name);
        break;
    }
    Ok(judged)
}

fn newsgroups_of(wire: &[u8]) -> Vec<u8> {
    let article = Article::parse(wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::Newsgroups));
    value.unwrap_or_default().to_vec()
}

fn is_shown(program: &RunningFilter, names: &[u8]) -> bool {
    newsgroups::split(names).any(|name| program.section.groups.matches(name))
}

/// Returns the article with other headers; `None` if they are invalid or change a fixed header.
fn with_headers(wire: &[u8], headers: &[u8]) -> Option<Vec<u8>> {
    let old = Article::parse(wire).ok()?;
    let mut changed = headers.to_vec();
    if !changed.ends_with(b"\r\n") {
        changed.extend_from_slice(b"\r\n");
    }
    changed.extend_from_slice(b"\r\n");
    changed.extend_from_slice(old.body());
    let new = Article::parse(&changed).ok()?;
    new.required().ok()?;
    let same =
        |known: &Known| new.header(*known) == old.header(*known) && new.count(*known) == old.count(*known);
    (new.body() == old.body() && FIXED.iter().all(same)).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_may_be_replaced_except_fixed_ones() {
        let wire = b"Path: p\r\nNewsgroups: a.b\r\nSubject: s\r\nFrom: f@x\r\n\
                     Date: 1 Jan 2026 00:00:00 +0000\r\nMessage-ID: <a@b>\r\n\r\nbody\r\n";
        let text = String::from_utf8(wire.to_vec()).unwrap();
        let head = text.split_once("\r\n\r\n").unwrap().0.to_owned();
        let changed = |from: &str, to: &str| with_headers(wire, head.replace(from, to).as_bytes());
        let expected = text.replace("Subject: s", "Subject: t\r\nOrganization: o");
        assert_eq!(changed("Subject: s", "Subject: t\r\nOrganization: o"), Some(expected.into_bytes()));
        for (from, to) in [
            ("a.b", "a.c"),
            ("<a@b>", "<c@b>"),
            ("Path: p", "Path: q"),
            ("Subject: s\r\n", ""),
            ("Subject: s", "Subject: s\r\nApproved: me"),
            ("Subject: s", "Subject: s\r\n\r\nx"),
            ("Subject: s", "Subject"),
        ] {
            assert_eq!(changed(from, to), None, "{from} -> {to}");
        }
    }
}
