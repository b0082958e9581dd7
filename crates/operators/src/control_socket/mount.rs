//! Mounts of the spool over the control socket: [`MountOperation`].
//!
//! The command has the right to mount, the server has the articles. The command therefore mounts and passes
//! the device to the server, as the ancillary data of one byte; from then on the server answers the kernel's
//! requests. The connection lasts as long as the mount: it ends after an unmount, or when the server stops,
//! upon which the command unmounts. If the command is killed, the mount keeps working until it is unmounted
//! or the server stops.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::exchange::ControlExchange;
use crate::mounted::{SpoolArticles, SpoolViewOptions};
use crate::operation::{OperatedSite, Operation};
use crate::reply::Reply;
use crate::running::Server;
use crate::sink::Sink;
use access::users::random;
use site::Site;
use site_base::lock::Leaf;

/// Time within which a device must start to work.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent mounts.
const MOUNTS_MAX: usize = 64;
/// Ends of mounts that are remembered for the commands that ask about them.
const ENDED_MAX: usize = 256;

static MOUNTS: Leaf<MountTable> = Leaf::new(MountTable { answered: BTreeSet::new(), ended: VecDeque::new() });

/// The mounts of this process, by numbers that no other process has.
struct MountTable {
    answered: BTreeSet<u64>,
    /// Ended mounts, the latest last, with the reason unless they were unmounted.
    ended: VecDeque<(u64, Option<String>)>,
}

/// Passes a device to the server.
pub fn send_device(to: &UnixStream, device: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [device.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(to, &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Counts a mount for as long as its thread runs.
struct AnsweredMount(u64);

impl AnsweredMount {
    /// Counts another mount; `None` at the maximum.
    fn new() -> io::Result<Option<Self>> {
        let id =
            u64::from_ne_bytes(random().map_err(|_| io::Error::other("the system has no random numbers"))?);
        let mut mounts = MOUNTS.lock();
        Ok((mounts.answered.len() < MOUNTS_MAX && mounts.answered.insert(id)).then_some(Self(id)))
    }

    /// Remembers how it ended.
    fn ended(self, end: &io::Result<()>) {
        let mut mounts = MOUNTS.lock();
        mounts.ended.push_back((self.0, end.as_ref().err().map(ToString::to_string)));
        if mounts.ended.len() > ENDED_MAX {
            mounts.ended.pop_front();
        }
    }
}

impl Drop for AnsweredMount {
    fn drop(&mut self) {
        MOUNTS.lock().answered.remove(&self.0);
    }
}

/// Whether a mount still stands; answered by [`Reply::MountEnded`] if it does not. Likewise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountStandingOperation {
    /// The number of [`Reply::Mounted`].
    pub mount: u64,
}

impl Operation for MountStandingOperation {
    fn run(&self, _site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let standing = {
            let mounts = MOUNTS.lock();
            let ended = mounts.ended.iter().find(|(id, _)| *id == self.mount);
            match ended {
                Some((_, failure)) => Some(Reply::MountEnded { failure: failure.clone() }),
                None if mounts.answered.contains(&self.mount) => None,
                None => Some(Reply::Error("the server that answered for the mount has ended".to_owned())),
            }
        };
        let Some(reply) = standing else { return true };
        let is_known = !matches!(reply, Reply::Error(_));
        sink(reply);
        is_known
    }

    fn is_for_control_group(&self) -> bool {
        true
    }
}

/// Answer for a mount of the spool: the first [`Reply::Done`] asks for its device, the next one reports
/// that the mount works, the last that it has ended. Only in servers built with mounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountOperation {
    /// Address of the reader whose groups are shown.
    pub reader: IpAddr,
    /// Whether lines of files end in CRLF instead of LF.
    pub crlf: bool,
}

impl Operation for MountOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        // The device comes over the control socket, so this is for a server alone.
        site.server(sink);
        false
    }

    fn is_for_control_group(&self) -> bool {
        true
    }

    fn answer(&self, server: &Server, client: &mut ControlExchange) -> io::Result<bool> {
        serve(&server.site, SpoolViewOptions { reader: self.reader, crlf: self.crlf }, client)
    }
}

/// Begins to answer for a mount; says when to send the device, and its number when it works. Returns whether
/// it does.
fn serve(site: &Arc<Site>, looks: SpoolViewOptions, client: &mut ControlExchange) -> io::Result<bool> {
    let articles = match SpoolArticles::new(site, looks) {
        Ok(articles) => articles,
        Err(why) => {
            client.send(&Reply::Error(why.to_string()))?;
            return Ok(false);
        }
    };
    let Some(mount) = AnsweredMount::new()? else {
        client.send(&Reply::Error(format!("there are {MOUNTS_MAX} mounts already")))?;
        return Ok(false);
    };
    client.send(&Reply::Done { ok: true })?;
    let device = match client.waits(|stream| usenetfs::receive_device(stream)) {
        Ok(device) => device,
        Err(error) => {
            client.send(&Reply::Error(error.to_string()))?;
            return Ok(false);
        }
    };
    let id = mount.0;
    let (ready, is_ready) = channel();
    let (ends, ended) = channel();
    std::thread::Builder::new().name("mount".into()).spawn(move || {
        let end = usenetfs::serve(device, articles, || {
            // The waiting side may have given up.
            let _unheard = ready.send(());
        });
        match &end {
            Ok(()) => info!("the spool is mounted no longer"),
            Err(error) => warn!(%error, "the mount of the spool has failed"),
        }
        mount.ended(&end);
        let _unheard = ends.send(end);
    })?;
    if is_ready.recv_timeout(READY_TIMEOUT).is_err() {
        let why = match ended.try_recv() {
            Ok(Err(error)) => error.to_string(),
            _ => "the kernel does not answer".to_owned(),
        };
        client.send(&Reply::Error(format!("the mount does not work: {why}")))?;
        return Ok(false);
    }
    info!(reader = %looks.reader, "the spool is mounted");
    client.send(&Reply::Mounted { mount: id })?;
    Ok(true)
}
