//! `[[buffer]]`, `[[class]]`, `[[rule]]` and `[[expire]]`: where articles are stored, and how long.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;
use super::{Groups, HeaderMatch, Method, Order, Word};

/// Least size of a buffer, in bytes.
pub(super) const BUFFER_BYTES_MIN: u64 = 64 << 10;

section! {
    /// A cyclic buffer: a file or block device of fixed size in which the newest article overwrites the
    /// oldest. Overwriting is expiry. At least one is needed by each class of method cnfs.
    [[buffer]] Buffer, BufferDraft {
        /// The buffer's name, by which classes and tokens name it: 1 to 15 letters, digits, "_", "." or "-".
        /// It is written into the buffer and cannot be changed later.
        name: String = Name, example "text0";
        /// The file or block device, relative to the directory in data. A file that the site never had is
        /// made, in a directory that must exist unless the site is new; one that is missing is an error.
        path: PathBuf = FilePath, example "text0.cyc",
            effect Refused("newsreel buffer move copies it while serving, and changes the file");
        /// Its size, from 64 KiB; left out: the size that the file has, or the device. A larger size than
        /// before lets the buffer grow, a smaller one is refused. Together the buffers are the spool's size:
        /// an article lives until so many bytes have arrived after it.
        size: Option<u64> = Maybe(Size { min: BUFFER_BYTES_MIN, max: u64::MAX }), example "20 GiB";
        /// Articles begin at multiples of this: a power of two from 64 to 16384 bytes. Half of it is lost
        /// behind each article; large blocks need a smaller usage bitmap (a bit for each block), which pays
        /// for large articles. It is fixed when the buffer is made.
        block: u32 = Block, default "64", example "4 KiB",
            effect Refused("it is fixed when the buffer is made; add another buffer");
        /// A retired buffer takes no more articles; those it holds stay readable until it is removed.
        /// newsreel buffer retire sets this, and newsreel buffer use takes it back.
        retired: bool = Switch, default false, example true;
    }
}

section! {
    /// A storage class: articles that are stored in the same way and so live equally long. A class of method
    /// cnfs uses one or more buffers that no other class uses.
    [[class]] Class, ClassDraft {
        /// The class's name, by which rules name it.
        name: String = Name, example "text";
        /// "cnfs": in cyclic buffers on disk; "memory": in a cyclic buffer in memory, empty after a restart;
        /// "trash": nothing is kept, the Message-ID is remembered. These keep articles until [[expire]] says
        /// they are due: "appendonly": one behind the other in files that are made as needed; "tradspool": a
        /// file an article by group and number, crossposts as hard links, as INN and C News have it;
        /// "bucketed": the same with each directory split in 1,000 (Usenetfs); "hashed": a file an article by
        /// a digest of its Message-ID; "timehash": by its arrival.
        method: Method = word(), default "cnfs", example "cnfs",
            effect Refused("stop the server, or give a class of another name the new method");
        /// The buffers of a class of method cnfs, by name, in the order of use.
        buffers: Vec<String> = List(Name), default [], example ["text0", "text1"], when Class::is_cyclic;
        /// "interleave": each buffer in turn gets a stripe of 1 MiB, which spreads the load over disks;
        /// "sequential": one buffer is filled to its end before the next.
        order: Order = word(), default "interleave", example "sequential", when Class::is_cyclic;
        /// Size of a class of method memory, from 64 KiB; the others have none.
        size: u64 = Size::ANY, default "0", example "64 MiB", effect Restart, when Class::is_in_memory;
        /// "zstd": each article of a class of method cnfs is stored compressed, with a dictionary trained
        /// from the first 2,000; text takes about 40 % of its size, so it lives more than twice as long. Each
        /// costs some 45 microseconds of a processor when it is stored and 5 when it is read. May be changed
        /// at any time; what is stored stays as it is. Keep the directory dictionaries in data with the
        /// buffers: without it compressed articles cannot be read.
        compress: Compression = word(), default "none", example "zstd", when Class::compresses;
        /// zstd's level: higher ones compress a little better and take longer to store; reading is equally
        /// fast.
        compress_level: u8 = 1..=19, default 6, example 9, when Class::compresses;
        /// A promise: no article of the class is overwritten before it has been here so long. What could only
        /// be stored by breaking it goes to the class that overflow names, so that a flood costs nothing that
        /// was promised to stay. Without overflow, or where that class cannot take the article either, it is
        /// rejected, not remembered, counted and logged once a minute. Cancels are carried out all the same.
        keep_at_least: Option<Duration> = Maybe(Span), example "30 days";
        /// With keep_at_least: the class that takes what would overwrite what is to stay. It may have a
        /// promise and an overflow of its own.
        overflow: Option<String> = Maybe(Name), example "flood";
        /// How long articles of the class should stay. newsreel status warns when at the present rate they
        /// will not, and the log does once a day; nothing else follows from it.
        keep_target: Option<Duration> = Maybe(Span), example "90 days";
        /// The directory of a class of method appendonly, tradspool, bucketed, hashed or timehash, relative
        /// to data; a directory of its own for each. Without it: kept/NAME.
        path: Option<PathBuf> = Maybe(FilePath), example "/news/articles",
            effect Refused("stop the server, move the directory, and start it again"), when Class::keeps;
        /// Method appendonly: a file that has reached this size is followed by another one. What is due goes
        /// file by file, so smaller files give room back sooner. May be changed at any time.
        file_size: u64 = Size::ANY, default "256 MiB", example "1 GiB", when Class::is_appendonly;
        /// Method appendonly: so many files there may be; 0: as many as the disk holds. A full class removes
        /// nothing: its articles are turned away with "try later" until some in it are due or this is raised.
        files_max: u64 = 0..=1_000_000, default 0, example 400, when Class::is_appendonly;
        /// Methods with a file an article: "crlf": wire format, as INN has it by default; "lf": lines that
        /// end in LF without dot-stuffing, as C News and programs that read the tree themselves have it. May
        /// be changed at any time; each file tells its form.
        line_ends: LineEnds = word(), default "crlf", example "lf", when Class::has_files;
    }
}

