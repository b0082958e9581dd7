//! `[tls]`, `[[peer]]`, `[peer.send]` and `[[send_template]]`: certificates, neighbours that feed us, and
//! feeds to them.
//!
//! The files are read by `tls` when the server starts and when they change. Source: RFC 4642, RFC 8143.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;

use super::send::{
    ArticleType, BatchCompress, FeedCondition, FeedOrder, FeedStart, FeedTransport, HashSplit, LineItem,
};
use super::{Cidr, Distributions, LinkTls, NamePattern};

section! {
    /// Encryption. With a certificate, STARTTLS is offered on every listener (RFC 4642), and tls_listen in
    /// [site] names those where a connection begins with TLS. Renewed files are picked up within seconds, and
    /// at once by a reload, which reports what is wrong with them; a bad certificate leaves the old one in
    /// use.
    [tls] Tls, TlsDraft {
        /// The PEM file of the server's certificate and the intermediate ones, relative to the directory of
        /// this file. There may be several: clients are shown the one for the name they ask for, or else the
        /// first.
        certificate: Vec<PathBuf> = OneOrMore(FilePath), default [], example "news.crt", of machine;
        /// The PEM file of the certificate's private key (PKCS #8, PKCS #1 or SEC 1, not encrypted); if there
        /// are several, in the order of certificate. Only the server's user should be able to read it.
        key: Vec<PathBuf> = OneOrMore(FilePath), default [], example "news.key", of machine;
        /// The PEM file of the authorities that sign the certificates of peers and of users who log in with
        /// one (SASL EXTERNAL). With it, or with a peer's fingerprint, clients are asked for a certificate,
        /// but need none.
        client_ca: Option<PathBuf> = Maybe(FilePath), example "peers-ca.crt", of machine;
    }
}

impl Tls {
    /// Returns true if TLS is offered.
    pub fn is_offered(&self) -> bool {
        !self.certificate.is_empty()
    }
}

section! {
    /// A neighbour that feeds this server, or is fed by it. A client that connects from one of its addresses
    /// may offer articles with IHAVE, CHECK and TAKETHIS; what the peer is sent is configured in [peer.send]
    /// after it.
    [[peer]] Peer, PeerDraft {
        /// The peer's name in logs and newsreel status; preferably its path identity, since an article whose
        /// Path contains this name is not sent to the peer.
        name: String = Text, example "news.example.net";
        /// The path identities that it may write in Path, besides its name. Where this is given, an article
        /// whose leftmost identity is another one gets !.MISMATCH. and the peer's address in Path, as RFC
        /// 5537 section 3.2.1 says; else !.SEEN., as nothing is known of its identity.
        path_identities: Vec<String> = ListOf(PathIdentity), default [], example ["news.example.net"];
        /// The addresses and networks it connects from. Addresses, not host names: otherwise any person who
        /// controls the name could feed you. A peer with a certificate needs none, and may then connect from
        /// anywhere.
        addresses: Vec<Cidr> = NetworksOrNone, default [],
            example ["198.51.100.7", "2001:db8:7::/48"];
        /// What identifies the peer over TLS: a certificate signed by tls.client_ca with one of these names
        /// (common name, DNS name or mail address), or the certificate with the fingerprint sha256:HEX,
        /// signed by anyone. If there are addresses too, both must match.
        certificate: Vec<KnownCertificate> = OneOrMore(Certificate), default [], example ["news.example.net"];
        /// Whether the peer must encrypt. "require": what it offers without TLS is answered 483.
        tls: PeerTls = word(), default "allow", example "require";
        /// The user as which it must log in (AUTHINFO), besides matching addresses and certificate; what it
        /// offers before that is answered 480.
        user: Option<String> = Maybe(Text), example "feeder";
        /// The groups it may send. An article none of whose groups matches is rejected.
        accept: NamePattern = Wildmat, default "*", example "*,!local.*";
        /// The distributions it may send, of those that site.distributions accepts, and written like them.
        /// What is rejected for this alone may still come from another peer.
        distributions: Distributions = DistributionList, default "*", example "usa,na";
        /// Concurrent connections. Further ones are answered 400 and closed.
        max_connections: usize = 1..=1_000_000, default 10000, example 20;
        /// Whether it may stream (RFC 4644: MODE STREAM, CHECK, TAKETHIS). Without, it offers articles one by
        /// one with IHAVE.
        streaming: bool = Switch, default true, example false;
        /// Whether it may send whole batches (XBATCH), compressed or not. They wait in batches.incoming and
        /// are filed as if the peer had offered each article.
        xbatch: bool = Switch, default false, example true;
        /// Whether it may send articles without their bodies, once it has said MODE HEADFEED (as Diablo
        /// does). Their bodies are fetched from [[body_server]] when a reader asks for them.
        headers_only: bool = Switch, default false, example true;
        sub send: PeerSend, SendDraft, "What is sent to it; absent: nothing.";
    }
}

