//! Articles that a peer has answered outside the protocol: kept by Message-ID, with the answer, for status,
//! log and `newsreel why`.
//!
//! Bounded, and in memory. Articles to be offered again are in the [queue](super::queue), and on disk there
//! with their answers, from which the log begins after a restart; those given up are not.

use serde::{Deserialize, Serialize};
use spool::DeferredArticle;
use std::collections::VecDeque;

/// Most articles remembered; the oldest is dropped.
const ARTICLES_MAX: usize = 100;

/// An article whose offer or transfer got an odd answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetAsideArticle {
    /// Message-ID.
    pub message_id: String,
    /// Last odd answer.
    pub answer: String,
    /// Odd answers so far.
    pub answers: u64,
    /// Whether it was given up; if not, it is offered again.
    pub given_up: bool,
}

/// Last such articles of one peer.
#[derive(Debug, Default)]
pub(crate) struct SetAsideLog {
    articles: VecDeque<SetAsideArticle>,
}

impl SetAsideLog {
    /// Creates a log with the articles that were set aside before a restart.
    pub fn with<'a>(deferred: impl Iterator<Item = &'a DeferredArticle>) -> Self {
        let mut log = Self::default();
        for article in deferred {
            let Some(odd) = &article.odd else { continue };
            log.note(SetAsideArticle {
                message_id: String::from_utf8_lossy(&article.message_id).into_owned(),
                answer: odd.answer.to_string(),
                answers: u64::from(odd.count.saturating_add(odd.about_us)),
                given_up: false,
            });
        }
        log
    }

    pub fn note(&mut self, article: SetAsideArticle) {
        self.forget(article.message_id.as_bytes());
        if self.articles.len() >= ARTICLES_MAX {
            self.articles.pop_front();
        }
        self.articles.push_back(article);
    }

    /// Removes an article after a proper answer of the peer.
    pub fn forget(&mut self, message_id: &[u8]) {
        self.articles.retain(|article| article.message_id.as_bytes() != message_id);
    }

    pub fn all(&self) -> Vec<SetAsideArticle> {
        self.articles.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answers_are_kept_within_a_bound() {
        let mut log = SetAsideLog::default();
        let article = |n: usize, answers| SetAsideArticle {
            message_id: format!("<{n}@x>"),
            answer: "501 no".into(),
            answers,
            given_up: false,
        };
        (0..ARTICLES_MAX + 1).for_each(|n| log.note(article(n, 1)));
        log.note(article(1, 2));
        let all = log.all();
        assert_eq!((all.len(), &all[0], all.last()), (ARTICLES_MAX, &article(2, 1), Some(&article(1, 2))));
        log.forget(b"<1@x>");
        assert_eq!(log.all().len(), ARTICLES_MAX - 1);
    }
}
