//! Converts inn.conf to `[site]`, `[limits]`, `[tls]`, `[posting]`, `[cancel]` and `[moderation]`.
//!
//! Keys without an equivalent are in `inn_keys`. Called by `settings`. Source: inn.conf(5) of INN 2.7.

use std::collections::BTreeMap;

use netnews::overview_row::is_further;
use toml_edit::Value;

use super::inn_keys::{UnmappedKey, fate};
use super::keys::{self, MappedKey, is_among, number, row};
use super::sheet::ConfigDraft;
use super::text::{NotConverted, SourcePosition, is_true, lines, pieces, quoted};
use crate::conf::inn_conf_value;
use site_base::units::size_text;
use site_config::{host_name, is_path_identity};

const FILE: &str = "inn.conf";

/// A value and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InnSetting {
    pub place: SourcePosition,
    pub value: String,
}

/// Parsed inn.conf.
#[derive(Debug, Default)]
pub(super) struct InnConf {
    settings: BTreeMap<String, InnSetting>,
    /// Keys without a value.
    empty: Vec<(SourcePosition, String)>,
    faults: Vec<(SourcePosition, String)>,
}

impl InnConf {
    /// Parses the file.
    pub fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        let mut list: Option<(String, InnSetting)> = None;
        for line in lines(FILE, text) {
            if let Some((key, mut setting)) = list.take() {
                setting.place.last = line.place.last;
                setting.value.push(' ');
                setting.value.push_str(line.text.split(']').next().unwrap_or_default().trim());
                match line.text.contains(']') {
                    true => drop(conf.settings.insert(key, setting)),
                    false => list = Some((key, setting)),
                }
                continue;
            }
            let Some((key, value)) = line.text.split_once(':').filter(|(key, _)| is_key(key)) else {
                conf.faults.push((line.place, format!("`{}`: not `key: value`", quoted(&line.text))));
                continue;
            };
            if conf.settings.contains_key(key) {
                conf.faults.push((line.place, format!("`{key}` is there already; the first one counts")));
                continue;
            }
            let value = value.trim();
            let setting = |value: &str| InnSetting { place: line.place, value: value.trim().to_owned() };
            match value.strip_prefix('[') {
                Some(open) if !open.contains(']') => list = Some((key.to_owned(), setting(open))),
                Some(open) => {
                    let items = open.split(']').next().unwrap_or_default();
                    conf.settings.insert(key.to_owned(), setting(items));
                }
                None => match inn_conf_value(value) {
                    Some(value) => drop(conf.settings.insert(key.to_owned(), setting(&value))),
                    None => conf.faults.push((line.place, format!("`{key}`: its quote is not closed"))),
                },
            }
        }
        if let Some((key, setting)) = list {
            conf.faults.push((setting.place, format!("the list of `{key}` has no end")));
        }
        conf.settings.retain(|key, setting| {
            let is_empty = setting.value.trim().is_empty();
            if is_empty {
                conf.empty.push((setting.place, key.clone()));
            }
            !is_empty
        });
        conf
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&InnSetting> {
        self.settings.get(key)
    }

