//! Snapshots from one member to another through the engine (`docs/formats/log.md`).
//!
//! A running member offers a snapshot of itself: [`SnapshotOffer`] answers requests for it, piece by piece,
//! while it is still being written. One that joins fetches it with [`SnapshotFetch`], several pieces at a
//! time, and goes on where it stopped as long as the other member has the same snapshot.
//!
//! Neither file is synced, as both are only needed for a while: their names have the boot id of the machine,
//! and those of another boot are removed. A fetched one that has to be kept is synced by [`keep_fetched`].

use crate::world::World;
use disk::crc::crc32c_of_two;
use disk::{Disk, DiskFile, OpenMode, Progress};
use lock_order::Innermost;
use spool::{ArrivalEnd, ByteReader, SnapshotArrival, put_bytes};
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest piece, in bytes.
pub const PIECE_BYTES_MAX: usize = 512 << 10;
/// Pieces that are asked for at a time.
const PIECES_AT_ONCE: usize = 8;
/// Time for which a snapshot is kept although no one asks for it.
const KEPT_MAX: Duration = Duration::from_secs(600);
/// Age up to which a whole snapshot is offered to further members: later ones get one that is written then.
const OFFERED_MAX: Duration = Duration::from_secs(60);
/// Time since the last request for a piece after which no one fetches a snapshot any more.
const FETCHED_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Pause before a snapshot that is being written is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Time after which a member that does not answer is given up.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Kinds of requests.
mod request {
    /// Name a snapshot, and write one if there is none.
    pub const NAME: u8 = 1;
    /// Send a piece.
    pub const PIECE: u8 = 2;
}

/// Kinds of answers.
mod answer {
    /// The request cannot be carried out, with the reason.
    pub const REFUSED: u8 = 0;
    /// The id of the snapshot.
    pub const NAMED: u8 = 1;
    /// A piece.
    pub const PIECE: u8 = 2;
    /// There is no snapshot of this id any more.
    pub const UNKNOWN: u8 = 3;
}

/// State of the snapshot that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OfferState {
    Writing,
    Whole,
    Failed(String),
}

/// The snapshot that is offered.
#[derive(Debug)]
struct OfferedSnapshot {
    id: u64,
    state: OfferState,
    /// When it was begun; `None` if that was before the member was started.
    begun_at: Option<Duration>,
    asked_at: Duration,
    /// When a piece was asked for last.
    piece_at: Option<Duration>,
}

impl OfferedSnapshot {
    /// Reports whether a member that asks for a snapshot now gets this one: it is being written or fetched,
    /// or has just been written.
    fn is_offered(&self, now: Duration) -> bool {
        let is_within = |at: Option<Duration>, most| at.is_some_and(|at| now.saturating_sub(at) <= most);
        match self.state {
            OfferState::Writing => true,
            OfferState::Whole => {
                is_within(self.begun_at, OFFERED_MAX) || is_within(self.piece_at, FETCHED_PAUSE_MAX)
            }
            OfferState::Failed(_) => false,
        }
    }
}

/// The snapshot that a member offers to others.
#[derive(Debug)]
pub struct SnapshotOffer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    world: Arc<dyn World>,
    offered: Innermost<Option<OfferedSnapshot>>,
}

/// A snapshot that is to be written to a file.
#[derive(Debug)]
pub struct WantedSnapshot {
    id: u64,
    /// The file; it does not exist.
    pub file: PathBuf,
}

/// End of the name of a whole snapshot that is offered.
const OFFERED_SUFFIX: &str = ".snapshot";

/// Returns the name of the file of a snapshot, which holds until the machine is started again.
fn name_of(disk: &dyn Disk, id: u64, suffix: &str) -> String {
    format!("{id:016x}-{:032x}{suffix}", u128::from_be_bytes(disk.boot_id()))
}

/// Returns the id in such a name; `None` for other names, and for one of another boot.
fn id_in(disk: &dyn Disk, name: &str, suffix: &str) -> Option<u64> {
    let id = u64::from_str_radix(name.get(..16)?, 16).ok()?;
    (name == name_of(disk, id, suffix)).then_some(id)
}

