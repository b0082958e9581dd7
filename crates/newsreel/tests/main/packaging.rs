//! The systemd unit and its drop-ins, as parsed by systemd, and compared with each other; man pages and
//! completions, as read by man and bash.

use crate::operated::Operated;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::clients::installed;
use crate::waiting::wait_for;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Returns the drop-ins: name and text.
fn drop_ins() -> Vec<(String, String)> {
    let found = fs::read_dir(packaging().join("newsreel.service.d")).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    found.map(read).collect()
}

/// Checks that systemd has no complaints about the unit with drop-ins.
fn verify(drop_ins: &[(String, String)]) {
    let dir = TempDir::new().unwrap();
    let unit = fs::read_to_string(packaging().join("newsreel.service")).unwrap();
    // The program and the user need not exist on this machine.
    let unit = unit.replace("/usr/bin/newsreel", "/bin/true").replace("=newsreel\n", "=root\n");
    let file = dir.path().join("newsreel.service");
    fs::write(&file, unit).unwrap();
    fs::create_dir(dir.path().join("newsreel.service.d")).unwrap();
    for (name, text) in drop_ins {
        fs::write(dir.path().join("newsreel.service.d").join(name), text).unwrap();
    }
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("newsreel")).collect();
    assert!(output.status.success() && of_ours.is_empty(), "{said}");
}

#[test]
fn systemd_understands_unit_and_drop_ins() {
    if !installed(&[("systemd-analyze", "systemd")]) {
        return;
    }
    let drop_ins = drop_ins();
    verify(&[]);
    drop_ins.iter().for_each(|one| verify(std::slice::from_ref(one)));
    verify(&drop_ins);
}

/// Returns the keys of a unit's text, and their values.
fn keys(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')).collect()
}

/// With any of these a service that is not root's cannot gain rights, whatever NoNewPrivileges says
/// (systemd.exec(5)), and neither can a setuid or setgid mailer.
const IMPLY_NO_NEW_PRIVILEGES: [&str; 14] = [
    "LockPersonality",
    "MemoryDenyWriteExecute",
    "NoNewPrivileges",
    "PrivateDevices",
    "ProtectClock",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "SystemCallArchitectures",
];

#[test]
fn refused_reload_fails_for_systemd_too() {
    let unit = fs::read_to_string(packaging().join("newsreel.service")).unwrap();
    let (_, command) = *keys(&unit).iter().find(|(key, _)| *key == "ExecReload").unwrap();
    let site = Operated::new();
    let serving = site.serve();
    let file = site.dir().join("newsreel.toml");
    let reload = || {
        let words = command.replace("/var/lib/newsreel/newsreel.toml", file.to_str().unwrap());
        let mut words = words.split(' ');
        assert_eq!(words.next(), Some("/usr/bin/newsreel"));
        Command::new(env!("CARGO_BIN_EXE_newsreel")).args(words).output().unwrap()
    };
    assert!(reload().status.success());
    site.edit(|text| text + "\n[nonsense]\n");
    let refused = reload();
    assert!(!refused.status.success(), "{refused:?}");
    serving.stop();
}

/// Returns the datagrams that have arrived.
fn received(socket: &UnixDatagram) -> Vec<String> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(bytes) = socket.recv(&mut buffer) {
        all.extend(String::from_utf8_lossy(&buffer[..bytes]).lines().map(str::to_owned));
    }
    all
}

#[test]
fn systemd_hears_of_readiness_reloads_and_life() {
    let site = Operated::new();
    let name = site.home().join("notify");
    heard_of_life(&site, name.as_os_str(), &UnixDatagram::bind(&name).unwrap());
}

