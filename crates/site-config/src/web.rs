//! `[web]`: HTTP, for people with a browser and for programs that watch the server.

use std::time::Duration;

use super::Cidr;
use super::kinds::*;

section! {
    /// Pages for people and figures for programs, over HTTP (docs/web.md). Off unless an address is named.
    /// What a visitor may see is decided by the same [[access]] sections and users as over NNTP.
    [web] Web, WebDraft {
        /// Where to listen for HTTP. newsreel up listens on 127.0.0.1:8119. Passwords are taken over
        /// unencrypted connections from auth.plain_passwords_from only; see also proxies.
        listen: Vec<String> = ListOf(HostPort), default [], example ["127.0.0.1:8119"], of machine;
        /// Where to listen for HTTPS, with the certificates of [tls].
        tls_listen: Vec<String> = ListOf(HostPort), default [], example ["0.0.0.0:8443", "[::]:8443"],
            of machine;
        /// The names by which browsers reach the pages, without a port. A request for another host is
        /// answered 421, so that no page elsewhere can reach this server under a name of its own (DNS
        /// rebinding). IP addresses, localhost and site.path_identity always work.
        names: Vec<String> = ListOf(Text), default [], example ["news.example.org"];
        /// The addresses of reverse proxies. What they say in X-Forwarded-For is taken for the visitor's
        /// address, and X-Forwarded-Proto: https for encryption.
        proxies: Vec<Cidr> = NetworksOrNone, default [], example ["127.0.0.1"], of machine;
        /// Whether there is the operator's page, at /operator; for whom an [[access]] section says operator.
        operator: bool = Switch, default true, example false;
        /// Whether groups and articles can be read, at /groups, and written; by whom an [[access]] section
        /// lets read and post.
        reading: bool = Switch, default true, example false;
        /// The text of the front page, in Markdown (CommonMark): what this site is. HTML in it shows as text,
        /// and pictures become links. Several lines are written between three quotation marks.
        about: Option<String> = Maybe(MultilineText), example "News of the *example* society.";
        /// Whether robots, such as those of search engines, may read groups and articles. If not, they are
        /// asked to stay away.
        robots: bool = Switch, default false, example true;
        /// Whether there are figures for Prometheus, at /metrics (OpenMetrics); for whom an [[access]]
        /// section says operator.
        metrics: bool = Switch, default true, example false;
        /// Sites whose pages may read the JSON API (/api/v1) in their visitors' browsers (CORS), such as
        /// "https://www.example.org"; "*" for all. They see what visitors without a login see.
        api_origins: Vec<String> = ListOf(Text), default [], example ["*"];
        /// Concurrent connections; further ones are answered 503. They do not count for limits.
        connections_max: usize = 1..=100_000, default 500, example 50, of machine;
        /// Concurrent connections from one address (a proxy counts as one), or from one /64 network of IPv6.
        connections_per_address_max: usize = 1..=100_000, default 50, example 500;
        /// How long a client may take for a request, its body included, and may let a connection wait for
        /// the next one. limits.write_timeout holds for answers.
        request_timeout: Duration = Timeout, default "15 s", example "1 min";
        /// How long a page may take to be rendered, or may wait for a thread or for memory; after that it is
        /// answered 503. Pages are rendered on threads of their own, at most half of the processors at once.
        page_timeout: Duration = Timeout, default "2 s", example "10 s";
        /// Memory for requests and for answers until they are sent, of all connections together. One address
        /// has at most half of it. A thread as mbox is sent article by article; everything else is in memory
        /// until its client has read it. See docs/web.md.
        memory_max: u64 = Size { min: 1 << 20, max: u64::MAX }, default "128 MiB", example "32 MiB",
            of machine;
        /// How long a page for visitors without a login may be sent again as it is, by this server and by
        /// caches on the way. An article that is cancelled or hidden vanishes from this server's pages at
        /// once, from those of other caches after this time.
        cache_age: Duration = Span, default "10 s", example "1 min";
        /// Memory for pages that are sent again.
        cache_max: u64 = Size { min: 0, max: u64::MAX }, default "16 MiB", example "64 MiB", of machine;
        /// Pages that are made in a minute for visitors from one network (a /24 of IPv4, a /48 of IPv6) who
        /// have not logged in; pages that are sent again do not count. More are answered 429. Without the key
        /// there is no such limit.
        pages_per_minute: Option<u32> = Maybe(1..=1_000_000), example 600;
        /// Whether a browser from such a network may go on after computing for a second or so. That needs
        /// JavaScript, which nothing else does.
        proof_of_work: bool = Switch, default false, example true;
        /// How long a login lasts; without a request for an eighth of that it ends, too.
        session_longest: Duration = Span, default "5 d", example "12 h";
        /// Logins remembered at once, at some 200 bytes each; beyond that, those that have been quiet
        /// longest end.
        sessions_max: usize = 1..=1_000_000, default 10000, example 100;
        /// Whether visitors may make accounts, at /sign-up: "closed" for none, "moderated" for those that an
        /// operator confirms (/operator/accounts, or newsreel user confirm), "mail" for those whose owner
        /// opens a link that is mailed (as [moderation] says how), "open" for all. What an account may do, an
        /// [[access]] section for users says. Not with [[authenticator]], [[ldap]], or an [[oidc]] whose
        /// name_suffix has no "@".
        sign_up: SignUpMode = word(), default "closed", example "moderated";
        /// The group of users that such an account is in, for user_groups of [[access]].
        sign_up_group: Option<String> = Maybe(Name), example "web";
        /// Accounts that may be asked for in a day from one network (a /24 of IPv4, a /48 of IPv6). Each
        /// attempt counts. More are answered 429; a restart forgets the count.
        sign_ups_per_network: u32 = 1..=1_000_000, default 5, example 50;
        /// Accounts that may be asked for in a day, from all networks.
        sign_ups_per_day: u32 = 1..=1_000_000, default 100, example 1000;
        /// Whether users who have forgotten their password can have a link to another one mailed
        /// (/forgotten), if their account was made with a mail address, or they gave one at /account. Such
        /// mails count for sign_ups_per_network and sign_ups_per_day.
        reset_by_mail: bool = Switch, default false, example true;
    }
}