impl SnapshotOffer {
    /// Creates the offer of a member that keeps snapshots in `dir`. The pieces of one that is whole there are
    /// still to be had, so a restart of the member interrupts no one who fetches it; a restart of the machine
    /// does.
    pub fn open(disk: Arc<dyn Disk>, dir: PathBuf, world: Arc<dyn World>) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        let mut offered: Option<OfferedSnapshot> = None;
        for name in disk.list(&dir)? {
            match id_in(&*disk, &name, OFFERED_SUFFIX) {
                Some(id) if offered.is_none() => {
                    let (state, asked_at) = (OfferState::Whole, world.now());
                    offered = Some(OfferedSnapshot { id, state, begun_at: None, asked_at, piece_at: None });
                }
                _ => disk.remove(&dir.join(name))?,
            }
        }
        Ok(Self { disk, dir, world, offered: Innermost::new(offered) })
    }

    /// Answers a request. If a snapshot has to be written for it, `begin` is called, which arranges that and
    /// does not wait.
    pub fn answer(&self, request: &[u8], begin: impl FnOnce(WantedSnapshot)) -> Vec<u8> {
        let mut fields = ByteReader(request);
        let answered = match fields.u8() {
            Some(request::NAME) => Some(self.name(begin)),
            Some(request::PIECE) => self.piece(&mut fields),
            _ => None,
        };
        answered.unwrap_or_else(|| refusal("the request is of another version of newsreel"))
    }

    /// Returns the id of the snapshot that is offered, or begins one.
    fn name(&self, begin: impl FnOnce(WantedSnapshot)) -> Vec<u8> {
        self.drop_old();
        let now = self.world.now();
        let mut offered = self.offered.lock();
        let (id, replaced) = match offered.as_mut().filter(|known| known.is_offered(now)) {
            Some(known) => {
                known.asked_at = now;
                (known.id, None)
            }
            None => {
                let (id, state) = (self.world.random(), OfferState::Writing);
                let new = OfferedSnapshot { id, state, begun_at: Some(now), asked_at: now, piece_at: None };
                (id, Some(offered.replace(new)))
            }
        };
        drop(offered);
        if let Some(old) = replaced {
            old.into_iter().for_each(|old| self.remove(&old));
            begin(WantedSnapshot { id, file: self.path(id) });
        }
        let mut answer = vec![answer::NAMED];
        answer.extend_from_slice(&id.to_le_bytes());
        answer
    }

    /// Notes that a snapshot is written.
    pub fn written(&self, snapshot: &WantedSnapshot) {
        self.ended(snapshot, OfferState::Whole);
    }

    /// Notes that a snapshot could not be written; members that ask for it are sent the reason.
    pub fn failed(&self, snapshot: &WantedSnapshot, reason: &str) {
        self.ended(snapshot, OfferState::Failed(reason.to_owned()));
    }

    fn ended(&self, snapshot: &WantedSnapshot, state: OfferState) {
        let mut offered = self.offered.lock();
        if let Some(known) = offered.as_mut().filter(|known| known.id == snapshot.id) {
            (known.state, known.asked_at) = (state, self.world.now());
        }
    }

    /// Removes a snapshot that no one has asked for lately.
    pub fn drop_old(&self) {
        let now = self.world.now();
        let is_old = |known: &mut OfferedSnapshot| {
            known.state != OfferState::Writing && now.saturating_sub(known.asked_at) > KEPT_MAX
        };
        let old = self.offered.lock().take_if(is_old);
        old.into_iter().for_each(|old| self.remove(&old));
    }

    /// Removes the file of a snapshot that is not offered any more. If that fails, it takes room until a
    /// later start removes it.
    fn remove(&self, old: &OfferedSnapshot) {
        let _ = self.disk.remove(&self.path(old.id));
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(name_of(&*self.disk, id, OFFERED_SUFFIX))
    }

    /// Returns the piece at an offset; `None` if the request cannot be read.
    fn piece(&self, fields: &mut ByteReader<'_>) -> Option<Vec<u8>> {
        let (id, offset) = (fields.u64()?, fields.u64()?);
        let mut offered = self.offered.lock();
        let Some(known) = offered.as_mut().filter(|known| known.id == id) else {
            return Some(vec![answer::UNKNOWN]);
        };
        known.asked_at = self.world.now();
        known.piece_at = Some(known.asked_at);
        let is_whole = match &known.state {
            OfferState::Failed(why) => return Some(refusal(why)),
            state => *state == OfferState::Whole,
        };
        drop(offered);
        let path = self.path(id);
        // While it is written it has another name; it may get its own at any moment.
        let part = path.with_extension("snapshot.part");
        let opened =
            [&path, &part, &path].into_iter().find_map(|path| self.disk.open(path, OpenMode::ReadOnly).ok());
        Some(match opened.map(|file| read_piece(&*file, offset)) {
            None if is_whole => vec![answer::UNKNOWN],
            None => encode_piece(false, 0, offset, &[]),
            Some(Ok((bytes, length))) => encode_piece(is_whole, length, offset, &bytes),
            Some(Err(error)) => refusal(&error.to_string()),
        })
    }
}

