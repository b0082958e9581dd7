//! The log: one line per event on standard error, as text or JSON.
//!
//! Targets are modules (`site::relay`), so that a line names the duty that wrote it. Field values come
//! from strangers (names, headers, answers of other servers): whatever they contain, a line has exactly the
//! fields of its event, and is safe to show on a terminal. `packaging/fail2ban` relies on that. Per-article
//! events are formatted only if their level is on. Called by `cli` before anything else runs.

pub mod recent;
pub mod refusals;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use site_base::printable;
use site_config::{LogFormat, LogLevel};
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// A layer that writes events as lines of some form.
type Lines = Box<dyn Layer<LevelFiltered> + Send + Sync>;

/// The filter of events by level, as a layer directly above the registry: only then do events that are not
/// logged cost one comparison, instead of the whole stack of layers for every command.
type LevelFiltered = Layered<reload::Layer<LevelFilter, Registry>, Registry>;

/// Handles to replace the level and the form.
struct LogHandles {
    level: reload::Handle<LevelFilter, Registry>,
    lines: reload::Handle<Lines, LevelFiltered>,
}

static LOG: OnceLock<LogHandles> = OnceLock::new();

impl LogHandles {
    fn new(level: LogLevel, format: LogFormat) -> (impl Subscriber, Self) {
        let (level_layer, level) = reload::Layer::new(filter(level));
        let (lines_layer, lines) = reload::Layer::new(lines(format));
        (tracing_subscriber::registry().with(level_layer).with(lines_layer), Self { level, lines })
    }

    /// Switches both. The subscriber lives as long as the process, so this does not fail.
    fn switch(&self, level: LogLevel, format: LogFormat) {
        let _switched = self.lines.reload(lines(format));
        let _switched = self.level.reload(filter(level));
    }
}

/// Starts logging; a second call has no effect.
pub fn init(level: LogLevel, format: LogFormat) {
    let (subscriber, log) = LogHandles::new(level, format);
    let subscriber = subscriber.with(recent::RecentEvents);
    // An error means that a subscriber is set already.
    if subscriber.try_init().is_ok() {
        let _first = LOG.set(log);
    }
}

