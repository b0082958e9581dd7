//! Keys of inn.conf that are not converted, with reasons.
//!
//! Converted keys are in `inn_conf`. Source: inn.conf(5) of INN 2.7, and older versions for removed keys.

use super::keys;

/// Reason for not converting a key.
#[derive(Clone, Copy)]
pub(super) enum UnmappedKey {
    /// No setting is needed here.
    NotNeeded(&'static str),
    /// newsreel has no equivalent.
    NoEqual(&'static str),
    /// A setting here has another meaning.
    NotCarriedOver(&'static str),
}

use UnmappedKey::{NoEqual, NotCarriedOver, NotNeeded};

const LOGS: UnmappedKey =
    NotNeeded("the log goes to standard error, see site.log_level; newsreel status counts");
const HISTORY: UnmappedKey = NotNeeded("history has one form and sizes itself");
const OVERVIEW: UnmappedKey = NotNeeded("overview has one form, is always on and is kept with the articles");
const WATCH: UnmappedKey =
    NotNeeded("a full disk stops acceptance by itself, and newsreel check warns in time");
const PATHS: UnmappedKey = NotNeeded("everything of the site is below site.data");
const PROCESS: UnmappedKey = NotNeeded("peers and readers are served by one process");
const TUNING: UnmappedKey = NotNeeded("the server tunes itself");
const KEYWORDS: UnmappedKey = NoEqual("no Keywords are made up");
const TLS: UnmappedKey = NotNeeded("TLS 1.2 and 1.3 with sound ciphers only");

/// Returns the reason for not converting a key of inn.conf; `None` if it is unknown.
pub(super) fn fate(key: &str) -> Option<UnmappedKey> {
    keys::words(UNMAPPED, key)
}

/// Keys with their reasons.
const UNMAPPED: &[(&str, UnmappedKey)] = &[
    ("backoffk", NotCarriedOver("each wait is twice as long as the one before")),
    (
        "maxconnections",
        NotCarriedOver(
            "it counts connections of peers; limits.connections_max counts readers too, and each peer has a \
             max_connections of its own",
        ),
    ),
    (
        "peertimeout",
        NotCarriedOver("limits.idle_timeout holds for peers and readers alike, and is INN's clienttimeout"),
    ),
    (
        "cnfscheckfudgesize maxforks maxlisten rlimitnofile badiocount blockbackoff chaninacttime \
         chanretrytime datamovethreshold keepmmappedthreshold maxcmdreadsize pauseretrytime articlemmap \
         tradindexedmmap msgidcachesize nntpactsync nntplinklog refusecybercancels",
        TUNING,
    ),
    (
        "doinnwatch innwatchbatchspace innwatchlibspace innwatchloload innwatchhiload innwatchpauseload \
         innwatchsleeptime innwatchspoolnodes innwatchspoolspace",
        WATCH,
    ),
    (
        "docnfsstat htmlstatus incominglogfrequency logartsize logcancelcomm logcycles logipaddr \
         logsitename logstatus logtrash nnrpdoverstats stathist status timer readertrack innreport",
        LOGS,
    ),
    ("hismethod hiscachesize wipcheck wipexpire", HISTORY),
    ("ovmethod enableoverview overcachesize useoverchan ovgrouppat mergetogroups", OVERVIEW),
    (
        "extraoverviewhidden",
        NoEqual("what overview keeps is named to readers, see site.overview_headers; HDR reads the others"),
    ),
    ("keywords keyartlimit keylimit keymaxwords", KEYWORDS),
    ("tlsciphers tlsciphers13 tlscompression tlseccurve tlspreferserverciphers tlsprotocols", TLS),
    ("tlscapath", NoEqual("name the authorities in one file, tls.client_ca")),
    (
        "nicekids nicenewnews nicennrpd nnrpdflags nnrpdloadlimit noreader readerswhenstopped innflags \
         runasuser runasgroup",
        PROCESS,
    ),
    (
        "nfswriter nfsreader nfsreaderdelay xrefslave spoolfirst nnrpdposthost nnrpdpostport server",
        NoEqual("the server that is read is the one that stores"),
    ),
    ("icdsynccount", NotNeeded("see site.durability, which holds for articles and indexes")),
    ("remembertrash", NotNeeded("policy is remembered, damage in transit is not")),
    ("immediatecancel", NotNeeded("cancels are carried out at once")),
    ("nnrpdcheckart groupexactcount", NotNeeded("counts and marks are always exact")),
    ("linecountfuzz", NoEqual("Lines is not compared")),
    ("verifygroups", NoEqual("groups that are not carried are no reason to refuse an article")),
    ("ignorenewsgroups", NoEqual("control messages are fed by their Newsgroups")),
    ("dontrejectfiltered", NotNeeded("a filter sets articles aside itself, filter.aside")),
    ("syntaxchecks", NoEqual("Message-IDs follow RFC 5536, without exceptions")),
    ("domain fromhost", NotNeeded("names are made from site.path_identity")),
    ("mailcmd newsmaster", NotNeeded("mail is sent as [moderation] says")),
    ("addinjectiondate", NotNeeded("Injection-Date is always added")),
    ("nnrpdauthsender", NoEqual("no Sender is made up; see posting.posting_account")),
    ("strippostcc", NoEqual("Cc and Bcc of posts stay as they are")),
    ("backoffauth backoffdb", NotNeeded("posters are counted by user, else by address, in memory")),
    ("initialtimeout", NotNeeded("limits.idle_timeout holds from the beginning")),
    ("sourceaddress6", NoEqual("peer.send.bind has one address")),
    ("pgpverify", NotNeeded("signatures are verified where a [[control]] section has signed_by")),
    (
        "pathnews patharchive patharticles pathbin pathcontrol pathdb pathetc pathfilter pathhttp \
         pathincoming pathlog pathoutgoing pathoverview pathrun pathspool pathtmp decnetdomain",
        PATHS,
    ),
];