/// Reads the piece at an offset, and the length of the file.
fn read_piece(file: &dyn DiskFile, offset: u64) -> io::Result<(Vec<u8>, u64)> {
    let length = file.len()?;
    let left = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; left.min(PIECE_BYTES_MAX)];
    file.read_exact_at(&mut bytes, offset)?;
    Ok((bytes, length))
}

fn refusal(why: &str) -> Vec<u8> {
    let mut answer = vec![answer::REFUSED];
    put_bytes(why.as_bytes(), &mut answer);
    answer
}

fn encode_piece(is_whole: bool, length: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut answer = vec![answer::PIECE, u8::from(is_whole)];
    answer.extend_from_slice(&length.to_le_bytes());
    answer.extend_from_slice(&crc32c_of_two(&offset.to_le_bytes(), bytes).to_le_bytes());
    put_bytes(bytes, &mut answer);
    answer
}

/// Reason why a snapshot could not be fetched.
#[derive(Debug)]
pub enum FetchError {
    /// The other member does not answer.
    Silent,
    /// The other member refuses, with the reason.
    Refused(String),
    /// The file cannot be written.
    File(PathBuf, io::Error),
    /// No more is wanted, as what has arrived cannot be used.
    Unwanted,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("it does not answer"),
            Self::Refused(why) => f.write_str(why),
            Self::File(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Unwanted => f.write_str("what has arrived cannot be used"),
        }
    }
}

impl std::error::Error for FetchError {}

/// An answer as it arrives.
#[derive(Debug, PartialEq, Eq)]
enum SnapshotAnswer<'a> {
    Refused(String),
    Named(u64),
    Piece { is_whole: bool, length: u64, bytes: &'a [u8] },
    Unknown,
}

impl<'a> SnapshotAnswer<'a> {
    /// Reads the answer to a request for the piece at `offset`, or for a name; `None` if it is damaged.
    fn read(answer: &'a [u8], offset: u64) -> Option<Self> {
        let mut fields = ByteReader(answer);
        let answer = match fields.u8()? {
            answer::REFUSED => Self::Refused(String::from_utf8_lossy(fields.bytes()?).into_owned()),
            answer::NAMED => Self::Named(fields.u64()?),
            answer::UNKNOWN => Self::Unknown,
            answer::PIECE => {
                let (is_whole, length) = (fields.u8()? == 1, fields.u64()?);
                let (crc, bytes) = (fields.u32()?, fields.bytes()?);
                if crc32c_of_two(&offset.to_le_bytes(), bytes) != crc {
                    return None;
                }
                Self::Piece { is_whole, length, bytes }
            }
            _ => return None,
        };
        fields.is_empty().then_some(answer)
    }
}

/// Sends requests to the other member, all at once; returns the answers in their order, `None` for those that
/// did not come.
pub type AskMember<'a> = &'a dyn Fn(Vec<Vec<u8>>) -> Vec<Option<Vec<u8>>>;

