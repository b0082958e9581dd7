//! `[[access]]`: rights of clients to read and post, and the check for sections that are never reached.
//!
//! The `access` module finds the section that decides for a client.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::kinds::*;
use super::{Cidr, LocalAddress, NamePattern};

section! {
    /// Who may read and post, and how much. The first section whose conditions (from, listener, users,
    /// user_groups, tls) are all met decides, when a client connects and again when it has logged in or begun
    /// TLS; a client that meets none may do nothing. newsreel check --access ADDR shows which section decides
    /// for an address.
    [[access]] Access, AccessDraft {
        /// Condition: the client connects from one of these addresses and networks; "all" is everyone.
        from: Vec<Cidr> = Networks, example ["127.0.0.1", "192.0.2.0/24"];
        /// Condition: the client has connected to one of these local addresses, each an address or network
        /// with or without a port, or "*:PORT". The empty list is no condition.
        listener: Vec<LocalAddress> = ListOf(Local), default [], example ["192.0.2.1", "*:563"];
        /// Condition: the client has logged in as a user whose name matches; "*" is any user. Put such
        /// sections before those for everyone, which would decide first.
        users: Option<NamePattern> = Maybe(Wildmat), example "*,!guest*";
        /// Condition: the client has logged in as a user who is in one of these groups (newsreel user add
        /// --group). The empty list is no condition.
        user_groups: Vec<String> = ListOf(Name), default [], example ["staff", "moderators"];
        /// Condition: whether the connection is encrypted with TLS.
        tls: Option<bool> = Maybe(Switch), example true;
        /// The groups that may be read (INN's access letter R). Others do not exist for these clients. The
        /// empty wildmat matches none.
        read: NamePattern = Wildmat, default "*", example "*,!internal.*";
        /// The groups that may be posted to, among those that may be read (INN's P). A post that also names
        /// other groups that are carried here is refused with 441. The empty wildmat matches none.
        post: NamePattern = Wildmat, default "", example "*,!announce.*";
        /// The moderated groups to which articles with an Approved header may be posted, as moderators do
        /// (INN's A). The empty wildmat matches none.
        approve: NamePattern = Wildmat, default "", example "local.announce";
        /// The groups, among those in post, to which these clients may post although the group's flag is n,
        /// no local posting (INN's L). The empty wildmat matches none.
        local: NamePattern = Wildmat, default "", example "local.log.*";
        /// Whether NEWNEWS is allowed (INN's N); it reads much for each response.
        newnews: bool = Switch, default true, example false;
        /// Whether these clients may see, over HTTP ([web]), how the server is: the operator's page and
        /// metrics, with the names of peers, groups and users.
        operator: bool = Switch, default false, example true;
        /// Whether these clients may also act on the operator's pages: decide about posts and accounts,
        /// release articles, stop feeds. Needs operator, and a login, whose name the audit log has.
        manage: bool = Switch, default false, example true;
        /// How GROUP and LISTGROUP respond to a client that has not logged in, for a group that read excludes
        /// and a section for users shows. false: 411, as if the group did not exist. true: 480, so that
        /// newsreaders ask for name and password; strangers can then find out which groups exist.
        login_for_hidden: bool = Switch, default false, example true;
        /// Which article numbers the newsreaders support. "31-bit" is for old ones that support none above
        /// 2,147,483,647: a group beyond that is shown with its numbers reduced by a multiple of
        /// 1,073,741,824, which depends on the group's high mark alone, and with at least its last
        /// 1,073,741,824 numbers. When the multiple grows, the numbers fall by 1,073,741,824, as if the group
        /// had been created again: if a newsreader does not notice, unsubscribe and subscribe again. Do not
        /// change the setting for a client, since the same number is another article under the other setting.
        numbers: NumberWidth = word(), default "all", example "31-bit";
        /// Concurrent connections from one address, or from one /64 network of IPv6, under this section.
        /// Further ones are answered 400 and closed.
        connections_per_address_max: Option<usize> = Maybe(1..=1_000_000), example 10;
        /// Concurrent connections of one user under this section, from all addresses. Further ones are
        /// answered 400 when they log in, and closed.
        connections_per_user_max: Option<usize> = Maybe(1..=1_000_000), example 20;
        /// How fast responses are sent, in bytes per second, to all connections of one user together, or of
        /// one address without a login. One second's worth may be sent at once. Counted before
        /// compression and TLS.
        bytes_per_sec_max: Option<u64> = Maybe(Size::ANY), example "2 MiB";
        /// Articles that one user, or one address without a login (one /64 network of IPv6), may post
        /// within an hour. That many may be posted at once, then one whenever its share of the hour has
        /// passed; before that POST is answered 440.
        posts_per_hour_max: Option<u64> = Maybe(1..=1_000_000), example 60;
    }
}

