//! Checks between keys and between sections.
//!
//! Each function checks one property of the whole draft; faulty values are absent there and skipped, so that
//! nothing is reported twice. Called by `read` after every key was read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Component, PathBuf};

use super::access::AccessDraft;
use super::faults::{ConfigFault, nearest};
use super::provider::OidcDraft;
use super::storage::{BUFFER_BYTES_MIN, BufferDraft, ClassDraft, RuleDraft, compresses};
use super::table::SpannedValue;
use super::tls::{PeerDraft, SendDraft};
use super::{
    AgeBasis, ArchiveTrigger, ArticleCompression, BufferOrder, Cidr, Draft, FeedOrder, KnownCertificate,
    Method, PeerTls, keeps,
};
use super::{STRANGER_NAME, SignUpMode};
use site_base::units::{about_size, counted};

/// Longest name of a peer with a cursor, in bytes: `feed.` and the name are at most 64.
const CURSOR_NAME_BYTES_MAX: usize = 59;

/// Longest name of a cluster or one of its members, in bytes.
const CLUSTER_NAME_BYTES_MAX: usize = 32;
/// Room in a buffer beyond a ring: what is stored at once, twice the stripe of an interleaved buffer, and
/// what is written ahead.
const RING_SPARE_BYTES: u64 = 4 << 20;
/// Bytes of a buffer for each byte of usage bits, with the smallest blocks, rounded down.
const BYTES_PER_USAGE_BYTE: u64 = 500;

/// Maximum number of additional headers in overview.
const OVERVIEW_HEADERS_MAX: usize = 32;

/// Checks a draft; `end` is the place for faults about something missing altogether.
pub(super) fn check(draft: &Draft, end: Range<usize>, faults: &mut Vec<ConfigFault>) {
    let mut checker = ConfigChecker { draft, faults };
    checker.site();
    checker.tls();
    checker.peers();
    checker.outputs();
    checker.pulls();
    checker.upstreams();
    checker.names();
    draft.classes.iter().for_each(|class| checker.class(class));
    checker.buffers_of_classes();
    checker.without_numbers();
    checker.overflows();
    checker.rings();
    checker.rules(end);
    checker.expire();
    checker.archives();
    checker.groups_of_rules();
    checker.lockout();
    checker.access();
    checker.sign_up();
    checker.within_sections();
    checker.cluster();
}

struct ConfigChecker<'a> {
    draft: &'a Draft,
    faults: &'a mut Vec<ConfigFault>,
}

fn is_empty<T>(list: &SpannedValue<Vec<T>>) -> bool {
    list.value.as_ref().is_some_and(Vec::is_empty)
}

/// Returns the value of an optional key that is set.
fn given<T>(at: &SpannedValue<Option<T>>) -> Option<&T> {
    at.value.as_ref()?.as_ref()
}

/// Returns true if an optional key is not set.
fn is_left_out<T>(at: &SpannedValue<Option<T>>) -> bool {
    matches!(at.value, Some(None))
}

fn name(at: &SpannedValue<String>) -> &str {
    at.value.as_deref().unwrap_or("?")
}

fn names<'a>(all: impl Iterator<Item = &'a SpannedValue<String>>) -> Vec<&'a str> {
    all.filter_map(|at| at.value.as_deref()).collect()
}

/// Returns true if a name of at most `bytes_max` bytes is valid for a file, and for a cursor.
fn names_a_file(name: &str, bytes_max: usize) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    name.len() <= bytes_max && name.bytes().all(is_plain) && !name.starts_with('.')
}

/// Returns how much of a ring a buffer of this size can hold: what is left after headers and usage bits, what
/// an article may leave free before the end, and what is written at once before the ring turns.
fn room_in_buffer(size: u64, article_bytes_max: u64) -> u64 {
    let written_at_once = RING_SPARE_BYTES.min(size / 2);
    let before_the_end = article_bytes_max.min(size / 4);
    size.saturating_sub(size / BYTES_PER_USAGE_BYTE + written_at_once + before_the_end)
}

