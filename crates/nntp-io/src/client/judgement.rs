//! Judgement of the answer to an offer or a transfer: one table for every sender of articles.
//!
//! The answers that RFC 3977 section 6.3.2 and RFC 4644 sections 2.4 and 2.5 define for a command concern the
//! article, and so does any other answer, except for those that close the connection: an article that a
//! server cannot answer for must not hold up later ones. Such an article is set aside and offered again,
//! [`ODD_ANSWERS_MAX`] times in all; answers about the client's rights are not counted. [`ODD_IN_A_ROW_MAX`]
//! such answers in a row concern the server. The same table for people is in `docs/feeding.md`.

use super::NntpAnswer;
use crate::error::{Error, ProtocolFault};
use netnews::nntp::response::code;

/// Number of odd answers to one article after which it is given up.
pub const ODD_ANSWERS_MAX: u8 = 3;
/// Number of odd answers on one connection without a proper one between them, after which the server is not
/// asked for a while: the articles are not the reason.
pub const ODD_IN_A_ROW_MAX: usize = 8;

/// The request whose answer is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArticleRequest {
    /// CHECK.
    Check,
    /// TAKETHIS, with its article.
    Takethis,
    /// IHAVE.
    Ihave,
    /// The article that an answer to IHAVE has asked for.
    Transfer,
}

/// Consequence of an answer to an offer or a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerJudgement {
    /// The article is to be sent.
    Wanted,
    /// The article was taken.
    Accepted,
    /// The article is not wanted.
    Refused,
    /// The article was sent and not taken.
    Rejected,
    /// The article is to be offered again later.
    Later,
    /// The command has no such answer: the article is set aside, and the connection continues.
    Odd,
    /// Like [`AnswerJudgement::Odd`], but it is no longer known which answer belongs to which command: the
    /// connection is to be closed.
    OutOfStep,
    /// Like [`AnswerJudgement::Odd`], but the answer is about the client's rights or the connection: it does
    /// not count against the article.
    Unentitled,
    /// The server closes the connection, or refuses service; the answer does not concern the article.
    Closing,
}

use ArticleRequest::{Check, Ihave, Takethis, Transfer};

const ALL: &[ArticleRequest] = &[Check, Takethis, Ihave, Transfer];

/// Answers that are not merely odd.
pub const JUDGEMENTS: &[(&[ArticleRequest], u16, AnswerJudgement)] = &[
    (&[Check], code::CHECK_SEND, AnswerJudgement::Wanted),
    (&[Check], code::CHECK_NOT_WANTED, AnswerJudgement::Refused),
    (&[Takethis], code::TAKETHIS_ACCEPTED, AnswerJudgement::Accepted),
    (&[Takethis], code::TAKETHIS_REJECTED, AnswerJudgement::Rejected),
    (&[Check, Takethis], code::CHECK_LATER, AnswerJudgement::Later),
    // Not in an RFC, but unambiguous with the Message-ID.
    (&[Check, Takethis], code::TRANSFER_LATER, AnswerJudgement::Later),
    (&[Ihave], code::SEND_IT, AnswerJudgement::Wanted),
    (&[Ihave], code::NOT_WANTED, AnswerJudgement::Refused),
    (&[Transfer], code::TRANSFERRED, AnswerJudgement::Accepted),
    (&[Transfer], code::TRANSFER_REJECTED, AnswerJudgement::Rejected),
    (&[Ihave, Transfer], code::TRANSFER_LATER, AnswerJudgement::Later),
    // The article has been sent already, and another one is asked for.
    (&[Transfer], code::SEND_IT, AnswerJudgement::OutOfStep),
    (ALL, code::CLOSING, AnswerJudgement::Closing),
    (ALL, code::UNAVAILABLE, AnswerJudgement::Closing),
    (ALL, code::NOT_PERMITTED, AnswerJudgement::Closing),
    // After a login, 480 is reported as `Error::LoggedOut` instead.
    (ALL, code::AUTHENTICATION_REQUIRED, AnswerJudgement::Unentitled),
    (ALL, code::PRIVACY_REQUIRED, AnswerJudgement::Unentitled),
];

