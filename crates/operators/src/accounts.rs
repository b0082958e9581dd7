//! Accounts that were asked for on the web and wait for an operator; typed as `user waiting`, `user confirm`
//! and `user refuse`.

use super::operation::{OperatedSite, Operation};
use super::reply::{Reply, SignUpRow};
use super::sink::Sink;
use access::is_reserved;
use access::users::{SignUpError, confirm_sign_up, refuse_sign_up, waiting_sign_ups};
use disk::Disk;
use serde::{Deserialize, Serialize};
use site_config::Config;

/// Action on accounts that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AccountsCommand {
    /// Lists them, the oldest first.
    List {},
    /// Makes users of them.
    Confirm {
        /// Their names.
        names: Vec<String>,
    },
    /// Deletes them.
    Refuse {
        /// Their names.
        names: Vec<String>,
    },
}

/// Decide about accounts that wait; answered by [`Reply::SignUp`] or [`Reply::Text`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountsOperation {
    /// Action on accounts.
    pub command: AccountsCommand,
}

/// Reason why nothing was done about an account.
#[derive(Debug, thiserror::Error)]
enum AccountError {
    #[error("{0}")]
    Files(SignUpError),
    /// The configuration gives rights to this name by now.
    #[error("the configuration gives rights to this name; refuse it")]
    Reserved,
}

impl Operation for AccountsOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        execute(&**site.spool().disk(), &site.config(), &self.command, sink)
    }
}

fn execute(disk: &dyn Disk, config: &Config, command: &AccountsCommand, sink: &mut Sink<'_>) -> bool {
    let data = &config.site.data;
    match command {
        AccountsCommand::List {} => match waiting_sign_ups(disk, data) {
            Ok(waiting) => {
                waiting.into_iter().for_each(|one| {
                    let name = one.name.into_string();
                    let (address, note) = (one.address, one.note);
                    sink(Reply::SignUp(SignUpRow { name, asked: one.asked, address, note }));
                });
                true
            }
            Err(error) => {
                sink(Reply::Error(error.to_string()));
                false
            }
        },
        AccountsCommand::Confirm { names } => each(names, "is a user now", sink, |name| {
            if is_reserved(config, name) {
                return Err(AccountError::Reserved);
            }
            let group = config.web.sign_up_group.as_deref();
            confirm_sign_up(disk, data, name, group).map_err(AccountError::Files)
        }),
        AccountsCommand::Refuse { names } => each(names, "does not wait any more", sink, |name| {
            refuse_sign_up(disk, data, name).map_err(AccountError::Files)
        }),
    }
}

fn each(
    names: &[String],
    done: &str,
    sink: &mut Sink<'_>,
    act: impl Fn(&str) -> Result<(), AccountError>,
) -> bool {
    let mut ok = true;
    for name in names {
        match act(name) {
            Ok(()) => sink(Reply::Text(format!("{name} {done}"))),
            Err(error) => {
                ok = false;
                sink(Reply::Error(format!("{name}: {error}")));
            }
        }
    }
    ok
}
