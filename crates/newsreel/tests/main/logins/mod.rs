//! Logins from outside: PAM by INN's program, and an LDAP directory. Other programs are in `guessing`,
//! providers of the web in `web::providers`.

mod directory;
mod outage;
mod programs;

use crate::auth::with_access;
use crate::running::Server;

/// Access rights: staff and all others who have logged in.
const ACCESS: &str = "[[access]]\nfrom = \"all\"\nuser_groups = [\"staff\"]\npost = \"*\"\n\
                      [[access]]\nfrom = \"all\"\nusers = \"*\"\nread = \"misc.*\"\n";

/// Starts the test site with these sections before those of access.
fn start_with(sections: &str) -> Server {
    Server::start_with(|text| {
        with_access(ACCESS)(text).replacen("[[access]]", &format!("{sections}\n[[access]]"), 1)
    })
}

/// Logs in; returns the code of the answer, and whether the user has the rights of staff.
fn log_in(server: &Server, name: &str, password: &str) -> (String, bool) {
    let mut client = server.client();
    let answer = client.ask(&crate::auth::plain(name, password));
    let is_staff = client.ask("GROUP local.hidden").starts_with("211 ");
    (answer.split(' ').next().unwrap().to_owned(), is_staff)
}

/// Returns the result of a login that is refused.
fn refused() -> (String, bool) {
    ("481".to_owned(), false)
}

/// Returns the result of a login that succeeds.
fn accepted(is_staff: bool) -> (String, bool) {
    ("281".to_owned(), is_staff)
}
