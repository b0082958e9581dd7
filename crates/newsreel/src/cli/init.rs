//! `init`: a site's directory with buffers, groups, lists for newsreaders and, last of all, the
//! configuration.

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::args::{InitOptions, UpAddresses};
use super::cache::CacheUpOptions;
use super::locate::CONFIG_FILE_NAME;
use super::output::make_dir;
use super::screen::{CliError, complain, problem, say};
use super::{asking, group, groups_file, listeners, reach, starter_lists};
use access::tls::{SELF_SIGNED_FILES, is_self_signed, make_self_signed};
use disk::{FileAccess, RealDisk, durable_create};
use operators::groups::{GroupAddOperation, GroupEntry, GroupListOperation};
use operators::reply::{GroupListRow, Reply};
use site::inject::Secret;
use site_base::units;
use site_config as config;
use site_config::{Cidr, Config, Durability, list, quoted};

/// Default of `--listen`.
const LISTEN: &str = "127.0.0.1:1119";
/// Host on which `up` listens for connections that begin with TLS, and for browsers.
const UP_HOST: &str = "127.0.0.1";
/// Ports for connections that begin with TLS; `up` takes the first one that is free.
const TLS_PORTS: std::ops::Range<u16> = 1563..1583;
/// Ports for browsers; `up` takes the first one that is free.
const WEB_PORTS: std::ops::Range<u16> = 8119..8139;
/// Default of `--buffer`, in bytes.
const BUFFER_BYTES: u64 = 512 << 20;
/// Default of `--max-age`.
const MAX_AGE_DAYS: u32 = 10;
/// Default of `--durability`.
const DURABILITY: Durability = Durability::Interval(Duration::from_millis(100));
/// Default of `remember_days`, if no articles that old are accepted anyway.
const REMEMBER_DAYS: u32 = 11;

/// The configuration's text about moderators.
const ABOUT_MODERATORS: &str = r#"
# Posts to moderated groups are mailed to their moderators; without one they are refused.
# [[moderator]]
# groups = "local.*"
# address = "moderator@example.org"
# [moderation]
# default_address = "%s@moderators.isc.org"   # for the moderated groups of Usenet
"#;
/// The configuration's text about peers.
const ABOUT_PEERS: &str = r#"
# Who may feed articles to us; newsreel peer add writes such a section.
# [[peer]]
# name = "news.example.net"
# addresses = ["198.51.100.7"]
# accept = "*,!local.*"
"#;
/// Built-in filters of a site that others can post to.
const SPAM_OF_AN_OPEN_SITE: &str = r#"
# What floods would be refused; newsreel status counts it. With "reject" in place of "shadow" it is.
[spam]
duplicates = "shadow"
host_rate = "shadow"
injector_rate = "shadow"
"#;
/// The configuration's text about users.
const ABOUT_USERS: &str = r#"
# Users (newsreel user add NAME) have sections of their own, before those for everyone:
# [[access]]
# from = "all"
# users = "*"
# post = "*"
"#;
/// Groups of every site: for control messages and for articles without a carried group.
const SYSTEM_GROUPS: &str = "\
control n Control messages
control.cancel n Cancels
junk n Articles without a carried group
";
/// Initial groups, if none are named.
const STARTER_GROUPS: &str = "\
local.announce y Announcements of this site
local.general y Talk
local.test y For trying things out
";

pub(super) fn init(options: &InitOptions) -> Result<(), CliError> {
    let is_asked = is_open(options) && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let answered = match is_asked && !config_file(&options.dir).is_file() {
        true => Some(asked(options)?),
        false => None,
    };
    let options = answered.as_ref().unwrap_or(options);
    let (config, is_new) = make(options)?;
    let file = config.file.display();
    if let Some(text) = config.identity_advice() {
        complain(format_args!("newsreel: {text}"));
    }
    if options.groups.is_some() {
        group::advise_on_moderators(&config)?;
    }
    if is_new {
        return say(format_args!("created {file}\nserve it with: newsreel serve --config {file}"));
    }
    for difference in differences(options, &config) {
        complain(format_args!("newsreel: not applied: {difference}"));
    }
    say(format_args!(
        "{file} is there already and stays as it is; what was missing of the site has been added"
    ))
}

/// Returns whether no option but the directory was given.
fn is_open(options: &InitOptions) -> bool {
    let InitOptions {
        dir: _,
        listen,
        tls_listen,
        web_listen,
        groups,
        buffer,
        peer,
        reader,
        max_age,
        durability,
        path_identity,
    } = options;
    (listen.is_empty() && tls_listen.is_empty() && web_listen.is_empty())
        && (peer.is_empty() && reader.is_empty())
        && (groups.is_none() && buffer.is_none() && max_age.is_none())
        && (durability.is_none() && path_identity.is_none())
}

