//! `nntp_io::NntpClient` against the server: every way to encrypt, to log in and to compress, and pipelines
//! that fill the buffers of both sides.
//!
//! Sources: RFC 3977 section 3.5, RFC 4642-4644, RFC 8054, RFC 8143.

use crate::auth::{add_users, with_access};
use crate::client::article;
use crate::layers::{Identity, settings, settings_name};
use crate::running::Server;
use crate::tls::Site;
use crate::waiting::wait_until;
use nntp_io::{
    AnswerJudgement, ArticleRequest, ClientCredentials, ClientMechanism, CompressionPolicy, ConnectOptions,
    Error, LoginOptions, NntpClient, RetryAdvice, Role, Security, SetupStep, TlsOptions, block_on,
};
use std::sync::Arc;

/// Access rights: fred has all, others only after a login.
const ACCESS: &str = "
[[access]]
from = \"all\"
users = \"*\"
read = \"*\"
post = \"*\"
";

fn tls(site: &Site, identity: Option<&Identity>) -> TlsOptions {
    TlsOptions {
        config: Arc::new(settings(&site.authority, identity)),
        name: settings_name("news.example.org"),
    }
}

fn connect(target: &ConnectOptions) -> Result<NntpClient, Error> {
    block_on(NntpClient::connect(target))
}

/// Returns the lines of a response's block.
fn lines(client: &mut NntpClient, command: &str) -> Vec<String> {
    assert!(block_on(client.request(command)).unwrap().has_block);
    let mut lines = Vec::new();
    while let Some(line) = block_on(client.block_line()).unwrap() {
        lines.push(String::from_utf8_lossy(line).into_owned());
    }
    lines
}

/// Returns the three ways to encrypt, with the port of each.
fn secured(site: &Site) -> [ConnectOptions; 3] {
    let plain = ConnectOptions::from(site.server.address);
    let implicit = ConnectOptions::from(site.server.tls_address.unwrap());
    [
        plain.clone(),
        ConnectOptions { security: Security::StartTls(tls(site, None)), ..plain },
        ConnectOptions { security: Security::Implicit(tls(site, None)), ..implicit },
    ]
}

#[test]
fn tls_and_compression_work_in_every_combination() {
    let site = Site::start();
    for (number, target) in secured(&site).into_iter().enumerate() {
        for compression in
            [CompressionPolicy::Never, CompressionPolicy::IfOffered, CompressionPolicy::Required]
        {
            let target = ConnectOptions { compression, role: Role::Transit, ..target.clone() };
            let mut client = connect(&target).unwrap();
            assert_eq!(client.tls().is_some(), number > 0);
            assert!(client.streaming() && client.posting_allowed() && !client.greeting().is_empty());
            let offered = block_on(client.capabilities()).unwrap().clone();
            assert_eq!(offered.has("COMPRESS"), compression == CompressionPolicy::Never);
            let id = format!("<{number}.{compression:?}@x.example>");
            let wire = article(&id, "misc.test", &"a line of some length\r\n".repeat(5000));
            let wire = wire.strip_suffix(".\r\n").unwrap();
            client.submit_check(id.as_bytes()).unwrap();
            client.submit_takethis(id.as_bytes(), wire.as_bytes()).unwrap();
            client.submit(format!("BODY {id}")).unwrap();
            client.submit(format!("STAT {id}")).unwrap();
            let wanted = block_on(client.answer()).unwrap();
            assert_eq!(wanted.judged(ArticleRequest::Check, id.as_bytes()), AnswerJudgement::Wanted);
            let sent = block_on(client.answer()).unwrap();
            assert_eq!(sent.judged(ArticleRequest::Takethis, id.as_bytes()), AnswerJudgement::Accepted);
            assert_eq!(block_on(client.answer()).unwrap().code, 222);
            let mut body = Vec::new();
            block_on(client.read_block(&mut body, 1 << 20)).unwrap();
            assert!(wire.as_bytes().ends_with(&body) && body.len() > 100_000);
            assert_eq!(block_on(client.answer()).unwrap().code, 223);
            assert!(lines(&mut client, "LIST ACTIVE").len() > 5);
            assert!(block_on(client.is_reusable()));
            block_on(client.quit()).unwrap();
        }
    }
}

