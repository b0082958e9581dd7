//! Encryption: STARTTLS, connections that begin with TLS, certificates of servers and clients, reloading.
//!
//! Sources: RFC 4642, RFC 8143, RFC 7301.

use crate::client::{Client, article};
use crate::layers::{Authority, Identity, settings, settings_for};
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::wait_until;
use rustls::ProtocolVersion;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// A server with a certificate.
pub struct Site {
    pub server: Server,
    pub authority: Authority,
    dir: TempDir,
}

impl Site {
    pub fn start() -> Self {
        Self::start_with("", |text| text)
    }

    /// Starts with more keys for `[tls]`, where `{CA}` is the authority's file, and a changed configuration.
    pub fn start_with(keys: &str, change: impl FnOnce(String) -> String) -> Self {
        let dir = TempDir::new().unwrap();
        let authority = Authority::new();
        let file = |name: &str| dir.path().join(name);
        authority.write(&file("ca.crt"));
        authority.sign("news.example.org").write(&file("news.crt"), &file("news.key"));
        let keys = keys.replace("{CA}", file("ca.crt").to_str().unwrap());
        let (certificate, key) = (file("news.crt"), file("news.key"));
        let tls = format!("\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n{keys}\n[limits]");
        let server = Server::start_with(|text| {
            let text = text.replace("\n[limits]", &tls);
            change(text.replace("[site]", "[site]\ntls_listen = [\"127.0.0.1:0\"]"))
        });
        Self { server, authority, dir }
    }

    /// Returns a TLS connection of a client that presents `identity`.
    fn encrypted(&self, identity: Option<&Identity>) -> Client {
        Client::encrypted(self.server.tls_address.unwrap(), settings(&self.authority, identity))
    }

    fn control(&self, request: &str) -> Vec<String> {
        let mut socket = UnixStream::connect(self.server.data().join("control")).unwrap();
        socket.write_all(format!("{request}\n").as_bytes()).unwrap();
        let lines = BufReader::new(socket).lines().map(Result::unwrap);
        let mut told = Vec::new();
        for line in lines {
            let done = line.contains("\"done\"");
            told.push(line);
            if done {
                break;
            }
        }
        told
    }
}

#[test]
fn certificate_named_as_tls_ca_verifies_a_server_of_any_name() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name);
    for (at, make) in [Identity::self_signed, Identity::self_signed_authority].into_iter().enumerate() {
        make("inn.example.org").write(&file("own.crt"), &file("own.key"));
        make("inn.example.org").write(&file("other.crt"), &file("other.key"));
        let (certificate, key) = (file("own.crt"), file("own.key"));
        let tls = format!("\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n[limits]");
        let server = Server::start_with(|text| {
            text.replace("\n[limits]", &tls).replace("[site]", "[site]\ntls_listen = [\"127.0.0.1:0\"]")
        });
        let host = server.tls_address.unwrap();
        for (named, answer) in [("own.crt", "211 "), ("other.crt", "403 ")] {
            let section = format!(
                "[[upstream]]\nname = \"inn\"\nhost = \"{host}\"\ntls = \"implicit\"\ntls_ca = {:?}\n",
                file(named)
            );
            let front = Server::start_showing(&[], |text| text + &section);
            let said = front.client().ask("GROUP misc.test");
            assert!(said.starts_with(answer), "{at}: {named}: {said}");
        }
    }
}

#[test]
fn starttls_encrypts_and_resets_the_session() {
    let site = Site::start();
    let mut client = Client::greeted(site.server.address);
    assert!(client.capabilities().contains(&"STARTTLS".into()));
    client.send(format!("TAKETHIS <a@x.example>\r\n{}", article("<a@x.example>", "misc.test", "text")));
    assert_eq!(client.line(), "239 <a@x.example>");
    assert!(client.ask("GROUP misc.test").starts_with("211 1 "));
    assert!(client.ask("STAT").starts_with("223 "));
    assert!(client.ask("starttls now").starts_with("501 "));
    assert_eq!(client.ask("STARTTLS"), "382 Continue with TLS negotiation");
    client.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    assert_eq!(client.version(), Some(ProtocolVersion::TLSv1_3));
    // The group was selected before TLS, so it is no longer selected.
    assert!(client.ask("STAT").starts_with("412 "));
    assert!(!client.capabilities().contains(&"STARTTLS".into()));
    assert_eq!(client.ask("STARTTLS"), "502 TLS is active already");
    assert!(client.ask("GROUP misc.test").starts_with("211 1 "));
    assert!(client.ask("BODY").starts_with("222 "));
    assert_eq!(client.block(), ["text"]);
    assert!(client.ask("QUIT").starts_with("205 "));
    assert!(client.is_cut_off());
}

