//! Man pages and completions, generated from the declarations in `args` and the tables of the configuration;
//! none of them is written by hand. The page of `mount.newsreel`, a script in `packaging`, has its options
//! from those of `newsreel mount`.
//!
//! `newsreel docs --share DIR` writes them in the layout of a prefix's `share` (`make build` runs it);
//! `newsreel completions` prints those of one shell.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use super::screen::{CliError, say};
use site_config::{manual, schema};

/// Name of the program in its pages and completions.
const PROGRAM: &str = "newsreel";
/// Directories below `share` in which shells look for completions, and the file names there.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "newsreel"),
    (Shell::Zsh, "zsh/site-functions", "_newsreel"),
    (Shell::Fish, "fish/vendor_completions.d", "newsreel.fish"),
];
/// Schema of the configuration, below `share`.
const SCHEMA: &str = "newsreel/newsreel.schema.json";
/// Meanings of the exit codes; the pages of commands that differ describe their own.
const EXIT_CODES: [(&str, &str); 4] = [
    ("0", "It was done."),
    ("1", "A problem was found, or something could not be done."),
    ("2", "The command or the configuration is wrong."),
    ("75", "It cannot be done now; the same command can be tried again later (rnews and send)."),
];

/// Variables that every command reads.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("NEWSREEL_CONFIG", "The configuration, as with --config."),
    ("LOGNAME, USER", "The author of an article that newsreel post gets without a From header."),
    (
        "LISTEN_FDS, NOTIFY_SOCKET, WATCHDOG_USEC",
        "Set by systemd for a server: its sockets, and where it reports that it is ready and alive.",
    ),
];
/// Files, those of the packages among them.
const FILES: [(&str, &str); 8] = [
    (
        "./newsreel.toml, newsreel-data/newsreel.toml, run/newsreel.toml, /etc/newsreel/newsreel.toml, \
         /var/lib/newsreel/newsreel.toml",
        "The configuration: the first of these that exists. The package's site, which newsreel.service serves, has \
         the last one.",
    ),
    (
        "/var/lib/newsreel",
        "The package's site: configuration, buffers (*.cyc), journal, indexes, users, the control socket. It is the \
         user newsreel's, and no package removes it.",
    ),
    (
        "/var/lib/newsreel/lists",
        "motd, subscriptions and other lists for newsreaders; see site.lists in newsreel.toml(5).",
    ),
    ("/lib/systemd/system/newsreel.service", "The unit; newsreel.socket beside it is for socket activation."),
    (
        "/usr/share/doc/newsreel/html",
        "README, book and all other documents; beside it drop-ins for the unit, alerts for Prometheus, a dashboard \
         for Grafana, a filter for fail2ban.",
    ),
    ("/usr/share/newsreel/newsreel.schema.json", "The JSON Schema of the configuration, for editors."),
    ("/usr/libexec/newsreel", "Programs that run INN's filters in Perl and Python."),
    ("/usr/sbin/mount.newsreel", "What mount(8) runs for the file system type newsreel."),
];

/// Options of mount(8) that `mount.newsreel` knows, and the arguments of `newsreel mount` that they set.
const MOUNT_OPTIONS: [(&str, &str); 6] = [
    ("ro", "read_only"),
    ("keep=TIME", "keep"),
    ("scheme=SCHEME", "scheme"),
    ("only_owner", "only_owner"),
    ("allow_other", "allow_others"),
    ("no_passthrough", "no_passthrough"),
];

/// Prints docs/config.md, or writes man pages, completions and the schema of the configuration.
pub(super) fn docs(program: &Command, share: Option<&Path>, date: &str) -> Result<(), CliError> {
    match share {
        None => say(manual::markdown().trim_end()),
        Some(dir) => write_all(program, dir, date)
            .map_err(|error| CliError::Problem(format!("cannot write below {}: {error}", dir.display()))),
    }
}

