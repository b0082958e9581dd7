//! Follows README.md as a newcomer does: every command is run as written, every piece of configuration is
//! read.
//!
//! Runs in namespaces of its own (unshare): a network in which every port is free, temporary `/var/lib` and
//! `/etc`, and a copy of a checkout. Compilation is skipped (cargo is a stub), the installation goes to
//! another root, and "100 GiB" is made smaller; nothing else is changed.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{installed, skipped, text};
use site_config as config;

/// Kind of a block of indented lines.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    /// Commands as written, and the section they are in.
    Shell(String, Vec<String>),
    /// Part of newsreel's configuration.
    Configuration(String),
    /// Part of another server's configuration.
    Foreign,
}

/// Programs with which commands begin.
const PROGRAMS: [&str; 8] = ["make", "sudo", "export", "newsreel", "tin", "slrn", "printf", "$EDITOR"];
/// First words of other servers' configuration.
const FOREIGN: [&str; 2] = ["# newsfeeds", "# innfeed.conf"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the blocks of the page in order; panics on an unknown kind.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut lines, mut section) = (Vec::new(), Vec::new(), String::new());
    for line in page.lines().chain([""]) {
        match line.strip_prefix("    ") {
            Some(code) => lines.push(code),
            None if line.is_empty() && !lines.is_empty() => lines.push(""),
            None => {
                finish(&mut lines, &section, &mut blocks);
                if let Some(title) = line.strip_prefix("## ") {
                    section = title.to_owned();
                }
            }
        }
    }
    finish(&mut lines, &section, &mut blocks);
    blocks
}

fn finish(lines: &mut Vec<&str>, section: &str, blocks: &mut Vec<Block>) {
    let code = std::mem::take(lines).join("\n");
    let Some(first) = code.split_whitespace().next() else { return };
    blocks.push(if PROGRAMS.contains(&first) {
        let mut commands: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in code.lines().filter(|line| !line.is_empty()) {
            match commands.last_mut().filter(|_| goes_on) {
                Some(command) => *command += &format!("\n{line}"),
                None => commands.push(line.to_owned()),
            }
            goes_on = line.ends_with('\\');
        }
        Block::Shell(section.to_owned(), commands)
    } else if first.starts_with('[') {
        Block::Configuration(code)
    } else if FOREIGN.iter().any(|head| code.starts_with(head)) {
        Block::Foreign
    } else {
        panic!("README.md: is this a command, or configuration?\n{code}")
    });
}

fn page() -> Vec<Block> {
    blocks(&fs::read_to_string(root().join("README.md")).unwrap())
}

#[test]
fn every_piece_of_configuration_is_valid() {
    let rest = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
    let mut seen = 0;
    for block in page() {
        if let Block::Configuration(text) = block {
            let read = config::parse(&format!("{text}\n{rest}"), Path::new("newsreel.toml"));
            read.unwrap_or_else(|error| panic!("{text}\n{}", error.report(false)));
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}

/// Bash functions available besides the commands.
const DRIVER: &str = r#"
set -u
scratch=$PWD
ip link set lo up
mount -t tmpfs -o size=600m tmpfs /var/lib
cp -r /etc/. etc 2>/dev/null
mkdir -p etc/news && cp -r inn/. etc/news
mount --bind etc /etc
export HOME=$scratch/home EDITOR=true CARGO=$scratch/stubs/cargo DESTDIR=$scratch/installed PATH="$scratch/stubs:$PATH"
export LANG=C.UTF-8 USER=tester
unset NEWSREEL_CONFIG CARGO_TARGET_DIR PREFIX
server= dir= readers=0
fail() { echo "FAILED: $1"; cat "$scratch/output" "$scratch/server.log" 2>/dev/null; exit 1; }
status() { "$scratch/target/release/newsreel" status --dir "$dir" --json 2>/dev/null; }
stop() {
  [ -n "$server" ] || return 0
  pid=$(status | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
  [ -z "$pid" ] || kill "$pid"
  wait "$server"
  server=
}
# A server: started in the background; it must answer.
serve() {
  stop; dir=$2; echo "+ $1"
  (eval "exec $1") >"$scratch/server.log" 2>&1 </dev/null & server=$!
  for _ in $(seq 600); do
    if status | grep -q '"pid"'; then return 0; fi
    kill -0 "$server" 2>/dev/null || fail "$1"
    sleep 0.1
  done
  fail "$1"
}
# A newsreader: the groups must come to its screen.
read_news() {
  echo "+ $1"
  # A socket of its own: the server before may still be on its way out.
  readers=$((readers + 1)); socket=$scratch/tmux.$readers
  tmux -S "$socket" -f /dev/null new-session -d -x 100 -y 40 "cd $HOME && $1; echo ended; sleep 600"
  for _ in $(seq 600); do
    screen=$(tmux -S "$socket" capture-pane -p)
    case $screen in
      *local.announce*local.general*local.test*) tmux -S "$socket" kill-server; return 0 ;;
      *'<RETURN> to continue'*) tmux -S "$socket" send-keys Enter ;;
      *ended*) break ;;
    esac
    sleep 0.1
  done
  tmux -S "$socket" kill-server; echo "$screen"; fail "$1"
}
run() { echo "+ $1"; eval "$1" >"$scratch/output" 2>&1 <<<'correct horse'; code=$?; [ $code = 0 ] || fail "$1 ($code)"; }
trap stop EXIT
"#;

