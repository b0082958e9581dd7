//! `newsreel buffer` with a running server and without one: the spool, the configuration and the files agree.

use crate::client::{Client, article};
use crate::waiting::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

fn newsreel(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.args(arguments).arg("--dir").arg(dir).output().unwrap()
}

fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = newsreel(dir, arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = newsreel(dir, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A served site; killed when dropped.
pub struct Served(Child);

impl Served {
    pub fn start(dir: &Path) -> (Self, std::net::SocketAddr) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
        let child = command.args(["serve", "--dir"]).arg(dir).stderr(Stdio::null()).spawn().unwrap();
        let served = Self(child);
        let listens_at = || {
            let status: serde_json::Value =
                serde_json::from_slice(&newsreel(dir, &["status", "--json"]).stdout).unwrap_or_default();
            status["server"]["listen"][0].as_str().and_then(|address| address.parse().ok())
        };
        (served, wait_for(listens_at, Option::is_some).unwrap())
    }

    pub fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn feed(client: &mut Client, range: std::ops::Range<u32>) {
    for n in range {
        let id = format!("<{n}@x.example>");
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, "local.test", &"text ".repeat(300))));
        assert_eq!(client.line(), format!("239 {id}"));
    }
}

fn rows(dir: &Path) -> Vec<serde_json::Value> {
    serde_json::from_str(&done(dir, &["buffer", "list", "--json"])).unwrap()
}

#[test]
fn buffers_and_configuration_change_together_in_a_running_server() {
    let temp = TempDir::new().unwrap();
    let dir = &temp.path().join("site");
    let init =
        ["init", "--listen", "127.0.0.1:0", "--peer", "127.0.0.1", "--max-age", "none", "--buffer", "1 MiB"];
    done(dir, &init);
    let file = dir.join("newsreel.toml");
    let begin = std::fs::read_to_string(&file).unwrap();
    let (served, address) = Served::start(dir);
    let mut client = Client::greeted(address);
    feed(&mut client, 0..100);

    assert_eq!(
        done(dir, &["buffer", "add", "text2", "--class", "text", "--size", "2 MiB"]),
        "text2 added to class text\n"
    );
    feed(&mut client, 100..200);
    assert_eq!(done(dir, &["buffer", "grow", "text0", "3 MiB"]), "text0 has 3 MiB now\n");
    let elsewhere = temp.path().join("disk2/text1.cyc");
    let told = refused(dir, &["buffer", "move", "text1", elsewhere.to_str().unwrap()]);
    assert!(told.contains("disk2; mount its disk, or make the directory"), "{told}");
    std::fs::create_dir(temp.path().join("disk2")).unwrap();
    let moved = done(dir, &["buffer", "move", "text1", elsewhere.to_str().unwrap()]);
    assert!(moved.starts_with("text1 is in "), "{moved}");
    let retire = || assert_eq!(done(dir, &["buffer", "retire", "text1"]), "text1 accepts no more articles\n");
    retire();
    assert_eq!(done(dir, &["buffer", "use", "text1"]), "text1 accepts articles again\n");
    assert_eq!(rows(dir)[1]["retired"], false);
    retire();
    feed(&mut client, 200..300);
    assert!(refused(dir, &["buffer", "remove", "text1"]).contains("--articles"));
    assert!(refused(dir, &["buffer", "remove", "text2"]).contains("retire it first"));
    assert!(refused(dir, &["buffer", "grow", "text0", "1 MiB"]).contains("cannot shrink"));
    assert!(refused(dir, &["buffer", "add", "x", "--class", "none"]).contains("no class \"none\""));
    assert!(
        refused(dir, &["buffer", "add", "x", "--class", "text", "--path", "text0.cyc"]).contains("in use")
    );

    // The configuration has all changes, and nothing else in it has changed.
    let now = std::fs::read_to_string(&file).unwrap();
    assert!(now.contains("buffers = [\"text0\", \"text1\", \"text2\"]"), "{now}");
    assert!(
        now.contains("path = \"text0.cyc\"\nsize = \"3 MiB\"\n") && now.contains("retired = true"),
        "{now}"
    );
    assert_eq!(now.matches('#').count(), begin.matches('#').count(), "comments stay");
    let listed = rows(dir);
    assert_eq!(listed.len(), 3);
    assert_eq!(
        (&listed[1]["path"], &listed[1]["retired"]),
        (&elsewhere.to_str().unwrap().into(), &true.into())
    );
    assert_eq!((&listed[0]["size_bytes"], &listed[2]["class"]), (&(3 << 20).into(), &"text".into()));
    let status: serde_json::Value = serde_json::from_str(&done(dir, &["status", "--json"])).unwrap();
    for (row, buffer) in listed.iter().zip(status["spool"]["buffers"].as_array().unwrap()) {
        for key in ["name", "size_bytes", "area_bytes"] {
            assert_eq!(row[key], buffer[key], "status and buffer list say the same of a buffer");
        }
    }

    assert!(client.ask("GROUP local.test").starts_with("211 300 "), "all are there");
    for n in 0..300 {
        assert!(client.ask(&format!("STAT <{n}@x.example>")).starts_with("223 "), "{n}");
    }
    assert!(done(dir, &["buffer", "remove", "text1", "--articles"]).starts_with("text1 removed"));
    let left = client.ask("GROUP local.test");
    assert!(!left.starts_with("211 300 ") && !left.starts_with("211 0 "), "{left}");
    assert!(done(dir, &["verify"]).contains("all is well"));
    served.stop();

    // Commands work alike without a server, and after a restart.
    assert_eq!(done(dir, &["buffer", "grow", "text2", "4 MiB"]), "text2 has 4 MiB now\n");
    let (served, address) = Served::start(dir);
    let mut client = Client::greeted(address);
    assert_eq!(client.ask("GROUP local.test"), left);
    feed(&mut client, 300..330);
    assert_eq!(rows(dir).len(), 2);
    assert!(done(dir, &["verify"]).contains("all is well"));
    served.stop();
}

#[test]
fn buffers_stay_unchanged_if_the_configuration_cannot_be_written() {
    let temp = TempDir::new().unwrap();
    let dir = &temp.path().join("site");
    done(dir, &["init", "--listen", "127.0.0.1:0", "--buffer", "1 MiB"]);
    let (served, _) = Served::start(dir);
    let file = dir.join("newsreel.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    // The operator is editing the file.
    std::fs::write(
        &file,
        format!("{text}\n[[buffer]]\nname = \"x\"\npath = \"x.cyc\"\nsize = \"1 MB\"\nbloc = 1\n"),
    )
    .unwrap();
    let config = dir.join("served.toml");
    std::fs::write(&config, &text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_newsreel"))
        .args(["buffer", "grow", "text0", "2 MiB", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("[[buffer]] has no key `bloc`"), "{told}");
    std::fs::write(&file, &text).unwrap();
    assert_eq!(rows(dir)[0]["size_bytes"], 1 << 20);
    served.stop();
}
