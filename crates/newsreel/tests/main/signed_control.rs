//! Signed control messages, made by gpg in pgpcontrol's form: accepted keys, and the effect of alterations.

use crate::client::Client;
use crate::group_control::date;
use crate::operated::{Operated, Serving, complaints};
use crate::waiting::wait_for;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use newsreel::fuzzing::Keys;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const POLICY: &str = "[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n\
    [[control]]\ntype = [\"newgroup\", \"rmgroup\", \"checkgroups\"]\nfrom = \"admin@x.example\"\ngroups = \"x.*\"\n\
    signed_by = \"x-admin\"\naction = \"do\"\n\
    [[control]]\nsigned_by = [\"y-admin\"]\ngroups = \"y.*\"\naction = \"do\"\n";

/// A gpg home directory with keys.
pub struct Gpg(PathBuf);

impl Gpg {
    pub fn new(home: &Path) -> Self {
        let dir = home.join("gpg");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self(dir)
    }

    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("gpg")
            .arg("--homedir")
            .arg(&self.0)
            .args(["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gpg is needed for this test: apt-get install gnupg");
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", complaints(&output));
        output.stdout
    }

    pub fn generate(&self, user: &str, algorithm: &str, expires: &str) {
        self.run(&["--quick-gen-key", user, algorithm, "sign", expires], b"");
    }

    pub fn export(&self, user: &str) -> Vec<u8> {
        self.run(&["--armor", "--export", user], b"")
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // The agent would outlive the directory.
        let _ended = Command::new("gpgconf").arg("--homedir").arg(&self.0).args(["--kill", "all"]).status();
    }
}

/// A control message to be signed, with LF at the ends of lines.
#[derive(Clone)]
struct Message {
    id: String,
    command: String,
    date: String,
    body: String,
}

impl Message {
    fn new(id: &str, command: &str, minutes: i64) -> Self {
        let body = "..A line that begins with dots.\nBlanks at its end  \n-- \nlast\n".to_owned();
        Self { id: id.into(), command: command.into(), date: date(0, minutes), body }
    }

    /// Returns the signed headers in order.
    fn signed_headers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Subject", format!("cmsg {}", self.command)),
            ("Control", self.command.clone()),
            ("Message-ID", self.id.clone()),
            ("Date", self.date.clone()),
            ("From", "X Admin <admin@x.example>".to_owned()),
            ("Sender", String::new()),
        ]
    }

    /// Returns the text that pgpcontrol's signcontrol signs.
    fn text(&self) -> String {
        let headers = self.signed_headers();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let text = format!("X-Signed-Headers: {}\n{lines}\n{}", names.join(","), self.body);
        text.lines().map(|line| format!("{}\n", line.trim_end_matches([' ', '\t']))).collect()
    }

    /// Returns the article, with the armored signature, in wire format without its end.
    fn article(&self, armor: &str) -> String {
        let mut lines = armor.lines().skip_while(|line| !line.is_empty()).skip(1);
        let base64: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("-----END")).collect();
        let names: Vec<&str> = self.signed_headers().iter().map(|(name, _)| *name).collect();
        let headers: String = self
            .signed_headers()
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let body: String = self
            .body
            .lines()
            .map(|line| format!("{}{line}\r\n", if line.starts_with('.') { "." } else { "" }))
            .collect();
        format!(
            "Path: peer.example!not-for-mail\r\nNewsgroups: x.announce\r\nApproved: admin@x.example\r\n{headers}\
             X-PGP-Sig: GnuPG-v2 {}\r\n\t{}\r\n\r\n{body}",
            names.join(","),
            base64.join("\r\n\t")
        )
    }

    fn signed(&self, gpg: &Gpg, user: &str, options: &[&str]) -> String {
        let arguments = [options, &["--armor", "--detach-sign", "-u", user]].concat();
        let armor = gpg.run(&arguments, self.text().as_bytes());
        self.article(&String::from_utf8(armor).unwrap())
    }
}

