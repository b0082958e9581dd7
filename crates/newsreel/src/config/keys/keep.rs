//! The keys of classes that keep their articles until they are due, and of `[[expire]]`, which says when that is.

use super::{Absent, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key {
        section: "class",
        name: "overflow",
        kind: Kind::Name,
        absent: Absent::Nothing,
        doc: "With keep_at_least: the class that takes what would overwrite what is to stay. It may have a promise and an overflow of its own.",
        example: "overflow = \"flood\"",
    },
    Key {
        section: "class",
        name: "keep_target",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "How long articles of the class should stay. newsreel status warns when at the present rate they will not, and the log does once a day; nothing else follows from it.",
        example: "keep_target = \"90 days\"",
    },
    Key {
        section: "class",
        name: "path",
        kind: Kind::Path,
        absent: Absent::Nothing,
        doc: "The directory of a class of method appendonly, tradspool, bucketed, hashed or timehash, relative to data; a \
              directory of its own for each. Without it: kept/NAME.",
        example: "path = \"/news/articles\"",
    },
    Key {
        section: "class",
        name: "file_size",
        kind: Kind::Size,
        absent: Absent::Value("\"256 MiB\""),
        doc: "Method appendonly: a file that has reached this size is followed by another one. What is due goes file by \
              file, so smaller files give room back sooner. May be changed at any time.",
        example: "file_size = \"1 GiB\"",
    },
    Key {
        section: "class",
        name: "files_max",
        kind: Kind::Integer { min: 0, max: 1_000_000 },
        absent: Absent::Value("0"),
        doc: "Method appendonly: so many files there may be; 0: as many as the disk holds. A full class removes nothing: its \
              articles are turned away with \"try later\" until some in it are due or this is raised.",
        example: "files_max = 400",
    },
    Key {
        section: "class",
        name: "line_ends",
        kind: Kind::Choice(&["crlf", "lf"]),
        absent: Absent::Value("\"crlf\""),
        doc: "Methods with a file an article: \"crlf\": wire format, as INN has it by default; \"lf\": lines that end in LF \
              without dot-stuffing, as C News and programs that read the tree themselves have it. May be changed at any \
              time; each file tells its form.",
        example: "line_ends = \"lf\"",
    },
    Key {
        section: "expire",
        name: "groups",
        kind: Kind::Wildmat,
        absent: Absent::Nothing,
        doc: "Condition: the group matches. An article in several groups leaves each when that group's rule says so, and \
              its bytes go with the last.",
        example: "groups = \"alt.*,!alt.sources\"",
    },
    Key {
        section: "expire",
        name: "class",
        kind: Kind::Name,
        absent: Absent::Nothing,
        doc: "Condition: the article is in this class.",
        example: "class = \"archive\"",
    },
    Key {
        section: "expire",
        name: "keep",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "How long an article without an Expires header is kept, from its arrival. Without the key: forever, whatever \
              its Expires header says.",
        example: "keep = \"30 days\"",
    },
    Key {
        section: "expire",
        name: "keep_min",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "With keep: an Expires header cannot end an article sooner than this. Without it: no lower bound.",
        example: "keep_min = \"3 days\"",
    },
    Key {
        section: "expire",
        name: "keep_max",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "With keep: an Expires header cannot keep an article longer than this. Without it: not longer than keep.",
        example: "keep_max = \"365 days\"",
    },
];
