//! `init`: a site's directory with configuration, buffers and groups.

use std::fs;
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

use super::args::{Age, CONFIG_FILE_NAME, InitOptions};
use super::{Failure, groups_file, reach, say};
use crate::config::{self, Cidr, Config, Durability, units, write};
use crate::control_socket::protocol::{GroupEntry, Reply, Request};
use crate::inject::Secret;
use crate::tls::make_self_signed;

/// Default of `--listen`.
const LISTEN: &str = "127.0.0.1:1119";
/// Where `up` listens for connections that begin with TLS.
const TLS_LISTEN: &str = "127.0.0.1:1563";
/// The certificate that is made for them, and its key, in the site's directory.
const CERTIFICATE_FILES: [&str; 2] = ["self-signed.crt", "self-signed.key"];
/// This machine; default of `--reader`.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];
/// Size of each buffer that `up` makes, in bytes.
const BUFFER_BYTES: u64 = 512 << 20;
/// Default of `remember_days`, when articles are not taken that old anyway.
const REMEMBER_DAYS: u32 = 11;

/// Groups that every site has: what control messages and articles without a carried group are filed in.
const SYSTEM_GROUPS: &str = "\
control n Control messages
control.cancel n Cancels
junk n Articles without a carried group
";
/// Groups to begin with, when none are named.
const STARTER_GROUPS: &str = "\
local.announce m Announcements of this site (moderated)
local.general y Talk
local.test y For trying things out
";

pub(super) fn init(options: &InitOptions) -> Result<(), Failure> {
    let config = make(options)?;
    let file = config.file.display();
    say(format_args!("made {file}\nserve it with: newsreel serve --config {file}"))
}

/// Makes the site that `up` serves in a new directory.
pub(super) fn make_default(dir: &Path) -> Result<Config, Failure> {
    make(&InitOptions {
        dir: dir.to_owned(),
        listen: Vec::new(),
        tls_listen: vec![TLS_LISTEN.to_owned()],
        groups: None,
        buffer: BUFFER_BYTES,
        peer: Vec::new(),
        reader: Vec::new(),
        max_age: Age(Some(10)),
        durability: Durability::Interval(std::time::Duration::from_millis(100)),
        path_identity: None,
    })
}

fn make(options: &InitOptions) -> Result<Config, Failure> {
    let groups = groups(options.groups.as_deref())?;
    let file = options.dir.join(CONFIG_FILE_NAME);
    let text = config_text(options);
    let config = config::parse(&text, &file)?;
    fs::create_dir_all(&options.dir).map_err(|error| cannot("make the directory", &options.dir, &error))?;
    match fs::File::create_new(&file).and_then(|mut made| made.write_all(text.as_bytes())) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let text = format!("{} is there already; serve it, or choose another --dir", file.display());
            return Err(Failure::Usage(text));
        }
        Err(error) => return Err(cannot("write", &file, &error)),
    }
    if let ([certificate], [key]) = (config.tls.certificate.as_slice(), config.tls.key.as_slice()) {
        make_self_signed(&config.site.path_identity, certificate, key)
            .map_err(|error| cannot("make a certificate in", &options.dir, &error))?;
    }
    Secret::open(&config.site.data).map_err(|error| Failure::Problem(error.to_string()))?;
    let mut failed = Vec::new();
    let ok = reach::ask(&config, &Request::GroupAdd { groups }, &mut |reply| {
        if let Reply::Changed { name, error: Some(error), .. } = reply {
            failed.push(format!("{name}: {error}"));
        }
    })?;
    if ok {
        Ok(config)
    } else {
        Err(Failure::Problem(format!("groups could not be added: {}", failed.join("; "))))
    }
}

/// Whether a certificate is the one made with a site.
pub(super) fn is_self_signed(certificate: &Path) -> bool {
    certificate.ends_with(CERTIFICATE_FILES[0])
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::Problem(format!("cannot {doing} {}: {error}", path.display()))
}

/// The system's groups and those of the file, or the starter groups; a name that comes twice counts where it comes
/// first in the file.
fn groups(file: Option<&Path>) -> Result<Vec<GroupEntry>, Failure> {
    let text = match file {
        Some(file) => read_groups(file)?,
        None => STARTER_GROUPS.to_owned(),
    };
    let named = |text: &str, from: &Path| {
        groups_file::parse(text).map_err(|error| Failure::Usage(format!("{}: {error}", from.display())))
    };
    let mut groups = named(&text, file.unwrap_or(Path::new("starter groups")))?;
    groups.extend(named(SYSTEM_GROUPS, Path::new("system groups"))?);
    Ok(groups)
}

