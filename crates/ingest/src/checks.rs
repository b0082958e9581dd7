//! Requirements for an article to be taken, as flat lists of guards: one reason and one `return` each.
//!
//! Pure: article, policy, origin and clock in, verdict out. Called by `ingest`. Sources: RFC 5537 section
//! 3.6, RFC 5536 sections 3.1 and 3.2.4.

use super::{Origin, Reject};
use memchr::memchr_iter;
use netnews::article::HEADER_BYTES_MAX;
use netnews::{Article, Known, MalformedArticle, date, path};
use site_config::{Config, Distributions};

/// Largest distance of a date into the future, in seconds (RFC 5537 section 3.6: 24 hours).
pub(crate) const FUTURE_SECS_MAX: i64 = 86_400;
const DAY_SECS: i64 = 86_400;
/// Bytes of an Xref line without groups: its name and the longest name of a site, with room for one group
/// of ours, such as `control.cancel`.
pub(super) const XREF_BYTES_MIN: usize = 512;
/// More groups than any article is filed in.
const CROSSPOSTS_MAX: usize = 1000;
/// Size of a header block, in bytes, up to which the headers added here always fit.
const HEADER_BYTES_SMALL: usize = 16 << 10;
/// Bytes of a group's number in Xref, with the blank and the colon.
const XREF_NUMBER_BYTES_MAX: usize = 22;

/// Settings of the configuration for articles.
#[derive(Debug, Clone)]
pub(crate) struct ArticlePolicy {
    pub path_identity: Box<[u8]>,
    pub article_bytes_max: u64,
    /// `None`: any age.
    pub age_days_max: Option<u32>,
    pub distributions: Distributions,
}

impl ArticlePolicy {
    pub fn of(config: &Config) -> Self {
        Self {
            path_identity: config.site.path_identity.as_bytes().into(),
            article_bytes_max: config.site.article_bytes_max,
            age_days_max: config.site.max_age_days,
            distributions: config.site.distributions.clone(),
        }
    }
}

/// Rejects damage that parsing accepts.
pub(crate) fn framing(article: &Article<'_>, origin: &Origin) -> Result<(), Reject> {
    if article.count(Known::Xref) > 1 {
        return Err(Reject::Malformed(MalformedArticle::Repeated(Known::Xref)));
    }
    if !origin.brings_headers() && article.bodiless().is_some() {
        return Err(Reject::NoBody);
    }
    if article.body_offset() > HEADER_BYTES_SMALL
        && stored_header_bytes_max(article, origin) > HEADER_BYTES_MAX
    {
        return Err(Reject::Malformed(MalformedArticle::HeadersTooLarge));
    }
    Ok(())
}

/// Returns the size of the header block of the article once stored, with our name in its Path and our Xref,
/// in bytes: the article must be readable again as written.
fn stored_header_bytes_max(article: &Article<'_>, origin: &Origin) -> usize {
    let value = |known| article.header(known).unwrap_or_default();
    let groups = memchr_iter(b',', value(Known::Newsgroups)).take(CROSSPOSTS_MAX).count() + 1;
    let xref = XREF_BYTES_MIN + value(Known::Newsgroups).len() + groups * XREF_NUMBER_BYTES_MAX;
    article.body_offset() + origin.before_path(value(Known::Path)).len() + xref
}

/// Returns whether one of the article's distributions is accepted, or it has none.
pub fn distributed(article: &Article<'_>, accepted: &Distributions) -> bool {
    article.header(Known::Distribution).is_none_or(|value| accepted.accept(value))
}

