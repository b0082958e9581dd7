//! What only shows between keys and between sections.
//!
//! Each function is one question about the whole draft; faulty values are absent there and are passed over, so that
//! nothing is reported twice. Called by `read` after every key was read.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use super::draft::{At, ClassDraft, Draft};
use super::faults::{Fault, nearest};
use super::{Compression, KnownCertificate, Method, PeerTls};

/// Least size of a buffer, in bytes.
const BUFFER_BYTES_MIN: u64 = 64 << 10;
/// Least and greatest block of a buffer, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 64..=16_384;
/// Least and greatest `article_bytes_max`.
const ARTICLE_BYTES_MAX: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 30;
/// Least of all timeouts.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Checks a draft; `end` is where something may be missing altogether.
pub(super) fn check(draft: &Draft, end: Range<usize>, faults: &mut Vec<Fault>) {
    let mut checker = Checker { draft, faults };
    checker.site();
    checker.listeners();
    checker.tls();
    checker.timeouts();
    checker.buffer_sizes();
    checker.expire();
    checker.unique("buffer", "name", draft.buffers.iter().map(|buffer| &buffer.name));
    checker.unique("buffer", "path", draft.buffers.iter().map(|buffer| &buffer.path));
    checker.unique("class", "name", draft.classes.iter().map(|class| &class.name));
    checker.unique("peer", "name", draft.peers.iter().map(|peer| &peer.name));
    draft.classes.iter().for_each(|class| checker.class(class));
    checker.buffers_shared();
    checker.overflows();
    checker.retired();
    checker.rules(end);
    checker.groups_of_rules();
    checker.peer_addresses();
    checker.lockout();
    checker.covered_access();
}

