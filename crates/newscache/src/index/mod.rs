//! Where cached articles are: the index of a group in use, look-ups by Message-ID, recent answers.

pub(crate) mod answers;
pub(crate) mod ascending;
pub(crate) mod cells;
pub(crate) mod ids;
pub(crate) mod loaded;
pub(crate) mod recent;
pub(crate) mod runs;
