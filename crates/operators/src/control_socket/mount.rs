//! Mounts of the spool over the control socket: [`crate::operations::request::Request::Mount`].
//!
//! The command has the right to mount, the server has the articles. The command therefore mounts and passes
//! the device to the server, as the ancillary data of one byte; from then on the server answers the kernel's
//! requests. The connection lasts as long as the mount: it ends after an unmount, or when the server stops,
//! upon which the command unmounts. If the command is killed, the mount keeps working until it is unmounted
//! or the server stops.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tracing::{info, warn};

use super::say;
use crate::mounted::{Looks, SpoolArticles};
use crate::request::Reply;
use site::Site;

/// Time within which a device must start to work.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a mount checks whether it is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of concurrent mounts.
const MOUNTS_MAX: usize = 64;

static MOUNTS: AtomicUsize = AtomicUsize::new(0);

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
struct Counted;

impl Counted {
    /// Counts another mount; `None` at the maximum.
    fn new() -> Option<Self> {
        let more = |mounts| (mounts < MOUNTS_MAX).then_some(mounts + 1);
        MOUNTS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok().then_some(Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        MOUNTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a mount until it is over; replies when the device is to be sent, and when the mount works. Returns
/// whether it was unmounted.
pub(super) fn serve(
    site: &Arc<Site>,
    looks: Looks,
    stream: &UnixStream,
    replies: &mut impl Write,
) -> io::Result<bool> {
    let articles = match SpoolArticles::new(site, looks) {
        Ok(articles) => articles,
        Err(why) => {
            say(replies, &Reply::Error(why))?;
            return Ok(false);
        }
    };
    let Some(counted) = Counted::new() else {
        say(replies, &Reply::Error(format!("there are {MOUNTS_MAX} mounts already")))?;
        return Ok(false);
    };
    step_done(replies)?;
    let device = match usenetfs::receive_device(stream) {
        Ok(device) => device,
        Err(error) => {
            say(replies, &Reply::Error(error.to_string()))?;
            return Ok(false);
        }
    };
    let (ready, is_ready) = channel();
    let (ends, ended) = channel();
    std::thread::Builder::new().name("mount".into()).spawn(move || {
        let end = usenetfs::serve(device, articles, || {
            // The waiting side may have given up.
            let _unheard = ready.send(());
        });
        drop(counted);
        let _unheard = ends.send(end);
    })?;
    if is_ready.recv_timeout(READY_TIMEOUT).is_err() {
        let why = match ended.try_recv() {
            Ok(Err(error)) => error.to_string(),
            _ => "the kernel does not answer".to_owned(),
        };
        say(replies, &Reply::Error(format!("the mount does not work: {why}")))?;
        return Ok(false);
    }
    info!(reader = %looks.reader, "the spool is mounted");
    step_done(replies)?;
    until_over(site, stream, &ended, replies)
}

/// Replies that the command may take its next step.
fn step_done(replies: &mut impl Write) -> io::Result<()> {
    say(replies, &Reply::Done { ok: true })?;
    replies.flush()
}

fn until_over(
    site: &Site,
    stream: &UnixStream,
    ended: &Receiver<io::Result<()>>,
    replies: &mut impl Write,
) -> io::Result<bool> {
    loop {
        match ended.recv_timeout(LOOK_INTERVAL) {
            Ok(Ok(())) => {
                info!("the spool is mounted no longer");
                return Ok(true);
            }
            Ok(Err(error)) => {
                warn!(%error, "the mount of the spool has failed");
                say(replies, &Reply::Error(format!("the mount has failed: {error}")))?;
                return Ok(false);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
            Err(RecvTimeoutError::Timeout) if site.is_stopping() => {
                say(replies, &Reply::Error("the server stops".to_owned()))?;
                return Ok(false);
            }
            Err(RecvTimeoutError::Timeout) if is_gone(stream) => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Returns true if the command has ended: it has nothing more to send.
fn is_gone(stream: &UnixStream) -> bool {
    let mut looked = [PollFd::new(stream, PollFlags::IN)];
    poll(&mut looked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
