//! Operators' pages: posts, findings, feeds and the cache, by those with the right and with forms of ours;
//! every action is in the audit log.

use super::http::{Answer, address, get, get_with};
use super::{WEB, cookie_of, log_in, post};
use crate::client::article;
use crate::posting::{headers, post as nntp_post, posted_id};
use crate::running::Server;
use crate::upstreams::fake::Fake;
use crate::waiting::wait_until;
use std::net::SocketAddr;

/// Sections of users: fred may act, wilma may look, and so may the machine without a login.
const ACCESS: &str = "[[access]]\nfrom = \"all\"\nusers = \"fred\"\noperator = true\nmanage = true\n\n\
    [[access]]\nfrom = \"all\"\nusers = \"wilma\"\noperator = true\n\n[[access]]";
const MORE: &str = "operator = true\nmanage = true\n[spam]\ntypes = \"hide\"\ncrossposts = \"shadow\"\n\
    crossposts_max = 1\n[[moderator]]\ngroups = \"local.*\"\naddress = \"queue\"\n\
    [[peer]]\nname = \"far.example\"\naddresses = [\"192.0.2.1\"]\n[peer.send]\nto = \"127.0.0.1:9\"\n";
const PAGES: [&str; 6] = [
    "/operator",
    "/operator/moderation",
    "/operator/filters",
    "/operator/feeds",
    "/operator/cache",
    "/operator/audit",
];

/// A browser in which a user has logged in.
struct Browser {
    address: SocketAddr,
    cookie: String,
}

impl Browser {
    fn of(address: SocketAddr, user: &str) -> Self {
        let cookie = cookie_of(&log_in(address, user, "secretive", "/")).unwrap();
        Self { address, cookie }
    }

    fn get(&self, path: &str) -> Answer {
        get_with(self.address, path, &format!("Cookie: {}\r\n", self.cookie))
    }

    /// Returns the token of a form in a page.
    fn token(&self, path: &str) -> String {
        let page = self.get(path).body;
        page.split_once("form_token\" value=\"").unwrap().1.split_once('"').unwrap().0.to_owned()
    }

    /// Sends a form.
    fn act(&self, path: &str, fields: &str) -> Answer {
        let body = format!("{fields}&form_token={}", self.token(path));
        post(self.address, path, &self.cookie, &body, "")
    }
}

/// Returns the configuration of the test site with the sections of users.
fn with_sections(text: String) -> String {
    let text = text.replacen("[[access]]", ACCESS, 1);
    format!("{text}{MORE}")
}

/// Starts a site with both users.
fn site() -> (Server, SocketAddr) {
    with_users(Server::start_with(with_sections))
}

/// Adds pages and both users to a site.
fn with_users(server: Server) -> (Server, SocketAddr) {
    drop(server.client());
    server.reload(|text| text + WEB).unwrap();
    for user in ["fred", "wilma"] {
        assert!(server.operate(&["user", user, "secretive"]));
    }
    let address = address(&server);
    (server, address)
}

/// Encodes a value of a field.
fn encoded(value: &str) -> String {
    value.bytes().map(|b| format!("%{b:02x}")).collect()
}

fn held(server: &Server) -> u64 {
    server.status()["moderation"]["held"].as_u64().unwrap()
}

fn post_to_moderator(server: &Server, more: &str) -> String {
    let mut client = server.client();
    posted_id(&nntp_post(&mut client, &headers("local.moderated", more), "<script>alert(1)</script>"))
}

