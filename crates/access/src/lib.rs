//! Who a client is and what it may do: users, passwords, lock-outs, access rules, limits.
//!
//! `users` is the file of users; `gate` judges credentials with it, with `programs` and with `lockout` in
//! between; `scram` and `sasl` are the exchanges; `rules` finds the `[[access]]` section that decides;
//! `limits` counts what it allows. Called by `session`, and by `cli` for the users and for explaining.
//! Sources: RFC 4643, 4422, 4616, 5802, 7677; INN's readers.conf.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cancel_lock;
mod connections;
pub(crate) mod gate;
pub mod limits;
mod lockout;
mod programs;
pub mod rules;
pub mod sasl;
mod scram;
pub mod tls;
pub mod users;

pub use connections::{Connections, too_many};
pub use gate::{Caller, Denial, Gate};
pub use lockout::counted;
pub use users::User;
