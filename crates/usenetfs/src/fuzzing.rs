//! Entry point for a target in `fuzz/`: names of directories and files on a mount of a server's articles. It
//! has no other callers.

use std::sync::Arc;

use crate::mounting::articles::{Articles, NotRead, Place, ShownArticle, Wait};
use crate::mounting::group_tree::{Directory, Named};

/// Groups without articles, by name.
struct Groups(Vec<Arc<str>>);

impl Articles for Groups {
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

    fn article(&self, _: Place<'_, ()>, _: Wait) -> Result<Option<ShownArticle<()>>, NotRead> {
        Ok(None)
    }
}

/// Returns the groups found by walking the tree of `groups` by its listings, each name of which is looked up.
/// `name` is looked up in every directory; the second part of the result has the directories found by it.
pub fn walked(groups: &[&str], name: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut names: Vec<Arc<str>> = groups.iter().map(|group| Arc::from(*group)).collect();
    names.sort();
    names.dedup();
    let groups = Groups(names);
    let (mut found, mut hits, mut left) = (Vec::new(), Vec::new(), vec![Directory::Root]);
    while let Some(dir) = left.pop() {
        if let Some(Named::Directory(Directory::Group(hit))) = dir.named(name)
            && Directory::Group(hit.clone()).exists(&groups)
        {
            hits.push(hit.to_string());
        }
        for (name, child) in dir.directories(&groups) {
            assert_eq!(dir.named(name.as_bytes()), Some(Named::Directory(child.clone())), "{name}");
            assert!(child.exists(&groups) && child.parent() == dir, "{child:?}");
            if let Directory::Group(group) = &child
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