struct Checker<'a> {
    draft: &'a Draft,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Checker<'a> {
    fn fault(&mut self, span: &Range<usize>, label: &str, message: String, advice: &str) {
        self.faults.push(Fault {
            message,
            span: span.clone(),
            label: label.into(),
            advice: (!advice.is_empty()).then(|| advice.to_owned()),
        });
    }

    fn site(&mut self) {
        let site = &self.draft.site;
        if site.listen.value.as_ref().is_some_and(Vec::is_empty) {
            let advice = "name at least one address, for example: listen = [\"127.0.0.1:1119\"]";
            self.fault(&site.listen.span, "empty", "site.listen names no address".into(), advice);
        }
        if let Some(bytes) = site.article_bytes_max.value
            && !ARTICLE_BYTES_MAX.contains(&bytes)
        {
            let message = "site.article_bytes_max must lie between 1 KiB and 1 GiB".to_owned();
            self.fault(&site.article_bytes_max.span, "this value", message, "the default is \"4 MiB\"");
        }
        if let (Some(Some(age)), Some(remember)) = (site.max_age_days.value, site.remember_days.value)
            && u64::from(age) >= remember
        {
            let message = format!(
                "articles of {age} days are taken, but Message-IDs are remembered for {remember} days"
            );
            let advice =
                "make remember_days larger than max_age_days, or an article that is gone is taken again";
            self.fault(&site.remember_days.span, "too few", message, advice);
        }
    }

    /// Where connections begin in two ways, they would begin in neither. Port 0 is another one each time.
    fn listeners(&mut self) {
        let site = &self.draft.site;
        let mut seen: Vec<&str> = Vec::new();
        for at in [&site.listen, &site.tls_listen] {
            for name in at.value.iter().flatten().filter(|name| !name.ends_with(":0")) {
                if seen.contains(&name.as_str()) {
                    let message = format!("`{name}` is listened on already");
                    self.fault(&at.span, "again here", message, "name each address and port once");
                }
                seen.push(name);
            }
        }
    }

    /// Patterns that take away from nothing match nothing.
    fn groups_of_rules(&mut self) {
        let draft = self.draft;
        let rules = draft.rules.iter().map(|rule| &rule.groups);
        for at in rules.chain(draft.expire.iter().map(|rule| &rule.groups)) {
            if let Some(Some(groups)) = &at.value
                && groups.as_str().split(',').all(|pattern| pattern.trim().starts_with('!'))
            {
                let message = format!("`{}` matches no group: it only takes away", groups.as_str());
                self.fault(
                    &at.span,
                    "never matches",
                    message,
                    "begin with what is meant, for example: \"*,!alt.*\"",
                );
            }
        }
    }

    fn tls(&mut self) {
        let draft = self.draft;
        let (Some(certificates), Some(keys)) = (&draft.tls.certificate.value, &draft.tls.key.value) else {
            return;
        };
        if certificates.len() != keys.len() {
            let message = format!("[tls] names {} certificates, but {} keys", certificates.len(), keys.len());
            let advice = "name the key of each certificate, in the same order";
            self.fault(&draft.tls.key.span, "not as many", message, advice);
        }
        let example = "add [tls] with certificate = \"news.crt\" and key = \"news.key\"";
        if draft.site.tls_listen.value.as_ref().is_some_and(|listen| !listen.is_empty())
            && certificates.is_empty()
        {
            let message = "connections that begin with TLS need a certificate".to_owned();
            self.fault(&draft.site.tls_listen.span, "no certificate to show there", message, example);
        }
        for peer in &draft.peers {
            let name = peer.name.value.as_deref().unwrap_or("?");
            if peer.tls.value == Some(PeerTls::Require) && certificates.is_empty() {
                let message = format!("peer `{name}` must encrypt, but this server has no certificate");
                self.fault(&peer.tls.span, "cannot be met", message, example);
            }
            let known = peer.certificate.value.as_deref().unwrap_or_default();
            if !known.is_empty() && certificates.is_empty() {
                let message =
                    format!("peer `{name}` can show no certificate: this server does not offer TLS");
                self.fault(&peer.certificate.span, "cannot be met", message, example);
            } else if known.iter().any(|known| matches!(known, KnownCertificate::Name(_)))
                && draft.tls.client_ca.value == Some(None)
            {
                let message = format!("nobody vouches for the name in the certificate of peer `{name}`");
                let advice = "set tls.client_ca, or write the certificate's fingerprint: \"sha256:...\"";
                self.fault(&peer.certificate.span, "a name", message, advice);
            }
        }
    }

    fn timeouts(&mut self) {
        let limits = &self.draft.limits;
        for (name, at) in [
            ("idle_timeout", &limits.idle_timeout),
            ("command_timeout", &limits.command_timeout),
            ("write_timeout", &limits.write_timeout),
        ] {
            if at.value.is_some_and(|timeout| timeout < TIMEOUT_MIN) {
                let message = format!("limits.{name} would close every connection at once");
                self.fault(&at.span, "too short", message, "write at least \"100ms\"");
            }
        }
    }

    fn buffer_sizes(&mut self) {
        for buffer in &self.draft.buffers {
            if buffer.size.value.flatten().is_some_and(|size| size < BUFFER_BYTES_MIN) {
                let message = "a buffer must have at least 64 KiB".to_owned();
                self.fault(&buffer.size.span, "too small", message, "for example: size = \"2 GiB\"");
            }
            if let Some(block) = buffer.block.value
                && !(block.is_power_of_two() && BLOCK_BYTES.contains(&block))
            {
                let message = "a block must be a power of two from 64 to 16384 bytes".to_owned();
                self.fault(&buffer.block.span, "this value", message, "the default, \"64\", suits text");
            }
        }
    }

    fn unique<'b>(&mut self, section: &str, key: &str, values: impl Iterator<Item = &'b At<String>>) {
        let mut seen: HashMap<&str, ()> = HashMap::new();
        for at in values {
            let Some(value) = at.value.as_deref() else { continue };
            if seen.insert(value.trim_start_matches("./"), ()).is_some() {
                let message = format!("two sections [[{section}]] have the {key} `{value}`");
                let advice = format!("give each [[{section}]] a {key} of its own");
                self.fault(&at.span, "the second one", message, &advice);
            }
        }
    }

    fn class(&mut self, class: &ClassDraft) {
        let (Some(method), Some(buffers)) = (class.method.value, class.buffers.value.as_ref()) else {
            return;
        };
        match method {
            Method::Cnfs if buffers.is_empty() => {
                let message = "a class of method \"cnfs\" needs buffers".to_owned();
                self.fault(&class.head, "in this section", message, "for example: buffers = [\"text0\"]");
            }
            method if method != Method::Cnfs && !buffers.is_empty() => {
                let message = "only a class of method \"cnfs\" has buffers".to_owned();
                self.fault(
                    &class.buffers.span,
                    "of no use",
                    message,
                    "remove the key, or set method = \"cnfs\"",
                );
            }
            _ => {}
        }
        if !matches!(method, Method::Cnfs | Method::AppendOnly)
            && class.compress.value == Some(Compression::Zstd)
        {
            let message =
                "only a class of method \"cnfs\" or \"appendonly\" stores compressed articles".to_owned();
            self.fault(
                &class.compress.span,
                "of no use",
                message,
                "remove the key, or set method = \"cnfs\"",
            );
        }
        match (method, class.size.value) {
            (Method::Memory, Some(size)) if size < BUFFER_BYTES_MIN => {
                let message = "a class of method \"memory\" needs a size of at least 64 KiB".to_owned();
                self.fault(&class.size.span, "here", message, "for example: size = \"64 MiB\"");
            }
            (method, Some(size)) if method != Method::Memory && size > 0 => {
                let message = "only a class of method \"memory\" has a size".to_owned();
                self.fault(
                    &class.size.span,
                    "of no use",
                    message,
                    "a buffer's size stands in its [[buffer]]",
                );
            }
            _ => {}
        }
        for name in buffers {
            let known = || self.draft.buffers.iter().filter_map(|buffer| buffer.name.value.as_deref());
            if !known().any(|buffer| buffer == name) {
                let advice = known_or_near("buffer", name, &known().collect::<Vec<_>>());
                let message = format!("there is no buffer `{name}`");
                self.fault(&class.buffers.span, "named here", message, &advice);
            }
        }
    }

    /// A class needs a buffer that takes articles.
    fn retired(&mut self) {
        let retired = |name: &String| {
            let named = |b: &&super::draft::BufferDraft| b.name.value.as_ref() == Some(name);
            self.draft.buffers.iter().find(named).is_some_and(|b| b.retired.value == Some(true))
        };
        let all = |class: &&ClassDraft| {
            class.buffers.value.as_ref().is_some_and(|names| !names.is_empty() && names.iter().all(retired))
        };
        let classes: Vec<&ClassDraft> = self.draft.classes.iter().filter(all).collect();
        for class in classes {
            let name = class.name.value.as_deref().unwrap_or("?");
            let message = format!("every buffer of class `{name}` is retired: it could store nothing");
            self.fault(&class.buffers.span, "all retired", message, "add a buffer to it first");
        }
    }

    /// Expiry rules name classes that keep articles; those have names and directories of their own.
    fn expire(&mut self) {
        let draft = self.draft;
        let keeps = |class: &&ClassDraft| class.method.value.is_some_and(Method::keeps);
        let keeping = || draft.classes.iter().filter(keeps).filter_map(|class| class.name.value.as_deref());
        for rule in &draft.expire {
            if let Some(Some(class)) = &rule.class.value
                && !keeping().any(|name| name == class)
            {
                let message = format!("there is no class `{class}` that keeps articles until they are due");
                let advice = known_or_near("class", class, &keeping().collect::<Vec<_>>());
                self.fault(&rule.class.span, "named here", message, &advice);
            }
            let bounds = [&rule.keep_min, &rule.keep_max];
            if let Some(bound) = bounds.into_iter().find(|b| matches!(b.value, Some(Some(_))))
                && matches!(rule.keep.value, Some(None))
            {
                let message = "a bound without keep: what is kept forever has none".to_owned();
                self.fault(&bound.span, "of no use", message, "for example: keep = \"30 days\"");
            }
            if let (Some(Some(min)), Some(Some(max))) = (rule.keep_min.value, rule.keep_max.value)
                && min > max
            {
                let message = "keep_min is longer than keep_max".to_owned();
                self.fault(&rule.keep_min.span, "longer", message, "make keep_min the shorter one");
            }
        }
        for class in draft.classes.iter().filter(keeps) {
            let same = |buffer: &&super::draft::BufferDraft| buffer.name.value == class.name.value;
            if draft.buffers.iter().any(|buffer| same(&buffer)) {
                let message = "a class that keeps articles has the name of a buffer".to_owned();
                self.fault(
                    &class.name.span,
                    "here",
                    message,
                    "tokens name both: give one of them another name",
                );
            }
        }
    }

    fn buffers_shared(&mut self) {
        let mut owner: HashMap<&str, &str> = HashMap::new();
        for class in &self.draft.classes {
            for buffer in class.buffers.value.iter().flatten() {
                let name = class.name.value.as_deref().unwrap_or("?");
                if let Some(first) = owner.insert(buffer, name) {
                    let message = match first == name {
                        true => format!("buffer `{buffer}` is named twice"),
                        false => format!("buffer `{buffer}` belongs to class `{first}` already"),
                    };
                    self.fault(&class.buffers.span, "again here", message, "a buffer belongs to one class");
                }
            }
        }
    }

    fn overflows(&mut self) {
        let classes = &self.draft.classes;
        let names: Vec<&str> = classes.iter().filter_map(|class| class.name.value.as_deref()).collect();
        let overflow_of = |name: &str| {
            let class = classes.iter().find(|class| class.name.value.as_deref() == Some(name))?;
            class.overflow.value.as_ref()?.as_deref()
        };
        for class in classes {
            let keeps = matches!(class.keep_at_least.value, Some(Some(_)));
            if keeps && !matches!(class.method.value, None | Some(Method::Cnfs | Method::Memory)) {
                let message =
                    "only where new articles overwrite old ones can keep_at_least hold them back".to_owned();
                let advice = "remove the key, or set method = \"cnfs\"";
                self.fault(&class.keep_at_least.span, "of no use", message, advice);
            }
            let Some(Some(overflow)) = &class.overflow.value else { continue };
            let span = &class.overflow.span;
            if !keeps {
                let message = "overflow without keep_at_least: nothing would ever go there".to_owned();
                self.fault(span, "of no use", message, "for example: keep_at_least = \"30 days\"");
            } else if !names.contains(&overflow.as_str()) {
                let advice = known_or_near("class", overflow, &names);
                self.fault(span, "named here", format!("there is no class `{overflow}`"), &advice);
            } else {
                let own = class.name.value.as_deref();
                let chain = std::iter::successors(Some(overflow.as_str()), |name| overflow_of(name));
                if chain.take(names.len()).any(|name| Some(name) == own) {
                    let message =
                        format!("the overflow of class `{}` leads back to itself", own.unwrap_or("?"));
                    self.fault(span, "goes in a circle", message, "end with a class without overflow");
                }
            }
        }
    }

    fn rules(&mut self, end: Range<usize>) {
        let draft = self.draft;
        for rule in &draft.rules {
            let Some(class) = rule.class.value.as_deref() else { continue };
            let known: Vec<&str> =
                draft.classes.iter().filter_map(|class| class.name.value.as_deref()).collect();
            if !known.contains(&class) {
                let advice = known_or_near("class", class, &known);
                self.fault(&rule.class.span, "named here", format!("there is no class `{class}`"), &advice);
            }
        }
        let catch_all = draft.rules.iter().position(super::draft::RuleDraft::matches_everything);
        match (catch_all, draft.rules.last()) {
            (None, None) => {
                let advice =
                    "add [[buffer]], [[class]] and [[rule]]; `newsreel init` writes a file to start from";
                self.fault(
                    &end,
                    "end of file",
                    "there is no rule, so no article would have a class".into(),
                    advice,
                );
            }
            (None, Some(last)) => {
                let message = "an article that meets no rule would have no class".to_owned();
                let advice = "end with a [[rule]] that has only a class";
                self.fault(&last.head, "the last rule has conditions", message, advice);
            }
            (Some(at), Some(_)) if at + 1 < draft.rules.len() => {
                if let Some(next) = draft.rules.get(at + 1) {
                    let message =
                        "this rule is never reached: the one before it matches every article".to_owned();
                    self.fault(
                        &next.head,
                        "never reached",
                        message,
                        "move the rule without conditions to the end",
                    );
                }
            }
            _ => {}
        }
    }

    fn lockout(&mut self) {
        let auth = &self.draft.auth;
        if let (Some(first), Some(longest)) = (auth.lockout_first.value, auth.lockout_longest.value)
            && first > longest
        {
            let message = "auth.lockout_first is longer than auth.lockout_longest".to_owned();
            self.fault(
                &auth.lockout_longest.span,
                "this value",
                message,
                "the defaults are \"2 s\" and \"15 min\"",
            );
        }
    }

    fn covered_access(&mut self) {
        let draft = self.draft;
        for (at, later) in draft.access.iter().enumerate() {
            let Some(first) = draft.access.iter().take(at).position(|earlier| earlier.covers(later)) else {
                continue;
            };
            let message = format!(
                "this section is never reached: the conditions of the {} [[access]] always hold before it",
                ordinal(first + 1)
            );
            let advice = "put the section with more conditions (users, user_groups, fewer addresses) first";
            self.fault(&later.head, "never reached", message, advice);
        }
        for access in &draft.access {
            let no_users = matches!(access.users.value, Some(None))
                && access.user_groups.value.as_ref().is_some_and(Vec::is_empty);
            if no_users && matches!(access.connections_per_user_max.value, Some(Some(_))) {
                let message =
                    "this section is for clients of any user and none, so it cannot count by user".to_owned();
                let advice = "add users = \"*\" to it, or use connections_per_address_max";
                self.fault(&access.connections_per_user_max.span, "of no use", message, advice);
            }
        }
    }

    fn peer_addresses(&mut self) {
        let mut owner: Vec<(super::Cidr, &str)> = Vec::new();
        for peer in &self.draft.peers {
            let name = peer.name.value.as_deref().unwrap_or("?");
            for cidr in peer.addresses.value.iter().flatten() {
                if let Some((_, first)) = owner.iter().find(|(known, _)| known == cidr) {
                    let message = format!("`{cidr}` is an address of peer `{first}` already");
                    self.fault(
                        &peer.addresses.span,
                        "again here",
                        message,
                        "the first peer would always be taken",
                    );
                }
                // Who must log in does not hide whom the same address is otherwise.
                if matches!(peer.user.value, Some(None)) {
                    owner.push((*cidr, name));
                }
            }
            if peer.addresses.value.as_ref().is_some_and(Vec::is_empty)
                && peer.certificate.value.as_ref().is_some_and(Vec::is_empty)
                && matches!(peer.user.value, Some(None))
            {
                let message =
                    format!("peer `{name}` has neither addresses nor a certificate or user to be known by");
                let advice = "add one, for example: addresses = [\"198.51.100.7\", \"2001:db8:7::/48\"]";
                self.fault(&peer.addresses.span, "in this section", message, advice);
            }
        }
    }
}

/// `first`, `second`, ... `11th`.
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