section! {
    /// What a peer is sent, and how; without this part nothing. It stands after the [[peer]] it belongs to.
    /// An article is sent if it meets all conditions, the peer did not send it to us, and its Path has
    /// neither the peer's name nor one of path_never. newsreel why MESSAGE-ID PEER shows each step.
    [peer.send] PeerSend, SendDraft with link {
        /// Where to connect. Of several places the first that answers is taken. Of to, batch, file and
        /// program exactly one says how articles leave.
        to: Vec<String> = OneOrMore(HostPort), default [], example "news.example.net:119";
        /// The directory into which batches are written, below site.data unless it is absolute, instead of
        /// sending articles over a connection: for UUCP, rsync, ssh, or a disk in the post. Each file in it
        /// is a whole batch; the oldest sorts first.
        batch: Option<PathBuf> = Maybe(FilePath), example "out/leaf", of machine;
        /// A batch is made when this many bytes of articles are there, before compression...
        batch_bytes: u64 = Size { min: 1 << 10, max: 256 << 20 }, default "1 MiB", example "64 KiB";
        /// ... or when the first of them arrived so long ago; newsreel batch PEER makes one at once.
        batch_age: Duration = Pause, default "10 min", example "1 h";
        /// How batches are compressed: "none"; "compress" (LZW, which every rnews knows), "gzip", "bzip2",
        /// which those of INN and C News know too; "zstd", which newsreel knows. A line such as #! cunbatch
        /// stands before them.
        batch_compress: BatchCompress = word(), default "none", example "gzip";
        /// Whether the peer is first sent a list of articles, by an ihave control message in a batch, and
        /// gets the articles that it asks for by sendme; and whether its own ihave is answered by a sendme
        /// (RFC 1036 section 3.2). For links on which a Message-ID costs much less than an article. The peer
        /// must call this server by its path identity and be called here by its own, and the group control or
        /// control.ihave and control.sendme must be carried.
        ihave: bool = Switch, default false, example true;
        /// The program that takes batches away, and its arguments. It is run with one batch after the other,
        /// the oldest first: the batch is its standard input, %f in an argument stands for the path of the
        /// file, %n for its name, %p for the peer's name, %% for %. If it ends with exit code 0 the file is
        /// removed; else it is tried again after retry_first, and then after longer, up to retry_longest.
        /// Without it, batches stay until another program takes them away.
        after_batch: Option<Vec<String>> = Maybe(Program),
            example ["/usr/bin/uux", "-", "-r", "-z", "leaf!rnews"];
        /// after_batch is killed after so long, and tried again.
        after_batch_timeout: Duration = Timeout, default "1 h", example "10 min";
        /// The file to which a line for each article is appended, below site.data unless it is absolute: for
        /// programs that come and take it. They rename it, run newsreel ctl feed PEER flush, after which
        /// lines go into a new file, and read it.
        file: Option<PathBuf> = Maybe(FilePath), example "out/archive.list", of machine;
        /// The program, with its arguments, that gets a line for each article on its standard input. It runs
        /// as long as the server, and is started again when it ends. An article counts as sent once the
        /// program has read its line.
        program: Option<Vec<String>> = Maybe(Program),
            example ["/usr/local/bin/archiver", "--stdin"];
        /// What stands in the lines of file and program, in this order, with blanks between: "token" (as
        /// newsreel explain takes it); "message-id"; "path", the article's own file in classes that have
        /// such, else its token; "size", bytes as they are sent; "arrived", Unix seconds; "peer", this peer's
        /// name.
        lines: Vec<LineItem> = ListOf(word()), default ["token"], example ["message-id", "size"];
        /// Bytes of batches that may wait in the directory of batch, or of lines in file. Beyond it the feed
        /// waits, and newsreel status says so; nothing is lost as long as the journal has it.
        waiting_bytes_max: u64 = Size { min: 1 << 10, max: u64::MAX }, default "1 GiB", example "20 GiB";
        /// Batches that may wait.
        waiting_files_max: usize = 1..=100_000, default 10000, example 100;
        /// The [[send_template]] whose keys hold where this part has none of its own.
        template: Option<String> = Maybe(Text), example "leaf";
        /// Where the feed of a peer that is new begins: "now"; "oldest", with all articles that the journal
        /// still has; or a date (UTC), with what arrived since. Without effect for a peer that was fed
        /// before.
        from: FeedStart = StartAt, default "now", example "2026-01-31";
        /// The groups it wants: an article is sent if one of its Newsgroups matches.
        groups: NamePattern = Wildmat, default "*", example "*,!local.*";
        /// An article is not sent if any of its Newsgroups matches (INN's @). The empty wildmat is none.
        groups_never: NamePattern = Wildmat, default "", example "internal.*";
        /// The distributions it wants, written as in site.distributions. An article without one is sent.
        distributions: Distributions = DistributionList, default "*", example "!local";
        /// Smaller articles are not sent, such as to the one of two feeds that is for large ones.
        size_min: Option<u64> = Maybe(Size::ANY), example "100 KiB";
        /// Larger articles are not sent.
        size_max: Option<u64> = Maybe(Size::ANY), example "100 KiB";
        /// Articles with more groups in Newsgroups are not sent.
        crossposts_max: Option<usize> = Maybe(1..=1_000_000), example 20;
        /// Articles that have passed more servers before this one are not sent; 0 leaves what was posted
        /// here.
        hops_max: Option<usize> = Maybe(0..=1_000_000), example 10;
        /// An article whose Path has one of these identities is not sent: other names of the peer, the common
        /// name of its cluster, or servers that feed it already.
        path_never: Vec<String> = ListOf(PathIdentity), default [], example ["news2.example.net"];
        /// Conditions that all must hold: "moderated" and "unmoderated": of the groups that match, only such
        /// ones count; "control" and "no-control": it is a control message, or none; "injected": it was
        /// posted here; "distribution": it has a Distribution header.
        only: Vec<FeedCondition> = ListOf(word()), default [], example ["no-control", "moderated"];
        /// The types of articles it wants; without any, all. An article is sent if it is of one of them:
        /// "control"; "binary", data of any encoding, which "yenc", "uuencode", "base64" and "binhex" are
        /// each; "partial", one of several parts; "mime", with MIME headers, "multipart", "html"; "pgp", with
        /// a PGP message; "plain", none of these. Data is recognized by the look of its lines, as by Diablo;
        /// for that the bodies are read.
        types: Vec<ArticleType> = ListOf(word()), default [], example ["plain", "mime"];
        /// An article is not sent if it is of one of these types.
        types_never: Vec<ArticleType> = ListOf(word()), default [], example ["binary"];
        /// The part of all articles that it gets, by a hash of the Message-ID, so that several feeds share
        /// them: "1-3/10" is the first three of ten parts, as INN (its flag Q) and Diablo compute them. A
        /// number after a colon, up to 12, takes other bits of the hash, for a split within a split.
        hash: Option<HashSplit> = Maybe(Split), example "1-3/10:4";
        /// What leaves first while articles wait: "oldest", the one that arrived first; "newest", the last
        /// one of those in memory (up to 8,192 articles), so that a peer that was away sees what is new at
        /// once.
        order: FeedOrder = word(), default "oldest", example "newest";
        /// How long an article waits before it is offered, such as to a peer that others should serve first.
        delay: Duration = Span, default "0ms", example "30 s";
        /// Connections to it at once. There is one as long as it suffices. While more articles wait than the
        /// peer settles in half a second, others are added, one each half second, as long as the peer takes
        /// more by them.
        connections: usize = 1..=100, default 4, example 1;
        /// Whether to stream (CHECK and TAKETHIS, RFC 4644) where the peer can. Without, or where it cannot,
        /// articles are offered one by one with IHAVE.
        streaming: bool = Switch, default true, example false;
        /// Percentage of the last 100 articles offered that the peer wanted, above which articles are sent
        /// without an offer (TAKETHIS without CHECK; INN's no-check-high). 0: always, from the first article
        /// on; 100: never.
        no_check_high: usize = 0..=100, default 95, example 98;
        /// Percentage below which articles are offered again (INN's no-check-low).
        no_check_low: usize = 0..=100, default 90, example 95;
        /// Whether only headers are sent, with the size of the whole article in Bytes; control messages are
        /// sent whole. The peer must take MODE HEADFEED, as Diablo does, and have the bodies from elsewhere.
        headers_only: bool = Switch, default false, example true;
        /// A peer that leaves an answer open for so long is taken for dead: the connection is closed.
        answer_timeout: Duration = Timeout, default "5 min", example "1 min";
        /// How long to wait before a failed connection, or an article that the peer wants later or has given
        /// an unexpected answer, is tried again; each further time twice as long, give or take a quarter.
        retry_first: Duration = Pause, default "1 s", example "10 s";
        /// The longest such wait.
        retry_longest: Duration = Pause, default "10 min", example "1 h";
        /// How much of the journal (some 400 bytes an article) a peer may be behind. What is older is skipped
        /// and counted as missed. Without it only site.journal_claim_bytes and site.journal_claim_days limit
        /// it.
        backlog_max_bytes: Option<u64> = Maybe(Size { min: 1 << 16, max: u64::MAX }), example "1 GiB";
        /// Articles that arrived longer ago are skipped, and counted as missed.
        backlog_max_days: Option<u32> = Maybe(1..=3_650), example 3;
    }
}