#[test]
fn commands_injected_after_starttls_are_discarded() {
    let site = Site::start();
    let mut client = Client::greeted(site.server.address);
    client.send("STARTTLS\r\nGROUP misc.test\r\n");
    assert_eq!(client.line(), "580 STARTTLS must not be pipelined");
    assert!(client.line().starts_with("211 "));
    // In a segment of its own the text is parsed as TLS, and ends the connection.
    assert!(client.ask("STARTTLS").starts_with("382 "));
    client.send("GROUP misc.test\r\nGROUP misc.test\r\n");
    assert!(client.is_cut_off());
}

#[test]
fn without_a_certificate_starttls_is_refused() {
    let server = Server::start();
    let mut client = Client::greeted(server.address);
    assert!(!client.capabilities().contains(&"STARTTLS".into()));
    assert!(client.ask("STARTTLS").starts_with("580 "));
    assert!(client.ask("DATE").starts_with("111 "));
}

#[test]
fn implicit_tls_connections_work() {
    let site = Site::start();
    let address = site.server.tls_address.unwrap();
    for (version, name) in [
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
    ] {
        let mut client = Client::encrypted(address, settings_for(&site.authority, None, &[version]));
        assert_eq!(client.version(), Some(name));
        assert!(!client.capabilities().contains(&"STARTTLS".into()));
        assert!(client.ask("DATE").starts_with("111 "));
    }
    // A client of TLS 1.1: version 3.2 and no extensions. The server sends an alert.
    let hello = [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2][..], &[7; 32], &[0, 0, 2, 0xc0, 0x13, 1, 0]];
    let mut old = TcpStream::connect(address).unwrap();
    old.write_all(&hello.concat()).unwrap();
    let mut answer = Vec::new();
    old.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.first(), Some(&21), "{answer:?}");
}

#[test]
fn client_with_other_alpn_protocols_is_rejected() {
    let site = Site::start();
    let address = site.server.tls_address.unwrap();
    let offering = |protocols: &[&str]| {
        let mut settings = settings(&site.authority, None);
        settings.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        settings
    };
    for (offered, chosen) in [(&["nntp"][..], "nntp"), (&["nnsp"], "nnsp"), (&["h2", "nntp"], "nntp")] {
        let client = Client::encrypted(address, offering(offered));
        assert_eq!(client.protocol(), Some(chosen.as_bytes()));
    }
    assert_eq!(Client::encrypted(address, offering(&[])).protocol(), None);
    let refused = Client::connect(address).handshake(offering(&["http/1.1", "h2"]), "news.example.org");
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
}

#[test]
fn large_articles_and_pipelines_pass_through_tls() {
    let site = Site::start();
    let mut client = site.encrypted(None);
    let line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+";
    let body = vec![line; 1800].join("\r\n");
    let ids: Vec<String> = (0..40).map(|i| format!("<l{i}@x.example>")).collect();
    for id in &ids {
        client.send(format!("TAKETHIS {id}\r\n{}", article(id, "misc.test", &body)));
    }
    for id in &ids {
        assert_eq!(client.line(), format!("239 {id}"));
    }
    client.send(ids.iter().map(|id| format!("BODY {id}\r\n")).collect::<String>());
    for _ in &ids {
        assert!(client.line().starts_with("222 "));
        assert_eq!(client.block().len(), 1800);
    }
    assert!(client.ask("GROUP misc.test").starts_with("211 40 "));
}

#[test]
fn failed_handshake_ends_only_its_connection() {
    let site = Site::start_with("", |text| text.replace("\"1 min\"", "\"1 s\""));
    let address = site.server.tls_address.unwrap();
    let mut stray = Client::connect(address);
    let _late = stray.try_send("CAPABILITIES\r\n");
    assert!(stray.line_or_end().is_none());
    // A silent client loses the connection after command_timeout, a second.
    let mut silent = Client::connect(address);
    assert!(silent.is_cut_off());
    site.server.reload(|text| text.replace("\"1 s\"", "\"1 min\"")).unwrap();
    assert!(site.encrypted(None).ask("DATE").starts_with("111 "));
}

#[test]
fn client_without_room_after_starttls_gets_400() {
    let site = Site::start_with("", |text| {
        text.replace("addresses = [\"127.0.0.1\"]", "addresses = [\"127.0.0.3\"]").replacen(
            "[[access]]",
            "[[access]]\nfrom = \"all\"\ntls = true\nread = \"*\"\npost = \"*\"\nconnections_per_address_max = 1\n\n[[access]]",
            1,
        )
    });
    let _first = site.encrypted(None);
    let mut second = Client::greeted(site.server.address);
    assert!(second.ask("STARTTLS").starts_with("382 "));
    second.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    assert_eq!(second.line(), "400 Too many connections from your address (at most 1), try again later");
    assert!(second.is_cut_off());
}

