//! The table of verbs: names, arguments, descriptions, capabilities.
//!
//! One table serves to find the verb of a line, for the syntax shown with 501, and for HELP. Unused verbs of
//! RFC 2980 (XINDEX, XTHREAD, XREPLIC) are not in it: 500. Verbs that make up a feed come first, since `find`
//! searches from the top. Sources: RFC 3977 appendix B, RFC 2980.

/// The parser's arm for a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerbName {
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
    pub(super) name: VerbName,
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
        matches!(self.name, VerbName::Check | VerbName::Takethis)
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
    name: VerbName,
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
    row(VerbName::Check, "CHECK", "<message-id>", "STREAMING", "ask whether an article is wanted"),
    row(VerbName::Takethis, "TAKETHIS", "<message-id>", "STREAMING", "send an article unasked"),
    row(VerbName::Ihave, "IHAVE", "<message-id>", "IHAVE", "offer an article, then send it"),
    row(VerbName::Article, "ARTICLE", WHICH, "READER", "get an article"),
    row(VerbName::Head, "HEAD", WHICH, "", "get the headers of an article"),
    row(VerbName::Body, "BODY", WHICH, "READER", "get the body of an article"),
    row(VerbName::Stat, "STAT", WHICH, "", "ask whether an article is there"),
    row(VerbName::Group, "GROUP", "newsgroup", "READER", "select a newsgroup"),
    row(VerbName::Over, "OVER", SELECT, "OVER", "get overview rows"),
    row(VerbName::Xover, "XOVER", "[range]", "", "get overview rows"),
    row(VerbName::Hdr, "HDR", "header [range|<message-id>]", "HDR", "get one header of many articles"),
    row(VerbName::Xhdr, "XHDR", "header [range|<message-id>]", "", "get one header of many articles"),
    row(VerbName::Authinfo, "AUTHINFO", "USER name|PASS password|SASL mechanism [initial-response]",
        "AUTHINFO", "log in"),
    row(VerbName::Capabilities, "CAPABILITIES", "[keyword]", "", "list what this server can do"),
    row(VerbName::Compress, "COMPRESS", "DEFLATE", "COMPRESS", "compress the connection from here on"),
    row(VerbName::Date, "DATE", "", "READER", "get the server's date and time in UTC"),
    row(VerbName::Help, "HELP", "", "", "get this text"),
    row(VerbName::Last, "LAST", "", "READER", "step to the previous article"),
    row(VerbName::List, "LIST",
        "[ACTIVE|ACTIVE.MODTIME|ACTIVE.TIMES|COUNTS|DISTRIB.PATS|DISTRIBUTIONS|EXTENSIONS|HEADERS|\
         MODERATORS|MOTD|NEWSGROUPS|OVERVIEW.FMT|SUBSCRIPTIONS] [wildmat|argument]",
        "LIST", "get a list"),
    row(VerbName::Listgroup, "LISTGROUP", "[newsgroup [range]]", "READER",
        "select a newsgroup and list its article numbers"),
    row(VerbName::Mode, "MODE", "READER|STREAM", "MODE-READER", "say what the connection is for"),
    row(VerbName::Newgroups, "NEWGROUPS", SINCE, "READER", "list newsgroups made since then"),
    row(VerbName::Newnews, "NEWNEWS", "wildmat yyyymmdd hhmmss [GMT]", "NEWNEWS",
        "list Message-IDs arrived since then"),
    row(VerbName::Next, "NEXT", "", "READER", "step to the next article"),
    row(VerbName::Post, "POST", "", "POST", "inject an article"),
    row(VerbName::Quit, "QUIT", "", "", "end the connection"),
    row(VerbName::Slave, "SLAVE", "", "", "accepted and without effect"),
    row(VerbName::Starttls, "STARTTLS", "", "STARTTLS", "go on under TLS"),
    row(VerbName::Xbatch, "XBATCH", "octets", "", "send a batch of articles, compressed or not"),
    row(VerbName::Xgtitle, "XGTITLE", "[wildmat]", "", "list descriptions of newsgroups"),
    row(VerbName::Xpat, "XPAT", "header range|<message-id> wildmat...", "",
        "get matching values of one header"),
    row(VerbName::Xpath, "XPATH", "<message-id>", "", "find the newsgroups and numbers of an article"),
    row(VerbName::Xrover, "XROVER", "[range]", "", "get references from the overview"),
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
