//! Seats for control connections, so that silent clients do not keep others out.
//!
//! A connection has a [`Seat`] while it is served. When all are taken, the connection whose client has been
//! silent longest is cut off for the next one; a client that is being answered, or mounts the spool, is never
//! cut off. Members of `site.control_group` have seats of their own. Called by `control_socket`.

use site_base::lock::Leaf;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Requests answered at once.
pub(super) const SEATS_MAX: usize = 32;
/// Maximum number of those for members of the group.
const GROUP_SEATS_MAX: usize = 16;
/// Connections without a seat, of members and of others each; for one more the oldest is cut off, first of
/// those without a request.
const UNSEATED_MAX: usize = 128;
/// A client that kept the server waiting for less is not cut off.
const SILENCE_MIN: Duration = Duration::from_millis(100);
/// How often a request that waits looks for a seat.
const SEAT_INTERVAL: Duration = Duration::from_millis(20);
/// How long a control connection may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of a request that are read at once.
const PIECE_BYTES: usize = 4096;

/// The table of seats.
#[derive(Debug, Default)]
pub(super) struct Seats(Leaf<Vec<ConnectionEntry>>);

/// A connection in the table.
#[derive(Debug)]
struct ConnectionEntry {
    id: u64,
    stream: UnixStream,
    is_member: bool,
    phase: ConnectionPhase,
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    /// Its client may send a request, since then.
    Open(Instant),
    /// Its request waits for a seat, since then.
    Asking(Instant),
    /// It has a seat; since when the server waits for the client.
    Seated { silent_since: Option<Instant> },
}

/// Numbers of connections.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl ConnectionEntry {
    fn is_seated(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Seated { .. })
    }

    /// How late it is cut off for others, and since when it has no seat: those that say nothing go before
    /// those that ask, and a client that has just come may still ask.
    fn unseated(&self) -> Option<(u8, Instant)> {
        match self.phase {
            ConnectionPhase::Open(since) if since.elapsed() >= SILENCE_MIN => Some((0, since)),
            ConnectionPhase::Asking(since) => Some((1, since)),
            ConnectionPhase::Open(since) => Some((2, since)),
            ConnectionPhase::Seated { .. } => None,
        }
    }

    /// Since when the client of a seat has kept the server waiting.
    fn silent_since(&self) -> Option<Instant> {
        match self.phase {
            ConnectionPhase::Seated { silent_since } => silent_since,
            _ => None,
        }
    }
}

/// Ends the connection with this id.
fn cut_off(entries: &mut Vec<ConnectionEntry>, id: u64) {
    if let Some(at) = entries.iter().position(|entry| entry.id == id) {
        // One that has ended by itself is as good.
        let _ended = entries.swap_remove(at).stream.shutdown(Shutdown::Both);
    }
}

impl Seats {
    /// Takes a connection in, and cuts off the oldest without a seat where there are too many.
    pub fn enter(self: &Arc<Self>, stream: UnixStream, is_member: bool) -> io::Result<Connection> {
        stream.set_read_timeout(Some(SILENCE_TIMEOUT))?;
        stream.set_write_timeout(Some(SILENCE_TIMEOUT))?;
        let other = stream.try_clone()?;
        let mut entries = self.0.lock();
        let unseated = || {
            let of_kind = entries.iter().filter(|entry| entry.is_member == is_member);
            of_kind.filter_map(|entry| Some((entry.unseated()?, entry.id)))
        };
        if unseated().count() >= UNSEATED_MAX
            && let Some((_, oldest)) = unseated().min()
        {
            cut_off(&mut entries, oldest);
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let phase = ConnectionPhase::Open(Instant::now());
        entries.push(ConnectionEntry { id, stream: other, is_member, phase });
        Ok(Connection { seats: self.clone(), id, is_member, stream })
    }

    fn set(&self, id: u64, phase: ConnectionPhase) {
        if let Some(entry) = self.0.lock().iter_mut().find(|entry| entry.id == id) {
            entry.phase = phase;
        }
    }

    /// Seats a connection that asks, if there is a seat, or a client can be cut off for it.
    fn seat(&self, id: u64) -> io::Result<bool> {
        let mut entries = self.0.lock();
        // It was cut off itself.
        let own = entries.iter().find(|entry| entry.id == id).ok_or(io::ErrorKind::ConnectionAborted)?;
        let (is_member, asked) = (own.is_member, own.phase);
        let is_before = |other: &ConnectionEntry| match (other.phase, asked) {
            (ConnectionPhase::Asking(theirs), ConnectionPhase::Asking(ours)) => {
                (!other.is_member, theirs, other.id) > (!is_member, ours, id)
            }
            _ => false,
        };
        if entries.iter().any(is_before) {
            return Ok(false);
        }
        let seated = || entries.iter().filter(|entry| entry.is_seated());
        let members = seated().filter(|entry| entry.is_member).count();
        if seated().count() >= SEATS_MAX || is_member && members >= GROUP_SEATS_MAX {
            // Members make room for the operator, and never the other way round.
            let may_go = seated().filter(|entry| entry.is_member || !is_member);
            let silent = may_go.filter_map(|entry| Some((entry.silent_since()?, entry.id)));
            let longest = silent.filter(|(since, _)| since.elapsed() >= SILENCE_MIN).min();
            let Some((_, longest)) = longest else { return Ok(false) };
            cut_off(&mut entries, longest);
        }
        if let Some(own) = entries.iter_mut().find(|entry| entry.id == id) {
            own.phase = ConnectionPhase::Seated { silent_since: None };
        }
        Ok(true)
    }
}

/// A connection, which is in the table until this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    seats: Arc<Seats>,
    id: u64,
    is_member: bool,
    stream: UnixStream,
}