/// Switches to another level and form; without effect where logging was not started here.
pub(crate) fn switch(level: LogLevel, format: LogFormat) {
    if let Some(log) = LOG.get() {
        log.switch(level, format);
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn lines(format: LogFormat) -> Lines {
    let lines = tracing_subscriber::fmt::layer().with_writer(Stderr).log_internal_errors(false);
    match format {
        LogFormat::Plain => {
            let lines = lines.with_ansi(io::stderr().is_terminal()).fmt_fields(PlainFields);
            Box::new(lines.map_event_format(WithPriority::new))
        }
        LogFormat::Json => {
            Box::new(lines.json().map_event_format(|json| WithPriority::new(PrintableJson(json))))
        }
    }
}

/// Standard error, which may fail. A full log disk, a closed pipe, or one that is not read costs log lines
/// but never holds up a start or a connection. Once it can be written again, a line reports the number of
/// lost lines.
#[derive(Clone, Copy)]
struct Stderr;

/// Lines that could not be written since the last one that could.
static LINES_LOST: AtomicU64 = AtomicU64::new(0);

impl io::Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_line(&mut io::stderr().lock(), line, &LINES_LOST);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Stderr {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

/// Maximum time for which a slow reader of the log may hold up a line, if it took the previous one.
const READER_WAIT: Duration = Duration::from_millis(100);
/// Size of writes that a pipe with room takes without waiting (PIPE_BUF of pipe(7)).
const PIPE_BYTES: usize = 4096;

/// Writes with a time limit.
struct TimedWriter<'a, W> {
    out: &'a mut W,
    wait: Duration,
}

impl<W: io::Write + AsFd> io::Write for TimedWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wait = Timespec { tv_sec: 0, tv_nsec: self.wait.subsec_nanos().into() };
        let ready = poll(&mut [PollFd::new(self.out, PollFlags::OUT)], Some(&wait))?;
        if ready == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.out.write(bytes.get(..PIPE_BYTES).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a line, preceded by the number of lost lines if there were any.
fn write_line(out: &mut (impl io::Write + AsFd), line: &[u8], lost: &AtomicU64) {
    let missing = lost.load(Ordering::Relaxed);
    let (note, wait) = match missing {
        0 => (String::new(), READER_WAIT),
        missing => (format!("{missing} log lines could not be written\n"), Duration::ZERO),
    };
    let mut out = TimedWriter { out, wait };
    match out.write_all(note.as_bytes()).and_then(|()| out.write_all(line)) {
        Ok(()) => lost.fetch_sub(missing, Ordering::Relaxed),
        Err(_) => lost.fetch_add(1, Ordering::Relaxed),
    };
}

/// Writes fields as `name=value`: a value that is not one plain word is quoted, with escapes.
struct PlainFields;

impl<'writer> FormatFields<'writer> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = PlainVisitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct PlainVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl PlainVisitor<'_> {
    fn write(&mut self, field: &Field, value: &dyn Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        match field.name() {
            "message" => self.writer.write_str(&printable::line(&format!("{value:?}"))),
            name if self.writer.has_ansi_escapes() => {
                write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value:?}")
            }
            name => write!(self.writer, "{name}={value:?}"),
        }
    }
}

impl Visit for PlainVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_err() {
            return;
        }
        self.result = match field.name() {
            "message" => self.write(field, &format_args!("{value}")),
            // Debug adds quotes, and escapes quotes and unprintable characters.
            _ => self.write(field, &value),
        };
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.result.is_err() {
            return;
        }
        let text = format!("{value:?}");
        self.result = if field.name() == "message" || is_plain_word(&text) {
            self.write(field, &format_args!("{text}"))
        } else {
            self.write(field, &text)
        };
    }
}

/// Returns true if a value needs no quotes: nothing in it ends it, or looks like another field.
fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'=' | b'\\'))
}

/// Lines for the system's journal, which takes a priority from the beginning of each line (sd-daemon(3)).
struct WithPriority<F> {
    lines: F,
    is_for_journal: bool,
}

impl<F> WithPriority<F> {
    fn new(lines: F) -> Self {
        Self { lines, is_for_journal: is_for_journal() }
    }
}

/// Returns true if standard error goes to the journal: systemd passes its device and inode.
fn is_for_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let is_own = |stat: rustix::fs::Stat| named == format!("{}:{}", stat.st_dev, stat.st_ino);
    rustix::fs::fstat(io::stderr()).is_ok_and(is_own)
}

/// Returns the journal's number for a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

impl<S, N, F: FormatEvent<S, N>> FormatEvent<S, N> for WithPriority<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.is_for_journal {
            write!(writer, "<{}>", priority(*event.metadata().level()))?;
        }
        self.lines.format_event(context, writer, event)
    }
}

/// One JSON object per line, of which every character is printable.
struct PrintableJson(Format<Json>);

