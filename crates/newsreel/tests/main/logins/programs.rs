//! Logins by programs that bring groups, and by PAM through INN's ckpasswd.

use super::{accepted, log_in, refused, start_with};
use crate::clients::{installed, script, skipped};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CKPASSWD: &str = "/usr/lib/news/bin/auth/passwd/ckpasswd";

#[test]
fn only_listed_groups_of_a_program_count() {
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("all-are-barney");
    script(&program, "#!/bin/sh\ncat >/dev/null\necho Group:wheel\necho User:barney\necho Group:staff\n");
    for (groups, is_staff) in [
        ("", false),
        ("groups = [\"wheel\"]\n", false),
        ("groups = [\"staff\"]\n", true),
        ("groups = [\"wheel -> staff\"]\n", true),
        ("groups = [\"Wheel -> staff\"]\n", false),
    ] {
        let server = start_with(&format!("[[authenticator]]\nprogram = [{program:?}]\n{groups}"));
        assert_eq!(log_in(&server, "anybody", "x"), accepted(is_staff), "{groups}");
        // The groups last as long as the login, and another configuration decides again.
        let mut client = server.client();
        assert!(client.ask(&crate::auth::plain("anybody", "x")).starts_with("281 "));
        server.reload(|text| text + "# changed\n").unwrap();
        assert_eq!(client.ask("GROUP local.hidden").starts_with("211 "), is_staff, "{groups}");
        // They are none of a user with a password here.
        server.user(&["add", "barney"], "flintstone\n").unwrap();
        assert_eq!(log_in(&server, "anybody", "x"), refused(), "{groups}");
        assert_eq!(log_in(&server, "barney", "flintstone"), accepted(false), "{groups}");
    }
}

/// A client with a right password is not to blame for the name that a program gives it.
#[test]
fn a_name_that_no_user_can_have_is_said_and_not_counted() {
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("all-are-two-words");
    script(&program, "#!/bin/sh\ncat >/dev/null\necho 'User:barney rubble'\n");
    let server = start_with(&format!(
        "[auth]\nfailures_per_address_max = 1\n\
         [[authenticator]]\nprogram = [{program:?}]\n"
    ));
    for _ in 0..3 {
        let answer = server.client().ask(&crate::auth::plain("anybody", "x"));
        assert!(answer.starts_with("481 Your name is not usable here: a name has no blanks"), "{answer}");
    }
}

#[test]
fn a_slow_program_makes_no_client_wait_longer_than_twice_its_time() {
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("sleeps");
    script(&program, "#!/bin/sh\nexec sleep 600\n");
    let server = start_with(&format!(
        "[[authenticator]]\nprogram = [{program:?}]\ntimeout = \"1 s\"\nprocesses_max = 1\n"
    ));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let logins: Vec<_> = (0..6).map(|_| scope.spawn(|| log_in(&server, "barney", "x").0)).collect();
        let codes: Vec<String> = logins.into_iter().map(|login| login.join().unwrap()).collect();
        // One at a time is asked; those who cannot be asked are not blamed.
        assert!(codes.iter().all(|code| code == "481" || code == "403"), "{codes:?}");
        assert!(codes.iter().any(|code| code == "403"), "{codes:?}");
    });
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn passwords_are_in_no_argument_and_no_environment() {
    let dir = TempDir::new().unwrap();
    let (program, told) = (dir.path().join("tells"), dir.path().join("told"));
    script(&program, "#!/bin/sh\n{ tr '\\0' ' ' </proc/$$/cmdline; env; } >\"$1\"\ncat >/dev/null\nexit 1\n");
    let server = start_with(&format!("[[authenticator]]\nprogram = [{program:?}, {told:?}]\n"));
    assert_eq!(log_in(&server, "barney", "xyzzy-secret"), refused());
    let told = std::fs::read_to_string(told).unwrap();
    assert!(told.contains("PATH=") && !told.contains("xyzzy") && !told.contains("barney"), "{told}");
}

/// The program of `docs/examples/pam-with-groups.sh`, with another directory for PAM's services, which only
/// it sees.
#[test]
fn users_of_pam_log_in_with_their_groups() {
    if !Path::new(CKPASSWD).exists() {
        skipped("(install inn2)", true);
        return;
    }
    if !installed(&[("unshare", "util-linux"), ("mount", "mount")]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let services = dir.path().join("pam.d");
    std::fs::create_dir(&services).unwrap();
    let check = dir.path().join("check");
    script(&check, "#!/bin/sh\npassword=$(tr -d '\\0')\n[ \"$PAM_USER $password\" = \"news two words\" ]\n");
    let service = format!(
        "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
        check.display()
    );
    for name in ["nnrpd", "other"] {
        std::fs::write(services.join(name), &service).unwrap();
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/pam-with-groups.sh");
    let words = ["/usr/bin/unshare", "-m", "/bin/sh", "-c"];
    let apart = format!("mount --bind {} /etc/pam.d && exec sh {}", services.display(), example.display());
    if !Command::new(words[0])
        .args(["-m", "/bin/sh", "-c", "mount --bind /etc /etc"])
        .status()
        .is_ok_and(|s| s.success())
    {
        skipped("(needs root)", true);
        return;
    }
    let program = format!("{:?}", [&words[..], &[&apart]].concat());
    let server =
        start_with(&format!("[[authenticator]]\nprogram = {program}\ngroups = [\"news -> staff\"]\n"));
    assert_eq!(log_in(&server, "news", "two words"), accepted(true));
    for (name, password) in [("news", "two"), ("news", ""), ("root", "two words"), ("nobody", "x")] {
        assert_ne!(log_in(&server, name, password).0, "281", "{name} {password}");
    }
}