    /// Returns the value of a boolean key.
    pub fn is(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |setting| is_true(&setting.value))
    }

    /// Returns the name of the site in Path.
    pub fn path_identity(&self) -> String {
        let own = self.get("pathhost").map(|setting| setting.value.clone());
        own.filter(|name| is_path_identity(name)).unwrap_or_else(host_name)
    }

    /// Returns the path of a file of INN that is configured without a directory.
    pub fn path(&self, key: &str, below: &str) -> String {
        let own = self.get(key).map(|setting| setting.value.clone());
        own.unwrap_or_else(|| {
            let news = self.get("pathnews").map_or("/usr/lib/news", |setting| setting.value.as_str());
            format!("{news}/{below}")
        })
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Converts inn.conf.
pub(super) fn convert(conf: &InnConf, sheet: &mut ConfigDraft) {
    for (place, why) in &conf.faults {
        sheet.remark(*place, why);
    }
    for (place, key) in &conf.empty {
        sheet.unsaid(*place, format!("`{}`", quoted(key)), "nothing is set");
    }
    let mut by_line: Vec<(&String, &InnSetting)> = conf.settings.iter().collect();
    by_line.sort_by_key(|(_, setting)| setting.place.line);
    for (key, setting) in by_line {
        let place = setting.place;
        let line = format!("`{key}: {}`", quoted(&setting.value));
        match one(key, &setting.value, place, conf, sheet) {
            Ok(true) => sheet.saw([place]),
            Ok(false) => match fate(key) {
                Some(UnmappedKey::NotNeeded(why)) => sheet.unsaid(place, line, format!("not needed, {why}")),
                Some(UnmappedKey::NoEqual(_)) if is_off(&setting.value) => {
                    sheet.unsaid(place, line, "off in INN, and without an equal here");
                }
                Some(UnmappedKey::NotCarriedOver(why)) => {
                    sheet.unsaid(place, line, format!("not carried over, {why}"));
                }
                Some(UnmappedKey::NoEqual(why)) => sheet.unsaid(place, line, format!("no equivalent: {why}")),
                None => sheet.remark(place, format!("{line}: INN 2.7 has no such key")),
            },
            Err(why) => sheet.unsaid(place, line, format!("not carried over, {why}")),
        }
    }
    listen(conf, sheet);
    defaults(conf, sheet);
}

/// Returns whether a value turns something off.
fn is_off(value: &str) -> bool {
    ["false", "no", "off", "0"].contains(&value)
}

/// Keys that become one of ours.
const KEYS: &[MappedKey] = &[
    row("pathhost", "site", "path_identity", keys::text),
    row("organization", "site", "organization", keys::text),
    row("artcutoff", "site", "max_age_days", age_max),
    row("maxartsize", "site", "article_bytes_max", article_size),
    row("extraoverviewadvertised", "site", "overview_headers", overview_headers),
    row("wanttrash", "site", "unknown_groups", |value| {
        Ok(if is_true(value) { "junk" } else { "reject" }.into())
    }),
    row("clienttimeout", "limits", "idle_timeout", keys::seconds),
    row("docancels", "cancel", "honor", honored),
    row("tlscertfile", "tls", "certificate", keys::text),
    row("tlskeyfile", "tls", "key", keys::text),
    row("tlscafile", "tls", "client_ca", keys::text),
    row("mta", "moderation", "sendmail", keys::text),
    row("moderatormailer", "moderation", "default_address", keys::text),
    row("localmaxartsize", "posting", "article_bytes_max", article_size),
    row("addinjectionpostinghost", "posting", "posting_host", shown),
    row("addinjectionpostingaccount", "posting", "posting_account", shown),
    row("complaints", "posting", "complaints_to", keys::text),
    row("checkincludedtext", "posting", "check_quoted", keys::boolean),
    row("backoffpostfast", "posting", "backoff_fast", keys::seconds),
    row("backoffpostslow", "posting", "backoff_slow", keys::seconds),
    row("backofftrigger", "posting", "backoff_trigger", |value| {
        Ok((number(value)?.clamp(1, 1_000_000) as i64).into())
    }),
];

/// Keys converted by `listen`, `defaults`, and the peers.
const ELSEWHERE: &str = "port bindaddress bindaddress6 pathalias pathcluster groupbaseexpiry storeonxref wireformat \
                         allownewnews sourceaddress";

/// Converts one key; returns whether there was something to write.
fn one(
    key: &str,
    value: &str,
    place: SourcePosition,
    conf: &InnConf,
    sheet: &mut ConfigDraft,
) -> Result<bool, NotConverted> {
    let is_default = |key: &str, default: &str| conf.get(key).is_none_or(|setting| setting.value == default);
    match key {
        key if is_among(ELSEWHERE, key) => return Ok(true),
        "tlskeyfile" | "tlscafile" if conf.get("tlscertfile").is_none() => {
            return Err("there is no tlscertfile".into());
        }
        // With these values INN never delays a poster.
        "backoffpostfast" | "backoffpostslow" | "backofftrigger" | "backoffk"
            if is_default("backoffpostfast", "0") && is_default("backoffpostslow", "1") =>
        {
            return Err("INN makes no poster wait with these values; [posting] has its own".into());
        }
        "localmaxartsize" if number(value)? == 0 => {
            let text = "`localmaxartsize: 0`: posts are as long as site.article_bytes_max";
            sheet.single("posting").remark(place, text);
            return Ok(true);
        }
        _ => {}
    }
    let Some(row) = keys::find(KEYS, key) else { return Ok(false) };
    let ours = (row.value)(value)?;
    let section = sheet.single(row.section);
    section.key(row.ours, ours, place);
    if key == "docancels" && value == "auth" {
        section.key("unlocked", true, place);
    }
    Ok(true)
}

/// Converts the days after which articles are refused.
fn age_max(value: &str) -> Result<Value, NotConverted> {
    Ok(match number(value)? {
        0 => "none".into(),
        days => (days.min(36_000) as i64).into(),
    })
}

/// Converts a list of headers, without those that overview has anyway.
fn overview_headers(value: &str) -> Result<Value, NotConverted> {
    let names = value.split_ascii_whitespace().map(|name| name.trim_matches('"'));
    Ok(Value::from_iter(names.filter(|name| is_further(name.as_bytes()))))
}

fn shown(value: &str) -> Result<Value, NotConverted> {
    Ok(if is_true(value) { "shown" } else { "hidden" }.into())
}

/// Converts which cancels are honored.
fn honored(value: &str) -> Result<Value, NotConverted> {
    match value {
        "require-auth" | "auth" => Ok("verified".into()),
        "none" | "all" => Ok(value.into()),
        _ => Err("neither require-auth, auth, none nor all".into()),
    }
}

/// Converts a size limit: no limit in INN, and sizes not accepted by newsreel, become the nearest accepted
/// size.
fn article_size(value: &str) -> Result<Value, NotConverted> {
    Ok(match number(value)? {
        0 => size_text(1 << 30).into(),
        bytes => size_text(bytes.clamp(1 << 10, 1 << 30)).into(),
    })
}

/// Converts the listening addresses: like innd, one address per family, or none.
fn listen(conf: &InnConf, sheet: &mut ConfigDraft) {
    let port = conf.get("port").map_or("119", |setting| setting.value.as_str());
    let own = |key: &str| conf.get(key).filter(|setting| setting.value != "none");
    let any = |setting: &InnSetting, any: &str| {
        if setting.value == "all" { any.to_owned() } else { setting.value.clone() }
    };
    let (v4, v6) = (own("bindaddress"), own("bindaddress6"));
    let mut addresses = Vec::new();
    addresses.extend(v4.map(|setting| format!("{}:{port}", any(setting, "0.0.0.0"))));
    addresses.extend(v6.map(|setting| format!("[{}]:{port}", any(setting, "::"))));
    if addresses.is_empty() {
        addresses = vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")];
    }
    let places: Vec<String> = ["port", "bindaddress", "bindaddress6"]
        .iter()
        .filter_map(|key| conf.get(key))
        .map(|setting| setting.place.line.to_string())
        .collect();
    let note = match places.is_empty() {
        true => "as innd does by default".to_owned(),
        false => format!("{FILE} {}", places.join(", ")),
    };
    sheet.single("site").noted("listen", Value::from_iter(addresses), note);
}

/// Writes INN's defaults that differ from ours, and settings combined from several keys.
fn defaults(conf: &InnConf, sheet: &mut ConfigDraft) {
    let site = sheet.single("site");
    let note = "INN's default";
    if !site.has("path_identity") {
        site.say("INN has no pathhost; path_identity is the name of this machine.");
    }
    if conf.get("maxartsize").is_none() {
        site.noted("article_bytes_max", size_text(1_000_000), note);
    }
    let also: Vec<&InnSetting> =
        ["pathalias", "pathcluster"].iter().filter_map(|key| conf.get(key)).collect();
    if !also.is_empty() {
        let names = also.iter().flat_map(|setting| pieces(&setting.value));
        let lines: Vec<String> = also.iter().map(|setting| setting.place.line.to_string()).collect();
        site.noted("path_also", Value::from_iter(names), format!("{FILE} {}", lines.join(", ")));
    }
    if let Some(cluster) = conf.get("pathcluster") {
        let text = "INN writes pathcluster before pathhost, newsreel after path_identity. Peers that know this \
                    server as the cluster should list it as an exclusion, or in path_never.";
        site.remark(cluster.place, text);
    }
    if let Some(setting) = conf.get("storeonxref").filter(|_| !conf.is("storeonxref", true)) {
        site.remark(setting.place, "storage rules go by the groups that are carried, not by Newsgroups");
    }
    if conf.get("clienttimeout").is_none() {
        sheet.single("limits").noted("idle_timeout", "30 min", note);
    }
    if conf.get("localmaxartsize").is_none() {
        sheet.single("posting").noted("article_bytes_max", size_text(1_000_000), note);
    }
    if let Some(certificate) = conf.get("tlscertfile").filter(|_| conf.get("tlskeyfile").is_none()) {
        sheet.single("tls").noted(
            "key",
            certificate.value.as_str(),
            "INN's default: the file of the certificate",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lists_and_faults() {
        let conf = InnConf::parse(
            "pathhost:  news.example.org # us\npathhost: other\norganization: \"The \\\"O\\\" #1\" # c\ncomplaints: \"x\nmta: \"/usr/sbin/sendmail -oi %s\"\nempty:\n\
             extraoverviewhidden: [ a b ]\nsyntaxchecks: [\n  no-laxmid\n]\nnonsense\nlast: [ open\n",
        );
        assert_eq!(conf.get("pathhost").unwrap().value, "news.example.org");
        assert_eq!(conf.get("mta").unwrap().value, "/usr/sbin/sendmail -oi %s");
        assert_eq!(
            (conf.get("empty"), conf.get("extraoverviewhidden").unwrap().value.as_str()),
            (None, "a b")
        );
        let checks = conf.get("syntaxchecks").unwrap();
        assert_eq!((checks.value.trim(), checks.place.line, checks.place.last), ("no-laxmid", 8, 10));
        assert_eq!(conf.get("organization").unwrap().value, "The \"O\" #1");
        let lines: Vec<u32> = conf.faults.iter().map(|(place, _)| place.line).collect();
        assert_eq!(lines, [2, 4, 11, 12]);
        assert_eq!(conf.path("pathbin", "bin"), "/usr/lib/news/bin");
    }
}
