//! Sending a mail: by SMTP or by a program, as configured.
//!
//! Called by `moderation`.

use super::queue::QueuedMail;
use super::unsent::MailError;
use super::{sendmail, smtp};
use site_config::Moderation;

/// The way in which mails are sent.
#[derive(Debug)]
pub(super) enum Mailer {
    Smtp { server: String, identity: String },
    Sendmail { command: Vec<String> },
}

impl Mailer {
    pub fn of(moderation: &Moderation, identity: &str) -> Self {
        match &moderation.smtp {
            Some(server) => Self::Smtp { server: server.clone(), identity: identity.to_owned() },
            None => Self::Sendmail {
                command: moderation.sendmail.split_whitespace().map(str::to_owned).collect(),
            },
        }
    }

    pub async fn send(&self, mail: &QueuedMail) -> Result<(), MailError> {
        match self {
            Self::Smtp { server, identity } => smtp::send(server, identity, mail).await,
            Self::Sendmail { command } => sendmail::send(command, mail).await,
        }
    }
}