/// End of the name of a fetched snapshot that is kept for another attempt.
const FETCHED_SUFFIX: &str = ".fetched";
/// End of the name of one that is being fetched.
const FETCHING_SUFFIX: &str = ".fetching";

/// Returns the snapshot that an earlier call has fetched to `dir` and kept, if there is one.
pub fn fetched_snapshot(disk: &dyn Disk, dir: &Path) -> Option<PathBuf> {
    let names = disk.list(dir).ok()?;
    names.iter().find(|name| name.ends_with(FETCHED_SUFFIX)).map(|name| dir.join(name))
}

/// Reports whether a member still has the snapshot that an earlier call has begun to fetch to `dir`.
pub fn has_begun_snapshot(disk: &dyn Disk, dir: &Path, ask: AskMember<'_>) -> bool {
    let names = disk.list(dir).unwrap_or_default();
    names.iter().filter_map(|name| id_in(disk, name, FETCHING_SUFFIX)).any(|id| has_snapshot(ask, id))
}

/// Reports whether a member has the snapshot of this id.
fn has_snapshot(ask: AskMember<'_>, id: u64) -> bool {
    let answer = ask(vec![piece_request(id, 0)]).into_iter().next().flatten();
    let read = answer.as_ref().and_then(|answer| SnapshotAnswer::read(answer, 0));
    matches!(read, Some(SnapshotAnswer::Piece { .. }))
}

/// Makes a fetched snapshot durable, for another attempt. One that is kept already stays as it is.
pub fn keep_fetched(disk: &dyn Disk, file: &Path) -> io::Result<()> {
    let Some(name) = file.to_str().and_then(|name| name.strip_suffix(FETCHING_SUFFIX)) else { return Ok(()) };
    disk.open(file, OpenMode::ReadOnly)?.sync()?;
    disk.rename(file, Path::new(&format!("{name}{FETCHED_SUFFIX}")))?;
    file.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

/// A snapshot that is being fetched.
pub struct SnapshotFetch<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    ask: AskMember<'a>,
    world: &'a dyn World,
    id: u64,
    file: Option<Arc<dyn DiskFile>>,
    /// Length of what is here.
    reached: u64,
    heard_at: Duration,
}

impl fmt::Debug for SnapshotFetch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotFetch").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<'a> SnapshotFetch<'a> {
    /// Begins to fetch a snapshot of another member to a file in `dir`. An earlier call that was interrupted
    /// is continued.
    pub fn begin(
        disk: &'a dyn Disk,
        dir: &'a Path,
        ask: AskMember<'a>,
        world: &'a dyn World,
    ) -> Result<Self, FetchError> {
        disk.create_dir(dir).map_err(|error| FetchError::File(dir.to_owned(), error))?;
        let heard_at = world.now();
        let mut fetch = Self { disk, dir, ask, world, id: 0, file: None, reached: 0, heard_at };
        fetch.begin_file()?;
        Ok(fetch)
    }

    /// Returns the file to which the snapshot arrives.
    pub fn file(&self) -> PathBuf {
        self.dir.join(name_of(self.disk, self.id, FETCHING_SUFFIX))
    }

    /// Fetches the rest to the file, and notes in `arrival` how far that is.
    pub fn run(mut self, arrival: &SnapshotArrival, progress: &dyn Progress) -> Result<(), FetchError> {
        let fetched = self.fetch(arrival, progress);
        arrival.ended(match &fetched {
            Ok(()) => ArrivalEnd::Whole,
            Err(error) => ArrivalEnd::Failed(error.to_string()),
        });
        fetched
    }

    fn fetch(&mut self, arrival: &SnapshotArrival, progress: &dyn Progress) -> Result<(), FetchError> {
        let mut length = 0;
        while arrival.reached(self.reached) {
            let asked = self.round()?;
            if asked.length != length {
                length = asked.length;
                progress.start("fetching the snapshot", length);
            }
            progress.step(self.reached);
            if asked.is_over {
                arrival.reached(self.reached);
                progress.finish();
                return Ok(());
            }
            if !asked.has_more {
                self.world.wait(self.world.now() + ASK_AGAIN_AFTER);
            }
        }
        Err(FetchError::Unwanted)
    }
}

