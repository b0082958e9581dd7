//! Converts readers.conf to `[[access]]`, `[[authenticator]]` and `[auth]`.
//!
//! INN determines the identity of a client from its auth groups, then its rights from its access groups, in
//! both from the last one up. Here one list of sections, of which the first match decides, has both: first
//! sections for clients that have logged in, by auth group and access group, then sections for all others.
//! Called by `settings`. Source: readers.conf(5).

use std::collections::BTreeSet;

use toml_edit::Value;

use super::blocks::{self, ConfBlock, ConfPair};
use super::inn_conf::InnConf;
use super::keys::{self, is_among};
use super::patterns::{HostList, Patterns, ResolveHost};
use super::sheet::{ConfigDraft, DraftSection};
use super::text::{SourcePosition, is_true, pieces, quoted};

const FILE: &str = "readers.conf";

/// Converts readers.conf.
pub(super) fn convert(text: &str, conf: &InnConf, resolve: ResolveHost<'_>, sheet: &mut ConfigDraft) {
    let parsed = blocks::parse(FILE, text);
    for (place, why) in &parsed.faults {
        sheet.remark(*place, why);
    }
    let mut all = ReaderGroups::default();
    all.gather(&parsed.root, &[], sheet);
    if !all.auths.is_empty() || !all.accesses.is_empty() {
        sheet.saw(parsed.root.pairs.iter().map(|pair| pair.place));
    }
    let mut work = ReadersConversion {
        conf,
        resolve,
        auths: all.auths.iter().rev().collect(),
        accesses: all.accesses.iter().rev().collect(),
        has_includes: !parsed.includes.is_empty(),
        used: BTreeSet::new(),
        sheet,
    };
    work.auth_groups();
    work.programs();
    for at in 0..work.auths.len() {
        work.users(at);
    }
    for at in 0..work.auths.len() {
        work.others(at);
    }
    work.leftovers();
}

/// Auth and access groups of a file, each with the settings of the `group` blocks around it.
#[derive(Default)]
struct ReaderGroups {
    auths: Vec<ConfBlock>,
    accesses: Vec<ConfBlock>,
}

impl ReaderGroups {
    /// Recursion is bounded by the nesting of blocks.
    fn gather(&mut self, block: &ConfBlock, inherited: &[ConfPair], sheet: &mut ConfigDraft) {
        let nearer = [block.pairs.as_slice(), inherited].concat();
        for inner in &block.blocks {
            let list = match inner.word.as_str() {
                "auth" => &mut self.auths,
                "access" => &mut self.accesses,
                "group" => {
                    sheet.saw(inner.pairs.iter().map(|pair| pair.place).chain([inner.place, inner.end]));
                    self.gather(inner, &nearer, sheet);
                    continue;
                }
                _ => {
                    sheet.saw(inner.pairs.iter().map(|pair| pair.place).chain([inner.end]));
                    let text = format!("`{}` is neither auth nor access", quoted(&inner.word));
                    sheet.remark(inner.place, text);
                    continue;
                }
            };
            let mut whole = inner.clone();
            let is_auth = inner.word == "auth";
            let belongs = |pair: &&ConfPair| pair.key == "key" || is_auth == is_among(AUTH_KEYS, &pair.key);
            for pair in nearer.iter().filter(belongs) {
                if whole.get(&pair.key).is_none() {
                    whole.pairs.push(pair.clone());
                }
            }
            list.push(whole);
        }
    }
}

/// Keys of auth groups; others belong to access groups, and `key` to both.
const AUTH_KEYS: &str = "hosts localaddress default default-domain require_encryption require_ssl auth res perl_auth \
                         python_auth perl_access python_access perl_dynamic python_dynamic program";

/// Programs that decide in place of access groups.
const ACCESS_HOOKS: &str = "perl_access python_access perl_dynamic python_dynamic";

/// Keys of access groups without an equivalent, with the words about each.
const UNMAPPED: &[(&str, &str)] = &[
    (
        "localmaxartsize complaints checkincludedtext addinjectionpostinghost addinjectionpostingaccount \
         backoff_auth backoff_db backoff_k backoff_postfast backoff_postslow backoff_trigger addcanlockuser",
        " has no equivalent: [posting] and [cancel] hold for the whole site",
    ),
    ("clienttimeout", " has no equivalent: limits.idle_timeout holds for all"),
    ("reject_with", ": these clients have no access; the text is not sent"),
];