#[test]
fn operators_approve_and_refuse_posts_that_wait() {
    let (server, address) = site();
    let (good, bad) = (post_to_moderator(&server, ""), post_to_moderator(&server, "X-A: \"><b>\r\n"));
    let fred = Browser::of(address, "fred");
    let page = fred.get("/operator/moderation").body;
    assert!(page.contains("2 posts") && page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<b>"), "{page}");
    let approved = fred.act("/operator/moderation", &format!("action=approve&id={}", encoded(&good)));
    assert_eq!(approved.status, 200, "{}", approved.body);
    assert!(approved.body.contains("is filed, approved by"), "{}", approved.body);
    let mut client = server.client();
    assert_eq!(client.ask("GROUP local.moderated"), "211 1 1 1 local.moderated");
    // A refusal has a reason, and is asked about first.
    let id = encoded(&bad);
    let refuse = format!("action=refuse&id={id}&reason=Off+topic+%3Ci%3E");
    let none = fred.act("/operator/moderation", &format!("action=refuse&id={id}&reason=+"));
    assert_eq!((none.status, held(&server)), (422, 1));
    let asked = fred.act("/operator/moderation", &refuse);
    assert_eq!((asked.status, held(&server)), (200, 1), "{}", asked.body);
    assert!(
        asked.body.contains("Are you sure") && asked.body.contains("Off topic &lt;i&gt;"),
        "{}",
        asked.body
    );
    assert!(asked.body.contains("name=\"confirmed\" value=\"yes\""), "{}", asked.body);
    let refused = fred.act("/operator/moderation", &format!("{refuse}&confirmed=yes"));
    assert_eq!((refused.status, held(&server)), (200, 0), "{}", refused.body);
    assert!(refused.body.contains("is rejected; poster@x.example is mailed why"), "{}", refused.body);
    // A second decision fails, and is recorded as that.
    let again = fred.act("/operator/moderation", &format!("action=approve&id={}", encoded(&good)));
    assert_eq!(again.status, 422);
    assert!(again.body.contains("no post of this Message-ID waits here"), "{}", again.body);
    let audit = fred.get("/operator/audit").body;
    for part in
        ["moderation approve message_ids=", "moderation reject", "reason=Off topic &lt;i&gt;", "failed"]
    {
        assert!(audit.contains(part), "{part} is not in {audit}");
    }
    assert!(audit.contains("web 127.0.0.1") && !audit.contains("<i>"), "{audit}");
}

#[test]
fn only_users_with_the_right_act_and_only_by_forms_of_ours() {
    let (server, address) = site();
    let id = post_to_moderator(&server, "");
    let approve = format!("action=approve&id={}", encoded(&id));
    let (fred, wilma) = (Browser::of(address, "fred"), Browser::of(address, "wilma"));
    // Those who may look see no form, and one that they make up is refused.
    for path in PAGES {
        let page = wilma.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("class=\"action\""), "{path}");
        // The rights of an address are not those of a person, whatever its section says.
        let page = get(address, path);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("class=\"action\""), "{path}");
    }
    assert_eq!(wilma.act("/operator/moderation", &approve).status, 403);
    let form = get(address, "/login");
    let (token, cookie) = super::form_of(&form);
    let anonymous = format!("{approve}&form_token={token}");
    assert_eq!(post(address, "/operator/moderation", &cookie, &anonymous, "").status, 403);
    // Nothing is done by GET, without a token, with the token of another browser, or from another site.
    assert_eq!(fred.get(&format!("/operator/moderation?{approve}&confirmed=yes")).status, 200);
    let (own, others) = (fred.token("/operator/moderation"), wilma.token("/operator/moderation"));
    for (body, more) in [
        (approve.clone(), ""),
        (format!("{approve}&form_token={others}"), ""),
        (format!("{approve}&form_token={own}"), "Sec-Fetch-Site: cross-site\r\n"),
        (format!("{approve}&form_token={own}"), "Sec-Fetch-Site: same-site\r\n"),
    ] {
        let answer = post(address, "/operator/moderation", &fred.cookie, &body, more);
        assert_eq!(answer.status, 403, "{body} {more}");
    }
    assert_eq!(held(&server), 1);
    // Without the right to look there is no page either; pages that are off are not there.
    server.reload(|text| text.replace("operator = true", "operator = false")).unwrap();
    for path in PAGES {
        assert_eq!(fred.get(path).status, 403, "{path}");
        assert_eq!(get(address, path).status, 403, "{path}");
    }
    let token = own;
    let late =
        post(address, "/operator/moderation", &fred.cookie, &format!("{approve}&form_token={token}"), "");
    assert_eq!((late.status, held(&server)), (403, 1), "rights are those of the moment");
    server.reload(|text| text + "operator = false\n").unwrap();
    for path in PAGES {
        assert_eq!(fred.get(path).status, 404, "{path}");
    }
    // Nothing that was refused is recorded as an action.
    let audit = std::fs::read_to_string(server.data().join("audit-log")).unwrap();
    assert!(!audit.contains("moderation"), "{audit}");
}

