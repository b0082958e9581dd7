//! Logins while a source from outside cannot be asked: nothing tells which names have a password here.

use super::{accepted, log_in, refused, start_with};
use crate::clients::script;
use std::net::TcpListener;
use tempfile::TempDir;

#[test]
fn names_of_users_here_are_answered_like_others_while_a_directory_is_down() {
    // Nobody listens there any more.
    let to = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let directory = format!("[[ldap]]\nname = \"people\"\nto = \"{to}\"\ntls = \"off\"\nbase = \"dc=x\"\n");
    let server = start_with(&format!("{directory}[auth]\nfailures_per_address_max = 100\n"));
    server.user(&["add", "barney"], "flintstone\n").unwrap();
    let later = ("403".to_owned(), false);
    for name in ["barney", "nobody"] {
        assert_eq!(log_in(&server, name, "wrong"), later, "{name}");
    }
    assert_eq!(log_in(&server, "barney", "flintstone"), accepted(false));
}

/// The sources are told neither the name nor the password of a user here.
#[test]
fn sources_are_asked_about_nobody_after_a_wrong_password() {
    let dir = TempDir::new().unwrap();
    let (program, asked) = (dir.path().join("writes-down"), dir.path().join("asked"));
    script(&program, &format!("#!/bin/sh\nexec cat >>{}\n", asked.display()));
    let server = start_with(&format!("[[authenticator]]\nprogram = [{program:?}]\n"));
    server.user(&["add", "barney"], "flintstone\n").unwrap();
    assert_eq!(log_in(&server, "barney", "Flintstone"), refused());
    assert_eq!(log_in(&server, "barney", "flintstone"), accepted(false));
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(asked.matches("ClientAuthname: x").count(), 1, "{asked}");
    assert!(!asked.contains("barney") && asked.contains("ClientPassword: xxxxxxxxxx\r\n"), "{asked}");
}
