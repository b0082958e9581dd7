//! Accounts that visitors ask for (`web.sign_up`): names that may be taken, and the work.
//!
//! Such a name has only characters that cannot be mistaken for others, is like no user's in other letters,
//! and gets no rights that the configuration gives to some user by name. Where an operator decides, the
//! answer and the work are the same whether a name is taken or not. Called by `web` and `operators`.

use super::LoginGate;
use super::changing::{PasswordChangeDenial, fit};
use crate::endpoint::ClientEndpoint;
use crate::users::{
    EditError, SIGN_UPS_MAX, SignUp, StoredCredentials, UserStore, UserTable, edit_sign_ups, user_of,
};
use site_base::clock::unix_secs;
use site_base::printable;
use site_config::{Access, Config, SignUpMode};
use std::fmt;
use tracing::{error, info, warn};

/// Lengths that a name may have.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 3..=32;
/// Longest line to the operator, in bytes.
pub const NOTE_BYTES_MAX: usize = 200;
/// A name that no site has: what the configuration gives to it, it gives to all users.
const STRANGER: &str = site_config::STRANGER_NAME;
/// Names of offices (RFC 2142), and others that readers take for an operator's.
const OFFICES: [&str; 17] = [
    "abuse",
    "admin",
    "administrator",
    "anonymous",
    "hostmaster",
    "moderator",
    "news",
    "newsmaster",
    "newsreel",
    "noc",
    "operator",
    "postmaster",
    "root",
    "security",
    "support",
    "usenet",
    "webmaster",
];

/// The reason why no account is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignUpDenial {
    /// The site makes no accounts on the web.
    Closed,
    /// The name cannot be one.
    Name,
    /// The password cannot be one.
    Password,
    /// The name is taken, or is named by the configuration.
    Taken,
    /// Too many accounts wait.
    Full,
    /// A failure of the server.
    Trouble,
}

impl fmt::Display for SignUpDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("No accounts are made here."),
            Self::Name => write!(
                f,
                "A name has {} to {} lower case letters, digits, dots and hyphens, and begins with a letter.",
                NAME_BYTES.start(),
                NAME_BYTES.end()
            ),
            Self::Password => PasswordChangeDenial::Unfit.fmt(f),
            Self::Taken => f.write_str("This name is taken. Choose another one."),
            Self::Full => f.write_str("Too many accounts wait for the operator. Try again another day."),
            Self::Trouble => f.write_str("No account can be made now."),
        }
    }
}

/// Returns whether a visitor may ask for this name, apart from those that are taken.
pub fn is_sign_up_name(name: &str) -> bool {
    NAME_BYTES.contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
}

/// Returns whether the configuration gives this name what it does not give to every user, or it is that of
/// an office.
pub fn is_reserved(config: &Config, name: &str) -> bool {
    let is_named = |access: &Access, name: &str| {
        access.users.as_ref().is_some_and(|users| users.matches(name.as_bytes()))
    };
    let is_peer = |user: Option<&str>| user.is_some_and(|user| user.eq_ignore_ascii_case(name));
    OFFICES.contains(&name)
        || config.access.iter().any(|access| is_named(access, name) && !is_named(access, STRANGER))
        || config.peers.iter().any(|peer| is_peer(peer.user.as_deref()))
}

impl LoginGate {
    /// Makes an account, or has it wait for an operator, as the configuration says.
    pub async fn sign_up(
        &self,
        caller: &ClientEndpoint,
        config: &Config,
        name: &str,
        password: &[u8],
        note: &str,
    ) -> Result<(), SignUpDenial> {
        let mode = config.web.sign_up;
        // By mail an account is made in two steps, and not in this one.
        if matches!(mode, SignUpMode::Closed | SignUpMode::Mail) {
            return Err(SignUpDenial::Closed);
        }
        if !is_sign_up_name(name) {
            return Err(SignUpDenial::Name);
        }
        let password = fit(password).ok_or(SignUpDenial::Password)?;
        let mut note = printable::line(note.trim()).into_owned();
        note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
        let (own, address) = (name.to_owned(), caller.address.to_string());
        let (group, is_reserved) = (config.web.sign_up_group.clone(), is_reserved(config, name));
        let worked = self.checking(move |store| {
            let made = StoredCredentials::new(&password).map_err(|_| PasswordChangeDenial::Trouble)?;
            let is_free =
                |table: Option<&UserTable>| !is_reserved && table.is_none_or(|table| !table.has_alike(&own));
            Ok(if mode == SignUpMode::Open {
                let group = group.as_deref();
                filed(store.edit(|table| {
                    is_free(Some(table)).then_some(()).ok_or(SignUpDenial::Taken)?;
                    table.put(user_of(own.as_str().into(), group, made));
                    Ok(())
                }))
            } else {
                let is_free = is_free(store.table().as_deref());
                let name = own.as_str().into();
                let new = SignUp { name, asked: unix_secs(), address, note, credentials: made };
                wait(store, new, is_free)
            })
        });
        let outcome = worked.await.unwrap_or(Err(SignUpDenial::Trouble));
        match outcome {
            Ok(()) => info!(address = %caller.address, user = name, ?mode, "an account was asked for"),
            Err(denial) => {
                warn!(address = %caller.address, user = name, ?mode, ?denial, "no account is made")
            }
        }
        outcome
    }
}

/// Has an account wait, if its name is free. The file is written in any case.
fn wait(store: &UserStore, new: SignUp, is_free: bool) -> Result<(), SignUpDenial> {
    filed(edit_sign_ups(store.disk(), store.data(), |waiting| {
        if waiting.len() >= SIGN_UPS_MAX {
            return Err(SignUpDenial::Full);
        }
        if is_free && waiting.iter().all(|one| one.name != new.name) {
            waiting.push(new);
        }
        Ok(())
    }))
}

fn filed(result: Result<(), EditError<SignUpDenial>>) -> Result<(), SignUpDenial> {
    result.map_err(|failure| match failure {
        EditError::Refused(denial) => denial,
        EditError::Io(error) => {
            error!(%error, "an account cannot be written");
            SignUpDenial::Trouble
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    #[test]
    fn names_cannot_be_mistaken_for_others() {
        for good in ["fred", "fred.flintstone", "a1-2", &"x".repeat(32)] {
            assert!(is_sign_up_name(good), "{good}");
        }
        for bad in [
            "",
            "ab",
            "Fred",
            "fr\u{435}d",
            "1fred",
            ".fred",
            "fred flint",
            "fred_f",
            "a\tb",
            "-ab",
            "a<b>",
            &"x".repeat(33),
        ] {
            assert!(!is_sign_up_name(bad), "{bad}");
        }
    }

    #[test]
    fn names_with_rights_of_their_own_are_reserved() {
        let config = with_trash(
            "[[access]]\nfrom = \"all\"\nusers = \"carol,mod-*\"\noperator = true\n\
             [[access]]\nfrom = \"all\"\nusers = \"*,!guest*\"\nread = \"*\"\n\
             [[peer]]\nname = \"p.example\"\naddresses = [\"192.0.2.1\"]\nuser = \"Peer\"\n",
        );
        for name in ["carol", "mod-a", "peer", "root", "postmaster"] {
            assert!(is_reserved(&config, name), "{name}");
        }
        for name in ["fred", "caroline", "guest1", "moda"] {
            assert!(!is_reserved(&config, name), "{name}");
        }
    }
}