/// Checks whether the article may be relayed by this site.
pub(crate) fn relayable(
    article: &Article<'_>,
    policy: &ArticlePolicy,
    origin: &Origin,
    now: i64,
) -> Result<(), Reject> {
    if article.wire().len() as u64 > policy.article_bytes_max {
        return Err(Reject::TooLarge { bytes_max: policy.article_bytes_max });
    }
    let path = article.header(Known::Path).unwrap_or_default();
    if origin.checks_path() && path::contains_identity(path, &policy.path_identity) {
        return Err(Reject::Loop);
    }
    let dated =
        article.header(Known::InjectionDate).or_else(|| article.header(Known::Date)).unwrap_or_default();
    let Some(dated) = date::parse(dated) else {
        return Err(Reject::BadDate);
    };
    if dated > now + FUTURE_SECS_MAX {
        return Err(Reject::FutureDate);
    }
    if let Some(days_max) = policy.age_days_max.filter(|days| dated < now - i64::from(*days) * DAY_SECS) {
        return Err(Reject::TooOld { days_max });
    }
    if !distributed(article, &policy.distributions) {
        return Err(Reject::UnwantedDistribution);
    }
    if origin.distributions().is_some_and(|accepted| !distributed(article, accepted)) {
        return Err(Reject::DistributionNotAccepted);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::{NamePattern, Peer};
    use std::sync::Arc;

    const NOW: i64 = 1_780_000_000;

    fn judged(head: &str, origin: &Origin, age_days_max: Option<u32>, here: &str) -> Result<(), Reject> {
        let wire = format!("{head}\r\n\r\nbody\r\n");
        let policy = ArticlePolicy {
            path_identity: b"me.example"[..].into(),
            article_bytes_max: 200,
            age_days_max,
            distributions: Distributions::parse(here).unwrap(),
        };
        relayable(&Article::parse(wire.as_bytes()).unwrap(), &policy, origin, NOW)
    }

    fn verdict(head: &str, age_days_max: Option<u32>) -> Result<(), Reject> {
        judged(head, &Origin::batch("me.example"), age_days_max, "*")
    }

    fn date(secs: i64) -> String {
        let mut text = Vec::new();
        date::format_rfc5322(NOW + secs, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn headers_must_leave_room_for_path_and_xref() {
        let judged = |fill: usize, groups: &str| {
            let wire =
                format!("Path: a!b\r\nNewsgroups: {groups}\r\nX: {}\r\n\r\nbody\r\n", "x".repeat(fill));
            let article = Article::parse(wire.as_bytes()).unwrap();
            framing(&article, &Origin::batch("me.example")).map_err(|reject| reject.to_string())
        };
        assert_eq!(judged(HEADER_BYTES_MAX - 2000, "a.b"), Ok(()));
        let much = judged(HEADER_BYTES_MAX - 200, "a.b").unwrap_err();
        assert!(much.contains("headers too large (at most 65536 bytes"), "{much}");
        let crossposted = ["a.b"; 200].join(",");
        assert!(judged(HEADER_BYTES_MAX - 4000, &crossposted).is_err());
        assert_eq!(judged(HEADER_BYTES_MAX / 2, &crossposted), Ok(()));
    }

    #[test]
    fn distributions_must_suit_the_site_and_the_peer() {
        let peer = |distributions: &str| Peer {
            name: "peer.example".into(),
            path_identities: Vec::new(),
            user: None,
            addresses: Vec::new(),
            certificate: Vec::new(),
            tls: site_config::PeerTls::Allow,
            accept: NamePattern::parse("*").unwrap(),
            distributions: Distributions::parse(distributions).unwrap(),
            max_connections: 1,
            streaming: true,
            xbatch: false,
            headers_only: false,
            send: None,
        };
        let here = || Err(Reject::UnwantedDistribution);
        let peers = || Err(Reject::DistributionNotAccepted);
        for (header, site, from_peer, expected, expected_of_batch) in [
            ("", "", "", Ok(()), Ok(())),
            ("Distribution: world\r\n", "", "", Ok(()), Ok(())),
            ("Distribution: usa\r\n", "*", "*", Ok(()), Ok(())),
            ("Distribution: usa\r\n", "*", "uk,na", peers(), Ok(())),
            ("Distribution: usa\r\n", "!usa", "*", here(), here()),
            ("Distribution: usa\r\n", "!usa", "!usa", here(), here()),
            ("Distribution: usa\r\n", "!usa", "usa", here(), here()),
            ("Distribution: Local\r\n", "*,!local", "*", here(), here()),
            ("Distribution: local,\r\n NA\r\n", "!local", "na", Ok(()), Ok(())),
            ("Distribution: local,na\r\n", "!local", "!na", Ok(()), Ok(())),
            ("Distribution: na\r\n", "!local", "!na", peers(), Ok(())),
            ("Distribution: \r\n", "usa", "usa", Ok(()), Ok(())),
        ] {
            let head = format!("Path: a!b\r\n{header}Date: {}", date(0));
            let origin = Origin::peer("me.example", &peer(from_peer), Arc::default(), "192.0.2.1");
            assert_eq!(judged(&head, &origin, None, site), expected, "{header} {site} {from_peer}");
            for origin in [
                Origin::batch("me.example"),
                Origin::injected("192.0.2.1", Some(&NamePattern::parse("*").unwrap()), Vec::new()),
            ] {
                assert_eq!(judged(&head, &origin, None, site), expected_of_batch, "{header} {site}");
            }
        }
    }

    #[test]
    fn guards_reject_in_their_order() {
        let long = format!("Path: a!b\r\nDate: {}\r\nSubject: {}", date(0), "x".repeat(200));
        for (head, age_days_max, expected) in [
            (format!("Path: a!b\r\nDate: {}", date(0)), None, Ok(())),
            (format!("Path: a!b\r\nDate: {}", date(FUTURE_SECS_MAX)), None, Ok(())),
            (format!("Path: a!b\r\nDate: {}", date(FUTURE_SECS_MAX + 1)), None, Err(Reject::FutureDate)),
            (format!("Path: a!b\r\nDate: {}", date(-4 * DAY_SECS)), None, Ok(())),
            (
                format!("Path: a!b\r\nDate: {}", date(-4 * DAY_SECS)),
                Some(3),
                Err(Reject::TooOld { days_max: 3 }),
            ),
            (
                format!("Path: a!b\r\nDate: {}\r\nInjection-Date: {}", date(-4 * DAY_SECS), date(0)),
                Some(1),
                Ok(()),
            ),
            (format!("Path: a!Me.Example!b\r\nDate: {}", date(0)), None, Err(Reject::Loop)),
            (format!("Path: a!me.example\r\nDate: {}", date(0)), None, Ok(())),
            ("Path: a!b\r\nDate: yesterday".to_owned(), None, Err(Reject::BadDate)),
            (long, None, Err(Reject::TooLarge { bytes_max: 200 })),
        ] {
            assert_eq!(verdict(&head, age_days_max), expected, "{head}");
        }
    }
}