section! {
    /// Which article goes to which class. An article must meet every condition of a rule; the first rule it
    /// meets decides. The last rule has no condition, so that every article has a class.
    [[rule]] Rule, RuleDraft {
        /// The class of the articles that meet the rule.
        class: String = Name, example "binaries";
        /// Condition: the first group of the article that is carried here matches, or any with match = "any".
        groups: Option<Groups> = Maybe(Wildmat), example "*.binaries.*,*warez*";
        /// Which group the condition groups looks at: "first": the first group of the article that is carried
        /// here; "any": any of those it is filed in.
        group_match "match": GroupMatch = word(), default "first", example "any";
        /// Condition: the article is longer than this.
        larger_than: Option<u64> = Maybe(Size::ANY), example "64 KiB";
        /// Condition: the article is shorter than this.
        smaller_than: Option<u64> = Maybe(Size::ANY), example "1 KiB";
        /// Condition: the article is filed in at least so many groups.
        crossposts_at_least: Option<usize> = Maybe(1..=10_000), example 10;
        /// Condition: the From header matches.
        from: Option<Groups> = Maybe(Wildmat), example "*robot@example.net*";
        /// Condition: a path identity in the Path header matches, or the whole header as it came.
        path: Option<String> = Maybe(Pattern), example "*.spam.example";
        /// Condition: the article has a header of this name whose value matches; of a list, all. "*" asks
        /// only that the header is there. A comma separates patterns.
        header: Option<Vec<HeaderMatch>> = Maybe(OneOrMore(Header)),
            example { name = "X-Trace", matches = "*example.net*" };
        /// Condition: the verdict on the article matches. The built-in one is "binary", for a body that holds
        /// yEnc or uuencoded data; an article without a verdict meets no such condition. Costs a look at
        /// every body, only where a rule asks.
        verdict: Option<String> = Maybe(Pattern), example "binary";
        /// Condition: where the article comes from matches: "peer NAME", "injected" (posted here), "rnews" (a
        /// batch handed in on this machine) or "import".
        origin: Option<String> = Maybe(Pattern), example "peer news.example.net";
        /// Condition: the article has an Expires date, at most this far away.
        expires_within: Option<Duration> = Maybe(Span), example "3 days";
        /// Condition: the article has an Expires date, farther away than this.
        expires_beyond: Option<Duration> = Maybe(Span), example "90 days";
    }
}

section! {
    /// How long articles stay in classes that keep them. For each article and each of its groups the first
    /// that fits decides; without one it stays forever. A reload applies a change to what is there already,
    /// too.
    [[expire]] Expire, ExpireDraft {
        /// Condition: the group matches. An article in several groups leaves each when that group's rule says
        /// so, and its bytes go with the last.
        groups: Option<Groups> = Maybe(Wildmat), example "alt.*,!alt.sources";
        /// Condition: the article is in this class.
        class: Option<String> = Maybe(Name), example "archive";
        /// How long an article without an Expires header is kept, from its arrival. Without the key: forever,
        /// whatever its Expires header says.
        keep: Option<Duration> = Maybe(Span), example "30 days";
        /// With keep: an Expires header cannot end an article sooner than this. Without it: no lower bound.
        keep_min: Option<Duration> = Maybe(Span), example "3 days";
        /// With keep: an Expires header cannot keep an article longer than this. Without it: not longer than
        /// keep.
        keep_max: Option<Duration> = Maybe(Span), example "365 days";
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

/// Whether articles stay until they are due.
pub fn keeps(method: Method) -> bool {
    !matches!(method, Method::Cnfs | Method::Memory | Method::Trash)
}

/// Whether articles can be stored compressed.
pub(super) fn compresses(method: Method) -> bool {
    matches!(method, Method::Cnfs | Method::AppendOnly)
}

impl Word for Method {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("cnfs", Self::Cnfs),
        ("memory", Self::Memory),
        ("trash", Self::Trash),
        ("appendonly", Self::AppendOnly),
        ("tradspool", Self::Tradspool),
        ("bucketed", Self::Bucketed),
        ("hashed", Self::Hashed),
        ("timehash", Self::Timehash),
    ];
}

impl Word for Order {
    const WORDS: &'static [(&'static str, Self)] =
        &[("interleave", Self::Interleave), ("sequential", Self::Sequential)];
}

words! {
    /// Which group of an article a rule looks at.
    pub enum GroupMatch {
        /// The first one carried here.
        First = "first",
        /// Any that it is filed in.
        Any = "any",
    }
}

words! {
    /// How lines end in the files of a class with a file an article.
    pub enum LineEnds {
        /// Wire format.
        Crlf = "crlf",
        /// As local files.
        Lf = "lf",
    }
}

words! {
    /// How the articles of a class are stored.
    pub enum Compression {
        /// As they are sent.
        None = "none",
        /// Each compressed with zstd.
        Zstd = "zstd",
    }
}
