//! Batches to and from a real C News.
//!
//! It is set up by `cnews.sh` in the directory that `CNEWS` names, which builds it once. Run by `make
//! batches-inn`; without the script, or not as root, it says so and passes.

use super::batches::{batch, file, lower, section, waiting};
use super::id;
use crate::client::article;
use crate::clients::skipped;
use crate::running::Server;
use crate::test_site::GROUPS;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

pub(crate) struct CNews {
    script: PathBuf,
    dir: TempDir,
}

impl CNews {
    /// One that has the groups of the test site, and feeds a site `lower`; `None`, aloud, if it cannot be.
    pub(crate) fn found() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = std::env::var_os("CNEWS").unwrap_or_else(|| "../shared/peers/cnews".into());
        let script = root.join(dir).join("cnews.sh");
        if !script.is_file() || !rustix::process::geteuid().is_root() {
            skipped("(CNEWS must name the directory of cnews.sh, and only root can build C News)", false);
            return None;
        }
        let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cnews");
        let cnews = Self { script, dir: TempDir::new().unwrap() };
        if !programs.join("bin/relay/relaynews").is_file() {
            cnews.run("install", &programs, &[]);
        }
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

    /// Articles of a group.
    fn articles(&self, group: &str) -> usize {
        let dir = self.site().join("arts").join(group.replace('.', "/"));
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().bytes().all(|b| b.is_ascii_digit())).count()
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
    // C News takes no articles that are older than what it remembers.
    let mut date = Vec::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    netnews::date::format_rfc5322(now as i64, &mut date);
    let date = String::from_utf8(date).unwrap();
    let mut client = server.client();
    for n in 0..310 {
        let groups = if n < 300 { "misc.test" } else { "misc.test,local.closed" };
        let article = article(&id(n), groups, "..body").replace("15 Apr 1993 12:00:00 GMT", &date);
        client.send(format!("TAKETHIS {}\r\n{article}", id(n)));
        assert_eq!(client.line(), format!("239 {}", id(n)));
    }
    for peer in ["plain", "compressed"] {
        assert!(batch(&server, peer).1);
        let batches = waiting(&server.data(), peer);
        assert!(batches.len() > 1, "{batches:?}");
        let paths: Vec<&str> = batches.iter().map(|path| path.to_str().unwrap()).collect();
        cnews.run("rnews", &cnews.site(), &paths);
    }
    assert_eq!((cnews.articles("misc.test"), cnews.articles("local.closed")), (310, 10));
    // The other way: its batcher, as it is and with its own header for compressed batches.
    let plain = cnews.run("batcher", &cnews.site(), &["lower", "16384"]).stdout;
    let (batch, compressed) = (cnews.dir.path().join("plain"), cnews.dir.path().join("compressed"));
    fs::write(&batch, plain).unwrap();
    let command = format!("compcun < {} > {}", batch.display(), compressed.display());
    cnews.run("run", &cnews.site(), &["sh", "-c", &command]);
    let lower = lower();
    assert_eq!(file(&lower, &[compressed]), (310, 0));
    assert_eq!(file(&lower, &[batch]), (0, 310));
}
