//! INN 1.7.2 with a spool wherever it is put.

use super::{EXPIRATIONS, FIRST_FED, Result, path_text};
use crate::client::Client;
use crate::others::{Inn, Scripts};
use crate::rng::Rng;
use crate::usenetfs_bench::work::ARTICLE_BYTES;
use crate::volume::run;
use disk::clock::unix_now;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Its groups, and how many of 28 articles each has: the largest of the paper's had 120,000, the least of the
/// six 10,000.
pub const GROUPS: [(&str, u64); 6] =
    [("lab.a", 12), ("lab.b", 6), ("lab.c", 4), ("lab.d", 3), ("lab.e", 2), ("lab.f", 1)];
/// Articles that are sent before their answers are heard.
const AT_ONCE: u64 = 200;
/// Between the days on which two parts of the articles expire, which come sooner for `expire -w`.
const DAYS_APART: u64 = 10;

/// The server.
pub struct Server {
    script: PathBuf,
    dir: PathBuf,
    port: u16,
}

impl Server {
    /// Sets it up; `None`, with a word, if it cannot be had here.
    pub fn set_up(peers: Option<&Path>, dir: &Path, port: u16) -> Result<Option<Self>> {
        let scripts = Scripts::new(peers, dir)?;
        let Some(script) = scripts.inn(Inn::Old)? else { return Ok(None) };
        let programs = scripts.prefix("inn17");
        let groups = dir.join("groups");
        fs::write(&groups, GROUPS.map(|(name, _)| format!("{name}\n")).concat())?;
        let server = Self { script, dir: dir.join("inn17"), port };
        server.forget_spool()?;
        let port = port.to_string();
        let words = [path_text(&programs)?, "--active", path_text(&groups)?, "--port", &port];
        server.run("setup", &words)?;
        fs::write(server.dir.join("etc/expire.ctl"), "/remember/:14\n*:A:0:never:never\n")?;
        Ok(Some(server))
    }

    fn run(&self, command: &str, words: &[&str]) -> Result<()> {
        let words = [&[command, path_text(&self.dir)?], words].concat();
        run(path_text(&self.script)?, &words).map(drop)
    }

    pub fn start(&self) -> Result<()> {
        self.run("start", &[])
    }

    pub fn stop(&self) -> Result<()> {
        self.run("stop", &[])
    }

    /// Moves its spool to a directory.
    pub fn move_spool(&self, to: &Path) -> Result<()> {
        run("cp", &["-a", path_text(&self.dir.join("spool"))?, path_text(to)?])?;
        fs::remove_dir_all(self.dir.join("spool"))?;
        self.put_spool(to)
    }

    /// Says where its spool is.
    pub fn put_spool(&self, at: &Path) -> Result<()> {
        self.forget_spool()?;
        Ok(symlink(at, self.dir.join("spool"))?)
    }

    /// Says that its spool is nowhere.
    pub fn forget_spool(&self) -> Result<()> {
        let link = self.dir.join("spool");
        if link.is_symlink() {
            fs::remove_file(link)?;
        }
        Ok(())
    }

    /// Keeps history and active file as they are.
    pub fn keep(&self) -> Result<()> {
        let (db, kept) = (self.dir.join("db"), self.dir.join("db.kept"));
        run("cp", &["-a", path_text(&db)?, path_text(&kept)?]).map(drop)
    }

    /// Has history and active file as they were kept.
    pub fn restore(&self) -> Result<()> {
        let (db, kept) = (self.dir.join("db"), self.dir.join("db.kept"));
        fs::remove_dir_all(&db)?;
        run("cp", &["-a", path_text(&kept)?, path_text(&db)?]).map(drop)
    }

    fn client(&self) -> io::Result<Client> {
        Client::connect(&format!("127.0.0.1:{}", self.port))
    }

    /// Has it file articles with these numbers, of `all` of which parts expire one after the other.
    pub fn file(&self, numbers: Range<u64>, all: u64) -> Result<()> {
        let mut client = self.client()?;
        for first in numbers.clone().step_by(AT_ONCE as usize) {
            let some = first..numbers.end.min(first + AT_ONCE);
            for number in some.clone() {
                let id = format!("<{number}@day.example>");
                client.queue_article(id.as_bytes(), article(number, &id, all))?;
            }
            for number in some {
                let answer = client.answer()?;
                if !answer.starts_with("239") {
                    return Err(format!("article {number} was answered {answer}").into());
                }
            }
        }
        Ok(())
    }

