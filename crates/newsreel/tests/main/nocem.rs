//! NoCeM notices, signed by gpg: articles that they hide or do not, and recovery from a kill in the middle.

use crate::client::{Client, article};
use crate::operated::{Operated, Serving};
use crate::purging::feed;
use crate::signed_control::{Gpg, import, take};
use crate::waiting::{let_pass, wait_for};
use newsreel::fuzzing::Keys;
use std::time::Duration;

const POLICY: &str = "[[peer]]\nname = \"peer.example\"\naddresses = [\"127.0.0.1\"]\n\
    [[control]]\ntype = \"nocem\"\nfrom = \"bot@x.example\"\nsigned_by = \"bot\"\nnotice_types = [\"spam\"]\n\
    groups = \"misc.*,!misc.safe\"\nhides_per_hour_max = 320\naction = \"do\"\n";
const ISSUER: &str = "nocem:bot@x.example";

/// Creates a site that accepts notices of bot, and gpg with the keys of bot and of a stranger.
fn site() -> (Operated, Gpg) {
    let site = Operated::new();
    site.edit(|text| text.replacen("max_age_days = 10", "max_age_days = \"none\"", 1) + "\n" + POLICY);
    for group in ["misc.one", "misc.two", "misc.safe", "news.lists.filters"] {
        site.done(&["group", "add", group]);
    }
    let gpg = Gpg::new(site.home());
    // The key is old enough to sign an old notice.
    let key = ["--quick-gen-key", "bot <bot@x.example>", "ed25519", "sign", "never"];
    gpg.run(&[&["--faked-system-time", "20250101T000000!"][..], &key].concat(), b"");
    gpg.generate("stranger <stranger@x.example>", "rsa2048", "never");
    for user in ["bot", "stranger"] {
        import(&site, &gpg, user);
        site.done(&["keys", "trust", user]);
    }
    (site, gpg)
}

/// Text of a notice, to be signed.
#[derive(Clone)]
struct Notice {
    head: String,
    listed: String,
}

impl Notice {
    fn new(id: &str, listed: &[(&str, &str)]) -> Self {
        let head =
            format!("Version: 0.93\nIssuer: bot@x.example\nType: spam\nAction: hide\nNotice-ID: {id}\n");
        let listed = listed.iter().map(|(id, groups)| format!("{id}\t{groups}\n")).collect();
        Self { head, listed }
    }

    fn with(&self, from: &str, to: &str) -> Self {
        Self { head: self.head.replace(from, to), ..self.clone() }
    }

    /// Returns the notice signed by gpg.
    fn signed(&self, gpg: &Gpg, user: &str, options: &[&str]) -> String {
        let Self { head, listed } = self;
        let text = format!(
            "Spam of today.  \n\n@@BEGIN NCM HEADERS\n{head}@@BEGIN NCM BODY\n# comment\n{listed}@@END NCM BODY\n-- \nbot\n"
        );
        let signed = gpg.run(&[options, &["--clearsign", "-u", user]].concat(), text.as_bytes());
        String::from_utf8(signed).unwrap()
    }
}

/// Returns an article in wire format with this body, without its end.
fn posted(id: &str, group: &str, body: &str) -> String {
    let stuffed: String = body
        .lines()
        .map(|line| format!("{}{line}\r\n", if line.starts_with('.') { "." } else { "" }))
        .collect();
    article(id, group, "BODY").replace("BODY\r\n.\r\n", &stuffed)
}

/// Sends a notice in an article with this Message-ID; returns its log line.
fn sent(serving: &mut Serving, client: &mut Client, id: &str, signed: &str) -> String {
    take(client, id, &posted(id, "news.lists.filters", signed));
    serving.logged(|line| line.contains(&format!("id=\"{id}\"")) && line.contains("notice "))
}

fn shown(client: &mut Client, id: &str) -> bool {
    client.ask(&format!("STAT {id}")).starts_with("223 ")
}

