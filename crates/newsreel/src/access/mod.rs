//! Identity and rights of clients: users, passwords, lock-outs, access rules, limits.
//!
//! `users` is the users file; `gate` checks credentials with it, with `programs` and with `lockout`; `scram`
//! and `sasl` are the exchanges; `rules` finds the `[[access]]` section that decides; `limits` counts what
//! that allows. Called by `session`, and by `cli` for managing users and explaining access. Sources: RFC
//! 4643, 4422, 4616, 5802, 7677; INN's readers.conf.

mod connections;
pub(crate) mod gate;
pub(crate) mod limits;
mod lockout;
mod programs;
pub(crate) mod rules;
pub(crate) mod sasl;
mod scram;
pub(crate) mod users;

pub(crate) use connections::{Connections, too_many};
pub(crate) use gate::{Caller, Denial, Gate};
pub(crate) use lockout::counted;
pub(crate) use users::User;
