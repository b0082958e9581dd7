//! Changes of a batch before they are committed.
//!
//! Articles are lists of pieces of the receive buffer: the old Xref is left out and our name put before the
//! Path without copying a byte. Flat vectors serve the whole batch, so nothing is allocated per article.
//! Called by `ingest` only.

use super::aside::{self, AsideContext, AsideLabel};
use super::opinions::Opinion;
use super::programs;
use super::withdraw::BatchWithdrawal;
use super::{DeferralReason, Disposition, EarlyHides, Origin, Reject};
use crate::routing;
use crate::routing::{Router, RoutingDecision, RoutingTable};
use netnews::overview_row::OverviewFields;
use netnews::{Article, Known, MessageId, control, date};
use spool::{
    ArticleGroups, ArticleIdent, ArticleKey, ArticleKind, Change, Criteria, GroupId, GroupTable, NewArticle,
    RowFacts, TaggedFields,
};
use std::ops::Range;
use std::sync::Arc;

/// Most pieces of one article: before, between and after two cuts, and the insertion.
const PIECES_MAX: usize = 4;

/// Bytes reserved for an article's tagged fields; most need less.
const TAGGED_BYTES_USUAL: usize = 80;

/// An article to be filed, or only its Message-ID to be remembered.
#[derive(Debug)]
pub(super) struct EntryDraft<'a> {
    key: ArticleKey,
    message_id: &'a [u8],
    pieces: [&'a [u8]; PIECES_MAX],
    header_bytes: usize,
    message_id_at: usize,
    /// Offset of the line with its Message-ID.
    message_id_line_at: usize,
    groups: Range<usize>,
    /// Whether it is filed, or only its Message-ID remembered.
    is_filed: bool,
    fields: OverviewFields<'a>,
    expires: Option<u64>,
    /// Arrival in Unix seconds, if not now.
    arrived: Option<u64>,
    criteria: Criteria<'a>,
    kind: ArticleKind,
    /// Distribution header; empty without one.
    distribution: &'a [u8],
    /// Wire format as received.
    wire: &'a [u8],
    /// Offset of the body in `wire`.
    body_offset: usize,
    /// Range of its tagged fields within those of the batch.
    tagged: Range<usize>,
    /// Name of the hider, and the reason, if it is hidden when filed.
    hidden: Option<(Arc<str>, Arc<str>)>,
    /// Verdict of a filter, for storage rules.
    verdict: Option<Arc<str>>,
    /// Index of the article in the batch.
    at: usize,
}

/// An article set aside by a filter.
#[derive(Debug)]
struct AsideDraft<'a> {
    draft: EntryDraft<'a>,
    label: AsideLabel,
}

/// Changes of a batch before the commit.
#[derive(Debug)]
pub(super) struct BatchDrafts<'a> {
    articles: Vec<EntryDraft<'a>>,
    /// Articles set aside by filters; no longer among `articles`.
    asides: Vec<AsideDraft<'a>>,
    /// Parsed articles, if filters examine them; else empty.
    parsed: Vec<Article<'a>>,
    remembered: Vec<ArticleKey>,
    /// Tagged fields of the articles for the journal, encoded and concatenated.
    tagged: Vec<u8>,
    /// Table in which the groups were looked up.
    table: Arc<GroupTable>,
    /// Groups of all articles, concatenated.
    pub groups: Vec<GroupId>,
    /// Article numbers in `groups`, one for each group and 0 for a new one, if articles bring any; else
    /// empty.
    pub numbers: Vec<u64>,
    /// Articles of the batch that withdraw others.
    pub withdrawing: Vec<BatchWithdrawal<'a>>,
    /// Index of the article being judged.
    pub at: usize,
    /// Routes that decide which peers get the articles; held until they are committed.
    routes: Arc<RoutingTable>,
    decision: RoutingDecision,
}

impl<'a> BatchDrafts<'a> {
    pub fn new(articles: usize, router: &Router, table: Arc<GroupTable>) -> Self {
        let routes = router.routes(&table);
        Self {
            table,
            articles: Vec::with_capacity(articles),
            asides: Vec::new(),
            parsed: Vec::new(),
            remembered: Vec::new(),
            tagged: Vec::with_capacity(articles * TAGGED_BYTES_USUAL),
            groups: Vec::with_capacity(articles + articles / 4),
            numbers: Vec::new(),
            withdrawing: Vec::new(),
            at: 0,
            routes,
            decision: RoutingDecision::default(),
        }
    }