#[test]
fn systemd_hears_over_an_abstract_socket() {
    let name = format!("newsreel-packaging-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    heard_of_life(&Operated::new(), format!("@{name}").as_ref(), &socket);
}

/// Starts, reloads and stops a server that reports to a socket of this name.
fn heard_of_life(site: &Operated, name: &OsStr, socket: &UnixDatagram) {
    socket.set_nonblocking(true).unwrap();
    let mut command = site.command(&["serve"]);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "300000");
    let mut child = command.spawn().unwrap();
    let mut heard = Vec::new();
    let mut hear = |word: &str, times: usize| {
        wait_for(
            || {
                heard.extend(received(socket));
                heard.clone()
            },
            |heard| heard.iter().filter(|line| *line == word).count() >= times,
        )
    };
    hear("READY=1", 1);
    hear("WATCHDOG=1", 3);
    site.done(&["ctl", "reload"]);
    let heard = hear("READY=1", 2);
    let reloading = heard.iter().position(|line| line == "RELOADING=1").unwrap();
    assert!(heard[reloading + 1].starts_with("MONOTONIC_USEC="), "{heard:?}");
    let ready = heard.iter().rposition(|line| line == "READY=1").unwrap();
    assert!(reloading < ready, "{heard:?}");
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(received(socket).contains(&"STOPPING=1".to_owned()));
}

/// Clients of a socket that systemd holds wait while the server is restarted.
#[test]
fn a_server_uses_the_sockets_of_systemd_and_leaves_them_open() {
    if !installed(&[("systemd-socket-activate", "systemd")]) {
        return;
    }
    let site = Operated::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    site.edit(|text| text.replace("127.0.0.1:0", &address.to_string()));
    let start = || {
        let mut activate = Command::new("systemd-socket-activate");
        activate.args(["--listen", &address.to_string(), env!("CARGO_BIN_EXE_newsreel"), "serve", "--dir"]);
        let child = activate.arg(site.dir()).stderr(std::process::Stdio::null()).spawn().unwrap();
        // The first connection starts the server.
        let connected = wait_for(|| std::net::TcpStream::connect(address), Result::is_ok).unwrap();
        drop(connected);
        child
    };
    let mut server = start();
    wait_for(|| site.run(&["status"]), |status| status.status.success());
    let mut client = crate::client::Client::greeted(address);
    assert!(client.ask("DATE").starts_with("111 "));
    Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(server.wait().unwrap().success());
    // An address that the configuration does not name is an error.
    site.edit(|text| text.replace(&address.to_string(), "127.0.0.1:0"));
    let mut server = start();
    assert!(!server.wait().unwrap().success());
}

#[test]
fn sendmail_drop_in_reverts_all_restrictions_on_mailers() {
    let unit = fs::read_to_string(packaging().join("newsreel.service")).unwrap();
    let all = drop_ins();
    let (_, sendmail) = all.iter().find(|(name, _)| name == "sendmail.conf").unwrap();
    let taken_back: BTreeSet<&str> =
        keys(sendmail).iter().filter(|(_, value)| ["no", ""].contains(value)).map(|(key, _)| *key).collect();
    for (key, value) in keys(&unit) {
        let implies = IMPLY_NO_NEW_PRIVILEGES.contains(&key) || key == "SystemCallFilter";
        if implies && !["no", ""].contains(&value) {
            assert!(
                taken_back.contains(key),
                "{key}={value} of the unit stands in the way of setuid programs"
            );
        }
    }
    assert!(keys(sendmail).iter().any(|(key, value)| *key == "ReadWritePaths" && value.contains("postfix")));
    // Each is in the table that describes its purpose.
    let page = fs::read_to_string(packaging().join("README.md")).unwrap();
    for (name, _) in &all {
        assert!(page.contains(&format!("`newsreel.service.d/{name}`")), "{name}");
    }
}

