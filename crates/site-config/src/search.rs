//! `[search]`: full text search.

use std::time::Duration;

use super::NamePattern;
use super::kinds::*;

section! {
    /// Full text search over the articles that are stored here (docs/search.md). It costs about as much disk
    /// as the text of the articles, and processor time that is otherwise free.
    [search] Search, SearchDraft {
        /// Whether there is an index. It is built in the background, and removed where this says false.
        enabled: bool = Switch, default false, example true, of machine;
        /// Articles in a group that matches are indexed. After a change newsreel rebuild --search takes in
        /// those that are here already.
        groups: NamePattern = Wildmat, default "*", example "*,!*.binaries.*";
        /// Of longer texts only the beginning is indexed; files within articles never are.
        text_max: u64 = Size { min: 1 << 10, max: 4 << 20 }, default "256 KiB", example "64 KiB";
        /// How long an article may be here before it is found. Less costs more.
        delay: Duration = Span, default "5 s", example "1 min";
        /// Memory for what is not written to the index yet.
        memory: u64 = Size { min: 16 << 20, max: 2 << 30 }, default "128 MiB", example "200 MiB", of machine;
    }
}
