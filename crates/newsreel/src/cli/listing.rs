//! Commands that list what a site has: as a table, or as JSON.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say, say_json};
use super::table::Columns;
use super::typed::TypedOperation;
use operators::archive::operation::{ArchiveCommand, ArchiveOperation};
use operators::buffers::{BufferCommand, BufferOperation};
use operators::filter::{FilterCommand, FilterOperation};
use operators::hide::HideOperation;
use operators::moderation::{ModerationCommand, ModerationOperation};
use operators::posts::{PostsCommand, PostsOperation};
use operators::reply::{BufferRow, FromReply, HeldRow, HiddenRow, PostRow, ReviewRow};
use operators::report::ArchiveStatus;
use operators::request::Request;
use serde::Serialize;
use site_base::clock::unix_secs;
use site_base::figures::age;
use site_base::units::{about_size, about_span};

/// Rows that an answer lists.
pub(super) trait ListedRow: FromReply + Serialize + Send {
    /// Returns the rows as a table, at a time in Unix seconds.
    fn table(rows: &[Self], now: u64) -> String;
}

/// Shows the rows that answer a request, as JSON if that is wanted; after a failure, those that arrived.
pub(super) fn show<R: ListedRow>(
    at: &SiteLocation,
    request: impl Into<Request>,
    json: bool,
) -> Result<(), CliError> {
    let (rows, ok) = reach::heard::<R>(&at.load()?, request)?;
    print(&rows, json, ok)
}

/// Prints rows that answer a request, as JSON if that is wanted; after a failure, those that arrived.
pub(super) fn print<R: ListedRow>(rows: &[R], json: bool, ok: bool) -> Result<(), CliError> {
    if json {
        say_json(&rows)?;
    } else if ok || !rows.is_empty() {
        say(R::table(rows, unix_secs()))?;
    }
    if ok { Ok(()) } else { Err(CliError::Told) }
}

/// Declares which operations list rows, of which type, and whether as JSON; others are answered by text.
macro_rules! listed {
    ($($Operation:ty: $list:pat => $Row:ty, $json:expr;)+) => {
        $(impl TypedOperation for $Operation {
            fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
                match self {
                    $list => show::<$Row>(at, self, $json),
                    other => reach::print(&at.load()?, other),
                }
            }
        })+
    };
}

listed! {
    ArchiveOperation: Self { command: ArchiveCommand::Status { json } } => ArchiveStatus, json;
    BufferOperation: Self { command: BufferCommand::List { json } } => BufferRow, json;
    FilterOperation: Self { command: FilterCommand::Review { json, .. } } => ReviewRow, json;
    HideOperation: Self { list: true, json, .. } => HiddenRow, json;
    ModerationOperation: Self { command: ModerationCommand::List { json } } => HeldRow, json;
    PostsOperation: Self { command: PostsCommand::List { json } } => PostRow, json;
}

impl ListedRow for HiddenRow {
    fn table(rows: &[Self], now: u64) -> String {
        Columns::of(rows)
            .left("Message-ID", |row| row.message_id.clone())
            .left("hidden by", |row| row.by.clone())
            .right("for", |row| about_span(now.saturating_sub(row.since)))
            .left("reason", |row| row.reason.clone())
            .text_or("no articles are hidden")
    }
}

impl ListedRow for HeldRow {
    fn table(rows: &[Self], now: u64) -> String {
        Columns::of(rows)
            .left("Message-ID", |row| row.message_id.clone())
            .right("ago", |row| about_span(now.saturating_sub(row.queued)))
            .left("group", |row| row.group.clone())
            .left("from", |row| row.from.clone())
            .left("subject", |row| row.subject.clone())
            .text_or("no posts wait here for a moderator")
    }
}

impl ListedRow for PostRow {
    fn table(rows: &[Self], now: u64) -> String {
        Columns::of(rows)
            .left("Message-ID", |row| row.message_id.clone())
            .left("upstream", |row| row.upstream.clone())
            .right("ago", |row| about_span(now.saturating_sub(row.queued)))
            .left("state", |row| if row.is_refused { "refused" } else { "waits" }.to_owned())
            .left("groups", |row| row.groups.clone())
            .left("subject", |row| row.subject.clone())
            .left("why", |row| row.problem.clone())
            .text_or("no posts wait for an upstream")
    }
}

