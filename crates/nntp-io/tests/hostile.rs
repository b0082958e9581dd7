//! Servers that are slow, broken or hostile: the client's limits hold, and its errors say what happened.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use nntp_io::{
    ClientLimits, ClientMechanism, ConnectOptions, Error, LoginOptions, NntpClient, ProtocolFault,
    RetryAdvice, Role, Security, SetupStep, TlsOptions, WaitEvent, tls,
};
use rustls::RootCertStore;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Short enough for a test to wait for; nothing here depends on how short. For what must not run out,
/// however slow the machine is, there are [`LONG`] limits.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// A server that does as `script` says with its one client.
async fn server<S, F>(script: S) -> SocketAddr
where
    S: FnOnce(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { script(listener.accept().await.unwrap().0).await });
    address
}

/// A server that sends `text` and then keeps the connection, reading what comes.
async fn says(text: impl Into<Vec<u8>>) -> SocketAddr {
    let text = text.into();
    server(async move |mut stream: TcpStream| {
        let _client_may_leave = stream.write_all(&text).await;
        drain(&mut stream).await;
    })
    .await
}

async fn drain(stream: &mut TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
}

/// A server that sends `piece` over and over after `text`.
async fn repeats(text: &'static str, piece: &'static str) -> SocketAddr {
    server(async move |mut stream: TcpStream| {
        stream.write_all(text.as_bytes()).await.unwrap();
        while stream.write_all(piece.repeat(1000).as_bytes()).await.is_ok() {}
    })
    .await
}

fn target(address: SocketAddr) -> ConnectOptions {
    let limits = ClientLimits {
        greeting_timeout: LONG,
        answer_timeout: LONG,
        idle_timeout: LONG,
        connect_timeout: LONG,
        line_bytes_max: 2000,
        block_line_bytes_max: 100_000,
        block_bytes_max: 3_000_000,
        ..ClientLimits::default()
    };
    ConnectOptions { limits, ..ConnectOptions::from(address) }
}

/// Returns [`target`] with a limit of its `limits` shortened.
fn hasty(address: SocketAddr, shorten: impl FnOnce(&mut ClientLimits)) -> ConnectOptions {
    let mut target = target(address);
    shorten(&mut target.limits);
    target
}

fn short_greeting(limits: &mut ClientLimits) {
    limits.greeting_timeout = SHORT;
}

fn short_answer(limits: &mut ClientLimits) {
    limits.answer_timeout = SHORT;
}

fn short_idle(limits: &mut ClientLimits) {
    limits.idle_timeout = SHORT;
}

async fn refusal(address: SocketAddr) -> Error {
    refusal_of(&target(address)).await
}

async fn refusal_of(target: &ConnectOptions) -> Error {
    NntpClient::connect(target).await.err().unwrap()
}

/// A client that has sent `command` to a server that then says `answer` and nothing more.
async fn asked(command: &str, answer: &str) -> NntpClient {
    asked_hastily(command, answer, |_| ()).await
}

/// Like [`asked`], with a limit shortened.
async fn asked_hastily(command: &str, answer: &str, shorten: impl FnOnce(&mut ClientLimits)) -> NntpClient {
    let address = says(format!("200 hello\r\n{answer}")).await;
    let mut client = NntpClient::connect(&hasty(address, shorten)).await.unwrap();
    client.submit(command).unwrap();
    client
}

#[tokio::test]
async fn silence_ends_every_wait() {
    let error = refusal_of(&hasty(says("").await, short_greeting)).await;
    assert!(matches!(error, Error::TimedOut(WaitEvent::Greeting)), "{error}");
    assert_eq!(error.retry(), RetryAdvice::Later);
    let mut client = asked_hastily("DATE", "", short_answer).await;
    assert!(matches!(client.answer().await, Err(Error::TimedOut(WaitEvent::Answer))));
    assert!(matches!(client.submit("DATE"), Err(Error::Ended)), "the connection is of no more use");
    let mut client = asked_hastily("BODY", "222 0 <a@x>\r\nhalf", short_idle).await;
    assert_eq!(client.answer().await.unwrap().code, 222);
    assert_eq!(client.chunk().await.unwrap(), Some(&b"half"[..]));
    assert!(matches!(client.chunk().await, Err(Error::TimedOut(WaitEvent::Block))));
    // A TLS server that is none.
    let config = tls::client_config(RootCertStore::empty(), Vec::new(), None).unwrap();
    let tls = TlsOptions { config, name: "x.example".try_into().unwrap() };
    let address = says("").await;
    let quick = hasty(address, |limits| limits.connect_timeout = SHORT);
    let error = refusal_of(&ConnectOptions { security: Security::Implicit(tls), ..quick }).await;
    assert!(matches!(error, Error::TimedOut(WaitEvent::Connecting)), "{error}");
}