struct ReadersConversion<'a, 'b> {
    conf: &'a InnConf,
    resolve: ResolveHost<'a>,
    /// Auth groups, last first.
    auths: Vec<&'a ConfBlock>,
    accesses: Vec<&'a ConfBlock>,
    /// Whether some of the file's groups are in other files.
    has_includes: bool,
    /// Lines of access groups that have become a section.
    used: BTreeSet<u32>,
    sheet: &'b mut ConfigDraft,
}

/// Returns the programs that check passwords, with their lines; hooks are `None`.
fn programs(auth: &ConfBlock) -> Vec<(SourcePosition, Option<String>)> {
    let own = auth.pairs.iter().filter_map(|pair| match pair.key.as_str() {
        "auth" => Some((pair.place, Some(pair.value.clone()))),
        "perl_auth" | "python_auth" => Some((pair.place, None)),
        _ => None,
    });
    let inner = auth.blocks.iter().filter(|block| block.word == "auth");
    let inner =
        inner.filter_map(|block| block.get("program").map(|pair| (pair.place, Some(pair.value.clone()))));
    own.chain(inner).collect()
}

/// Returns the identity of a client that has not logged in.
fn default_identity(auth: &ConfBlock) -> Option<String> {
    let name = &auth.get("default")?.value;
    match auth.get("default-domain").filter(|_| !name.contains('@')) {
        Some(domain) => Some(format!("{name}@{}", domain.value)),
        None => Some(name.clone()),
    }
}

fn key_of(block: &ConfBlock) -> Option<&str> {
    block.get("key").map(|pair| pair.value.as_str())
}

