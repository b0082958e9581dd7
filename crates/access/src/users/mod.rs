//! Users: the users file, passwords, names.
//!
//! The file is authoritative: every change replaces it as a whole, and a running server reads it again
//! (`docs/formats/users.md`). Called by `gate` and `cli`.

mod credentials;
mod edit;
mod file;
mod mail;
mod name;
mod reset;
mod sign_ups;
mod store;

pub use credentials::{HASH_LEN, ScramKeys, StoredCredentials, decoy_check, hmac_sha256, random, sha256};
pub use edit::{EditError, edit};
pub use file::{FILE_NAME as USERS_FILE_NAME, UserRecord, UserTable, is_group_name, is_whole, load};
pub use mail::{
    ADDRESS_BYTES_MAX, MailMark, MailedSignUp, SIGN_UP_VALID_SECS, is_mail_address, sign_up_of_token,
    sign_up_token,
};
pub use name::{NAME_RULE, PASSWORD_CHARS_MIN, prepared, prepared_password};
pub use reset::{RESET_VALID_SECS, reset_token, user_of_token};
pub use sign_ups::{
    SIGN_UPS_FILE_NAME, SIGN_UPS_MAX, SignUp, SignUpError, confirm_sign_up, is_sign_ups_whole,
    refuse_sign_up, waiting_sign_ups,
};
pub(crate) use sign_ups::{edit_sign_ups, user_of};
pub(crate) use store::UserStore;

/// A user who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, prepared (RFC 4013).
    pub name: Box<str>,
    /// The groups that the users file puts the name into.
    pub groups: Box<[Box<str>]>,
    /// The groups that a program, a directory or a provider brought with the login, for as long as it lasts.
    pub granted: Box<[Box<str>]>,
}

impl User {
    /// Returns a user in these groups of the users file.
    pub fn new(name: impl Into<Box<str>>, groups: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { name: name.into(), groups, granted: Box::default() }
    }

    /// Returns a user of whom the users file knows nothing.
    pub fn named(name: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), groups: Box::default(), granted: Box::default() }
    }

    /// Returns all groups that the user is in.
    pub fn all_groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().chain(&self.granted).map(|group| &**group)
    }
}
