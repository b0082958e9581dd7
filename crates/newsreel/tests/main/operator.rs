//! Operators' commands on a site that is served, whose configuration has a fault, or that belongs to another
//! user.

use crate::clients::{installed, skipped};
use crate::operated::{Operated, complaints};
use crate::waiting::PATIENCE;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A user who does not own the site.
const NOBODY: u32 = 65_534;

fn pid_in(status: &Output) -> u64 {
    let told: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
    told["server"]["pid"].as_u64().unwrap_or_else(|| panic!("{}", complaints(status)))
}

#[test]
fn running_server_answers_despite_a_faulty_configuration() {
    let site = Operated::new();
    fs::create_dir(site.dir().join("spool")).unwrap();
    site.edit(|text| text.replacen("[site]\n", "[site]\ndata = \".\"\n", 1));
    let serving = site.serve();
    let right = fs::read_to_string(site.dir().join("newsreel.toml")).unwrap();
    for fault in [
        right.replacen("[site]\n", "[site]\nno_such_key = 1\n", 1),
        right.replacen("durability = ", "durability = \"perhaps\" # ", 1),
        format!("{right}\n[[peer]]\nname = \"unfinished\n"),
        right.replacen("[[class]]", "[[clas]]", 1),
    ] {
        site.edit(|_| fault);
        let status = site.run(&["status", "--json"]);
        assert!(status.status.success(), "{}", complaints(&status));
        assert_eq!(pid_in(&status), u64::from(serving.pid()));
        assert!(complaints(&status).contains("newsreel check shows them"), "{}", complaints(&status));
        let ordered = complaints(&site.run(&["ctl", "reload"]));
        assert!(ordered.contains("The server runs on with what it read before"), "{ordered}");
        // Commands that need the configuration itself still report the fault.
        assert_eq!(site.run(&["check"]).status.code(), Some(2));
    }
    drop(serving);
    let status = site.run(&["status"]);
    assert_eq!(status.status.code(), Some(2));
    assert!(complaints(&status).contains("did you mean"), "{}", complaints(&status));
}