impl<'a> ReadersConversion<'a, '_> {
    /// Reports the lines of auth groups, once each.
    fn auth_groups(&mut self) {
        for auth in &self.auths {
            self.sheet.saw([auth.place, auth.end]);
            for pair in &auth.pairs {
                let line = format!("`{}: {}`", quoted(&pair.key), quoted(&pair.value));
                match pair.key.as_str() {
                    "hosts" | "default" | "default-domain" | "key" | "localaddress"
                    | "require_encryption" | "require_ssl" | "auth" => self.sheet.saw([pair.place]),
                    "res" => self.sheet.remark(
                        pair.place,
                        format!("{line} has no equivalent: who has not logged in has no name"),
                    ),
                    "perl_auth" | "python_auth" | "perl_access" | "python_access" | "perl_dynamic"
                    | "python_dynamic" => {
                        self.sheet.remark(
                            pair.place,
                            format!(
                                "{line} has no equivalent; [[filter]] with judges = \"login\" may refuse users"
                            ),
                        );
                    }
                    _ => self.sheet.remark(pair.place, format!("{line}: not a key of an auth group")),
                }
            }
            for block in &auth.blocks {
                let what = format!("`{} {}`", quoted(&block.word), quoted(&block.name));
                let program = block.get("program").map(|pair| pair.place);
                self.sheet.saw([block.end].into_iter().chain(program));
                match block.word.as_str() {
                    "auth" => self.sheet.saw([block.place]),
                    _ => self.sheet.remark(
                        block.place,
                        format!("{what} has no equivalent: who has not logged in has no name"),
                    ),
                }
                for pair in block.pairs.iter().filter(|pair| pair.key != "program") {
                    self.sheet
                        .remark(pair.place, format!("`{}` of {what} has no equivalent", quoted(&pair.key)));
                }
            }
        }
    }

    /// Writes the programs of all auth groups, from the last one up, each once.
    fn programs(&mut self) {
        let mut known = BTreeSet::new();
        let mut in_clear = None;
        for auth in &self.auths {
            let all = programs(auth);
            if all.is_empty() {
                continue;
            }
            if !encrypted(auth) {
                in_clear.get_or_insert(auth.place);
            }
            for (place, command) in all {
                let Some(command) = command.filter(|command| known.insert(command.clone())) else { continue };
                let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                if let Some(program) = words.first_mut().filter(|program| !program.starts_with('/')) {
                    *program = format!("{}/auth/passwd/{program}", self.conf.path("pathbin", "bin"));
                }
                let mut section = DraftSection::new("authenticator");
                section.key("program", Value::from_iter(words), place);
                if auth.get("hosts").is_some() {
                    section.say("INN asks it for the hosts of its auth group only, newsreel for everyone.");
                }
                self.sheet.push(section);
            }
        }
        if let Some(place) = in_clear {
            let section = self.sheet.single("auth");
            section.key("plain_passwords_from", "all", place);
            section.say("As in INN, passwords are taken without TLS; remove the key to ask for TLS.");
        }
    }

    /// Returns a section with the conditions of an auth group; `None` if no client can meet them.
    fn section(&mut self, auth: &ConfBlock) -> Option<(DraftSection, Vec<String>)> {
        let mut section = DraftSection::new("access");
        let hosts = match auth.get("hosts") {
            Some(pair) => HostList::parse(&pair.value, self.resolve),
            None => HostList { networks: vec!["all".into()], ..HostList::default() },
        };
        let place = auth.get("hosts").map_or(auth.place, |pair| pair.place);
        for text in hosts.looked_up {
            section.say(format!("{place}: looked up for the import: {text}"));
        }
        for text in &hosts.unknown {
            section.say(format!("{place}: {text}"));
        }
        if hosts.networks.is_empty() {
            let text = format!(
                "auth {}: no client is known by address: {}",
                quoted(&auth.name),
                hosts.unknown.join("; ")
            );
            self.sheet.remark(place, text);
            return None;
        }
        match hosts.networks.iter().any(|network| network == "all") {
            true => section.key("from", "all", place),
            false => section.key("from", Value::from_iter(&hosts.networks), place),
        }
        if let Some(pair) = auth.get("localaddress") {
            let local = HostList::parse(&pair.value, self.resolve);
            section.key("listener", Value::from_iter(&local.networks), pair.place);
            if local.networks.is_empty() || !local.unknown.is_empty() || !local.without.is_empty() {
                section.disable(format!("`{}` cannot be said as addresses of ours", quoted(&pair.value)));
            }
        }
        if encrypted(auth) {
            section.noted("tls", true, format!("{}: require_encryption", auth.place));
        }
        Some((section, hosts.without))
    }

    /// Returns why these groups give no rights: a part that was not understood may have removed them.
    fn barred(&self, auth: &ConfBlock, access: Option<&ConfBlock>) -> Option<String> {
        let excluded =
            auth.get("hosts").map(|pair| HostList::parse(&pair.value, self.resolve).unknown_without);
        let hook = auth.pairs.iter().find(|pair| is_among(ACCESS_HOOKS, &pair.key));
        if self.has_includes {
            return Some("readers.conf includes files, whose groups may say otherwise".into());
        }
        if let Some(damaged) = [Some(auth), access].into_iter().flatten().find(|block| block.is_damaged) {
            return Some(format!("the group of {} has not been understood whole", damaged.place));
        }
        if let Some(host) = excluded.and_then(|list| list.into_iter().next()) {
            return Some(format!("`!{}` cannot be said as an address", quoted(&host)));
        }
        hook.map(|pair| format!("{} decided about these clients ({})", quoted(&pair.key), pair.place))
    }

    /// Writes the sections for clients that log in by this auth group.
    fn users(&mut self, at: usize) {
        let Some(auth) = self.auths.get(at).copied().filter(|auth| !programs(auth).is_empty()) else {
            return;
        };
        let domain = auth.get("default-domain").map(|pair| pair.value.clone());
        let mut ends_with_all = false;
        for access in self.accesses.clone() {
            if key_of(auth) != key_of(access) || ends_with_all {
                continue;
            }
            let users = match access.get("users") {
                None => "*".to_owned(),
                Some(pair) => user_patterns(&pair.value, domain.as_deref()),
            };
            if users.is_empty() {
                continue;
            }
            ends_with_all = users == "*";
            let Some((mut section, without)) = self.section(auth) else { return };
            self.except(auth, &without, Some(&users));
            let from = access.get("users").map_or(access.place, |pair| pair.place);
            section.key("users", users, from);
            self.may(&mut section, auth, access);
            self.sheet.push(section);
        }
        if !ends_with_all && let Some((mut section, _)) = self.section(auth) {
            section.about(format!(
                "Whoever else has logged in: INN has no access group for them ({}).",
                auth.place
            ));
            section.noted("users", "*", "");
            nothing(&mut section);
            self.sheet.push(section);
        }
    }

    /// Writes the section for clients of this auth group that have not logged in.
    fn others(&mut self, at: usize) {
        let Some(auth) = self.auths.get(at).copied() else { return };
        let Some(identity) = default_identity(auth) else { return };
        let fits = |access: &&&ConfBlock| {
            let users = access.get("users").map_or("*", |pair| pair.value.as_str());
            key_of(auth) == key_of(access) && matches(users, &identity)
        };
        let access = self.accesses.iter().find(fits).copied();
        let Some((mut section, without)) = self.section(auth) else { return };
        self.except(auth, &without, None);
        match access {
            Some(access) => {
                let name =
                    format!("auth {}: {} is {}", quoted(&auth.name), section_hosts(auth), quoted(&identity));
                section.about(format!("{name} ({}).", auth.place));
                self.may(&mut section, auth, access);
            }
            None => {
                section.about(format!("No access group fits {} ({}).", quoted(&identity), auth.place));
                nothing(&mut section);
            }
        }
        self.sheet.push(section);
    }

    /// Writes a section before that of an auth group, for clients that it excludes.
    fn except(&mut self, auth: &ConfBlock, without: &[String], users: Option<&str>) {
        if without.is_empty() {
            return;
        }
        let place = auth.get("hosts").map_or(auth.place, |pair| pair.place);
        let mut section = DraftSection::new("access");
        section.about(
            "Excluded with `!` by the auth group below. INN goes on to the next one; here they get nothing.",
        );
        section.key("from", Value::from_iter(without), place);
        if let Some(users) = users {
            section.noted("users", users, "");
        }
        nothing(&mut section);
        self.sheet.push(section);
    }

    /// Writes the rights of an access group.
    fn may(&mut self, section: &mut DraftSection, auth: &ConfBlock, access: &ConfBlock) {
        self.used.insert(access.place.line);
        section.saw([access.place, access.end]);
        if let Some(why) = self.barred(auth, Some(access)) {
            let (from, pairs) = (access.place, &access.pairs);
            let access = format!("access {}", quoted(&access.name));
            section.say(format!("No rights of {access} ({from}) yet, since {why}: complete this by hand."));
            section.saw(pairs.iter().map(|pair| pair.place));
            for pair in pairs.iter().filter(|pair| pair.key != "users" && pair.key != "key") {
                let line = format!("`{}: {}`", quoted(&pair.key), quoted(&pair.value));
                section.remark(pair.place, format!("{line} of {access} is not taken over"));
            }
            return nothing(section);
        }
        // As in INN, lower-case letters have no meaning.
        let letters = access.get("access").map(|pair| pair.value.clone());
        let has = |letter: char| letters.as_ref().is_none_or(|letters| letters.contains(letter));
        let named = |key: &str| access.get(key);
        let (read, post) = match named("newsgroups") {
            Some(both) => (Some(both), Some(both)),
            None => (named("read"), named("post")),
        };
        let is_rejected = named("reject_with").is_some();
        let mut groups = |key: &'static str, pair: Option<&ConfPair>, allowed: bool| -> String {
            let text = match pair {
                Some(pair) if allowed && !is_rejected => {
                    match Patterns::parse(if pair.value.is_empty() { "*" } else { &pair.value }) {
                        Ok(patterns) => patterns.groups,
                        Err(why) => {
                            section.disable(why);
                            String::new()
                        }
                    }
                }
                _ => String::new(),
            };
            match pair {
                Some(pair) => section.key(key, text.as_str(), pair.place),
                None => section.noted(key, text.as_str(), access.place.to_string()),
            }
            text
        };
        let read = groups("read", read, has('R'));
        let post = groups("post", post, has('P'));
        let given = |letter: char| letters.as_ref().is_some_and(|letters| letters.contains(letter));
        let letter_line = named("access").map_or(access.place, |pair| pair.place);
        if given('A') && !post.is_empty() {
            section.key("approve", if read.is_empty() { "*" } else { read.as_str() }, letter_line);
        }
        if given('L') {
            section.key("local", post.as_str(), letter_line);
        }
        if given('I') {
            section.remark(
                letter_line,
                "`I` has no equivalent: articles are posted by POST, or sent by a [[peer]]",
            );
        }
        self.newnews(section, letters.as_deref(), letter_line);
        let is_anonymous = default_identity(auth).is_some() && !section.has("users");
        if is_anonymous && read != "*" && self.auths.iter().any(|auth| !programs(auth).is_empty()) {
            section.noted("login_for_hidden", true, "as nnrpd, which asks for a login");
        }
        for pair in &access.pairs {
            other(pair, section, is_anonymous);
        }
    }

    /// Converts NEWNEWS, allowed by the letter N, or if there are no letters by inn.conf.
    fn newnews(&self, section: &mut DraftSection, letters: Option<&str>, letter_line: SourcePosition) {
        let newnews = match letters {
            Some(letters) => letters.contains('N'),
            None => self.conf.is("allownewnews", true),
        };
        if !newnews {
            let is_own = letters.is_some();
            let site = self.conf.get("allownewnews").map_or(letter_line, |setting| setting.place);
            section.noted(
                "newnews",
                false,
                if is_own { format!("{letter_line}: no letter N") } else { site.to_string() },
            );
        }
    }

    /// Reports access groups that match no auth group.
    fn leftovers(&mut self) {
        let used = std::mem::take(&mut self.used);
        for access in self.accesses.iter().filter(|access| !used.contains(&access.place.line)) {
            let lines = access.pairs.iter().map(|pair| pair.place).chain([access.end]);
            self.sheet.saw(lines);
            self.sheet.remark(
                access.place,
                format!("access {}: no client of any auth group comes to it", quoted(&access.name)),
            );
        }
    }
}

