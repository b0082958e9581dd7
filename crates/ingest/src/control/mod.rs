//! Articles that ask the server to do something: who may ask for what.
//!
//! [`Policy`] is the `[[control]]` sections and, for what none of them decides, `[cancel]`. It says what is
//! to be done; withdrawals are carried out by `ingest`, group control messages by `operations`, which read
//! them from the journal. [`Proof`] says who has signed an article, by the [`Keyring`] of the site,
//! [`signer_of`] who has signed a text. Sources: RFC 5537 section 5, INN's `controlchan`.

mod asked;
pub mod keyring;
mod policy;
mod proof;
mod verify;

pub use asked::{Asked, address};
pub use keyring::{Key, Keyring, is_key_file, is_whole as is_key_whole};
pub use policy::{Permit, Policy};
pub use proof::{Proof, Signed, signer_of};
