//! The names in a change, looked up as this spool numbers them.

use crate::index::change::NewArticle;
use crate::index::groups::GroupTable;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;

/// An article on its way through the writer.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilingArticle<'a> {
    pub new: &'a NewArticle<'a>,
    pub key: ArticleKey,
    /// The groups that it is filed in.
    pub groups: &'a [GroupId],
    /// The numbers that it brings for them, if any.
    pub numbers: &'a [u64],
}

/// Groups of an article that were looked up again, with the numbers that it brings for them.
#[derive(Debug, Default)]
pub(super) struct FoundGroups {
    ids: Vec<GroupId>,
    numbers: Vec<u64>,
}

impl<'a> FilingArticle<'a> {
    /// Looks up the groups of an article, unless its maker has done so in the current table; `None` if it has
    /// groups and none of them exists.
    #[inline]
    pub fn of(
        new: &'a NewArticle<'_>,
        key: ArticleKey,
        current: &GroupTable,
        found: &'a mut FoundGroups,
    ) -> Option<Self> {
        if let Some(groups) = new.groups.ids_in(current) {
            return Some(Self { new, key, groups, numbers: new.numbers });
        }
        let ids = new.groups.look_up(current);
        let numbers = ids.iter().zip(new.numbers).filter(|(id, _)| id.is_some());
        found.numbers = numbers.map(|(_, number)| *number).collect();
        found.ids = ids.iter().flatten().copied().collect();
        let FoundGroups { ids: groups, numbers } = found;
        (ids.is_empty() || !groups.is_empty()).then_some(Self { new, key, groups, numbers })
    }
}
