//! slrn from its user's view: groups with counts, threads, an article, a post that persists.

use std::fs;
use std::path::{Path, PathBuf};

use super::screen::{self, Screen};
use super::site::{PASSWORD, Site, USER};
use super::{fed, installed, text};

/// Programs that the tests need.
pub const PROGRAMS: &[(&str, &str)] = &[("slrn", "slrn"), ("tmux", "tmux")];

/// Creates the home directory of a user.
pub fn home(dir: &Path) -> PathBuf {
    let home = screen::home(dir);
    let settings = format!(
        "set confirm_actions 0\nhostname \"x.example\"\nusername \"sam\"\nrealname \"Sam Tester\"\nset editor_command \"{}/editor %s\"\n",
        text(&home)
    );
    fs::write(home.join(".slrnrc"), settings).unwrap();
    home
}

fn slrn(site: &Site, home: &Path, options: &str) -> Screen {
    let screen = Screen::start(home, &format!("slrn -h 127.0.0.1 -p {} -f newsrc {options}", site.port()));
    screen.wait(&["News Groups: 127.0.0.1", "SPC:Select"]);
    screen
}

/// Enters misc.test, which has seven articles; the site's subscriptions name it.
fn enter(screen: &Screen) {
    screen.wait_line(&["7", "misc.test"]);
    screen.keys(&["/"]);
    screen.wait(&["Forward Search:"]);
    screen.keys(&["misc.test", "Enter"]);
    screen.wait_line(&["->", "7", "misc.test"]);
    screen.keys(&["Enter"]);
    screen.wait(&["[7/7 unread] Group: misc.test"]);
}

/// Leaves an article and its group, and quits slrn.
fn quit(screen: &Screen) {
    screen.leave(&["News Groups: 127.0.0.1", "ended: 0"]);
}

#[test]
fn shows_groups_threads_and_articles() {
    if !installed(PROGRAMS) {
        return;
    }
    let (site, _) = fed::small_site();
    let screen = slrn(&site, &home(site.dir()), "--create");
    screen.wait_line(&["U", "1", "local.closed"]);
    screen.wait_line(&["->", "1", "local.general"]);
    enter(&screen);
    screen.wait_line(&["2", "Dots"]);
    screen.wait_line(&["3", "3", "Hoppers", "in", "the", "rain"]);
    screen.wait_line(&["5", "Octets", "\u{2713}", "in", "a", "folded", "subject"]);
    screen.keys(&["Enter"]);
    screen.wait(&["From: writer7@x.example (Writer 7)", "Subject: Blank lines\n\n\n\nend\n"]);
    screen.keys(&["n"]);
    screen.wait(&["From: writer4@x.example (Writer 4)", "\n.\n..\n...\n.leading\nmiddle.of\n.\n"]);
    screen.keys(&["n"]);
    screen.wait(&["From: writer1@x.example (Writer 1)", "Does anybody know\nwhy hoppers rust?\n"]);
    screen.keys(&["n"]);
    screen.wait(&["From: writer2@x.example (Writer 2)", "> why hoppers rust?\n\nWater, mostly.\n"]);
    quit(&screen);
}

/// A .newsrc in which everything that was fed to one group is read.
const NEWSRC: &str = "\
local.general: 1
control!
control.cancel!
junk!
local.closed!
misc.test!
";

#[test]
fn post_is_visible_at_once_and_after_a_kill() {
    if !installed(PROGRAMS) {
        return;
    }
    let (mut site, _) = fed::small_site();
    let home = home(site.dir());
    fs::write(home.join("newsrc"), NEWSRC).unwrap();
    let screen = slrn(&site, &home, "");
    screen.keys(&["p"]);
    screen.wait(&["Newsgroup:"]);
    screen.keys(&["C-a", "C-k", "local.general", "Enter"]);
    screen.wait(&["Subject:"]);
    screen.keys(&["Typed in slrn", "Enter"]);
    screen.wait(&["Post the message?"]);
    screen.keys(&["y"]);
    screen.wait(&["Posting...done."]);
    screen.keys(&["q"]);
    screen.wait(&["ended: 0"]);
    for _ in 0..2 {
        fs::write(home.join("newsrc"), NEWSRC).unwrap();
        let screen = slrn(&site, &home, "");
        screen.wait_line(&["1", "local.general"]);
        screen.keys(&["Enter"]);
        screen.wait_line(&["Typed", "in", "slrn"]);
        screen.keys(&["Enter"]);
        screen.wait(&["Subject: Typed in slrn", screen::TYPED]);
        quit(&screen);
        site.kill_and_restart();
    }
}

#[test]
fn reads_over_tls_with_a_password() {
    if !installed(PROGRAMS) {
        return;
    }
    let (site, _) = fed::small_secured_site();
    let home = home(site.dir());
    let mut settings = fs::read_to_string(home.join(".slrnrc")).unwrap();
    settings += &format!("nnrpaccess \"snews://localhost:{}\" \"{USER}\" \"{PASSWORD}\"\n", site.tls_port());
    fs::write(home.join(".slrnrc"), settings).unwrap();
    let command = format!("slrn -h snews://localhost:{} -f newsrc --create", site.tls_port());
    let screen = Screen::start(&home, &command);
    enter(&screen);
    screen.keys(&["Enter"]);
    screen.wait(&["From: writer7@x.example (Writer 7)", "Subject: Blank lines\n\n\n\nend\n"]);
}