    pub fn push(&mut self, mut draft: EntryDraft<'a>) {
        let start = self.tagged.len();
        let facts = draft.facts();
        if draft.hidden.is_none() {
            self.routes.decide(&draft.routing_facts(&facts), &mut self.decision);
            RowFacts { sites: self.decision.sites(), ..facts }.put(&mut self.tagged);
        } else {
            facts.put(&mut self.tagged);
        }
        (draft.tagged, draft.at) = (start..self.tagged.len(), self.at);
        self.articles.push(draft);
    }

    /// Returns whether articles of one of the article's groups are sent to a peer.
    pub fn is_carried(&self, article: &Article<'_>) -> bool {
        self.routes.takes_any(article.header(Known::Newsgroups).unwrap_or_default())
    }

    /// Returns the number of control messages and notices that are carried out from the journal.
    pub fn controls(&self) -> u64 {
        let is_one = |draft: &&EntryDraft<'_>| is_from_journal(draft.kind);
        self.articles.iter().filter(is_one).count() as u64
    }

    pub fn remember(&mut self, key: ArticleKey) {
        self.remembered.push(key);
    }

    /// Keeps the article pushed last for the filters; must be called for every article of the batch or
    /// none.
    pub fn keep_parsed(&mut self, article: Article<'a>) {
        self.parsed.push(article);
    }

    /// Returns the articles for the filters.
    pub fn parsed(&self) -> &[Article<'a>] {
        &self.parsed
    }

    /// Applies the opinions of the filter `by` on the articles, in order, and sets the dispositions of those
    /// that are refused or deferred. Refused articles are remembered.
    pub fn follow(
        &mut self,
        by: &str,
        opinions: Vec<Opinion>,
        context: AsideContext<'_>,
        dispositions: &mut [Disposition],
    ) {
        let mut kept = Vec::with_capacity(self.articles.len());
        let mut opinions = opinions.into_iter();
        let articles = std::mem::take(&mut self.articles).into_iter();
        for (mut draft, article) in articles.zip(std::mem::take(&mut self.parsed)) {
            let refused = match opinions.next() {
                Some(Opinion::Pass) | None => None,
                Some(Opinion::Verdict(verdict)) => {
                    draft.verdict = Some(verdict);
                    None
                }
                Some(Opinion::Shadow(_, verdict)) => {
                    draft.verdict = verdict.or(draft.verdict);
                    None
                }
                Some(Opinion::Keep) => {
                    draft.kind = draft.kind.with(ArticleKind::LOCAL, true);
                    self.say_again(&mut draft);
                    None
                }
                Some(Opinion::Hide(reason)) => {
                    draft.hidden = Some((by.into(), programs::shortened(&reason).into()));
                    self.say_again(&mut draft);
                    None
                }
                Some(Opinion::Aside(group)) => match aside_in(&group, &draft, &article, context) {
                    Ok((id, label)) => {
                        self.set_aside(draft, id, label);
                        continue;
                    }
                    Err(reject) => Some(Disposition::Rejected(reject)),
                },
                Some(Opinion::Refuse(reason)) => Some(Disposition::Rejected(Reject::by_filter(&reason))),
                Some(Opinion::Defer) => Some(Disposition::Deferred(DeferralReason::Unjudged)),
            };
            match refused {
                None => kept.push((draft, article)),
                Some(refused) => {
                    if matches!(refused, Disposition::Rejected(_)) {
                        self.remembered.push(draft.key);
                    }
                    if let Some(disposition) = dispositions.get_mut(draft.at) {
                        *disposition = refused;
                    }
                }
            }
        }
        (self.articles, self.parsed) = kept.into_iter().unzip();
    }

    /// Hides articles listed in a notice before they arrived.
    pub fn hide_awaited(&mut self, hides: &EarlyHides) {
        if hides.is_empty() {
            return;
        }
        let mut articles = std::mem::take(&mut self.articles);
        for draft in articles.iter_mut().filter(|draft| draft.is_filed && draft.hidden.is_none()) {
            if let Some(hider) = hides.hider(draft.key, draft.criteria.newsgroups) {
                draft.hidden = Some((hider.by.as_str().into(), hider.reason.as_str().into()));
                self.say_again(draft);
            }
        }
        self.articles = articles;
    }

    /// Records the current facts of the article, which goes to no peer.
    fn say_again(&mut self, draft: &mut EntryDraft<'a>) {
        let start = self.tagged.len();
        draft.facts().put(&mut self.tagged);
        draft.tagged = start..self.tagged.len();
    }