#[test]
fn changed_configuration_is_compared_and_reloaded() {
    let site = Operated::new();
    let serving = site.serve();
    let compared = || {
        let said = site.done(&["check", "--diff"]);
        let (file, differences) = said.split_once(" compared with the running server: ").unwrap();
        assert_eq!(file, site.dir().join("newsreel.toml").to_str().unwrap());
        differences.to_owned()
    };
    assert_eq!(compared(), "no change\n");
    assert!(site.done(&["ctl", "reload"]).ends_with("no change\n"));
    site.edit(|text| text.replacen("[site]\n", "[site]\norganization = \"Somewhere\"\n", 1));
    let expected = "1 change\n  [site] organization: none -> \"Somewhere\"\n";
    // Comparing changes nothing.
    assert_eq!((compared(), compared()), (expected.to_owned(), expected.to_owned()));
    assert!(site.done(&["ctl", "reload"]).ends_with(expected));
    assert_eq!(compared(), "no change\n");
    site.edit(|text| text.replacen("Somewhere", "Elsewhere", 1));
    let process = rustix::process::Pid::from_raw(serving.pid().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    let late = Instant::now() + Duration::from_secs(60);
    while compared() != "no change\n" {
        assert!(Instant::now() < late, "SIGHUP had no effect");
    }
    // A change that a reload would refuse is reported, and nothing changes.
    site.edit(|text| text.replacen(".cyc\"", ".other.cyc\"", 1));
    for command in [&["check", "--diff"][..], &["ctl", "reload"]] {
        let refused = site.run(command);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert!(complaints(&refused).contains("newsreel buffer move"), "{refused:?}");
    }
}

/// The server keeps using the directory that it was started with.
#[test]
fn running_server_is_found_if_the_file_names_another_directory() {
    let site = Operated::new();
    let serving = site.serve();
    site.edit(|text| text.replacen("[site]\n", "[site]\ndata = \"elsewhere\"\n", 1));
    let hint = format!("the server runs on {}; data = ", site.dir().canonicalize().unwrap().display());
    let compared = site.run(&["check", "--diff"]);
    let text = String::from_utf8_lossy(&compared.stdout).into_owned() + &complaints(&compared);
    assert!(text.contains(&hint) && text.contains("elsewhere"), "{text}");
    let reload = site.run(&["ctl", "reload"]);
    assert!(complaints(&reload).contains(&hint), "{}", complaints(&reload));
    assert!(!complaints(&reload).contains("no server runs"));
    // Every command works on the spool that is served.
    let status = site.done(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["server"]["pid"], serving.pid());
    site.done(&["group", "add", "misc.new"]);
    assert!(serving.client().ask("GROUP misc.new").starts_with("211 "));
    // The missing spool would prevent the next start.
    let checked = site.run(&["check"]);
    let text = String::from_utf8_lossy(&checked.stdout).into_owned() + &complaints(&checked);
    assert!(text.contains("there is no spool in "), "{text}");
    assert!(!site.dir().join("elsewhere").exists());
    // Also with another fault.
    site.edit(|text| text.replacen("[site]\n", "[site]\nno_such_key = 1\n", 1));
    site.done(&["status"]);
    // The server of another site is not mistaken for this one's.
    let other = Operated::new();
    other.edit(|text| text.replacen("[site]\n", "[site]\ndata = \"elsewhere\"\n", 1));
    let none = other.run(&["ctl", "reload"]);
    assert!(complaints(&none).contains("no server runs on "), "{}", complaints(&none));
}

#[test]
fn another_user_gets_advice() {
    if !rustix::process::geteuid().is_root() {
        skipped("(only root can become another user)", false);
        return;
    }
    let site = Operated::new();
    let as_nobody = |arguments: &[&str]| {
        let output = site.command(arguments).uid(NOBODY).gid(NOBODY).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        complaints(&output)
    };
    let expected = |command: &str| {
        let newsreel = env!("CARGO_BIN_EXE_newsreel");
        format!("it belongs to the user root; type: sudo -u root {newsreel} {command} --dir ")
    };
    let _serving = site.serve();
    for command in ["status", "ctl reload", "group list"] {
        let told = as_nobody(&command.split(' ').collect::<Vec<_>>());
        assert!(told.contains("cannot read ") && told.contains(&expected(command)), "{told}");
    }
    // Likewise where only the socket is closed to others.
    let open = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(site.home().to_owned(), 0o755);
    open(site.dir(), 0o755);
    open(site.dir().join("newsreel.toml"), 0o644);
    for command in ["status", "ctl reload"] {
        let told = as_nobody(&command.split(' ').collect::<Vec<_>>());
        assert!(told.contains("the control socket ") && told.contains(&expected(command)), "{told}");
    }
}

#[test]
fn root_is_refused_on_a_site_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        skipped("(only root can give a site away)", false);
        return;
    }
    let site = Operated::new();
    chown(site.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    let refused = |words: &[&str]| {
        let refused = site.run(words);
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        let told = complaints(&refused);
        assert!(
            told.contains("could not read what root makes there; type: runuser -u "),
            "{words:?}: {told}"
        );
    };
    let all: [&[&str]; 6] = [
        &["group", "add", "local.more"],
        &["user", "add", "--no-password", "ann"],
        &["user", "remove", "ann"],
        &["rebuild"],
        &["restore", "no-such-file"],
        &["serve"],
    ];
    all.into_iter().for_each(refused);
    // So is a site whose configuration alone belongs to the other, who could name root's own directories.
    chown(site.dir(), Some(0), Some(0)).unwrap();
    chown(site.dir().join("newsreel.toml"), Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&["user", "add", "--no-password", "ann"]);
}

#[test]
fn young_site_has_no_forecast() {
    let site = Operated::new();
    let article = "From: a@x.example\nPath: x!y\nNewsgroups: local.test\nSubject: s\nMessage-ID: <1@x.example>\n\
                   Date: 15 Apr 2026 12:00:00 GMT\n\nb\n";
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1));
    assert!(site.run_with(&["rnews"], article.as_bytes()).status.success());
    let _serving = site.serve();
    let status = site.done(&["status"]);
    assert!(status.contains("beyond its own bytes: not known yet\n"), "{status}");
    let class = status.lines().find(|line| line.starts_with("text ")).unwrap();
    assert!(class.contains("not known yet"), "{status}");
    let told: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    let spool = &told["spool"];
    assert!(spool["overhead"].is_null() && spool["classes"][0]["stays_secs"].is_null(), "{spool}");
}