fn encrypted(auth: &ConfBlock) -> bool {
    ["require_encryption", "require_ssl"]
        .iter()
        .filter_map(|key| auth.get(key))
        .any(|pair| is_true(&pair.value))
}

fn section_hosts(auth: &ConfBlock) -> String {
    auth.get("hosts").map_or_else(|| "everyone".into(), |pair| quoted(&pair.value))
}

/// Gives a section no rights.
fn nothing(section: &mut DraftSection) {
    section.noted("read", "", "");
    section.noted("post", "", "");
}

/// Converts the other keys of an access group.
fn other(pair: &ConfPair, section: &mut DraftSection, is_anonymous: bool) {
    let line = format!("`{}: {}`", quoted(&pair.key), quoted(&pair.value));
    let place = pair.place;
    match pair.key.as_str() {
        "newsgroups" | "read" | "post" | "access" | "users" | "key" => section.saw([place]),
        "max_rate" => match pair.value.parse::<i64>() {
            Ok(rate) if rate > 0 => section.key("bytes_per_sec_max", rate, place),
            _ => section.saw([place]),
        },
        "addcanlockuser" if is_anonymous && pair.value == "none" => {
            let why = "is not needed: only users who have logged in get a lock of their own";
            section.remark(place, format!("{line} {why}"));
        }
        key => {
            let words = keys::words(UNMAPPED, key).unwrap_or(" has no equivalent");
            section.remark(place, format!("{line}{words}"));
        }
    }
}