    /// Files the article in this group alone, as another one without requests.
    fn set_aside(&mut self, mut draft: EntryDraft<'a>, group: GroupId, label: AsideLabel) {
        draft.hidden = None;
        draft.kind = ArticleKind::LOCAL.with(ArticleKind::HEADERS, draft.kind.has(ArticleKind::HEADERS));
        let start = self.tagged.len();
        let facts = draft.facts();
        let wire_bytes = facts.wire_bytes + label.text.len() as u64;
        RowFacts { wire_bytes, stands_for: Some(draft.key), ..facts }.put(&mut self.tagged);
        draft.tagged = start..self.tagged.len();
        self.withdrawing.retain(|withdrawing| withdrawing.at != draft.at);
        let start = self.groups.len();
        self.groups.push(group);
        draft.groups = start..self.groups.len();
        draft.verdict = Some("aside".into());
        self.asides.push(AsideDraft { draft, label });
    }

    /// Returns the original keys of the articles that are set aside.
    pub fn asides(&self) -> impl Iterator<Item = ArticleKey> {
        self.asides.iter().map(|aside| aside.draft.key)
    }

    /// Returns the index in the batch of each article to be committed, in the order of the changes.
    pub fn committed(&self) -> impl Iterator<Item = usize> {
        let asides = self.asides.iter().map(|aside| aside.draft.at);
        self.articles.iter().map(|draft| draft.at).chain(asides)
    }

    /// Returns the number of articles to be committed that are not set aside.
    pub fn len(&self) -> usize {
        self.articles.len()
    }

    /// Returns the index in the batch of each article, with its key.
    pub fn places(&self) -> impl Iterator<Item = (usize, ArticleKey)> {
        self.articles.iter().map(|draft| (draft.at, draft.key))
    }

    /// Returns the key of each article.
    pub fn keys(&self) -> impl Iterator<Item = ArticleKey> {
        self.articles.iter().map(|draft| draft.key)
    }

    pub fn is_empty(&self) -> bool {
        self.articles.is_empty() && self.asides.is_empty() && self.remembered.is_empty()
    }

    /// Calls `commit` with the changes: first the articles in the order they were pushed, then those set
    /// aside, then the Message-IDs to be remembered.
    pub fn with_changes<T>(&self, now: i64, commit: impl FnOnce(&[Change<'_>]) -> T) -> T {
        let arrived = u64::try_from(now).unwrap_or_default();
        let remember = |key| Change::Remember { id: ArticleIdent::Key(key), arrived };
        let mut changes = Vec::with_capacity(self.articles.len() + self.asides.len() + self.remembered.len());
        let labelled: Vec<_> = self.asides.iter().map(AsideDraft::pieces).collect();
        changes.extend(self.articles.iter().map(|draft| match draft.is_filed {
            true => Change::Article(self.filing(draft, arrived)),
            false => remember(draft.key),
        }));
        let asides = self.asides.iter().zip(&labelled);
        changes
            .extend(asides.map(|(aside, pieces)| Change::Article(self.filing_aside(aside, pieces, arrived))));
        changes.extend(self.remembered.iter().copied().map(remember));
        commit(&changes)
    }

    fn filing<'s>(&'s self, draft: &'s EntryDraft<'a>, arrived: u64) -> NewArticle<'s> {
        NewArticle {
            key: Some(draft.key),
            message_id: draft.message_id,
            pieces: &draft.pieces,
            header_bytes: draft.header_bytes,
            message_id_at: draft.message_id_at,
            groups: match self.groups.get(draft.groups.clone()) {
                Some(ids) if !ids.is_empty() => ArticleGroups::Resolved { table: &self.table, ids },
                _ => ArticleGroups::None,
            },
            numbers: self.numbers.get(draft.groups.clone()).unwrap_or_default(),
            fields: draft.fields,
            arrived: draft.arrived.unwrap_or(arrived),
            expires: draft.expires,
            criteria: Criteria { verdict: draft.verdict.as_deref(), ..draft.criteria },
            tagged: self.tagged.get(draft.tagged.clone()).and_then(TaggedFields::new).unwrap_or_default(),
        }
    }