#[test]
fn groups_are_imported_with_the_times_of_their_creation() {
    let site = Operated::new();
    let write = |name: &str, text: &str| {
        let file = site.home().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let active = write("active", "comp.a 0000000005 0000000001 y\ncomp.b 0000000000 0000000001 m\n");
    let times = write("active.times", "comp.a 700000000 tale@uunet.example\nold.group 5 x\n");
    site.done(&["group", "import", &active, "--times", &times]);
    let exported = site.done(&["group", "export", "--times"]);
    assert!(exported.contains("comp.a 700000000 tale@uunet.example\n"), "{exported}");
    let serving = site.serve();
    let mut client = serving.client();
    assert!(client.ask("LIST ACTIVE.TIMES comp.*").starts_with("215 "));
    let rows = client.block();
    assert_eq!(rows[0], "comp.a 700000000 tale@uunet.example");
    assert!(rows[1].starts_with("comp.b 1") && rows[1].ends_with(" newsreel"), "{rows:?}");
    // Exported times are read back.
    let other = Operated::new();
    let again = write("times", &exported);
    other.done(&["group", "import", &active, "--times", &again]);
    assert!(other.done(&["group", "export", "--times"]).contains("comp.a 700000000 tale@uunet.example\n"));
    let wrong = other.run(&["group", "import", &active, "--times", &active.replace("active", "log")]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn certificate_of_a_new_site_is_acceptable_to_clients() {
    if !installed(&[("openssl", "openssl")]) {
        return;
    }
    let site = Operated::unmade();
    let init = ["init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--buffer", "1 MiB"];
    site.done(&[&init[..], &["--path-identity", "news.example.org"]].concat());
    let file = site.dir().join("self-signed.crt");
    let openssl = |arguments: &[&str]| {
        let output =
            Command::new("openssl").args(["x509", "-noout", "-in"]).arg(&file).args(arguments).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(openssl(&["-subject"]).1.trim(), "subject=CN = news.example.org");
    for (check, name) in [
        ("-checkhost", "news.example.org"),
        ("-checkhost", "localhost"),
        ("-checkip", "127.0.0.1"),
        ("-checkip", "::1"),
    ] {
        let told = openssl(&[check, name]).1;
        assert!(told.contains("does match"), "{told}");
    }
    let days = |days: u32| openssl(&["-checkend", &(days * 86_400).to_string()]).0;
    assert!(days(0) && days(800) && !days(825), "{}", openssl(&["-dates"]).1);
    let begins = openssl(&["-startdate", "-dateopt", "iso_8601"]).1;
    let now =
        Command::new("date").args(["-u", "-d", "2 hours ago", "+notBefore=%Y-%m-%d %H:%M:%SZ"]).output();
    let two_hours_ago = String::from_utf8(now.unwrap().stdout).unwrap();
    assert!(begins > two_hours_ago, "{begins}");
}

#[test]
fn hanging_servers_of_other_sites_delay_commands_only_briefly() {
    const HANGING: usize = 30;
    let site = Operated::new();
    // With a timeout for each, the command would take as many seconds.
    let sockets: Vec<_> = (0..HANGING)
        .map(|n| {
            let dir = site.home().join(format!("other{n}"));
            fs::create_dir_all(dir.join("journal")).unwrap();
            fs::write(dir.join("lock"), "").unwrap();
            UnixListener::bind(dir.join("control")).unwrap()
        })
        .collect();
    let begun = Instant::now();
    site.done(&["group", "add", "misc.new"]);
    assert!(begun.elapsed() < Duration::from_secs(HANGING as u64 / 2), "{:?}", begun.elapsed());
    drop(sockets);
}

/// Longest wait of an operator for an answer, however many others keep the server waiting.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the server takes to say that it lives and how it is, over one connection as commands do it.
fn asked_in(socket: &Path) -> Duration {
    let begun = Instant::now();
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for request in [&b"{\"do\":\"ping\"}\n"[..], b"{\"do\":\"status\"}\n"] {
        stream.write_all(request).unwrap();
        let mut line = String::new();
        while !line.contains("{\"done\":{\"ok\":true}}") {
            line.clear();
            assert!(answers.read_line(&mut line).unwrap() > 0, "cut off before it was answered");
        }
    }
    begun.elapsed()
}

#[test]
fn silent_control_connections_do_not_block_others() {
    let server = crate::running::Server::start();
    // The server still answers.
    server.status();
    let path = server.data().join("control");
    let usual = asked_in(&path);
    for said in
        [&b""[..], b"{\"do\":", b"{\"do\":\"ping\"}\n", b"{\"do\":\"rnews\"}\n", b"{\"do\":\"import\"}\n"]
    {
        let others = (0..300).map(|_| {
            let mut other = UnixStream::connect(&path).unwrap();
            // The server may have cut it off for those that came since.
            let _cut_off = other.write_all(said);
            other
        });
        let others: Vec<_> = others.collect();
        // The machine may be busy once, and the server's silent clients are there all the time.
        let took = (0..3).map(|_| asked_in(&path)).min().unwrap();
        assert!(took < ANSWER_MAX, "{}: {took:?}, else {usual:?}", said.escape_ascii());
        drop(others);
    }
    assert!(server.status().is_object());
}
