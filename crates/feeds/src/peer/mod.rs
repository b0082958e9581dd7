//! The feed of one peer: its window of offers, its durable position, its connections and their number.

pub(crate) mod feed;
pub(crate) mod growth;
pub(crate) mod no_check;
pub(crate) mod order;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod set_aside;
pub(crate) mod status;
pub(crate) mod target;