    fn filing_aside<'s>(
        &'s self,
        aside: &'s AsideDraft<'a>,
        pieces: &'s [&'s [u8]],
        arrived: u64,
    ) -> NewArticle<'s> {
        let AsideDraft { draft, label } = aside;
        let filing = self.filing(draft, arrived);
        let put_in = label.text.len();
        let message_id = label.message_id.as_bytes();
        // A copy without its body has the size of the whole article.
        let more = if draft.kind.has(ArticleKind::HEADERS) { 0 } else { put_in as u64 };
        NewArticle {
            key: Some(label.key),
            message_id,
            pieces,
            header_bytes: draft.header_bytes + put_in,
            message_id_at: draft.message_id_line_at + AsideLabel::ID_AT,
            fields: OverviewFields { message_id, bytes: draft.fields.bytes + more, ..draft.fields },
            ..filing
        }
    }
}

impl AsideDraft<'_> {
    fn pieces(&self) -> Vec<&[u8]> {
        aside::put_in(&self.draft.pieces, self.draft.message_id_line_at, &self.label.text)
    }
}

impl<'a> EntryDraft<'a> {
    /// Builds the pieces and records the facts the spool needs.
    pub fn of(
        article: &Article<'a>,
        id: MessageId<'a>,
        key: ArticleKey,
        origin: &'a Origin,
        groups: Range<usize>,
    ) -> Self {
        let value = |known| article.header(known).unwrap_or_default();
        let path_at = value_at(article, Known::Path);
        let prefix = origin.before_path(value(Known::Path));
        let xref = article.header_lines(Known::Xref).unwrap_or(0..0);
        let id_at = value_at(article, Known::MessageId) + leading_blanks(value(Known::MessageId));
        let (kind, fields) = (kind(article), OverviewFields::of(article, id.as_bytes()));
        let put_in = if kind.has(ArticleKind::HEADERS) { 0 } else { prefix.len() as u64 };
        let moved = |at: usize| {
            let put_in = if at >= path_at { prefix.len() } else { 0 };
            let left_out = if at >= xref.end { xref.len() } else { 0 };
            at + put_in - left_out
        };
        Self {
            key,
            message_id: id.as_bytes(),
            pieces: pieces(article.wire(), path_at, prefix, &xref),
            header_bytes: moved(article.body_offset()),
            message_id_at: moved(id_at),
            message_id_line_at: moved(article.header_lines(Known::MessageId).unwrap_or(0..0).start),
            groups,
            is_filed: true,
            fields: OverviewFields { bytes: fields.bytes + put_in - xref.len() as u64, ..fields },
            expires: article
                .header(Known::Expires)
                .and_then(date::parse)
                .and_then(|at| u64::try_from(at).ok()),
            arrived: None,
            criteria: Criteria {
                from: value(Known::From),
                path: value(Known::Path),
                head: article.head(),
                verdict: None,
                origin: origin.for_rules(),
                newsgroups: value(Known::Newsgroups),
            },
            kind,
            distribution: value(Known::Distribution),
            wire: article.wire(),
            body_offset: article.body_offset(),
            tagged: 0..0,
            hidden: None,
            verdict: None,
            at: 0,
        }
    }

    /// Returns the facts of the article for the journal.
    fn facts(&self) -> RowFacts<'_> {
        RowFacts {
            wire_bytes: self.pieces.iter().map(|piece| piece.len() as u64).sum(),
            path: self.criteria.path,
            distribution: self.distribution.trim_ascii(),
            origin: self.criteria.origin,
            kind: self.kind,
            sites: &[],
            hidden: self.hidden.as_ref().map(|(by, reason)| (&**by, &**reason)),
            stands_for: None,
        }
    }

    /// Returns the facts that decide which peers it goes to.
    fn routing_facts<'s>(&'s self, facts: &RowFacts<'s>) -> routing::RoutingFacts<'s> {
        routing::RoutingFacts {
            message_id: self.message_id,
            newsgroups: self.criteria.newsgroups,
            path: facts.path,
            distribution: facts.distribution,
            origin: facts.origin,
            kind: facts.kind,
            wire_bytes: facts.wire_bytes,
            wire: self.wire,
            body_offset: self.body_offset,
        }
    }

    /// Returns the draft; not to be filed, only remembered, if `is_filed` is false.
    pub fn filed(self, is_filed: bool) -> Self {
        Self { is_filed, ..self }
    }

    /// Returns the draft, marked as a possible notice.
    pub fn noticed(self, is_notice: bool) -> Self {
        Self { kind: self.kind.with(ArticleKind::NOTICE, is_notice), ..self }
    }

    /// Returns the draft, with another arrival than now.
    pub fn arrived(self, arrived: Option<u64>) -> Self {
        Self { arrived, ..self }
    }
}

