//! Mail by SMTP to a server: one connection, one mail, one recipient.
//!
//! Without encryption and login, which mail servers on the same machine or network do not ask for; for any
//! other there are programs (see the decision on it). Called by `mailer`. Source: RFC 5321, RFC 6152
//! (8BITMIME).

use super::queue::QueuedMail;
use super::unsent::MailError;
use netnews::nntp::wire::dot_stuff;
use netnews::printable::replaced;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for an answer (RFC 5321 section 4.5.3.2 asks for 2 to 10 minutes).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum length of an answer line, in bytes.
const LINE_BYTES_MAX: u64 = 4_096;
/// Maximum number of lines of an answer.
const LINES_MAX: usize = 100;

/// An answer with code and text.
struct SmtpReply {
    code: u16,
    text: String,
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
enum SmtpFault {
    /// The connection has failed.
    #[error("{0}")]
    Io(io::Error),
    /// No connection came about in time.
    #[error("no connection")]
    NoConnection,
    /// The server has not read a command in time.
    #[error("takes nothing more")]
    TakesNothing,
    /// The server has not answered in time.
    #[error("no answer")]
    NoAnswer,
    /// The server has closed the connection, or sent a line that is too long.
    #[error("the connection ended")]
    Ended,
    /// A line does not begin with a code; holds the line.
    #[error("`{0}` is no answer")]
    NotAnAnswer(String),
    /// The answer has too many lines.
    #[error("an answer without end")]
    Endless,
}

/// An SMTP connection.
struct SmtpConnection {
    stream: BufReader<TcpStream>,
}

/// Sends `mail` through `server`, with `identity` as our name.
pub(super) async fn send(server: &str, identity: &str, mail: &QueuedMail) -> Result<(), MailError> {
    let said = |text: String| MailError::Down(format!("{server}: {text}"));
    let down = |fault: SmtpFault| said(fault.to_string());
    let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(server)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(down(SmtpFault::Io(error))),
        Err(_) => return Err(down(SmtpFault::NoConnection)),
    };
    let mut talk = SmtpConnection { stream: BufReader::new(stream) };
    let greeting = talk.answer().await.map_err(down)?;
    if greeting.code != 220 {
        return Err(said(greeting.text));
    }
    let mut hello = talk.ask(&format!("EHLO {identity}")).await.map_err(down)?;
    if hello.code >= 500 {
        hello = talk.ask(&format!("HELO {identity}")).await.map_err(down)?;
    }
    if hello.code != 250 {
        return Err(said(hello.text));
    }
    let eight_bit = !mail.text.is_ascii() && hello.text.to_ascii_uppercase().contains("8BITMIME");
    let body = if eight_bit { " BODY=8BITMIME" } else { "" };
    let sender = talk.ask(&format!("MAIL FROM:<{}>{body}", mail.from)).await.map_err(down)?;
    if sender.code != 250 {
        // It may be our sender that is refused, which an operator can put right: the mail is not given up at
        // once. That sender, or the size, is this mail's, so others are tried.
        return Err(MailError::Later(format!("{server}: {}", sender.text)));
    }
    let recipient = talk.ask(&format!("RCPT TO:<{}>", mail.to)).await;
    settled(server, recipient, &[250, 251, 252])?;
    settled(server, talk.ask("DATA").await, &[354])?;
    let mut text = Vec::with_capacity(mail.text.len() + 64);
    dot_stuff(&mail.text, &mut text);
    text.push(b'.');
    settled(server, talk.ask_bytes(&text).await, &[250])?;
    // The mail is accepted; failures after that do not matter.
    let _parted = talk.ask("QUIT").await;
    Ok(())
}

/// Checks an answer; the error says whether the mail is tried again.
fn settled(server: &str, answer: Result<SmtpReply, SmtpFault>, good: &[u16]) -> Result<(), MailError> {
    match answer {
        Ok(answer) if good.contains(&answer.code) => Ok(()),
        Ok(answer) if answer.code >= 500 => Err(MailError::Never(format!("{server}: {}", answer.text))),
        Ok(answer) => Err(MailError::Later(format!("{server}: {}", answer.text))),
        Err(fault) => Err(MailError::Later(format!("{server}: {fault}"))),
    }
}

impl SmtpConnection {
    async fn ask(&mut self, command: &str) -> Result<SmtpReply, SmtpFault> {
        self.ask_bytes(command.as_bytes()).await
    }

    async fn ask_bytes(&mut self, bytes: &[u8]) -> Result<SmtpReply, SmtpFault> {
        let sending = async {
            self.stream.write_all(bytes).await?;
            self.stream.write_all(b"\r\n").await?;
            self.stream.flush().await
        };
        match timeout(ANSWER_TIMEOUT, sending).await {
            Ok(Ok(())) => self.answer().await,
            Ok(Err(error)) => Err(SmtpFault::Io(error)),
            Err(_) => Err(SmtpFault::TakesNothing),
        }
    }

    /// Reads the next answer; its lines are joined with spaces.
    async fn answer(&mut self) -> Result<SmtpReply, SmtpFault> {
        let mut text = String::new();
        for _ in 0..LINES_MAX {
            let mut line = Vec::new();
            let mut limited = (&mut self.stream).take(LINE_BYTES_MAX);
            let reading = limited.read_until(b'\n', &mut line);
            match timeout(ANSWER_TIMEOUT, reading).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(SmtpFault::Io(error)),
                Err(_) => return Err(SmtpFault::NoAnswer),
            }
            if !line.ends_with(b"\n") {
                return Err(SmtpFault::Ended);
            }
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let code = line
                .get(..3)
                .and_then(|code| code.parse().ok())
                .ok_or_else(|| SmtpFault::NotAnAnswer(replaced(&line, ' ').into_owned()))?;
            let last = line.as_bytes().get(3) != Some(&b'-');
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(&replaced(&line, ' '));
            if last {
                return Ok(SmtpReply { code, text });
            }
        }
        Err(SmtpFault::Endless)
    }
}
