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

/// Maximum number of control connections served at once.
pub(super) const CONNECTIONS_MAX: usize = 16;
/// Maximum number of those for members of the group.
pub(super) const GROUP_CONNECTIONS_MAX: usize = 8;
/// Minimum time of silence before a client can be cut off.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// The table of seats.
#[derive(Debug, Default)]
pub(super) struct Seats(Leaf<Vec<TakenSeat>>);

/// A seat that is taken.
#[derive(Debug)]
struct TakenSeat {
    id: u64,
    stream: UnixStream,
    is_member: bool,
    /// Time since which the server has been waiting for the client.
    silent_since: Option<Instant>,
}

/// Source of seat numbers.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Seats {
    /// Takes a seat for a connection, cutting off a silent client if necessary; returns the connection if
    /// there is none.
    pub fn take(self: &Arc<Self>, stream: UnixStream, is_member: bool) -> Result<Seat, UnixStream> {
        let Ok(other) = stream.try_clone() else { return Err(stream) };
        let mut seats = self.0.lock();
        let members = seats.iter().filter(|taken| taken.is_member).count();
        if seats.len() >= CONNECTIONS_MAX || is_member && members >= GROUP_CONNECTIONS_MAX {
            // Members make room for the operator, never the reverse.
            let may_go = |taken: &&TakenSeat| taken.is_member || !is_member;
            let silent =
                seats.iter().filter(may_go).filter_map(|taken| Some((taken.silent_since?, taken.id)));
            let longest = silent.filter(|(since, _)| since.elapsed() >= SILENCE_MIN).min();
            let at = longest.and_then(|(_, id)| seats.iter().position(|taken| taken.id == id));
            let Some(at) = at else { return Err(stream) };
            // A connection that has ended by itself is fine, too.
            let _ended = seats.swap_remove(at).stream.shutdown(Shutdown::Both);
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        seats.push(TakenSeat { id, stream: other, is_member, silent_since: None });
        Ok(Seat { seats: self.clone(), id, is_member, stream })
    }

    fn note(&self, id: u64, silent_since: Option<Instant>) {
        if let Some(taken) = self.0.lock().iter_mut().find(|taken| taken.id == id) {
            taken.silent_since = silent_since;
        }
    }
}

/// A connection with its seat, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    is_member: bool,
    stream: UnixStream,
}

impl Seat {
    /// Returns true if the seat is one of the group's.
    pub fn is_member(&self) -> bool {
        self.is_member
    }

    /// Returns the reading and the writing side.
    pub fn sides(&self) -> io::Result<(WatchedStream, WatchedStream)> {
        let side = |stream| WatchedStream { stream, seats: self.seats.clone(), id: self.id };
        Ok((side(self.stream.try_clone()?), side(self.stream.try_clone()?)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.0.lock().retain(|taken| taken.id != self.id);
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
    /// Returns the connection itself.
    #[cfg(feature = "mount")]
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    fn waits<T>(&mut self, pass: impl FnOnce(&mut UnixStream) -> T) -> T {
        self.seats.note(self.id, Some(Instant::now()));
        let result = pass(&mut self.stream);
        self.seats.note(self.id, None);
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

    /// Returns a seat whose client has been silent for `secs`, and the client.
    fn silent(seats: &Arc<Seats>, is_member: bool, secs: u64) -> (Seat, UnixStream) {
        let (own, client) = UnixStream::pair().unwrap();
        let seat = seats.take(own, is_member).unwrap();
        seats.note(seat.id, Instant::now().checked_sub(Duration::from_secs(secs)));
        (seat, client)
    }

    fn is_cut_off(client: &mut UnixStream) -> bool {
        client.set_nonblocking(true).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_longest_silent_client_is_cut_off() {
        let seats = Arc::<Seats>::default();
        let mut taken: Vec<_> = (0..CONNECTIONS_MAX).map(|n| silent(&seats, n < 3, 10 + n as u64)).collect();
        let (_seat, mut next) = silent(&seats, false, 0);
        assert!(is_cut_off(&mut taken[CONNECTIONS_MAX - 1].1));
        assert!(!is_cut_off(&mut taken[0].1) && !is_cut_off(&mut next));
        // A member takes the seat of a member.
        let (_seat, _client) = silent(&seats, true, 0);
        assert!(is_cut_off(&mut taken[2].1) && !is_cut_off(&mut taken[CONNECTIONS_MAX - 2].1));
    }

    #[test]
    fn a_client_being_answered_is_not_cut_off() {
        let seats = Arc::<Seats>::default();
        let mut taken: Vec<_> = (0..CONNECTIONS_MAX).map(|_| silent(&seats, false, 10)).collect();
        taken.iter().for_each(|(seat, _)| seats.note(seat.id, None));
        let (own, _client) = UnixStream::pair().unwrap();
        let own = seats.take(own, false).unwrap_err();
        drop(taken.pop());
        assert!(seats.take(own, false).is_ok(), "the seat is free again");
    }

    #[test]
    fn members_keep_to_their_own_seats() {
        let seats = Arc::<Seats>::default();
        let mut taken: Vec<_> = (0..GROUP_CONNECTIONS_MAX).map(|_| silent(&seats, true, 10)).collect();
        let (_seat, _client) = silent(&seats, true, 0);
        assert_eq!(taken.iter_mut().filter_map(|(_, client)| is_cut_off(client).then_some(())).count(), 1);
        assert_eq!(seats.0.lock().len(), GROUP_CONNECTIONS_MAX);
    }
}