impl PeerSend {
    /// Returns the way in which articles leave.
    pub fn way_out(&self) -> FeedTransport<'_> {
        match self {
            Self { batch: Some(dir), .. } => FeedTransport::Batches(dir),
            Self { file: Some(file), .. } => FeedTransport::File(file),
            Self { program: Some(program), .. } => FeedTransport::Program(program),
            _ => FeedTransport::Connections,
        }
    }
}

section! {
    /// Keys of [peer.send] that several peers share: a peer names the template, and its own keys come first.
    /// Every key of [peer.send] except template may stand here.
    [[send_template]] SendTemplate, SendTemplateDraft {
        /// The template's name.
        name: String = Text, example "leaf";
    }
}

words! {
    /// The requirement of encryption for a peer.
    pub enum PeerTls {
        /// Encryption is optional.
        Allow = "allow",
        /// Encryption is required.
        Require = "require",
    }
}

/// A certificate by which a peer is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownCertificate {
    /// Signed by `tls.client_ca` and with this name: common name, DNS name or mail address.
    Name(String),
    /// With this SHA-256 fingerprint.
    Fingerprint([u8; 32]),
}

/// Prefix of a fingerprint.
const FINGERPRINT_PREFIX: &str = "sha256:";

/// Reason why a text names no certificate; each holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnownCertificateError {
    /// Empty, or with spaces or control characters.
    #[error("`{0}` is no name of a certificate")]
    NotAName(String),
    /// Not 64 hexadecimal digits after `sha256:`.
    #[error("`{0}`: a fingerprint is sha256: and 64 hexadecimal digits")]
    NotAFingerprint(String),
}

