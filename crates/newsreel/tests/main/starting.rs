//! A spool that another process briefly has open: server and commands wait for each other instead of failing.

use crate::waiting::wait_for;
use disk::{Disk, RealDisk};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

fn newsreel(dir: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).arg("--dir").arg(dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    newsreel(dir, arguments).wait_with_output().unwrap()
}

/// Creates a site with its own port.
fn site() -> TempDir {
    let dir = TempDir::new().unwrap();
    assert!(run(dir.path(), &["init"]).status.success());
    let file = dir.path().join("newsreel.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let listen = text.lines().find(|line| line.starts_with("listen = ")).unwrap().to_owned();
    let tls = text.lines().find(|line| line.starts_with("tls_listen = ")).map(str::to_owned);
    let mut text = text.replace(&listen, "listen = [\"127.0.0.1:0\"]");
    if let Some(tls) = tls {
        text = text.replace(&tls, "");
    }
    std::fs::write(file, text).unwrap();
    dir
}

#[test]
fn command_waits_for_the_process_with_the_spool() {
    let dir = site();
    let lock = RealDisk::new().lock(&dir.path().join("lock")).unwrap();
    let mut status = newsreel(dir.path(), &["status"]);
    let mut told = BufReader::new(status.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waits = format!("(process {}); waiting for it", std::process::id());
    assert!(told.any(|line| line.contains(&waits)), "it did not wait");
    drop(lock);
    let output = status.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", told.collect::<Vec<_>>());
    assert!(String::from_utf8_lossy(&output.stdout).contains("no server runs"));
}

#[test]
fn server_waits_for_a_command_but_not_for_another_server() {
    let dir = site();
    let lock = RealDisk::new().lock(&dir.path().join("lock")).unwrap();
    let mut first = newsreel(dir.path(), &["serve"]);
    let mut log = BufReader::new(first.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("waiting for it for up to 60 s")), "it did not wait");
    // A command started while the server waits also waits, and is answered by the server or before it.
    let early = newsreel(dir.path(), &["status", "--json"]);
    drop(lock);
    let early = early.wait_with_output().unwrap();
    assert!(early.status.success(), "{}", String::from_utf8_lossy(&early.stderr));
    let status = || -> serde_json::Value {
        let told = run(dir.path(), &["status", "--json"]);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        serde_json::from_slice(&told.stdout).unwrap()
    };
    wait_for(status, |status| status["server"]["pid"] == first.id());
    let output = run(dir.path(), &["serve"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("in use by another newsreel process"));
    assert!(Command::new("kill").arg(first.id().to_string()).status().unwrap().success());
    assert!(first.wait().unwrap().success());
}

/// A killed process holds the lock, and its socket accepts connections, until its memory is released.
#[test]
fn commands_wait_for_a_killed_server_to_end() {
    let dir = site();
    let lock = RealDisk::new().lock(&dir.path().join("lock")).unwrap();
    let socket = UnixListener::bind(dir.path().join("control")).unwrap();
    let mut serving = newsreel(dir.path(), &["serve"]);
    let mut log = BufReader::new(serving.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("waiting for it for up to 60 s")), "it did not wait");
    let mut command = newsreel(dir.path(), &["status", "--json"]);
    let mut said = BufReader::new(command.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting for it for up to 60 s")), "it did not wait");
    drop(socket);
    drop(lock);
    assert!(log.any(|line| line.contains("listening")));
    let told = command.wait_with_output().unwrap();
    assert!(told.status.success());
    serving.kill().unwrap();
    serving.wait().unwrap();
}