words! {
    /// Article numbers that clients can read.
    pub enum NumberWidth {
        /// All numbers.
        All = "all",
        /// Numbers up to 2,147,483,647, for clients that hold them in 31 bits and a sign.
        Bits31 = "31-bit",
    }
}

impl Access {
    /// Returns the rights of the operator, which no section of the file limits.
    pub fn of_operator() -> Self {
        Self {
            from: Cidr::ALL.to_vec(),
            listener: Vec::new(),
            users: None,
            user_groups: Vec::new(),
            tls: None,
            read: NamePattern::all(),
            post: NamePattern::all(),
            approve: NamePattern::all(),
            local: NamePattern::all(),
            newnews: true,
            operator: true,
            manage: true,
            login_for_hidden: false,
            numbers: NumberWidth::All,
            connections_per_address_max: None,
            connections_per_user_max: None,
            bytes_per_sec_max: None,
            posts_per_hour_max: None,
        }
    }

    /// Returns true if only users who have logged in can meet the conditions.
    pub fn names_users(&self) -> bool {
        self.users.is_some() || !self.user_groups.is_empty()
    }

    /// Returns a hash of the section's conditions: the same in every configuration with a section with these.
    pub fn identity(&self) -> u64 {
        let Self { from, listener, users, user_groups, tls, .. } = self;
        let mut hasher = DefaultHasher::new();
        (from, listener, users.as_ref().map(NamePattern::as_str), user_groups, tls).hash(&mut hasher);
        hasher.finish()
    }
}

impl AccessDraft {
    /// Returns true if everyone who meets the conditions of `later` meets these too; faulty values cover
    /// nothing.
    pub(super) fn covers(&self, later: &Self) -> bool {
        let from = match (&self.from.value, &later.from.value) {
            (Some(own), Some(later)) => later.iter().all(|net| own.iter().any(|own| own.covers(net))),
            _ => false,
        };
        let listener = match (&self.listener.value, &later.listener.value) {
            (Some(own), _) if own.is_empty() => true,
            (Some(own), Some(later)) if !later.is_empty() => {
                later.iter().all(|at| own.iter().any(|own| own.covers(at)))
            }
            _ => false,
        };
        let users = match (&self.users.value, &later.users.value) {
            (Some(None), _) => true,
            (Some(Some(own)), Some(Some(later))) => own.as_str() == "*" || own == later,
            (Some(Some(own)), Some(None)) => {
                own.as_str() == "*"
                    && later.user_groups.value.as_ref().is_some_and(|groups| !groups.is_empty())
            }
            _ => false,
        };
        let groups = match (&self.user_groups.value, &later.user_groups.value) {
            (Some(own), _) if own.is_empty() => true,
            (Some(own), Some(later)) => !later.is_empty() && later.iter().all(|group| own.contains(group)),
            _ => false,
        };
        let tls = match (self.tls.value, later.tls.value) {
            (Some(None), _) => true,
            (Some(own), Some(later)) => own == later,
            _ => false,
        };
        from && listener && users && groups && tls
    }
}
