//! Accounts and passwords by links that are mailed: what is mailed, and to whom.
//!
//! A visitor who asks learns nothing: the web answers before anything is looked up, and only the owner of an
//! address sees what came of it. An account is made with a password that is chosen once the address has
//! proven to be its owner's. Called by `web`.

use super::LoginGate;
use super::changing::{PasswordChangeDenial, edited, fit, proven_record};
use super::signing_up::{is_reserved, is_sign_up_name};
use crate::endpoint::ClientEndpoint;
use crate::users::{
    MailMark, MailedSignUp, SIGN_UP_VALID_SECS, StoredCredentials, UserRecord, UserTable, is_mail_address,
    prepared_password, reset_token, sign_up_of_token, sign_up_token, user_of,
};
use site_base::clock::unix_secs;
use site_config::{Config, SignUpMode};
use std::time::{Duration, Instant};
use tracing::{error, info};

/// What is mailed to an address that an account was asked for with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignUpMail {
    /// The token of a link that makes the account.
    Token(String),
    /// The name cannot be had.
    Taken,
}

impl LoginGate {
    /// Returns what to mail to an address with which an account was asked for; `None` if nothing, as accounts
    /// are not made this way, or for a failure of the server. Blocks.
    pub fn sign_up_mail(&self, config: &Config, name: &str, address: &str) -> Option<SignUpMail> {
        if config.web.sign_up != SignUpMode::Mail || !is_sign_up_name(name) {
            return None;
        }
        let table = match self.store.table() {
            Some(table) => table,
            None if self.store.is_unknown() => return None,
            None => {
                // The key of links is in the file.
                let made = self.store.edit(|_| Ok::<_, ()>(()));
                made.inspect_err(|failure| error!(?failure, "the file of users cannot be made")).ok()?;
                self.store.table()?
            }
        };
        Some(match is_free(config, &table, name) {
            true => SignUpMail::Token(sign_up_token(&table, name, address, unix_secs())),
            false => SignUpMail::Taken,
        })
    }

    /// Returns the name of the account that a link makes, if it is valid now.
    pub fn name_of_sign_up(&self, config: &Config, token: &str) -> Option<Box<str>> {
        Some(self.sign_up_of(config, token)?.name)
    }

    fn sign_up_of(&self, config: &Config, token: &str) -> Option<MailedSignUp> {
        let table = self.store.recent().filter(|_| config.web.sign_up == SignUpMode::Mail)?;
        let found = sign_up_of_token(&table, token, unix_secs())?;
        let is_valid =
            is_free(config, &table, &found.name) && !self.spent.is_spent(&found.mark, Instant::now());
        is_valid.then_some(found)
    }

    /// Makes the account of a link, with this password; the link is spent unless the server fails.
    pub async fn confirm_by_mail(
        &self,
        caller: &ClientEndpoint,
        config: &Config,
        token: &str,
        new: &[u8],
    ) -> Result<(), PasswordChangeDenial> {
        let found = self.sign_up_of(config, token).ok_or(PasswordChangeDenial::Wrong)?;
        let new = fit(new).ok_or(PasswordChangeDenial::Unfit)?;
        let lasts = Duration::from_secs(SIGN_UP_VALID_SECS);
        if !self.spent.spend(found.mark, lasts, Instant::now()) {
            return Err(PasswordChangeDenial::Wrong);
        }
        let (name, group, mark) = (found.name.clone(), config.web.sign_up_group.clone(), found.mark);
        let made = self.checking(move |store| {
            let made = StoredCredentials::new(&new).map_err(|_| PasswordChangeDenial::Trouble)?;
            edited(store.edit(|table| {
                if table.has_alike(&found.name) {
                    return Err(PasswordChangeDenial::Wrong);
                }
                let mut record = user_of(found.name, group.as_deref(), made);
                record.mail = Some(found.mail);
                table.put(record);
                Ok(())
            }))
        });
        made.await.inspect_err(|denial| {
            if !matches!(denial, PasswordChangeDenial::Wrong) {
                self.spent.give_back(&mark);
            }
        })?;
        info!(address = %caller.address, user = &*name, "an account was confirmed by mail");
        Ok(())
    }

    /// Keeps the mark of a user's mail address, after checking the password; an empty address removes it. It
    /// need not be proven: mails go to an address only when it is typed again.
    pub async fn set_mail(
        &self,
        caller: &ClientEndpoint,
        name: &str,
        present: &[u8],
        address: &str,
    ) -> Result<(), PasswordChangeDenial> {
        self.open_to(caller, name.as_bytes())?;
        if !address.is_empty() && !is_mail_address(address) {
            return Err(PasswordChangeDenial::NoAddress);
        }
        let (user, present, address) = (name.to_owned(), prepared_password(present), address.to_owned());
        let changed = self.checking(move |store| {
            let proven = proven_record(store, &user, present.as_deref())?;
            edited(store.edit(|table| {
                let mail = (!address.is_empty()).then(|| MailMark::of(table, &address));
                // Another change since then wins.
                let record = table.get(&user).filter(|now| **now == proven).cloned();
                table.put(UserRecord { mail, ..record.ok_or(PasswordChangeDenial::Wrong)? });
                Ok(())
            }))
        });
        self.count_wrong(caller, name, changed.await)?;
        info!(address = %caller.address, user = name, "mail address changed by its owner");
        Ok(())
    }

    /// Returns true if a mail address of the user is known.
    pub fn has_mail(&self, name: &str) -> bool {
        self.store.recent().is_some_and(|table| table.get(name).is_some_and(|record| record.mail.is_some()))
    }

    /// Returns the token of a link to another password for a user, if the account was made with this address.
    pub fn reset_mail(&self, config: &Config, name: &str, address: &str) -> Option<String> {
        let table = self.store.recent().filter(|_| config.web.reset_by_mail)?;
        let mail = MailMark::of(&table, address);
        let is_own = table.get(name).is_some_and(|record| record.mail.as_ref() == Some(&mail));
        reset_token(&table, name, unix_secs()).filter(|_| is_own)
    }
}

fn is_free(config: &Config, table: &UserTable, name: &str) -> bool {
    !is_reserved(config, name) && !table.has_alike(name)
}
