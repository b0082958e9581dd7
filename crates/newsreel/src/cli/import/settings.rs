//! `import inn-config` and the like: reads the configuration of another server, converts it and writes it.
//!
//! Everything is read before anything is written, and the configuration is written last. Existing files stay
//! as they are. Conversion is `migrate::settings`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::locate::CONFIG_FILE_NAME;
use super::super::output::make_dir;
use super::super::screen::{CliError, complain, say};
use disk::{FileAccess, RealDisk, durable_create};
use migrate::conf;
use migrate::settings;
use migrate::settings::{
    CNEWS_FILES, ConvertedConfiguration, DIABLO_FILES, FILE_BYTES_MAX, INN_FILES, INN_LISTS, LEAFNODE_FILES,
    OldConfiguration,
};
use site_base::units::counted;

/// Arguments of the imports of configurations.
#[derive(Debug, Clone, Args)]
pub struct SettingsOptions {
    /// The directory of the other server's configuration
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Write the configuration to this file, and what goes beside it; without it the configuration is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Arguments of `import inn-config`.
#[derive(Debug, Clone, Args)]
pub struct InnSettingsOptions {
    #[command(flatten)]
    all: SettingsOptions,
    /// For a trial beside the running INN: with a path identity and a port of its own, fed by INN alone, and
    /// sending nothing to others
    #[arg(long)]
    trial: bool,
}

/// Directory of the texts for readers, beside the configuration.
const LISTS: &str = "lists";

pub(super) fn inn(inn: &InnSettingsOptions) -> Result<(), CliError> {
    let options = &inn.all;
    let places = ConfigDirs::of(&options.dir)?;
    let old = OldConfiguration { is_trial: inn.trial, ..places.all(&options.dir, &INN_FILES)? };
    let mut lists = Vec::new();
    for (name, ours) in INN_LISTS {
        if let Some(text) = places.read(name)?.filter(|_| !lists.iter().any(|(own, _)| *own == ours)) {
            lists.push((ours, text));
        }
    }
    let new = settings::from_inn(&old, &addresses);
    write(options.out.as_deref(), &new, &lists)
}

pub(super) fn cnews(options: &SettingsOptions) -> Result<(), CliError> {
    let places = ConfigDirs { dirs: ["", "ctl", "etc"].iter().map(|part| options.dir.join(part)).collect() };
    let old = places.all(&options.dir, &CNEWS_FILES)?;
    if !old.files.contains_key("sys") {
        return Err(CliError::Usage(format!("there is no sys in {}", options.dir.display())));
    }
    write(options.out.as_deref(), &settings::from_cnews(&old), &[])
}

pub(super) fn leafnode(options: &SettingsOptions) -> Result<(), CliError> {
    let old = ConfigDirs { dirs: vec![options.dir.clone()] }.all(&options.dir, &LEAFNODE_FILES)?;
    if !old.files.contains_key("config") {
        return Err(CliError::Usage(format!("there is no config in {}", options.dir.display())));
    }
    write(options.out.as_deref(), &settings::from_leafnode(&old), &[])
}

pub(super) fn diablo(options: &SettingsOptions) -> Result<(), CliError> {
    let old = ConfigDirs { dirs: vec![options.dir.clone()] }.all(&options.dir, &DIABLO_FILES)?;
    if !old.files.contains_key("dnewsfeeds") {
        return Err(CliError::Usage(format!("there is no dnewsfeeds in {}", options.dir.display())));
    }
    write(options.out.as_deref(), &settings::from_diablo(&old, &addresses), &[])
}

/// Returns the addresses of a host by the system's resolver.
fn addresses(host: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> =
        (host, 119).to_socket_addrs().into_iter().flatten().map(|address| address.ip()).collect();
    found.sort();
    found.dedup();
    found
}

/// Directories with files of the other server.
struct ConfigDirs {
    dirs: Vec<PathBuf>,
}

impl ConfigDirs {
    /// Returns the directory itself, those beside it, and those that inn.conf names.
    fn of(dir: &Path) -> Result<Self, CliError> {
        let near = Self { dirs: vec![dir.to_owned(), dir.join("etc"), dir.join("db")] };
        let Some(text) = near.read("inn.conf")? else {
            return Err(CliError::Usage(format!("there is no inn.conf in {}", dir.display())));
        };
        let named =
            ["pathetc", "pathdb"].iter().filter_map(|key| conf::inn_conf(&text, key)).map(PathBuf::from);
        Ok(Self { dirs: near.dirs.iter().cloned().chain(named).collect() })
    }

