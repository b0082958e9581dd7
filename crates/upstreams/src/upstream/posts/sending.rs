//! POST to an upstream, and the evaluation of its answer.
//!
//! A post refused for a temporary reason is sent again later. A post that may have arrived before counts as
//! taken if the upstream has it, or reports a duplicate. Sources: RFC 3977 section 6.3.1; 435, 436 and 437
//! at the beginning of a 441 are INN's convention.

use super::super::line::UpstreamConnection;
use super::super::pool::UpstreamQuestion;
use super::super::trouble::{UpstreamError, shown};
use netnews::nntp::response::code;

/// Answer of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PostAnswer {
    Taken,
    /// The server has an article with this Message-ID.
    Known(String),
    /// Temporarily refused.
    Later(String),
    /// Permanently refused.
    Refused(String),
}

/// The POST command with its article.
pub(super) struct AskPost(pub Vec<u8>);

impl UpstreamQuestion for AskPost {
    type Answer = PostAnswer;

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<PostAnswer, UpstreamError> {
        let status = line.request("POST").await?;
        if status.code != code::SEND_POST {
            return Ok(judged(status.code, &status.text));
        }
        line.send_article(&self.0)?;
        let status = line.answer().await?;
        Ok(judged(status.code, &status.text))
    }
}

/// Evaluates an answer other than 340.
fn judged(status: u16, text: &[u8]) -> PostAnswer {
    let said = format!("{status} {}", shown(text));
    let lower = said.to_ascii_lowercase();
    let first = lower.split(' ').nth(1).unwrap_or_default();
    match status {
        code::POSTED => PostAnswer::Taken,
        441 if first == "435" || lower.contains("duplicate") => PostAnswer::Known(said),
        441 if first == "436" || lower.contains("try again later") => PostAnswer::Later(said),
        440 | 441 | 500..600 => PostAnswer::Refused(said),
        // Faults of the connection or the login are not the post's fault.
        _ => PostAnswer::Later(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_distinguished() {
        let refused = |text: &str| PostAnswer::Refused(text.into());
        let (known, later) =
            (|text: &str| PostAnswer::Known(text.into()), |text: &str| PostAnswer::Later(text.into()));
        for (status, text, expected) in [
            (240, "ok", PostAnswer::Taken),
            (441, "No such group", refused("441 No such group")),
            (441, "435 <a@b>", known("441 435 <a@b>")),
            (441, "Posting failed: Duplicate", known("441 Posting failed: Duplicate")),
            (441, "436 not now", later("441 436 not now")),
            (441, "437 too old", refused("441 437 too old")),
            (441, "Cannot store, try again later", later("441 Cannot store, try again later")),
            (440, "read only", refused("440 read only")),
            (480, "who are you?", later("480 who are you?")),
            (502, "no", refused("502 no")),
            (400, "bye", later("400 bye")),
        ] {
            assert_eq!(judged(status, text.as_bytes()), expected, "{status} {text}");
        }
    }
}
