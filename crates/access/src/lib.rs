//! Identity and rights of clients: users, passwords, lock-outs, access rules, limits.
//!
//! `users` is the users file; `gate` checks credentials with it, with `outside` and with `lockout`; `scram`
//! and `sasl` are the exchanges; `rules` finds the `[[access]]` section that decides; `limits` counts what
//! that allows. Called by `session`, and by `cli` for managing users and explaining access. Sources: RFC
//! 4643, 4422, 4616, 5802, 7677; INN's readers.conf.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cancel_lock;
mod connections;
mod endpoint;
pub(crate) mod gate;
pub mod limits;
mod lockout;
mod outside;
pub mod rules;
pub mod sasl;
mod scram;
pub mod sealing;
mod spent;
pub mod tls;
pub mod users;

pub use connections::{Connections, too_many};
pub use endpoint::ClientEndpoint;
pub use gate::{LoginDenial, LoginGate, PasswordChangeDenial, SignUpMail};
pub use gate::{NOTE_BYTES_MAX, SignUpDenial, is_reserved, is_sign_up_name};
pub use lockout::counted;
pub use outside::granted_groups;
#[cfg(feature = "testing")]
pub use outside::parsers as ldap_parsers;
pub use spent::SpentTokens;
pub use users::User;