/// Returns the group for an article that is set aside, and its label.
fn aside_in(
    group: &str,
    draft: &EntryDraft<'_>,
    article: &Article<'_>,
    AsideContext { spool, origin, table }: AsideContext<'_>,
) -> Result<(GroupId, AsideLabel), Reject> {
    let no_group = || Reject::by_filter(&format!("no group {group} to set it aside in"));
    let id = table.id(group.as_bytes()).ok_or_else(no_group)?;
    let accepted = aside::accepted(draft.criteria.newsgroups, |name| origin.accepts(name));
    if !aside::fits(article.head(), &accepted) {
        return Err(Reject::by_filter("its headers are too large to set it aside"));
    }
    Ok((id, AsideLabel::of(spool, draft.message_id, &accepted, origin.for_rules())))
}

/// Returns whether articles of this kind are carried out from the journal.
pub fn is_from_journal(kind: ArticleKind) -> bool {
    kind.has(ArticleKind::NOTICE) || kind.has(ArticleKind::CONTROL) && !kind.has(ArticleKind::CANCEL)
}

/// Returns the kind of article for its journal row.
pub fn kind(article: &Article<'_>) -> ArticleKind {
    let control = article.header(Known::Control);
    let is_cancel = control.is_some_and(|value| control::verb(value).eq_ignore_ascii_case(b"cancel"));
    ArticleKind::default()
        .with(ArticleKind::CONTROL, control.is_some())
        .with(ArticleKind::CANCEL, is_cancel)
        .with(ArticleKind::SUPERSEDES, article.count(Known::Supersedes) > 0)
        .with(ArticleKind::HEADERS, article.bodiless().is_some())
}

/// Returns the pieces of `wire` with `prefix` inserted at `path_at` and `xref` left out.
fn pieces<'a>(
    wire: &'a [u8],
    path_at: usize,
    prefix: &'a [u8],
    xref: &Range<usize>,
) -> [&'a [u8]; PIECES_MAX] {
    let part = |range: Range<usize>| wire.get(range).unwrap_or_default();
    if xref.is_empty() {
        [part(0..path_at), prefix, part(path_at..wire.len()), &[]]
    } else if xref.start >= path_at {
        [part(0..path_at), prefix, part(path_at..xref.start), part(xref.end..wire.len())]
    } else {
        [part(0..xref.start), part(xref.end..path_at), prefix, part(path_at..wire.len())]
    }
}

/// Returns the offset of a header's value.
fn value_at(article: &Article<'_>, known: Known) -> usize {
    let value_bytes = article.header(known).unwrap_or_default().len();
    article.header_lines(known).map_or(0, |lines| lines.end.saturating_sub(value_bytes + b"\r\n".len()))
}

fn leading_blanks(value: &[u8]) -> usize {
    value.len() - value.trim_ascii_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft_of(head: &str) -> (String, String, usize) {
        let wire = format!("{head}\r\nbody\r\n");
        let article = Article::parse(wire.as_bytes()).unwrap();
        let origin = Origin::batch("me");
        let draft = EntryDraft::of(&article, article.message_id().unwrap(), ArticleKey(0), &origin, 0..0);
        let whole = draft.pieces.concat();
        assert_eq!(draft.fields.bytes, whole.len() as u64);
        assert!(whole[draft.message_id_at..].starts_with(b"<a@b>"));
        let head = String::from_utf8(whole[..draft.header_bytes].to_vec()).unwrap();
        (head, String::from_utf8(whole[draft.header_bytes..].to_vec()).unwrap(), draft.message_id_at)
    }

    #[test]
    fn our_name_is_added_to_path_and_xref_is_removed_at_any_position() {
        let (path, id, xref) = ("Path: x!t\r\n", "Message-ID: \r\n <a@b>\r\n", "Xref: h a:1\r\n b:2\r\n");
        for order in [
            [path, id, xref],
            [path, xref, id],
            [id, path, xref],
            [id, xref, path],
            [xref, path, id],
            [xref, id, path],
        ] {
            let expected = order.concat().replace(xref, "").replace("x!t", "me!x!t") + "\r\n";
            let (head, body, _) = draft_of(&order.concat());
            assert_eq!((head, body), (expected, "body\r\n".to_owned()));
        }
        let (head, _, _) = draft_of(&[path, id].concat());
        assert_eq!(head, "Path: me!x!t\r\nMessage-ID: \r\n <a@b>\r\n\r\n");
    }
}
