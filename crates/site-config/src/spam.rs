//! `[spam]`: the built-in filters.

use super::kinds::*;
use super::{ArticleType, NamePattern};

section! {
    /// The filters that are built in. Each has a mode: "off"; "shadow": the article passes, and is counted as
    /// one that would have been refused; "hide": it is filed, but not shown and not passed on, until
    /// newsreel filter release shows it; "reject": it is refused; "class": it passes, and the name of the
    /// filter is its verdict for storage rules ("duplicates", "host-rate", "injector-rate", "peer-rate",
    /// "crossposts", "binaries", "types"). What they count is kept in some 4 MiB of memory, counts half after
    /// an hour, and begins again with the server. Articles of newsreel import are not judged.
    [spam] Spam, SpamDraft {
        /// Articles in a group that matches are neither judged nor counted.
        groups_never: NamePattern = Wildmat, default "", example "local.*,*.test";
        /// Articles whose bodies came too often (EMP), also if names, numbers or some words in them differ.
        /// Quoted lines and signatures are not compared, nor are control messages.
        duplicates: SpamMode = word(), default "off", example "shadow";
        /// How many articles with such a body may come within an hour.
        duplicates_max: u32 = 2..=1_000_000, default 8, example 20;
        /// Articles from a host or account that posts too much, as the Injection-Info or NNTP-Posting-Host
        /// header says; without them, none.
        host_rate: SpamMode = word(), default "off", example "reject";
        /// How many articles may come from a host or account within an hour.
        host_rate_max: u32 = 2..=1_000_000, default 60, example 20;
        /// Articles from a site whose users post too much together, as when accounts are made there by the
        /// hundred: the server that the Injection-Info header names, else the last one in Path.
        injector_rate: SpamMode = word(), default "off", example "shadow";
        /// How many articles may come from the users of a site within an hour.
        injector_rate_max: u32 = 2..=1_000_000_000, default 1000, example 200;
        /// Articles from a peer, a pull or posters here, each as a whole, that sends too much.
        peer_rate: SpamMode = word(), default "off", example "class";
        /// How many articles may come from it within an hour.
        peer_rate_max: u32 = 2..=1_000_000_000, default 100000, example 5000;
        /// Articles in too many groups.
        crossposts: SpamMode = word(), default "off", example "reject";
        /// In how many groups an article may be; in twice as many if Followup-To names fewer groups.
        crossposts_max: usize = 1..=10_000, default 10, example 5;
        /// Articles with yEnc, uuencoded, base64 or BinHex data where it does not belong.
        binaries: SpamMode = word(), default "off", example "reject";
        /// The groups where it belongs: an article in one of them may have such data.
        binaries_groups: NamePattern = Wildmat, default "*.binaries*,*.pictures*", example "*.binaries*";
        /// Articles of the types in types_refused.
        types: SpamMode = word(), default "off", example "reject";
        /// The types of the filter types, as peer.send.types has them.
        types_refused: Vec<ArticleType> = ListOf(word()), default ["html"], example ["html", "binary"];
    }
}

words! {
    /// Action of a built-in filter.
    pub enum SpamMode {
        /// None.
        Off = "off",
        /// Only log articles that would be refused.
        Shadow = "shadow",
        /// Hide articles.
        Hide = "hide",
        /// Refuse articles.
        Reject = "reject",
        /// Give articles a verdict for storage rules.
        Class = "class",
    }
}
