//! Priority queue of numbered things whose ranks change: a heap that knows the position of each.
//!
//! Takes 24 bytes for each number up to the largest. Of equal ranks the one that was set first is first:
//! numbers are reused, so their order has no meaning. Called by the strategies.

/// Position of a thing that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// Heap with the smallest rank first.
#[derive(Debug, Default)]
pub(super) struct RankedQueue {
    heap: Vec<u32>,
    place: Vec<u32>,
    rank: Vec<u64>,
    /// Time at which each got its rank, by `sets`.
    set_at: Vec<u64>,
    sets: u64,
}

impl RankedQueue {
    /// Makes room for this many things.
    pub fn reserve(&mut self, things: usize) {
        self.heap.reserve_exact(things);
        self.place.reserve_exact(things);
        self.rank.reserve_exact(things);
        self.set_at.reserve_exact(things);
    }

    pub fn first(&self) -> Option<u32> {
        self.heap.first().copied()
    }

    pub fn rank(&self, thing: u32) -> Option<u64> {
        let is_in = self.place.get(thing as usize).is_some_and(|place| *place != NOWHERE);
        self.rank.get(thing as usize).copied().filter(|_| is_in)
    }

    /// Adds a thing, or changes its rank; it becomes the last one of this rank.
    pub fn set(&mut self, thing: u32, rank: u64) {
        let at = thing as usize;
        if at >= self.place.len() {
            self.place.resize(at + 1, NOWHERE);
            self.rank.resize(at + 1, 0);
            self.set_at.resize(at + 1, 0);
        }
        self.sets += 1;
        (self.rank[at], self.set_at[at]) = (rank, self.sets);
        if self.place[at] == NOWHERE {
            self.place[at] = self.heap.len() as u32;
            self.heap.push(thing);
        }
        let place = self.up(self.place[at] as usize);
        self.down(place);
    }

    pub fn remove(&mut self, thing: u32) {
        let Some(place) = self.place.get(thing as usize).copied().filter(|place| *place != NOWHERE) else {
            return;
        };
        self.place[thing as usize] = NOWHERE;
        let Some(last) = self.heap.pop() else { return };
        if last != thing {
            self.heap[place as usize] = last;
            self.place[last as usize] = place;
            let place = self.up(place as usize);
            self.down(place);
        }
    }

    fn order(&self, place: usize) -> (u64, u64) {
        let thing = self.heap[place] as usize;
        (self.rank[thing], self.set_at[thing])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }

    fn up(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.order(above) <= self.order(place) {
                break;
            }
            self.swap(above, place);
            place = above;
        }
        place
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|at| *at < self.heap.len());
            let Some(least) = below.min_by_key(|at| self.order(*at)) else { break };
            if self.order(place) <= self.order(least) {
                break;
            }
            self.swap(place, least);
            place = least;
        }
    }
}