/// Returns a directory with man pages and completions as installed.
fn share() -> TempDir {
    let dir = TempDir::new().unwrap();
    let mut docs = Command::new(env!("CARGO_BIN_EXE_newsreel"));
    let made =
        docs.arg("docs").arg("--share").arg(dir.path()).args(["--date", "2026-01-31"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    dir
}

fn pages(share: &Path) -> Vec<PathBuf> {
    let of = |dir: &str| fs::read_dir(share.join(dir)).unwrap().map(|entry| entry.unwrap().path());
    of("man/man1").chain(of("man/man5")).chain(of("man/man8")).collect()
}

#[test]
fn every_command_has_a_man_page_without_warnings() {
    let share = share();
    let pages = pages(share.path());
    let has = |name: &str| pages.iter().any(|page| page.ends_with(name));
    for name in [
        "newsreel.1",
        "newsreel-import-inn.1",
        "newsreel-ctl-feed-stop.1",
        "newsreel.toml.5",
        "mount.newsreel.8",
    ] {
        assert!(has(name), "{name}");
    }
    assert!(!has("newsreel-docs.1") && !has("newsreel-help.1"), "{pages:?}");
    if !installed(&[("mandoc", "mandoc"), ("man", "man-db"), ("groff", "groff-base")]) {
        return;
    }
    let lint = Command::new("mandoc").args(["-Tlint", "-Wwarning"]).args(&pages).output().unwrap();
    assert!(lint.status.success() && lint.stdout.is_empty(), "{}", String::from_utf8_lossy(&lint.stdout));
    // man is slow, so one page of each kind is shown.
    let of_each =
        ["newsreel.1", "newsreel-import-inn.1", "newsreel-rnews.1", "newsreel.toml.5", "mount.newsreel.8"];
    let shown = pages.iter().filter(|page| of_each.iter().any(|name| page.ends_with(name)));
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).args(shown).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
    let shown = man.output().unwrap();
    assert!(shown.status.success() && shown.stderr.is_empty(), "{}", String::from_utf8_lossy(&shown.stderr));
    let text = String::from_utf8(shown.stdout).unwrap();
    for part in [
        "newsreel import inn [OPTIONS] <DIR|FILE>...",
        "[[buffer]]",
        "EXIT STATUS",
        "FILES",
        "ENVIRONMENT",
        "newsreel rnews batch.1",
        "mount -t newsreel [-o OPTIONS] LOWER MOUNTPOINT",
        "Allow no changes through the mount",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let share = share();
    for file in ["zsh/site-functions/_newsreel", "fish/vendor_completions.d/newsreel.fish"] {
        assert!(fs::read_to_string(share.path().join(file)).unwrap().contains("newsreel"), "{file}");
    }
    let script = share.path().join("bash-completion/completions/newsreel");
    let printed =
        Command::new(env!("CARGO_BIN_EXE_newsreel")).args(["completions", "bash"]).output().unwrap();
    assert_eq!(fs::read(&script).unwrap(), printed.stdout);
    if !installed(&[("bash", "bash")]) {
        return;
    }
    let complete = |words: &str| {
        let text = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _newsreel newsreel \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &text]).output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("newsreel imp"), "import");
    assert_eq!(complete("newsreel import inn-"), "inn-config");
    assert_eq!(complete("newsreel init --buf"), "--buffer");
    assert_eq!(complete("newsreel help al"), "all");
    assert_eq!(complete("newsreel help import inn-"), "inn-config");
}