impl Connection {
    /// Returns true if the seat is one of the group's.
    pub fn is_member(&self) -> bool {
        self.is_member
    }

    /// The next line, with its end unless it is longer than `bytes_max` or the client ends with it; `None`
    /// after the last one. `unread` has the bytes that were read before, and gets those after the line.
    pub async fn next_line(&self, unread: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        self.stream.set_nonblocking(true)?;
        let readable = tokio::net::UnixStream::from_std(self.stream.try_clone()?)?;
        let mut searched = 0;
        let mut piece = [0; PIECE_BYTES];
        loop {
            let new = unread.get(searched..).unwrap_or_default();
            let end = new.iter().position(|&byte| byte == b'\n').map(|at| searched + at + 1);
            searched = unread.len();
            if let Some(end) = end.or((searched >= bytes_max).then_some(searched)) {
                let rest = unread.split_off(end.min(bytes_max));
                return Ok(Some(std::mem::replace(unread, rest)));
            }
            timeout(SILENCE_TIMEOUT, readable.readable()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            match readable.try_read(&mut piece) {
                Ok(0) => return Ok((!unread.is_empty()).then(|| std::mem::take(unread))),
                Ok(count) => unread.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a seat.
    ///
    /// # Errors
    /// The connection was cut off meanwhile.
    pub async fn seat(self: &Arc<Self>) -> io::Result<Seat> {
        self.seats.set(self.id, ConnectionPhase::Asking(Instant::now()));
        while !self.seats.seat(self.id)? {
            tokio::time::sleep(SEAT_INTERVAL).await;
        }
        self.stream.set_nonblocking(false)?;
        Ok(Seat(self.clone()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.seats.0.lock().retain(|entry| entry.id != self.id);
    }
}

/// The seat of a connection, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<Connection>);

impl Seat {
    /// Whether its connection is one of the group's.
    pub fn is_member(&self) -> bool {
        self.0.is_member
    }

    /// Returns the number of the user that has connected.
    pub fn uid(&self) -> io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(&self.0.stream)?.uid.as_raw())
    }

    /// Returns the reading and the writing side.
    pub fn sides(&self) -> io::Result<(WatchedStream, WatchedStream)> {
        let (seats, id) = (&self.0.seats, self.0.id);
        let side = |stream| WatchedStream { stream, seats: seats.clone(), id };
        Ok((side(self.0.stream.try_clone()?), side(self.0.stream.try_clone()?)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seats.set(self.0.id, ConnectionPhase::Open(Instant::now()));
    }
}

/// One side of a connection, which records when it waits for the client.
#[derive(Debug)]
pub(super) struct WatchedStream {
    stream: UnixStream,
    seats: Arc<Seats>,
    id: u64,
}

impl WatchedStream {
    /// Does what may wait for the client.
    pub fn waits<T>(&mut self, pass: impl FnOnce(&mut UnixStream) -> T) -> T {
        self.seats.set(self.id, ConnectionPhase::Seated { silent_since: Some(Instant::now()) });
        let result = pass(&mut self.stream);
        self.seats.set(self.id, ConnectionPhase::Seated { silent_since: None });
        result
    }
}

impl Read for WatchedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.waits(|stream| stream.read(buffer))
    }
}

impl Write for WatchedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waits(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(secs: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(secs)).unwrap()
    }

    /// A connection that asked so long ago, and its client.
    fn asking(seats: &Arc<Seats>, is_member: bool, secs: u64) -> (Arc<Connection>, UnixStream) {
        let (own, client) = UnixStream::pair().unwrap();
        let connection = seats.enter(own, is_member).unwrap();
        seats.set(connection.id, ConnectionPhase::Asking(ago(secs)));
        (Arc::new(connection), client)
    }

    /// Returns a seat whose client has been silent for `secs`, and the client.
    fn silent(seats: &Arc<Seats>, is_member: bool, secs: u64) -> (Seat, UnixStream) {
        let (connection, client) = asking(seats, is_member, 0);
        assert!(seats.seat(connection.id).unwrap());
        seats.set(connection.id, ConnectionPhase::Seated { silent_since: Some(ago(secs)) });
        (Seat(connection), client)
    }

    fn is_cut_off(client: &mut UnixStream) -> bool {
        client.set_nonblocking(true).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_longest_silent_client_is_cut_off() {
        let seats = Arc::<Seats>::default();
        let mut taken: Vec<_> = (0..SEATS_MAX).map(|n| silent(&seats, n < 3, 10 + n as u64)).collect();
        let (_seat, mut next) = silent(&seats, false, 0);
        assert!(is_cut_off(&mut taken[SEATS_MAX - 1].1));
        assert!(!is_cut_off(&mut taken[0].1) && !is_cut_off(&mut next));
        // A member takes the seat of a member.
        let (_seat, _client) = silent(&seats, true, 0);
        assert!(is_cut_off(&mut taken[2].1) && !is_cut_off(&mut taken[SEATS_MAX - 2].1));
    }

    #[test]
    fn a_client_being_answered_is_not_cut_off() {
        let seats = Arc::<Seats>::default();
        let mut taken: Vec<_> = (0..SEATS_MAX).map(|_| silent(&seats, false, 10)).collect();
        taken.iter().for_each(|(seat, _)| {
            seats.set(seat.0.id, ConnectionPhase::Seated { silent_since: None });
        });
        let (next, _client) = asking(&seats, false, 0);
        assert!(!seats.seat(next.id).unwrap());
        drop(taken.pop());
        assert!(seats.seat(next.id).unwrap(), "the seat is free again");
    }

    #[test]
    fn members_keep_to_their_own_seats() {
        let seats = Arc::<Seats>::default();
        let mut taken: Vec<_> = (0..GROUP_SEATS_MAX).map(|_| silent(&seats, true, 10)).collect();
        let (_seat, _client) = silent(&seats, true, 0);
        assert_eq!(taken.iter_mut().filter_map(|(_, client)| is_cut_off(client).then_some(())).count(), 1);
        assert_eq!(seats.0.lock().len(), GROUP_SEATS_MAX);
    }

    #[test]
    fn the_newest_request_takes_the_next_seat_and_members_wait_for_the_operator() {
        let seats = Arc::<Seats>::default();
        let (old, _client) = asking(&seats, false, 5);
        let (new, _client) = asking(&seats, false, 4);
        let (member, _client) = asking(&seats, true, 1);
        for (id, expected) in [(old.id, false), (member.id, false), (new.id, true), (member.id, false)] {
            assert_eq!(seats.seat(id).unwrap(), expected);
        }
        assert!(seats.seat(old.id).unwrap() && seats.seat(member.id).unwrap());
    }

    #[test]
    fn the_oldest_connection_without_a_request_makes_room_for_one_more() {
        let seats = Arc::<Seats>::default();
        let (_seat, mut seated) = silent(&seats, false, 100);
        let (_member, mut of_member) = asking(&seats, true, 90);
        let ages = (0..UNSEATED_MAX).map(|n| 80 - n as u64 / 4);
        let mut waiting: Vec<_> = ages.map(|secs| asking(&seats, false, secs)).collect();
        let (next, mut client) = asking(&seats, false, 0);
        assert!(is_cut_off(&mut waiting[0].1) && seats.seat(waiting[0].0.id).is_err());
        assert!(!waiting[1..].iter_mut().any(|(_, client)| is_cut_off(client)));
        assert!(!is_cut_off(&mut client) && !is_cut_off(&mut seated) && !is_cut_off(&mut of_member));
        // One that says nothing goes before those that wait for an answer.
        seats.set(waiting[9].0.id, ConnectionPhase::Open(ago(1)));
        let (newest, _client) = asking(&seats, false, 0);
        assert!(is_cut_off(&mut waiting[9].1) && !is_cut_off(&mut waiting[1].1));
        assert!(!seats.seat(next.id).unwrap() && seats.seat(newest.id).unwrap());
        assert!(seats.seat(next.id).unwrap());
    }

    #[tokio::test]
    async fn lines_are_read_one_by_one_however_they_come() {
        let seats = Arc::<Seats>::default();
        let (connection, mut client) = asking(&seats, false, 0);
        let mut unread = Vec::new();
        client.write_all(b"one\ntwo\nth").unwrap();
        assert_eq!(connection.next_line(&mut unread, 100).await.unwrap().unwrap(), b"one\n");
        assert_eq!(connection.next_line(&mut unread, 100).await.unwrap().unwrap(), b"two\n");
        client.write_all(b"ree\nlonger than it may be").unwrap();
        assert_eq!(connection.next_line(&mut unread, 100).await.unwrap().unwrap(), b"three\n");
        assert_eq!(connection.next_line(&mut unread, 6).await.unwrap().unwrap(), b"longer");
        drop(client);
        assert_eq!(connection.next_line(&mut unread, 100).await.unwrap().unwrap(), b" than it may be");
        assert_eq!(connection.next_line(&mut unread, 100).await.unwrap(), None);
    }
}