#[test]
fn server_with_a_wrong_identity_is_rejected() {
    let site = Site::start();
    let [_, starttls, implicit] = secured(&site);
    for target in [starttls, implicit] {
        let other = TlsOptions { name: settings_name("other.example.org"), ..tls(&site, None) };
        let security = match target.security {
            Security::StartTls(_) => Security::StartTls(other),
            _ => Security::Implicit(other),
        };
        let error = connect(&ConnectOptions { security, ..target }).err().unwrap();
        assert!(matches!(error, Error::Tls(_)), "{error}");
        assert_eq!(error.retry(), RetryAdvice::Never);
    }
    let server = Server::start();
    let plain = ConnectOptions {
        security: Security::StartTls(tls(&site, None)),
        ..ConnectOptions::from(server.address)
    };
    let error = connect(&plain).err().unwrap();
    assert!(matches!(error, Error::Refused { step: SetupStep::StartTls, code: 580, .. }), "{error}");
}

#[test]
fn every_login_mechanism_works() {
    // Failures are part of this test, so lockouts are disabled.
    let auth = "[auth]\nfailures_per_address_max = 1000\nfailures_per_user_max = 1000\n\n[[buffer]]";
    let site = Site::start_with("client_ca = \"{CA}\"", |text| {
        with_access(ACCESS)(text).replacen("[[buffer]]", auth, 1)
    });
    add_users(&site.server);
    let [plain, starttls, implicit] = secured(&site);
    let reads = |target: &ConnectOptions| {
        let mut client = connect(target)?;
        assert_eq!(block_on(client.request("GROUP local.empty")).unwrap().code, 211);
        Ok::<_, Error>(())
    };
    for target in [&plain, &starttls, &implicit] {
        assert_eq!(block_on(connect(target).unwrap().request("GROUP local.empty")).unwrap().code, 480);
        for compression in [CompressionPolicy::Never, CompressionPolicy::Required] {
            for mechanisms in [
                vec![],
                vec![ClientMechanism::User],
                vec![ClientMechanism::Plain],
                vec![ClientMechanism::ScramSha256],
            ] {
                for (password, right) in [("flintstone", true), ("Flintstone", false)] {
                    let mechanism = mechanisms.clone();
                    let login = LoginOptions {
                        mechanisms: mechanism.clone(),
                        clear_passwords: true,
                        ..LoginOptions::password("fred", password)
                    };
                    let role = Role::Reader;
                    let outcome =
                        reads(&ConnectOptions { login: Some(login), compression, role, ..target.clone() });
                    match outcome {
                        Ok(()) => assert!(right, "{mechanism:?}"),
                        Err(error) => {
                            assert!(!right, "{mechanism:?}: {error}");
                            let refused =
                                matches!(error, Error::Refused { step: SetupStep::Login, code: 481, .. });
                            assert!(refused, "{mechanism:?}: {error}");
                            assert_eq!(error.retry(), RetryAdvice::Never);
                        }
                    }
                }
            }
        }
    }
    // A password is not sent in the clear, but SCRAM does not send it.
    let sent = LoginOptions {
        mechanisms: vec![ClientMechanism::Plain],
        ..LoginOptions::password("fred", "flintstone")
    };
    let error = reads(&ConnectOptions { login: Some(sent), ..plain.clone() }).unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error}");
    reads(&ConnectOptions { login: Some(LoginOptions::password("fred", "flintstone")), ..plain.clone() })
        .unwrap();
    // A response too long for the command line; the password is wrong.
    let long = LoginOptions {
        mechanisms: vec![ClientMechanism::Plain],
        ..LoginOptions::password("fred", "x".repeat(450))
    };
    let error = reads(&ConnectOptions { login: Some(long), ..implicit.clone() }).unwrap_err();
    assert!(matches!(error, Error::Refused { step: SetupStep::Login, .. }), "{error}");

    let wilma = site.authority.sign("wilma");
    let shows = Security::Implicit(tls(&site, Some(&wilma)));
    reads(&ConnectOptions {
        security: shows.clone(),
        login: Some(LoginOptions::certificate()),
        ..implicit.clone()
    })
    .unwrap();
    for (identity, right) in [("wilma", true), ("fred", false)] {
        let credentials = ClientCredentials::Certificate { identity: Some(identity.to_owned()) };
        let login = Some(LoginOptions { credentials, ..LoginOptions::certificate() });
        assert_eq!(
            reads(&ConnectOptions { security: shows.clone(), login, ..implicit.clone() }).is_ok(),
            right
        );
    }
    let error = reads(&ConnectOptions { login: Some(LoginOptions::certificate()), ..implicit }).unwrap_err();
    assert!(matches!(error, Error::Refused { step: SetupStep::Login, .. }), "{error}");
    assert!(matches!(
        reads(&ConnectOptions { login: Some(LoginOptions::certificate()), ..plain }),
        Err(Error::Request(_))
    ));
}