fn quoted(command: &str) -> String {
    format!("'{}'", command.replace('\'', r"'\''"))
}

/// Returns the site that a command serves, if it is a command that keeps running.
fn served(command: &str) -> Option<&str> {
    let bare = command.split('#').next().unwrap_or_default().trim();
    match bare {
        "make run" => Some("run"),
        "newsreel up" => Some("newsreel-data"),
        _ if bare.starts_with("newsreel serve --dir ") => bare.split_whitespace().last(),
        _ => None,
    }
}

/// Returns the page as a script.
fn script(page: &[Block], newsreaders: bool) -> String {
    let mut script = DRIVER.to_owned();
    let mut before = "";
    for block in page {
        let Block::Shell(section, commands) = block else { continue };
        if before == "A real site" && section != before {
            // In an empty directory the real site is found by itself.
            script += "mkdir -p elsewhere && cd elsewhere\n";
        }
        before = section;
        for command in commands {
            let command = command.replace("100 GiB", "64 MiB");
            let first = command.split_whitespace().next().unwrap_or_default();
            script += &match served(&command) {
                Some(dir) => format!("serve {} {}\n", quoted(&command), quoted(dir)),
                None if ["tin", "slrn"].contains(&first) && !newsreaders => String::new(),
                None if ["tin", "slrn"].contains(&first) => format!("read_news {}\n", quoted(&command)),
                None if command.starts_with("newsreel rebuild") => {
                    format!("stop\nrun {}\n", quoted(&command))
                }
                None => format!("run {}\n", quoted(&command)),
            };
        }
    }
    script + "echo all was run\n"
}

/// Creates a directory like a checkout after `make build`, with the files that commands of the page need.
fn checkout(dir: &Path) {
    let copy = |from: &str| {
        let to = dir.join(from);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(root().join(from), to).unwrap();
    };
    for file in ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "Makefile"] {
        copy(file);
    }
    let copied = Command::new("cp").arg("-R").arg(root().join("packaging")).arg(dir).status().unwrap();
    assert!(copied.success());
    for part in ["target/release", "target/fast", "stubs", "home", "etc", "inn/articles/inn/a"] {
        fs::create_dir_all(dir.join(part)).unwrap();
    }
    for profile in ["release", "fast"] {
        fs::copy(env!("CARGO_BIN_EXE_newsreel"), dir.join("target").join(profile).join("newsreel")).unwrap();
    }
    super::script(&dir.join("stubs/cargo"), "#!/bin/sh\necho cargo 99.0.0\n");
    super::script(&dir.join("stubs/sudo"), "#!/bin/sh\nexec \"$@\"\n");
    // slrn cannot find its own address as root in a network without names.
    fs::write(dir.join("home/.slrnrc"), "hostname \"x.example\"\n").unwrap();
    let inn = dir.join("inn");
    fs::write(inn.join("inn.conf"), "pathdb: /etc/news\npatharticles: /etc/news/articles\n").unwrap();
    fs::write(inn.join("active"), "inn.a 0000000007 0000000007 y\n").unwrap();
    let article = "Path: inn.example!not-for-mail\nFrom: a@b.example\nNewsgroups: inn.a\nSubject: \
        s\nMessage-ID: <7@inn.example>\n\
                   Date: 21 Nov 2026 05:00:00 GMT\nXref: inn.example inn.a:7\n\nbody\n";
    fs::write(inn.join("articles/inn/a/7"), article).unwrap();
}