#[test]
fn listed_articles_are_hidden_at_once_or_on_arrival() {
    let (site, gpg) = site();
    let one = |n: u32, group: &'static str| (format!("<{n}@x>"), group);
    let here =
        [one(1, "misc.one"), one(2, "misc.one,misc.two"), one(3, "misc.safe"), one(4, "misc.one,misc.safe")];
    feed(&site, &here.each_ref().map(|(id, groups)| (id.as_str(), *groups)));
    let mut serving = site.serve();
    let mut client = serving.client();
    let notice = Notice::new(
        "7",
        &[
            ("<1@x>", "misc.one"),
            ("<2@x>", "misc.one misc.two"),
            ("<3@x>", "misc.one"),
            ("<4@x>", "misc.one\n\tmisc.two"),
            ("<5@x>", "misc.one"),
            ("<6@x>", "misc.two"),
            ("<7@x>", "alt.other"),
            ("<1@x>", "misc.one"),
        ],
    );
    let signed = notice.signed(&gpg, "bot", &[]);
    let said = sent(&mut serving, &mut client, "<n1@x>", &signed);
    let expected =
        "notice carried out: 2 articles hidden, 2 articles hidden when they come, 3 articles in groups";
    assert!(said.contains(expected), "{said}");
    let status = site.done(&["status"]);
    assert!(status.contains("hides        2 articles listed by notices before they came"), "{status}");
    let seen = |client: &mut Client| [1, 2, 3, 4, 5, 6].map(|n| shown(client, &format!("<{n}@x>")));
    assert_eq!(seen(&mut client), [false, false, true, true, false, false]);
    // The issuer named wrong groups for the sixth.
    take(&mut client, "<5@x>", article("<5@x>", "misc.one", "b").trim_end_matches(".\r\n"));
    take(&mut client, "<6@x>", article("<6@x>", "misc.two,misc.safe", "b").trim_end_matches(".\r\n"));
    assert_eq!(seen(&mut client), [false, false, true, true, false, true]);
    assert_eq!(client.ask("GROUP misc.one"), "211 1 1 4 misc.one");
    let list = site.done(&["hide", "--list", "--issuer", ISSUER]);
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(list.contains("spam, notice 7"), "{list}");
    assert_eq!(site.done(&["unhide", "--issuer", ISSUER]).lines().count(), 3);
    assert_eq!(seen(&mut client), [true; 6]);
    // A repeated notice does nothing, even after a restart.
    let said = sent(&mut serving, &mut client, "<n2@x>", &signed);
    assert!(said.contains("not carried out: it was carried out before"), "{said}");
    drop((client, serving));
    let mut serving = site.serve();
    let mut client = serving.client();
    let said = sent(&mut serving, &mut client, "<n3@x>", &signed);
    assert!(said.contains("not carried out: it was carried out before"), "{said}");
    assert_eq!(seen(&mut client), [true; 6]);
    // Articles that the issuer takes back are shown, and those hidden by the operator stay hidden.
    let said = sent(&mut serving, &mut client, "<n4@x>", &notice.with(": 7", ": 8").signed(&gpg, "bot", &[]));
    assert!(said.contains("3 articles hidden, 4 articles in groups"), "{said}");
    site.done(&["hide", "<3@x>"]);
    let back = Notice::new("9", &[("<1@x>", "misc.one"), ("<3@x>", "misc.one"), ("<9@x>", "misc.one")]);
    let hide = back.with(": 9", ": 10").signed(&gpg, "bot", &[]);
    assert!(sent(&mut serving, &mut client, "<n5@x>", &hide).contains("1 article hidden when they come"));
    let back = back.with("hide", "Show").signed(&gpg, "bot", &["--digest-algo", "SHA512"]);
    let said = sent(&mut serving, &mut client, "<n6@x>", &back);
    assert!(said.contains("1 article shown again, 1 article shown again when they come"), "{said}");
    take(&mut client, "<9@x>", article("<9@x>", "misc.one", "b").trim_end_matches(".\r\n"));
    assert!(shown(&mut client, "<9@x>"));
    assert_eq!(seen(&mut client), [true, false, false, true, false, true]);
}