impl<S, N> FormatEvent<S, N> for PrintableJson
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writer.write_str(&printable::json(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io::Read as _;
    use std::sync::Arc;
    use tracing::warn;

    /// Held by tests while they log: one that sets levels changes them for all threads.
    static LOGGING: Mutex<()> = Mutex::new(());

    /// Calls a function with a subscriber for this thread.
    pub(super) fn with_subscriber(subscriber: impl Into<tracing::Dispatch>, f: impl FnOnce()) {
        let _others_wait = LOGGING.lock();
        tracing::dispatcher::with_default(&subscriber.into(), f);
    }

    /// Lines that were logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn events_below_the_level_are_filtered_before_any_layer() {
        let _others_wait = LOGGING.lock();
        for (level, other) in [(LogLevel::Info, LogLevel::Trace), (LogLevel::Debug, LogLevel::Warn)] {
            let (subscriber, log) = LogHandles::new(level, LogFormat::Plain);
            assert_eq!(subscriber.max_level_hint(), Some(filter(level)));
            log.switch(other, LogFormat::Json);
            assert_eq!(subscriber.max_level_hint(), Some(filter(other)));
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_reported_later() {
        let lost = AtomicU64::new(0);
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        ["one\n", "two\n"].iter().for_each(|line| write_line(&mut full, line.as_bytes(), &lost));
        let (mut reader, mut writer) = io::pipe().unwrap();
        ["three\n", "four\n"].iter().for_each(|line| write_line(&mut writer, line.as_bytes(), &lost));
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "2 log lines could not be written\nthree\nfour\n");
    }

    #[test]
    fn a_stalled_reader_of_the_log_does_not_block_the_server() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let (lost, line) = (AtomicU64::new(0), "x".repeat(6_000) + "\n");
        let lines = 1_000;
        for _ in 0..lines {
            write_line(&mut writer, line.as_bytes(), &lost);
        }
        let missing = lost.load(Ordering::Relaxed);
        assert!((1..lines).contains(&missing), "{missing}");
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        while lost.load(Ordering::Relaxed) > 0 {
            write_line(&mut writer, b"again\n", &lost);
        }
        drop(writer);
        let text = reading.join().unwrap().unwrap();
        assert!(text.ends_with("log lines could not be written\nagain\n"), "{}", text.len());
    }

    const EVIL: &str = "x\" address=203.0.113.9 user=\"y\n\x1b[2J\u{9b}\u{202e}";

    fn events() {
        let error = io::Error::other(EVIL);
        warn!(address = %"192.0.2.1", user = EVIL, id = %EVIL, %error, failures = 3, known = true, "a {EVIL} b");
    }

    #[test]
    fn no_value_forges_a_field_or_moves_the_cursor() {
        let lines = Lines::default();
        let writer = lines.clone();
        let plain = tracing_subscriber::fmt().with_ansi(false).fmt_fields(PlainFields).with_writer(writer);
        with_subscriber(plain.finish(), events);
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let (_, text) = text.split_once("site::log::tests: ").unwrap();
        let (message, fields) = text.split_once(" address=192.0.2.1 ").unwrap();
        assert_eq!(message, "a x\" address=203.0.113.9 user=\"y\\u{a}\\u{1b}[2J\\u{9b}\\u{202e} b");
        let quoted = r#""x\" address=203.0.113.9 user=\"y\n\u{1b}[2J\u{9b}\u{202e}""#;
        assert_eq!(fields, format!("user={quoted} id={quoted} error={quoted} failures=3 known=true\n"));
    }

    #[test]
    fn lines_for_the_journal_begin_with_a_priority() {
        let lines = Lines::default();
        let journal = |plain| WithPriority { lines: plain, is_for_journal: true };
        let plain = tracing_subscriber::fmt().with_ansi(false).map_event_format(journal);
        with_subscriber(plain.with_writer(lines.clone()).finish(), || {
            tracing::error!("one");
            warn!("two");
            tracing::info!("three");
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let starts: Vec<&str> = text.lines().filter_map(|line| line.get(..3)).collect();
        assert_eq!(starts, ["<3>", "<4>", "<6>"]);
    }

    #[test]
    fn json_has_the_values_as_they_are_and_can_be_printed() {
        let lines = Lines::default();
        let json =
            tracing_subscriber::fmt().json().map_event_format(PrintableJson).with_writer(lines.clone());
        with_subscriber(json.finish(), events);
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert!(text.trim_end_matches('\n').bytes().all(|b| (b' '..=b'~').contains(&b)), "{text}");
        let event: serde_json::Value = serde_json::from_str(&text).unwrap();
        let fields = &event["fields"];
        for name in ["user", "id", "error"] {
            assert_eq!(fields[name], EVIL, "{name}");
        }
        assert_eq!((&fields["address"], &fields["failures"]), (&"192.0.2.1".into(), &3.into()));
    }
}