impl NntpAnswer<'_> {
    /// Returns the meaning of the answer to `request` about the article `id`.
    pub fn judged(&self, request: ArticleRequest, id: &[u8]) -> AnswerJudgement {
        let listed =
            JUDGEMENTS.iter().find(|(requests, code, _)| *code == self.code && requests.contains(&request));
        let judgement = listed.map_or(AnswerJudgement::Odd, |(_, _, judgement)| *judgement);
        if matches!(judgement, AnswerJudgement::Closing | AnswerJudgement::Unentitled) {
            return judgement;
        }
        // Answers with these codes have more lines, which are not answers.
        if self.has_block || self.code < 200 {
            return AnswerJudgement::OutOfStep;
        }
        if matches!(request, Ihave | Transfer) || self.first_word() == id {
            return judgement;
        }
        // Answers of streaming name the article (RFC 4644 sections 2.4.1 and 2.5.1).
        if self.first_word().starts_with(b"<") { AnswerJudgement::OutOfStep } else { AnswerJudgement::Odd }
    }
}

impl Error {
    /// Returns whether the error in place of an answer concerns the article: then the article is set aside,
    /// as by [`AnswerJudgement::OutOfStep`].
    pub fn is_odd_answer(&self) -> bool {
        matches!(self, Self::Protocol(ProtocolFault::NoCode(_) | ProtocolFault::LineTooLong(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(request: ArticleRequest, line: &str) -> AnswerJudgement {
        let code = line.get(..3).and_then(|code| code.parse().ok()).unwrap();
        let has_block = crate::reply::has_block(code, false);
        NntpAnswer { code, has_block, line: line.as_bytes() }.judged(request, b"<a@x>")
    }

    #[test]
    fn every_row_holds_with_the_message_id() {
        for (requests, code, judgement) in JUDGEMENTS {
            for request in *requests {
                assert_eq!(judged(*request, &format!("{code} <a@x>")), *judgement, "{request:?} {code}");
            }
        }
    }

    #[test]
    fn unlisted_codes_are_odd() {
        for request in ALL {
            for code in 200..600 {
                let is_listed = JUDGEMENTS
                    .iter()
                    .any(|(requests, listed, _)| *listed == code && requests.contains(request));
                let expected = match judged(*request, &format!("{code} <a@x>")) {
                    _ if is_listed => continue,
                    AnswerJudgement::OutOfStep if crate::reply::has_block(code, false) => continue,
                    judgement => judgement,
                };
                assert_eq!(expected, AnswerJudgement::Odd, "{request:?} {code}");
            }
        }
        assert_eq!(judged(Check, "100 help"), AnswerJudgement::OutOfStep);
        assert_eq!(judged(Ihave, "220 1 <a@x>"), AnswerJudgement::OutOfStep);
    }

    #[test]
    fn streaming_answers_name_their_article() {
        for (request, line, expected) in [
            (Check, "438", AnswerJudgement::Odd),
            (Check, "438 had it", AnswerJudgement::Odd),
            (Check, "238 <b@x>", AnswerJudgement::OutOfStep),
            (Takethis, "437 unwanted", AnswerJudgement::Odd),
            (Takethis, "239 <b@x>", AnswerJudgement::OutOfStep),
            (Takethis, "239 <a@x> thank you", AnswerJudgement::Accepted),
            (Check, "501 too long", AnswerJudgement::Odd),
            (Check, "400 <b@x>", AnswerJudgement::Closing),
            (Ihave, "435 had it", AnswerJudgement::Refused),
            (Transfer, "435 had it", AnswerJudgement::Odd),
            (Ihave, "438 had it", AnswerJudgement::Odd),
        ] {
            assert_eq!(judged(request, line), expected, "{request:?} {line}");
        }
    }
}
