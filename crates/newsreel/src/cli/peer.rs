//! `peer add`: a peer in the configuration, and what its operator has to write on the other side.

use super::args::host_port;
use super::locate::SiteLocation;
use super::screen::{CliError, problem, say};
use clap::{Args, Subcommand};
use site_config::edit::{self, ConfigEdit};
use site_config::{Cidr, Config};

#[derive(Debug, Subcommand)]
pub(super) enum PeerCommand {
    /// Add a peer to the configuration, and show what its operator has to write
    #[command(
        long_about = "Add a peer to the configuration: a server that may feed articles to this one (--address), that is \
        fed by it (--send), or both. Then show what the other server's operator has to write, for newsreel and for INN.",
        after_long_help = "Examples:\n  newsreel peer add news.example.net --address 198.51.100.7 --send news.example.net:119\n  \
        newsreel peer add news.example.net --address 198.51.100.7 --groups 'comp.*,!comp.binaries.*'"
    )]
    Add(PeerAddOptions),
}

/// Arguments of `peer add`.
#[derive(Debug, Clone, Args)]
pub(super) struct PeerAddOptions {
    /// The other server's path identity, preferably; a name for logs and status
    name: String,
    /// An address or network from which it may feed articles to this server (repeatable)
    #[arg(long, value_name = "ADDR", required_unless_present = "send")]
    address: Vec<Cidr>,
    /// Where it is sent articles (repeatable: the first place that answers); on port 563 with TLS from the
    /// first octet
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    send: Vec<String>,
    /// The groups that are exchanged, in both directions
    #[arg(long, value_name = "WILDMAT", default_value = "*,!local.*")]
    groups: String,
}

pub(super) fn run(command: &PeerCommand, at: &SiteLocation) -> Result<(), CliError> {
    match command {
        PeerCommand::Add(options) => add(options, at),
    }
}

fn add(options: &PeerAddOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let mut keys = vec![("name", options.name.as_str().into())];
    if !options.address.is_empty() {
        keys.push(("addresses", options.address.iter().map(Cidr::to_string).collect()));
        keys.push(("accept", options.groups.as_str().into()));
    }
    let mut send = Vec::new();
    if !options.send.is_empty() {
        send.push(("to", options.send.iter().collect()));
        send.push(("groups", options.groups.as_str().into()));
    }
    if options.send.iter().any(|to| to.ends_with(":563")) {
        send.push(("tls", "implicit".into()));
    }
    edit::apply(&config.file, &[ConfigEdit::AddPeer { keys, send }]).map_err(problem)?;
    let file = config.file.display();
    let applied = match config.cluster.is_used() {
        true => format!("newsreel cluster config apply {file} applies it at all members"),
        false => "newsreel ctl reload applies it to a running server".to_owned(),
    };
    say(format_args!("added to {file}; {applied}\n\n{}", other_side(options, &config)))
}

/// Returns what the operator of the other server has to write.
fn other_side(options: &PeerAddOptions, config: &Config) -> String {
    let own = &config.site.path_identity;
    let port = config.site.listen.first().and_then(|at| at.rsplit(':').next()).unwrap_or("119");
    let groups = &options.groups;
    let (feeds, is_fed) = (!options.address.is_empty(), !options.send.is_empty());
    let mut words = vec!["newsreel peer add".to_owned(), own.clone()];
    if is_fed {
        words.push("--address OUR-ADDRESS".to_owned());
    }
    if feeds {
        words.push(format!("--send {own}:{port}"));
    }
    words.push(format!("--groups '{groups}'"));
    let mut text = format!(
        "On {name}, if that is a newsreel:\n\n    {}\n\nif it is an INN:\n",
        words.join(" "),
        name = options.name
    );
    if is_fed {
        text +=
            &format!("\n    # incoming.conf\n    peer {own} {{\n        hostname: \"OUR-ADDRESS\"\n    }}\n");
    }
    if feeds {
        text += &format!(
            "\n    # newsfeeds\n    {own}\\\n        :{groups}\\\n        :Tm:innfeed!\n\n    \
             # innfeed.conf\n    peer {own} {{\n        ip-name: {own}\n        port-number: {port}\n    }}\n"
        );
    }
    if is_fed {
        text += "\nOUR-ADDRESS stands for the address from which this server connects.";
    }
    text.trim_end().to_owned()
}
