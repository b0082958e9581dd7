//! Answers that are sent in pieces, each made after the previous one has been taken.
//!
//! A task makes the pieces and waits until there is room for the next; it ends with the connection. A client
//! that reads nothing therefore holds at most two pieces. Called by `reading`.

use super::memory::NoHttpMemory;
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Permit, Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// Sender of pieces.
pub(super) struct PieceSender(Sender<io::Result<Bytes>>);

/// Room for a piece.
pub(super) struct PieceRoom<'a>(Permit<'a, io::Result<Bytes>>);

impl PieceSender {
    /// Waits until the client wants the next piece.
    pub async fn room(&self) -> io::Result<PieceRoom<'_>> {
        self.0.reserve().await.map(PieceRoom).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl PieceRoom<'_> {
    /// Sends a piece.
    pub fn send(self, piece: Bytes) {
        self.0.send(Ok(piece));
    }
}

impl From<NoHttpMemory> for io::Error {
    fn from(_: NoHttpMemory) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}

struct PieceBody {
    next: Receiver<io::Result<Bytes>>,
    making: JoinHandle<()>,
}

impl Drop for PieceBody {
    fn drop(&mut self) {
        self.making.abort();
    }
}

impl hyper::body::Body for PieceBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.next.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Returns a body of the pieces that `make` sends. If that fails, the connection is cut off, so that the
/// answer does not look complete.
pub(super) fn body<F>(make: impl FnOnce(PieceSender) -> F) -> Body
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (sender, next) = channel(1);
    let failures = sender.clone();
    let made = make(PieceSender(sender));
    let making = tokio::spawn(async move {
        if let Err(error) = made.await {
            // The client may have left.
            let _left = failures.send(Err(error)).await;
        }
    });
    Body::new(PieceBody { next, making })
}
