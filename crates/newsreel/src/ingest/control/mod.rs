//! Articles that ask the server to do something: who may ask for what.
//!
//! [`Policy`] is the `[[control]]` sections and, for what none of them decides, `[cancel]`. It says what is
//! to be done; withdrawals are carried out by `ingest`, group control messages by `operations`, which read
//! them from the journal. Sources: RFC 5537 section 5, INN's `controlchan`.

mod asked;
mod policy;

pub(crate) use asked::Asked;
pub(crate) use policy::{Permit, Policy};
