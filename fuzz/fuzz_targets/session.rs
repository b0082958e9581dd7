//! A whole session against a whole server: whatever a client sends, every answer is in form, and the server ends what its
//! client has ended.
//!
//! The server is one for all inputs, so what earlier sessions have filed and removed is there too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use newsreel::{config, server};
use spool::{Flag, NewGroup, RealDisk, Spool};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How long the server may take to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(10);

const CONFIG: &str = r#"
[site]
path_identity = "site.example"
listen = ["127.0.0.1:0"]
data = "{DATA}"
durability = "process"
max_age_days = "none"
log_level = "error"

[[buffer]]
name = "text0"
path = "text0.cyc"
size = "8 MiB"

[[class]]
name = "text"
buffers = ["text0"]

[[rule]]
class = "text"

[[peer]]
name = "peer.example"
addresses = ["127.0.0.1"]

[[access]]
from = ["127.0.0.1"]
read = "*"
post = "*"

[moderation]
sendmail = "/bin/false %s"
"#;

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("newsreel-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("data")).unwrap();
    let text = CONFIG.replace("{DATA}", dir.join("data").to_str().unwrap());
    let config = config::parse(&text, &dir.join("newsreel.toml")).map_err(|e| e.to_string()).unwrap();
    let (spool, _) = Spool::open(Arc::new(RealDisk::new()), config.spool_config(), &()).unwrap();
    let group = |name: &str, flag| NewGroup { name: name.into(), flag, ..NewGroup::default() };
    spool
        .add_groups(&[
            group("misc.test", Flag::Open),
            group("local.general", Flag::Open),
            group("local.moderated", Flag::Moderated),
            group("junk", Flag::Closed),
            group("control", Flag::Closed),
        ])
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listeners = server::Listeners { plain: vec![listener], tls: Vec::new() };
    std::thread::spawn(move || {
        let run = server::run(Arc::new(config), Arc::new(spool), listeners, std::future::pending());
        server::runtime().unwrap().block_on(run)
    });
    address
});

fuzz_target!(|data: &[u8]| {
    let mut stream = TcpStream::connect(*SERVER).unwrap();
    stream.set_read_timeout(Some(END_TIMEOUT)).unwrap();
    // The server may have closed the connection: then what it said before is what counts.
    let _closed = stream.write_all(data);
    let _closed = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answers) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the session does not end");
    }
    let greeting = answers.get(..4).unwrap_or(b"200 ");
    assert!(matches!(greeting, b"200 " | b"201 " | b"400 "), "{greeting:?}");
});