#[tokio::test]
async fn dribbling_earns_no_time() {
    let dribble = |start: &'static str| {
        server(async move |mut stream: TcpStream| {
            stream.write_all(start.as_bytes()).await.unwrap();
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let error = refusal_of(&hasty(dribble("200 ").await, short_greeting)).await;
    assert!(matches!(error, Error::TimedOut(WaitEvent::Greeting)), "{error}");
    let address = dribble("200 hello\r\n2").await;
    let mut client = NntpClient::connect(&hasty(address, short_answer)).await.unwrap();
    assert!(matches!(client.request("DATE").await, Err(Error::TimedOut(WaitEvent::Answer))));
    let address = dribble("200 hello\r\n222 body\r\n").await;
    let mut client = NntpClient::connect(&hasty(address, short_idle)).await.unwrap();
    client.request("BODY").await.unwrap();
    let error = client.read_block(&mut Vec::new(), usize::MAX).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut(WaitEvent::Block)), "{error}");
}

#[tokio::test]
async fn lines_without_end_are_cut_off() {
    let error = refusal(repeats("200 ", "x").await).await;
    assert!(matches!(error, Error::Protocol(ProtocolFault::LineTooLong(2000))), "{error}");
    let mut client =
        NntpClient::connect(&target(repeats("200 hello\r\n224 rows\r\n", "x").await)).await.unwrap();
    client.request("OVER 1-").await.unwrap();
    assert!(matches!(client.block_line().await, Err(Error::Protocol(ProtocolFault::LineTooLong(100_000)))));
}