impl ConfigChecker<'_> {
    fn fault(&mut self, at: &Range<usize>, label: &str, message: impl Into<String>, advice: &str) {
        let (message, advice) = (message.into(), Some(advice.into()));
        self.faults.push(ConfigFault { message, span: at.clone(), label: label.into(), advice });
    }

    /// Checks that a name is one of those known.
    fn known(&mut self, at: &Range<usize>, what: &str, name: &str, known: &[&str]) {
        if !known.contains(&name) {
            let advice = known_or_near(what, name, known);
            self.fault(at, "named here", format!("there is no {what} `{name}`"), &advice);
        }
    }

    fn site(&mut self) {
        let site = &self.draft.site;
        if is_empty(&site.listen) {
            let advice = "name at least one address, for example: listen = [\"127.0.0.1:1119\"]";
            self.fault(&site.listen.span, "empty", "site.listen names no address", advice);
        }
        if let (Some(age), Some(remember)) = (given(&site.max_age_days), site.remember_days.value)
            && *age >= remember
        {
            let message = format!(
                "articles of {} are taken, but Message-IDs are remembered for {}",
                counted(u64::from(*age), "day"),
                counted(u64::from(remember), "day")
            );
            let advice =
                "make remember_days larger than max_age_days, or an expired article is accepted again";
            self.fault(&site.remember_days.span, "too few", message, advice);
        }
        let mut headers = HashSet::new();
        for name in site.overview_headers.value.iter().flatten() {
            if !headers.insert(name.to_ascii_lowercase()) {
                let message = format!("`{name}` is kept already");
                self.fault(&site.overview_headers.span, "again here", message, "name each header once");
            }
        }
        if headers.len() > OVERVIEW_HEADERS_MAX {
            let message = format!("{} further headers in overview", headers.len());
            let advice = format!("name {OVERVIEW_HEADERS_MAX} at most; HDR reads the others");
            self.fault(&site.overview_headers.span, "too many", message, &advice);
        }
        // An address with two protocols would work with neither. Port 0 is a different one each time.
        let mut seen = HashSet::new();
        let web = &self.draft.web;
        for at in [&site.listen, &site.tls_listen, &web.listen, &web.tls_listen] {
            for address in at.value.iter().flatten().filter(|address| !address.ends_with(":0")) {
                if !seen.insert(address) {
                    let message = format!("`{address}` is listened on already");
                    self.fault(&at.span, "again here", message, "name each address and port once");
                }
            }
        }
    }

    /// Checks that no class keeps articles until they are due, since that depends on their groups.
    fn without_numbers(&mut self) {
        if self.draft.site.numbers.value != Some(false) {
            return;
        }
        for class in &self.draft.classes {
            if let Some(method) = class.method.value.filter(|method| keeps(*method)) {
                let name = name(&class.name);
                let message = format!(
                    "class `{name}` keeps articles until they are due in their groups, and numbers = false \
                     files them in none"
                );
                let advice = "use method = \"cnfs\", or leave out numbers = false";
                self.fault(&class.method.span, method.name(), message, advice);
            }
        }
    }

    /// Collects the faults that sections find between their own keys.
    fn within_sections(&mut self) {
        let draft = self.draft;
        let of_controls = draft.controls.iter().flat_map(|control| control.wrong());
        let of_filters = draft.filters.iter().flat_map(|filter| filter.wrong());
        let of_moderators = draft.moderators.iter().filter_map(|moderator| moderator.wrong());
        let of_directories = draft.directories.iter().filter_map(|directory| directory.wrong());
        for wrong in of_controls.chain(of_filters).chain(of_moderators).chain(of_directories) {
            self.fault(wrong.at, wrong.label, wrong.message, wrong.advice);
        }
    }

    /// Checks that the login at another server has both a user and a password.
    fn login(&mut self, what: &str, name: &str, half: Option<Range<usize>>) {
        if let Some(at) = half {
            let message = format!("{what} `{name}` has only one of user and password_file");
            self.fault(&at, "this one", message, "a login needs both");
        }
    }

    fn tls(&mut self) {
        let draft = self.draft;
        let (Some(certificates), Some(keys)) = (&draft.tls.certificate.value, &draft.tls.key.value) else {
            return;
        };
        if certificates.len() != keys.len() {
            let message = format!(
                "[tls] names {}, but {}",
                counted(certificates.len() as u64, "certificate"),
                counted(keys.len() as u64, "key")
            );
            let advice = "name the key of each certificate, in the same order";
            self.fault(&draft.tls.key.span, "not as many", message, advice);
        }
        if !certificates.is_empty() {
            return;
        }
        let example = "add [tls] with certificate = \"news.crt\" and key = \"news.key\"";
        for tls_listen in [&draft.site.tls_listen, &draft.web.tls_listen] {
            if tls_listen.value.as_ref().is_some_and(|listen| !listen.is_empty()) {
                let message = "connections that begin with TLS need a certificate";
                self.fault(&tls_listen.span, "no certificate to show there", message, example);
            }
        }
        for peer in &draft.peers {
            let name = name(&peer.name);
            if peer.tls.value == Some(PeerTls::Require) {
                let message = format!("peer `{name}` must encrypt, but this server has no certificate");
                self.fault(&peer.tls.span, "cannot be met", message, example);
            }
            if peer.certificate.value.as_ref().is_some_and(|known| !known.is_empty()) {
                let message =
                    format!("peer `{name}` can show no certificate: this server does not offer TLS");
                self.fault(&peer.certificate.span, "cannot be met", message, example);
            }
        }
    }

    fn peers(&mut self) {
        let draft = self.draft;
        let offers_tls = draft.tls.certificate.value.as_ref().is_some_and(|files| !files.is_empty());
        let mut owners: Vec<(Cidr, &str)> = Vec::new();
        for peer in &draft.peers {
            let name = name(&peer.name);
            let has_name = |known: &KnownCertificate| matches!(known, KnownCertificate::Name(_));
            if offers_tls
                && is_left_out(&draft.tls.client_ca)
                && peer.certificate.value.iter().flatten().any(has_name)
            {
                let message = format!("nobody vouches for the name in the certificate of peer `{name}`");
                let advice = "set tls.client_ca, or write the certificate's fingerprint: \"sha256:...\"";
                self.fault(&peer.certificate.span, "a name", message, advice);
            }
            let span = &peer.addresses.span;
            for cidr in peer.addresses.value.iter().flatten() {
                if let Some((_, first)) = owners.iter().find(|(known, _)| known == cidr) {
                    let message = format!("`{cidr}` is an address of peer `{first}` already");
                    self.fault(span, "again here", message, "the first peer would always be taken");
                }
                // A peer that must log in does not hide another one at the same address.
                if is_left_out(&peer.user) {
                    owners.push((*cidr, name));
                }
            }
            if let Some(send) = &peer.send {
                self.send(name, peer, send);
                continue;
            }
            if is_empty(&peer.addresses) && is_empty(&peer.certificate) && is_left_out(&peer.user) {
                let message =
                    format!("peer `{name}` has neither addresses nor a certificate or user to be known by");
                let advice = "add one, for example: addresses = [\"198.51.100.7\", \"2001:db8:7::/48\"]";
                self.fault(span, "in this section", message, advice);
            }
        }
    }

    fn archives(&mut self) {
        for archive in &self.draft.archives {
            let Some(name) = archive.name.value.as_deref().filter(|name| !names_a_file(name, 56)) else {
                continue;
            };
            let message = format!("archive `{name}` has files of that name");
            let advice = "use at most 56 letters, digits, `.`, `-` and `_`, the first no `.`";
            self.fault(&archive.name.span, "this name", message, advice);
        }
        if let Some(archive) = self.draft.archives.first()
            && self.draft.site.numbers.value == Some(false)
        {
            let message =
                "an [[archive]] copies articles by their groups and numbers, and numbers = false gives none";
            self.fault(&archive.name.span, "this archive", message, "leave out one of them");
        }
    }

    fn pulls(&mut self) {
        for pull in &self.draft.pulls {
            self.login("pull", name(&pull.name), pull.half_login());
        }
        for server in &self.draft.body_servers {
            self.login("body_server", name(&server.name), server.half_login());
        }
        for peer in self.draft.peers.iter().filter(|peer| peer.headers_only.value == Some(true)) {
            if self.draft.body_servers.is_empty() {
                let name = name(&peer.name);
                let message = format!("peer `{name}` may send headers only, and nobody has the bodies");
                let advice = "add a [[body_server]], or remove headers_only";
                self.fault(&peer.headers_only.span, "this one", message, advice);
            }
        }
    }

    fn upstreams(&mut self) {
        for upstream in &self.draft.upstreams {
            self.login("upstream", name(&upstream.name), upstream.half_login());
        }
        if let Some(first) = self.draft.upstreams.first()
            && self.draft.upstreams.iter().all(|upstream| upstream.fill.value == Some(true))
        {
            let advice = "remove fill = true from the one whose article numbers readers are to see";
            self.fault(&first.head, "this one and all others fill in", "no upstream numbers a group", advice);
        }
    }

    fn send(&mut self, name: &str, peer: &PeerDraft, send: &SendDraft) {
        if peer.name.value.is_some() && !names_a_file(name, CURSOR_NAME_BYTES_MAX) {
            let message = format!("peer `{name}` is sent articles, so its name names a file too");
            let advice = "use at most 59 letters, digits, `.`, `-` and `_`, the first no `.`";
            self.fault(&peer.name.span, "this name", message, advice);
        }
        if let (Some(Some(min)), Some(Some(max))) = (send.size_min.value, send.size_max.value)
            && min > max
        {
            let message = format!("peer `{name}` is sent nothing: size_min is above size_max");
            self.fault(&send.size_min.span, "too large", message, "exchange them, or leave one out");
        }
        if send.retry_first.value > send.retry_longest.value && send.retry_longest.value.is_some() {
            let message = format!("peer `{name}`: retry_first is longer than retry_longest");
            self.fault(&send.retry_first.span, "too long", message, "raise retry_longest too");
        }
        self.login("peer", name, send.half_login());
        self.way_out(name, send);
    }

    /// Checks that articles leave in exactly one way.
    fn way_out(&mut self, name: &str, send: &SendDraft) {
        let is_given = [
            !is_empty(&send.to),
            !is_left_out(&send.batch),
            !is_left_out(&send.file),
            !is_left_out(&send.program),
        ];
        let ways = "to, batch, file or program";
        match is_given.iter().filter(|given| **given).count() {
            1 => {}
            0 => {
                let message = format!("peer `{name}` has no way out: {ways}");
                let advice = "add one, for example: to = \"news.example.net:119\"";
                self.fault(&send.head, "in this section", message, advice);
            }
            _ => {
                let message = format!("peer `{name}` has several ways out: {ways}");
                self.fault(&send.head, "in this section", message, "two ways are two [[peer]] sections");
            }
        }
        for (is_set, at, key, needed) in [
            (given(&send.after_batch).is_some(), &send.after_batch.span, "after_batch", "batch"),
            (send.ihave.value == Some(true), &send.ihave.span, "ihave", "batch"),
            (send.headers_only.value == Some(true), &send.headers_only.span, "headers_only", "to"),
        ] {
            let is_there = if needed == "to" { !is_empty(&send.to) } else { !is_left_out(&send.batch) };
            if is_set && !is_there {
                let message = format!("peer `{name}`: {key} without {needed}");
                self.fault(at, "of no use", message, &format!("set {needed}, or remove {key}"));
            }
        }
        if send.order.value == Some(FeedOrder::Newest) && is_empty(&send.to) {
            let message = format!("peer `{name}`: order = \"newest\" without to");
            let advice = "batches and lines are in the order of arrival: remove it";
            self.fault(&send.order.span, "of no use", message, advice);
        }
        if is_empty(&send.lines) {
            let message = format!("peer `{name}`: lines would be empty");
            self.fault(&send.lines.span, "empty", message, "for example: lines = [\"message-id\"]");
        }
    }

    /// Checks that no two peers write to the same place, and none to the directory of incoming batches.
    fn outputs(&mut self) {
        let draft = self.draft;
        let plain = |path: &PathBuf| path.components().filter(|part| *part != Component::CurDir).collect();
        let incoming: Option<PathBuf> = draft.batches.incoming.value.as_ref().map(plain);
        let mut owners: HashMap<PathBuf, &str> = HashMap::new();
        for peer in &draft.peers {
            let Some(send) = &peer.send else { continue };
            let name = name(&peer.name);
            for at in [&send.batch, &send.file] {
                let Some(path) = given(at).map(plain) else { continue };
                if Some(&path) == incoming.as_ref() {
                    let message = format!("peer `{name}` would write its batches to batches.incoming");
                    let advice = "they would be filed here; choose another directory";
                    self.fault(&at.span, "this directory", message, advice);
                }
                if let Some(first) = owners.get(&path) {
                    let message =
                        format!("peers `{first}` and `{name}` would both write to `{}`", path.display());
                    self.fault(&at.span, "again here", message, "give each a place of its own");
                }
                owners.insert(path, name);
            }
        }
    }

    fn names(&mut self) {
        let draft = self.draft;
        fn of(at: &SpannedValue<String>) -> (Option<String>, &Range<usize>) {
            (at.value.clone(), &at.span)
        }
        let path = |at: &SpannedValue<PathBuf>| at.value.as_ref().map(|path| path.display().to_string());
        let paths = draft.buffers.iter().map(|buffer| (path(&buffer.path), &buffer.path.span));
        self.unique("buffer", "path", paths);
        self.unique("buffer", "name", draft.buffers.iter().map(|buffer| of(&buffer.name)));
        self.unique("class", "name", draft.classes.iter().map(|class| of(&class.name)));
        let templates = draft.send_templates.iter().map(|template| of(&template.name));
        self.unique("send_template", "name", templates);
        self.unique("peer", "name", draft.peers.iter().map(|peer| of(&peer.name)));
        self.unique("archive", "name", draft.archives.iter().map(|archive| of(&archive.name)));
        self.unique(
            "archive",
            "path",
            draft.archives.iter().map(|archive| (path(&archive.path), &archive.path.span)),
        );
        self.unique("filter", "name", draft.filters.iter().map(|filter| of(&filter.name)));
        self.unique("pull", "name", draft.pulls.iter().map(|pull| of(&pull.name)));
        self.unique("upstream", "name", draft.upstreams.iter().map(|upstream| of(&upstream.name)));
        self.unique("ldap", "name", draft.directories.iter().map(|directory| of(&directory.name)));
        self.unique("oidc", "name", draft.providers.iter().map(|provider| of(&provider.name)));
        self.unique("body_server", "name", draft.body_servers.iter().map(|server| of(&server.name)));
    }

    fn unique<'b>(
        &mut self,
        section: &str,
        key: &str,
        values: impl Iterator<Item = (Option<String>, &'b Range<usize>)>,
    ) {
        let mut seen = HashSet::new();
        for (value, span) in values.filter_map(|(value, span)| Some((value?, span))) {
            if !seen.insert(value.trim_start_matches("./").to_owned()) {
                let message = format!("two sections [[{section}]] have the {key} `{value}`");
                let advice = format!("give each [[{section}]] a {key} of its own");
                self.fault(span, "the second one", message, &advice);
            }
        }
    }

    fn class(&mut self, class: &ClassDraft) {
        let (Some(method), Some(buffers)) = (class.method.value, class.buffers.value.as_ref()) else {
            return;
        };
        let remove = "remove the key, or set method = \"cnfs\"";
        if method == Method::Cnfs && buffers.is_empty() {
            let advice = "for example: buffers = [\"text0\"]";
            self.fault(&class.head, "in this section", "a class of method \"cnfs\" needs buffers", advice);
        }
        if method != Method::Cnfs && !buffers.is_empty() {
            let message = "only a class of method \"cnfs\" has buffers";
            self.fault(&class.buffers.span, "of no use", message, remove);
        }
        if !compresses(method) && class.compress.value == Some(ArticleCompression::Zstd) {
            let message = "only a class of method \"cnfs\" or \"appendonly\" stores compressed articles";
            self.fault(&class.compress.span, "of no use", message, remove);
        }
        if !keeps(method) && given(&class.free_min).is_some() {
            let message = "only a class that keeps its articles gives up some for room";
            self.fault(&class.free_min.span, "of no use", message, "remove the key");
        }
        match (method, class.size.value) {
            (Method::Memory, Some(size)) if size < BUFFER_BYTES_MIN => {
                let message = "a class of method \"memory\" needs a size of at least 64 KiB";
                self.fault(&class.size.span, "here", message, "for example: size = \"64 MiB\"");
            }
            (method, Some(size)) if method != Method::Memory && size > 0 => {
                let message = "only a class of method \"memory\" has a size";
                let advice = "a buffer's size is set in its [[buffer]]";
                self.fault(&class.size.span, "of no use", message, advice);
            }
            _ => {}
        }
    }

    /// Checks that each buffer of a class exists, belongs to no other class, and that not all are retired.
    fn buffers_of_classes(&mut self) {
        let draft = self.draft;
        let known = names(draft.buffers.iter().map(|buffer| &buffer.name));
        let mut owners: HashMap<&str, &str> = HashMap::new();
        for class in &draft.classes {
            let (name, span) = (name(&class.name), &class.buffers.span);
            let buffers = class.buffers.value.as_deref().unwrap_or_default();
            for buffer in buffers {
                self.known(span, "buffer", buffer, &known);
                if let Some(first) = owners.insert(buffer, name) {
                    let message = match first == name {
                        true => format!("buffer `{buffer}` is named twice"),
                        false => format!("buffer `{buffer}` belongs to class `{first}` already"),
                    };
                    self.fault(span, "again here", message, "a buffer belongs to one class");
                }
            }
            let is_retired = |name: &String| {
                let named = draft.buffers.iter().find(|buffer| buffer.name.value.as_ref() == Some(name));
                named.is_some_and(|buffer| buffer.retired.value == Some(true))
            };
            if !buffers.is_empty() && buffers.iter().all(is_retired) {
                let message = format!("every buffer of class `{name}` is retired: it could store nothing");
                self.fault(span, "all retired", message, "add a buffer to it first");
            }
        }
    }

    /// Checks a member of a cluster: what is filed, and under which numbers, must follow from the log alone.
    fn cluster(&mut self) {
        let draft = self.draft;
        let cluster = &draft.cluster;
        if cluster.servers.value.as_ref().is_none_or(Vec::is_empty) {
            return;
        }
        let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let mut names = vec![(&cluster.site.span, cluster.site.value.as_deref())];
        if is_left_out(&cluster.member) {
            let advice = "for example: member = \"fe1\"";
            self.fault(&cluster.head, "in this section", "the member of the cluster has no name", advice);
        }
        names.push((&cluster.member.span, given(&cluster.member).map(String::as_str)));
        for (span, name) in names {
            if name.is_some_and(|name| !is_plain(name) || name.len() > CLUSTER_NAME_BYTES_MAX) {
                let message = format!("`{}` is no name in a cluster", name.unwrap_or_default());
                self.fault(span, "here", message, "use at most 32 letters, digits and \"-\"");
            }
        }
        if is_left_out(&cluster.certificate) != is_left_out(&cluster.private_key) {
            let message = "a certificate and its key belong together";
            self.fault(&cluster.head, "in this section", message, "set both certificate and private_key");
        }
        if draft.site.numbers.value == Some(false) {
            let advice = "remove [cluster]: servers without numbers need not agree, so run them side by side";
            self.fault(&draft.site.numbers.span, "here", "members of a cluster number articles", advice);
        }
        draft.classes.iter().for_each(|class| self.class_of_member(class));
        let has_kept = draft.classes.iter().any(|class| class.method.value == Some(Method::AppendOnly));
        for archive in draft.archives.iter().filter(|_| has_kept) {
            if archive.when.value == Some(ArchiveTrigger::Expiry) {
                let message = "members of a cluster expire articles without asking an archive";
                self.fault(&archive.head, "in this section", message, "set when = \"arrival\"");
            }
        }
        for server in &draft.body_servers {
            let message = "members of a cluster do not fetch bodies";
            self.fault(&server.head, "this section", message, "remove the section");
        }
    }

    /// Checks a class of a member: what leaves it must follow from what was filed.
    fn class_of_member(&mut self, class: &ClassDraft) {
        if class.method.value == Some(Method::AppendOnly) {
            if given(&class.free_min).is_some() {
                let message = "what is given up for room would depend on one member's disk";
                self.fault(&class.free_min.span, "here", message, "remove the key");
            }
            if class.files_max.value.is_some_and(|max| max > 0) {
                let message = "members of a cluster cannot refuse an article that the log has";
                self.fault(&class.files_max.span, "here", message, "remove the key");
            }
            return;
        }
        if !matches!(class.method.value, None | Some(Method::Cnfs)) {
            let message =
                "members of a cluster store articles in cyclic buffers, or keep them in large files";
            return self.fault(
                &class.method.span,
                "here",
                message,
                "set method = \"cnfs\" or \"appendonly\"",
            );
        }
        if given(&class.keep_at_least).is_some() {
            let message = "members of a cluster cannot refuse an article that the log has";
            return self.fault(
                &class.keep_at_least.span,
                "here",
                message,
                "remove keep_at_least and overflow",
            );
        }
        if is_left_out(&class.ring) {
            let message = format!(
                "class `{}` has no ring, so members with other buffers would keep other articles",
                name(&class.name)
            );
            let room = self.ring_room(class).filter(|room| *room >= BUFFER_BYTES_MIN);
            let largest = room.map_or_else(|| "16 GiB".to_owned(), |room| format!("{} MiB", room >> 20));
            let advice = format!(
                "set the same ring at all members, at most that of the smallest: ring = \"{largest}\""
            );
            self.fault(&class.head, "in this section", message, &advice);
        }
    }

    fn overflows(&mut self) {
        let classes = &self.draft.classes;
        let names = names(classes.iter().map(|class| &class.name));
        let overflow_of = |name: &str| {
            let class = classes.iter().find(|class| class.name.value.as_deref() == Some(name))?;
            given(&class.overflow).map(String::as_str)
        };
        for class in classes {
            let keeps = given(&class.keep_at_least).is_some();
            if keeps && !matches!(class.method.value, None | Some(Method::Cnfs | Method::Memory)) {
                let message = "only where new articles overwrite old ones can keep_at_least hold them back";
                let advice = "remove the key, or set method = \"cnfs\"";
                self.fault(&class.keep_at_least.span, "of no use", message, advice);
            }
            let Some(overflow) = given(&class.overflow) else { continue };
            let (span, own) = (&class.overflow.span, class.name.value.as_deref());
            let mut chain = std::iter::successors(Some(overflow.as_str()), |name| overflow_of(name));
            if !keeps {
                let message = "overflow without keep_at_least: nothing would ever go there";
                self.fault(span, "of no use", message, "for example: keep_at_least = \"30 days\"");
            } else if !names.contains(&overflow.as_str()) {
                self.known(span, "class", overflow, &names);
            } else if chain.by_ref().take(names.len()).any(|name| Some(name) == own) {
                let message = format!("the overflow of class `{}` leads back to itself", own.unwrap_or("?"));
                self.fault(span, "goes in a circle", message, "end with a class without overflow");
            }
        }
    }

    /// Checks that what leaves a ring depends on nothing else, and that the buffers have room for it.
    fn rings(&mut self) {
        let draft = self.draft;
        for class in &draft.classes {
            let (Some(ring), at) = (given(&class.ring), &class.ring.span) else { continue };
            let name = class.name.value.as_deref();
            if class.method.value.is_some_and(|method| method != Method::Cnfs) {
                let message = "only a class of method \"cnfs\" has a ring";
                self.fault(at, "of no use", message, "remove the key, or set method = \"cnfs\"");
                continue;
            }
            let is_bound = given(&class.keep_at_least).is_some();
            if is_bound
                || draft.classes.iter().any(|other| given(&other.overflow).map(String::as_str) == name)
            {
                let message =
                    "with keep_at_least, or as an overflow, a class is given what depends on buffers";
                self.fault(at, "so a ring means nothing", message, "remove the ring, or the guarantee");
                continue;
            }
            if let Some(room) = self.ring_room(class).filter(|room| room < ring) {
                let message = format!(
                    "the buffers of class `{}` have room for a ring of {} and not of {}",
                    name.unwrap_or("?"),
                    about_size(room),
                    about_size(*ring)
                );
                self.fault(
                    at,
                    "too large",
                    message,
                    "enlarge the buffers or add one, or make the ring smaller",
                );
            }
        }
    }

    /// Returns the longest ring that the buffers of a class have room for, in bytes; `None` if their sizes
    /// are not known here.
    fn ring_room(&self, class: &ClassDraft) -> Option<u64> {
        let article_bytes_max = self.draft.site.article_bytes_max.value?;
        let buffer = |name: &String| self.draft.buffers.iter().find(|b| b.name.value.as_ref() == Some(name));
        let mut rooms = Vec::new();
        for buffer in class.buffers.value.as_deref()?.iter().map(buffer) {
            let BufferDraft { size, retired, .. } = buffer?;
            if retired.value == Some(false) {
                rooms.push(room_in_buffer(*given(size)?, article_bytes_max));
            }
        }
        match class.order.value? {
            BufferOrder::Sequential => Some(rooms.iter().sum()),
            // Each gets as much as the others.
            BufferOrder::Interleave => Some(rooms.iter().min()? * rooms.len() as u64),
        }
    }

    fn rules(&mut self, end: Range<usize>) {
        let draft = self.draft;
        let known = names(draft.classes.iter().map(|class| &class.name));
        for rule in &draft.rules {
            if let Some(class) = rule.class.value.as_deref() {
                self.known(&rule.class.span, "class", class, &known);
            }
        }
        let Some(last) = draft.rules.last() else {
            let message = "there is no rule, so no article would have a class";
            let advice =
                "add [[buffer]], [[class]] and [[rule]]; `newsreel init` writes a file to start from";
            return self.fault(&end, "end of file", message, advice);
        };
        match draft.rules.iter().position(RuleDraft::matches_everything) {
            None => {
                let message = "an article that meets no rule would have no class";
                let advice = "end with a [[rule]] that has only a class";
                self.fault(&last.head, "the last rule has conditions", message, advice);
            }
            Some(at) => {
                if let Some(next) = draft.rules.get(at + 1) {
                    let message = "this rule is never reached: the one before it matches every article";
                    let advice = "move the rule without conditions to the end";
                    self.fault(&next.head, "never reached", message, advice);
                }
            }
        }
    }

    /// Checks that expiry rules name classes that keep articles, and have unique names.
    fn expire(&mut self) {
        let draft = self.draft;
        let keeps = |class: &&ClassDraft| class.method.value.is_some_and(keeps);
        let keeping = names(draft.classes.iter().filter(keeps).map(|class| &class.name));
        for rule in &draft.expire {
            if let Some(class) = given(&rule.class).filter(|class| !keeping.contains(&class.as_str())) {
                let message = format!("there is no class `{class}` that keeps articles until they are due");
                let advice = known_or_near("class", class, &keeping);
                self.fault(&rule.class.span, "named here", message, &advice);
            }
            let bounds = [&rule.keep_min, &rule.keep_max];
            if let Some(bound) = bounds.into_iter().find(|bound| given(bound).is_some())
                && is_left_out(&rule.keep)
            {
                let message = "a bound without keep: what is kept forever has none";
                self.fault(&bound.span, "of no use", message, "for example: keep = \"30 days\"");
            } else if rule.age.value == Some(AgeBasis::Thread) && is_left_out(&rule.keep) {
                let message = "an age without keep: what is kept forever has none that counts";
                self.fault(&rule.age.span, "of no use", message, "for example: keep = \"30 days\"");
            }
            if given(&rule.keep_min).zip(given(&rule.keep_max)).is_some_and(|(min, max)| min > max) {
                let message = "keep_min is longer than keep_max";
                self.fault(&rule.keep_min.span, "longer", message, "make keep_min the shorter one");
            }
        }
        for class in draft.classes.iter().filter(keeps) {
            if draft.buffers.iter().any(|buffer| buffer.name.value == class.name.value) {
                let message = "a class that keeps articles has the name of a buffer";
                let advice = "tokens name both: give one of them another name";
                self.fault(&class.name.span, "here", message, advice);
            }
        }
    }

    /// Warns of patterns with only exclusions, which match nothing.
    fn groups_of_rules(&mut self) {
        let draft = self.draft;
        let rules = draft.rules.iter().map(|rule| &rule.groups);
        for at in rules.chain(draft.expire.iter().map(|rule| &rule.groups)) {
            let only_excludes = |text: &str| text.split(',').all(|pattern| pattern.trim().starts_with('!'));
            if let Some(groups) = given(at).filter(|groups| only_excludes(groups.as_str())) {
                let message = format!("`{}` matches no group: it only takes away", groups.as_str());
                let advice = "begin with what is meant, for example: \"*,!alt.*\"";
                self.fault(&at.span, "never matches", message, advice);
            }
        }
    }

    fn lockout(&mut self) {
        let auth = &self.draft.auth;
        if auth.lockout_first.value.zip(auth.lockout_longest.value).is_some_and(|(a, b)| a > b) {
            let message = "auth.lockout_first is longer than auth.lockout_longest";
            let advice = "the defaults are \"2 s\" and \"15 min\"";
            self.fault(&auth.lockout_longest.span, "this value", message, advice);
        }
    }

    fn access(&mut self) {
        let draft = self.draft;
        for (at, access) in draft.access.iter().enumerate() {
            let earlier: &[AccessDraft] = draft.access.get(..at).unwrap_or_default();
            if let Some(first) = earlier.iter().position(|earlier| earlier.covers(access)) {
                let message = format!(
                    "this section is never reached: the conditions of the {} [[access]] always hold \
                     before it",
                    ordinal(first + 1)
                );
                let advice =
                    "put the section with more conditions (users, user_groups, fewer addresses) first";
                self.fault(&access.head, "never reached", message, advice);
            }
            let per_user = &access.connections_per_user_max;
            if is_left_out(&access.users) && is_empty(&access.user_groups) && given(per_user).is_some() {
                let message = "this section is for clients of any user and none, so it cannot count by user";
                let advice = "add users = \"*\" to it, or use connections_per_address_max";
                self.fault(&per_user.span, "of no use", message, advice);
            }
        }
    }
}

