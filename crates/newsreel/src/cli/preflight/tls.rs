//! Checks whether the certificates are valid, now and in the coming days.

use std::path::PathBuf;
use std::sync::Arc;

use super::Findings;
use access::tls::{TlsOffer, lifetime};
use site_base::clock::unix_now;
use site_base::units;
use site_config::Config;

/// Remaining validity, in seconds, below which a certificate should have been renewed.
const SOON_SECS: i64 = 14 * 86_400;

/// Describes the certificates and how long they are valid.
pub(super) fn summary(config: &Config) -> String {
    let until = |file: &PathBuf| {
        let left = lifetime(file).map_or(0, |(_, until)| until - unix_now());
        let span = units::about_span(u64::try_from(left).unwrap_or_default());
        format!("{} is valid for {span}", file.display())
    };
    match config.tls.certificate.as_slice() {
        [] => "none: clients cannot encrypt".into(),
        files => files.iter().map(until).collect::<Vec<_>>().join("; "),
    }
}

pub(super) fn look(config: &Arc<Config>, found: &mut Findings) {
    if let Err(error) = TlsOffer::read(config) {
        found.problem(error.to_string());
    }
    let now = unix_now();
    for file in &config.tls.certificate {
        let Some((from, until)) = lifetime(file) else { continue };
        let name = file.display();
        let span = |secs: i64| units::about_span(u64::try_from(secs).unwrap_or_default());
        if until < now {
            found.problem(format!(
                "the certificate {name} expired {} ago; clients will refuse it",
                span(now - until)
            ));
        } else if from > now {
            found
                .problem(format!("the certificate {name} is not valid before {} from now", span(from - now)));
        } else if until - now < SOON_SECS {
            found.warning(format!("the certificate {name} expires in {}; renew it", span(until - now)));
        }
    }
}
