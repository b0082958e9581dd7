//! Group information waiting for its turn in a list.

use super::GroupInfo;
use netnews::GroupMarks;

/// An owned [`GroupInfo`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnedGroupInfo {
    pub name: Vec<u8>,
    pub marks: GroupMarks,
    pub flag: Vec<u8>,
    pub created: u64,
    pub creator: Vec<u8>,
    pub description: Vec<u8>,
}

impl OwnedGroupInfo {
    pub fn of(info: &GroupInfo<'_>) -> Self {
        Self {
            name: info.name.to_vec(),
            marks: info.marks,
            flag: info.flag.to_vec(),
            created: info.created,
            creator: info.creator.to_vec(),
            description: info.description.to_vec(),
        }
    }

    pub fn info(&self) -> GroupInfo<'_> {
        GroupInfo {
            name: &self.name,
            marks: self.marks,
            flag: &self.flag,
            created: self.created,
            creator: &self.creator,
            description: &self.description,
        }
    }
}