/// Returns the options as answered on the terminal.
fn asked(options: &InitOptions) -> Result<InitOptions, CliError> {
    let answers = asking::ask(&options.dir, &mut std::io::stdin().lock(), &mut std::io::stderr().lock())?;
    Ok(InitOptions {
        path_identity: Some(answers.identity),
        reader: answers.readers,
        // Two buffers, in whole mebibytes.
        buffer: Some((answers.disk / 2) >> 20 << 20),
        peer: answers.peers,
        listen: answers.listen.into_iter().collect(),
        ..options.clone()
    })
}

/// Creates the site that `up` serves in a new directory.
pub(super) fn make_default(dir: &Path, at: &UpAddresses) -> Result<Config, CliError> {
    let options = options_of_up(dir, at);
    make_to_serve(&options, &config_text(&options, None), groups(None)?)
}

/// Creates the site that `cache up` serves: it shows another server's groups, and has none of its own.
pub(super) fn make_cache(options: &CacheUpOptions) -> Result<Config, CliError> {
    let of_site = options_of_up(&options.dir, &options.at);
    let text = [head_text(&of_site), options.config_text(), access_text(&of_site)].concat();
    make_to_serve(&of_site, &text, Vec::new())
}

/// Creates a site that is served at once; nothing is created if its ports are taken.
fn make_to_serve(options: &InitOptions, text: &str, groups: Vec<GroupEntry>) -> Result<Config, CliError> {
    listeners::try_addresses(&config::parse(text, &config_file(&options.dir))?)?;
    Ok(make_with(options, text, groups)?.0)
}

/// Creates the site of the first member of a cluster, whose section this is; does nothing to one that exists.
pub(super) fn make_first_member(options: &InitOptions, ring: u64, section: &str) -> Result<(), CliError> {
    if config_file(&options.dir).is_file() {
        return Ok(());
    }
    let text = config_text(options, Some(ring)) + section;
    make_with(options, &text, groups(options.groups.as_deref())?).map(drop)
}

/// Writes the configuration of a further member, unless it exists. Its news come from another one.
pub(super) fn configure_member(options: &InitOptions, ring: u64, section: &str) -> Result<(), CliError> {
    let file = config_file(&options.dir);
    if file.is_file() {
        return Ok(());
    }
    let text = config_text(options, Some(ring)) + section;
    config::parse(&text, &file)?;
    make_dir(&options.dir)?;
    write_config(&file, &text)
}

fn options_of_up(dir: &Path, at: &UpAddresses) -> InitOptions {
    // Where the system is to choose one port, it chooses the others, too.
    let has_any_port = at.listen.iter().any(|address| address.ends_with(":0"));
    let given = |named: &[String], ports| match named {
        [] if has_any_port => vec![format!("{UP_HOST}:0")],
        [] => free_address(ports),
        named => named.to_vec(),
    };
    InitOptions {
        dir: dir.to_owned(),
        listen: at.listen.clone(),
        tls_listen: given(&at.tls_listen, TLS_PORTS),
        web_listen: given(&at.web_listen, WEB_PORTS),
        ..InitOptions::default()
    }
}

/// Returns the first free address of these ports; none if all are taken.
fn free_address(ports: std::ops::Range<u16>) -> Vec<String> {
    let is_free = |port: &u16| TcpListener::bind((UP_HOST, *port)).is_ok();
    ports.into_iter().find(is_free).map(|port| format!("{UP_HOST}:{port}")).into_iter().collect()
}

/// Creates a site, or completes an existing one; returns whether it is new. The configuration is written
/// last, so a site that has one is complete, and every earlier step can be repeated.
fn make(options: &InitOptions) -> Result<(Config, bool), CliError> {
    make_with(options, &config_text(options, None), groups(options.groups.as_deref())?)
}

/// Like [`make`], with the text of a new configuration, and the groups of a new site.
fn make_with(options: &InitOptions, text: &str, groups: Vec<GroupEntry>) -> Result<(Config, bool), CliError> {
    let file = options.dir.join(CONFIG_FILE_NAME);
    let config = config::parse(text, &file)?;
    let dir = LockedSiteDir::take(&options.dir)?;
    if file.is_file() {
        let config = config::load(&file)?;
        make_dir(&config.site.data)?;
        reach::make(&config)?;
        let wanted = if options.groups.is_some() || !has_groups(&config)? { groups } else { Vec::new() };
        fill(&config, &wanted)?;
        return Ok((config, false));
    }
    // Checked first, so that a disk that is too small stays untouched.
    let made =
        inspect(&config).and_then(|()| fill(&config, &groups)).and_then(|()| write_config(&file, text));
    match made {
        Ok(()) => Ok((config, true)),
        Err(failure) => {
            dir.undo();
            Err(failure)
        }
    }
}