/// Result of a round of requests.
struct FetchRound {
    length: u64,
    /// Whether the snapshot is whole, and all of it is here.
    is_over: bool,
    /// Whether there is more to be had at once.
    has_more: bool,
}

impl SnapshotFetch<'_> {
    fn open(&mut self) -> Result<(), FetchError> {
        let path = self.file();
        let failed = |error| FetchError::File(path.clone(), error);
        let file = self.disk.open(&path, OpenMode::CreatePrivate).map_err(failed)?;
        self.reached = file.len().map_err(failed)?;
        self.file = Some(file);
        Ok(())
    }

    /// Opens the file of an earlier call, if the member still has its snapshot, or asks for another one.
    fn begin_file(&mut self) -> Result<(), FetchError> {
        let names = self.disk.list(self.dir).unwrap_or_default();
        for name in names.iter().filter(|name| name.ends_with(FETCHING_SUFFIX)) {
            let id = id_in(self.disk, name, FETCHING_SUFFIX);
            match id.filter(|id| self.file.is_none() && has_snapshot(self.ask, *id)) {
                Some(id) => {
                    self.id = id;
                    self.open()?;
                }
                None => {
                    let path = self.dir.join(name);
                    self.disk.remove(&path).map_err(|error| FetchError::File(path, error))?;
                }
            }
        }
        while self.file.is_none() {
            let answer = self.ask_one(vec![request::NAME]);
            match answer.as_ref().and_then(|answer| SnapshotAnswer::read(answer, 0)) {
                Some(SnapshotAnswer::Named(id)) => {
                    self.id = id;
                    self.open()?;
                }
                Some(SnapshotAnswer::Refused(why)) => return Err(FetchError::Refused(why)),
                _ => self.wait_for_answers()?,
            }
        }
        Ok(())
    }

    fn ask_one(&self, request: Vec<u8>) -> Option<Vec<u8>> {
        (self.ask)(vec![request]).into_iter().next().flatten()
    }

    /// Waits before the member is asked again, or gives it up.
    fn wait_for_answers(&self) -> Result<(), FetchError> {
        let now = self.world.now();
        if now.saturating_sub(self.heard_at) > SILENT_MAX {
            return Err(FetchError::Silent);
        }
        self.world.wait(now + ASK_AGAIN_AFTER);
        Ok(())
    }

    /// Asks for the next pieces and writes those that arrive in order.
    fn round(&mut self) -> Result<FetchRound, FetchError> {
        let offsets: Vec<u64> =
            (0..PIECES_AT_ONCE).map(|n| self.reached + (n * PIECE_BYTES_MAX) as u64).collect();
        let requests = offsets.iter().map(|offset| piece_request(self.id, *offset)).collect();
        let answers = (self.ask)(requests);
        let mut round = FetchRound { length: self.reached, is_over: false, has_more: false };
        let mut is_answered = false;
        for (offset, answer) in offsets.iter().zip(&answers) {
            let Some(answer) = answer.as_ref().and_then(|answer| SnapshotAnswer::read(answer, *offset))
            else {
                // The pieces after it are asked for again with it.
                break;
            };
            is_answered = true;
            match answer {
                SnapshotAnswer::Piece { is_whole, length, bytes } if *offset == self.reached => {
                    self.write(bytes)?;
                    round.length = length;
                    round.is_over = is_whole && self.reached >= length;
                    round.has_more = self.reached < length;
                }
                SnapshotAnswer::Piece { .. } => break,
                SnapshotAnswer::Refused(why) => return Err(FetchError::Refused(why)),
                SnapshotAnswer::Unknown | SnapshotAnswer::Named(_) => {
                    return Err(FetchError::Refused(
                        "it no longer has the snapshot; repeat the command".into(),
                    ));
                }
            }
        }
        if is_answered {
            self.heard_at = self.world.now();
        } else {
            self.wait_for_answers()?;
        }
        Ok(round)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let Some(file) = &self.file else { return Ok(()) };
        let written = file.write_all_at(&[IoSlice::new(bytes)], self.reached);
        written.map_err(|error| FetchError::File(self.file(), error))?;
        self.reached += bytes.len() as u64;
        Ok(())
    }
}