#[test]
fn operators_stop_and_resume_feeds() {
    let (server, address) = site();
    let fred = Browser::of(address, "fred");
    let state = || {
        let peers = server.status()["peers"].clone();
        let far =
            peers.as_array().unwrap().iter().find(|peer| peer["name"] == "far.example").unwrap().clone();
        far["feed"]["state"].as_str().unwrap().to_owned()
    };
    let stopped = fred.act("/operator/feeds", "action=stop&peer=far.example");
    assert!(stopped.body.contains("feed to far.example stopped"), "{}", stopped.body);
    assert!(stopped.body.contains(">Resume</button>"), "{}", stopped.body);
    assert_eq!(state(), "stopped");
    fred.act("/operator/feeds", "action=start&peer=far.example");
    wait_until("the feed is resumed", || state() != "stopped");
    let asked = fred.act("/operator/feeds", "action=give-up&peer=far.example");
    assert!(asked.body.contains("Are you sure"), "{}", asked.body);
    let done = fred.act("/operator/feeds", "action=give-up&peer=far.example&confirmed=yes");
    assert!(done.body.contains("continues from now"), "{}", done.body);
    for wrong in ["action=stop&peer=no.such%3Cb%3E", "action=unknown&peer=far.example", "peer=far.example"] {
        let answer = fred.act("/operator/feeds", wrong);
        assert_eq!(answer.status, 422, "{wrong}");
        assert!(!answer.body.contains("<b>"), "{}", answer.body);
    }
}