/// Checks whether the spool could be created.
fn inspect(config: &Config) -> Result<(), CliError> {
    let disk: Arc<dyn disk::Disk> = Arc::new(disk::RealDisk::new());
    let problems = spool::inspect(&disk, &config.spool_config(), false).problems;
    problems.first().map_or(Ok(()), |problem| Err(CliError::Problem(problem.to_string())))
}

/// Creates everything of a site but its configuration; existing files stay as they are.
fn fill(config: &Config, groups: &[GroupEntry]) -> Result<(), CliError> {
    let data = &config.site.data;
    make_dir(data)?;
    make_certificate(config)?;
    starter_lists::make(config, groups)?;
    Secret::open(&RealDisk::new(), data).map_err(problem)?;
    reach::make(config)?;
    let mut failed = Vec::new();
    group::advise_on_names(groups.iter().map(|group| group.name.as_str()));
    let ok = reach::ask(config, GroupAddOperation { groups: groups.to_vec() }, &mut |reply| {
        if let Reply::Changed { name, error: Some(error), .. } = reply {
            failed.push(format!("{name}: {error}"));
        }
    })?;
    if ok {
        Ok(())
    } else {
        Err(CliError::Problem(format!("groups could not be added: {}", failed.join("; "))))
    }
}

/// Returns whether the site has any group; one whose creation was interrupted has none.
fn has_groups(config: &Config) -> Result<bool, CliError> {
    Ok(!reach::rows::<GroupListRow>(config, GroupListOperation { wildmat: None })?.is_empty())
}

/// Creates the self-signed certificate, if the configuration names it and it does not exist.
fn make_certificate(config: &Config) -> Result<(), CliError> {
    let ([certificate], [key]) = (config.tls.certificate.as_slice(), config.tls.key.as_slice()) else {
        return Ok(());
    };
    match (certificate.exists(), key.exists()) {
        _ if !is_self_signed(certificate) => Ok(()),
        (true, true) => Ok(()),
        (false, false) => make_self_signed(&RealDisk::new(), &config.site.path_identity, certificate, key)
            .map_err(|error| cannot("make the certificate", certificate, &error)),
        (there, _) => {
            let (there, gone) = if there { (certificate, key) } else { (key, certificate) };
            Err(CliError::Problem(format!(
                "{} is there, but not {}; put it back, or remove the former to have both created again",
                there.display(),
                gone.display()
            )))
        }
    }
}

/// Writes the configuration atomically, and never replaces an existing one.
fn write_config(file: &Path, text: &str) -> Result<(), CliError> {
    match durable_create(&RealDisk::new(), file, &[text.as_bytes()], FileAccess::All) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::Problem(format!("{} is there already", file.display()))),
        Err(error) => Err(cannot("write", file, &error)),
    }
}

/// The site's directory, locked against other `init` commands, and its entries before, so that the work of a
/// failed `init` can be undone and nothing else is removed.
struct LockedSiteDir {
    dir: PathBuf,
    /// Entries before; `None` if the directory did not exist.
    before: Option<Vec<OsString>>,
    _locked: fs::File,
}

impl LockedSiteDir {
    /// Creates the directory if it is missing, and waits for another `init` that works in it.
    fn take(dir: &Path) -> Result<Self, CliError> {
        loop {
            let is_new = !dir.exists();
            make_dir(dir)?;
            let locked = match fs::File::open(dir) {
                // A failed `init` has removed it again.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|error| cannot("open", dir, &error))?,
            };
            flock(&locked, FlockOperation::LockExclusive).map_err(|e| cannot("lock", dir, &e.into()))?;
            // A failed `init` has removed it meanwhile.
            let is_same = |now: fs::Metadata| locked.metadata().is_ok_and(|own| own.ino() == now.ino());
            if !fs::metadata(dir).is_ok_and(is_same) {
                continue;
            }
            let entries = fs::read_dir(dir).map_err(|error| cannot("read", dir, &error))?;
            let names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
            let before = (!is_new || !names.is_empty()).then_some(names);
            return Ok(Self { dir: dir.to_owned(), before, _locked: locked });
        }
    }

