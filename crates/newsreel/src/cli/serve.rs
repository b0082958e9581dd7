//! `up` and `serve`: open the spool, listen, and serve until a signal to stop.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use spool::{GroupFlag, Spool, SpoolError};

use super::args::UpAddresses;
use super::cache::CacheUpOptions;
use super::screen::{CliError, problem, say};
use super::{init, listeners, owner, reach};
use access::tls::{TlsOffer, first_line, is_self_signed};
use site::listening::{BoundSocket, Listeners};
use site_base::units;
use site_config as config;
use site_config::edit;
use site_config::edit::ConfigEdit;
use site_config::{Config, UnknownGroups};

pub(super) fn up(dir: &Path, at: &UpAddresses) -> Result<(), CliError> {
    let file = init::config_file(dir);
    if !file.is_file() {
        return run(&init::make_default(dir, at)?, true);
    }
    let before = config::load(&file)?;
    let wanted = [
        ("site", "listen", &at.listen, &before.site.listen, "--listen"),
        ("site", "tls_listen", &at.tls_listen, &before.site.tls_listen, "--tls-listen"),
        ("web", "listen", &at.web_listen, &before.web.listen, "--web-listen"),
    ];
    // An address that is taken is not written to the file.
    for (_, _, wanted, before, option) in wanted {
        let new: Vec<String> = wanted.iter().filter(|name| !before.contains(name)).cloned().collect();
        listeners::bind(&new, option, &mut Vec::new())?;
    }
    // Written to the file, so that commands, reloads and the next start use it, too.
    for (section, key, wanted, ..) in wanted {
        if !wanted.is_empty() {
            let change = ConfigEdit::Value { section, key, value: wanted.iter().collect() };
            edit::apply(&file, &[change]).map_err(|error| CliError::Problem(error.to_string()))?;
        }
    }
    run(&config::load(&file)?, true)
}

/// Like [`up`], with a cache.
pub(super) fn up_cache(options: &CacheUpOptions) -> Result<(), CliError> {
    let file = init::config_file(&options.dir);
    if !file.is_file() {
        if let Some(password) = &options.password_file {
            first_line(password).map_err(|error| CliError::Usage(error.to_string()))?;
        }
        return run(&init::make_cache(options)?, true);
    }
    let config = config::load(&file)?;
    if !config.upstreams.iter().any(|upstream| upstream.host == options.host()) {
        return Err(CliError::Usage(format!(
            "{} is there already, and no [[upstream]] in it has host = \"{}\"; add one, or name another --dir",
            file.display(),
            options.host()
        )));
    }
    up(&options.dir, &options.at)
}

pub(super) fn serve(config: &Config) -> Result<(), CliError> {
    run(config, false)
}

fn run(config: &Config, inviting: bool) -> Result<(), CliError> {
    let config = &Arc::new(config.clone());
    owner::refuse_root(config).map_err(problem)?;
    TlsOffer::read(config).map_err(|error| CliError::Usage(error.to_string()))?;
    site::log::init(config.site.log_level, config.site.log_format);
    if let Some(advice) = config.identity_advice() {
        tracing::warn!("{advice}");
    }
    let (spool, _logged) = match reach::open_to_serve(config) {
        Ok(opened) => opened,
        Err(error @ SpoolError::Unfit(_)) => return Err(CliError::Usage(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    if config.site.unknown_groups == UnknownGroups::Junk && spool.group_id(b"junk").is_none() {
        tracing::warn!(
            "unknown_groups is \"junk\", but there is no group junk; make it with: newsreel group add junk"
        );
    }
    let table = spool.groups();
    let moderated = table.iter().filter(|group| group.flag() == GroupFlag::Moderated);
    if let Some(advice) = site::moderation::advice(config, moderated.map(|group| &*group.name)) {
        tracing::warn!("{advice}");
    }
    // Signals are waited for before a port is open: from then on others take this for a server, and stop it.
    let runtime = crate::server::runtime().map_err(problem)?;
    let (tell, mut stopped) = tokio::sync::watch::channel(false);
    let signal = {
        let _inside = runtime.enter();
        stop_signal().map_err(|error| CliError::Problem(format!("cannot wait for signals: {error}")))?
    };
    runtime.spawn(async move {
        signal.await;
        let _ = tell.send(true);
    });
    let listeners = listeners::of(config)?;
    let is_stopping = || *stopped.borrow();
    crate::member::follow(config, &spool, &is_stopping).map_err(problem)?;
    let shutdown = async move {
        let _ = stopped.wait_for(|is_stopping| *is_stopping).await;
    };
    if inviting {
        say(invitation(config, &spool, &listeners))?;
    }
    let served = runtime.block_on(crate::server::run(config.clone(), spool, listeners, shutdown));
    served.map_err(|error| CliError::Problem(format!("the server stopped: {error}")))
}

/// Completes at the first SIGTERM or SIGINT. From the call on, these no longer end the process by themselves.
pub(super) fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    })
}

