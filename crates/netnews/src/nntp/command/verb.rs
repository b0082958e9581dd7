//! The table of verbs: names, arguments, descriptions, capabilities.
//!
//! One table serves to find the verb of a line, for the syntax shown with 501, and for HELP. Unused verbs of
//! RFC 2980 (XINDEX, XTHREAD, XREPLIC) are not in it: 500. Verbs that make up a feed come first, since `find`
//! searches from the top. Sources: RFC 3977 appendix B, RFC 2980.

/// The parser's arm for a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Article,
    Authinfo,
    Body,
    Capabilities,
    Check,
    Compress,
    Date,
    Group,
    Hdr,
    Head,
    Help,
    Ihave,
    Last,
    List,
    Listgroup,
    Mode,
    Newgroups,
    Newnews,
    Next,
    Over,
    Post,
    Quit,
    Slave,
    Starttls,
    Stat,
    Takethis,
    Xbatch,
    Xgtitle,
    Xhdr,
    Xover,
    Xpat,
    Xpath,
    Xrover,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Verb {
    pub(super) name: Name,
    /// The verb, in upper case.
    pub text: &'static str,
    /// Arguments, as HELP shows them; empty if there are none.
    pub arguments: &'static str,
    /// Description, in a few words.
    pub description: &'static str,
    /// Capability (RFC 3977 section 3.3) that advertises the verb; empty if always available or by custom
    /// only.
    pub capability: &'static str,
}

impl Verb {
    /// Returns whether the argument is passed on unchanged, even with control characters in it: RFC 4644
    /// section 2.
    pub(super) fn keeps_argument(&self) -> bool {
        matches!(self.name, Name::Check | Name::Takethis)
    }

    /// Appends `VERB arguments`.
    pub fn append_syntax(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text.as_bytes());
        if !self.arguments.is_empty() {
            out.push(b' ');
            out.extend_from_slice(self.arguments.as_bytes());
        }
    }
}

const fn row(
    name: Name,
    text: &'static str,
    arguments: &'static str,
    capability: &'static str,
    description: &'static str,
) -> Verb {
    Verb { name, text, arguments, description, capability }
}

const WHICH: &str = "[number|<message-id>]";
const SELECT: &str = "[range|<message-id>]";
const SINCE: &str = "yyyymmdd hhmmss [GMT]";

/// All verbs.
#[rustfmt::skip]
pub static TABLE: &[Verb] = &[
    row(Name::Check, "CHECK", "<message-id>", "STREAMING", "ask whether an article is wanted"),
    row(Name::Takethis, "TAKETHIS", "<message-id>", "STREAMING", "send an article unasked"),
    row(Name::Ihave, "IHAVE", "<message-id>", "IHAVE", "offer an article, then send it"),
    row(Name::Article, "ARTICLE", WHICH, "READER", "get an article"),
    row(Name::Head, "HEAD", WHICH, "", "get the headers of an article"),
    row(Name::Body, "BODY", WHICH, "READER", "get the body of an article"),
    row(Name::Stat, "STAT", WHICH, "", "ask whether an article is there"),
    row(Name::Group, "GROUP", "newsgroup", "READER", "select a newsgroup"),
    row(Name::Over, "OVER", SELECT, "OVER", "get overview rows"),
    row(Name::Xover, "XOVER", "[range]", "", "get overview rows"),
    row(Name::Hdr, "HDR", "header [range|<message-id>]", "HDR", "get one header of many articles"),
    row(Name::Xhdr, "XHDR", "header [range|<message-id>]", "", "get one header of many articles"),
    row(Name::Authinfo, "AUTHINFO", "USER name|PASS password|SASL mechanism [initial-response]",
        "AUTHINFO", "log in"),
    row(Name::Capabilities, "CAPABILITIES", "[keyword]", "", "list what this server can do"),
    row(Name::Compress, "COMPRESS", "DEFLATE", "COMPRESS", "compress the connection from here on"),
    row(Name::Date, "DATE", "", "READER", "get the server's date and time in UTC"),
    row(Name::Help, "HELP", "", "", "get this text"),
    row(Name::Last, "LAST", "", "READER", "step to the previous article"),
    row(Name::List, "LIST",
        "[ACTIVE|ACTIVE.MODTIME|ACTIVE.TIMES|COUNTS|DISTRIB.PATS|DISTRIBUTIONS|EXTENSIONS|HEADERS|\
         MODERATORS|MOTD|NEWSGROUPS|OVERVIEW.FMT|SUBSCRIPTIONS] [wildmat|argument]",
        "LIST", "get a list"),
    row(Name::Listgroup, "LISTGROUP", "[newsgroup [range]]", "READER",
        "select a newsgroup and list its article numbers"),
    row(Name::Mode, "MODE", "READER|STREAM", "MODE-READER", "say what the connection is for"),
    row(Name::Newgroups, "NEWGROUPS", SINCE, "READER", "list newsgroups made since then"),
    row(Name::Newnews, "NEWNEWS", "wildmat yyyymmdd hhmmss [GMT]", "NEWNEWS",
        "list Message-IDs arrived since then"),
    row(Name::Next, "NEXT", "", "READER", "step to the next article"),
    row(Name::Post, "POST", "", "POST", "inject an article"),
    row(Name::Quit, "QUIT", "", "", "end the connection"),
    row(Name::Slave, "SLAVE", "", "", "accepted and without effect"),
    row(Name::Starttls, "STARTTLS", "", "STARTTLS", "go on under TLS"),
    row(Name::Xbatch, "XBATCH", "octets", "", "send a batch of articles, compressed or not"),
    row(Name::Xgtitle, "XGTITLE", "[wildmat]", "", "list descriptions of newsgroups"),
    row(Name::Xpat, "XPAT", "header range|<message-id> wildmat...", "", "get matching values of one header"),
    row(Name::Xpath, "XPATH", "<message-id>", "", "find the newsgroups and numbers of an article"),
    row(Name::Xrover, "XROVER", "[range]", "", "get references from the overview"),
];

/// Returns the row of `name`, in any case.
pub fn find(name: &[u8]) -> Option<&'static Verb> {
    TABLE.iter().find(|verb| verb.text.as_bytes().eq_ignore_ascii_case(name))
}

/// Appends the lines of HELP for the verbs that `offered` accepts, without response line and without final
/// dot.
pub fn help(offered: impl Fn(&Verb) -> bool, out: &mut Vec<u8>) {
    for verb in TABLE.iter().filter(|verb| offered(verb)) {
        out.extend_from_slice(b"  ");
        verb.append_syntax(out);
        out.extend_from_slice(b" - ");
        out.extend_from_slice(verb.description.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}