    /// Reads all existing files of these names.
    fn all(&self, dir: &Path, names: &[&'static str]) -> Result<OldConfiguration, CliError> {
        let mut old = OldConfiguration { dir: dir.display().to_string(), ..OldConfiguration::default() };
        for name in names {
            if let Some(text) = self.read(name)? {
                old.files.insert(name, text);
            }
        }
        Ok(old)
    }

    /// Reads a file from the first directory that has it.
    fn read(&self, name: &str) -> Result<Option<String>, CliError> {
        for path in self.dirs.iter().map(|dir| dir.join(name)) {
            let mut bytes = Vec::new();
            // A pipe would not end.
            let opened = match fs::metadata(&path) {
                Ok(about) if !about.is_file() => Err(io::Error::other("it is no file")),
                _ => File::open(&path),
            };
            match opened.and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)) {
                Ok(_) if bytes.len() > FILE_BYTES_MAX => {
                    return Err(CliError::Problem(format!(
                        "{} is too long for a configuration",
                        path.display()
                    )));
                }
                Ok(_) => {
                    let text = String::from_utf8_lossy(&bytes);
                    return Ok(Some(text.trim_start_matches('\u{feff}').to_owned()));
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let advice = "run this as a user who may read the other server's files";
                    return Err(CliError::Problem(format!(
                        "cannot read {}: {error}; {advice}",
                        path.display()
                    )));
                }
            }
        }
        Ok(None)
    }
}

/// Prints the configuration, or writes it and the files that belong to it.
fn write(out: Option<&Path>, new: &ConvertedConfiguration, lists: &[(&str, String)]) -> Result<(), CliError> {
    if let Some(refused) = &new.refused {
        complain(format_args!("newsreel: the configuration is not whole yet:\n{}", refused.trim_end()));
    }
    let Some(out) = out else {
        if !new.secrets.is_empty() || !lists.is_empty() {
            complain("newsreel: with --out FILE, passwords and texts for readers are written beside it");
        }
        return say(new.text.trim_end());
    };
    if out.exists() {
        return Err(CliError::Usage(format!("{} is there already; name another file", out.display())));
    }
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_dir(dir)?;
    for (name, text) in &new.secrets {
        beside(&dir.join(name), text, FileAccess::Owner)?;
    }
    for (name, text) in lists {
        beside(&dir.join(LISTS).join(name), text, FileAccess::All)?;
    }
    if !create(out, &new.text, FileAccess::All)? {
        return Err(CliError::Problem(format!("{} is there already", out.display())));
    }
    summary(out, dir, new, lists)
}

/// Writes a file, unless it exists.
fn beside(path: &Path, text: &str, access: FileAccess) -> Result<(), CliError> {
    path.parent().map_or(Ok(()), make_dir)?;
    if !create(path, text, access)? && std::fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
        complain(format_args!("newsreel: {} is there already and stays as it is", path.display()));
    }
    Ok(())
}

fn create(path: &Path, text: &str, access: FileAccess) -> Result<bool, CliError> {
    durable_create(&RealDisk::new(), path, &[text.as_bytes()], access)
        .map_err(|error| CliError::Problem(format!("cannot write {}: {error}", path.display())))
}

fn summary(
    out: &Path,
    dir: &Path,
    new: &ConvertedConfiguration,
    lists: &[(&str, String)],
) -> Result<(), CliError> {
    let counts: Vec<String> = new.counts.iter().map(|(name, count)| format!("{count} [[{name}]]")).collect();
    say(format_args!("wrote {}: {}", out.display(), counts.join(", ")))?;
    let files = new.secrets.len() + lists.len();
    if files > 0 {
        say(format_args!("and {} beside it", counted(files as u64, "file")))?;
    }
    let says = if new.remarks == 1 { "says" } else { "say" };
    say(format_args!("{} {says} what has no equivalent or differs", counted(new.remarks as u64, "comment")))?;
    let site = dir.display();
    let mut next = vec![
        format!("newsreel init --dir {site} --groups /dev/null"),
        format!("newsreel check --dir {site}"),
    ];
    if out.file_name().is_none_or(|name| name != CONFIG_FILE_NAME) {
        next.insert(0, format!("mv {} DIR/{CONFIG_FILE_NAME}, with DIR the site's directory", out.display()));
        next[1..].iter_mut().for_each(|line| *line = line.replace(&format!("--dir {site}"), "--dir DIR"));
    }
    say(format_args!("\nnext: {}", next.join("\n      ")))
}