#[test]
fn debian_package_is_complete_and_never_deletes_articles() {
    if !installed(&[("dpkg-deb", "dpkg"), ("strip", "binutils"), ("objdump", "binutils"), ("xz", "xz-utils")])
    {
        return;
    }
    let (share, out) = (share(), TempDir::new().unwrap());
    // Any program will do, and a small one is packed quickly.
    let build = Command::new(packaging().join("deb/build.sh"))
        .args(["/bin/true"])
        .args([share.path(), out.path()])
        .output();
    let build = build.unwrap();
    assert!(build.status.success(), "{build:?}");
    let deb = String::from_utf8(build.stdout).unwrap().trim().to_owned();
    let of_deb = |option: &str| {
        let output = Command::new("dpkg-deb").arg(option).arg(&deb).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let files = of_deb("--contents");
    for file in [
        "usr/bin/newsreel",
        "usr/sbin/mount.newsreel",
        "lib/systemd/system/newsreel.service",
        "lib/systemd/system/newsreel.socket",
        "lib/systemd/system/newsreel-mount@.service",
        "lib/systemd/system/newsreel-spool-mount@.service",
        "usr/share/man/man1/newsreel-import-inn.1.gz",
        "usr/share/man/man5/newsreel.toml.5.gz",
        "usr/share/man/man8/mount.newsreel.8.gz",
        "usr/share/bash-completion/completions/newsreel",
        "usr/share/zsh/vendor-completions/_newsreel",
        "usr/share/fish/vendor_completions.d/newsreel.fish",
        "usr/share/doc/newsreel/README.Debian",
        "usr/share/doc/newsreel/copyright",
        "usr/share/doc/newsreel/grafana/newsreel.json",
        "usr/share/doc/newsreel/newsreel.service.d/sendmail.conf",
        "usr/share/doc/newsreel/prometheus/newsreel.rules.yml",
        "usr/share/newsreel/newsreel.schema.json",
        "usr/libexec/newsreel/newsreel-filter-perl",
    ] {
        assert!(files.contains(&format!(" ./{file}\n")), "{file}: {files}");
    }
    assert!(files.lines().all(|line| line.contains(" root/root ")), "{files}");
    let control = of_deb("--info");
    assert!(control.contains(&format!("Version: {}", env!("CARGO_PKG_VERSION"))), "{control}");
    assert!(control.contains("libc6 (>= 2."), "{control}");
    // Other news servers stay.
    for field in ["Provides", "Conflicts", "Breaks", "Replaces"] {
        assert!(!control.contains(&format!("{field}:")), "{control}");
    }
    // That for members of clusters takes the place of this one, and of no other server.
    let build = Command::new(packaging().join("deb/build.sh"))
        .args(["/bin/true"])
        .args([share.path(), out.path()])
        .env("DEB_FLAVOUR", "cluster")
        .env("DEB_COMPRESSION", "none")
        .output()
        .unwrap();
    let deb = String::from_utf8(build.stdout).unwrap().trim().to_owned();
    let output = Command::new("dpkg-deb").args(["--info", &deb]).output().unwrap();
    let control = String::from_utf8(output.stdout).unwrap();
    for field in [
        "Package: newsreel-cluster\n",
        "Suggests: nats-server (>= 2.15.2), ",
        "Provides: newsreel (= ",
        "Conflicts: newsreel\n",
        "Replaces: newsreel\n",
    ] {
        assert!(control.contains(field), "{field}: {control}");
    }
    // Neither removal nor purging touches the server's data.
    for script in ["prerm", "postrm"] {
        let text = fs::read_to_string(packaging().join("deb").join(script)).unwrap();
        let harmful = |line: &&str| line.contains("rm ") && !line.trim_start().starts_with("echo");
        assert_eq!(text.lines().find(harmful), None, "{script}");
    }
}

#[test]
fn recipe_for_arch_linux_has_this_version() {
    let recipe = fs::read_to_string(packaging().join("aur/PKGBUILD")).unwrap();
    assert!(recipe.contains(&format!("\npkgver={}\n", env!("CARGO_PKG_VERSION"))), "{recipe}");
}

/// The container's first start creates a site, and each start serves it; the second one changes nothing.
#[test]
fn container_creates_a_site_once_and_serves_it() {
    let home = TempDir::new().unwrap();
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_newsreel"), bin.join("newsreel")).unwrap();
    let site = home.path().join("site");
    let start = || {
        let mut entry = Command::new(packaging().join("container-entry"));
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        entry.env("PATH", path).env("NEWSREEL_SITE", &site).env("NEWSREEL_BUFFER", "1 MiB");
        entry.env("NEWSREEL_READERS", "192.0.2.0/24 2001:db8::/32").env("NEWSREEL_LISTEN", "127.0.0.1:0");
        entry.env("NEWSREEL_WEB_LISTEN", "127.0.0.1:0");
        let log = fs::File::create(home.path().join("log")).unwrap();
        let mut child = entry.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let status =
            || Command::new(bin.join("newsreel")).arg("status").arg("--dir").arg(&site).output().unwrap();
        let process = format!("process {}", child.id());
        wait_for(
            || (status(), fs::read_to_string(home.path().join("log")).unwrap()),
            |(status, _)| String::from_utf8_lossy(&status.stdout).contains(&process),
        );
        Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(child.wait().unwrap().success());
        fs::read_to_string(site.join("newsreel.toml")).unwrap()
    };
    let made = start();
    assert!(made.contains("192.0.2.0/24") && made.contains("2001:db8::/32"), "{made}");
    assert_eq!(start(), made);
}