#[test]
fn findings_of_filters_are_counted_and_released() {
    let (server, address) = site();
    let hidden = "<2@x.example>";
    let mut client = server.client();
    let html =
        article(hidden, "misc.test", "b").replacen("Subject: ", "Content-Type: text/html\r\nSubject: <u>", 1);
    client.send(format!("TAKETHIS {hidden}\r\n{html}"));
    assert_eq!(client.line(), format!("239 {hidden}"));
    let many = "<3@x.example>";
    client.send(format!("TAKETHIS {many}\r\n{}", article(many, "misc.test,local.empty", "b")));
    assert_eq!(client.line(), format!("239 {many}"));
    let fred = Browser::of(address, "fred");
    let page = fred.get("/operator/filters").body;
    for part in
        [">shadow<", "would have refused", "would refuse", "posted to too many groups", "hidden", "&lt;u&gt;"]
    {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(client.ask(&format!("STAT {hidden}")).starts_with("430 "));
    let release = format!("action=release&id={}", encoded(hidden));
    let asked = fred.act("/operator/filters", &release);
    assert!(asked.body.contains("Are you sure"), "{}", asked.body);
    let released = fred.act("/operator/filters", &format!("{release}&confirmed=yes"));
    assert!(released.body.contains("is shown"), "{}", released.body);
    assert!(client.ask(&format!("STAT {hidden}")).starts_with("223 "));
    // Hiding is there for every article.
    let hide = fred.act("/operator/cache", &format!("action=hide&id={}&reason=spam", encoded(hidden)));
    assert_eq!(hide.status, 200, "{}", hide.body);
    assert!(client.ask(&format!("STAT {hidden}")).starts_with("430 "));
    fred.act("/operator/cache", &format!("action=unhide&id={}", encoded(hidden)));
    assert!(client.ask(&format!("STAT {hidden}")).starts_with("223 "));
}

#[test]
fn commands_over_the_control_socket_are_in_the_audit_log() {
    let (server, address) = site();
    server.control(&serde_json::json!({ "do": "pause", "reason": "a <test>" }));
    server.control(&serde_json::json!({ "do": "go" }));
    server.control(&serde_json::json!({ "do": "group_list", "wildmat": null }));
    let page = Browser::of(address, "wilma").get("/operator/audit").body;
    let uid = rustix::process::getuid().as_raw();
    for part in ["pause reason=a &lt;test&gt;", &format!("uid {uid}"), "articles are accepted again"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("group_list") && !page.contains("ping"), "looking is no action: {page}");
    // A damaged line costs itself alone.
    let file = server.data().join("audit-log");
    let damaged = std::fs::read_to_string(&file).unwrap().replacen("pause", "pausE", 1);
    std::fs::write(&file, damaged).unwrap();
    let page = Browser::of(address, "wilma").get("/operator/audit").body;
    assert!(!page.contains("pausE") && page.contains("articles are accepted again"), "{page}");
}

#[test]
fn changes_of_users_by_command_are_in_the_audit_log() {
    let (server, address) = site();
    assert!(server.user(&["set", "wilma", "--group", "staff"], "").is_ok());
    assert!(server.user(&["passwd", "wilma"], "secretive").is_ok());
    let link = server.user(&["reset", "wilma"], "").unwrap();
    assert!(server.user(&["remove", "nobody"], "").is_err());
    assert!(server.user(&["add", "odd", "--no-password"], "").is_ok());
    assert!(server.user(&["remove", "odd"], "").is_ok());
    let page = Browser::of(address, "fred").get("/operator/audit").body;
    for part in [
        "users add name=fred",
        "users set groups=staff name=wilma",
        "users passwd name=wilma",
        "users reset name=wilma",
        "users remove names=nobody",
        "there is no user `nobody`",
        "users remove names=odd",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let token = link.trim().rsplit('/').next().unwrap();
    assert!(!page.contains(token) && !page.contains("argon2") && !page.contains("SCRAM"), "{page}");
}

#[test]
fn busy_sources_are_shown_with_what_became_of_their_articles() {
    let (server, address) = site();
    let mut client = server.client();
    for n in 0..3 {
        let plain = article(&format!("<{n}@flood.example>"), "misc.test,local.empty", "b");
        let info = format!("Injection-Info: news.flood.example; posting-account=\"<u>{n}\"\r\nSubject: ");
        let wire = plain.replacen("Subject: ", &info, 1);
        client.send(format!("TAKETHIS <{n}@flood.example>\r\n{wire}"));
        assert!(client.line().starts_with("239"));
    }
    let sources = server.status()["spam_sources"].clone();
    let counts = serde_json::json!({ "articles": 3, "refused": 0, "would_refuse": 3 });
    let site = serde_json::json!({ "name": "news.flood.example", "hour": counts, "day": counts });
    assert_eq!(sources["sites"], serde_json::json!([site]), "{sources}");
    assert_eq!(sources["addresses"].as_array().unwrap().len(), 3, "{sources}");
    let page = Browser::of(address, "fred").get("/operator/filters").body;
    for part in ["Injecting sites", "news.flood.example", "account &lt;u&gt;0 at news.flood.example"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<u>"), "{page}");
}

#[test]
fn operators_purge_and_refresh_what_is_cached() {
    let fake = Fake::with("comp.a", 3, 500);
    let section =
        format!("\n[[upstream]]\nname = \"fake\"\nhost = \"{}\"\ngroup_age = \"1 h\"\n", fake.address);
    let (server, address) = with_users(Server::start_showing(&[], |text| with_sections(text) + &section));
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), "211 3 1 3 comp.a");
    assert!(client.ask("ARTICLE 1").starts_with("220 "));
    client.block();
    let fred = Browser::of(address, "fred");
    let page = fred.get("/operator/cache").body;
    assert!(page.contains("What is cached") && page.contains("Purge"), "{page}");
    fake.put("comp.a", 4, 500);
    let refreshed = fred.act("/operator/cache", "action=refresh&name=+comp.a+");
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
    assert!(refreshed.body.contains("1 to 4: 1 number more than before"), "{}", refreshed.body);
    assert_eq!(client.ask("GROUP comp.a"), "211 4 1 4 comp.a");
    let id = encoded("<1.comp.a@fake.example>");
    fake.take("");
    let asked = fred.act("/operator/cache", &format!("action=purge&name={id}"));
    assert!(asked.body.contains("Are you sure") && asked.body.contains("&lt;1.comp.a@"), "{}", asked.body);
    let purged = fred.act("/operator/cache", &format!("action=purge&name={id}&confirmed=yes"));
    assert_eq!(purged.status, 200, "{}", purged.body);
    assert!(purged.body.contains("is purged, and fetched again"), "{}", purged.body);
    let again = fred.act("/operator/cache", &format!("action=purge&name={id}&confirmed=yes"));
    assert_eq!(again.status, 422);
    assert!(again.body.contains("this article is not in the cache"), "{}", again.body);
    assert!(client.ask("ARTICLE 1").starts_with("220 "));
    client.block();
    assert_eq!(fake.take("ARTICLE").len(), 1);
    assert_eq!(fred.act("/operator/cache", "action=purge&name=+").status, 422);
    let audit = fred.get("/operator/audit").body;
    for part in ["refresh_cache groups=comp.a", "purge_cache names=&lt;1.comp.a@fake.example&gt;"] {
        assert!(audit.contains(part), "{part} is not in {audit}");
    }
}
