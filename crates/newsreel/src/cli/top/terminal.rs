//! The terminal of `top`: whole screens and single keys. The terminal is restored, however `top` ends.

use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::view::{KeyPress, LineStyle, ScreenLine};
use site_base::printable;

/// Sequence for the alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Sequence for the original screen and its cursor.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Size assumed for a terminal that does not report its own.
const SIZE_USUAL: (usize, usize) = (80, 24);

/// The screen, until it is restored on drop.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Switches to the alternate screen, and to reading single keys.
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        restore_on_signals(before.clone())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let terminal = Self { before };
        put(ENTER)?;
        Ok(terminal)
    }

    /// Returns the size in columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => SIZE_USUAL,
        }
    }

    /// Shows lines, one below the other, in one write.
    pub(super) fn show(&self, lines: &[ScreenLine]) -> io::Result<()> {
        let mut text = String::from("\x1b[H");
        for (at, ScreenLine { text: line, style }) in lines.iter().enumerate() {
            if at > 0 {
                text.push_str("\r\n");
            }
            let (on, off) = match style {
                LineStyle::Plain => ("", ""),
                LineStyle::Head => ("\x1b[1m", "\x1b[0m"),
                LineStyle::Bar => ("\x1b[7m", "\x1b[0m"),
                LineStyle::Bad => ("\x1b[1;31m", "\x1b[0m"),
            };
            // Control sequences in foreign text are shown, not executed.
            let line = printable::lines(line);
            text.push_str(&[on, &line, off, "\x1b[K"].concat());
        }
        text.push_str("\x1b[J");
        put(&text)
    }

    /// Returns the next key, if one comes in time; `q` at the end of input.
    pub(super) fn key(&self, within: Duration) -> io::Result<Option<KeyPress>> {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(within).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut fds, Some(&timeout)) {
            // A change of the window's size interrupts.
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 16];
        let count = rustix::io::read(&stdin, &mut bytes)?;
        Ok(Some(KeyPress::of(bytes.get(..count).unwrap_or_default())))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn restore(before: &Termios) {
    // A closed terminal needs nothing.
    let _gone = put(LEAVE);
    let _gone = tcsetattr(io::stdin(), OptionalActions::Flush, before);
}

/// Restores the terminal when a signal ends this process.
fn restore_on_signals(before: Termios) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?)
    };
    let wait = move || {
        let number = runtime.block_on(async {
            tokio::select! {
                _ = signals.0.recv() => 15,
                _ = signals.1.recv() => 1,
                _ = signals.2.recv() => 2,
            }
        });
        restore(&before);
        std::process::exit(128 + number);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}
