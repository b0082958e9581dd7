//! An OpenID provider on this machine for tests, which signs with Ed25519 and lies as it is asked to.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a browser was sent with.
#[derive(Debug, Clone)]
struct Authorization {
    challenge: String,
    nonce: String,
    redirect: String,
}

/// The behaviour of the provider.
pub struct Manners {
    /// Claims that replace those of a good token; null removes one.
    pub claims: Value,
    /// The head of tokens.
    pub head: Value,
    /// The key that signs, and the keys that are shown.
    pub signs: u8,
    pub shown: Vec<u8>,
    /// Tokens have no signature.
    pub unsigned: bool,
    /// Paths that are answered with too much, with nothing, or with rubbish.
    pub huge: &'static str,
    pub silent: &'static str,
    pub rubbish: &'static str,
    /// What `/userinfo` says of the user; null: there is no such address.
    pub user: Value,
    codes: HashMap<String, Authorization>,
    /// Forms that came for tokens.
    pub forms: Vec<String>,
}

impl Manners {
    fn good() -> Self {
        Self {
            claims: json!({}),
            head: json!({"alg": "EdDSA", "kid": "key 1"}),
            signs: 1,
            shown: vec![1],
            unsigned: false,
            huge: "-",
            silent: "-",
            rubbish: "-",
            user: Value::Null,
            codes: HashMap::new(),
            forms: Vec::new(),
        }
    }
}

/// A running provider, which ends with the test's process.
pub struct FakeProvider {
    address: SocketAddr,
    manners: Arc<Mutex<Manners>>,
}

impl FakeProvider {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let manners = Arc::new(Mutex::new(Manners::good()));
        let own = manners.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let own = own.clone();
                std::thread::spawn(move || {
                    let _client_left = serve(stream.unwrap(), address, &own);
                });
            }
        });
        Self { address, manners }
    }

    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Behaves well again, except as `change` says.
    pub fn behave(&self, change: impl FnOnce(&mut Manners)) {
        let mut manners = self.manners.lock().unwrap();
        let codes = std::mem::take(&mut manners.codes);
        *manners = Manners { codes, ..Manners::good() };
        change(&mut manners);
    }

    pub fn forms(&self) -> Vec<String> {
        self.manners.lock().unwrap().forms.clone()
    }

    /// Does what the user does at the page of the provider; returns a code and the state.
    pub fn authorize(&self, location: &str) -> (String, String) {
        let (page, query) = location.split_once('?').unwrap();
        assert_eq!(page, format!("{}/authorize", self.issuer()));
        let fields = fields(query);
        let field = |name: &str| fields.get(name).unwrap_or_else(|| panic!("no {name}: {location}")).clone();
        assert_eq!((field("response_type"), field("client_id")), ("code".into(), "news".into()));
        assert_eq!(field("code_challenge_method"), "S256");
        assert!(field("scope").split(' ').any(|scope| scope == "openid"));
        let mut manners = self.manners.lock().unwrap();
        let code = format!("code {}", manners.codes.len());
        let (challenge, nonce) = (field("code_challenge"), field("nonce"));
        manners
            .codes
            .insert(code.clone(), Authorization { challenge, nonce, redirect: field("redirect_uri") });
        (code, field("state"))
    }
}

fn fields(query: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let mut octets = Vec::new();
        newspages::urls::unescape(&text.replace('+', " "), &mut octets);
        String::from_utf8(octets).unwrap()
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

fn base64(octets: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(octets)
}

fn key(number: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap()
}

fn serve(stream: TcpStream, address: SocketAddr, manners: &Mutex<Manners>) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let (mut first, mut length, mut is_authorized) = (String::new(), 0, false);
    input.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_authorized |= line.trim().eq_ignore_ascii_case("authorization: Bearer x");
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (is_huge, is_silent, is_rubbish) = {
        let manners = manners.lock().unwrap();
        (manners.huge == path, manners.silent == path, manners.rubbish == path)
    };
    if is_silent {
        // Until the client hangs up.
        let _left = input.read(&mut [0]);
        return Ok(());
    }
    if is_huge {
        out.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"x\":\"")?;
        loop {
            out.write_all(&[b'x'; 65_536])?;
        }
    }
    if is_rubbish {
        return out.write_all(b"\x16\x03\x01\0\0\xff\xff rubbish\r\n\r\n");
    }
    let (status, answer) = match path.as_str() {
        "/.well-known/openid-configuration" => {
            let has_user = !manners.lock().unwrap().user.is_null();
            (200, description(address, has_user))
        }
        "/userinfo" if is_authorized => (200, manners.lock().unwrap().user.clone()),
        "/userinfo" => (401, json!({})),
        "/keys" => (200, keys(&manners.lock().unwrap())),
        "/token" => token(address, &mut manners.lock().unwrap(), &String::from_utf8(body).unwrap()),
        _ => (404, json!({})),
    };
    let text = answer.to_string();
    let length = text.len();
    let head =
        format!("HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    out.write_all((head + &text).as_bytes())
}

fn description(address: SocketAddr, has_user: bool) -> Value {
    let user = has_user.then(|| format!("http://{address}/userinfo"));
    json!({
        "userinfo_endpoint": user,
        "issuer": format!("http://{address}"),
        "authorization_endpoint": format!("http://{address}/authorize"),
        "token_endpoint": format!("http://{address}/token"),
        "jwks_uri": format!("http://{address}/keys"),
    })
}

fn keys(manners: &Manners) -> Value {
    let one = |number: &u8| {
        let public = base64(key(*number).public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": format!("key {number}"), "x": public})
    };
    json!({ "keys": manners.shown.iter().map(one).collect::<Vec<_>>() })
}

fn token(address: SocketAddr, manners: &mut Manners, form: &str) -> (u16, Value) {
    manners.forms.push(form.to_owned());
    let fields = fields(form);
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let Some(known) = manners.codes.remove(&field("code")) else {
        return (400, json!({"error": "invalid_grant"}));
    };
    let challenge = base64(digest(&SHA256, field("code_verifier").as_bytes()));
    if challenge != known.challenge || field("redirect_uri") != known.redirect {
        return (400, json!({"error": "invalid_grant"}));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({
        "iss": format!("http://{address}"), "aud": "news", "sub": "u-1", "nonce": known.nonce,
        "iat": now, "exp": now + 300, "preferred_username": "carol", "groups": ["news-staff"],
    });
    for (name, value) in manners.claims.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    let message = format!("{}.{}", base64(manners.head.to_string()), base64(claims.to_string()));
    let signature = key(manners.signs).sign(message.as_bytes());
    let signature = if manners.unsigned { String::new() } else { base64(signature) };
    (200, json!({"access_token": "x", "token_type": "Bearer", "id_token": format!("{message}.{signature}")}))
}
