//! A trial beside a running INN: it takes what INN feeds it, and sends nothing to others.
//!
//! A server refuses an article whose Path names it, and articles fed by INN have passed INN. Therefore the
//! trial has a path identity of its own. Called by `settings`, after everything else.

use toml_edit::Value;

use super::inn_conf::InnConf;
use super::sheet::{ConfigDraft, DraftSection};

/// Port of a trial, as INN has the usual one.
const PORT: u16 = 1119;
/// Prefix of the trial's name, before INN's name.
const PREFIX: &str = "trial";

/// Advice for the operator.
pub(super) const ADVICE: &str = "This is a trial beside INN: it has a path identity and a port of its own, takes \
    articles from INN, and sends nothing. For the switch, convert again without --trial, in another \
    directory.";

/// Makes the site able to run beside INN.
pub(super) fn convert(conf: &InnConf, sheet: &mut ConfigDraft) {
    let site = sheet.single("site");
    let name = format!("{PREFIX}.{}", conf.path_identity());
    site.noted("path_identity", name, "of the trial's own: INN has another in each Path");
    site.forget("path_also");
    let addresses = [("bindaddress", "0.0.0.0"), ("bindaddress6", "::")].map(|(key, any)| {
        let own = conf.get(key).map_or("all", |setting| setting.value.as_str());
        if own == "all" { any.to_owned() } else { own.to_owned() }
    });
    let listen = addresses.iter().filter(|own| *own != "none").map(|own| match own.contains(':') {
        true => format!("[{own}]:{PORT}"),
        false => format!("{own}:{PORT}"),
    });
    site.noted("listen", Value::from_iter(listen), "of the trial's own");
    sheet.disable("peer", "INN speaks to its peers while this is tried");
    sheet.disable("control", "INN carries out control messages while this is tried");
    for section in ["moderation", "moderator"] {
        sheet.disable(section, "INN mails posts to moderators while this is tried");
    }
    let mut inn = DraftSection::new("peer");
    inn.about("The INN of this machine, which feeds the trial.");
    inn.noted("name", "inn-itself", "");
    let bound =
        addresses.iter().filter(|own| own.parse::<std::net::IpAddr>().is_ok_and(|ip| !ip.is_unspecified()));
    let mut from = vec!["127.0.0.1".to_owned(), "::1".to_owned()];
    from.extend(bound.filter(|own| *own != "127.0.0.1" && *own != "::1").cloned());
    inn.noted("addresses", Value::from_iter(from), "");
    sheet.push(inn);
}
