//! Batches to and from a real C News.
//!
//! `CNEWS` names the directory of an installed C News: its programs, as `bin/relay/relaynews`, and a script
//! `cnews.sh` that sets up a site of theirs and runs a program there (commands `setup`, `rnews`, `batcher`
//! and `run`). Nothing is built here. Run by `make batches-inn`; without such a directory, or not as root,
//! the test prints a message and passes.

use super::batches::{batch, file, lower, section, waiting};
use super::{id, sendme};
use crate::client::article;
use crate::clients::skipped;
use crate::running::Server;
use crate::test_site::GROUPS;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

pub(crate) struct CNews {
    script: PathBuf,
    dir: TempDir,
}

impl CNews {
    /// Returns a C News with the groups of the test site that feeds a site `lower`; prints a message if not
    /// available.
    pub(crate) fn found() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let programs = root.join(std::env::var_os("CNEWS").unwrap_or_default());
        let script = programs.join("cnews.sh");
        let is_installed = script.is_file() && programs.join("bin/relay/relaynews").is_file();
        if !is_installed || !rustix::process::geteuid().is_root() {
            skipped("(CNEWS must name a directory with bin/relay/relaynews and cnews.sh, for root)", false);
            return None;
        }
        let cnews = Self { script, dir: TempDir::new().unwrap() };
        let active = cnews.dir.path().join("groups");
        let names: String = GROUPS.iter().map(|(name, _, _)| format!("{name}\n")).collect();
        fs::write(&active, names).unwrap();
        let options = [programs.to_str().unwrap(), "--active", active.to_str().unwrap(), "--feed", "lower"];
        cnews.run("setup", &cnews.site(), &options);
        Some(cnews)
    }

    pub(crate) fn site(&self) -> PathBuf {
        self.dir.path().join("site")
    }

    pub(crate) fn run(&self, command: &str, at: &Path, words: &[&str]) -> Output {
        let output = Command::new(&self.script).arg(command).arg(at).args(words).output().unwrap();
        assert!(output.status.success(), "cnews.sh {command}: {output:?}");
        output
    }

    /// Configures ihave and sendme with the site `up.example`, about misc.test.
    fn speaks(&self) {
        let ctl = self.site().join("ctl");
        let sys = "ME:all/all::\nup.example.wehave/up.example:misc.test,!to/all:I:\nup.example:to.up.example/all:f:\n";
        fs::write(ctl.join("sys"), sys).unwrap();
        let mut parms = "/default/\tu\t65536\t20\tbatcher | cat\n".to_owned();
        for (queue, programs) in
            [("wehave", "batchih | viainews"), ("ihave", "batchsm | viainews"), ("sendme", "batchra | cat")]
        {
            parms = format!("up.example.{queue}\tu\t40000\t20\t{programs}\n") + &parms;
            fs::create_dir_all(self.site().join("arts/out.going").join(format!("up.example.{queue}")))
                .unwrap();
        }
        fs::write(ctl.join("batchparms"), parms).unwrap();
        fs::create_dir_all(self.site().join("arts/out.going/up.example")).unwrap();
        // There is no UUCP queue that could be full.
        for (name, answer) in [("spacefor", 100), ("queuelen", 0)] {
            let program = ctl.join("bin").join(name);
            fs::write(&program, format!("#!/bin/sh\necho {answer}\n")).unwrap();
            fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Makes C News file a batch.
    fn file(&self, batch: &str) {
        let path = self.dir.path().join("batch");
        fs::write(&path, batch).unwrap();
        self.run("rnews", &self.site(), &[path.to_str().unwrap()]);
    }

    /// Processes a queue and returns the batches for `up.example`.
    fn made_of(&self, queue: &str) -> String {
        self.run("run", &self.site(), &["sendbatches", &format!("up.example.{queue}")]);
        self.run("run", &self.site(), &["newsrun", "-#"]);
        let batch = self.run("batcher", &self.site(), &["up.example"]).stdout;
        fs::remove_file(self.site().join("arts/out.going/up.example/togo")).unwrap();
        String::from_utf8(batch).unwrap()
    }

    /// Returns the number of articles in a group.
    fn articles(&self, group: &str) -> usize {
        let dir = self.site().join("arts").join(group.replace('.', "/"));
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().bytes().all(|b| b.is_ascii_digit())).count()
    }
}

/// Returns article `n` dated now, as C News rejects articles older than its history.
fn fresh(n: usize, groups: &str) -> String {
    let mut date = Vec::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    netnews::date::format_rfc5322(now as i64, &mut date);
    article(&id(n), groups, "..body").replace("15 Apr 1993 12:00:00 GMT", str::from_utf8(&date).unwrap())
}