impl KnownCertificate {
    /// Parses a name, or `sha256:` and 64 hexadecimal digits, with or without colons between octets.
    pub fn parse(text: &str) -> Result<Self, KnownCertificateError> {
        let Some(digits) = text.strip_prefix(FINGERPRINT_PREFIX) else {
            let fits = !text.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace());
            return if fits {
                Ok(Self::Name(text.to_owned()))
            } else {
                Err(KnownCertificateError::NotAName(text.to_owned()))
            };
        };
        let digits: Vec<char> = digits.chars().filter(|c| *c != ':').collect();
        let octet = |pair: &[char]| match pair {
            [high, low] => Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8),
            _ => None,
        };
        let octets: Option<Vec<u8>> = digits.chunks(2).map(octet).collect();
        octets
            .and_then(|octets| octets.try_into().ok())
            .map(Self::Fingerprint)
            .ok_or_else(|| KnownCertificateError::NotAFingerprint(text.to_owned()))
    }
}

impl fmt::Display for KnownCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Fingerprint(octets) => {
                f.write_str(FINGERPRINT_PREFIX)?;
                octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_openssl_and_as_we_write_them() {
        let plain = format!("sha256:{}", "0aF1".repeat(16));
        let known = KnownCertificate::parse(&plain).unwrap();
        assert_eq!(known.to_string(), plain.to_lowercase());
        let with_colons = format!("sha256:{}", vec!["0A:F1"; 16].join(":"));
        assert_eq!(KnownCertificate::parse(&with_colons), Ok(known));
        for wrong in ["sha256:", "sha256:0a", &plain[..70], "sha256:zz", "", "a b"] {
            assert!(KnownCertificate::parse(wrong).is_err(), "{wrong}");
        }
        let name = KnownCertificate::parse("news.example.net").unwrap();
        assert_eq!(name, KnownCertificate::Name("news.example.net".into()));
    }