#[test]
fn invalid_notices_hide_nothing_and_are_logged() {
    let (site, gpg) = site();
    feed(&site, &[("<1@x>", "misc.one")]);
    let mut serving = site.serve();
    let mut client = serving.client();
    let notice = Notice::new("7", &[("<1@x>", "misc.one")]);
    let good = notice.signed(&gpg, "bot", &[]);
    let many: Vec<String> = (0..321).map(|n| format!("<m{n}@x>")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|id| (id.as_str(), "misc.one")).collect();
    let at = |time: &str| notice.signed(&gpg, "bot", &["--faked-system-time", time]);
    for (n, (reason, body)) in [
        ("no [[control]] section decides", notice.with("bot@", "other@").signed(&gpg, "bot", &[])),
        ("no [[control]] section decides", notice.with("Type: spam", "Type: mmf").signed(&gpg, "bot", &[])),
        ("it is signed by stranger", notice.signed(&gpg, "stranger", &[])),
        ("it is not of this text", good.replace("<1@x>", "<2@x>")),
        ("it is not of this text", good.replace("Type: spam", "Type: Spam")),
        ("hash function is weak", notice.signed(&gpg, "bot", &["--digest-algo", "SHA1"])),
        ("another hash function than it says", good.replace("Hash: SHA", "Hash: SHA512, SHA0")),
        ("begins with a dash", good.replace("- -- \n", "-- \n")),
        ("more than one signed text", format!("{good}{good}")),
        ("its version is not 0.9", notice.with("0.93", "1.0").signed(&gpg, "bot", &[])),
        ("its action is neither", notice.with("hide", "delete").signed(&gpg, "bot", &[])),
        ("longer ago than age_max", at("20260101T000000!")),
        ("it was made more than a day ahead", at("20400101T000000!")),
        ("it lists 321 articles", Notice::new("8", &many).signed(&gpg, "bot", &[])),
    ]
    .iter()
    .enumerate()
    {
        let said = sent(&mut serving, &mut client, &format!("<b{n}@x>"), body);
        assert!(said.contains("notice not carried out") && said.contains(reason), "{reason}: {said}");
    }
    // Nothing is logged about other articles, or about notices elsewhere.
    for (id, group, body) in [
        ("<q1@x>", "news.lists.filters", "What about this notice?\n@@BEGIN NCM HEADERS\n"),
        ("<q2@x>", "misc.two", good.as_str()),
    ] {
        take(&mut client, id, &posted(id, group, body));
    }
    assert!(shown(&mut client, "<1@x>"));
    let said = sent(&mut serving, &mut client, "<good@x>", &good);
    assert!(said.contains("notice carried out: 1 article hidden"), "{said}");
    assert!(!serving.log().iter().any(|line| line.contains("<q1@x>") || line.contains("<q2@x>")));
    site.done(&["unhide", "<1@x>"]);
    site.done(&["keys", "remove", "bot"]);
    let said =
        sent(&mut serving, &mut client, "<gone@x>", &notice.with(": 7", ": 9").signed(&gpg, "bot", &[]));
    assert!(said.contains("no trusted key has made it"), "{said}");
    assert!(shown(&mut client, "<1@x>"));
}

#[test]
fn notice_interrupted_by_a_kill_is_completed_at_the_next_start() {
    const COUNT: u32 = 300;
    let (site, gpg) = site();
    let ids: Vec<String> = (0..COUNT).map(|n| format!("<k{n}@x>")).collect();
    let listed: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "misc.one")).collect();
    // The last third has not arrived yet.
    feed(&site, &listed[..200]);
    let signed = Notice::new("7", &listed).signed(&gpg, "bot", &[]);
    let hidden = || site.done(&["hide", "--list", "--json"]).matches("\"message_id\"").count();
    for (n, delay) in [0, 3, 10].into_iter().enumerate() {
        let serving = site.serve();
        let mut client = serving.client();
        let id = format!("<n{n}@x>");
        take(&mut client, &id, &posted(&id, "news.lists.filters", &signed));
        let_pass(Duration::from_millis(delay), "the kill comes before, within and after the work");
        drop(serving);
        assert!(hidden() <= 200);
    }
    let serving = site.serve();
    wait_for(hidden, |hidden| *hidden >= 200);
    // Either copy of the notice may have been carried out: the articles are hidden on arrival.
    let done = site.dir().join("notices-done");
    wait_for(|| std::fs::read_to_string(&done).unwrap_or_default(), |text| !text.is_empty());
    feed(&site, &listed[200..]);
    assert_eq!(hidden(), 300);
    assert_eq!(serving.client().ask("GROUP misc.one"), "211 0 1 300 misc.one");
    drop(serving);
    site.done(&["verify"]);
}

#[test]
fn altered_notices_are_rejected() {
    let home = tempfile::TempDir::new().unwrap();
    let gpg = Gpg::new(home.path());
    gpg.generate("bot", "ed25519", "never");
    let keys = Keys::of(&gpg.export("bot")).unwrap();
    let good = Notice::new("7", &[("<1@x>", "misc.one"), ("<2@x>", "misc.two")]).signed(&gpg, "bot", &[]);
    let text = keys.signed_text(good.as_bytes()).unwrap();
    let (mut random, mut refused) = (88_172_645_463_325_252u64, 0);
    for _ in 0..5_000 {
        let mut altered = good.clone().into_bytes();
        for _ in 0..=random % 3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random >> 8) as usize % altered.len();
            match random >> 40 & 3 {
                0 => drop(altered.remove(at)),
                1 => altered.insert(at, b"\n\r \t-<@"[(random >> 44) as usize % 7]),
                _ => altered[at] ^= 1 << (random >> 3 & 7),
            }
        }
        // Blanks at line ends, surrounding text, and hints in the signature are not signed.
        match keys.signed_text(&altered) {
            Some(read) => assert_eq!(read, text),
            None => refused += 1,
        }
    }
    assert!(refused > 4_000, "{refused}");
}
