//! Mounting for users without the right to mount: `fusermount3` has the right, checks that the mount point is
//! the user's, and passes the device of the mount over a socket. It comes with libfuse.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{FileType, FsWord, fstat, major, minor, statfs};
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

const PROGRAM: &str = "fusermount3";
/// Environment variable with the helper's descriptor of the socket.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";
/// Major and minor number of /dev/fuse.
const DEVICE: (u32, u32) = (10, 229);
/// File system type of a FUSE mount in `statfs`.
const FUSE: FsWord = 0x6573_5546;

/// Names of options.
const WORDS: [(MountFlags, &str); 5] = [
    (MountFlags::RDONLY, "ro"),
    (MountFlags::NOSUID, "nosuid"),
    (MountFlags::NODEV, "nodev"),
    (MountFlags::NOEXEC, "noexec"),
    (MountFlags::NOATIME, "noatime"),
];

/// Receives the device of a mount from another process; accepts nothing but such a device.
pub fn receive(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let device = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let device = device.ok_or_else(|| wrong("the device of the mount did not come"))?;
    // With any other file the sender could speak in the kernel's name.
    let stat = fstat(&device)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    if is_device && (major(stat.st_rdev), minor(stat.st_rdev)) == DEVICE {
        Ok(device)
    } else {
        Err(wrong("what came is not the device of a mount"))
    }
}

/// Mounts at `point`; returns the device of the mount.
pub(super) fn mount(point: &Path, source: &str, flags: MountFlags, others: bool) -> io::Result<File> {
    let mut options: Vec<&str> =
        WORDS.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| *word).collect();
    options.push("default_permissions");
    if others {
        options.push("allow_other");
    }
    let source = format!("fsname={}", escaped(source));
    options.push(&source);
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &options.join(","), "--"]).arg(point);
    command.env(SOCKET_VARIABLE, "0").stdin(OwnedFd::from(theirs));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(not_started)?;
    // The command holds the other end of the socket.
    drop(command);
    let device = receive(&ours);
    succeeded(&child.wait_with_output()?)?;
    device.map(File::from)
}

/// Unmounts at once; processes with open files keep them.
pub(super) fn unmount(point: &Path) -> io::Result<()> {
    let output = Command::new(PROGRAM).args(["-u", "-z", "--"]).arg(point).output().map_err(not_started)?;
    match succeeded(&output) {
        // The mount was removed by another process.
        Err(_) if statfs(point).is_ok_and(|there| there.f_type != FUSE) => Ok(()),
        done => done,
    }
}

fn not_started(error: io::Error) -> io::Error {
    let why = format!("only root may without {PROGRAM} (of the package fuse3): {error}");
    io::Error::new(error.kind(), why)
}

fn succeeded(output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Escapes a value in a list of options that are separated by commas.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::IoSlice;
    use std::os::fd::AsFd;

    #[test]
    fn only_a_fuse_device_is_accepted() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let pass = |descriptors: &[std::os::fd::BorrowedFd<'_>]| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            sendmsg(&theirs, &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
            receive(&ours).unwrap_err().to_string()
        };
        assert_eq!(pass(&[]), "the device of the mount did not come");
        for other in [OwnedFd::from(File::open("/dev/null").unwrap()), ours.try_clone().unwrap().into()] {
            assert_eq!(pass(&[other.as_fd()]), "what came is not the device of a mount");
        }
    }

    #[test]
    fn commas_do_not_end_an_option() {
        assert_eq!(escaped(r"usenetfs:/a,allow_other\,b"), r"usenetfs:/a\,allow_other\\\,b");
    }
}
