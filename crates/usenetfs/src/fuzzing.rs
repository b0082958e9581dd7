//! Entry point for a target in `fuzz/`: names of directories and files on a mount of a server's articles. It
//! has no other callers.

use std::sync::Arc;

use crate::mounting::articles::{ArticleLookup, ArticleProvider, DiskWait, ReadFailure, ShownArticle};
use crate::mounting::group_tree::{GroupDirectory, NameTarget};

/// Groups without articles, by name.
struct FuzzGroups(Vec<Arc<str>>);

impl ArticleProvider for FuzzGroups {
    type Locator = ();

    fn group_from(&self, name: &str) -> Option<Arc<str>> {
        self.0.get(self.0.partition_point(|group| **group < *name)).cloned()
    }

    fn group_changed(&self, group: &str) -> Option<u64> {
        self.0.binary_search_by(|known| (**known).cmp(group)).is_ok().then_some(1)
    }

    fn numbers(&self, _: &str, _: u64, _: usize, _: &mut Vec<u64>) {}

    fn is_shown(&self, _: &str, _: u64) -> bool {
        false
    }

    fn article(
        &self,
        _: ArticleLookup<'_, ()>,
        _: DiskWait,
    ) -> Result<Option<ShownArticle<()>>, ReadFailure> {
        Ok(None)
    }
}

/// Returns the groups found by walking the tree of `groups` by its listings, each name of which is looked up.
/// `name` is looked up in every directory; the second part of the result has the directories found by it.
pub fn walked(groups: &[&str], name: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut names: Vec<Arc<str>> = groups.iter().map(|group| Arc::from(*group)).collect();
    names.sort();
    names.dedup();
    let groups = FuzzGroups(names);
    let (mut found, mut hits, mut left) = (Vec::new(), Vec::new(), vec![GroupDirectory::Root]);
    while let Some(dir) = left.pop() {
        if let Some(NameTarget::Directory(GroupDirectory::Group(hit))) = dir.named(name)
            && GroupDirectory::Group(hit.clone()).exists(&groups)
        {
            hits.push(hit.to_string());
        }
        for (name, child) in dir.directories(&groups) {
            assert_eq!(dir.named(name.as_bytes()), Some(NameTarget::Directory(child.clone())), "{name}");
            assert!(child.exists(&groups) && child.parent() == dir, "{child:?}");
            if let GroupDirectory::Group(group) = &child
                && groups.group_changed(group).is_some()
            {
                found.push(group.to_string());
            }
            left.push(child);
        }
    }
    found.sort();
    (found, hits)
}
