//! Articles that ask the server to do something: permissions for such requests.
//!
//! [`Policy`] is the `[[control]]` sections and, for requests that none of them decides, `[cancel]`. It
//! decides the action; withdrawals are carried out by `ingest`, group control messages by `operations`,
//! which read them from the journal. [`Proof`] finds the signer of an article, by the [`Keyring`] of the
//! site, [`signer_of`] the signer of a text. Sources: RFC 5537 section 5, INN's `controlchan`.

mod asked;
mod keyring;
mod policy;
mod proof;
mod verify;

pub(crate) use asked::{Asked, address};
pub(crate) use keyring::{Key, Keyring, is_key_file, is_whole as is_key_whole};
pub(crate) use policy::{Permit, Policy};
pub(crate) use proof::{Proof, Signed, signer_of};
