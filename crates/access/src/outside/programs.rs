//! Authentication programs, run like those of INN's nnrpd.
//!
//! A program receives what is known of the client on its standard input and accepts with `User:NAME` and exit
//! code 0; lines `Group:NAME` name groups. It is killed when its time is over, and only a limited number run
//! at once: one that is slow delays those alone who wait for it, and no longer than its time. The password is
//! on its standard input only. Called by `outside`. Source: INN's external-auth documentation.

use super::verdict::{OutsideUser, OutsideVerdict, PasswordAttempt, granted_groups};
use crate::endpoint::ClientEndpoint;
use site_base::program::{ProcessGroup, piped};
use site_config::{Authenticator, GroupGrant};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Maximum output of a program, in bytes, on either stream.
const OUTPUT_BYTES_MAX: u64 = 4096;

/// An `[[authenticator]]` section.
#[derive(Debug)]
pub(super) struct AuthProgram {
    words: Vec<String>,
    groups: Vec<GroupGrant>,
    time: Duration,
    places: Semaphore,
}

impl AuthProgram {
    pub fn new(config: &Authenticator) -> Self {
        Self {
            words: config.program.clone(),
            groups: config.groups.clone(),
            time: config.timeout,
            places: Semaphore::new(config.processes_max),
        }
    }

    /// Asks the program about a name and a password.
    pub async fn ask(&self, attempt: &PasswordAttempt<'_>) -> OutsideVerdict {
        let PasswordAttempt { caller, name, password, locked } = *attempt;
        let Some((program, arguments)) = self.words.split_first() else { return OutsideVerdict::Refused };
        let forbidden = |text: &[u8]| text.iter().any(|b| matches!(b, b'\r' | b'\n' | 0));
        if forbidden(name) || forbidden(password) {
            return OutsideVerdict::Refused;
        }
        let Ok(Ok(_place)) = timeout(self.time, self.places.acquire()).await else {
            warn!(program, "all processes of the authenticator were busy for too long");
            return OutsideVerdict::Unavailable;
        };
        if let Some(left) = locked() {
            return OutsideVerdict::Locked(left);
        }
        let run = async {
            let mut child = piped(program, arguments).spawn()?;
            let group = ProcessGroup::of(child.id());
            let (mut said, mut complained) = (Vec::new(), Vec::new());
            let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let tell = async {
                if let Some(mut stdin) = stdin {
                    // A program may decide without reading its input.
                    let _closed = stdin.write_all(&question(caller, name, password)).await;
                }
            };
            let hear = async {
                if let Some(stdout) = stdout {
                    stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut said).await?;
                }
                Ok::<_, std::io::Error>(())
            };
            let hear_complaints = async {
                if let Some(stderr) = stderr {
                    stderr.take(OUTPUT_BYTES_MAX).read_to_end(&mut complained).await?;
                }
                Ok::<_, std::io::Error>(())
            };
            let (_, heard, complaints) = tokio::join!(tell, hear, hear_complaints);
            heard.and(complaints)?;
            let status = child.wait().await?;
            group.ended();
            Ok::<_, std::io::Error>((status, said, complained))
        };
        match timeout(self.time, run).await {
            Ok(Ok((status, said, complained))) => {
                if !complained.is_empty() {
                    debug!(program, text = %String::from_utf8_lossy(&complained).trim(), "authenticator");
                }
                let accepted = status.success().then(|| user_in(&said)).flatten();
                accepted.map_or(OutsideVerdict::Refused, |name| {
                    let groups = granted_groups(&self.groups, &groups_in(&said));
                    OutsideVerdict::Accepted(OutsideUser { name, groups })
                })
            }
            Ok(Err(error)) => {
                warn!(program, %error, "cannot ask the authenticator");
                OutsideVerdict::Refused
            }
            Err(_) => {
                warn!(program, "the authenticator did not answer in time and was killed");
                OutsideVerdict::Unavailable
            }
        }
    }
}

/// Returns the input of the program.
fn question(caller: &ClientEndpoint, name: &[u8], password: &[u8]) -> Vec<u8> {
    let address = caller.address;
    let mut text = format!("ClientHost: {address}\r\nClientIP: {address}\r\nClientPort: {}\r\n", caller.port)
        .into_bytes();
    if let Some(local) = caller.local {
        let (ip, port) = (local.ip().to_canonical(), local.port());
        text.extend_from_slice(format!("LocalIP: {ip}\r\nLocalPort: {port}\r\n").as_bytes());
    }
    for (label, value) in [(&b"ClientAuthname: "[..], name), (b"ClientPassword: ", password)] {
        text.extend_from_slice(label);
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b".\r\n");
    text
}

/// Returns the name in the program's last `User:` line, unless there is an `Error:` line.
fn user_in(said: &[u8]) -> Option<Vec<u8>> {
    if lines_of(said, b"Error:").next().is_some() {
        return None;
    }
    lines_of(said, b"User:").last().filter(|user| !user.is_empty()).map(<[u8]>::to_vec)
}

/// Returns the names in `Group:` lines.
fn groups_in(said: &[u8]) -> Vec<&str> {
    lines_of(said, b"Group:").filter_map(|name| str::from_utf8(name).ok()).collect()
}

/// Returns what follows a label in each line that begins with it, in any case.
fn lines_of<'a>(said: &'a [u8], label: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    said.split(|&b| b == b'\n').filter_map(|line| {
        let (head, rest) = line.trim_ascii().split_at_checked(label.len())?;
        head.eq_ignore_ascii_case(label).then(|| rest.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_and_output_of_programs() {
        let caller = ClientEndpoint {
            address: "192.0.2.1".parse().unwrap(),
            port: 4711,
            local: Some("192.0.2.9:119".parse().unwrap()),
        };
        assert_eq!(
            String::from_utf8(question(&caller, b"fred", b"two words")).unwrap(),
            "ClientHost: 192.0.2.1\r\nClientIP: 192.0.2.1\r\nClientPort: 4711\r\nLocalIP: 192.0.2.9\r\n\
             LocalPort: 119\r\nClientAuthname: fred\r\nClientPassword: two words\r\n.\r\n"
        );
        assert_eq!(user_in(b"User:fred\r\n").as_deref(), Some(&b"fred"[..]));
        assert_eq!(user_in(b"noise\nuser: fred@here\n").as_deref(), Some(&b"fred@here"[..]));
        assert_eq!(user_in(b"User:fred\r\nError:no\r\n"), None);
        assert_eq!(user_in(b"User:\r\n"), None);
        assert_eq!(groups_in(b"Group:staff\r\nUser:fred\r\ngroup: two words \r\n"), ["staff", "two words"]);
        assert!(groups_in(b"User:fred\r\nGroups:staff\r\nGroup:\xff\r\n").is_empty());
        assert_eq!(user_in(b""), None);
    }
}
