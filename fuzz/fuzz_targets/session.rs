//! A whole session against a whole server: whatever a client sends, every answer is in form, and the server ends what its
//! client has ended.
//!
//! The server is one for all inputs, so what earlier sessions have filed and removed is there too.
#![no_main]

#[path = "../../crates/newsreel/tests/main/answers.rs"]
mod answers;
#[path = "../../crates/newsreel/tests/main/test_site.rs"]
mod test_site;

use libfuzzer_sys::fuzz_target;
use spool::RealDisk;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long the server may take to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    take_broken_pipes_as_errors();
    // Stays there: libFuzzer ends the process without a word.
    let dir = std::env::temp_dir().join(format!("newsreel-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let small = |text: String| text.replace("32 MiB", "8 MiB");
    let (config, spool) = test_site::make(Arc::new(RealDisk::new()), &dir, small);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    test_site::serve(config, spool, listener, None, std::future::pending());
    address
});

/// What Rust's own `main` does for a program, and libFuzzer's does not: writing to a connection that is gone is no death.
fn take_broken_pipes_as_errors() {
    let runtime = newsreel::server::runtime().unwrap();
    let _entered = runtime.enter();
    // The handler stays when this is dropped.
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::pipe()).unwrap());
}

fuzz_target!(|data: &[u8]| {
    // Connecting has a limit of its own: at thousands of connections a second the system may take long over one.
    let mut stream = TcpStream::connect_timeout(&SERVER, CONNECT_TIMEOUT).unwrap();
    let begun = Instant::now();
    stream.set_read_timeout(Some(END_TIMEOUT)).unwrap();
    // Long answers are read while more is sent: who does not read is not read from either.
    let mut reading = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut answers = Vec::new();
        if let Err(error) = reading.read_to_end(&mut answers) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the session does not end");
        }
        answers
    });
    // The server may have closed the connection: then what it said before is what counts.
    let _closed = stream.write_all(data);
    let _closed = stream.shutdown(Shutdown::Write);
    let answers = reader.join().unwrap();
    assert!(begun.elapsed() < END_TIMEOUT, "{:?}", begun.elapsed());
    let text: String = answers.iter().map(|&octet| char::from(octet)).collect();
    answers::well_formed(&text).unwrap_or_else(|why| panic!("{why}\nof {text}"));
    assert!(["", "200 ", "201 ", "400 "].contains(&text.get(..4).unwrap_or_default()), "{text}");
});