fn piece_request(id: u64, offset: u64) -> Vec<u8> {
    let mut request = vec![request::PIECE];
    request.extend_from_slice(&id.to_le_bytes());
    request.extend_from_slice(&offset.to_le_bytes());
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};
    use parking_lot::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A world whose time passes as it is waited for.
    #[derive(Debug, Default)]
    struct PassingWorld(AtomicU64);

    impl World for PassingWorld {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }

        fn unix_secs(&self) -> u32 {
            0
        }

        fn random(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed) + 7
        }

        fn wait(&self, until: Duration) {
            self.0.store(u64::try_from(until.as_millis()).unwrap(), Ordering::Relaxed);
        }

        fn wake(&self) {}
    }

    fn fetch_snapshot(
        disk: &dyn Disk,
        dir: &Path,
        ask: AskMember<'_>,
        world: &PassingWorld,
    ) -> Result<PathBuf, FetchError> {
        let fetch = SnapshotFetch::begin(disk, dir, ask, world)?;
        let file = fetch.file();
        fetch.run(&SnapshotArrival::default(), &()).map(|()| file)
    }

    fn contents(pieces: usize) -> Vec<u8> {
        (0..pieces * PIECE_BYTES_MAX + 12_345).map(|n| (n * 31 % 251) as u8).collect()
    }

    fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
        let file = disk.open(path, OpenMode::Create).unwrap();
        file.write_all_at(&[IoSlice::new(bytes)], 0).unwrap();
    }

    fn read(disk: &dyn Disk, path: &Path) -> Vec<u8> {
        let file = disk.open(path, OpenMode::ReadOnly).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// A member with a snapshot that grows by some pieces at each round of requests, and becomes whole.
    struct Offering {
        disk: Arc<dyn Disk>,
        offer: SnapshotOffer,
        all: Vec<u8>,
        begun: Mutex<Option<WantedSnapshot>>,
        rounds: AtomicU64,
        lose_every: u64,
    }

    impl Offering {
        fn new(world: &Arc<PassingWorld>, pieces: usize, lose_every: u64) -> Self {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
            let offer = SnapshotOffer::open(disk.clone(), "/offers".into(), world.clone()).unwrap();
            let (begun, rounds) = (Mutex::default(), AtomicU64::new(0));
            Self { disk, offer, all: contents(pieces), begun, rounds, lose_every }
        }

        fn ask(&self, requests: Vec<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
            let round = self.rounds.fetch_add(1, Ordering::Relaxed);
            let mut begun = self.begun.lock();
            if let Some(wanted) = begun.as_ref() {
                let grown = (round as usize * 3 * PIECE_BYTES_MAX).min(self.all.len());
                let part = wanted.file.with_extension("snapshot.part");
                put(&*self.disk, &part, &self.all[..grown]);
                if grown == self.all.len() {
                    self.disk.rename(&part, &wanted.file).unwrap();
                    self.offer.written(wanted);
                    *begun = None;
                }
            }
            let mut answer = |(n, request): (u64, &Vec<u8>)| {
                let answer = self.offer.answer(request, |wanted| *begun = Some(wanted));
                let is_lost = self.lose_every > 0 && (round * 8 + n) % self.lose_every == 3;
                (!is_lost).then_some(answer)
            };
            (0..).zip(&requests).map(&mut answer).collect()
        }
    }

    #[test]
    fn a_snapshot_is_fetched_while_it_is_written_and_answers_are_lost() {
        for lose_every in [0, 5, 4] {
            let world = Arc::new(PassingWorld::default());
            let offering = Offering::new(&world, 20, lose_every);
            let disk = SimDisk::new();
            let ask = |requests| offering.ask(requests);
            let dir = Path::new("/site");
            let file = fetch_snapshot(&disk, dir, &ask, &world).unwrap();
            assert!(read(&disk, &file) == offering.all, "lost one of {lose_every}");
            assert_eq!(fetched_snapshot(&disk, dir), None);
            keep_fetched(&disk, &file).unwrap();
            let kept = fetched_snapshot(&disk, dir).unwrap();
            assert!(read(&disk, &kept) == offering.all);
            keep_fetched(&disk, &kept).unwrap();
            let after = disk.image_after(CrashKind::Lost, 0).unwrap();
            assert!(
                fetched_snapshot(&after, dir) == Some(kept.clone()) && read(&after, &kept) == offering.all
            );
        }
    }

    #[test]
    fn an_interrupted_fetch_is_continued_where_it_stopped_unless_the_snapshot_is_another_one() {
        let world = Arc::new(PassingWorld::default());
        let offering = Offering::new(&world, 30, 0);
        let disk = SimDisk::new();
        let dir = Path::new("/site");
        let asked = AtomicU64::new(0);
        // After some rounds the member is silent.
        let failing = |requests: Vec<Vec<u8>>| match asked.fetch_add(1, Ordering::Relaxed) {
            0..=9 => offering.ask(requests),
            _ => vec![None; requests.len()],
        };
        let error = fetch_snapshot(&disk, dir, &failing, &world).unwrap_err();
        assert!(matches!(error, FetchError::Silent), "{error}");
        let name = disk.list(dir).unwrap().remove(0);
        let before = disk.open(&dir.join(&name), OpenMode::ReadOnly).unwrap().len().unwrap();
        assert!(before > 8 * PIECE_BYTES_MAX as u64, "{before}");
        // It goes on with the member that has it.
        let other = Offering::new(&world, 30, 0);
        assert!(has_begun_snapshot(&disk, dir, &|requests| offering.ask(requests)));
        assert!(!has_begun_snapshot(&disk, dir, &|requests| other.ask(requests)));
        // The member starts again meanwhile: the pieces of what is whole are still to be had.
        let lowest = AtomicU64::new(u64::MAX);
        let ask = |requests: Vec<Vec<u8>>| {
            for request in requests.iter().filter(|request| requests.len() > 1 && request.len() == 17) {
                let offset = u64::from_le_bytes(*request[9..].first_chunk().unwrap());
                lowest.fetch_min(offset, Ordering::Relaxed);
            }
            offering.ask(requests)
        };
        let file = fetch_snapshot(&disk, dir, &ask, &world).unwrap();
        assert!(read(&disk, &file) == offering.all);
        assert_eq!(lowest.load(Ordering::Relaxed), before);
        let offer = SnapshotOffer::open(offering.disk.clone(), "/offers".into(), world.clone()).unwrap();
        let id = id_in(&disk, &name, FETCHING_SUFFIX).unwrap();
        let piece = offer.answer(&piece_request(id, 0), |_| panic!("there is a whole one"));
        assert!(matches!(SnapshotAnswer::read(&piece, 0), Some(SnapshotAnswer::Piece { .. })));
        // One that no one asks for is removed, and what was fetched of it begins again.
        world.wait(world.now() + KEPT_MAX + Duration::from_secs(1));
        offering.offer.drop_old();
        assert_eq!(offering.disk.list(Path::new("/offers")).unwrap(), Vec::<String>::new());
        offering.rounds.store(0, Ordering::Relaxed);
        let again = fetch_snapshot(&disk, dir, &ask, &world).unwrap();
        assert!(again != file && read(&disk, &again) == offering.all);
        assert_eq!(disk.list(dir).unwrap().len(), 1);
    }

    #[test]
    fn members_that_ask_later_get_a_snapshot_that_is_written_for_them() {
        let world = Arc::new(PassingWorld::default());
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let open = || SnapshotOffer::open(disk.clone(), "/offers".into(), world.clone()).unwrap();
        // Returns the id, and whether a snapshot was begun for it; it is written at once.
        let ask = |offer: &SnapshotOffer| {
            let mut begun = None;
            let named = offer.answer(&[request::NAME], |wanted| begun = Some(wanted));
            if let Some(wanted) = &begun {
                put(&*disk, &wanted.file, b"a snapshot");
                offer.written(wanted);
            }
            let Some(SnapshotAnswer::Named(id)) = SnapshotAnswer::read(&named, 0) else {
                panic!("{named:?}")
            };
            (id, begun.is_some())
        };
        let pass = |secs| world.wait(world.now() + Duration::from_secs(secs));
        let offer = open();
        let (first, _) = ask(&offer);
        pass(50);
        assert_eq!(ask(&offer), (first, false), "written a moment ago");
        pass(50);
        offer.answer(&piece_request(first, 0), |_| {});
        assert_eq!(ask(&offer), (first, false), "another member fetches it");
        pass(20);
        let (second, is_begun) = ask(&offer);
        assert!(is_begun && second != first);
        assert_eq!(disk.list(Path::new("/offers")).unwrap(), [name_of(&*disk, second, OFFERED_SUFFIX)]);
        // A restart does not make it young.
        let offer = open();
        assert!(ask(&offer).1);
        assert_eq!(disk.list(Path::new("/offers")).unwrap().len(), 1);
    }

    #[test]
    fn files_that_were_not_synced_before_a_power_cut_are_removed() {
        let world = Arc::new(PassingWorld::default());
        let offering = Offering::new(&world, 3, 0);
        let (dir, offers) = (Path::new("/site"), Path::new("/offers"));
        let ask = |requests| offering.ask(requests);
        let disk = SimDisk::new();
        fetch_snapshot(&disk, dir, &ask, &world).unwrap();
        // Both machines are started again, and have more of the files than was synced.
        let restarted = |disk: &dyn Disk, dir: &Path| {
            let image = SimDisk::new().image_after(CrashKind::Lost, 0).unwrap();
            image.create_dir(dir).unwrap();
            for name in disk.list(dir).unwrap() {
                put(&image, &dir.join(name), &[0; 100]);
            }
            image
        };
        let there = restarted(&*offering.disk, offers);
        assert_eq!(there.list(offers).unwrap().len(), 1);
        let there: Arc<dyn Disk> = Arc::new(there);
        SnapshotOffer::open(there.clone(), offers.into(), world.clone()).unwrap();
        assert_eq!(there.list(offers).unwrap(), Vec::<String>::new());
        let here = restarted(&disk, dir);
        assert_eq!(here.list(dir).unwrap().len(), 1);
        let file = fetch_snapshot(&here, dir, &ask, &world).unwrap();
        assert!(read(&here, &file) == offering.all);
        assert_eq!(here.list(dir).unwrap().len(), 1);
    }

    #[test]
    fn a_snapshot_that_could_not_be_written_is_refused_with_the_reason_and_another_one_is_begun() {
        let world = Arc::new(PassingWorld::default());
        let offer = SnapshotOffer::open(Arc::new(SimDisk::new()), "/offers".into(), world).unwrap();
        let mut wanted = None;
        let named = offer.answer(&[request::NAME], |snapshot| wanted = Some(snapshot));
        let Some(SnapshotAnswer::Named(id)) = SnapshotAnswer::read(&named, 0) else { panic!("{named:?}") };
        let piece = |id| offer.answer(&piece_request(id, 5), |_| panic!("no name is asked for"));
        let answer = piece(id);
        let empty = SnapshotAnswer::Piece { is_whole: false, length: 0, bytes: &[] };
        assert_eq!(SnapshotAnswer::read(&answer, 5), Some(empty));
        assert_eq!(SnapshotAnswer::read(&answer, 6), None, "the answer to another request");
        offer.failed(&wanted.unwrap(), "the disk is full");
        let answer = piece(id);
        assert_eq!(
            SnapshotAnswer::read(&answer, 5),
            Some(SnapshotAnswer::Refused("the disk is full".into()))
        );
        assert_eq!(SnapshotAnswer::read(&piece(id + 1), 5), Some(SnapshotAnswer::Unknown));
        let again = offer.answer(&[request::NAME], |_| {});
        assert_ne!(again, named);
        assert!(matches!(
            SnapshotAnswer::read(&offer.answer(b"?", |_| {}), 0),
            Some(SnapshotAnswer::Refused(_))
        ));
    }
}