    /// Reads this many articles, as one does who sends them on; how many there were.
    pub fn send(&self, articles: u64, rng: &mut Rng) -> Result<u64> {
        let mut client = self.client()?;
        client.expect("MODE READER", "20")?;
        let all: u64 = GROUPS.iter().map(|(_, share)| share).sum();
        let mut sent = 0;
        for (group, share) in GROUPS {
            let (_, low, high) = client.group(group)?;
            for _ in 0..articles * share / all {
                let number = rng.between(low.min(high), high);
                if client.command(&format!("ARTICLE {number}"))?.starts_with("220") {
                    client.block()?;
                    sent += 1;
                }
            }
        }
        Ok(sent)
    }

    /// Lets the articles of one expiration expire, and those before.
    pub fn expire(&self, which: usize, renumbers: bool) -> Result<()> {
        let warp = DAYS_APART * which as u64 + DAYS_APART + DAYS_APART / 2;
        let renumber = if renumbers { " && ctlinnd -s renumber ''" } else { "" };
        let line = format!("expire -v1 -w {warp} && expireover -s{renumber}");
        self.run("news", &["sh", "-c", &line])
    }

    /// How many articles are in a spool.
    pub fn articles(&self, spool: &Path) -> Result<u64> {
        let mut articles = 0;
        for (group, _) in GROUPS {
            for entry in fs::read_dir(spool.join(group.replace('.', "/")))? {
                articles += u64::from(entry?.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
            }
        }
        Ok(articles)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _stopped = self.stop();
        let _gone = self.forget_spool().map(|()| fs::remove_dir_all(&self.dir));
    }
}

/// An article of a group, with the day on which it expires, if it is none of the feed's.
fn article(number: u64, id: &str, all: u64) -> Vec<u8> {
    let mut share = number % GROUPS.iter().map(|(_, share)| share).sum::<u64>();
    let group = GROUPS.iter().find(|(_, of)| {
        let is_it = share < *of;
        share = share.saturating_sub(*of);
        is_it
    });
    let date = |days: u64| {
        let mut date = Vec::new();
        netnews::date::format_rfc5322(unix_now() + (days * 86_400) as i64, &mut date);
        String::from_utf8_lossy(&date).into_owned()
    };
    let expires = match EXPIRATIONS.iter().position(|(_, due)| (number as f64) < all as f64 * due) {
        Some(which) if number < FIRST_FED => {
            format!("Expires: {}\r\n", date(DAYS_APART * (which as u64 + 1)))
        }
        _ => String::new(),
    };
    let group = group.map_or("lab.a", |(name, _)| name);
    let mut text = format!(
        "Path: feeder.example!not-for-mail\r\nFrom: Lab <lab@lab.example>\r\nNewsgroups: {group}\r\n\
         Subject: article {number}\r\nDate: {}\r\n{expires}Message-ID: {id}\r\n\r\n",
        date(0)
    )
    .into_bytes();
    while text.len() < ARTICLE_BYTES {
        text.extend_from_slice(b"a line of the body, which is as long as lines mostly are in articles\r\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_articles_expire_and_the_feeds_do_not() {
        let all = 28_000;
        let expires = |number: u64| {
            let text = String::from_utf8(article(number, "<x@y>", all)).unwrap();
            text.lines().find_map(|line| line.strip_prefix("Expires: ").map(str::to_owned))
        };
        let days: Vec<_> = [0, 5_600, 16_800, 22_400].map(|n| expires(n).unwrap()).into();
        assert!(days.windows(2).all(|two| two[0] != two[1]), "{days:?}");
        assert!(expires(FIRST_FED).is_none() && expires(FIRST_FED + 27_999).is_none());
        let groups: Vec<_> = (0..28)
            .map(|n| String::from_utf8(article(n, "<x@y>", all)).unwrap())
            .map(|text| text.lines().nth(2).unwrap().to_owned())
            .collect();
        assert_eq!(groups.iter().filter(|line| line.ends_with(" lab.a")).count(), 12);
        assert_eq!(groups.iter().filter(|line| line.ends_with(" lab.f")).count(), 1);
    }
}