pub fn take(client: &mut Client, id: &str, article: &str) {
    client.send(format!("TAKETHIS {id}\r\n{article}.\r\n"));
    assert_eq!(client.line(), format!("239 {id}"));
}

/// Returns the groups of x.* and y.*, once `group` is among them.
fn groups(client: &mut Client, group: &str) -> Vec<String> {
    let names = || -> Vec<String> {
        assert!(client.ask("LIST ACTIVE x.*,y.*").starts_with("215 "));
        client.block().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    wait_for(names, |names| names.iter().any(|name| name == group))
}

/// Creates a site, and gpg with the keys x-admin (RSA), y-admin (Ed25519), stranger, and expired.
fn site() -> (Operated, Gpg) {
    let site = Operated::new();
    site.edit(|text| format!("{text}\n{POLICY}"));
    let gpg = Gpg::new(site.home());
    gpg.generate("x-admin <admin@x.example>", "rsa2048", "never");
    gpg.generate("y-admin", "ed25519", "never");
    gpg.generate("stranger", "ed25519", "never");
    (site, gpg)
}

pub fn import(site: &Operated, gpg: &Gpg, user: &str) {
    let file = site.home().join("key.asc");
    std::fs::write(&file, gpg.export(user)).unwrap();
    site.done(&["keys", "import", file.to_str().unwrap()]);
}

/// Such keys belong to old hierarchies, or to those that keep their primary key offline.
#[test]
fn unusable_keys_are_imported_with_a_reason() {
    let site = Operated::new();
    let gpg = Gpg::new(site.home());
    gpg.generate("old", "dsa1024", "never");
    gpg.run(&["--quick-gen-key", "offline", "ed25519", "cert", "never"], b"");
    let listed = gpg.run(&["--with-colons", "--list-keys", "offline"], b"");
    let listed = String::from_utf8(listed).unwrap();
    let of_key = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
    gpg.run(&["--quick-add-key", of_key.trim_end_matches(':'), "ed25519", "sign", "never"], b"");
    let file = site.home().join("key.asc");
    std::fs::write(&file, [gpg.export("old"), gpg.export("offline")].concat()).unwrap();
    let said = site.done(&["keys", "import", file.to_str().unwrap()]);
    for why in ["DSA is not supported", "not for signing; signatures by subkeys do not count"] {
        assert!(said.contains(&format!("  cannot be used: {why}  ")), "{why}: {said}");
    }
}

fn logged(serving: &mut Serving, id: &str, reason: &str) {
    let line = serving.logged(|line| line.contains(&format!("id=\"{id}\"")));
    assert!(line.contains(reason) && line.contains("not carried out"), "{reason}: {line}");
}

#[test]
fn only_messages_signed_by_trusted_keys_are_carried_out() {
    let (site, gpg) = site();
    ["x-admin", "y-admin", "stranger"].iter().for_each(|user| import(&site, &gpg, user));
    let mut serving = site.serve();
    let mut client = serving.client();
    let message = |id: &str, command: &str| Message::new(id, command, -5);
    // Imported, but not trusted yet; the next command changes that while the server runs.
    let early = message("<early@x>", "newgroup x.early");
    take(&mut client, "<early@x>", &early.signed(&gpg, "x-admin", &[]));
    logged(&mut serving, "<early@x>", "no trusted key has made it");
    for user in ["x-admin", "y-admin"] {
        assert!(site.done(&["keys", "trust", user]).contains("trusted"));
    }
    let list = site.done(&["keys", "list"]);
    assert!(list.contains("not trusted") && list.contains("x-admin <admin@x.example>"), "{list}");
    for (id, command, user, options) in [
        ("<g1@x>", "newgroup x.text", "x-admin", &["--textmode"][..]),
        ("<g2@x>", "newgroup x.binary", "x-admin", &["--digest-algo", "SHA512"]),
        ("<g3@x>", "newgroup y.ed25519", "y-admin", &["--textmode", "--digest-algo", "SHA384"]),
    ] {
        let message = message(id, command);
        let article = message.signed(&gpg, user, options);
        accepted_by_pgpverify(&site, &gpg, &article);
        take(&mut client, id, &article);
        groups(&mut client, command.split(' ').nth(1).unwrap());
    }
    let sign = |id: &str, command: &str, user: &str, options: &[&str]| {
        message(id, command).signed(&gpg, user, options)
    };
    let good = |id: &str| sign(id, &format!("newgroup x.{}", &id[1..3]), "x-admin", &["--textmode"]);
    for (id, reason, article) in [
        ("<b1@x>", "no trusted key has made it", sign("<b1@x>", "newgroup x.b1", "stranger", &[])),
        ("<b2@x>", "it is signed by y-admin", sign("<b2@x>", "newgroup x.b2", "y-admin", &[])),
        ("<b3@x>", "it is signed by x-admin", sign("<b3@x>", "newgroup y.b3", "x-admin", &[])),
        (
            "<b4@x>",
            "hash function is weak",
            sign("<b4@x>", "newgroup x.b4", "x-admin", &["--digest-algo", "SHA1"]),
        ),
        ("<b5@x>", "it is not of this text", good("<b5@x>").replace("\r\nlast\r\n", "\r\nlost\r\n")),
        ("<b6@x>", "it is not of this text", good("<b6@x>").replace("X Admin", "Y Admin")),
        (
            "<b7@x>",
            "it is not of this text",
            good("<b7@x>").replace("Control: newgroup x.b7", "Control: newgroup x.z7"),
        ),
        ("<b8@x>", "it is not of this text", good("<b5@x>").replace("<b5@x>", "<b8@x>")),
        (
            "<b9@x>",
            "Sender header is not signed",
            good("<b9@x>")
                .replace("From,Sender\r\n", "From\r\n")
                .replace("From: ", "Sender: admin@x.example\r\nFrom: "),
        ),
        (
            "<ba@x>",
            "a signed header is present more than once",
            good("<ba@x>").replace("Control: ", "control: newgroup x.ba\r\nControl: "),
        ),
        ("<bb@x>", "its X-PGP-Sig header is malformed", good("<bb@x>").replace("\r\n\t=", "\r\n\t=A")),
        ("<bc@x>", "it has no X-PGP-Sig header", good("<bc@x>").replace("X-PGP-Sig", "X-Other-Sig")),
        ("<bd@x>", "it is not of this text", good("<bd@x>").replace("From,Sender", "From,sender")),
    ] {
        take(&mut client, id, &article);
        logged(&mut serving, id, reason);
    }
    site.done(&["keys", "remove", "x-admin"]);
    take(&mut client, "<r@x>", &good("<r@x>"));
    logged(&mut serving, "<r@x>", "no trusted key has made it");
    assert_eq!(groups(&mut client, "x.text"), ["x.binary", "x.text", "y.ed25519"]);
}

#[test]
fn replayed_messages_and_expired_keys_do_nothing() {
    let (site, gpg) = site();
    gpg.run(
        &["--faked-system-time", "20200101T000000!", "--quick-gen-key", "old", "ed25519", "sign", "1m"],
        b"",
    );
    site.edit(|text| {
        text.replace("\"y-admin\"", "\"y-admin\", \"old\"")
            .replace("remember_days = 11", "remember_days = 12")
    });
    for user in ["x-admin", "old"] {
        import(&site, &gpg, user);
        site.done(&["keys", "trust", user]);
    }
    assert!(site.done(&["keys", "list"]).contains(", expires 31 Jan 2020"));
    let mut serving = site.serve();
    let mut client = serving.client();
    let make = Message::new("<1@x>", "newgroup x.a", -9).signed(&gpg, "x-admin", &[]);
    let remove = Message::new("<2@x>", "rmgroup x.a", -8).signed(&gpg, "x-admin", &[]);
    let expired = Message::new("<3@x>", "newgroup y.a", -7).signed(
        &gpg,
        "old",
        &["--faked-system-time", "20200102T000000!"],
    );
    take(&mut client, "<1@x>", &make);
    groups(&mut client, "x.a");
    take(&mut client, "<2@x>", &remove);
    serving.logged(|line| line.contains("group removed"));
    // Simulates a site that has forgotten the Message-ID, which is signed and cannot be changed.
    client.send(format!("TAKETHIS <1@x>\r\n{make}.\r\n"));
    assert_eq!(client.line(), "439 <1@x> duplicate");
    take(&mut client, "<4@x>", &make.replace("<1@x>", "<4@x>"));
    logged(&mut serving, "<4@x>", "it is not of this text");
    take(&mut client, "<3@x>", &expired);
    logged(&mut serving, "<3@x>", "its key has expired");
    let late = Message::new("<5@x>", "newgroup x.a", -9).signed(&gpg, "x-admin", &[]);
    take(&mut client, "<5@x>", &late);
    logged(&mut serving, "<5@x>", "not newer than the last one");
}

#[test]
fn ten_thousand_altered_signatures_are_rejected() {
    let home = tempfile::TempDir::new().unwrap();
    let gpg = Gpg::new(home.path());
    gpg.generate("x-admin", "rsa2048", "never");
    gpg.generate("y-admin", "ed25519", "never");
    let keys = Keys::of(&[gpg.export("x-admin"), gpg.export("y-admin")].concat()).unwrap();
    let mut random = 88_172_645_463_325_252u64;
    for user in ["x-admin", "y-admin"] {
        let message = Message::new("<1@x>", "newgroup x.a", -5);
        let packet = gpg.run(&["--detach-sign", "-u", user], message.text().as_bytes());
        let armored = |packet: &[u8]| {
            let sum = BASE64_STANDARD.encode(&netnews::openpgp::crc24(packet).to_be_bytes()[1..]);
            message.article(&format!("\n{}\n={sum}\n", BASE64_STANDARD.encode(packet)))
        };
        let names = [user.to_owned()];
        assert!(keys.have_signed(armored(&packet).as_bytes(), &names));
        // Unhashed data only hints at the signer.
        let head = if packet[0] & 3 == 1 { 3 } else { 2 };
        let hashed = usize::from(u16::from_be_bytes([packet[head + 4], packet[head + 5]]));
        let unhashed_at = head + 6 + hashed;
        let unhashed = usize::from(u16::from_be_bytes([packet[unhashed_at], packet[unhashed_at + 1]]));
        for _ in 0..5_000 {
            let mut altered = packet.clone();
            for _ in 0..=random % 3 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let mut at = (random >> 8) as usize % altered.len();
                if (unhashed_at..unhashed_at + 2 + unhashed).contains(&at) {
                    at = unhashed_at - 1;
                }
                altered[at] ^= 1 << (random >> 3 & 7);
            }
            if altered != packet {
                assert!(!keys.have_signed(armored(&altered).as_bytes(), &names), "{user}: {altered:?}");
            }
        }
    }
}

/// Checks that INN's own program accepts it, if installed.
pub fn accepted_by_pgpverify(site: &Operated, gpg: &Gpg, article: &str) {
    let program = Path::new("/usr/lib/news/bin/pgpverify");
    if !program.exists() {
        return;
    }
    std::fs::write(gpg.0.join("trustedkeys.gpg"), gpg.run(&["--export"], b"")).unwrap();
    // The program asks for GnuPG 1, which is rare, although it can use gpgv.
    let text = std::fs::read_to_string(program).unwrap();
    let text = text.replace("$gpg = $INN::Config::gpg if $INN::Config::gpg;", "");
    let copy = site.home().join("pgpverify");
    std::fs::write(&copy, text).unwrap();
    let mut child = Command::new("perl")
        .arg(&copy)
        .env("GNUPGHOME", &gpg.0)
        .env("TMPDIR", site.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let native = article.replace("\r\n..", "\r\n.").replace("\r\n", "\n");
    child.stdin.take().unwrap().write_all(native.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let says = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && says.contains("-admin"), "{says} {}", complaints(&output));
}
