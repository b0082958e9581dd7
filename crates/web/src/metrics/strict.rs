//! A parser of OpenMetrics 1.0 that accepts only what the specification allows, for tests.
//!
//! Stands in for Prometheus: a text that passes is accepted by scrapers. Checks the grammar, the order (each
//! family in one piece, its TYPE first), unique names and label sets, suffixes by type, and complete
//! histograms. Source: OpenMetrics 1.0, sections "Text Format" and "Overall Structure".

use std::collections::{BTreeMap, BTreeSet};

/// A family of samples.
#[derive(Debug, Default)]
pub struct MetricFamily {
    pub kind: String,
    pub help: String,
    pub samples: Vec<MetricSample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

/// A description of an error in an exposition.
#[derive(Debug)]
#[expect(dead_code, reason = "tests print it")]
pub struct MalformedMetrics(String);

/// Parses an exposition.
pub fn parse(text: &str) -> Result<BTreeMap<String, MetricFamily>, MalformedMetrics> {
    let body =
        text.strip_suffix("# EOF\n").ok_or_else(|| MalformedMetrics("it does not end with # EOF".into()))?;
    let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
    let mut current = None::<String>;
    for line in body.lines() {
        let wrong = |why: &str| MalformedMetrics(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (word, name, text) = (words.next(), words.next().unwrap_or(""), words.next().unwrap_or(""));
            if !is_name(name) {
                return Err(wrong("no name of a metric"));
            }
            let is_new = current.as_deref() != Some(name);
            if is_new && families.contains_key(name) {
                return Err(wrong("the family is in two pieces"));
            }
            current = Some(name.to_owned());
            let family = families.entry(name.to_owned()).or_default();
            if !family.samples.is_empty() {
                return Err(wrong("a description after samples"));
            }
            match word {
                Some("TYPE") if family.kind.is_empty() => family.kind = text.to_owned(),
                Some("HELP") if family.help.is_empty() => family.help = text.to_owned(),
                _ => return Err(wrong("an unknown or second description")),
            }
            continue;
        }
        let name = current.as_ref().ok_or_else(|| wrong("a sample of no family"))?;
        let family = families.get_mut(name).ok_or_else(|| wrong("a sample of no family"))?;
        let sample = sample(line).ok_or_else(|| wrong("no sample"))?;
        let suffix = sample.name.strip_prefix(name.as_str()).ok_or_else(|| wrong("of another family"))?;
        let fits = match family.kind.as_str() {
            "counter" => suffix == "_total" && sample.value >= 0.0,
            "gauge" => suffix.is_empty(),
            "info" => suffix == "_info" && sample.value == 1.0,
            "histogram" => matches!(suffix, "_bucket" | "_sum" | "_count"),
            _ => return Err(wrong("an unknown type")),
        };
        if !fits {
            return Err(wrong("not a sample of its type"));
        }
        family.samples.push(sample);
    }
    families.iter().try_for_each(|(name, family)| whole(name, family))?;
    // No sample may look like one of another family.
    let all: Vec<&str> = families.values().flat_map(|f| &f.samples).map(|s| s.name.as_str()).collect();
    match families.iter().find(|(name, f)| f.kind != "gauge" && all.contains(&name.as_str())) {
        Some((name, _)) => Err(MalformedMetrics(format!("{name} is a family and a sample of another"))),
        None => Ok(families),
    }
}

/// Checks that label sets are unique and histograms cumulative, up to +Inf.
fn whole(name: &str, family: &MetricFamily) -> Result<(), MalformedMetrics> {
    let mut seen = BTreeSet::new();
    for sample in &family.samples {
        let names: BTreeSet<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() != sample.labels.len() || !seen.insert((sample.name.clone(), sample.labels.clone())) {
            return Err(MalformedMetrics(format!("{name}: the same labels twice: {sample:?}")));
        }
    }
    if family.kind == "histogram" {
        let of =
            |suffix: &'static str| family.samples.iter().filter(move |s| s.name == format!("{name}{suffix}"));
        let buckets: Vec<f64> = of("_bucket").map(|sample| sample.value).collect();
        let last = of("_bucket").next_back().and_then(|s| s.labels.iter().find(|(name, _)| name == "le"));
        let count = of("_count").map(|sample| sample.value).next();
        if !buckets.is_sorted() || last.is_none_or(|(_, le)| le != "+Inf") || count != buckets.last().copied()
        {
            return Err(MalformedMetrics(format!("{name}: not a whole histogram")));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b':';
    name.bytes().next().is_some_and(is_letter) && name.bytes().all(|b| is_letter(b) || b.is_ascii_digit())
}

fn sample(line: &str) -> Option<MetricSample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = match after.strip_prefix(',') {
                // No comma is allowed before the brace.
                Some(after) if !after.starts_with('}') => after,
                Some(_) => return None,
                None => after,
            };
        }
    }
    let value = rest.strip_prefix(' ')?;
    let is_number = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    let value = is_number(value).then(|| value.parse().ok())??;
    let fits = is_name(name) && labels.iter().all(|(name, _)| is_name(name) && !name.contains(':'));
    fits.then(|| MetricSample { name: name.to_owned(), labels, value })
}

/// Returns the text up to the closing quote, unescaped, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            '\n' => return None,
            c => value.push(c),
        }
    }
    None
}
