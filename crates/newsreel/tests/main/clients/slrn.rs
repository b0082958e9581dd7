//! slrn as its user sees it: groups with counts, threads, an article, a post that stays.

use std::fs;
use std::path::{Path, PathBuf};

use super::screen::{self, Screen};
use super::site::Site;
use super::{fed, installed, text};

/// What the tests need.
const PROGRAMS: &[(&str, &str)] = &[("slrn", "slrn"), ("tmux", "tmux")];

/// The home directory of a user.
fn home(site: &Site) -> PathBuf {
    let home = screen::home(site);
    let settings = format!(
        "hostname \"x.example\"\nusername \"sam\"\nrealname \"Sam Tester\"\nset editor_command \"{}/editor %s\"\n",
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

fn quit(screen: &Screen) {
    screen.keys(&["q"]);
    screen.wait(&["ended: 0"]);
}

#[test]
fn shows_groups_threads_and_articles() {
    if !installed(PROGRAMS) {
        return;
    }
    let (site, _) = fed::small_site();
    let screen = slrn(&site, &home(&site), "--create");
    screen.wait_line(&["U", "1", "local.closed"]);
    screen.wait_line(&["U", "1", "local.general"]);
    screen.wait_line(&["U", "7", "misc.test"]);
    screen.keys(&["/"]);
    screen.wait(&["Forward Search:"]);
    screen.keys(&["misc.test", "Enter"]);
    screen.wait_line(&["->U", "7", "misc.test"]);
    screen.keys(&["Enter"]);
    println!("{}", screen.wait(&["Group: misc.test"]));
    println!("{}", screen.wait(&["[7/7 unread] Group: misc.test", "[Writer 1", "Hoppers in the rain", "Dots"]));
    screen.keys(&["Enter"]);
    println!("{}", screen.wait(&["From: writer"]));
    panic!();
}

#[test]
fn a_post_is_there_at_once_and_after_a_kill() {
    if !installed(PROGRAMS) {
        return;
    }
    let (mut site, _) = fed::small_site();
    let home = home(&site);
    fs::write(home.join("newsrc"), "local.general: 1\n").unwrap();
    let screen = slrn(&site, &home, "");
    screen.keys(&["p"]);
    screen.wait(&["Are you sure that you want to post?"]);
    screen.keys(&["y"]);
    screen.wait(&["Newsgroup:"]);
    screen.keys(&["C-a", "C-k", "local.general", "Enter"]);
    screen.wait(&["Subject:"]);
    screen.keys(&["Typed in slrn", "Enter"]);
    screen.wait(&["Post the message?"]);
    screen.keys(&["y"]);
    println!("{}", screen.wait(&["SPC:Select"]));
    quit(&screen);
    for _ in 0..2 {
        let screen = slrn(&site, &home, "");
        println!("{}", screen.wait_line(&["1", "local.general"]));
        screen.keys(&["Enter"]);
        println!("{}", screen.wait(&["Typed in slrn", screen::TYPED]));
        quit(&screen);
        site.kill_and_restart();
    }
}