words! {
    /// Whether visitors may make accounts.
    pub enum SignUpMode {
        /// No accounts are made on the web.
        Closed = "closed",
        /// An operator confirms each.
        Moderated = "moderated",
        /// The owner of a mail address confirms each.
        Mail = "mail",
        /// Each is made at once.
        Open = "open",
    }
}

/// A name that no site has: what the configuration gives to it, it gives to all users.
pub const STRANGER_NAME: &str = "no-such-user.of.any-site-0";

impl Web {
    /// Returns the address of the pages for people elsewhere, without a final slash; `None` if there are no
    /// pages. `own` is the site's name, where no other is configured.
    pub fn url(&self, own: &str) -> Option<String> {
        let secure = self.tls_listen.first();
        let (address, is_secure) =
            secure.map(|at| (at, true)).or(self.listen.first().map(|at| (at, false)))?;
        let (host, port) = address.rsplit_once(':')?;
        let is_any = matches!(host, "0.0.0.0" | "[::]" | "*" | "");
        let name = self.names.first().map(String::as_str);
        if name.is_some() && !is_secure && !self.proxies.is_empty() {
            return name.map(|name| format!("https://{name}"));
        }
        let host = name.unwrap_or(if is_any { own } else { host });
        let (scheme, usual) = if is_secure { ("https", "443") } else { ("http", "80") };
        let port = if port == usual { String::new() } else { format!(":{port}") };
        Some(format!("{scheme}://{host}{port}"))
    }

    /// Returns true if anything is served.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty() || !self.tls_listen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::with_trash;

    #[test]
    fn links_name_the_host_that_browsers_use() {
        let url = |keys: &str| with_trash(&format!("[web]\n{keys}")).web.url("site.example");
        for (keys, expected) in [
            ("", None),
            ("listen = [\"127.0.0.1:8119\"]", Some("http://127.0.0.1:8119")),
            ("listen = [\"0.0.0.0:80\"]", Some("http://site.example")),
            (
                "listen = [\"[::]:8080\"]\nnames = [\"www.site.example\"]",
                Some("http://www.site.example:8080"),
            ),
            (
                "tls_listen = [\"0.0.0.0:443\"]\n[tls]\ncertificate = \"a.crt\"\nkey = \"a.key\"",
                Some("https://site.example"),
            ),
            (
                "listen = [\"127.0.0.1:8119\"]\nproxies = [\"127.0.0.1\"]\nnames = [\"www.site.example\"]",
                Some("https://www.site.example"),
            ),
        ] {
            assert_eq!(url(keys).as_deref(), expected, "{keys}");
        }
    }
}