#[test]
fn clients_get_the_certificate_for_the_requested_name() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name);
    let authority = Authority::new();
    let names = ["first.example.org", "*.example.net", "third.example.com"];
    let all = names.map(|name| authority.sign(name));
    let mut paths = [Vec::new(), Vec::new()];
    for (number, identity) in all.iter().enumerate() {
        let (certificate, key) = (file(&format!("{number}.crt")), file(&format!("{number}.key")));
        identity.write(&certificate, &key);
        paths[0].push(certificate);
        paths[1].push(key);
    }
    let [certificates, keys] = paths;
    let tls = format!("\n[tls]\ncertificate = {certificates:?}\nkey = {keys:?}\n[limits]");
    let server = Server::start_with(|text| {
        text.replace("[site]", "[site]\ntls_listen = [\"127.0.0.1:0\"]").replace("\n[limits]", &tls)
    });
    let shown = |asked: &str| {
        let mut client = Client::connect(server.tls_address.unwrap());
        let made = client.handshake(settings(&authority, None), asked);
        made.map(|()| client.server_certificate())
    };
    for (asked, expected) in [("first.example.org", 0), ("News.Example.NET", 1), ("third.example.com", 2)] {
        assert_eq!(shown(asked).unwrap(), all[expected].certificate, "{asked}");
    }
    // A client that asks for an unknown name gets the first certificate, which it then rejects.
    assert!(shown("other.example.com").unwrap_err().to_string().contains("not valid for name"));
    assert!(shown("a.b.example.net").unwrap_err().to_string().contains("not valid for name"));
}

#[test]
fn new_certificate_needs_no_restart_and_a_bad_one_is_ignored() {
    let site = Site::start();
    let shown = || site.encrypted(None).server_certificate();
    let file = |name: &str| site.dir.path().join(name);
    let mut before = site.encrypted(None);
    let second = site.authority.sign("news.example.org");
    second.write(&file("news.crt"), &file("news.key"));
    let told = site.control("{\"do\":\"reload\"}");
    assert!(told[0].contains("certificates reloaded"), "{told:?}");
    assert_eq!(shown(), second.certificate);
    // Existing connections stay open.
    assert!(before.ask("DATE").starts_with("111 "));

    site.authority.sign("news.example.org").write(&file("news.crt"), &file("other.key"));
    let told = site.control("{\"do\":\"reload\"}").join(" ");
    assert!(told.contains("is not the key of"), "{told}");
    std::fs::write(file("news.crt"), "-----BEGIN CERTIFICATE-----\nnone\n").unwrap();
    let told = site.control("{\"do\":\"reload\"}").join(" ");
    assert!(told.contains("news.crt") && told.contains("\"ok\":false"), "{told}");
    assert_eq!(shown(), second.certificate);
}