    /// Removes what was created. Errors are ignored, as an earlier failure is being reported.
    fn undo(self) {
        let Some(before) = self.before else {
            let _gone = fs::remove_dir_all(&self.dir);
            return;
        };
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if !before.contains(&entry.file_name()) {
                let path = entry.path();
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let _gone = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            }
        }
    }
}

/// Returns the options that contradict an existing configuration.
fn differences(options: &InitOptions, config: &Config) -> Vec<String> {
    let mut told = Vec::new();
    let mut compare = |option: &str, asked: Option<String>, has: String| {
        if let Some(asked) = asked.filter(|asked| *asked != has) {
            told.push(format!("{option} {asked}: {} says {has}", config.file.display()));
        }
    };
    let joined = |list: &[String]| (!list.is_empty()).then(|| list.join(", "));
    let sizes: Vec<String> =
        config.buffers.iter().map(|b| b.size.map_or("nothing".into(), units::size_text)).collect();
    let age = |days: Option<u32>| days.map_or("none".to_owned(), |days| days.to_string());
    compare("--listen", joined(&options.listen), config.site.listen.join(", "));
    compare("--tls-listen", joined(&options.tls_listen), config.site.tls_listen.join(", "));
    compare("--web-listen", joined(&options.web_listen), config.web.listen.join(", "));
    compare(
        "--buffer",
        options.buffer.map(|size| vec![units::size_text(size); sizes.len()].join(", ")),
        sizes.join(", "),
    );
    compare("--max-age", options.max_age.map(|age_of| age(age_of.0)), age(config.site.max_age_days));
    let durability = units::durability_text;
    compare("--durability", options.durability.map(durability), durability(config.site.durability));
    compare("--path-identity", options.path_identity.clone(), config.site.path_identity.clone());
    let peers =
        |cidr: &&Cidr| !config.peers.iter().flat_map(|peer| &peer.addresses).any(|own| own.covers(cidr));
    let readers =
        |cidr: &&Cidr| !config.access.iter().flat_map(|access| &access.from).any(|own| own.covers(cidr));
    told.extend(options.peer.iter().filter(peers).map(|cidr| format!("--peer {cidr}: no [[peer]] has it")));
    told.extend(
        options.reader.iter().filter(readers).map(|cidr| format!("--reader {cidr}: no [[access]] has it")),
    );
    told
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::Problem(format!("cannot {doing} {}: {error}", path.display()))
}

/// Returns the system's groups and those of the file, or the starter groups; of duplicates, the file's first
/// one counts.
fn groups(file: Option<&Path>) -> Result<Vec<GroupEntry>, CliError> {
    let text = match file {
        Some(file) => groups_file::read(file)?,
        None => STARTER_GROUPS.to_owned(),
    };
    let named = |text: &str, from: &Path| {
        groups_file::parse(text).map_err(|error| CliError::Usage(format!("{}: {error}", from.display())))
    };
    let mut groups = named(&text, file.unwrap_or(Path::new("starter groups")))?;
    groups.extend(named(SYSTEM_GROUPS, Path::new("system groups"))?);
    Ok(groups)
}

/// Returns the networks that may read and post.
fn readers(options: &InitOptions) -> Vec<String> {
    match options.reader.as_slice() {
        [] => asking::LOOPBACK.map(str::to_owned).to_vec(),
        readers => readers.iter().map(Cidr::to_string).collect(),
    }
}

/// Returns the configuration's text, with comments for the operator; the class may have a ring.
fn config_text(options: &InitOptions, ring: Option<u64>) -> String {
    let ring = ring.map_or_else(String::new, |ring| format!("ring = {}\n", quoted(&units::size_text(ring))));
    let size = quoted(&units::size_text(options.buffer.unwrap_or(BUFFER_BYTES)));
    let spool = format!(
        "# The spool: two cyclic buffers. When they are full, the newest article overwrites the oldest.\n\
         [[buffer]]\nname = \"text0\"\npath = \"text0.cyc\"\nsize = {size}\n\n\
         [[buffer]]\nname = \"text1\"\npath = \"text1.cyc\"\nsize = {size}\n\n\
         [[class]]\nname = \"text\"\nbuffers = [\"text0\", \"text1\"]\n{ring}\n\
         [[rule]]\nclass = \"text\"\n"
    );
    let access = [ABOUT_USERS, &access_text(options)].concat();
    let is_open = !options.peer.is_empty() || options.reader.iter().any(|one| !asking::is_loopback(*one));
    let spam = if is_open { SPAM_OF_AN_OPEN_SITE } else { "" };
    [head_text(options), spool, peers_text(options), ABOUT_MODERATORS.to_owned(), spam.to_owned(), access]
        .concat()
}

