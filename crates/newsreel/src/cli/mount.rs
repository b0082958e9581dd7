//! `mount`, `manage`, `unmanage`: the Usenetfs mount and the directories that it manages, and the mount of a
//! running server's articles.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clap::Args;
use disk::Progress as _;
use netnews::bucket::BucketScheme;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use usenetfs::{Device, DirectoryForm, MountSettings, Mounted, Suggestions};

use super::bar::Bar;
use super::control::{ControlClient, ControlSocketState};
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, complain, problem, say, say_json};
use operators::control_socket::mount::{MountOperation, MountStandingOperation};
use operators::reply::Reply;
use site_base::units;
use site_base::units::counted;

/// Text between a tree and its mount point in the message of success.
const IS_MOUNTED: &str = "is mounted on";
/// Longest line in which the background process reports its result, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Time to wait for open files after a signal.
const OPEN_FILES_WAIT: Duration = Duration::from_secs(10);
/// How often the server is asked whether a mount of its spool still stands, and while it ends.
const STANDING_INTERVAL: Duration = Duration::from_secs(1);
const END_INTERVAL: Duration = Duration::from_millis(20);
/// Suggestions that are printed without `--json`.
const SUGGESTED_MAX: usize = 50;

/// Arguments of `mount`.
#[derive(Debug, Clone, Args)]
pub(super) struct MountOptions {
    /// The tree to be shown
    #[arg(value_name = "LOWER", required_unless_present = "spool")]
    lower: Option<PathBuf>,
    /// An existing directory on which it is mounted; it may be LOWER itself
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "spool")]
    mountpoint: Option<PathBuf>,
    /// Show the articles of the running server instead, read-only, as files group/name/number
    #[arg(long, value_name = "MOUNTPOINT", conflicts_with_all = ["lower", "mountpoint"])]
    spool: Option<PathBuf>,
    /// With --spool: show the groups that readers at this address may read
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), requires = "spool")]
    reader: IpAddr,
    /// With --spool: lines of files end in CRLF, as NNTP sends them, instead of LF
    #[arg(long, requires = "spool")]
    crlf: bool,
    /// The buckets of managed directories, named by that of article 123456: 345, 34/56, 56/34 or 456
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: BucketScheme,
    /// How long the kernel keeps names and attributes; longer is faster, and safe as long as LOWER is changed
    /// only through the mount
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "1s")]
    keep: Duration,
    /// Allow no changes through the mount
    #[arg(long)]
    read_only: bool,
    /// Let only this user use the mount [default: everybody if root mounts, else this user]
    #[arg(long, conflicts_with = "allow_others")]
    only_owner: bool,
    /// Let everybody use the mount; users who are not root need the line user_allow_other in /etc/fuse.conf
    #[arg(long)]
    allow_others: bool,
    /// Read and write files in this process even if the kernel could do it alone
    #[arg(long)]
    no_passthrough: bool,
    /// Options as mount(8) passes them: ro, keep=TIME, scheme=SCHEME, only_owner, allow_other, no_passthrough
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Return once the tree is mounted, and answer in a process of its own
    #[arg(long, conflicts_with = "spool")]
    background: bool,
}

/// Options of mount(8) for other programs: for `mount` itself, for systemd, or those that all our mounts
/// have.
const FOREIGN_OPTIONS: &[&str] = &[
    "defaults",
    "rw",
    "auto",
    "noauto",
    "user",
    "users",
    "owner",
    "nofail",
    "_netdev",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "noexec",
    "async",
    "atime",
    "noatime",
    "relatime",
    "diratime",
    "nodiratime",
];
/// Prefixes of such options.
const FOREIGN_PREFIXES: &[&str] = &["x-", "X-", "comment="];

