//! Headings under which `newsreel --help` and `newsreel help all` list the commands.
//!
//! One table has a place for each command; a test compares it with the declarations in `args`. Man pages and
//! completions are made from the declarations themselves, and know no headings.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::Command;

/// Width of the lists, in columns: that of the narrowest usual terminal.
const WIDTH: usize = 80;
/// Columns before the name of a command, and between the name and its description.
const INDENT: usize = 2;

/// A heading and its commands, in the order in which they are listed.
struct CommandHeading {
    title: &'static str,
    /// Commands of every day, which `newsreel --help` lists.
    daily: &'static [&'static str],
    /// Commands that `newsreel help all` lists after them.
    further: &'static [&'static str],
}

/// The place of each command.
const HEADINGS: [CommandHeading; 5] = [
    CommandHeading {
        title: "Run a site",
        daily: &["up", "check", "ctl"],
        further: &[
            "init",
            "serve",
            "show",
            "explain-config",
            "peer",
            "buffer",
            "expire",
            "archive",
            "cache",
            "cluster",
            "completions",
        ],
    },
    CommandHeading {
        title: "Groups, users and articles",
        daily: &["group", "user"],
        further: &["post", "moderation", "keys", "filter", "cancel", "cancel-key", "hide", "unhide", "purge"],
    },
    CommandHeading {
        title: "Look",
        daily: &["status", "top"],
        further: &["report", "explain", "why", "search"],
    },
    CommandHeading {
        title: "Move in and out",
        daily: &["import"],
        further: &[
            "snapshot", "restore", "export", "pull", "send", "rnews", "batch", "history", "mount", "manage",
            "unmanage",
        ],
    },
    CommandHeading { title: "Repair", daily: &["doctor", "verify"], further: &["rebuild"] },
];

/// Returns whether the arguments are those of `newsreel help all`.
pub(super) fn asks_for_all(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.eq(["help", "all"])
}

/// Returns the program with a help that lists the commands of every day.
pub(super) fn with_daily(program: Command) -> Command {
    let list = list(&program, |heading| heading.daily.to_vec());
    let count = program.get_subcommands().filter(|command| !command.is_hide_set()).count();
    with_list(
        program,
        &format!(
            "{list}These are the commands of every day. newsreel help all lists all {count};\n\
             newsreel help COMMAND explains one.\n"
        ),
    )
}

/// Returns the program with a help that lists all commands.
pub(super) fn with_all(program: Command) -> Command {
    let list = list(&program, |heading| [heading.daily, heading.further].concat());
    with_list(program, &format!("{list}newsreel help COMMAND explains one of them.\n"))
}

fn with_list(program: Command, list: &str) -> Command {
    let header = *program.get_styles().get_header();
    program.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\n\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// Returns the commands that `choose` takes of each heading, with their descriptions.
fn list(program: &Command, choose: impl Fn(&CommandHeading) -> Vec<&'static str>) -> String {
    let styles = program.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let chosen: Vec<(&str, Vec<&str>)> =
        HEADINGS.iter().map(|heading| (heading.title, choose(heading))).collect();
    let longest = chosen.iter().flat_map(|(_, names)| names).map(|name| name.len()).max().unwrap_or(0);
    let column = INDENT + longest + INDENT;
    let mut text = String::new();
    for (title, names) in chosen {
        // Writing to a string does not fail.
        _ = writeln!(text, "{header}{title}:{header:#}");
        for name in names {
            let about = program.find_subcommand(name).and_then(Command::get_about);
            let about = wrapped(&about.map(ToString::to_string).unwrap_or_default(), column);
            let gap = column - INDENT - name.len();
            _ = writeln!(text, "{:INDENT$}{literal}{name}{literal:#}{:gap$}{about}", "", "");
        }
        text.push('\n');
    }
    text
}

/// Breaks a text that begins at `column` into lines of at most [`WIDTH`] columns, which begin there as well.
fn wrapped(text: &str, column: usize) -> String {
    let mut lines = String::new();
    let mut at = column;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if at > column && at + 1 + width > WIDTH {
            _ = write!(lines, "\n{:column$}", "");
            at = column;
        } else if at > column {
            lines.push(' ');
            at += 1;
        }
        lines.push_str(word);
        at += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn help(program: Command) -> String {
        program.clone().render_long_help().to_string()
    }

    #[test]
    fn every_command_stands_under_one_heading() {
        let program = Cli::command();
        let placed = HEADINGS.iter().flat_map(|heading| [heading.daily, heading.further].concat());
        let placed: Vec<&str> = placed.collect();
        let names: BTreeSet<&str> = placed.iter().copied().collect();
        assert_eq!(names.len(), placed.len(), "a command stands under two headings");
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let forgotten: Vec<_> = shown.difference(&names).collect();
        assert!(forgotten.is_empty(), "without a heading: {forgotten:?}");
        let unknown: Vec<_> = names.difference(&shown).collect();
        assert!(unknown.is_empty(), "no such commands: {unknown:?}");
    }

    #[test]
    fn help_lists_ten_commands_and_help_all_lists_every_one() {
        let daily = help(with_daily(Cli::command()));
        let all = help(with_all(Cli::command()));
        let is_listed = |text: &str, name: &str| {
            text.lines()
                .any(|line| line.strip_prefix("  ").is_some_and(|line| line.split(' ').next() == Some(name)))
        };
        let program = Cli::command();
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let names: Vec<&str> = shown.map(Command::get_name).collect();
        assert_eq!(names.iter().filter(|name| is_listed(&daily, name)).count(), 10, "{daily}");
        assert!(names.iter().all(|name| is_listed(&all, name)), "{all}");
        assert!(daily.contains("newsreel help all") && daily.contains("Start with: newsreel up"), "{daily}");
    }

    #[test]
    fn lists_fit_a_terminal_of_80_columns() {
        let all = list(&Cli::command().styles(clap::builder::Styles::plain()), |heading| {
            [heading.daily, heading.further].concat()
        });
        let widest = all.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= WIDTH, "{widest}");
        assert_eq!(wrapped("one two three", 72), format!("one two\n{:72}three", ""));
    }

    #[test]
    fn only_help_all_asks_for_all() {
        let asks = |words: &[&str]| asks_for_all(words.iter().map(OsString::from));
        assert!(asks(&["help", "all"]));
        assert!(!asks(&["help"]) && !asks(&["help", "all", "up"]) && !asks(&["all"]));
    }
}
