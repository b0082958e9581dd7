//! A terminal for a newsreader: tmux on a private socket, ended on drop.
//!
//! Nothing here waits for a fixed time: keys are sent when the text before them is on the screen.

use crate::waiting::wait_for;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{script, text};

const COLUMNS: &str = "100";
const ROWS: &str = "40";

/// Text that the editor adds to an article.
pub const TYPED: &str = "Written at a terminal.\n.with a dot\n";

/// Script in place of an editor.
const EDITOR: &str = "#!/bin/sh\nfor file; do :; done\ncat \"$HOME/typed\" >>\"$file\"\n";

/// Creates a home directory in this one, with an editor in it.
pub fn home(dir: &Path) -> PathBuf {
    let home = dir.join("home");
    fs::create_dir(&home).unwrap();
    let editor = home.join("editor");
    script(&editor, EDITOR);
    fs::write(home.join("typed"), TYPED).unwrap();
    home
}

pub struct Screen {
    socket: PathBuf,
}

impl Screen {
    /// Starts a shell command with only a home directory in its environment.
    pub fn start(home: &Path, command: &str) -> Self {
        static SCREENS: AtomicUsize = AtomicUsize::new(0);
        let screen = Self { socket: home.join(format!("tmux{}", SCREENS.fetch_add(1, Ordering::Relaxed))) };
        let path = std::env::var("PATH").unwrap();
        let home = text(home);
        // Host names for slrn and tin, which would ask the resolver otherwise, and an editor.
        let environment = format!(
            "env -i HOME={home} PATH='{path}' TERM=screen LANG=C.UTF-8 TMPDIR={home} USER=tester EDITOR={home}/editor \
             VISUAL={home}/editor"
        );
        screen.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            COLUMNS,
            "-y",
            ROWS,
            &format!("cd {home} && {environment} {command}; echo ended: $?; exec sleep 600"),
        ]);
        screen
    }

    /// Sends keys: tmux names (`Enter`), or text.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Leaves one level after the other with `q`; each text is what the next level shows.
    pub fn leave(&self, behind: &[&str]) {
        for text in behind {
            self.keys(&["q"]);
            self.wait(&[text]);
        }
    }

    /// Waits until all of these texts are on the screen, and returns it.
    pub fn wait(&self, texts: &[&str]) -> String {
        self.wait_until(&format!("{texts:?}"), |shown| texts.iter().all(|text| shown.contains(text)))
    }

    /// Waits until a line has these words in order, with anything between them, and returns the screen.
    pub fn wait_line(&self, words: &[&str]) -> String {
        self.wait_until(&format!("a line with {words:?}"), |shown| {
            shown.lines().any(|line| {
                let mut shown = line.split_whitespace();
                words.iter().all(|word| shown.any(|found| found == *word))
            })
        })
    }

    fn wait_until(&self, wanted: &str, has: impl Fn(&str) -> bool) -> String {
        println!("waiting for {wanted}");
        wait_for(|| self.tmux(&["capture-pane", "-p"]), |shown| has(shown))
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", text(&self.socket)]).args(arguments).output().unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The processes here are one process group. Newsreaders survive a hangup, looking for their server.
        let panes =
            Command::new("tmux").args(["-S", text(&self.socket), "list-panes", "-F", "#{pane_pid}"]).output();
        let panes = panes.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let pid = panes.ok().and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?));
        let _ended = pid.map(|pid| kill_process_group(pid, Signal::KILL));
        // Each value has its own tmux server: the socket is in the home directory of the test.
        let _ended = Command::new("tmux").args(["-S", text(&self.socket), "kill-server"]).output();
    }
}
