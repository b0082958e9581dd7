//! The news as a reader may see it: a source, and the view of it that the reader's rights allow.
//!
//! Used by the commands of `serve`.

use super::ReaderView;
use super::refusal::{CommandRefusal, failed};
use super::spare::SpareArticle;
use netnews::GroupMarks;
use netnews::MessageId;
use netnews::nntp::response::code;
use upstreams::{
    Answer, ArticleBytes, ArticlePart, Fetched, GroupList, GroupSelection, NewsSource, SourceLocator,
};

/// Source of news and the view of it.
#[derive(Debug)]
pub(super) struct VisibleNews<S: NewsSource> {
    pub source: S,
    pub view: ReaderView,
}

impl<S: NewsSource> VisibleNews<S> {
    /// Returns the group of this name with its marks, whether or not the reader may see it.
    pub async fn group(&self, name: &[u8]) -> Answer<Option<(S::Group, GroupMarks)>> {
        self.source.group(name, self.view.base()).await
    }

    /// Returns groups, in the order of their names, whether or not the reader may see them.
    pub async fn groups(&self, list: GroupList, which: GroupSelection<'_, S::Group>) -> Answer<S::Groups> {
        self.source.groups(list, which, self.view.base()).await
    }

    /// Returns true if the article exists and the reader may see it.
    pub async fn exists(&self, id: MessageId<'_>) -> Answer<bool> {
        if self.view.is_everything() {
            return self.source.has(id).await;
        }
        let mut article = SpareArticle::take();
        let fetched =
            self.source.article(SourceLocator::MessageId(id), ArticlePart::Head, &mut article).await?;
        Ok(!matches!(fetched, Fetched::Missing) && self.view.shows_article(article.head()))
    }

    /// Reads this part of an article, if the reader may see it, and waits until it is complete.
    pub async fn whole(
        &self,
        id: MessageId<'_>,
        part: ArticlePart,
        into: &mut ArticleBytes,
    ) -> Result<(), CommandRefusal> {
        let fetched = self.source.article(SourceLocator::MessageId(id), part, into).await.map_err(failed)?;
        if matches!(fetched, Fetched::Missing) || !self.view.shows_article(into.head()) {
            return Err(code::NO_SUCH_ARTICLE.into());
        }
        match fetched {
            Fetched::Begun(rest) if part != ArticlePart::Head => into.complete(rest).await.map_err(failed),
            _ => Ok(()),
        }
    }
}
