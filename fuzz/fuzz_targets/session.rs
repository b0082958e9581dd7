//! A whole session against a whole server: whatever a client sends, every answer is in form, and the server
//! ends what its client has ended.
//!
//! The server is one for all inputs, so what earlier sessions have filed and removed is there too.
#![no_main]

#[path = "../../crates/newsreel/tests/main/answers.rs"]
mod answers;
#[path = "../../crates/newsreel/tests/main/test_site.rs"]
mod test_site;

use disk::RealDisk;
use libfuzzer_sys::fuzz_target;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use upstreams::LocalSpool;

/// How long the server may take to end a session, in beats of the pulse.
const END_BEATS: u64 = 100;
const BEAT: Duration = Duration::from_millis(100);

/// Counts beats in which this process runs: a machine that stands still for a minute is no fault of the
/// server.
static PULSE: AtomicU64 = AtomicU64::new(0);

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    take_broken_pipes_as_errors();
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(BEAT);
            PULSE.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Stays there: libFuzzer ends the process without a word. A smoke run clears what the last one left.
    let dir = match option_env!("CARGO_TARGET_TMPDIR") {
        Some(dir) => Path::new(dir).join("fuzz-session"),
        None => std::env::temp_dir().join(format!("newsreel-fuzz-{}", std::process::id())),
    };
    let _left = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let small = |text: String| text.replace("32 MiB", "8 MiB");
    let (config, spool) = test_site::make(Arc::new(RealDisk::new()), &dir, small);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let source = LocalSpool::new(spool.clone());
    test_site::serve(config, spool, source, listener, None, std::future::pending());
    address
});

/// What Rust's own `main` does for a program, and libFuzzer's does not: writing to a connection that is gone
/// is no death.
fn take_broken_pipes_as_errors() {
    let runtime = newsreel::server::runtime().unwrap();
    let _entered = runtime.enter();
    // The handler stays when this is dropped.
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::pipe()).unwrap());
}

/// Everything that comes until the server ends the session.
fn answers(mut stream: TcpStream) -> Vec<u8> {
    let begun = PULSE.load(Ordering::Relaxed);
    let (mut answers, mut room) = (Vec::new(), [0; 8192]);
    loop {
        match stream.read(&mut room) {
            Ok(0) => return answers,
            Ok(read) => answers.extend_from_slice(&room[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return answers,
            Err(error) => panic!("{error}"),
        }
        let beats = PULSE.load(Ordering::Relaxed) - begun;
        assert!(beats < END_BEATS, "the session does not end");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut stream = TcpStream::connect(*SERVER).unwrap();
    stream.set_read_timeout(Some(BEAT)).unwrap();
    // Long answers are read while more is sent: who does not read is not read from either.
    let reading = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || answers(reading));
    // The server may have closed the connection: then what it said before is what counts.
    let _closed = stream.write_all(data);
    let _closed = stream.shutdown(Shutdown::Write);
    let sent = reader.join().unwrap();
    let text: String = sent.iter().map(|&octet| char::from(octet)).collect();
    answers::well_formed(&text).unwrap_or_else(|why| panic!("{why}\nof {text}"));
    assert!(["", "200 ", "201 ", "400 "].contains(&text.get(..4).unwrap_or_default()), "{text}");
});
