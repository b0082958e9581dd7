//! Clients that guess passwords, and programs that check them: lockouts, waiting in turn, INN's
//! authenticators. Log lines about them are tested in `fail2ban`.
//!
//! Sources: RFC 4643 section 6; INN's external-auth documentation.

use crate::auth::{add_users, plain, with_access};
use crate::client::Client;
use crate::clients::{script, skipped};
use crate::running::{AtEnd, Server};
use crate::waiting::wait_for;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ACCESS: &str =
    "[[access]]\nfrom = \"all\"\nusers = \"*\"\n[[access]]\nfrom = \"all\"\nread = \"misc.*\"\n";

fn with_auth(auth: &str) -> Server {
    let server = Server::start_with(|text| {
        with_access(ACCESS)(text).replacen("[[buffer]]", &format!("{auth}\n[[buffer]]"), 1)
    });
    add_users(&server);
    server
}

fn code(client: &mut Client, name: &str, password: &str) -> String {
    client.ask(&plain(name, password))
}

#[test]
fn address_is_locked_out_for_a_time() {
    let hour = "lockout_first = \"1 h\"\nlockout_longest = \"1 h\"\n";
    let server = with_auth(&format!("[auth]\nfailures_per_address_max = 3\n{hour}"));
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(code(&mut client, "fred", "wrong"), "481 Authentication failed");
    }
    // Even the right password is refused, for all users and by all mechanisms.
    for name in ["fred", "wilma"] {
        let password = if name == "fred" { "flintstone" } else { "pebblestone" };
        let mut client = server.client();
        assert!(code(&mut client, name, password).starts_with("481 Too many failures, try again in "));
        let mut ask = |line: String| client.ask(&line);
        assert!(crate::scram::login(&mut ask, name, password, true).unwrap_err().starts_with("481 Too many"));
        assert!(client.ask("GROUP misc.test").starts_with("211 "), "what needs no user goes on");
    }
    drop(server);

    let server = with_auth("[auth]\nfailures_per_address_max = 3\nlockout_first = \"2 s\"\n");
    let locked = Instant::now();
    for _ in 0..3 {
        assert_eq!(code(&mut server.client(), "fred", "wrong"), "481 Authentication failed");
    }
    wait_for(
        || server.client().ask(&plain("fred", "flintstone")),
        |answer| !answer.starts_with("481 Too many"),
    );
    assert!(locked.elapsed() > Duration::from_millis(1500), "{:?}", locked.elapsed());
    // Failures of a user known at this address are counted separately.
    let mut client = server.client();
    assert_eq!(code(&mut client, "fred", "wrong"), "481 Authentication failed");
    assert_eq!(code(&mut client, "fred", "wrong"), "481 Authentication failed");
    assert!(code(&mut client, "fred", "flintstone").starts_with("281 "));
}

#[test]
fn connection_ends_after_too_many_failures() {
    let server = with_auth("[auth]\nfailures_per_connection_max = 3\n");
    let mut client = server.client();
    assert!(client.ask("AUTHINFO SASL PLAIN YWJj").starts_with("482 "));
    assert!(code(&mut client, "nobody", "wrong").starts_with("481 "));
    assert!(client.ask("AUTHINFO USER fred").starts_with("381 "));
    assert!(client.ask("AUTHINFO PASS wrong").starts_with("481 "));
    assert_eq!(client.line_or_end(), None);
}

#[test]
fn guessing_clients_do_not_delay_others() {
    let server = with_auth(
        "[auth]\npassword_checks_max = 1\nfailures_per_address_max = 100000\nfailures_per_user_max = 100000\n",
    );
    let mut bystander = server.client();
    // Clients keep guessing while others are served.
    let served = AtomicBool::new(false);
    let guesses = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let guess = |n: usize| {
            while !served.load(Ordering::Relaxed) {
                let mut client = server.client();
                assert!(code(&mut client, &format!("user{n}"), "guess").starts_with("481 "));
                guesses.fetch_add(1, Ordering::Relaxed);
            }
        };
        (0..12).for_each(|n| _ = scope.spawn(move || guess(n)));
        // Also if this thread fails, as the scope waits for the others.
        let _end = AtEnd(|| served.store(true, Ordering::Relaxed));
        for answered in 0.. {
            assert!(bystander.ask("GROUP misc.test").starts_with("211 "));
            if answered > 100 && guesses.load(Ordering::Relaxed) > 12 {
                break;
            }
        }
    });
}

