//! `newsreel expire --explain`: when an article expires, and why.

use spool::{ArticleExpiry, ExpireConfig, ExpiryFate, Lookup, NumberExpiry, Spool};

use super::super::Sink;
use super::super::reply::Reply;
use site_base::clock::unix_secs;
use site_base::units::{about_size, about_span, counted};

/// Reports when the article with a Message-ID expires; returns true if it is here.
pub(super) fn explain(spool: &Spool, message_id: &str, sink: &mut Sink<'_>) -> bool {
    match spool.expiry().explain(message_id.as_bytes()) {
        Ok(Ok(expiry)) => {
            let rules = spool.expiry().rules();
            lines(&expiry, &rules, unix_secs()).into_iter().for_each(|line| sink(Reply::Text(line)));
            true
        }
        Ok(Err(found)) => {
            let why = match found {
                Lookup::Unknown => "was never here",
                Lookup::Remembered => "is gone: it was cancelled, expired or rejected",
                _ => "is gone: it was overwritten or expired",
            };
            sink(Reply::Error(format!("{message_id} {why}")));
            false
        }
        Err(trouble) => {
            sink(Reply::Error(trouble.to_string()));
            false
        }
    }
}

fn line(label: &str, text: impl std::fmt::Display) -> String {
    format!("{label:<14} {text}")
}

fn lines(expiry: &ArticleExpiry, rules: &[ExpireConfig], now: u64) -> Vec<String> {
    let mut lines = vec![line("stored in", format_args!("{} ({})", expiry.volume, expiry.method))];
    lines.push(line("arrived", date(expiry.arrived, now)));
    let expires = if expiry.expires == 0 { "no such header".into() } else { date(expiry.expires, now) };
    lines.push(line("Expires", expires));
    match &expiry.fate {
        ExpiryFate::Overwritten { offset, head, area, bytes_left, secs_left } => {
            lines
                .push(line("place", format_args!("offset {offset} of {area}; the write position is {head}")));
            let when = match secs_left {
                Some(secs) => format!("; at the last day's rate in {}", about_span(*secs)),
                None => String::new(),
            };
            let left = about_size(*bytes_left);
            lines.push(line("goes", format_args!("when {left} more are written to the buffer{when}")));
        }
        ExpiryFate::Kept { numbers, thread_newest, given_up_from, room } => {
            if let Some(newest) = thread_newest {
                lines.push(line("thread", format_args!("its newest article arrived {}", date(*newest, now))));
            }
            lines.extend(numbers.iter().map(|number| line("number", of_number(number, rules, now))));
            lines.push(line("goes", goes(numbers, now)));
            if let Some((free, free_min)) = room {
                let (free, least) = (about_size(*free), about_size(*free_min));
                let from = match given_up_from {
                    Some(from) if *from <= now => "it may be given up when there is less".into(),
                    Some(from) => {
                        format!("it may be given up from {} on when there is less", date(*from, now))
                    }
                    None => "it is not given up".into(),
                };
                lines.push(line("room", format_args!("{free} free, and free_min is {least}: {from}")));
            }
        }
        ExpiryFate::Unlisted => {
            let text = "never: it is not in the list of what is kept; newsreel verify --repair enters it";
            lines.push(line("goes", text));
        }
    }
    lines
}

/// Describes the expiry of a number.
fn of_number(number: &NumberExpiry, rules: &[ExpireConfig], now: u64) -> String {
    let NumberExpiry { group, number, rule, due, newer, is_capped } = number;
    let Some((at, config)) = rule.and_then(|at| Some((at, rules.get(at)?))) else {
        return format!("{group}:{number}: no [[expire]] section decides, so it stays");
    };
    let due = due.map_or("never due".into(), |due| format!("due {}", date(due, now)));
    let mut text = format!("{group}:{number}: by [[expire]] {} ({}) {due}", at + 1, conditions(config));
    if config.articles_max.is_some() || config.bytes_max.is_some() {
        let (articles, bytes) = newer;
        let newer = format!("{} with {}", counted(*articles, "newer article"), about_size(*bytes));
        let over = if *is_capped { "more than its cap allows, so it is due now" } else { "within its cap" };
        text += &format!("; the group has {newer}: {over}");
    }
    text
}

/// Describes which articles a section applies to.
fn conditions(config: &ExpireConfig) -> String {
    let text = |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key} = \"{value}\""));
    let moderated = config.moderated.map(|moderated| format!("moderated = {moderated}"));
    let all = [text("groups", &config.groups), text("class", &config.class), moderated];
    let all: Vec<String> = all.into_iter().flatten().collect();
    if all.is_empty() { "all articles".into() } else { all.join(", ") }
}

fn goes(numbers: &[NumberExpiry], now: u64) -> String {
    let ends = |number: &NumberExpiry| if number.is_capped { Some(now) } else { number.due };
    match numbers.iter().map(ends).collect::<Option<Vec<u64>>>() {
        None => "never, by these rules".into(),
        Some(ends) => match ends.into_iter().max() {
            Some(last) if last > now => format!("{}, with its last number", date(last, now)),
            _ => "with the next pass of expiry, at most an hour from now".into(),
        },
    }
}

/// Formats a date with its distance from now.
fn date(at: u64, now: u64) -> String {
    let mut text = Vec::new();
    netnews::date::format_rfc5322(i64::try_from(at).unwrap_or(i64::MAX), &mut text);
    let text = String::from_utf8_lossy(&text);
    match at.checked_sub(now) {
        Some(0) => format!("{text} (now)"),
        Some(secs) => format!("{text} (in {})", about_span(secs)),
        None => format!("{text} ({} ago)", about_span(now - at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;
    const DAY: u64 = 86_400;

    fn number(rule: Option<usize>, due: Option<u64>, is_capped: bool) -> NumberExpiry {
        NumberExpiry { group: "a.b".into(), number: 7, rule, due, newer: (1200, 3 << 20), is_capped }
    }

    #[test]
    fn last_number_to_expire_decides() {
        let due = |days: u64| number(Some(0), Some(NOW + days * DAY), false);
        assert!(goes(&[due(3), due(5)], NOW).ends_with("(in 5 d), with its last number"));
        assert_eq!(goes(&[due(3), number(Some(0), None, false)], NOW), "never, by these rules");
        assert!(goes(&[number(Some(0), None, true)], NOW).starts_with("with the next pass"));
        assert!(goes(&[], NOW).starts_with("with the next pass"));
    }

    #[test]
    fn number_is_explained_with_section_and_cap() {
        let config = ExpireConfig {
            groups: Some("a.*".into()),
            moderated: Some(true),
            articles_max: Some(1000),
            ..ExpireConfig::default()
        };
        let told =
            of_number(&number(Some(1), Some(NOW + DAY), true), &[ExpireConfig::default(), config], NOW);
        assert!(
            told.starts_with("a.b:7: by [[expire]] 2 (groups = \"a.*\", moderated = true) due "),
            "{told}"
        );
        assert!(
            told.ends_with("1,200 newer articles with 3.00 MiB: more than its cap allows, so it is due now"),
            "{told}"
        );
        let told = of_number(&number(None, None, false), &[], NOW);
        assert_eq!(told, "a.b:7: no [[expire]] section decides, so it stays");
    }
}
