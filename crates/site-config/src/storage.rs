//! `[[buffer]]`, `[[class]]`, `[[rule]]` and `[[expire]]`: storage of articles, and how long they stay.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;
use super::{BufferOrder, FreeMin, HeaderMatch, Method, NamePattern};

/// Minimum size of a buffer, in bytes.
pub(super) const BUFFER_BYTES_MIN: u64 = 64 << 10;

section! {
    /// A cyclic buffer: a file or block device of fixed size in which the newest article overwrites the
    /// oldest. Overwriting is expiry. Each class of method cnfs needs at least one.
    [[buffer]] Buffer, BufferDraft {
        /// The buffer's name in classes and tokens: 1 to 15 letters, digits, "_", "." or "-". It is written
        /// into the buffer and cannot be changed later.
        name: String = Name, example "text0", of machine;
        /// The file or block device, relative to the directory in data. A file that the site has never had is
        /// created; its directory must exist, unless the site is new. A file that is missing is an error.
        path: PathBuf = FilePath, example "text0.cyc",
            effect Refused("newsreel buffer move copies it while serving, and changes the file"), of machine;
        /// Its size, at least 64 KiB; by default that of the file or device. If the size is raised, the
        /// buffer grows; lowering it is refused. Together the buffers are the size of the spool: an article
        /// stays until this many bytes have arrived after it.
        size: Option<u64> = Maybe(Size { min: BUFFER_BYTES_MIN, max: u64::MAX }), example "20 GiB",
            of machine;
        /// Articles begin at multiples of this: a power of two from 64 to 16384 bytes. On average half a
        /// block is wasted after each article; large blocks need a smaller usage bitmap (one bit for each
        /// block), which is worthwhile for large articles. Fixed when the buffer is created.
        block: u32 = Block, default "64", example "4 KiB",
            effect Refused("it is fixed when the buffer is made; add another buffer"), of machine;
        /// A retired buffer accepts no more articles; those it holds stay readable until it is removed.
        /// newsreel buffer retire sets this, and newsreel buffer use reverts it.
        retired: bool = Switch, default false, example true, of machine;
    }
}

section! {
    /// A storage class: articles that are stored in the same way and for the same time. A class of method
    /// cnfs uses one or more buffers that no other class uses.
    [[class]] Class, ClassDraft {
        /// The class's name in rules.
        name: String = Name, example "text";
        /// "cnfs": in cyclic buffers on disk; "memory": in a cyclic buffer in memory, empty after a restart;
        /// "trash": not stored, only the Message-ID is remembered. The others keep articles until they expire
        /// by [[expire]]: "appendonly": consecutively in files that are created as needed; "tradspool": one
        /// file per article, by group and number, with hard links for crossposts, as INN and C News do;
        /// "bucketed": the same with each directory split in 1,000 (Usenetfs); "hashed": one file per
        /// article, by a digest of its Message-ID; "timehash": by its arrival time.
        method: Method = word(), default "cnfs", example "cnfs",
            effect Refused("stop the server, or give a class of another name the new method"), of machine;
        /// The buffers of a class of method cnfs, by name, in the order of use.
        buffers: Vec<String> = ListOf(Name), default [], example ["text0", "text1"], when Class::is_cyclic,
            of machine;
        /// "interleave": the buffers are filled in turn, 1 MiB at a time, which spreads the load over disks;
        /// "sequential": each buffer is filled to its end before the next.
        order: BufferOrder = word(), default "interleave", example "sequential", when Class::is_cyclic,
            of machine;
        /// Size of a class of method memory, at least 64 KiB.
        size: u64 = Size::ANY, default "0", example "64 MiB", effect Restart, when Class::is_in_memory,
            of machine;
        /// "zstd": each article of a class of method cnfs or appendonly is compressed, with a dictionary
        /// trained from the first 2,000 articles. Text takes about 40 % of its size, so it stays more than
        /// twice as long. It costs about 45 microseconds of processor time to store an article and 5 to read
        /// it. May be changed at any time; stored articles are not changed. Keep the directory dictionaries
        /// in data with the buffers: compressed articles cannot be read without it.
        compress: ArticleCompression = word(), default "none", example "zstd", when Class::compresses,
            of machine;
        /// The zstd level: higher ones compress slightly better and take longer to store; reading is equally
        /// fast.
        compress_level: u8 = 1..=19, default 6, example 9, when Class::compresses, of machine;
        /// A guarantee: no article of the class is overwritten before it has been here this long. Articles
        /// that could only be stored by breaking it go to the class in overflow, so that a flood cannot
        /// displace what is guaranteed. Without overflow, or if that class cannot store the article either,
        /// it is rejected, not remembered, counted and logged once a minute. Cancels are carried out in any
        /// case.
        keep_at_least: Option<Duration> = Maybe(Span), example "30 days";
        /// With keep_at_least: the class for articles that would overwrite guaranteed ones. It may have a
        /// guarantee and an overflow of its own.
        overflow: Option<String> = Maybe(Name), example "flood";
        /// How long articles of the class should stay. newsreel status, and the log once a day, warn if they
        /// will not at the present rate; there is no other effect.
        keep_target: Option<Duration> = Maybe(Span), example "90 days";
        /// A logical ring for a class of method cnfs: an article leaves when more than this was filed in the
        /// class after it. Each counts with its length, its header of 67 bytes and what is missing to a
        /// multiple of 64, without compression, cancelled or not. So which articles are here follows from
        /// what was filed alone, and is the same on machines with other buffers or compression. Its buffers
        /// must have room for the ring and some MiB more; larger ones keep nothing longer. Blocks above 64
        /// bytes need more room. Articles that are overwritten before they have left the ring are counted
        /// (newsreel status) and logged. Articles from before the ring was set leave when it is full. Without
        /// the key, an article stays until its buffer overwrites it.
        ring: Option<u64> = Maybe(Size { min: BUFFER_BYTES_MIN, max: u64::MAX }), example "16 GiB",
            when Class::is_cyclic;
        /// The directory of a class of method appendonly, tradspool, bucketed, hashed or timehash, relative
        /// to data. Each class needs its own. Default: kept/NAME.
        path: Option<PathBuf> = Maybe(FilePath), example "/news/articles",
            effect Refused("stop the server, move the directory, and start it again"), when Class::keeps,
            of machine;
        /// Method appendonly: when a file has reached this size, the next one is begun. A file is deleted
        /// when everything in it has expired, so smaller files free space sooner. May be changed at any time.
        file_size: u64 = Size::ANY, default "256 MiB", example "1 GiB", when Class::is_appendonly, of machine;
        /// Method appendonly: the most files; 0: as many as the disk holds. A full class deletes nothing: its
        /// articles are refused with "try later" until some in it expire or this is raised. Not in a cluster.
        files_max: u64 = 0..=1_000_000, default 0, example 400, when Class::is_appendonly, of machine;
        /// With less room than this on its file system, a class that keeps gives up its oldest articles, of
        /// those older than the keep_min of their [[expire]] sections, until there is a tenth more than this
        /// again: a size, or a percentage of the file system. What has no section, or one without keep, is
        /// never given up. Checked once a minute.
        free_min: Option<FreeMin> = Maybe(Room), example "5 %", when Class::keeps, of machine;
        /// Methods with one file per article: "crlf": wire format, INN's default; "lf": lines end in LF and
        /// are not dot-stuffed, as in C News and for programs that read the tree themselves. May be changed
        /// at any time; each file shows its format.
        line_ends: LineEnds = word(), default "crlf", example "lf", when Class::has_files, of machine;
    }
}

