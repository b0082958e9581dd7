//! Converts inn.conf to `[site]`, `[limits]`, `[tls]`, `[posting]`, `[cancel]` and `[moderation]`.
//!
//! Keys without an equivalent are in `inn_keys`. Called by `settings`. Source: inn.conf(5) of INN 2.7.

use std::collections::BTreeMap;
use std::time::Duration;

use netnews::overview_row::is_further;
use toml_edit::Value;

use super::inn_keys::{UnmappedKey, fate};
use super::sheet::ConfigDraft;
use super::text::{NotConverted, SourcePosition, is_true, lines, pieces, quoted};
use crate::conf::inn_conf_value;
use site_base::units::{size_text, span_text};
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

/// Parses a whole number.
fn number(value: &str) -> Result<u64, NotConverted> {
    value.parse().map_err(|_| format!("`{}` is not a whole number", quoted(value)).into())
}

fn seconds(value: &str) -> Result<String, NotConverted> {
    Ok(span_text(Duration::from_secs(number(value)?)))
}

/// Converts one key; returns whether there was something to write.
fn one(
    key: &str,
    value: &str,
    place: SourcePosition,
    conf: &InnConf,
    sheet: &mut ConfigDraft,
) -> Result<bool, NotConverted> {
    match key {
        "pathhost" => sheet.single("site").key("path_identity", value, place),
        "organization" => sheet.single("site").key("organization", value, place),
        // Converted by `listen`, `defaults`, and the peers.
        "port" | "bindaddress" | "bindaddress6" | "pathalias" | "pathcluster" | "groupbaseexpiry"
        | "storeonxref" | "wireformat" | "allownewnews" | "sourceaddress" => {}
        "artcutoff" => match number(value)? {
            0 => sheet.single("site").key("max_age_days", "none", place),
            days => sheet.single("site").key("max_age_days", days.min(36_000) as i64, place),
        },
        "maxartsize" => sheet.single("site").key("article_bytes_max", article_size(number(value)?), place),
        "extraoverviewadvertised" => {
            let names = value.split_ascii_whitespace().map(|name| name.trim_matches('"'));
            let names = names.filter(|name| is_further(name.as_bytes()));
            sheet.single("site").key("overview_headers", Value::from_iter(names), place);
        }
        "wanttrash" if is_true(value) => sheet.single("site").key("unknown_groups", "junk", place),
        "wanttrash" => sheet.single("site").key("unknown_groups", "reject", place),
        "maxconnections" => {
            let why = "it counts connections of peers; limits.connections_max counts readers too, and each \
                       peer has a max_connections of its own";
            return Err(why.into());
        }
        "clienttimeout" => sheet.single("limits").key("idle_timeout", seconds(value)?, place),
        "peertimeout" => {
            return Err(
                "limits.idle_timeout holds for peers and readers alike, and is INN's clienttimeout".into()
            );
        }
        "docancels" => cancels(value, place, sheet)?,
        "tlscertfile" => sheet.single("tls").key("certificate", value, place),
        "tlskeyfile" if conf.get("tlscertfile").is_some() => sheet.single("tls").key("key", value, place),
        "tlscafile" if conf.get("tlscertfile").is_some() => {
            sheet.single("tls").key("client_ca", value, place)
        }
        "tlskeyfile" | "tlscafile" => return Err("there is no tlscertfile".into()),
        "mta" => sheet.single("moderation").key("sendmail", value, place),
        "moderatormailer" => sheet.single("moderation").key("default_address", value, place),
        _ => return posting(key, value, place, conf, sheet),
    }
    Ok(true)
}

/// Converts keys about posts.
fn posting(
    key: &str,
    value: &str,
    place: SourcePosition,
    conf: &InnConf,
    sheet: &mut ConfigDraft,
) -> Result<bool, NotConverted> {
    let shown = |is_shown: bool| if is_shown { "shown" } else { "hidden" };
    let is_default = |key: &str, default: &str| conf.get(key).is_none_or(|setting| setting.value == default);
    // With these values INN never delays a poster.
    let no_backoff = is_default("backoffpostfast", "0") && is_default("backoffpostslow", "1");
    let posting = sheet.single("posting");
    match key {
        "localmaxartsize" => match number(value)? {
            0 => posting.remark(place, "`localmaxartsize: 0`: posts are as long as site.article_bytes_max"),
            size => posting.key("article_bytes_max", article_size(size), place),
        },
        "addinjectionpostinghost" => posting.key("posting_host", shown(is_true(value)), place),
        "addinjectionpostingaccount" => posting.key("posting_account", shown(is_true(value)), place),
        "complaints" => posting.key("complaints_to", value, place),
        "checkincludedtext" => posting.key("check_quoted", is_true(value), place),
        "backoffpostfast" | "backoffpostslow" | "backofftrigger" | "backoffk" if no_backoff => {
            return Err("INN makes no poster wait with these values; [posting] has its own".into());
        }
        "backoffpostfast" => posting.key("backoff_fast", seconds(value)?, place),
        "backoffpostslow" => posting.key("backoff_slow", seconds(value)?, place),
        "backofftrigger" => posting.key("backoff_trigger", number(value)?.clamp(1, 1_000_000) as i64, place),
        "backoffk" => return Err("each wait is twice as long as the one before".into()),
        _ => return Ok(false),
    }
    Ok(true)
}

fn cancels(value: &str, place: SourcePosition, sheet: &mut ConfigDraft) -> Result<(), NotConverted> {
    let cancel = sheet.single("cancel");
    match value {
        "require-auth" => cancel.key("honor", "verified", place),
        "auth" => {
            cancel.key("honor", "verified", place);
            cancel.key("unlocked", true, place);
        }
        "none" | "all" => cancel.key("honor", value, place),
        _ => return Err("neither require-auth, auth, none nor all".into()),
    }
    Ok(())
}

/// Converts a size limit: no limit in INN, and sizes not accepted by newsreel, become the nearest accepted
/// size.
fn article_size(bytes: u64) -> String {
    match bytes {
        0 => size_text(1 << 30),
        bytes => size_text(bytes.clamp(1 << 10, 1 << 30)),
    }
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
