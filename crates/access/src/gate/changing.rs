//! Passwords that their owners change: after logging in, or by a one-time link of the operator.
//!
//! The present password is checked like one that logs in, under the same lock-outs. A link is checked before
//! anything costly is done, and again when the file is changed, so that it counts once. Called by `web`.

use super::{LoginDenial, LoginGate};
use crate::endpoint::ClientEndpoint;
use crate::users::{
    EditError, PASSWORD_CHARS_MIN, StoredCredentials, UserRecord, UserStore, UserTable, decoy_check,
    prepared, prepared_password, user_of_token,
};
use site_base::clock::unix_secs;
use std::fmt;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tracing::{error, info};

/// Name of a change by its owner in the log.
const HOW: &str = "CHANGE";

/// The reason why a password is not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordChangeDenial {
    /// The present password is wrong, or the link is not valid any more.
    Wrong,
    /// The new password cannot be one: too short, too long, or with a control character.
    Unfit,
    /// This is no mail address.
    NoAddress,
    /// Locked out for this time.
    Locked(Duration),
    /// A failure of the server.
    Trouble,
}

impl fmt::Display for PasswordChangeDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong => f.write_str("The present password is wrong."),
            Self::Unfit => {
                write!(
                    f,
                    "A password has at least {PASSWORD_CHARS_MIN} characters, and no control characters."
                )
            }
            Self::NoAddress => f.write_str("This is no mail address."),
            Self::Locked(left) => write!(f, "Too many failures. Try again in {} s.", left.as_secs() + 1),
            Self::Trouble => f.write_str("Passwords cannot be changed now."),
        }
    }
}

impl From<LoginDenial> for PasswordChangeDenial {
    fn from(denial: LoginDenial) -> Self {
        match denial {
            LoginDenial::Wrong => Self::Wrong,
            LoginDenial::Locked(left) => Self::Locked(left),
            // A user who has logged in has a name.
            LoginDenial::Nameless | LoginDenial::Trouble => Self::Trouble,
        }
    }
}

/// Returns a new password in the form in which it is stored, if it can be one.
pub(crate) fn fit(password: &[u8]) -> Option<Vec<u8>> {
    let is_long = String::from_utf8_lossy(password).chars().count() >= PASSWORD_CHARS_MIN;
    prepared_password(password).filter(|_| is_long)
}

impl LoginGate {
    /// Returns true if the user's password is in the users file, where it can be changed.
    pub fn has_own_password(&self, name: &str) -> bool {
        self.store.recent().is_some_and(|table| table.get(name).is_some_and(|own| own.credentials.is_some()))
    }

    /// Gives a user another password, after checking the present one.
    pub async fn change_password(
        &self,
        caller: &ClientEndpoint,
        name: &str,
        present: &[u8],
        new: &[u8],
    ) -> Result<(), PasswordChangeDenial> {
        self.open_to(caller, name.as_bytes())?;
        let new = fit(new).ok_or(PasswordChangeDenial::Unfit)?;
        let (user, present) = (name.to_owned(), prepared_password(present));
        let changed = self.checking(move |store| {
            let record = proven_record(store, &user, present.as_deref())?;
            // Another change since then wins.
            put(store, &user, &new, |table| table.get(&user) == Some(&record))
        });
        self.count_wrong(caller, name, changed.await)?;
        info!(address = %caller.address, user = name, "password changed by its owner");
        Ok(())
    }

    /// Counts a change that failed for a wrong password. A lock-out that it begins holds for the next
    /// attempt.
    pub(super) fn count_wrong(
        &self,
        caller: &ClientEndpoint,
        name: &str,
        changed: Result<(), PasswordChangeDenial>,
    ) -> Result<(), PasswordChangeDenial> {
        if changed == Err(PasswordChangeDenial::Wrong) {
            self.deny(caller, name.as_bytes(), HOW);
        }
        changed
    }

    /// Returns the user for whom a link's token is valid now.
    pub fn user_of_reset(&self, token: &str) -> Option<Box<str>> {
        user_of_token(&*self.store.recent()?, token, unix_secs())
    }

    /// Gives the user of a link's token another password; the token is spent.
    pub async fn reset_password(
        &self,
        caller: &ClientEndpoint,
        token: &str,
        new: &[u8],
    ) -> Result<(), PasswordChangeDenial> {
        let user = self.user_of_reset(token).ok_or(PasswordChangeDenial::Wrong)?;
        let new = fit(new).ok_or(PasswordChangeDenial::Unfit)?;
        let (token, name) = (token.to_owned(), user.clone());
        let is_valid =
            move |table: &UserTable| user_of_token(table, &token, unix_secs()).is_some_and(|of| of == name);
        let of = user.clone();
        self.checking(move |store| put(store, &of, &new, is_valid)).await?;
        info!(address = %caller.address, user = &*user, "password set by a one-time link");
        Ok(())
    }

    /// Does work that costs as much as checking a password, with a permit for that.
    pub(super) async fn checking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&UserStore) -> Result<T, PasswordChangeDenial> + Send + 'static,
    ) -> Result<T, PasswordChangeDenial> {
        let trouble = |_| PasswordChangeDenial::Trouble;
        let permit = self.checks.load_full().acquire_owned().await.map_err(trouble)?;
        let store = self.store.clone();
        let worked = spawn_blocking(move || {
            let _permit = permit;
            work(&store)
        });
        worked.await.unwrap_or_else(|error| {
            error!(%error, "changing the users failed");
            Err(PasswordChangeDenial::Trouble)
        })
    }
}

/// Returns the user's line if this is the present password, prepared. Slow, whether there is such a user or
/// not.
pub(super) fn proven_record(
    store: &UserStore,
    name: &str,
    present: Option<&[u8]>,
) -> Result<UserRecord, PasswordChangeDenial> {
    let table = store.table();
    let record = table.as_ref().and_then(|table| table.get(name));
    let credentials = record.and_then(|record| record.credentials.as_ref());
    let is_right = match (credentials, present) {
        (Some(credentials), Some(present)) => credentials.argon2.verifies(present),
        (_, present) => decoy_check(present.unwrap_or_default()),
    };
    record.filter(|_| is_right).cloned().ok_or(PasswordChangeDenial::Wrong)
}

/// Stores a user's new password, prepared, if the user is there and `may` says so of the file as it is then.
fn put(
    store: &UserStore,
    name: &str,
    new: &[u8],
    may: impl FnOnce(&UserTable) -> bool,
) -> Result<(), PasswordChangeDenial> {
    let Some(name) = prepared(name.as_bytes()) else { return Err(PasswordChangeDenial::Wrong) };
    let credentials = StoredCredentials::new(new).map_err(|_| PasswordChangeDenial::Trouble)?;
    let changed = store.edit(|table| {
        let record = table.get(&name).filter(|_| may(table)).cloned().ok_or(PasswordChangeDenial::Wrong)?;
        table.put(UserRecord { changed: unix_secs(), credentials: Some(credentials), ..record });
        Ok(())
    });
    edited(changed)
}

/// Returns the reason why a change of the users was refused, or could not be written.
pub(super) fn edited(
    changed: Result<(), EditError<PasswordChangeDenial>>,
) -> Result<(), PasswordChangeDenial> {
    changed.map_err(|failure| match failure {
        EditError::Refused(denial) => denial,
        EditError::Io(error) => {
            error!(%error, "the file of users cannot be changed");
            PasswordChangeDenial::Trouble
        }
    })
}
