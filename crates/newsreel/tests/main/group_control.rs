//! Newgroup, rmgroup and checkgroups messages, and the `[[control]]` sections that decide about them.

use crate::client::Client;
use crate::moderation::{configured, listener, mail_of, mail_server};
use crate::operated::Operated;
use crate::running::Server;
use crate::waiting::wait_for;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const ADMIN: &str = "admin@x.example";

/// Carries out messages of the administrator of x.*, mails newgroups of others, and only logs the rest.
const POLICY: &str = "[[control]]\nfrom = \"admin@x.example\"\ngroups = \"x.*\"\naction = \"do\"\nremovals_max = 2\n\
    [[control]]\nfrom = \"admin@x.example\"\ntype = \"cancel\"\naction = \"do\"\nlock = \"ignored\"\n";

/// Returns a date relative to the start of the test, so that messages keep their order however long it takes.
pub fn date(days_from_then: i64, minutes: i64) -> String {
    let then = TEST_BEGAN.with(|began| began.duration_since(UNIX_EPOCH).unwrap().as_secs() as i64);
    let mut date = Vec::new();
    netnews::date::format_rfc5322(then + days_from_then * 86_400 + minutes * 60, &mut date);
    String::from_utf8(date).unwrap()
}

thread_local! {
    /// Each test has a thread of its own.
    static TEST_BEGAN: SystemTime = SystemTime::now();
}

/// A well-formed control message.
struct Control<'a> {
    id: &'a str,
    from: &'a str,
    command: &'a str,
    date: String,
    more: &'a str,
    body: &'a str,
}

impl<'a> Control<'a> {
    fn new(id: &'a str, command: &'a str) -> Self {
        Self { id, from: ADMIN, command, date: date(0, 0), more: "Approved: admin@x.example\r\n", body: "" }
    }

    fn at(self, minutes: i64) -> Self {
        Self { date: date(0, minutes), ..self }
    }

    fn send(&self, client: &mut Client) {
        assert_eq!(self.offer(client), format!("239 {}", self.id));
    }

    fn offer(&self, client: &mut Client) -> String {
        let Self { id, from, command, date, more, body } = self;
        client.send(format!(
            "TAKETHIS {id}\r\nPath: peer.example!not-for-mail\r\nFrom: The Admin <{from}>\r\n\
             Newsgroups: misc.test\r\nSubject: cmsg {command}\r\nControl: {command}\r\nDate: {date}\r\n\
             Message-ID: {id}\r\n{more}\r\n{body}\r\n.\r\n"
        ));
        client.line()
    }
}

/// Returns the names and flags of the groups that match, once they satisfy `is_so`.
fn groups(client: &mut Client, wildmat: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
    let lines = || {
        assert!(client.ask(&format!("LIST ACTIVE {wildmat}")).starts_with("215 "));
        let mut lines = client.block();
        for line in &mut lines {
            let words: Vec<&str> = line.split(' ').collect();
            *line = format!("{} {}", words[0], words[3]);
        }
        lines
    };
    wait_for(lines, |lines| is_so(lines))
}

fn has(lines: &[String], line: &str) -> bool {
    lines.iter().any(|l| l == line)
}

/// Converts text to the client's form: a character for each octet.
fn octets(text: &str) -> String {
    text.bytes().map(char::from).collect()
}

fn description(client: &mut Client, group: &str) -> String {
    assert!(client.ask(&format!("LIST NEWSGROUPS {group}")).starts_with("215 "));
    client.block().join("\n")
}

#[test]
fn groups_are_created_changed_and_removed() {
    let server = Server::start_with(|text| format!("{text}\n{POLICY}"));
    let mut client = server.client();
    let body = "x.a is new.\r\n\r\nFor your newsgroups file:\r\nx.a\t\tGr\u{fc}\u{df}e (Moderated)\r\n";
    Control { body, ..Control::new("<1@x>", "newgroup x.a moderated") }.at(-9).send(&mut client);
    let mime =
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"nxt\"\r\nApproved: a@x.example\r\n";
    let parts = "--nxt\r\nContent-Type: application/news-groupinfo; charset=utf-8\r\n\r\n\
        For your newsgroups file:\r\nx.b\tOf letters\r\n--nxt\r\nContent-Type: text/plain\r\n\r\nx.b!\r\n--nxt--\r\n";
    Control { body: parts, more: mime, ..Control::new("<2@x>", "newgroup x.b") }.at(-9).send(&mut client);
    let lines = groups(&mut client, "x.*", |lines| lines.len() == 2);
    assert_eq!(lines, ["x.a m", "x.b y"]);
    assert_eq!(description(&mut client, "x.a"), octets("x.a\tGr\u{fc}\u{df}e (Moderated)"));
    assert_eq!(description(&mut client, "x.b"), "x.b\tOf letters");
    assert!(client.ask("LIST ACTIVE.TIMES x.a").starts_with("215 "));
    assert!(client.block()[0].ends_with(" admin@x.example"));
    let body = "For your newsgroups file:\r\nx.a\tOpen now\r\n";
    Control { body, ..Control::new("<3@x>", "newgroup x.a") }.at(-8).send(&mut client);
    Control::new("<4@x>", "rmgroup x.b").at(-8).send(&mut client);
    assert_eq!(groups(&mut client, "x.*", |lines| lines == ["x.a y"]).len(), 1);
    assert_eq!(description(&mut client, "x.a"), "x.a\tOpen now");
    assert_eq!(client.ask("GROUP control"), "211 4 1 4 control");
}

