//! Renews the certificate that was created with the site before it expires. A task of `server`.

use access::tls::renew_self_signed;
use site::Site;
use site_base::clock::unix_now;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// Interval at which the certificate is checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(86_400);

/// Renews the site's self-signed certificate when it is due, at once and every day, until the server stops.
/// Sessions notice the changed file.
pub async fn keep_renewed(site: Arc<Site>) {
    let mut stopping = std::pin::pin!(site.stopping());
    loop {
        let config = site.config.current();
        for (certificate, key) in config.tls.certificate.iter().zip(&config.tls.key) {
            let name = &config.site.path_identity;
            let file = certificate.display();
            let disk = &**site.spool.disk();
            let renewed =
                tokio::task::block_in_place(|| renew_self_signed(disk, name, certificate, key, unix_now()));
            match renewed {
                Ok(true) => info!(%file, "the self-signed certificate was renewed"),
                Ok(false) => {}
                Err(error) => warn!(%file, %error, "the self-signed certificate cannot be renewed"),
            }
        }
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
}