/// Prints a shell's completions of commands and options.
pub(super) fn completions(program: &Command, shell: Shell) -> Result<(), CliError> {
    let script = script(program, shell);
    // Not by `say`: the script must not be altered.
    io::Write::write_all(&mut io::stdout().lock(), &script).map_err(|_| CliError::Told)
}

/// Returns a shell's completions. Those of `help` include the word for which no command exists.
fn script(program: &Command, shell: Shell) -> Vec<u8> {
    let mut program = program.clone().bin_name(PROGRAM);
    // Only then there is the command help.
    program.build();
    let all = Command::new("all").about("List all commands").bin_name("newsreel help all");
    let mut program = program.mut_subcommand("help", |help| help.subcommand(all));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, PROGRAM, &mut script);
    script
}

fn write_all(program: &Command, share: &Path, date: &str) -> io::Result<()> {
    let section = |name: &str| {
        let dir = share.join("man").join(name);
        fs::create_dir_all(&dir).map(|()| dir)
    };
    let commands = section("man1")?;
    fs::write(section("man5")?.join("newsreel.toml.5"), manual::man_page(date))?;
    fs::write(section("man8")?.join("mount.newsreel.8"), mount_helper_page(program, date))?;
    let schema = share.join(SCHEMA);
    schema.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(schema, schema::schema())?;
    // The help command's list of commands is left out of the pages.
    let mut documented = program.clone().disable_help_subcommand(true);
    documented.build();
    write_pages(&documented, None, &commands, date)?;
    for (shell, dir, file) in COMPLETIONS {
        let dir = share.join(dir);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join(file), script(program, shell))?;
    }
    Ok(())
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(command: &Command, above: Option<&str>, dir: &Path, date: &str) -> io::Result<()> {
    let name = page_name(command);
    fs::write(dir.join(format!("{name}.1")), page(command, above, date)?)?;
    let mut below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.try_for_each(|below| write_pages(below, Some(&name), dir, date))
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: &Command, above: Option<&str>, date: &str) -> io::Result<Vec<u8>> {
    let named = command.clone().subcommand_help_heading("COMMANDS");
    let man = Man::new(named).date(date).source(concat!("newsreel ", env!("CARGO_PKG_VERSION")));
    let man = man.manual("Usenet server");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let (text, examples) = match after.split_once(":\n") {
        Some(("Example" | "Examples", examples)) => ("", examples),
        _ => (after.as_str(), ""),
    };
    page.extend(synopsis(command).render().into_bytes());
    man.render_description_section(&mut page)?;
    let mut more = Roff::new();
    text.split("\n\n").filter(|text| !text.is_empty()).for_each(|text| {
        more.control("PP", []).text([roman(text)]);
    });
    page.extend(more.render().into_bytes());
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let mut options = Vec::new();
    man.render_options_section(&mut options)?;
    // Lists of possible values begin with more empty lines than allowed.
    page.extend(String::from_utf8_lossy(&options).replace(".br\n\n.br\n", ".br\n").into_bytes());
    page.extend(last_sections(command, above, examples).render().into_bytes());
    Ok(page)
}

/// Returns the usage of `--help`, where options have their values.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut page = Roff::new();
    page.control("SH", ["SYNOPSIS"]);
    for (at, form) in usage.lines().map(str::trim).enumerate() {
        if at > 0 {
            page.control("br", []);
        }
        let rest = form.strip_prefix(name).unwrap_or(form);
        page.text([bold(&form[..form.len() - rest.len()]), roman(rest)]);
    }
    page
}

