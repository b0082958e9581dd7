//! Who a client is and what it may do: users, passwords, lock-outs, access rules, limits.
//!
//! `users` is the file of users; `gate` judges credentials with it, with `programs` and with `lockout` in
//! between; `scram` and `sasl` are the exchanges; `rules` finds the `[[access]]` section that decides;
//! `limits` counts what it allows. Called by `session`, and by `cli` for the users and for explaining.
//! Sources: RFC 4643, 4422, 4616, 5802, 7677; INN's readers.conf.

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