#[test]
fn invalid_messages_do_nothing_and_are_logged() {
    let site = Operated::new();
    site.edit(|text| {
        format!(
            "{}\n[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n{POLICY}\
             [[control]]\ntype = \"rmgroup\"\naction = \"log\"\n[[control]]\ntype = \"sendme\"\naction = \"refuse\"\n",
            text.replace("max_age_days = 10", "max_age_days = \"none\"")
        )
    });
    let mut serving = site.serve();
    let mut client = serving.client();
    let newgroup = |id, command| Control::new(id, command);
    let moderated = "For your newsgroups file:\r\nx.b7\tNot that (Moderated)\r\n";
    newgroup("<good@x>", "newgroup x.good").at(-5).send(&mut client);
    let bad = [
        ("it is older than age_max", Control { date: date(-11, 0), ..newgroup("<b1@x>", "newgroup x.b1") }),
        ("it has no Approved header", Control { more: "", ..newgroup("<b2@x>", "newgroup x.b2") }),
        (
            "no [[control]] section decides",
            Control { from: "x@x.example", ..newgroup("<b3@x>", "newgroup x.b3") },
        ),
        ("no [[control]] section decides", newgroup("<b4@x>", "newgroup y.b4")),
        ("the group's name is not valid", newgroup("<b5@x>", "newgroup x.all.b5")),
        ("newgroup with a flag other than", newgroup("<b6@x>", "newgroup x.b6 =x.good")),
        (
            "its body and its Control header disagree",
            Control { body: moderated, ..newgroup("<b7@x>", "newgroup x.b7") },
        ),
        ("not newer than the last one", newgroup("<b8@x>", "newgroup x.good moderated").at(-6)),
        ("not newer than the last one", newgroup("<b9@x>", "rmgroup x.good").at(-6)),
        ("Control header without a newsgroup", newgroup("<ba@x>", "newgroup")),
        (
            "more than one Approved header",
            Control { more: "Approved: a@b.c\r\nApproved: a@b.c\r\n", ..newgroup("<bb@x>", "newgroup x.bb") },
        ),
        ("has action = \"log\"", Control { from: "x@x.example", ..newgroup("<bc@x>", "rmgroup x.good") }),
        ("no [[control]] section decides", newgroup("<bd@x>", "sendsys")),
        ("it lists no group", Control { body: "No list.", ..newgroup("<be@x>", "checkgroups x") }),
        (
            "its Control header is malformed",
            Control { body: "x.a\tA\r\n", ..newgroup("<bf@x>", "checkgroups *") },
        ),
    ];
    for (reason, message) in &bad {
        message.send(&mut client);
        let line = serving.logged(|line| line.contains(&format!("id=\"{}\"", message.id)));
        assert!(line.contains(reason) && line.contains(" INFO "), "{reason}: {line}");
    }
    let future = Control { date: date(1, 120), ..newgroup("<f@x>", "newgroup x.future") };
    assert_eq!(future.offer(&mut client), "439 <f@x> date more than a day ahead");
    let refused = newgroup("<r@x>", "sendme <a@b> other").offer(&mut client);
    assert_eq!(refused, "439 <r@x> control message refused here");
    assert_eq!(newgroup("<r@x>", "newgroup x.r").offer(&mut client), "439 <r@x> duplicate", "remembered");
    assert_eq!(groups(&mut client, "x.*,y.*", |_| true), ["x.good y"]);
}