/// Returns whether an identity matches a list of patterns; as in INN, the last one that matches decides.
fn matches(patterns: &str, identity: &str) -> bool {
    let list: Vec<&str> = pieces(patterns).collect();
    netnews::wildmat::Wildmat::parse_lenient(list.join(",").as_bytes())
        .is_ok_and(|wildmat| wildmat.matches(identity.as_bytes()))
}

/// Converts patterns of identities to patterns of login names.
fn user_patterns(patterns: &str, domain: Option<&str>) -> String {
    let one = |piece: &str| -> Option<String> {
        let (sign, pattern) = match piece.strip_prefix('!') {
            Some(rest) => ("!", rest.trim_start()),
            None => ("", piece),
        };
        // Names such as <FAIL> are assigned by auth groups; no user logs in with one.
        if pattern.starts_with('<') {
            return None;
        }
        let name = match (domain, pattern.rsplit_once('@')) {
            (Some(own), Some((name, domain))) => matches(domain, own).then_some(name)?,
            (Some(_), None) => pattern.ends_with('*').then_some(pattern)?,
            (None, _) => pattern,
        };
        Some(format!("{sign}{name}"))
    };
    let all: Vec<String> = pieces(patterns).filter_map(one).collect();
    let begins = all.iter().position(|pattern| !pattern.starts_with('!')).unwrap_or(all.len());
    all.get(begins..).unwrap_or_default().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_identities_become_patterns_of_users() {
        for (patterns, domain, users) in [
            ("*", None, "*"),
            ("*,!anonymous", None, "*,!anonymous"),
            ("<localhost>", None, ""),
            ("*@shell.example.com", Some("shell.example.com"), "*"),
            ("*@shell.example.com", Some("example.com"), ""),
            ("*@example.com, !<FAIL>@example.com", Some("example.com"), "*"),
            ("joe@*,jane@*", Some("example.com"), "joe,jane"),
            ("joe", Some("example.com"), ""),
            ("j*", Some("example.com"), "j*"),
        ] {
            assert_eq!(user_patterns(patterns, domain), users, "{patterns} {domain:?}");
        }
        assert!(matches("*@x, !a@x", "b@x") && !matches("*@x, !a@x", "a@x"));
    }
}
