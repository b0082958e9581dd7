//! The sections of the configuration, in the order of the documentation.
//!
//! Part of the one table in `keys`.

use super::Section;

/// Every section, in the order of the documentation.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "site",
        repeated: false,
        doc: "The server itself: its name, where it listens, what it promises.",
    },
    Section {
        name: "tls",
        repeated: false,
        doc: "Encryption. With a certificate, STARTTLS is offered on every listener (RFC 4642), and tls_listen in [site] \
              names those where a connection begins with TLS. Renewed files are picked up within \
              seconds, and at once by a reload, which reports what is wrong with them; a bad certificate leaves the old one \
              in use.",
    },
    Section {
        name: "limits",
        repeated: false,
        doc: "What one client, and all of them together, may take. Whoever exceeds a limit loses the connection; nobody \
              else notices.",
    },
    Section {
        name: "buffer",
        repeated: true,
        doc: "A cyclic buffer: a file or block device of fixed size in which the newest article overwrites the oldest. \
              Overwriting is expiry. At least one is needed by each class of method cnfs.",
    },
    Section {
        name: "class",
        repeated: true,
        doc: "A storage class: articles that are stored in the same way and so live equally long. A class of method \
              cnfs uses one or more buffers that no other class uses.",
    },
    Section {
        name: "rule",
        repeated: true,
        doc: "Which article goes to which class. An article must meet every condition of a rule; the first rule it \
              meets decides. The last rule has no condition, so that every article has a class.",
    },
    Section {
        name: "expire",
        repeated: true,
        doc: "How long articles stay in classes that keep them. For each article and each of its groups the first that fits \
              decides; without one it stays forever. A reload applies a change to what is there already, too.",
    },
    Section {
        name: "peer",
        repeated: true,
        doc: "A neighbour that feeds this server. Who connects from one of its addresses may offer articles with IHAVE, \
              CHECK and TAKETHIS.",
    },
    Section {
        name: "auth",
        repeated: false,
        doc: "How clients log in (AUTHINFO, RFC 4643), and what becomes of those who guess. Users are made with newsreel \
              user add; what a user may do stands in [[access]] and [[peer]].",
    },
    Section {
        name: "authenticator",
        repeated: true,
        doc: "A program that knows users and passwords which newsreel user does not: INN's programs (ckpasswd, radius, \
              ...) and any other that reads ClientAuthname: and ClientPassword: lines. Programs are asked in the order \
              of the file until one accepts; none is asked about a user who has a password here.",
    },
    Section {
        name: "access",
        repeated: true,
        doc: "Who may read and post, and how much. The first section whose conditions (from, listener, users, \
              user_groups, tls) all hold decides, when a client connects and again when it has logged in or begun TLS; \
              who meets none may do nothing. newsreel check --access ADDR tells which section decides for an address.",
    },
    Section {
        name: "posting",
        repeated: false,
        doc: "What is asked of articles posted here, what they tell of their posters, and how fast one may post.",
    },
    Section {
        name: "cancel",
        repeated: false,
        doc: "Which cancel messages and Supersedes headers withdraw articles (RFC 5537 sections 5.3 and 5.4), and the locks \
              of articles posted here (RFC 8315). Other control messages (newgroup, rmgroup, checkgroups) are filed and \
              not obeyed.",
    },
    Section {
        name: "moderation",
        repeated: false,
        doc: "How posts to moderated groups reach their moderators: by mail, from a queue on disk.",
    },
    Section {
        name: "moderator",
        repeated: true,
        doc: "The moderator of some groups; the first section that names the group decides. newsreel moderators FILE writes \
              these sections from INN's moderators file.",
    },
];