impl ListedRow for ReviewRow {
    fn table(rows: &[Self], now: u64) -> String {
        Columns::of(rows)
            .left("Message-ID", |row| row.message_id.clone())
            .right("ago", |row| about_span(now.saturating_sub(row.at)))
            .left("filter", |row| row.filter.clone())
            .left("article", |row| row.finding.clone())
            .left("release", |row| row.release.clone())
            .left("reason", |row| row.reason.clone())
            .left("groups", |row| row.groups.clone())
            .left("subject", |row| row.subject.clone())
            .text_or("filters have found nothing")
    }
}

impl ListedRow for BufferRow {
    fn table(rows: &[Self], now: u64) -> String {
        Columns::of(rows)
            .left("buffer", |row| row.name.clone())
            .left("class", |row| row.class.clone())
            .right("size", |row| about_size(row.size_bytes))
            .right("used", |row| if row.away { String::new() } else { about_size(row.used_bytes) })
            .right("block", |row| row.block_bytes.to_string())
            .right("oldest article", |row| match row.oldest_arrival {
                // Not known if the spool cannot be opened.
                None if row.away || row.used_bytes > 0 => String::new(),
                arrival => age(arrival, now),
            })
            .left("", |row| match row.away {
                true => "AWAY".into(),
                false if row.retired => "retired".into(),
                false => String::new(),
            })
            .left("path", |row| row.path.clone())
            .text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_articles_are_listed_with_operator_and_reason() {
        let row = |id: &str, by: &str, reason: &str| HiddenRow {
            message_id: id.into(),
            by: by.into(),
            since: 1_000,
            reason: reason.into(),
        };
        let rows = [row("<1@x.example>", "operator", ""), row("<22@x.example>", "nocem:bot", "spam")];
        assert_eq!(
            HiddenRow::table(&rows, 8_200),
            "Message-ID      hidden by  for  reason\n\
             <1@x.example>   operator   2 h\n\
             <22@x.example>  nocem:bot  2 h  spam"
        );
        assert_eq!(HiddenRow::table(&[], 0), "no articles are hidden");
    }

    #[test]
    fn held_posts_are_listed() {
        let row = HeldRow {
            message_id: "<1@x.example>".into(),
            group: "local.mod".into(),
            queued: 1_000,
            from: "a@b.example".into(),
            subject: "Please".into(),
            ..HeldRow::default()
        };
        assert_eq!(
            HeldRow::table(&[row], 8_200),
            "Message-ID     ago  group      from         subject\n\
             <1@x.example>  2 h  local.mod  a@b.example  Please"
        );
        assert_eq!(HeldRow::table(&[], 0), "no posts wait here for a moderator");
    }

    #[test]
    fn posts_for_upstreams_are_listed() {
        let row = PostRow {
            message_id: "<1@x.example>".into(),
            upstream: "isp".into(),
            queued: 1_000,
            is_refused: true,
            problem: "441 no".into(),
            groups: "comp.a".into(),
            subject: "Hi".into(),
            ..PostRow::default()
        };
        assert_eq!(
            PostRow::table(&[row], 8_200),
            "Message-ID     upstream  ago  state    groups  subject  why\n\
             <1@x.example>  isp       2 h  refused  comp.a  Hi       441 no"
        );
        assert_eq!(PostRow::table(&[], 0), "no posts wait for an upstream");
    }

    #[test]
    fn findings_are_listed_with_filter_and_reason() {
        let row = ReviewRow {
            at: 1_000,
            filter: "spam".into(),
            finding: "hidden".into(),
            filed: true,
            message_id: "<1@x.example>".into(),
            groups: "a.b,a.c".into(),
            subject: "Buy".into(),
            reason: "too many".into(),
            release: "now".into(),
        };
        assert_eq!(
            ReviewRow::table(&[row], 8_200),
            "Message-ID     ago  filter  article  release  reason    groups   subject\n\
             <1@x.example>  2 h  spam    hidden   now      too many  a.b,a.c  Buy"
        );
        assert_eq!(ReviewRow::table(&[], 0), "filters have found nothing");
    }
}