#[test]
fn guesses_at_many_names_are_locked_out_despite_a_login_between() {
    let server = with_auth(
        "[auth]\nfailures_per_address_max = 10\nlockout_first = \"1 h\"\nlockout_longest = \"1 h\"\n",
    );
    let mut judged = 0;
    for n in 0..60 {
        let answer = code(&mut server.client(), &format!("user{n}"), "guess");
        judged += usize::from(answer == "481 Authentication failed");
        assert!(answer.starts_with("481 "), "{answer}");
        // A user known at this address is not locked out for the failures of others.
        assert!(code(&mut server.client(), "fred", "flintstone").starts_with("281 "), "after {n} guesses");
    }
    assert_eq!(judged, 10);
    assert!(code(&mut server.client(), "wilma", "pebblestone").starts_with("481 Too many failures"));
}

/// A program that knows barney, takes long for `slow`, and has a wrong exit code for betty.
const PROGRAM: &str = r#"#!/bin/sh
cr=$(printf '\r')
while IFS= read -r line; do
  line=${line%$cr}
  case $line in
    "ClientIP: "*) address=${line#ClientIP: } ;;
    "ClientAuthname: "*) name=${line#ClientAuthname: } ;;
    "ClientPassword: "*) password=${line#ClientPassword: } ;;
    .) break ;;
  esac
done
case "$address $name $password" in
  "127.0.0.1 barney rubble stone") echo "User:barney" ;;
  "127.0.0.1 fred "*) echo "User:fred" ;;
  *" betty "*) echo "User:betty"; exit 1 ;;
  *" slow "*) sleep 600; echo "User:slow" ;;
  *) echo "Error:who?"; exit 1 ;;
esac
"#;

#[test]
fn programs_are_asked_about_users_without_a_password_here() {
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("knows-barney");
    script(&program, PROGRAM);
    let program = program.to_str().unwrap().to_owned();
    let start = |timeout: &str| {
        Server::start_with(|text| {
            let programs = format!(
                "[[authenticator]]\nprogram = [\"/does/not/exist\"]\n\
                 [[authenticator]]\nprogram = [{program:?}]\ntimeout = \"{timeout}\"\n\n[[access]]\n\
                 from = \"all\"\nuser_groups = [\"quarry\"]\nread = \"local.*\"\n"
            );
            with_access(ACCESS)(text).replacen("[[access]]", &format!("{programs}[[access]]"), 1)
        })
    };
    let server = start("5 min");
    let mut client = server.client();
    assert!(client.ask("CAPABILITIES").starts_with("101 "));
    assert!(client.block().contains(&"SASL PLAIN".into()), "nobody has SCRAM keys");
    assert!(code(&mut client, "barney", "rubble stone").starts_with("281 "));
    add_users(&server);
    server.user(&["add", "barney", "--no-password", "--group", "quarry"], "").unwrap();
    let mut client = server.client();
    assert!(client.ask("AUTHINFO USER barney").starts_with("381 "));
    assert!(client.ask("AUTHINFO PASS rubble stone").starts_with("281 "));
    assert!(client.ask("GROUP local.empty").starts_with("211 "), "the file of users gives the groups");
    for (name, password) in
        [("barney", "wrong"), ("betty", "x"), ("fred", "wrong"), ("nobody", "x"), ("a\u{7}b", "x")]
    {
        assert!(code(&mut server.client(), name, password).starts_with("481 "), "{name}");
    }
    assert!(code(&mut server.client(), "fred", "flintstone").starts_with("281 "));
    // The program would run for minutes, and accept, if it were not killed at the time limit.
    assert!(code(&mut start("1 s").client(), "slow", "x").starts_with("403 "));
}

#[test]
fn inns_ckpasswd_works() {
    let ckpasswd = "/usr/lib/news/bin/auth/passwd/ckpasswd";
    let hash = Command::new("perl").args(["-e", "print crypt('flintstone', 'ab')"]).output();
    let (true, Ok(hash)) = (Path::new(ckpasswd).exists(), hash) else {
        skipped("(install inn2, and perl)", true);
        return;
    };
    let dir = TempDir::new().unwrap();
    let passwords = dir.path().join("passwd");
    std::fs::write(&passwords, format!("barney:{}\n", String::from_utf8(hash.stdout).unwrap())).unwrap();
    let server = Server::start_with(|text| {
        let program = format!("[[authenticator]]\nprogram = [{ckpasswd:?}, \"-f\", {passwords:?}]\n\n");
        with_access(ACCESS)(text).replacen("[[access]]", &format!("{program}[[access]]"), 1)
    });
    let mut client = server.client();
    assert!(code(&mut client, "barney", "wrong").starts_with("481 "));
    assert!(code(&mut client, "barney", "flintstone").starts_with("281 "));
    assert!(client.ask("GROUP local.hidden").starts_with("211 "));
}
