//! tin from its user's view: groups with counts, threads, an article, a post that persists.

use crate::waiting::wait_for_next_second;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::screen::{self, Screen};
use super::site::{PASSWORD, Site, USER};
use super::tunnel::Tunnel;
use super::{fed, installed};

/// Programs that the tests need.
pub const PROGRAMS: &[(&str, &str)] = &[("tin", "tin"), ("tmux", "tmux")];

/// Creates the home directory of an experienced user with groups.
pub fn home(dir: &Path) -> PathBuf {
    let home = screen::home(dir);
    fs::create_dir(home.join(".tin")).unwrap();
    let settings = "mail_address=Tina Tester <tina@x.example>\nbeginner_level=OFF\nconfirm_choice=0\n\
                    show_only_unread_arts=OFF\n";
    fs::write(home.join(".tin/tinrc"), settings).unwrap();
    fs::write(home.join(".newsrc"), "local.closed:\nlocal.general:\nmisc.test:\n").unwrap();
    // tin would take groups created in the second of its first start for new ones.
    wait_for_next_second();
    home
}

/// Starts tin, and waits for its list of groups.
fn tin(site: &Site, home: &Path) -> Screen {
    let screen = Screen::start(home, &format!("tin -r -g 127.0.0.1 -p {}", site.port()));
    screen.wait(&["Group Selection (127.0.0.1  3)"]);
    screen.wait_line(&["3", "misc.test", "For", "trying", "things", "out"]);
    screen
}

/// Leaves the articles of a group for the list of groups, and quits tin.
fn quit(screen: &Screen, group: &str) {
    screen.leave(&[&format!("{group} ("), "Group Selection", "ended: 0"]);
}

#[test]
fn shows_groups_threads_and_articles() {
    if !installed(PROGRAMS) {
        return;
    }
    let (site, _) = fed::small_site();
    let screen = tin(&site, &home(site.dir()));
    screen.wait_line(&["X", "1", "1", "local.closed", "No", "posting"]);
    screen.wait_line(&["2", "1", "local.general", "Talk"]);
    screen.wait_line(&["3", "7", "misc.test"]);
    // A number selects a group or thread, Enter opens it.
    screen.keys(&["3", "Enter", "Enter"]);
    screen.wait(&["misc.test (5B 7 "]);
    screen.wait_line(&["1", "+", "3", "2", "Hoppers", "in", "the", "rain", "Writer", "1"]);
    screen.wait_line(&["2", "+", "6", "Dots", "Writer", "4"]);
    screen.wait_line(&["4", "+", "0", "Nothing", "Writer", "6"]);
    screen.keys(&["Enter"]);
    screen.wait(&["Thread    1 of    5", "Lines 2", "2 Responses", "Does anybody know\nwhy hoppers rust?\n"]);
    screen.keys(&["Tab"]);
    screen.wait(&["Thread    1 of    5", "> why hoppers rust?", "Water, mostly."]);
    screen.keys(&["q"]);
    screen.wait(&["misc.test (5B"]);
    screen.keys(&["2", "Enter", "Enter"]);
    screen.wait(&["Writer 4", "\n.\n..\n...\n.leading\nmiddle.of\n.\n"]);
    quit(&screen, "misc.test");
}

#[test]
fn post_is_visible_at_once_and_after_a_kill() {
    if !installed(PROGRAMS) {
        return;
    }
    let (mut site, _) = fed::small_site();
    let home = home(site.dir());
    let screen = tin(&site, &home);
    screen.keys(&["2", "Enter", "w"]);
    screen.wait(&["Post subject"]);
    screen.keys(&["Typed in tin", "Enter"]);
    screen.wait(&["\"Typed in tin\"", "local.general", "p=post"]);
    screen.keys(&["p"]);
    screen.wait(&["Group Selection"]);
    screen.keys(&["q"]);
    screen.wait(&["ended: 0"]);
    for _ in 0..2 {
        let screen = tin(&site, &home);
        screen.keys(&["2", "Enter", "Enter"]);
        screen.wait_line(&["Hoppers", "in", "the", "rain", "Writer", "3"]);
        // The position in the list depends on what has been read.
        let shown = screen.wait_line(&["Typed", "in", "tin", "Tina", "Tester"]);
        let row = shown.lines().find(|line| line.contains("Typed in tin")).unwrap();
        let place = row.split_whitespace().next().unwrap();
        screen.keys(&[place, "Enter", "Enter"]);
        screen.wait(&["Tina Tester <tina@x.example>", screen::TYPED]);
        quit(&screen, "local.general");
        site.kill_and_restart();
    }
}

/// Debian's tin has no TLS.
#[test]
fn reads_through_a_tunnel_with_a_password() {
    if !installed(PROGRAMS) {
        return;
    }
    let (site, _) = fed::small_secured_site();
    let tunnel = Tunnel::to(&site);
    let home = home(site.dir());
    let secret = home.join(".newsauth");
    fs::write(&secret, format!("127.0.0.1 {PASSWORD} {USER}\n")).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let screen = Screen::start(&home, &format!("tin -r -A -g 127.0.0.1 -p {}", tunnel.port()));
    screen.wait(&["Group Selection (127.0.0.1  3)"]);
    screen.wait_line(&["3", "7", "misc.test"]);
    screen.keys(&["3", "Enter", "Enter"]);
    screen.wait(&["misc.test (5B 7 "]);
    screen.keys(&["Enter"]);
    screen.wait(&["Does anybody know\nwhy hoppers rust?\n"]);
}
