//! Export of the articles of a group as text.
//!
//! Articles are passed on one by one, so that only one is in memory; those removed, cancelled or hidden in
//! the meantime are skipped. The command writes the files.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use disk::ReadMode;
use spool::{ArticleBuf, GroupId, ReadError, Spool};

use super::Sink;
use super::archive::ArchiveCopy;
use super::operation::{OperatedSite, Operation};
use super::reply::{ArticleText, Reply};
use serde::{Deserialize, Serialize};

/// Return the articles of a group, in order of number; answered by [`Reply::Article`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArticlesOperation {
    /// Name of the group.
    pub group: String,
}

impl Operation for ArticlesOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        articles(site.spool(), &self.group, sink)
    }
}

fn articles(spool: &Spool, group: &str, sink: &mut Sink<'_>) -> bool {
    let Some(id) = spool.group_id(group.as_bytes()) else {
        sink(Reply::Error(format!("there is no group {group}")));
        return false;
    };
    let (mut after, mut buf, mut ok) = (0, ArticleBuf::default(), true);
    while let Some(number) = spool.next_number(id, after) {
        after = number;
        match read(spool, id, number, &mut buf) {
            Ok(true) => sink(Reply::Article(text_of(spool, &buf))),
            Ok(false) => {}
            // A damaged article does not stop the others.
            Err(error) => {
                sink(Reply::Error(format!("{group}:{number} cannot be read: {error}")));
                ok = false;
            }
        }
    }
    ok
}

/// Reads an article; returns false if it was removed.
fn read(spool: &Spool, group: GroupId, number: u64, buf: &mut ArticleBuf) -> Result<bool, ReadError> {
    let token = spool.token_of(group, number, ReadMode::Wait)?;
    token.map_or(Ok(false), |token| spool.read(&token, None, ReadMode::Wait, buf))
}

fn text_of(spool: &Spool, buf: &ArticleBuf) -> ArticleText {
    let copy = ArchiveCopy::of(spool.key(buf.message_id()), Vec::new(), buf);
    ArticleText {
        arrived: copy.arrived,
        key: format!("{:032x}", copy.key.0),
        text: BASE64_STANDARD.encode(&copy.text),
    }
}
