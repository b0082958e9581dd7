//! Small damage around a server that continues to serve: a log that cannot be written, a posting secret with
//! a wrong bit. Also how `init` protects against power failures.

use crate::client::Client;
use crate::clients::installed;
use crate::running::Server;
use crate::waiting::wait_until;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn newsreel(arguments: &[&str], dir: &Path, stderr: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).arg("--dir").arg(dir).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(stderr).spawn().unwrap()
}

/// Returns an address that is free now; no other test uses ports there.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.5:0").unwrap().local_addr().unwrap()
}

/// Serves a new site with this standard error, with some clients, some of which are logged.
fn serves_with(stderr: impl Fn() -> Stdio) {
    let dir = TempDir::new().unwrap();
    let address = free_address();
    let listen = address.to_string();
    let arguments = ["init", "--listen", &listen, "--buffer", "1 MiB"];
    assert!(newsreel(&arguments, dir.path(), stderr()).wait().unwrap().success());
    let file = dir.path().join("newsreel.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("[site]\n", "[site]\nlog_level = \"trace\"\n", 1)).unwrap();
    let mut server = newsreel(&["serve"], dir.path(), stderr());
    wait_until("it listens", || {
        assert_eq!(server.try_wait().unwrap(), None, "it ended");
        std::net::TcpStream::connect(address).is_ok()
    });
    for _ in 0..5 {
        let mut client = Client::greeted(address);
        client.send("AUTHINFO USER nobody\r\nGROUP local.test\r\nNONSENSE\r\nQUIT\r\n");
        let codes: Vec<String> = (0..4).map(|_| client.line()[..3].to_owned()).collect();
        assert_eq!((codes[1].as_str(), codes[2].as_str(), codes[3].as_str()), ("211", "500", "205"));
    }
    assert_eq!(server.try_wait().unwrap(), None, "it ended");
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM)
        .unwrap();
    assert!(server.wait().unwrap().success());
}

#[test]
fn full_log_disk_stops_neither_a_start_nor_a_connection() {
    serves_with(|| File::options().write(true).open("/dev/full").unwrap().into());
}

#[test]
fn closed_log_pipe_stops_neither_a_start_nor_a_connection() {
    serves_with(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer.into()
    });
}

fn post(client: &mut Client, id: &str) -> String {
    client.send("POST\r\n");
    assert!(client.line().starts_with("340"));
    client.send(format!(
        "From: A <a@site.example>\r\nNewsgroups: misc.test\r\nSubject: s\r\nMessage-ID: {id}\r\n\r\nbody\r\n.\r\n"
    ));
    client.line()
}

#[test]
fn damaged_posting_secret_disables_only_posting_until_repaired() {
    // The server reads the secret when it starts, so it starts with the damaged one.
    let mut whole = String::new();
    let server = Server::start_with(|text| {
        let data = text.lines().find_map(|line| line.strip_prefix("data = ")).unwrap().trim_matches('"');
        std::fs::create_dir_all(data).unwrap();
        whole = format!("{}\n", "0123456789abcdef".repeat(4));
        let mut damaged = whole.clone().into_bytes();
        damaged[20] ^= 0x40;
        std::fs::write(Path::new(data).join("posting-secret"), damaged).unwrap();
        text
    });
    let mut client = server.client();
    client.send("GROUP misc.test\r\n");
    assert!(client.line().starts_with("211"));
    let answer = post(&mut client, "<one@site.example>");
    assert!(answer.starts_with("441") && answer.contains("posting secret"), "{answer}");
    std::fs::write(server.data().join("posting-secret"), whole).unwrap();
    let answer = post(&mut client, "<one@site.example>");
    assert!(answer.starts_with("240"), "{answer}");
}

/// Returns the paths below `dir` that `init` made, and those it synced, as the kernel saw it.
fn made_and_synced(trace: &str, dir: &Path) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let below = |path: &str| Some(PathBuf::from(path)).filter(|path| path.starts_with(dir));
    let quoted = |line: &str| line.split('"').skip(1).step_by(2).last().and_then(below);
    let opened = |line: &str| line.split('<').nth(1).and_then(|rest| below(rest.split('>').next()?));
    let lines = || trace.lines().filter(|line| !line.contains(" = -1 "));
    let makes =
        |line: &&str| ["O_CREAT", "mkdir", "linkat(", "rename("].iter().any(|call| line.contains(call));
    let syncs = |line: &&str| line.contains("sync(");
    (lines().filter(makes).filter_map(quoted).collect(), lines().filter(syncs).filter_map(opened).collect())
}

#[test]
fn init_syncs_every_new_file_and_directory() {
    if !installed(&[("strace", "strace")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    // The kernel names paths without links.
    let top = dir.path().canonicalize().unwrap();
    let (site, log) = (top.join("a/site"), top.join("trace"));
    let calls = "trace=openat,mkdir,rename,linkat,fsync,fdatasync";
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "4096", "-e", calls, "-o"]).arg(&log).arg(env!("CARGO_BIN_EXE_newsreel"));
    command.args(["init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--buffer", "1 MiB"]);
    let output = command.arg("--dir").arg(&site).output().unwrap();
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("ptrace") {
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (made, synced) = made_and_synced(&std::fs::read_to_string(log).unwrap(), &top);
    // The lock has no contents, and the index of history is rebuilt after a power failure.
    let needed =
        |path: &&PathBuf| !path.ends_with("lock") && !path.to_string_lossy().contains("history/index-");
    for path in made.iter().filter(needed) {
        let parent = path.parent().unwrap().to_owned();
        assert!(synced.contains(&parent) || path.is_dir(), "the name of {} was not synced", path.display());
        // Renamed and linked files were synced under their first name.
        let is_synced = |synced: &PathBuf| {
            let (name, path) = (synced.to_string_lossy().into_owned(), path.to_string_lossy());
            synced.as_path() == Path::new(&*path) || name.starts_with(&format!("{path}."))
        };
        let is_empty_dir = path.is_dir() && std::fs::read_dir(path).unwrap().next().is_none();
        let is_history = path.ends_with("history");
        assert!(
            is_empty_dir || is_history || synced.iter().any(is_synced),
            "{} was not synced",
            path.display()
        );
    }
    assert!(made.len() > 15 && synced.contains(&top) && synced.contains(&top.join("a")), "{made:?}");
}
