//! Doubly linked lists of units, one for each group. Nodes are indexed by unit number: 12 bytes for each
//! number up to the largest in use. Called by the strategies.

/// List of a unit that does not exist.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct ListNode {
    before: u32,
    after: u32,
    list: u32,
}

#[derive(Debug, Clone, Copy)]
struct ListEnds {
    first: u32,
    last: u32,
    count: u32,
}

const EMPTY: ListEnds = ListEnds { first: NONE, last: NONE, count: 0 };

/// Linked lists of units.
#[derive(Debug, Default)]
pub(super) struct UnitLists {
    nodes: Vec<ListNode>,
    ends: Vec<ListEnds>,
}

impl UnitLists {
    /// Appends a unit that is in no list to one.
    pub fn push(&mut self, list: u32, unit: u32) {
        let (at, of) = (unit as usize, list as usize);
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, ListNode { before: NONE, after: NONE, list: NONE });
        }
        if of >= self.ends.len() {
            self.ends.resize(of + 1, EMPTY);
        }
        let last = self.ends[of].last;
        self.nodes[at] = ListNode { before: last, after: NONE, list };
        match last {
            NONE => self.ends[of].first = unit,
            last => self.nodes[last as usize].after = unit,
        }
        self.ends[of].last = unit;
        self.ends[of].count += 1;
    }

    /// Removes a unit from its list, which is returned.
    pub fn remove(&mut self, unit: u32) -> Option<u32> {
        let ListNode { before, after, list } = *self.nodes.get(unit as usize)?;
        let ends = self.ends.get_mut(list as usize)?;
        ends.count -= 1;
        match before {
            NONE => ends.first = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => ends.last = before,
            after => self.nodes[after as usize].before = before,
        }
        self.nodes[unit as usize].list = NONE;
        Some(list)
    }

    /// Returns the list of a unit.
    pub fn list_of(&self, unit: u32) -> Option<u32> {
        self.nodes.get(unit as usize).map(|node| node.list).filter(|list| *list != NONE)
    }

    pub fn first(&self, list: u32) -> Option<u32> {
        self.ends.get(list as usize).map(|ends| ends.first).filter(|first| *first != NONE)
    }

    pub fn count(&self, list: u32) -> u32 {
        self.ends.get(list as usize).map_or(0, |ends| ends.count)
    }
}