/// In a separate process, because the servers of other tests in this one would get the signal too.
#[test]
fn sighup_loads_a_new_certificate() {
    let site = Operated::unmade();
    site.done(&["init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--buffer", "1 MiB"]);
    let authority = Authority::new();
    let sign = || {
        let identity = authority.sign("news.example.org");
        identity.write(&site.dir().join("self-signed.crt"), &site.dir().join("self-signed.key"));
        identity.certificate
    };
    let first = sign();
    let serving = site.serve();
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    let address = status["server"]["listen"][1].as_str().unwrap().parse().unwrap();
    let shown = || Client::encrypted(address, settings(&authority, None)).server_certificate();
    assert_eq!(shown(), first);
    let second = sign();
    let process = rustix::process::Pid::from_raw(serving.pid().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    wait_until("SIGHUP has an effect", || shown() == second);
}

#[test]
fn reload_enables_and_disables_encryption() {
    const OWN_ADDRESS: &str = "tls_listen = [\"127.86.17.1:0\"]";
    let site = Site::start_with("client_ca = \"{CA}\"", |text| {
        let (start, rest) = text.split_once("[[peer]]").unwrap();
        let (_, end) = rest.split_once("[[access]]").unwrap();
        // The port stays free while it is closed.
        let start = start.replace("tls_listen = [\"127.0.0.1:0\"]", OWN_ADDRESS);
        format!("{start}[[peer]]\nname = \"p\"\ncertificate = [\"peer.example.net\"]\n[[access]]{end}")
    });
    let with = std::fs::read_to_string(site.server.file()).unwrap();
    let (head, rest) = with.split_once("\n[tls]").unwrap();
    let (_, limits) = rest.split_once("\n[limits]").unwrap();
    let without = format!("{head}\n[limits]{limits}")
        .replace(&format!("{OWN_ADDRESS}\n"), "")
        .replace("certificate = [\"peer.example.net\"]", "addresses = [\"192.0.2.1\"]");
    let mut before = site.encrypted(None);
    let said = site.server.reload(|_| without).unwrap();
    assert!(said.contains("tls_listen") && said.contains("[tls]"), "{said}");
    assert!(before.ask("DATE").starts_with("111 "), "whoever is connected stays");
    let mut plain = Client::greeted(site.server.address);
    assert!(plain.ask("STARTTLS").starts_with("580 "));
    assert!(TcpStream::connect(site.server.tls_address.unwrap()).is_err());
    // Enabled again, on the earlier port, with another authority for clients.
    let other = Authority::new();
    other.write(&site.dir.path().join("ca.crt"));
    let address = site.server.tls_address.unwrap();
    let listening = with.replace(OWN_ADDRESS, &format!("tls_listen = [\"{address}\"]"));
    site.server.reload(|_| listening).unwrap();
    let encrypted =
        |identity: Identity| Client::encrypted(address, settings(&site.authority, Some(&identity)));
    assert_eq!(offer(&mut encrypted(other.sign("peer.example.net"))), "335");
    // A certificate of the earlier authority is rejected, immediately or at the first command.
    assert_eq!(offer(&mut encrypted(site.authority.sign("peer.example.net"))), "502");
    let mut plain = Client::greeted(site.server.address);
    assert!(plain.ask("STARTTLS").starts_with("382 "));
}

/// Returns the code of an offer, which shows whether the client may offer articles. A new article each time,
/// as the previous one may still be reserved for a connection that was just closed.
fn offer(client: &mut Client) -> String {
    static OFFERED: AtomicU32 = AtomicU32::new(0);
    let number = OFFERED.fetch_add(1, Ordering::Relaxed);
    client.ask(&format!("IHAVE <offered{number}@x.example>")).chars().take(3).collect()
}

#[test]
fn peers_are_recognized_by_their_certificates() {
    let known = Identity::self_signed("known.example.net");
    let fingerprint = known.fingerprint();
    let site = Site::start_with("client_ca = \"{CA}\"", |text| {
        let peers = format!(
            "[[peer]]\nname = \"peer.example\"\ncertificate = [\"Peer.Example.net\"]\n\
             [[peer]]\nname = \"known.example\"\naddresses = [\"127.0.0.1\"]\ncertificate = \"{fingerprint}\"\n"
        );
        let (start, rest) = text.split_once("[[peer]]").unwrap();
        let (_, end) = rest.split_once("[[access]]").unwrap();
        format!("{start}{peers}[[access]]{end}")
    });
    let peer = site.authority.sign("peer.example.net");
    assert_eq!(offer(&mut site.encrypted(Some(&peer))), "335");
    assert_eq!(offer(&mut site.encrypted(Some(&known))), "335");
    // No certificate; the right name without a trusted signature; another name.
    assert_eq!(offer(&mut site.encrypted(None)), "502");
    assert_eq!(offer(&mut site.encrypted(Some(&Identity::self_signed("peer.example.net")))), "502");
    assert_eq!(offer(&mut site.encrypted(Some(&site.authority.sign("other.example.net")))), "502");
    // Resumed connections are checked as well.
    let resuming = settings(&site.authority, Some(&peer));
    for _ in 0..3 {
        let mut again = Client::encrypted(site.server.tls_address.unwrap(), resuming.clone());
        assert_eq!(offer(&mut again), "335");
    }
    let mut client = Client::greeted(site.server.address);
    assert_eq!(offer(&mut client), "483");
    assert!(client.ask("STARTTLS").starts_with("382 "));
    client.handshake(settings(&site.authority, Some(&peer)), "news.example.org").unwrap();
    assert_eq!(offer(&mut client), "335");
}

#[test]
fn peer_that_must_encrypt_gets_483() {
    let site = Site::start_with("", |text| {
        text.replace("name = \"peer.example\"", "name = \"peer.example\"\ntls = \"require\"")
    });
    let mut client = Client::greeted(site.server.address);
    assert_eq!(offer(&mut client), "483");
    assert!(client.ask("MODE STREAM").starts_with("483 "));
    assert!(!client.capabilities().contains(&"STREAMING".into()));
    client.send(format!("TAKETHIS <a@x.example>\r\n{}", article("<a@x.example>", "misc.test", "text")));
    assert!(client.line().starts_with("483 "));
    assert!(client.ask("STARTTLS").starts_with("382 "));
    client.handshake(settings(&site.authority, None), "news.example.org").unwrap();
    assert!(client.capabilities().contains(&"STREAMING".into()));
    client.send(format!("TAKETHIS <a@x.example>\r\n{}", article("<a@x.example>", "misc.test", "text")));
    assert_eq!(client.line(), "239 <a@x.example>");
}
