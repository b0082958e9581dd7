//! Configurations of the engine's nodes, with everything that a start of a member checks, and with users who
//! may do what they need and no more.

use crate::nats::{LogNames, VERSION_MIN};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Room on a node's disk beside the log, in bytes: the table, and what the engine keeps for itself.
const BESIDE_LOG_BYTES: u64 = 1 << 30;

/// Requests to the engine that change a stream or take something from it.
const CHANGES: [&str; 6] = ["DELETE", "UPDATE", "PURGE", "MSG.DELETE", "PEER.REMOVE", "LEADER.STEPDOWN"];

/// A user of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineUser {
    /// Name of the member.
    pub name: String,
    /// Public key, which begins with U.
    pub public_key: String,
}

/// Certificates of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTls {
    /// File with the certificate of the node.
    pub certificate: PathBuf,
    /// File with its key.
    pub private_key: PathBuf,
    /// File with the certificates of the authorities that members' certificates are from.
    pub ca: PathBuf,
}

/// What the configuration of a node is made of.
#[derive(Debug, Clone)]
pub struct NodeConf {
    /// Name of the site.
    pub site: String,
    /// Name of the node.
    pub name: String,
    /// Address for members, `HOST:PORT`.
    pub listen: String,
    /// Address of the monitoring port.
    pub monitor: String,
    /// Address for other nodes.
    pub route: String,
    /// Addresses at which other nodes reach all nodes.
    pub routes: Vec<String>,
    /// Directory of the log.
    pub store: PathBuf,
    /// Size of the log, in bytes.
    pub log_bytes: u64,
    /// Password that nodes show each other.
    pub route_password: String,
    /// Public key of the operator, who creates the log.
    pub operator: String,
    /// Public key of the user who looks at the nodes and removes one.
    pub system: String,
    /// Whether the streams can be changed and removed, as to give the log more room: by the operator, and by
    /// a member that has the engine do it.
    pub allows_changes: bool,
    /// Members.
    pub members: Vec<EngineUser>,
    /// Certificates; without them connections are not encrypted.
    pub tls: Option<NodeTls>,
}

/// Returns a text in quotes, as the engine's configuration has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl NodeConf {
    /// Returns the text of the configuration.
    pub fn text(&self) -> String {
        let [major, minor, patch] = VERSION_MIN;
        let store_mib = (self.log_bytes + BESIDE_LOG_BYTES) >> 20;
        let user = format!("routes:{}", self.route_password);
        let routes: Vec<String> =
            self.routes.iter().map(|address| quoted(&format!("nats-route://{user}@{address}"))).collect();
        let members: String = self.members.iter().map(|member| self.user_text(member)).collect();
        let guard = if self.allows_changes { String::new() } else { self.guard_text() };
        let tls = |indent| self.tls.as_ref().map_or_else(String::new, |tls| tls.text(indent));
        format!(
            "# A node of the log of the site {site}, for nats-server {major}.{minor}.{patch} or later.\n\
             server_name: {name}\n\
             listen: {listen}\n\
             # Members ask here whether the node syncs. It has no passwords: let only members reach it.\n\
             http: {monitor}\n\
             max_payload: 1MB\n\
             {tls}\
             jetstream {{\n  \
               store_dir: {store}\n  \
               max_memory_store: 64MB\n  \
               max_file_store: {store_mib}MB\n  \
               # Nothing is acknowledged before it is on the disk. Members refuse a node without this.\n  \
               sync_interval: always\n\
             }}\n\
             cluster {{\n  \
               name: {cluster}\n  \
               listen: {route}\n  \
               authorization {{ user: routes, password: {password}, timeout: 5 }}\n  \
               routes: [{routes}]\n\
             {route_tls}\
             }}\n\
             accounts {{\n  \
               NEWSREEL {{\n    \
                 jetstream: enabled\n    \
                 users: [\n      \
                   # The operator, who creates the log.\n      \
                   {{ nkey: {operator} }}\n\
             {members}    \
                 ]\n  \
               }}\n  \
               SYS {{\n    \
                 # Who looks at the nodes, and removes one for good.\n    \
                 users: [ {{ nkey: {system} }} ]\n\
             {guard}  \
               }}\n\
             }}\n\
             system_account: SYS\n",
            site = self.site,
            name = quoted(&self.name),
            listen = quoted(&self.listen),
            monitor = quoted(&self.monitor),
            tls = tls(""),
            store = quoted(&self.store.display().to_string()),
            cluster = quoted(&format!("newsreel-{}", self.site)),
            route = quoted(&self.route),
            password = quoted(&self.route_password),
            routes = routes.join(", "),
            route_tls = tls("  "),
            operator = self.operator,
            system = self.system,
        )
    }

    /// Returns what keeps the streams as they are. Rights do not suffice: the engine delivers a message to
    /// whatever subject a member names, with its own rights, and so also as a request to itself.
    fn guard_text(&self) -> String {
        let names = LogNames::of(&self.site);
        let streams = [names.log, format!("KV_{}", names.bucket)];
        let mut text =
            "    # No one changes or removes the streams, until this is left out: --allow-changes.\n    \
                        mappings: {\n"
                .to_owned();
        for (stream, request) in streams.iter().flat_map(|stream| CHANGES.map(|request| (stream, request))) {
            let subject = quoted(&format!("$JS.API.STREAM.{request}.{stream}"));
            // Writing to a string does not fail.
            let _ = writeln!(text, "      {subject}: \"newsreel.refused\"");
        }
        text + "    }\n"
    }

    /// Returns the user of a member: it appends to the log, reads it, changes the table, and answers other
    /// members. It can remove neither messages nor streams.
    fn user_text(&self, member: &EngineUser) -> String {
        let names = LogNames::of(&self.site);
        let (log, bucket) = (&names.log, &names.bucket);
        let publish = [
            names.subject.clone(),
            format!("{}.*.>", names.members),
            format!("$KV.{bucket}.>"),
            format!("$JS.API.STREAM.INFO.{log}"),
            format!("$JS.API.STREAM.INFO.KV_{bucket}"),
            format!("$JS.API.CONSUMER.CREATE.{log}"),
            format!("$JS.API.CONSUMER.CREATE.{log}.>"),
            format!("$JS.API.CONSUMER.CREATE.KV_{bucket}"),
            format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.>"),
            format!("$JS.API.CONSUMER.DELETE.KV_{bucket}.>"),
            format!("$JS.API.CONSUMER.INFO.{log}.>"),
            format!("$JS.API.CONSUMER.DELETE.{log}.>"),
            format!("$JS.API.CONSUMER.MSG.NEXT.{log}.>"),
            format!("$JS.API.DIRECT.GET.{log}"),
            format!("$JS.API.DIRECT.GET.KV_{bucket}.>"),
            format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"),
        ];
        let subscribe = [names.inbox(&member.name) + ".>", names.requests(&member.name, ">")];
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "      # The member {}.", member.name);
        let _ = writeln!(text, "      {{ nkey: {}, permissions: {{", member.public_key);
        for (what, subjects) in [("publish", &publish[..]), ("subscribe", &subscribe[..])] {
            let _ = writeln!(text, "        {what}: {{ allow: [");
            subjects.iter().for_each(|subject| _ = writeln!(text, "          {}", quoted(subject)));
            let _ = writeln!(text, "        ] }}");
        }
        text + "        allow_responses: { max: 1, expires: \"1m\" }\n      } }\n"
    }
}

