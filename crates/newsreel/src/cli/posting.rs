//! `cancel-key`: prints what an operator needs for a cancel.

use super::locate::SiteLocation;
use super::screen::{CliError, problem, say};
use access::cancel_lock::key_element;
use disk::RealDisk;
use netnews::MessageId;
use site::inject::Secret;

/// Prints the Cancel-Key header that withdraws an article posted here: the key of the operator, or of the
/// user who posted it.
pub(super) fn cancel_key(at: &SiteLocation, id: &str, user: Option<&str>) -> Result<(), CliError> {
    let config = at.load()?;
    let id = MessageId::parse(id.as_bytes()).ok_or_else(|| {
        CliError::Usage(format!("`{id}` is not a Message-ID; write it with its brackets: '<...>'"))
    })?;
    let secret = Secret::open(&RealDisk::new(), &config.site.data).map_err(problem)?;
    let key = match user {
        Some(user) => secret.user_key(user, id.as_str()),
        None => secret.operator_key(id.as_str()),
    };
    say(format_args!("Cancel-Key: {}", key_element(&key)))
}
