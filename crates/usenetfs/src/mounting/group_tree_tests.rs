//! Tests of names and directories, with a list of groups as the server.

use super::*;
use crate::mounting::articles::{ArticleLookup, DiskWait, ReadFailure, ShownArticle};

struct Groups(Vec<Arc<str>>);

impl ArticleProvider for Groups {
    type Locator = ();

    fn group_from(&self, name: &str) -> Option<Arc<str>> {
        self.0.get(self.0.partition_point(|group| **group < *name)).cloned()
    }

    fn group_changed(&self, group: &str) -> Option<u64> {
        self.0.iter().any(|known| **known == *group).then_some(7)
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

fn groups(names: &[&str]) -> Groups {
    let mut names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
    names.sort();
    Groups(names)
}

fn group(name: &str) -> GroupDirectory {
    GroupDirectory::Group(name.into())
}

#[test]
fn every_group_is_reached_by_the_listed_names() {
    let names = ["a", "a+b.c", "a-b", "a-b.c", "a.2600", "a.2600.7", "a.b", "a.b-c", "a.b.c.d", "b.c", "ä.ö"];
    let groups = groups(&names);
    let mut found = Vec::new();
    let mut left = vec![GroupDirectory::Root];
    while let Some(dir) = left.pop() {
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
    assert_eq!(found, names);
    let listed = |dir: GroupDirectory| dir.directories(&groups).into_iter().map(|(name, _)| name);
    assert_eq!(listed(GroupDirectory::Root).collect::<Vec<_>>(), ["a", "a+b", "a-b", "b", "ä", "message.id"]);
    assert_eq!(listed(group("a")).collect::<Vec<_>>(), ["2600.", "b", "b-c"]);
    assert!(!group("a.c").exists(&groups) && !group("a.").exists(&groups) && group("b").exists(&groups));
}

#[test]
fn digits_are_articles() {
    let named = |name: &str| group("a.b").named(name.as_bytes());
    assert_eq!(named("17"), Some(NameTarget::Number("a.b".into(), 17)));
    assert_eq!(named("17."), Some(NameTarget::Directory(group("a.b.17"))));
    for name in ["017", "0", "99999999999999999999999", "x.y", ".."] {
        assert_eq!(named(name), None, "{name}");
    }
    assert_eq!(GroupDirectory::Root.named(b"2600"), Some(NameTarget::Directory(group("2600"))));
}

#[test]
fn message_ids_are_names() {
    let id = |name: &str| match GroupDirectory::ById.named(name.as_bytes()) {
        Some(NameTarget::MessageId(id)) => String::from_utf8(id).unwrap(),
        other => panic!("{other:?}"),
    };
    for (name, expected) in
        [("a@b", "<a@b>"), ("a%2Fb@c", "<a/b@c>"), ("a%252Fb@c", "<a%2Fb@c>"), ("a%41%2@c%", "<a%41%2@c%>")]
    {
        assert_eq!(id(name), expected);
    }
    assert_eq!(GroupDirectory::ById.named(b""), None);
}

#[test]
fn directories_keep_their_numbers() {
    let tree = GroupTree::default();
    let all = [GroupDirectory::Root, GroupDirectory::ById, group("a"), group("a.b")];
    let numbers: Vec<u64> = all.iter().map(|dir| tree.number(dir)).collect();
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), all.len());
    for (dir, number) in all.iter().zip(&numbers) {
        assert_eq!((tree.number(dir), tree.directory(*number).as_ref()), (*number, Some(dir)));
    }
    assert_eq!((tree.directory(2), tree.directory(u64::MAX)), (None, None));
}