section! {
    /// Which article goes to which class. An article must meet all conditions of a rule; the first rule that
    /// it meets decides. The last rule has no condition, so that every article has a class.
    [[rule]] Rule, RuleDraft {
        /// The class of articles that meet the rule.
        class: String = Name, example "binaries";
        /// Condition: the first group of the article that is carried here matches (with match = "any": any of
        /// them).
        groups: Option<NamePattern> = Maybe(Wildmat), example "*.binaries.*,*warez*";
        /// Which group the condition groups examines: "first": the first group of the article that is carried
        /// here; "any": any group it is filed in.
        group_match "match": GroupMatch = word(), default "first", example "any";
        /// Condition: the article is longer than this.
        larger_than: Option<u64> = Maybe(Size::ANY), example "64 KiB";
        /// Condition: the article is shorter than this.
        smaller_than: Option<u64> = Maybe(Size::ANY), example "1 KiB";
        /// Condition: the article is filed in at least this many groups.
        crossposts_at_least: Option<usize> = Maybe(1..=10_000), example 10;
        /// Condition: the From header matches.
        from: Option<NamePattern> = Maybe(Wildmat), example "*robot@example.net*";
        /// Condition: a path identity in the Path header matches, or the whole header as received.
        path: Option<String> = Maybe(Pattern), example "*.spam.example";
        /// Condition: the article has a header of this name whose value matches; if it is a list, all of
        /// them. "*" only requires the header. Patterns are separated by commas.
        header: Option<Vec<HeaderMatch>> = Maybe(OneOrMore(Header)),
            example { name = "X-Trace", matches = "*example.net*" };
        /// Condition: the verdict on the article matches: "binary", for a body with yEnc or uuencoded data,
        /// or what [spam] and [[filter]] say; an article without a verdict meets no such condition. This
        /// examines every body, but only if a rule asks for it.
        verdict: Option<String> = Maybe(Pattern), example "binary";
        /// Condition: where the article comes from matches: "peer NAME", "injected" (posted here), "rnews" (a
        /// batch submitted on this machine) or "import".
        origin: Option<String> = Maybe(Pattern), example "peer news.example.net";
        /// Condition: the article has an Expires date no farther away than this.
        expires_within: Option<Duration> = Maybe(Span), example "3 days";
        /// Condition: the article has an Expires date, farther away than this.
        expires_beyond: Option<Duration> = Maybe(Span), example "90 days";
        /// Condition: the article has no Expires header (true), or has one (false).
        expires_absent: Option<bool> = Maybe(Switch), example true;
    }
}