/// Both sides send more than all buffers between them hold, and the client reads no response before
/// everything is queued.
#[test]
fn thousand_commands_that_fill_all_buffers_are_answered() {
    const COMMANDS: usize = 1000;
    let site = Site::start();
    let body = "0123456789012345678901234567890123456789012345678901234567890\r\n".repeat(1000);
    let mut first = connect(&ConnectOptions::from(site.server.address)).unwrap();
    let wire = article("<long@x.example>", "misc.test", &body);
    first.submit_takethis(b"<long@x.example>", wire.strip_suffix(".\r\n").unwrap().as_bytes()).unwrap();
    assert_eq!(block_on(first.answer()).unwrap().code, 239);
    let wire = wire.strip_suffix(".\r\n").unwrap();
    for target in secured(&site) {
        for compression in [CompressionPolicy::Never, CompressionPolicy::Required] {
            let mut target = ConnectOptions { compression, ..target.clone() };
            target.limits.queued_bytes_max = 256 << 20;
            let mut client = connect(&target).unwrap();
            for _ in 0..COMMANDS / 2 {
                // Each costs the server 64 KB to read and to reject, and returns 64 KB.
                client.submit_takethis(b"<long@x.example>", wire.as_bytes()).unwrap();
                client.submit("BODY <long@x.example>").unwrap();
            }
            assert_eq!(client.outstanding(), COMMANDS);
            let mut read = 0;
            for _ in 0..COMMANDS / 2 {
                let answer = block_on(client.answer()).unwrap();
                let judgement = answer.judged(ArticleRequest::Takethis, b"<long@x.example>");
                assert_eq!(judgement, AnswerJudgement::Rejected);
                assert_eq!(block_on(client.answer()).unwrap().code, 222);
                while let Some(chunk) = block_on(client.chunk()).unwrap() {
                    read += chunk.len();
                }
            }
            // An article ends in an empty line after its body.
            assert_eq!(read, (body.len() + 2) * COMMANDS / 2);
            assert!(block_on(client.is_reusable()));
        }
    }
}

/// Unread responses are not skipped, but the rest of an unread block is.
#[test]
fn articles_arrive_in_pieces_and_may_be_left_unread() {
    let server = Server::start();
    let mut client = connect(&ConnectOptions::from(server.address)).unwrap();
    let body = "x".repeat(60) + "\r\n";
    let wire = article(
        "<a@x.example>",
        "misc.test",
        &(body.repeat(1500) + ".\r\n..\r\n").replace("\r\n.", "\r\n.."),
    );
    block_on(client.request("IHAVE <a@x.example>")).unwrap();
    client.submit_article(wire.strip_suffix(".\r\n").unwrap().as_bytes()).unwrap();
    let sent = block_on(client.answer()).unwrap();
    assert_eq!(sent.judged(ArticleRequest::Transfer, b"<a@x.example>"), AnswerJudgement::Accepted);
    for command in ["BODY <a@x.example>", "BODY <a@x.example>", "BODY <b@x.example>", "DATE"] {
        client.submit(command).unwrap();
    }
    assert_eq!(block_on(client.answer()).unwrap().code, 222);
    let piece = block_on(client.chunk()).unwrap().unwrap();
    assert!(piece.starts_with(body.as_bytes()));
    assert_eq!(block_on(client.answer()).unwrap().code, 222, "the rest of the first is skipped");
    let mut lines = Vec::new();
    while let Some(line) = block_on(client.block_line()).unwrap() {
        lines.push(line.to_vec());
    }
    assert_eq!(lines[1499..], [&[b'x'; 60][..], b".", b"..", b""]);
    assert_eq!(block_on(client.answer()).unwrap().code, 430);
    assert_eq!(block_on(client.chunk()).unwrap(), None);
    assert_eq!(block_on(client.answer()).unwrap().code, 111);
}

#[test]
fn connection_closed_by_the_server_is_not_reused() {
    let mut server = Server::start_at([127, 0, 0, 8]);
    let mut client = connect(&ConnectOptions::from(server.address)).unwrap();
    assert_eq!(block_on(client.request("DATE")).unwrap().code, 111);
    assert!(block_on(client.is_reusable()));
    server.join();
    wait_until("400 and the end arrive", || !block_on(client.is_reusable()));
    let error = connect(&ConnectOptions::from(server.address)).err().unwrap();
    assert_eq!(error.retry(), RetryAdvice::Later, "{error}");
}
