//! `[[filter]]`: programs that judge articles, posts and logins.

use std::ops::Range;
use std::time::Duration;

use super::NamePattern;
use super::control::SectionFault;
use super::kinds::*;

/// Longest time that an article may wait for a program.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Shortest such time.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Minimum memory limit of a program.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

section! {
    /// A program that judges articles, posts or logins, such as INN's Perl filters and cleanfeed by way of
    /// newsreel-filter-perl. It is started with the server, keeps running, and gets what it is to judge in
    /// batches over a pipe; docs/filters.md has the protocol. Programs are asked in the order of the file.
    [[filter]] FilterProgram, FilterProgramDraft {
        /// The filter's name in the log.
        name: String = Name, example "cleanfeed";
        /// The program, by its absolute path, and its arguments.
        program: Vec<String> = Program,
            example ["/usr/libexec/newsreel/newsreel-filter-perl", "--innd", "/etc/news/filter_innd.pl"];
        /// What it judges: "feed": articles, wherever they come from, before they are filed; "post": posts,
        /// when they have been completed, before they are filed or mailed to a moderator; "login": clients
        /// that have shown the right password or proof.
        judges: Vec<FilterStage> = OneOrMore(word()), default ["feed"], example ["feed", "post"];
        /// Only articles and posts in a group that matches are judged.
        groups: NamePattern = Wildmat, default "*", example "*,!*.binaries.*";
        /// A program that takes longer for a batch (up to 256 KiB, or one article) is killed and started
        /// again: 10 ms to 1 s.
        timeout: Duration = Span, default "500 ms", example "1 s";
        /// The address space that the program may use, at least 16 MiB.
        memory_max: u64 = Size { min: MEMORY_BYTES_MIN, max: u64::MAX }, default "1 GiB", example "256 MiB",
            of machine;
        /// What happens while the program cannot judge: it is being started again, takes too long, or reports
        /// an error. "pass": articles, posts and logins pass without being judged. "defer": they are to come
        /// later; peers are answered 431 and 436, posters 441, and clients that log in 403.
        on_failure: FilterFailurePolicy = word(), default "pass", example "defer";
        /// The group in which articles are filed that the program sets aside, instead of their own groups. It
        /// must exist. Their verdict for storage rules is "aside".
        aside: String = Text, default "junk", example "local.aside";
    }
}

words! {
    /// The events that a filter program judges.
    pub enum FilterStage {
        /// Articles.
        Feed = "feed",
        /// Posts.
        Post = "post",
        /// Logins.
        Login = "login",
    }
}

words! {
    /// Behaviour while a filter program cannot judge.
    pub enum FilterFailurePolicy {
        /// Everything passes.
        Pass = "pass",
        /// Everything is deferred.
        Defer = "defer",
    }
}

impl FilterProgram {
    /// Returns true if the program judges these events.
    pub fn judges(&self, what: FilterStage) -> bool {
        self.judges.contains(&what)
    }
}

impl FilterProgramDraft {
    pub(super) fn wrong(&self) -> Vec<SectionFault<'_>> {
        let mut wrong = Vec::new();
        let at: &Range<usize> = &self.timeout.span;
        if self.timeout.value.is_some_and(|timeout| !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&timeout)) {
            let message = "filter.timeout must lie between 10 ms and 1 s".into();
            let advice = "articles wait for the program that long; write, for example, timeout = \"500 ms\"";
            wrong.push(SectionFault { at, label: "out of bounds", message, advice });
        }
        if self.judges.value.as_ref().is_some_and(Vec::is_empty) {
            let message = "this [[filter]] judges nothing".into();
            let advice = "name \"feed\", \"post\" or \"login\"";
            wrong.push(SectionFault { at: &self.judges.span, label: "empty", message, advice });
        }
        wrong
    }
}