/// Returns the page of `mount.newsreel`.
fn mount_helper_page(program: &Command, date: &str) -> String {
    let mut page = Roff::new();
    let version = concat!("newsreel ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["mount.newsreel", "8", date, version, "Usenet server"]);
    page.control("SH", ["NAME"]).text([roman("mount.newsreel - mount a tree of articles by Usenetfs")]);
    page.control("SH", ["SYNOPSIS"])
        .text([bold("mount -t newsreel"), roman(" [-o OPTIONS] LOWER MOUNTPOINT")])
        .control("br", [])
        .text([bold("mount.newsreel"), roman(" LOWER MOUNTPOINT [-fnsv] [-o OPTIONS]")]);
    page.control("SH", ["DESCRIPTION"])
        .text([roman(
            "mount(8) runs this program for the file system type newsreel, also for lines of /etc/fstab. It shows \
             the tree LOWER at MOUNTPOINT, as newsreel mount does, and returns once the tree is mounted; a process \
             in the background answers until it is unmounted.",
        )])
        .control("PP", [])
        .text([roman(
            "mount(8) looks for such programs in /sbin and /usr/sbin only. If newsreel is installed below another \
             prefix, such as /usr/local, link this program there.",
        )]);
    page.control("SH", ["OPTIONS"])
        .text([roman("Options for mount(8) itself or for systemd are accepted; -f does nothing.")]);
    let mount = program.find_subcommand("mount");
    for (option, argument) in MOUNT_OPTIONS {
        let argument = mount.and_then(|mount| mount.get_arguments().find(|known| known.get_id() == argument));
        let help = argument.and_then(clap::Arg::get_help).map(ToString::to_string).unwrap_or_default();
        page.control("TP", []).text([bold(option)]).text([roman(help)]);
    }
    page.control("SH", ["EXAMPLES"])
        .text([roman("A line of /etc/fstab:")])
        .control("PP", [])
        .control("EX", [])
        .text([roman("/srv/spool  /var/spool/news/articles  newsreel  noatime,keep=5s  0  0")])
        .control("EE", []);
    page.control("SH", ["SEE ALSO"]).text([
        bold("newsreel-mount"),
        roman("(1), "),
        bold("newsreel-manage"),
        roman("(1), "),
        bold("mount"),
        roman("(8), "),
        bold("fstab"),
        roman("(5)"),
    ]);
    page.render()
}

/// Returns the sections about exit codes, examples and related pages.
fn last_sections(command: &Command, above: Option<&str>, examples: &str) -> Roff {
    let mut page = Roff::new();
    if above.is_none() {
        for (title, rows) in
            [("EXIT STATUS", &EXIT_CODES[..]), ("ENVIRONMENT", &ENVIRONMENT), ("FILES", &FILES)]
        {
            page.control("SH", [title]);
            for (name, meaning) in rows {
                page.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
            }
        }
    }
    if !examples.is_empty() {
        page.control("SH", ["EXAMPLES"]);
        for (at, part) in examples.split("\n\n").enumerate() {
            let (said, typed) = match part.split_once(":\n") {
                Some((said, typed)) if !said.starts_with(' ') => (said, typed),
                _ => ("", part),
            };
            if !said.is_empty() {
                page.control("PP", []).text([roman(format!("{said}:"))]);
            }
            if at > 0 {
                page.control("PP", []);
            }
            page.control("EX", []);
            typed.lines().for_each(|line| _ = page.text([roman(line)]));
            page.control("EE", []);
        }
    }
    page.control("SH", ["SEE ALSO"]);
    let pages = above.into_iter().chain((above.is_some_and(|above| above != PROGRAM)).then_some(PROGRAM));
    let mut others: Vec<(String, &str)> = pages.map(|name| (name.to_owned(), "1")).collect();
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    others.extend(below.map(|below| (page_name(below), "1")).filter(|_| above.is_some()));
    others.push(("newsreel.toml".to_owned(), "5"));
    let end = others.len() - 1;
    let text = others.iter().enumerate().flat_map(|(at, (name, section))| {
        let comma = if at == end { "" } else { ", " };
        [bold(name.as_str()), roman(format!("({section}){comma}"))]
    });
    page.text(text.collect::<Vec<_>>());
    page
}