impl MountOptions {
    /// Returns the options with those of `-o` applied.
    fn with_options(&self) -> Result<Self, CliError> {
        let mut options = self.clone();
        for option in std::mem::take(&mut options.options) {
            options.set(&option)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Result<(), CliError> {
        let wrong = |why: String| CliError::Usage(format!("-o {option}: {why}"));
        match option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value))) {
            ("ro", None) => self.read_only = true,
            ("only_owner", None) => self.only_owner = true,
            ("allow_other", None) => self.allow_others = true,
            ("no_passthrough", None) => self.no_passthrough = true,
            ("keep", Some(value)) => {
                self.keep = units::parse_span(value).map_err(|error| wrong(error.to_string()))?;
            }
            ("scheme", Some(value)) => {
                self.scheme = value.parse().map_err(|unknown| wrong(format!("{unknown}")))?;
            }
            _ if FOREIGN_OPTIONS.contains(&option) => {}
            _ if FOREIGN_PREFIXES.iter().any(|prefix| option.starts_with(prefix)) => {}
            _ => return Err(wrong("newsreel mount has no such option".to_owned())),
        }
        Ok(())
    }

    fn are_others_allowed(&self) -> bool {
        self.allow_others || !self.only_owner && MountSettings::default().allow_other
    }
}

/// Arguments of `manage`.
#[derive(Debug, Clone, Args)]
pub(super) struct ManageOptions {
    /// The directory, below a mount or not
    #[arg(value_name = "DIR", required_unless_present = "suggest")]
    dir: Option<PathBuf>,
    /// The directory's buckets; must be those of the mount
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: BucketScheme,
    /// Show what would be moved, and move nothing
    #[arg(long)]
    dry_run: bool,
    /// Read a spool, and show which of its directories would benefit
    #[arg(long, value_name = "SPOOL", conflicts_with_all = ["dir", "dry_run"])]
    suggest: Option<PathBuf>,
    /// With --suggest: directories of at least this many articles
    #[arg(long, value_name = "ARTICLES", default_value_t = usenetfs::FILES_MIN, requires = "suggest")]
    at_least: u64,
    /// With --suggest: print JSON
    #[arg(long, requires = "suggest")]
    json: bool,
}

/// Arguments of `unmanage`.
#[derive(Debug, Clone, Args)]
pub(super) struct UnmanageOptions {
    /// The directory, below a mount or not
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The directory's buckets
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: BucketScheme,
    /// Show what would be moved, and move nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn mount(options: &MountOptions, at: &SiteLocation) -> Result<(), CliError> {
    let options = &options.with_options()?;
    match (&options.spool, &options.lower, &options.mountpoint) {
        _ if options.background => in_background(),
        (Some(point), ..) => spool(point, options, at),
        (None, Some(lower), Some(point)) => tree(lower, point, options),
        _ => Ok(()),
    }
}

/// Runs this command in another process, without `--background`, until it has mounted or failed. That process
/// then reports one line on standard error.
fn in_background() -> Result<(), CliError> {
    let program = std::env::current_exe().map_err(problem)?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--background");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Keeps the terminal's Ctrl-C from the process.
        .process_group(0)
        .spawn()
        .map_err(problem)?;
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        BufReader::new(stderr.take(LINE_BYTES_MAX)).read_line(&mut said).map_err(problem)?;
    }
    let said = said.trim_end();
    if said.contains(IS_MOUNTED) {
        return Ok(());
    }
    // The line is an error, so the process ends.
    child.wait().map_err(problem)?;
    Err(CliError::Problem(said.trim_start_matches("newsreel: ").to_owned()))
}

