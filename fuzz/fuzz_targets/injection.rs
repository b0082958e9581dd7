//! Proto-articles and withdrawals: what is judged good is completed to an article that keeps every header and
//! the body (RFC 5537 section 3.5, RFC 8315).
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::article::HEADER_LINES_MAX;
use netnews::control::cancel_lock::{ELEMENTS_MAX, elements, opens};
use netnews::control::{self, cancel_lock::LockScheme};
use netnews::injection::{self, InjectionRules, InjectionStamp, moderation};
use netnews::{Article, Known};

const NOW: i64 = 1_780_000_000;
const RULES: InjectionRules = InjectionRules {
    article_bytes_max: 1 << 15,
    age_secs_max: None,
    groups_max: 50,
    followup_groups_max: 50,
    line_bytes_max: 998,
    check_quoted: true,
};

fuzz_target!(|bytes: &[u8]| {
    let _any = control::parse(bytes);
    assert!(elements(bytes).count() <= ELEMENTS_MAX);
    assert!(elements(bytes).all(|element| !element.text.is_empty()));
    let same = |_: LockScheme, key: &[u8], out: &mut Vec<u8>| out.extend_from_slice(key);
    assert_eq!(opens(bytes, bytes, same), elements(bytes).next().is_some());
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _any = moderation::address(text, "a.group");
    }

    let Ok(article) = Article::parse(bytes) else { return };
    let refusal = injection::check_headers(&article, &RULES, NOW)
        .and_then(|()| injection::check_body(&article, &RULES));
    if let Err(objection) = refusal {
        assert!(!objection.to_string().chars().any(char::is_control), "{objection:?}");
        return;
    }
    // What is added must fit into what an article's headers may be.
    if article.head().split(|&b| b == b'\n').count() > HEADER_LINES_MAX as usize - 50 {
        return;
    }
    let mut info = Vec::new();
    injection::append_info("me.example", &[("posting-host", "192.0.2.1")], &mut info);
    let stamp = InjectionStamp {
        identity: "me.example",
        posted_from: "192.0.2.1",
        now: NOW,
        message_id: "<fresh@me.example>",
        organization: "Us",
        info: &info,
        cancel_lock: "sha256:lock",
        cancel_key: "sha256:key",
        to_moderator: false,
    };
    let wire = injection::complete(&article, &stamp);
    let complete = Article::parse(&wire).expect("completed to something that is no article");
    complete.required().expect("completed, and something is missing");
    assert_eq!(complete.body(), article.body());
    for (name, value) in article.headers() {
        let changed = [Known::Path, Known::CancelLock, Known::CancelKey].map(|known| known.name().as_bytes());
        if !changed.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            assert!(complete.headers().any(|header| header == (name, value)));
        }
    }
    let mail = moderation::plain(&article, "mod@x.example");
    assert!(mail.starts_with(b"To: mod@x.example\r\n"));
});
