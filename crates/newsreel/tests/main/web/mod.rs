//! HTTP from the outside: responses to permitted and hostile clients.

mod accounts;
pub mod archive;
mod boards;
mod bounds;
mod desk;
mod fake_provider;
pub mod http;
mod mailed;
mod providers;
mod reading;

use crate::layers::{settings, settings_name};
use crate::running::Server;
use crate::tls::Site;
use crate::waiting::{PATIENCE, let_pass, wait_until};
use http::{Answer, address, connect, exchange, get, get_with, taken_apart};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `[web]` on a free port; further keys of it may follow.
const WEB: &str = "\n[web]\nlisten = [\"127.0.0.1:0\"]\n";

/// Starts the test site with pages, and the right to operate in the last of its `[[access]]` sections.
fn site(web_keys: &str) -> (Server, SocketAddr) {
    let server = Server::start();
    // The server serves pages once it greets.
    drop(server.client());
    let operating = |text: String| format!("{}operator = true\n{WEB}{web_keys}\n", text);
    server.reload(operating).unwrap();
    let address = address(&server);
    (server, address)
}

#[test]
fn health_and_readiness_are_public() {
    let (server, address) = site("");
    let health = get(address, "/health");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    assert_eq!(get(address, "/ready").body, "ready\n");
    assert_eq!(server.status()["listen"].as_array().unwrap().len(), 1, "HTTP is listed by itself");
    // Without [web] there is no HTTP.
    server.reload(|text| text.replace("listen = [\"127.0.0.1:0\"]\n\n", "listen = []\n")).unwrap();
    assert_eq!(server.status()["web"], serde_json::json!([]));
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn metrics_are_served_to_clients_with_the_right() {
    let (server, address) = site("");
    let answer = get(address, "/metrics");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("Content-Type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let plain = get_with(address, "/metrics", "Accept: text/plain; version=0.0.4\r\n");
    assert_eq!(plain.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(plain.body.contains("# TYPE newsreel_server_peers_offered_total counter\n"), "{}", plain.body);
    for line in [
        "newsreel_server_peers_offered_total{peer=\"peer.example\"} 0.0",
        "newsreel_spool_buffers_cycle{buffer=\"text0\"} 1.0",
        "# TYPE newsreel_filing_seconds histogram",
        "newsreel_connecting_seconds_bucket{le=\"+Inf\"} 1",
    ] {
        assert!(answer.body.lines().any(|own| own == line), "{line} is not in {}", answer.body);
    }
    server.reload(|text| text.replace("operator = true", "operator = false")).unwrap();
    assert_eq!(get(address, "/metrics").status, 403);
    let on = |text: String| text.replace("operator = false", "operator = true") + "metrics = false\n";
    server.reload(on).unwrap();
    assert_eq!(get(address, "/metrics").status, 404);
}

#[test]
fn every_response_has_security_headers() {
    let (_server, address) = site("");
    for path in ["/health", "/metrics", "/no/such/page", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../x"] {
        let answer = get(address, path);
        let policy = answer.header("Content-Security-Policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(answer.header("X-Frame-Options"), Some("DENY"));
        assert_eq!(answer.header("Referrer-Policy"), Some("no-referrer"));
        assert_eq!(answer.header("Cache-Control"), Some("no-store"));
        assert!(!answer.body.contains("etc/passwd"), "nothing of a request comes back");
    }
    assert_eq!(get(address, "/../../etc/passwd").status, 404);
}

#[test]
fn foreign_host_names_are_rejected() {
    let (_server, address) = site("names = [\"www.site.example\"]");
    let host = |host: &str| get_with(address, "/health", &format!("Host: {host}\r\n")).status;
    assert_eq!(host("127.0.0.1"), 200);
    assert_eq!(host("www.site.example:80"), 200);
    assert_eq!(host("rebound.example"), 421);
    let twice = "Host: 127.0.0.1\r\nHost: rebound.example\r\n";
    assert_eq!(get_with(address, "/health", twice).status, 400);
}

#[test]
fn checks_without_a_host_are_answered() {
    let (_server, address) = site("");
    for path in ["/health", "/ready", "/metrics", "/"] {
        // As HAProxy sends it.
        assert_eq!(exchange(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).status, 200, "{path}");
        let empty = format!("GET {path} HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n");
        assert_eq!(exchange(address, &empty).status, 200, "{path}");
    }
    let none = "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(address, none).status, 400);
    assert_eq!(exchange(address, "GET http://rebound.example/health HTTP/1.0\r\n\r\n").status, 421);
}

#[test]
fn invalid_requests_are_rejected() {
    let (_server, address) = site("");
    let status = |request: &str| exchange(address, request).status;
    let host = format!("Host: {address}\r\nConnection: close\r\n");
    assert_eq!(status(&format!("POST /health HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n")), 405);
    assert_eq!(status("what is this\r\n\r\n"), 400);
    assert_eq!(status(&format!("GET /health HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(40_000))), 431);
    assert_eq!(status(&format!("GET /health HTTP/1.1\r\n{host}{}\r\n", "X: x\r\n".repeat(100))), 431);
    // Two lengths, or a length and chunks, are used to smuggle requests past a proxy.
    let lengths = "Content-Length: 1\r\nContent-Length: 2\r\n";
    assert_eq!(status(&format!("GET /health HTTP/1.1\r\n{host}{lengths}\r\n")), 400);
}

/// Returns the response to a connection for which there is no room; an accepted one sends nothing until it is
/// cut off.
fn turned_away(address: SocketAddr) -> Option<Answer> {
    let mut octets = Vec::new();
    let _reset = connect(address).read_to_end(&mut octets);
    let answer = (!octets.is_empty()).then(|| http::taken_apart(&octets));
    answer.filter(|answer| answer.status == 503)
}

#[test]
fn slow_client_is_cut_off() {
    let (_server, address) = site("request_timeout = \"1 s\"\nconnections_max = 2");
    // Both places are taken; on a machine that stalls for a second they are free again.
    let begun = Instant::now();
    let (mut slow, mut silent) = loop {
        let (mut slow, silent) = (connect(address), connect(address));
        let _cut_off = slow.write_all(b"GET /health HTTP/1.1\r\n");
        if let Some(answer) = turned_away(address) {
            assert_eq!(answer.header("Retry-After"), Some("5"));
            break (slow, silent);
        }
        assert!(begun.elapsed() < PATIENCE, "nobody is turned away");
    };
    let mut rest = Vec::new();
    wait_until("a connection with a header a moment is ended", || {
        let_pass(Duration::from_millis(100), "headers come slowly");
        slow.write_all(b"X: x\r\n").is_err()
    });
    let _reset = slow.read_to_end(&mut rest);
    let _reset = silent.read_to_end(&mut rest);
    // The places are free soon after the connections have ended.
    wait_until("the places are free", || turned_away(address).is_none());
    assert_eq!(get(address, "/health").status, 200);
}

/// Returns a form's token in a page, and the cookie that belongs to it.
fn form_of(answer: &Answer) -> (String, String) {
    let (_, rest) = answer.body.split_once("name=\"form_token\" value=\"").expect("no form");
    let token = rest.split_once('"').unwrap().0.to_owned();
    (token, cookie_of(answer).expect("no cookie"))
}

/// Returns the cookie that a response sets, as the browser sends it.
fn cookie_of(answer: &Answer) -> Option<String> {
    Some(answer.header("Set-Cookie")?.split(';').next().unwrap().to_owned())
}

fn post(address: SocketAddr, path: &str, cookie: &str, body: &str, more: &str) -> Answer {
    let length = body.len();
    exchange(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nCookie: {cookie}\r\n{more}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    )
}

/// Logs in; returns the response.
fn log_in(address: SocketAddr, name: &str, password: &str, next: &str) -> Answer {
    let (token, cookie) = form_of(&get(address, "/login"));
    let body = format!("user={name}&password={password}&next={next}&form_token={token}");
    post(address, "/login", &cookie, &body, "")
}

/// Starts the test site with a user, who alone may read the metrics.
fn site_with_fred() -> (Server, SocketAddr) {
    let (server, address) = site("");
    assert!(server.operate(&["user", "fred", "secretive"]));
    let section = "[[access]]\nfrom = \"all\"\nusers = \"fred\"\noperator = true\n\n[[access]]";
    let change =
        |text: String| text.replace("operator = true", "operator = false").replacen("[[access]]", section, 1);
    server.reload(change).unwrap();
    (server, address)
}

#[test]
fn login_grants_rights_until_it_ends() {
    let (server, address) = site_with_fred();
    assert_eq!(get(address, "/metrics").status, 403);
    let answer = log_in(address, "fred", "secretive", "%2Foperator");
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/operator")));
    let set = answer.header("Set-Cookie").unwrap();
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{set}");
    let cookie = format!("Cookie: {}\r\n", cookie_of(&answer).unwrap());
    assert_eq!(get_with(address, "/metrics", &cookie).status, 200);
    // The page shows the user, and has a form to log out.
    let page = get_with(address, "/login", &cookie);
    assert!(page.body.contains("fred") && page.header("Set-Cookie").is_none(), "{}", page.body);
    let token = page.body.split_once("form_token\" value=\"").unwrap().1.split_once('"').unwrap().0;
    let own = cookie_of(&answer).unwrap();
    let gone = post(address, "/logout", &own, &format!("form_token={token}"), "");
    assert_eq!((gone.status, gone.header("Location")), (303, Some("/")));
    assert_eq!(get_with(address, "/metrics", &cookie).status, 403);
    // A new password ends logins with the old one.
    let old = cookie_of(&log_in(address, "fred", "secretive", "/")).unwrap();
    assert_eq!(get_with(address, "/metrics", &format!("Cookie: {old}\r\n")).status, 200);
    server.user(&["passwd", "fred"], "another one\n").unwrap();
    server.reload(|text| text).unwrap();
    assert_eq!(get_with(address, "/metrics", &format!("Cookie: {old}\r\n")).status, 403);
    // A removed user is no longer logged in.
    let again = cookie_of(&log_in(address, "fred", "another+one", "/")).unwrap();
    assert_eq!(get_with(address, "/metrics", &format!("Cookie: {again}\r\n")).status, 200);
    server.user(&["remove", "fred"], "").unwrap();
    server.reload(|text| text).unwrap();
    assert_eq!(get_with(address, "/metrics", &format!("Cookie: {again}\r\n")).status, 403);
}

#[test]
fn wrong_password_is_rejected_and_counted_as_with_authinfo() {
    let (server, address) = site_with_fred();
    server
        .reload(|text| {
            text + "[auth]\nfailures_per_address_max = 2\nlockout_first = \"1 h\"\n\
        lockout_longest = \"2 h\"\n"
        })
        .unwrap();
    let refused = log_in(address, "fred%3Cb%3E", "wrong", "/");
    assert_eq!((refused.status, cookie_of(&refused)), (403, None));
    assert!(refused.body.contains("Wrong name or password"), "{}", refused.body);
    assert!(refused.body.contains("fred&lt;b&gt;") && !refused.body.contains("fred<b>"), "{}", refused.body);
    for _ in 0..3 {
        log_in(address, "fred", "wrong", "/");
    }
    let locked = log_in(address, "fred", "secretive", "/");
    assert_eq!(locked.status, 429);
    assert!(locked.header("Retry-After").unwrap().parse::<u32>().unwrap() > 3_000);
    // NNTP logins are locked out as well.
    let mut client = server.client();
    client.send("AUTHINFO USER fred\r\nAUTHINFO PASS secretive\r\n");
    client.line();
    assert!(client.line().starts_with("481 Too many failures"), "the same guard counts both");
    assert!(server.status()["logins"]["failed"].as_u64().unwrap() >= 2);
}

#[test]
fn form_of_another_site_is_rejected() {
    let (_server, address) = site_with_fred();
    let (token, cookie) = form_of(&get(address, "/login"));
    let body = format!("user=fred&password=secretive&next=/&form_token={token}");
    let (other_token, other_cookie) = form_of(&get(address, "/login"));
    for (cookie, body, more, why) in [
        ("", body.as_str(), "", "no cookie"),
        (&other_cookie, &body, "", "the cookie of another browser"),
        (&cookie, "user=fred&password=secretive", "", "no token"),
        (&cookie, &body.replace(&token, &other_token), "", "a token of another browser"),
        (&cookie, &body, "Sec-Fetch-Site: cross-site\r\n", "the browser says so"),
    ] {
        let answer = post(address, "/login", cookie, body, more);
        assert_eq!((answer.status, answer.header("Set-Cookie")), (403, None), "{why}");
    }
    let same = post(address, "/login", &cookie, &body, "Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(same.status, 303);
    // A form must be sent by POST, as a form, and must be small.
    assert_eq!(get(address, &format!("/logout?form_token={token}")).status, 405);
    let long = post(address, "/login", &cookie, &format!("{body}&x={}", "x".repeat(20_000)), "");
    assert_eq!(long.status, 413);
}

#[test]
fn login_never_keeps_an_earlier_session_identifier() {
    let (_server, address) = site_with_fred();
    // An attacker's identifier is planted in the browser of a victim, who then logs in.
    let (token, planted) = form_of(&get(address, "/login"));
    let body = format!("user=fred&password=secretive&next=/&form_token={token}");
    let answer = post(address, "/login", &planted, &body, "");
    let cookie = cookie_of(&answer).unwrap();
    assert_ne!(cookie, planted);
    assert_eq!(get_with(address, "/metrics", &format!("Cookie: {planted}\r\n")).status, 403);
    assert_eq!(get_with(address, "/metrics", &format!("Cookie: {cookie}\r\n")).status, 200);
}

#[test]
fn request_lines_cannot_inject_headers() {
    let (_server, address) = site_with_fred();
    for next in
        ["%2Fa%0D%0ASet-Cookie:%20x=y", "https://evil.example/", "//evil.example", "%5C%5Cevil.example"]
    {
        let answer = log_in(address, "fred", "secretive", next);
        assert_eq!((answer.status, answer.header("Location")), (303, Some("/")), "{next}");
        assert!(answer.header("Set-Cookie").unwrap().starts_with("newsreel="), "{next}");
    }
    let page = get(address, "/login?next=%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(!page.body.contains("<script>"), "{}", page.body);
}

#[test]
fn passwords_are_accepted_where_authinfo_accepts_them() {
    let (server, address) = site_with_fred();
    let keys =
        "proxies = [\"127.0.0.1\"]\nnames = [\"www.site.example\"]\n\n[auth]\nplain_passwords_from = []\n";
    server.reload(|text| text + keys).unwrap();
    let page = get_with(address, "/login", "X-Forwarded-For: 127.0.0.9\r\n");
    assert!(page.body.contains("not encrypted") && !page.body.contains("<form"), "{}", page.body);
    let told = "X-Forwarded-For: 127.0.0.9\r\nX-Forwarded-Proto: https\r\n";
    let page = get_with(address, "/login", told);
    let (token, cookie) = form_of(&page);
    assert!(page.header("Set-Cookie").unwrap().starts_with("__Host-newsreel="), "{page:?}");
    assert!(page.header("Set-Cookie").unwrap().ends_with("; Secure"), "{page:?}");
    let body = format!("user=fred&password=secretive&next=/&form_token={token}");
    assert_eq!(post(address, "/login", &cookie, &body, "X-Forwarded-For: 127.0.0.9\r\n").status, 403);
    assert_eq!(post(address, "/login", &cookie, &body, told).status, 303);
}

#[test]
fn operators_page_is_restricted_and_complete() {
    let (server, address) = site_with_fred();
    let stranger = get(address, "/operator");
    assert_eq!(stranger.status, 403);
    assert!(stranger.body.contains("/login?next=/operator") && !stranger.body.contains("text0"));
    assert!(get(address, "/").body.contains("site.example"));
    let cookie = cookie_of(&log_in(address, "fred", "secretive", "/operator")).unwrap();
    let page = get_with(address, "/operator", &format!("Cookie: {cookie}\r\n"));
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
    for shown in ["Nothing is wrong", "Buffer text0: 0 % holds articles, cycle 1", "peer.example", "32.0 MiB"]
    {
        assert!(page.body.contains(shown), "{shown} is not in {}", page.body);
    }
    // The page contains nothing that the policy forbids, and nothing from elsewhere.
    for forbidden in ["style=", "<style", " onclick", "http://", "https://", "javascript:"] {
        assert!(!page.body.contains(forbidden), "{forbidden} in {}", page.body);
    }
    let files: Vec<&str> = page.body.split('"').filter(|text| text.starts_with("/assets/")).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let answer = get(address, file);
        assert_eq!(answer.status, 200, "{file}");
        assert_eq!(answer.header("Cache-Control"), Some("public, max-age=31536000, immutable"));
    }
    for file in ["/assets/x/style.css", "/assets/..%2f..%2fetc/passwd", "/assets/"] {
        assert_eq!(get(address, file).status, 404, "{file}");
    }
    server.reload(|text| text + "operator = false\n").unwrap();
    assert_eq!(get_with(address, "/operator", &format!("Cookie: {cookie}\r\n")).status, 404);
}

#[test]
fn limits_of_access_sections_apply_to_http() {
    let limits = "connections_per_address_max = 2\nbytes_per_sec_max = 20000\n";
    let server = Server::start();
    drop(server.client());
    server.wait_for_connections(0);
    let change = |text: String| {
        // Peers have no limits as readers.
        let text = text.replace("addresses = [\"127.0.0.1\"]", "addresses = [\"127.0.0.2\"]");
        format!("{text}operator = true\n{limits}{WEB}")
    };
    server.reload(change).unwrap();
    let nntp = server.client();
    let address = address(&server);
    let ask = |socket: &mut TcpStream| {
        let request = format!("GET /groups HTTP/1.1\r\nHost: {address}\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        socket.read_exact(&mut head).unwrap();
        String::from_utf8(head.to_vec()).unwrap()
    };
    // A connection of a newsreader and one of a browser are the two permitted.
    let mut first = connect(address);
    assert_eq!(ask(&mut first), "HTTP/1.1 200");
    let told = get(address, "/groups");
    assert_eq!(told.status, 429);
    assert!(told.body.contains("from your address"), "{}", told.body);
    assert_eq!(get(address, "/health").status, 200, "what everybody may see has no place to take");
    drop((nntp, first));
    // The server notices the end of a connection with a delay.
    let patient = Instant::now() + Duration::from_secs(20);
    let held = loop {
        let mut socket = connect(address);
        match ask(&mut socket).as_str() {
            "HTTP/1.1 200" => break socket,
            refused => assert!(refused.ends_with("429") && Instant::now() < patient, "{refused}"),
        }
    };
    // A burst of 20,000 bytes, then as many per second, for all connections together.
    let begun = Instant::now();
    let mut bytes = 0;
    while bytes < 60_000 {
        let answer = get(address, "/metrics");
        match answer.status {
            200 => bytes += answer.body.len(),
            status => assert!(status == 429 && Instant::now() < patient, "{status}"),
        }
    }
    drop(held);
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "{bytes} bytes in {:?}", begun.elapsed());
}

#[test]
fn https_uses_the_tls_certificate_and_secure_cookies() {
    let site = Site::start();
    drop(site.server.client());
    let web = "\n[web]\ntls_listen = [\"127.0.0.1:0\"]\nnames = [\"news.example.org\"]\n";
    site.server.reload(|text| text + web).unwrap();
    site.server.user(&["add", "fred"], "a long password\n").unwrap();
    let address = address(&site.server);
    let asked = |request: &str| {
        let config = Arc::new(settings(&site.authority, None));
        let client = rustls::ClientConnection::new(config, settings_name("news.example.org")).unwrap();
        let mut stream = rustls::StreamOwned::new(client, connect(address));
        stream.write_all(request.as_bytes()).unwrap();
        let mut octets = Vec::new();
        // HTTP does not depend on a closing alert.
        let _ended = stream.read_to_end(&mut octets);
        assert_eq!(stream.conn.alpn_protocol(), None);
        taken_apart(&octets)
    };
    const HOST: &str = "Host: news.example.org\r\nConnection: close\r\n";
    assert_eq!(asked(&format!("GET /health HTTP/1.1\r\n{HOST}\r\n")).body, "ok\n");
    let form = asked(&format!("GET /login HTTP/1.1\r\n{HOST}\r\n"));
    let cookie = form.header("Set-Cookie").unwrap();
    assert!(cookie.starts_with("__Host-newsreel=") && cookie.contains("; Secure"), "{cookie}");
    let (token, cookie) = form_of(&form);
    let body = format!("user=fred&password=a+long+password&next=/groups&form_token={token}");
    let length = body.len();
    let login = asked(&format!(
        "POST /login HTTP/1.1\r\n{HOST}Cookie: {cookie}\r\nOrigin: https://news.example.org\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert_eq!((login.status, login.header("Location")), (303, Some("/groups")), "{}", login.body);
    // A client that does not encrypt gets no response.
    let mut plain = connect(address);
    plain.write_all(format!("GET /health HTTP/1.1\r\n{HOST}\r\n").as_bytes()).unwrap();
    let mut octets = Vec::new();
    let _reset = plain.read_to_end(&mut octets);
    assert!(!octets.starts_with(b"HTTP"), "{octets:?}");
}