/// The text of a file of groups; `-` is standard input.
pub(super) fn read_groups(file: &Path) -> Result<String, Failure> {
    let mut text = Vec::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = fs::File::open(file);
        Box::new(opened.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?)
    };
    let read = source.take(groups_file::FILE_BYTES_MAX).read_to_end(&mut text);
    read.map_err(|error| cannot("read", file, &error))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The configuration's text, with comments for whoever edits it.
fn config_text(options: &InitOptions) -> String {
    let identity = options.path_identity.clone().unwrap_or_else(config::host_name);
    let listen = if options.listen.is_empty() { vec![LISTEN.to_owned()] } else { options.listen.clone() };
    let age = options.max_age.0.map_or_else(|| "\"none\"".to_owned(), |days| days.to_string());
    let remember = options.max_age.0.map_or(REMEMBER_DAYS, |days| REMEMBER_DAYS.max(days + 1));
    let quoted = write::quoted;
    let size = quoted(&units::size_text(options.buffer));
    let readers: Vec<String> = match options.reader.as_slice() {
        [] => LOOPBACK.map(str::to_owned).to_vec(),
        readers => readers.iter().map(Cidr::to_string).collect(),
    };
    let mut text = format!(
        "# newsreel's configuration. `newsreel check` checks it, `newsreel explain-config KEY` explains a key.\n\n\
         [site]\n\
         path_identity = {identity}   # our name in Path; peers must know it\n\
         listen = {listen}\n\
         {tls_listen}\
         durability = {durability}\n\
         max_age_days = {age}\n\
         remember_days = {remember}\n\n\
         {tls}\
         # The spool: two cyclic buffers. When they are full, the newest article overwrites the oldest.\n\
         [[buffer]]\nname = \"text0\"\npath = \"text0.cyc\"\nsize = {size}\n\n\
         [[buffer]]\nname = \"text1\"\npath = \"text1.cyc\"\nsize = {size}\n\n\
         [[class]]\nname = \"text\"\nbuffers = [\"text0\", \"text1\"]\n\n\
         [[rule]]\nclass = \"text\"\n",
        identity = quoted(&identity),
        listen = write::list(&listen),
        tls_listen = match options.tls_listen.as_slice() {
            [] => String::new(),
            listen => format!("tls_listen = {}\n", write::list(listen)),
        },
        tls = match options.tls_listen.as_slice() {
            [] => "# With a certificate, connections may be encrypted.\n\
                 # [tls]\n# certificate = \"news.crt\"\n# key = \"news.key\"\n\n"
                .to_owned(),
            _ => format!(
                "# Made with this site and signed by nobody; put one that your readers' software trusts in its place.\n\
                 [tls]\ncertificate = {}\nkey = {}\n\n",
                quoted(CERTIFICATE_FILES[0]),
                quoted(CERTIFICATE_FILES[1])
            ),
        },
        durability = quoted(&options.durability.text()),
    );
    for cidr in &options.peer {
        let address = quoted(&cidr.to_string());
        text.push_str(&format!("\n[[peer]]\nname = {address}\naddresses = [{address}]\n"));
    }
    if options.peer.is_empty() {
        text.push_str(
            "\n# Who may feed articles to us:\n\
             # [[peer]]\n# name = \"news.example.net\"\n# addresses = [\"198.51.100.7\"]\n# accept = \"*,!local.*\"\n",
        );
    }
    // On this machine whoever posts may also be the moderator.
    let approve = if readers.iter().all(|reader| is_loopback(reader)) { "approve = \"*\"\n" } else { "" };
    text.push_str(&format!(
        "\n# Who may read and post; the first section that names the address decides.\n\
         # Users (newsreel user add NAME) have sections of their own, before those for everyone:\n\
         # [[access]]\n# from = \"all\"\n# users = \"*\"\n# post = \"*\"\n\n\
         [[access]]\nfrom = {}\nread = \"*\"\npost = \"*\"\n{approve}",
        write::list(&readers)
    ));
    text
}

/// Where the configuration of a site's directory is.
pub(super) fn config_file(dir: &Path) -> PathBuf {
    dir.join(CONFIG_FILE_NAME)
}

fn is_loopback(network: &str) -> bool {
    let parsed = |text: &str| text.parse::<Cidr>().ok();
    let reader = parsed(network);
    LOOPBACK.iter().any(|own| parsed(own).zip(reader).is_some_and(|(own, reader)| own.covers(&reader)))
}
