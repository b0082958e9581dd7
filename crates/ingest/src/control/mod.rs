//! Articles that ask the server to do something: permissions for such requests.
//!
//! [`ControlPolicy`] is the `[[control]]` sections and, for requests that none of them decides, `[cancel]`.
//! It decides the action; withdrawals are carried out by `ingest`, group control messages by `operators`,
//! which read them from the journal. [`SignatureProof`] finds the signer of an article, by the [`Keyring`] of
//! the site, [`signer_of`] the signer of a text. Sources: RFC 5537 section 5, INN's `controlchan`.

mod asked;
pub mod keyring;
mod policy;
mod proof;
mod verify;

pub use asked::{ControlRequest, address};
pub use keyring::{Keyring, SigningKey, is_key_file, is_whole as is_key_whole};
pub use policy::{ControlPolicy, WithdrawalProof};
pub use proof::{SignatureProof, SignedText, signer_of};