#[test]
fn every_command_works_as_written() {
    let needed = [
        ("unshare", "util-linux"),
        ("mount", "mount"),
        ("ip", "iproute2"),
        ("make", "make"),
        ("bash", "bash"),
    ];
    if !installed(&needed) {
        return;
    }
    let may = Command::new("unshare").args(["-Urmn", "ip", "link", "set", "lo", "up"]).output().unwrap();
    if !may.status.success() {
        skipped(&format!("(no namespaces: {})", String::from_utf8_lossy(&may.stderr).trim()), false);
        return;
    }
    let newsreaders = installed(&[("tin", "tin"), ("slrn", "slrn"), ("tmux", "tmux")]);
    let dir = TempDir::new().unwrap();
    checkout(dir.path());
    let page = page();
    let driver = dir.path().join("driver");
    fs::File::create(&driver).unwrap().write_all(script(&page, newsreaders).as_bytes()).unwrap();
    let output = Command::new("unshare")
        .args(["-Urmn", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", text(&driver)])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.ends_with("all was run\n"), "{said}");
    // Every command of the page was logged when it was run.
    for command in page.iter().flat_map(|block| match block {
        Block::Shell(_, commands) => commands.as_slice(),
        _ => &[],
    }) {
        let first = command.lines().next().unwrap_or_default().replace("100 GiB", "64 MiB");
        let reader = first.starts_with("tin ") || first.starts_with("slrn ");
        assert!(said.contains(&format!("+ {first}")) || reader && !newsreaders, "{first}: {said}");
    }
    // As `sudo make install` promises, the installation is complete and needs no compiler.
    let root = dir.path().join("installed");
    for file in ["usr/local/bin/newsreel", "usr/local/lib/systemd/system/newsreel.service"] {
        assert!(root.join(file).is_file(), "{file}: {said}");
    }
}

#[test]
fn make_run_names_the_cargo_that_it_needs() {
    if !installed(&[("make", "make")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    checkout(dir.path());
    let run = |cargo: &str| {
        super::script(&dir.path().join("stubs/cargo"), &format!("#!/bin/sh\n{cargo}\n"));
        let mut make = Command::new("make");
        make.arg("run").env("CARGO", dir.path().join("stubs/cargo")).current_dir(dir.path());
        let output = make.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let of_debian = run("echo cargo 1.63.0");
    assert!(
        of_debian.contains("newsreel needs cargo 1.95, and here is 1.63.0: install rustup"),
        "{of_debian}"
    );
    let none = run("exit 127");
    assert!(none.contains("newsreel needs cargo 1.95, and here is none: install rustup"), "{none}");
}

#[test]
fn installing_before_building_gives_advice() {
    if !installed(&[("make", "make")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    checkout(dir.path());
    fs::remove_file(dir.path().join("target/release/newsreel")).unwrap();
    let mut make = Command::new("make");
    make.arg("install").env("CARGO", "false").env("DESTDIR", dir.path().join("installed"));
    let output = make.env_remove("CARGO_TARGET_DIR").current_dir(dir.path()).output().unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("there is no target/release/newsreel; run \"make build\" first"), "{told}");
    assert!(!dir.path().join("installed").exists());
}