impl ConfigChecker<'_> {
    /// Checks that strangers who make accounts become neither operators nor users of a program.
    fn sign_up(&mut self) {
        let draft = self.draft;
        let web = &draft.web;
        if web.sign_up.value.is_none_or(|mode| mode == SignUpMode::Closed) {
            return;
        }
        let is_apart =
            |provider: &OidcDraft| given(&provider.name_suffix).is_some_and(|own| own.contains('@'));
        for (there, section) in [
            (!draft.authenticators.is_empty(), "[[authenticator]]"),
            (!draft.directories.is_empty(), "[[ldap]]"),
            (!draft.providers.iter().all(is_apart), "[[oidc]]"),
        ] {
            if there {
                let message =
                    format!("accounts that are made on the web could have names of an {section}'s users");
                let advice = match section {
                    "[[oidc]]" => {
                        "leave it \"closed\", or set a name_suffix with an \"@\" in [[oidc]]".to_owned()
                    }
                    _ => format!("leave it \"closed\", or remove {section}"),
                };
                self.fault(&web.sign_up.span, "not closed", message, &advice);
            }
        }
        let group = given(&web.sign_up_group);
        for access in &draft.access {
            let is_for_groups = !is_empty(&access.user_groups);
            let names_users = !is_left_out(&access.users) || is_for_groups;
            let by_name = given(&access.users).is_none_or(|users| users.matches(STRANGER_NAME.as_bytes()));
            let groups = access.user_groups.value.as_deref().unwrap_or_default();
            let by_group = !is_for_groups || group.is_some_and(|group| groups.contains(group));
            if names_users && by_name && by_group && access.operator.value == Some(true) {
                let message = "whoever makes an account on the web (web.sign_up) would be an operator";
                let advice = "name the operators in users, or a group of theirs in user_groups";
                self.fault(&access.operator.span, "for them, too", message, advice);
            }
        }
    }
}

impl RuleDraft {
    /// Returns true if every article matches the rule.
    fn matches_everything(&self) -> bool {
        let every_group =
            given(&self.groups).map_or(is_left_out(&self.groups), |groups| groups.as_str() == "*");
        every_group
            && is_left_out(&self.larger_than)
            && is_left_out(&self.smaller_than)
            && is_left_out(&self.crossposts_at_least)
            && is_left_out(&self.from)
            && is_left_out(&self.path)
            && is_left_out(&self.header)
            && is_left_out(&self.verdict)
            && is_left_out(&self.origin)
            && is_left_out(&self.expires_within)
            && is_left_out(&self.expires_beyond)
            && is_left_out(&self.expires_absent)
    }
}

/// Returns `first`, `second`, ... `11th`.
fn ordinal(n: usize) -> String {
    const WORDS: [&str; 10] =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
    n.checked_sub(1).and_then(|at| WORDS.get(at)).map_or_else(|| format!("{n}th"), |word| (*word).to_owned())
}

fn known_or_near(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("add a [[{what}]] with name = \"{name}\""),
        None => format!("there are: {}; or add a [[{what}]] with name = \"{name}\"", known.join(", ")),
    }
}