section! {
    /// How long articles stay in classes that keep them, and how many. For each article and each of its
    /// groups the first that fits decides; without one it stays forever. A reload applies a change to what is
    /// there already, too. newsreel expire --what-if shows beforehand what a change would remove, and
    /// newsreel expire --explain when an article goes, and why.
    [[expire]] Expire, ExpireDraft {
        /// Condition: the group matches. An article in several groups leaves each when that group's rule says
        /// so, and its bytes go with the last.
        groups: Option<NamePattern> = Maybe(Wildmat), example "alt.*,!alt.sources";
        /// Condition: the article is in this class.
        class: Option<String> = Maybe(Name), example "archive";
        /// Condition: the group is moderated (true), or is not (false).
        moderated: Option<bool> = Maybe(Switch), example true;
        /// How long an article without an Expires header is kept, from its arrival; "never": it never goes,
        /// and one with that header goes by it. Without the key: forever, whatever an Expires header says.
        keep: Option<RetentionTime> = Maybe(SpanOrNever), example "30 days";
        /// With keep: an Expires header cannot end an article sooner than this; "never": such a header ends
        /// nothing. Without the key: no lower bound. Nor is an article given up for free_min of its class
        /// before.
        keep_min: Option<RetentionTime> = Maybe(SpanOrNever), example "3 days";
        /// With keep: an Expires header cannot keep an article longer than this; "never": it can, however far
        /// away. Without the key: not longer than keep.
        keep_max: Option<RetentionTime> = Maybe(SpanOrNever), example "365 days";
        /// With keep: what an article's age counts from: its own arrival, or that of the newest article of
        /// its thread in classes that keep. A thread is the articles whose References headers begin with the
        /// same Message-ID, and the article that has it.
        age: AgeBasis = word(), default "article", example "thread";
        /// Whether an article that leaves a group by this section leaves all its groups, whatever theirs say:
        /// the flag X of INN's expire.ctl.
        from_all_groups: bool = Switch, default false, example true;
        /// At most this many articles of a group, of those that this section decides about: the ones with the
        /// lowest numbers leave the group, whatever keep and keep_min say.
        articles_max: Option<u64> = Maybe(1..=1_000_000_000_000), example 5000;
        /// At most this many bytes of them, as stored. A crosspost counts in each of its groups.
        bytes_max: Option<u64> = Maybe(Size { min: 1, max: u64::MAX }), example "200 MiB";
    }
}

impl Expire {
    /// Returns the conditions on the articles that the section applies to; empty for all.
    pub fn conditions(&self) -> String {
        let groups = self.groups.as_ref().map(|groups| format!("groups = \"{}\"", groups.as_str()));
        let class = self.class.as_ref().map(|class| format!("class = \"{class}\""));
        let moderated = self.moderated.map(|moderated| format!("moderated = {moderated}"));
        [groups, class, moderated].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Class {
    fn is_cyclic(&self) -> bool {
        self.method == Method::Cnfs
    }

    fn is_in_memory(&self) -> bool {
        self.method == Method::Memory
    }

    fn is_appendonly(&self) -> bool {
        self.method == Method::AppendOnly
    }

    fn compresses(&self) -> bool {
        compresses(self.method)
    }

    fn keeps(&self) -> bool {
        keeps(self.method)
    }

    fn has_files(&self) -> bool {
        self.keeps() && !self.is_appendonly()
    }
}

/// Returns true if articles stay until they are due.
pub fn keeps(method: Method) -> bool {
    !matches!(method, Method::Cnfs | Method::Memory | Method::Trash)
}

/// Returns true if articles can be stored compressed.
pub(super) fn compresses(method: Method) -> bool {
    matches!(method, Method::Cnfs | Method::AppendOnly)
}

words! {
    for Method {
        Cnfs = "cnfs",
        Memory = "memory",
        Trash = "trash",
        AppendOnly = "appendonly",
        Tradspool = "tradspool",
        Bucketed = "bucketed",
        Hashed = "hashed",
        Timehash = "timehash",
    }
}

words! {
    for BufferOrder {
        Interleave = "interleave",
        Sequential = "sequential",
    }
}

words! {
    /// The groups of an article that a rule matches.
    pub enum GroupMatch {
        /// The first group carried here.
        First = "first",
        /// Any group that it is filed in.
        Any = "any",
    }
}

/// The time that something stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionTime {
    /// For this time.
    For(Duration),
    /// Forever.
    Never,
}

words! {
    /// The start of an article's age.
    pub enum AgeBasis {
        /// The arrival of the article.
        Article = "article",
        /// The arrival of the newest article of its thread.
        Thread = "thread",
    }
}

words! {
    /// Line ends in the files of a class with one file per article.
    pub enum LineEnds {
        /// CRLF, as in wire format.
        Crlf = "crlf",
        /// LF, as in local files.
        Lf = "lf",
    }
}

words! {
    /// Compression of the articles of a class.
    pub enum ArticleCompression {
        /// None: stored as sent.
        None = "none",
        /// Each compressed with zstd.
        Zstd = "zstd",
    }
}