/// Returns the sections about the server itself, certificates and pages.
fn head_text(options: &InitOptions) -> String {
    let identity = options.path_identity.clone().unwrap_or_else(config::host_name);
    let listen = if options.listen.is_empty() { vec![LISTEN.to_owned()] } else { options.listen.clone() };
    let days = options.max_age.map_or(Some(MAX_AGE_DAYS), |age| age.0);
    let age = days.map_or_else(|| "\"none\"".to_owned(), |days| days.to_string());
    let remember = days.map_or(REMEMBER_DAYS, |days| REMEMBER_DAYS.max(days + 1));
    format!(
        "# newsreel's configuration. `newsreel check` checks it, `newsreel explain-config KEY` explains a key.\n\n\
         [site]\n\
         path_identity = {identity}   # our name in Path; peers must know it\n\
         listen = {listen}\n\
         {tls_listen}\
         durability = {durability}\n\
         max_age_days = {age}\n\
         remember_days = {remember}\n\n\
         {tls}\
         {web}",
        identity = quoted(&identity),
        listen = list(&listen),
        tls_listen = match options.tls_listen.as_slice() {
            [] => String::new(),
            listen => format!("tls_listen = {}\n", list(listen)),
        },
        tls = tls_text(options),
        web = web_text(options),
        durability = quoted(&units::durability_text(options.durability.unwrap_or(DURABILITY))),
    )
}

fn peers_text(options: &InitOptions) -> String {
    let peer = |cidr: &Cidr| {
        let address = quoted(&cidr.to_string());
        format!("\n[[peer]]\nname = {address}\naddresses = [{address}]\n")
    };
    match options.peer.as_slice() {
        [] => ABOUT_PEERS.to_owned(),
        peers => peers.iter().map(peer).collect(),
    }
}

fn access_text(options: &InitOptions) -> String {
    // On a site for this machine alone, everyone who posts may also approve articles and see the server's
    // status.
    let own = match options.reader.iter().all(|reader| asking::is_loopback(*reader)) {
        true if options.web_listen.is_empty() => "approve = \"*\"\n",
        true => "approve = \"*\"\noperator = true\n",
        false => "",
    };
    format!(
        "\n# Who may read and post; the first section that names the address decides.\n\
         [[access]]\nfrom = {}\nread = \"*\"\npost = \"*\"\n{own}",
        list(&readers(options))
    )
}

/// Returns the configuration's section about certificates.
fn tls_text(options: &InitOptions) -> String {
    match options.tls_listen.as_slice() {
        [] => "# With a certificate, connections may be encrypted.\n\
                 # [tls]\n# certificate = \"news.crt\"\n# key = \"news.key\"\n\n"
            .to_owned(),
        _ => format!(
            "# Made with this site and signed by nobody; put one that your readers' software trusts in its place.\n\
                 [tls]\ncertificate = {}\nkey = {}\n\n",
            quoted(SELF_SIGNED_FILES[0]),
            quoted(SELF_SIGNED_FILES[1])
        ),
    }
}

fn web_text(options: &InitOptions) -> String {
    match options.web_listen.as_slice() {
        [] => String::new(),
        listen => {
            format!("# Pages for browsers, and figures for Prometheus.\n[web]\nlisten = {}\n\n", list(listen))
        }
    }
}

/// Returns the configuration's path in a site's directory.
pub(super) fn config_file(dir: &Path) -> PathBuf {
    dir.join(CONFIG_FILE_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_given_are_not_asked() {
        assert!(is_open(&InitOptions { dir: "d".into(), ..InitOptions::default() }));
        assert!(!is_open(&InitOptions { buffer: Some(1), ..InitOptions::default() }));
        assert!(!is_open(&InitOptions { listen: vec!["127.0.0.1:0".into()], ..InitOptions::default() }));
    }

    #[test]
    fn new_configuration_is_short() {
        let network = |text: &str| vec![text.parse().unwrap()];
        let options = InitOptions {
            dir: "d".into(),
            tls_listen: vec!["0.0.0.0:563".into()],
            reader: network("192.0.2.0/24"),
            ..InitOptions::default()
        };
        for options in [InitOptions { peer: network("198.51.100.7"), ..options.clone() }, options] {
            let lines = config_text(&options, None).lines().count();
            assert!(lines < 64, "{lines} lines");
        }
    }
}