#[tokio::test]
async fn blocks_without_end_are_cut_off() {
    for skipped in [false, true] {
        let endless = repeats("200 hello\r\n222 body\r\n", "text\r\n").await;
        let mut client = NntpClient::connect(&target(endless)).await.unwrap();
        client.submit("BODY").unwrap();
        client.submit("DATE").unwrap();
        assert_eq!(client.answer().await.unwrap().code, 222);
        let mut read = 0;
        let error = loop {
            if skipped {
                break client.answer().await.map(|_| ()).unwrap_err();
            }
            match client.chunk().await {
                Ok(chunk) => read += chunk.unwrap().len(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Protocol(ProtocolFault::BlockTooLong(3_000_000))), "{error}");
        assert!(read <= 3_000_000);
    }
    // A bound of one block is below that of all, in bytes and in time.
    for (bytes_max, time_max) in [(10_000, Duration::from_secs(60)), (3_000_000, Duration::ZERO)] {
        let endless = repeats("200 hello\r\n215 list\r\n", "text\r\n").await;
        let mut client = NntpClient::connect(&target(endless)).await.unwrap();
        assert_eq!(client.request("LIST").await.unwrap().code, 215);
        client.bound_block(bytes_max, time_max);
        let error = loop {
            if let Err(error) = client.block_line().await {
                break error;
            }
        };
        match error {
            Error::Protocol(ProtocolFault::BlockTooLong(10_000)) => assert_eq!(bytes_max, 10_000),
            Error::Protocol(ProtocolFault::BlockTooSlow(time)) => assert_eq!(time, time_max),
            error => panic!("{error}"),
        }
        assert!(!client.is_reusable().await);
    }
    let mut client = asked("BODY", "222 0\r\n1234567\r\n.\r\n").await;
    client.answer().await.unwrap();
    let error = client.read_block(&mut Vec::new(), 8).await.unwrap_err();
    assert!(matches!(error, Error::Protocol(ProtocolFault::BlockTooLong(8))), "{error}");
}

#[tokio::test]
async fn answers_nobody_asked_for_fill_no_memory() {
    let address = repeats("200 hello\r\n", "111 x\r\n").await;
    let mut client = NntpClient::connect(&hasty(address, short_idle)).await.unwrap();
    while client.is_reusable().await {
        tokio::task::yield_now().await;
    }
    assert!(!client.is_reusable().await, "it says what nobody asked for");
    // Much to send, and a server that never reads: what it says meanwhile is kept only as far as there is
    // room.
    let article = "x\r\n".repeat(1 << 20);
    client.submit_takethis(b"<a@x>", article.as_bytes()).unwrap();
    client.submit_takethis(b"<b@x>", article.as_bytes()).unwrap();
    assert!(matches!(client.flush().await, Err(Error::TimedOut(WaitEvent::Sending))));
    assert!(client.connection().unread().len() <= 1 << 20);
}

#[tokio::test]
async fn connections_cut_in_the_middle_are_known_as_such() {
    let cut = |text: &'static str| {
        server(async move |mut stream: TcpStream| {
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            drain(&mut stream).await;
        })
    };
    for start in ["", "200 hel"] {
        let error = refusal(cut(start).await).await;
        assert!(matches!(error, Error::Ended), "{error}");
        assert_eq!(error.retry(), RetryAdvice::Later);
    }
    let mut client =
        NntpClient::connect(&target(cut("200 hello\r\n222 body\r\nsome\r\n.").await)).await.unwrap();
    client.request("BODY").await.unwrap();
    assert_eq!(client.chunk().await.unwrap(), Some(&b"some"[..]));
    assert!(matches!(client.chunk().await, Err(Error::Ended)));
    // Answers before the end count, even while there is still much to send.
    let address = server(async move |mut stream: TcpStream| {
        stream.write_all(b"200 hello\r\n239 <a@x>\r\n400 going down\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        drain(&mut stream).await;
    });
    let mut client = NntpClient::connect(&target(address.await)).await.unwrap();
    for id in [b"<a@x>", b"<b@x>", b"<c@x>"] {
        client.submit_takethis(id, "x\r\n".repeat(400_000).into_bytes()).unwrap();
    }
    assert_eq!(client.answer().await.unwrap().first_word(), b"<a@x>");
    assert_eq!(client.answer().await.unwrap().code, 400);
    assert!(matches!(client.answer().await, Err(Error::Ended)));
    assert!(!client.is_reusable().await);
}

#[tokio::test]
async fn codes_that_make_no_sense_are_refused() {
    for garbage in ["hello\r\n", "20 x\r\n", "2000 x\r\n", "999 x\r\n", "\r\n", "\0\x1b[2J\r\n"] {
        let error = refusal(says(garbage).await).await;
        assert!(matches!(error, Error::Protocol(ProtocolFault::NoCode(_))), "{garbage:?}: {error}");
        assert!(!error.to_string().contains(char::is_control), "{error}");
        let mut client = asked("DATE", garbage).await;
        assert!(matches!(client.answer().await, Err(Error::Protocol(ProtocolFault::NoCode(_)))));
    }
    let error = refusal(says("281 welcome\r\n").await).await;
    assert!(matches!(error, Error::Protocol(ProtocolFault::UnexpectedCode(281))), "{error}");
    for (greeting, retry) in [("400 busy\r\n", RetryAdvice::Later), ("502 go away\r\n", RetryAdvice::Never)] {
        let error = refusal(says(greeting).await).await;
        assert!(matches!(error, Error::Refused { step: SetupStep::Greeting, .. }), "{error}");
        assert_eq!(error.retry(), retry);
    }
}

#[tokio::test]
async fn nothing_said_in_the_clear_passes_for_tls() {
    let config = tls::client_config(RootCertStore::empty(), Vec::new(), None).unwrap();
    let tls = TlsOptions { config, name: "x.example".try_into().unwrap() };
    let starttls = |address| ConnectOptions { security: Security::StartTls(tls.clone()), ..target(address) };
    let injected = says("200 hello\r\n382 go on\r\n200 I am the server\r\n").await;
    let error = NntpClient::connect(&starttls(injected)).await.err().unwrap();
    assert!(matches!(error, Error::Protocol(ProtocolFault::EarlyInput)), "{error}");
    let refusing = says("200 hello\r\n580 no\r\n").await;
    let error = NntpClient::connect(&starttls(refusing)).await.err().unwrap();
    assert!(matches!(error, Error::Refused { step: SetupStep::StartTls, code: 580, .. }), "{error}");
    let garbage = server(async move |mut stream: TcpStream| {
        stream.write_all(b"200 hello\r\n382 go on\r\n").await.unwrap();
        let mut hello = vec![0; 4096];
        assert!(stream.read(&mut hello).await.unwrap() > 0);
        stream.write_all(&[b'x'; 5000]).await.unwrap();
        drain(&mut stream).await;
    });
    let error = NntpClient::connect(&starttls(garbage.await)).await.err().unwrap();
    assert!(matches!(error, Error::Tls(_) | Error::Protocol(ProtocolFault::EarlyInput)), "{error}");
}

#[tokio::test]
async fn passwords_are_not_sent_in_the_clear() {
    let list = "101 list\r\nVERSION 2\r\nAUTHINFO USER SASL\r\nSASL PLAIN\r\n.\r\n";
    let plain = |address| ConnectOptions {
        login: Some(LoginOptions::password("fred", "flintstone")),
        ..target(address)
    };
    let error = NntpClient::connect(&plain(says(format!("200 hello\r\n{list}")).await)).await.err().unwrap();
    assert!(matches!(error, Error::NotOffered(_)), "{error}");
    assert_eq!(error.retry(), RetryAdvice::Never);
    // A server that pretends to check: SCRAM notices that it does not know the password.
    let scram = "101 list\r\nAUTHINFO SASL\r\nSASL SCRAM-SHA-256\r\n.\r\n";
    for answer in ["281 fine\r\n", "283 dj0=\r\n", "383 cj1h\r\n", "383 ?\r\n"] {
        let address = says(format!("200 hello\r\n{scram}{answer}")).await;
        let error = NntpClient::connect(&plain(address)).await.err().unwrap();
        assert!(
            matches!(error, Error::Protocol(ProtocolFault::ServerProof | ProtocolFault::Sasl(_))),
            "{answer:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_refused_way_to_log_in_is_followed_by_the_next() {
    let list = "101 list\r\nVERSION 2\r\nAUTHINFO USER SASL\r\nSASL PLAIN SCRAM-SHA-256\r\n.\r\n";
    let user = "381 go on\r\n281 welcome\r\n";
    let by = |mechanisms: &[ClientMechanism], text: String| {
        let login = LoginOptions::password("fred", "flintstone");
        let login = LoginOptions { mechanisms: mechanisms.to_vec(), clear_passwords: true, ..login };
        async move {
            NntpClient::connect(&ConnectOptions { login: Some(login), ..target(says(text).await) }).await
        }
    };
    for refusals in ["503 no\r\n481 no\r\n", "481 no\r\n501 no\r\n", "500 no\r\n482 no\r\n"] {
        by(&[], format!("200 hello\r\n{list}{refusals}{user}")).await.unwrap();
    }
    // An order that is set is kept, and nothing is asked before.
    by(&[ClientMechanism::User], format!("200 hello\r\n{user}")).await.unwrap();
    let order = [ClientMechanism::User, ClientMechanism::Plain];
    by(&order, "200 hello\r\n381 go on\r\n481 no\r\n281 welcome\r\n".into()).await.unwrap();
    // The error is the last refusal. After 400 and 502 nothing more is tried.
    let refused = async |answers: &str| {
        let error = by(&[], format!("200 hello\r\n{list}{answers}")).await.err().unwrap();
        match error {
            Error::Refused { step: SetupStep::Login, code, .. } => code,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refused("503 no\r\n481 no\r\n381 go on\r\n482 no\r\n").await, 482);
    assert_eq!(refused("502 no\r\n481 no\r\n").await, 502);
    assert_eq!(refused("400 no\r\n481 no\r\n").await, 400);
}

#[tokio::test]
async fn mode_reader_that_needs_a_login_is_repeated_after_it() {
    let login = LoginOptions::password("fred", "flintstone");
    let login = LoginOptions { mechanisms: vec![ClientMechanism::User], clear_passwords: true, ..login };
    let connect = async |text: &str| {
        let address = says(text.as_bytes()).await;
        let target = ConnectOptions { role: Role::Reader, login: Some(login.clone()), ..target(address) };
        NntpClient::connect(&target).await
    };
    let user = "200 hello\r\n480 log in\r\n381 go on\r\n281 welcome\r\n";
    assert!(!connect(&format!("{user}201 read\r\n")).await.unwrap().posting_allowed());
    connect(&format!("{user}500 what?\r\n")).await.unwrap();
    let error = connect(&format!("{user}480 log in\r\n")).await.err().unwrap();
    assert!(matches!(error, Error::Refused { step: SetupStep::ModeReader, code: 480, .. }), "{error}");
    let error = connect("200 hello\r\n480 log in\r\n381 go on\r\n481 no\r\n").await.err().unwrap();
    assert!(matches!(error, Error::Refused { step: SetupStep::Login, code: 481, .. }), "{error}");
    // Without a login there is nothing to try.
    let target = ConnectOptions { role: Role::Reader, ..target(says("200 hello\r\n480 log in\r\n").await) };
    let error = NntpClient::connect(&target).await.err().unwrap();
    assert!(matches!(error, Error::Refused { step: SetupStep::ModeReader, code: 480, .. }), "{error}");
    // Later it means that the login counts no longer.
    let mut client = connect(&format!("{user}200 read\r\n480 log in\r\n")).await.unwrap();
    let error = client.request("GROUP a.b").await.err().unwrap();
    assert!(matches!(&error, Error::LoggedOut(text) if &**text == "log in"), "{error}");
    assert_eq!((error.retry(), client.is_reusable().await), (RetryAdvice::Later, false));
}

#[tokio::test]
async fn requests_cannot_carry_a_second_one() {
    let mut client = asked("DATE", "111 x\r\n").await;
    for bad in ["", "DATE\r\nQUIT", "DATE\n", "BODY \0"] {
        assert!(matches!(client.submit(bad), Err(Error::Request(_))), "{bad:?}");
    }
    for bad in [&b"no line end"[..], b"a\r\n.\r\nQUIT\r\n", b".\r\n", b""] {
        assert!(matches!(client.submit_takethis(b"<a@x>", bad), Err(Error::Request(_))), "{bad:?}");
        assert!(matches!(client.submit_article(bad), Err(Error::Request(_))), "{bad:?}");
    }
    assert!(matches!(client.submit_check(b"<a@x>\r\nQUIT"), Err(Error::Request(_))));
    // The connection is as it was.
    client.flush().await.unwrap();
    assert_eq!(client.answer().await.unwrap().code, 111);
    assert!(matches!(client.answer().await, Err(Error::Request(_))));
    assert!(client.is_reusable().await);
}

#[tokio::test]
async fn the_queue_has_a_limit() {
    let mut target = target(says("200 hello\r\n").await);
    target.limits.outstanding_max = 3;
    let mut client = NntpClient::connect(&target).await.unwrap();
    for _ in 0..3 {
        client.submit("DATE").unwrap();
    }
    assert!(!client.has_room());
    assert!(matches!(client.submit("DATE"), Err(Error::Full)));
    assert_eq!(client.outstanding(), 3);
}

#[tokio::test]
async fn names_and_ports_without_a_server_are_told_apart() {
    // An address on which no other program listens.
    let listener = TcpListener::bind("127.0.0.11:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let error = refusal(free).await;
    assert!(matches!(error, Error::Connect { address, .. } if address == free), "{error}");
    let nowhere = ConnectOptions { host: "no host".into(), ..target(free) };
    assert!(matches!(NntpClient::connect(&nowhere).await.err().unwrap(), Error::Lookup { .. }));
}
