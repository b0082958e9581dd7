//! The keys of `[auth]`, `[[authenticator]]` and `[[access]]`: who may log in, and who may do what.

use super::{Absent, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key {
        section: "auth",
        name: "mechanisms",
        kind: Kind::Choices(&["user", "plain", "scram-sha-256", "external"]),
        absent: Absent::Value("[\"user\", \"plain\", \"scram-sha-256\", \"external\"]"),
        doc: "The ways to log in that are offered. \"user\": AUTHINFO USER and PASS; \"plain\", \"scram-sha-256\", \
              \"external\": AUTHINFO SASL with that mechanism. \"scram-sha-256\" never sends the password and works only \
              for users of newsreel user; \"external\" takes the name from a verified TLS client certificate.",
        example: "mechanisms = [\"scram-sha-256\", \"external\"]",
    },
    Key {
        section: "auth",
        name: "plain_passwords_from",
        kind: Kind::NetworksOrNone,
        absent: Absent::Value("[\"127.0.0.0/8\", \"::1\"]"),
        doc: "The addresses of clients that may send a password (AUTHINFO PASS, SASL PLAIN) over a connection without \
              TLS. All others are answered 483 until they have begun TLS. Without this key only this machine may, whose \
              own connections nobody can listen to; [] makes TLS necessary for everyone.",
        example: "plain_passwords_from = []",
    },
    Key {
        section: "auth",
        name: "password_checks_max",
        kind: Kind::Integer { min: 1, max: 256 },
        absent: Absent::Value("4"),
        doc: "Passwords checked at once. A check takes 19 MiB of memory and some hundredths of a second of one processor; \
              more clients wait their turn, and nobody who is logged in waits for them.",
        example: "password_checks_max = 8",
    },
    Key {
        section: "auth",
        name: "failures_per_connection_max",
        kind: Kind::Integer { min: 3, max: 1000 },
        absent: Absent::Value("5"),
        doc: "A connection that has failed so often to log in is closed (RFC 4643 section 6 asks for at least 3).",
        example: "failures_per_connection_max = 3",
    },
    Key {
        section: "auth",
        name: "failures_per_address_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("10"),
        doc: "Failures to log in after which an address (of IPv6: a /64 network) is locked out: for lockout_first, then \
              twice as long with every further failure, up to lockout_longest. While an address is locked out every password is \
              refused unseen, except for users who have logged in from it within the last day: their failures are counted \
              for each of them, too, so that nobody is locked out by a neighbour. Failures fade: so many in each \
              lockout_longest are free. Logging in does not clear them.",
        example: "failures_per_address_max = 5",
    },
    Key {
        section: "auth",
        name: "failures_per_user_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("50"),
        doc: "As failures_per_address_max, for failures to log in as one user from wherever; whether there is such a user \
              makes no difference. Addresses from which that user has logged in within the last day are excepted, so \
              that strangers cannot lock a user out.",
        example: "failures_per_user_max = 20",
    },
    Key {
        section: "auth",
        name: "lockout_first",
        kind: Kind::Span,
        absent: Absent::Value("\"2 s\""),
        doc: "How long the first lock-out lasts.",
        example: "lockout_first = \"10 s\"",
    },
    Key {
        section: "auth",
        name: "lockout_longest",
        kind: Kind::Span,
        absent: Absent::Value("\"15 min\""),
        doc: "The longest lock-out, and the time in which as many failures are forgotten as are free.",
        example: "lockout_longest = \"1 h\"",
    },
    Key {
        section: "auth",
        name: "lockout_entries_max",
        kind: Kind::Integer { min: 100, max: 10_000_000 },
        absent: Absent::Value("20000"),
        doc: "Addresses and users whose failures are remembered at once, at about 150 bytes each; beyond it those who have \
              been quiet longest are forgotten.",
        example: "lockout_entries_max = 100000",
    },
    Key {
        section: "authenticator",
        name: "program",
        kind: Kind::Program,
        absent: Absent::Refused,
        doc: "The program, by its absolute path, and its arguments. It is given ClientHost:, ClientIP:, ClientPort:, \
              LocalIP:, LocalPort:, ClientAuthname: and ClientPassword: lines and a line with a dot on standard input, \
              as INN's nnrpd does it, and accepts by writing User:NAME and ending with exit code 0.",
        example: "program = [\"/usr/lib/news/bin/auth/passwd/ckpasswd\", \"-f\", \"/etc/news/passwd\"]",
    },
    Key {
        section: "authenticator",
        name: "timeout",
        kind: Kind::Span,
        absent: Absent::Value("\"10 s\""),
        doc: "A program that has not answered after so long is killed and counts as one that refused.",
        example: "timeout = \"30 s\"",
    },
    Key {
        section: "authenticator",
        name: "processes_max",
        kind: Kind::Integer { min: 1, max: 1000 },
        absent: Absent::Value("4"),
        doc: "Processes of this program at once; more clients wait their turn.",
        example: "processes_max = 16",
    },
    Key {
        section: "access",
        name: "from",
        kind: Kind::Networks,
        absent: Absent::Refused,
        doc: "Condition: the client connects from one of these addresses and networks; \"all\" is everyone.",
        example: "from = [\"127.0.0.1\", \"192.0.2.0/24\"]",
    },
    Key {
        section: "access",
        name: "listener",
        kind: Kind::Locals,
        absent: Absent::Value("[]"),
        doc: "Condition: the client has connected to one of these addresses of ours, each an address or network with or \
              without a port, or \"*:PORT\". The empty list is no condition.",
        example: "listener = [\"192.0.2.1\", \"*:563\"]",
    },
    Key {
        section: "access",
        name: "users",
        kind: Kind::Wildmat,
        absent: Absent::Nothing,
        doc: "Condition: the client has logged in as a user whose name matches; \"*\" is any user. Put such sections \
              before those for everyone, which would decide first.",
        example: "users = \"*,!guest*\"",
    },
    Key {
        section: "access",
        name: "user_groups",
        kind: Kind::Names,
        absent: Absent::Value("[]"),
        doc: "Condition: the client has logged in as a user who is in one of these groups (newsreel user add --group). \
              The empty list is no condition.",
        example: "user_groups = [\"staff\", \"moderators\"]",
    },
    Key {
        section: "access",
        name: "tls",
        kind: Kind::Switch,
        absent: Absent::Nothing,
        doc: "Condition: true: the connection is under TLS; false: it is not.",
        example: "tls = true",
    },
    Key {
        section: "access",
        name: "read",
        kind: Kind::Wildmat,
        absent: Absent::Value("\"*\""),
        doc: "The groups they may read (INN's access letter R). Others do not exist for them. The empty wildmat is none.",
        example: "read = \"*,!internal.*\"",
    },
    Key {
        section: "access",
        name: "post",
        kind: Kind::Wildmat,
        absent: Absent::Value("\"\""),
        doc: "The groups they may post to, of those they may read (INN's P). A post that also names groups which they may \
              not read is treated as if those were not carried here: it is filed only in the others. The empty wildmat \
              is none.",
        example: "post = \"*,!announce.*\"",
    },
    Key {
        section: "access",
        name: "approve",
        kind: Kind::Wildmat,
        absent: Absent::Value("\"\""),
        doc: "The moderated groups to which they may post articles with an Approved header, as moderators do (INN's A). \
              The empty wildmat is none.",
        example: "approve = \"local.announce\"",
    },
    Key {
        section: "access",
        name: "local",
        kind: Kind::Wildmat,
        absent: Absent::Value("\"\""),
        doc: "The groups, of those in post, to which they may post although the group's flag is n, no posting here \
              (INN's L). The empty wildmat is none.",
        example: "local = \"local.log.*\"",
    },
    Key {
        section: "access",
        name: "newnews",
        kind: Kind::Switch,
        absent: Absent::Value("true"),
        doc: "Whether they may use NEWNEWS (INN's N), which reads much for every answer.",
        example: "newnews = false",
    },
    Key {
        section: "access",
        name: "login_for_hidden",
        kind: Kind::Switch,
        absent: Absent::Value("false"),
        doc: "What GROUP and LISTGROUP answer a client that has not logged in about a group that read leaves out, and \
              that a section for users shows. false: 411, as if there were no such group. true: 480, so that newsreaders \
              ask for name and password; then strangers can find out which groups there are.",
        example: "login_for_hidden = true",
    },
    Key {
        section: "access",
        name: "numbers",
        kind: Kind::Choice(&["all", "31-bit"]),
        absent: Absent::Value("\"all\""),
        doc: "Which article numbers their newsreaders can read. \"31-bit\" is for old ones, which take none above \
              2,147,483,647: a group that has passed it is shown to them with its numbers less a multiple of \
              1,073,741,824, which follows from the group's high mark alone, and with its last 1,073,741,824 numbers \
              at least. When that multiple grows the group's numbers fall by 1,073,741,824, as if the group had been \
              made anew: a newsreader that does not notice must unsubscribe and subscribe again. Give a client one \
              setting and keep it, since numbers read under one are other articles under the other.",
        example: "numbers = \"31-bit\"",
    },
    Key {
        section: "access",
        name: "connections_per_address_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Nothing,
        doc: "Connections from one address that may stand under this section at once. The next one is answered 400 and \
              closed.",
        example: "connections_per_address_max = 10",
    },
    Key {
        section: "access",
        name: "connections_per_user_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Nothing,
        doc: "Connections of one user that may stand under this section at once, from wherever. The next one is answered \
              400 when it logs in, and closed.",
        example: "connections_per_user_max = 20",
    },
    Key {
        section: "access",
        name: "bytes_per_sec_max",
        kind: Kind::Size,
        absent: Absent::Nothing,
        doc: "How fast answers are sent, in bytes per second, to all connections of one user together, or of one address \
              where nobody is logged in. A second's worth may go at once. Counted before compression and TLS.",
        example: "bytes_per_sec_max = \"2 MiB\"",
    },
    Key {
        section: "access",
        name: "posts_per_hour_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Nothing,
        doc: "Articles that one user, or one address where nobody is logged in, may post within an hour. So many may come \
              at once, and then one whenever its share of the hour has passed; before that POST is answered 440.",
        example: "posts_per_hour_max = 60",
    },
];
