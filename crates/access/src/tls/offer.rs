//! Settings for handshakes: certificates, authorities, protocol versions; rebuilt when the files change.
//!
//! A session uses the settings that are current when its handshake begins. Invariant: there always is an
//! offer that works; unreadable files leave the previous one in place and are logged once. Called by `site`.
//! Sources: RFC 8143 sections 3.1 to 3.4, RFC 7301 section 3.2 (a client that speaks only other protocols is
//! refused by rustls).

use super::certificates::Certificates;
use super::clients::TrustedClients;
use super::facts::ClientCertificate;
use super::{TlsInfo, TlsOfferError, files};
use arc_swap::ArcSwap;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{CommonState, ProtocolVersion, ServerConfig};
use site_base::lock::Leaf;
use site_config::{Config, KnownCertificate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{error, info};

/// Protocols that NNTP clients may announce: reading and transit (the registry of RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [b"nntp", b"nnsp"];
/// Protocols that browsers announce.
const HTTP_PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];
/// Minimum time between looks at the files.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The settings at one time.
pub struct TlsSettings {
    config: Arc<ServerConfig>,
    http_config: Arc<ServerConfig>,
    believed: TrustedClients,
    expires: Option<i64>,
}

/// The settings of a server, updated over time.
pub struct TlsOffer {
    settings: Arc<Config>,
    current: ArcSwap<TlsSettings>,
    /// Identities of the files when they were last read, successfully or not.
    read: Leaf<Vec<files::FileStamp>>,
    made: Instant,
    /// Time of the last look at the files, in milliseconds since `made`.
    looked: AtomicU64,
}

impl TlsOffer {
    /// Reads the files. `None` if the configuration has no certificate. Blocks.
    pub fn read(settings: &Arc<Config>) -> Result<Option<Self>, TlsOfferError> {
        if !settings.tls.is_offered() {
            return Ok(None);
        }
        let read = files::stamps(&settings.tls);
        Ok(Some(Self {
            current: ArcSwap::from_pointee(TlsSettings::read(settings)?),
            settings: settings.clone(),
            read: Leaf::new(read),
            made: Instant::now(),
            looked: AtomicU64::new(0),
        }))
    }

    /// Returns the settings for a handshake now.
    pub fn current(&self) -> Arc<TlsSettings> {
        self.current.load_full()
    }

    /// Reads the files again; on failure the settings stay as they were.
    pub fn reload(&self) -> Result<(), TlsOfferError> {
        let mut read = self.read.lock();
        let stamps = files::stamps(&self.settings.tls);
        let made = TlsSettings::read(&self.settings);
        *read = stamps;
        match made {
            Ok(current) => {
                self.current.store(Arc::new(current));
                info!("certificates reloaded");
                Ok(())
            }
            Err(reason) => {
                error!(%reason, "the new certificates cannot be used; the old ones stay");
                Err(reason)
            }
        }
    }

