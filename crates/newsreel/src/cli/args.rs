//! Declarations of the command line, with help texts.
//!
//! Contains only declarations: the texts are what `newsreel help COMMAND` prints. A new command gets its
//! place in `newsreel help all` from the table in `headings`.

mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::locate::SiteLocation;
use super::typed::OperationCommand;
use migrate::mails::rules::{GroupRule, group_name};
use operators::feed::FeedCommand;
use operators::history::HistoryForm;
use site_base::units;
use site_config::{Cidr, Durability};
use values::path_identity;
pub(super) use values::{Age, host_port};

/// A Usenet server: relays, injects, stores and serves news
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Start with: newsreel up\n\n\
    Commands use the site named by --dir DIR, --config FILE or NEWSREEL_CONFIG, or else the first \
    of these directories that contains a newsreel.toml: ., ./newsreel-data, ./run (where `make run` puts it), \
    /etc/newsreel, /var/lib/newsreel."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: CliCommand,
    #[command(flatten)]
    pub(super) at: SiteLocation,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Create a site if there is none, and serve it
    #[command(long_about = "Create a site if there is none, and serve it.\n\n\
        In a new DIR this creates a configuration, two cyclic buffers of 512 MiB and a few groups; an existing site is \
        served as it is. Readers and peers connect to 127.0.0.1:1119, or to the address given with --listen, which is \
        written to the configuration; a new site also has TLS, and pages for browsers. Stop it with Ctrl-C.")]
    #[command(
        after_long_help = "Examples:\n  newsreel up --dir ./news\n  newsreel up --listen 127.0.0.1:2119\n  \
        tin -r -g 127.0.0.1 -p 1119"
    )]
    Up {
        /// The site's directory
        #[arg(long, value_name = "DIR", default_value = "newsreel-data")]
        dir: PathBuf,
        #[command(flatten)]
        at: UpAddresses,
    },

    /// Create a site without serving it
    #[command(
        long_about = "Create a site without serving it: a directory with newsreel.toml, two cyclic buffers, \
        groups and the lists that newsreaders ask for.\n\n\
        On a terminal, and with no other option than --dir, it asks what it has to know: at most five questions.\n\n\
        The configuration has comments and is meant to be edited; see newsreel explain-config and newsreel \
        check. If anything fails, nothing is left behind. In the directory of an existing site, what is missing \
        is added, and nothing is overwritten."
    )]
    #[command(after_long_help = "Examples:\n  \
        newsreel init --dir /srv/news --listen 0.0.0.0:119 --buffer \"20 GiB\" --reader 192.0.2.0/24\n  \
        newsreel init --dir ./test --groups active --peer 127.0.0.1 --max-age none")]
    Init(InitOptions),

    /// Serve a site
    #[command(
        long_about = "Serve a site until SIGTERM or SIGINT; then finish what is in progress and stop.\n\n\
        Reports to systemd when it is ready; packaging/newsreel.service is a unit for it."
    )]
    Serve,

    /// Check a configuration, and everything the server needs
    #[command(
        long_about = "Check a configuration: list all of its errors with line and advice, or else a summary of \
        what it would serve and everything that would prevent that: addresses, certificates, buffers, disk \
        space, programs, limits, groups. Changes nothing, and may be run while the server runs.\n\n\
        Exit code 2 if the configuration has errors, 1 if there are problems, 0 if there are only warnings."
    )]
    #[command(after_long_help = "Examples:\n  newsreel check\n  newsreel check --access 192.0.2.7\n  \
        newsreel check --access 192.0.2.7 --user fred --tls\n  newsreel check --diff")]
    Check {
        #[command(flatten)]
        access: super::check::AccessQuestion,
    },

    /// Examine the machine and its network, and say what needs fixing
    #[command(
        long_about = "Examine the machine: limits, disk space and file systems, memory, clock, owners and rights of \
        files, certificates, the systemd unit, our name in DNS, our own ports and the servers that the configuration \
        names, besides everything that newsreel check looks at. One line each: ok, warning or FAULT, with what to do. \
        Changes nothing, and may be run while the server runs; run it as the server's user.\n\n\
        The clock is compared with those of the servers that are fed or read from (DATE), and with the newest files of \
        the site. Exit code 2 if the configuration has errors, 1 if there are faults, 0 if there are only warnings."
    )]
    #[command(after_long_help = "Examples:\n  newsreel doctor\n  newsreel doctor --offline --json")]
    Doctor(super::doctor::DoctorOptions),

    /// Print the configuration in effect, defaults included, or a part of it
    #[command(
        after_long_help = "Examples:\n  newsreel show site.listen\n  newsreel show peer.send.to\n  newsreel show cache"
    )]
    Show {
        /// A key, whose value is printed, one a line for each section that has it, or a section
        key: Option<String>,
    },

    /// Explain a key of the configuration
    #[command(
        after_long_help = "Examples:\n  newsreel explain-config durability\n  newsreel explain-config class.order\n  \
        newsreel explain-config buffer"
    )]
    ExplainConfig {
        /// A key (durability, class.order) or a section; without it, all keys are listed
        key: Option<String>,
    },

    /// Print the Cancel-Key header that withdraws an article posted here
    #[command(
        long_about = "Print the Cancel-Key header (RFC 8315) that withdraws an article posted here, on every server that \
        honors Cancel-Locks.\n\nAdd it to an article with the header `Control: cancel <message-id>`, the Newsgroups of \
        the article to be withdrawn and a body, and post that."
    )]
    #[command(after_long_help = "Example:\n  newsreel cancel-key '<1780000000.0.42@news.example.org>'")]
    CancelKey {
        /// The article's Message-ID, with its angle brackets
        message_id: String,
        /// The key of the user who posted it, instead of the operator's
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },

    /// Add, change, remove, list, import or export groups
    Group {
        #[command(subcommand)]
        command: GroupCommand,
    },

    /// Export the Message-IDs that were seen, or import those of another server
    History {
        #[command(subcommand)]
        command: HistoryCommand,
    },

    /// Post an article
    #[command(
        long_about = "Post an article, written as for a mail program: headers, an empty line, text, in UTF-8. Newsgroups and \
        Subject are needed, there or as options; From, Date, Message-ID and whatever else is missing are added, and headers of \
        mail transport are left out. A text without headers is all body. The operator may post to any group. The server must run."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel post --newsgroups local.test --subject Hello < text\n  newsreel post article"
    )]
    Post(super::post::PostOptions),

    /// Add a peer
    Peer {
        #[command(subcommand)]
        command: super::peer::PeerCommand,
    },

    /// Add, change, remove, list or check users
    #[command(long_about = "Add, change, remove, list or check users: who may log in with AUTHINFO.\n\n\
        Passwords are prompted for on the terminal, without echo, or read from standard input (its first line). A running \
        server uses the new list at once. The [[access]] sections of the configuration say what users may do.")]
    #[command(after_long_help = "Examples:\n  newsreel user add fred --group staff\n  \
        newsreel user passwd fred < new-password\n  newsreel user list --json")]
    User {
        #[command(subcommand)]
        command: super::user::UserCommand,
    },

    /// Control a running server
    Ctl {
        #[command(subcommand)]
        command: CtlCommand,
    },

    #[command(flatten)]
    Ask(OperationCommand),

    /// Summarize a day on one page
    #[command(
        long_about = "Summarize a day on one page, as text, HTML or mail: trouble, articles by peer, in and out, why articles \
        were rejected, groups by articles and by readers, servers in Path, logins, and how long articles stay. The server \
        records each day (UTC) while it runs, and keeps the records of 400 days."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel report\n  newsreel report --day 2026-01-31 --format html > day.html\n  \
        newsreel report --format mail --to usenet@example.org | sendmail -t"
    )]
    Report(super::report::ReportOptions),

    /// Watch a running server, live
    #[command(
        long_about = "Watch a running server, live in a terminal: what comes in and goes out, peers with rates and lag, \
        trouble, buffers and classes. Keys sort the peers, show everything about one, and pause and start the feed to it; \
        h shows them all."
    )]
    #[command(after_long_help = "Examples:\n  newsreel top\n  newsreel top --interval 10")]
    Top(super::top::TopOptions),

    /// Search the articles of a running server for words
    #[command(
        long_about = "Search the articles of a running server for words, the newest first; [search] must be enabled. \
        An article must have all the words. \"some words\" must be consecutive, and -word must be absent. \
        subject:word and from:word search that header alone; group:comp.lang.*, after:2026-01-31, before:2026-02 \
        and thread:MESSAGE-ID limit the search."
    )]
    #[command(after_long_help = "Examples:\n  newsreel search usenet history\n  \
        newsreel search 'group:comp.* from:henry \"c news\" before:1990'\n  newsreel search -- cat -dog")]
    Search(super::search::SearchOptions),

    /// Rebuild all indexes from the stored articles (the server must be stopped)
    #[command(long_about = "Rebuild all indexes from the stored articles. The server must be stopped.\n\n\
        If the file of a buffer is missing, or an older file is in its place, nothing is rebuilt unless --without names the \
        buffer; its articles are then given up. A buffer whose file is missing is also removed from the configuration, and \
        no new file is created. If the file is found again, put the buffer back into the configuration and run \
        newsreel rebuild: its articles are restored.")]
    #[command(after_long_help = "Examples:\n  newsreel rebuild\n  newsreel rebuild --without text1")]
    Rebuild {
        /// Give up the articles of this buffer (repeatable)
        #[arg(long, value_name = "BUFFER")]
        without: Vec<String>,
        /// Rebuild the search index alone, in the background: now, or when the server starts
        #[arg(long, conflicts_with = "without")]
        search: bool,
    },

    /// Create a site from a snapshot (the server must be stopped)
    #[command(
        long_about = "Create a site from the news that newsreel snapshot has written to a file, with the same numbers, marks, \
        groups, remembered Message-IDs and hidden articles, in the buffers and classes of the configuration in --dir. The \
        directory has a newsreel.toml, which may be a copy of the old one, and no spool yet. The server must be stopped. \
        A restoration that was interrupted is continued when the command is repeated, or says what to remove first; no \
        server starts before.\n\n\
        Exit code 1 if not everything fitted, so that the site differs from the original."
    )]
    #[command(
        after_long_help = "Examples:\n  mkdir new\n  cp /backup/newsreel.toml new\n  newsreel restore /backup/news.snapshot --dir new"
    )]
    Restore {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },

    /// Run one site on several servers, any of which may fail
    #[command(
        long_about = "Run several servers of one site, with the same articles under the same numbers, of which any may be \
        lost. They apply one log, which NATS JetStream keeps on three machines or more; [cluster] in the configuration \
        names them. docs/cluster.md explains it all. newsreel must be built with the feature cluster."
    )]
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },

    /// File a batch of articles
    #[command(
        long_about = "File a batch of articles (\"#! rnews N\" lines, each followed by an article) or a single article, plain or \
        compressed with compress, gzip, bzip2 or zstd (with or without a line such as \"#! cunbatch\").\n\n\
        Works with and without a running server. Where the batch is damaged, filing resumes at the next \"#! rnews\" line; the \
        damaged part is copied to the site's directory quarantine, once however often it arrives. Duplicates are counted, \
        other rejected articles are listed; neither is a failure. What cannot be filed now, because there is no room or the \
        server is stopping, is kept in the directory in batches.incoming, and the server files it as soon as it can.\n\n\
        Exit codes: 0 everything was handled, 1 part of the batch is damaged and the rest was handled, 2 the command is wrong \
        or the batch cannot be read, 75 submit the whole batch again later (error in the configuration, no spool, too much \
        is waiting already); what was filed of it will then be a duplicate."
    )]
    #[command(after_long_help = "Examples:\n  newsreel rnews batch.1\n  newsreel rnews < batch.gz")]
    Rnews {
        /// The batch; standard input if absent or -
        file: Option<PathBuf>,
    },

    /// Fetch articles from another server
    #[command(
        long_about = "Fetch articles from another server, as a newsreader does, and file them: those in matching groups \
        that are carried here, as far as they are new since the last pull from that server. Works with and without a running server.\n\n\
        Articles keep their Message-IDs; those already here are not fetched. The next pull continues one that was \
        interrupted at any point: the site's directory pull records how far each server and group was fetched. A \
        [[pull]] section of the configuration does the same at intervals.\n\n\
        Exit codes: 0 everything was fetched, 1 the pull ended early, 2 the command or the configuration is wrong."
    )]
    #[command(after_long_help = "Examples:\n  newsreel pull news.example.net 'comp.lang.*'\n  \
        newsreel pull news.example.net '*,!alt.*' --create-groups --first 1000\n  \
        newsreel pull news.example.net:563 'de.*' --tls implicit --user fred --password-file password\n  \
        newsreel pull upstream")]
    Pull(super::pull::PullOptions),

    /// Send articles to a server
    #[command(
        long_about = "Send articles to a server, by streaming (CHECK and TAKETHIS) or, if the server does not support it, with \
        IHAVE. They come from a file, which is a batch or a single article, compressed or not, or from a group of this \
        site. This machine must be a peer of the server.\n\n\
        Articles that the server has are not sent. Those that it wants later are offered again twice, and those that had \
        no answer when a connection broke are offered again. A server that leaves an answer open for a minute on two \
        connections in a row is given up.\n\n\
        Exit codes: 0 every article was answered, 1 articles were given up, something damaged was not sent, or the server \
        refuses the connection for good, 2 the command is wrong or its file cannot be read, 75 the server cannot be \
        reached or wants some articles later: run the command again."
    )]
    #[command(after_long_help = "Examples:\n  newsreel send batch.gz news.example.net\n  \
        newsreel send local.test news.example.net:1119 --compress\n  \
        newsreel send - news.example.net < article")]
    Send(super::send::SendOptions),

    /// Import groups, articles and numbers from another server, or articles from files
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },

    /// Export data for other programs
    Export {
        #[command(subcommand)]
        command: ExportCommand,
    },

    /// Mount a tree of articles so that its managed directories look flat (Usenetfs)
    #[command(
        long_about = "Mount a tree of articles so that its managed directories look flat (Usenetfs), and serve the mount \
        until it is unmounted or SIGTERM or SIGINT comes.\n\n\
        A directory with the setuid bit is managed: it is stored as up to a thousand small directories, by article number, and \
        shown as one. Programs that use MOUNTPOINT notice nothing; no other directory is changed. It helps where a file \
        system searches large directories from the beginning. Root can mount without further programs, others \
        need fusermount3.\n\n\
        With --spool the running server's articles are shown instead, whatever methods store them: one file per article, \
        group/name/number, and message.id/MESSAGE-ID. Root, the server's user and site.control_group can do that."
    )]
    #[command(after_long_help = "Examples:\n  newsreel mount /srv/spool /var/spool/news/articles\n  \
        newsreel manage /var/spool/news/articles/control/cancel\n  \
        umount /var/spool/news/articles\n  newsreel mount --spool /news")]
    Mount(super::mount::MountOptions),

    /// Convert a directory to a managed one, or show which ones would benefit
    #[command(
        long_about = "Convert a directory to a managed one, for newsreel mount: each file is moved into the small directory \
        where the mount looks for it, and the setuid bit is set.\n\n\
        DIR may be in use through a mount meanwhile; without a mount nothing else may use it. If \
        the command is interrupted, run it again, or newsreel unmanage. A directory with subdirectories named 000 to 999 or \
        aaa is refused."
    )]
    #[command(after_long_help = "Examples:\n  newsreel manage --suggest /var/spool/news/articles\n  \
        newsreel manage --dry-run /var/spool/news/articles/control/cancel")]
    Manage(super::mount::ManageOptions),

    /// Convert a managed directory back to a flat one
    #[command(
        long_about = "Convert a managed directory back to a flat one: the reverse of newsreel manage, which says \
        when it can be used."
    )]
    Unmanage(super::mount::UnmanageOptions),

    /// A cache of other servers' articles, and posts to their groups
    Cache {
        #[command(subcommand)]
        command: super::cache::CacheCommand,
    },

    /// Print the shell completions of commands and options
    #[command(
        long_about = "Print the completions of newsreel's commands and options for a shell. Packages and make install \
        put them where bash, zsh and fish look for them."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel completions bash > ~/.local/share/bash-completion/completions/newsreel\n  \
        newsreel completions fish > ~/.config/fish/completions/newsreel.fish"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// Print docs/config.md, docs/figures.md or the schema of the configuration, or write man pages,
    /// completions and that schema
    #[command(hide = true)]
    Docs {
        /// Write man pages and completions below this directory
        #[arg(long, value_name = "DIR")]
        share: Option<PathBuf>,
        /// The date that man pages bear
        #[arg(long, value_name = "YYYY-MM-DD", requires = "share", default_value = "")]
        date: String,
        /// Print docs/figures.md
        #[arg(long, conflicts_with = "share")]
        figures: bool,
        /// Print the JSON Schema of the configuration
        #[arg(long, conflicts_with_all = ["share", "figures"])]
        schema: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum CtlCommand {
    /// Apply the changed configuration, as a whole, and reload certificates; if anything is wrong, nothing
    /// changes
    Reload,
    /// Accept no articles until go, or until the server ends
    ///
    /// Peers are asked to try later, posts are refused, batches and pulls wait. Readers and outgoing feeds
    /// continue.
    Pause {
        /// The reason, in one line, for clients that should try later
        #[arg(default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Accept articles again
    Go,
    /// Start, stop or flush the feed to a peer, or move it to another place in the journal
    Feed {
        /// The peer's name, as in [[peer]]
        peer: String,
        /// What to do
        #[command(subcommand)]
        command: FeedCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum GroupCommand {
    /// Add groups; existing ones are not changed
    Add {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
        /// y: posting allowed; m: moderated; n: no posting; j: in junk; x: refused; =NAME: alias of NAME
        #[arg(long, default_value = "y")]
        flag: String,
        /// One line that describes them
        #[arg(long, default_value = "", hide_default_value = true)]
        description: String,
    },
    /// Change a group's flag or description
    Set {
        /// Its name
        name: String,
        /// Its new flag: y, m, n, j, x or =NAME
        #[arg(long, required_unless_present = "description")]
        flag: Option<String>,
        /// Its new description
        #[arg(long)]
        description: Option<String>,
    },
    /// Remove groups; their articles stay readable by Message-ID
    Remove {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Copy another server's list of groups: add groups, change flags and descriptions, and remove groups if
    /// asked to
    #[command(
        long_about = "Make the groups here like those of another server (LIST ACTIVE and LIST NEWSGROUPS), as INN's \
        actsync does: missing ones are added, flags and descriptions changed, and with --remove those removed that it \
        does not have, all in one commit. Numbers stay this server's own."
    )]
    #[command(after_long_help = "Examples:\n  newsreel group sync news.example.net --dry-run\n  \
        newsreel group sync news.example.net --groups 'comp.*,sci.*' --remove")]
    Sync(super::group_sync::SyncOptions),
    /// List groups with their marks and counts
    List {
        /// A wildmat, such as comp.*,!comp.os.*
        wildmat: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add the groups of a file: lines of "name [flag [description]]", or another server's active file
    #[command(
        long_about = "Add the groups of a file: lines of \"name [flag [description]]\", or the active file of another \
        server (\"name high low flag\"), whose numbering then continues here. Existing groups are not changed."
    )]
    #[command(after_long_help = "Examples:\n  newsreel group import active --times active.times\n  \
        newsreel group export --times > active.times")]
    Import {
        /// The file; - is standard input
        file: PathBuf,
        /// When the groups were created, and by whom: an active.times file (lines of "name seconds creator")
        #[arg(long, value_name = "FILE")]
        times: Option<PathBuf>,
    },
    /// Print the groups in the format that import reads
    Export {
        /// In the format of an active file, with numbers
        #[arg(long)]
        active: bool,
        /// In the format of an active.times file: when they were created, and by whom
        #[arg(long, conflicts_with = "active")]
        times: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum HistoryCommand {
    /// Write the Message-IDs that were seen here, in the form of INN's or C News' history
    #[command(
        long_about = "Write the Message-IDs that were seen here, in the form of INN's history (hashes of them) or C \
        News' (the ids, with groups and numbers of stored articles). Works with and without a running server.\n\n\
        Written are the ids of all stored articles, and those of removed ones that the journal still names. Of others \
        that are remembered (site.remember_days) only a hash is known, which means nothing to another server; they are \
        counted. INN's form has no tokens, since those of newsreel mean nothing to INN, so INN takes all of these ids \
        as seen and without an article; makedbz must be run there afterwards."
    )]
    #[command(after_long_help = "Examples:\n  newsreel history export --out history\n  \
        newsreel history export --form cnews")]
    Export {
        /// The format
        #[arg(long, value_name = "FORM", default_value = "inn")]
        form: HistoryForm,
        /// Write to this file [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Remember the Message-IDs in another server's history file, or in a list
    #[command(
        long_about = "Remember the Message-IDs in another server's history file, so that their articles are refused as \
        duplicates until site.remember_days after they arrived there. Works with and without a running server; ids that \
        are known here are not changed.\n\n\
        The file may be the history of INN ([HASH] TAB arrived~expires~posted TAB token), of C News or of an INN before \
        2.0 (<message-id> TAB arrived~expires TAB groups/numbers), or a list of Message-IDs, which count as if they had \
        arrived now. Import the articles first: newsreel import inn files an article whose hash was imported, but rnews \
        and peers cannot bring it any more."
    )]
    #[command(after_long_help = "Examples:\n  newsreel import inn /etc/news\n  \
        newsreel history import /var/lib/news/history")]
    Import {
        /// The file; - is standard input
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ImportCommand {
    /// From INN: its CNFS buffers, tradspool, timehash or timecaf, with groups and article numbers
    #[command(
        long_about = "Import what INN stores: groups with flags, descriptions and creation dates, and the articles \
        of CNFS buffers, tradspool, timehash and timecaf. INN's files are only read. Stop innd first, or run the import \
        twice: the second run imports what has arrived since.\n\n\
        An article's numbers are taken from its Xref header, or else from its file in tradspool. A group keeps them, so that \
        readers' .newsrc files remain valid, if no other article can have had them here: if all of them are above the last \
        number assigned here, or if the article with the highest number up to that one is the same on both servers (after \
        an earlier import). In other groups, and if they have no number there, articles get new ones. The summary counts both.\n\n\
        A second import files what has arrived since the first, under its numbers. Articles that are here count as \
        duplicates, and so do those cancelled or displaced here, as long as they are remembered (site.remember_days). \
        An import that was interrupted can simply be run again. Works with and without a running server.\n\n\
        Before anything is filed, the space that the articles need is compared with what is free in their classes; what \
        is here already needs none. If that is not enough, nothing is imported without --yes: in full buffers new articles \
        displace older ones. The summary reports how many of the imported articles \
        are still stored. Exit code 1 if nothing was imported for lack of space or some articles were displaced, \
        or, with --dry-run, would be."
    )]
    #[command(after_long_help = "Examples:\n  newsreel import inn --dry-run /etc/news\n  \
        newsreel import inn /etc/news\n  newsreel import inn /var/lib/news/active /mnt/cycbuffs/*\n  \
        newsreel import inn --groups 'comp.*,!comp.os.*' /var/spool/news/articles")]
    Inn(InnOptions),
    /// From another newsreel: its cyclic buffers, with groups and article numbers
    #[command(
        long_about = "Import what another newsreel stores in cyclic buffers: groups with flags, descriptions and creation \
        dates, and articles with their numbers. The files are only read: they may be a copy, lie on a file system that is \
        mounted read-only, or be in use by their server, which may write meanwhile.\n\n\
        Each article is checked as it is read (checksum, and the key of its Message-ID): what was overwritten or withdrawn \
        meanwhile is counted and left out, and so is what is damaged. With the site's directory, or its site.data, groups \
        and dictionaries are found, and what is hidden there is left out; buffers that are elsewhere, such as devices, are \
        named beside it. With buffers alone, groups are made from what articles say, what is hidden there is imported, and \
        articles compressed with a dictionary cannot be read. Classes of other methods than cnfs are not read: a warning \
        names them.\n\n\
        Numbers, duplicates, space and exit code are as described in newsreel help import inn."
    )]
    #[command(after_long_help = "Examples:\n  newsreel import newsreel --dry-run /mnt/old/newsreel-data\n  \
        newsreel import newsreel /mnt/old/newsreel-data /dev/sdb1\n  \
        newsreel import newsreel --groups 'comp.*' /backup/text0.cyc")]
    Newsreel(NewsreelOptions),
    /// From mbox files, of news or of mailing lists, compressed or not
    #[command(
        long_about = "Import articles from files of mails: news that programs have kept as mbox (all its forms are read; \
        quoting is taken off as in mboxrd), and archives of mailing lists. Directories are searched.\n\n\
        An article goes to the group of --group; else to that of the first --rule whose pattern matches its header; else \
        to those of its Newsgroups header; else to the group that its file is named after (comp/lang/c.mbox and \
        comp.lang.c are of comp.lang.c). Articles of news stay as they are, to the byte. Mails get the headers \
        that news must have. B News and A News are understood; an article without a Message-ID gets one made from its \
        content, the same each time.\n\n\
        The time of arrival is that in the From line of the mbox, in the name of the file in a maildir, else the Date. It \
        counts for [[expire]]; but no article is filed as older than the last that arrived here, so import the \
        oldest articles first, into a new site.\n\n\
        Articles that are here are counted as duplicates: an import that was interrupted can simply be run again. Space, \
        --yes and exit code are as described in newsreel help import inn. Works with and without a running server."
    )]
    #[command(after_long_help = "Examples:\n  newsreel import mbox --create-groups archive/\n  \
        newsreel import mbox --group lists.dev 2024-*.txt.gz\n  \
        newsreel import mbox --rule \"List-Id: *<dev.example.org>* = lists.dev\" --dry-run lists.mbox")]
    Mbox(MailOptions),
    /// From maildirs; as import mbox
    #[command(
        long_about = "Import articles from maildirs: files in new and cur, a folder for each group. Everything else is as \
        described in newsreel help import mbox.",
        after_long_help = "Examples:\n  newsreel import maildir --create-groups Mail/"
    )]
    Maildir(MailOptions),
    /// From batches of rnews, or files with an article each; as import mbox
    #[command(
        long_about = "Import articles from batches of rnews, compressed or not, or from files with an article each, such as \
        those of a spool of news. Unlike newsreel rnews it keeps the times of articles, however old, and judges neither age \
        nor moderation. Everything else is as described in newsreel help import mbox.",
        after_long_help = "Examples:\n  newsreel import rnews --create-groups batches/\n  newsreel import rnews utzoo/*.gz"
    )]
    Rnews(MailOptions),
    /// From INN: its configuration, as a newsreel.toml with a comment for everything that has no equivalent
    #[command(
        name = "inn-config",
        long_about = "Convert the configuration of an INN: inn.conf, storage.conf, cycbuff.conf, expire.ctl, incoming.conf, \
        newsfeeds, innfeed.conf, nntpsend.ctl, passwd.nntp, readers.conf, moderators, control.ctl and control.ctl.local. \
        They are looked for in DIR, in its etc and db, and where inn.conf says. INN's files are only read.\n\n\
        A comment after each key shows the line that it comes from. What has no equivalent here, or one that differs, becomes \
        a comment that names the file and the line; no line is dropped silently. The result is a configuration that \
        newsreel check accepts: what cannot be taken over is a comment, too.\n\n\
        With --out, passwords of peers go into files of their own in passwords/ beside the configuration, which only their \
        owner may read, and motd, subscriptions, distributions and distrib.pats into lists/. Files that are there are not \
        changed. Host names are looked up, since newsreel knows clients by address."
    )]
    #[command(after_long_help = "Examples:\n  newsreel import inn-config /etc/news\n  \
        newsreel import inn-config /etc/news --out /var/lib/newsreel/newsreel.toml\n\n\
        Then:\n  newsreel check --config /var/lib/newsreel/newsreel.toml\n  \
        newsreel init --dir /var/lib/newsreel --groups /dev/null\n  newsreel import inn /etc/news --dir /var/lib/newsreel")]
    InnConfig(super::import::InnSettingsOptions),
    /// From C News: its sys, batchparms, explist, controlperm and mailpaths, as a newsreel.toml
    #[command(
        name = "cnews-config",
        long_about = "Convert the configuration of a C News: sys, batchparms, explist, controlperm, mailpaths, whoami, \
        mailname and organization, in DIR or its ctl, as newsreel import inn-config does it. Sites that are fed get \
        batches. C News' files are only read.",
        after_long_help = "Examples:\n  newsreel import cnews-config /usr/lib/news --out newsreel.toml"
    )]
    CnewsConfig(super::import::SettingsOptions),
    /// From leafnode: its config, as a newsreel.toml with a [[pull]] for each server
    #[command(
        name = "leafnode-config",
        long_about = "Convert the configuration of a leafnode, the file config in DIR, as newsreel import inn-config does \
        it: each server becomes a [[pull]].",
        after_long_help = "Examples:\n  newsreel import leafnode-config /etc/leafnode --out newsreel.toml"
    )]
    LeafnodeConfig(super::import::SettingsOptions),
    /// From Diablo: its dnewsfeeds and dnntpspool.ctl, as a newsreel.toml with a [[peer]] for each label
    #[command(
        name = "diablo-config",
        long_about = "Convert the feeds of a Diablo, dnewsfeeds and dnntpspool.ctl in DIR, as newsreel import inn-config does \
        it: each label becomes a [[peer]]. Spools, readers and expiry of Diablo are not converted.",
        after_long_help = "Examples:\n  newsreel import diablo-config /news --out newsreel.toml"
    )]
    DiabloConfig(super::import::SettingsOptions),
}

#[derive(Debug, Subcommand)]
pub(super) enum ExportCommand {
    /// Articles as mbox files, one for each group
    #[command(
        long_about = "Write the articles of groups as mbox files (in the form mboxrd), one for each group: DIR/GROUP.mbox, in \
        order of number, with the time of arrival in the From lines. newsreel import mbox reads them back. Works with and \
        without a running server. A file that is there already is not overwritten.",
        after_long_help = "Examples:\n  newsreel export mbox comp.lang.c --out /tmp/archive\n  \
        newsreel export mbox 'comp.*,!comp.binaries.*' --out /tmp/archive"
    )]
    Mbox(ExportOptions),
    /// Articles as maildirs, one for each group
    #[command(
        long_about = "Write the articles of groups as maildirs, one for each group: DIR/GROUP, with the time of arrival in the \
        names of files. What is there already is not written twice. newsreel import maildir reads them back.",
        after_long_help = "Examples:\n  newsreel export maildir 'comp.lang.*' --out ~/Mail"
    )]
    Maildir(ExportOptions),
    /// Articles as batches of rnews, one for each group
    #[command(
        long_about = "Write the articles of groups as batches that any rnews reads, one for each group: DIR/GROUP.rnews. A \
        batch does not record when articles arrived. A file that is there already is not overwritten.",
        after_long_help = "Examples:\n  newsreel export rnews 'local.*' --out /tmp/batches"
    )]
    Rnews(ExportOptions),
    /// A group's name.map, as the CNFS paper has it: a line of 34 bytes with the token of each article
    #[command(
        long_about = "Write a group's name.map, as the CNFS paper has it: a header of three lines, then a \
        line of 34 bytes for each article number with the article's token, or - if it was cancelled or overwritten. \
        newsreel explain FILE reads such a line."
    )]
    NameMap {
        /// The group
        group: String,
        /// Write it to this file [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Arguments of `export mbox`, `maildir` and `rnews`.
#[derive(Debug, Clone, Args)]
pub(super) struct ExportOptions {
    /// The groups, such as comp.lang.c or comp.*,!comp.os.*
    #[arg(value_name = "WILDMAT")]
    pub(super) groups: String,
    /// The directory in which they are written; created if missing
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
}

/// Arguments of `import mbox`, `maildir` and `rnews`.
#[derive(Debug, Clone, Args)]
pub(super) struct MailOptions {
    /// Files, or directories of them
    #[arg(required = true, value_name = "DIR|FILE")]
    pub(super) paths: Vec<PathBuf>,
    /// File everything in this group
    #[arg(long, value_name = "GROUP", value_parser = group_name, conflicts_with = "rules")]
    pub(super) group: Option<String>,
    /// File articles with a matching header in GROUP, as in "List-Id: *dev.example.org* = lists.dev"
    /// (repeatable)
    #[arg(long = "rule", value_name = "HEADER: PATTERN = GROUP")]
    pub(super) rules: Vec<GroupRule>,
    /// Add groups that are missing, with flag y
    #[arg(long)]
    pub(super) create_groups: bool,
    /// Import even if there is not room for everything: new articles displace older ones
    #[arg(long)]
    pub(super) yes: bool,
    /// Show what would be imported, and import nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `import inn`.
#[derive(Debug, Clone, Args)]
pub(super) struct InnOptions {
    /// The directory with inn.conf, a directory of articles, or buffers, timecaf files and active files
    #[arg(required = true, value_name = "DIR|FILE")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) how: SiteOptions,
}

/// Arguments of `import newsreel`.
#[derive(Debug, Clone, Args)]
pub(super) struct NewsreelOptions {
    /// The other site's directory, its site.data, or single buffers
    #[arg(required = true, value_name = "DIR|FILE")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) how: SiteOptions,
}

/// Options of an import from another server.
#[derive(Debug, Clone, Args)]
pub(super) struct SiteOptions {
    /// Only these groups, such as comp.*,!comp.os.*
    #[arg(long, value_name = "WILDMAT")]
    pub(super) groups: Option<String>,
    /// Assign new numbers to all articles
    #[arg(long)]
    pub(super) new_numbers: bool,
    /// Show what would be imported, and import nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Import even if there is not room for everything: new articles displace older ones
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) yes: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Addresses on which `up` and `cache up` listen; they are written to the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct UpAddresses {
    /// Where to listen (repeatable) [default: as configured; on a new site 127.0.0.1:1119]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) listen: Vec<String>,
    /// Where to listen for connections that begin with TLS (repeatable) [default: as configured; on a new
    /// site the first free port from 127.0.0.1:1563 on]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) tls_listen: Vec<String>,
    /// Where to listen for browsers, over HTTP (repeatable) [default: as configured; on a new site the first
    /// free port from 127.0.0.1:8119 on]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) web_listen: Vec<String>,
}

/// Arguments of `init`.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct InitOptions {
    /// The site's directory; created if missing
    #[arg(long, value_name = "DIR", default_value = "newsreel-data")]
    pub(super) dir: PathBuf,
    /// Where to listen (repeatable) [default: 127.0.0.1:1119]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) listen: Vec<String>,
    /// Where to listen for connections that begin with TLS (repeatable); makes a self-signed certificate
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) tls_listen: Vec<String>,
    /// Where to listen for browsers, over HTTP (repeatable) [default: nowhere]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(super) web_listen: Vec<String>,
    /// Initial groups: lines of "name [flag [description]]", or an active file
    #[arg(long, value_name = "FILE")]
    pub(super) groups: Option<PathBuf>,
    /// Size of each of the two cyclic buffers [default: 512 MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(super) buffer: Option<u64>,
    /// An address or network of peers that may feed articles (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub(super) peer: Vec<Cidr>,
    /// An address or network that may read and post (repeatable) [default: this machine]
    #[arg(long, value_name = "ADDR")]
    pub(super) reader: Vec<Cidr>,
    /// Reject articles older than this many days [default: 10]
    #[arg(long, value_name = "DAYS|none")]
    pub(super) max_age: Option<Age>,
    /// When an article counts as stored: process, interval(TIME) or always [default: interval(100ms)]
    #[arg(long, value_name = "HOW", value_parser = units::parse_durability)]
    pub(super) durability: Option<Durability>,
    /// The server's name in Path [default: the machine's host name]
    #[arg(long, value_name = "NAME", value_parser = path_identity)]
    pub(super) path_identity: Option<String>,
}

/// Commands about the cluster of a site.
#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Make a cluster of this site, which is its first member (the server must be stopped)
    #[command(
        long_about = "Make a cluster of this site, which is its first member: the log is created on the nodes in \
        [cluster] servers, with three replicas and cluster.log_size. Articles, numbers and history stay as they are. The \
        server must be stopped."
    )]
    Create {
        /// A file with the credentials for creating the log [default: those of the member]
        #[arg(long, value_name = "FILE")]
        credentials: Option<PathBuf>,
    },

    /// Invite another server: reserve its name
    #[command(
        long_about = "Invite another server: reserve its name. With FILE a snapshot of this server is written for it as \
        well, as newsreel snapshot does, while the server runs; without, newsreel cluster join fetches one through the \
        log's nodes. The file has the secret of the site: keep it from others."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel cluster invite fe2\n  newsreel cluster invite fe2 /backup/fe2.snapshot"
    )]
    Invite {
        /// Name of the new member, as it will be in its [cluster] member
        name: String,
        /// A file for a snapshot; it must not exist
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },

    /// Join a cluster with a copy of another member's news (the server must be stopped)
    #[command(
        long_about = "Make this server a member of the cluster, of a snapshot that a running member writes now and sends \
        through the log's nodes, or of one in a file. The directory has a configuration and no news yet. What has happened \
        since the snapshot comes from the log once the server runs; if the log no longer has it, a later snapshot is \
        needed. A call that was interrupted is continued when the command is repeated."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel cluster join\n  newsreel cluster join --snapshot /backup/fe2.snapshot\n  \
        newsreel cluster join --replace"
    )]
    Join(JoinOptions),

    /// End the membership of this server (the server must be stopped)
    #[command(
        long_about = "End the membership of this server, which must not run, here or elsewhere. To make it a member again, \
        invite it and join with --replace in an empty directory. Its spool stays as it is.\n\nWith --last the cluster ends with it: this server becomes a site on one machine, with all \
        articles and the same numbers. That is refused while there are other members."
    )]
    Leave {
        /// End the cluster: this is its last member, and becomes a site on one machine
        #[arg(long)]
        last: bool,
    },

    /// End the membership of another server, which is lost or was only invited
    #[command(
        long_about = "End the membership of another server that will not run again: its machine is lost, or it was only \
        invited. Refused while it runs. Its name may be invited again."
    )]
    #[command(after_long_help = "Example:\n  newsreel cluster remove fe3")]
    Remove {
        /// Name of the member
        name: String,
    },

    /// Take this server out of service: no new connections, then stop (the server must run)
    #[command(
        long_about = "Take this server out of service, for an upgrade of it or of its machine: it takes no new connections, \
        says so on /ready, waits for those that are open, and stops; its leases go to other members at once. Refused if \
        no other member follows the log."
    )]
    Drain {
        /// Longest wait for open connections, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        /// Even if no other member serves
        #[arg(long)]
        force: bool,
    },

    /// Let all members write the newest format of messages that each of them can read
    #[command(
        long_about = "Let all members write the newest format of messages that each of them can read, once all of them have \
        been upgraded. Until then members write what the oldest of them can read, and a member may go back to the version \
        before; afterwards it may not."
    )]
    Upgrade,

    /// Compare the log on all of its nodes, message by message
    #[command(
        long_about = "Compare the log on all of its nodes, message by message, and name the node that lacks one or has \
        another. For a node whose disk is damaged: stop it, remove its store_dir, and start it; it copies the log from the \
        others."
    )]
    Scrub {
        /// Bytes that are read from each node in a second
        #[arg(long, value_name = "SIZE", default_value = "20 MiB", value_parser = units::parse_size)]
        rate: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },

    /// Run a whole cluster on this machine, for trying it out
    #[command(
        long_about = "Run a whole cluster on this machine, for trying it out: nodes of the log (nats-server 2.15.2 or \
        later must be installed) and servers, in directories below DIR, which are made if they are missing. Ports are \
        chosen once, from PORT on, and kept. Ctrl-C stops everything; the next call starts it again."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel cluster up --nodes 3\n  newsreel cluster up --dir /tmp/try --members 2 \
        --engine ~/go/bin/nats-server"
    )]
    Up(ClusterUpOptions),

    /// Print the configuration of a node of the log, for nats-server
    #[command(
        long_about = "Print the configuration of a node of the log, for nats-server: with everything that the start of a \
        member checks, and with users who have the rights that they need and no more. The addresses of all nodes, the name \
        of the site and the size of the log come from [cluster]. The keys of the users are made in the directory of \
        --keys, those that are missing: operator.nk is for newsreel cluster create, and each member needs its own as \
        [cluster] credentials. Use the same directory for all nodes."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel cluster engine-conf e1 --keys keys --member fe1 --member fe2 > e1.conf"
    )]
    EngineConf(EngineConfOptions),

    /// Change or show the configuration that all members share
    Config {
        #[command(subcommand)]
        command: ClusterConfigCommand,
    },

    /// Show the members and the log
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `cluster join`.
#[derive(Debug, Args)]
pub(super) struct JoinOptions {
    /// Join with the snapshot in this file
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(super) snapshot: Option<PathBuf>,
    /// Fetch the snapshot from this member [default: the one that reported last]
    #[arg(long, value_name = "NAME")]
    pub(super) from: Option<String>,
    /// Take the place of a member of this name whose disk is lost
    #[arg(long)]
    pub(super) replace: bool,
}

/// Arguments of `cluster up`.
#[derive(Debug, Args)]
pub(super) struct ClusterUpOptions {
    /// The directory of the whole cluster
    #[arg(long, value_name = "DIR", default_value = "newsreel-cluster")]
    pub(super) dir: PathBuf,
    /// Number of nodes of the log
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=5))]
    pub(super) nodes: u16,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    pub(super) members: u16,
    /// The port of the first server; further ports are chosen from there on
    #[arg(long, value_name = "PORT", default_value_t = 1119, value_parser = clap::value_parser!(u16).range(1..=50_000))]
    pub(super) port: u16,
    /// The program nats-server [default: the one in PATH]
    #[arg(long, value_name = "FILE", env = "NEWSREEL_NATS_SERVER")]
    pub(super) engine: Option<PathBuf>,
}

/// Arguments of `cluster engine-conf`.
#[derive(Debug, Args)]
pub(super) struct EngineConfOptions {
    /// The node: its host in [cluster] servers
    #[arg(value_name = "HOST")]
    pub(super) node: String,
    /// The directory of the keys
    #[arg(long, value_name = "DIR", default_value = "cluster-keys")]
    pub(super) keys: PathBuf,
    /// The name of a member (repeatable) [default: that of this server]
    #[arg(long, value_name = "NAME")]
    pub(super) member: Vec<String>,
    /// The directory of the log on the node
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats")]
    pub(super) store: PathBuf,
    /// The port for other nodes
    #[arg(long, value_name = "PORT", default_value_t = 6222)]
    pub(super) route_port: u16,
    /// Files on the node with its certificate, its key, and the authorities of members' certificates
    #[arg(long, num_args = 3, value_names = ["CERTIFICATE", "KEY", "CA"])]
    pub(super) tls: Vec<PathBuf>,
    /// Let the operator change and remove the log, as to give it more room; so can a stolen key of a member
    #[arg(long)]
    pub(super) allow_changes: bool,
}

/// Commands about the configuration that the members of a cluster share
#[derive(Debug, Subcommand)]
pub(super) enum ClusterConfigCommand {
    /// Make a file the configuration of all members
    #[command(
        long_about = "Make a file the configuration of all members: its keys of the site (newsreel explain-config says which \
        are), each with the keys of the machine in its own newsreel.toml. Every member that is not away says first whether it \
        can switch; if one cannot, nothing is changed. Then each writes its newsreel.toml and reloads it. A member that is \
        away switches when it is back. From then on a reload at one member may change keys of the machine only."
    )]
    #[command(after_long_help = "Examples:\n  newsreel cluster config apply newsreel.toml")]
    Apply {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },

    /// Print the file that was applied last
    Show,
}