/// Returns the message of `up` once it listens: the addresses, and what to try next.
fn invitation(config: &Config, spool: &Spool, listeners: &Listeners) -> String {
    let local = |listeners: &[BoundSocket]| -> Vec<_> {
        listeners.iter().filter_map(|listener| listener.socket.local_addr().ok()).collect()
    };
    let addresses = local(&listeners.plain);
    let encrypted = match local(&listeners.tls).as_slice() {
        [] => String::new(),
        addresses => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let certificate = match config.tls.certificate.first() {
                Some(file) if is_self_signed(file) => {
                    format!("\n{} is self-signed: newsreaders will ask whether to trust it", file.display())
                }
                _ => String::new(),
            };
            format!("\nwith TLS on {}{certificate}", addresses.join(", "))
        }
    };
    let listening: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let pages = match local(&listeners.http).first() {
        Some(address) if config.web.operator => {
            format!("pages for browsers: http://{address}/; the operator's: http://{address}/operator\n")
        }
        Some(address) => format!("pages for browsers: http://{address}/\n"),
        None => String::new(),
    };
    let upstreams: Vec<String> = config
        .upstreams
        .iter()
        .map(|upstream| {
            format!("groups of {} are shown as ours; what is read of them is kept\n", upstream.host)
        })
        .collect();
    let bytes = config.buffers.iter().filter_map(|buffer| buffer.size).sum();
    let (host, port) = addresses.first().map_or(("127.0.0.1".into(), 119), |address| {
        let host = if address.ip().is_unspecified() { "127.0.0.1".into() } else { address.ip().to_string() };
        (host, address.port())
    });
    let dir = config.site.data.display();
    let command = std::env::args().next().unwrap_or_else(|| "newsreel".into());
    // A group of this server would hide the upstream's group of that name.
    let first_group = match config.upstreams.is_empty() {
        true => format!("{command} group add misc.test --dir {dir}\n  "),
        false => String::new(),
    };
    let articles = spool.meter().report().articles;
    format!(
        "newsreel {version} serves {identity} on {listening}{encrypted}\n\
         spool in {dir}: {groups}, {articles}, room for {room}\n{upstreams}{pages}\n\
         Try, in another terminal:\n  \
         tin -r -g {host} -p {port}\n  \
         slrn -h {host} -p {port} -f ~/.jnewsrc-newsreel --create\n  \
         {first_group}{command} status --dir {dir}\n\
         Stop with Ctrl-C. Settings: {file}",
        version = env!("CARGO_PKG_VERSION"),
        identity = config.site.path_identity,
        listening = listening.join(", "),
        groups = units::counted(spool.groups().len() as u64, "group"),
        articles = units::counted(articles, "article"),
        room = units::about_size(bytes),
        upstreams = upstreams.concat(),
        file = config.file.display(),
    )
}