    /// Returns true if the files are to be looked at; once in each interval.
    pub fn is_due(&self) -> bool {
        let now = u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked = self.looked.load(Ordering::Relaxed);
        let interval = LOOK_INTERVAL.as_millis() as u64;
        now.saturating_sub(looked) >= interval
            && self.looked.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Reads the files again if they have changed. Blocks.
    pub fn refresh(&self) {
        if *self.read.lock() != files::stamps(&self.settings.tls) {
            // Errors are in the log.
            let _told = self.reload();
        }
    }
}

impl TlsSettings {
    fn read(settings: &Config) -> Result<Self, TlsOfferError> {
        let tls = &settings.tls;
        let provider = Arc::new(default_provider());
        let authorities = match &tls.client_ca {
            None => None,
            Some(path) => {
                let roots = Arc::new(files::authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
                Some(verifier.map_err(|error| TlsOfferError::Authorities(path.clone(), error))?)
            }
        };
        let known = settings.peers.iter().flat_map(|peer| &peer.certificate);
        let fingerprints = known.filter_map(|known| match known {
            KnownCertificate::Fingerprint(octets) => Some(*octets),
            KnownCertificate::Name(_) => None,
        });
        let believed = TrustedClients {
            authorities,
            fingerprints: fingerprints.collect(),
            algorithms: provider.signature_verification_algorithms,
        };
        let certificates = Certificates::read(tls, &provider)?;
        let expires = certificates.expires;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(TlsOfferError::Versions)?;
        let certificates = Arc::new(certificates);
        // With client certificates, browsers would ask their users for one at every visit.
        let mut http_config = builder.clone().with_no_client_auth().with_cert_resolver(certificates.clone());
        http_config.alpn_protocols = HTTP_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        let builder = if believed.any() {
            builder.with_client_cert_verifier(Arc::new(believed.clone()))
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_cert_resolver(certificates);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        // Tickets instead of a cache: a resumed connection needs no signature, and no memory is held until
        // then.
        let ticketer = || Ticketer::new().map_err(TlsOfferError::Tickets);
        config.ticketer = ticketer()?;
        http_config.ticketer = ticketer()?;
        let (config, http_config) = (Arc::new(config), Arc::new(http_config));
        Ok(Self { config, http_config, believed, expires })
    }

    /// Returns the Unix seconds at which the first certificate expires.
    pub fn expires(&self) -> Option<i64> {
        self.expires
    }

    /// Returns the settings of rustls for HTTP.
    pub fn http_config(&self) -> Arc<ServerConfig> {
        self.http_config.clone()
    }

    /// Returns the settings of rustls for NNTP.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Checks again a certificate that was trusted before.
    pub fn judged_again(&self, facts: &TlsInfo) -> Option<ClientCertificate> {
        self.believed.judge(&facts.certificate.as_ref()?.shown)
    }

    /// Returns the results of the handshake of `connection`.
    pub fn facts(&self, connection: &CommonState) -> TlsInfo {
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let certificate = connection.peer_certificates().and_then(|shown| self.believed.judge(shown));
        TlsInfo { version, certificate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::make_self_signed;
    use site_config as config;
    use std::path::Path;

    fn offer(dir: &Path) -> Result<TlsOffer, TlsOfferError> {
        let text = "[tls]\ncertificate = \"a.crt\"\nkey = \"a.key\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n\
                    [[rule]]\nclass = \"c\"\n";
        let config = config::parse(text, &dir.join("newsreel.toml")).unwrap();
        TlsOffer::read(&Arc::new(config)).map(Option::unwrap)
    }

    fn renew(dir: &Path) {
        let files = ["a.crt", "a.key"].map(|name| dir.join(name));
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap_or(()));
        make_self_signed(&disk::RealDisk::new(), "news.example.org", &files[0], &files[1]).unwrap();
    }

    #[test]
    fn changed_files_are_read_again_but_unchanged_or_bad_ones_are_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let missing = offer(dir.path()).err().unwrap().to_string();
        assert!(missing.contains("a.crt") && missing.contains("cannot read"), "{missing}");
        renew(dir.path());
        let offer = offer(dir.path()).unwrap();
        let first = offer.current();
        offer.refresh();
        assert!(Arc::ptr_eq(&first, &offer.current()), "nothing had changed");
        renew(dir.path());
        offer.refresh();
        let second = offer.current();
        assert!(!Arc::ptr_eq(&first, &second), "the files had changed");
        std::fs::write(dir.path().join("a.key"), "no key").unwrap();
        offer.refresh();
        assert!(Arc::ptr_eq(&second, &offer.current()), "what cannot be used changes nothing");
        renew(dir.path());
        offer.refresh();
        assert!(!Arc::ptr_eq(&second, &offer.current()), "later it can");
    }

    #[test]
    fn files_are_looked_at_once_in_an_interval() {
        let dir = tempfile::TempDir::new().unwrap();
        renew(dir.path());
        let mut offer = offer(dir.path()).unwrap();
        assert!(!offer.is_due());
        offer.made -= LOOK_INTERVAL;
        assert!(offer.is_due());
        assert!(!offer.is_due());
    }
}
