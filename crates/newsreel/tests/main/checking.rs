//! Sites that cannot serve as configured: `check` reports each fault before `serve` would fail.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use disk::{Disk, OpenMode, RealDisk};
use rcgen::{CertificateParams, KeyPair};
use rustix::net::{self, AddressFamily, SocketType};
use tempfile::TempDir;

use crate::clients::installed;
use crate::operated::Operated;

/// A site with a moderated group, on a free port.
struct Broken {
    home: TempDir,
    text: String,
}

impl Broken {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let groups = home.path().join("groups");
        fs::write(&groups, "local.test\nlocal.news m\n").unwrap();
        let mut init = command();
        init.args(["init", "--buffer", "256 KiB", "--listen", "127.0.0.1:0"]);
        init.args(["--path-identity", "news.example.org", "--dir"]).arg(home.path().join("site"));
        let output = init.arg("--groups").arg(&groups).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(home.path().join("site/newsreel.toml")).unwrap();
        let site = Self { home, text };
        // A mail program that always succeeds.
        let text = format!("{}\n[moderation]\nsendmail = \"/bin/true %s\"\n", site.text);
        let text = text + "[[moderator]]\ngroups = \"local.news\"\naddress = \"mod@example.org\"\n";
        Self { text, ..site }
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("site")
    }

    /// Runs `check` with this configuration of the site.
    fn check(&self, text: &str) -> Output {
        let file = self.dir().join("newsreel.toml");
        fs::write(&file, text).unwrap();
        command().args(["check", "--config"]).arg(&file).output().unwrap()
    }

    /// Checks with `from` replaced by `to`; the report must contain all of `expected`.
    fn finds(&self, from: &str, to: &str, expected: &[&str]) {
        assert!(self.text.contains(from), "{from}: {}", self.text);
        refuses(&self.check(&self.text.replacen(from, to, 1)), expected);
    }

    /// Checks with text added at the end.
    fn finds_in(&self, more: &str, expected: &[&str]) {
        refuses(&self.check(&format!("{}\n{more}", self.text)), expected);
    }

    /// Checks the site as it is.
    fn finds_now(&self, expected: &[&str]) {
        refuses(&self.check(&self.text), expected);
    }

    fn passes(&self) -> String {
        let output = self.check(&self.text);
        assert!(output.status.success(), "{output:?}");
        told(&output)
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    command.env_remove("NEWSREEL_CONFIG");
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn refuses(output: &Output, expected: &[&str]) {
    let text = told(output);
    assert!(!output.status.success(), "it passed: {expected:?}: {text}");
    assert!(!text.contains("no errors"), "{text}");
    let mut said: Vec<&str> = text.lines().filter(|line| line.starts_with("  - ")).collect();
    let all = said.len();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), all, "one thing is said twice: {text}");
    for expected in expected {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

const LISTEN: &str = "listen = [\"127.0.0.1:0\"]";

#[test]
fn check_reports_unusable_addresses() {
    let site = Broken::new();
    let text = site.passes();
    assert!(text.contains("newsreel.toml: no errors") && !text.contains("Problems"), "{text}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let at = |host: &str| format!("listen = [\"{host}:{port}\"]");
    site.finds(LISTEN, &at("127.0.0.1"), &["cannot listen on 127.0.0.1:", "already in use"]);
    drop(taken);
    site.finds(LISTEN, &at("192.0.2.1"), &["cannot listen on 192.0.2.1:"]);
    site.finds(LISTEN, &at("no.such.host.invalid"), &["cannot listen on no.such.host.invalid:"]);
    // Bound here, but not listening: the port may be listened on, and the system does not assign it to
    // others.
    let ours = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&ours, true).unwrap();
    net::bind(&ours, &SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    let port = TcpListener::from(ours.try_clone().unwrap()).local_addr().unwrap().port();
    let both = format!("listen = [\"0.0.0.0:{port}\", \"127.0.0.1:{port}\"]");
    site.finds(LISTEN, &both, &["in use", &format!("this configuration has 0.0.0.0:{port} as well")]);
    let twice = format!("listen = [\"127.0.0.1:{port}\"]\ntls_listen = [\"127.0.0.1:{port}\"]");
    site.finds(LISTEN, &twice, &["tls_listen", &format!("`127.0.0.1:{port}`"), "already"]);
    // All faults are reported at once.
    let two = format!("listen = [\"192.0.2.1:{port}\", \"no.such.host.invalid:119\"]");
    site.finds(LISTEN, &two, &["192.0.2.1", "no.such.host.invalid", "2 problems"]);
}

/// Checks a valid configuration; the warnings must contain all of `expected`.
fn warns(site: &Broken, text: &str, expected: &[&str]) {
    let output = site.check(text);
    let said = told(&output);
    assert!(output.status.success() && said.contains("Warnings:"), "{said}");
    for expected in expected {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn check_warns_of_probable_mistakes() {
    let site = Broken::new();
    let peer = |name: &str, more: &str| format!("\n[[peer]]\nname = \"{name}\"\n{more}\n");
    let and = |more: &str| format!("{}\n{more}", site.text);
    let own = peer("NEWS.example.org", "addresses = [\"192.0.2.1\"]");
    warns(&site, &and(&own), &["peer NEWS.example.org has a name of this server"]);
    let buffer = "\n[[buffer]]\nname = \"idle\"\npath = \"idle.cyc\"\nsize = \"256 KiB\"\n";
    warns(&site, &and(buffer), &["buffer idle belongs to no class"]);
    let one = peer("a.example", "addresses = [\"192.0.2.0/24\"]");
    let other = peer("b.example", "addresses = [\"198.51.100.1\", \"192.0.2.7\"]");
    warns(
        &site,
        &and(&(one.clone() + &other)),
        &["peers a.example and b.example both connect from 192.0.2.7"],
    );
    let with_user = one + "user = \"a\"\n" + &other;
    assert!(!told(&site.check(&and(&with_user))).contains("both connect from"));
    let password = site.dir().join("up.password");
    let upstream = "\n[[upstream]]\nname = \"up\"\nhost = \"127.0.0.1:11190\"\nuser = \"u\"\n\
                    password_file = \"up.password\"\n";
    refuses(&site.check(&and(upstream)), &["up.password"]);
    fs::write(&password, "secret\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).unwrap();
    warns(&site, &and(upstream), &["password file", "up.password can be read by everyone"]);
    fs::set_permissions(&password, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(!told(&site.check(&and(upstream))).contains("can be read by everyone"));
}

/// Runs `check` as an unprivileged user.
fn check_as_nobody(site: &Broken, text: &str) -> Output {
    let file = site.dir().join("newsreel.toml");
    fs::write(&file, text).unwrap();
    let mut check = Command::new("setpriv");
    check.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_newsreel"), "check"]);
    check.env_remove("NEWSREEL_CONFIG").arg("--config").arg(&file).output().unwrap()
}

#[test]
fn check_reports_missing_permissions() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !installed(&[("setpriv", "util-linux")]) {
        return;
    }
    let site = Broken::new();
    fs::set_permissions(site.home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(site.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(site.dir().join("newsreel.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    refuses(
        &check_as_nobody(&site, &site.text),
        &["site cannot be written to: Permission denied", "cannot read journal in "],
    );
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() > 1 {
        let text = site.text.replace(LISTEN, "listen = [\"127.0.0.1:1\"]");
        refuses(
            &check_as_nobody(&site, &text),
            &["cannot listen on 127.0.0.1:1: Permission denied", "CAP_NET_BIND"],
        );
    }
}

/// Writes a certificate valid in these years, and its key, as `name.crt` and `name.key` of the site.
fn certificate(site: &Broken, name: &str, years: (i32, i32)) {
    let mut params = CertificateParams::new(vec!["news.example.org".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    let key = KeyPair::generate().unwrap();
    fs::write(site.dir().join(format!("{name}.crt")), params.self_signed(&key).unwrap().pem()).unwrap();
    let file = site.dir().join(format!("{name}.key"));
    fs::write(&file, key.serialize_pem()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn check_reports_invalid_certificates() {
    let site = Broken::new();
    let tls =
        |certificate: &str, key: &str| format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");
    certificate(&site, "good", (2020, 2090));
    certificate(&site, "old", (2020, 2021));
    certificate(&site, "future", (2090, 2091));
    assert!(site.check(&format!("{}\n{}", site.text, tls("good.crt", "good.key"))).status.success());
    site.finds_in(&tls("none.crt", "good.key"), &["cannot read the certificate", "none.crt"]);
    site.finds_in(&tls("good.crt", "none.key"), &["cannot read the key", "none.key"]);
    site.finds_in(&tls("good.crt", "old.key"), &["old.key is not the key of", "good.crt"]);
    site.finds_in(&tls("old.crt", "old.key"), &["old.crt expired", "ago"]);
    site.finds_in(&tls("future.crt", "future.key"), &["future.crt is not valid before"]);
    site.finds_in(&tls("newsreel.toml", "good.key"), &["holds no certificate"]);
    let authority = tls("good.crt", "good.key") + "client_ca = \"none.pem\"\n";
    site.finds_in(&authority, &["none.pem"]);
}

#[test]
fn check_reports_unusable_buffers() {
    let site = Broken::new();
    let dir = site.dir();
    let path = "path = \"text1.cyc\"";
    site.finds(path, "path = \"gone.cyc\"", &["buffer \"text1\" is missing", "mount its disk"]);
    assert!(!dir.join("gone.cyc").exists());
    site.finds(path, "path = \"disk2/text1.cyc\"", &["buffer \"text1\" has no directory", "disk2"]);
    assert!(!dir.join("disk2").exists());
    site.finds(path, "path = \"lists\"", &["lists", "neither a file nor a block device"]);
    site.finds(path, "path = \"text0.cyc\"", &["path `text0.cyc`"]);
    site.finds(path, "path = \"lists/../text0.cyc\"", &["are the same file"]);
    symlink("text0.cyc", dir.join("link")).unwrap();
    site.finds(path, "path = \"link\"", &["\"text0\" and \"text1\" are the same file"]);
    fs::write(dir.join("foreign"), "dear diary".repeat(1000)).unwrap();
    site.finds(path, "path = \"foreign\"", &["foreign holds something that is not a newsreel buffer"]);
    site.finds("size = \"256 KiB\"", "size = \"128 KiB\"", &["buffer \"text0\"", "cannot be made smaller"]);
    site.finds("size = \"256 KiB\"", "block = \"4 KiB\"", &["was made with blocks of 64 bytes"]);
    site.finds("size = \"256 KiB\"", "size = \"900 TiB\"", &["the disk is too small", "needed", "free"]);
    // A buffer of another site.
    let other = Broken::new();
    let foreign = format!("path = \"{}\"", other.dir().join("text1.cyc").display());
    site.finds(path, &foreign, &["the secret in", "is not the one"]);
    // A buffer that is held open.
    let disk = RealDisk::new();
    let held = disk.open(&dir.join("text0.cyc"), OpenMode::Existing).unwrap();
    held.try_lock().unwrap();
    site.finds_now(&["text0.cyc is in use"]);
    drop(held);
    // A truncated buffer.
    fs::File::options().write(true).open(dir.join("text1.cyc")).unwrap().set_len(100_000).unwrap();
    site.finds_now(&["buffer \"text1\" is cut off"]);
}

#[test]
fn check_reports_an_unusable_directory() {
    let site = Broken::new();
    let dir = site.dir();
    let data = |path: &str| format!("[site]\ndata = \"{path}\"");
    site.finds("[site]", &data("newsreel.toml"), &["newsreel.toml is not a directory"]);
    site.finds("[site]", &data(&"long/".repeat(40)), &["control socket", "107 are possible"]);
    let lock = RealDisk::new().lock(&dir.join("lock")).unwrap();
    let process = format!("is in use by process {}, which does not answer", std::process::id());
    site.finds_now(&[&process]);
    drop(lock);
    fs::write(dir.join("users"), "rubbish").unwrap();
    site.finds_now(&["users"]);
    fs::remove_file(dir.join("users")).unwrap();
    fs::create_dir(dir.join("lists/distributions")).unwrap();
    site.finds_now(&["cannot read", "lists/distributions"]);
    fs::remove_dir_all(dir.join("lists")).unwrap();
    assert!(site.passes().contains("there is no directory"), "{}", site.passes());
    fs::write(dir.join("lists"), "").unwrap();
    site.finds_now(&["lists", "is not a directory"]);
}

#[test]
fn check_reports_missing_programs() {
    let site = Broken::new();
    let program = |name: &str| format!("[[authenticator]]\nprogram = [\"{name}\"]\n");
    let script = site.dir().join("check.sh");
    let name = script.to_str().unwrap();
    site.finds_in(&program(name), &["[[authenticator]] 1", "there is no", "check.sh"]);
    fs::write(&script, "#!/bin/sh\n").unwrap();
    site.finds_in(&program(name), &["check.sh may not be executed"]);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(site.check(&format!("{}\n{}", site.text, program(name))).status.success());
    site.finds_in(&program("/tmp"), &["/tmp is a directory"]);
    let mail = "sendmail = \"/bin/true %s\"";
    let none = "sendmail = \"/usr/sbin/no-such-mailer %s\"";
    site.finds(mail, none, &["the moderated group local.news", "/usr/sbin/no-such-mailer", "smtp"]);
    site.finds(mail, "sendmail = \"no-such-mailer %s\"", &["there is no no-such-mailer in "]);
    // A site that mails nothing needs no mail program.
    let removed =
        command().args(["group", "remove", "local.news", "--dir"]).arg(site.dir()).output().unwrap();
    assert!(removed.status.success());
    let nothing = site.text.replace(mail, none);
    assert!(site.check(&nothing).status.success());
    // Links to passwords are mailed, too.
    let links = format!("{nothing}\n[web]\nreset_by_mail = true\n");
    refuses(&site.check(&links), &["links to accounts", "/usr/sbin/no-such-mailer", "smtp"]);
}

#[test]
fn check_reports_limits_beyond_the_machine() {
    let site = Broken::new();
    let script = "ulimit -n 300 && exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_newsreel"), "check", "--dir"])
        .arg(site.dir())
        .output()
        .unwrap();
    refuses(&output, &["the hard limit of open files is 300", "connections_max"]);
    // Few clients, but more connections to peers than files that may be open.
    let peers = (0..40).map(|n| {
        format!("[[peer]]\nname = \"p{n}\"\n[peer.send]\nto = \"192.0.2.1:119\"\nconnections = 8\n")
    });
    let peers = format!("{}\n{}[limits]\nconnections_max = 20\n", site.text, peers.collect::<String>());
    fs::write(site.dir().join("newsreel.toml"), peers).unwrap();
    let limited = |limit| {
        let script = format!("ulimit -n {limit} && exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_newsreel"), "check", "--dir"]);
        command.arg(site.dir()).output().unwrap()
    };
    refuses(&limited(300), &["the hard limit of open files is 300", "(322 for feeds"]);
    let output = limited(500);
    assert!(output.status.success() && told(&output).contains("(322 for feeds"), "{output:?}");
    let output = limited(600);
    assert!(output.status.success() && !told(&output).contains("open files is"), "{output:?}");
    let class = "[[class]]\nname = \"quick\"\nmethod = \"memory\"\nsize = \"900 TiB\"\n";
    let rule = "[[rule]]\nclass = \"text\"\n";
    let quick = format!("{class}\n[[rule]]\nclass = \"quick\"\ngroups = \"local.*\"\n\n{rule}");
    site.finds(rule, &quick, &["the classes of method \"memory\" take 900"]);
}

#[test]
fn check_reports_missing_groups() {
    let site = Broken::new();
    let rule = "[[rule]]\nclass = \"text\"\n";
    let never = format!("[[rule]]\nclass = \"text\"\ngroups = \"alt.*\"\n\n{rule}");
    let controls = "\n[[control]]\ntype = \"rmgroup\"\ngroups = \"gone.*\"\naction = \"do\"\n\
                    [[control]]\ntype = \"newgroup\"\ngroups = \"coming.*\"\naction = \"do\"\n";
    let output = site.check(&(site.text.replacen(rule, &never, 1) + controls));
    assert!(output.status.success(), "{output:?}");
    let text = told(&output);
    assert!(
        text.contains("[[control]] 1 is for groups \"gone.*\"") && !text.contains("coming"),
        "newgroup is for groups that are to come: {text}"
    );
    assert!(
        text.contains("[[rule]] 1 is for groups \"alt.*\", but no group that is carried matches"),
        "{text}"
    );
    fs::write(site.dir().join("lists/subscriptions"), "local.test\nlocal.gone\n").unwrap();
    assert!(site.passes().contains("names the group local.gone, which is not carried"));
    let removed = command().args(["group", "remove", "junk", "--dir"]).arg(site.dir()).output().unwrap();
    assert!(removed.status.success());
    site.finds("[site]", "[site]\nunknown_groups = \"junk\"", &["there is no group junk"]);
}

#[test]
fn summary_names_upstreams_and_what_they_are_asked_for() {
    let mut site = Broken::new();
    site.text.push_str(
        "\n[[upstream]]\nname = \"isp\"\nhost = \"news.isp.example:119\"\ngroups = \"*,!alt.*\"\n\
         [[upstream]]\nname = \"blocks\"\nhost = \"news.blocks.example:119\"\nfill = true\noffline = true\n\
         [[upstream]]\nname = \"poster\"\nhost = \"news.poster.example:119\"\ngroups = \"\"\npost = \"*\"\n\
         [[upstream]]\nname = \"second\"\nhost = \"news.second.example:119\"\ngroups = \"*,!alt.*\"\n",
    );
    let told = site.passes();
    for line in [
        "  upstreams  4; 2 number groups, 1 fills in, 1 only takes posts",
        "  upstream   second: numbers no group, as isp has the same groups; name its own with groups, or set fill = \
         true, at news.second.example:119",
        "  upstream   isp: numbers *,!alt.*, at news.isp.example:119",
        "  upstream   blocks: fills in by Message-ID, at news.blocks.example:119, offline",
        "  upstream   poster: only takes posts, at news.poster.example:119",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    assert!(!told.contains("nobody may feed articles"), "{told}");
}

#[test]
fn check_passes_while_the_server_runs() {
    let site = crate::clients::site::Site::start("local.test\n");
    let output = site.run(&["check"]);
    assert!(output.status.success(), "{output:?}");
    let text = told(&output);
    assert!(!text.contains("in use") && !text.contains("Problems"), "{text}");
}

/// Opening the pipe would wait for the other end forever.
#[test]
fn check_reports_a_pipe_in_place_of_a_file() {
    let site = Broken::new();
    let groups = site.dir().join("groups");
    fs::remove_file(&groups).unwrap();
    assert!(Command::new("mkfifo").arg(&groups).status().unwrap().success());
    refuses(&site.check(&site.text), &["groups is neither a file nor a block device"]);
    let served =
        command().args(["serve", "--config"]).arg(site.dir().join("newsreel.toml")).output().unwrap();
    refuses(&served, &["groups is neither a file nor a block device"]);
}

/// The file of a new site is also checked before the site exists.
#[test]
fn check_does_not_create_a_missing_site() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("newsreel.toml");
    let text = "[site]\npath_identity = \"news.example.org\"\nlisten = [\"127.0.0.1:0\"]\ndata = \"data\"\n\
                [[buffer]]\nname = \"a\"\npath = \"a.cyc\"\nsize = \"1 MiB\"\n[[class]]\nname = \
                \"text\"\nbuffers = [\"a\"]\n\
                [[rule]]\nclass = \"text\"\n";
    fs::write(&file, text).unwrap();
    let check = || command().args(["check", "--config"]).arg(&file).output().unwrap();
    // The only problem is that the site has not been created.
    let output = check();
    refuses(&output, &["there is no spool in ", "newsreel init --dir "]);
    assert!(told(&output).contains(": 1 problem"), "{output:?}");
    fs::write(&file, text.replace("1 MiB", "900 TiB")).unwrap();
    refuses(&check(), &["the disk is too small"]);
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [Path::new("newsreel.toml")]);
}

#[test]
fn doctor_has_a_line_for_each_check() {
    let site = Operated::new();
    site.edit(|text| text + "\n[web]\nlisten = [\"127.0.0.1:0\"]\n");
    let serving = site.serve();
    let lines =
        |output: &Output| -> Vec<serde_json::Value> { serde_json::from_slice(&output.stdout).unwrap() };
    let output = site.run(&["doctor", "--offline", "--json"]);
    let all = lines(&output);
    let of = |about: &str| {
        all.iter().find(|line| line["about"] == about).unwrap_or_else(|| panic!("{about}: {all:#?}"))
    };
    for about in
        ["site", "spool", "limits", "disk", "memory", "clock", "owner", "secrets", "service", "certificate"]
    {
        assert_ne!(of(about)["health"], "fault", "{all:#?}");
    }
    assert!(
        of("server")["text"].as_str().unwrap().contains(&format!("process {}", serving.pid())),
        "{all:#?}"
    );
    let ports = of("ports")["text"].as_str().unwrap();
    assert!(ports.contains(&format!("{} greets: ", serving.address)), "{all:#?}");
    assert!(ports.contains(" answers browsers"), "{all:#?}");
    assert!(output.status.success(), "{all:#?}");
    serving.stop();
    // The response to a lookup of a nonexistent name, and its delay, depend on the resolver.
    site.edit(|text| {
        text + "[[peer]]\nname = \"p\"\n[peer.send]\nto = \"peer.invalid:119\"\ngroups = \"*\"\n"
    });
    let found = site.run(&["doctor"]);
    let text = told(&found);
    assert!(text.contains("peer p, peer.invalid:119"), "{text}");
    fs::remove_file(site.dir().join("text1.cyc")).unwrap();
    let text = told(&site.run(&["doctor", "--offline"]));
    assert!(text.contains("FAULT    spool") && text.contains("text1"), "{text}");
    assert!(text.contains("ok       server") && text.contains("does not run"), "{text}");
}