#[test]
fn checkgroups_updates_a_hierarchy_in_one_commit() {
    let server = Server::start_with(|text| format!("{text}\n{POLICY}"));
    let mut client = server.client();
    for group in ["x.old", "x.kept", "x.sub.a", "x.sub.b", "y.other"] {
        assert!(server.operate(&["newgroup", group, "y"]));
    }
    let body = "x.new\tNew\r\nx.kept\tKept (Moderated)\r\ny.never\tNot of x\r\nx.sub.c\tLeft out\r\n";
    let command = "checkgroups x !x.sub #2026010101";
    Control { body, ..Control::new("<1@x>", command) }.at(-9).send(&mut client);
    let lines = groups(&mut client, "x.*,y.*", |lines| has(lines, "x.new y") && !has(lines, "x.old y"));
    assert_eq!(lines, ["x.kept m", "x.new y", "x.sub.a y", "x.sub.b y", "y.other y"]);
    assert_eq!(description(&mut client, "x.kept"), "x.kept\tKept (Moderated)");
    // Old messages and those with smaller serial numbers do nothing; nor does one that removes too much.
    let body = "x.wrong\tWrong\r\n";
    for (id, command, at) in [
        ("<2@x>", "checkgroups x #2026010101", -10),
        ("<3@x>", "checkgroups x #99", -8),
        ("<4@x>", "checkgroups x", -8),
        ("<5@x>", "newgroup x.early", -10),
    ] {
        Control { body, ..Control::new(id, command) }.at(at).send(&mut client);
    }
    let body = "x.last\tLast\r\n";
    Control { body, ..Control::new("<6@x>", "checkgroups x #2026010102") }.at(-7).send(&mut client);
    let lines = groups(&mut client, "x.*", |lines| has(lines, "x.last y"));
    assert_eq!(lines, ["x.kept m", "x.last y", "x.new y", "x.sub.a y", "x.sub.b y"], "three are too many");
}

#[test]
fn ten_thousand_groups_need_one_commit_and_one_log_line() {
    let site = Operated::new();
    site.edit(|text| {
        format!("{text}\n[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n{POLICY}")
    });
    let mut serving = site.serve();
    let mut client = serving.client();
    let mut body = String::new();
    (0..10_000).for_each(|n| write!(body, "x.g{n}\tNumber {n}\r\n").unwrap());
    Control { body: &body, ..Control::new("<1@x>", "checkgroups x") }.send(&mut client);
    let line = serving.logged(|line| line.contains("checkgroups"));
    assert!(
        line.contains(
            "control message carried out: 10,000 groups created, 0 groups changed, 0 groups removed"
        ),
        "{line}"
    );
    assert_eq!(groups(&mut client, "x.*", |_| true).len(), 10_000);
    let lines = serving.log().iter().filter(|line| line.contains("control message")).count();
    assert_eq!(lines, 1);
}

#[test]
fn control_messages_are_carried_out_after_a_crash() {
    let site = Operated::new();
    site.edit(|text| {
        format!("{text}\n[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n{POLICY}")
    });
    let mut count = 0;
    for round in 0..4 {
        let serving = site.serve();
        let mut client = serving.client();
        for _ in 0..20 {
            let (id, command) = (format!("<{count}@x>"), format!("newgroup x.g{count}"));
            Control::new(&id, &command).send(&mut client);
            count += 1;
        }
        // Killed when the value is dropped, at a different point each time.
        let seen = round * 5 + count - 20;
        groups(&mut client, "x.*", |lines| lines.len() >= seen);
    }
    let serving = site.serve();
    let lines = groups(&mut serving.client(), "x.*", |lines| lines.len() == count);
    assert!(lines.iter().all(|line| line.ends_with(" y")));
}

#[test]
fn messages_are_mailed_as_configured() {
    let (listener, address) = listener();
    let mails = mail_server(listener, &[]);
    let server = Server::start_with(|text| {
        let text = configured(&text, None, &format!("[moderation]\nsmtp = \"{address}\"\n"));
        format!(
            "{text}\n[[control]]\ntype = \"newgroup\"\naction = \"mail\"\nmail_to = \"boss@site.example\"\n\
             [[control]]\ntype = [\"rmgroup\", \"checkgroups\"]\naction = \"do\"\nmail_to = \"boss@site.example\"\n"
        )
    });
    let mut client = server.client();
    assert!(server.operate(&["newgroup", "x.old", "y"]));
    Control { body: "..A dot", ..Control::new("<1@x>", "newgroup x.a") }.send(&mut client);
    let mail = mail_of(&mails);
    assert!(mail.to.contains("<boss@site.example>") && mail.from.contains("<news@site.example>"), "{mail:?}");
    assert!(mail.text.contains("\nSubject: newgroup x.a from admin@x.example\n"), "{}", mail.text);
    assert!(mail.text.contains("It was not carried out") && mail.text.contains("\n..A dot"), "{}", mail.text);
    Control::new("<2@x>", "rmgroup x.old").send(&mut client);
    assert!(mail_of(&mails).text.contains("It was carried out: group removed."));
    Control { body: "x.b\tB\r\n", ..Control::new("<3@x>", "checkgroups x") }.send(&mut client);
    let text = mail_of(&mails).text;
    assert!(text.contains("1 group created") && text.contains("\n  create x.b\n"), "{text}");
    assert_eq!(groups(&mut client, "x.*", |_| true), ["x.b y"]);
}
