//! The last notable events, for operators who look at the server without its log.
//!
//! Keeps events of level INFO or above, each with its fields as text of limited length; the oldest make room.
//! Lower levels are not recorded. Filled by a layer of the log; read by the operator's page.

use lock_order::Ordered;
use site_base::clock::unix_secs;
use site_base::lock::rank;
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Number of events that are kept.
pub(crate) const EVENTS_MAX: usize = 200;
/// Maximum bytes of an event's message, and of its fields together.
const TEXT_BYTES_MAX: usize = 400;

/// A recorded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Unix seconds.
    pub at: u64,
    /// Level of the event.
    pub level: Level,
    /// Text without the fields.
    pub message: String,
    /// `name=value` pairs, separated by spaces.
    pub fields: String,
}

static EVENTS: Ordered<VecDeque<LoggedEvent>, { rank::EVENTS }> = Ordered::new(VecDeque::new());

/// Returns the last events, newest first.
pub fn events() -> Vec<LoggedEvent> {
    EVENTS.lock().iter().rev().cloned().collect()
}

/// The layer that records events.
pub(super) struct RecentEvents;

impl<S: Subscriber> Layer<S> for RecentEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        if level > Level::INFO {
            return;
        }
        let mut texts = EventTexts::default();
        event.record(&mut texts);
        let EventTexts { message, fields } = texts;
        let mut events = EVENTS.lock();
        if events.len() >= EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(LoggedEvent { at: unix_secs(), level, message, fields });
    }
}

#[derive(Default)]
struct EventTexts {
    message: String,
    fields: String,
}

impl Visit for EventTexts {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing stops when a text is full.
        let _full = match field.name() {
            "message" => write!(Bounded(&mut self.message), "{value:?}"),
            name if self.fields.is_empty() => write!(Bounded(&mut self.fields), "{name}={value:?}"),
            name => write!(Bounded(&mut self.fields), " {name}={value:?}"),
        };
    }
}

/// Writes to a string up to its maximum length.
struct Bounded<'t>(&'t mut String);

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = TEXT_BYTES_MAX.saturating_sub(self.0.len());
        let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::with_subscriber;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn the_last_events_are_kept_with_their_fields_and_no_more() {
        with_subscriber(tracing_subscriber::registry().with(RecentEvents), || {
            for n in 0..EVENTS_MAX + 1 {
                tracing::warn!(n, name = "a \"b\"", "of this test");
            }
            tracing::debug!("not notable");
            let long = "\u{fc}".repeat(TEXT_BYTES_MAX);
            tracing::info!(long, "of this test");
        });
        // Other tests may log meanwhile, but not with this message; the subscriber is set for this thread
        // only.
        let own: Vec<LoggedEvent> = events().into_iter().filter(|e| e.message == "of this test").collect();
        assert!(events().len() <= EVENTS_MAX && own.len() > 1, "{}", own.len());
        assert!(own[0].fields.starts_with("long=\"\u{fc}") && own[0].fields.len() <= TEXT_BYTES_MAX);
        assert_eq!((own[1].fields.as_str(), own[1].level), ("n=200 name=\"a \\\"b\\\"\"", Level::WARN));
    }
}
