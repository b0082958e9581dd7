//! A small LDAP directory for the cases: it knows bob below `ou=people`, whose password is "secret".

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;

/// The address of the directory, which ends with the test's process.
pub static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
});

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    [&[tag, u8::try_from(content.len()).unwrap()], content.as_slice()].concat()
}

/// Answers requests, which are short, until the client leaves.
fn serve(mut stream: TcpStream) {
    let mut head = [0; 2];
    while stream.read_exact(&mut head).is_ok() {
        let mut request = vec![0; usize::from(head[1])];
        stream.read_exact(&mut request).unwrap();
        let has = |text: &[u8]| request.windows(text.len()).any(|window| window == text);
        let send = |operation: &[u8]| element(0x30, &[&request[..3], operation]);
        let result = |tag, code| send(&element(tag, &[&[0x0a, 1, code, 4, 0, 4, 0]]));
        let answer = match request[3] {
            0x60 if has(b"uid=bob,ou=people") && has(b"secret") => result(0x61, 0),
            0x60 => result(0x61, 49),
            0x63 => {
                let values = element(0x31, &[&element(4, &[b"bob"])]);
                let attribute = element(0x30, &[&element(4, &[b"uid"]), &values]);
                let entry = [element(4, &[b"uid=bob,ou=people"]), element(0x30, &[&attribute])].concat();
                [send(&element(0x64, &[&entry])), result(0x65, 0)].concat()
            }
            _ => return,
        };
        stream.write_all(&answer).unwrap();
    }
}
