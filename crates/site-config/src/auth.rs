//! `[auth]` and `[[authenticator]]`: logging in.

use std::time::Duration;

use super::kinds::*;
use super::{Cidr, GroupGrant};

section! {
    /// How clients log in (AUTHINFO, RFC 4643), and what is done about password guessing. newsreel user add
    /// creates users; [[access]] and [[peer]] say what they may do.
    [auth] Auth, AuthDraft {
        /// The ways to log in that are offered. "user": AUTHINFO USER and PASS; "plain", "scram-sha-256",
        /// "external": AUTHINFO SASL with that mechanism. "scram-sha-256" never sends the password and works
        /// only for users created with newsreel user; "external" takes the name from a verified TLS client
        /// certificate.
        mechanisms: Vec<AuthMechanism> = ListOf(word()), default ["user", "plain", "scram-sha-256", "external"],
            example ["scram-sha-256", "external"];
        /// The addresses of clients that may send a password (AUTHINFO PASS, SASL PLAIN) over a connection
        /// without TLS. All others are answered 483 until they have begun TLS. By default these are loopback
        /// clients, whose traffic cannot be intercepted; [] requires TLS for everyone.
        plain_passwords_from: Vec<Cidr> = NetworksOrNone, default ["127.0.0.0/8", "::1"],
            example [];
        /// Concurrent password checks. A check takes 19 MiB of memory and some hundredths of a second of one
        /// processor. Further clients wait their turn; those that are logged in are not delayed.
        password_checks_max: usize = 1..=256, default 4, example 8, of machine;
        /// After this many failures to log in, the connection is closed (RFC 4643 section 6 requires at least
        /// 3).
        failures_per_connection_max: u32 = 3..=1000, default 5, example 3;
        /// Failures to log in after which an address (IPv6: a /64 network) is locked out: for lockout_first,
        /// then twice as long with each further failure, up to lockout_longest. During a lock-out every
        /// password from the address is refused without being checked, except for users who have logged in
        /// from it within the last day: their failures are counted separately, so that no user is locked out
        /// by a neighbour. Failures fade: within each lockout_longest, this many are free. A successful login
        /// does not clear them.
        failures_per_address_max: u32 = 1..=1_000_000, default 10, example 5;
        /// As failures_per_address_max, for failures to log in as one user from any address, whether or not
        /// the user exists. Addresses from which that user has logged in within the last day are excepted, so
        /// that strangers cannot lock a user out.
        failures_per_user_max: u32 = 1..=1_000_000, default 50, example 20;
        /// How long the first lock-out lasts.
        lockout_first: Duration = Span, default "2 s", example "10 s";
        /// The longest lock-out, and the time in which the free number of failures fade.
        lockout_longest: Duration = Span, default "15 min", example "1 h";
        /// The most addresses and users whose failures are remembered, at about 150 bytes each; beyond that,
        /// those that have been quiet longest are forgotten.
        lockout_entries_max: usize = 100..=10_000_000, default 20000, example 100000;
    }
}

section! {
    /// A program that knows users and passwords that newsreel user does not: INN's programs (ckpasswd,
    /// radius, ...) and others that read ClientAuthname: and ClientPassword: lines. Programs are asked in the
    /// order of the file until one accepts; none is asked about a user who has a password here.
    [[authenticator]] Authenticator, AuthenticatorDraft {
        /// The program, by its absolute path, and its arguments. It reads ClientHost:, ClientIP:,
        /// ClientPort:, LocalIP:, LocalPort:, ClientAuthname: and ClientPassword: lines and a line with a dot
        /// from standard input, as from INN's nnrpd, and accepts by writing User:NAME and exiting with code
        /// 0. Beside that line there may be lines Group:NAME, see groups.
        program: Vec<String> = Program,
            example ["/usr/lib/news/bin/auth/passwd/ckpasswd", "-f", "/etc/news/passwd"];
        /// A program that has not answered within this time is killed; the client may try again later.
        timeout: Duration = Span, default "10 s", example "30 s";
        /// The groups of the program's Group: lines that count for user_groups of [[access]], each as "NAME
        /// IN THE ANSWER -> GROUP", or as a GROUP's name that is the same there. Others are ignored.
        groups: Vec<GroupGrant> = ListOf(Grant), default [], example ["staff", "sudo -> operators"];
        /// Concurrent processes of this program; further clients wait their turn, for as long as timeout.
        processes_max: usize = 1..=1000, default 4, example 16, of machine;
    }
}

words! {
    /// A mechanism for logging in.
    pub enum AuthMechanism {
        /// AUTHINFO USER and PASS.
        User = "user",
        /// SASL PLAIN (RFC 4616).
        Plain = "plain",
        /// SASL SCRAM-SHA-256 (RFC 7677).
        ScramSha256 = "scram-sha-256",
        /// SASL EXTERNAL (RFC 4422 appendix A): the TLS client certificate.
        External = "external",
    }
}