impl NodeTls {
    fn text(&self, indent: &str) -> String {
        let file = |file: &PathBuf| quoted(&file.display().to_string());
        format!(
            "{indent}tls {{ cert_file: {}, key_file: {}, ca_file: {}, verify: true, timeout: 5 }}\n",
            file(&self.certificate),
            file(&self.private_key),
            file(&self.ca),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_no_right_to_remove_or_to_change_streams() {
        let conf = NodeConf {
            site: "example".into(),
            name: "e1".into(),
            listen: "0.0.0.0:4222".into(),
            monitor: "0.0.0.0:8222".into(),
            route: "0.0.0.0:6222".into(),
            routes: vec!["e1:6222".into(), "e2:6222".into()],
            store: "/var/lib/nats".into(),
            log_bytes: 64 << 30,
            route_password: "secret".into(),
            operator: "UOPERATOR".into(),
            system: "USYSTEM".into(),
            allows_changes: false,
            members: vec![EngineUser { name: "fe1".into(), public_key: "UFE1".into() }],
            tls: None,
        };
        let text = conf.text();
        for part in [
            "sync_interval: always",
            "max_file_store: 66560MB",
            "routes: [\"nats-route://routes:secret@e1:6222\", \"nats-route://routes:secret@e2:6222\"]",
            "{ nkey: UFE1, permissions: {",
            "users: [ { nkey: USYSTEM } ]",
            "\"$JS.API.STREAM.DELETE.NR_example_LOG\": \"newsreel.refused\"",
            "\"$JS.API.STREAM.UPDATE.KV_NR_example_STATE\": \"newsreel.refused\"",
            "\"nr.example.log\"",
            "\"_INBOX.fe1.>\"",
            "\"nr.example.m.fe1.>\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = NodeConf { allows_changes: true, ..conf.clone() }.text();
        for subject in
            ["STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "MSG.DELETE", "\">\""]
        {
            assert!(!text.contains(subject), "{subject}: {text}");
        }
        let tls = NodeTls { certificate: "e1.pem".into(), private_key: "e1.key".into(), ca: "ca.pem".into() };
        let text = NodeConf { tls: Some(tls), ..conf }.text();
        assert_eq!(text.matches("cert_file: \"e1.pem\"").count(), 2, "{text}");
    }
}