/// Feeds some articles to a server.
fn hand_in(server: &Server, numbers: Range<usize>, groups: &str) {
    let mut client = server.client();
    for n in numbers {
        client.send(format!("TAKETHIS {}\r\n{}", id(n), fresh(n, groups)));
        assert_eq!(client.line().trim_end(), format!("239 {}", id(n)));
    }
}

#[test]
#[ignore = "needs C News and root: make batches-inn"]
fn batches_plain_and_compressed_are_filed_by_c_news_and_those_of_c_news_here() {
    let Some(cnews) = CNews::found() else { return };
    let keys = |part: &str, form: &str| {
        format!("batch_bytes = \"16 KiB\"\nbatch_compress = \"{form}\"\nhash = \"{part}/2\"")
    };
    let sections = section("plain", &keys("1", "none")) + &section("compressed", &keys("2", "compress"));
    let server = Server::start_with(|text| text.replace("\"site.example\"", "\"up.example\"") + &sections);
    hand_in(&server, 0..300, "misc.test");
    hand_in(&server, 300..310, "misc.test,local.closed");
    for peer in ["plain", "compressed"] {
        assert!(batch(&server, peer).1);
        let batches = waiting(&server.data(), peer);
        assert!(batches.len() > 1, "{batches:?}");
        let paths: Vec<&str> = batches.iter().map(|path| path.to_str().unwrap()).collect();
        cnews.run("rnews", &cnews.site(), &paths);
    }
    assert_eq!((cnews.articles("misc.test"), cnews.articles("local.closed")), (310, 10));
    // The reverse direction: C News's batcher, plain and with its own header for compressed batches.
    let plain = cnews.run("batcher", &cnews.site(), &["lower", "16384"]).stdout;
    let (batch, compressed) = (cnews.dir.path().join("plain"), cnews.dir.path().join("compressed"));
    fs::write(&batch, plain).unwrap();
    let command = format!("compcun < {} > {}", batch.display(), compressed.display());
    cnews.run("run", &cnews.site(), &["sh", "-c", &command]);
    let lower = lower();
    assert_eq!(file(&lower, &[compressed]), (310, 0));
    assert_eq!(file(&lower, &[batch]), (0, 310));
}

/// Returns the Message-IDs in the bodies of messages, in order.
fn named(batch: &str) -> Vec<String> {
    let mut ids: Vec<String> =
        sendme::ids_in(batch, "<").into_iter().map(|rest| format!("<{rest}")).collect();
    ids.sort_unstable();
    ids
}

#[test]
#[ignore = "needs C News and root: make batches-inn"]
fn ihave_and_sendme_work_with_c_news_in_both_directions() {
    let Some(cnews) = CNews::found() else { return };
    cnews.speaks();
    let ids = |numbers: Range<usize>| numbers.map(id).collect::<Vec<_>>();
    let batch_of = |numbers: Range<usize>| -> String {
        let texts = numbers.map(|n| fresh(n, "misc.test").replace("\r\n", "\n").replace("\n.\n", "\n"));
        texts.map(|text| format!("#! rnews {}\n{text}", text.len())).collect()
    };
    let server = sendme::server("up.example", "cnews-bench", "groups = \"misc.*\"");
    // C News is offered ten articles, has three, and requests the others.
    cnews.file(&batch_of(7..10));
    hand_in(&server, 0..10, "misc.test");
    assert!(batch(&server, "cnews-bench").1);
    let ihave = sendme::taken(&server, "cnews-bench");
    assert_eq!(named(&ihave), ids(0..10));
    cnews.file(&ihave);
    let asked = cnews.made_of("ihave");
    assert_eq!(named(&asked), ids(0..7), "{asked}");
    sendme::file(&server, &asked);
    let mut sent = String::new();
    while sendme::ids_in(&sent, "Message-ID: ").len() < 7 {
        sent += &sendme::taken(&server, "cnews-bench");
    }
    cnews.file(&sent);
    assert_eq!(cnews.articles("misc.test"), 10);
    // The reverse direction: C News offers articles that did not come from here, and is asked for new ones.
    cnews.file(&batch_of(5..10));
    cnews.file(&batch_of(10..13));
    let ihave = cnews.made_of("wehave");
    assert_eq!(named(&ihave), [ids(10..13), ids(7..10)].concat(), "{ihave}");
    sendme::file(&server, &ihave);
    let asked = sendme::taken(&server, "cnews-bench");
    assert_eq!(named(&asked), ids(10..13), "{asked}");
    cnews.file(&asked);
    sendme::file(&server, &cnews.made_of("sendme"));
    let group = server.client().ask("GROUP misc.test");
    assert!(group.starts_with("211 13 1 13 "), "{group}");
}