    #[test]
    fn conditions_that_cannot_be_met_are_reported() {
        let rest = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
        let faults = |text: &str| {
            let read = super::super::parse(&format!("{text}\n{rest}"), std::path::Path::new("newsreel.toml"));
            read.err()
                .map(|error| error.faults().iter().map(|fault| fault.message.clone()).collect::<Vec<_>>())
        };
        let peer = |keys: &str| format!("[[peer]]\nname = \"p\"\n{keys}");
        let tls = "[tls]\ncertificate = \"a.crt\"\nkey = \"a.key\"\n";
        for (text, fault) in [
            ("[tls]\ncertificate = \"a.crt\"".to_owned(), "[tls] names 1 certificate, but 0 keys"),
            (
                "[site]\ntls_listen = [\"[::]:563\"]".to_owned(),
                "connections that begin with TLS need a certificate",
            ),
            (peer(""), "peer `p` has neither addresses nor a certificate or user to be known by"),
            (
                peer("addresses = \"::1\"\ntls = \"require\""),
                "peer `p` must encrypt, but this server has no certificate",
            ),
            (
                peer("certificate = \"p.example\""),
                "peer `p` can show no certificate: this server does not offer TLS",
            ),
            (
                format!("{tls}{}", peer("certificate = \"p.example\"")),
                "nobody vouches for the name in the certificate of peer `p`",
            ),
        ] {
            assert_eq!(faults(&text), Some(vec![fault.to_owned()]), "{text}");
        }
        let fingerprint = format!("certificate = \"sha256:{}\"", "0a".repeat(32));
        assert_eq!(faults(&format!("{tls}{}", peer(&fingerprint))), None);
    }
}
