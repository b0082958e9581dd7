//! Posts to moderated groups: mailed by SMTP or by a program, from a durable queue.

use crate::client::ANSWER_TIMEOUT;
use crate::clients::installed;
use crate::operated::{Operated, complaints};
use crate::posting::{headers, post, posted_id};
use crate::running::Server;
use crate::signed_control::{Gpg, accepted_by_pgpverify};
use crate::waiting::wait_until;
use netnews::Article;
use netnews::control::pgp_sig::SignedArticle;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

/// A mail as received by a server.
#[derive(Debug)]
pub struct Mail {
    pub from: String,
    pub to: String,
    pub text: String,
}

/// Starts a mail server that answers RCPT with these codes in turn, and 250 after that.
pub fn mail_server(listener: TcpListener, recipients: &'static [u16]) -> Receiver<Mail> {
    let (told, mails) = channel();
    std::thread::spawn(move || {
        let mut codes = recipients.iter();
        for stream in listener.incoming() {
            let Some(mail) = serve(stream.unwrap(), codes.next().copied().unwrap_or(250)) else { continue };
            if told.send(mail).is_err() {
                return;
            }
        }
    });
    mails
}

fn serve(stream: TcpStream, recipient: u16) -> Option<Mail> {
    let mut out = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut mail = Mail { from: String::new(), to: String::new(), text: String::new() };
    out.write_all(b"220 mail.example\r\n").unwrap();
    while let Some(line) = lines.next() {
        let answer = match line.split([' ', ':']).next().unwrap() {
            "EHLO" => "250-mail.example\r\n250 8BITMIME".to_owned(),
            "MAIL" if line.contains("<refused@") => "550 not from you".into(),
            "MAIL" => {
                mail.from = line;
                "250 ok".into()
            }
            "RCPT" => {
                mail.to = line;
                format!("{recipient} recipient")
            }
            "DATA" => {
                out.write_all(b"354 go on\r\n").unwrap();
                let text: Vec<_> = lines.by_ref().take_while(|line| line != ".").collect();
                mail.text = text.join("\n");
                out.write_all(b"250 taken\r\n").unwrap();
                return Some(mail);
            }
            _ => "500 what".into(),
        };
        if out.write_all(format!("{answer}\r\n").as_bytes()).is_err() {
            break;
        }
    }
    None
}

pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns the test site's configuration with other settings for mail.
pub fn configured(text: &str, data: Option<&Path>, moderation: &str) -> String {
    let default = "default_address = \"%s@moderators.example\"\n";
    let moderation = moderation.replacen("[moderation]\n", &format!("[moderation]\n{default}"), 1);
    let text = text.replace(&format!("[moderation]\nsendmail = \"/bin/false %s\"\n{default}"), &moderation);
    let Some(data) = data else { return text };
    let data = format!("data = \"{}\"", data.display());
    let lines = text.lines().map(|line| if line.starts_with("data = ") { &data } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

pub fn mail_of(mails: &Receiver<Mail>) -> Mail {
    mails.recv_timeout(ANSWER_TIMEOUT).expect("no mail came")
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir)
        .map_or(0, |entries| entries.flatten().filter(|entry| entry.path().is_file()).count())
}

#[test]
fn post_reaches_the_moderator_of_the_first_moderated_group() {
    let (listener, address) = listener();
    let mails = mail_server(listener, &[]);
    let server = Server::start_with(|text| {
        let moderation = format!(
            "[moderation]\nsmtp = \"{address}\"\nsender = \"bounces@site.example\"\n\
             [[moderator]]\ngroups = \"local.second\"\naddress = \"second@mods.example\"\n\
             [[moderator]]\ngroups = \"local.*\"\naddress = \"%s@mods.example\"\n"
        );
        configured(&text, None, &moderation)
    });
    assert!(server.operate(&["newgroup", "local.second", "m"]));
    let mut client = server.client();
    let more = "To: victim@x.example\r\nX-Own: g\u{fc}nstig\r\n";
    let answer = post(&mut client, &headers("misc.test,local.moderated,local.second", more), "..dot\r\nbody");
    assert!(answer.starts_with("240 Queued for the moderator of local.moderated <"), "{answer}");
    let id = posted_id(&answer);
    let mail = mail_of(&mails);
    assert_eq!(mail.from, "MAIL FROM:<bounces@site.example> BODY=8BITMIME");
    assert_eq!(mail.to, "RCPT TO:<local-moderated@mods.example>");
    let (head, body) = mail.text.split_once("\n\n").unwrap();
    assert_eq!(body, "..dot\nbody", "stuffed as SMTP has it");
    assert!(head.starts_with(
        "To: local-moderated@mods.example\nFrom: A. Poster <poster@x.example>\nNewsgroups: misc.test,"
    ));
    assert!(head.contains(&format!("\nMessage-ID: {id}\nDate: ")), "{head}");
    for absent in ["victim", "Injection-", "\nPath: ", "Approved"] {
        assert!(!head.contains(absent), "{absent}: {head}");
    }
    wait_until("the queue is empty", || files(&server.data().join("moderation")) == 0);
    assert_eq!(client.ask("GROUP misc.test"), "211 0 1 0 misc.test", "filed nowhere before it is approved");
    // The moderator's copy has the same Message-ID and is filed.
    let approved =
        headers("misc.test,local.moderated", &format!("Approved: mod@mods.example\r\nMessage-ID: {id}\r\n"));
    assert_eq!(post(&mut client, &approved, "body"), format!("240 Article received OK {id}"));
    assert_eq!(client.ask("GROUP local.moderated"), "211 1 1 1 local.moderated");
    // A post that is already filed goes to no moderator.
    let again = headers("local.moderated", &format!("Message-ID: {id}\r\n"));
    assert_eq!(post(&mut client, &again, "body"), "441 Posting failed: duplicate");
}

#[test]
fn queued_mails_survive_outages_of_mail_server_and_server() {
    let dir = tempfile::TempDir::new().unwrap();
    // The port stays free while nothing listens there.
    let address = TcpListener::bind("127.0.0.4:0").unwrap().local_addr().unwrap();
    let moderation = format!("[moderation]\nsmtp = \"{address}\"\nretry_first = \"200ms\"\n");
    let server = Server::start_with(|text| configured(&text, Some(dir.path()), &moderation));
    let queue = dir.path().join("moderation");
    let mut client = server.client();
    let ids: Vec<_> =
        (0..3).map(|_| posted_id(&post(&mut client, &headers("local.moderated", ""), "body"))).collect();
    assert_eq!(files(&queue), 3);
    drop(client);
    drop(server);
    // A mail that was being written when the server died was not acknowledged.
    std::fs::write(queue.join("1.new"), "newsreel moder").unwrap();
    let server = Server::start_with(|text| configured(&text, Some(dir.path()), &moderation));
    assert_eq!(server.client().ask("GROUP local.moderated"), "211 0 1 0 local.moderated");
    assert_eq!(files(&queue), 3);
    let mails = mail_server(TcpListener::bind(address).unwrap(), &[]);
    for id in &ids {
        assert!(mail_of(&mails).text.contains(id), "in order");
    }
    wait_until("the queue is empty", || files(&queue) == 0);
    drop(server);
}

#[test]
fn permanently_refused_mails_are_set_aside_and_others_retried() {
    let (listener, address) = listener();
    let mails = mail_server(listener, &[550, 451, 451]);
    let moderation =
        format!("[moderation]\nsmtp = \"{address}\"\nretry_first = \"100ms\"\nform = \"encapsulated\"\n");
    let server = Server::start_with(|text| configured(&text, None, &moderation));
    let failed = server.data().join("moderation/failed");
    let mut client = server.client();
    assert!(post(&mut client, &headers("local.moderated", ""), "one").starts_with("240 "));
    wait_until("put aside", || files(&failed) == 1);
    let id = posted_id(&post(&mut client, &headers("local.moderated", ""), "two"));
    let mail = mail_of(&mails);
    assert!(
        mail.text.contains("\nContent-Type: application/news-transmission; usage=moderate\n"),
        "{}",
        mail.text
    );
    assert!(mail.text.contains(&format!("\nMessage-ID: {id}\n")));
    let (head, _) = mail.text.split_once("\n\n").unwrap();
    for name in ["To", "From", "Subject", "Date", "Message-ID", "Auto-Submitted"] {
        assert_eq!(head.lines().filter(|line| line.starts_with(&format!("{name}: "))).count(), 1, "{head}");
    }
    assert!(!head.contains(&id), "the mail's own Message-ID: {head}");
    assert_eq!(mail.to, "RCPT TO:<local-moderated@moderators.example>");
}

#[test]
fn a_mail_whose_sender_is_refused_holds_up_no_other() {
    let (listener, address) = listener();
    let mails = mail_server(listener, &[]);
    let moderation = format!(
        "[moderation]\nsmtp = \"{address}\"\nretry_first = \"100ms\"\nretry_longest = \"1 s\"\n\
         sender = \"refused@site.example\"\n"
    );
    let server = Server::start_with(|text| configured(&text, None, &moderation));
    let mut client = server.client();
    assert!(post(&mut client, &headers("local.moderated", ""), "one").starts_with("240 "));
    server.reload(|text| text.replace("refused@site.example", "news@site.example")).unwrap();
    let id = posted_id(&post(&mut client, &headers("local.moderated", ""), "two"));
    assert!(mail_of(&mails).text.contains(&format!("\nMessage-ID: {id}\n")));
    wait_until("the first one waits", || files(&server.data().join("moderation")) == 1);
}

#[test]
fn full_queue_refuses_posts_and_a_program_takes_mails() {
    let dir = tempfile::TempDir::new().unwrap();
    let (program, got) = (dir.path().join("sendmail"), dir.path().join("got"));
    let script = format!(
        "#!/bin/sh\n[ -e {0}/up ] || exit 75\necho \"$@\" >{0}/part\ncat >>{0}/part\nmv {0}/part {0}/got\n",
        dir.path().display()
    );
    crate::clients::script(&program, &script);
    let moderation = format!(
        "[moderation]\nsendmail = \"{} -oi -- %s\"\nretry_first = \"100ms\"\nretry_longest = \"100ms\"\nqueue_max = 1\n",
        program.display()
    );
    let server = Server::start_with(|text| configured(&text, None, &moderation));
    let mut client = server.client();
    let id = posted_id(&post(&mut client, &headers("local.moderated", ""), "..body"));
    assert_eq!(
        post(&mut client, &headers("local.moderated", ""), "two"),
        "441 Too many posts wait for moderators (at most 1), try again later"
    );
    std::fs::write(dir.path().join("up"), "").unwrap();
    wait_until("the program got it", || got.exists());
    let text = std::fs::read_to_string(&got).unwrap();
    assert!(
        text.starts_with(
            "-oi -- local-moderated@moderators.example\nTo: local-moderated@moderators.example\nFrom: "
        ),
        "{text}"
    );
    assert!(text.contains(&format!("\nMessage-ID: {id}\n")) && text.ends_with("\n\n.body\n"), "{text}");
}

/// Posts are mailed only after the operator has named an address.
#[test]
fn new_site_sends_no_mail() {
    let site = Operated::new();
    let groups = site.done(&["group", "list", "--json"]);
    let groups: serde_json::Value = serde_json::from_str(&groups).unwrap();
    assert!(groups.as_array().unwrap().iter().all(|group| group["flag"] != "m"), "{groups}");
    let (program, got) = (site.home().join("sendmail"), site.home().join("got"));
    let script = format!("#!/bin/sh\necho \"$@\" >{0}.part; mv {0}.part {0}\n", got.display());
    crate::clients::script(&program, &script);
    let moderation = |more: &str| format!("\n[moderation]\nsendmail = \"{} %s\"\n{more}", program.display());
    site.edit(|text| text + &moderation(""));
    let added = site.run(&["group", "add", "local.announce-m", "--flag", "m"]);
    let advice = "the moderated group local.announce-m has no moderator, so posts are refused; ";
    assert!(added.status.success() && complaints(&added).contains(advice), "{}", complaints(&added));
    {
        let mut serving = site.serve();
        serving.logged(|line| line.contains(advice));
        let mut client = serving.client();
        for group in ["local.announce-m", "local.test,local.announce-m"] {
            assert_eq!(
                post(&mut client, &headers(group, ""), "one"),
                "441 local.announce-m is moderated, and the address of its moderator is not known here"
            );
        }
        assert!(post(&mut client, &headers("local.announce", ""), "one").starts_with("240 Article received"));
        assert!(client.ask("LIST MODERATORS").starts_with("215 "));
        assert_eq!(client.block(), Vec::<String>::new());
    }
    assert!(!site.dir().join("moderation").exists() && !got.exists());
    // Once an address is named, mail goes there.
    site.edit(|text| text + "default_address = \"%s@moderators.example\"\n");
    assert_eq!(complaints(&site.run(&["group", "add", "local.other-m", "--flag", "m"])), "");
    let serving = site.serve();
    let mut client = serving.client();
    assert!(
        post(&mut client, &headers("local.announce-m", ""), "one")
            .starts_with("240 Queued for the moderator")
    );
    wait_until("the program got it", || got.exists());
    assert_eq!(std::fs::read_to_string(&got).unwrap(), "local-announce-m@moderators.example\n");
}

/// Initial groups given to `init` may be moderated elsewhere: their moderators are named by the operator.
#[test]
fn initial_groups_have_only_configured_moderators() {
    let site = Operated::unmade();
    let groups = site.home().join("groups");
    std::fs::write(&groups, "comp.a m\ncomp.b m\ncomp.c y\n").unwrap();
    let options =
        ["init", "--listen", "127.0.0.1:0", "--buffer", "1 MiB", "--groups", groups.to_str().unwrap()];
    let made = site.run(&options);
    assert!(made.status.success());
    let told = complaints(&made);
    assert!(
        told.contains("2 moderated groups, such as comp.a, have no moderator, so posts are refused"),
        "{told}"
    );
    site.edit(|text| text + "\n[[moderator]]\ngroups = \"comp.*\"\naddress = \"me@site.example\"\n");
    let checked = site.run(&["check"]);
    assert!(!(String::from_utf8_lossy(&checked.stdout) + &*complaints(&checked)).contains("no moderator"));
}

#[test]
fn posts_are_held_until_approved_or_rejected() {
    let (listener, address) = listener();
    let mails = mail_server(listener, &[]);
    let site = Operated::new();
    site.edit(|text| {
        let moderation = format!("[moderation]\nsmtp = \"{address}\"\nqueue_max = 4\n");
        format!("{text}\n{moderation}[[moderator]]\ngroups = \"local.here-m\"\naddress = \"queue\"\n")
    });
    site.done(&["group", "add", "misc.one"]);
    assert_eq!(complaints(&site.run(&["group", "add", "local.here-m", "--flag", "m"])), "");
    let serving = site.serve();
    let mut client = serving.client();
    let mut post_to = |groups: &str, more: &str| post(&mut client, &headers(groups, more), "..dot\r\nbody");
    let first = post_to("misc.one,local.here-m", "");
    assert!(first.starts_with("240 Queued for the moderator of local.here-m <"), "{first}");
    let first = posted_id(&first);
    let second = posted_id(&post_to("local.here-m", "Reply-To: fred@y.example\r\n"));
    let third = posted_id(&post_to("local.here-m", "Reply-To: fred@y.invalid\r\n"));
    let fourth = posted_id(&post_to("local.here-m", ""));
    let full = post_to("local.here-m", "");
    assert!(full.starts_with("441 Too many posts wait for moderators (at most 4)"), "{full}");
    let again = post_to("local.here-m", &format!("Message-ID: {first}\r\n"));
    assert!(again.starts_with("441 "), "{again}");

    let listed: serde_json::Value =
        serde_json::from_str(&site.done(&["moderation", "list", "--json"])).unwrap();
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|row| row["message_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 4);
    assert!([&first, &second, &third].iter().all(|id| ids.contains(&id.as_str())), "{listed}");
    let shown = site.done(&["moderation", "show", &first]);
    assert!(
        shown.starts_with("for local.here-m, from 127.0.0.1") && shown.contains("\n\n.dot\nbody\n"),
        "{shown}"
    );
    assert!(!site.run(&["moderation", "approve", "<none@x.example>"]).status.success());

    let done = site.done(&["moderation", "approve", "--by", "mod@site.example", &fourth, &first]);
    let filed = |id: &str| format!("{id} is filed, approved by mod@site.example\n");
    assert_eq!(done, filed(&fourth) + &filed(&first));
    assert!(client.ask("GROUP misc.one").starts_with("211 1 "));
    assert!(client.ask("GROUP local.here-m").starts_with("211 2 "));
    client.ask(&format!("ARTICLE {first}"));
    let article = client.block().join("\n");
    for part in ["Approved: mod@site.example", "Injection-Info: ", ".POSTED.127.0.0.1!not-for-mail"] {
        assert!(article.contains(part), "no {part} in {article}");
    }
    assert_eq!(article.matches("Message-ID: ").count(), 1);

    let done = site.done(&["moderation", "reject", "--reason", "Not here.", &second]);
    assert_eq!(done, format!("{second} is rejected; fred@y.example is mailed why\n"));
    let mail = mail_of(&mails);
    assert_eq!(mail.to, "RCPT TO:<fred@y.example>");
    assert!(mail.text.contains("\n\nNot here.\n\n") && mail.text.contains("\n..dot\nbody"), "{}", mail.text);
    drop(serving);

    // Held posts survive the server; approving needs one, rejecting does not.
    let refused = site.run(&["moderation", "approve", &third]);
    assert!(complaints(&refused).contains("only a running server"), "{}", complaints(&refused));
    let done = site.done(&["moderation", "reject", "--reason", "No.", &third]);
    assert!(done.contains("poster@x.example is mailed why"), "From is next: {done}");
    assert_eq!(site.done(&["moderation", "list"]), "no posts wait here for a moderator\n");
}

/// Returns a section whose moderator signs with this command.
fn signing(words: &[&str]) -> String {
    format!("[[moderator]]\ngroups = \"local.here-m\"\naddress = \"queue\"\nsign = {words:?}\n")
}

/// Checks a signature with gpg, and with INN's pgpverify if installed.
fn verified(site: &Operated, gpg: &Gpg, article: &[String]) {
    let wire = article.join("\r\n") + "\r\n";
    let signed = SignedArticle::of(&Article::parse(wire.as_bytes()).unwrap()).unwrap();
    let [text, signature] = ["signed.txt", "signed.asc"].map(|name| site.home().join(name));
    std::fs::write(&text, signed.message).unwrap();
    let lines = article.iter().skip_while(|line| !line.starts_with("X-PGP-Sig: ")).skip(1);
    let lines: Vec<&str> = lines.map_while(|line| line.strip_prefix('\t')).collect();
    let armor =
        format!("-----BEGIN PGP SIGNATURE-----\n\n{}\n-----END PGP SIGNATURE-----\n", lines.join("\n"));
    std::fs::write(&signature, armor).unwrap();
    gpg.run(&["--verify", signature.to_str().unwrap(), text.to_str().unwrap()], b"");
    accepted_by_pgpverify(site, gpg, &wire);
}

#[test]
fn approved_posts_are_signed_as_configured() {
    if !installed(&[("gpg", "gnupg")]) {
        return;
    }
    let site = Operated::new();
    let gpg = Gpg::new(site.home());
    gpg.generate("m-admin", "ed25519", "never");
    let home = site.home().join("gpg");
    let gpg_words = ["--homedir", home.to_str().unwrap(), "--batch", "--no-tty", "--passphrase", ""];
    let sign = [&["/usr/bin/gpg"], &gpg_words[..], &["--pinentry-mode", "loopback", "--armor"]].concat();
    let sign = signing(&[&sign[..], &["--detach-sign", "-u", "m-admin"]].concat());
    let others = [&["/bin/false"][..], &["/bin/echo", "done"], &["/nowhere"]].map(signing);
    site.edit(|text| format!("{text}\n{}", others[0]));
    assert_eq!(complaints(&site.run(&["group", "add", "local.here-m", "--flag", "m"])), "");
    let serving = site.serve();
    let mut client = serving.client();
    let headers = headers("local.here-m", "X-PGP-Sig: 1 From\r\n\tforged\r\nX-PGP-Sig: 2\r\n");
    let headers = headers.replace("Subject: a post", "Subject: a\r\n post  ");
    let id = posted_id(&post(&mut client, &headers, "..dot\r\nblanks  \r\n-- \r\nlast"));
    let mut before = others[0].clone();
    for (section, why) in others.iter().zip([
        "/bin/false: exit status: 1",
        "/bin/echo has written no signature",
        "/nowhere: No such file",
    ]) {
        site.edit(|text| text.replace(&before, section));
        site.done(&["ctl", "reload"]);
        before.clone_from(section);
        let said = complaints(&site.run(&["moderation", "approve", "--by", "m@site.example", &id]));
        assert!(said.contains(&format!("waits on: it cannot be signed: {why}")), "{said}");
        assert!(site.done(&["moderation", "list"]).contains(&id));
    }
    site.edit(|text| text.replace(&before, &sign));
    site.done(&["ctl", "reload"]);
    site.done(&["moderation", "approve", "--by", "m@site.example", &id]);
    assert!(client.ask(&format!("ARTICLE {id}")).starts_with("220 "));
    let article = client.block();
    assert!(article.iter().any(|line| line.starts_with("X-PGP-Sig: newsreel Subject,")), "{article:?}");
    verified(&site, &gpg, &article);
}