fn tree(lower: &Path, point: &Path, options: &MountOptions) -> Result<(), CliError> {
    let mount = MountSettings {
        scheme: options.scheme,
        keep: options.keep,
        allow_other: options.are_others_allowed(),
        read_only: options.read_only,
        passthrough: !options.no_passthrough,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(problem)?;
    let signals = EndSignals::new(&runtime).map_err(problem)?;
    let mounted = usenetfs::mount(lower, point, &mount).map_err(|error| {
        problem(format_args!("cannot mount {} on {}: {error}", lower.display(), point.display()))
    })?;
    complain(format_args!("{} {IS_MOUNTED} {}", lower.display(), mounted.point().display()));
    let ended = runtime.block_on(until_ended(mounted, signals));
    runtime.shutdown_background();
    ended.map_err(problem)
}

/// Signals that end a mount. They are caught before anything is mounted: whatever sees the mount may end it.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    fn new(runtime: &Runtime) -> std::io::Result<Self> {
        let _inside = runtime.enter();
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves the mount until it is unmounted, or a signal comes.
async fn until_ended(mut mounted: Mounted, mut signals: EndSignals) -> std::io::Result<()> {
    let end = mounted.end();
    let mut end = tokio::task::spawn_blocking(end);
    // Fails if no service manager started this.
    operators::supervisor::ready();
    tokio::select! {
        ended = &mut end => return ended?,
        () = signals.wait() => {}
    }
    mounted.detach()?;
    if tokio::time::timeout(OPEN_FILES_WAIT, end).await.is_err() {
        complain("unmounted; files that were open still are, and can be used no longer");
    }
    Ok(())
}

/// Mounts, and lets the server answer.
fn spool(point: &Path, options: &MountOptions, at: &SiteLocation) -> Result<(), CliError> {
    let mut control = reach::server(at)?;
    let source = format!("{}{}", usenetfs::SPOOL_SOURCE, control.data().display());
    let request = MountOperation { reader: options.reader, crlf: options.crlf };
    answers(|hear| control.ask(request, hear))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(problem)?;
    let signals = EndSignals::new(&runtime).map_err(problem)?;
    let mut device = Device::mount(point, &source, options.are_others_allowed())
        .map_err(|error| problem(format_args!("cannot mount on {}: {error}", point.display())))?;
    control.send_device(device.take()).map_err(problem)?;
    let works = answers(|hear| control.hear(hear))?;
    let Some(Reply::Mounted { mount }) = works.last() else {
        return Err(CliError::Problem("the server does not answer what it was asked".to_owned()));
    };
    let (mount, data) = (*mount, control.data().to_owned());
    // A mount takes no place from other commands.
    drop(control);
    complain(format_args!("the spool is mounted on {}", device.point().display()));
    let (hurry, hurried) = channel();
    let end = move || until_not_standing(&data, mount, &hurried);
    let ended = runtime.block_on(until_answered_no_longer(device, end, hurry, signals));
    runtime.shutdown_background();
    ended
}

/// The replies of one step, which must succeed.
fn answers(
    step: impl FnOnce(&mut (dyn FnMut(Reply) + Send)) -> Result<bool, CliError>,
) -> Result<Vec<Reply>, CliError> {
    let (mut replies, mut errors) = (Vec::new(), Vec::new());
    let ok = step(&mut |reply| match reply {
        Reply::Error(text) => errors.push(text),
        other => replies.push(other),
    })?;
    if ok { Ok(replies) } else { Err(CliError::Problem(errors.join("\n"))) }
}

/// Asks once a second until the mount is unmounted or the server no longer answers for it; without a pause
/// once `hurried` is closed, since the end is near then.
fn until_not_standing(data: &Path, mount: u64, hurried: &Receiver<()>) -> Result<(), CliError> {
    loop {
        if hurried.recv_timeout(STANDING_INTERVAL) == Err(RecvTimeoutError::Disconnected) {
            std::thread::sleep(END_INTERVAL);
        }
        let mut control = match ControlClient::find(data)? {
            ControlSocketState::Server(control) => control,
            // It has no time, or is about to end.
            ControlSocketState::Silent => continue,
            ControlSocketState::Nobody => return Err(CliError::Problem("the server has stopped".to_owned())),
        };
        let mut said = None;
        if control.ask(MountStandingOperation { mount }, &mut |reply| said = Some(reply)).is_err() {
            // It was cut off for others, or the server is about to end.
            continue;
        }
        match said {
            Some(Reply::MountEnded { failure: None }) => return Ok(()),
            Some(Reply::MountEnded { failure: Some(why) }) => {
                return Err(CliError::Problem(format!("the mount has failed: {why}")));
            }
            Some(Reply::Error(why)) => return Err(CliError::Problem(why)),
            _ => {}
        }
    }
}

/// Keeps a mount that the server answers until it is unmounted, a signal comes or the server stops. `end`
/// waits for the server's last reply.
async fn until_answered_no_longer(
    mut device: Device,
    end: impl FnOnce() -> Result<(), CliError> + Send + 'static,
    hurry: Sender<()>,
    mut signals: EndSignals,
) -> Result<(), CliError> {
    let mut end = tokio::task::spawn_blocking(end);
    // Fails if no service manager started this.
    operators::supervisor::ready();
    tokio::select! {
        ended = &mut end => {
            let ended = ended.map_err(problem)?;
            if ended.is_ok() {
                device.forget();
            }
            return ended.map_err(|why| problem(format_args!("{why}; unmounted")));
        }
        () = signals.wait() => {}
    }
    drop((device, hurry));
    if tokio::time::timeout(OPEN_FILES_WAIT, end).await.is_err() {
        complain("unmounted; files that were open still are, until the server stops");
    }
    Ok(())
}

pub(super) fn manage(options: &ManageOptions) -> Result<(), CliError> {
    match (&options.suggest, &options.dir) {
        (Some(spool), _) => suggest(spool, options),
        (None, Some(dir)) => convert(dir, DirectoryForm::Managed, options.scheme, options.dry_run),
        (None, None) => Ok(()),
    }
}

pub(super) fn unmanage(options: &UnmanageOptions) -> Result<(), CliError> {
    convert(&options.dir, DirectoryForm::Flat, options.scheme, options.dry_run)
}

fn convert(dir: &Path, form: DirectoryForm, scheme: BucketScheme, dry_run: bool) -> Result<(), CliError> {
    let bar = Bar::new();
    let mut begun = false;
    let mut progress = |done, total| {
        if !std::mem::replace(&mut begun, true) {
            bar.start("moving", total);
        }
        bar.step(done);
    };
    let converted = usenetfs::convert(dir, form, scheme, dry_run, &mut progress);
    bar.finish();
    let done = converted.map_err(|error| problem(format_args!("{}: {error}", dir.display())))?;
    let (moved, dir) = (counted(done.moved, "entry"), dir.display());
    let directories = counted(done.buckets, "directory");
    say(match (form, dry_run) {
        (DirectoryForm::Managed, true) => {
            format!("{dir}: {moved} would be moved into {directories}")
        }
        (DirectoryForm::Managed, false) => {
            format!("{dir} is managed: {moved} moved; {directories}")
        }
        (DirectoryForm::Flat, true) => format!("{dir}: {moved} would be moved"),
        (DirectoryForm::Flat, false) => format!("{dir} is flat: {moved} moved"),
    })
}

/// Output of `manage --suggest --json`.
#[derive(Serialize)]
struct SuggestionsAsJson {
    directories: u64,
    articles: u64,
    managed: u64,
    suggested: Vec<CandidateAsJson>,
}

#[derive(Serialize)]
struct CandidateAsJson {
    path: String,
    articles: u64,
    inodes: u64,
    gain: u64,
}

fn suggest(spool: &Path, options: &ManageOptions) -> Result<(), CliError> {
    let found = usenetfs::suggest(spool, options.scheme, options.at_least, &mut |_| {})
        .map_err(|error| problem(format_args!("{}: {error}", spool.display())))?;
    if options.json { say_json(&as_json(&found)) } else { say(as_text(&found)) }
}

fn as_json(found: &Suggestions) -> SuggestionsAsJson {
    let suggested = found.candidates.iter().map(|candidate| CandidateAsJson {
        path: candidate.path.display().to_string(),
        articles: candidate.files,
        inodes: candidate.buckets,
        gain: candidate.gain,
    });
    SuggestionsAsJson {
        directories: found.directories,
        articles: found.files,
        managed: found.managed,
        suggested: suggested.collect(),
    }
}

fn as_text(found: &Suggestions) -> String {
    let large: u64 = found.candidates.iter().map(|candidate| candidate.files).sum();
    let percent = large * 100 / found.files.max(1);
    let mut text = format!(
        "{} of {} would gain, with {percent} % of {}",
        found.candidates.len(),
        counted(found.directories, "directory"),
        counted(found.files, "article")
    );
    if found.managed > 0 {
        text += &format!("; managed already: {}", found.managed);
    }
    if !found.candidates.is_empty() {
        text += "\n  articles   inodes  gain  directory";
    }
    for candidate in found.candidates.iter().take(SUGGESTED_MAX) {
        let (files, buckets, gain) = (candidate.files, candidate.buckets, candidate.gain);
        text += &format!("\n{files:>10} {buckets:>8} {gain:>4}x  {}", candidate.path.display());
    }
    text
}
